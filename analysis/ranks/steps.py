"""A rank's steps: how long its GPUs computed, communicated and idled in each, and when its host was silent."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracetui.analysis.base import intervals, names
from tracetui.analysis.base.intervals import Intervals
from tracetui.analysis.base.remembered import latest
from tracetui.analysis.gpu.activities import Activities, activities, distinct
from tracetui.analysis.gpu.steps import StepSlots, step_slots
from tracetui.analysis.ranks.launches import launch_rows
from tracetui.analysis.ranks.summary import STEPS
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import Selection
from tracetui.parsers import Trace, schema
from tracetui.parsers.arrays import Ints

LEAST_SILENT_NS = 1_000_000
"""Shorter stretches are what a profiled program has between any two calls."""
LEAST_BLOCKING_NS = 500_000
"""From here on an API call waits rather than works."""
_OPERATOR, _DATALOADER, _RUNTIME, _DRIVER = (
    schema.HOST_KINDS.index(kind) for kind in ("operator", "dataloader", "runtime", "driver")
)
_COLLECTIVES = ("gloo:", "c10d::", "nccl:")
"""How operators are called in which the host itself waits for other ranks."""


@latest
def silent(trace: Trace) -> Intervals:
    """Stretches of over 1 ms in which no operator or API call of any thread begins or ends, from the first step on.

    An operator that encloses everything hides nothing: only its begin and end count. Calls that block, operators of
    collectives, and the wait for the data loader are no silence.
    """
    kind, start, end = _times(trace)
    told = np.isin(kind, (_OPERATOR, _DATALOADER, _RUNTIME, _DRIVER))
    begin = trace.steps["start"].to_numpy()
    ends = begin + trace.steps["duration"].to_numpy()
    # what a step does before its first call is silence, too
    points = np.sort(np.concatenate((start[told], end[told], begin[:1], ends[-1:])))
    if points.size < 2 or not told.any():
        return intervals.empty()
    long = np.flatnonzero(np.diff(points) > LEAST_SILENT_NS)
    quiet = points[long], points[long + 1]
    for known in (blocking(trace), loading(trace)):
        quiet = intervals.subtract(quiet, known)
    kept = quiet[1] - quiet[0] > LEAST_SILENT_NS
    return quiet[0][kept], quiet[1][kept]


@latest
def blocking(trace: Trace) -> Intervals:
    """When a thread was in a call that waits: API calls of at least 0.5 ms, and collectives that the host runs."""
    kind, start, end = _times(trace)
    long = end - start >= LEAST_BLOCKING_NS
    calls = long & np.isin(kind, (_RUNTIME, _DRIVER))
    operators = np.flatnonzero(long & (kind == _OPERATOR))
    waiting = operators[names.matching(trace.host["name"][operators], lambda name: name.startswith(_COLLECTIVES))]
    calls[waiting] = True
    return intervals.union(start[calls], end[calls])


@latest
def loading(trace: Trace) -> Intervals:
    """When a thread waited for the next batch."""
    kind, start, end = _times(trace)
    chosen = kind == _DATALOADER
    return intervals.union(start[chosen], end[chosen])


def _times(trace: Trace) -> tuple[np.ndarray, Ints, Ints]:
    """Kind, begin and end of each host event."""
    start = trace.host["start"].to_numpy()
    return trace.host["kind"].to_physical().to_numpy(), start, start + trace.host["duration"].to_numpy()


WHOLE = -1
"""The number of the step that stands for the whole window of a recording without steps."""


def step_rows(trace: Trace) -> pl.DataFrame:
    """The steps (`summary.STEPS`) on the trace's own clock; one for the whole window where none are marked."""
    sel = Selection(trace, Scope())
    slots, work = step_slots(sel), activities(sel)
    if not slots.start.size:
        return pl.DataFrame(schema=STEPS)
    columns: dict[str, object] = {
        "step": list(slots.index) if slots.marked else [WHOLE],
        "begin": slots.start,
        "end": slots.end,
        **_on_gpus(work, slots),
        **_launched(trace, work, slots),
        **_on_host(trace, slots),
    }
    frame = pl.DataFrame(columns, schema={name: dtype for name, dtype in STEPS.items() if name != "pace"})
    return frame.join(launch_rows(trace)[1], on="step", how="left", maintain_order="left").select(*STEPS)


