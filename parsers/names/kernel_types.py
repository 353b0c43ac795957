"""The element type that a kernel's name tells."""

from __future__ import annotations

import re

_BY_NAME = (
    ("fp8", re.compile(r"e4m3|e5m2|fp8", re.IGNORECASE)),
    ("bf16", re.compile(r"bf16|bfloat16", re.IGNORECASE)),
    ("fp16", re.compile(r"half|hgemm|h?884gemm_fp16|f16f16|_f16_|161616|s1688gemm_f16|_hsh_|fp16", re.IGNORECASE)),
    ("tf32", re.compile(r"tf32", re.IGNORECASE)),
    ("fp64", re.compile(r"dgemm|double|f64f64", re.IGNORECASE)),
    ("fp32", re.compile(r"sgemm|f32f32|scudnn|\bfloat\b", re.IGNORECASE)),
)
"""The first pattern that a name matches counts: kernels over 16-bit types also name float, the type they add up in."""


def type_in_name(name: str) -> str | None:
    """The element type that a kernel's name tells; None where it tells none."""
    return next((sort for sort, pattern in _BY_NAME if pattern.search(name)), None)
