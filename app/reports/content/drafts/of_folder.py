"""Pieces of drafts that are of a folder: several recordings side by side, and the folder as a sweep."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tracetui.app.reports.parts import Block, Sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tracetui.analysis.report.sweep import SweepReport
    from tracetui.app.reports.content.drafts.draft import Draft
    from tracetui.app.reports.layout import Layout
    from tracetui.app.reports.parts import Part


def side_by_side(draft: Draft, layout: Layout) -> Iterator[Part]:
    """Reports of Nsight Compute in one table each way; nothing of a single one."""
    if draft.run.counters_compared:
        from tracetui.app.reports.content.counters import compared_blocks

        yield from compared_blocks(draft.run, layout)


def captures(draft: Draft, headings: set[str], layout: Layout) -> Iterator[Part]:
    """The tables of captures that have these headings."""
    if len(draft.run.captures) > 1:
        from tracetui.app.reports.content.captures import capture_parts

        for part in capture_parts(draft.run.captures, layout):
            if isinstance(part, Block) and part.heading in headings:
                yield part


def _sweep_verdict(found: SweepReport, layout: Layout) -> Iterator[Part]:
    from tracetui.app.reports.content.sweep import verdict

    yield Sentences((verdict(found),), lead=True)


def _comparisons(found: SweepReport, layout: Layout) -> Iterator[Part]:
    from tracetui.app.reports.content.sweep import comparison_blocks

    yield from comparison_blocks(found, layout)


def _points(found: SweepReport, layout: Layout) -> Iterator[Part]:
    from tracetui.app.reports.content.sweep import chart_block, points_block

    yield chart_block(found.sweep, layout)
    block = points_block(found, layout)
    yield replace(block, cells=block.cells[: layout.limit], whole=len(block.cells))


def _accounts(found: SweepReport, layout: Layout) -> Iterator[Part]:
    from tracetui.app.reports.content.sweep import accounts

    yield Sentences(tuple(accounts(found)), bullets=True)


SWEPT: dict[str, Callable[[SweepReport, Layout], Iterable[Part]]] = {
    "sweep_verdict": _sweep_verdict,
    "comparisons": _comparisons,
    "points": _points,
    "accounts": _accounts,
}
"""Pieces of the folder as a sweep."""
