"""Rules on what slows every step from beside it: modes, the collector's pauses, compiling."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace as with_fields
from functools import partial
from typing import NamedTuple

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracetui.analysis.attribution.calltree import parents_of, row_ids
from tracetui.analysis.attribution.module_tree import AUTOGRAD_TASK
from tracetui.analysis.attribution.operator_tree import scope_mask
from tracetui.analysis.attribution.place import around
from tracetui.analysis.base import intervals, names
from tracetui.analysis.base.names import of_kinds
from tracetui.analysis.dependencies.costs import Costs
from tracetui.analysis.findings.core import gain, program, words
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Evidence, Finding, Query
from tracetui.analysis.findings.core.gain import Gain
from tracetui.analysis.findings.declared.host import S32
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.gpu.step_kinds import COLLECTION
from tracetui.analysis.gpu.steps import step_slots
from tracetui.analysis.selection import step_at
from tracetui.parsers.arrays import Bools
from tracetui.parsers.names.people import without_home
from tracetui.parsers.nesting import nearest
from tracetui.parsers.runs.manifest import RunManifest

Ask = "Callable[[RunManifest], bool | None]"
MOST_PLACES = 4


class Mode(NamedTuple):
    """A mode of the process, and what of the recording is its doing."""

    is_on: Callable[[RunManifest], bool | None]
    """As run.json has it."""
    name: str
    """In a list of modes."""
    change: str
    """What to change, and why: the title of a finding."""
    advice: str
    cost: Callable[[Facts], Gain | None] = lambda _: None
    """What the step would be shorter without it; None where nothing shows it."""
    shows: bool = False
    """Whether the cost alone proves it, where run.json says nothing."""
    needless: bool = True
    """Whether it is for debugging alone."""


def _calls(facts: Facts, name: str, under: str = "", *, besides: str = "") -> Gain | None:
    """The gain without these calls, where they are directly below others, and the GPU work that they launch.

    Args:
        facts: of the recording.
        name: a pattern of host rows.
        under: a pattern of their parents; without one any will do.
        besides: a pattern of further rows, which count where there are any of the first.
    """
    host = facts.trace.host
    found = names.matching(host["name"], partial(_matches, name))
    if under:
        above = np.append(names.matching(host["name"], partial(_matches, under)), False)
        found &= above[parents_of(host)]
    found &= scope_mask(facts.sel)
    if not found.any():
        return None
    if besides:
        found |= names.matching(host["name"], partial(_matches, besides)) & scope_mask(facts.sel)
    return gain.of_host_rows(facts, found)


def _matches(pattern: str, name: str) -> bool:
    return bool(re.search(pattern, name))


def _python(facts: Facts) -> Gain | None:
    """The gain if Python itself took no time: the most that a tracer of its calls can cost."""
    host = facts.trace.host
    start = host["start"].to_numpy()
    end = start + host["duration"].to_numpy()
    code = of_kinds(host["kind"], "python", "module") & scope_mask(facts.sel)
    if not code.any():
        return None
    calls = of_kinds(host["kind"], "operator", "runtime", "driver")
    own = intervals.subtract(intervals.union(start[code], end[code]), intervals.union(start[calls], end[calls]))
    bound = gain.of_calls(facts, *own, np.empty(0, np.int64))
    return replace(bound, least_ns=0.0, sure_percent=0.0, why=f"{bound.why}: all of Python's own time")


LEAST_KERNEL_NS, LEAST_KERNELS, BLOCKED = 20_000, 10, 0.95
"""A launch of a kernel that takes as long as several launches do returns long before it ends; of so many kernels nearly
all must have ended when their launch returned."""


def _blocking(facts: Facts) -> Gain | None:
    """The gain if launches returned when their kernels begin; None where they return before these end."""
    model = facts.host_model
    if model is None:
        return None
    kernels = facts.recorded_launches.select("start", "duration", "launch").drop_nulls()
    kernels = kernels.filter(kernels["duration"] >= LEAST_KERNEL_NS)
    launch, host = kernels["launch"].to_numpy(), facts.trace.host
    returned = host["start"].to_numpy()[launch] + host["duration"].to_numpy()[launch]
    ended = (kernels["start"] + kernels["duration"]).to_numpy()
    if launch.size < LEAST_KERNELS or (returned >= ended).mean() < BLOCKED:
        return None
    calls, work = model.graph.calls, model.graph.work
    launched = work.call >= 0
    ran = intervals.union(work.start[launched], calls.end[work.call[launched]])
    waiting = intervals.covered(ran, calls.start, calls.end)
    called = np.unique(work.call[launched])

    def at_once(costs: Costs) -> Costs:
        call = costs.call.copy()
        call[called] = np.maximum(call - waiting, 0)[called]
        return with_fields(costs, call=call)

    return gain.of_change(model, at_once, " in which launches return when their kernels begin", ran)


def _searching(facts: Facts) -> Gain | None:
    """The gain without trying algorithms, which convolutions do until the last event that they wait for."""
    host, parent = facts.trace.host, parents_of(facts.trace.host)
    convolution = names.matching(host["name"], lambda name: bool(_CONVOLUTION.match(name)))
    waits = np.flatnonzero(names.matching(host["name"], lambda name: name.endswith("EventSynchronize")))
    waits = waits[scope_mask(facts.sel)[waits]]
    within = nearest(parent, convolution, waits)
    waits, within = waits[within >= 0], within[within >= 0]
    if not waits.size:
        return None
    start = host["start"].to_numpy()
    until = np.zeros(host.height, np.int64)
    np.maximum.at(until, within, start[waits] + host["duration"].to_numpy()[waits])
    launch = row_ids(facts.trace.device["launch"])
    tried = nearest(parent, until > 0, launch)
    rows = np.flatnonzero((tried >= 0) & (start[launch] < until[tried]))
    searching = np.unique(within)
    return gain.of_calls(facts, start[searching], until[searching], rows)


MANY_TIMES = 5.0
"""A first call with a shape that takes so many times as long as the next with the same shape prepares something."""


def _preparing(facts: Facts) -> Gain | None:
    """The gain if first calls with a shape took no longer than the next; None unless all steps but one have such."""
    host = facts.trace.host
    rows = np.flatnonzero(of_kinds(host["kind"], "operator") & scope_mask(facts.sel))
    if not rows.size or facts.sel.steps.height < 2:  # one step alone may be the first
        return None
    calls = host[rows].select("name", "input_shapes", "start", "duration")
    same = ["name", "input_shapes"]
    calls = calls.with_columns(
        row=pl.Series(rows), step=step_at(facts.sel.steps, calls["start"].to_numpy())
    ).drop_nulls()
    later = calls.sort("row").with_columns(number=pl.int_range(pl.len()).over(same))
    usual = later.filter(pl.col("number") > 0).group_by(same).agg(usual=pl.col("duration").median())
    first = later.filter(pl.col("number") == 0).join(usual, on=same)
    first = first.filter(pl.col("duration") > MANY_TIMES * pl.col("usual"))
    if first.height and _searching(facts) is not None:  # which is what they prepare
        return None
    if first.filter(pl.col("step") > pl.col("step").min())["step"].n_unique() < facts.sel.steps.height - 1:
        return None
    begin = first["start"] + first["usual"].round().cast(pl.Int64)
    end = first["start"] + first["duration"]
    return gain.of_calls(facts, begin.to_numpy(), end.to_numpy(), np.empty(0, np.int64))


_CONVOLUTION = re.compile(r"aten::(?:(?:cudnn|miopen)_convolution\w*|convolution_backward)$")

MODES: tuple[Mode, ...] = (
    Mode(
        lambda run: run.workload.modes.anomaly,
        "autograd's anomaly detection",
        "Switch off autograd's anomaly detection: each operator keeps a traceback",
        "Leave out torch.autograd.set_detect_anomaly and detect_anomaly: each operator stores a traceback, and the"
        " backward pass waits for the GPU to look for NaN. Switch it on for a few steps when a NaN has come.",
        # the search for NaN is autograd's alone; tracebacks are kept by others too
        lambda facts: _calls(facts, r"^aten::(isnan|_is_any_true|any|item)$", f"^{AUTOGRAD_TASK}",
                             besides=r"^(torch/fx/)?traceback\.py\(\d+\): format_stack$"),
        shows=True,
    ),
    Mode(
        lambda _: None,
        "saved tensors kept on the CPU",
        "Leave out save_on_cpu: what the backward pass needs is copied to the CPU and back",
        "Leave out torch.autograd.graph.save_on_cpu, or offloading of activations, where memory allows it; else offload"
        " fewer layers, in pinned memory and beside the computation, or checkpoint them.",
        lambda facts: _calls(facts, r"torch/autograd/graph\.py\(\d+\): (pack_to|unpack_from)_cpu$"),
        shows=True,
        needless=False,
    ),
    Mode(
        lambda run: run.workload.modes.launch_blocking,
        "CUDA_LAUNCH_BLOCKING",
        "Unset CUDA_LAUNCH_BLOCKING: each launch waits until its kernel ends",
        "Unset CUDA_LAUNCH_BLOCKING: it is for finding the launch that fails. The host then runs ahead of the GPU.",
        _blocking,
        shows=True,
    ),
    Mode(
        lambda run: run.workload.deterministic,
        "deterministic algorithms",
        "Switch off deterministic algorithms (torch.use_deterministic_algorithms)",
        "Leave out torch.use_deterministic_algorithms(True) where equal results of two runs are not needed, or at least"
        " set torch.utils.deterministic.fill_uninitialized_memory = False.",
        lambda facts: _calls(facts, r"^aten::(fill_|_?index_put_|_index_put_impl_)$",
                             r"^aten::(empty|resize_|new_empty|index_add|scatter|index_copy|put_)"),
        shows=True,
        needless=False,
    ),
    Mode(
        # on, it costs nothing where shapes stay
        lambda run: None if run.workload.cudnn_benchmark is not False else False,
        "torch.backends.cudnn.benchmark",
        "Pad to few sizes: cuDNN searches in each step, for each new shape",
        "Where sizes have to differ: torch.backends.cudnn.benchmark = False.",
        _searching,
        shows=True,
        needless=False,
    ),
    Mode(
        lambda _: None,
        "operators that prepare for each new shape",
        "Pad to few sizes: operators prepare themselves anew for each new shape",
        "Give a cache of keys and values its full length from the start, with a mask. Where sizes have to differ:"
        " torch.nn.attention.sdpa_kernel(SDPBackend.FLASH_ATTENTION) needs no plans.",
        _preparing,
        shows=True,
        needless=False,
    ),
    Mode(
        lambda run: run.workload.modes.uncached_memory,
        "no caching allocator (PYTORCH_NO_CUDA_MEMORY_CACHING)",
        "Unset PYTORCH_NO_CUDA_MEMORY_CACHING: the caching allocator is off",
        "Unset PYTORCH_NO_CUDA_MEMORY_CACHING: it is for hunting memory errors. Without it cudaMalloc and cudaFree,"
        " which wait for the GPU, are not called in every step.",
        lambda facts: _calls(facts, r"^(cuda|hip)(Malloc|Free)(Async)?$"),
    ),
    Mode(
        lambda run: run.workload.modes.python_profile,
        "sys.setprofile",
        "Leave out sys.setprofile: Python calls it for each call of a function",
        "Leave the profiler of Python out of the run (sys.setprofile(None)): a sampler such as py-spy costs next to"
        " nothing.",
        _python,
    ),
    Mode(
        lambda run: run.workload.modes.python_trace,
        "sys.settrace",
        "Leave out sys.settrace: Python calls it for each line",
        "Run without the debugger or coverage (sys.settrace(None)).",
        _python,
    ),
)  # fmt: skip
OTHERS: tuple[tuple[Callable[[RunManifest], bool | None], str], ...] = (
    (lambda run: run.workload.modes.cudnn_deterministic,
     "deterministic algorithms of cuDNN (torch.backends.cudnn.deterministic)"),
    (lambda run: run.workload.modes.torch_profiler, "a profiler of the program's own"),
    (lambda run: run.workload.modes.memory_history, "the history of memory (_record_memory_history)"),
    (lambda run: run.workload.modes.sync_debug, "torch.cuda.set_sync_debug_mode"),
    (lambda run: run.workload.modes.cpp_stacktraces, "TORCH_SHOW_CPP_STACKTRACES"),
    (lambda run: run.workload.modes.distributed_debug, "TORCH_DISTRIBUTED_DEBUG=DETAIL"),
    (lambda run: run.workload.modes.nccl_blocking, "TORCH_NCCL_BLOCKING_WAIT"),
    (lambda run: run.workload.modes.nccl_p2p_disabled, "NCCL_P2P_DISABLE"),
)  # fmt: skip
"""Modes that cost time which no recording shows."""


@looks_for(S32)
def slowing_modes(facts: Facts, limits: Limits) -> Iterator[Finding]:
    untold = [name for is_on, name in OTHERS if facts.manifest is not None and is_on(facts.manifest)]
    for mode in MODES:
        is_on = None if facts.manifest is None else mode.is_on(facts.manifest)
        looked = facts.host_model is not None and (is_on or (mode.shows and is_on is None))
        bound = mode.cost(facts) if looked else None
        if bound is None:
            untold += [mode.name] if is_on else []
        elif is_on or (bound.ceiling_percent or 0.0) >= limits.share_percent:
            source = "run.json" if is_on else "what was recorded"
            spent = Evidence(f"at most, {program.per(facts)}", bound.ns, "ns", Query("host:critical path"))
            seen = Evidence("seen in", source)
            yield bound.finding(mode.change, (seen, spent), bound.why, advice=mode.advice, first=mode.needless)
    if untold:
        yield Finding(
            "info",
            f"Modes that cost time are on: {words.listed(untold, 4)}",
            tuple(Evidence("on", name) for name in untold),
            "as the process had them while its steps ran; what they cost no recording shows",
            advice="Time some steps without them.",
        )
    yield from _collections(facts, limits)
    yield from _compilations(facts, limits)
    yield from _broken_graphs(facts)


def _broken_graphs(facts: Facts) -> Iterator[Finding]:
    """Where torch.compile broke its graphs, and what it compiled again, of which a recording of steps shows little."""
    told = None if facts.manifest is None else facts.manifest.measurement.compiled
    if told is None:
        return
    again = Counter[str | None]()
    for one in told.recompilations:
        again[one.at] += one.count
    # a program of a few sizes compiles each once, before its steps
    costs = max(again.values(), default=0) >= RECOMPILED or facts.trace.host["name"].filter(_compiling(facts)).len() > 0
    for places, title, advice in (
        (told.graph_breaks, "torch.compile breaks its graphs at {}", "Nothing is fused over a break, and Python runs"
         " there: torch.compile(fullgraph=True) names the first. Keep values on the GPU (torch.where for an if), and"
         " printing outside."),
        (told.recompilations if costs else (), "torch.compile compiled again for {}", "Pad to few sizes, or mark what"
         " varies (torch._dynamo.mark_dynamic), so that one graph serves all."),
    ):  # fmt: skip
        if places:
            first = places[0]
            where = "" if first.at is None else f", most at {without_home(first.at)}"
            yield Finding(
                "info",
                title.format(words.things(len(places), "place")) + where,
                tuple(
                    Evidence(one.reason if one.at is None else f"{without_home(one.at)}: {one.reason}", one.count, "")
                    for one in places[:MOST_PLACES]
                ),
                f"{first.reason}; of the whole process, in torch's words",
                advice=advice,
            )


def _collections(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """The pauses of Python's collector in the clean steps, as far as nothing hid them."""
    measured = None if facts.manifest is None else facts.manifest.measurement
    if measured is None or not any(measured.clean_gc_ns) or len(measured.clean_gc_ns) != len(measured.clean_step_ns):
        return
    pauses, steps = np.array(measured.clean_gc_ns), np.array(measured.clean_step_ns)
    # a host that runs ahead of the GPU has time to lose
    spare = gain.gpu_is_limit(facts)
    lost = np.minimum(pauses, np.maximum(steps - np.median(steps), 0)) if spare else np.minimum(pauses, steps)
    share, ns = 100 * float(lost.sum() / steps.sum()), float(lost.mean())
    if share < limits.share_percent:
        return
    host = facts.trace.host
    recorded = np.flatnonzero(of_kinds(host["kind"], "python") & names.matching(host["name"], COLLECTION.__eq__))
    start = host["start"].to_numpy()[recorded]
    modes = facts.manifest.workload.modes if facts.manifest is not None else None
    thresholds = ", ".join(map(str, modes.gc_thresholds)) if modes is not None else ""
    yield Finding(
        gain.severity(share),
        f"Python's collector pauses {words.count(int((pauses > 0).sum()))} of {words.things(steps.size, 'clean step')},"
        f" at most for {words.ns(int(pauses.max()))}",
        (
            Evidence("its pauses, of the mean clean step", ns, "ns", Query("host", row=COLLECTION)),
            Evidence("thresholds (gc.get_threshold)", thresholds or "not recorded"),
        ),
        words.part_of(ns, float(steps.mean()), share),
        advice="After all that stays is made: gc.collect(), gc.freeze(). Or gc.disable(), and gc.collect() every n"
        " steps at a moment that suits all ranks.",
        impact_ns=ns,
        impact_of="mean_step",
        ceiling_percent=share,
        sure_percent=share,
        host=intervals.union(start, start + host["duration"].to_numpy()[recorded]) if recorded.size else None,
    )


