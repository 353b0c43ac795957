"""The least work of kernels, as FLOPs and bytes, from the input shapes of the operators that launched them.

FLOPs count a multiply-add as two. Bytes are compulsory: every input read once and every output written once, nothing
kept in a cache. Where the shapes don't tell (a convolution's stride), the answer is None rather than a guess.
"""

from __future__ import annotations

import json
import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import polars as pl
from msgspec import Struct

from tracetui.analysis.base import names
from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.kernel_makers import INDUCTOR_STREAMS
from tracetui.parsers.names.kernel_names import sparse_work
from tracetui.parsers.names.kernel_types import FLOATING, KINETO_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tracetui.analysis.selection import Selection


Shape = tuple[int, ...]
SCAN_PER_STATE, SCAN_MORE = 7, 7
"""FLOPs of the selective scan per token and channel: for each number of the state delta*A, exp, delta*u*B, a*h + b and
h*C summed; once delta*u, bias and softplus, D*u and its sum, the gate."""
ATTENTION_BACKWARD = 2.5
"""Five products against the forward pass's two."""


class Work(Struct, frozen=True):
    """Of one call."""

    flops: float
    bytes: float
    precision: str
    """Precision of the operands: ``fp32``, ``fp16``, …"""
    product: bool = False
    """Whether tensor cores could do it."""
    note: str = ""
    """What the shapes do not tell."""


