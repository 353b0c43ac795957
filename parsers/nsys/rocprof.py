"""Reads what rocprof writes beside databases: CSV files of one prefix, of version 1 those with counters, and JSON.

JSON is put under the titles of the CSV, and these into the columns of nsys's tables, as `dialects` does by SQL.
"""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
from msgspec import Struct, field, structs

from tracetui.parsers import schema
from tracetui.parsers.bytes_source import ByteSource
from tracetui.parsers.errors import Cancelled, TraceError
from tracetui.parsers.nsys.dialects import ROCPD
from tracetui.parsers.nsys.frames import COUNTED, counters_of
from tracetui.parsers.nsys.metadata import Metadata, gpu_of_amd
from tracetui.parsers.nsys.reader import events_of_rows, trace_of
from tracetui.parsers.nsys.tables import PUSH_POP
from tracetui.parsers.progress import Watch
from tracetui.parsers.tally import Tally
from tracetui.parsers.tool_registry import BY_KIND, siblings
from tracetui.parsers.trace import DeviceInfo, Source, Trace, TraceInfo

BLOCK = 1 << 22
_ROWS = 1 << 15
"""Of a CSV, taken at once."""
_GPU = 2
"""The type of an agent that is a GPU."""
_KERNELS, _COPIES, _CALLS, _RANGES = (
    "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS",
)  # fmt: skip
_DISPATCHES, _COUNTERS = "dispatches", "counters"
"""Kernels of which something was counted, which a trace of kernels may have too, and the counts."""
_NAMES = {_KERNELS: "demangledName", _COPIES: "", _CALLS: "nameId", _RANGES: "textId"}
_DISPATCH = ["pid", "dispatch"]
_DIRECTIONS = {"HOST_TO_DEVICE": 1, "DEVICE_TO_HOST": 2, "DEVICE_TO_DEVICE": 8, "HOST_TO_HOST": 9}
_JSON = re.compile(rb'\s*\{\s*"rocprofiler-sdk-tool"')
AGENTS = "agent_info.csv"
Parts = defaultdict[str, list[pl.DataFrame]]
"""Rows by nsys's table, in its columns, but for the numbers of names, processes and threads; and what was counted."""


def read_rocprof(path: Path, watch: Watch | None = None) -> Trace:
    """Reads a JSON file of rocprofv3, or a CSV file with those beside it that are of the same recording.

    Kernels that were counted without their times are of kind ``counted``.

    Raises:
        TraceError: a file can't be read, or is too damaged.
        Cancelled: the user gave up.
    """
    watch = watch or Watch()
    tally = Tally()
    parts: Parts = defaultdict(list)
    gpus: list[DeviceInfo] = []
    content = _content(path, tally, watch)
    if _JSON.match(content):
        _read_json(path, content, gpus, parts, tally)
    else:
        agents = _agents(path, gpus)
        for file in siblings(path, BY_KIND["rocprof"]):
            _read_csv(_content(file, tally, watch) if file != path else content, agents, parts, tally)
    del content
    if watch.cancelled:
        raise Cancelled
    frames, counters = _joined({table: pl.concat(found) for table, found in parts.items()})
    words = pl.concat([pl.Series(dtype=pl.Categorical), *(frame["name"] for frame in frames.values())]).unique()
    names = dict(zip(words.to_physical().to_list(), words.cast(pl.String).to_list(), strict=True))
    owner = pl.col("pid") * (1 << 32)
    numbered = {
        table: frame.select(
            pl.exclude("pid", "thread", "name", "dispatch"),
            globalPid=owner, globalTid=owner + pl.col("thread"),
            **{_NAMES[table]: pl.col("name").to_physical()},
        )
        for table, frame in frames.items()
    }  # fmt: skip
    if counters.height and not frames[_KERNELS]["start"].count():
        return _without_times(path, frames[_KERNELS], counters, tally)
    dialect = structs.replace(ROCPD, gpus=(AGENTS, {}, ""))
    events = events_of_rows(dialect, numbered, names, Metadata(gpus=tuple(gpus)), counters, tally)
    return trace_of(events, path, path.stat().st_size, tally)


