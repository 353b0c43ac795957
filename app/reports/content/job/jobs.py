"""What is printed of a job: who is late, its ranks, who waited for whom, what transfers took; short for any number."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from msgspec import UNSET

from tracetui.analysis.base.number_format import format_count, format_us
from tracetui.analysis.tables.ranks import RANKS, STAGES, STRAGGLERS, TRANSFERS, WAITING
from tracetui.app.reports.layout import Shown
from tracetui.app.reports.parts import Block, Sentences, listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.analysis.report.model import RanksReport, Row, Run
    from tracetui.app.reports.layout import Layout
    from tracetui.app.reports.parts import Part

MANY_RANKS = 16
"""Up to here the table of ranks is printed whole, and who waited for whom as a matrix."""
MATRIX_RANKS = 8
"""More columns don't fit into 80 cells."""


def job_parts(found: Run | RanksReport, layout: Layout) -> Iterator[Part]:
    """The job: its answers first, then its tables; of many ranks those that matter, and one line for the rest.

    Args:
        found: what has the job and its tables.
        layout: rows per list.
    """
    job = found.job
    if job:
        yield Sentences(tuple(job.said), bullets=True, lead=True, heading="The job")
    if found.ranks:
        yield rank_list(found.ranks, layout)
    if found.stragglers and found.ranks is UNSET:  # else the sentences and the ranks say it
        yield listed(STRAGGLERS, found.stragglers, layout)
    if found.waiting:
        yield _waiting(found.waiting, layout)
    if found.transfers:
        table = replace(TRANSFERS, base=f"{TRANSFERS.base}{_bounds(found)}")
        yield listed(table, found.transfers, layout, whole=_whole(found.transfers, layout))
    if found.stages:
        yield listed(STAGES, found.stages, replace(layout, limit=None), whole=0)


def _bounds(found: Run | RanksReport) -> str:
    """What numbers of a job with missing ranks are."""
    from tracetui.analysis.ranks.sentences import BOUNDED

    return "; bounds: ranks are missing" if found.job and any(BOUNDED in text for text in found.job.said) else ""


def rank_list(ranks: list[Row], layout: Layout) -> Block:
    """The table of ranks; of many, those that are late or were waited for most."""
    if layout.limit is None or len(ranks) <= max(layout.limit, MANY_RANKS):
        return listed(RANKS, ranks, replace(layout, limit=None), whole=0)
    shown = sorted(ranks, key=lambda row: (not row["straggler"], -(row["late_us"] or 0.0), -(row["excess_us"] or 0.0)))
    rest = shown[layout.limit :]
    steps = sorted(row["step_us"] for row in rest if row["step_us"] is not None)
    span = f": steps of {format_us(steps[0])} to {format_us(steps[-1])}" if steps else ""
    late = sum(bool(row["straggler"]) for row in rest)
    none = f"{format_count(late)} of them late" if late else "none of them late"
    return listed(RANKS, shown, layout, after=(f"{format_count(len(rest))} more ranks, {none}{span}.",))


def _waiting(pairs: list[Row], layout: Layout) -> Block:
    """Who waited for whom: a matrix of few ranks, else the pairs that waited longest."""
    ranks = sorted({row[name] for row in pairs for name in ("rank", "for_rank")})
    if len(ranks) > MATRIX_RANKS:
        return _waited_for(pairs, layout)
    waited = {(row["rank"], row["for_rank"]): row["wait_us"] for row in pairs}
    causes = [rank for rank in ranks if any(row["for_rank"] == rank for row in pairs)]
    columns = [Shown("Rank"), *(Shown(f"for {rank}") for rank in causes), Shown("together")]
    cells = []
    for rank in ranks:
        own = [waited.get((rank, cause)) for cause in causes]
        total = sum(value for value in own if value is not None)
        cells.append([str(rank), *("-" if value is None else format_us(value) for value in own), format_us(total)])
    return Block(WAITING.title, WAITING.base, tuple(columns), cells)


def _waited_for(pairs: list[Row], layout: Layout) -> Block:
    """Of many ranks, those that others waited for: how many did, and for how long."""
    waits: dict[int, list[float]] = {}
    for row in pairs:
        waits.setdefault(row["for_rank"], []).append(row["wait_us"])
    most = sorted(waits.items(), key=lambda one: (-median(one[1]) * len(one[1]), one[0]))
    cells = [
        [str(rank), format_count(len(times)), format_us(median(times)), format_us(max(times))] for rank, times in most
    ]
    columns = tuple(map(Shown, ("For", "Ranks", "Median", "Longest")))
    whole = len(cells) if layout.limit is not None and len(cells) > layout.limit else 0
    return Block(WAITING.title, WAITING.base, columns, cells[: layout.limit], whole)


def _whole(rows: list[Row], layout: Layout) -> int:
    """How many rows there are, where not all of them are shown."""
    return len(rows) if layout.limit is not None and len(rows) > layout.limit else 0
