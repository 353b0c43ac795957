"""What run.json says of a recording, held against it: a file of another run is not believed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

import polars as pl
from msgspec.structs import replace

from tracetui.parsers.names.collectives import is_collective_kernel
from tracetui.parsers.runs.manifest import Measurement, Rank, RunManifest, Workload
from tracetui.parsers.runs.run import RICH
from tracetui.parsers.trace import Trace

STEPS_PERCENT, STEP_NS = 2.0, 1_000_000
"""By which the mean of the profiled steps may differ from that of the recorded ones: a range is not synchronised (46
true pairs: below 0.75 ms)."""
GPU_SHARE = 0.8
"""Of the GPU work of a recorded step, what a clean step takes at least: recording makes kernels little longer, and
other clocks of the GPU are no other program."""
MEMORY_NEAR = 0.05
"""Of a GPU's memory, what the driver keeps for itself, and some tools count."""
GPU_FACTS: dict[str, tuple[Callable[[Any], Any], float]] = {
    "compute capability": (attrgetter("compute_capability"), 0.0),
    "SM count": (attrgetter("sm_count"), 0.0),
    "bytes of memory": (attrgetter("memory_bytes"), MEMORY_NEAR),
}
"""What both tell of a GPU besides its name, and by which part it may differ."""
BACKWARD = "autograd::engine::evaluate_function: "
PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")
TYPES = {"fp32": "float", "tf32": "float", "fp16": "c10::Half", "bf16": "c10::BFloat16"}
"""What a profiler calls the type of an operand, by `workload.dtype`."""
FEW_PERCENT = 10.0
"""Of the matrix products, those of the type that was asked for."""


def contradiction(manifest: RunManifest, traces: Iterable[Trace]) -> str | None:
    """How run.json contradicts the recordings that lie beside it, in words; None if it does not.

    A recording of another GPU beside one of the GPU that it names is not its own, and says nothing against it.
    """
    parts: list[Measurement | Rank] = [manifest.measurement, *manifest.ranks]
    for told in parts:
        if (least := min((*told.clean_step_ns, *told.clean_host_ns, *told.profiled_step_ns), default=1)) <= 0:
            return f"it has a step of {least} ns"
        together, took = sum(told.clean_step_ns) + sum(told.profiled_step_ns), manifest.outcome.duration_ns
        if took is not None and together > took:
            return f"its steps take {_ms(together)} together, and the whole run {_ms(took)}"
    timed = [trace for trace in traces if trace.has_timeline]
    apart = [device_apart(manifest, trace) for trace in timed]
    if timed and all(apart):
        return apart[0]
    own = [trace for trace, why in zip(timed, apart, strict=True) if why is None]
    found = (_type(manifest, trace) or _training(manifest, trace) or _steps(manifest, trace) for trace in own)
    return next((why for why in found if why is not None), None)


def without_claims(manifest: RunManifest, why: str) -> RunManifest:
    """The manifest of another run, without what it says of the program and its steps."""
    ranks = tuple(replace(rank, clean_step_ns=(), clean_host_ns=(), profiled_step_ns=()) for rank in manifest.ranks)
    measured = Measurement(tool=manifest.measurement.tool)
    return replace(manifest, workload=Workload(), measurement=measured, ranks=ranks, contradicted=why)


def device_apart(manifest: RunManifest, trace: Trace) -> str | None:
    """The GPUs that run.json names and those of a recording, in words; None if one is of both, or either names none."""
    told = {device.name for device in manifest.device if device.name}
    recorded = {device.name for device in trace.info.devices if device.name}
    if not told or not recorded:
        return None
    if not any(_alike(one, other) for one in told for other in recorded):
        return f"it ran on {', '.join(sorted(told))}, the recording is of {', '.join(sorted(recorded))}"
    for word, (of, near) in GPU_FACTS.items():
        claimed, found = ({of(one) for one in devices} - {None} for devices in (manifest.device, trace.info.devices))
        if claimed and found and not any(_near(one, other, near) for one in claimed for other in found):
            return f"its GPU has {word} {_listed(claimed)}, the recorded one {_listed(found)}"
    return None


def _near(one: str | int, other: str | int, near: float) -> bool:
    return one == other or (isinstance(one, int) and isinstance(other, int) and abs(one - other) <= near * other)


def _listed(values: Iterable[str | int]) -> str:
    return ", ".join(sorted(map(str, values)))


def _alike(one: str, other: str) -> bool:
    """Whether one name has all words of the other: an H200 NVL is an H200, which is no H20."""
    first, second = ({*re.findall(r"[^\W_]+", name.casefold())} - {"nvidia"} for name in (one, other))
    return first <= second or second <= first


