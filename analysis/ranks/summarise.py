"""From one rank's recording to its summary: one function for each frame, and the header with its machine.

Pure, and cheap beside reading the file: no call tree, no attribution and no other recording is needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.base import intervals, names
from tracetui.analysis.base.intervals import Intervals
from tracetui.analysis.base.remembered import latest
from tracetui.analysis.collectives import all_collectives
from tracetui.analysis.gpu.steps import extent
from tracetui.analysis.ranks.launches import launch_rows
from tracetui.analysis.ranks.steps import WHOLE, blocking, loading, silent, step_rows
from tracetui.analysis.ranks.summary import COLLECTIVES, OTHERS, WORK, Members, RankSummary, members
from tracetui.parsers import Trace
from tracetui.parsers.arrays import Ints
from tracetui.parsers.names.collectives import is_collective_kernel
from tracetui.parsers.names.kernel_names import short_name
from tracetui.parsers.runs.manifest import SLOWED, GpuState, Machine, Power, RunManifest
from tracetui.parsers.tally import CUT_SHORT
from tracetui.parsers.tool_registry import OF_BOARD

WORK_KINDS = ("kernel", "memcpy", "memset", "graph")


class OwnWork(Struct, frozen=True):
    """Device rows in the order of their launch."""

    row: Ints
    launched: Ints
    duration: Ints


@latest
def own_work(trace: Trace) -> OwnWork:
    """What this rank launched within its recording, without collectives; of its steps where it has some.

    Work queued before the recording is another step's; a rank that ran ahead has more of it than one that came late.
    """
    frame = trace.device
    chosen = (frame["kind"].is_in(list(WORK_KINDS)) & frame["launch"].is_not_null()).to_numpy()
    if trace.steps.height:
        chosen &= frame["step"].is_not_null().to_numpy()
    if chosen.any():
        chosen &= ~names.matching(frame["name"], is_collective_kernel)
    rows = np.flatnonzero(chosen)
    launch = frame["launch"].cast(pl.Int64).fill_null(-1).to_numpy()[rows]
    launched = trace.host["start"].to_numpy()[launch]
    order = np.argsort(launched, kind="stable")
    duration = frame["duration"].fill_null(0).to_numpy()[rows]
    return OwnWork(rows[order], launched[order], duration[order])


MOST = 10
"""Names of a kind that are kept, those of most time in the whole recording; the rest is one row."""
COLLECTION = re.compile(
    r"^(GC:|Python GC|python_gc)|\bgc\.(collect|freeze)\b|\bgarbage[ _]collect|^<built-in function collect>$",
    re.IGNORECASE,
)
"""Ranges and functions that collect garbage: nsys, torch.profiler, Python's own, which is a function of ``gc``."""
ENCLOSES = 0.5
"""A range names a silent stretch that it holds so much of."""


def work_rows(trace: Trace) -> pl.DataFrame:
    """The work (`summary.WORK`) of each step, or of the whole recording where it has none (`WHOLE`)."""
    parts = [*_gpu_parts(trace), *_host_parts(trace)]
    if not parts:
        return pl.DataFrame(schema=WORK)
    frame = pl.concat(parts).group_by("step", "kind", "name").agg(*_SUMS)
    total = pl.col("ns").sum().over("kind", "name")
    place = pl.struct(-total, "name").rank("dense").over("kind")
    kept = frame.with_columns(name=pl.when(place <= MOST).then("name").otherwise(pl.lit("")))
    summed = kept.group_by("step", "kind", "name").agg(*_SUMS)
    order = summed.sort("step", "kind", "ns", "name", descending=[False, False, True, False])
    return order.select(pl.col(name).cast(dtype) for name, dtype in WORK.items())


_SUMS = (
    pl.col("ns", "count").sum(),
    pl.when(pl.col("blocks").count() > 0).then(pl.col("blocks").sum()).alias("blocks"),
)


