"""What kind of program was recorded, from the evidence of the recording: advice speaks its language."""

from __future__ import annotations

import re
from typing import Literal

import polars as pl
from msgspec import Struct

from tracetui.analysis.base import names
from tracetui.parsers import Trace
from tracetui.parsers.names import kernel_makers

Framework = Literal["pytorch", "jax", "native", "unknown"]

_TORCH_CALL = re.compile(
    r"^(aten|prims|c10d|torch|torchvision|torchaudio|torch_\w+)::|^autograd::|^ProfilerStep#|^Optimizer\.\w+#"
    r"|^enumerate\(DataLoader\)|^## Call Compiled|^Torch-Compiled Region|^nn\.Module: |^(.*/)?torch/[\w/]*\.py\(\d+\)"
)
"""Operators, ranges and Python functions that only PyTorch records."""
_XLA_CALL = re.compile(
    r"^(Pjit(Function)?|PjRt\w*::|PJRT_|XlaModule:|GpuExecutable::|TSL:|jit_\w+:XLA)|:XLA GPU module$"
)
_PYTHON = re.compile(r"^(.*/)?(python|pypy|ipython|uvicorn|gunicorn|torchrun)[\d.]*( |$)", re.IGNORECASE)


class Program(Struct, frozen=True):
    """The framework of a program, and what shows it."""

    framework: Framework
    """``native`` is a program in C, C++ or Fortran (CUDA, HIP, OpenMP); ``unknown`` has no evidence for any."""
    seen_by: str
    """What shows it, in words; empty if nothing does."""

    def say(self, *, pytorch: str, jax: str = "", other: str) -> str:
        """The text for this framework; `other` is for native and unknown programs, and for JAX if it has no own."""
        if self.framework == "pytorch":
            return pytorch
        return (jax or other) if self.framework == "jax" else other


def program_of(trace: Trace, kernels: pl.Series) -> Program:
    """The kind of program, from what was recorded: calls and ranges, then kernels, then the tool and the process.

    A program counts as native only if it launches kernels of its own, which no library and no framework has, and no
    process of the recording is a Python.

    Args:
        trace: the recording.
        kernels: the names of the kernels that were launched.
    """
    if trace.info.kind == "jax" and not trace.info.tool.startswith("TensorFlow"):
        return Program("jax", "a recording of the JAX profiler")
    told = trace.host["kind"].is_in(["operator", "annotation", "python", "module"])
    calls = trace.host["name"].filter(told)
    for framework, where, pattern in (
        ("pytorch", calls, _TORCH_CALL),
        ("jax", calls, _XLA_CALL),
        ("pytorch", kernels, kernel_makers.TORCH),
        ("jax", kernels, kernel_makers.XLA),
    ):
        if seen := _first(where, pattern):
            return Program(framework, seen)  # type: ignore[arg-type]
    if trace.host["kind"].is_in(["module", "dataloader"]).any() or trace.info.tool == "PyTorch Kineto":
        return Program("pytorch", "a recording of torch.profiler")
    own = _first(kernels, kernel_makers.OPENMP) or _of_its_own(kernels)
    if own and not any(_PYTHON.search(name) for _, name in trace.info.processes):
        return Program("native", own)
    return Program("unknown", "")


def _first(column: pl.Series, pattern: re.Pattern[str]) -> str:
    """One of the names that match; empty if none does."""
    return min((name for name in names.distinct(column) if pattern.search(name)), default="")


def _of_its_own(kernels: pl.Series) -> str:
    """A kernel that no library has, by its name; empty if there is none."""
    return min((name for name in names.distinct(kernels) if not kernel_makers.LIBRARY.search(name)), default="")
