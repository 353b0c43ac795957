"""Several captures of one kind side by side: models, context lengths, batch sizes; one row per file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import polars as pl
from msgspec.structs import replace

from tracetui.analysis.attribution.operator_tree import device_work
from tracetui.analysis.base.json_values import Json, known, us
from tracetui.analysis.captures.measure import category_of
from tracetui.analysis.captures.model import (
    CaptureRow,
    CategoryShare,
    PhaseInSteps,
    PhaseRow,
    StepTotals,
    TopKernel,
)
from tracetui.analysis.captures.names import Value, axes_of, names_of, stem
from tracetui.analysis.captures.roles import Phase, Phases, Share, phases
from tracetui.analysis.captures.step_ranges import outside_steps, per_step, step_ranges
from tracetui.analysis.gpu.steps import extent
from tracetui.analysis.overview import overview
from tracetui.analysis.ranges import ranges
from tracetui.analysis.selection import Scope, Selection, in_steps, select
from tracetui.parsers import Run, Trace, open_path
from tracetui.parsers.errors import TraceError
from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.range_roles import role_of
from tracetui.parsers.runs import manifest as run_manifest
from tracetui.parsers.runs.detect import comparable_files
from tracetui.parsers.runs.side_files import opened
from tracetui.parsers.tool_registry import KINDS

LOGS = (".log", ".out", ".err", ".txt", ".stderr", ".stdout")
"""Endings of files that hold what a program printed."""
FOLDERS = ("", "logs", "log")
"""Where they lie, seen from the capture."""
RECORDED_BY = {**{kind: kind for kind in KINDS}, "torch": "chrome", "memory": "memory_snapshot"}
"""The kind of recording by the tool that `tracetui profile` names in run.json."""
TAIL_BYTES, LAST_LINES = 1 << 16, 60
"""The failure must stand in the last lines: a program that caught it and went on printed more."""
MOST_LOGS = 200
_OUT_OF_MEMORY = re.compile(
    r"OutOfMemoryError|CUDA out of memory|HIP out of memory|CUDA error: out of memory|cudaErrorMemoryAllocation"
    r"|CUDA_ERROR_OUT_OF_MEMORY|RESOURCE_EXHAUSTED: Out of memory|[Oo]ut of memory: Killed process|oom-kill"
    r"|GPU's memory was too small|ran out of memory"
)
_LONGEST = 160


def captures(
    run: Run,
    scope: Scope | None = None,
    open_file: Callable[[Path], Trace] | None = None,
    done: Callable[[CaptureRow], None] | None = None,
) -> list[CaptureRow]:
    """Returns a row per file of the folder that is of the main trace's kind; none if there is only one.

    Files are opened one after the other and released again. Rows are sorted by their axes: texts by the least GPU time
    of their captures, numbers by size.

    Args:
        run: what `open_path` returned for the folder.
        scope: the steps or devices the numbers are about.
        open_file: opens a file that is not open yet; a TraceError makes it a row with a problem.
        done: called with each row as soon as it is ready.
    """
    at_hand = {trace.source.path: trace for trace in run.of_kind(run.main.info.kind)}
    files = comparable_files(run)
    if run.main.info.kind == "ncu":
        files = _reports(files, at_hand, open_file or _open)
    if len(files) < 2:
        return []
    names = names_of(files)
    axes = axes_of(names)
    found = []
    for path, name, where in zip(files, names, axes, strict=True):
        try:
            trace = at_hand.pop(path, None) or (open_file or _open)(path)
            row = capture(trace, name, where, scope)
        except TraceError as problem:
            row = unread(path, name, where, run.main.info.kind, str(problem))
        found.append(row)
        if done is not None:
            done(row)
    found += [
        missing(log, where, run.main.info.kind, why) for log, where, why in without_capture(files, run.main.info.kind)
    ]
    return ordered(found)


def _reports(files: list[Path], at_hand: dict[Path, Trace], open_file: Callable[[Path], Trace]) -> list[Path]:
    """The files without the second page of a report whose first is among them; what was opened for it is at hand."""
    from tracetui.parsers.ncu.pages import join_pages

    for path in files:
        if path not in at_hand:
            with suppress(TraceError):
                at_hand[path] = open_file(path)
    kept = {trace.source.path for trace in join_pages(list(at_hand.values()))}
    return [path for path in files if path in kept or path not in at_hand]


_UNKNOWN: Json = dict.fromkeys(CaptureRow.__struct_fields__) | {
    "cut": [], "categories": [], "top_by_category": [], "phases": {}, "ranges": [],
}  # fmt: skip
"""What is known of a file that could not be read."""


def unread(path: Path, name: str, axes: dict[str, Value], kind: str, problem: str) -> CaptureRow:
    """The row of a file that could not be read."""
    row = {"path": str(path), "name": name, "axes": dict(axes), "kind": kind, "problem": problem}
    return CaptureRow(**_UNKNOWN | row | {"out_of_memory": out_of_memory(path, kind)})


def missing(log: Path, axes: dict[str, Value], kind: str, why: str) -> CaptureRow:
    """The row of a capture of which there is only a log or run.json that says why."""
    name = stem(log.stem) if log.name != run_manifest.FILE else log.parent.name
    row = unread(log, name, axes, kind, f"{log}: there is no capture beside it")
    return replace(row, out_of_memory=why)


def _open(path: Path) -> Trace:
    return open_path(path).main


def capture(trace: Trace, name: str, axes: dict[str, Value], scope: Scope | None = None) -> CaptureRow:
    """The row of one trace."""
    sel = select(trace, scope)
    device = device_work(sel)
    kernels = device.filter(pl.col("kind").is_in(["kernel", "graph"]))
    work = device.select("name", "kind", "duration", category=category_of(device))
    shares = work.group_by("category").agg(pl.len(), pl.col("duration").sum())
    shares = shares.sort("duration", "category", descending=[True, False])
    timed = trace.has_timeline
    summary = overview(sel) if timed else None
    whole = phases(sel)
    steps, average = None, None
    if summary is not None and summary.steps:
        steps, average = summary.steps, summary.average_step_ns
    elif whole.steps and whole.step_ns is not None:
        steps, average = whole.steps, whole.step_ns / whole.steps
    in_step = _of_steps(sel, steps) if steps else (None, None)
    window = extent(trace) if timed else None
    why = out_of_memory(trace.source.path, trace.info.kind)
    gpu_ns = int(device["duration"].sum()) if device["duration"].count() else None
    top = _top(work, gpu_ns)
    own: dict[tuple[str, str | None], Json] = {}
    if timed:
        own = {(each["name"], each.get("domain") or ""): each for each in ranges(sel).iter_rows(named=True)}
    return CaptureRow(
        name=name,
        path=str(trace.source.path),
        kind=trace.info.kind,
        rank=trace.info.rank,
        axes=dict(axes),
        problem=None,
        out_of_memory=why,
        cut=cut_roles(trace) if why else [],
        base=sel.describe(),
        steps=steps,
        average_step_us=us(average),
        wall_us=us(window[1] - window[0]) if window else None,
        kernels=kernels.height if trace.device.height else None,
        gpu_us=us(gpu_ns),
        kernels_per_step=known(in_step[0]),
        gpu_us_per_step=us(in_step[1]),
        busy_percent=None if summary is None else known(_mean(summary.gpu["busy_percent"])),
        categories=_shares((Share(*row) for row in shares.iter_rows()), gpu_ns),
        top_kernel=top[0] if top else None,
        top_by_category=top,
        phases={phase.name: _phase(phase, whole, {}) for phase in whole.by_role},
        in_steps=StepTotals(steps=whole.steps, host_us=us(whole.step_ns), launched_us=us(whole.step_launched_ns))
        if whole.steps
        else None,
        ranges=[_phase(phase, whole, own.get((phase.name, phase.domain), {})) for phase in whole.by_name],
    )


def _of_steps(sel: Selection, steps: int) -> tuple[float, float]:
    """Kernels and GPU time that the average step launched."""
    if sel.trace.steps.height:
        work = device_work(in_steps(sel))
        kernels = work.filter(pl.col("kind").is_in(["kernel", "graph"])).height
        return kernels / steps, int(work["duration"].sum()) / steps
    marked = step_ranges(sel)
    outside, whole = outside_steps(sel, marked)
    return sum(per_step(sel, marked)) / steps, (whole - outside) / steps


def _mean(values: pl.Series) -> float | None:
    return float(values.sum()) / values.count() if values.count() else None


def _top(work: pl.DataFrame, whole: int | None) -> list[TopKernel]:
    """The largest kernel of each category, over all its launches, the largest of all first."""
    table = (
        work.filter(pl.col("kind").is_in(["kernel", "graph"]))
        .with_columns(pl.col("name").cast(pl.String))
        .group_by("category", "name")
        .agg(calls=pl.len(), ns=pl.col("duration").sum())
        .sort("ns", "name", descending=[True, False])
        .unique("category", keep="first", maintain_order=True)
    )
    return [
        TopKernel(
            category=category,
            name=name,
            short_name=kernel_names.short_name(name),
            calls=calls,
            total_us=us(ns),
            mean_us=us(ns / calls),
            percent=_percent(ns, whole),
        )
        for category, name, calls, ns in table.iter_rows()
    ]


def _phase(phase: Phase, whole: Phases, own: Json) -> PhaseRow:
    """Sums and means of a phase; what can't be known is None; `own` is what its ranges' own thread launched."""
    many = phase.instances
    in_steps = None
    if whole.steps and phase.step_host_ns is not None:
        in_steps = PhaseInSteps(
            instances=phase.step_instances,
            host_us=us(phase.step_host_ns),
            host_percent=_percent(phase.step_host_ns, whole.step_ns),
            launched_us=us(phase.step_launched_ns),
            launched_percent=_percent(phase.step_launched_ns, whole.step_launched_ns),
        )
    return PhaseRow(
        name=phase.name,
        domain=phase.domain,
        role=phase.role,
        names=list(phase.names),
        instances=many,
        host_total_us=us(phase.host_ns),
        host_mean_us=_each(phase.host_ns, many),
        launched_us=us(phase.launched_ns),
        launched_mean_us=_each(phase.launched_ns, many),
        launched_ops=phase.launched_ops,
        launched_span_us=us(phase.span_ns),
        launched_span_mean_us=_each(phase.span_ns, many),
        gpu_projected_us=us(own.get("gpu_projected_ns")),
        device_us=us(own.get("device_ns")),
        gpu_ops=own.get("gpu_ops"),
        by_category=_shares(phase.shares, phase.launched_ns),
        in_steps=in_steps,
    )


def _shares(shares: Iterable[Share], whole: int | None) -> list[CategoryShare]:
    return [
        CategoryShare(category=one.category, calls=one.calls, us=one.ns / 1000, percent=_percent(one.ns, whole))
        for one in shares
    ]


def _percent(part: int | None, whole: int | None) -> float | None:
    return 100 * part / whole if part is not None and whole else None


def _each(ns: int | None, many: int | None) -> float | None:
    return us(ns / many) if ns is not None and many else None


def ordered(found: Sequence[CaptureRow]) -> list[CaptureRow]:
    """Sorts the rows by their axes; a text is placed by the least GPU time among the captures that have it."""
    least: dict[tuple[str, str], float] = {}
    for row in found:
        for axis, value in row.axes.items():
            if isinstance(value, str) and row.gpu_us is not None:
                key = (axis, value)
                least[key] = min(least.get(key, row.gpu_us), row.gpu_us)

    def place(row: CaptureRow) -> list[tuple[float, str]]:
        return [
            (float(least.get((axis, value), 1 << 62)), value) if isinstance(value, str) else (float(value), "")
            for axis, value in row.axes.items()
        ]

    return sorted(found, key=lambda row: (place(row), row.name))


def out_of_memory(capture: Path, kind: str) -> str | None:
    """Why a capture ended, if its run.json or log says that memory ran out; None else, whatever the file lacks.

    Args:
        capture: the file, or a run's folder.
        kind: the tool that recorded it: another tool's phase of the run may have ended so.
    """
    folder = capture if capture.is_dir() else capture.parent
    manifest = run_manifest.load(folder)
    if manifest is not None:
        tool, _, said = (manifest.outcome.explanation or "").partition(": ")
        if tool not in RECORDED_BY:
            return _line(f"{tool}: {said}") or None
        return (_line(said) or None) if kind in (tool, RECORDED_BY[tool]) else None
    for log in _logs_of(capture):
        if said := _said_in(log):
            return f"{said} ({log.name})"
    return None


def without_capture(captures: Sequence[Path], kind: str) -> Iterator[tuple[Path, dict[str, Value], str]]:
    """Logs and run.json of captures that are not there, and say that memory ran out.

    They count only if their name, or their folder's, has the pattern of the captures' names.

    Yields:
        The file, the values in its name, the reason.
    """
    if not captures:
        return
    yield from _runs_without(captures, kind)
    there = {stem(path.name) for path in captures}
    parents = sorted({path.parent for path in captures})
    logs = [log for parent in parents for log in _logs_in(parent) if stem(log.stem) not in there]
    for log in logs[:MOST_LOGS]:
        values = _values([stem(path.name) for path in captures], stem(log.stem))
        if values and (said := _said_in(log)):
            yield log, values, f"{said} ({log.name})"


def _runs_without(captures: Sequence[Path], kind: str) -> Iterator[tuple[Path, dict[str, Value], str]]:
    """Folders beside those of the captures with a run.json that says so."""
    folders = {path.parent for path in captures}
    if len(folders) < 2:  # what lies beside the one folder is another matter
        return
    top = Path(os.path.commonpath([folder.absolute() for folder in folders]))
    above = {folder.parent for folder in folders if folder.absolute().parent.is_relative_to(top)}
    runs = {file for folder in above for file in folder.glob(f"*/{run_manifest.FILE}")}
    names = [f"{path.parent.name}/{stem(path.name)}" for path in captures]
    for file in sorted(runs)[:MOST_LOGS]:
        values = _values(names, f"{file.parent.name}/{stem(captures[0].name)}")
        if file.parent not in folders and values and (said := out_of_memory(file.parent, kind)):
            yield file, values, said


def _values(names: Sequence[str], name: str) -> dict[str, Value]:
    """The values in a name, if it has the pattern of the others; else empty."""
    axes, together = axes_of(names), axes_of([*names, name])
    alike = together[-1].keys() == axes[0].keys() and together[:-1] == axes
    return together[-1] if alike else {}


def cut_roles(trace: Trace) -> list[str]:
    """Roles of the ranges that were open when memory ran out: after their ends nothing is launched, no range begins."""
    ranges = trace.host.filter(pl.col("kind") == "annotation").select(
        pl.col("name").cast(pl.String), "start", end=pl.col("start") + pl.col("duration")
    )
    launched = trace.host["start"].gather(trace.device["launch"].drop_nulls())
    begun = [start for start in (ranges["start"].max(), launched.max()) if isinstance(start, int)]
    names = ranges.filter(pl.col("end") >= max(begun, default=0))["name"].unique().to_list()
    return sorted({role for name in names if name and (role := role_of(name)) is not None})


def _logs_of(capture: Path) -> Iterator[Path]:
    own = stem(capture.name)
    for place in FOLDERS:
        for ending in LOGS:
            log = capture.parent / place / f"{own}{ending}"
            if log != capture and log.is_file():
                yield log


def _logs_in(folder: Path) -> list[Path]:
    places = [folder / place for place in FOLDERS if (folder / place).is_dir()]
    return sorted(log for place in places for log in place.iterdir() if log.suffix in LOGS and log.is_file())


def _said_in(log: Path) -> str:
    """The line of a log's end that says so; empty without one."""
    try:
        with opened(log) as (file, size):
            file.seek(max(0, size - TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    said = [line for line in lines if line.strip()][-LAST_LINES:]
    return next((found for line in reversed(said) if (found := _line(line))), "")


def _line(text: str) -> str:
    """The text from where it says so; without the traceback's name of the exception."""
    found = _OUT_OF_MEMORY.search(text)
    if found is None:
        return ""
    said = " ".join(text.split())
    said = re.sub(r"^.*?OutOfMemoryError:\s*", "", said)
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST].rsplit(' ', 1)[0]} …"
