"""Both answers of a job: who was late in this recording, and who is late in the program and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracetui.analysis.ranks.together.causes import Works, cause, contended
from tracetui.analysis.ranks.together.late import (
    MEASURES,
    OWN_PERCENT,
    SILENT_NS,
    Answers,
    Late,
    excess,
    in_recording,
    lower_median,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tracetui.analysis.ranks.summary import RankSummary
    from tracetui.analysis.ranks.together.late import Excess

    Ints = NDArray[np.int64]

MOST_NAMED = 8
"""Causes are looked for at so many ranks: more that are late alike have one reason."""


def answers_of(
    table: pl.DataFrame, summaries: Sequence[RankSummary], counts: Sequence[int], stage: Ints, steps: pl.DataFrame
) -> tuple[Answers, pl.DataFrame]:
    """The answers, and the table of ranks with what each has more than the median.

    That is ``over_…_ns`` and ``excess_ns``, ``late``, and ``peers``, a number for each set of ranks that do the same
    work.

    Args:
        table: `tables.RANKS`.
        summaries: by place.
        counts: what "per step" divides by.
        stage: each rank's stage of the pipeline: only ranks of one do the same work.
        steps: `rank_steps.STEPS`.
    """
    peers = _peers(stage)
    # a profiler makes steps longer: shares are of the clean step where it is known
    step_ns = table.select(pl.coalesce("clean_step_ns", "step_ns") if _has_steps(table) else "step_ns").to_series()
    step = step_ns.fill_null(float("nan")).to_numpy()
    over = {
        name: excess(
            _known(table[column], some=name == "loader"),
            step,
            peers,
            least=SILENT_NS if name == "silent" and _has_steps(table) else 0.0,
            unsure=_unsure(summaries, counts, peers) if name == "silent" and _has_steps(table) else None,
            own_percent=OWN_PERCENT if name == "gpu" else None,
        )
        for name, column in MEASURES.items()
    }
    columns = [pl.Series(f"over_{name}_ns", found.over).fill_nan(None) for name, found in over.items()]
    late = np.zeros(table.height, np.bool_)
    for found in over.values():
        late |= found.named
    table = table.with_columns(*columns, late=pl.Series(late, dtype=pl.Boolean), peers=pl.Series(peers, dtype=pl.Int64))
    parts_of = [pl.col(f"over_{name}_ns") for name in MEASURES]
    known = pl.any_horizontal(one.is_not_null() for one in parts_of)
    table = table.with_columns(excess_ns=pl.when(known).then(pl.sum_horizontal(parts_of)))
    told = [values.over for values in over.values() if not np.isnan(values.over).all()]
    program = _program(table, summaries, counts, peers, over, steps)
    named = {one.rank for one in program}
    table = table.with_columns(late=pl.col("late") & pl.col("rank").is_in(named))
    middle = table["step_ns"].median()
    recording = in_recording(
        table.select(
            "rank",
            pl.col("late_ns").fill_null(0.0),
            pl.col("last").fill_null(0),
            pl.col("collectives").alias("of"),
            *(pl.col(f"over_{name}_ns") for name in MEASURES),
        ),
        float(middle) if middle is not None else 0.0,  # type: ignore[arg-type]
    )
    largest = float(np.nanmax(np.sum([np.nan_to_num(one) for one in told], axis=0))) if told else None
    return Answers(recording, program, largest), table


def _program(
    table: pl.DataFrame,
    summaries: Sequence[RankSummary],
    counts: Sequence[int],
    peers: Ints,
    over: dict[str, Excess],
    steps: pl.DataFrame,
) -> tuple[Late, ...]:
    """The ranks that are late in the program, with the cause of the first of them."""
    found = []
    works: Works | None = None
    rows = table.filter("late").sort("excess_ns", "rank", descending=[True, False])
    for number, row in enumerate(rows.iter_rows(named=True)):
        place = row["place"]
        every = {name: float(np.nan_to_num(one.over[place])) for name, one in over.items()}
        parts = {name: ns if over[name].named[place] else 0.0 for name, ns in every.items()}
        late = Late(
            row["rank"], sum(every.values()), every["gpu"], every["silent"], every["loader"], last=row["last"] or 0,
            of=row["collectives"] or 0, named_by=tuple(name for name in MEASURES if over[name].named[place]),
        )  # fmt: skip
        if number < MOST_NAMED:
            works = works or Works.of(summaries, counts)
            mine = np.flatnonzero(peers == peers[place]).tolist()
            # collectives beside the same kernels made them slower in even jobs
            if parts["gpu"] and contended(works.slower(place, mine)):
                parts["gpu"] = 0.0
                late = replace(late, named_by=tuple(name for name in late.named_by if name != "gpu"))
                if not late.named_by:
                    continue
            most = MEASURES[max(parts, key=parts.__getitem__)]
            why = cause(works, summaries[place], place, mine, parts, _by_step(steps, row["rank"], most))
            late = replace(late, cause=why)
        found.append(late)
    return tuple(sorted(found, key=lambda one: (-one.late_ns, one.rank)))


def _unsure(summaries: Sequence[RankSummary], counts: Sequence[int], peers: Ints) -> NDArray[np.float64]:
    """Per rank and step, what its silence has more by stretches that may be just too short to count on the others."""
    stretches = [one.work.filter(pl.col("kind") == "silent")["count"].sum() for one in summaries]
    each = np.array(stretches, np.float64) / np.maximum(np.array(counts), 1)
    usual = np.zeros(each.size)
    for number in np.unique(peers).tolist():
        usual[peers == number] = lower_median(each[peers == number])
    more: NDArray[np.float64] = SILENT_NS * np.maximum(each - usual, 0.0)
    return more


def _by_step(steps: pl.DataFrame, rank: int, column: str) -> pl.DataFrame:
    """The rank's steps with what each has more than the median rank's."""
    usual = steps.group_by("step").agg(usual=pl.col(column).quantile(0.5, "lower"))
    mine = steps.filter(pl.col("rank") == rank).join(usual, on="step", how="left")
    return mine.select("step", over_ns=pl.col(column).fill_null(0) - pl.col("usual").fill_null(0))


def _peers(stage: Ints) -> Ints:
    """Ranks of one stage, where every stage has several; else all are compared with each other."""
    _, sizes = np.unique(stage, return_counts=True)
    return stage if sizes.size and sizes.min() > 1 else np.zeros(stage.size, np.int64)


def _known(column: pl.Series, *, some: bool) -> NDArray[np.float64]:
    """The values, NaN where they are not known; 0 for ranks without, where `some` ranks have waits and others none."""
    if some and column.null_count() < column.len():
        column = column.fill_null(0)
    values: NDArray[np.float64] = column.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    return values


def _has_steps(table: pl.DataFrame) -> bool:
    return bool((table["steps"] > 0).any()) if table.height else False
