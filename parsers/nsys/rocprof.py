"""Reads what rocprof writes beside databases: CSV files of one prefix, of version 1 those with counters, and JSON.

Both are put into the columns of nsys's tables, as `dialects` does by SQL.
"""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING, Any

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
from tracetui.parsers.trace import Source, Trace, TraceInfo

if TYPE_CHECKING:
    from pathlib import Path

    from tracetui.parsers.trace import DeviceInfo

BLOCK = 1 << 22
_GPU = 2
"""The type of an agent that is a GPU."""
_KERNELS, _COPIES, _CALLS, _RANGES = (
    "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS",
)  # fmt: skip
_DIRECTIONS = {"HOST_TO_DEVICE": 1, "DEVICE_TO_HOST": 2, "DEVICE_TO_DEVICE": 8, "HOST_TO_HOST": 9}
_JSON = re.compile(rb'\s*\{\s*"rocprofiler-sdk-tool"')
AGENTS = "agent_info.csv"


class _Rows(Struct):
    """Rows by nsys's table, in its columns; names by their number."""

    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    gpus: list[DeviceInfo] = field(default_factory=list)
    dispatches: dict[tuple[int, int | None], int] = field(default_factory=dict)
    """The number of each kernel, by process and the number that its file gives it."""
    counted: list[tuple[int, str, str | None, str]] = field(default_factory=list)
    """What was counted, as `frames.COUNTED`, values as texts."""

    def number(self, name: str) -> int:
        """The number of a name."""
        return self.names.setdefault(name, len(self.names))

    def name_processes(self) -> None:
        """Gives GPU work that names no process that of the calls, where these are of one."""
        called = {row["globalTid"] >> 32 for table in (_CALLS, _RANGES) for row in self.tables.get(table, ())}
        if len(called) == 1:
            for row in (*self.tables.get(_KERNELS, ()), *self.tables.get(_COPIES, ())):
                row["globalPid"] = row["globalPid"] or called.copy().pop() << 32

    def add(self, table: str, **row: int | None) -> None:
        """Adds a row."""
        self.tables.setdefault(table, []).append(row)


def read_rocprof(path: Path, watch: Watch | None = None) -> Trace:
    """Reads a JSON file of rocprofv3, or a CSV file with those beside it that are of the same recording.

    Kernels that were counted without their times are of kind ``counted``.

    Raises:
        TraceError: a file can't be read, or is too damaged.
        Cancelled: the user gave up.
    """
    watch = watch or Watch()
    tally = Tally()
    rows = _Rows()
    content = _content(path, tally, watch)
    if _JSON.match(content):
        _read_json(path, content, rows, tally)
    else:
        agents = _agents(path, rows)
        for file in siblings(path, BY_KIND["rocprof"]):
            _read_csv(_content(file, tally, watch) if file != path else content, agents, rows, tally)
    if watch.cancelled:
        raise Cancelled
    rows.name_processes()
    frames = {table: pl.DataFrame(found, infer_schema_length=None) for table, found in rows.tables.items()}
    texts = pl.DataFrame(rows.counted, dict.fromkeys(COUNTED, pl.String()) | {"counted": pl.Int64()}, orient="row")
    counters = texts.with_columns(pl.col("value").cast(pl.Float64, strict=False))
    names = {number: name for name, number in rows.names.items()}
    if counters.height and not (kernels := frames[_KERNELS])["start"].count():
        return _without_times(path, kernels, names, counters, tally)
    dialect = structs.replace(ROCPD, gpus=(AGENTS, {}, ""))
    events = events_of_rows(dialect, frames, names, Metadata(gpus=tuple(rows.gpus)), counters, tally)
    return trace_of(events, path, path.stat().st_size, tally)