def _joined(frames: dict[str, pl.DataFrame]) -> tuple[dict[str, pl.DataFrame], pl.DataFrame]:
    """The rows with the process of all, and what was counted of kernels, as `frames.COUNTED`."""
    # the trace of kernels and of copies does not say of which process it is, but the files beside it do
    told = pl.concat([pl.Series(dtype=pl.Int64), *(frame["pid"] for frame in frames.values())]).unique()
    told = told.filter(told != 0)
    if len(told) == 1:
        frames = {table: frame.with_columns(pid=pl.lit(told[0])) for table, frame in frames.items()}
    counters = pl.DataFrame(schema=COUNTED)
    if (counted := frames.pop(_COUNTERS, None)) is not None:
        found = frames.pop(_DISPATCHES).unique(_DISPATCH, keep="first", maintain_order=True)
        if (known := frames.get(_KERNELS)) is not None:
            found = pl.concat([known, found.join(known, on=_DISPATCH, how="anti")])
        frames[_KERNELS] = found.with_row_index("counted")
        last = frames[_KERNELS].unique(_DISPATCH, keep="last").select("counted", *_DISPATCH)
        counters = counted.join(last, on=_DISPATCH, nulls_equal=True, maintain_order="left")
        counters = counters.select("counted", "metric", pl.lit(None).alias("unit"), "value")
        counters = counters.with_columns(pl.col(name).cast(kind) for name, kind in COUNTED.items())
    return frames, counters


def _without_times(path: Path, kernels: pl.DataFrame, counters: pl.DataFrame, tally: Tally) -> Trace:
    """The trace of kernels of which only counters are known."""
    device = kernels.select(
        kind=pl.lit("counted"),
        name=pl.col("name").cast(pl.String),
        process="pid",
        device="deviceId",
        stream="streamId",
        registers="registersPerThread",
        shared_memory="staticSharedMemory",
        **{
            name: pl.concat_arr(pl.col(f"{name}{axis}").cast(pl.Int32, strict=False) for axis in "XYZ")
            for name in ("grid", "block")
        },
    )
    return Trace(
        device=schema.filled(schema.DEVICE, device),
        counters=counters_of(kernels["counted"], counters, tally),
        info=TraceInfo(kind="rocprof", tool="AMD rocprof"),
        source=Source(path, path.stat().st_size, kernels.height + tally.skipped_events, kernels.height),
        notes=tally.notes(),
    )


def _content(path: Path, tally: Tally, watch: Watch) -> bytes:
    with ByteSource(path) as source:
        content = b"".join(map(bytes, source.blocks(BLOCK, watch)))
        if source.damage:
            tally.missing("the compressed stream ends early", 1, source.damage)
        return content


# CSV


def _agents(path: Path, gpus: list[DeviceInfo]) -> dict[int, int]:
    """The number of each agent's GPU, as the file beside says; without one, agents count CPUs too."""
    parts = BY_KIND["rocprof"].parts
    prefix = next((path.name.removesuffix(part) for part in parts if path.name.endswith(part)), "")
    try:
        text = path.with_name(prefix + AGENTS).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    found: dict[int, int] = {}
    for row in csv.DictReader(io.StringIO(text)):
        node = _whole(row.get("Node_Id"))
        if node is not None and row.get("Agent_Type") == "GPU":
            found[node] = len(found)
            # the titles are the words of the JSON, each with a capital
            numbers = {title.lower(): _whole(cell) for title, cell in row.items() if title and isinstance(cell, str)}
            gpus.append(gpu_of_amd(found[node], row.get("Product_Name"), numbers))
    return found


def _whole(text: str | None) -> int | None:
    """A number, also as the end of ``Agent 4``."""
    found = re.fullmatch(r"(?:Agent )?(-?\d{1,19})", (text or "").strip())
    return int(found[1]) if found and -(2**63) <= int(found[1]) < 2**63 else None


def _read_csv(content: bytes, agents: dict[int, int], parts: Parts, tally: Tally) -> None:
    text = io.TextIOWrapper(io.BytesIO(content.replace(b"\0", b"")), "utf-8-sig", "replace", newline="")
    reader = csv.reader(text)
    header = next(reader, [])
    titles = {title: place for place, title in enumerate(header)}
    rows: list[list[str]] = []
    ended = False
    while not ended:
        try:
            rows += islice(reader, _ROWS)
            ended = not rows
        except csv.Error as error:  # a field longer than the module allows
            tally.skipped("row that is no CSV", 1, str(error))
        for row in rows:
            if row and len(row) != len(header):  # a line is empty below the header of version 2
                short = len(row) < len(header)
                tally.skipped("row cut short" if short else "row with too many fields", 1, ",".join(row))
        columns = list(zip(*(row for row in rows if len(row) == len(header)), strict=True))
        rows.clear()
        if columns:
            frame = pl.DataFrame({title: pl.Series(columns[at], dtype=pl.String) for title, at in titles.items()})
            _add(frame, agents, parts)


