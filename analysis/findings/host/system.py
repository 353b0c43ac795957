"""Rules on bottlenecks outside the kernels: an idle GPU, the data loader, chains of small kernels, too many threads."""

from __future__ import annotations

import re
from statistics import median

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracetui.analysis.base import intervals, names
from tracetui.analysis.findings.core import basis, gain, program, words
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import (
    HEADLINE,
    NO_ACT,
    Abstention,
    Evidence,
    Finding,
    Query,
    Severity,
    evidence,
)
from tracetui.analysis.findings.core.where import workers
from tracetui.analysis.findings.declared.host import S1, S5, S6, S12, S18
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.gpu.steps import step_slots
from tracetui.parsers.arrays import Bools
from tracetui.parsers.names import kernel_names


@looks_for(S1)
def gpu_not_the_limit(facts: Facts, limits: Limits) -> Finding | None:
    if facts.model is not None and facts.model.waits_for != "host":
        return None
    idle_ns, step_ns = basis.idle_ns(facts), facts.page_step.ns
    share = 100 * min(idle_ns, step_ns) / step_ns if step_ns > 0 else None
    by_graph = program.graph_percent(facts)
    limit = limits.idle_percent_graphs if by_graph > 50 else limits.idle_percent
    if share is None or share <= limit:
        return None
    return Finding(
        "info",
        f"The GPU is not the limit: it has nothing to do for {words.percent(share)} of {basis.shown(facts).span}",
        (
            Evidence("GPU idle", idle_ns, "ns", Query("host:gaps")),
            Evidence(basis.shown(facts).span.removeprefix("the "), step_ns, "ns", Query("timeline")),
            Evidence("verdict", facts.verdict.sentence),
            *(
                Evidence(f"{row['category']}, of the step", row["percent"], "%")
                for row in facts.page_step.average.drop_nulls("ns")
                .sort("ns", descending=True)
                .head(3)
                .iter_rows(named=True)
            ),
        ),
        f"{words.ns(idle_ns)} idle of {words.ns(step_ns)} = {words.percent(share)} of {basis.shown(facts).span}",
        threshold=f"idle above {words.percent(limit)} of the step" + (" (CUDA graphs)" if by_graph > 50 else ""),
        aside=HEADLINE,
    )


NO_WORK = "no GPU work was recorded that could hide it"


def _loader_on_path(facts: Facts) -> Query:
    """The critical path, and there the loader if the path runs through it."""
    there = facts.path is not None and "loader" in facts.path.resources["resource"]
    return Query("host:critical path", row="loader" if there else "")


@looks_for(S5)
def loader_bound(facts: Facts, limits: Limits) -> Finding | None:
    found = facts.loader
    bound = None
    if found and facts.model:
        bound = gain.of_host_time(facts, found.waits)
    elif found and facts.verdict.why == "no_gpu":  # nothing hides it
        bound = replace(gain.of_share(basis.loading_ns(facts), facts.page_step.ns), why=NO_WORK, host=found.waits)
    share = bound.ceiling_percent if bound else None
    if found is None or bound is None or share is None or share < limits.share_percent:
        return None
    sure = (bound.sure_percent or 0.0) >= limits.critical_percent
    loud: Severity = "critical" if share >= limits.critical_percent and sure else "warning"
    busy = f"; {workers(facts)}" if workers(facts) else ""
    return bound.finding(
        f"Load data faster: the wait for it is {words.percent(share)} of {basis.host_span(facts)}{busy}",
        (
            Evidence("waits for data, GPU idle", found.exposed_ns, "ns", Query("host:gaps")),
            Evidence("waits for data, all", found.waited_ns, "ns", _loader_on_path(facts)),
            Evidence(basis.recorded_span(facts).removeprefix("the "), facts.step_ns, "ns", Query("timeline")),
            Evidence("seen as", found.name),
        ),
        f"{words.ns(bound.ns)} = {words.percent(share)}; {bound.why}; waits of {words.ns(found.waited_ns)} in all"
        + basis.as_recorded(facts),
        severity=loud if share >= limits.warning_percent else "info",
        advice=_loader_advice(facts, in_main_process=found.in_main_process),
    )


