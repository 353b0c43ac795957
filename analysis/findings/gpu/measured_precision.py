"""Matrix work without tensor cores, or on idle ones, and double precision, as Nsight Compute measured them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.analysis.findings.core import program, words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.declared.kernels import K10, K16, K19
from tracetui.analysis.findings.declared.rule import looks_for
from tracetui.analysis.findings.gpu import kernel_kinds as kernel_sorts
from tracetui.analysis.findings.gpu.kernel_facts import is_beside_timeline, share_of, short, stake
from tracetui.analysis.findings.gpu.precision import TF32, TF32_IN_C, TF32_JAX, ratio
from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.kernel_names import fp32_matrix_work
from tracetui.parsers.names.kernel_types import operand_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.declared.rule import Limits

HALF = frozenset({"fp16", "bf16"})


@looks_for(K10)
def fp32_measured(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    if facts.trace.has_timeline or is_beside_timeline(facts):
        return None
    capability = program.capability(facts)
    if capability is None:
        return Abstention("the GPU's compute capability: ncu --csv --page raw prints it")
    if float(capability) < limits.capability:
        return None
    if not facts.kernel_ns:
        return Abstention("how long the kernels take: ncu --section SpeedOfLight")
    slow = kernel_sorts.by_name(facts.launches, fp32_matrix_work) & ~kernel_sorts.on_tensor_cores(facts)
    share = kernel_sorts.spent(facts, slow)[1]
    if share is None or share <= limits.share_percent:
        return None
    fast = ratio(facts, "tf32_tensor")
    kernels = sorted(facts.launches.filter(pl.Series(slow))["name"].cast(pl.String).unique().to_list())
    found = stake(facts, kernels, 1 / fast.value if fast else 0.0)
    return Finding(
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
        advice=facts.program.say(pytorch=TF32, jax=TF32_JAX, other=TF32_IN_C),
        next_command="nsys profile --trace=cuda,nvtx PROGRAM",
    )


@looks_for(K19)
def tensor_pipe(facts: Facts, limits: Limits) -> Iterator[Finding | Abstention]:
    if is_beside_timeline(facts) or facts.counters is None:
        return
    capability = program.capability(facts)
    known = facts.counters.kernels.filter(pl.col("tensor_cores").is_not_null())
    if capability is None or not known.height:
        missing = "ncu --section ComputeWorkloadAnalysis --csv --page raw"
        yield Abstention(f"the GPU's compute capability and whether kernels use tensor cores: {missing}")
        return
    if float(capability) < limits.capability:
        return
    share = {row["name"]: row["percent"] or 0.0 for row in facts.kernels.iter_rows(named=True)}
    for row in sorted(known.iter_rows(named=True), key=lambda one: -share.get(one["name"], 0.0)):
        name, busy = row["name"], row["tensor_percent"]
        if share.get(name, 0.0) < limits.share_percent or not kernel_names.matrix_work(name):
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
        "warning" if found.ns is None else found.severity,
        f"{short(name)} multiplies {precision} matrices without tensor cores",
        (
            Evidence("tensor cores used", "no", "", proof),
            share_of(name, share),
            Evidence("compute capability", capability),
            *((Evidence(f"{precision} peak of tensor cores by fp32 peak", fast.value, "×"),) if fast else ()),
        ),
        found.why,
        threshold="no instruction of tensor cores",
        advice=(
            "Make channels, hidden and vocabulary sizes multiples of 8, align the tensors to 16 bytes, and pass"
            " contiguous"
            " ones."
        ),
        impact_ns=found.ns,
        ceiling_percent=found.ceiling_percent,
        work=found.rows,
    )


def _idle_pipe(name: str, busy: float, row: dict[str, Any], share: float, limits: Limits) -> Finding:
    proof = Query("counters", row=name)
    return Finding(
        "info",
        f"{short(name)} keeps the tensor pipe {words.percent(busy)} busy",
        (
            Evidence("tensor pipe active, of its peak", busy, "%", proof),
            *((Evidence("waves", round(row["waves"], 2), "", proof),) if row["waves"] is not None else ()),
            Evidence("bound", row["bound"] or "unknown", "", proof),
            share_of(name, share),
        ),
        f"{words.percent(busy)} of the tensor pipe's peak; K1 and the roofline bound how much faster it could be",
        advice=(
            "The product is too small for the GPU: a larger batch, several products in one call (bmm, grouped GEMM), or"
            " split-K for narrow ones."
        ),
    )


@looks_for(K16)
def double_precision(facts: Facts, limits: Limits) -> Finding | None:
    if is_beside_timeline(facts):
        return None
    mask = kernel_sorts.by_name(facts.launches, kernel_names.fp64_work)
    share = kernel_sorts.spent(facts, mask)[1]
    if share is None or share <= limits.share_percent:
        return None
    kernels = sorted(facts.launches.filter(pl.Series(mask))["name"].cast(pl.String).unique().to_list())
    slow, fast = (ratio(facts, name) for name in ("fp64", "fp32"))
    found = stake(facts, kernels, slow.value / fast.value if slow and fast else 0.0)
    return Finding(
        found.severity,
        f"{words.percent(share)} of the {kernel_sorts.base(facts)} computes in double precision",
        (
            Evidence(f"of {kernel_sorts.base(facts)}", share, "%", kernel_sorts.proof(facts, mask)),
            Evidence("launches", int(mask.sum()), "", Query("counters")),
        ),
        f"{kernel_sorts.worked_out(facts, mask)}; as fast as fp32: {found.why}",
        advice=facts.program.say(
            pytorch="tensor.float(), and dtype=torch.float32 where NumPy arrays (float64) become tensors.",
            other="float in place of double, and literals with f (1.0f).",
        ),
        impact_ns=found.ns,
        ceiling_percent=found.ceiling_percent,
        work=found.rows,
    )
