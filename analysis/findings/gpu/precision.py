"""Number formats: matrix work without tensor cores, operands not aligned for them, conversions between types."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.findings.core import gain, program, words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.declared.gpu import F1, F2, F3, F12
from tracetui.analysis.findings.declared.rule import looks_for
from tracetui.analysis.findings.gpu import kernel_kinds as kernel_sorts
from tracetui.analysis.findings.gpu.kernel_facts import attained
from tracetui.analysis.roofline import peaks
from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.kernel_names import fp32_matrix_work as is_fp32_matrix_work
from tracetui.parsers.names.kernel_types import CAST_OF_MIOPEN, bytes_at_a_time
from tracetui.parsers.trace import DeviceInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.gain import Bools
    from tracetui.analysis.findings.declared.rule import Limits


class Ratio(Struct, frozen=True):
    """How many times as fast tensor cores are as the fp32 units."""

    value: float
    about: str
    """The two values that it was computed from, and their source."""


def ratio(facts: Facts, precision: str) -> Ratio | None:
    """The peak of a precision over that of fp32 from the same source, else the ratio of FMAs per SM and clock."""
    known = peaks.peaks_of(facts.run, facts.trace)
    fast, slow = known.compute.get(precision), known.compute.get("fp32")
    if fast is not None and slow is not None and fast.source == slow.source and slow.value:
        return Ratio(fast.value / slow.value, f"{_tera(fast.value)} by {_tera(slow.value)}, {fast.source}")
    capability = program.capability(facts)
    device = DeviceInfo(0, name=known.device, compute_capability=capability)
    tensor, plain = peaks.fma_per_clock(device, precision), peaks.fma_per_clock(device, "fp32")
    if tensor is None or plain is None:
        return None
    return Ratio(tensor / plain, f"{tensor:g} by {plain:g} FMA per SM and clock")


def _faster(found: Ratio | None) -> str:
    return f"{found.value:.3g}×, {found.about}" if found else "peaks unknown, so all of it"


def _evidence(facts: Facts, mask: Bools, half: Ratio | None) -> Iterator[Evidence]:
    """Evidence on matrix work without tensor cores: how much there is, and how fast tensor cores would be."""
    spent, share = kernel_sorts.spent(facts, mask)
    proof = kernel_sorts.proof(facts, mask)
    yield Evidence(f"GEMMs, convolutions, attention {program.per(facts)}", facts.per_step(spent), "ns", proof)
    yield Evidence(f"of {kernel_sorts.base(facts)}", share or 0.0, "%", proof)
    yield Evidence("compute capability", program.capability(facts) or "")
    if half:
        yield Evidence("fp16 peak by fp32 peak", half.value, "×")


def _with_tf32(facts: Facts, rows: Ints, around: Ints) -> Iterator[Evidence]:
    """Evidence on how much TF32 alone would gain."""
    found = ratio(facts, "tf32_tensor")
    if found:
        bound = gain.of_kernels(facts, rows, factor=1 / found.value, around=around)
        yield Evidence("TF32 peak by fp32 peak", found.value, "×")
        yield Evidence("step shorter with TF32, at most", bound.ceiling_percent or 0.0, "%")


def _around(facts: Facts, chosen: Bools) -> Ints:
    """Device rows of what the operators of these products launch beside them: Fourier transforms, partial sums."""
    launched = facts.launches.select("row", "operator")
    operators = launched["operator"].filter(pl.Series(chosen)).drop_nulls().unique()
    beside = launched.filter(pl.col("operator").is_in(operators.implode()) & ~pl.Series(chosen))
    rows: Ints = beside["row"].cast(pl.Int64).to_numpy()
    return rows


def _regex(name: str) -> str:
    """The part of a short name that a regular expression can contain unescaped."""
    return re.split(r"[^\w]", name)[0]


def _tera(flops: float) -> str:
    return f"{words.number(flops / 1e12)} TFLOP/s"


_MEASURE = "ncu --section ComputeWorkloadAnalysis --csv --page raw"
_UNKNOWN = "the GPU's compute capability: a trace with deviceProperties (torch.profiler), an nsys export, or run.json"


@looks_for(F1)
def fp32_matrix_work(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    capability = program.capability(facts)
    if not program.is_nvidia(facts):
        return None
    if capability is None:
        return Abstention(_UNKNOWN)
    if float(capability) < limits.capability:
        return None
    slow = kernel_sorts.by_name(facts.launches, is_fp32_matrix_work) & ~kernel_sorts.on_tensor_cores(facts)
    share = kernel_sorts.spent(facts, slow)[1]
    if share is None or share <= limits.share_percent:
        return None
    half, rows = ratio(facts, "fp16_tensor"), facts.launches["row"].to_numpy()[slow].astype(np.int64)
    around = _around(facts, slow)
    bound = gain.of_kernels(facts, rows, factor=1 / half.value if half else 0.0, around=around)
    return Finding(
        bound.severity,
        f"{words.percent(share)} of {kernel_sorts.base(facts)} is fp32 matrix work on plain FMA units, none of"
        " it on tensor cores",
        (
            *_evidence(facts, slow, half),
            *_with_tf32(facts, rows, around),
        ),
        f"{kernel_sorts.worked_out(facts, slow)}; in fp16 or bf16 ({_faster(half)}): {bound.why}",
        advice=_in_fewer_bits(facts),
        impact_ns=bound.ns,
        ceiling_percent=bound.ceiling_percent,
        sure_percent=bound.sure_percent,
        work=rows,
    )


def _in_fewer_bits(facts: Facts) -> str:
    """TF32 first, which changes least, but where it is no faster than fp32, as on most GPUs of 8.6 and 8.9."""
    found = ratio(facts, "tf32_tensor")
    if found is None or found.value > NO_FASTER:
        return facts.program.say(pytorch=TF32, jax=TF32_JAX, other=TF32_IN_C)
    return "TF32 is no faster than fp32 on this GPU. " + facts.program.say(
        pytorch="Use mixed precision: torch.autocast('cuda', dtype=torch.bfloat16). Check the accuracy.",
        jax="Use bfloat16 for activations and weights. Check the accuracy.",
        other="Use bf16 or fp16 inputs with fp32 accumulation (cublasGemmEx with CUDA_R_16BF). Check the accuracy.",
    )


NO_FASTER = 1.05
"""A ratio of peaks up to this is none."""
TF32 = (
    'torch.set_float32_matmul_precision("high") and torch.backends.cudnn.allow_tf32 = True: TF32 has fp32\'s range and'
    " needs no other change. Then bf16: torch.autocast('cuda', dtype=torch.bfloat16). Check the accuracy of either."
)
TF32_JAX = (
    'jax.config.update("jax_default_matmul_precision", "tensorfloat32"): TF32 has fp32\'s range and needs no other'
    " change. Then bfloat16 for activations and weights. Check the accuracy of either."
)
TF32_IN_C = (
    "cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH), in cuDNN CUDNN_TENSOR_OP_MATH or a graph that allows TF32:"
    " TF32 has fp32's range and needs no other change. Then bf16 (cublasGemmEx with CUDA_R_16BF inputs and fp32"
    " accumulation). Check the accuracy of either."
)


@looks_for(F2)
def tensor_cores_unused(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    capability = program.capability(facts)
    if not program.is_nvidia(facts):
        return None
    if capability is None:
        return Abstention(_UNKNOWN)
    launched = facts.launches
    used, share_used = kernel_sorts.spent(facts, kernel_sorts.on_tensor_cores(facts))
    if float(capability) < limits.capability or share_used is None or share_used > limits.used_percent:
        return None
    unknown = kernel_sorts.undecided(facts)
    if (kernel_sorts.spent(facts, unknown)[1] or 0.0) > limits.eligible_percent:
        name = kernel_names.short_name(kernel_sorts.proof(facts, unknown).row)
        return Abstention(f"whether {name} uses tensor cores: {_MEASURE} -k regex:{_regex(name)} …")
    could = kernel_sorts.by_name(launched, kernel_names.matrix_work) & ~unknown
    could &= ~kernel_sorts.by_name(launched, kernel_names.fp64_work)
    if float(capability) >= 8:
        could &= ~kernel_sorts.by_name(launched, is_fp32_matrix_work)
    share = kernel_sorts.spent(facts, could)[1]
    if share is None or share <= limits.eligible_percent:
        return None
    half = ratio(facts, "fp16_tensor")
    rows = launched["row"].to_numpy()[could].astype(np.int64)
    bound = gain.of_kernels(facts, rows, factor=1 / half.value if half else 0.0)
    fp32 = bool(kernel_sorts.by_name(launched.filter(pl.Series(could)), is_fp32_matrix_work).any())
    return Finding(
        bound.severity,
        f"No kernel uses tensor cores, and {words.percent(share)} of {kernel_sorts.base(facts)} could",
        (
            *_evidence(facts, could, half),
            Evidence("on tensor cores", used, "ns", Query("kernels")),
            *((Evidence("judged by", "Nsight Compute's counters where they measured"),) if facts.counters else ()),
        ),
        f"{kernel_sorts.worked_out(facts, could)}; on tensor cores ({_faster(half)}): {bound.why}",
        advice=(
            facts.program.say(pytorch=_MIXED, other=_MIXED_IN_C)
            if fp32
            else "The types fit, the shapes or strides may not: make channels, hidden and vocabulary sizes multiples of"
            " 8, align the tensors to 16 bytes, and pass contiguous ones."
        ),
        impact_ns=bound.ns,
        ceiling_percent=bound.ceiling_percent,
        sure_percent=bound.sure_percent,
        work=rows,
    )


_MIXED = (
    "Mixed precision: torch.autocast('cuda', dtype=torch.float16) with a GradScaler in training (bf16 needs compute"
    " capability 8); convolutions in channels_last."
)
_MIXED_IN_C = (
    "Mixed precision: fp16 operands with fp32 accumulation (bf16 needs compute capability 8), and a scaled loss in"
    " training; convolutions in NHWC."
)


@looks_for(F12)
def casts(facts: Facts, limits: Limits) -> Finding | None:
    mask = kernel_sorts.casts(facts)
    spent, share = kernel_sorts.spent(facts, mask)
    if share is None or share <= limits.share_percent:
        return None
    rows = facts.launches["row"].to_numpy()[mask].astype(np.int64)
    bound = gain.of_kernels(facts, rows, fewer_launches=True)
    number = int(mask.sum())
    return Finding(
        bound.severity,
        f"Converting types takes {words.percent(share)} of {kernel_sorts.base(facts)}, in"
        f" {words.things(facts.per_step(number), 'launch', 'launches')} {program.per(facts)}",
        (
            Evidence(f"conversions {program.per(facts)}", facts.per_step(spent), "ns", kernel_sorts.proof(facts, mask)),
            Evidence(f"of {kernel_sorts.base(facts)}", share, "%", kernel_sorts.proof(facts, mask)),
            Evidence("launches, of all", 100 * number / mask.size, "%", kernel_sorts.proof(facts, mask)),
        ),
        f"{kernel_sorts.worked_out(facts, mask)}; without them: {bound.why}",
        advice=_advice(facts, mask),
        impact_ns=bound.ns,
        ceiling_percent=bound.ceiling_percent,
        sure_percent=bound.sure_percent,
        work=rows,
        host=gain.launching(facts, rows),
    )


def _advice(facts: Facts, mask: Bools) -> str:
    """By who converts with most of the time: the program, or MIOpen within its convolutions."""
    by_library = kernel_sorts.by_name(facts.launches, lambda name: CAST_OF_MIOPEN.search(name) is not None) & mask
    if 2 * kernel_sorts.spent(facts, by_library)[0] > kernel_sorts.spent(facts, mask)[0]:
        return _IN_MIOPEN
    return facts.program.say(pytorch=_ONCE, other=_ONCE_IN_C)


_IN_MIOPEN = (
    "MIOpen converts for convolutions whose solver computes in another type than their tensors have. Let it look for"
    " other solvers (MIOPEN_FIND_ENFORCE=SEARCH once, torch.backends.cudnn.benchmark = True in PyTorch), or give these"
    " convolutions tensors of the type that it converts to."
)
_ONCE = (
    "Keep weights in the type they are used in: for inference model.to(torch.bfloat16) or .half() in place of autocast;"
    " in training one autocast around the whole forward pass, so that its cache holds converted weights (torch.no_grad"
    " turns that cache off); torch.compile fuses those that are left into their neighbours."
)
_ONCE_IN_C = (
    "Keep each array in the type it is used in; convert while the kernel that writes or reads it has the value in a"
    " register, in place of a kernel of its own."
)


WHOLE_BYTES = 16
"""What a thread reads at a time at most, and TMA needs."""


def _is_narrow(name: str) -> bool:
    return (bytes_at_a_time(name) or WHOLE_BYTES) < WHOLE_BYTES


def _left_at_roof(facts: Facts, mask: Bools) -> float:
    """Which part of their time these launches would need at their roofs; nothing of those whose roof is not known."""
    spent = facts.launches.select(pl.col("name").cast(pl.String), "duration").filter(pl.Series(mask))
    known = attained(facts)
    least = whole = 0.0
    for name, ns in spent.group_by("name").agg(pl.col("duration").sum()).iter_rows():
        whole += ns
        least += ns * min(known[name][0] / 100, 1.0) if name in known else 0.0
    return least / whole if whole else 0.0


def _sizes(facts: Facts, mask: Bools) -> Iterator[Evidence]:
    """Evidence on the shapes behind most of this time, if shapes were recorded."""
    operators = facts.launches["operator"].filter(pl.Series(mask)).drop_nulls()
    shapes = facts.trace.host["input_shapes"].gather(operators).cast(pl.String).drop_nulls()
    most = shapes.filter(shapes != "").value_counts(sort=True)
    if most.height:
        yield Evidence("shapes of most launches", str(most["input_shapes"][0]))


@looks_for(F3)
def unaligned_products(facts: Facts, limits: Limits) -> Finding | None:
    if not program.is_nvidia(facts):
        return None
    mask = kernel_sorts.by_name(facts.launches, _is_narrow)
    spent, share = kernel_sorts.spent(facts, mask)
    if share is None or share <= limits.share_percent:
        return None
    rows = facts.launches["row"].to_numpy()[mask].astype(np.int64)
    left = _left_at_roof(facts, mask)
    bound = gain.of_kernels(facts, rows, factor=left)
    proof = kernel_sorts.proof(facts, mask)
    return Finding(
        bound.severity,
        f"Operands not aligned to {WHOLE_BYTES} bytes: matrix work on them takes {words.percent(share)} of"
        f" {kernel_sorts.base(facts)}",
        (
            Evidence(f"such products {program.per(facts)}", facts.per_step(spent), "ns", proof),
            Evidence(f"of {kernel_sorts.base(facts)}", share, "%", proof),
            *_sizes(facts, mask),
        ),
        f"{kernel_sorts.worked_out(facts, mask)}; {'at their roofs' if left else 'without them'}: {bound.why}",
        advice=facts.program.say(
            pytorch="Make channels, hidden, head and vocabulary sizes multiples of 8 in fp16 and bf16 (of 4 in TF32):"
            " pad weights and inputs once, where they are made, and cut the result. Batch and sequence length count"
            " too where they are the inner size, as in weight gradients.",
            other="Make the leading dimensions multiples of 16 bytes (8 elements of a 16-bit type, 4 of fp32 as TF32)"
            " and allocate operands at such addresses: pad once, where the arrays are made.",
        ),
        impact_ns=bound.ns,
        ceiling_percent=bound.ceiling_percent,
        sure_percent=bound.sure_percent,
        work=rows,
    )
