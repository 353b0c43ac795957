"""Tells from a kernel's name a short form for people, its category, and whether a matrix unit can and does do its work.

Names are read once each (`lru_cache`): call these on the distinct names of a frame, never per row.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from tracetui.parsers.names.itanium import demangle
from tracetui.parsers.names.kernel_types import HALF_TYPES

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
            r"^(nccl|rccl|msccl|hccl|hcom_|SenRdma|userbuffers_)|nvshmem|cross_device_reduce|shot_?all_?reduce|multimem_all"
            r"|all_?reduce_fusion|^moe(A2A|AllToAll)|^allreduce_prototype",
        ),
        ("copy", r"^Reformatting"),  # of TensorRT, which names the layers around it behind
        ("elementwise", r"rotary|rope_|_rope$|BiasRope|^cast_mxfp\d|^cvt_\w+_to_fp\d|quant_deep_gemm"),
        (
            "other",
            r"embedding|_embs?_|embs_|sort|top_?k|loss|criterion|unique|histogram|bounds_check|linearize_index|sum_and_scatter"
            r"|scatter_fusion|pooling|computeStrides|entropy|kv_indices|ExpertPrefixSum|_prefill_inputs"
            # which token comes next, and what prepares it
            r"|sampling(from|$)|(?<!down)(?<!up)_sample_kernel|renormprob|masklogits|^eagle_prepare",
        ),
        (
            "copy",
            r"_and_cache(_|$)|gather_\w*cache|store_kvcache|^append_?paged_?kv|^set_\w*kv_buffer"
            r"|_ep_(scatter|gather)|(pre|post)_reorder(_|$)",
        ),
        (
            "attention",
            r"flash(?!infer)|fmha|attention|attn|sdpa|dot_do_o|convert_dq|(prefill|decode|pod)\w*kv|(^|_)mla_(dec|pfl|prefill|reduce)|_mha(_v\d|$)|MergeStates|^merge_state|mqa_logits"
            # of SGLang, LightLLM and vLLM, whose names say no more
            r"|^_fwd(_grouped)?_kernel(_stage\d)?$|^reduce_segments$",
        ),
        ("scan", r"scan|cumsum|cumprod|chunk_state|state_passing|delta_rule|fused_recurrent|^chunk_(fwd|bwd)_"),
        ("reduce", r"BiasAddGrad"),
        (
            "conv",
            r"fprop|dgrad|wgrad|convol|conv\d|conv_(?!indices)|_conv(?!ert|_indices)|conv2d|winograd|cudnn.*gemm|scudnn|hcudnn|im2col|col2im"
            r"|cask_cudnn|igemm_(fwd|bwd|wrw)|depthwise|gemmconv|sp3asmconv|\d{3}cudnn_|fft2d_|gfx\d+_f\dx\d_|im\dd2col"
            r"|GcnAsmConv|^computeOffsetsKernel",
        ),
        (
            "norm",
            # bN in the names of TensorRT-LLM's products (biasM_bN_) is the layout of a bias
            r"(layer|batch|group|instance|rms|weight)_?norm|rmsnorm|\bbn_|_(?-i:bn)_|gammabeta|rowwisemoments|welford"
            r"|computeinternalgradients|computefusedparams|norm_(fwd|bwd|forward|backward)|^ln_(fwd|bwd)_",
        ),
        ("softmax", r"softmax|GenerateNormalizedProb"),
        ("optimizer", r"(?<!h)adam|sgd|lamb|adagrad|rmsprop|optimizer|lion_"),
        (
            "gemm",
            r"gemm|gemv|nvjet|^(Custom_)?cijk_|splitkreduce|epilogue::|matmul|cutlass|_mm(_|$)|^mm_(?!ids)|^_?bmm_|dot_kernel|xmma|884|1688"
            r"|^marlin(_24)?$|fused_moe_kernel|^_?batched_(moe|triton)_kernel|triton_b?mm$|^mul_mat|csr_?(mm|mv)|^sp(mm|mv)|wvsplitk|mfma_moe|mlp_fused",
        ),
        (
            "copy",
            r"copy|SubTensorOpWith(Cast|Sub)|^cat|_cat_|catarray|transpose|nchwtonhwc|nhwctonchw|permut|expandInputRows|flip|roll_|memcpy|index_copy|repeat"
            r"|pack_|unpack|SwapDimension|ShuffleIn|concat",
        ),
        ("reduce", r"reduce|reduction|sum|mean|argmax|argmin|BiasGrad|finalizeMoe|^finalize(Kernel|DeepSeek)"),
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
_REDUCED = (
    ("norm", re.compile("norm|welford|(mean|var)_.*rsqrt")),
    ("softmax", re.compile("softmax|amax_.*exp_.*sum|exp_.*amax_.*sum")),
)
_TEMPLATES = (("attention", re.compile("attention|sdpa")), ("conv", re.compile("conv")))

_OF_MYELIN = re.compile(r"__my[le]_(?!.*gemm)(?P<fused>\w+)")
"""What TensorRT's compiler generates: the first letters of what it fused, in order (``__myl_bb1_1_TraMov``)."""
_FUSED = re.compile(r"[A-Z][a-z]+")
_MOVES = frozenset({"Tra", "Res", "Mov", "Move", "Sli", "Con", "Conc", "Cas", "Cast", "Gat", "Rep"})

