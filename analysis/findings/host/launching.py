"""Late launches: either launching itself takes the host's time, or the host does something else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from tracetui.analysis.attribution.place import call_name
from tracetui.analysis.base import intervals, names
from tracetui.analysis.base.intervals import Intervals
from tracetui.analysis.base.own_code import COMPILED
from tracetui.analysis.dependencies.costs import Costs, as_recorded
from tracetui.analysis.dependencies.critical_path import critical_path
from tracetui.analysis.dependencies.host_layers import loading_time
from tracetui.analysis.dependencies.model import LAUNCHING_NS, Model, without_copies
from tracetui.analysis.findings.core import basis, gain, program, words
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import HEADLINE, Abstention, Evidence, Finding, Query, evidence
from tracetui.analysis.findings.core.gain import Gain
from tracetui.analysis.findings.declared.host import S2, S13, S19
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.findings.host.copies import DTOH
from tracetui.analysis.findings.host.synchronisation import waits
from tracetui.analysis.findings.host.threads import WAITS
from tracetui.analysis.host_lines import longest_line
from tracetui.analysis.memops import operation_name
from tracetui.parsers.arrays import Bools

MOST_CALLS = 4
"""How many host calls a finding names."""
MOST_PART = 1 / 3
"""From this part of the host's own work on the critical path on, a call is named in the title."""
MOST_WAITS = 2
"""From so many waits per step on, one stands between launches."""
_CAPTURE = r"StreamBeginCapture"


def _ways(facts: Facts, model: Model, costs: Costs, *, close: bool) -> Bools:
    """The calls on the way from one launch to the next, for ways of up to `LAUNCHING_NS` or for longer ones.

    Waits for data do not count.
    """
    calls, launches = model.graph.calls, np.diff(model.graph.first) > 0
    way = np.cumsum(np.append(False, launches[:-1]))  # a way ends with its launch
    lasting = np.bincount(way, weights=costs.stretch + costs.call)[way]
    loads = intervals.covered(loading_time(model.sel.trace), calls.start - calls.stretch, calls.start) > 0
    chosen: Bools = ((lasting <= LAUNCHING_NS) == close) & ~loads
    return chosen


def deciding(facts: Facts) -> Model | None:
    """The model for gains on the host: of the recording that has names, unless the verdict's says another limit.

    A rich recording of few steps may hold other ones than the program mostly makes.
    """
    named, verdicts = facts.host_model, facts.model
    if named is None or verdicts is None or named.waits_for == verdicts.waits_for:
        return named
    return verdicts


def _host_time(facts: Facts, *, launching: bool) -> Intervals | None:
    """The time on those ways in the recording that has names."""
    model = facts.host_model
    if model is None:
        return None
    costs, calls = as_recorded(model.graph), model.graph.calls
    ways = _ways(facts, model, costs, close=launching)
    # of a call that waits, only what it takes of the host
    return intervals.union((calls.start - calls.stretch)[ways], (calls.start + costs.call)[ways])


def without_host(facts: Facts, *, launching: bool) -> Gain | None:
    """The gain without launching, or without other work of the host; None if the GPU is the limit."""
    model = deciding(facts)
    if model is None or model.waits_for == "gpu" or gain.gpu_is_limit(facts):
        return None
    if not launching and model is not facts.host_model and intervals.length(loading_time(facts.trace)):
        return None  # what of its long ways are waits for data only the other recording tells

    def without(costs: Costs) -> Costs:
        ways = _ways(facts, model, costs, close=launching)
        return replace(costs, stretch=np.where(ways, 0, costs.stretch), call=np.where(ways, 0, costs.call))

    def with_copies(costs: Costs) -> Costs:
        ways = _ways(facts, model, costs, close=False)
        return without_copies(model.graph, without(costs), _copied_for_host(model, ways))

    host = _host_time(facts, launching=launching)
    found = gain.of_change(model, without, " without it", host, None if launching else with_copies)
    if not launching:
        return found
    # no profiler makes launching faster: what clean steps take longer is something else
    most = min(_launching_ns(facts, each) for each in (model, facts.model) if each is not None)
    return gain.limited(found, most, model.step_ns, f"launching took {words.ns(most)} of a step at most")


