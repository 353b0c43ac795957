"""Rules on GPU memory: too little, or much left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.findings.core import change, gain, hints, words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.core.rule import Threshold, rule
from tracetui.analysis.roofline.peaks import known_device

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.rule import Limits

_CAPACITY = "the GPU's memory size: torch.profiler, nsys and run.json say it"
_FILL = 0.9
"""The share of the memory that a larger batch may fill."""


@rule(
    "G1",
    "Memory near its limit",
    needs=("memory",),
    rests_on=("gpu",),
    thresholds={
        "full_percent": Threshold(90, "%", "peak, of the GPU's memory"),
        "critical_percent": Threshold(97, "%", "peak, of the GPU's memory, one allocation from running out"),
    },
    advice="A smaller batch, activation checkpointing, bf16, or less that is held over the step.",
    source="torch-tb-profiler, gpuprof (90 % and 97 %)",
)
def near_the_limit(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    """Compares the most that the allocator held from the driver with the GPU's memory.

    If only the memory held by tensors was recorded, the rule uses that. For an integrated GPU it compares with the
    memory available when the run started, since the rest of the machine uses the same memory.
    """
    peak, what = _peak(facts)
    capacity, of = _capacity(facts)
    if capacity is None:
        return Abstention("G1", _CAPACITY)
    if peak is None or 100 * peak / capacity < limits.full_percent:
        return None
    share = 100 * peak / capacity
    return Finding(
        "G1",
        "critical" if share >= limits.critical_percent else "warning",
        f"Memory peaks at {words.percent(share)} of {of}",
        (
            Evidence(f"peak {what}", peak, "byte", Query("memory")),
            Evidence(of, capacity, "byte"),
        ),
        f"{words.size(peak)} of {words.size(capacity)} = {words.percent(share)}",
        f"{words.percent(limits.full_percent)}, critical from {words.percent(limits.critical_percent)}",
        "The next larger tensor finds no room: see who holds the peak (Memory tab), then a smaller batch, activation"
        " checkpointing, bf16, or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True where much is held but unused.",
    )


@rule(
    "G5",
    "Room for a larger batch",
    needs=("memory", "timeline", "gpu"),
    rests_on=("gpu", "whole"),
    thresholds={"used_percent": Threshold(50, "%", "peak, of the GPU's memory", own=True)},
    advice="A larger batch gives each launch more work while the GPU waits for launches.",
    changes=(change.LARGER_BATCH,),
    source="torch-tb-profiler, DLProf, which do not ask whether the GPU has time left",
)
def room_for_batch(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    """Says how much larger a batch could be if less than half of the memory is used and the GPU has time left.

    A GPU that is busy all the time gains little from a larger batch, however much memory is free. The factor
    treats the whole peak as if it grew with the batch; weights and the framework's own memory do not.
    """
    peak, what = _peak(facts)
    capacity, of = _capacity(facts)
    if capacity is None:
        return Abstention("G5", _CAPACITY)
    if not facts.memory.on_gpu or peak is None or not peak:
        return Abstention("G5", "the GPU allocator's use: record with profile_memory=True, or give a memory snapshot")
    share = 100 * peak / capacity
    if share >= limits.used_percent or gain.gpu_is_limit(facts):
        return None
    factor = int(_FILL * capacity / peak)
    more = f"{factor:,} times" if factor < 100 else "more than 100 times"
    return Finding(
        "G5",
        "info",
        f"Memory peaks at {words.percent(share)} of {of} while the GPU waits: a larger batch fits",
        (
            Evidence(f"peak {what}", peak, "byte", Query("memory")),
            Evidence(of, capacity, "byte"),
            Evidence("the GPU is the limit", "no", "", Query("host:critical path")),
        ),
        f"{words.size(peak)} of {words.size(capacity)} = {words.percent(share)};"
        f" {100 * _FILL:.0f} % of it is {more} the peak",
        f"below {words.percent(limits.used_percent)}, and the GPU not the limit",
        "Try a larger batch: the launches stay the same, each does more, so throughput rises until the GPU is busy."
        " Stop where it no longer does; a latency target may forbid it.",
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
    if hints.is_integrated(facts):
        before = manifest.power.before if manifest is not None else None
        state = before.memory if before is not None else None
        if state is not None and state.available_bytes:
            return state.available_bytes, "the memory that was available"
        if state is not None and state.total_bytes:
            return state.total_bytes, "the machine's memory"
    others = [trace for trace in facts.run.traces if trace is not facts.trace]
    device = known_device([facts.trace, *others], manifest)
    return (None, "") if device is None else (device.memory_bytes or None, "the GPU's memory")
