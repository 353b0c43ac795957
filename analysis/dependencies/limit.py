"""What a run waits for, in one word and one sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal, TypeAlias

import numpy as np
import polars as pl

from tracetui.analysis.attribution.launch_calls import launch_calls
from tracetui.analysis.base import intervals, names
from tracetui.analysis.base.number_format import format_count, format_ns, format_percent
from tracetui.analysis.base.remembered import latest
from tracetui.analysis.dependencies.costs import recorded_steps, step_edges
from tracetui.analysis.dependencies.critical_path import (
    GPU_RESOURCES,
    HOST_RESOURCES,
    CriticalPath,
    critical_path,
)
from tracetui.analysis.dependencies.graph import knows_waits
from tracetui.analysis.dependencies.model import TOLERANCE, UNEXPLAINED, Model, Side, model, program_model
from tracetui.analysis.dependencies.waits import LEAST_ENDS, NONE
from tracetui.analysis.gpu.step_kinds import (
    UNEVEN,
    StepKinds,
    are_mixed,
    grouped,
    outlier,
    page_kinds,
    typical_lengths,
    typical_ns,
)
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import Selection
from tracetui.parsers import Trace
from tracetui.parsers.arrays import Ints
from tracetui.parsers.names.serving import phase_of
from tracetui.parsers.runs.run import LIGHT

Kind: TypeAlias = Literal["host", "gpu", "dataloader", "communication", "copies", "ranks", "unknown"]
Why: TypeAlias = Literal[
    "recording_cost",
    "unexplained",
    "unrecorded_wait",
    "jax",
    "launches",
    "runtime",
    "selection",
    "durations",
    "kernels",
    "no_gpu",
    "invalid",
]


@dataclass(frozen=True, slots=True)
class Limit:
    """The verdict on a run, and the two numbers that it rests on."""

    kind: Kind
    sentence: str
    """The verdict with its numbers and their base."""
    recorded_ns: float | None = None
    """The median step as recorded; None where launches and their work were not both recorded."""
    clean_ns: float | None = None
    """The median step without a profiler; None if nobody timed it."""
    host_free_ns: float | None = None
    """The median step if the host were free; at most the step itself, which a free host can't make longer."""
    kernels_free_ns: tuple[float, float] | None = None
    """The median step if all GPU work were free: the least and the most that the recording allows."""
    unexplained: int = 0
    """How many steps the replay does not explain within 3 %; a verdict that is told holds all the same."""
    why: Why | None = None
    """Why it can't be told, which the sentence says too; None where it can. Without GPU work (``no_gpu``) there is
    nothing to tell."""


@latest
def limit(sel: Selection, base: str, span: str) -> Limit:
    """Judges a selection by what its median step would take with a free host, and with free GPU work.

    The smaller of both names the limit. The host's time is known between two ends, unless its steps were timed without
    a profiler too; if the ends disagree, the recording can't tell.

    Args:
        sel: the recording.
        base: what the numbers are about, in words.
        span: what one step is, in words: "a step", or "the recording".
    """
    base = base.replace(" (no steps)", ", no steps")
    on_jax = sel.trace.info.kind == "jax"
    found, named = (None, None) if on_jax else (run_model(sel), model(sel, sel.clean_step_ns))
    if found is None or named is None:
        why, sentence = _without_model(sel)
        clean_ns = typical_ns(sel.clean_step_ns) if sel.clean_step_ns else None
        if clean_ns is not None:
            sentence += f"; {span} takes {format_ns(clean_ns)} without the profiler"
        return Limit("unknown", f"{sentence} ({base}).", clean_ns=clean_ns, why=why)
    kinds = page_kinds(sel)
    named_phases = {phase_of(name) for name in sel.trace.steps["name"].unique().cast(pl.String).drop_nulls()}
    if kinds is not None and kinds.typical.phase in named_phases - {None}:  # others are parts of steps
        span = f"an iteration of kind {kinds.typical.phase}"
    elif found.clean_ns is not None and kinds is not None and kinds.typical.phase and len(kinds.kinds) > 1:
        alike, steps = len(typical_lengths(sel.clean_step_ns)), len(sel.clean_step_ns)
        of = "clean step" if alike == steps else f"of {alike} of {steps} clean steps"
        # which kinds these are of is not known
        span = f"the mean of {steps} clean steps" if are_mixed(sel.clean_step_ns) else f"the median {of}"
    path = critical_path(sel, named)
    kind, untold = _kind(found, path)
    low, high = min(found.kernels_free_ns), max(found.kernels_free_ns)
    return Limit(
        kind,
        _sentence(found, path, kind, untold, _of_working_steps(found, base), span, _unlike(sel) or _rare(kinds)),
        found.recorded_ns,
        found.clean_ns,
        min(found.host_free_ns, found.step_ns),
        (low, high),
        len(found.unexplained),
        untold,
    )