def _launching_ns(facts: Facts, model: Model) -> float:
    """How long launching took while this was recorded, in the step in which it took longest."""
    costs, calls = as_recorded(model.graph), model.graph.calls
    ways = _ways(facts, model, costs, close=True)
    step = np.searchsorted(model.graph.steps["start"].to_numpy(), calls.start[ways], side="right")
    return float(np.bincount(step, (costs.stretch + costs.call)[ways], 1).max())


def _copied_for_host(model: Model, ways: Bools) -> Bools:
    """Marks the copies to the host that its other work follows: without that work nothing would need them."""
    call, device = model.graph.work.call, model.sel.trace.device
    to_host = names.matching(device["name"].gather(model.graph.work.row), lambda name: operation_name(name) == DTOH)
    marked: Bools = to_host & (call >= 0) & np.append(ways, False)[call + 1]
    return marked


def _late(
    facts: Facts, limits: Limits, title: str, numbers: tuple[Evidence, ...], advice: str, *, launching: bool
) -> Finding | None:
    """What such a gain finds; None where there is none, or one that is too small."""
    model, bound = deciding(facts), without_host(facts, launching=launching)
    if model is None or bound is None or (bound.ceiling_percent or 0.0) < limits.late_percent:
        return None
    ways = f"ways of {'at most' if launching else 'more than'} {words.ns(LAUNCHING_NS)}"
    return bound.finding(
        title,
        (*_evidence(facts, model), *numbers, *_lines(facts)),
        f"{words.part_of(bound.ns, model.step_ns, bound.ceiling_percent)}; {bound.why}",
        threshold=f"above {words.percent(limits.late_percent)} of the step; {ways} from one launch to the next",
        advice=advice,
    )


def _lines(facts: Facts) -> tuple[Evidence, ...]:
    """The line that takes most of a step, as samples of the clean program tell."""
    line = longest_line(facts.trace)
    if line is None:
        return ()
    return (Evidence(f"{line.short}, of the sampled steps", line.percent, "%", Query("host:lines", row=line.name)),)


def _evidence(facts: Facts, model: Model) -> tuple[Evidence, ...]:
    """The two numbers behind the verdict, and the path's shares."""
    path = facts.path if model is facts.host_model else None
    path = critical_path(model.sel, model) if path is None else path
    return evidence(
        (basis.shown(facts).span.removeprefix("the "), facts.page_step.ns, "ns", Query("timeline")),
        ("the GPU alone", model.host_free_ns, "ns", Query("host:critical path")),
        ("the host alone", max(model.kernels_free_ns), "ns", Query("host:critical path")),
        ("API calls on the critical path", path.share("api"), "%", Query("host:API calls", "launch")),
    )