def _on_gpus(work: Activities, slots: StepSlots) -> dict[str, Ints | list[None]]:
    """Times of the GPUs, summed over them; null where the recording has no GPU work at all."""
    named = ("compute_ns", "communication_ns", "exposed_ns", "computation_ns", "overlap_ns", "idle_ns")
    if not work.start.size:
        return {name: [None] * slots.start.size for name in named}
    sums = {name: np.zeros(slots.start.size, np.int64) for name in named}
    since = np.concatenate((slots.start[:1], slots.end[:-1]))
    device = work.column("device")
    for number in distinct(device):
        mine = work.where(device == number)
        kernels, collective, busy, whole = (
            intervals.union(mine.start[chosen], mine.end[chosen])
            for chosen in (mine.compute, mine.communication, ~mine.communication, slice(None))
        )
        for name, times in (
            ("compute_ns", busy),
            ("communication_ns", collective),
            ("exposed_ns", intervals.subtract(collective, busy)),
            ("computation_ns", kernels),
            ("overlap_ns", intervals.intersect(kernels, collective)),
        ):
            sums[name] += intervals.covered(times, slots.start, slots.end)
        sums["idle_ns"] += slots.end - since - intervals.covered(whole, since, slots.end)
    return dict(sums)


def _launched(trace: Trace, work: Activities, slots: StepSlots) -> dict[str, Ints | list[None]]:
    """The GPU work that each step's host time launched: own work in ns, and launches."""
    size = slots.start.size
    launch = work.column("launch")
    if not (launch >= 0).any():  # a recording of the GPU alone
        return {"own_gpu_ns": [None] * size, "launches": [None] * size}
    known = launch >= 0
    if slots.marked:
        step = trace.device["step"].cast(pl.Int64).fill_null(-1).to_numpy()[_rows_of(trace, work)]
        known &= step >= 0
    else:
        step = np.zeros(launch.size, np.int64)
    own = known & ~work.communication
    spent = np.bincount(step[own], weights=(work.end - work.start)[own], minlength=size).astype(np.int64)
    calls, first = np.unique(launch[known], return_index=True)
    launches = np.bincount(step[known][first], minlength=size)
    del calls
    return {"own_gpu_ns": spent, "launches": launches.astype(np.int64)}


def _rows_of(trace: Trace, work: Activities) -> Ints:
    """The rows of the device frame that the activities are, in order."""
    kinds = work.frame["kind"].unique()
    rows: Ints = np.flatnonzero(trace.device["kind"].is_in(kinds.implode()).to_numpy())
    return rows


def _on_host(trace: Trace, slots: StepSlots) -> dict[str, Ints | list[None] | list[float | None]]:
    """What the host did in each step's own time, which ends before its GPU work does."""
    size = slots.start.size
    if not trace.host.height:
        return {name: [None] * size for name in ("silent_ns", "loader_ns", "host_events", "call_ns")}
    start, end = slots.start, slots.end
    if slots.marked:
        start = trace.steps["start"].to_numpy()
        end = start + trace.steps["duration"].to_numpy()
    begun = np.sort(trace.host["start"].to_numpy())
    waits = loading(trace)
    return {
        "silent_ns": intervals.covered(silent(trace), start, end),
        "loader_ns": intervals.covered(waits, start, end) if waits[0].size else [None] * size,
        "host_events": np.searchsorted(begun, end) - np.searchsorted(begun, start),
        "call_ns": _calls(trace, start, end),
    }


def _calls(trace: Trace, start: Ints, end: Ints) -> list[float | None]:
    """The median duration of a step's API calls, without those that wait."""
    kind, begun, ended = _times(trace)
    chosen = np.isin(kind, (_RUNTIME, _DRIVER)) & (ended - begun < LEAST_BLOCKING_NS)
    order = np.argsort(begun[chosen], kind="stable")
    at, lasting = begun[chosen][order], (ended - begun)[chosen][order]
    bounds = zip(np.searchsorted(at, start).tolist(), np.searchsorted(at, end).tolist(), strict=True)
    return [float(np.median(lasting[low:high])) if high > low else None for low, high in bounds]
