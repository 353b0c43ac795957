"""What a draft is written from, and what of it says something."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.reports.content import sections
from tracetui.app.reports.parts import Block, FindingList, Sentences

if TYPE_CHECKING:
    from tracetui.analysis.report.model import Run, Trace
    from tracetui.analysis.report.sweep import SweepReport
    from tracetui.app.reports.layout import Layout
    from tracetui.app.reports.parts import Part


@dataclass(frozen=True, slots=True)
class Draft:
    """What a draft is written from."""

    run: Run
    """The run's part of the report."""
    sweep: SweepReport | None = None
    """The report of the folder as a sweep, where it is one."""
    command: tuple[str, ...] = ()
    """The command that recorded the run, if run.json has it."""
    path: str = ""
    """What was given, where that is not the run's own path: a folder of runs."""

    @property
    def traces(self) -> list[Trace]:
        """The recordings, the main one first."""
        traces, main = self.run.traces, self.run.main or 0
        return [*traces[main : main + 1], *traces[:main], *traces[main + 1 :]]


def says_something(part: Part) -> bool:
    """Whether a part prints anything."""
    if isinstance(part, Sentences):
        return bool(part.texts)
    if isinstance(part, Block):
        return bool(part.cells or part.before or part.after or (part.chart is not None and part.chart.rows))
    return not isinstance(part, FindingList) or part.judged is not None


def section_of(draft: Draft, name: str, layout: Layout) -> list[Part]:
    """A section of the first recording that has something of it."""
    for trace in draft.traces:
        if sections.has(trace, name):
            found = [part for part in sections.SECTIONS[name](trace, layout) if says_something(part)]
            if found:
                beside = trace is not draft.traces[0]
                where = f"From {Path(trace.source.path).name}, beside the main recording:"
                return [Sentences((where,)), *found] if beside else found
    return []
