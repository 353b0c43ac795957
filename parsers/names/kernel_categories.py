"""The kind of work that a kernel's own name, its namespace or its generator tells: the patterns, in order."""

from __future__ import annotations

import re

CATEGORIES = (
    "scan",
    "gemm",
    "conv",
    "attention",
    "softmax",
    "norm",
    "elementwise",
    "reduce",
    "copy",
    "communication",
    "optimizer",
    "other",
)

_PRIMARY: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (category, re.compile(pattern, re.IGNORECASE))
    for category, pattern in (
        (
            "communication",
            r"^(nccl|rccl|msccl|hccl|hcom_|SenRdma)|nvshmem|cross_device_reduce|_shot_all_reduce|multimem_all"
            r"|shotAllReduce|all_?reduce_fusion",
        ),
        ("elementwise", r"rotary|rope_"),
        (
            "other",
            r"embedding|_embs?_|embs_|sort|top_?k|loss|criterion|unique|histogram|bounds_check|linearize_index|sum_and_scatter"
            r"|scatter_fusion|pooling|computeStrides|entropy",
        ),
        ("copy", r"reshape_and_cache|store_kvcache"),
        (
            "attention",
            r"flash(?!infer)|fmha|attention|attn|sdpa|dot_do_o|convert_dq|(prefill|decode)\w*kv|_mha(_v\d|$)|MergeStates"
            # of SGLang and LightLLM, whose names say no more
            r"|^_fwd(_grouped)?_kernel(_stage\d)?$",
        ),
        ("scan", r"scan|cumsum|cumprod|chunk_state|state_passing|delta_rule|fused_recurrent|^chunk_(fwd|bwd)_"),
        (
            "conv",
            r"fprop|dgrad|wgrad|convol|conv\d|conv_(?!indices)|_conv(?!ert|_indices)|conv2d|winograd|cudnn.*gemm|scudnn|hcudnn|im2col|col2im"
            r"|cask_cudnn|igemm_(fwd|bwd|wrw)|depthwise|gemmconv|sp3asmconv|\d{3}cudnn_|fft2d_|gfx\d+_f\dx\d_|im\dd2col"
            r"|GcnAsmConv",
        ),
        (
            "norm",
            # bN in the names of TensorRT-LLM's products (biasM_bN_) is the layout of a bias
            r"(layer|batch|group|instance|rms|weight)_?norm|rmsnorm|\bbn_|_(?-i:bn)_|gammabeta|rowwisemoments|welford"
            r"|computeinternalgradients|computefusedparams|norm_(fwd|bwd|forward|backward)|^ln_(fwd|bwd)_",
        ),
        ("softmax", r"softmax|GenerateNormalizedProb"),
        ("optimizer", r"adam|sgd|lamb|adagrad|rmsprop|optimizer|lion_"),
        (
            "gemm",
            r"gemm|gemv|nvjet|^cijk_|splitkreduce|epilogue::|matmul|cutlass|_mm_|^mm_(?!ids)|^_?bmm_|dot_kernel|xmma|884|1688"
            r"|^marlin$|fused_moe_kernel|triton_b?mm$|^mul_mat|csr_?(mm|mv)|^sp(mm|mv)|wvsplitk|mfma_moe|mlp_fused",
        ),
        (
            "copy",
            r"copy|SubTensorOpWith(Cast|Sub)|^cat|_cat_|catarray|transpose|nchwtonhwc|nhwctonchw|permut|expandInputRows|flip|roll_|memcpy|index_copy|repeat"
            r"|pack_|unpack|SwapDimension|ShuffleIn|concat",
        ),
        ("reduce", r"reduce|reduction|sum|mean|argmax|argmin|BiasGrad|finalizeMoe"),
        (
            "elementwise",
            r"elementwise|pointwise|activation|dropout|fill|where|gelu|silu|swiglu|relu|scal|triu|tril|arange|add"
            r"|mul|triton_poi_|^loop_|^wrapped_|sigmoid|tanh|clamp|quantize|_quant_|elemwise|EigenMetaKernel|^Bias(NHWC|NCHW)"
            r"|^Op[1-5]dTensor|SubTensorOp",
        ),
    )
)


_OF_INDUCTOR = re.compile(r"triton_(?P<sort>poi(?=_)|[a-z]{3}(?=_fused))")
"""What Inductor's generated kernels begin with: pointwise, a reduction (also one in one piece), a template, foreach."""
_REDUCED = (("norm", re.compile("norm|welford")), ("softmax", re.compile("softmax")))
_TEMPLATES = (("attention", re.compile("attention|sdpa")), ("conv", re.compile("conv")))

_OF_MYELIN = re.compile(r"__my[le]_(?!.*gemm)(?P<fused>\w+)")
"""What TensorRT's compiler generates: the first letters of what it fused, in order (``__myl_bb1_1_TraMov``)."""
_FUSED = re.compile(r"[A-Z][a-z]+")
_MOVES = frozenset({"Tra", "Res", "Mov", "Move", "Sli", "Con", "Conc", "Cas", "Cast", "Gat", "Rep"})

_BY_NAMESPACE: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("communication", re.compile(r"\bdeep_ep\b")),
    ("attention", re.compile(r"flash|fmha|attention", re.IGNORECASE)),
    ("conv", re.compile(r"cudnn::(detail|cnn|winograd)|cask_cudnn")),
    ("gemm", re.compile(r"cublas|cutlass")),
)


def by_own_name(own: str) -> str | None:
    """The kind of work that a function's own name tells, without namespaces and template arguments."""
    return next((found for found, pattern in _PRIMARY if pattern.search(own)), None)


def by_namespace(spaces: str) -> str | None:
    """The kind of work that the library it is from does."""
    return next((found for found, pattern in _BY_NAMESPACE if pattern.search(spaces)), None)


def by_myelin(name: str) -> str | None:
    """The kind of a kernel that TensorRT's compiler made: a product, a reduction, arithmetic, or only moves."""
    match = _OF_MYELIN.match(name)
    fused = _FUSED.findall(match["fused"]) if match is not None else []
    if not fused:
        return None
    if "Fc" in fused:
        return "gemm"
    if {"Mea", "Sum", "Red"} & {*fused}:
        return "softmax" if "Exp" in fused else "norm" if "Sqr" in fused else "reduce"
    return "copy" if _MOVES.issuperset(fused) else "elementwise"


def by_inductor(name: str) -> str | None:
    """The kind of a kernel that Inductor made, by its sort: the names of what it fused come in no order."""
    match = _OF_INDUCTOR.match(name)
    if match is None:
        return None
    if match["sort"] in ("poi", "for"):
        return "elementwise"
    if match["sort"] in ("red", "per"):
        return next((found for found, pattern in _REDUCED if pattern.search(name)), "reduce")
    if match["sort"] == "tem":
        return next((found for found, pattern in _TEMPLATES if pattern.search(name)), "gemm")
    return None