def _gpu_parts(trace: Trace) -> list[pl.DataFrame]:
    """GPU work by range, module and kernel."""
    work = own_work(trace)
    if not work.row.size:
        return []
    rows = trace.device[work.row.tolist()]
    step = _steps_of(trace, rows)
    kernel = rows["kind"].is_in(["kernel", "graph"])
    module = rows["module"].zip_with(rows["module"].is_not_null(), rows["forward_module"])
    named = {
        "gpu_range": _named(trace, rows["range"], steps=True),
        "gpu_module": _named(trace, module),
        "kernel": names.mapped(rows["name"], short_name, None).set(~kernel, None),
        "copy": rows["name"].cast(pl.String).set(kernel, None),
    }
    duration = pl.Series("ns", work.duration)
    grid = rows["grid"].cast(pl.Array(pl.Int64, 3))
    blocks = pl.select(grid.arr.get(0) * grid.arr.get(1) * grid.arr.get(2)).to_series()
    found = []
    for kind, name in named.items():
        sizes = blocks if kind == "kernel" else pl.Series([None], dtype=pl.Int64).new_from_index(0, rows.height)
        frame = pl.DataFrame({"step": step, "name": name, "ns": duration, "blocks": sizes}).drop_nulls("name")
        if frame.height:
            found.append(_summed(frame, kind))
    return found


def _steps_of(trace: Trace, rows: pl.DataFrame) -> pl.Series:
    if not trace.steps.height:
        return pl.repeat(WHOLE, rows.height, dtype=pl.Int64, eager=True)
    return trace.steps["index"].gather(rows["step"])


def _named(trace: Trace, host_rows: pl.Series, *, steps: bool = False) -> pl.Series:
    """The names of host rows; null for null and for marks of steps."""
    found: pl.Series = trace.host["name"].gather(host_rows).cast(pl.String)
    if steps:
        marks = found.str.starts_with("ProfilerStep") | found.is_in(trace.steps["name"].implode())
        found = found.set(marks.fill_null(value=False), None)
    return found


def _summed(frame: pl.DataFrame, kind: str) -> pl.DataFrame:
    summed = frame.group_by("step", "name").agg(
        pl.col("ns").sum().cast(pl.Int64),
        count=pl.len().cast(pl.Int64),
        blocks=pl.when(pl.col("blocks").count() > 0).then(pl.col("blocks").sum()),
    )
    return summed.select("step", pl.lit(kind).alias("kind"), "name", "ns", "count", "blocks")


def _host_parts(trace: Trace) -> list[pl.DataFrame]:
    """Silence, the loader and garbage collection."""
    found = []
    collected = names.matching(trace.host["name"], lambda name: COLLECTION.search(name) is not None)
    start = trace.host["start"].to_numpy()[collected]
    spans = intervals.union(start, start + trace.host["duration"].fill_null(0).to_numpy()[collected])
    begun = trace.steps["start"].to_numpy()
    steps = intervals.union(begun, begun + trace.steps["duration"].to_numpy())
    for kind, whole in (("silent", silent(trace)), ("loader", loading(trace)), ("collection", spans)):
        # what follows the last step, as the profiler's own end, is no work of it
        stretches = intervals.intersect(whole, steps) if begun.size else whole
        if not stretches[0].size:
            continue
        name = _around(trace, stretches) if kind == "silent" else [""] * stretches[0].size
        step = _step_at(trace, stretches[0])
        lasting = stretches[1] - stretches[0]
        frame = pl.DataFrame({"step": step, "name": name, "ns": lasting}).drop_nulls("step")
        frame = frame.with_columns(blocks=pl.lit(None, pl.Int64))
        found.append(_summed(frame, kind))
    return found


def _step_at(trace: Trace, time: Ints) -> pl.Series:
    """The step that each time lies in; the one before it where it lies between two."""
    if not trace.steps.height:
        return pl.repeat(WHOLE, time.size, dtype=pl.Int64, eager=True)
    at = np.searchsorted(trace.steps["start"].to_numpy(), time, side="right") - 1
    return trace.steps["index"].gather(pl.Series(np.maximum(at, 0)))


