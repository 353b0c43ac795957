"""Reads Nsight Compute's reports, and its CSV of 2020 to 2026: raw and details page, ``--metrics``, and summaries."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from tracetui.parsers.bytes_source import ByteSource
from tracetui.parsers.errors import TraceError
from tracetui.parsers.ncu import native
from tracetui.parsers.ncu.frames import DURATIONS, Launches, counter_rows, device_frame, rows_of
from tracetui.parsers.ncu.sniff import EXPORT, FOR_PEOPLE, SOURCE_PAGE, decode_counting
from tracetui.parsers.ncu.source_page import PAGE, read_source
from tracetui.parsers.ncu.tables import Log, Table, read_tables
from tracetui.parsers.progress import Progress, Watch
from tracetui.parsers.tally import Tally
from tracetui.parsers.trace import DeviceInfo, Source, Trace, TraceInfo

TOOL = "NVIDIA Nsight Compute"
BLOCK = 1 << 22
PERMISSION = (
    "run ncu as root, or let everybody read counters: load the nvidia module with "
    "NVreg_RestrictProfilingToAdminUsers=0 (see https://developer.nvidia.com/ERR_NVGPUCTRPERM)"
)
PAGES = {"wide": "raw", "long": "details", "summary": "print-summary"}
WARNINGS_KEPT = 8
SCALED = ("ns", "byte", "byte/s", "hz")
"""Units that ncu prints with prefixes, so that a value in another one says nothing."""
CYCLES = ("gpc__cycles_elapsed.max", "sm__cycles_elapsed.max", "smsp__cycles_elapsed.max", "Elapsed Cycles")
LEAST_HZ, MOST_HZ = 1e7, 2e10
"""No GPU's clock is slower or faster."""
_DEVICE = {
    "name": ("device__attribute_display_name",),
    "sm_count": ("device__attribute_multiprocessor_count", "launch__sm_count", "# SMs"),
    "memory_bytes": ("device__attribute_total_memory",),
    "max_threads_per_sm": ("device__attribute_max_threads_per_multiprocessor",),
    "warp_size": ("device__attribute_warp_size",),
    "registers_per_sm": ("device__attribute_max_registers_per_multiprocessor",),
    "shared_memory_per_sm": ("device__attribute_max_shared_memory_per_multiprocessor",),
    "max_blocks_per_sm": ("device__attribute_max_blocks_per_multiprocessor",),
}
_PROCESS_ID = re.compile(r"[0-9]{1,18}")
_CLOCK = "device__attribute_clock_rate"
_MEMORY_CLOCK, _BUS = "device__attribute_memory_clock_rate", "device__attribute_global_memory_bus_width"
"""The clock is in kHz, and each bit moves twice per cycle."""


def read_ncu(path: Path, watch: Watch | None = None) -> Trace:
    """Reads a report, or what ncu printed as CSV, plain or gzip, including what a program printed around it.

    There is one device row per profiled launch, in the order of the file, without a start. A row of ``--print-summary``
    covers all launches of its kernel (counter ``Invocations``), and its values are their means. `counters` has every
    metric and rule, with section and name in the file's spelling and values in base units.

    Raises:
        TraceError: the file can't be read or has no table of ncu; the error says why, and what to do.
        Cancelled: stopped before the file was read.
    """
    watch = watch or Watch()
    tally = Tally()
    content, size = _read(path, tally, watch)
    if content.startswith(native.MAGIC):
        return _native(path, content, size, tally)
    text, breaks = decode_counting(content)
    tally.repaired("a byte too many or too few in text of UTF-16: read on from the next line", breaks)
    del content
    if '"Source",' in text and SOURCE_PAGE.search(text):
        return _source(path, text, size, tally)
    tables, log = read_tables(text, tally)
    del text
    if not tables:
        raise _no_table(path, log)
    launches = Launches()
    frames = [counter_rows(table, launches, tally) for table in tables]
    counters = pl.concat(frames)
    if not counters["device_row"].is_sorted():
        counters = counters.sort("device_row", maintain_order=True)
    counters = _believed(counters, tally)
    device = device_frame(launches, counters)
    parsed = sum(len(table.records) for table in tables)
    _note(log, parsed, tally)
    watch.report(Progress("reading", size, size, parsed, path))
    return Trace(
        device=device,
        counters=counters,
        info=TraceInfo(
            kind="ncu",
            tool=TOOL,
            devices=_devices(device, counters, launches, tally),
            captured=_captured(tables, launches, log),
            processes=_processes(launches),
        ),
        source=Source(path, size, parsed + tally.skipped_events, parsed),
        notes=tally.notes(),
    )


