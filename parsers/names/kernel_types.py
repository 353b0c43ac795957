"""The element types that names of kernels and operators' inputs tell."""

from __future__ import annotations

import re

KINETO_TYPES = {
    "float": ("fp32", 4), "double": ("fp64", 8), "c10::Half": ("fp16", 2), "c10::BFloat16": ("bf16", 2),
    "c10::Float8_e4m3fn": ("fp8", 1), "c10::Float8_e5m2": ("fp8", 1), "int": ("int32", 4), "long int": ("int64", 8),
    "long": ("int64", 8), "short": ("int16", 2), "signed char": ("int8", 1), "unsigned char": ("int8", 1),
    "bool": ("bool", 1),
}  # fmt: skip
"""Kineto's names of element types: precision, and bytes."""
FLOATING = ("fp64", "fp32", "fp16", "bf16", "fp8")
HALF_TYPES = {"c10::Half": "fp16", "__half": "fp16", "c10::BFloat16": "bf16", "__nv_bfloat16": "bf16"}
"""Types of 16 bits as C++ spells them."""
CAST = re.compile(
    r"(bfloat16|float16|float8_\w+)_copy_kernel|direct_copy_kernel.*LoadWithCast\b|gpu_kernel_impl<at::native::direct_copy"
    r"|^(wrapped|loop)_convert|^input_convert|cast_kernel|^SubTensorOpWithCast"
)
CAST_OF_MIOPEN = re.compile(r"^SubTensorOpWithCast")
ELEMENT_TYPES = re.compile(
    r"\b(?:(?:un)?signed |long )*(?:float|double|int|long|short|char|bool|__half2?|half_?t?|Half|__nv_bfloat16\w*|"
    r"BFloat16|bfloat16_t|tfloat32_t|Float8_\w+|__nv_fp8_\w+|float_\w+_t|complex<[^<>]*>|"
    r"OpaqueType<\w+>)(?![\w<])"
)
VECTOR_WIDTH = re.compile(r"(\bvectorized_elementwise_kernel<)\d+,")
"""PyTorch loads 16 bytes at once, so the number of elements follows from their type."""
_NVJET = re.compile(r"nvjet_sm\d+_([a-z])")
_NVJET_TYPES = {"h": "fp16", "t": "bf16", "d": "fp64"}
"""The letter of the first operand in cuBLAS' names; counters of tensor cores tell the same on an H200."""
_ON_TENSOR_CORES = re.compile(r"tensor_?op|tensor\d+x\d+x\d+|wmma|[sh](?:884|1688|16816)")
_ELEMENTS = re.compile(r"_(?:aligna?|ldg)(\d+)")
"""How many elements a kernel reads at a time, in the names of CUTLASS, cuBLAS and cuDNN."""
_BYTES = {"fp16": 2, "bf16": 2, "fp8": 1, "tf32": 4}
_FP32_INPUTS = re.compile(r"tensorop_s1688")
"""CUTLASS's products of fp32 operands as TF32: the name has no type."""
_BY_NAME = (
    ("fp8", re.compile(r"e4m3|e5m2|fp8", re.IGNORECASE)),
    ("bf16", re.compile(r"bf16|bfloat16", re.IGNORECASE)),
    ("fp16", re.compile(r"half|hgemm|h?884gemm_fp16|f16f16|_f16_|161616|s1688gemm_f16|_hsh_|fp16", re.IGNORECASE)),
    ("tf32", re.compile(r"tf32", re.IGNORECASE)),
    ("fp64", re.compile(r"dgemm|double|f64f64", re.IGNORECASE)),
    ("fp32", re.compile(r"sgemm|f32f32|scudnn|\bfloat\b", re.IGNORECASE)),
)
"""The first pattern that a name matches counts: kernels over 16-bit types also name float, the type they add up in."""


_OF_TENSORRT = re.compile(r"\b(u?int(?:4|8|32|64)|fp(?:4|8|16|32)|bf16|half|float|bool)\b", re.IGNORECASE)


def type_of_tensorrt(text: str) -> str | None:
    """The element type in what TensorRT says of weights or tensors: ``Row major linear FP32``, ``Half``."""
    found = _OF_TENSORRT.search(text)
    return None if found is None else {"HALF": "FP16", "FLOAT": "FP32"}.get(found[1].upper(), found[1].upper())


def type_in_name(name: str) -> str | None:
    """The element type that a kernel's name tells; None where it tells none."""
    return next((sort for sort, pattern in _BY_NAME if pattern.search(name)), None)


def operand_type(name: str) -> str | None:
    """The precision that a matrix kernel's name tells."""
    if (found := _NVJET.search(name)) is not None and found[1] in _NVJET_TYPES:
        return _NVJET_TYPES[found[1]]
    return type_in_name(name)


def bytes_at_a_time(name: str) -> int | None:
    """How many bytes a kernel of matrix work on tensor cores reads at a time, as its name tells; None where it doesn't.

    >>> bytes_at_a_time("cutlass_75_tensorop_bf16_s1688gemm_bf16_256x128_tn_align1")
    2
    """
    if _ON_TENSOR_CORES.search(name) is None or (elements := _ELEMENTS.search(name)) is None:
        return None
    of_type = type_in_name(name)
    size = _BYTES.get(of_type) if of_type else 4 if _FP32_INPUTS.search(name) else None
    return None if size is None else int(elements[1]) * size
