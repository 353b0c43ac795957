"""Whether a rank's GPU is slower: equal launches that no collective ran beside, compared among ranks of one role.

Collectives that run beside kernels slow them, on a rank that comes early more than on the last one. So only launches
that overlap none tell that a GPU is slow, beside those of other ranks, which collectives can only have made longer;
what the others of its launches take longer is in doubt.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.base import intervals, names
from tracetui.analysis.base.remembered import latest
from tracetui.analysis.ranks.summary import LAUNCHES, RankSummary
from tracetui.parsers import Trace
from tracetui.parsers.arrays import Bools, Floats, Ints
from tracetui.parsers.names.collectives import is_collective_kernel
from tracetui.parsers.names.kernel_names import short_name

MOST = 256
"""So many launches of a step are kept, those of most time."""
LEAST_PERCENT = 3.0
"""GPUs of one model differ by less."""
DEVIATIONS = 4.0
LEAST_LAUNCHES = 5
AT_ONCE = 1 << 16
"""About so many launches of all ranks are compared at once."""
SHARED = 0.5
"""A launch counts that so many of its rank's peers have."""
_KEY = ("name", "shape", "place")


@latest
def launch_rows(trace: Trace) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The launches (`summary.LAUNCHES`), and the pace of each step: step, pace."""
    none = pl.DataFrame(schema=LAUNCHES), pl.DataFrame(schema={"step": pl.Int64(), "pace": pl.Float64()})
    frame = trace.device
    chosen = (frame["kind"] == "kernel").to_numpy() & frame["launch"].is_not_null().to_numpy()
    if trace.steps.height:
        chosen &= frame["step"].is_not_null().to_numpy()
    talks = names.matching(frame["name"], is_collective_kernel)
    rows = np.flatnonzero(chosen & ~talks)
    if not rows.size:
        return none
    work = frame[rows.tolist()].select("name", "grid", "block", "step", "start", "duration", "device")
    start, end = (work["start"].to_numpy(), (work["start"] + work["duration"].fill_null(0)).to_numpy())
    shape = work.select(pl.struct("grid", "block").hash().reinterpret(signed=True)).to_series()
    work = work.select(
        "start", ns=pl.col("duration").fill_null(0).cast(pl.Float64), step=pl.col("step").cast(pl.Int64).fill_null(0),
        name=names.mapped(work["name"], short_name, None), shape=shape,
        alone=pl.Series(~_beside(frame, talks, start, end, work["device"].to_numpy())),
    ).sort("start")  # fmt: skip
    # without steps nothing tells which of equal launches is which
    place = pl.int_range(pl.len()).over("step", "name", "shape") if trace.steps.height else pl.lit(0, pl.Int64)
    work = work.with_columns(place=place.cast(pl.Int64))
    count = max(trace.steps.height, 1)
    alone = pl.col("ns").filter("alone")
    kept = (
        work.group_by(_KEY)
        .agg(
            alone_ns=alone.median(),
            calls=alone.len().cast(pl.Int64),
            each_ns=pl.col("ns").median(),
            ns=pl.col("ns").sum() / count,
        )
        .sort("ns", *_KEY, descending=[True, False, False, False])
        .head(MOST)
    )
    told = work.filter("alone").join(kept, on=_KEY).filter((pl.col("calls") > 2) & (pl.col("alone_ns") > 0))
    pace = told.group_by("step").agg(pace=(pl.col("ns") / pl.col("alone_ns")).median(), of=pl.len())
    pace = pace.filter(pl.col("of") >= LEAST_LAUNCHES).drop("of")
    if trace.steps.height:
        pace = pace.with_columns(step=trace.steps["index"].gather(pace["step"]).cast(pl.Int64))
    return kept.select(pl.col(name).cast(dtype) for name, dtype in LAUNCHES.items()), pace


def _beside(frame: pl.DataFrame, talks: Bools, start: Ints, end: Ints, device: Ints) -> Bools:
    """Which of these stretches overlap a collective of their GPU."""
    found = np.zeros(start.size, np.bool_)
    began = frame["start"].to_numpy()
    ended = began + frame["duration"].fill_null(0).to_numpy()
    for number in np.unique(device).tolist():
        mine = device == number
        own = talks & (frame["device"] == number).fill_null(value=False).to_numpy()
        found[mine] = intervals.covered(intervals.union(began[own], ended[own]), start[mine], end[mine]) > 0
    return found


class Paces(Struct, frozen=True):
    """How fast the GPUs of all ranks are, by place; NaN where it is not known."""

    ratio: Floats
    """How many times as long equal launches take as on the median peer."""
    unsure: Floats
    """What is no difference: noise, and what peers differ by among themselves; of the ratio."""
    slow_ns: Floats
    """Of its own GPU work per step, what it would not have at its peers' pace."""
    doubt_ns: Floats
    """What equal launches take longer beyond that, per step: collectives beside them may be why."""

    @property
    def slow(self) -> Bools:
        """Whose GPU is slower for certain."""
        return np.nan_to_num(self.ratio - 1, nan=-1.0) > np.maximum(self.unsure, LEAST_PERCENT / 100)


