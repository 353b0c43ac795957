"""What a run waits for, in one word and one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING, Literal

import polars as pl

from tracetui.analysis.base import names
from tracetui.analysis.base.conventions import is_host_collective
from tracetui.analysis.base.number_format import format_ns
from tracetui.analysis.base.remembered import latest
from tracetui.analysis.dependencies.critical_path import (
    GPU_RESOURCES,
    HOST_RESOURCES,
    CriticalPath,
    critical_path,
)
from tracetui.analysis.dependencies.model import Model, model, program_model
from tracetui.analysis.dependencies.nodes import LEAST_ENDS
from tracetui.analysis.dependencies.steps import recorded_steps
from tracetui.parsers.runs.light_pass import LIGHT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.selection import Selection
    from tracetui.parsers import Trace

    Kind: TypeAlias = Literal["host", "gpu", "dataloader", "communication", "copies", "ranks", "unknown"]


UNEVEN = 1.1
"""From this ratio of mean and median on, the median step does not stand for all of them."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The verdict on a run, and the two numbers that it rests on."""

    kind: Kind
    sentence: str
    """The verdict with its numbers and their base."""
    recorded_ns: float | None = None
    """The median step as recorded; null where launches and their work were not both recorded."""
    clean_ns: float | None = None
    """The median step without a profiler; null if nobody timed it."""
    host_free_ns: float | None = None
    """The median step if the host were free; at most the step itself, which a free host can't make longer."""
    kernels_free_ns: tuple[float, float] | None = None
    """The median step if all GPU work were free: the least and the most that the recording allows."""
    unexplained: int = 0
    """How many steps the replay does not explain within 3 %."""


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
    if sel.trace.info.kind == "jax":
        sentence = "What the run waits for can't be told: JAX's profiler does not record the host between launches"
        return Limit("unknown", f"{sentence} ({base}).")
    base = base.replace(" (no steps)", ", no steps")
    found, named = program_model(sel), model(sel, sel.trace.clean_step_ns)
    if found is None or named is None:
        return Limit("unknown", _without_model(sel, base))
    path = critical_path(sel, named)
    kind = _kind(found, path)
    low, high = min(found.kernels_free_ns), max(found.kernels_free_ns)
    return Limit(
        kind,
        _sentence(found, path, kind, base, span),
        found.recorded_ns,
        found.clean_ns,
        min(found.host_free_ns, found.step_ns),
        (low, high),
        len(found.unexplained),
    )


_NAMED: dict[str, Kind] = {"loader": "dataloader", "communication": "communication", "memcpy": "copies"}
"""What the run waits for where most of its path on the side that decides runs through this resource."""


def _kind(found: Model, path: CriticalPath) -> Kind:
    """The side that decides, refined by what most of the critical path on that side runs through, if any of it does.

    The GPU's side is looked up in the recording that decides, the host's in the one that knows its functions.
    """
    if found.waits_for == "unknown" or 2 * len(found.unexplained) > found.step_count:
        return "unknown"
    if found.waits_for == "ranks":
        return "ranks"
    resources = HOST_RESOURCES if found.waits_for == "host" else GPU_RESOURCES
    if found.waits_for == "gpu":
        path = critical_path(found.sel, found)
    shares = {name: path.share(name) for name in resources}
    largest = max(shares, key=lambda name: shares[name])
    if largest == "wait":
        return "unknown"
    return _NAMED.get(largest, found.waits_for) if shares[largest] > 0 else found.waits_for


def _without_model(sel: Selection, base: str) -> str:
    device = sel.trace.device
    if not device.height or not device["kind"].is_in(["kernel", "memcpy", "memset", "graph"]).any():
        others = " and other ranks" if _exchanges(sel.trace) else ""
        return f"No GPU work was recorded: there is nothing to wait for but the CPU{others} ({base})."
    if not sel.trace.has_timeline:
        return f"Durations alone can't tell what the run waits for ({base})."
    if sel.trace.device["launch"].is_not_null().any():
        return f"What the run waits for can't be told: which calls of this device's runtime wait is not known ({base})."
    return f"What the run waits for can't be told: no launches of its GPU work were recorded ({base})."


