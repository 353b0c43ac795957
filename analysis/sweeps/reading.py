"""Reads a sweep from a folder or from a table."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracetui.analysis.sweeps.model import Sample, Sweep, is_repeat, known_axis, letters, sweep_of
from tracetui.parsers.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tracetui.analysis.captures.names import Value
    from tracetui.analysis.sweeps.model import Sweep
    from tracetui.parsers import Run


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
        if path.stat().st_size > MAX_BYTES:
            raise TraceError(path, "too large for a table of a sweep", "give the table of its points")
        text = path.read_text(encoding="utf-8-sig", errors="replace")
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


def _is_report(path: Path) -> bool:
    """Whether a file is Nsight Compute's, which no column of a table names."""
    from tracetui.parsers.bytes_source import read_all
    from tracetui.parsers.ncu.sniff import looks_like_ncu
    from tracetui.parsers.runs.detect import PEEK_BYTES

    return looks_like_ncu(read_all(path, PEEK_BYTES))


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
        from tracetui.analysis.sweeps.folder import read_folder

        return read_folder(path, open_run, done)
    if _is_report(path):
        raise TraceError(
            path,
            "a report of Nsight Compute, no table of a sweep",
            "give the folder that holds the report of each point",
        )
    # merged

    return read_table(path)