def _around(trace: Trace, stretches: Intervals) -> list[str]:
    """The innermost range or function that holds most of each stretch; empty where none does."""
    marks = trace.host.filter(pl.col("kind").is_in(["annotation", "python", "module", "operator"]))
    steps = frozenset(trace.steps["name"])
    no_step = ~names.matching(marks["name"], lambda name: name in steps or name.startswith("ProfilerStep"))
    marks = marks.filter(pl.Series(no_step))
    begin = marks["start"].to_numpy()
    end = begin + marks["duration"].fill_null(0).to_numpy()
    found = []
    for low, high in zip(*stretches, strict=True):
        inside = np.minimum(end, high) - np.maximum(begin, low)
        holds = np.flatnonzero(inside > ENCLOSES * (high - low))
        if not holds.size:
            found.append("")
            continue
        innermost = holds[np.argmin(end[holds] - begin[holds])]
        found.append(str(marks["name"][int(innermost)]))
    return found


Group = tuple[str, str, Members]
_AS_THEY_ARE = (
    "kind", "group", "group_size", "seq", "order", "bytes_in", "bytes_out", "element_type", "peer", "coalesced", "step",
    "launched", "begin", "end", "exposed_ns",
)  # fmt: skip


def collective_rows(trace: Trace) -> pl.DataFrame:
    """The collectives (`summary.COLLECTIVES`) on the trace's own clock, in the order of launch.

    Operations in one kernel are one row: their kernel's, which says that it is coalesced. Its sends and receives have
    rows beside it, coalesced as it is, with its times and nothing that it is measured by: who sends to whom.
    """
    every = all_collectives(trace)
    found = every.filter(pl.col("part_of").is_null() & pl.col("begin").is_not_null() & pl.col("end").is_not_null())
    if not found.height:
        return pl.DataFrame(schema=COLLECTIVES)
    found = found.with_columns(at=pl.coalesce("launched", "begin")).sort("at", "begin", maintain_order=True)
    at = found["at"].to_numpy()
    since = np.r_[_first(trace, at), at[:-1]]
    work = own_work(trace)
    spent = np.r_[0, np.cumsum(work.duration)]
    low, high = (np.searchsorted(work.launched, bound) for bound in (since, at))
    launched = found["launched"].is_not_null().to_numpy()
    waits = loading(trace)
    measured: dict[str, Ints] = {
        "own_gpu_ns": spent[high] - spent[np.minimum(low, high)],
        "silent_ns": intervals.covered(silent(trace), since, at),
        "loader_ns": intervals.covered(waits, since, at),
        "blocked_ns": intervals.covered(blocking(trace), since, at),
    }
    columns = [pl.Series(name, values) for name, values in measured.items()]
    frame = found.select(*_AS_THEY_ARE, *columns)
    # nothing is known of what came before a collective that was launched before the recording
    frame = frame.with_columns(pl.when(pl.Series(launched)).then(pl.col(name)).alias(name) for name in measured)
    if not waits[0].size:
        frame = frame.with_columns(loader_ns=pl.lit(None, pl.Int64))
    parts = every.filter(pl.col("part_of").is_not_null() & pl.col("peer").is_not_null() & pl.col("begin").is_not_null())
    if parts.height:
        frame = pl.concat([frame, parts.select(*_AS_THEY_ARE)], how="diagonal_relaxed")
    return frame.select(pl.col(name).cast(dtype) for name, dtype in COLLECTIVES.items())


def _first(trace: Trace, at: Ints) -> int:
    """When what is counted begins."""
    if trace.steps.height:
        return min(int(trace.steps["start"][0]), int(at[0]))
    return min(int(at[0]), int(trace.host["start"].min())) if trace.host.height else int(at[0])  # type: ignore[arg-type]


