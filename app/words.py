"""What things are called wherever a person reads them: on the screen and in every report."""

from __future__ import annotations

CATEGORY_LABELS = {
    "kernel": "kernels",
    "communication": "communication",
    "memcpy": "memcpy",
    "memset": "memset",
    "runtime": "runtime",
    "dataloader": "data loader",
    "cpu_exec": "CPU exec",
    "other": "other",
}
"""The categories of step time, as torch-tb-profiler calls them."""

KIND_NAMES = {
    "chrome": "Chrome trace",
    "jax": "JAX trace",
    "nsys": "Nsight Systems",
    "ncu": "Nsight Compute",
    "memory_snapshot": "memory snapshot",
}
"""What a recording is, by `TraceInfo.kind`."""

_IN_CHROME = {
    "steps": "steps: the profiler's step() was not called, so the whole file counts as one step",
    "device": "GPU work: the trace holds host events only",
    "modules": "module names: record with with_stack=True (torch.profiler)",
    "memory": "memory use: record with profile_memory=True",
}
ABSENT: dict[str, dict[str, str]] = {
    "chrome": _IN_CHROME,
    "jax": {
        "steps": "steps: wrap each iteration in jax.profiler.StepTraceAnnotation; the whole file counts as one step",
        "device": "GPU work: the trace holds host events only",
    },
    "nsys": {
        "steps": "steps: no NVTX range around each iteration (torch.cuda.nvtx.range_push('step 3')), so the whole file "
        "counts as one step",
        "ranges": "NVTX ranges: the program pushed none, or nsys ran without --trace=nvtx",
        "device": "GPU work: nsys ran without --trace=cuda, or nothing ran on a GPU",
    },
}
"""What a recording lacks and how to record it, by `TraceInfo.kind` and by what is absent."""
