"""Changes of a run's options that do what rules advise: what `tracetui try` tries, and the command a finding gives.

Whether one fits a run, and the most that all of it can gain, `core.change` tells from the run.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

MORE_SAMPLES = 4
"""How many times the batch a larger one is."""
WORKERS = 4


class Change(Struct, frozen=True):
    """One option that does what a rule advises."""

    option: str
    value: Any
    """What it is set to; None for one that depends on the run."""
    words: str
    """As the list of rules says it."""
    also: str = ""
    """What it does besides what a finding's bound counts; empty for nothing."""
    agrees: bool = True
    """Whether it leaves the arithmetic as it is, but for its order."""


FUSED_ATTENTION = Change("attention", "fused", "--attention fused")
FUSED_OPTIMIZER = Change("optimizer", "fused", "--optimizer fused")
COMPILED = Change(
    "compile",
    True,
    "--compile",
    "torch.compile also takes Python and launches off the host, and lays out convolutions anew",
)
COMPILED_FOR_LAUNCHES = replace(
    COMPILED, also="torch.compile also fuses kernels and lays out convolutions anew, which shortens the GPU's work"
)
CUDA_GRAPHS = Change(
    "cuda_graphs",
    True,
    "--cuda-graphs",
    "a graph also takes away the gaps between queued kernels, and whatever else the host does in a step",
)
TF32 = Change("dtype", "tf32", "--dtype tf32", agrees=False)
BF16 = Change("dtype", "bf16", "--dtype bf16", "bf16 also halves the bytes that other kernels move", agrees=False)
FP16 = Change("dtype", "fp16", "--dtype fp16", "fp16 also halves the bytes that other kernels move", agrees=False)
CHANNELS_LAST = Change(
    "channels_last", True, "--channels-last", "convolutions, norms and pooling also get other kernels"
)
MORE_WORKERS = Change("workers", WORKERS, f"--workers {WORKERS}")
LARGER_BATCH = Change(
    "batch",
    None,
    f"--batch {MORE_SAMPLES} times as many",
    "more samples also fill the GPU better, and every launch serves more of them",
)
