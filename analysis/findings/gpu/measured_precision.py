"""Matrix work without tensor cores in recordings that are of Nsight Compute alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.findings.core import hints, words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.core.rule import Threshold, rule
from tracetui.analysis.findings.gpu import kernel_kinds as kernel_sorts
from tracetui.analysis.findings.gpu.kernel_facts import is_beside_timeline, stake
from tracetui.analysis.findings.gpu.precision import TF32, TF32_IN_C, TF32_JAX, ratio

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.rule import Limits


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
    slow = kernel_sorts.by_name(facts.launches, kernel_sorts.fp32_matrix_work) & ~kernel_sorts.on_tensor_cores(facts)
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
