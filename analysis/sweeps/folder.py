"""A sweep as a folder: what `tracetui profile --sweep` wrote, other launched runs, or captures whose names vary."""

from __future__ import annotations

import json
import os
import statistics
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tracetui.analysis.attribution.operator_tree import device_work
from tracetui.analysis.captures.captures import capture, missing, unread
from tracetui.analysis.captures.measure import kind_times
from tracetui.analysis.captures.names import axes_of, names_of
from tracetui.analysis.captures.outcome import without_capture
from tracetui.analysis.gpu.steps import step_slots
from tracetui.analysis.kernels import kernel_rows
from tracetui.analysis.overview import overview
from tracetui.analysis.selection import Scope, select
from tracetui.analysis.sweeps.model import CAPTURE, Sample, Sweep, axis_name, is_repeat, sweep_of
from tracetui.parsers import open_path
from tracetui.parsers.errors import TraceError
from tracetui.parsers.runs import manifest as run_manifest
from tracetui.parsers.tool_registry import BY_KIND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    import polars as pl

    from tracetui.analysis.captures.names import Value
    from tracetui.analysis.selection import Selection
    from tracetui.parsers import Run, Trace
    from tracetui.parsers.runs.manifest import RunManifest

INDEX, FAMILY = "sweep.json", "tracetui.sweep-index/"
MAX_INDEX_BYTES = 16 << 20
MAX_DEPTH = 3
CLEAN, PROFILED = "the median step without a profiler", "the median step under the profiler"
NOT_AXES = frozenset({"device", "seed", "data"})
"""Options that do not distinguish points."""


def read_folder(
    path: Path, open_run: Callable[[Path], Run] | None = None, done: Callable[[int, int], None] | None = None
) -> Sweep:
    """The sweep in a folder; its runs are opened one after the other and released again.

    Raises:
        TraceError: there are fewer than two runs in it.
    """
    opened = open_run or open_path
    notes: list[str] = []
    listed = _index(path, notes)
    source = "index"
    if listed is None:
        source, listed = "runs", _runs(path)
    if len(listed) < 2:
        return _captures(path, opened, done)
    found = []
    for number, (axes, folder, status) in enumerate(listed, 1):
        found.append(_launched(axes, folder, status, path, opened))
        if done is not None:
            done(number, len(listed))
    clean = [pair for pair in found if pair[0].step_ns is not None or pair[0].counted]
    base = CLEAN if clean and all(steps is not None for _, steps in clean) else PROFILED
    samples = [replace(sample, step_ns=steps) if base == CLEAN else sample for sample, steps in found]
    notes += [f"{sample.where}: {sample.problem}" for sample in samples if sample.problem]
    return sweep_of(path, source, samples, base, notes, list(listed[0][0]))


