"""Who was late in this recording, and who is late in the program: two questions with two answers.

In the recording a rank is late when it comes last to collectives; its host may be so because it was recorded. In the
program it is late by what a profiler cannot add: more GPU work of its own than the median rank launched, or more host
time in stretches of over 1 ms in which no recorded event begins or ends, outside blocking calls. Lateness that is
spread over many short calls can't be told from the profiler's cost, and names nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct, structs

from tracetui.analysis.ranks.launches import Paces, paces
from tracetui.analysis.ranks.summary import RankSummary
from tracetui.analysis.ranks.work import OWN_PERCENT, Cause, Works, cause, lower_median
from tracetui.parsers.arrays import Bools, Floats, Ints

STEP_PERCENT = 5.0
"""Of the step: what a finding must cost to be a warning (`findings.core.gain`), and so to name a rank."""
LEAST_PERCENT = 2.0
"""Of the step: advice that could gain no more is left out (rule K14)."""
SILENT_NS = 1_000_000
"""Of each silent stretch: they count from 1 ms on, so one just longer here and just shorter there makes as much."""
DEVIATIONS = 4.0
"""Of the ranks' own spread (1.48 × median deviation): the largest of 1,000 even ranks lies 3.2 above the median."""
MEASURES = {"gpu": "own_gpu_ns", "silent": "silent_ns", "loader": "loader_ns"}
"""What a profiler cannot add, and the columns of `summary.STEPS` that say it; the wait for the loader is no silence."""


class Excess(Struct, frozen=True):
    """What ranks have more of than the median of their peers, per rank."""

    over: Floats
    """NaN where it is not known."""
    limit: Floats
    """From which on it names a rank."""
    median: Floats
    usual: Bools
    """Who the others are compared with: all, or the smaller group where most have more."""

    @property
    def named(self) -> Bools:
        """Who has more than the limit."""
        return np.nan_to_num(self.over, nan=-1.0) > self.limit


def excess(
    values: Floats,
    step_ns: Floats,
    peers: Ints,
    *,
    least: float = 0.0,
    unsure: Floats | None = None,
    own_percent: float | None = None,
) -> Excess:
    """Compares each rank with the median of its peers.

    Args:
        values: per rank, per step.
        step_ns: the rank's step; the limit is `STEP_PERCENT` of its peers' median.
        peers: a number for each set of ranks that do the same work.
        least: the smallest limit.
        unsure: by rank, how much of its value the median rank may have, too, where it is not counted.
        own_percent: so much more than the median's own value is beyond doubt from `LEAST_PERCENT` of the step on.
    """
    over, limit, median = (np.full(values.size, np.nan) for _ in range(3))
    few = np.zeros(values.size, np.bool_)
    for number in np.unique(peers).tolist():
        mine = peers == number
        few |= mine & ~(values > _gap(values[mine], step_ns[mine]))
        usual = values[mine & few]
        middle = lower_median(usual)
        spread = 1.4826 * lower_median(np.abs(usual - middle))
        step = float(np.nan_to_num(lower_median(step_ns[mine])))
        share = STEP_PERCENT / 100 * step
        if own_percent is not None:
            share = min(share, max(LEAST_PERCENT / 100 * step, own_percent / 100 * float(np.nan_to_num(middle))))
        over[mine] = values[mine] - middle
        median[mine] = middle
        limit[mine] = share + (0.0 if unsure is None else unsure[mine])
        limit[mine] = np.maximum(limit[mine], max(least, DEVIATIONS * float(np.nan_to_num(spread))))
    return Excess(over, limit, median, few)


GAP_SPREADS = 4.0
LEAST_GROUP = 3
"""So many ranks, and a fifth of all, make a group that the others, also a majority of them, are compared with."""


