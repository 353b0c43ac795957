"""Reads a log of tegrastats or jtop: how busy, warm and hungry a board was, sample by sample and in numbers of all."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl

from tracetui.parsers import schema
from tracetui.parsers.bytes_source import ByteSource
from tracetui.parsers.errors import TraceError
from tracetui.parsers.progress import Watch
from tracetui.parsers.tally import Tally
from tracetui.parsers.tegrastats.lines import MHZ, NO_SENSOR_C, Line, parse
from tracetui.parsers.trace import Source, Trace, TraceInfo

BLOCK = 1 << 22
TOOL, OF_JTOP = "NVIDIA tegrastats", "jtop"
_JTOP = "time,uptime,"
"""How the CSV begins that jtop's `stats` are written to, as its example logger does."""
_LATEST = 1 << 62
INTERVAL_NS = 1_000_000_000
"""Between samples where the lines have no times: what tegrastats does unless it is told otherwise."""
_STAMP = re.compile(r"(\d\d-\d\d-\d{4} \d\d:\d\d:\d\d) ")
_DATE = re.compile(r"\w{3} (\w{3} +\d{1,2} \d\d:\d\d:\d\d) (?:[A-Z]\w* )?(\d{4})\s*$")
LOAD, CLOCK, GPU_POWER = "GPU load (GR3D)", "GPU clock", "GPU power"
INPUTS = ("VDD_IN", "POM_5V_IN", "Power TOT", GPU_POWER)
"""Supplies of the whole board, or jtop's sum: they contain the others (VIN_SYS_5V0 feeds a part of it). Of a
card its own."""
UNITS = {"%": "%", "mW": "mW", "C": "°C", "MHz": "MHz", "MB": "MB"}


def read_tegrastats(path: Path, watch: Watch | None = None) -> Trace:
    """Reads every sample; lines that are none are counted.

    Raises:
        TraceError: the file can't be read or has no sample.
        Cancelled: the user gave up.
    """
    watch = watch or Watch()
    tally = Tally()
    with ByteSource(path) as source:
        text = b"".join(map(bytes, source.blocks(BLOCK, watch))).decode("utf-8", "replace")
        if source.damage:
            tally.missing("the compressed stream ends early", 1, source.damage)
    times: list[int | None] = []
    values: dict[tuple[str, str], dict[int, float]] = {}
    of_jtop = text.lstrip("\ufeff").startswith(_JTOP)
    for time, sample in (_jtop if of_jtop else _tegrastats)(text.lstrip("\ufeff"), tally):
        for name, unit, value in sample:
            values.setdefault((name, unit), {})[len(times)] = value
        times.append(time)
    if not times:
        advice = "let the logger run longer" if of_jtop else "record it anew: tegrastats --logfile FILE"
        raise TraceError(path, f"a log of {'jtop' if of_jtop else 'tegrastats'} without a sample", advice)
    file = Source(path, path.stat().st_size, len(times) + tally.skipped_events, len(times))
    return trace_of(OF_JTOP if of_jtop else TOOL, file, times, values, tally)


def trace_of(
    tool: str, source: Source, times: list[int | None], values: dict[tuple[str, str], dict[int, float]], tally: Tally
) -> Trace:
    """The samples of a board as a trace.

    Args:
        tool: who took them.
        source: the file.
        times: when each was taken, ns since 1970 where that is known.
        values: by name and unit, the values by the number of the sample.
        tally: takes what was repaired.
    """
    starts = _starts(times, tally)
    info = TraceInfo("tegrastats", tool, captured=tuple(_said(values, starts).items()), base_time=times[0])
    return Trace(counters=_counters(values, starts), info=info, source=source, notes=tally.notes())


def _tegrastats(text: str, tally: Tally) -> Iterator[tuple[int | None, Iterable[tuple[str, str, float]]]]:
    """When each sample was taken, and its values: name, unit, value."""
    date: int | None = None
    for line in text.splitlines():
        if (sample := parse(line)) is not None:
            yield _time(line) or date, _values(sample)
            date = None
        elif (date := _time(line)) is None and line.strip():
            tally.skipped("line that is no sample", 1, line)


