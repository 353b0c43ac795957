"""Matrix work without tensor cores, or on idle ones, and double precision, as Nsight Compute measured them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.analysis.findings.core import hints, words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.core.rule import Threshold, rule
from tracetui.analysis.findings.gpu import kernel_kinds as kernel_sorts
from tracetui.analysis.findings.gpu.kernel_facts import SHARE, is_beside_timeline, share_of, short, stake
from tracetui.analysis.findings.gpu.precision import TF32, TF32_IN_C, TF32_JAX, ratio
from tracetui.parsers.names import matrix_work
from tracetui.parsers.names.kernel_types import operand_type
from tracetui.parsers.names.matrix_work import fp32_matrix_work

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.rule import Limits

HALF = frozenset({"fp16", "bf16"})


@rule(
    "K10",
    "Matrix work in fp32, as Nsight Compute measured it",
    needs=("counters", "gpu"),
    rests_on=("gpu", "counters"),
    thresholds={
        "share_percent": Threshold(10, "%", "fp32 GEMMs and convolutions off tensor cores, of profiled time", own=True),
        "capability": Threshold(8.0, "", "compute capability from which on tensor cores take fp32 inputs as TF32"),
    },
    advice="TF32 (one line), then bf16.",
    source="ratios from NVIDIA's throughput tables",
)
def fp32_measured(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    """F1 for a recording without a time line: GEMMs and convolutions that run in fp32 on FMA units.

    Names tell the precision; where Nsight Compute measured the tensor pipes, its counters decide. The base is the
    profiled kernel time, since nothing tells what else a step does: the finding promises nothing for the step.
    """
    if facts.trace.has_timeline or is_beside_timeline(facts):
        return None
    capability = hints.capability(facts)
    if capability is None:
        return Abstention("K10", "the GPU's compute capability: ncu --csv --page raw prints it")
    if float(capability) < limits.capability:
        return None
    if not facts.kernel_ns:
        return Abstention("K10", "how long the kernels take: ncu --section SpeedOfLight")
    slow = kernel_sorts.by_name(facts.launches, fp32_matrix_work) & ~kernel_sorts.on_tensor_cores(facts)
    share = kernel_sorts.spent(facts, slow)[1]
    if share is None or share <= limits.share_percent:
        return None
    fast = ratio(facts, "tf32_tensor")
    kernels = sorted(facts.launches.filter(pl.Series(slow))["name"].cast(pl.String).unique().to_list())
    found = stake(facts, kernels, 1 / fast.value if fast else 0.0)
    return Finding(
        "K10",
        "warning",
        f"{words.percent(share)} of the profiled {kernel_sorts.base(facts)} is fp32 matrix work, none of it on tensor"
        " cores",
        (
            Evidence("of the profiled kernel time", share, "%", kernel_sorts.proof(facts, slow)),
            Evidence("launches", int(slow.sum()), "", Query("counters")),
            Evidence("compute capability", capability),
            *((Evidence("TF32 peak by fp32 peak", fast.value, "×"),) if fast else ()),
        ),
        f"{kernel_sorts.worked_out(facts, slow)}; {found.why}",
        f"above {words.percent(limits.share_percent)} of the profiled kernel time, compute capability"
        f" {limits.capability:g} or later",
        facts.program.say(pytorch=TF32, jax=TF32_JAX, other=TF32_IN_C),
        next_command="nsys profile --trace=cuda,nvtx PROGRAM",
    )


@rule(
    "K19",
    "Tensor cores unused or nearly idle, as Nsight Compute measured it",
    needs=("counters", "gpu"),
    rests_on=("gpu", "counters"),
    thresholds={
        "busy_percent": Threshold(10, "%", "of its peak that the tensor pipe is active in matrix work on it", own=True),
        "share_percent": SHARE,
        "capability": Threshold(7.0, "", "compute capability from which on GPUs have tensor cores"),
    },
    advice="16-bit types in sizes that are multiples of 8; more work per product.",
    source="torch-tb-profiler and DLProf (unused), NVIDIA TensorRT-LLM's profiling skills (idle)",
)
def tensor_pipe(facts: Facts, limits: Limits) -> Iterator[Finding | Abstention]:
    """Finds matrix work in 16 bits that runs off tensor cores, or on them while they are mostly idle.

    Nsight Compute's counters tell whether a kernel uses tensor cores, its name tells the type. fp32 on
    plain units is K10's. How busy the pipe is says nothing about the step: small products can't fill it.
    """
    if is_beside_timeline(facts) or facts.counters is None:
        return
    capability = hints.capability(facts)
    known = facts.counters.kernels.filter(pl.col("tensor_cores").is_not_null())
    if capability is None or not known.height:
        missing = "ncu --section ComputeWorkloadAnalysis --csv --page raw"
        yield Abstention("K19", f"the GPU's compute capability and whether kernels use tensor cores: {missing}")
        return
    if float(capability) < limits.capability:
        return
    share = {row["name"]: row["percent"] or 0.0 for row in facts.kernels.iter_rows(named=True)}
    for row in sorted(known.iter_rows(named=True), key=lambda one: -share.get(one["name"], 0.0)):
        name, busy = row["name"], row["tensor_percent"]
        if share.get(name, 0.0) < limits.share_percent or not matrix_work.matrix_work(name):
            continue
        precision = operand_type(name)
        if not row["tensor_cores"] and precision in HALF:
            yield _off_tensor_cores(facts, name, precision, share[name], capability)
        elif row["tensor_cores"] and busy is not None and busy < limits.busy_percent:
            yield _idle_pipe(name, busy, row, share[name], limits)


def _off_tensor_cores(facts: Facts, name: str, precision: str, share: float, capability: str) -> Finding:
    fast = ratio(facts, f"{precision}_tensor")
    found = stake(facts, [name], 1 / fast.value if fast else 0.0)
    proof = Query("counters", row=name)
    return Finding(
        "K19",
        "warning" if found.ns is None else found.severity,
        f"{short(name)} multiplies {precision} matrices without tensor cores",
        (
            Evidence("tensor cores used", "no", "", proof),
            share_of(name, share),
            Evidence("compute capability", capability),
            *((Evidence(f"{precision} peak of tensor cores by fp32 peak", fast.value, "×"),) if fast else ()),
        ),
        found.why,
        "no instruction of tensor cores",
        "Make channels, hidden and vocabulary sizes multiples of 8, align the tensors to 16 bytes, and pass contiguous"
        " ones.",
        impact_ns=found.ns,
        ceiling_percent=found.ceiling_percent,
        work=found.rows,
    )


def _idle_pipe(name: str, busy: float, row: dict[str, Any], share: float, limits: Limits) -> Finding:
    proof = Query("counters", row=name)
    return Finding(
        "K19",
        "info",
        f"{short(name)} keeps the tensor pipe {words.percent(busy)} busy",
        (
            Evidence("tensor pipe active, of its peak", busy, "%", proof),
            *((Evidence("waves", round(row["waves"], 2), "", proof),) if row["waves"] is not None else ()),
            Evidence("bound", row["bound"] or "unknown", "", proof),
            share_of(name, share),
        ),
        f"{words.percent(busy)} of the tensor pipe's peak; K1 and the roofline bound how much faster it could be",
        f"below {words.percent(limits.busy_percent)}",
        "The product is too small for the GPU: a larger batch, several products in one call (bmm, grouped GEMM), or"
        " split-K for narrow ones.",
    )


@rule(
    "K16",
    "Double precision",
    needs=("counters", "gpu"),
    rests_on=("gpu", "counters"),
    thresholds={"share_percent": Threshold(1, "%", "kernels that compute in fp64, of kernel time", own=True)},
    advice="Cast to fp32 where the accuracy allows.",
)
def double_precision(facts: Facts, limits: Limits) -> Finding | None:
    """Kernels that compute in double precision, most often because a tensor was made as float64 by mistake.

    Names tell (``dgemm``, ``f64``, ``double``). The gain is bounded by the ratio of the GPU's peaks.
    """
    if is_beside_timeline(facts):
        return None
    mask = kernel_sorts.by_name(facts.launches, matrix_work.fp64_work)
    share = kernel_sorts.spent(facts, mask)[1]
    if share is None or share <= limits.share_percent:
        return None
    kernels = sorted(facts.launches.filter(pl.Series(mask))["name"].cast(pl.String).unique().to_list())
    slow, fast = (ratio(facts, name) for name in ("fp64", "fp32"))
    found = stake(facts, kernels, slow.value / fast.value if slow and fast else 0.0)
    return Finding(
        "K16",
        found.severity,
        f"{words.percent(share)} of the {kernel_sorts.base(facts)} computes in double precision",
        (
            Evidence(f"of {kernel_sorts.base(facts)}", share, "%", kernel_sorts.proof(facts, mask)),
            Evidence("launches", int(mask.sum()), "", Query("counters")),
        ),
        f"{kernel_sorts.worked_out(facts, mask)}; as fast as fp32: {found.why}",
        f"above {words.percent(limits.share_percent)} of the kernel time",
        facts.program.say(
            pytorch="tensor.float(), and dtype=torch.float32 where NumPy arrays (float64) become tensors.",
            other="float in place of double, and literals with f (1.0f).",
        ),
        impact_ns=found.ns,
        ceiling_percent=found.ceiling_percent,
        work=found.rows,
    )