_BY_NAMESPACE: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("communication", re.compile(r"\b(deep_ep|pplx)\b")),
    # FlashInfer has kernels for all parts of a model
    ("attention", re.compile(r"flash(?!infer)|fmha|attention", re.IGNORECASE)),
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
    sorts = {text[:3] for text in fused}
    if {"Mea", "Sum", "Red"} & sorts:
        return "softmax" if "Exp" in sorts else "norm" if "Sqr" in sorts else "reduce"
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


SHORT_NAME_LENGTH = 48

_CACHE = 1 << 16


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_ANONYMOUS = re.compile(r"(\(anonymous namespace\)|<unnamed>)::")
_GENERIC_BASES = frozenset(
    {"kernel", "Kernel", "Kernel2", "globalKernel", "device_kernel", "kernel_agent", "kentry", "run"}
)
_GUARDS = re.compile(r"enable_\w*(sm\d+|family)\w*|Sm\w*Only")
"""Matches wrappers that only restrict a kernel to some GPUs: `flash::enable_sm90_or_later<…>`."""
_IN_WORDS = re.compile(r"^(?!void )[^<(]* [^<(]*$")
"""Matches what is no C++ name but a few words, as accelerators that are no GPUs call their work."""
_LAMBDA_ARGUMENTS = re.compile(r"lambda\(([\w:, ]*)\)")

# Template arguments that carry no meaning of their own: dispatch machinery, containers, index arithmetic.
_PLUMBING = _words(
    """
    at native detail Array char gpu_kernel_impl gpu_kernel_impl_nocast opmath_gpu_kernel_with_scalars
    opmath_symmetric_gpu_kernel_with_scalars TensorIteratorBase TensorIterator lambda operator const float double
    c10 Half BFloat16 anonymous namespace std array int long short bool unsigned signed void true false instance
    type BinaryFunctor BUnaryFunctor AUnaryFunctor binary_internal internal templates cuda ul u OpaqueType
    ReduceOp func_wrapper_t TensorListMetadata TensorListScalarListMetadata BinaryOpScalarFunctor
    BinaryOpScalarListFunctor BinaryOpScalarTensorFunctor BinaryOpListAlphaFunctor PointwiseOpScalarFunctor
    PointwiseOpScalarListFunctor PointwiseOpScalarTensorFunctor PointwiseOpListFunctor UnaryOpFunctor
    TernaryOpScalarFunctor TernaryOpListFunctor TernaryOpScalarListFunctor FusedOptimizerTensorListMetadata
    ZeroFunctor thrust complex nullptr_t _cuda_scatter_gather_internal_kernel TensorBase
    cuda_scatter_gather_base_kernel T1 T2 T3 T4 T5 T6 T7 T8
    """
)
_WRAPPERS = {
    "elementwise_kernel": "elementwise",
    "elementwise_kernel_with_index": "elementwise",
    "vectorized_elementwise_kernel": "elementwise",
    "unrolled_elementwise_kernel": "elementwise",
    "unrolled_elementwise_kernel_for_multi_outputs": "elementwise",
    "legacy_elementwise_kernel": "elementwise",
    "vectorized_templated_elementwise_kernel": "elementwise",
    "elementwise_kernel_manual_unroll": "elementwise",
    "distribution_elementwise_grid_stride_kernel": "random",
    "index_elementwise_kernel": "index",
    "_scatter_gather_elementwise_kernel": "scatter/gather",
    "reduce_kernel": "reduce",
}
_TYPES = HALF_TYPES | {"double": "fp64", "long": "int64", "int": "int32", "bool": "bool"}
_FUNCTOR_ENDINGS = re.compile(
    r"(_?(backward))?(_?gpu)?(_?cuda)?(_?(kernel|Kernel))(_?(cuda|CUDA|impl|Impl))*$|(CUDAKernelImpl|KernelImpl|Impl)$"
)


