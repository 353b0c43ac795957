"""Rules on GPU memory: too little, much left, or taken from the driver in the middle of steps."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from tracetui.analysis.attribution.operator_tree import scope_mask
from tracetui.analysis.base import names
from tracetui.analysis.base.names import of_kinds
from tracetui.analysis.base.remembered import kept
from tracetui.analysis.findings.core import gain, program, words
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.declared.host import S16
from tracetui.analysis.findings.declared.memory import G1, G5
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.roofline.peaks import known_device
from tracetui.analysis.selection import in_steps

_CAPACITY = "the GPU's memory size: torch.profiler, nsys and run.json say it"
_FILL = 0.9
"""The share of the memory that a larger batch may fill."""


@looks_for(G1)
def near_the_limit(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    peak, what = _peak(facts)
    capacity, of = _capacity(facts)
    if capacity is None:
        return Abstention(_CAPACITY)
    share = 100 * (peak or 0) / capacity
    if peak is None or not limits.full_percent <= share <= 100:  # more than the GPU has is no advice, but wrong (V15)
        return None
    return Finding(
        "critical" if share >= limits.critical_percent else "warning",
        f"Memory peaks at {words.percent(share)} of {of}",
        (
            Evidence(f"peak {what}", peak, "byte", Query("memory")),
            Evidence(of, capacity, "byte"),
        ),
        f"{words.size(peak)} of {words.size(capacity)} = {words.percent(share)}",
    )


@looks_for(G5)
def room_for_batch(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    peak, what = _peak(facts)
    capacity, of = _capacity(facts)
    if capacity is None:
        return Abstention(_CAPACITY)
    if not facts.memory.on_gpu or peak is None or not peak:
        return Abstention("the GPU allocator's use: record with profile_memory=True, or give a memory snapshot")
    share = 100 * peak / capacity
    if share >= limits.used_percent or gain.gpu_is_limit(facts):
        return None
    factor = int(_FILL * capacity / peak)
    more = f"{factor:,} times" if factor < 100 else "more than 100 times"
    return Finding(
        "info",
        f"Try a larger batch: memory peaks at {words.percent(share)} of {of}",
        (
            Evidence(f"peak {what}", peak, "byte", Query("memory")),
            Evidence(of, capacity, "byte"),
            Evidence("the GPU is the limit", "no", "", Query("host:critical path")),
        ),
        f"{words.size(peak)} of {words.size(capacity)} = {words.percent(share)};"
        f" {100 * _FILL:.0f} % of it is {more} the peak",
    )


def _peak(facts: Facts) -> tuple[int | None, str]:
    """The peak of the memory held, and by what it was held."""
    found = facts.memory
    if not found.on_gpu:
        return None, ""
    if found.peak_reserved_bytes is not None:
        return found.peak_reserved_bytes, "reserved by the allocator"
    return found.peak_allocated_bytes, "held by tensors"


def _capacity(facts: Facts) -> tuple[int | None, str]:
    """The memory that the program could use, and what that memory is, in words."""
    manifest = facts.manifest
    if program.is_integrated(facts):
        before = manifest.power.before if manifest is not None else None
        state = before.memory if before is not None else None
        if state is not None and state.available_bytes:
            return state.available_bytes, "the memory that was available"
        if state is not None and state.total_bytes:
            return state.total_bytes, "the machine's memory"
    others = [trace for trace in facts.run.traces if trace is not facts.trace]
    device = known_device([facts.trace, *others], manifest)
    return (None, "") if device is None else (device.memory_bytes or None, "the GPU's memory")


_ALLOCATES = re.compile(
    r"^(cuda|hip)(Malloc|Free|HostAlloc|HostRegister|HostUnregister|HostFree)"
    r"|^cuMem(Alloc|Free|Host|Create|Map|Unmap|Release|Address)"
)
_ON_A_STREAM = re.compile(r"Async|FromPool")
"""Allocation that is ordered on a stream, out of a pool: it asks the driver for nothing."""


@kept
def allocations(facts: Facts) -> pl.DataFrame:
    """The calls of the steps that take memory from the driver or give it back: name, start, duration."""
    host = facts.trace.host
    asks = names.matching(host["name"], lambda name: bool(_ALLOCATES.match(name) and not _ON_A_STREAM.search(name)))
    asks &= of_kinds(host["kind"], "runtime", "driver")
    if asks.any():
        asks &= scope_mask(in_steps(facts.sel))
    calls = host.select("name", "start", "duration", "parent").filter(pl.Series(asks))
    # a driver call inside a call of the runtime is part of it
    above = host["kind"].gather(calls["parent"]).is_in(["runtime", "driver"]).fill_null(value=False)
    return calls.filter(~above).select("name", "start", "duration")


@looks_for(S16)
def allocation_in_steps(facts: Facts, limits: Limits) -> Finding | None:
    found = allocations(facts)
    if not found.height:
        return None
    start = found["start"].to_numpy()
    end = start + found["duration"].to_numpy()
    bound = gain.of_calls(facts, start, end, np.empty(0, np.int64), may_hold_missed=True)
    share = bound.ceiling_percent
    if share is None or share < limits.share_percent:
        return None
    most = found.group_by("name").agg(pl.col("duration").sum(), pl.len()).sort("duration", descending=True)
    name = str(most["name"].cast(pl.String)[0])
    calls, spent = facts.per_step(found.height), facts.per_step(float(found["duration"].sum()))
    return bound.finding(
        f"Allocate less: {words.things(calls, 'call')} {program.per(facts)} for the driver's memory, most {name}",
        (
            Evidence(f"calls {program.per(facts)}", calls, "", Query("host:API calls", name)),
            Evidence("host in them", spent, "ns", Query("host:API calls", name)),
        ),
        f"{words.things(calls, 'call')} and {words.ns(spent)} {program.per(facts)}; {bound.why}",
        advice=facts.program.say(
            pytorch="Keep shapes the same from step to step, do not call torch.cuda.empty_cache() in the loop, set"
            " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and leave room: near the GPU's limit the allocator"
            " gives memory back and asks again.",
            jax="XLA_PYTHON_CLIENT_PREALLOCATE=true takes the memory once; keep shapes the same.",
            other="Allocate once, before the loop, or from a pool (cudaMallocAsync).",
        ),
    )
