"""Reads a sweep: a table, or a folder of launched runs or of captures whose names vary."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tracetui.analysis.attribution.operator_tree import device_work
from tracetui.analysis.captures.captures import capture, missing, unread, without_capture
from tracetui.analysis.captures.measure import kind_times
from tracetui.analysis.captures.names import Value, axes_of, names_of
from tracetui.analysis.captures.roles import phases
from tracetui.analysis.counters.compared import reports_of
from tracetui.analysis.counters.metrics import stopped_at
from tracetui.analysis.gpu.step_kinds import typical_ns
from tracetui.analysis.gpu.steps import step_slots
from tracetui.analysis.kernels import kernel_rows
from tracetui.analysis.overview import overview
from tracetui.analysis.roofline.counters import launch_table
from tracetui.analysis.selection import Scope, Selection, select
from tracetui.analysis.sweeps.model import CAPTURE, Sample, Sweep, axis_name, is_repeat, known_axis, letters, sweep_of
from tracetui.parsers import Run, Trace, open_path
from tracetui.parsers.bytes_source import read_all
from tracetui.parsers.errors import TraceError
from tracetui.parsers.ncu.sniff import looks_like_ncu
from tracetui.parsers.runs import manifest as run_manifest
from tracetui.parsers.runs.detect import PEEK_BYTES, comparable_files
from tracetui.parsers.runs.manifest import RunManifest
from tracetui.parsers.runs.side_files import read_text
from tracetui.parsers.tool_registry import BY_KIND

MAX_BYTES = 32 << 20
MAX_SHOWN = 5
MEASURED = ("time", "throughput", "flops", "kernels", "gpu")
"""Roles of columns of numbers; a table has one of each."""
_UNITS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "sec": 1e9, "second": 1e9, "seconds": 1e9,
          "millisecond": 1e6, "milliseconds": 1e6, "microseconds": 1e3}  # fmt: skip
_TIMES = (
    re.compile(r"^(mean|median|avg|average)?(lat|latency)"),
    re.compile(r"lat(ency)?"),
    re.compile(r"step|iter|batch|forward|inference|e2e"),
    re.compile(r"time|duration|elapsed|wall|runtime"),
)
"""Names of a time per step, the likeliest first: a table may have several."""
_RATE_WORDS = frozenset(("throughput", "fps", "ips", "qps"))
_THINGS = r"(samples?|imgs?|images?|tokens?|its?|seqs?|frames?|sequences?|iterations?)"
_RATE = re.compile(rf"throughput|{_THINGS}(ps|pers|persec|persecond|sec)$")
_RATE_SPLIT = re.compile(rf"(^|[^a-z]){_THINGS}[^a-z]+(s|sec)([^a-z]|$)")
_PER_SECOND = re.compile(r"/\s*(s|sec|second)\b|per[_ ]?(s|sec|second)\b", re.IGNORECASE)
_PER_SAMPLE = re.compile(r"(/|per[_ ]?)\s*(img|image|sample|item|sequence|frame)s?\b", re.IGNORECASE)
_WORK = re.compile(r"^(g|t|m)?(flops?|macs?|gf|tf)\w*$")
_NEITHER = frozenset((
    "mem", "memory", "vram", "power", "watt", "watts", "temp", "temperature", "acc", "accuracy", "top1", "top5", "loss",
    "speedup", "util", "utilization", "std", "stdev", "stddev", "deviation", "var", "cv", "min", "max", "p90", "p95",
    "p99", "p999", "param", "params", "parameters", "energy", "occupancy", "percent", "pct", "error", "err", "load",
    "compile", "startup", "timestamp", "date", "datetime", "steps", "iters", "warmup", "total", "n", "count", "peak",
))  # fmt: skip
"""Words in the names of columns that are neither a time, nor a rate, nor an axis."""
_NUMBER = re.compile(r"\s*([-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([a-zA-Z%µ/]*)\s*")
_NOTHING = frozenset(("", "-", "na", "n/a", "nan", "none", "null", "oom", "fail", "failed", "error", "inf"))


@dataclass(frozen=True, slots=True)
class _Column:
    """What a column of the table holds."""

    index: int
    role: str
    """``axis``, ``repeat``, ``time``, ``throughput``, ``flops``, ``kernels``, ``gpu`` or ``other``."""
    name: str
    scale: float = 1.0
    """Factor that converts to ns, or to FLOPs."""
    rank: int = 0
    """If there are several times, the one with the lowest rank is the step's."""
    per_sample: bool = False
    """Whether it is a time that was divided by the batch."""


