"""Rules on GPU memory: too little, or much left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.findings.core import gain, program, words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.declared.memory import G1, G5
from tracetui.analysis.findings.declared.rule import looks_for
from tracetui.analysis.roofline.peaks import known_device

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.declared.rule import Limits

_CAPACITY = "the GPU's memory size: torch.profiler, nsys and run.json say it"
_FILL = 0.9
"""The share of the memory that a larger batch may fill."""


@looks_for(G1)
def near_the_limit(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    peak, what = _peak(facts)
    capacity, of = _capacity(facts)
    if capacity is None:
        return Abstention(_CAPACITY)
    if peak is None or 100 * peak / capacity < limits.full_percent:
        return None
    share = 100 * peak / capacity
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
        f"Memory peaks at {words.percent(share)} of {of} while the GPU waits: a larger batch fits",
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
