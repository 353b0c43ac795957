"""Why a rank is late in the program: what it has more of than the median of its peers, by name."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.ranks.summary import OTHERS, RankSummary
from tracetui.parsers.arrays import Floats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.ranks.launches import Paces


OWN_PERCENT = 20.0
"""Of the median rank's own GPU work. Collectives that run beside them made the same kernels up to 14 % slower in even
jobs, by how early a rank came; more than this is beyond that also where none ran alone."""
MOST_OF_IT = 0.5
"""A name stands for an excess of which it has so much or more."""
SAME_LAUNCHES = 0.8
"""Of the kernel time, so much in kernels that are launched as often on both ranks makes their work the same."""
LARGER = 1.05
"""Launches with so many times as many blocks: the threshold of a step's share, 5 %."""
ONE_STEP = 0.8
"""An excess of which so much lies in one of three steps or more is a pause."""
RANGES = ("gpu_range", "gpu_module", "kernel")
"""What may name GPU work, best first."""


def lower_median(values: Floats) -> float:
    """The median rank's value: of an even number the lower of the two in the middle, which some rank really has."""
    known = np.sort(values[~np.isnan(values)])
    return float(known[(known.size - 1) // 2]) if known.size else float("nan")


class Cause(Struct, frozen=True):
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
    "calls": "its host's calls take longer",
    "untold": "its host, in many short calls: what the profiler added to them can't be told",
}


class Works(Struct, frozen=True):
    """The work of all ranks, and their steps."""

    frame: pl.DataFrame
    """`summary.WORK` of all steps, with ``place``."""
    steps: tuple[int, ...]
    """By place: how many steps "per step" divides by."""

    @classmethod
    def of(cls, summaries: Sequence[RankSummary], steps: Sequence[int]) -> Works:
        """The work of these summaries."""
        parts = (one.work.with_columns(place=pl.lit(at, pl.Int64)) for at, one in enumerate(summaries))
        summed = (
            pl.concat(some).group_by("place", "kind", "name").agg(pl.col("ns", "count", "blocks").sum())
            for some in iter(lambda: list(islice(parts, 64)), [])
        )
        return cls(pl.concat(summed), tuple(steps))

    def over(self, place: int, peers: Sequence[int]) -> pl.DataFrame:
        """What a rank has more of than the median of its peers: kind, name, over_ns per step, the most first."""
        mine = self.frame.filter((pl.col("place") == place) & (pl.col("name") != ""))
        unnamed = self.frame.filter(
            (pl.col("place") == place)
            & (pl.col("name") == "")
            & (pl.col("kind").is_in(["silent", "loader", "collection"]))
        )
        wanted = pl.concat([mine, unnamed]).select("kind", "name").unique()
        rows = self.frame.filter(pl.col("place").is_in(list(peers))).join(wanted, on=["kind", "name"], how="semi")
        summed = rows.group_by("kind", "name", "place").agg(pl.col("ns").sum())
        steps = np.maximum(np.array(self.steps), 1)
        found = []
        for (kind, name), part in summed.group_by("kind", "name"):
            values = np.zeros(len(self.steps))
            values[part["place"].to_numpy()] = part["ns"].to_numpy()
            values = values / steps
            found.append((kind, name, float(values[place] - lower_median(values[list(peers)]))))
        schema = {"kind": pl.String(), "name": pl.String(), "over_ns": pl.Float64()}
        return pl.DataFrame(found, schema=schema, orient="row").sort(
            "over_ns", "kind", "name", descending=[True, False, False]
        )

    def larger(self, place: int, peers: Sequence[int]) -> float | None:
        """How many times as many blocks as many launches have as on the median peer; None for other launches.

        That is the middle of the kernels that are launched as often, by their time; where those are few, of all, since
        another size may choose other kernels, whose names differ: then only their number is the same.
        """
        rows = self.frame.filter((pl.col("kind") == "kernel") & pl.col("place").is_in(list(peers)))
        sums = (pl.col("ns").sum(), pl.col("count").sum(), pl.col("blocks").sum())
        named = rows.filter(pl.col("name") != "")
        whole, found = 0.0, list[tuple[float, float]]()
        for _, part in named.group_by("name", "place").agg(sums).group_by("name"):
            whole += float(part["ns"].filter(part["place"] == place).sum())
            found += self._times(part, place, within=0.01)
        if whole and sum(ns for ns, _ in found) >= SAME_LAUNCHES * whole:
            found.sort(key=lambda one: one[1])
            reach = np.cumsum([ns for ns, _ in found])
            return found[int(np.searchsorted(reach, reach[-1] / 2))][1]
        total = self._times(rows.group_by("place").agg(sums), place, within=0.0)
        return total[0][1] if total else None

    def _times(self, summed: pl.DataFrame, place: int, within: float) -> list[tuple[float, float]]:
        """The time of launches, and how many times as many blocks they have; none if their number differs by more."""
        at = summed["place"].to_numpy()
        steps = np.maximum(np.array(self.steps), 1)[at]
        count, blocks = (summed[name].to_numpy() / steps for name in ("count", "blocks"))
        me = at == place
        if not me.any() or me.all():
            return []
        usual, usual_blocks = lower_median(count[~me]), lower_median(blocks[~me])
        if abs(count[me][0] - usual) > within * usual or not usual_blocks:
            return []
        return [(float(summed["ns"].filter(me)[0]), float(blocks[me][0]) / usual_blocks)]


def cause(
    works: Works,
    summary: RankSummary,
    place: int,
    peers: Sequence[int],
    excess: dict[str, float],
    pace: Paces,
    steps: pl.DataFrame,
) -> Cause:
    """The largest part of a rank's excess, by name.

    Args:
        works: of all ranks.
        summary: the late rank's.
        place: its place.
        peers: places that it is compared with, itself among them.
        excess: per step, by `late.MEASURES`.
        pace: how fast the GPUs of all ranks are.
        steps: its steps with ``over_ns``: the excess of each.
    """
    most = max(excess, key=excess.__getitem__)
    over = works.over(place, peers)
    whole = excess[most]
    throttled = dict(summary.environment).get("throttled by", "")
    throttled = "" if throttled == "nothing" else throttled
    beside = dict(summary.environment).get(OTHERS, "")
    if most == "gpu":
        copies = _best(over, ("copy",), whole)
        if copies is not None:
            return Cause("copies", *copies)
        # first, since launches of one grid may have more to do in each block then
        more = works.larger(place, peers)
        if more is not None and more >= LARGER:
            return Cause("larger", "", whole, more, throttled_by=throttled)
        if pace.slow_ns[place] >= MOST_OF_IT * whole:
            lone = _lone(steps)
            own = summary.steps.filter(pl.col("step") == lone) if lone is not None else summary.steps
            factor = float(pace.ratio[place]) * float(own["pace"].drop_nulls().median() or 1.0)  # type: ignore[arg-type]
            return Cause("slow_gpu", "", whole, factor, step=lone, throttled_by=throttled, beside=beside)
        return Cause("gpu_work", *(_best(over, RANGES, whole) or ("", whole)), throttled_by=throttled)
    if most == "loader":
        return Cause("loader", "", whole)
    if (collected := _best(over, ("collection",), whole)) is not None:
        return Cause("collection", "", collected[1], step=_lone(steps))
    name, ns = _best(over, ("silent",), whole) or ("", whole)
    lone = _lone(steps)
    return Cause("pause" if lone is not None and not name else "host", name, ns, step=lone)


def _best(over: pl.DataFrame, kinds: Sequence[str], whole: float) -> tuple[str, float] | None:
    """The name of these kinds that has most of the excess, the first kind before the others."""
    for kind in kinds:
        rows = over.filter(pl.col("kind") == kind)
        if rows.height and rows["over_ns"][0] >= MOST_OF_IT * whole:
            return rows["name"][0], min(float(rows["over_ns"][0]), whole)
    return None


def _lone(steps: pl.DataFrame) -> int | None:
    """The one step that holds nearly all of the excess."""
    over = steps.with_columns(pl.col("over_ns").clip(0))
    total = float(over["over_ns"].sum())
    if over.height < 3 or total <= 0:
        return None
    row = over.sort("over_ns", descending=True).row(0, named=True)
    return int(row["step"]) if row["over_ns"] >= ONE_STEP * total else None