def read_table(path: Path) -> Sweep:
    """The sweep in a CSV file.

    Columns are axes (batch, image size, context, keep, dtype, … by any usual spelling, and any other column whose
    values repeat), a time per step (unit from the header: ``latency_ms``; ms where it has none), a throughput, FLOPs,
    kernels. Rows with the same values on all axes are repeats of one point. A step is the latency, else batch /
    throughput.

    Raises:
        TraceError: it can't be read, or has no axis or no time.
    """
    try:
        text = read_text(path.resolve(), MAX_BYTES)
    except OSError as error:
        raise TraceError(path, (error.strerror or str(error)).lower()) from error
    rows = _rows(text)
    columns = _columns(rows[0], [cells for _, cells in rows[1:]]) if rows else []
    measured = [column for column in columns if column.role in ("time", "throughput")]
    if not measured or not any(column.role == "axis" for column in columns):
        raise TraceError(
            path,
            "no table of a sweep",
            "its first line must name an axis and a time or throughput: batch_size,throughput_img_s,latency_ms",
        )
    notes: list[str] = []
    if unused := [column.name for column in columns if column.role == "other"]:
        notes.append(f"columns that say nothing about time or work: {', '.join(unused)}")
    samples = [_sample(line, cells, columns, notes) for line, cells in rows[1:]]
    if len(notes) > MAX_SHOWN:
        notes[MAX_SHOWN:] = [f"and {len(notes) - MAX_SHOWN} more"]
    return sweep_of(path, "table", samples, "what the table says", notes)


def _rows(text: str) -> list[tuple[int, list[str]]]:
    """Line number and cells of each line that is not a comment; `;` and tab are separators too."""
    lines = [(n, line) for n, line in enumerate(text.replace("\0", "").splitlines(), 1) if line.strip()]
    lines = [(n, line) for n, line in lines if not line.lstrip().startswith("#")]
    if not lines:
        return []
    head = lines[0][1]
    separator = max(",;\t|", key=head.count)
    found = []
    for n, line in lines:
        try:
            cells = next(csv.reader(io.StringIO(line), delimiter=separator, skipinitialspace=True))
        except (csv.Error, StopIteration):
            continue
        found.append((n, [cell.strip() for cell in cells]))
    return found


def _columns(head: tuple[int, list[str]], rows: Sequence[list[str]]) -> list[_Column]:
    """What each column is: by its name, else by its values."""
    found: list[_Column] = []
    taken: set[str] = set()
    named = [_by_name(index, title) for index, title in enumerate(head[1])]
    times = [column for column in named if column.role == "time"]
    step = min(times, key=lambda column: (column.rank, column.index)) if times else None
    for index, title in enumerate(head[1]):
        column = named[index]
        if (column.role == "time" and column is not step) or (column.role in MEASURED and column.role in taken):
            column = _Column(index, "other", title)
        if column.role == "unknown":
            values = [row[index] for row in rows if index < len(row)]
            # an axis repeats its values, or is a text
            repeats = 1 < len(set(values)) < len(values)
            text = len(set(values)) > 1 and not any(_NUMBER.fullmatch(value) for value in values)
            column = _Column(index, "axis" if repeats or text else "other", title)
        taken.add(column.role)
        found.append(column)
    return found


def _by_name(index: int, title: str) -> _Column:
    name = letters(title)
    if (axis := known_axis(re.sub(r"[\[(].*", "", title))) is not None:
        return _Column(index, "axis", axis)
    if is_repeat(title):
        return _Column(index, "repeat", title)
    words = _words(title)
    if _WORK.match(name):
        double = 2.0 if "mac" in name else 1.0
        power = next((10.0**n for letter, n in (("g", 9), ("t", 12), ("m", 6)) if name.startswith(letter)), 1.0)
        power = 1.0 if name.startswith("mac") else power
        return _Column(index, "flops", title, double * power)
    if re.match(r"(n|num|count)?kernels?(count|perstep|launches)?$", name):
        return _Column(index, "kernels", title)
    if _NEITHER & set(words):
        return _Column(index, "other", title)
    if re.match(r"gpu\w*(time|ns|us|ms)|kerneltime", name):
        return _Column(index, "gpu", title, _unit(title))
    if _PER_SECOND.search(title) or _RATE.search(name) or _RATE_SPLIT.search(title.lower()) or _RATE_WORDS & set(words):
        return _Column(index, "throughput", title)
    rank = next((n for n, pattern in enumerate(_TIMES) if pattern.search(name)), None)
    if rank is None and set(words) & _UNITS.keys() - {"s"}:
        rank = len(_TIMES)
    if rank is not None:
        return _Column(index, "time", title, _unit(title), rank, per_sample=bool(_PER_SAMPLE.search(title)))
    return _Column(index, "unknown", title)


def _words(title: str) -> list[str]:
    return [word for word in re.split(r"[^a-z0-9µ]+", title.lower()) if word]


def _unit(title: str) -> float:
    """How many ns the header's unit has; a time without one is in ms."""
    return next((_UNITS[word] for word in reversed(_words(title)) if word in _UNITS), 1e6)