def _type(manifest: RunManifest, trace: Trace) -> str | None:
    asked = TYPES.get(manifest.workload.dtype or "")
    if asked is None:
        return None
    products = trace.host.filter(pl.col("name").cast(pl.String).is_in(PRODUCTS))["input_types"].cast(pl.String)
    of = products.drop_nulls().str.extract(r'"([\w:]+)"', 1).drop_nulls()
    most = of.mode().sort()
    if not most.len() or 100 * (of == asked).sum() / of.len() >= FEW_PERCENT:
        return None
    return f"it computes in {manifest.workload.dtype}, the recorded products in {most[0].removeprefix('c10::')}"


def _training(manifest: RunManifest, trace: Trace) -> str | None:
    """Holds whether the run trained against the backward passes; a recording without operators tells nothing."""
    names = trace.host["name"].unique().cast(pl.String).drop_nulls()
    backward, products = names.str.starts_with(BACKWARD).any(), names.is_in(PRODUCTS).any()
    if manifest.workload.train is False and backward:
        return "it ran forward only, and a backward pass is recorded"
    if manifest.workload.train and products and not backward:
        return "it trained, and no backward pass is recorded"
    return None


HELD_UP_NS = 100_000_000
"""So long a scheduler may hold a process up."""


def _steps(manifest: RunManifest, trace: Trace) -> str | None:
    if trace.marked_by is not None or trace.info.recorded_pass not in (None, RICH):
        return None
    profiled = manifest.profiled_steps(trace.info.rank)
    if not trace.steps.height:
        told = profiled and trace.info.kind == "chrome"  # tracetui's own recordings of torch have them marked
        return f"it profiled {len(profiled)} steps, the recording has none" if told else None
    claimed = len(profiled) or manifest.measurement.steps
    if claimed and trace.steps.height > claimed:  # a part that was cut out has fewer
        return f"it profiled {claimed} steps, the recording has {trace.steps.height}"
    if len(profiled) == trace.steps.height:
        recorded = trace.steps.sort("start")["duration"].to_list()
        recorded[0] -= _beginning_ns(trace)
        told_ns, recorded_ns = sum(profiled), sum(recorded)
        # one that the scheduler held up at its start or end is no other program's
        apart = [both for both in zip(profiled, recorded, strict=True) if _apart(*both)]
        held_up = len(apart) == 1 and 0 < apart[0][0] - apart[0][1] < HELD_UP_NS
        most = len(apart) > len(profiled) / 2 and not held_up
        if most and _apart(told_ns / len(profiled), recorded_ns / len(profiled)):
            return f"its {len(profiled)} profiled steps take {_ms(told_ns)}, the recorded ones {_ms(recorded_ns)}"
    clean, host = manifest.clean_steps(trace.info.rank), manifest.clean_hosts(trace.info.rank)
    least_busy, most_work = _work_ns(trace)
    # the recorded steps may be of other kinds than most clean ones
    if clean and max(clean) < GPU_SHARE * least_busy:
        took = "its step takes" if min(clean) == max(clean) else "its longest step takes"
        return f"{took} {_ms(max(clean))}, and the GPU alone works {_ms(least_busy)} in each recorded one"
    if most_work and len(host) == len(clean) > 0:
        mean, given_out = sum(clean) / len(clean), sum(host) / len(host)
        if _apart(mean, given_out) and mean - given_out > most_work / GPU_SHARE:
            return (
                f"its step takes {_ms(mean)}, the host gives out its work in {_ms(given_out)}, and no recorded step has"
                f" more than {_ms(most_work)} of GPU work"
            )
    return None


def _apart(told_ns: float, recorded_ns: float) -> bool:
    return abs(told_ns - recorded_ns) > STEPS_PERCENT / 100 * recorded_ns + STEP_NS


def _beginning_ns(trace: Trace) -> int:
    """How long the first recorded step has lasted when anything happens in it: the profiler begins within its range."""
    first = trace.steps["start"].sort()[0]
    calls = trace.host.filter(pl.col("kind").cast(pl.String).is_in(("operator", "runtime", "driver")))["start"]
    later = calls.filter(calls >= first).sort()
    return int(later[0] - first) if later.len() else 0


def _work_ns(trace: Trace) -> tuple[float, float]:
    """The least that the busiest stream works in a step, and the most that all work of a step takes.

    Waits for other ranks are no work; with collectives the second is 0.
    """
    work = trace.device.filter((pl.col("kind") != "annotation") & pl.col("step").is_not_null())
    kernels = work.filter(pl.col("kind") == "kernel")
    waiting = [name for name in kernels["name"].unique().cast(pl.String).drop_nulls() if is_collective_kernel(name)]
    if waiting:
        kernels = kernels.filter(~pl.col("name").cast(pl.String).is_in(waiting))
    of_streams = kernels.group_by("step", "device", "stream").agg(pl.col("duration").sum())
    busiest = of_streams.group_by("step").agg(pl.col("duration").max())["duration"]
    least = busiest.min() if busiest.len() == trace.steps.height else 0
    most = 0 if waiting else work.group_by("step").agg(pl.col("duration").sum())["duration"].max()
    return float(least or 0), float(most or 0)  # type: ignore[arg-type]


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.4g} ms"
