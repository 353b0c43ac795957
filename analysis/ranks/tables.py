"""The tables of a job: its ranks and their steps, its collectives one by one, and those by kind, group and size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from tracetui.analysis.collectives import with_bandwidth
from tracetui.analysis.gpu.step_kinds import typical_ns
from tracetui.analysis.ranks import summary as contract
from tracetui.analysis.ranks.matched import EXCHANGE
from tracetui.analysis.ranks.summary import RankSummary
from tracetui.analysis.ranks.waiting import Waiting
from tracetui.parsers.arrays import Ints

STEPS: dict[str, pl.DataType] = {
    "rank": pl.Int64(),
    **contract.STEPS,
    "step_ns": pl.Int64(),
    "wait_ns": pl.Int64(),  # in collectives that the step launched; null where none was matched
    "transfer_ns": pl.Int64(),
}


def common_steps(summaries: Sequence[RankSummary]) -> tuple[list[RankSummary], tuple[int, ...]]:
    """The summaries without the steps that others lack, and the steps left; none where nothing was left out.

    A rank whose program died, or whose recording was cut, lacks the last steps, and another waits in the first of these
    for it: averages of other steps would compare that with nothing. One that has less than half of the most steps
    is compared by its own, and takes none from the others.
    """
    marked = {one.rank: _numbers(one) for one in summaries if _numbers(one)}
    most = max(map(len, marked.values()), default=0)
    long = [steps for steps in marked.values() if 2 * len(steps) >= most]
    common = set.intersection(*long) if long else set()
    if not common or all(steps <= common for steps in marked.values()):
        return list(summaries), ()
    return [_only(one, common) if _numbers(one) & common else one for one in summaries], tuple(sorted(common))


def shared_steps(summaries: Sequence[RankSummary]) -> tuple[int, ...]:
    """The steps that all ranks have, in which alone their collectives can be matched; none without marks."""
    marked = [_numbers(one) for one in summaries if _numbers(one)]
    return tuple(sorted(set.intersection(*marked))) if marked else ()


def _numbers(summary: RankSummary) -> set[int]:
    """The numbers of its steps; none without marks."""
    return {step for step in summary.steps["step"].to_list() if step >= 0}


def _only(summary: RankSummary, steps: set[int]) -> RankSummary:
    """The summary with these steps alone; its collectives stay, which others are matched with."""
    return summary.of_steps(steps, "steps", "work")


def step_counts(summaries: Sequence[RankSummary]) -> list[int]:
    """What "per step" divides by, for each rank: its steps, or 1 without."""
    return [max(one.steps.height, 1) for one in summaries]


def rank_steps(summaries: Sequence[RankSummary], found: Waiting) -> pl.DataFrame:
    """The steps of all ranks (`STEPS`)."""
    if not summaries:
        return pl.DataFrame(schema=STEPS)
    heights = [one.steps.height for one in summaries]
    rank = np.repeat([one.rank for one in summaries], heights)
    frame = pl.concat([one.steps for one in summaries]).with_columns(
        rank=pl.Series(rank, dtype=pl.Int64), step_ns=pl.col("end") - pl.col("begin")
    )
    lone = frame.group_by("rank").agg((pl.col("step") < 0).all()).filter("step")["rank"]
    waits = found.calls.frame.select("rank", "step").with_columns(
        pl.Series(name, ns) for name, ns in zip(("wait_ns", "transfer_ns"), found.stood, strict=True)
    )
    summed = waits.group_by("rank", "step").agg(pl.col("wait_ns", "transfer_ns").cast(pl.Int64).sum())
    summed = summed.with_columns(pl.col("rank", "step").cast(pl.Int64))
    of_step = pl.when(pl.col("rank").is_in(lone.implode())).then(-1).otherwise("step")
    summed = summed.group_by("rank", step=of_step).agg(pl.col("wait_ns", "transfer_ns").sum()).drop_nulls("step")
    joined = frame.join(summed, on=["rank", "step"], how="left", maintain_order="left")
    return joined.select(pl.col(name).cast(dtype) for name, dtype in STEPS.items())


RANKS: dict[str, pl.DataType] = {
    "place": pl.Int64(),
    "rank": pl.Int64(),
    "host": pl.String(),
    "device": pl.String(),
    "path": pl.String(),
    "steps": pl.Int64(),  # 0 without marks
    "step_ns": pl.Float64(),  # this and all that follows: per step, or of the whole recording without steps
    "kernel_ns": pl.Float64(),
    "compute_ns": pl.Float64(),
    "communication_ns": pl.Float64(),
    "exposed_ns": pl.Float64(),
    "idle_ns": pl.Float64(),
    "own_gpu_ns": pl.Float64(),
    "silent_ns": pl.Float64(),
    "loader_ns": pl.Float64(),
    "wait_ns": pl.Float64(),  # in matched collectives, for others
    "transfer_ns": pl.Float64(),
    "late_ns": pl.Float64(),  # others stood still until it came, along the critical path
    "last": pl.Int64(),  # collectives to which it came last
    "collectives": pl.Int64(),  # matched ones that it takes part in, without sends and receives
    "clean_step_ns": pl.Float64(),
    "offset_ns": pl.Float64(),
    "drift_ppm": pl.Float64(),
}
COLLECTIVES: dict[str, pl.DataType] = {
    "instance": pl.Int64(),
    "kind": pl.String(),
    "group": pl.String(),
    "seq": pl.Int64(),
    "step": pl.Int64(),
    "bytes": pl.Int64(),  # the larger of what goes in and what comes out; of uneven ones the largest rank's
    "ranks": pl.Int64(),  # how many of its calls are here
    "group_size": pl.Int64(),
    "begin": pl.Int64(),  # the first arrival
    "arrived": pl.Int64(),  # the last one
    "end": pl.Int64(),
    "transfer_ns": pl.Int64(),
    "wait_ns": pl.Int64(),  # of its median rank
    "last_rank": pl.Int64(),  # null where the arrivals are nearer than clocks tell
    "late_ns": pl.Int64(),  # the last arrival after the median one
    "alone_ns": pl.Int64(),  # after the one before it: what the last rank alone costs
    "root_rank": pl.Int64(),
    "exposed_ns": pl.Int64(),  # of its median rank
}
CALLS: dict[str, pl.DataType] = {
    "rank": pl.Int64(),
    "instance": pl.Int64(),
    "step": pl.Int64(),
    "begin": pl.Int64(),
    "end": pl.Int64(),
    "wait_ns": pl.Int64(),
    "late_ns": pl.Int64(),
    "bytes_in": pl.Int64(),
    "bytes_out": pl.Int64(),
    "own_gpu_ns": pl.Int64(),  # as in `summary.COLLECTIVES`
    "recorded_begin": pl.Int64(),  # as the rank's own summary has it
    "recorded_end": pl.Int64(),
}
KINDS: dict[str, pl.DataType] = {
    "kind": pl.String(),
    "group": pl.String(),
    "group_size": pl.Int64(),
    "bytes": pl.Int64(),
    "collectives": pl.Int64(),
    "per_step": pl.Float64(),
    "transfer_ns": pl.Float64(),  # per step
    "wait_ns": pl.Float64(),  # per step, of the median rank
    "exposed_ns": pl.Float64(),  # per step, of the median rank
    "algbw_gbps": pl.Float64(),  # GB/s, of the median transfer
    "busbw_gbps": pl.Float64(),
}
_SUMS = ("own_gpu_ns", "silent_ns", "loader_ns", "exposed_ns", "idle_ns")


def ranks(
    summaries: Sequence[RankSummary], counts: Sequence[int], called: Sequence[int], found: Waiting, path: pl.DataFrame
) -> pl.DataFrame:
    """One row per rank (`RANKS`).

    Args:
        summaries: by place.
        counts: what "per step" divides by.
        called: the same for times of collectives.
        found: the waiting in their collectives.
        path: `lost.PATH`.
    """
    clean = [typical_ns(one.clean_step_ns) if one.clean_step_ns else None for one in summaries]
    frame = pl.DataFrame(
        {
            "place": range(len(summaries)),
            "rank": [one.rank for one in summaries],
            "host": [one.host for one in summaries],
            "device": [one.device for one in summaries],
            "path": [one.path for one in summaries],
            "clean_step_ns": clean,
        },
        schema={name: RANKS[name] for name in ("place", "rank", "host", "device", "path", "clean_step_ns")},
    )
    frame = frame.join(per_step(summaries, counts), on="place", how="left", maintain_order="left")
    fitted = found.clocks.fitted.select("place", "offset_ns", "drift_ppm")
    frame = frame.join(fitted, on="place", how="left", maintain_order="left")
    waits = _of_calls([one.rank for one in summaries], np.array(called), found, path)
    return pl.concat([frame, waits], how="horizontal").select(pl.col(name).cast(dtype) for name, dtype in RANKS.items())


def per_step(summaries: Sequence[RankSummary], counts: Sequence[int]) -> pl.DataFrame:
    """What each rank's steps say, per step, by place; null where one of them does not say it."""
    place = np.repeat(np.arange(len(summaries)), [one.steps.height for one in summaries])
    frame = pl.concat([one.steps for one in summaries] or [pl.DataFrame(schema=contract.STEPS)]).with_columns(
        place=pl.Series(place, dtype=pl.Int64)
    )
    names = ("computation_ns", "communication_ns", "overlap_ns", *_SUMS)
    known = [
        pl.when(pl.col(name).null_count() == 0).then(pl.col(name).sum()).cast(pl.Float64).alias(name) for name in names
    ]
    frame = frame.group_by("place").agg(
        *known, steps=(pl.col("step") >= 0).sum(), step_ns=(pl.col("end") - pl.col("begin")).sum().cast(pl.Float64)
    )
    per = pl.DataFrame({"place": range(len(summaries)), "per": counts}, schema={"place": pl.Int64(), "per": pl.Int64()})
    frame = per.join(frame, on="place", how="left", maintain_order="left")
    both = (pl.col("computation_ns") + pl.col("communication_ns")) / pl.col("per")
    frame = frame.with_columns(
        kernel_ns=both - pl.col("overlap_ns") / pl.col("per"), steps=pl.col("steps").fill_null(0)
    )
    frame = frame.with_columns(pl.col(name) / pl.col("per") for name in ("step_ns", *names))
    return frame.rename({"computation_ns": "compute_ns"})