def _gap(values: Floats, step_ns: Floats) -> float:
    """Where most ranks have so much more than the others that these are two groups: the most that the others have."""
    known = np.sort(values[~np.isnan(values)])
    least = max(LEAST_GROUP, known.size // 5)
    if known.size < 2 * least:
        return np.inf
    gaps = np.diff(known)
    at = int(np.argmax(gaps)) + 1
    low, high = known[:at], known[at:]
    if not least <= low.size < high.size:
        return np.inf
    spread = max(float(np.ptp(low)), float(np.ptp(high)))
    step = float(np.nan_to_num(lower_median(step_ns)))
    enough = gaps[at - 1] >= STEP_PERCENT / 100 * step and gaps[at - 1] >= GAP_SPREADS * spread
    return float(low[-1]) if enough else np.inf


class Late(Struct, frozen=True):
    """One rank that is late, and what is known of it. Times are per step, or of the recording without steps."""

    rank: int
    late_ns: float
    """In the recording: how long the others stood still for it; in the program: its excess over the median rank. Both
    are the sum of the parts that follow."""
    gpu_ns: float = 0.0
    """More GPU work of its own than the median rank; in the program negative where it has less, as what follows."""
    silent_ns: float = 0.0
    loader_ns: float = 0.0
    untold_ns: float = 0.0
    """Of its lateness in the recording, what these don't explain: spread over many short calls."""
    last: int = 0
    """Of the collectives, how many it came last to."""
    of: int = 0
    cause: Cause | None = None
    named_by: tuple[str, ...] = ()
    """In the program: which parts are beyond their limits, by `MEASURES`; the others are too small to name a rank."""

    @property
    def parts(self) -> dict[str, float]:
        """What it has more than the median rank (negative: less), by `MEASURES`."""
        return {"gpu": self.gpu_ns, "silent": self.silent_ns, "loader": self.loader_ns}

    @property
    def named_ns(self) -> float:
        """What names it: the most that it could save by doing no more than the median rank."""
        return sum(self.parts[name] for name in self.named_by)


@dataclass(frozen=True, slots=True)
class Answers:
    """Both answers."""

    recording: Late | None
    """Who came last in the recording; None where nobody is late beyond what clocks and `STEP_PERCENT` tell."""
    program: tuple[Late, ...]
    """Who is late in the program, the latest first."""
    largest_excess_ns: float | None
    """What the rank with most has over the median; None where nothing of that is recorded."""
    turns: Turns | None = None
    once: tuple[Late, ...] = ()
    """Who would be late in the program by one stop, which another recording of it has nothing of."""


def in_recording(
    table: pl.DataFrame, gone: pl.DataFrame, steps: int, step_ns: float, unmatched: pl.DataFrame
) -> Late | None:
    """The rank that others stood still for most, if that is worth a name.

    Args:
        table: `tables.RANKS`.
        gone: `lost.LOST`.
        steps: what "per step" divides by.
        step_ns: of the median rank.
        unmatched: `matched.UNMATCHED`: in these calls a rank may have waited for one that is missing.
    """
    held = dict(unmatched.group_by("rank").agg(pl.col("exposed_ns").sum()).iter_rows())
    least = STEP_PERCENT / 100 * step_ns
    rows = table.filter(pl.col("late_ns") > least).sort("late_ns", "rank", descending=[True, False])
    for row in rows.iter_rows(named=True):
        made = gone.filter(pl.col("rank") == row["rank"]).group_by("cause").agg(pl.col("lost_ns").sum() / steps)
        told = dict(made.iter_rows())
        parts = {name: told.get(name, 0.0) for name in MEASURES}
        untold = row["late_ns"] - sum(parts.values())
        if row["late_ns"] - min(untold, held.get(row["rank"], 0) / steps) > least:
            return _last(row, parts, untold)
    return None


def _last(row: Mapping[str, Any], parts: Mapping[str, float], untold: float) -> Late:
    words = {"gpu": "gpu_work", "silent": "host", "loader": "loader"}
    most = max(parts, key=parts.__getitem__)
    if parts[most] >= untold:
        cause = Cause(words[most], ns=parts[most])
    else:
        slow = row["calls_ratio"] is not None and row["calls_ratio"] >= SLOW_CALLS
        cause = Cause("calls" if slow else "untold", ns=untold, factor=row["calls_ratio"] if slow else None)
    late = row["rank"], row["late_ns"], parts["gpu"], parts["silent"], parts["loader"], untold
    return Late(*late, last=row["last"] or 0, of=row["collectives"] or 0, cause=cause)


SLOW_CALLS = 1.2
"""API calls that take so many times as long as on the median rank are a reason to come late."""


def _calls_ratio(summaries: Sequence[RankSummary], peers: Ints) -> Floats:
    """How many times as long a rank's API calls take as the median peer's; NaN where it is not known."""
    calls = np.array([_median(one.steps["call_ns"]) for one in summaries], np.float64)
    usual = np.full(calls.size, np.nan)
    for number in np.unique(peers).tolist():
        usual[peers == number] = lower_median(calls[peers == number])
    ratio: Floats = np.divide(calls, usual, out=np.full(calls.size, np.nan), where=usual > 0)
    return ratio


def _median(column: pl.Series) -> float:
    value = column.median()
    return float(value) if value is not None else float("nan")  # type: ignore[arg-type]


class Turns(Struct, frozen=True):
    """Ranks that are late in turn, so that none is on average."""

    part: str
    """By `MEASURES`: what each has more of when its turn comes."""
    lost_ns: float
    """Per step."""
    ranks: tuple[tuple[int, float], ...]
    """Who made how much of it, per step, the most first."""
    steps: int
    """In how many steps."""

    def of_rank(self, rank: int, ns: float) -> Late:
        """One rank's share."""
        gpu, silent, loader = (ns if name == self.part else 0.0 for name in MEASURES)
        kind = {"gpu": "gpu_work", "silent": "pause", "loader": "loader"}[self.part]
        return Late(rank, ns, gpu, silent, loader, cause=Cause(kind, ns=ns), named_by=(self.part,))


LEAST_TURNS = 3
"""Fewer ranks than that don't take turns."""


def in_turn(gone: pl.DataFrame, named: Sequence[int], steps: int, step_ns: float) -> Turns | None:
    """What ranks that are not late by themselves make the others lose in turn, if that is worth a finding.

    Args:
        gone: `lost.LOST`.
        named: ranks that are late in the program: what they lose is said of them.
        steps: what "per step" divides by.
        step_ns: of the median rank.
    """
    free = gone.filter(~pl.col("rank").is_in(list(named)) & pl.col("cause").is_in(list(MEASURES)))
    by_rank = free.group_by("cause", "rank").agg(pl.col("lost_ns").sum() / steps)
    limit = STEP_PERCENT / 100 * step_ns
    for (part,), shares in sorted(by_rank.group_by("cause"), key=lambda one: -float(one[1]["lost_ns"].sum())):
        whole = float(shares["lost_ns"].sum())
        # noise makes some rank the latest by a little: a turn is worth a name in its step
        held = free.filter((pl.col("cause") == part) & (pl.col("lost_ns") > limit))
        if whole > limit and held["rank"].n_unique() >= LEAST_TURNS:
            ranked = shares.sort("lost_ns", "rank", descending=[True, False]).select("rank", "lost_ns").rows()
            return Turns(str(part), whole, tuple(ranked), held["step"].n_unique())
    return None


MOST_NAMED = 64
"""Causes are looked for at so many ranks: more that are late alike have one reason."""


def answers_of(
    table: pl.DataFrame,
    summaries: Sequence[RankSummary],
    counts: Sequence[int],
    peers: Ints,
    steps: pl.DataFrame,
    gone: pl.DataFrame,
    called: int,
    unmatched: pl.DataFrame,
) -> tuple[Answers, pl.DataFrame]:
    """The answers, and the table of ranks with what each has more than the median.

    That is ``over_…_ns`` and ``excess_ns``, ``late``, and ``peers``, a number for each set of ranks that do the same
    work.

    Args:
        table: `tables.RANKS`.
        summaries: by place.
        counts: what "per step" divides by.
        peers: by place, a number for each set of ranks that do the same work.
        steps: `tables.STEPS`.
        gone: `lost.LOST`.
        called: what "per step" divides by there.
        unmatched: `matched.UNMATCHED`.
    """
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
    pace = paces(summaries, peers, over["gpu"].usual, OWN_PERCENT)
    over["gpu"] = _with_paces(over["gpu"], pace, step, table, gone, called)
    faster = np.where(pace.slow, pace.ratio, 1.0)
    table = table.with_columns(
        slower=pl.Series(faster), calls_ratio=pl.Series(_calls_ratio(summaries, peers)).fill_nan(None)
    )
    late = np.zeros(table.height, np.bool_)
    for found in over.values():
        late |= found.named
    table = table.with_columns(*columns, late=pl.Series(late, dtype=pl.Boolean), peers=pl.Series(peers, dtype=pl.Int64))
    parts_of = [pl.col(f"over_{name}_ns") for name in MEASURES]
    known = pl.any_horizontal(one.is_not_null() for one in parts_of)
    table = table.with_columns(excess_ns=pl.when(known).then(pl.sum_horizontal(parts_of)))
    told = [values.over for values in over.values() if not np.isnan(values.over).all()]
    program = _program(table, summaries, counts, peers, over, pace, steps)
    named = {one.rank for one in program}
    table = table.with_columns(late=pl.col("late") & pl.col("rank").is_in(named))
    middle = table["step_ns"].median()
    median_ns = float(middle) if middle is not None else 0.0  # type: ignore[arg-type]
    recording = in_recording(table, gone, called, median_ns, unmatched)
    turns = in_turn(gone, sorted(named), called, median_ns)
    largest = float(np.nanmax(np.sum([np.nan_to_num(one) for one in told], axis=0))) if told else None
    return Answers(recording, program, largest, turns), table


def _program(
    table: pl.DataFrame,
    summaries: Sequence[RankSummary],
    counts: Sequence[int],
    peers: Ints,
    over: dict[str, Excess],
    pace: Paces,
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
            most = MEASURES[max(parts, key=parts.__getitem__)]
            same = (peers == peers[place]) & over[max(parts, key=parts.__getitem__)].usual
            same[place] = True
            mine = np.flatnonzero(same).tolist()
            why = cause(
                works,
                summaries[place],
                place,
                mine,
                parts,
                pace,
                _by_step(steps, row["rank"], [summaries[at].rank for at in mine], most),
            )
            late = structs.replace(late, cause=why)
        found.append(late)
    return tuple(sorted(found, key=lambda one: (-one.late_ns, one.rank)))


def _with_paces(
    found: Excess, pace: Paces, step_ns: Floats, table: pl.DataFrame, gone: pl.DataFrame, called: int
) -> Excess:
    """GPU work over the peers', where collectives beside it are not the reason; slower GPUs are late from less on.

    A GPU that is slower for certain is late from `LEAST_PERCENT` of the step on, where others waited for it.
    """
    sure = found.over - pace.doubt_ns
    waited = dict(gone.filter(pl.col("cause") == "gpu").group_by("rank").agg(pl.col("lost_ns").sum()).iter_rows())
    cost = np.array([waited.get(rank, 0) for rank in table["rank"]]) / called
    least = LEAST_PERCENT / 100 * np.nan_to_num(step_ns)
    certain = (pace.slow_ns > 0) & (np.minimum(sure, pace.slow_ns) > least) & (cost > least)
    limit = np.where(certain, np.minimum(found.limit, np.nextafter(sure, -np.inf)), found.limit + pace.doubt_ns)
    return Excess(found.over, limit, found.median, found.usual)


def _unsure(summaries: Sequence[RankSummary], counts: Sequence[int], peers: Ints) -> Floats:
    """Per rank and step, what its silence has more by stretches that may be just too short to count on the others."""
    stretches = [one.work.filter(pl.col("kind") == "silent")["count"].sum() for one in summaries]
    each = np.array(stretches, np.float64) / np.maximum(np.array(counts), 1)
    usual = np.zeros(each.size)
    for number in np.unique(peers).tolist():
        usual[peers == number] = lower_median(each[peers == number])
    more: Floats = SILENT_NS * np.maximum(each - usual, 0.0)
    return more


def _by_step(steps: pl.DataFrame, rank: int, peers: Sequence[int], column: str) -> pl.DataFrame:
    """The rank's steps with what each has more than the median peer's."""
    usual = steps.filter(pl.col("rank").is_in(peers)).group_by("step").agg(usual=pl.col(column).quantile(0.5, "lower"))
    mine = steps.filter(pl.col("rank") == rank).join(usual, on="step", how="left")
    return mine.select("step", over_ns=pl.col(column).fill_null(0) - pl.col("usual").fill_null(0))


def peers_of(stage: Ints) -> Ints:
    """A number for each set of ranks that do the same work: of one stage, where every stage has several; else all."""
    _, sizes = np.unique(stage, return_counts=True)
    return stage if sizes.size and sizes.min() > 1 else np.zeros(stage.size, np.int64)


def _known(column: pl.Series, *, some: bool) -> Floats:
    """The values, NaN where they are not known; 0 for ranks without, where `some` ranks have waits and others none."""
    if some and column.null_count() < column.len():
        column = column.fill_null(0)
    values: Floats = column.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    return values


def _has_steps(table: pl.DataFrame) -> bool:
    return bool((table["steps"] > 0).any()) if table.height else False