def run_model(sel: Selection) -> Model | None:
    """`program_model` of a run; a part of it is replayed as recorded, since its steps need not take the clean time."""
    return program_model(sel) if sel.scope == Scope() else model(sel)


def _of_working_steps(found: Model, base: str) -> str:
    """The base, with how many of its steps have a length: those that launched GPU work."""
    work = found.graph.work
    working = np.unique(work.step[(work.step != NONE) & (work.call != NONE)]).size
    all_of_them = found.graph.steps.height
    return f"{base}, {working} of {all_of_them} with GPU work" if working < all_of_them else base


_NAMED: dict[str, Kind] = {"loader": "dataloader", "communication": "communication", "memcpy": "copies"}
"""What the run waits for where most of its path on the side that decides runs through this resource."""
NAMED_PERCENT = 10.0
"""Less of the critical path than this is not what the run waits for, even if nothing else on its side takes more."""


def _kind(found: Model, path: CriticalPath) -> tuple[Kind, Why | None]:
    """The side that decides, refined by what most of the critical path on that side runs through if a tenth does.

    The GPU's side is looked up in the recording that decides, the host's in the one that knows its functions. If it
    can't be told, why: what a replay does not give is said before what recording cost, since clean steps would not help
    there.
    """
    if found.waits_for == "unknown":
        return "unknown", "unexplained" if found.misses_too_much else "recording_cost"
    if found.waits_for == "ranks":
        return "ranks", None
    resources = HOST_RESOURCES if found.waits_for == "host" else GPU_RESOURCES
    if found.waits_for == "gpu":
        path = critical_path(found.sel, found)
    shares = {name: path.share(name) for name in resources}
    largest = max(shares, key=lambda name: shares[name])
    if largest == "wait":
        return "unknown", "unrecorded_wait"
    if shares[largest] < NAMED_PERCENT or (largest == "memcpy" and not _with_host(path)):
        return found.waits_for, None
    return _NAMED.get(largest, found.waits_for), None


_WITHIN_GPUS = re.compile(r"(D|P)(to|2)(D|P)|(Device|Peer)-?to-?(Device|Peer)", re.IGNORECASE)


def _with_host(path: CriticalPath) -> bool:
    """Whether most time of the path's copies is of those between host and GPU, not within a GPU or between two."""
    copies = path.stretches.filter(pl.col("resource") == "memcpy")
    within = pl.Series(names.matching(copies["name"], lambda name: _WITHIN_GPUS.search(name) is not None))
    return 2 * float(copies.filter(within)["ns"].sum()) < float(copies["ns"].sum())


def _without_model(sel: Selection) -> tuple[Why, str]:
    """Why nothing can be replayed, and the verdict that is left."""
    device = sel.trace.device
    untold = "What the run waits for can't be told: "
    if not device.height or not device["kind"].is_in(["kernel", "memcpy", "memset", "graph"]).any():
        if calls := launch_calls(sel.trace).height:
            return "kernels", f"{untold}it launched {format_count(calls)} kernels, and no GPU work was recorded"
        if not sel.trace.host.height:
            return "no_gpu", "Nothing was recorded: the file holds no event of the host or of a GPU"
        return "no_gpu", f"{untold}no GPU work is in this recording, and the profiler may have left it out"
    if not sel.trace.has_timeline:
        return "durations", "Durations alone can't tell what the run waits for"
    if sel.trace.info.kind == "jax":
        return "jax", f"{untold}{launches_alone(sel.trace)}"
    launches = device["launch"].drop_nulls().unique()
    if not launches.len():
        return "launches", f"{untold}{LAYERS if sel.trace.info.kind == 'trtexec' else UNLAUNCHED}"
    if not knows_waits(sel.trace.host["name"].gather(launches)):
        return "runtime", f"{untold}which calls of this device's runtime wait is not known"
    if sel.scope.window is not None:
        return "selection", f"{untold}the marked range holds too little of it"
    return "selection", f"{untold}no launch of GPU work is in what was selected"


UNLAUNCHED = "no launches of its GPU work were recorded"
LAYERS = "trtexec exports the times of layers, not what the host does"