def _of_calls(numbers: list[int], counts: Ints, found: Waiting, path: pl.DataFrame) -> pl.DataFrame:
    """Waiting and lateness per rank; null for a rank of which nothing was matched."""
    calls, ranks, counts = found.calls, len(numbers), np.maximum(counts, 1)
    place = calls["place"].to_numpy()
    paired = calls.frame.select((pl.col("channel") >= 0) | (pl.col("kind") == "send_recv").fill_null(value=False))
    sends = paired.to_series().to_numpy()
    taking = np.bincount(place[~sends], minlength=ranks)
    any_call = np.bincount(place, minlength=ranks) > 0
    wait, transfer = (np.bincount(place, times, ranks) / counts for times in found.stood)
    at = {rank: number for number, rank in enumerate(numbers)}
    # in a pipeline each stage waits for the one before it: that makes nobody late
    known = (found.culprit >= 0) & ~sends[found.first]
    last = np.bincount([at[rank] for rank in found.culprit[known].tolist()], minlength=ranks)
    late = np.zeros(ranks)
    late[[at[rank] for rank in path["rank"]]] = path["late_ns"].to_numpy()
    columns = {"wait_ns": wait, "transfer_ns": transfer, "late_ns": late, "last": last, "collectives": taking}
    frame = pl.DataFrame({name: pl.Series(values) for name, values in columns.items()})
    return frame.with_columns(
        pl.when(pl.Series(any_call)).then(pl.col(name)).alias(name)
        for name in ("wait_ns", "transfer_ns", "late_ns", "last")
    )


