"""Transfers themselves: messages too small for the link, gathers that nothing hides, uneven all-to-all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.findings.core import gain, words
from tracetui.analysis.findings.core.finding import Evidence, Finding, Query
from tracetui.analysis.findings.core.rule import Threshold, rule
from tracetui.analysis.ranks.together.imbalance import uneven_all_to_all as uneven_of

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.rule import Limits
    from tracetui.analysis.ranks.together.job import Job


def _most(job: Job) -> str:
    """Before a share of transfers: with ranks missing, what is waiting for these counts, too."""
    return "at most " if job.bounded else ""


def _share(job: Job, ns: float) -> float | None:
    return 100 * min(ns, job.step_ns) / job.step_ns if job.step_ns else None


@rule(
    "S22",
    "Collectives too small for their link",
    needs=("collectives",),
    rests_on=("gpu",),
    thresholds={
        "small_mib": Threshold(
            4, "MiB", "up to which a message reached half of the link's bandwidth on NVLink", own=True
        ),
        "step_percent": Threshold(2, "%", "of the step in such transfers (as K14)", own=True),
        "several": Threshold(8, "", "such collectives per step", own=True),
    },
    advice="Send fewer, larger messages.",
)
def small_messages(facts: Facts, limits: Limits) -> Finding | None:
    """All-reduces or reduce-scatters of few bytes take a good part of the step: latency, not bandwidth.

    On four H200 with NVLink, buckets of 4 MB reached 152 GB/s and those of 32 MB 290: below, half of the time and more
    is latency. Times are transfers (the shortest call of each collective): waiting for others does not count. At
    stake is what these transfers take longer than at the bandwidth of larger ones; all of it where there are none.
    """
    job = facts.job
    assert job is not None
    rows = job.kinds.filter(pl.col("kind").is_in(["all_reduce", "reduce_scatter"]) & pl.col("bytes").is_not_null())
    small = rows.filter((pl.col("bytes") <= limits.small_mib * 2**20) & (pl.col("bytes") > 0))
    many, spent = float(small["per_step"].sum()), float(small["transfer_ns"].sum())
    share = _share(job, spent)
    if share is None or many < limits.several or share < limits.step_percent:
        return None
    # without large ones nothing tells how fast they would be: all of it is at stake
    large = rows.filter(pl.col("bytes") > limits.small_mib * 2**20)["algbw_gbps"].max()
    best = float(large) if large is not None else None  # type: ignore[arg-type]
    ideal = float((small["bytes"] * small["per_step"]).sum()) / best if best else 0.0
    saved = max(spent - ideal, 0.0)
    size = float((small["bytes"] * small["per_step"]).sum()) / many
    return Finding(
        "S22",
        gain.severity(_share(job, saved)),
        f"{words.count(many)} collectives per step of {words.size(size)} on average:"
        f" {_most(job)}{words.percent(share)} of the step goes into small transfers",
        (
            Evidence("transfers, per step", spent, "ns", Query("ranks:transfers")),
            Evidence("per step", many, "", Query("ranks:transfers")),
            *(
                []
                if best is None
                else [Evidence("bandwidth of larger ones", best * 1e9, "byte/s", Query("ranks:transfers"))]
            ),
        ),
        f"{words.ns(spent)} of {words.ns(job.step_ns or 0.0)} = {words.percent(share)}"
        + (f"; at {words.number(best)} GB/s they would take {words.ns(ideal)}" if best else ""),
        f"{words.number(limits.several)} collectives per step of {words.number(limits.small_mib)} MiB or less, in"
        f" {words.percent(limits.step_percent)} of the step",
        "DistributedDataParallel: a larger bucket_cap_mb (25 MiB is the default), gradient_as_bucket_view=True; with"
        " many small parameters, flatten or fuse them; gradients of several micro-batches in one step with no_sync().",
        impact_ns=saved,
        ceiling_percent=_share(job, saved),
    )


@rule(
    "S23",
    "Gathers of parameters that no computation hides",
    needs=("collectives",),
    rests_on=("gpu",),
    thresholds={
        "exposed_percent": Threshold(50, "%", "of the gathers' transfers, while their GPU computes nothing", own=True),
        "step_percent": Threshold(5, "%", "of the step in such transfers", own=True),
    },
    advice="Prefetch the next unit's parameters.",
)
def gathers_not_prefetched(facts: Facts, limits: Limits) -> Finding | None:
    """All-gathers begin only when their GPU has nothing left to compute: FSDP did not prefetch.

    Counted is the transfer, not the waiting: of each gather, what is exposed of its median rank, at most as long as its
    shortest call.
    """
    job = facts.job
    assert job is not None
    rows = job.collectives.filter((pl.col("kind") == "all_gather") & pl.col("exposed_ns").is_not_null())
    if not rows.height:
        return None
    steps = job.called_steps
    moved = float(rows["transfer_ns"].sum()) / steps
    bare = float(rows.select(pl.min_horizontal("exposed_ns", "transfer_ns").sum()).item()) / steps
    share = _share(job, bare)
    if share is None or share < limits.step_percent or not moved or 100 * bare / moved < limits.exposed_percent:
        return None
    return Finding(
        "S23",
        gain.severity(share),
        f"All-gathers are not prefetched: {words.percent(100 * bare / moved)} of their transfer is exposed,"
        f" {_most(job)}{words.percent(share)} of the step",
        (
            Evidence("exposed transfers, per step", bare, "ns", Query("ranks:transfers")),
            Evidence("all-gathers per step", rows.height / steps, "", Query("ranks:transfers")),
        ),
        f"{words.ns(bare)} of {words.ns(moved)} exposed; of a step of {words.ns(job.step_ns or 0.0)} ="
        f" {words.percent(share)}",
        f"{words.percent(limits.exposed_percent)} of the gathers, {words.percent(limits.step_percent)} of the step",
        "FSDP: forward_prefetch=True and BACKWARD_PRE, FSDP2: set_modules_to_forward_prefetch and"
        " set_modules_to_backward_prefetch; limit_all_gathers=False where there is memory; units of like size.",
        impact_ns=bare,
        ceiling_percent=share,
    )


@rule(
    "S24",
    "Uneven all-to-all",
    needs=("collectives",),
    rests_on=("gpu",),
    thresholds={
        "uneven_percent": Threshold(
            20, "%", "(largest − mean) / largest of the bytes that ranks send, or get", own=True
        ),
        "step_percent": Threshold(2, "%", "of the step in all-to-all (as K14)", own=True),
    },
    advice="Balance what ranks send.",
)
def uneven_all_to_all(facts: Facts, limits: Limits) -> Finding | None:
    """Some ranks send, or get, far more than others in all-to-all, as with experts that get most tokens.

    All wait for the largest: at stake is the transfer times the imbalance, (largest - mean) / largest, over all
    matched calls that say their bytes. Beside it stands how uneven the GPU work before these calls is, and what ranks
    wait in them for those that come later.
    """
    job = facts.job
    assert job is not None
    found = uneven_of(job)
    if found is None:
        return None
    share = _share(job, found.transfer_ns)
    if found.percent < limits.uneven_percent or share is None or share < limits.step_percent:
        return None
    saved = found.transfer_ns * found.percent / 100
    return Finding(
        "S24",
        gain.severity(_share(job, saved)),
        f"All-to-all is uneven: rank {found.rank} {'gets' if found.gets else 'sends'} most,"
        f" {words.size(found.largest)} per call where the mean is {words.size(found.mean)}",
        (
            Evidence("transfers, per step", found.transfer_ns, "ns", Query("ranks:transfers")),
            Evidence("imbalance of bytes", found.percent, "%", Query("ranks:transfers")),
            *(
                [Evidence("imbalance of GPU work before them", found.own_percent, "%", Query("ranks"))]
                if found.own_percent is not None
                else []
            ),
            Evidence("waiting in them, mean of ranks, per step", found.wait_ns, "ns", Query("ranks:waiting")),
        ),
        f"({words.size(found.largest)} - {words.size(found.mean)}) / {words.size(found.largest)} ="
        f" {words.percent(found.percent)}",
        f"{words.percent(limits.uneven_percent)}, in {words.percent(limits.step_percent)} of the step",
        "Balance the experts (a load-balancing loss, a capacity factor, other placement), or the tokens per rank.",
        impact_ns=saved,
        ceiling_percent=_share(job, saved),
    )
