"""Several captures of one kind side by side: models, context lengths, batch sizes; one row per file."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.attribution.operator_tree import device_work
from tracetui.analysis.captures.measure import category_of
from tracetui.analysis.captures.names import axes_of, names_of, stem
from tracetui.analysis.captures.outcome import cut_roles, out_of_memory, without_capture
from tracetui.analysis.captures.roles import Phases, Share, phases
from tracetui.analysis.captures.step_ranges import outside_steps, per_step, step_ranges
from tracetui.analysis.gpu.steps import extent
from tracetui.analysis.overview import overview
from tracetui.analysis.ranges import ranges
from tracetui.analysis.selection import Scope, in_steps, select
from tracetui.parsers import open_path
from tracetui.parsers.errors import TraceError
from tracetui.parsers.names import kernel_names
from tracetui.parsers.runs.detect import comparable_files
from tracetui.parsers.runs.manifest import FILE as RUN_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tracetui.analysis.captures.names import Value
    from tracetui.analysis.selection import Selection
    from tracetui.parsers import Run, Trace


@dataclass(frozen=True, slots=True)
class TopKernel:
    """The kernel that takes the most time of its category, over all its launches in scope. Times in ns."""

    category: str
    name: str
    short_name: str
    calls: int
    ns: int


@dataclass(frozen=True, slots=True)
class Capture:
    """What one file holds. Times in ns; null where the file can't tell."""

    path: Path
    name: str
    """Its path below the folder that all files are in, without suffixes."""
    axes: dict[str, Value]
    kind: str
    rank: int | None = None
    problem: str | None = None
    """Why it could not be read; then nothing else is known."""
    out_of_memory: str | None = None
    """The reason, where its log or run.json says that it ended so."""
    cut: tuple[str, ...] = ()
    """Of such a capture, the roles of ranges that were open when it ended."""
    base: str | None = None
    steps: int | None = None
    """Number of steps in scope, as marked or as ranges with a name like ``train_step``; None without any."""
    average_step_ns: float | None = None
    wall_ns: int | None = None
    """From the first event to the last."""
    kernels: int | None = None
    """Kernel launches in scope."""
    gpu_ns: int | None = None
    """Kernels, copies, fills and whole graphs in scope, summed."""
    step_kernels: float | None = None
    """Of a capture with steps: how many kernels the average one launched."""
    step_gpu_ns: float | None = None
    """Of a capture with steps: kernels, copies, fills and graphs that the average one launched, summed."""
    busy_percent: float | None = None
    """Share of the step time (of the file without steps) in which a GPU has work; mean over the GPUs."""
    categories: tuple[Share, ...] = ()
    """`gpu_ns` by category, the most first."""
    top: tuple[TopKernel, ...] = ()
    """The largest kernel of each category, the largest of all first."""
    phases: Phases = field(default_factory=lambda: Phases((), (), None, None, None))
    own: pl.DataFrame = field(default_factory=pl.DataFrame)
    """The table of `ranges`: what each range's own thread launched."""


def captures(
    run: Run,
    scope: Scope | None = None,
    open_file: Callable[[Path], Trace] | None = None,
    done: Callable[[Capture], None] | None = None,
) -> list[Capture]:
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


def unread(path: Path, name: str, axes: dict[str, Value], kind: str, problem: str) -> Capture:
    """The row of a file that could not be read."""
    return Capture(path, name, axes, kind, problem=problem, out_of_memory=out_of_memory(path, kind))


def missing(log: Path, axes: dict[str, Value], kind: str, why: str) -> Capture:
    """The row of a capture of which there is only a log or run.json that says why."""
    name = stem(log.stem) if log.name != RUN_FILE else log.parent.name
    return Capture(log, name, axes, kind, problem=f"{log}: there is no capture beside it", out_of_memory=why)


def _open(path: Path) -> Trace:
    return open_path(path).main


def capture(trace: Trace, name: str, axes: dict[str, Value], scope: Scope | None = None) -> Capture:
    """The row of one trace."""
    sel = select(trace, scope)
    device = device_work(sel)
    kernels = device.filter(pl.col("kind").is_in(["kernel", "graph"]))
    work = device.select("name", "kind", "duration", category=category_of(device))
    shares = work.group_by("category").agg(pl.len(), pl.col("duration").sum())
    shares = shares.sort("duration", "category", descending=[True, False])
    timed = trace.has_timeline
    summary = overview(sel) if timed else None
    found = phases(sel)
    steps, average = None, None
    if summary is not None and summary.steps:
        steps, average = summary.steps, summary.average_step_ns
    elif found.steps and found.step_ns is not None:
        steps, average = found.steps, found.step_ns / found.steps
    in_step = _of_steps(sel, steps) if steps else (None, None)
    window = extent(trace) if timed else None
    why = out_of_memory(trace.source.path, trace.info.kind)
    return Capture(
        path=trace.source.path,
        name=name,
        axes=axes,
        kind=trace.info.kind,
        rank=trace.info.rank,
        out_of_memory=why,
        cut=tuple(cut_roles(trace)) if why else (),
        base=sel.describe(),
        steps=steps,
        average_step_ns=average,
        wall_ns=window[1] - window[0] if window else None,
        kernels=kernels.height if trace.device.height else None,
        gpu_ns=int(device["duration"].sum()) if device["duration"].count() else None,
        step_kernels=in_step[0],
        step_gpu_ns=in_step[1],
        busy_percent=None if summary is None else _mean(summary.gpu["busy_percent"]),
        categories=tuple(Share(*row) for row in shares.iter_rows()),
        top=_top(work),
        phases=found,
        own=ranges(sel) if timed else pl.DataFrame(),
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


def _top(work: pl.DataFrame) -> tuple[TopKernel, ...]:
    """The largest kernel of each category."""
    table = (
        work.filter(pl.col("kind").is_in(["kernel", "graph"]))
        .with_columns(pl.col("name").cast(pl.String))
        .group_by("category", "name")
        .agg(calls=pl.len(), ns=pl.col("duration").sum())
        .sort("ns", "name", descending=[True, False])
        .unique("category", keep="first", maintain_order=True)
    )
    return tuple(
        TopKernel(category, name, kernel_names.short_name(name), calls, ns)
        for category, name, calls, ns in table.iter_rows()
    )


def ordered(found: Sequence[Capture]) -> list[Capture]:
    """Sorts the rows by their axes; a text is placed by the least GPU time among the captures that have it."""
    least: dict[tuple[str, str], int] = {}
    for row in found:
        for axis, value in row.axes.items():
            if isinstance(value, str) and row.gpu_ns is not None:
                key = (axis, value)
                least[key] = min(least.get(key, row.gpu_ns), row.gpu_ns)

    def place(row: Capture) -> list[tuple[float, str]]:
        return [
            (float(least.get((axis, value), 1 << 62)), value) if isinstance(value, str) else (float(value), "")
            for axis, value in row.axes.items()
        ]

    return sorted(found, key=lambda row: (place(row), row.name))
