"""The section `collectives`: by kind, group and size; sends and receives by pair; the link to compare them with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.collectives.table import by_pair, by_size
from tracetui.analysis.report.rows import table_rows
from tracetui.analysis.roofline.peaks import link_of
from tracetui.analysis.tables.collectives import COLLECTIVES, PAIRS

if TYPE_CHECKING:
    from tracetui.analysis.base.json_values import Json
    from tracetui.analysis.selection import Selection
    from tracetui.parsers import Run


def collective_rows(sel: Selection, run: Run | None, limit: int | None) -> tuple[list[Json], int]:
    """The rows of the table, and how many there are in all."""
    matched = None
    if run is not None and len(run.ranks) > 1:
        from tracetui.analysis.ranks.files.at_hand import jobs_of
        from tracetui.analysis.ranks.together.own_calls import own_calls

        matched = own_calls(jobs_of(run, make=False), sel.trace)
    found = by_size(sel.recorded, link_of(run, sel.trace), matched)
    return table_rows(found, COLLECTIVES, limit), found.height


def beside_collectives(sel: Selection, run: Run | None, limit: int | None) -> Json:
    """What accompanies the rows: pairs of ranks, and the link; null where the GPU or its link is not known."""
    link = link_of(run, sel.trace)
    said = None
    if link is not None:
        said = {"name": link.name, "gbps": link.bytes_per_s / 1e9, "ranks": link.ranks, "source": link.source}
    return {"collective_pairs": table_rows(by_pair(sel.recorded), PAIRS, limit), "collectives_link": said}