class Tensor(Struct, frozen=True):
    """One input."""

    shape: Shape
    type: str
    size: int
    """Bytes of an element."""

    @property
    def count(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes."""
        return self.count * self.size


Given: TypeAlias = Tensor | tuple[Tensor, ...] | None
"""An argument of an operator."""


def work(name: str, shapes: str, types: str, kernel: str = "", after: Sequence[Shape] = ()) -> Work | None:
    """The work that one call of an operator must do; None where it is not known.

    Args:
        name: of the operator: ``aten::mm``.
        shapes: JSON text of its inputs' shapes, as the profiler records them.
        types: JSON text of their types.
        kernel: category of the kernel (`kernel_names.category`), for operators that launch several of their own.
        after: shapes of the inputs of the operators after it, from which a convolution's output size follows.
    """
    inputs = _inputs(shapes, types)
    if inputs is None:
        return None
    base = name.removeprefix("aten::").removesuffix("_") if name.startswith("aten::") else name
    try:
        if (product := _PRODUCTS.get(base)) is not None:
            return product(inputs)
        if base in _CONVOLUTIONS:
            return _convolution(inputs, after)
        if base == "convolution_backward":
            return _convolution_backward(inputs)
        if base in _ATTENTIONS:
            return _attention(inputs, _ATTENTIONS[base])
        if base in _SCANS:
            return _scan(inputs) if kernel == "scan" else _causal_conv(inputs[:2]) if kernel == "conv" else None
        if "causal_conv1d_fwd" in base:
            return _causal_conv(inputs)
        if base in _STREAMS:
            return _stream(inputs, *_STREAMS[base])
        if INDUCTOR_STREAMS.match(base) and not _SPARSE_READS.search(base):
            return _fused(inputs)
    except (IndexError, ValueError, TypeError, KeyError):  # these are not the inputs that an operator of this name has
        return None
    return None


@lru_cache(8192)
def _inputs(shapes: str, types: str) -> tuple[Given, ...] | None:
    """Every input: a tensor, a list of tensors, or None for what is neither."""
    try:
        listed, kinds = json.loads(shapes), json.loads(types)
    except (ValueError, RecursionError):
        return None
    if not isinstance(listed, list) or not isinstance(kinds, list):
        return None
    kinds += [""] * (len(listed) - len(kinds))
    found: list[Given] = []
    members = next((kind for kind in kinds if kind in KINETO_TYPES), "")
    for shape, kind in zip(listed, kinds, strict=False):
        if isinstance(shape, list) and shape and all(isinstance(one, list) for one in shape):
            # the types of a list's members are not recorded; operators on lists take one type
            found.append(tuple(_tensor(one, members or "float") for one in shape if _is_shape(one)))
        elif _is_shape(shape) and kind in KINETO_TYPES:
            found.append(_tensor(shape, kind))
        elif _is_shape(shape) and shape:  # a tensor of a type whose numbers are not counted, such as complex ones
            return None
        else:
            found.append(None)
    return tuple(found)


def _is_shape(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(size, int) and 0 <= size < 1 << 48 for size in value)


def _tensor(shape: list[int], kind: str) -> Tensor:
    precision, size = KINETO_TYPES[kind]
    return Tensor(tuple(shape), precision, size)


def _given(value: Given, rank: int | None = None) -> Tensor:
    if not isinstance(value, Tensor) or (rank is not None and len(value.shape) != rank):
        raise ValueError
    return value


# --- products


def _product(a: Tensor, b: Tensor, batch: int, m: int, k: int, n: int) -> Work:
    out = batch * m * n * a.size
    return Work(2.0 * batch * m * k * n, float(a.bytes + b.bytes + out), a.type, product=True)


def _mm(inputs: Sequence[Given]) -> Work:
    a, b = _given(inputs[0], 2), _given(inputs[1], 2)
    (m, k), (same, n) = a.shape, b.shape
    if k != same:
        raise ValueError
    return _product(a, b, 1, m, k, n)


def _bmm(inputs: Sequence[Given]) -> Work:
    a, b = _given(inputs[0], 3), _given(inputs[1], 3)
    (batch, m, k), (other, same, n) = a.shape, b.shape
    if k != same or batch != other:
        raise ValueError
    return _product(a, b, batch, m, k, n)


def _added(product: Callable[[Sequence[Given]], Work]) -> Callable[[Sequence[Given]], Work]:
    """A product whose first input is the tensor that is added to it."""

    def whole(inputs: Sequence[Given]) -> Work:
        added, found = _given(inputs[0]), product(inputs[1:])
        return Work(found.flops, found.bytes + added.bytes, found.precision, product=True)

    return whole


def _linear(inputs: Sequence[Given]) -> Work:
    a, b = _given(inputs[0]), _given(inputs[1], 2)
    n, k = b.shape
    if not a.shape or a.shape[-1] != k:
        raise ValueError
    return _product(a, b, 1, a.count // k, k, n)


def _mv(inputs: Sequence[Given]) -> Work:
    a, b = _given(inputs[0], 2), _given(inputs[1], 1)
    return _product(a, b, 1, a.shape[0], a.shape[1], 1)


_PRODUCTS: dict[str, Callable[[Sequence[Given]], Work]] = {
    "mm": _mm, "_int_mm": _mm, "_scaled_mm": _mm, "bmm": _bmm, "addmm": _added(_mm), "_addmm_activation": _added(_mm),
    "baddbmm": _added(_bmm), "linear": _linear, "mv": _mv, "addmv": _added(_mv),
}  # fmt: skip


# --- convolutions

_CONVOLUTIONS = frozenset(
    (
        "convolution", "_convolution", "cudnn_convolution", "miopen_convolution", "_slow_conv2d_forward",
        "_conv_depthwise2d", "conv_depthwise3d", "slow_conv_dilated2d", "slow_conv3d_forward", "conv1d", "conv2d",
        "conv3d", "convolution_overrideable", "miopen_depthwise_convolution", "cudnn_convolution_relu",
    )
)  # fmt: skip


def _convolution(inputs: Sequence[Given], after: Sequence[Shape]) -> Work | None:
    """Strides and paddings are not recorded: a later operator that takes its images and channels tells the output size.

    That operator is the addition of the bias, or the normalisation.
    """
    x, weight = _given(inputs[0]), _given(inputs[1])
    if len(x.shape) != len(weight.shape) or len(x.shape) < 3:
        raise ValueError
    begin = (x.shape[0], weight.shape[0])
    room = [size + 2 * kernel for size, kernel in zip(x.shape[2:], weight.shape[2:], strict=True)]
    for shape in after:
        if len(shape) == len(x.shape) and shape[:2] == begin:
            if all(0 < size <= most for size, most in zip(shape[2:], room, strict=True)):
                return _convolved(x, weight, shape)
            return None
    return None


def _convolved(x: Tensor, weight: Tensor, out: Shape, passes: int = 1) -> Work:
    # a weight's shape is (out channels, channels of its group, kernel): the product is per output number
    flops = 2.0 * passes * math.prod(out) * math.prod(weight.shape[1:])
    moved = float(x.bytes + weight.bytes + math.prod(out) * x.size)
    if passes > 1:  # both gradients are written, input and weight read
        moved += x.bytes + weight.bytes
    return Work(flops, moved, x.type, product=True)


def _convolution_backward(inputs: Sequence[Given]) -> Work:
    gradient, x, weight = _given(inputs[0]), _given(inputs[1]), _given(inputs[2])
    found = _convolved(x, weight, gradient.shape, passes=2)
    note = "counts the gradients of both input and weight"
    return Work(found.flops, found.bytes, found.precision, product=True, note=note)


def _causal_conv(inputs: Sequence[Given]) -> Work:
    """A depthwise convolution: (batch, channels, length) with (channels, width), or (channels, 1, width)."""
    x, weight = _given(inputs[0], 3), _given(inputs[1])
    channels = weight.shape[0]
    if channels not in (x.shape[1], x.shape[1] // 2):
        raise ValueError
    numbers = x.shape[0] * channels * x.shape[2]
    return Work(2.0 * numbers * weight.shape[-1], float(2 * numbers * x.size + weight.bytes), x.type)


# --- attention: name -> (axis of the heads, axis of the tokens, whether it is the backward pass)

_ATTENTIONS = {
    "_scaled_dot_product_flash_attention": (1, 2, False),
    "_scaled_dot_product_efficient_attention": (1, 2, False),
    "_scaled_dot_product_cudnn_attention": (1, 2, False),
    "_cudnn_attention_forward": (1, 2, False),
    "_flash_attention_forward": (2, 1, False),
    "_efficient_attention_forward": (2, 1, False),
    "_scaled_dot_product_flash_attention_backward": (1, 2, True),
    "_scaled_dot_product_efficient_attention_backward": (1, 2, True),
    "_scaled_dot_product_cudnn_attention_backward": (1, 2, True),
    "_cudnn_attention_backward": (1, 2, True),
    "_flash_attention_backward": (2, 1, True),
    "_efficient_attention_backward": (2, 1, True),
    "flash_attn::_flash_attn_forward": (2, 1, False),
    "flash_attn::_flash_attn_backward": (2, 1, True),
}


def _attention(inputs: Sequence[Given], form: tuple[int, int, bool]) -> Work:
    heads, tokens, backward = form
    q, k, v = (_given(one, 4) for one in inputs[1 if backward else 0 :][:3])
    flops = 2.0 * q.shape[0] * q.shape[heads] * q.shape[tokens] * k.shape[tokens] * (q.shape[3] + v.shape[3])
    out = q.bytes // q.shape[3] * v.shape[3] if q.shape[3] else 0
    moved = q.bytes + k.bytes + v.bytes + out
    if backward:
        flops, moved = flops * ATTENTION_BACKWARD, 2 * moved
    note = "counts the whole matrix of scores: a causal mask needs half"
    return Work(flops, float(moved), q.type, product=True, note=note)


class Heads(Struct, frozen=True):
    """The sizes of a call of attention that lengths don't tell."""

    query: int
    key: int
    """Heads of keys and values."""
    width: int
    type: str
    size: int
    """Bytes of a number."""


def attention_heads(name: str, shapes: str | None, types: str | None) -> Heads | None:
    """The heads of an operator's queries and keys, of PyTorch's or of a server's own; None where inputs don't tell."""
    tensors = [
        one for one in _inputs(shapes or "", types or "") or () if isinstance(one, Tensor) and len(one.shape) > 2
    ]
    form = _ATTENTIONS.get(name.removeprefix("aten::"))
    axis = -2 if form is None or len(tensors[0].shape if tensors else ()) != 4 else form[0]
    alike = [one for one in tensors if one.shape[-1] == tensors[0].shape[-1]]
    if len(alike) < 2:
        return None
    query, key = alike[0], alike[1] if form is not None else min(alike[1:], key=lambda one: one.shape[axis])
    return Heads(query.shape[axis], key.shape[axis], query.shape[-1], query.type, query.size)


# --- the selective scan of Mamba

_SCANS = frozenset(("MambaInnerFn", "MambaInnerFnNoOutProj", "BiMambaInnerFn", "SelectiveScanFn"))


def _scan(inputs: Sequence[Given]) -> Work:
    """``SelectiveScanFn(u, delta, A, …)``, or an inner function of Mamba: ``(xz, conv, bias, x_proj, …, A, …)``.

    The bytes moved are those of u, delta, the gate z, the outputs with and without it, B and C, and the kept states.
    """
    first, second = _given(inputs[0], 3), _given(inputs[1])
    if second.shape == first.shape:  # u and delta
        batch, channels, length = first.shape
        states = _given(inputs[2], 2).shape
    else:
        batch, doubled, length = first.shape
        channels = second.shape[0]
        if doubled != 2 * channels:
            raise ValueError
        states = next(
            one.shape
            for one in inputs[5:]
            if isinstance(one, Tensor) and len(one.shape) == 2 and one.shape[0] == channels and one.shape[1] <= 256
        )
    if states[0] != channels:
        raise ValueError
    numbers, state = batch * channels * length, states[1]
    flops = float(numbers * (SCAN_PER_STATE * state + SCAN_MORE))
    moved = (5 * numbers + 2 * batch * state * length + channels * state) * first.size
    return Work(flops, float(moved), "fp32" if first.type in ("fp16", "bf16") else first.type)


def _words(text: str) -> list[str]:
    return text.split()


# --- what streams through memory: name -> (operations per element, inputs that are read, bytes written per element)

_OPERANDS = {
    1: _words(
        "neg exp log sqrt rsqrt abs relu gelu silu sigmoid tanh clamp clamp_min clamp_max threshold reciprocal square"
        " sin cos erf softplus hardtanh hardswish leaky_relu logical_not bitwise_not exp2 log2 floor round sign"
    ),
    2: _words(
        "add sub mul div rsub pow masked_fill maximum minimum eq ne lt le gt ge logical_and logical_or bitwise_and"
        " bitwise_or threshold_backward gelu_backward silu_backward sigmoid_backward tanh_backward relu_backward"
    ),
    3: _words("where addcmul addcdiv lerp"),
}
"""How many of the inputs are read: the others receive the result (``out=``)."""
_MOVING = _words("copy clone contiguous flip roll cat stack tril triu transpose_copy repeat index_select")
_SEVERAL = {
    "_softmax": 5, "_log_softmax": 5, "_softmax_backward_data": 4, "_log_softmax_backward_data": 4,
    "native_layer_norm": 8, "_fused_rms_norm": 5, "native_group_norm": 8, "cudnn_batch_norm": 8,
    "native_batch_norm": 8, "native_layer_norm_backward": 12, "_fused_rms_norm_backward": 9,
    "cudnn_batch_norm_backward": 12, "native_batch_norm_backward": 12,
}  # fmt: skip
_REDUCING = ("sum", "mean", "amax", "amin", "prod", "norm", "linalg_vector_norm")
_STREAMS: dict[str, tuple[int, str]] = {
    **{name: (1, f"broadcast {count}") for count, listed in _OPERANDS.items() for name in listed},
    **dict.fromkeys(_MOVING, (0, "moved")),
    **{name: (count, "like first") for name, count in _SEVERAL.items()},
    **dict.fromkeys(_REDUCING, (1, "reduced")),
    "fill": (0, "filled"),
    "zero": (0, "filled"),
    "LayerNormFn": (8, "like first"),
}
"""Operations per element are nominal: one for any function of a number, and one per pass over it for softmax and
norms."""


def _stream(inputs: Sequence[Given], operations: int, form: str) -> Work | None:
    tensors = [one for value in inputs for one in (value if isinstance(value, tuple) else (value,)) if one is not None]
    if not tensors or not all(isinstance(one, Tensor) for one in tensors):
        return None
    first: Tensor = tensors[0]
    read = float(sum(one.bytes for one in tensors))
    floating = next((one.type for one in tensors if one.type in FLOATING), first.type)
    if form == "filled":
        return Work(0.0, float(first.bytes), floating)
    if form == "moved":
        if len(tensors) > 1 and isinstance(inputs[0], Tensor):  # copy_(into, from)
            return Work(0.0, float(first.bytes + tensors[1].bytes), floating) if len(tensors) == 2 else None
        return Work(0.0, 2 * read, floating)
    if form == "reduced":
        return Work(float(operations * first.count), float(first.bytes), floating)
    if form == "like first":
        return Work(float(operations * first.count), read + first.bytes, floating)
    tensors = tensors[: int(form.removeprefix("broadcast "))]
    read = float(sum(one.bytes for one in tensors))
    shape = _broadcast([one.shape for one in tensors])
    count = math.prod(shape)
    widest = max((one.size for one in tensors if one.shape == shape), default=first.size)
    return Work(float(operations * count), read + count * widest, floating)


_SPARSE_READS = re.compile(r"embedding|index|gather|scatter")
"""Parts of such kernels that touch less of a tensor than all."""
ONCE = "bytes at least: each argument counts once, also one that is read and written"


def _fused(inputs: Sequence[Given]) -> Work | None:
    """A kernel that Inductor fused: its arguments are the tensors that it reads and those that it writes."""
    tensors = [one for one in inputs if isinstance(one, Tensor)]
    if not tensors:
        return None
    floating = next((one.type for one in tensors if one.type in FLOATING), tensors[0].type)
    most = max(one.count for one in tensors)
    return Work(float(most), float(sum(one.bytes for one in tensors)), floating, note=ONCE)


def _broadcast(shapes: Sequence[Shape]) -> Shape:
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    found = tuple(max(sizes) for sizes in zip(*padded, strict=True))
    if any(size not in (1, most) for shape in padded for size, most in zip(shape, found, strict=True)):
        raise ValueError
    return found


AFTER = 12
"""How many operators after a convolution are searched for the size of its output."""
SPARSE = "FLOPs and bytes of a sparse product: they depend on how many of its numbers are not zero"
OF_SPARSE = frozenset(
    f"aten::{name}"
    for name in (
        "_nnz", "sparse_dim", "dense_dim", "_indices", "_values", "indices", "values", "crow_indices", "col_indices",
        "ccol_indices", "row_indices", "is_coalesced", "_coalesced_",
    )
)  # fmt: skip
"""Operators that only sparse tensors have: what calls them was given one. Its type and shape don't say so."""
SCHEMA = {
    "name": pl.String(),
    "operator": pl.String(),
    "grid": pl.Array(pl.Int32, 3),
    "block": pl.Array(pl.Int32, 3),
    "launches": pl.UInt32(),
    "total_ns": pl.Int64(),
    "flops": pl.Float64(),
    "bytes": pl.Float64(),
    "precision": pl.String(),
    "note": pl.String(),
}


def shape_work(sel: Selection, uses_tensor_cores: Callable[[str], bool], only: pl.Expr | None = None) -> pl.DataFrame:
    """One row per kernel, operator, launch configuration and shapes whose work is known (`SCHEMA`).

    ``flops`` and ``bytes`` are of one call, null for sparse tensors, whose shapes don't tell; ``precision`` names the
    peak that applies to the kernel (`peaks.PRECISIONS`). ``launches`` are calls: if a call itself launched several
    kernels, the time of all of them counts for the longest, of those that multiply matrices if one does. Kernels that
    no operator launched have no shapes, and replayed ones those of their capture. `only` chooses among the kernels.
    """
    calls = _calls(sel, only)
    rows = []
    for call in calls.iter_rows(named=True):
        category = kernel_names.category(call["name"])
        after = _after(sel, call["first"]) if "conv" in call["operator"] else ()
        found = work(call["operator"], call["shapes"], call["types"], category, after)
        if found is None:
            continue
        notes = [SPARSE if call["sparse"] else found.note]
        if call["kernels"] > 1:
            more = call["kernels"] - 1
            notes.append(f"with {more} more kernel{'s' if more > 1 else ''} of the same call")
        rows.append(
            {
                "name": call["name"],
                "operator": call["operator"],
                "grid": call["grid"],
                "block": call["block"],
                "launches": call["launches"],
                "total_ns": call["total_ns"],
                "flops": None if call["sparse"] else found.flops,
                "bytes": None if call["sparse"] else found.bytes,
                "precision": rate(found, call["name"], uses_tensor_cores),
                "note": "; ".join(note for note in notes if note),
            }
        )
    return pl.DataFrame(rows, schema=SCHEMA)


def rate(found: Work, kernel: str, uses_tensor_cores: Callable[[str], bool]) -> str:
    """The peak that applies to a kernel's arithmetic: functions of half-precision numbers are computed in fp32."""
    if not found.product:
        return "fp64" if found.precision == "fp64" else "fp32"
    if not uses_tensor_cores(kernel):
        return found.precision if found.precision in ("fp64", "fp32", "fp16") else "fp32"
    return {"fp32": "tf32"}.get(found.precision, found.precision) + "_tensor"


def _calls(sel: Selection, only: pl.Expr | None) -> pl.DataFrame:
    """Calls of operators with shapes that launched kernels themselves, equal calls together."""
    host = sel.trace.host
    empty = pl.DataFrame(schema={"name": pl.String(), "first": pl.UInt32()})
    if host["input_shapes"].null_count() == host.height:
        return empty
    kernels = sel.timed.filter(
        (pl.col("kind") == "kernel")
        & pl.col("operator").is_not_null()
        # the operator around the launch of a graph launched none of its kernels; those of its capture stand below it
        & (pl.col("graph_node").is_null() | (pl.col("operator") > pl.col("launch")))
        & pl.col("duration").is_not_null()
        & (pl.lit(value=True) if only is None else only)
    ).select("name", "operator", "duration", "grid", "block")
    if not kernels.height:
        return empty
    called = host.select(
        pl.int_range(pl.len(), dtype=pl.UInt32).alias("call"),
        pl.col("kind"),
        pl.col("name").alias("operator_name"),
        pl.col("input_shapes").alias("shapes"),
        pl.col("input_types").alias("types"),
    ).filter((pl.col("kind") == "operator") & pl.col("shapes").is_not_null() & pl.col("types").is_not_null())
    found = kernels.rename({"operator": "call"}).join(called.drop("kind"), on="call")
    # an inner function of Mamba launches both its convolution and its scan: each of its kernels stands for itself
    apart = pl.col("operator_name").cast(pl.String).is_in(sorted(_SCANS))
    found = found.with_columns(part=pl.when(apart).then(pl.col("name").cast(pl.String)).otherwise(pl.lit("")))
    given = host["parent"].filter(names.matching(host["name"], OF_SPARSE.__contains__)).drop_nulls().unique()
    by_name = pl.Series(names.matching(found["name"], sparse_work))
    found = found.with_columns(sparse=by_name | found["call"].is_in(given.implode()))
    # a convolution may turn its operands around for longer than it computes: its FLOPs are not the turning's
    product = pl.Series(names.matching(found["name"], kernel_names.is_product))
    found = found.with_columns(multiplies=pl.when(product).then(pl.col("duration")))
    longest = pl.coalesce(pl.col("multiplies").arg_max(), pl.col("duration").arg_max())
    per_call = found.group_by("call", "part").agg(
        pl.col("operator_name", "shapes", "types").first(),
        pl.col("name", "grid", "block").get(longest),
        kernels=pl.len(),
        duration=pl.col("duration").sum(),
        sparse=pl.col("sparse").any(),
    )
    keys = ("name", "operator_name", "shapes", "types", "grid", "block", "sparse")
    return (
        per_call.group_by(keys)
        .agg(
            launches=pl.len(),
            total_ns=pl.col("duration").sum(),
            kernels=pl.col("kernels").max(),
            first=pl.col("call").min(),
        )
        .with_columns(pl.col("name", "operator_name", "shapes", "types").cast(pl.String))
        .rename({"operator_name": "operator"})
        .sort("total_ns", "first", descending=[True, False])
    )


def _after(sel: Selection, row: int) -> tuple[Shape, ...]:
    """The first inputs' shapes of the operators that begin on the same thread after a call has ended."""
    host = sel.trace.host
    mine = host.row(row, named=True)
    end = mine["start"] + mine["duration"]
    later = host.slice(row + 1, 64 * AFTER).filter(
        (pl.col("kind") == "operator") & (pl.col("thread") == mine["thread"]) & (pl.col("start") >= end)
    )
    shapes = []
    for text in later["input_shapes"].head(AFTER).cast(pl.String).drop_nulls().to_list():
        try:
            listed = json.loads(text)
        except (ValueError, RecursionError):
            continue
        first = listed[0] if isinstance(listed, list) and listed else None
        if isinstance(first, list) and all(isinstance(size, int) for size in first):
            shapes.append(tuple(first))
    return tuple(shapes)
