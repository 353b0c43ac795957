"""Summaries of many ranks without files: what matching, clocks and waiting make of them is known."""

from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from tracetui.analysis.ranks import summary
from tracetui.analysis.ranks.summary import RankSummary

STEP_NS, TRANSFER_NS = 40_000_000, 200_000


@dataclass
class Made:
    """A job of all-reduces: `per_step` of them a step, even but for what is given."""

    ranks: int = 8
    steps: int = 10
    per_step: int = 10
    late: dict[int, int] = field(default_factory=dict)
    """Rank: how many ns later than the others it comes to every collective."""
    silent: dict[int, int] = field(default_factory=dict)
    """Rank: silent host time per step."""
    offsets: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Host: offset in ns and drift of its clock, in ns per ns."""
    ranks_per_host: int = 4
    seq: bool = True
    skipped: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Rank: how many collectives its recording lacks at its beginning and at its end."""
    host_names: bool = True
    noise_ns: int = 5_000
    seed: int = 0

    def summaries(self) -> list[RankSummary]:
        """One per rank."""
        random = np.random.default_rng(self.seed)
        count = self.steps * self.per_step
        order = np.arange(count)
        # collectives come evenly in a step, steps are not quite even: that tells them apart
        lasting = STEP_NS + random.integers(-STEP_NS // 20, STEP_NS // 20, self.steps)
        ready = np.repeat(np.cumsum(lasting), self.per_step) + (order % self.per_step) * STEP_NS // (2 * self.per_step)
        arrivals = ready + random.integers(0, self.noise_ns, (self.ranks, count))
        for rank, late in self.late.items():
            arrivals[rank] += late
        ends = arrivals.max(axis=0) + TRANSFER_NS + random.integers(0, self.noise_ns, (self.ranks, count))
        return [self._summary(rank, arrivals[rank], ends[rank], order) for rank in range(self.ranks)]

    def _summary(self, rank: int, arrival: np.ndarray, end: np.ndarray, order: np.ndarray) -> RankSummary:  # type: ignore[type-arg]
        host = f"host{rank // self.ranks_per_host}"
        offset, drift = self.offsets.get(host, (0.0, 0.0))
        first, last = self.skipped.get(rank, (0, 0))
        rows = slice(first, order.size - last)
        begin, end = (np.rint(time[rows] * (1 + drift) + offset).astype(np.int64) for time in (arrival, end))
        size = begin.size
        step = order[rows] // self.per_step
        frame = pl.DataFrame(
            {
                "kind": pl.repeat("all_reduce", size, eager=True),
                "group": pl.repeat("0", size, eager=True),
                "group_size": pl.repeat(self.ranks, size, eager=True),
                "seq": order[rows] if self.seq else pl.repeat(None, size, dtype=pl.Int64, eager=True),
                "bytes_in": 1_000_000 * (1 + order[rows] % self.per_step),
                "bytes_out": 1_000_000 * (1 + order[rows] % self.per_step),
                "coalesced": pl.repeat(value=False, n=size, eager=True),
                "step": step,
                "launched": begin - 1000,
                "begin": begin,
                "end": end,
                "exposed_ns": end - begin,
            }
        )
        missing = [
            pl.lit(None, dtype).alias(name) for name, dtype in summary.COLLECTIVES.items() if name not in frame.columns
        ]
        frame = frame.with_columns(missing).select(
            pl.col(name).cast(dtype) for name, dtype in summary.COLLECTIVES.items()
        )
        return RankSummary(
            {
                "steps": self._steps(rank),
                "collectives": frame,
                "work": pl.DataFrame(schema=summary.WORK),
                "launches": pl.DataFrame(schema=summary.LAUNCHES),
            },
            path=f"rank{rank}.json",
            rank=rank,
            world_size=self.ranks,
            host=host if self.host_names else None,
            absolute=True,
            groups=(("0", "default_pg", range(self.ranks)),),
        )

    def _steps(self, rank: int) -> pl.DataFrame:
        whole = {name: [0] * self.steps for name in summary.STEPS}
        begin = np.arange(self.steps) * STEP_NS
        silent = [self.silent.get(rank, 0)] * self.steps
        own = {"step": list(range(self.steps)), "begin": begin, "end": begin + STEP_NS, "silent_ns": silent}
        return pl.DataFrame(whole | own, schema=summary.STEPS)


def with_frames(one: RankSummary, **frames: pl.DataFrame) -> RankSummary:
    """The summary with other frames of these names."""
    return replace(one, frames={name: one.frames[name] for name in summary.FRAMES} | frames)