@looks_for(S2)
def launch_bound(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    if facts.api["name"].str.contains(_CAPTURE).any():
        return Abstention("steps that run: here CUDA graphs are being captured, which is done once")
    median: Any = facts.launches["duration"].median()
    kernels = facts.per_step(facts.launches.height)
    return _late(
        facts,
        limits,
        f"{_launch_change(facts)}: {words.things(kernels, 'kernel')} {program.per(facts)},"
        f" median {words.ns(float(median or 0))}",
        (
            Evidence(f"kernels {program.per(facts)}", kernels, "", Query("kernels")),
            Evidence("median kernel", float(median or 0), "ns", Query("kernels")),
        ),
        _launch_advice(facts),
        launching=True,
    )


def _launch_change(facts: Facts) -> str:
    """What to change about many launches, in a few words."""
    if program.graph_percent(facts) > program.BY_GRAPHS_PERCENT:
        return "Capture more in each CUDA graph"
    compiled = f"Launch the {'compiled ' if program.is_compiled(facts) else ''}step as CUDA graphs"
    return facts.program.say(pytorch=compiled, jax="Do more in each call", other="Launch the step as one graph")


def _launch_advice(facts: Facts) -> str:
    """What to do about many launches, in the program's own terms."""
    last = " Faster kernels gain next to nothing here: the GPU is done before the next launch."
    if program.graph_percent(facts) > program.BY_GRAPHS_PERCENT:
        return (
            "Each graph is too small for what its launch costs: capture the whole step or several, use a larger batch,"
            f" and prepare inputs while the last graph runs.{last}"
        )
    compiled = program.is_compiled(facts)
    return (
        _in_the_way(facts)
        + facts.program.say(
            pytorch=(
                'torch.compile(mode="reduce-overhead") does it where no graph break is in the way'
                if compiled
                else 'torch.compile(mode="reduce-overhead") does it, or by hand torch.cuda.graph or'
                " torch.cuda.make_graphed_callables"
            )
            + ". A larger batch and fused kernels do more per launch.",
            jax="Give each call more to do: a larger batch, several steps in one jit (jax.lax.scan over steps), no"
            " block_until_ready between steps.",
            other="Launch the work of a step as one graph (cudaStreamBeginCapture, hipGraph), give each launch more to"
            " do, and fuse small kernels.",
        )
        + last
    )


def _in_the_way(facts: Facts) -> str:
    """What has to go before the step can be captured: a wait can't be, but one at its end may stay behind the graph."""
    owners = waits(facts)["owner"]
    number = facts.per_step(owners.len())
    if number < MOST_WAITS:
        return ""
    most = owners.value_counts().sort("count", "owner", descending=[True, False]).row(0)[0]
    return f"First take out its {words.things(number, 'wait')}, most in {most}: none can be captured. "


@looks_for(S13)
def host_work(facts: Facts, limits: Limits) -> Finding | None:
    if facts.path is None:
        return None
    working = facts.path.stretches.filter(pl.col("resource").is_in(["python", "operator", "host"]))
    calls = tuple(
        Evidence(
            f"{row['name']}, on the critical path {program.per(facts)}",
            row["ns"],
            "ns",
            # time outside any call has no row among the functions
            Query("host", row=row["name"]) if row["row"] >= 0 else Query("host:critical path", row=row["resource"]),
        )
        for row in working.head(MOST_CALLS).iter_rows(named=True)
    )
    if deciding(facts) is None:
        return None
    return _late(facts, limits, _work_title(facts, working), calls, _work_advice(facts), launching=False)


def _work_title(facts: Facts, working: pl.DataFrame) -> str:
    """What to take off the thread: the call with a large part of its own work on the critical path, if one has it.

    Of a function that torch.compile wrote the finding's places tell the program's own.
    """
    first = working.head(1)
    first = first.filter([COMPILED.search(name) is None for name in first["name"].to_list()])
    if first.height and first["row"][0] >= 0 and first["ns"][0] >= MOST_PART * float(working["ns"].sum()):
        name, spent = str(first["name"][0]), f"{words.ns(first['ns'][0])} {program.per(facts)}"
        if WAITS.match(name):
            return f"Wait less for other threads ({call_name(name)}): {spent}"
        return f"Take {call_name(name) if name.startswith('<') else name} off the launching thread: {spent}"
    model = deciding(facts)
    assert model is not None
    launches = np.diff(model.graph.first) > 0
    long = int((_ways(facts, model, as_recorded(model.graph), close=False) & launches).sum())
    pauses = words.things(long / model.step_count, "pause")
    return f"Do less between launches: {pauses} of more than {words.ns(LAUNCHING_NS)} {program.per(facts)}"


def _work_advice(facts: Facts) -> str:
    """What to do about other work of the host, in the program's own terms."""
    if program.is_compiled(facts) and facts.program.framework == "pytorch":
        return (
            "Graph breaks and guards are Python between launches: TORCH_LOGS=graph_breaks,recompiles names them,"
            " fullgraph=True refuses them."
        )
    return (
        "Leave out of the step what it does not need (logging, metrics, checks, conversions on the host), or do it on"
        " another thread while the GPU works."
    )


@looks_for(S19)
def busy_but_waiting(facts: Facts, limits: Limits) -> Finding | None:
    model = facts.model
    if model is None or model.waits_for != "host":
        return None
    busy = facts.page_step.gpu["busy_percent"].max()
    if not isinstance(busy, float) or busy < limits.busy_percent:
        return None
    return Finding(
        "info",
        f"The host is the limit although the GPU is busy for {words.percent(busy)} of {basis.shown(facts).span}",
        _evidence(facts, model),
        f"of {words.ns(model.step_ns)} the host alone takes {words.ns(max(model.kernels_free_ns))}, the GPU alone"
        f" {words.ns(model.host_free_ns)}",
        aside=HEADLINE,
    )