def calls(found: Waiting) -> pl.DataFrame:
    """One row per rank and collective (`CALLS`)."""
    columns = {
        "begin": found.clocks.begin, "end": found.clocks.end, "wait_ns": found.wait, "late_ns": found.late,
        "recorded_begin": found.calls["begin"], "recorded_end": found.calls["end"],
    }  # fmt: skip
    return pl.DataFrame({name: columns[name] if name in columns else found.calls[name] for name in CALLS}, CALLS)


def collectives(found: Waiting, names: tuple[str, ...]) -> pl.DataFrame:
    """One row per collective (`COLLECTIVES`), in the order of time."""
    if not found.calls.height:
        return pl.DataFrame(schema=COLLECTIVES)
    group = pl.DataFrame(
        {"group_id": range(len(names)), "group": names}, schema={"group_id": pl.Int64(), "group": pl.String()}
    )
    whole = (
        found.calls.frame.with_columns(
            begin=pl.Series(found.clocks.begin), end=pl.Series(found.clocks.end), wait=pl.Series(found.wait)
        )
        .group_by("instance", maintain_order=True)
        .agg(
            kind=pl.when(pl.col("channel").first().cast(pl.Int64).is_between(0, EXCHANGE - 1))
            .then(pl.lit("send"))
            .otherwise(pl.col("kind").first().cast(pl.String)),
            paired=pl.col("channel").first() >= 0,
            group_id=pl.col("group_id").first().cast(pl.Int64),
            seq=pl.col("seq").first(),
            step=pl.col("step").max(),
            bytes=pl.max_horizontal(pl.col("bytes_in").max(), pl.col("bytes_out").max()),
            ranks=pl.len(),
            group_size=pl.col("group_size").max(),
            begin=pl.col("begin").min(),
            arrived=pl.col("begin").max(),
            end=pl.col("end").max(),
            wait_ns=pl.col("wait").median(),
            exposed_ns=pl.col("exposed_ns").median(),
        )
        .join(group, on="group_id", how="left", maintain_order="left")
        .with_columns(
            transfer_ns=pl.Series(found.transfer),
            late_ns=pl.Series(found.last_late),
            alone_ns=pl.Series(found.alone),
            last_rank=pl.Series(found.culprit),
            root_rank=pl.Series(found.origin),
        )
        .with_columns(pl.when(pl.col(name) >= 0).then(pl.col(name)).alias(name) for name in ("last_rank", "root_rank"))
    )
    size = pl.col("group_size").cast(pl.Int64)
    whole = whole.with_columns(pl.when("paired").then(2).otherwise(size).alias("group_size"))
    return whole.select(pl.col(name).cast(dtype) for name, dtype in COLLECTIVES.items()).sort("begin", "instance")