def _loader_advice(facts: Facts, *, in_main_process: bool) -> str:
    workers = (
        "The batch is made by the process that trains (num_workers=0). Give the DataLoader num_workers=4 or more and"
        " persistent_workers=True"
        if in_main_process
        else "Raise num_workers and prefetch_factor, and keep persistent_workers=True"
    )
    return facts.program.say(
        pytorch=f"{workers}; use pin_memory=True with .to(device, non_blocking=True); move decoding and augmentation to"
        " the GPU (DALI, torchvision's v2 transforms on tensors), or cache the decoded data.",
        jax="Make the next batch on other processes (grain, tf.data with prefetch) and put it on the GPU"
        " (jax.device_put) while this one computes; decode on the GPU (DALI), or cache the decoded data.",
        other="Read and prepare the next batch on threads of its own while this one computes, into pinned memory, and"
        " copy it on a stream of its own; or cache the prepared data.",
    )


@looks_for(S6)
def loader_irrelevant(facts: Facts, limits: Limits) -> Finding | None:
    found = facts.loader
    share = facts.ceiling(found.waited_ns) if found else None
    if found is None or share is None or share >= limits.share_percent:
        return None
    return Finding(
        "info",
        f"The data loader does not matter: the wait for data is {words.percent(share)} of {basis.recorded_span(facts)}",
        (
            Evidence("waits for data", found.waited_ns, "ns", _loader_on_path(facts)),
            Evidence(basis.recorded_span(facts).removeprefix("the "), facts.step_ns, "ns", Query("timeline")),
            Evidence("seen as", found.name),
        ),
        words.part_of(found.waited_ns, facts.step_ns, share),
        advice=facts.program.say(
            pytorch="Do not tune num_workers or prefetch_factor for this run: data is there when the step asks for it.",
            other="Do not tune the reading of data for this run: it is there when the step asks for it.",
        ),
        aside=NO_ACT,
    )


@looks_for(S12)
def many_small_kernels(facts: Facts, limits: Limits) -> Finding | None:
    if facts.trace.info.kind == "trtexec":
        return None  # its kernels are layers that TensorRT has fused already
    launched = facts.launches
    spent = launched["duration"].to_numpy()
    small = spent < 1000 * limits.kernel_us
    by_count, by_time = 100 * float(small.mean()), facts.share_of_kernels(float(spent[small].sum()))
    if by_count < limits.launches_percent or by_time is None or by_time < limits.time_percent:
        return None
    runs, spare = _rows_of_small(launched, small, int(limits.run))
    if not runs:
        return None
    spare &= names.matching(launched["name"], lambda name: kernel_names.category(name) not in _OWN_KERNEL)
    rows = launched["row"].to_numpy()[spare].astype(np.int64)
    bound = gain.of_kernels(facts, rows, fewer_launches=True)
    bound = replace(bound, claimed=bool(spare.any()), says_sure=False)
    proof = Query("kernels", f"mean_ns<{limits.kernel_us:g}us")
    each, of = (
        (facts.per_step(runs), f" {program.per(facts)}") if facts.per_step(runs) >= 1 else (float(runs), " in all")
    )
    return bound.finding(
        f"Fuse small kernels: {words.percent(by_count)} of launches take less than {limits.kernel_us:g} µs",
        (
            Evidence("small kernels, of launches", by_count, "%", proof),
            Evidence("small kernels, of kernel time", by_time, "%", proof),
            Evidence(f"kernels {program.per(facts)}", facts.per_step(spent.size), "", Query("kernels")),
            Evidence(f"launches {program.per(facts)} that fusing could spare", facts.per_step(int(spare.sum()))),
        ),
        f"{words.count(int(small.sum()))} of {words.count(spent.size)} launches = {words.percent(by_count)}, in"
        f" {words.things(each, 'chain')}{of}; "
        + (
            f"with one of each chain and the GEMMs left: {bound.why}" if spare.any() else "none that fusing could spare"
        ),
        advice=facts.program.say(
            pytorch="torch.compile fuses elementwise chains; foreach=True or fused=True the optimizer's. Use one wide"
            " GEMM in place of several narrow ones, a larger batch, and CUDA graphs for what is left.",
            jax="Keep what belongs together in one jit, so that XLA fuses it; one wide GEMM in place of several narrow"
            " ones; a larger batch makes each kernel worth its launch.",
            other="Put what follows one another in one kernel, process many small problems in one launch (a batched"
            " call, a grid over all of them), and launch what is left as a CUDA or HIP graph.",
        )
        if program.graph_percent(facts) <= 50
        else "CUDA graphs spare their launches already: use a larger batch, one wide GEMM in place of several narrow"
        " ones, or fuse what stands between them, so that each kernel does more than start and stop.",
    )


_OWN_KERNEL = frozenset({"gemm", "conv", "attention", "scan", "communication"})
"""Categories of kernels that fusing can't remove; they stay, whatever is fused into them."""