def _index(path: Path, notes: list[str]) -> list[tuple[dict[str, Value], Path, str]] | None:
    """Axes, folder and outcome of each run, as sweep.json has them; None without one."""
    file = path / INDEX
    try:
        if file.stat().st_size > MAX_INDEX_BYTES:
            return None
        content = json.loads(file.read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        notes.append(f"{INDEX}: {error}")
        return None
    points = content.get("points") if isinstance(content, dict) else None
    if not str(content.get("schema", "") if isinstance(content, dict) else "").startswith(FAMILY):
        notes.append(f"{INDEX}: of another kind")
        return None
    found = []
    for entry in points if isinstance(points, list) else ():
        folder, values = (entry.get(key) for key in ("folder", "values")) if isinstance(entry, dict) else (None, None)
        if not isinstance(folder, str) or not isinstance(values, dict) or _leaves(path, folder):
            notes.append(f"{INDEX}: an entry does not name a run of this folder")
            continue
        axes = {axis_name(str(name)): _plain(value) for name, value in values.items() if not is_repeat(str(name))}
        found.append((axes, path / folder, str(entry.get("status"))))
    return found


def _leaves(path: Path, folder: str) -> bool:
    """Whether an entry points out of the sweep's folder."""
    root = os.path.realpath(path)
    return os.path.commonpath([root, os.path.realpath(path / folder)]) != root


def _plain(value: Any) -> Value:
    return value if isinstance(value, str | int | float) and not isinstance(value, bool) else str(value)


def _runs(path: Path) -> list[tuple[dict[str, Value], Path, str]]:
    """Launched runs below a folder, by the options in which their run.json differ."""
    folders = [
        file.parent for depth in range(1, MAX_DEPTH + 1) for file in sorted(path.glob("*/" * depth + "run.json"))
    ]
    known = [(folder, manifest) for folder in folders if (manifest := run_manifest.load(folder)) is not None]
    options = [_options(manifest) for _, manifest in known]
    names = list(dict.fromkeys(name for row in options for name in row))
    varied = [name for name in names if len({str(row.get(name)) for row in options}) > 1]
    return [
        ({name: _plain(row[name]) for name in varied if row.get(name) is not None}, folder, manifest.status or "")
        for (folder, manifest), row in zip(known, options, strict=True)
    ]


def _options(manifest: RunManifest) -> dict[str, Any]:
    workload = manifest.workload
    found = {name: value for name, value in workload.options.items() if name not in NOT_AXES}
    return {"model": workload.model, **found, "dtype": workload.dtype, "batch": workload.requested_batch}


def _launched(
    axes: dict[str, Value], folder: Path, status: str, path: Path, opened: Callable[[Path], Run]
) -> tuple[Sample, float | None]:
    """One launched run, with its median step without a profiler."""
    where = folder.relative_to(path).as_posix() if folder.is_relative_to(path) else str(folder)
    manifest = run_manifest.load(folder) if folder.is_dir() else None
    try:
        run = opened(folder)
    except TraceError as problem:
        why = manifest.outcome.explanation if manifest is not None else None
        kind = (manifest.outcome.explanation or "").partition(":")[0] if manifest is not None else ""
        row = unread(folder, where, axes, kind, why or str(problem))
        return Sample(axes, where, problem=why or str(problem) or status, capture=row), None
    sample = replace(sample_of(run.main, axes, where), path=folder, counted=_counted(run.of_kind("ncu")))
    sample = replace(sample, stopped=next(_stops(run), None))
    if manifest is None:
        return sample, None
    workload = manifest.workload
    asked = axes.get("batch", workload.requested_batch)
    sample = replace(
        sample,
        numbers={
            **sample.numbers,
            "flops": workload.flops_per_step,
            "batch": float(asked) if isinstance(asked, int | float) else workload.batch,
            "seen": workload.batch,
        },
    )
    clean = manifest.measurement.clean_step_ns
    return sample, float(statistics.median(clean)) if clean else None


def _captures(path: Path, opened: Callable[[Path], Run], done: Callable[[int, int], None] | None) -> Sweep:
    """Files of one kind whose names differ in numbers or words."""
    from tracetui.parsers.runs.detect import comparable_files

    run = opened(path)
    if run.main.info.kind == "ncu":
        return _reports(path, run, opened, done)
    files = comparable_files(run)
    if len(files) < 2:
        raise TraceError(path, "no sweep in this folder: it holds one run", "give a folder with several")
    axes = _axes(files)
    if not run.others and all(trace.info.rank is not None for trace in run.of_kind(run.main.info.kind)):
        raise TraceError(path, "no sweep in this folder: its files are the ranks of one run", "give several runs")
    at_hand = {trace.source.path: trace for trace in run.traces}
    samples = []
    for number, (file, where, row) in enumerate(zip(files, names_of(files), axes, strict=True), 1):
        try:
            trace = at_hand[file] if file in at_hand else opened(file).main
            samples.append(replace(sample_of(trace, row, where), path=file))
        except TraceError as problem:
            failed = unread(file, where, row, run.main.info.kind, str(problem))
            samples.append(Sample(row, where, problem=str(problem), capture=failed))
        if done is not None:
            done(number, len(files))
    for log, values, why in without_capture(files, run.main.info.kind):
        named = {axis_name(name): value for name, value in values.items() if not is_repeat(name)}
        lost = missing(log, named, run.main.info.kind, why)
        samples.append(Sample(named, log.name, problem="out of memory", capture=lost))
    ended = [sample.capture is not None and sample.capture.out_of_memory for sample in samples]  # said with the reason
    notes = [
        f"{sample.where}: {sample.problem}"
        for sample, said in zip(samples, ended, strict=True)
        if sample.problem and not said
    ]
    return sweep_of(path, "captures", samples, PROFILED, notes)


def _axes(files: Sequence[Path]) -> list[dict[str, Value]]:
    """What the names of the files say of each: its values by axis."""
    axes = [
        {axis_name(name): value for name, value in row.items() if not is_repeat(name)}
        for row in axes_of(names_of(files))
    ]
    if any(axes):
        return axes
    # the names follow no pattern: no two of them are repeats of one point
    return [{CAPTURE: name} for name in names_of(files)]


def _reports(path: Path, run: Run, opened: Callable[[Path], Run], done: Callable[[int, int], None] | None) -> Sweep:
    """Reports of Nsight Compute; both pages of one report are one."""
    from tracetui.analysis.counters.compared import reports_of
    from tracetui.parsers.runs.detect import comparable_files

    whole = len(comparable_files(run))
    read = len(run.traces)

    def open_file(file: Path) -> Trace:
        nonlocal read
        read += 1
        if done is not None:
            done(min(read, whole), whole)
        return opened(file).main

    traces, problems = reports_of(run, open_file)
    if len(traces) < 2:
        raise TraceError(path, "no sweep in this folder: it holds one report", "give a folder with several")
    files = [trace.source.path for trace in traces]
    samples = [
        replace(sample_of(trace, axes, where), path=file)
        for trace, file, where, axes in zip(traces, files, names_of(files), _axes(files), strict=True)
    ]
    return sweep_of(path, "captures", samples, PROFILED, problems)


def sample_of(trace: Trace, axes: dict[str, Value], where: str) -> Sample:
    """The numbers of one recording, per step; without steps, those of its ranges with a name like ``train_step``."""
    batch = axes.get("batch")
    asked = float(batch) if isinstance(batch, int | float) else None
    if trace.info.kind == "ncu":  # single launches, of no step
        return Sample(axes, where, numbers={"batch": asked}, counted=_counted([trace]))
    steps = trace.steps
    index = steps["index"]
    scope = Scope(steps=(index.min(), index.max())) if steps.height else Scope()  # type: ignore[arg-type]
    sel = select(trace, scope)
    timed = trace.has_timeline
    slots = step_slots(sel) if timed and steps.height else None
    count, step = sel.step_count, None
    if slots is not None and slots.start.size:
        step = float(statistics.median((slots.end - slots.start).tolist()))
    elif timed and (ranged := _ranged(trace)) is not None:
        count, step = ranged
    return Sample(
        axes,
        where,
        step_ns=step,
        numbers={"batch": asked, **{name: measure(sel, count) for name, measure in MEASURES.items()}},
        kinds={kind: (calls, ns, top) for kind, calls, ns, top in kind_times(sel).iter_rows()} or None,
        capture=capture(trace, where, axes) if timed and BY_KIND[trace.info.kind].compared_unasked else None,
        problem=None if step is not None else "no steps in it: call profiler.step(), or put an NVTX range around each",
    )


def _kernels(sel: Selection, steps: int) -> float | None:
    return kernel_rows(sel).height / steps if device_work(sel).height else None


def _gpu_ns(sel: Selection, steps: int) -> float | None:
    spent = device_work(sel)["duration"]
    return float(spent.sum()) / steps if spent.count() else None


def _busy_percent(sel: Selection, steps: int) -> float | None:
    if not sel.trace.has_timeline:
        return None
    busy = overview(sel).gpu["busy_percent"]
    return float(busy.sum()) / busy.count() if busy.count() else None


MEASURES: dict[str, Callable[[Selection, int], float | None]] = {
    "kernels": _kernels,
    "gpu_ns": _gpu_ns,
    "busy_percent": _busy_percent,
}
"""What a recording's steps, so many, say of a point: by column of `SWEEP_POINTS`, each per step."""


def _counted(traces: Iterable[Trace]) -> tuple[pl.DataFrame, ...]:
    """The launches of Nsight Compute's reports."""
    from tracetui.analysis.roofline.counters import launch_table

    return tuple(launch_table(trace) for trace in traces)


def _stops(run: Run) -> Iterator[int]:
    """The limits of launches at which Nsight Compute stopped."""
    from tracetui.analysis.counters.metrics import stopped_at

    for trace in run.of_kind("ncu"):
        if (limit := stopped_at(trace, run.manifest)) is not None:
            yield limit


def _ranged(trace: Trace) -> tuple[int, float] | None:
    """How many ranges are named like steps, and their mean time."""
    from tracetui.analysis.captures.roles import phases

    found = phases(select(trace))
    if not found.steps or found.step_ns is None:
        return None
    return found.steps, found.step_ns / found.steps
