"""Late launches: either launching itself takes the host's time, or the host does something else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.findings.core import gain, hints, waiting, words
from tracetui.analysis.findings.core.finding import Evidence, Finding, Query
from tracetui.analysis.findings.core.rule import Threshold, rule

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.rule import Limits

MOST_CALLS = 4
"""How many host calls a finding names."""

_THRESHOLDS = {
    "host_wait_percent": Threshold(50, "%", "idle time whose next work was not launched yet, of idle time", own=True),
    "late_percent": Threshold(10, "%", "such idle time, of the step", own=True),
    "kernel_us": Threshold(10, "µs", "median kernel"),
    "launch_percent": Threshold(10, "%", "time in launch calls, of the step; enough even if the median kernel is long"),
}
"""S2 and S13 share the idle time between them."""


@dataclass(frozen=True)
class _Late:
    """The idle time in which the GPU's next work had not been launched, without what the data loader held up."""

    ns: float
    """Per step."""
    idle_ns: float
    ceiling: float
    """Percent of the step."""
    of_idle: float
    """Percent of the idle time."""
    median_ns: float
    """Median duration of the kernels."""
    launching: float
    """Launch calls in percent of the step."""

    def is_launching(self, limits: Limits) -> bool:
        """Whether short kernels or time in launch calls explain the idle time."""
        return self.median_ns < 1000 * limits.kernel_us or self.launching > limits.launch_percent


def _late(facts: Facts, limits: Limits) -> _Late | None:
    """Returns the late idle time; None if it is too small a part of the step to matter."""
    idle_ns, late_ns = waiting.idle(facts)
    late_ns = max(late_ns - (facts.loader.exposed_ns if facts.loader else 0.0), 0.0)
    ceiling = facts.ceiling(late_ns)
    if not idle_ns or ceiling is None or ceiling < limits.late_percent:
        return None
    of_idle = 100 * late_ns / idle_ns
    if of_idle <= limits.host_wait_percent:
        return None
    median = float(facts.launches["duration"].median() or 0)  # type: ignore[arg-type]
    launching = facts.ceiling(facts.per_step(_launching_ns(facts))) or 0.0
    return _Late(late_ns, idle_ns, ceiling, of_idle, median, launching)


@rule(
    "S2",
    "Launch-bound: the GPU waits for the CPU to launch its work",
    needs=("timeline", "gpu", "api"),
    rests_on=("gpu", "host", "whole"),
    thresholds=_THRESHOLDS,
    advice="CUDA graphs, torch.compile(mode='reduce-overhead'), a larger batch; then less Python per launch.",
    source="HolisticTraceAnalysis (host wait); NVIDIA TensorRT-LLM's profiling skills (launch calls)",
)
def launch_bound(facts: Facts, limits: Limits) -> Finding | None:
    """The GPU is idle because its next work had not been launched when the last ended, and its kernels are short.

    A launch is late if the GPU's idle interval started before the call that launched the work ending it (HTA's host
    wait). Idle time that the data loader caused (S5) does not count. The kernels must be short, or launching must take
    a good part of the step: with long kernels, late launches have other causes. All of that idle time is at stake: if
    launches cost nothing, the step would still last as long as the GPU is busy.
    """
    late = _late(facts, limits)
    if late is None or not late.is_launching(limits):
        return None
    ceiling, late_ns, idle_ns = late.ceiling, late.ns, late.idle_ns
    per_step = facts.per_step(facts.launches.height)
    return Finding(
        "S2",
        gain.severity(ceiling),
        f"Launch-bound: for {words.percent(ceiling)} of {hints.span(facts)} the GPU waits for the CPU to launch its"
        " next kernel",
        (
            Evidence("GPU idle, next work not launched", late_ns, "ns", Query("overview")),
            Evidence("GPU busy", facts.step_ns - idle_ns, "ns", Query("overview")),
            Evidence("step", facts.step_ns, "ns", Query("overview")),
            Evidence(f"kernels {hints.per(facts)}", per_step, "", Query("kernels")),
            Evidence("median kernel", late.median_ns, "ns", Query("kernels")),
            Evidence("launch calls, of the step", late.launching, "%", Query("host:API calls", "launch")),
        ),
        f"{words.ns(late_ns)} of {words.ns(idle_ns)} idle = {words.percent(late.of_idle)}, and of"
        f" {words.ns(facts.step_ns)} = {words.percent(ceiling)}; with no such wait"
        f" {words.ns(facts.step_ns - late_ns)} would be left",
        f"late launches above {words.percent(limits.late_percent)} of the step and"
        f" {words.percent(limits.host_wait_percent)} of idle time; median kernel below {limits.kernel_us:g} µs or"
        f" launch calls above {words.percent(limits.launch_percent)} of the step",
        _launch_advice(facts),
        impact_ns=late_ns,
        ceiling_percent=ceiling,
        next_command=hints.rerun(facts, "--compile") if not hints.is_compiled(facts) else hints.larger_batch(facts),
    )