def _exchanges(trace: Trace) -> bool:
    """Whether the host itself took part in collectives."""
    annotations = trace.host.filter(pl.col("kind").is_in(["operator", "annotation"]))["name"]
    return bool(names.matching(annotations.unique(), is_host_collective).any())


_WAITS = {
    "host": "Waits for the CPU, not the GPU",
    "gpu": "Waits for the GPU",
    "dataloader": "Waits for the data loader",
    "communication": "Waits for communication",
    "copies": "Waits for copies to or from the GPU",
    "ranks": "Waits for other ranks, which come late to collectives",
    "unknown": "Can't be told from this recording whether it waits for the CPU or the GPU",
}


def _sentence(found: Model, path: CriticalPath, kind: Kind, base: str, span: str) -> str:
    """The verdict, the step, and what would be left of it."""
    low, high = format_ns(min(found.kernels_free_ns)), format_ns(max(found.kernels_free_ns))
    free_host = format_ns(min(found.host_free_ns, found.step_ns))
    free_gpu = high if low == high else f"{low} to {high}"
    if kind == "unknown":
        left = (
            f"with {_host(found)} free {free_host} of {format_ns(found.step_ns)} would be left, with the GPU free"
            f" {free_gpu}"
        )
        waits = _WAITS[kind]
        if found.waits_for == "unknown" and "ranks" in found.sides:
            waits = "Can't be told from this recording whether it waits for other ranks or for the GPU"
        return f"{waits}: {left}{_why_unknown(found, path)}{_unexplained(found)} ({base})."
    uneven = _uneven(recorded_steps(found.graph))
    step = f"{span} takes {format_ns(found.recorded_ns)} as recorded{f' ({uneven})' if uneven else ''}"
    if found.clean_ns is not None:
        recorded = format_ns(found.recorded_ns)
        where = "in the light recording" if found.sel.trace.info.recorded_pass == LIGHT else "recorded"
        beside = [note for note in (_uneven(found.clean_step_ns), f"{recorded} {where}") if note]
        step = f"{span} takes {format_ns(found.clean_ns)} without the profiler ({'; '.join(beside)})"
    left = f"with {_host(found)} free {free_host} would be left"
    if kind == "ranks":
        left = f"with all of them in time {format_ns(max(found.ranks_in_time_ns))} would be left"
        left += f", with {_host(found)} free {free_host}"
        return f"{_WAITS[kind]}: {step}; {left}{_unexplained(found)} ({base})."
    if found.clean_ns is None or found.waits_for == "host":  # how far a host that keeps ahead is ahead is not known
        left += f", with the GPU free {free_gpu}"
    waits = "Waits for its CPU or for other ranks" if "ranks" in found.sides else _WAITS[kind]
    return f"{waits}: {step}; {left}{_unexplained(found)} ({base})."


def _uneven(steps: Sequence[int] | Ints) -> str:
    """The mean beside the median, where a few long steps hold much of the time; else nothing."""
    if len(steps) < LEAST_ENDS:
        return ""
    mean = fmean(steps)
    return f"the mean of {len(steps)} is {format_ns(mean)}" if mean > UNEVEN * median(steps) else ""


def _host(found: Model) -> str:
    """Whose time counts as free: where ranks may wait for one another, that of all of them."""
    return "the host" if found.transfer is None else "all ranks' hosts"


def _unexplained(found: Model) -> str:
    """How far the replay is from the recording, where that is too far."""
    if not found.unexplained:
        return ""
    if found.step_count > 1:
        return f"; a replay of its launches does not explain {len(found.unexplained)} of {found.step_count} steps"
    return f"; a replay of its launches takes {format_ns(found.replayed_ns)}"


def _why_unknown(found: Model, path: CriticalPath) -> str:
    if found.waits_for == "unknown":
        return ", by what recording cost the host" + ("s" if "ranks" in found.sides else "")
    lost = path.stretches.filter(path.stretches["resource"] == "wait")
    if lost.height:
        return f"; {path.share('wait'):.0f} % of it {lost['name'][0]} waits for something that was not recorded"
    return ""