def _jtop(text: str, tally: Tally) -> Iterator[tuple[int | None, Iterable[tuple[str, str, float]]]]:
    """The samples of jtop, by the names of tegrastats; a supply or sensor that is off has no number or is too cold."""
    first, *lines = text.replace("\0", "").splitlines()
    header = first.split(",")
    for line in filter(None, lines):
        cells = next(csv.reader([line[:_LONGEST_LINE]]), [])
        if len(cells) != len(header):
            short = len(cells) < len(header)
            tally.skipped("row cut short" if short else "row with too many fields", 1, line[:_LONGEST_LINE])
            continue
        row = dict(zip(header, cells, strict=True))
        found = []
        for title, cell in row.items():
            try:
                value = float(cell)
            except ValueError:
                continue
            if not math.isfinite(value):
                continue
            if title in _LOADS:
                found.append((_LOADS[title], "%", value))
            elif title == "RAM":  # a share since jtop 4.2, else in KB
                found.append(("RAM used", "%", 100 * value) if value <= 1 else ("RAM", "MB", value / 1024))
            elif title.startswith("Temp ") and value > NO_SENSOR_C:
                found.append((title.removeprefix("Temp "), "C", value))
            elif title == "Power TOT":
                found.append((title, "mW", value))
            elif title.startswith("Power "):
                found.append((title.removeprefix("Power "), "mW", value))
        time = None
        with suppress(ValueError):
            time = _since_1970(datetime.fromisoformat(row["time"]))
        if time is None:
            tally.repaired("time that is none, taken for a second after the one before", 1, row["time"])
        yield time, found


_LONGEST_LINE = 1 << 16
_LOADS = {"GPU": LOAD, "EMC": "memory load (EMC)"}


def _values(sample: Line) -> Iterator[tuple[str, str, float]]:
    yield "RAM", "MB", sample.ram_mb
    if sample.gpu_percent is not None:
        yield LOAD, "%", sample.gpu_percent
    if sample.gpu_hz:
        yield CLOCK, "MHz", max(sample.gpu_hz) / MHZ
    if sample.emc_percent is not None:
        yield "memory load (EMC)", "%", sample.emc_percent
    for name, power in sample.rails_mw.items():
        yield name, "mW", power
    for name, warmth in sample.temperatures_c.items():
        yield name, "C", warmth


def _time(line: str) -> int | None:
    """When a line was written, ns since 1970 by a clock whose zone is not known."""
    if (found := _STAMP.match(line)) is not None:
        spelled, form = found[1], "%m-%d-%Y %H:%M:%S"
    elif (found := _DATE.match(line)) is not None:
        spelled, form = f"{found[1]} {found[2]}", "%b %d %H:%M:%S %Y"
    else:
        return None
    try:
        return _since_1970(datetime.strptime(spelled, form))
    except ValueError:
        return None


def _since_1970(when: datetime) -> int | None:
    """In ns; None where 64 bits might not hold sums of it."""
    since = (when.replace(tzinfo=None) - datetime(1970, 1, 1)) // timedelta(microseconds=1) * 1000
    return since if abs(since) <= _LATEST else None


def _starts(times: list[int | None], tally: Tally) -> list[int]:
    """When each sample was taken, from the first on; a clock that is set back, or none, leaves a second between."""
    starts = [0]
    for before, now in pairwise(times):
        apart = INTERVAL_NS if before is None or now is None else now - before
        if apart < 0:
            tally.repaired("time before the one of the line before, taken for a second after it")
        if not 0 <= apart <= _LATEST - starts[-1]:
            apart = INTERVAL_NS
        starts.append(starts[-1] + apart)
    return starts


def _counters(values: dict[tuple[str, str], dict[int, float]], starts: list[int]) -> pl.DataFrame:
    rows = [
        (starts[at], name, UNITS[unit], float(value))
        for (name, unit), samples in values.items()
        for at, value in samples.items()
    ]
    frame = pl.DataFrame(
        rows, {"time": pl.Int64, "metric": pl.String, "unit": pl.String, "value": pl.Float64}, orient="row"
    )
    return schema.filled(schema.COUNTERS, frame.with_columns(kind=pl.lit("sample")))


def _said(values: dict[tuple[str, str], dict[int, float]], starts: list[int]) -> dict[str, str]:
    """Mean and largest of each value; of the board's input also the energy."""
    said = {"samples": f"{len(starts):,} in {starts[-1] / 1e9:,.0f} s"}
    order = {"%": 0, "MHz": 1, "mW": 2, "C": 3, "MB": 4}
    for (name, unit), samples in sorted(values.items(), key=lambda item: order[item[0][1]]):
        found = np.array(list(samples.values()))
        digits = 1 if unit in ("mW", "C") else 3 if unit == "%" else 0
        title = f"{name} temperature" if unit == "C" else name
        said[title] = f"mean {found.mean():,.{digits}f} {UNITS[unit]}, largest {found.max():,.6g} {UNITS[unit]}"
        if len(found) < len(starts):
            said[title] += f" (of {len(found)})"
        if name in INPUTS and len(starts) > 1:
            lasts = np.diff(starts, append=starts[-1] + starts[-1] // (len(starts) - 1))
            drawn = sum(float(value) * lasts[at] for at, value in samples.items()) / 1e12
            known = "" if len(found) == len(starts) else f", of {len(found)} of {len(starts)} samples"
            said["energy"] = f"{drawn:,.1f} J ({name}{known})"
    return said
