"""The pages of the tab Ranks: the picture of each rank, collectives with their arrivals, one rank beside the median."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.base.number_format import format_ns
from tracetui.analysis.ranks.together.beside_median import beside_median
from tracetui.analysis.tables.ranks import ARRIVALS, ARRIVALS_OF_ONE, BESIDE_MEDIAN, RANKS
from tracetui.app.charts.heat import heat_map, span
from tracetui.app.reports.content.job.drawn import DRAWN, cells_to_draw
from tracetui.app.views.common.counted import filled
from tracetui.app.views.common.page import Page

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from tracetui.analysis.ranks.summary import RankSummary
    from tracetui.analysis.ranks.together.job import Job
    from tracetui.analysis.tables.table import Field

WIDTH = 24
"""The most columns of a picture."""
IN_SIGHT = 16
"""So many ranks are seen at once at 80x24; of more, those that are late come first."""
NOTHING = "No collectives of these ranks could be matched."


def ranks_page(job: Job, table: pl.DataFrame, drawn: str, note: str, *, ascii: bool) -> Page:
    """The table of ranks with one number of each as a picture.

    Args:
        job: what the ranks say together.
        table: `rank_table.judged`.
        drawn: one of `DRAWN`.
        note: the answer in a line.
        ascii: whether the terminal has no block characters.
    """
    cells, column = cells_to_draw(job, drawn)
    pictures = heat_map(cells, "rank", column, drawn, WIDTH, ascii=ascii, from_zero=drawn != "step_ns")
    last = job.answers.recording
    state = (
        pl.when(pl.col("straggler"))
        .then(pl.lit("late"))
        .when(pl.col("rank") == (-1 if last is None else last.rank))
        .then(pl.lit("last"))
        .otherwise(pl.lit(""))
    )
    texts = pl.Series([pictures.get(rank, "") for rank in table["rank"].to_list()], dtype=pl.String)
    table = table.with_columns(state=state, drawn=texts)
    if table.height > IN_SIGHT:
        table = table.sort(pl.col("state").replace_strict({"late": 0, "last": 1, "": 2}), "rank")
    what = DRAWN[drawn]
    columns = tuple(
        replace(
            one,
            title=what.title,
            width=max(len(what.title), min(_widest(pictures), WIDTH)),
            about=f"{what.about}: {one.about}",
        )
        if one.name == "drawn"
        else one
        for one in filled(RANKS.columns, table)
    )
    return Page.of(RANKS, table, columns=columns, note=note)


def on_common_clock(job: Job, rank: int | None, moment: int) -> int:
    """Returns a moment of a rank's recording on the common clock; of a rank without calls, the first collective's.

    Args:
        job: what the ranks say together.
        rank: whose moment it is.
        moment: ns as the rank's summary has them.
    """
    known = job.calls.filter(pl.col("rank") == rank).sort("begin").head(1)
    for begin, recorded in known.select("begin", "recorded_begin").iter_rows():
        return int(begin) - int(recorded) + moment
    return int(job.collectives["begin"].min() or 0)  # type: ignore[arg-type]


def arrivals_page(job: Job, zero: int, *, ascii: bool) -> Page:
    """The matched collectives in the order of time, with how late each rank came to them.

    Args:
        job: what the ranks say together.
        zero: the moment that times count from, ns on the common clock.
        ascii: whether the terminal has no block characters.
    """
    frame = job.collectives
    if not frame.height:
        return Page.of(ARRIVALS, frame, empty=NOTHING)
    pictures = heat_map(job.calls, "instance", "rank", "late_ns", WIDTH, ascii=ascii, from_zero=True)
    texts = pl.Series([pictures.get(one, "") for one in frame["instance"].to_list()], dtype=pl.String)
    frame = frame.with_columns(at_ns=pl.col("begin") - zero, drawn=texts)
    columns = tuple(
        replace(one, width=max(one.width, min(_widest(pictures), WIDTH))) if one.name == "drawn" else one
        for one in filled(ARRIVALS.columns, frame)
    )
    told = "" if job.one_clock or job.residual_ns is None else f"arrivals are told to {format_ns(job.residual_ns)}"
    return Page.of(ARRIVALS, frame, columns=columns, note=told or "how late each rank came to each collective")


def arrivals_of_one(job: Job, row: Mapping[str, Any], *, ascii: bool) -> Page:
    """The ranks of one collective under one another, on the common clock."""
    calls = job.calls.filter(pl.col("instance") == row["instance"])
    # of many ranks the latest are what one looks for
    calls = calls.sort("rank") if calls.height <= IN_SIGHT else calls.sort("begin", "rank", descending=[True, False])
    begin = int(calls["begin"].min())  # type: ignore[arg-type]
    whole = int(calls["end"].max()) - begin  # type: ignore[arg-type]
    frame = calls.with_columns(arrived_ns=pl.col("begin") - begin, duration_ns=pl.col("end") - pl.col("begin"))
    drawn = [
        span(at, at + wait, at + took, whole, WIDTH, ascii=ascii)
        for at, wait, took in frame.select("arrived_ns", "wait_ns", "duration_ns").iter_rows()
    ]
    frame = frame.with_columns(drawn=pl.Series(drawn, dtype=pl.String))
    title = " ".join(str(part) for part in (row["kind"] or "collective", _of_step(row)) if part)
    return Page.of(ARRIVALS_OF_ONE, frame, title=title, note=f"{format_ns(whole)} from first arrival to end")


def beside_page(job: Job, summaries: Sequence[RankSummary], rank: int) -> Page:
    """A rank beside the median rank, what it has more of first."""
    frame = beside_median(job, summaries, rank)
    columns: tuple[Field, ...] = filled(BESIDE_MEDIAN.columns, frame)
    per = "per step" if job.step_count else "over the recording"
    return Page.of(BESIDE_MEDIAN, frame, columns=columns, title=f"rank {rank} beside the median rank", note=per)


def _of_step(row: Mapping[str, Any]) -> str:
    return "" if row["step"] is None or row["step"] < 0 else f"of step {row['step']}"


def _widest(pictures: Mapping[int, str]) -> int:
    return max(map(len, pictures.values()), default=0)