def _sample(line: int, cells: list[str], columns: Sequence[_Column], notes: list[str]) -> Sample:
    axes: dict[str, Value] = {}
    numbers: dict[str, float | None] = {}
    rounded = 0.0
    for column in columns:
        cell = cells[column.index] if column.index < len(cells) else ""
        if column.role == "axis":
            axes[column.name] = _value(cell)
        elif column.role in MEASURED:
            number = _number(cell)
            if number is None and letters(cell) not in _NOTHING:
                notes.append(f"line {line}: {column.name} is not a number: {cell[:40]}")
            if column.role in ("time", "throughput"):
                rounded += _rounding(cell)
            positive = number is not None and (number > 0 or column.role == "kernels")
            numbers[column.role] = number * column.scale if number is not None and positive else None
    batch = axes.get("batch")
    asked = float(batch) if isinstance(batch, int | float) else None
    step, rate = numbers.get("time"), numbers.get("throughput")
    if step is not None and any(column.role == "time" and column.per_sample for column in columns):
        step = step * asked if asked else None
    seen = rate * step / 1e9 if rate is not None and step is not None else None
    if seen is not None and asked and abs(seen / asked - 1) <= rounded:
        seen = asked
    if step is None and rate is not None and asked:
        step = asked / rate * 1e9
    return Sample(
        axes,
        f"line {line}",
        step_ns=step,
        numbers={
            "kernels": numbers.get("kernels"),
            "gpu_ns": numbers.get("gpu"),
            "flops": numbers.get("flops"),
            "batch": asked,
            "seen": seen,
            "images_per_s": rate,
        },
        problem=None if step is not None else f"line {line} has no time",
    )


def _value(cell: str) -> Value:
    """A number where the cell is one, with or without a unit; else the text."""
    found = _NUMBER.fullmatch(cell)
    if found is None or found[2] not in ("", "px", "x"):
        return cell or "none"
    number = float(found[1].replace(",", ""))
    return int(number) if number.is_integer() and "." not in found[1] else number


def _rounding(cell: str) -> float:
    """The share by which a number may be off because it was rounded: half of its last digit."""
    found, number = _NUMBER.fullmatch(cell), _number(cell)
    if found is None or not number or "e" in found[1].lower():
        return 0.0
    return 0.5 * 10.0 ** -len(found[1].partition(".")[2]) / abs(number)


def _number(cell: str) -> float | None:
    found = _NUMBER.fullmatch(cell)
    try:
        return float(found[1].replace(",", "")) if found is not None else None
    except ValueError:
        return None


INDEX, FAMILY = "sweep.json", "tracetui.sweep-index/"
MAX_INDEX_BYTES = 16 << 20
MAX_DEPTH = 3
CLEAN, PROFILED = "the median step without a profiler", "the median step under the profiler"
NOT_AXES = frozenset({"device", "seed", "data"})
"""Options that do not distinguish points."""


def read_folder(path: Path, opened: Callable[[Path], Run], done: Callable[[int, int], None] | None) -> Sweep:
    """The sweep in a folder; its runs are opened one after the other and released again.

    Raises:
        TraceError: there are fewer than two runs in it.
    """
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
        content = json.loads(read_text(file, MAX_INDEX_BYTES))
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


def _plain(value: object) -> Value:
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
    reports = run.of_kind("ncu")
    sample = replace(
        sample_of(run.main, axes, where),
        path=folder,
        counted=tuple(map(launch_table, reports)),
        stopped=next((limit for trace in reports if (limit := stopped_at(trace, run.manifest)) is not None), None),
    )
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
    return sample, typical_ns(clean) if clean else None


def _captures(path: Path, opened: Callable[[Path], Run], done: Callable[[int, int], None] | None) -> Sweep:
    """Files of one kind whose names differ in numbers or words."""
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
    notes = [
        f"{sample.where}: {sample.problem}"
        for sample in samples
        if sample.problem and not (sample.capture and sample.capture.out_of_memory)  # said with the reason
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
        return Sample(axes, where, numbers={"batch": asked}, counted=(launch_table(trace),))
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


def _ranged(trace: Trace) -> tuple[int, float] | None:
    """How many ranges are named like steps, and their mean time."""
    found = phases(select(trace))
    if not found.steps or found.step_ns is None:
        return None
    return found.steps, found.step_ns / found.steps


def read_sweep(
    path: Path,
    open_run: Callable[[Path], Run] | None = None,
    done: Callable[[int, int], None] | None = None,
) -> Sweep:
    """The sweep in a folder, or in a table (CSV).

    Args:
        path: a folder that `tracetui profile --sweep` wrote, one with captures or runs, or a CSV file.
        open_run: opens a run of the folder.
        done: called with how many runs have been read, and of how many.

    Raises:
        TraceError: there is no sweep in it.
    """
    if not path.exists():
        raise TraceError(path, "no such file or folder", "check the path")
    if path.is_dir():
        return read_folder(path, open_run or open_path, done)
    if not path.is_file():  # a pipe would hold up the opening
        raise TraceError(path, "not a file", "give a folder or a table (CSV)")
    if looks_like_ncu(read_all(path, PEEK_BYTES)):  # no column of a table names it
        raise TraceError(
            path,
            "a report of Nsight Compute, no table of a sweep",
            "give the folder that holds the report of each point",
        )
    return read_table(path)