def group_rows(trace: Trace) -> tuple[Group, ...]:
    """The process groups that the recording names: of its header, then those that only collectives name."""
    found: dict[str, Group] = {}
    for group in trace.info.groups:
        found[group.name] = (group.name, group.description or "", members(group.ranks))
    told = all_collectives(trace).select("group", "group_description", "group_ranks").drop_nulls("group").unique()
    for name, description, ranks in told.cast(pl.String).sort("group").iter_rows():
        known = found.get(name)
        if known is None or not known[2]:
            found[name] = (
                name,
                (known and known[1]) or description or "",
                (known and known[2]) or members(_ranks(ranks)),
            )
    return tuple(found.values())


def _ranks(text: str | None) -> tuple[int, ...]:
    """``[0, 1, 2]``; nothing for a list that PyTorch cut short."""
    try:
        said = json.loads(text or "")
    except ValueError:
        return ()
    whole = isinstance(said, list) and all(isinstance(one, int) for one in said)
    return tuple(said) if whole else ()


_TIMES = ("begin", "end", "launched")


def summarise(
    trace: Trace,
    path: str = "",
    *,
    rank: int | None = None,
    recorded_pass: str | None = None,
    manifest: RunManifest | None = None,
) -> RankSummary:
    """What is kept of a recording.

    Args:
        trace: the recording.
        path: what it is called in its job; its file's name by default.
        rank: which rank it is, where the recording does not say; 0 for a job that has no ranks.
        recorded_pass: which recording of its run it is, where it does not say itself.
        manifest: the run.json beside it.
    """
    info = trace.info
    known = info.rank if info.rank is not None else rank
    groups = group_rows(trace)
    named = max((max(ranks) + 1 for _, _, ranks in groups if ranks), default=None)
    window = extent(trace)
    steps = whole_steps(trace, step_rows(trace))
    kept = pl.col("step").is_in(steps["step"].implode())
    shift = info.base_time or 0
    return RankSummary(
        {
            "steps": _shifted(steps, shift),
            "collectives": _shifted(collective_rows(trace), shift),
            "work": work_rows(trace).filter(kept),
            "launches": launch_rows(trace)[0],
        },
        path=path or trace.source.path.name,
        rank=0 if known is None else known,
        world_size=info.world_size if info.world_size is not None else named,
        host=None if manifest is None else manifest.host_of(known),
        device=device_name(trace),
        tool=info.tool,
        recorded_pass=info.recorded_pass or recorded_pass,
        absolute=info.base_time is not None,
        window=None if window is None else (window[0] + shift, window[1] + shift),
        groups=groups,
        clean_step_ns=trace.clean_step_ns or (manifest.clean_steps(known) if manifest is not None else ()),
        environment=environment(trace, manifest, known),
        notes=trace.notes,
    )


def whole_steps(trace: Trace, steps: pl.DataFrame) -> pl.DataFrame:
    """The steps without those of which a file that ends early has a part only.

    Recorders write in the order of time, of the host and of the GPU each for itself: what begins after the last event
    of either is not there.
    """
    told = {note.reason for note in trace.notes}
    if not trace.steps.height or not any(reason.startswith(CUT_SHORT) for reason in told):
        return steps
    lasts = [int(frame["start"].max()) for frame in (trace.host, trace.device) if frame.height]  # type: ignore[arg-type]
    ends = (trace.steps["start"] + trace.steps["duration"]).to_numpy()
    whole = trace.steps["index"].filter(pl.Series(ends <= min(lasts, default=0)))
    return steps.filter(pl.col("step").is_in(whole.implode()))


def _shifted(frame: pl.DataFrame, shift: int) -> pl.DataFrame:
    """The frame with its times on the clock that begins `shift` ns earlier."""
    return frame.with_columns(pl.col(name) + shift for name in _TIMES if name in frame.columns)


def machine_of(manifest: RunManifest, rank: int | None) -> Machine | None:
    """The machine that a rank ran on: that of the run where ranks are not told apart or there is no other.

    None where the rank ran on a machine that run.json says nothing of.
    """
    first = Machine(manifest.identity.host, manifest.software, manifest.device, manifest.power)
    own = next((one for one in manifest.ranks if one.rank == rank), None)
    if not manifest.machines or own is None or own.host is None or own.host == first.host:
        return first
    return next((one for one in manifest.machines if one.host == own.host), None)


