"""Who was late in this recording, and who is late in the program: two questions with two answers.

In the recording a rank is late when it comes last to collectives; its host may be so because it was recorded. In the
program it is late by what a profiler cannot add: more GPU work of its own than the median rank launched, or more host
time in stretches of over 1 ms in which no recorded event begins or ends, outside blocking calls. Lateness that is
spread over many short calls can't be told from the profiler's cost, and names nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

STEP_PERCENT = 5.0
"""Of the step: what a finding must cost to be a warning (`findings.core.gain`), and so to name a rank."""
LEAST_PERCENT = 2.0
"""Of the step: advice that could gain no more is left out (rule K14)."""
OWN_PERCENT = 20.0
"""Of the median rank's own GPU work. Collectives that run beside them made the same kernels up to 14 % slower in even
jobs, by how early a rank came; what is beyond that is other work, also in a step that its host makes long."""
SILENT_NS = 1_000_000
"""Of each silent stretch: they count from 1 ms on, so one just longer here and just shorter there makes as much."""
DEVIATIONS = 4.0
"""Of the ranks' own spread (1.48 × median deviation): the largest of 1,000 even ranks lies 3.2 above the median."""
MEASURES = {"gpu": "own_gpu_ns", "silent": "silent_ns", "loader": "loader_ns"}
"""What a profiler cannot add, and the columns of `summary.STEPS` that say it; the wait for the loader is no silence."""


def lower_median(values: Floats) -> float:
    """The median rank's value: of an even number the lower of the two in the middle, which some rank really has."""
    known = np.sort(values[~np.isnan(values)])
    return float(known[(known.size - 1) // 2]) if known.size else float("nan")


class Excess(Struct, frozen=True):
    """What ranks have more of than the median of their peers, per rank."""

    over: Floats
    """NaN where it is not known."""
    limit: Floats
    """From which on it names a rank."""
    median: Floats

    @property
    def named(self) -> NDArray[np.bool_]:
        """Who has more than the limit."""
        return np.nan_to_num(self.over, nan=-1.0) > self.limit


def excess(
    values: Floats,
    step_ns: Floats,
    peers: NDArray[np.int64],
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
    for number in np.unique(peers).tolist():
        mine = peers == number
        middle = lower_median(values[mine])
        spread = 1.4826 * lower_median(np.abs(values[mine] - middle))
        step = float(np.nan_to_num(lower_median(step_ns[mine])))
        share = STEP_PERCENT / 100 * step
        if own_percent is not None:
            share = min(share, max(LEAST_PERCENT / 100 * step, own_percent / 100 * float(np.nan_to_num(middle))))
        over[mine] = values[mine] - middle
        median[mine] = middle
        limit[mine] = share + (0.0 if unsure is None else unsure[mine])
        limit[mine] = np.maximum(limit[mine], max(least, DEVIATIONS * float(np.nan_to_num(spread))))
    return Excess(over, limit, median)


class Late(Struct, frozen=True):
    """One rank that is late, and what is known of it. Times are per step, or of the recording without steps."""

    rank: int
    late_ns: float
    """In the recording: how long after the median rank it came, summed over what it was last to or the root of; in the
    program: its excess over the median rank. Both are the sum of the parts that follow."""
    gpu_ns: float = 0.0
    """More GPU work of its own than the median rank; in the program negative where it has less, as what follows."""
    silent_ns: float = 0.0
    loader_ns: float = 0.0
    untold_ns: float = 0.0
    """Of its lateness in the recording, what these don't explain: spread over many short calls. Negative where nobody
    waited for all that it has more."""
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
class Cause:
    """What a late rank does more of."""

    kind: str
    """One of `CAUSES`."""
    name: str = ""
    """The range, function or kernel; empty where nothing has a name."""
    ns: float = 0.0
    """How much of the excess it explains."""
    factor: float | None = None
    """Of kernels that take longer each, how many times; of larger ones, how many times as many blocks they have."""
    step: int | None = None
    """The step in which nearly all of it lies; None where it lies in several."""
    throttled_by: str = ""
    """What run.json says slowed the GPU down."""
    beside: str = ""
    """Other processes that used GPUs of its machine, as run.json has them."""


CAUSES = {
    "gpu_work": "more GPU work",
    "larger": "as many kernels with more blocks",
    "slow_gpu": "the same GPU work takes longer",
    "copies": "copies",
    "loader": "it waits for its data loader",
    "collection": "garbage collection",
    "pause": "its host stopped once",
    "host": "its host is busy without launching",
    "untold": "its host, in many short calls: what the profiler added to them can't be told",
}


@dataclass(frozen=True, slots=True)
class Answers:
    """Both answers."""

    recording: Late | None
    """Who came last in the recording; None where nobody is late beyond what clocks and `STEP_PERCENT` tell."""
    program: tuple[Late, ...]
    """Who is late in the program, the latest first."""
    largest_excess_ns: float | None
    """What the rank with most has over the median; None where nothing of that is recorded."""
    once: tuple[Late, ...] = ()
    """Who would be late in the program by one stop, which another recording of it has nothing of."""


def in_recording(table: pl.DataFrame, step_ns: float) -> Late | None:
    """The rank that others waited for most, if that is worth a name.

    Args:
        table: per rank: rank, late_ns, last, of, and over_gpu_ns, over_silent_ns, over_loader_ns, all per step.
        step_ns: of the median rank.
    """
    if not table.height:
        return None
    row = table.sort("late_ns", "rank", descending=[True, False]).row(0, named=True)
    if row["late_ns"] <= STEP_PERCENT / 100 * step_ns:
        return None
    parts = {name: max(row[f"over_{name}_ns"] or 0.0, 0.0) for name in MEASURES}
    untold = row["late_ns"] - sum(parts.values())
    words = {"gpu": "gpu_work", "silent": "host", "loader": "loader"}
    most = max(parts, key=parts.__getitem__)
    kind = words[most] if parts[most] >= untold else "untold"
    cause = Cause(kind, ns=untold if kind == "untold" else parts[most])
    return Late(
        row["rank"],
        row["late_ns"],
        parts["gpu"],
        parts["silent"],
        parts["loader"],
        untold,
        row["last"],
        row["of"],
        cause,
    )
