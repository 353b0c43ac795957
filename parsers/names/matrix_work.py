"""Tells by a kernel's name whether a matrix unit could do its work, and whether one does."""

from __future__ import annotations

import re
from functools import lru_cache

from tracetui.parsers.names import kernel_names

_NO_MATRIX_UNIT = re.compile(
    r"gemv|gemmSN|gemmk1|dot_kernel|splitk_?reduce|ReduceSplitK|depthwise|dwconv|grouped_direct|c1_k1|causal_conv|im2col|im\dd2col|col2im"
    r"|winograd\w*(Filter|Data|Output|Delta|Tiles)|compute\w*Offsets|globalKernel|dot_do_o|convert_dq|combine"
    r"|(Batch|Single)DecodeWith|MergeStates|paged_attention_(v\d|\w*_?reduce)|preprocess|postprocess|prepare_varlen"
    r"|ConvertQGrad|gemm_\dbit_inference_naive|fft2d_|mul_mat_vec|stream_k_fixup"
    r"|_fwd_kernel_stage2|merge_attn|fmhaReduction",
    re.IGNORECASE,
)
"""GEMMs and convolutions that a matrix unit can't do, and the kernels around them."""
_PLAIN = re.compile(
    r"sgemm|hgemm|g?cgemm|scudnn|hcudnn|ffma|simt|_engine<|magma_\w*gemm|fmha_cutlass\w*_sm(50|60|70|75)\b"
    r"|Cijk_(?!\w*_MI\d)\w*_MT\d|flash_attn_(tile|vec)|sp3asmconv\w*_fp32|GcnAsmConv|_f\dx\d_fp32_",
    re.IGNORECASE,
)
"""Library names that mean matrix work on FMA units; other names (Triton, XLA, custom kernels) don't tell."""
_SPARSE = re.compile(
    r"(cu|hip|roc)sparse::|csr_?(mm|mv|geam|gemm)|(coo|bsr|csc|ell)_?(mm|mv)|(^|[^a-z])(sp(mm|mv|gemm)|sddmm)",
    re.IGNORECASE,
)
"""Kernels on matrices of which only the numbers that are not zero are kept; not the structured form of tensor cores."""
_NOT_FP32 = re.compile(r"__half|bfloat16|dgemm|hgemm|igemm|f64|double|int8|fp?16|i8|<signed char|complex|cgemm|zgemm")
_DOUBLE = re.compile(r"dgemm|f64|double|<double|zgemm")


def matrix_work(name: str) -> bool:
    """Whether a matrix unit could do this kernel's work in some precision: GEMM, convolution, attention."""
    if not kernel_names.is_product(name):
        return False
    return _NO_MATRIX_UNIT.search(name) is None and not sparse_work(name)


@lru_cache(1 << 14)
def sparse_work(name: str) -> bool:
    """Whether it works on a sparse matrix, by its name: how much that is no shape tells."""
    return _SPARSE.search(name) is not None


def plain_matrix_work(name: str) -> bool:
    """Whether it is matrix work on FMA units, by its name."""
    return matrix_work(name) and _PLAIN.search(name) is not None and not kernel_names.uses_tensor_cores(name)


def fp32_matrix_work(name: str) -> bool:
    """Whether it is matrix work in fp32, by its name."""
    return plain_matrix_work(name) and _NOT_FP32.search(name) is None


def fp64_work(name: str) -> bool:
    """Whether it computes in double precision, by its name."""
    return _DOUBLE.search(name) is not None


@lru_cache(1 << 14)
def tensor_cores_unclear(name: str) -> bool:
    """Whether it is matrix work of which the name doesn't tell on which units it runs: Triton, XLA, kernels by hand."""
    if not matrix_work(name) or kernel_names.uses_tensor_cores(name):
        return False
    return not plain_matrix_work(name) and not fp64_work(name)