def _together(summaries: Sequence[RankSummary]) -> pl.DataFrame:
    """The launches of all ranks by their place, with ``launch`` in place of name, shape and number in the step."""
    what = pl.struct(*_KEY).hash().alias("launch")
    none = pl.DataFrame(schema={"place": pl.Int64(), **LAUNCHES}).select("place", what, "alone_ns", "each_ns", "ns")
    parts = (
        one.launches.select(pl.lit(at, pl.Int64).alias("place"), what, "alone_ns", "each_ns", "ns")
        for at, one in enumerate(summaries)
    )
    return pl.concat([none, *parts])


def paces(summaries: Sequence[RankSummary], peers: Ints, usual: Bools, own_percent: float) -> Paces:
    """Compares equal launches among ranks of one role.

    Args:
        summaries: by place.
        peers: by place, a number for each set of ranks that do the same work.
        usual: by place, whether others are compared with this one.
        own_percent: where no launch was alone: what takes so much longer is no matter of collectives beside it.
    """
    count = len(summaries)
    ratio, error = np.full(count, np.nan), np.full(count, np.nan)
    common, over, sure = np.zeros(count), np.zeros(count), np.zeros(count)
    size = np.bincount(peers[usual], minlength=int(peers.max(initial=0)) + 1)
    of = pl.DataFrame({"place": np.arange(count), "peers": peers, "is_usual": usual, "size": size[peers]})
    frame, key = _together(summaries), ("peers", "launch")
    relative = pl.col("alone_ns") / pl.col("usual")
    longer = pl.col("ns") * (1 - pl.col("usual") / pl.col("alone_ns"))  # on its own, too
    told, sums = [], []
    pieces = 1 + frame.height // AT_ONCE
    for number in range(pieces):
        shared = (
            frame.filter(pl.col("launch") % pieces == number)
            .join(of, on="place")
            .with_columns(
                usual=pl.coalesce("alone_ns", "each_ns").filter("is_usual").quantile(0.5, "lower").over(key),
                usual_ns=pl.col("ns").filter("is_usual").quantile(0.5, "lower").over(key),
                have=pl.col("is_usual").sum().over(key),
                every=pl.len().over(key),
            )
            .filter((pl.col("have") >= SHARED * pl.col("size")) & (pl.col("every") > 1))
        )
        both = shared.drop_nulls(["alone_ns", "usual"]).filter(pl.col("usual") > 0)
        told.append(both.select("place", relative=relative))
        over_ns, sure_ns = pl.col("ns") - pl.col("usual_ns"), longer.fill_null(0).fill_nan(0)
        sums.append(shared.group_by("place").agg(pl.col("ns").sum(), over=over_ns.sum(), sure=sure_ns.sum()))
    del frame
    middle = pl.col("relative").median()
    by_rank = (
        pl.concat(told)
        .group_by("place")
        .agg(ratio=middle, off=(pl.col("relative") - middle).abs().median(), of=pl.len())
    )
    for at, times, off, number in by_rank.iter_rows():
        if number >= LEAST_LAUNCHES:
            ratio[at], error[at] = times, 1.4826 * off / np.sqrt(number)
    summed = pl.concat(sums).group_by("place").sum()
    for name, values in (("ns", common), ("over", over), ("sure", sure)):
        values[summed["place"].to_numpy()] = summed[name].to_numpy()
    unsure = DEVIATIONS * error
    for number in np.unique(peers).tolist():
        mine = np.flatnonzero((peers == number) & ~np.isnan(ratio))
        if mine.size:
            low = ratio[mine][ratio[mine] <= np.median(ratio[mine])]
            # slow ranks may be many: what the faster half differs by is what GPUs differ by
            spread = 1.4826 * float(np.median(np.abs(low - np.median(low)))) if low.size > 2 else 0.0
            unsure[mine] = np.maximum(unsure[mine], DEVIATIONS * spread)
    slow = np.zeros(count)
    for at, one in enumerate(summaries):
        if np.isnan(ratio[at]):
            continue
        step = one.steps.select(pl.col("own_gpu_ns").fill_null(0), pl.col("pace").fill_null(1.0))
        pace = ratio[at] * step["pace"].to_numpy()
        pace = np.where(pace - 1 > max(unsure[at], LEAST_PERCENT / 100), pace, 1.0)
        if pace.size:
            slow[at] = float((step["own_gpu_ns"].to_numpy() * (1 - 1 / pace)).mean())
    doubt = np.maximum(over - np.maximum(sure, slow), 0.0)
    # where no launch was alone, what takes so much longer is no matter of what runs beside it
    doubt[np.isnan(ratio) & (over >= own_percent / 100 * (common - over))] = 0.0
    return Paces(ratio, unsure, slow, doubt)