def _believed(counters: pl.DataFrame, tally: Tally) -> pl.DataFrame:
    """The counters without values in a unit that is none of their metric, and durations that no clock has."""
    value = pl.col("value")
    pairs = counters.lazy().filter(value.is_not_null()).group_by("metric", "unit").len().collect()
    wrong = []
    for metric, unit, count in pairs.with_columns(pl.col("unit").cast(pl.String).fill_null("")).iter_rows():
        due = "ns" if metric in DURATIONS else native.unit_of(metric or "")
        if due in SCALED and unit != due and not metric.startswith("derived__"):
            tally.missing("value in a unit that is none of its metric's", count, f"{metric} in {unit or 'no unit'}")
            wrong.append(metric)
    elapsed = rows_of(counters, [*CYCLES]).group_by("device_row").agg(cycles=value.max())
    timed = rows_of(counters, [*DURATIONS]).filter(~pl.col("metric").is_in(wrong)).join(elapsed, on="device_row")
    apart = timed.filter(~(1e9 * pl.col("cycles") / value).is_between(LEAST_HZ, MOST_HZ))
    tally.missing("duration in which no GPU makes the cycles that it counts", apart.height)
    if not wrong and not apart.height:
        return counters
    names = pl.col("metric").cast(pl.String)
    gone = names.is_in(wrong) | (names.is_in(DURATIONS) & pl.col("device_row").is_in(apart["device_row"].implode()))
    return counters.with_columns(value=pl.when(~gone).then(value))


def _source(path: Path, text: str, size: int, tally: Tally) -> Trace:
    device, counters, rows = read_source(text, tally)
    info = TraceInfo(kind="ncu", tool=TOOL, captured=(("page", PAGE),))
    source = Source(path, size, rows + tally.skipped_events, rows)
    return Trace(device=device, counters=counters, info=info, source=source, notes=tally.notes())


def _native(path: Path, content: bytes, size: int, tally: Tally) -> Trace:
    """The trace of a report in ncu's own format."""
    report = native.read_report(path, content, tally)
    launches = report.launches
    if not len(launches):
        advice = (
            "record it anew: it is cut, or ncu was ended" if not report.whole else "check what ncu was told to profile"
        )
        raise TraceError(path, "an Nsight Compute report without a whole launch", advice)
    counters = native.counters_of(report, content, tally)
    device = device_frame(launches, counters)
    info = TraceInfo(
        kind="ncu",
        tool=TOOL,
        tool_version=report.captured.pop("ncu", None),
        devices=_devices(device, counters, launches, tally),
        captured=(("page", native.PAGE), *report.captured.items()),
        processes=_processes(launches),
    )
    source = Source(path, size, len(launches) + tally.skipped_events, len(launches), not report.whole)
    return Trace(device=device, counters=counters, info=info, source=source, notes=tally.notes())


def _read(path: Path, tally: Tally, watch: Watch) -> tuple[bytes, int]:
    """The file's content and its size on disk."""
    with ByteSource(path) as source:
        content = b"".join(map(bytes, source.blocks(BLOCK, watch)))
        if source.damage:
            tally.missing("the compressed stream ends early", 1, source.damage)
        return content, source.size