def gpus_of(manifest: RunManifest, rank: int | None, devices: Collection[int]) -> frozenset[int]:
    """Which of its machine's GPUs a rank used, by their numbers there.

    Args:
        manifest: of the job.
        rank: which one.
        devices: the numbers that its recording has, which a process that sees few GPUs may count otherwise; they hold
            where run.json does not name the GPU.
    """
    own = next((one for one in manifest.ranks if one.rank == rank), None)
    machine = machine_of(manifest, rank)
    if own is None or own.gpu_uuid is None or machine is None:
        return frozenset(devices)
    named = frozenset(gpu.index for gpu in machine.device if gpu.uuid == own.gpu_uuid and gpu.index is not None)
    return named or frozenset(devices)


_SOFTWARE = ("python", "torch", "cuda_runtime", "cudnn", "driver", "kernel", "os", "architecture")
MOST_SAID = 200
"""Characters of a rank's error."""
_OF_ONE_FILE = frozenset({"trace_id", "schemaVersion", "profile_memory", "with_stack", "with_flops", "with_modules"})
"""What a recording says of itself, which differs between files without meaning anything for a job."""


def environment(trace: Trace, manifest: RunManifest | None, rank: int | None = None) -> tuple[tuple[str, str], ...]:
    """What the recording and its run.json say of the machine of this rank, by name; what neither says is absent."""
    found = {
        name: value for name, value in trace.info.captured if name not in _OF_ONE_FILE and not name.endswith(OF_BOARD)
    }
    if trace.info.tool_version is not None:
        found["tool"] = trace.info.tool_version
    ended = next((one.error for one in manifest.ranks if one.rank == rank), None) if manifest is not None else None
    if ended:
        found["ended by"] = ended[:MOST_SAID]
    machine = None if manifest is None else machine_of(manifest, rank)
    if manifest is not None and machine is not None:
        for name in _SOFTWARE:
            if (value := getattr(machine.software, name)) is not None:
                found[name] = str(value)
        used = set(trace.device["device"].unique().drop_nulls().to_list())
        found |= _of_gpus(machine.power, gpus_of(manifest, rank, used))
        before = None if machine.power.before is None else machine.power.before.gpu_processes
        if before:  # the program had not begun: they are others
            found[OTHERS] = ", ".join(sorted({one.name or f"process {one.pid}" for one in before}))
    return tuple(sorted(found.items()))


def device_name(trace: Trace) -> str | None:
    """The name of the GPU that this rank worked on; of all devices of its host where there was no work."""
    used = set(trace.device["device"].unique().drop_nulls().to_list())
    names = dict.fromkeys(
        device.name for device in trace.info.devices if device.name is not None and (not used or device.id in used)
    )
    return ", ".join(names) or None


def _of_gpus(power: Power, used: frozenset[int]) -> dict[str, str]:
    """The state of this rank's GPU: its limits before the run, and what slowed it down at any time."""
    found: dict[str, str] = {}
    if power.before is not None:
        for gpu in _of_this_rank(power.before.gpus, used):
            limits = {"clock limit": gpu.max_clock_hz, "power limit": gpu.power_limit_mw}
            found |= {name: str(value) for name, value in limits.items() if value is not None}
    states = [state for state in (power.before, *power.during, power.after) if state is not None]
    known = [gpu.throttle_reasons for state in states for gpu in _of_this_rank(state.gpus, used)]
    reasons = [reason for one in known if one is not None for reason in one if reason in SLOWED]
    if any(one is not None for one in known):
        found["throttled by"] = ", ".join(sorted(set(reasons))) or "nothing"
    return found


def _of_this_rank(gpus: tuple[GpuState, ...], used: frozenset[int]) -> list[GpuState]:
    return [gpu for gpu in gpus if gpu.index in used]