class _Parts(Struct, frozen=True):
    """A C++ function name taken apart."""

    path: tuple[str, ...]
    """Namespaces and the function's own name, without template arguments and return type."""
    template: str
    """The function's template arguments, as written."""

    @property
    def base(self) -> str:
        return self.path[-1]

    @property
    def functor(self) -> str:
        """The first template argument that tells what the kernel does, as written; empty if none does."""
        return next((word for word in _IDENTIFIER.findall(self.template) if word not in _PLUMBING), "")


@lru_cache(_CACHE)
def _parts(name: str) -> _Parts:
    text = name.strip()
    if _IN_WORDS.search(text):
        return _Parts((text,), "")
    if text.startswith("_Z"):
        text = demangle(text) or text
    text = _ANONYMOUS.sub("", text)
    if text.startswith("_ZN"):
        return _mangled(text)
    depth = 0
    outside: list[str] = []
    template = ""
    opened = 0
    for at, letter in enumerate(text):
        if letter == "(" and depth == 0:
            break  # the parameter list
        if letter in "<([{":
            if depth == 0:
                opened = at + 1
            depth += 1
        elif letter in ">)]}" and depth:
            depth -= 1
            if depth == 0:
                template = text[opened:at]
        elif depth == 0:
            if letter == " " and outside and "".join(outside).strip():
                outside, template = [], ""  # what came before was the return type
            else:
                outside.append(letter)
    if depth:
        template = text[opened:]  # the name is cut short
    path = tuple(part for part in "".join(outside).strip().split("::") if part)
    return _Parts(path or (text or "unknown",), template)


_MOST_DIGITS = 9
_LENGTH = re.compile(r"L[a-z]n?\d+E|(?P<length>\d+)")
"""A number in a mangled name: a template argument's value (``Li16E``), or the length of the identifier after it."""


def _mangled(text: str) -> _Parts:
    """A mangled name that can't be demangled, such as one cut short: its length-prefixed identifiers, in order."""
    words: list[str] = []
    at = 0
    while match := _LENGTH.search(text, at):
        if match["length"] is None:
            at = match.end()
            continue
        # no name is so long, and Python refuses to make a number of thousands of digits
        length, start = int(match["length"][:_MOST_DIGITS]), match.end()
        word = text[start : start + length]
        if length and len(word) == length and _IDENTIFIER.fullmatch(word):
            words.append(word)
            at = start + length
        else:
            at = start
    nested = 0
    while nested < len(words) and words[nested] not in _GENERIC_BASES and not words[nested].lower().endswith("kernel"):
        nested += 1
    nested = min(nested + 1, len(words))
    return _Parts(tuple(words[:nested]) or (text,), " ".join(words[nested:]))


