"""Number formats: matrix work without tensor cores, operands not aligned for them, conversions between types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracetui.analysis.base import names
from tracetui.analysis.findings.core import gain, program, words
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query, evidence
from tracetui.analysis.findings.declared.gpu import F1, F2, F3, F12
from tracetui.analysis.findings.declared.kernels import K10, K16, K19
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.findings.gpu import kernel_kinds
from tracetui.analysis.findings.gpu.kernel_facts import attained, large, share_of, short, stake
from tracetui.analysis.findings.gpu.kernel_kinds import Part
from tracetui.analysis.findings.gpu.operator_calls import inputs_of
from tracetui.analysis.roofline import peaks
from tracetui.parsers.arrays import Ints
from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.kernel_types import CAST_OF_MIOPEN, bytes_at_a_time, operand_type
from tracetui.parsers.trace import DeviceInfo


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


def _evidence(part: Part, half: Ratio | None) -> Iterator[Evidence]:
    """Evidence on matrix work without tensor cores: how much there is, and how fast tensor cores would be."""
    yield part.spent("GEMMs, convolutions, attention")
    yield part.share()
    yield Evidence("compute capability", program.capability(part.facts) or "")
    if half:
        yield Evidence("fp16 peak by fp32 peak", half.value, "×")


def _with_tf32(facts: Facts, rows: Ints, around: Ints) -> Iterator[Evidence]:
    """Evidence on how much TF32 alone would gain."""
    found = ratio(facts, "tf32_tensor")
    if found:
        bound = gain.of_kernels(facts, rows, factor=1 / found.value, around=around)
        yield Evidence("TF32 peak by fp32 peak", found.value, "×")
        yield Evidence("step shorter with TF32, at most", bound.ceiling_percent or 0.0, "%")


def _around(part: Part) -> Ints:
    """Device rows that such products bring with them.

    These are what their operators launch beside them (Fourier transforms, partial sums), and conversions of tensors of
    their operands' shapes, which products in fewer bits do without.
    """
    launched, shapes = part.facts.launches.select("row", "operator"), part.facts.trace.host["input_shapes"]
    operators = part.frame["operator"].drop_nulls().unique()
    multiplied = [shape for text in names.distinct(shapes.gather(operators)) for shape in inputs_of(text) if shape]
    texts = shapes.gather(launched["operator"])
    converted = [text for text in names.distinct(texts) if any(shape in multiplied for shape in inputs_of(text)[:1])]
    casts = pl.Series(kernel_kinds.casts(part.facts)) & texts.cast(pl.String).is_in(converted)
    beside = launched.filter((pl.col("operator").is_in(operators.implode()) | casts) & ~pl.Series(part.mask))
    rows: Ints = beside["row"].cast(pl.Int64).to_numpy()
    return rows


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
    part = _fp32_off_tensor_cores(facts)
    if part.percent <= limits.share_percent:
        return None
    half, around = ratio(facts, "fp16_tensor"), _around(part)
    bound = gain.of_kernels(facts, part.rows, factor=1 / half.value if half else 0.0, around=around)
    return bound.finding(
        f"Use {_fewer_bits(facts)}: fp32 matrix work takes {words.percent(part.percent)} of {kernel_kinds.base(facts)}",
        (*_evidence(part, half), *_with_tf32(facts, part.rows, around)),
        f"{part.worked_out}; in fp16 or bf16 ({_faster(half)}): {bound.why}",
        advice=_in_fewer_bits(facts),
    )


def _fp32_off_tensor_cores(facts: Facts) -> Part:
    products = kernel_kinds.by_name(facts.launches, kernel_names.fp32_matrix_work)
    return Part(facts, products & ~kernel_kinds.on_tensor_cores(facts))


def _has_fast_tf32(facts: Facts) -> bool:
    """Whether TF32 is faster than fp32, which it is not on most GPUs of 8.6 and 8.9."""
    found = ratio(facts, "tf32_tensor")
    return found is None or found.value > NO_FASTER


def _fewer_bits(facts: Facts) -> str:
    return "TF32 or bf16" if _has_fast_tf32(facts) else "bf16"


def _in_fewer_bits(facts: Facts) -> str:
    """TF32 first, which changes least, where it is faster."""
    if _has_fast_tf32(facts):
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
    used = Part(facts, kernel_kinds.on_tensor_cores(facts))
    if float(capability) < limits.capability or used.percent > limits.used_percent:
        return None
    unknown = Part(facts, kernel_kinds.undecided(facts))
    if unknown.percent > limits.eligible_percent:
        name = kernel_names.short_name(unknown.proof.row)
        plain = re.split(r"[^\w]", name)[0]  # what a regular expression can contain unescaped
        return Abstention(f"whether {name} uses tensor cores: {_MEASURE} -k regex:{plain} …")
    could = kernel_kinds.by_name(launched, kernel_names.matrix_work) & ~unknown.mask
    could &= ~kernel_kinds.by_name(launched, kernel_names.fp64_work)
    if float(capability) >= 8:
        could &= ~kernel_kinds.by_name(launched, kernel_names.fp32_matrix_work)
    part = Part(facts, could)
    if part.percent <= limits.eligible_percent:
        return None
    half = ratio(facts, "fp16_tensor")
    bound = gain.of_kernels(facts, part.rows, factor=1 / half.value if half else 0.0)
    fp32 = bool(kernel_kinds.by_name(part.frame, kernel_names.fp32_matrix_work).any())
    return bound.finding(
        f"Use tensor cores: no kernel does, {words.percent(part.percent)} of {kernel_kinds.base(facts)} could",
        (
            *_evidence(part, half),
            Evidence("on tensor cores", used.ns, "ns", Query("kernels")),
            *((Evidence("judged by", "Nsight Compute's counters where they measured"),) if facts.counters else ()),
        ),
        f"{part.worked_out}; on tensor cores ({_faster(half)}): {bound.why}",
        advice=(
            facts.program.say(
                pytorch="Mixed precision: torch.autocast('cuda', dtype=torch.float16) with a GradScaler in training"
                " (bf16 needs compute capability 8); convolutions in channels_last.",
                other="Mixed precision: fp16 operands with fp32 accumulation (bf16 needs compute capability 8), and a"
                " scaled loss in training; convolutions in NHWC.",
            )
            if fp32
            else "The types fit, the shapes or strides may not: make channels, hidden and vocabulary sizes multiples of"
            " 8, align the tensors to 16 bytes, and pass contiguous ones."
        ),
    )


@looks_for(F12)
def casts(facts: Facts, limits: Limits) -> Finding | None:
    part = Part(facts, kernel_kinds.casts(facts))
    if part.percent <= limits.share_percent:
        return None
    bound = gain.of_kernels(facts, part.rows, fewer_launches=True)
    return bound.finding(
        f"Convert types less often: {words.things(facts.per_step(part.launches), 'launch', 'launches')}"
        f" {program.per(facts)}, {words.percent(part.percent)} of {kernel_kinds.base(facts)}",
        (
            part.spent("conversions"),
            part.share(),
            Evidence("launches, of all", 100 * part.launches / part.mask.size, "%", part.proof),
        ),
        f"{part.worked_out}; without them: {bound.why}",
        advice=_advice(part),
    )


def _advice(part: Part) -> str:
    """By who converts with most of the time: the program, or MIOpen within its convolutions."""
    facts = part.facts
    by_library = kernel_kinds.by_name(facts.launches, lambda name: CAST_OF_MIOPEN.search(name) is not None)
    if 2 * Part(facts, by_library & part.mask).ns > part.ns:
        return (
            "MIOpen converts for convolutions whose solver computes in another type than their tensors have. Let it"
            " look for other solvers (MIOPEN_FIND_ENFORCE=SEARCH once, torch.backends.cudnn.benchmark = True in"
            " PyTorch), or give these convolutions tensors of the type that it converts to."
        )
    return facts.program.say(
        pytorch="Keep weights in the type they are used in: for inference model.to(torch.bfloat16), no autocast; in"
        " training one autocast around the whole forward pass, whose cache then holds converted weights (not under"
        " torch.no_grad). torch.compile fuses the rest.",
        other="Keep each array in the type it is used in; convert while the kernel that writes or reads it has the"
        " value in a register, in place of a kernel of its own.",
    )


WHOLE_BYTES = 16
"""What a thread reads at a time at most, and TMA needs."""


def _left_at_roof(part: Part) -> float:
    """Which part of their time these launches would need at their roofs; nothing of those whose roof is not known."""
    spent = part.frame.select(pl.col("name").cast(pl.String), "duration")
    roofs = attained(part.facts)
    least = whole = 0.0
    for name, ns in spent.group_by("name").agg(pl.col("duration").sum()).iter_rows():
        whole += ns
        least += ns * min(roofs[name][0] / 100, 1.0) if name in roofs else 0.0
    return least / whole if whole else 0.0


def _sizes(part: Part) -> Iterator[Evidence]:
    """Evidence on the shapes behind most of this time, if shapes were recorded."""
    shapes = part.facts.trace.host["input_shapes"].gather(part.frame["operator"].drop_nulls())
    shapes = shapes.cast(pl.String).drop_nulls()
    most = shapes.filter(shapes != "").value_counts(sort=True)
    if most.height:
        yield Evidence("shapes of most launches", str(most["input_shapes"][0]))


@looks_for(F3)
def unaligned_products(facts: Facts, limits: Limits) -> Finding | None:
    if not program.is_nvidia(facts):
        return None
    narrow = kernel_kinds.by_name(facts.launches, lambda name: (bytes_at_a_time(name) or WHOLE_BYTES) < WHOLE_BYTES)
    part = Part(facts, narrow)
    if part.percent <= limits.share_percent:
        return None
    left = _left_at_roof(part)
    bound = gain.of_kernels(facts, part.rows, factor=left)
    return bound.finding(
        f"Pad matrix sizes to {WHOLE_BYTES} bytes: unaligned products take {words.percent(part.percent)} of"
        f" {kernel_kinds.base(facts)}",
        (part.spent("such products"), part.share(), *_sizes(part)),
        f"{part.worked_out}; {'at their roofs' if left else 'without them'}: {bound.why}",
        advice=facts.program.say(
            pytorch="Make channels, hidden, head and vocabulary sizes multiples of 8 in fp16 and bf16 (of 4 in TF32):"
            " pad weights and inputs once, and cut the result. In weight gradients batch and sequence length count.",
            other="Make the leading dimensions multiples of 16 bytes (8 elements of a 16-bit type, 4 of fp32 as TF32)"
            " and allocate operands at such addresses: pad once, where the arrays are made.",
        ),
    )


HALF = frozenset({"fp16", "bf16"})


@looks_for(K10)
def fp32_measured(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    if facts.trace.has_timeline:
        return None
    capability = program.capability(facts)
    if capability is None:
        return Abstention("the GPU's compute capability: ncu --csv --page raw prints it")
    if float(capability) < limits.capability:
        return None
    if not facts.kernel_ns:
        return Abstention("how long the kernels take: ncu --section SpeedOfLight")
    part = _fp32_off_tensor_cores(facts)
    if part.percent <= limits.share_percent:
        return None
    fast = ratio(facts, "tf32_tensor")
    bound = stake(facts, _names(part), 1 / fast.value if fast else 0.0)
    return Finding(
        "warning",
        f"{words.percent(part.percent)} of the profiled {kernel_kinds.base(facts)} is fp32 matrix work, none of it on"
        " tensor cores",
        evidence(
            ("of the profiled kernel time", part.percent, "%", part.proof),
            ("launches", part.launches, "", Query("counters")),
            ("compute capability", capability),
            ("TF32 peak by fp32 peak", fast and fast.value, "×"),
        ),
        f"{part.worked_out}; {bound.why}",
        advice=facts.program.say(pytorch=TF32, jax=TF32_JAX, other=TF32_IN_C),
        next_command="nsys profile --trace=cuda,nvtx PROGRAM",
    )


def _names(part: Part) -> list[str]:
    return sorted(part.frame["name"].cast(pl.String).unique().to_list())


@looks_for(K19)
def tensor_pipe(facts: Facts, limits: Limits) -> Iterator[Finding | Abstention]:
    if facts.counters is None:
        return
    capability = program.capability(facts)
    kernels = facts.counters.kernels.filter(pl.col("tensor_cores").is_not_null())
    if capability is None or not kernels.height:
        missing = "ncu --section ComputeWorkloadAnalysis --csv --page raw"
        yield Abstention(f"the GPU's compute capability and whether kernels use tensor cores: {missing}")
        return
    if float(capability) < limits.capability:
        return
    for row, share in large(facts, kernels.to_dicts(), limits):
        name, busy = row["name"], row["tensor_percent"]
        if not kernel_names.matrix_work(name):
            continue
        precision = operand_type(name)
        if not row["tensor_cores"] and precision in HALF:
            yield _off_tensor_cores(facts, name, precision, share, capability)
        elif row["tensor_cores"] and busy is not None and busy < limits.busy_percent:
            yield _idle_pipe(name, busy, row, share)


def _off_tensor_cores(facts: Facts, name: str, precision: str, share: float, capability: str) -> Finding:
    fast = ratio(facts, f"{precision}_tensor")
    bound = stake(facts, [name], 1 / fast.value if fast else 0.0)
    return bound.finding(
        f"{short(name)} multiplies {precision} matrices without tensor cores",
        (
            Evidence("tensor cores used", "no", "", Query("counters", row=name)),
            share_of(name, share),
            Evidence("compute capability", capability),
            *evidence((f"{precision} peak of tensor cores by fp32 peak", fast and fast.value, "×")),
        ),
        bound.why,
        severity=None if bound.claimed else "warning",
        threshold="no instruction of tensor cores",
        advice="Make channels, hidden and vocabulary sizes multiples of 8, align the tensors to 16 bytes, and pass"
        " contiguous ones.",
    )


def _idle_pipe(name: str, busy: float, row: dict[str, Any], share: float) -> Finding:
    proof = Query("counters", row=name)
    return Finding(
        "info",
        f"{short(name)} keeps the tensor pipe {words.percent(busy)} busy",
        (
            Evidence("tensor pipe active, of its peak", busy, "%", proof),
            *evidence(("waves", None if row["waves"] is None else round(row["waves"], 2), "", proof)),
            Evidence("bound", row["bound"] or "unknown", "", proof),
            share_of(name, share),
        ),
        f"{words.percent(busy)} of the tensor pipe's peak; K1 and the roofline bound how much faster it could be",
        advice="The product is too small for the GPU: a larger batch, several products in one call (bmm, grouped GEMM),"
        " or split-K for narrow ones.",
    )


@looks_for(K16)
def double_precision(facts: Facts, limits: Limits) -> Finding | None:
    part = Part(facts, kernel_kinds.in_double(facts))
    if part.percent <= limits.share_percent:
        return None
    if facts.trace.has_timeline:
        half = gain.of_kernels(facts, part.rows, factor=HALF_THE_BYTES)
        bound = gain.of_kernels(facts, part.rows)
        bound = replace(bound, least_ns=half.least_ns, sure_percent=half.sure_percent)
        base = f"in half of that time, or in none: {bound.why}"
    else:
        slow, fast = (ratio(facts, name) for name in ("fp64", "fp32"))
        bound = stake(facts, _names(part), slow.value / fast.value if slow and fast else 0.0)
        base = f"as fast as fp32: {bound.why}"
    meant = part.percent > limits.meant_percent
    if meant:
        bound = replace(bound, claimed=False)
    return bound.finding(
        f"Compute in fp32{' if it is accurate enough' if meant else ''}: double precision takes"
        f" {words.percent(part.percent)} of {kernel_kinds.base(facts)}",
        (part.spent("kernels with fp64"), part.share(), Evidence("launches", part.launches, "", part.proof)),
        f"{part.worked_out}; {base}",
        advice=facts.program.say(
            pytorch="NumPy's arrays are float64: convert where they enter (astype(np.float32), torch.as_tensor(x,"
            " dtype=torch.float32)), buffers too. One such operand makes all that follows double.",
            other="float in place of double, literals with f (1.0f): one such operand makes an expression double.",
        ),
    )


HALF_THE_BYTES = 0.5
