"""Rules on work of several GPUs: communication, late and missing ranks, stages of a pipeline, transfers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
from msgspec import Struct, structs

from tracetui.analysis.base import intervals, names
from tracetui.analysis.base.names import rows_of
from tracetui.analysis.base.number_format import spans
from tracetui.analysis.findings.core import basis, gain, program, words
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Evidence, Finding, Query, evidence
from tracetui.analysis.findings.declared.gpu import S14
from tracetui.analysis.findings.declared.host import F19
from tracetui.analysis.findings.declared.jobs import S20, S21, S22, S23, S24, S25, S26, S36, V30
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.gpu.activities import activities, distinct
from tracetui.analysis.gpu.steps import step_slots
from tracetui.analysis.ranks import sentences
from tracetui.analysis.ranks.job import Job
from tracetui.analysis.ranks.job import uneven_all_to_all as uneven_of
from tracetui.analysis.ranks.late import LEAST_PERCENT, STEP_PERCENT, Late, Turns
from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.collectives import NCCL

_WHAT_TO_DO = {
    "gpu_work": "Give every rank the same work: look for what only this rank computes there (evaluation, logging,"
    " an uneven split of layers or experts).",
    "larger": "Give every rank the same share: batches of one size, sequences padded or packed alike.",
    "slow_gpu": "Compare clocks, temperature and power of its GPU with the others' (nvidia-smi -q -d"
    " CLOCK,PERFORMANCE), and look for other processes on it.",
    "copies": "Look for what only this rank copies: checkpoints, metrics, a batch that others keep on the GPU.",
    "loader": "Look at this rank's loader: more workers, its share of the files, its disk or network.",
    "collection": "Collect garbage on all ranks at the same step (gc.disable(), then gc.collect() every some hundred"
    " steps), so that they pause together.",
    "pause": "Record with stacks, or with nsys, to see what the host did there; gc.disable() in the loop tells whether"
    " it is garbage collection.",
    "host": "Take it out of the step, or let a thread do it: nothing is launched meanwhile, and all other ranks wait.",
}
_NO_REASON = "Open this rank, and compare it with the median one."


def _job(facts: Facts) -> Job:
    assert facts.job is not None  # guaranteed by the needs "ranks" and "collectives"
    return facts.job


@looks_for(S20)
def late_in_program(facts: Facts, _: Limits) -> list[Finding]:
    job = _job(facts)
    turns = job.answers.turns
    found = [_late(facts, one, job) for one in job.answers.program[: sentences.NAMED]]
    return found + ([_in_turn(turns, job)] if turns is not None else [])


def _in_turn(turns: Turns, job: Job) -> Finding:
    bound = gain.of_share(turns.lost_ns, job.step_ns or 0.0)
    found = bound.finding(
        f"Ranks are late in turn: {words.ns(turns.lost_ns)} of a step is lost to {_PARTS[turns.part]} of"
        f" {words.things(len(turns.ranks), 'rank')}, one after the other",
        tuple(
            Evidence(f"lost by rank {rank}, per step", ns, "ns", Query("ranks"))
            for rank, ns in turns.ranks[: sentences.MOST_SPOKEN]
        ),
        words.part_of(turns.lost_ns, job.step_ns or 0.0, bound.ceiling_percent or 0.0),
        threshold=f"{STEP_PERCENT:.0f} % of the step, by three ranks or more, of which none is late on average",
        advice=_IN_TURN[turns.part],
    )
    return replace(found, impact_of="mean_step")


_IN_TURN = {
    "gpu": "Even the work out within each step: sort or pack sequences, or balance experts, so that no rank has a large"
    " share at any time.",
    "silent": "Let all ranks stop together: gc.disable(), then gc.collect() at the same step on every rank; and look"
    " what else runs on their hosts.",
    "loader": "Give the loaders more workers or a longer queue (prefetch_factor), which a slow batch does not empty.",
}


def _late(facts: Facts, late: Late, job: Job) -> Finding:
    once = sentences.stopped_once(late)
    step = (job.step_ns if once else None) or facts.page_step.ns
    named = late.named_ns
    bound = gain.of_share(named, step)
    path = job.path.filter(pl.col("rank") == late.rank)["percent"]
    cause = late.cause
    per = "per step" if job.step_count else "in the recording"
    on_path = float(path[0] or 0.0) if len(path) else 0.0
    found = bound.finding(
        f"Rank {late.rank} is late in the program: {sentences.late_words(late, job)}",
        evidence(
            *(
                (f"{'more' if ns > 0 else 'less'} {_PARTS[name]}, {per}", abs(ns) or None, "ns", Query("ranks"))
                for name, ns in late.parts.items()
            ),
            (f"excess over the median rank, {per}", late.late_ns or None, "ns", Query("ranks")),
            ("in", cause.name or None if cause is not None else None),
            ("last to arrive", f"{late.last} of {late.of} collectives", "", Query("ranks:arrivals")),
            ("the recording's critical path across ranks", on_path or None, "%", Query("ranks:waiting")),
        ),
        f"{_sum(late)} over the median rank; at stake {words.part_of(named, step, bound.ceiling_percent)}"
        if bound.ceiling_percent is not None
        else "",
        threshold=f"{STEP_PERCENT:.0f} % of the step, or {LEAST_PERCENT:.0f} % of it that are far beyond the"
        " median rank's own GPU work",
        advice=_WHAT_TO_DO.get(cause.kind if cause is not None else "", _NO_REASON),
    )
    return replace(found, impact_of="mean_step") if once else found


_PARTS = {"gpu": "GPU work", "silent": "silent host time", "loader": "waiting for data"}


def _sum(late: Late) -> str:
    """``12.27 ms silent host time - 1.860 ms GPU work = 10.42 ms``."""
    parts = [(name, ns) for name, ns in late.parts.items() if round(ns)]
    parts.sort(key=lambda part: -part[1])
    text = "".join(f" {'+' if ns > 0 else '-'} {words.ns(abs(ns))} {_PARTS[name]}" for name, ns in parts)
    text = text.removeprefix(" + ")
    return f"{text} = {words.ns(late.late_ns)}" if len(parts) > 1 else text


@looks_for(S21)
def late_in_recording(facts: Facts, _: Limits) -> Finding | None:
    job = _job(facts)
    late = job.answers.recording
    if late is None or any(one.rank == late.rank for one in job.answers.program):
        return None
    if late.untold_ns <= 0.5 * late.late_ns:
        return None
    per = "per step" if job.step_count else "in the recording"
    return Finding(
        "info",
        f"Rank {late.rank} comes last in this recording, to {late.last} of {late.of} collectives; whether it does in"
        " the program can't be told",
        evidence(
            (f"after the median rank, {per}", late.late_ns, "ns", Query("ranks")),
            ("of it unexplained", late.untold_ns, "ns", Query("ranks:arrivals")),
            ("step without a profiler", job.clean_step_ns, "ns"),
            ("step as recorded", job.step_ns, "ns"),
        ),
        f"{words.ns(late.late_ns)} after the median rank; more GPU work {words.ns(late.gpu_ns)}, more silent host time"
        f" {words.ns(late.silent_ns)}",
        threshold=f"{STEP_PERCENT:.0f} % of the step, and more than half of it unexplained",
    )


@looks_for(S36)
def slow_links(facts: Facts, _: Limits) -> list[Finding]:
    job = _job(facts)
    found = []
    for row, text in zip(job.links.iter_rows(named=True), sentences.link_words(job)[: sentences.NAMED], strict=False):
        bound = gain.of_share(row["more_ns"], facts.page_step.ns)
        by_size = row["usual_ns"] == row["most_ns"]
        of = f"its bytes over {row['link']}, at most" if by_size else "the median of its like"
        found.append(
            bound.finding(
                text.removesuffix("."),
                evidence(
                    ("its median transfer", row["transfer_ns"], "ns", Query("ranks:transfers")),
                    (of, row["usual_ns"], "ns", Query("ranks:transfers")),
                    ("transfers per step", row["per_step"], "", Query("ranks:transfers")),
                    ("its bandwidth", row["busbw_gbps"] and row["busbw_gbps"] * 1e9, "byte/s"),
                    (
                        "bandwidth at that time" if by_size else "bandwidth of the others",
                        row["usual_busbw_gbps"] and row["usual_busbw_gbps"] * 1e9,
                        "byte/s",
                    ),
                ),
                f"{words.number(row['per_step'])} × ({words.ns(row['transfer_ns'])} - {words.ns(row['usual_ns'])})",
                threshold=f"1.5 times as long as {of}, and 2 % of the step more",
            )
        )
    return found


@looks_for(S25)
def bubbles(facts: Facts, limits: Limits) -> Finding | None:
    job = _job(facts)
    stages = job.pipeline.drop_nulls(["bubble_percent", "micro_batches"])
    if not stages.height:
        return None
    share, many = float(stages["bubble_percent"].median() or 0.0), float(stages["micro_batches"][0])  # type: ignore[arg-type]
    ideal, step = float(stages["ideal_percent"][0]), facts.page_step.ns
    if share < limits.bubble_percent:
        return None
    count = stages.height
    halved = 100 * (count - 1) / (2 * many + count - 1)
    bound = gain.of_share((ideal - halved) / 100 * step, step)
    beyond = f", {words.percent(share - ideal)} beyond it" if share - ideal > limits.bubble_percent / 2 else ""
    return bound.finding(
        f"Pipeline bubbles: a stage computes nothing for {words.percent(share)} of the recorded step; with"
        f" {words.number(many)} micro-batches {count} stages can't do with less than {words.percent(ideal)}{beyond}",
        tuple(
            Evidence(f"bubble of stage {row['stage']}", row["bubble_percent"], "%", Query("ranks:stages"))
            for row in stages.head(8).iter_rows(named=True)
        ),
        f"({count} - 1) / ({words.number(many)} + {count} - 1) = {words.percent(ideal)}; with twice the micro-batches"
        f" {words.percent(halved)}",
    )


@looks_for(S26)
def uneven_stages(facts: Facts, limits: Limits) -> Finding | None:
    job = _job(facts)
    stages = job.pipeline.drop_nulls("own_gpu_ns").sort("own_gpu_ns", descending=True)
    if stages.height < 2:
        return None
    most, mean = float(stages["own_gpu_ns"][0]), float(stages["own_gpu_ns"].mean() or 0.0)  # type: ignore[arg-type]
    uneven = 100 * (most - mean) / most if most else 0.0
    if uneven < limits.uneven_percent:
        return None
    every = stages.sort("stage").select(pl.col("stage", "own_gpu_ns")).head(8)
    return gain.of_share(most - mean, facts.page_step.ns).finding(
        f"Stage {stages['stage'][0]} of the pipeline has most work: {words.ns(most)} per step where the mean is"
        f" {words.ns(mean)}",
        tuple(
            Evidence(f"own GPU work of stage {row['stage']}", row["own_gpu_ns"], "ns", Query("ranks:stages"))
            for row in every.iter_rows(named=True)
        ),
        f"({words.ns(most)} - {words.ns(mean)}) / {words.ns(most)} = {words.percent(uneven)}",
    )


def _most(job: Job) -> str:
    """Before a share of transfers: with ranks missing, what is waiting for these counts, too."""
    return "at most " if job.bounded else ""


def _share(facts: Facts, ns: float) -> float | None:
    return basis.shown(facts).share(ns)


@looks_for(S22)
def small_messages(facts: Facts, limits: Limits) -> Finding | None:
    job = _job(facts)
    rows = job.kinds.filter(pl.col("kind").is_in(["all_reduce", "reduce_scatter"]) & pl.col("bytes").is_not_null())
    small = rows.filter((pl.col("bytes") <= limits.small_mib * 2**20) & (pl.col("bytes") > 0))
    many, spent = float(small["per_step"].sum()), float(small["transfer_ns"].sum())
    share = _share(facts, spent)
    if share is None or many < limits.several or share < limits.step_percent:
        return None
    # without large ones nothing tells how fast they would be: all of it is at stake
    large = rows.filter(pl.col("bytes") > limits.small_mib * 2**20)["algbw_gbps"].max()
    best = float(large) if large is not None else None  # type: ignore[arg-type]
    ideal = float((small["bytes"] * small["per_step"]).sum()) / best if best else 0.0
    saved = max(spent - ideal, 0.0)
    size = float((small["bytes"] * small["per_step"]).sum()) / many
    return gain.of_share(saved, facts.page_step.ns).finding(
        f"{words.count(many)} collectives per step of {words.size(size)} on average:"
        f" {_most(job)}{words.percent(share)} of the step goes into small transfers",
        evidence(
            ("transfers, per step", spent, "ns", Query("ranks:transfers")),
            ("per step", many, "", Query("ranks:transfers")),
            ("bandwidth of larger ones", best and best * 1e9, "byte/s", Query("ranks:transfers")),
        ),
        f"{words.part_of(spent, facts.page_step.ns, share)}"
        + (f"; at {words.number(best)} GB/s they would take {words.ns(ideal)}" if best else ""),
    )


@looks_for(S23)
def gathers_not_prefetched(facts: Facts, limits: Limits) -> Finding | None:
    job = _job(facts)
    rows = job.collectives.filter((pl.col("kind") == "all_gather") & pl.col("exposed_ns").is_not_null())
    if not rows.height:
        return None
    steps = job.called_steps
    moved = float(rows["transfer_ns"].sum()) / steps
    bare = float(rows.select(pl.min_horizontal("exposed_ns", "transfer_ns").sum()).item()) / steps
    share = _share(facts, bare)
    if share is None or share < limits.step_percent or not moved or 100 * bare / moved < limits.exposed_percent:
        return None
    return gain.of_share(bare, facts.page_step.ns).finding(
        f"All-gathers are not prefetched: {words.percent(100 * bare / moved)} of their transfer is exposed,"
        f" {_most(job)}{words.percent(share)} of the step",
        (
            Evidence("exposed transfers, per step", bare, "ns", Query("ranks:transfers")),
            Evidence("all-gathers per step", rows.height / steps, "", Query("ranks:transfers")),
        ),
        f"{words.ns(bare)} of {words.ns(moved)} exposed; of a step of {words.ns(facts.page_step.ns)} ="
        f" {words.percent(share)}",
    )


@looks_for(S24)
def uneven_all_to_all(facts: Facts, limits: Limits) -> Finding | None:
    job = _job(facts)
    found = uneven_of(job)
    if found is None:
        return None
    share = _share(facts, found.transfer_ns)
    if found.percent < limits.uneven_percent or share is None or share < limits.step_percent:
        return None
    return gain.of_share(found.transfer_ns * found.percent / 100, facts.page_step.ns).finding(
        f"All-to-all is uneven: rank {found.rank} {'gets' if found.gets else 'sends'} most,"
        f" {words.size(found.largest)} per call where the mean is {words.size(found.mean)}",
        evidence(
            ("transfers, per step", found.transfer_ns, "ns", Query("ranks:transfers")),
            ("imbalance of bytes", found.percent, "%", Query("ranks:transfers")),
            ("imbalance of GPU work before them", found.own_percent, "%", Query("ranks")),
            ("waiting in them, mean of ranks, per step", found.wait_ns, "ns", Query("ranks:waiting")),
        ),
        f"({words.size(found.largest)} - {words.size(found.mean)}) / {words.size(found.largest)} ="
        f" {words.percent(found.percent)}",
    )


@looks_for(V30)
def not_whole(facts: Facts, limits: Limits) -> Finding | None:
    from tracetui.analysis.ranks.matched import COALESCED

    job = _job(facts)
    # operations that share a kernel can't be told apart on any rank, whatever was recorded
    apart_from_those = job.unmatched.filter(pl.col("reason") != COALESCED)
    lost = int(apart_from_those["count"].sum()) if apart_from_those.height else 0
    whole = lost + job.calls.height
    apart = whole > 0 and 100 * lost / whole > limits.unmatched_percent
    marked = job.steps.filter(pl.col("step") >= 0).group_by("rank").agg("step").sort("rank").rows()
    alike = not marked or set.intersection(*(set(steps) for _, steps in marked))
    odd = apart or job.strange or job.distant or job.copies or not alike
    if not odd and not job.missing:
        return None
    said = [f"rank {rank}'s recording is rank {first}'s" for rank, first in job.copies.items()]
    if job.distant:
        said.append(sentences.distant_words(job).removesuffix("."))
    if not alike:
        said.append(
            "no step is on all ranks: " + words.listed([f"rank {rank} has {spans(of)}" for rank, of in marked], 4)
        )
    if job.strange:
        said.append(f"ranks {spans(job.strange)} are of another job")
    if job.missing:
        here = spans(job.ranks["rank"].to_list())
        said.append(f"{words.count(job.here)} of {words.count(job.world_size)} ranks are here ({here})")
    if apart:
        said.append(f"{words.count(lost)} of {words.count(whole)} calls of collectives match no other rank's")
    return Finding(
        "invalid" if job.apart else "warning" if odd else "info",
        "; ".join(said),
        evidence(
            ("missing ranks", spans(job.missing) if job.missing else None, "", Query("ranks")),
            ("calls that were matched", job.calls.height),
            ("calls that were not", lost),
        ),
        f"{words.count(lost)} of {words.count(whole)} calls",
        advice="Open the recordings of each job by themselves." if job.apart or job.strange or job.distant else "",
        doubts=None if job.apart else (),
    )


class Talk(Struct, frozen=True):
    """What a GPU communicates, per step."""

    gpu: int
    ns: float
    """The time in which a collective runs."""
    exposed_ns: float
    """The part of it in which this GPU computes nothing."""


def talks(facts: Facts) -> list[Talk]:
    """The GPUs that communicate, the most exposed first.

    A GPU's collectives are compared with its own kernels only: what another GPU computes hides nothing. Copies and
    fills do not count as work that hides them.
    """
    base = basis.shown(facts)
    work = activities(base.sel)
    slots = step_slots(base.sel)
    device = work.column("device")
    talking = work.kernel & names.matching(work.frame["name"], _talks)
    found = []
    for gpu in distinct(device[talking]):
        here = device == gpu
        talk, compute = (
            intervals.union(work.start[here & rows], work.end[here & rows])
            for rows in (talking, work.compute & ~talking)
        )
        parts = (talk, intervals.subtract(talk, compute))
        whole, alone = (float(np.sum(intervals.covered(part, slots.start, slots.end))) for part in parts)
        if whole:
            found.append(Talk(gpu, base.of_step(whole), base.of_step(alone)))
    return sorted(found, key=lambda talk: -talk.exposed_ns)


def _talks(name: str) -> bool:
    return kernel_names.category(name) == "communication"


@looks_for(S14)
def exposed_communication(facts: Facts, limits: Limits) -> Finding | None:
    found = talks(facts)
    base = basis.shown(facts)
    share = base.share(found[0].exposed_ns) if found else None
    if share is None or share < limits.exposed_percent:
        return None
    worst = found[0]
    rows = facts.launches["row"].to_numpy()[names.matching(facts.launches["name"], _talks)].astype(np.int64)
    why = f"{words.ns(worst.exposed_ns)} of it is exposed"
    bound = gain.limited(gain.of_kernels(facts, rows), worst.exposed_ns, base.step_ns, why)
    bound = structs.replace(bound, least_ns=0.0, sure_percent=0.0)  # it may be waiting for ranks that come later
    if waits := _waits_ns(facts):
        why = f"{words.ns(waits)} of {words.ns(worst.ns)} in collectives is waiting for ranks that come later"
        bound = gain.limited(bound, max(worst.ns - waits, 0.0), base.step_ns, why)
    where = f" on GPU {worst.gpu}" if len(found) > 1 else ""
    return bound.finding(
        f"Hide communication: {words.percent(share)} of {base.span} is communication alone{where}",
        (
            *(
                Evidence(
                    f"exposed on GPU {talk.gpu}, {program.per(facts)}",
                    talk.exposed_ns,
                    "ns",
                    Query("kernels", "communication"),
                )
                for talk in found[:4]
            ),
            Evidence("collectives there", worst.ns, "ns", Query("kernels", "communication")),
            Evidence("hidden by computation", 100 * (1 - worst.exposed_ns / worst.ns), "%", Query("timeline")),
        ),
        f"{words.part_of(worst.exposed_ns, base.step_ns, share)}; without collectives: {bound.why}",
        advice=facts.program.say(
            pytorch="DistributedDataParallel: other bucket_cap_mb, gradient_as_bucket_view=True, no_sync() while"
            " gradients are accumulated, the bf16_compress_hook; FSDP: prefetch forward and backward, larger units.",
            jax="XLA's latency-hiding scheduler and collective pipelining (xla_gpu_enable_latency_hiding_scheduler)"
            " start collectives early; other shardings move fewer bytes.",
            other="Give NCCL (RCCL) a stream of its own, split the work so that a part can be sent while the next is"
            " computed, and send a smaller type.",
        )
        + " First open the recordings of all ranks together: if one comes late, its own work is what to shorten.",
    )


def _waits_ns(facts: Facts) -> float:
    """What this rank waits per step in collectives for others, where all ranks are known and the page is of them."""
    if facts.job is None or not basis.is_verdicts(facts):
        return 0.0
    waits = facts.job.ranks.filter(pl.col("rank") == facts.trace.info.rank)["wait_ns"].drop_nulls()
    return float(waits[0]) if len(waits) else 0.0


_ONE_PROCESS, _PER_GPU = "DataParallel.forward", "DistributedDataParallel.forward"
"""What torch calls its two wrappers around a model."""


@looks_for(F19)
def slow_parallelism(facts: Facts, _: Limits) -> Finding | None:
    calls = rows_of(facts.sel.host.select("kind", "name"), "operator", "annotation")["name"]
    gpus = sorted(facts.launches["device"].drop_nulls().unique().to_list())
    if len(gpus) > 1 and (seen := int(names.matching(calls, _ONE_PROCESS.__eq__).sum())):
        return Finding(
            "warning",
            f"DataParallel: one process launches the work of {len(gpus)} GPUs",
            (Evidence(_ONE_PROCESS, seen), Evidence("GPUs used", words.listed([str(gpu) for gpu in gpus]))),
            f"{words.things(seen, 'call')} of {_ONE_PROCESS}, kernels on {len(gpus)} GPUs",
            advice="Use DistributedDataParallel, with a process per GPU (torchrun --nproc-per-node=N): it copies no"
            " model in the step, and each process launches for its own GPU.",
        )
    wrapped = int(names.matching(calls, _PER_GPU.__eq__).sum())
    through_host = int(names.matching(calls, lambda name: name.startswith("gloo:")).sum())
    by_nccl = names.matching(calls, lambda name: name.startswith(NCCL)).any()
    by_nccl |= names.matching(facts.launches["name"], _talks).any()
    if not wrapped or not through_host or by_nccl:
        return None
    return Finding(
        "warning",
        "DistributedDataParallel over gloo: the gradients go through the host",
        (Evidence(_PER_GPU, wrapped), Evidence("gloo collectives", through_host, "", Query("host", "gloo:"))),
        f"{words.things(through_host, 'call')} of gloo:…, no NCCL kernel",
        advice='Use NCCL: torch.distributed.init_process_group("nccl") sums gradients between the GPUs, beside the'
        " backward pass.",
    )