def _inner_name(template: str) -> str:
    """The first type among template arguments, without its namespaces: what `cutlass::Kernel<…>` wraps."""
    words = [word for word in _IDENTIFIER.findall(template.split("<")[0]) if word not in _PLUMBING]
    if "<" not in template and " " in template and "::" not in template:  # from a mangled name
        return next((w for w in words if w[0].isupper()), words[0] if words else "")
    while True:
        first, _, inside = template.partition("<")
        name = first.split(",")[0].split("::")[-1].strip()
        if not inside or "," in first or not _GUARDS.fullmatch(name):
            return name
        template = inside


def _own_name(parts: _Parts) -> str:
    """The function's own name; for a wrapper that is called just "kernel", the name of what it wraps."""
    if parts.base not in _GENERIC_BASES:
        return parts.base
    if "cublasGemv" in parts.template:
        return "gemvx::kernel"  # ncu leaves the namespace out
    if parts.path[0].startswith("ck"):  # kentry<blocks per unit, maybe an architecture, what it runs, …>
        return next((word for word in _IDENTIFIER.findall(parts.template) if word[0].isupper()), parts.base)
    inner = _inner_name(parts.template)
    of_cutlass = "cutlass" in parts.path[0] or parts.path == ("device_kernel",)  # ncu leaves the namespace out
    if inner and inner not in _PLUMBING and not inner[0].isdigit() and of_cutlass:
        return inner
    return "::".join(parts.path[-3:])


@lru_cache(_CACHE)
def short_name(name: str) -> str:
    """A short name for people: without namespaces, template and parameter lists, but with what tells kernels apart.

    At most `SHORT_NAME_LENGTH` characters; two kernels may share one short name.
    """
    if " + " in re.split(r"[(<]", name, maxsplit=1)[0]:  # what TensorRT fuses to a layer; no function is named so
        return _fit(name)
    parts = _parts(name)
    base = parts.base
    if base in _WRAPPERS:
        return _fit(" ".join(filter(None, (f"{_WRAPPERS[base]}:", _operation(parts), _element_type(parts)))))
    if base == "multi_tensor_apply_kernel":
        return _fit(f"multi_tensor_apply<{_multi_tensor_functor(parts)}>")
    if base.startswith(("Cijk_", "Custom_Cijk_")):
        kept = re.match(r"(?:Custom_)?Cijk_[A-Za-z]+_[A-Za-z]+_[A-Z0-9]+", base)
        tiles = re.findall(r"_((?:MT|MI)\d+x\d+(?:x\d+)*)", base)
        return _fit("_".join([kept.group() if kept else "Cijk", *tiles]))
    if "xmma" in base:
        return _fit(_short_xmma(base))
    if match := re.match(r"cudnn_generated_fort_native_(.*?)(_knob_.*)?$", base):
        return _fit(f"cudnn_{match.group(1)}")
    own = _own_name(parts)
    if own == "EigenMetaKernel" and (operation := re.search(r"scalar_(\w+?)_op\b", parts.template)):
        own = f"{own}: {operation.group(1)}"
    if len(own) > SHORT_NAME_LENGTH:
        own = re.sub(r"(?<=gemm)(.*)_align\d+$|(?<=scudnn)(.*)_v1$", r"\1\2", own)
        own = re.sub(r"(?<=nvjet)(.*)_[hv]_bz(?=_)", r"\1", own)
    return _fit(own)


def _fit(text: str) -> str:
    """Shortens the middle, since both ends of a kernel name carry meaning."""
    if len(text) <= SHORT_NAME_LENGTH:
        return text
    tail = SHORT_NAME_LENGTH * 2 // 5
    return text[: SHORT_NAME_LENGTH - tail - 1] + "…" + text[-tail:]