def _rows_of_small(launched: pl.DataFrame, small: Bools, least: int) -> tuple[int, Bools]:
    """The number of chains of at least this many small kernels on a stream, and which kernels are not the first."""
    lanes = (
        launched.select("device", "stream", small=pl.Series(small))
        .with_row_index("at")
        .with_columns(pl.col("small").rle_id().over("device", "stream").alias("run"))
        .filter("small")
        .with_columns(
            length=pl.len().over("device", "stream", "run"),
            place=pl.int_range(pl.len()).over("device", "stream", "run"),
        )
        .filter(pl.col("length") >= least)
    )
    spare = np.zeros(small.size, np.bool_)
    spare[lanes.filter(pl.col("place") > 0)["at"].to_numpy()] = True
    return lanes.filter(pl.col("place") == 0).height, spare


_WORK = ("operator", "runtime", "driver")
_WAITS = re.compile(
    r"Synchronize|^(cuda|hip)Memcpy(?!\w*Async)|wait|poll|sleep|^aten::(item|_local_scalar_dense)$", re.I
)
"""Calls in which a thread waits and needs no core."""


def cores(facts: Facts) -> tuple[int | None, str]:
    """How many cores the machine has, and who says so."""
    before = facts.manifest.power.before if facts.manifest is not None else None
    if before is not None and before.cpu is not None and before.cpu.online:
        return before.cpu.online, "run.json"
    told = dict(facts.trace.info.captured).get("CPU cores", "")
    return (int(told), "the file") if told.isdecimal() and len(told) < 10 and int(told) else (None, "")


def crowded_ns(facts: Facts, most: int) -> tuple[float, int]:
    """The time per step in which more than this many threads run operators or API calls, and the most that ever do."""
    host = facts.trace.host.filter(pl.col("kind").is_in(_WORK))
    slots = step_slots(facts.sel)
    if not host.height or not slots.start.size:
        return 0.0, 0
    busy = ~names.matching(host["name"], lambda name: _WAITS.search(name) is not None)
    running = []
    for calls in host.with_columns(busy=pl.Series(busy)).partition_by("process", "thread"):
        runs, waits = (_spans(calls.filter(chosen)) for chosen in (pl.col("busy"), ~pl.col("busy")))
        running.append(intervals.subtract(runs, waits))
    crowded = intervals.covered(intervals.overlapping(running, most + 1), slots.start, slots.end)
    return facts.per_step(float(np.sum(crowded))), int(intervals.at_once(running)[1].max(initial=0))


def _spans(calls: pl.DataFrame) -> intervals.Intervals:
    start = calls["start"].to_numpy()
    return intervals.union(start, start + calls["duration"].to_numpy())


def _load(facts: Facts) -> float | None:
    """The median over the samples of how many threads of the machine ran or wanted to; None if it was not sampled."""
    during = facts.manifest.power.during if facts.manifest is not None else ()
    loads = [state.cpu.load_1m for state in during if state.cpu is not None and state.cpu.load_1m is not None]
    return median(loads) if loads else None


@looks_for(S18)
def competing_threads(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    count, who = cores(facts)
    if count is None:
        return Abstention("the number of cores: launch with tracetui profile, or record with nsys")
    crowded, most = crowded_ns(facts, count)
    share = facts.ceiling(crowded) or 0.0
    load = _load(facts)
    loaded = load is not None and load > limits.load * count
    if share < limits.crowded_percent and not loaded:
        return None
    workload = facts.manifest.workload if facts.manifest is not None else None
    title = f"{words.number(load or 0)} threads want to run" if loaded else f"Up to {most} threads run at a time"
    return Finding(
        "warning",
        f"{title} on {words.things(count, 'core')}: the thread that launches work may wait for one",
        evidence(
            ("cores", count),
            ("cores told by", who),
            ("load during the run, median of a minute", load),
            ("recorded threads that run at a time, most", most, "", Query("host")),
            (f"more than the cores, {program.per(facts)}", crowded, "ns", Query("timeline")),
            ("threads of torch", workload.threads if workload is not None else None),
            ("processes of the data loader", workload.workers if workload is not None else None),
        ),
        f"{words.number(load) if load is not None else 'unknown'} load, {words.ns(crowded)} of"
        f" {words.ns(facts.step_ns)}{basis.as_recorded(facts)} = {words.percent(share)} with more than {count} threads",
        advice=facts.program.say(
            pytorch="torch.set_num_threads (OMP_NUM_THREADS) so that threads and loader workers together stay below the"
            " cores, one core left for the thread that launches; end other programs.",
            other="OMP_NUM_THREADS and your pools so that all threads together stay below the cores, one core left for"
            " the thread that launches; end other programs.",
        ),
    )
