"""Pieces of drafts that are of one run, beside the sections of its report."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from tracetui.analysis.tables.nsight.counters import NCU_RULES
from tracetui.analysis.tables.runs import GPUS
from tracetui.app.reports.content.drafts import rules_said
from tracetui.app.reports.content.drafts.draft import section_of
from tracetui.app.reports.content.run import facts_of
from tracetui.app.reports.parts import Block, FindingList, Sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tracetui.analysis.report.model import Trace
    from tracetui.app.reports.content.drafts.draft import Draft
    from tracetui.app.reports.layout import Layout
    from tracetui.app.reports.parts import Part


def _recorded(draft: Draft, layout: Layout) -> Iterator[Part]:
    """The recordings, and the command that made them."""
    yield from (facts_of(draft.run, trace) for trace in _one_of_each_tool(draft))
    if draft.command:
        yield Sentences((f"Recorded by: {shlex.join(draft.command)}",))
    else:
        yield Sentences(("What recorded it is not in it; runs of `tracetui profile` have their command in run.json.",))


def _verdict(draft: Draft, layout: Layout) -> Iterator[Part]:
    overview = next((trace.overview for trace in draft.traces if trace.overview), None)
    if overview and overview.waits_for is not None:
        yield Sentences((overview.waits_for.sentence,), lead=True)


def _average_step(draft: Draft, layout: Layout) -> Iterator[Part]:
    """The table without its chart, which is a piece of its own."""
    yield from (replace(block, chart=None) for block in _overview(draft, layout)[:1])


def _steps(draft: Draft, layout: Layout) -> Iterator[Part]:
    for block in _overview(draft, layout)[:1]:
        yield Block("", chart=block.chart)


def _lanes(draft: Draft, layout: Layout) -> Iterator[Part]:
    yield from (block for block in _overview(draft, layout)[1:] if not block.cells)


def _gpu(draft: Draft, layout: Layout) -> Iterator[Part]:
    yield from (block for block in _overview(draft, layout) if block.heading == GPUS.title)


def _overview(draft: Draft, layout: Layout) -> list[Block]:
    return [part for part in section_of(draft, "overview", layout) if isinstance(part, Block)]


def _one_of_each_tool(draft: Draft) -> list[Trace]:
    """The main recording, and the first of each other tool."""
    found: dict[str, Trace] = {}
    for trace in draft.traces:
        found.setdefault(trace.source.kind, trace)
    return list(found.values())


def _counters(draft: Draft, layout: Layout) -> Iterator[Part]:
    yield from (part for part in section_of(draft, "counters", layout) if not _is_advice(part))


def _advice_of_ncu(draft: Draft, layout: Layout) -> Iterator[Part]:
    yield from (part for part in section_of(draft, "counters", layout) if _is_advice(part))


def _is_advice(part: Part) -> bool:
    return isinstance(part, Block) and part.heading == NCU_RULES.title


def _joins(draft: Draft, layout: Layout) -> Iterator[Part]:
    from tracetui.app.reports.content.joins import sentences

    for join in draft.run.joins:
        yield Sentences((" ".join(sentences(join)),))


def _jax(draft: Draft, layout: Layout) -> Iterator[Part]:
    if any("jax" in trace.source.tool.lower() for trace in draft.traces):
        yield from _average_step(draft, layout)
        yield from section_of(draft, "ranges", layout)


def _findings(draft: Draft, layout: Layout) -> Iterator[Part]:
    yield from (FindingList(trace.judged, trace.base) for trace in draft.traces[:1])


def _directions(draft: Draft, layout: Layout) -> Iterator[Part]:
    yield from (rules_said.directions(trace.judged, trace.base, layout.limit) for trace in draft.traces[:1])


PIECES: dict[str, Callable[[Draft, Layout], Iterable[Part]]] = {
    "recorded": _recorded,
    "verdict": _verdict,
    "average_step": _average_step,
    "steps": _steps,
    "lanes": _lanes,
    "gpu": _gpu,
    "counters": _counters,
    "advice_of_ncu": _advice_of_ncu,
    "joins": _joins,
    "jax": _jax,
    "findings": _findings,
    "directions": _directions,
}
"""Pieces of the run, beside its sections."""
