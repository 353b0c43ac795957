"""What is kept of one rank's recording: some tens of kilobytes, enough to compare it with a thousand others.

Times are Unix times in ns where the recording says when it began (`RankSummary.absolute`), else of its own clock.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tracetui.parsers.trace import Note

VERSION = 8
"""Raise this whenever a summary holds other columns, or the same ones mean something else."""

STEPS: dict[str, pl.DataType] = {
    "step": pl.Int64(),  # its index, as the profiler counts; -1 for the whole window of a recording without steps
    "begin": pl.Int64(),
    "end": pl.Int64(),
    "compute_ns": pl.Int64(),  # this rank's GPUs run kernels that communicate nothing, copies or fills
    "communication_ns": pl.Int64(),  # a collective runs
    "exposed_ns": pl.Int64(),  # a collective runs, and its GPU computes nothing
    "computation_ns": pl.Int64(),  # as `compute_ns`, without copies and fills
    "overlap_ns": pl.Int64(),  # both a collective and a kernel that communicates nothing
    "idle_ns": pl.Int64(),  # nothing runs, since the step before ended
    "own_gpu_ns": pl.Int64(),  # summed durations of GPU work that no collective is and that this step launched
    "silent_ns": pl.Int64(),  # host time without any recorded event, in stretches over 1 ms, outside blocking calls
    "loader_ns": pl.Int64(),  # the host waits for the next batch; null where that is not recorded
    "launches": pl.Int64(),
    "host_events": pl.Int64(),
    "call_ns": pl.Float64(),  # the median duration of API calls that don't block
    "pace": pl.Float64(),  # how many times as long its launches take as in the median step; none beside a collective
}
"""One step a row, in order. Several GPUs of one rank are summed up."""

COLLECTIVES: dict[str, pl.DataType] = {
    "kind": pl.String(),  # all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send, recv, …; as c10d says
    "group": pl.String(),  # name of the process group; null where not recorded
    "group_size": pl.Int64(),
    "seq": pl.Int64(),
    "order": pl.Int64(),  # place among the collectives of its group in this recording, in the order of launch
    "bytes_in": pl.Int64(),
    "bytes_out": pl.Int64(),
    "element_type": pl.String(),
    "peer": pl.Int64(),  # of a send or receive: the other rank
    "coalesced": pl.Boolean(),  # one kernel for several operations, whose sizes can't be told apart
    "step": pl.Int64(),  # the step that launched it; null for work queued before the first
    "launched": pl.Int64(),  # when the host launched it; null where the launch is not in the recording
    "begin": pl.Int64(),
    "end": pl.Int64(),
    "exposed_ns": pl.Int64(),
    "own_gpu_ns": pl.Int64(),  # GPU work but collectives that the host launched since the collective before it
    "silent_ns": pl.Int64(),  # as in STEPS, since the launch of the collective before it
    "loader_ns": pl.Int64(),
    "blocked_ns": pl.Int64(),  # the host waits in blocking calls
}
"""One collective of one rank a row, in the order of launch."""

WORK: dict[str, pl.DataType] = {
    "step": pl.Int64(),
    "kind": pl.String(),  # gpu_range, gpu_module, kernel, copy, silent, loader, collection
    "name": pl.String(),  # of the range, module, kernel or function; "" for the rest that is not listed
    "ns": pl.Int64(),
    "count": pl.Int64(),
    "blocks": pl.Int64(),  # of kernels: thread blocks of all launches; more of them are more work
}
"""What a rank did in a step, by name: the largest of each kind, and one row for the rest of the kind."""

LAUNCHES: dict[str, pl.DataType] = {
    "name": pl.String(),
    "shape": pl.Int64(),  # of grid and block
    "place": pl.Int64(),  # how many of that name and shape the step has launched before; 0 without steps
    "alone_ns": pl.Float64(),  # the median duration where no collective ran beside it; null where one always did
    "calls": pl.Int64(),  # how many that is of
    "each_ns": pl.Float64(),  # the median duration, whatever ran beside it
    "ns": pl.Float64(),  # per step, whatever ran beside it
}
"""The launches of a step that take most of it, which other ranks have, too."""

FRAMES = ("steps", "collectives", "work", "launches")

OTHERS = "other processes on its GPUs"
"""In `RankSummary.environment`, of its machine: run.json does not say which GPU a process used."""


Members = range | tuple[int, ...]
"""Ranks of a group: even ones as start, stride and count, or every rank's summary would grow with their number."""


def members(ranks: Sequence[int]) -> Members:
    """The ranks of a group in that form, which is one for the same ranks."""
    if len(ranks) < 2 or ranks[1] == ranks[0]:
        return tuple(ranks)
    stride = ranks[1] - ranks[0]
    even = range(ranks[0], ranks[0] + stride * len(ranks), stride)
    return even if all(map(operator.eq, ranks, even)) else tuple(ranks)