_FIRST_VERSION = frozenset(
    {
        "Index", "KernelName", "gpu-id", "queue-id", "queue-index", "pid", "tid", "grd", "wgr", "lds", "scr", "vgpr",
        "arch_vgpr", "accum_vgpr", "sgpr", "fbar", "wave_size", "sig", "obj", "DispatchNs", "BeginNs", "EndNs",
        "CompleteNs",
    }
)  # fmt: skip
"""The titles of rocprof v1's CSV; all others are counters."""


def _add(frame: pl.DataFrame, agents: Mapping[int, int], parts: Parts) -> None:
    """Adds rows under the titles of a CSV, of whatever they are, numbers as texts or as numbers."""

    def of(*titles: str) -> pl.Expr:
        """The first of these columns that there is, as numbers, also those that ``Agent 4`` ends with."""
        title = next((title for title in titles if title in frame.columns), None)
        if title is None:
            return pl.lit(None, pl.Int64)
        text = frame.schema[title] == pl.String
        found = pl.col(title).str.extract(r"^\s*(?:Agent )?(-?\d{1,19})\s*$") if text else pl.col(title)
        return found.cast(pl.Int64, strict=False)

    def agent(*titles: str) -> pl.Expr:
        found = of(*titles)
        return found.replace_strict(agents, default=None, return_dtype=pl.Int64) if agents else found

    def name(*titles: str) -> pl.Expr:
        return pl.coalesce(*(pl.col(title) for title in titles if title in frame.columns), pl.lit("")).cast(
            pl.Categorical
        )

    first = "KernelName" in frame.columns
    common = {
        "pid": of("Process_Id", "pid").fill_null(0),
        "thread": of("Thread_Id").fill_null(0) & 0xFFFFFFFF,
        "start": of("Start_Timestamp", "BeginNs"),
        "end": of("End_Timestamp", "EndNs"),
        "correlationId": of("Correlation_Id", "Index"),
        "streamId": of("Stream_Id", "Queue_Id", "queue-id"),
        "name": name("Kernel_Name", "KernelName", "Function"),
    }
    if first or "Kernel_Name" in frame.columns:
        product = first or "Grid_Size" in frame.columns  # of a grid's sizes

        def size(what: str, of_first: str, axis: str) -> pl.Expr:
            if product and axis != "X":
                return pl.lit(1, pl.Int64)
            return of(what, of_first) if product else of(f"{what}_{axis}")

        before = sum(part.height for part in parts[_DISPATCHES]) if first else 0
        kernel = common | {
            "deviceId": agent("Agent_Id", "gpu-id"), "registersPerThread": of("VGPR_Count", "arch_vgpr", "vgpr"),
            "staticSharedMemory": of("LDS_Block_Size", "Group_Segment_Size", "lds"), "dynamicSharedMemory": pl.lit(0),
            "dispatch": pl.int_range(before, before + pl.len()) if first else of("Dispatch_Id", "Correlation_Id"),
        }  # fmt: skip
        for axis in "XYZ":
            group = size("Workgroup_Size", "wgr", axis)
            # they count work-items
            kernel[f"grid{axis}"] = pl.when(group > 0).then(-(-size("Grid_Size", "grd", axis) // group))
            kernel[f"block{axis}"] = group
        rows = frame.with_columns(**kernel)
        if first:
            titles = [title for title in frame.columns if title not in _FIRST_VERSION]
            counted = rows.unpivot(titles, index=_DISPATCH, variable_name="metric", value_name="value")
        elif "Counter_Name" in frame.columns:
            value = pl.col("Counter_Value") if "Counter_Value" in frame.columns else pl.lit(None)
            counted = rows.select(*_DISPATCH, metric="Counter_Name", value=value)
        else:
            parts[_KERNELS].append(rows.select(*kernel))
            return
        parts[_DISPATCHES].append(rows.select(*kernel).unique(_DISPATCH, keep="first", maintain_order=True))
        numbers = pl.col("value").cast(pl.Float64, strict=False)
        parts[_COUNTERS].append(counted.with_columns(numbers, pl.col("metric").cast(pl.Categorical), name=_NO_NAME))
    elif "Direction" in frame.columns:
        kind = pl.col("Direction").str.strip_prefix("MEMORY_COPY_").replace_strict(_DIRECTIONS, default=0)
        to, source = agent("Destination_Agent_Id"), agent("Source_Agent_Id")
        copy = common | {"deviceId": pl.when(kind == _DIRECTIONS["DEVICE_TO_HOST"]).then(source).otherwise(to)}
        copy |= {"copyKind": kind, "bytes": of("Bytes"), "name": _NO_NAME}
        parts[_COPIES].append(frame.with_columns(**copy).select(*copy))
    else:
        domain = pl.col("Domain") if "Domain" in frame.columns else pl.lit("")
        call = common | {"eventClass": domain.str.starts_with("HSA").cast(pl.Int64), "eventType": pl.lit(PUSH_POP[0])}
        rows = frame.with_columns(**call, marked=domain.str.starts_with("MARKER"))
        parts[_CALLS].append(rows.filter(~pl.col("marked")).select(*call).drop("eventType"))
        parts[_RANGES].append(rows.filter("marked").select(*call).drop("eventClass"))


_NO_NAME = pl.lit(None, pl.Categorical)


# JSON


class _Handle(Struct):
    handle: int = 0


class _Size(Struct):
    x: int = 1
    y: int = 1
    z: int = 1


class _Correlation(Struct):
    internal: int | None = None


class _Dispatch(Struct):
    kernel_id: int = 0
    dispatch_id: int | None = None
    agent_id: _Handle = field(default_factory=_Handle)
    group_segment_size: int | None = None
    workgroup_size: _Size = field(default_factory=_Size)
    grid_size: _Size = field(default_factory=_Size)


class _Record(Struct):
    """A kernel, a copy or a call."""

    start_timestamp: int | None = None
    end_timestamp: int | None = None
    kind: int = 0
    operation: int = 0
    thread_id: int = 0
    correlation_id: _Correlation = field(default_factory=_Correlation)
    dispatch_info: _Dispatch | None = None
    stream_id: _Handle | None = None
    src_agent_id: _Handle = field(default_factory=_Handle)
    dst_agent_id: _Handle = field(default_factory=_Handle)
    bytes: int | None = None


class _Records(Struct):
    kernel_dispatch: list[_Record] = field(default_factory=list)
    memory_copy: list[_Record] = field(default_factory=list)
    hip_api: list[_Record] = field(default_factory=list)
    hsa_api: list[_Record] = field(default_factory=list)
    rccl_api: list[_Record] = field(default_factory=list)
    marker_api: list[_Record] = field(default_factory=list)


class _Symbol(Struct):
    kernel_id: int = 0
    formatted_kernel_name: str = ""
    kernel_name: str = ""
    arch_vgpr_count: int | None = None


class _Agent(Struct):
    id: _Handle = field(default_factory=_Handle)
    type: int = 0
    product_name: str | None = None
    cu_count: int | None = None
    wave_front_size: int | None = None
    max_waves_per_cu: int | None = None
    lds_size_in_kb: int | None = None
    max_engine_clk_fcompute: int | None = None
    gfx_target_version: int | None = None


class _Names(Struct):
    operations: list[str] = field(default_factory=list)


class _Marker(Struct):
    key: int = 0
    value: str = ""


class _Strings(Struct):
    buffer_records: list[_Names] = field(default_factory=list)
    marker_api: list[_Marker] = field(default_factory=list)


class _Pid(Struct):
    pid: int = 0


class _Counter(Struct):
    id: _Handle = field(default_factory=_Handle)
    name: str = ""


class _Value(Struct):
    counter_id: _Handle = field(default_factory=_Handle)
    value: float | None = None


class _Counted(Struct):
    """The counters of one dispatch; several of one name are of parts of the GPU."""

    dispatch_data: _Record = field(default_factory=_Record)
    stream_id: _Handle | None = None
    records: list[_Value] = field(default_factory=list)


class _Callbacks(Struct):
    counter_collection: list[_Counted] = field(default_factory=list)


class _Process(Struct):
    metadata: _Pid = field(default_factory=_Pid)
    agents: list[_Agent] = field(default_factory=list)
    strings: _Strings = field(default_factory=_Strings)
    kernel_symbols: list[_Symbol] = field(default_factory=list)
    counters: list[_Counter] = field(default_factory=list)
    buffer_records: _Records = field(default_factory=_Records)
    callback_records: _Callbacks = field(default_factory=_Callbacks)


class _File(Struct):
    processes: list[_Process] = field(name="rocprofiler-sdk-tool")


_CALL = ("Process_Id", "Thread_Id", "Stream_Id", "Correlation_Id", "Start_Timestamp", "End_Timestamp")
_OF_COPY = (*_CALL, "Source_Agent_Id", "Destination_Agent_Id", "Bytes")
_OF_KERNEL = (
    *_CALL, "Agent_Id", "Dispatch_Id", "VGPR_Count", "Group_Segment_Size", *(f"Grid_Size_{axis}" for axis in "XYZ"),
    *(f"Workgroup_Size_{axis}" for axis in "XYZ"),
)  # fmt: skip


def _read_json(path: Path, content: bytes, gpus: list[DeviceInfo], parts: Parts, tally: Tally) -> None:
    """Reads what is known of the file's members; environment, command line and host are none of it."""
    try:
        file = msgspec.json.decode(content.decode("utf-8", "replace"), type=_File, strict=False)
    except (msgspec.DecodeError, RecursionError) as error:
        raise TraceError(path, f"rocprofv3's JSON, which can't be read: {error}", "record it anew, as rocpd") from error
    for process in file.processes:
        _read_process(process, gpus, parts, tally)


def _read_process(process: _Process, gpus: list[DeviceInfo], parts: Parts, tally: Tally) -> None:
    numbers: dict[int, int] = {}
    for agent in process.agents:
        if agent.type == _GPU:
            number = numbers[agent.id.handle] = len(numbers)
            if number == len(gpus):
                gpus.append(gpu_of_amd(number, agent.product_name, structs.asdict(agent)))
    symbols = {symbol.kernel_id: symbol for symbol in process.kernel_symbols}
    counters = {counter.id.handle: counter.name for counter in process.counters}
    markers = {marker.key: marker.value for marker in process.strings.marker_api}
    pid = process.metadata.pid & 0x7FFFFFFF

    def call(record: _Record, stream: _Handle | None = None) -> tuple[int | None, ...]:
        stream, correlation = stream or record.stream_id, record.correlation_id.internal
        handle = stream.handle if stream else None
        return pid, record.thread_id, handle, correlation, record.start_timestamp, record.end_timestamp

    def kernel(record: _Record, stream: _Handle | None = None) -> tuple[Any, ...]:
        info = record.dispatch_info or _Dispatch()
        symbol, grid, group = symbols.get(info.kernel_id, _Symbol()), info.grid_size, info.workgroup_size
        return (
            *call(record, stream), numbers.get(info.agent_id.handle), info.dispatch_id, symbol.arch_vgpr_count,
            info.group_segment_size, grid.x, grid.y, grid.z, group.x, group.y, group.z,
            symbol.formatted_kernel_name or symbol.kernel_name or "(unknown)",
        )  # fmt: skip

    def add(rows: list[tuple[Any, ...]], whole: tuple[str, ...], **others: pl.DataType) -> None:
        if rows:
            kinds = dict.fromkeys(whole, pl.Int64()) | others
            columns = zip(kinds.items(), zip(*rows, strict=True), strict=True)
            frame = {title: pl.Series(cells, dtype=kind, strict=False) for (title, kind), cells in columns}
            _add(pl.DataFrame(frame), {}, parts)

    found = process.buffer_records
    usable = [record for record in found.kernel_dispatch if record.dispatch_info is not None]
    tally.skipped("dispatch that says nothing of its kernel", len(found.kernel_dispatch) - len(usable))
    add([kernel(record) for record in usable], _OF_KERNEL, Kernel_Name=pl.String())
    counted = []
    seen: set[tuple[int | None, str]] = set()
    for one in process.callback_records.counter_collection:
        sums: dict[str, float] = defaultdict(float)
        for value in one.records:
            handle = value.counter_id.handle
            if value.value is not None:
                sums[counters.get(handle, f"counter {handle}")] += value.value
        said = kernel(one.dispatch_data, one.stream_id)
        # a kernel that is replayed for more counters has some of them in each pass
        new = {(said[_OF_KERNEL.index("Dispatch_Id")], name): total for name, total in sums.items()}
        counted += [(*said, key[1], total) for key, total in new.items() if key not in seen]
        seen.update(new)
    add(counted, _OF_KERNEL, Kernel_Name=pl.String(), Counter_Name=pl.String(), Counter_Value=pl.Float64())
    add(
        [
            (
                *call(record), numbers.get(record.src_agent_id.handle), numbers.get(record.dst_agent_id.handle),
                record.bytes, _operation(process, record),
            )
            for record in found.memory_copy
        ],
        _OF_COPY, Direction=pl.String(),
    )  # fmt: skip
    domains = {"HIP": (*found.hip_api, *found.rccl_api), "HSA": found.hsa_api}
    calls = [
        (*call(record), _operation(process, record), domain)
        for domain, records in domains.items()
        for record in records
    ]
    calls += [
        (*call(record), markers.get(record.correlation_id.internal or 0) or _operation(process, record), "MARKER")
        for record in found.marker_api
    ]
    add(calls, _CALL, Function=pl.String(), Domain=pl.String())


def _operation(process: _Process, record: _Record) -> str:
    kinds = process.strings.buffer_records
    names = kinds[record.kind].operations if 0 <= record.kind < len(kinds) else []
    return names[record.operation] if 0 <= record.operation < len(names) else f"operation {record.operation}"
