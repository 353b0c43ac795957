"""The section `collectives`: by kind, group and size; sends and receives by pair; the link to compare them with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.collectives import by_pair, by_size
from tracetui.analysis.report.model import Link
from tracetui.analysis.report.rows import table_rows
from tracetui.analysis.roofline.peaks import link_of
from tracetui.analysis.tables.collectives import COLLECTIVES, PAIRS

if TYPE_CHECKING:
    from tracetui.analysis.report.model import Row
    from tracetui.analysis.selection import Selection
    from tracetui.parsers import Run


def collective_rows(sel: Selection, run: Run | None, limit: int | None) -> tuple[list[Row], int]:
    """The rows of the table, and how many there are in all."""
    matched = None
    if run is not None and len(run.ranks) > 1:
        from tracetui.analysis.ranks.of_run import jobs_of
        from tracetui.analysis.ranks.one_rank import own_calls

        matched = own_calls(jobs_of(run, make=False), sel.trace)
    found = by_size(sel.recorded, link_of(run, sel.trace), matched)
    return table_rows(found, COLLECTIVES, limit), found.height


def pair_rows(sel: Selection, limit: int | None) -> list[Row]:
    """Sends and receives by pair of ranks."""
    return table_rows(by_pair(sel.recorded), PAIRS, limit)


def link(sel: Selection, run: Run | None) -> Link | None:
    """The link of the GPUs; None where the GPU or its link is not known."""
    found = link_of(run, sel.trace)
    if found is None:
        return None
    return Link(name=found.name, gbps=found.bytes_per_s / 1e9, ranks=found.ranks, source=found.source)