def _launching_ns(facts: Facts) -> float:
    """Time in calls that launch kernels and graphs."""
    return float(facts.api.filter(pl.col("name").str.contains("(?i)launch"))["total_ns"].sum())


def _launch_advice(facts: Facts) -> str:
    last = (
        ""
        if gain.gpu_is_limit(facts)
        else " Lower precision and faster kernels gain next to nothing here: the GPU is done before the next launch."
    )
    if facts.trace.info.kind == "jax":
        return (
            "Give each call more to do: a larger batch, several steps in one jit (jax.lax.scan over steps), no"
            " block_until_ready between steps." + last
        )
    if hints.graph_percent(facts) > 50:
        return (
            "The kernels come from CUDA graphs already, and each graph is too small for what its launch costs: capture"
            " more in one graph (the whole step, several steps), use a larger batch, and prepare inputs while the last"
            " graph runs." + last
        )
    first = (
        "Launch the step as CUDA graphs (torch.cuda.graph, torch.cuda.make_graphed_callables) or let"
        ' torch.compile(mode="reduce-overhead") do it'
    )
    if hints.is_compiled(facts):
        first = 'It is compiled: use mode="reduce-overhead", which launches CUDA graphs, and look for graph breaks'
    return (
        f"{first}; use a larger batch, so that each launch does more; fuse what many small kernels do; keep Python work"
        " off the thread that launches." + last
    )


@rule(
    "S13",
    "The GPU waits for the CPU, which does other work than launching",
    needs=("timeline", "gpu", "api"),
    rests_on=("gpu", "host", "whole"),
    thresholds=_THRESHOLDS,
    advice="Take work off the thread that launches: Python, guards and graph breaks of torch.compile, copies, logging.",
    source="nsys-ai (owners of gaps)",
)
def host_work(facts: Facts, limits: Limits) -> Finding | None:
    """The GPU is idle because its next work had not been launched, though kernels are long and launch calls few.

    This is the idle time of S2 when neither short kernels nor launch calls explain it: between two launches the host
    does something else. The host calls with the most self time show what. All of that idle time is at stake.
    """
    late = _late(facts, limits)
    if late is None or late.is_launching(limits):
        return None
    working = facts.host_functions.filter(~pl.col("waits") & (pl.col("self_per_step_ns") > 0))
    working = working.sort("self_per_step_ns", descending=True).head(MOST_CALLS)
    return Finding(
        "S13",
        gain.severity(late.ceiling),
        f"The GPU waits for the CPU for {words.percent(late.ceiling)} of {hints.span(facts)}, and launching takes only"
        f" {words.percent(late.launching)}",
        (
            Evidence("GPU idle, next work not launched", late.ns, "ns", Query("overview")),
            Evidence("launch calls, of the step", late.launching, "%", Query("host:API calls", "launch")),
            Evidence("median kernel", late.median_ns, "ns", Query("kernels")),
            *(
                Evidence(
                    f"{row['name']}, own time {hints.per(facts)}",
                    row["self_per_step_ns"],
                    "ns",
                    Query("host", row=row["name"]),
                )
                for row in working.iter_rows(named=True)
            ),
        ),
        f"{words.ns(late.ns)} of {words.ns(late.idle_ns)} idle = {words.percent(late.of_idle)}, and of"
        f" {words.ns(facts.step_ns)} = {words.percent(late.ceiling)}; median kernel {words.ns(late.median_ns)}",
        f"late launches above {words.percent(limits.late_percent)} of the step and"
        f" {words.percent(limits.host_wait_percent)} of idle time, and not launch-bound (S2)",
        _work_advice(facts),
        impact_ns=late.ns,
        ceiling_percent=late.ceiling,
    )


def _work_advice(facts: Facts) -> str:
    if hints.is_compiled(facts) and facts.trace.info.kind != "jax":
        return (
            "It is compiled: each graph break and each guard is Python between two launches. TORCH_LOGS=graph_breaks,"
            " recompiles names them; fullgraph=True refuses them."
        )
    return (
        "Take off the launching thread what the step does not need (logging, metrics, checks, conversions on the host),"
        " or do it while the GPU works. Calls with most own time are in the evidence."
    )
