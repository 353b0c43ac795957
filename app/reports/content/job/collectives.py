"""Collectives in a report: by kind, group and size, what the bandwidth rests on, and pairs of ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import format_number
from tracetui.analysis.tables.collectives import COLLECTIVES, PAIRS
from tracetui.app.reports.parts import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tracetui.analysis.report.model import Link, Row, Trace
    from tracetui.analysis.tables.table import Field
    from tracetui.app.reports.layout import Layout
    from tracetui.app.reports.parts import Part

ONE_RANK = (
    "Of one rank, a call is waiting for later ranks and transfer together: the bandwidth is that of the shortest call "
    "of its size, a lower bound."
)
BY_RANKS = (
    "Waiting is told from transfer by the other ranks' recordings: the bandwidth is of the median transfer, without it."
)
BY_THOSE_HERE = (
    "Waiting is told from transfer by the recordings of the ranks that are here: a missing one may have come later, so "
    "the bandwidth is a lower bound."
)
NO_SIZE = "Without a size: calls whose arguments are not recorded."
_SOMETIMES = {"waiting_ns", "exposed_percent", "busbw_gbps", "link_percent", "group_size", "group"}
"""Columns that are left out where no row has them; the bandwidth by the call is left out where any has that by link."""


def collectives(trace: Trace, layout: Layout) -> Iterator[Part]:
    """The tables, where the recording has any collective."""
    rows = trace.collectives
    if rows:
        link = trace.collectives_link
        note = [link_words(link)] if link and any(row["link_percent"] is not None for row in rows) else []
        if any(row["rests_on"] in ("shortest call", "whole call") for row in rows):
            note.append(ONE_RANK)
        if any(row["rests_on"] == "transfer" for row in rows):
            note.append(BY_RANKS)
        if any(row["rests_on"] == "ranks here" for row in rows):
            note.append(BY_THOSE_HERE)
        if any(row["bytes"] is None and row["kind"] != "barrier" and not row["coalesced"] for row in rows):
            note.append(NO_SIZE)
        yield listed(COLLECTIVES, rows, layout, fields=_filled(rows), after=tuple(note))
    if trace.collective_pairs:
        yield listed(PAIRS, trace.collective_pairs, layout)


def link_words(link: Link) -> str:
    """What the bandwidth is compared with, in a sentence."""
    return f"Link: {link.name}, {format_number(link.gbps)} GB/s in one direction ({link.source})."


def _filled(rows: Sequence[Row]) -> tuple[Field, ...]:
    fields = COLLECTIVES.chosen(COLLECTIVES.reports)
    known = {one.name for one in fields if any(row[one.json_key] is not None for row in rows)}
    left_out = _SOMETIMES - known | ({"algbw_gbps"} if "busbw_gbps" in known else set())
    # a line of 80 columns has no room for both
    left_out |= {"group_size"} if "waiting_ns" in known else set()
    return tuple(one for one in fields if one.name not in left_out)