@dataclass(frozen=True, slots=True)
class RankSummary:
    """One rank of a job in one recording."""

    frames: dict[str, pl.DataFrame]
    """By `FRAMES`. Those of a file are unpacked when they are asked for, and not kept: of thousands of ranks they take
    more memory than all that is made of them."""
    path: str
    """The recording, relative to the job's folder."""
    rank: int
    world_size: int | None = None
    """At least, where only the process groups that it names tell."""
    host: str | None = None
    device: str | None = None
    """Its GPU's name."""
    tool: str = ""
    recorded_pass: str | None = None
    """``light`` or ``rich``: which of a run's recordings; None where it can't be told."""
    absolute: bool = False
    """Whether times are Unix times."""
    window: tuple[int, int] | None = None
    """When the recording begins and ends."""
    groups: tuple[tuple[str, str, Members], ...] = ()
    """Process groups: name, description, ranks (`members`)."""
    clean_step_ns: tuple[int, ...] = ()
    """Steps without a profiler, where run.json says them."""
    environment: tuple[tuple[str, str], ...] = ()
    """What may differ between machines: driver, versions, clocks and throttling, by name."""
    notes: tuple[Note, ...] = ()

    @property
    def steps(self) -> pl.DataFrame:
        """`STEPS`."""
        return self.frames["steps"]

    @property
    def collectives(self) -> pl.DataFrame:
        """`COLLECTIVES`."""
        return self.frames["collectives"]

    @property
    def work(self) -> pl.DataFrame:
        """`WORK`."""
        return self.frames["work"]

    @property
    def launches(self) -> pl.DataFrame:
        """`LAUNCHES`."""
        return self.frames["launches"]

    def of_steps(self, steps: Iterable[int], *names: str) -> RankSummary:
        """The same with these steps alone in the frames of these names."""
        return replace(self, frames=_OfSteps(self.frames, sorted(steps), names))


class _OfSteps(dict[str, pl.DataFrame]):
    """Frames of some steps."""

    def __init__(self, whole: dict[str, pl.DataFrame], steps: Sequence[int], names: Sequence[str]) -> None:
        super().__init__()
        self._whole, self._steps, self._names = whole, steps, names

    def __missing__(self, name: str) -> pl.DataFrame:
        frame = self._whole[name]
        if name not in self._names:
            return frame
        frame = frame.filter(pl.col("step").is_in(self._steps))
        if name == "steps":  # small, and asked for again and again
            self[name] = frame
        return frame


TIMES = ("launched", "begin", "end")
WIDTHS: dict[str, pl.DataType] = {
    **COLLECTIVES,
    **dict.fromkeys(("place", "rank", "instance", "group_id", "channel", "signature"), pl.Int64()),
}


class Calls(Struct, frozen=True):
    """A table with a row for each of millions of calls, which takes a quarter of the memory that its columns declare.

    Numbers are of as many bytes as these need; a column that is taken by its name is as wide as in `WIDTHS`.
    """

    frame: pl.DataFrame
    """`TIMES` count from `since`; texts are categories."""
    since: int = 0

    @classmethod
    def of(cls, parts: Iterable[pl.DataFrame]) -> Calls:
        """The rows of all parts, each of which is needed no longer than it is looked at."""
        held, since = list[pl.DataFrame](), None
        for part in parts:
            if since is None and part.height:
                since = int(part["begin"].min())  # type: ignore[arg-type]
            moved = part.with_columns(pl.col(name) - (since or 0) for name in TIMES)
            held.append(moved.select(map(_narrow, moved)))
        return cls(pl.concat(held, how="vertical_relaxed", rechunk=True), since or 0)

    @property
    def height(self) -> int:
        """How many calls there are."""
        return self.frame.height

    def __getitem__(self, name: str) -> pl.Series:
        column = pl.col(name).cast(WIDTHS[name])
        return self.frame.select(column + self.since if name in TIMES else column).to_series()

    def select(self, *names: str) -> pl.DataFrame:
        """Some columns, as wide as they are declared; all if none is named."""
        return pl.DataFrame([self[name] for name in names or self.frame.columns])

    def with_frame(self, frame: pl.DataFrame) -> Calls:
        """Other rows, or more columns."""
        return Calls(frame.select(map(_narrow, frame)), self.since)


def _narrow(column: pl.Series) -> pl.Series:
    if column.dtype.is_integer():
        return column.shrink_dtype()
    return column.cast(pl.Categorical) if column.dtype == pl.String else column