_COMPILING = r"^(_compile\.compile_inner|CachingAutotuner\.benchmark_all_configs) \(dynamo_timed\)$"
"""What torch.compile records of compiling a function, and of trying variants of a kernel."""
RECOMPILED = 7
"""After so many, a function is compiled for eight sizes, and torch runs it eagerly for all others (recompile_limit)."""


def _compiling(facts: Facts) -> Bools:
    return names.matching(facts.trace.host["name"], partial(_matches, _COMPILING)) & scope_mask(facts.sel)


def _compilations(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """What torch.compile compiles and tries within the recorded steps, of which the typical one may have none."""
    host, slots = facts.trace.host, step_slots(facts.sel)
    found = _compiling(facts)
    steps = intervals.union(slots.start, slots.end)
    if not found.any() or not intervals.length(steps):
        return
    start = host["start"].to_numpy()[found]
    spent = intervals.intersect(intervals.union(start, start + host["duration"].to_numpy()[found]), steps)
    share = 100 * intervals.length(spent) / intervals.length(steps)
    if share < limits.share_percent:
        return
    frames = around(facts.trace, np.flatnonzero(found)).frame
    at = Counter(host["name"][row] for row in frames[frames >= 0].tolist()).most_common(1)
    within = int(((start >= steps[0][0]) & (start < steps[1][-1])).sum())
    yield Finding(
        gain.severity(share),
        f"Compile before the steps: torch.compile works {words.things(within, 'time')} within"
        f" {words.things(slots.start.size, 'recorded step')}",
        (
            Evidence("of these steps", intervals.length(spent), "ns", Query("host", row="_compile.compile_inner")),
            *(Evidence("most at", frame) for frame, _ in at),
        ),
        words.part_of(intervals.length(spent), intervals.length(steps), share),
        advice="TORCH_LOGS=recompiles names the guard that failed. Keep Python numbers out of what is compiled, mark"
        " sizes that change (torch._dynamo.mark_dynamic), and call it with all sizes before the steps.",
        host=spent,
    )
