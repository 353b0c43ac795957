"""What things are called wherever a person reads them: on the screen and in every report."""

from __future__ import annotations

CATEGORY_LABELS = {
    "kernel": "kernels",
    "communication": "communication",
    "memcpy": "memcpy",
    "memset": "memset",
    "runtime": "CUDA calls",
    "dataloader": "data loader",
    "cpu_exec": "CPU operators",
    "other": "other CPU time",
}
"""The categories of step time."""
