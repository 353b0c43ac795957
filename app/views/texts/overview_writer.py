"""What the Overview page says, and the lines that it is written in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.style import Style
from rich.text import Text

from tracetui.analysis.base import number_format
from tracetui.app.text import fitting

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from tracetui.analysis.dependencies.critical_path import CriticalPath
    from tracetui.analysis.dependencies.limit import Limit
    from tracetui.analysis.findings.core.finding import Finding
    from tracetui.analysis.overview import Overview
    from tracetui.analysis.timeline.step_lanes import BusyLane
    from tracetui.parsers import Note


@dataclass(frozen=True)
class StepPicture:
    """One step as lanes."""

    step: int | None
    """Its index; None where the whole file stands for one."""
    lasting: int
    """ns."""
    lanes: list[BusyLane]


@dataclass(frozen=True)
class OverviewData:
    """All that the page says."""

    overview: Overview
    notes: tuple[Note, ...] = ()
    device_names: tuple[tuple[int, str], ...] = ()
    memory_bytes: int | None = None
    """The most that the allocator held in tensors; None where it was not recorded."""
    kernels: pl.DataFrame | None = None
    """`analysis.kernels`, the first rows."""
    kernel_count: int = 0
    kernel_ns: int = 0
    """Kernel time in scope: the base of their shares."""
    host: pl.DataFrame | None = None
    """`analysis.host.host_functions`, the first rows; None if the host is not the bottleneck."""
    findings: tuple[Finding, ...] | None = None
    """What the rules found, worst first; None while they look."""
    unjudged: bool = False
    """Whether the rules failed."""
    ranks: pl.DataFrame | None = None
    """`analysis.ranks.of_run.ranks_of`; None for one rank."""
    verdict: Limit | None = None
    """What the run waits for as its job knows it; None while that is not known, or of one rank."""
    job: str = ""
    """What all ranks say together (`analysis.ranks.together.said.brief`); empty for one rank."""
    unread: int = 0
    """How many ranks of the run were not read."""
    path: CriticalPath | None = None
    """What the average step waited for; None where launches were not recorded."""
    lanes: StepPicture | None = None
    """A typical step; None while it is not known."""
    whole: bool = False
    """Whether the tables have been computed."""


class Writer:
    """Lines of styled text."""

    def __init__(self, width: int, height: int, styles: Mapping[str, Style], *, ascii: bool) -> None:
        self.width = width
        self.roomy = height > 24
        """Whether there are lines for what matters less."""
        self.ascii = ascii
        self._styles = styles
        self.lines: list[Text] = []

    def style(self, key: str) -> Style:
        """Returns a style by its name; none if the theme has no such style."""
        return self._styles.get(key, Style())

    def own(self, text: str) -> str:
        """Returns one of our own texts, in ASCII if that was requested."""
        return fitting.to_ascii(text) if self.ascii else text

    def head(self, title: str, remark: str = "") -> Text:
        """Returns the line above a section."""
        text = Text().append(f" {self.own(title)}", self.style("head"))
        if remark:
            text.append(f"  {self.own(remark)}", self.style("muted"))
        return text

    def name(self, name: str, width: int) -> str:
        """Returns a name of the recording in so many columns."""
        safe = fitting.printable(name, ascii=self.ascii)
        return fitting.pad(fitting.fit(safe, width, ascii=self.ascii), width)

    def bar(self, percent: float, width: int) -> Text:
        """Returns a share as a bar of at most so many columns."""
        return Text(fitting.bar(percent / 100, width, ascii=self.ascii), self.style("bar"))

    def time(self, ns: float | None) -> str:
        """Returns a time with its unit."""
        return number_format.format_ns(ns, ascii=self.ascii)