def _operation(parts: _Parts) -> str:
    """What an elementwise, index or reduce kernel computes: ``add``, ``gelu backward``, ``sum``."""
    word = parts.functor
    if not word:
        return ""
    if re.search(r"(^|_)copy(_|$)", word) and "index_copy" not in word:
        return "copy"
    backward = "backward" in word.lower()
    word = re.sub(r"^CUDAFunctor(OnOther|OnSelf)?_|^(_?cuda|gpu|launch)_", "", word)
    word = _FUNCTOR_ENDINGS.sub("", word)
    word = re.sub(r"(Functor|_functor|Ops|Op|_and_transform)$", "", word)
    word = re.sub(r"_?[Bb]ackward_?", "", word)
    word = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word).lower().strip("_")
    return f"{word} backward" if backward else word


def _element_type(parts: _Parts) -> str:
    """The element type, if it is not float."""
    copied = re.search(r"\b(bfloat16|float16|float8_\w+?)_copy", parts.template)
    if copied:
        return {"bfloat16": "bf16", "float16": "fp16"}.get(copied.group(1), copied.group(1))
    match = re.search(r"(?:Functor\w*|ReduceOp|_add)<((?:c10::|at::)?\w+)", parts.template)
    if match:
        return _TYPES.get(match.group(1), "")
    # a lambda over one int is the loop over indices
    arguments = [found for found in _LAMBDA_ARGUMENTS.findall(parts.template) if found and found != "int"]
    return _TYPES.get(arguments[0].split(",")[-1].strip(), "") if arguments else ""


def _multi_tensor_functor(parts: _Parts) -> str:
    words = [w for w in _IDENTIFIER.findall(parts.template) if w not in _PLUMBING]
    named = next((w for w in words if w.endswith("Functor") or w.endswith("FunctorBase")), "")
    return named or (words[0] if words else "")


def _short_xmma(base: str) -> str:
    """An xmma name without the parts for the library alone; ``f32f32_f32f32_f32`` (A, B, C types) becomes ``f32``."""
    text = re.sub(r"_(stage|warpsize|warpgroupsize|aligna|alignc)\d+(x\d+)*", "", base)
    text = re.sub(r"_execute(_segment_k_off)?(_split_k)?(_kernel.*)?$", r"\2", text).replace("_tilesize", "_")

    def types(match: re.Match[str]) -> str:
        return "_" + "_".join(dict.fromkeys(re.findall(r"(?:tf|bf|f|i|u|e\dm)\d+", match.group())))

    return re.sub(r"(_(?:(?:tf|bf|f|i|u)\d+){1,2}){2,3}(?=_)", types, text)


@lru_cache(_CACHE)
def category(name: str) -> str:
    """The kind of work, one of `CATEGORIES`: from the function's own name, then from what it wraps.

    Foreach kernels (`multi_tensor_apply_kernel`) count as optimizer: in training, optimizers launch nearly all of them.
    Embedding lookups, sorting, top-k, pooling, indexing and losses are "other".
    """
    parts = _parts(name)
    base = parts.base
    if base in _WRAPPERS:
        return _wrapper_category(base, parts.functor)
    if base == "multi_tensor_apply_kernel":
        functor = _multi_tensor_functor(parts)
        return "reduce" if "Norm" in functor else "copy" if functor.startswith("Copy") else "optimizer"
    own = _own_name(parts)
    if (generated := by_inductor(own) or by_myelin(own)) is not None:
        return generated
    if base in _GENERIC_BASES and ("cudnn" in parts.path[0] or parts.template.startswith("xmma_new::implicit_gemm")):
        return "conv"  # CUTLASS kernels that cuDNN instantiates, including the reduction for split K
    return by_own_name(own) or by_namespace("::".join(parts.path[:-1])) or "other"


PRODUCTS = frozenset({"gemm", "conv", "attention"})
"""Categories of kernels that multiply matrices, which libraries choose."""


def is_product(name: str) -> bool:
    """Whether a kernel multiplies matrices, by its name."""
    return category(name) in PRODUCTS


def _wrapper_category(base: str, functor: str) -> str:
    if base == "reduce_kernel":
        return "reduce"
    if re.search(r"copy|flip|roll", functor):
        return "copy"
    if functor.startswith("batch_norm"):
        return "norm"
    return "other" if base in ("index_elementwise_kernel", "_scatter_gather_elementwise_kernel") else "elementwise"


