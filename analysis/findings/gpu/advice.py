"""What the rules on kinds of kernels advise, in the language of the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.findings.core import hints
from tracetui.analysis.findings.gpu import kernel_kinds as kernel_sorts
from tracetui.parsers.names.matrix_work import fp32_matrix_work

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.gpu.kernel_kinds import Attention


def for_optimizer(facts: Facts, *, loop: bool) -> str:
    """How to update all parameters at once."""
    return facts.program.say(
        pytorch="Pass fused=True to the optimizer (Adam, AdamW, SGD, Adagrad): one kernel reads and writes each tensor"
        " once." + (" If that is not available, foreach=True updates many tensors per launch." if loop else ""),
        jax="Keep the whole update in one jit with the step, so that XLA fuses each parameter's operations; with many"
        " small parameters, flatten them (optax.flatten).",
        other="Update all parameters in one launch: one kernel over a list of tensors, or one flat buffer for all of"
        " them, that reads and writes each value once.",
    )


def for_attention(facts: Facts, found: Attention) -> str:
    """How to fuse the attention."""
    fp32 = kernel_sorts.by_name(facts.launches.filter(pl.Series(found.gemms)), fp32_matrix_work).any()
    backends = " Flash and cuDNN backends need fp16 or bf16; in fp32 the memory-efficient one serves." if fp32 else ""
    called = facts.trace.host.filter(pl.col("kind") == "operator")["name"].cast(pl.String)
    if called.str.contains("_scaled_dot_product_attention_math").any():
        return (
            "scaled_dot_product_attention was called and fell back to its math backend: find out why with"
            " torch.nn.attention.sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]), which says"
            " what it misses (dtype, mask, head size, need for weights)." + backends
        )
    return facts.program.say(
        pytorch="Replace the chain by torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=…,"
        " is_causal=…)." + backends,
        jax='jax.nn.dot_product_attention(..., implementation="cudnn"), or a Pallas flash attention kernel.',
        other="Call one fused attention kernel in place of the chain: cuDNN's scaled dot product attention,"
        " FlashAttention, CUTLASS's fused multi-head attention; on AMD composable_kernel's FMHA.",
    )


def for_fusion(facts: Facts, *, softmax: bool) -> str:
    """How to fuse kernels that move more than they compute."""
    first = "Use a fused attention, which keeps softmax on the chip. " if softmax else ""
    by_torch = (
        "It is compiled: look for graph breaks and custom operators between which nothing can be fused."
        if hints.is_compiled(facts)
        else "torch.compile fuses elementwise chains, norms and copies; by hand: fused norm kernels"
        " (torch.nn.functional.rms_norm, Apex, Liger), bias and activation in the GEMM's epilogue, in-place or foreach"
        " variants, bf16 to halve the bytes."
    )
    return first + facts.program.say(
        pytorch=by_torch,
        jax="XLA fuses what it sees in one jit: keep layers in it, and look for operations that break fusions.",
        other="Put neighbouring kernels in one, so that intermediate values stay in registers or shared memory; bias"
        " and activation in the GEMM's epilogue (cublasLt, CUTLASS); a smaller type halves the bytes.",
    )


def for_layout(facts: Facts, sort: str) -> str:
    """How to avoid moving data, by what moves most of it: `framework.LAYOUTS`."""
    in_torch = {
        "flip": "Let the kernel that follows read backwards (a reversed scan direction) in place of torch.flip before"
        " and after it.",
        "roll": "Let the kernel that follows read its neighbours by index (a kernel of its own, a convolution with"
        " circular padding, or torch.compile, which fuses rolls with what reads them) in place of torch.roll.",
        "cat": "Write parts into one preallocated tensor (out=, slices), or keep them as views of it, in place of"
        " torch.cat.",
        "NCHW/NHWC": "Convert model and input once to memory_format=torch.channels_last, so that cuDNN need not for"
        " every convolution.",
        "transpose": "Give the operators strides they take (einsum, transposed GEMM flags), or store in the order of"
        " use.",
    }.get(
        sort,
        "Find what copies (the Operators tab: contiguous, clone, reshape) and pass views to operators that take"
        " strides.",
    )
    in_c = {
        "flip": "Let the kernel that follows read backwards in place of reversing its input.",
        "roll": "Let the kernel that follows read its neighbours by index.",
        "cat": "Let each producer write its part of one buffer, in place of joining them.",
        "NCHW/NHWC": "Keep data in one layout, NHWC where tensor cores are used, so that the library need not convert"
        " for every convolution.",
        "transpose": "Use the GEMM's transpose flags and leading dimensions, or store in the order of use.",
    }.get(sort, "Let the kernel that follows read with strides, in place of copying its input first.")
    return facts.program.say(
        pytorch=f"{in_torch} torch.compile fuses the copies that are left with their neighbours.",
        jax=f"{in_c} XLA chooses layouts within one jit: look at what crosses its border, and at transposes in the"
        " program.",
        other=in_c,
    )
