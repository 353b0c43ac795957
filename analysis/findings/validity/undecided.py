"""Rule on recordings whose own cost decides what limits the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.findings.core import hints, words
from tracetui.analysis.findings.core.finding import Abstention, Finding, Query
from tracetui.analysis.findings.core.rule import rule
from tracetui.analysis.findings.core.told import known

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.rule import Limits


@rule(
    "V26",
    "Whether the CPU or the GPU limits the run can't be told from the recording",
    needs=("timeline", "gpu", "api"),
    doubts=("host",),
    remark="the recording can't tell whether the CPU or the GPU limits the run",
    advice="Time steps without a profiler too (`tracetui profile` does), or record without stacks and shapes.",
    source="a replay of the dependency graph (docs/metrics.md)",
)
def undecided(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    """As recorded, the run waits for its CPU or other ranks; without what recording may have cost hosts, for its GPU.

    Compares what would be left of the step with a free host with what would be left with free GPU work, at both ends:
    as recorded, and with the most that recording may have cost taken off the host. If the two disagree, findings on the
    host or the GPU are warnings at most.
    """
    model = facts.model
    if model is None:
        return Abstention("V26", "launches and the GPU work that they started")
    if model.waits_for != "unknown":
        return None
    low, high = min(model.kernels_free_ns), max(model.kernels_free_ns)
    events = model.cost.events
    stacks = events.get("python", 0) > 0
    step = f"{words.ns(model.recorded_ns)} as recorded"
    slow = "other ranks' lateness" if "ranks" in model.sides else "the CPU"
    hosts = "the host" if model.transfer is None else "all ranks' hosts"
    return Finding(
        "V26",
        "warning",
        f"Can't be told from this recording whether {slow} or the GPU limits the run",
        known(
            ("step as recorded", model.recorded_ns, "ns", Query("timeline")),
            ("left with the host free", model.host_free_ns, "ns"),
            ("left with all GPU work free, as recorded", high, "ns"),
            ("the same without the most that recording may cost", low, "ns"),
            ("host events recorded on the launching threads", sum(events.values())),
            ("Python functions among them", events.get("python")),
        ),
        f"with {hosts} free {words.ns(model.host_free_ns)} of {step} would be left, with the GPU free"
        f" {words.ns(low)} to {words.ns(high)}",
        "the limit is the same at both ends",
        facts.program.say(
            pytorch="Record without stacks (with_stack=False): they cost the host most. Or time ten steps without the"
            " profiler: `tracetui profile` does both."
            if stacks
            else "Time ten steps without the profiler, as `tracetui profile` does, or record the GPU alone"
            " (activities=[ProfilerActivity.CUDA]).",
            other="Time the same work without the profiler: if it takes as long as the GPU's work alone, the GPU is the"
            " limit.",
        ),
        next_command=hints.rerun(facts, "--no-stack"),
    )