_PLAIN_MATH = re.compile(
    r"ffma|simt|dot_do_o|convert_dq|combine|and_cache|splitk_?reduce|ReduceSplitK|gemv|preprocess|postprocess"
    r"|prepare_varlen|kv_indices|computeStrides|flash_attn_(tile|vec)|fmhaReduction",
    re.IGNORECASE,
)
_TENSOR_MATH = re.compile(
    r"(?<!sub)tensorop|nvjet|tensor\d+x\d+x\d+|tf32|[hidqb]mma|wgmma|gmma|wmma|warpgroup|h884|s884|i8816|[hsci]1688|16816"
    r"|161616|fp8_gemm|s16832|i16832|sdpa|flash(?!infer)|prefillwith|warpspecialized|mfma|xdlops|_xdl_|_gtcx\d?_|tcgen05|umma"
    r"|tensor_?core|_et\d+x\d+_m\d+x\d+x\d+_|sm(90|100)_\w*_gemm",
    re.IGNORECASE,
)
"""SubTensorOp is MIOpen's elementwise work, gtcx its matrix cores; ``et…_m128x16x32`` has the shape of one tensor-core
instruction (TensorRT-LLM's generated products)."""
_CK_ATTENTION = re.compile(r"^Fmha(?!\w*(OGradDotO|ConvertQGrad|AppendKV))")
_PRE_AMPERE_FMHA = re.compile(r"fmha_cutlass[FB]_(f32\w*_sm(50|60|70|75)|\w+_sm50)")


_BUILT_FOR = re.compile(r"sm(\d{2,3})_xmma_")
"""How cuBLAS and cuDNN name kernels of one architecture."""


def built_for(name: str) -> int | None:
    """The architecture, such as 90, that a kernel of cuBLAS or cuDNN needs at least; None where its name says none."""
    match = _BUILT_FOR.match(name)
    return int(match[1]) if match else None


@lru_cache(_CACHE)
def uses_tensor_cores(name: str) -> bool:
    """Whether the name says that matrix units do the work: NVIDIA tensor cores, AMD matrix cores (MFMA).

    Only the name is known: hand-written kernels (Triton, CUDA) that do not say so count as not using them.
    """
    parts = _parts(name)
    words = " ".join((*parts.path, parts.template))
    own = _own_name(parts)
    if _PLAIN_MATH.search(own) or _PLAIN_MATH.search(parts.base) or "gemvx" in parts.path:
        return False
    if own.startswith(("Cijk_", "Custom_Cijk_")):
        return re.search(r"_MI(16|32|4)x", own) is not None
    if own == "Marlin" or (parts.path[0] == "ck_tile" and (_CK_ATTENTION.search(own) or "Gemm" in own)):
        return True
    if "fmha" in own:
        return _PRE_AMPERE_FMHA.search(own) is None
    if "multi_head" in own or parts.base in _WRAPPERS:
        return False
    return _TENSOR_MATH.search(words) is not None


TORCH_TB_TENSOR_CORE_OPERATORS = _words(
    """
    aten::_convolution aten::_convolution_nogroup aten::conv1d aten::conv2d aten::conv3d aten::conv_tbc
    aten::conv_transpose1d aten::conv_transpose2d aten::conv_transpose3d aten::convolution aten::cudnn_convolution
    aten::cudnn_convolution_transpose aten::cudnn_convolution_backward aten::cudnn_convolution_backward_input
    aten::cudnn_convolution_backward_weight aten::cudnn_convolution_transpose_backward
    aten::cudnn_convolution_transpose_backward_input aten::cudnn_convolution_transpose_backward_weight aten::prelu
    aten::addmm aten::addmm_ aten::addmv aten::addr aten::matmul aten::mm aten::mv aten::linear aten::addbmm
    aten::baddbmm aten::bmm aten::chain_matmul aten::linalg_multi_dot aten::_thnn_fused_lstm_cell
    aten::_thnn_fused_gru_cell aten::lstm_cell aten::gru_cell aten::rnn_tanh_cell aten::rnn_relu_cell
    AddbmmBackward AddmmBackward AddmvBackward BmmBackward0 CudnnConvolutionBackward
    CudnnConvolutionTransposeBackward MmBackward MvBackward
    """
)
"""Operators that torch-tb-profiler calls eligible for tensor cores."""