def launches_alone(trace: Trace) -> str:
    """That a profiler of JAX's kind says when work ran, not what its host did before."""
    tool = trace.info.tool
    whose = "TensorFlow's" if tool.startswith("TensorFlow") else "JAX's"
    return f"{whose} profiler does not record the host between launches"


_WAITS = {
    "host": "Waits for the CPU, not the GPU",
    "gpu": "Waits for the GPU",
    "dataloader": "Waits for the data loader",
    "communication": "Waits for communication",
    "copies": "Waits for copies to or from the GPU",
    "ranks": "Waits for other ranks, which come late to collectives",
}


def _sentence(found: Model, path: CriticalPath, kind: Kind, why: Why | None, base: str, span: str, rare: str) -> str:
    """The verdict, the step, and what would be left of it."""
    low, high = format_ns(min(found.kernels_free_ns)), format_ns(max(found.kernels_free_ns))
    free_host = format_ns(min(found.host_free_ns, found.step_ns))
    free_gpu = high if low == high else f"{low} to {high}"
    lengths = typical_lengths(found.clean_step_ns) if found.clean_step_ns else recorded_steps(found.graph)
    uneven = rare or (_mixed(found.clean_step_ns) if are_mixed(found.clean_step_ns) else _uneven(lengths))
    where = "in the light recording" if found.sel.trace.info.recorded_pass == LIGHT else "as recorded"
    step = f"{span} takes {format_ns(found.step_ns)}{'' if found.clean_step_ns else f' {where}'}"
    step += f" ({uneven})" if uneven else ""
    if why is not None:
        side, seen, between = likelier(found, why)
        sides: tuple[Side, Side] = ("ranks" if "ranks" in found.sides else "host", "gpu")
        other = next(one for one in sides if one != side)
        untold = _untold(found, path, why) or _unexplained(found)
        alone = f"the GPU alone takes {free_host}, {_host(found)} alone {free_gpu}{between}"
        return f"Likelier waits for {_SIDES[side]} than for {_SIDES[other]}: {step}{seen}; {alone}{untold} ({base})."
    of = f" ({base})" if found.clean_ns is None else ""  # clean steps are none of a recording's
    left = f"the GPU alone takes {free_host}"
    if kind == "ranks":
        left = f"with all of them in time it takes {format_ns(max(found.ranks_in_time_ns))}, the GPU alone {free_host}"
        return f"{_WAITS[kind]}: {step}; {left}{_unexplained(found)}{of}."
    if found.clean_ns is None or found.waits_for == "host":  # how far a host that keeps ahead is ahead is not known
        left += f", {_host(found)} alone {free_gpu}{_in_turns(found)}"
    elif found.ahead_ns is not None and found.step_ns > found.host_free_ns * (1 + TOLERANCE):
        left += f", without pauses between its kernels; the host gives a step out in {format_ns(found.ahead_ns)}"
    either = found.waits_for == "host" and "ranks" in found.sides
    waits = "Waits for its CPU or for other ranks" if either else _WAITS[kind]
    return f"{waits}: {step}; {left}{_unexplained(found)}{of}."


def _in_turns(found: Model) -> str:
    """That host and GPU wait for each other, where neither alone takes nearly as long as the step."""
    longest = max(*found.kernels_free_ns, found.host_free_ns)
    return ": they take turns" if longest < (1 - NAMED_PERCENT / 100) * found.step_ns else ""


MOST_OF_STEP = 0.5
"""From this part of the recorded step on, what waits for other ranks more likely waits for them without a profiler too;
and what a recording doesn't explain is more likely the time of the GPU, if it works for so long."""


def likelier(found: Model, why_untold: Why = "recording_cost") -> tuple[Side, str, str]:
    """The side that an undecided run waits for more likely, and why, as words behind the step and behind the host.

    Of its CPU and its GPU the one that takes longer if the host was cost the middle of what recording may have cost it;
    where the recording does not explain the step, the GPU if it works for most of it.
    """
    between = ", by what recording added" if why_untold == "recording_cost" else ""
    if "ranks" in found.sides:
        waited = found.ends[0].median_ns - found.ranks_in_time_ns[0]
        share = 100 * waited / found.ends[0].median_ns if found.ends[0].median_ns else 0.0
        side: Side = "ranks" if share > 100 * MOST_OF_STEP else "gpu"
        return side, f", {format_percent(share)} of it waiting for other ranks", between
    if why_untold != "recording_cost":
        work = found.graph.work
        edges = step_edges(found.graph, work.start, work.end)
        busy = intervals.covered(intervals.union(work.start, work.end), edges[:-1], edges[1:])
        share = 100 * float(busy.sum()) / max(int(edges[-1] - edges[0]), 1)
        side = "gpu" if share > 100 * MOST_OF_STEP else "host"
        return side, f", the GPU works for {format_percent(share)} of it", between
    host_ns, gpu_ns = fmean(found.kernels_free_ns), found.host_free_ns
    return ("host" if host_ns > gpu_ns else "gpu"), "", f"{between} (half-way {format_ns(host_ns)})"