def _no_table(path: Path, log: Log) -> TraceError:
    """Why ncu's text has no table; checks the likeliest reason first."""
    if log.denied:
        return TraceError(path, "the driver did not let ncu read performance counters (ERR_NVGPUCTRPERM)", PERMISSION)
    if log.nothing_profiled:
        return TraceError(
            path,
            "ncu profiled no kernel",
            "check --kernel-name, --launch-skip and --nvtx-include; try --target-processes all",
        )
    if log.errors:
        return TraceError(path, f"an ncu log without a table; ncu says: {next(iter(log.errors))}")
    if log.other_page:
        return TraceError(path, "ncu's source page, which has no table of launches", EXPORT)
    if log.for_people:
        return TraceError(path, *FOR_PEOPLE)
    return TraceError(path, "an ncu log without a table", f"run ncu with --csv --page raw, or {EXPORT}")


def _note(log: Log, parsed: int, tally: Tally) -> None:
    if log.denied:
        tally.missing(f"launches whose counters the driver kept (ERR_NVGPUCTRPERM): {PERMISSION}")
    for text, count in log.errors.items():
        if "ERR_NVGPUCTRPERM" not in text:
            tally.missing("ncu reports an error", count, text)
    if not parsed:
        tally.missing("the table has no rows: ncu profiled no kernel")


def _captured(tables: Iterable[Table], launches: Launches, log: Log) -> tuple[tuple[str, str], ...]:
    pages = list(dict.fromkeys(PAGES[table.form] for table in tables))
    times = list(dict.fromkeys(filter(None, launches.identity["Kernel Time"])))
    warnings = [(f"warning {number}", text) for number, text in enumerate(list(log.warnings)[:WARNINGS_KEPT], 1)]
    return (("page", ", ".join(pages)), *([("kernel time", times[0])] if times else []), *warnings)


def _processes(launches: Launches) -> tuple[tuple[int, str], ...]:
    pairs = zip(launches.identity["Process ID"], launches.identity["Process Name"], strict=True)
    return tuple(dict.fromkeys((int(pid), name) for pid, name in pairs if _PROCESS_ID.fullmatch(pid)))


def _devices(device: pl.DataFrame, counters: pl.DataFrame, launches: Launches, tally: Tally) -> tuple[DeviceInfo, ...]:
    """The GPUs that the launches ran on, with their attributes if the raw page has them."""
    wanted = [metric for metrics in _DEVICE.values() for metric in metrics]
    majors = [f"device__attribute_compute_capability_{part}" for part in ("major", "minor")]
    known = rows_of(counters, [*wanted, *majors, _CLOCK, _MEMORY_CLOCK, _BUS])
    found: list[DeviceInfo] = []
    numbers = device["device"].fill_null(0)
    for number in numbers.unique().sort().to_list():
        rows = (numbers == number).arg_true()
        mine = known.filter(pl.col("device_row").is_in(rows.implode()))
        first = mine.unique("metric", keep="first", maintain_order=True)
        values = {row["metric"]: row for row in first.iter_rows(named=True)}
        capability = launches.identity["CC"][int(rows[0])].replace(",", ".")
        parts = [_attribute(values.get(metric, {}).get("value"), tally) for metric in majors]
        if not capability and None not in parts:
            capability = ".".join(map(str, parts))
        fields = {
            name: next((values[metric] for metric in metrics if metric in values), None)
            for name, metrics in _DEVICE.items()
        }
        name = fields.pop("name")
        numbers_of = {field: _attribute(None if row is None else row["value"], tally) for field, row in fields.items()}
        clock, memory, bus = (
            (values[metric]["value"] or 0) if metric in values else 0 for metric in (_CLOCK, _MEMORY_CLOCK, _BUS)
        )
        numbers_of["clock_hz"] = _attribute(clock * 1000, tally) or None
        numbers_of["memory_bandwidth"] = _attribute(memory * 1000 * 2 * bus / 8, tally) or None
        found.append(DeviceInfo(number, name["text"] if name else None, capability or None, None, **numbers_of))
    return tuple(found)


def _attribute(value: float | None, tally: Tally) -> int | None:
    """A property of a GPU as a whole number; None if it is unknown or beyond 64 bits, which is counted."""
    if value is None:
        return None
    if not 0 <= value < 2**63:
        tally.repaired("property of a GPU that is no possible number read as unknown", 1, str(value))
        return None
    return round(value)
