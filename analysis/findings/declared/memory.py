"""Rules on the GPU's memory."""

from tracetui.analysis.findings.declared import changes
from tracetui.analysis.findings.declared.rule import Rule, Threshold, chosen

G1 = Rule(
    "G1",
    "Memory near its limit",
    needs=("memory",),
    rests_on=("gpu",),
    thresholds={
        "full_percent": Threshold(90, "%", "peak, of the GPU's memory"),
        "critical_percent": Threshold(97, "%", "peak, of the GPU's memory, one allocation from running out"),
    },
    advice="The next larger tensor finds no room: see who holds the peak (Memory tab), then a smaller batch, activation"
    " checkpointing, bf16, or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True where much is held but unused.",
    source="torch-tb-profiler, gpuprof (90 % and 97 %)",
    compared="{full_percent}, critical from {critical_percent}",
    explanation="""
    Compares the most that the allocator held from the driver with the GPU's memory.

    If only the memory held by tensors was recorded, the rule uses that. For an integrated GPU it compares with the
    memory available when the run started, since the rest of the machine uses the same memory.""",
)

G5 = Rule(
    "G5",
    "Room for a larger batch",
    needs=("memory", "timeline", "gpu"),
    rests_on=("gpu", "whole"),
    thresholds={"used_percent": chosen(50, "%", "peak, of the GPU's memory")},
    advice="The launches stay the same, each does more, so throughput rises until the GPU is busy."
    " Stop where it no longer does; a latency target may forbid it.",
    changes=(changes.LARGER_BATCH,),
    source="torch-tb-profiler, DLProf, which do not ask whether the GPU has time left",
    compared="below {used_percent}, and the GPU not the limit",
    explanation="""
    Says how much larger a batch could be if less than half of the memory is used and the GPU has time left.

    A GPU that is busy all the time gains little from a larger batch, however much memory is free. The factor
    treats the whole peak as if it grew with the batch; weights and the framework's own memory do not.""",
)
