"""A run as a notebook shows it: its report, and its tables as frames."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.cli import headless
from tracetui.app.cli.options import Request
from tracetui.parsers.errors import instead

if TYPE_CHECKING:
    import polars as pl

    from tracetui.analysis.findings.config import Config
    from tracetui.parsers import Run

HEIGHT = 640
"""Of the view in the notebook, in pixels; it scrolls."""


@dataclass(frozen=True)
class View:
    """One opened run; as the last value of a cell it is the report's HTML."""

    path: Path
    run: Run = field(repr=False)
    config: Config = field(repr=False)

    def page(self, *sections: str, limit: int | None = None) -> Page:
        """Those sections of the report, such as overview, findings or kernels; all by default."""
        request = Request(format="html", section=sections or None, limit=limit)
        from tracetui.app.cli.commands.report import computed

        return Page(computed((self.path,), request)[1])

    def tables(self, *names: str) -> dict[str, pl.DataFrame]:
        """The tables of these sections, and recorded frames: what a query may name (docs/reference/query.md)."""
        from tracetui.analysis.query.frames import frames
        from tracetui.analysis.query.sources import frames_of

        if unknown := [name for name in names if name not in frames()]:
            raise KeyError(f"no table named {unknown[0]!r}; {instead(unknown[0], frames())}")
        return frames_of(self.run, self.run.main, self.config)(names)

    def _repr_html_(self) -> str:
        return self.page("overview", "findings")._repr_html_()


@dataclass(frozen=True)
class Page:
    """A part of a report; what recordings name can't reach the notebook around it."""

    html: str = field(repr=False)

    def _repr_html_(self) -> str:
        frame = f'<iframe sandbox="allow-scripts" style="width: 100%; height: {HEIGHT}px; border: 0" srcdoc="'
        return f'{frame}{escape(self.html)}"></iframe>'


def view(path: str | Path) -> View:
    """Opens a recording or a folder of them."""
    place = Path(path)
    run, config = headless.opened((place,), Request())
    return View(place, run, config)