TENSOR_CORE_OPERATORS = TORCH_TB_TENSOR_CORE_OPERATORS | _words(
    """
    AddmmBackward0 AddbmmBackward0 BaddbmmBackward0 AddmvBackward0 MmBackward0 MvBackward0 LinearBackward0
    ConvolutionBackward0 aten::convolution_backward aten::linear_backward aten::matmul_backward aten::einsum
    aten::_scaled_mm aten::_grouped_mm aten::_int_mm aten::scaled_dot_product_attention
    aten::_scaled_dot_product_flash_attention aten::_scaled_dot_product_efficient_attention
    aten::_scaled_dot_product_cudnn_attention aten::_flash_attention_forward aten::_efficient_attention_forward
    aten::_cudnn_attention_forward aten::_scaled_dot_product_flash_attention_backward
    aten::_scaled_dot_product_efficient_attention_backward aten::_scaled_dot_product_cudnn_attention_backward
    aten::_flash_attention_backward aten::_efficient_attention_backward aten::_cudnn_attention_backward
    aten::miopen_convolution aten::lstm aten::gru aten::_cudnn_rnn aten::_cudnn_rnn_backward
    """
)
"""Those and newer or missing ones: attention, scaled and grouped products, today's names of backward operators."""


_FINER: dict[str, tuple[tuple[str, re.Pattern[str]], ...]] = {
    category: tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in patterns.items())
    for category, patterns in {
        "other": {
            "loss": r"loss|criterion|nll",
            "top-k": r"top_?k|kthvalue|radixselect|sbtopk|mbtopk",
            "sort": r"sort",
            "embedding": r"embedding|_embs?_|embs_",
            "gather/scatter": r"gather|scatter|index|(^|_)take(_|$)|(?<![a-z])put_kernel",
        },
        "copy": {"concatenate": r"^cat|_cat_|catarray", "gather/scatter": r"index_copy"},
    }.items()
}
"""Of categories that are too wide, the kinds in them; the first that fits."""


@lru_cache(1 << 16)
def kind_of(name: str) -> str:
    """The kernel's category, of indexing, selection, sorting and concatenation what it is: ``top-k``, ``sort``."""
    wide = category(name)
    if wide not in _FINER:
        return wide
    short = short_name(name)
    return next((kind for kind, pattern in _FINER[wide] if pattern.search(short)), wide)


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
    if not is_product(name):
        return False
    return _NO_MATRIX_UNIT.search(name) is None and not sparse_work(name)


@lru_cache(1 << 14)
def sparse_work(name: str) -> bool:
    """Whether it works on a sparse matrix, by its name: how much that is no shape tells."""
    return _SPARSE.search(name) is not None


def plain_matrix_work(name: str) -> bool:
    """Whether it is matrix work on FMA units, by its name."""
    return matrix_work(name) and _PLAIN.search(name) is not None and not uses_tensor_cores(name)


def fp32_matrix_work(name: str) -> bool:
    """Whether it is matrix work in fp32, by its name."""
    return plain_matrix_work(name) and _NOT_FP32.search(name) is None


def fp64_work(name: str) -> bool:
    """Whether it computes in double precision, by its name."""
    return _DOUBLE.search(name) is not None


@lru_cache(1 << 14)
def tensor_cores_unclear(name: str) -> bool:
    """Whether it is matrix work of which the name doesn't tell on which units it runs: Triton, XLA, kernels by hand."""
    if not matrix_work(name) or uses_tensor_cores(name):
        return False
    return not plain_matrix_work(name) and not fp64_work(name)