_SIDES: dict[Side, str] = {"host": "the CPU", "gpu": "the GPU", "ranks": "other ranks"}


def _unlike(sel: Selection) -> str:
    """That the selected steps are not like most of the recording, and what they do."""
    if (found := outlier(sel)) is None:
        return ""
    (kinds, kind), usual = found, found[0].typical
    if kind.phase is not None:
        return ""
    others = f"unlike {len(usual.steps)} of {kinds.steps} steps, which take {format_ns(usual.median_ns)}"
    return f"{others}; longer: {kind.particular}" if kind.particular else others


def _rare(kinds: StepKinds | None) -> str:
    """The rare steps that take a notable part of the time, which a typical step does not tell; else nothing.

    Of an inference server's iterations it is each phase.
    """
    if kinds is not None and kinds.typical.phase is not None and len(kinds.kinds) > 1:
        told = [
            f"{format_count(len(one.steps))} of kind {one.phase} (mean {format_ns(one.mean_ns)})"
            f" {format_percent(one.percent)}"
            for one in kinds.kinds
        ]
        return f"of the time, iterations take: {', '.join(told)}"
    if kinds is None or kinds.mean_ns <= UNEVEN * kinds.typical.mean_ns:
        return ""
    return "; ".join(
        f"{len(rare.steps)} of {kinds.steps} {'takes' if len(rare.steps) == 1 else 'take'} {format_ns(rare.mean_ns)}"
        f"{'' if len(rare.steps) == 1 else ' each'} and {format_percent(rare.percent)} of the time"
        for rare in kinds.rare
    )


def _uneven(steps: Sequence[int] | Ints) -> str:
    """The mean beside the median, where a few long steps hold much of the time; else nothing."""
    if len(steps) < LEAST_ENDS:
        return ""
    mean = fmean(steps)
    return f"the mean of {len(steps)} is {format_ns(mean)}" if mean > UNEVEN * median(steps) else ""


def _mixed(steps: Sequence[int]) -> str:
    """How many steps of each kind there are, of which none is typical."""
    kinds = [np.array(steps)[kind] for kind in grouped(steps)]
    return f"the mean: {', '.join(f'{kind.size} of {len(steps)} take {format_ns(kind.mean())}' for kind in kinds)}"


def _host(found: Model) -> str:
    """Whose time counts as free: where ranks may wait for one another, that of all of them."""
    return "the host" if found.transfer is None else "all ranks' hosts"


def _untold(found: Model, path: CriticalPath, why: Why) -> str:
    """What the replay or the path lacks, as the end of a sentence; empty where what recording cost decides."""
    if why == "unexplained":
        return f"; {missed(found)}"
    if why == "unrecorded_wait":
        share, call = lost_wait(path)
        others = ", such as another rank on its GPU" if (found.sel.trace.info.world_size or 1) > 1 else ""
        where = f"for {format_percent(share)} of its critical path"
        return f"; {where} {call} waits for something that was not recorded{others}"
    return ""


def missed(found: Model) -> str:
    """How far the replay is from the recording."""
    if found.step_count == 1:
        taken = f"{format_ns(found.replayed_ns)} instead of {format_ns(found.recorded_ns)}"
        return f"a replay of its launches takes {taken}"
    steps = f"{len(found.unexplained)} of {found.step_count} steps by more than {100 * UNEXPLAINED:g} %"
    return f"a replay of its launches misses {steps}, by {format_ns(found.missed_ns)} in the median"


def lost_wait(path: CriticalPath) -> tuple[float, str]:
    """The percentage of the path that waits for something that was not recorded, and the call that waits most."""
    lost = path.stretches.filter(path.stretches["resource"] == "wait")
    return path.share("wait"), str(lost["name"][0]) if lost.height else "a call"


def _unexplained(found: Model) -> str:
    """How far the replay misses the steps, where the verdict holds whatever it misses."""
    return f"; {missed(found)}" if found.unexplained else ""