def kinds(collected: pl.DataFrame, found: Waiting, steps: int) -> pl.DataFrame:
    """Collectives by kind, group and size (`KINDS`), of which each rank takes part in one group.

    Groups of one name that stand for other ranks are one row with the mean of them: they work at the same time. A rank
    may wait on several streams at once, as a stage does for both of its neighbours: no moment counts twice.

    Args:
        collected: `COLLECTIVES`.
        found: the waiting.
        steps: what "per step" divides by.
    """
    if not collected.height:
        return pl.DataFrame(schema=KINDS)
    # `tp 0-7` and `tp 8-15` are one kind of group
    what = pl.col("group").str.replace(r" [\d,…-]+$", "")
    per = steps * pl.col("own_group").n_unique()
    table = (
        collected.with_columns(group=what, own_group="group")
        .group_by("kind", "group", "group_size", "bytes", maintain_order=True)
        .agg(
            collectives=pl.len(),
            per_step=pl.len() / per,
            transfer_ns=pl.col("transfer_ns").sum() / per,
            moved_ns=pl.col("transfer_ns").median(),
            instances=pl.col("instance"),
        )
    )
    row = np.empty(found.first.size, np.int64)
    row[table["instances"].explode().to_numpy()] = np.repeat(np.arange(table.height), table["instances"].list.len())
    place = found.calls["place"].to_numpy()
    ranks = int(place.max()) + 1
    cell = row[found.instance] * ranks + place
    waits, transfers = found.stood
    exposed = found.calls["exposed_ns"].to_numpy()
    summed = {"wait_ns": waits, "exposed_ns": np.minimum(exposed, waits.astype(np.int64) + transfers)}
    takes_part = np.bincount(cell, minlength=table.height * ranks) > 0
    for name, ns in summed.items():
        sums = np.where(takes_part, np.bincount(cell, ns, table.height * ranks), np.nan).reshape(-1, ranks)
        table = table.with_columns(pl.Series(name, np.nanmedian(sums, axis=1) / steps).fill_nan(None))
    table = with_bandwidth(table, None).sort("transfer_ns", "kind", descending=[True, False])
    return table.select(pl.col(name).cast(dtype) for name, dtype in KINDS.items())
