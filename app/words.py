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