def _without_times(
    path: Path, kernels: pl.DataFrame, names: dict[int, str], counters: pl.DataFrame, tally: Tally
) -> Trace:
    """The trace of kernels of which only counters are known."""
    device = kernels.select(
        kind=pl.lit("counted"),
        name=pl.col("demangledName").replace_strict(names, return_dtype=pl.String),
        process=pl.col("globalPid") // (1 << 32),
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


def _agents(path: Path, rows: _Rows) -> dict[int, int]:
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
            rows.gpus.append(gpu_of_amd(found[node], row.get("Product_Name"), numbers))
    return found


def _whole(text: str | None) -> int | None:
    """A number, also as the end of ``Agent 4``."""
    found = re.fullmatch(r"(?:Agent )?(-?\d{1,19})", (text or "").strip())
    return int(found[1]) if found and -(2**63) <= int(found[1]) < 2**63 else None


def _read_csv(content: bytes, agents: dict[int, int], rows: _Rows, tally: Tally) -> None:
    text = content.decode("utf-8-sig", "replace").replace("\0", "")
    reader = csv.reader(io.StringIO(text))
    header = next(reader, [])
    width = len(header)
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:  # a field longer than the module allows
            tally.skipped("row that is no CSV", 1, str(error))
            continue
        if cells is None:
            return
        if cells and len(cells) != width:
            tally.skipped("row cut short" if len(cells) < width else "row with too many fields", 1, ",".join(cells))
            continue
        if cells:  # a line is empty below the header of version 2
            row = dict(zip(header, cells, strict=True))
            if "KernelName" in row:
                _first_version(row, rows)
            else:
                _row(row, agents, rows)


_FIRST_VERSION = frozenset(
    {
        "Index", "KernelName", "gpu-id", "queue-id", "queue-index", "pid", "tid", "grd", "wgr", "lds", "scr", "vgpr",
        "arch_vgpr", "accum_vgpr", "sgpr", "fbar", "wave_size", "sig", "obj", "DispatchNs", "BeginNs", "EndNs",
        "CompleteNs",
    }
)  # fmt: skip
"""The titles of rocprof v1's CSV; all others are counters."""


def _first_version(row: dict[str, str], rows: _Rows) -> None:
    pid, number = _whole(row.get("pid")) or 0, len(rows.dispatches)
    rows.dispatches[pid, number] = number
    _add_counted(
        rows, number, pid, (row["KernelName"], row.get("grd"), row.get("wgr"), row.get("arch_vgpr", row.get("vgpr"))),
        start=_whole(row.get("BeginNs")), end=_whole(row.get("EndNs")), correlationId=_whole(row.get("Index")),
        deviceId=_whole(row.get("gpu-id")), streamId=_whole(row.get("queue-id")),
        staticSharedMemory=_whole(row.get("lds")),
    )  # fmt: skip
    rows.counted += [(number, title, None, cell) for title, cell in row.items() if title not in _FIRST_VERSION]


def _add_counted(
    rows: _Rows, number: int, pid: int, kernel: tuple[str, str | None, str | None, str | None], **row: int | None
) -> None:
    """Adds a kernel of a file of counters, which has the products of its sizes only."""
    name, grid, block, registers = kernel
    group = _whole(block)
    rows.add(
        _KERNELS, **row, counted=number, globalPid=pid << 32, demangledName=rows.number(name),
        registersPerThread=_whole(registers), dynamicSharedMemory=0, gridX=_blocks(_whole(grid), group), gridY=1,
        gridZ=1, blockX=group, blockY=1, blockZ=1,
    )  # fmt: skip


def _row(row: dict[str, str], agents: dict[int, int], rows: _Rows) -> None:
    pid = _whole(row.get("Process_Id")) or 0
    times = {"start": _whole(row.get("Start_Timestamp")), "end": _whole(row.get("End_Timestamp"))}
    times["correlationId"] = _whole(row.get("Correlation_Id"))
    thread = (pid << 32) | (_whole(row.get("Thread_Id")) or 0)

    def agent(title: str) -> int | None:
        number = _whole(row.get(title))
        return agents.get(number) if agents and number is not None else number

    stream = _whole(row.get("Stream_Id", row.get("Queue_Id")))
    dispatch = pid, _whole(row.get("Dispatch_Id", row.get("Correlation_Id")))
    number = rows.dispatches.get(dispatch)
    if "Counter_Name" in row:
        if number is None:
            number = rows.dispatches[dispatch] = len(rows.dispatches)
            _add_counted(
                rows, number, pid,
                (row.get("Kernel_Name", ""), row.get("Grid_Size"), row.get("Workgroup_Size"), row.get("VGPR_Count")),
                **times, deviceId=agent("Agent_Id"), streamId=stream,
                staticSharedMemory=_whole(row.get("LDS_Block_Size")),
            )  # fmt: skip
        rows.counted.append((number, row["Counter_Name"], None, row.get("Counter_Value", "")))
    elif "Kernel_Name" in row:
        if dispatch[1] is not None:
            number = rows.dispatches[dispatch] = len(rows.dispatches)
        sizes = {
            axis: (_whole(row.get(f"Grid_Size_{axis}")), _whole(row.get(f"Workgroup_Size_{axis}"))) for axis in "XYZ"
        }
        rows.add(
            _KERNELS, **times, counted=number, globalPid=pid << 32, deviceId=agent("Agent_Id"), streamId=stream,
            demangledName=rows.number(row["Kernel_Name"]), registersPerThread=_whole(row.get("VGPR_Count")),
            staticSharedMemory=_whole(row.get("LDS_Block_Size", row.get("Group_Segment_Size"))), dynamicSharedMemory=0,
            **{f"grid{axis}": _blocks(*size) for axis, size in sizes.items()},
            **{f"block{axis}": size[1] for axis, size in sizes.items()},
        )  # fmt: skip
    elif "Direction" in row:
        ends = (agent("Destination_Agent_Id"), agent("Source_Agent_Id"))
        kind = _DIRECTIONS.get(row["Direction"].removeprefix("MEMORY_COPY_"), 0)
        rows.add(
            _COPIES, **times, globalPid=pid << 32, deviceId=ends[1] if kind == 2 else ends[0], streamId=stream,
            copyKind=kind, bytes=None,
        )  # fmt: skip
    elif row.get("Domain", "").startswith("MARKER"):
        rows.add(_RANGES, **times, globalTid=thread, eventType=PUSH_POP[0], textId=rows.number(row.get("Function", "")))
    else:
        is_driver = int(row.get("Domain", "").startswith("HSA"))
        rows.add(_CALLS, **times, globalTid=thread, nameId=rows.number(row.get("Function", "")), eventClass=is_driver)


def _blocks(items: int | None, group: int | None) -> int | None:
    """How many workgroups hold so many work-items."""
    return None if items is None or not group or group < 0 else -(-items // group)


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


class _Strings(Struct):
    buffer_records: list[_Names] = field(default_factory=list)


class _Pid(Struct):
    pid: int = 0


class _Callbacks(Struct):
    counter_collection: list[msgspec.Raw] = field(default_factory=list)


class _Process(Struct):
    metadata: _Pid = field(default_factory=_Pid)
    agents: list[_Agent] = field(default_factory=list)
    strings: _Strings = field(default_factory=_Strings)
    kernel_symbols: list[_Symbol] = field(default_factory=list)
    buffer_records: _Records = field(default_factory=_Records)
    callback_records: _Callbacks = field(default_factory=_Callbacks)


class _File(Struct):
    processes: list[_Process] = field(name="rocprofiler-sdk-tool")


def _read_json(path: Path, content: bytes, rows: _Rows, tally: Tally) -> None:
    """Reads what is known of the file's members; environment, command line and host are none of it."""
    try:
        file = msgspec.json.decode(content.decode("utf-8", "replace"), type=_File, strict=False)
    except (msgspec.DecodeError, RecursionError) as error:
        raise TraceError(path, f"rocprofv3's JSON, which can't be read: {error}", "record it anew, as rocpd") from error
    for process in file.processes:
        pid = process.metadata.pid & 0x7FFFFFFF
        counted = len(process.callback_records.counter_collection)
        tally.missing("counters of rocprofv3's JSON, which are read of its CSV and of rocpd only", counted)
        gpus: dict[int, int] = {}
        for agent in process.agents:
            if agent.type == _GPU:
                gpus[agent.id.handle] = len(gpus)
                if len(gpus) > len(rows.gpus):
                    rows.gpus.append(
                        gpu_of_amd(gpus[agent.id.handle], agent.product_name, msgspec.structs.asdict(agent))
                    )
        symbols = {symbol.kernel_id: symbol for symbol in process.kernel_symbols}
        for record in process.buffer_records.kernel_dispatch:
            _add_kernel(record, pid, gpus, symbols, rows, tally)
        for record in process.buffer_records.memory_copy:
            name = _operation(process, record).removeprefix("MEMORY_COPY_")
            kind = _DIRECTIONS.get(name, 0)
            end = record.src_agent_id if kind == 2 else record.dst_agent_id
            rows.add(
                _COPIES, **_times(record), globalPid=pid << 32, deviceId=gpus.get(end.handle), copyKind=kind,
                streamId=record.stream_id.handle if record.stream_id else None, bytes=record.bytes,
            )  # fmt: skip
        calls = process.buffer_records
        for is_driver, records in ((0, calls.hip_api), (0, calls.rccl_api), (1, calls.hsa_api)):
            for record in records:
                rows.add(
                    _CALLS, **_times(record), globalTid=(pid << 32) | (record.thread_id & 0xFFFFFFFF),
                    nameId=rows.number(_operation(process, record)), eventClass=is_driver,
                )  # fmt: skip


def _times(record: _Record) -> dict[str, int | None]:
    return {
        "start": record.start_timestamp, "end": record.end_timestamp, "correlationId": record.correlation_id.internal,
    }  # fmt: skip


def _operation(process: _Process, record: _Record) -> str:
    kinds = process.strings.buffer_records
    names = kinds[record.kind].operations if 0 <= record.kind < len(kinds) else []
    return names[record.operation] if 0 <= record.operation < len(names) else f"operation {record.operation}"


def _add_kernel(
    record: _Record, pid: int, gpus: dict[int, int], symbols: dict[int, _Symbol], rows: _Rows, tally: Tally
) -> None:
    info = record.dispatch_info
    if info is None:
        tally.skipped("dispatch that says nothing of its kernel")
        return
    symbol = symbols.get(info.kernel_id, _Symbol())
    grid, group = info.grid_size, info.workgroup_size
    rows.add(
        _KERNELS, **_times(record), globalPid=pid << 32, deviceId=gpus.get(info.agent_id.handle),
        streamId=record.stream_id.handle if record.stream_id else None,
        demangledName=rows.number(symbol.formatted_kernel_name or symbol.kernel_name or "(unknown)"),
        registersPerThread=symbol.arch_vgpr_count, staticSharedMemory=info.group_segment_size, dynamicSharedMemory=0,
        gridX=_blocks(grid.x, group.x), gridY=_blocks(grid.y, group.y), gridZ=_blocks(grid.z, group.z),
        blockX=group.x, blockY=group.y, blockZ=group.z,
    )  # fmt: skip
