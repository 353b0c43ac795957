"""The programs whose databases are read besides Nsight Systems': what their tables and columns are in its words.

Each is a table of columns: ours, and the SQL that finds it in a row ``t`` of theirs, in which ``{name}`` stands for a
table of the file, whose name may end in an id of the recording.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import lru_cache
from pathlib import Path

import numpy as np
import polars as pl
from msgspec import Struct, field, structs

from tracetui.parsers.errors import TraceError
from tracetui.parsers.nsys import tables
from tracetui.parsers.nsys.compact import Columns
from tracetui.parsers.nsys.database import Database, Query, Table, quoted
from tracetui.parsers.nsys.tables import PLAIN, EventTable, Ids, Shared

Part = dict[str, str]
"""What stands for each placeholder: of a file that holds several recordings, one of them."""


class Dialect(Struct, frozen=True):
    """A program that writes databases, and how they are read."""

    kind: str
    tool: str
    tells: frozenset[str]
    """Tables that only this program's files have, without the id of the recording."""
    events: tuple[EventTable, ...]
    strings: tuple[tuple[str, str, str], ...] = (("StringIds", "t.id", "t.value"),)
    """Tables of names: the table, the number of a name, and its text."""
    constants: Callable[[], Mapping[int, str]] = dict
    """Names that the file has numbers for only."""
    ids: Ids = field(default_factory=Ids)
    gpus: tuple[str, dict[str, str], str] = ("TARGET_INFO_GPU", {}, "")
    """The table that describes the GPUs, its columns in nsys's words, and which rows are GPUs."""
    settings: dict[str, tuple[str, str]] = {}
    """What is shown of the recording, by label: the table, and the SQL of one value."""
    counters: tuple[str, dict[str, str]] = ("", {})
    """The table of kernels' counters, and what finds `frames.COUNTED` in it, all as texts."""
    context: str = ""
    """A regular expression for tables that hold no events."""
    since_boot: bool = True
    """Whether times count from a moment that means nothing, else from 1970; nsys's from the start of the recording."""

    @property
    def gpus_in(self) -> str:
        """Where the GPUs are described, in words."""
        return self.gpus[0] if "." in self.gpus[0] else f"table {self.gpus[0]}"

    def parts(self, database: Database) -> list[Part]:
        """The recordings of a file, each with its names of the tables."""
        pattern = re.compile(r"(?P<name>\w+?)(?P<id>_[0-9a-f]{8}(?:_[0-9a-f]{4}){3}_[0-9a-f]{12})?")
        found: dict[str, Part] = {}
        for name in database.tables:
            if match := pattern.fullmatch(name):
                found.setdefault(match["id"] or "", {})[match["name"]] = quoted(name)
        whole = found.pop("", {})
        parts = [whole | part for part in found.values()] or [whole]
        return [part | {"part": str(number), "parts": str(len(parts))} for number, part in enumerate(parts)]

    def present(self, database: Database) -> list[tuple[EventTable, Table, Part]]:
        """The event tables that the file has."""
        return [
            (event_table, database.tables[part[event_table.name][1:-1]], part)
            for part in self.parts(database)
            for event_table in self.events
            if event_table.name in part
        ]

    def named(self, database: Database) -> list[Query]:
        """What reads the file's names: ``id`` and ``value``."""
        found: list[Query] = []
        with closing(database.connect()) as connection:
            for part in self.parts(database):
                for name, number, text in self.strings:
                    if name in part:
                        table = database.tables[part[name][1:-1]]
                        query = Query.computing(table, connection, part, {"id": number, "value": text}, ("value",))
                        found += [query] if len(query.columns) == 2 else []
        return [structs.replace(query, is_events=False) for query in found]


def dialect_of(database: Database) -> Dialect:
    """The program that wrote a database.

    Raises:
        TraceError: none that is known; says what it is where that can be told.
    """
    path, found = database.path, set(database.tables)
    for dialect in DIALECTS:
        names = {name for part in dialect.parts(database) for name in part}
        if dialect.tells <= names:
            return dialect
    if any(name.startswith(OF_NSYS) for name in found):
        return NSYS
    lower = {name.lower() for name in found}
    if any(name.startswith("dlprof") for name in lower) or {"op_instances", "kernels"} <= lower:
        raise TraceError(
            path, "a DLProf database, not one of Nsight Systems", "export the .qdrep or .nsys-rep behind it"
        )
    if not found:
        raise TraceError(path, "an SQLite database without tables", "export the report anew")
    raise TraceError(
        path,
        "an SQLite database of another program",
        "give an export of Nsight Systems, or what nvprof or rocprof wrote",
    )


OF_NSYS = ("CUPTI_ACTIVITY_KIND_", "NVTX_EVENTS", "OSRT_API", "TARGET_INFO_", "ProcessStreams")
NSYS = Dialect("nsys", "NVIDIA Nsight Systems", frozenset({"StringIds"}), tables.EVENT_TABLES)


# nvprof: CUPTI's records as they are


@lru_cache(maxsize=1)
def _of_cupti() -> dict[int, str]:
    """The functions of CUDA by CUPTI's numbers (of the runtime -1, -3, …, of the driver -2, -4, …), and overheads."""
    found: dict[int, str] = {}
    text = Path(__file__).with_name("cupti_calls.txt").read_text(encoding="ascii")
    for side, names in enumerate(re.split(r"\w+:\n", text)[1:]):
        found |= {-1 - (2 * number + side): name for number, name in enumerate(names.split())}
    return found | {_OVERHEADS - number: name for number, name in _OVERHEAD_NAMES.items()}


_OVERHEADS = -(1 << 20)
_OVERHEAD_NAMES = {
    0: "overhead", 1: "driver compiler", 16: "buffer flush", 32: "instrumentation", 48: "resource",
    64: "module loading", 80: "lazy function loading", 96: "command buffer full", 112: "buffer request",
    128: "unified memory set-up",
}  # fmt: skip
"""By the upper half of CUPTI's number, or its lower half."""
_INSTANT, _STARTS, _ENDS = 1, 2, 4
_OF_THREAD = 2
_OF_NSYS = {table.name: table for table in tables.EVENT_TABLES}


def _as(nsys: str, name: str, columns: dict[str, str], where: str = "") -> EventTable:
    """A table that holds what a table of nsys does."""
    return structs.replace(_OF_NSYS[nsys], name=name, computed=columns, where=where, integers=(), texts=())


def _threads(owners: pl.Series) -> pl.Series:
    """The global number of each thread that CUPTI names by twelve bytes: process, thread, and nothing."""
    joined = b"".join((owner or b"")[:12].ljust(12, b"\0") for owner in owners)
    parts = np.frombuffer(joined, "<u4").reshape(-1, 3).astype(np.int64)
    return pl.Series((parts[:, 0] & PLAIN.pids) << PLAIN.tid_bits | parts[:, 1])


def _with_threads(batch: pl.DataFrame, shared: Shared) -> Columns:
    batch = batch.with_columns(_threads(batch["owner"]).alias("globalTid"))
    return _OF_NSYS["PROFILER_OVERHEAD"].convert(batch, shared)


def _markers(batch: pl.DataFrame, shared: Shared) -> Columns:
    """NVTX: the start and the end of a range are two rows with one number, and the first has its name."""
    kind = pl.col("flags") & (_INSTANT | _STARTS | _ENDS)
    batch = batch.with_columns(kind.alias("flags"), _threads(batch["owner"]).alias("globalTid"))
    ends = batch.filter(pl.col("flags") == _ENDS).select("id", end="start", endGlobalTid="globalTid")
    rows = batch.filter(pl.col("flags") != _ENDS)
    rows = rows.join(ends.unique("id", keep="first"), on="id", how="left", maintain_order="left")
    shared.skip("end of a range that never began", ends.height - rows["end"].count())
    nests = pl.when(pl.col("objectKind") == _OF_THREAD).then(tables.PUSH_POP[0]).otherwise(tables.START_END[0])
    rows = rows.with_columns(
        eventType=pl.when(pl.col("flags") == _INSTANT).then(tables.MARKS[0]).otherwise(nests).cast(pl.Int64)
    )
    if "domainId" in rows.columns:
        named = rows.filter(pl.col("domainId") > 0).unique(["globalTid", "domainId"], maintain_order=True)
        named = named.select("start", "globalTid", "domainId", textId="domainId", eventType=tables.DOMAIN_CREATE)
        with shared.lock:
            shared.nvtx_rows.extend(named.to_dicts())
    return _OF_NSYS["NVTX_EVENTS"].convert(rows, shared)


def _row(*names: str, **columns: str) -> dict[str, str]:
    """Columns of the same name, and others."""
    return {name: f't."{name}"' for name in names} | columns


_CUPTI = "CUPTI_ACTIVITY_KIND_"
_CALLER = f"(SELECT c.processId FROM {{{_CUPTI}{{}}}} AS c LIMIT 1)"
"""A file holds one process, which only its calls name."""
_ON_GPU = _row(
    "start", "end", "deviceId", "contextId", "correlationId",
    streamId="nullif(t.streamId, -1)", graphNodeId="nullif(t.graphNodeId, 0)",
    globalPid="coalesce(" + ", ".join(_CALLER.replace("{}", side) for side in ("RUNTIME", "DRIVER")) + ") << 32",
)  # fmt: skip
_KERNEL = _row(
    *(f"{what}{axis}" for what in ("grid", "block") for axis in "XYZ"),
    *("registersPerThread", "staticSharedMemory", "dynamicSharedMemory"),
    demangledName="t.name",
)
_KIND_OF_MEMORY = "CASE t.{0} WHEN 0 THEN 7 ELSE t.{0} - 1 END"
"""CUPTI's numbers begin with the unknown kind."""
_COPY = _row("bytes", "copyKind", srcKind=_KIND_OF_MEMORY.format("srcKind"), dstKind=_KIND_OF_MEMORY.format("dstKind"))
_CALL = _row("start", "end", "correlationId", globalTid="(t.processId << 32) | (t.threadId & 4294967295)")
_ON_CONTEXT = f"(SELECT c.deviceId FROM {{{_CUPTI}CONTEXT}} AS c WHERE c.contextId = t.contextId LIMIT 1)"

NVPROF = Dialect(
    "nvprof",
    "NVIDIA nvprof",
    frozenset({"StringTable", "Version"}),
    (
        *(
            _as(f"{_CUPTI}KERNEL", f"{_CUPTI}{name}", _ON_GPU | _KERNEL)
            for name in ("CONCURRENT_KERNEL", "KERNEL", "CDP_KERNEL")
        ),
        *(_as(f"{_CUPTI}MEMCPY", f"{_CUPTI}{name}", _ON_GPU | _COPY) for name in ("MEMCPY", "MEMCPY2")),
        _as(
            f"{_CUPTI}MEMSET", f"{_CUPTI}MEMSET",
            _ON_GPU | _row("bytes", memKind=_KIND_OF_MEMORY.format("memoryKind")),
        ),
        _as(f"{_CUPTI}SYNCHRONIZATION", f"{_CUPTI}SYNCHRONIZATION", _ON_GPU | {"deviceId": _ON_CONTEXT}),
        *(
            _as(
                f"{_CUPTI}RUNTIME", f"{_CUPTI}{name}",
                _CALL | {"eventClass": str(side), "nameId": f"-1 - (2 * t.cbid + {side})"},
            )
            for side, name in enumerate(("RUNTIME", "DRIVER"))
        ),
        structs.replace(
            _as(
                "PROFILER_OVERHEAD", f"{_CUPTI}OVERHEAD",
                _row("start", "end", nameId=f"{_OVERHEADS} - max(t.overheadKind >> 12, t.overheadKind & 1)")
                | {"owner": "t.objectId"},
            ),
            convert=_with_threads, texts=("owner",),
        ),
        structs.replace(
            _as(
                "NVTX_EVENTS", f"{_CUPTI}MARKER",
                _row("id", "flags", "objectKind", start="t.timestamp", textId="nullif(t.name, 0)", domainId="t.domain")
                | {"owner": "t.objectId"},
            ),
            convert=_markers, texts=("owner",), whole=True,
        ),
    ),
    strings=(("StringTable", "t._id_", "t.value"),),
    constants=_of_cupti,
    ids=PLAIN,
    gpus=(
        f"{_CUPTI}DEVICE",
        _row(
            "id", totalMemory="t.globalMemorySize", smCount="t.numMultiprocessors",
            threadsPerWarp="t.numThreadsPerWarp", maxWarpsPerSm="t.maxWarpsPerMultiprocessor",
            maxRegistersPerSm="t.maxRegistersPerMultiprocessor", maxShmemPerSm="t.maxSharedMemoryPerMultiprocessor",
            computeMajor="t.computeCapabilityMajor", computeMinor="t.computeCapabilityMinor",
            maxBlocksPerSm="t.maxBlocksPerMultiprocessor", clockRate="t.coreClockRate * 1000",
            memoryBandwidth="t.globalMemoryBandwidth * 1000",
            name="(SELECT s.value FROM {StringTable} AS s WHERE s._id_ = t.name)",
        ),
        "",
    ),
    settings={"database version": ("Version", "t.version")},
    since_boot=False,
    context=rf"{_CUPTI}(DEVICE|DEVICE_ATTRIBUTE|CONTEXT|NAME|STREAM|PCIE|MODULE|FUNCTION|SOURCE_LOCATOR|NVLINK)$",
)  # fmt: skip


# rocprofv3: rocpd, whose tables end in an id of the recording

_EVENT = "(SELECT {} FROM {{rocpd_event}} AS e WHERE e.id = t.event_id)"
_IN_CATEGORY = (
    "(SELECT s.string FROM {{rocpd_event}} AS e JOIN {{rocpd_string}} AS s ON s.id = e.category_id"
    " WHERE e.id = t.event_id) {} 'MARKER%'"
)
_PID = "(SELECT p.pid FROM {rocpd_info_process} AS p WHERE p.id = t.pid)"
_TID = "(SELECT p.tid FROM {rocpd_info_thread} AS p WHERE p.id = t.tid)"
_AGENT = "(SELECT a.{} FROM {{rocpd_info_agent}} AS a WHERE a.id = {})"
_SYMBOL = "(SELECT k.{} FROM {{rocpd_info_kernel_symbol}} AS k WHERE k.id = t.kernel_id)"
_COUNTED = "{parts} * t.event_id + {part}"
_COUNTER = "(SELECT c.{} FROM {{rocpd_info_pmc}} AS c WHERE c.id = t.pmc_id)"
_STRING = "({parts} * 2 * t.name_id + 2 * {part})"
_ROC_GPU = _row(
    "start", "end",
    # a stack has a number also where nobody gave a correlation
    correlationId=_EVENT.format("coalesce(nullif(e.stack_id, 0), e.correlation_id)"),
    streamId="coalesce(t.stream_id, t.queue_id)", globalPid=f"{_PID} << 32",
)  # fmt: skip
_FROM, _TO = (_AGENT.format("type", f"t.{end}_agent_id") + " = 'CPU'" for end in ("src", "dst"))
_JSON = "CASE WHEN json_valid(t.extdata) THEN json_extract(t.extdata, '$.{}') END"
_REGION = _row("start", "end", globalTid=f"({_PID} << 32) | {_TID}", correlationId=_ROC_GPU["correlationId"])

ROCPD = Dialect(
    "rocprof",
    "AMD rocprofv3",
    frozenset({"rocpd_metadata", "rocpd_kernel_dispatch"}),
    (
        _as(
            f"{_CUPTI}KERNEL", "rocpd_kernel_dispatch",
            _ROC_GPU
            | {"deviceId": _AGENT.format("type_index", "t.agent_id")}
            # its grids count work-items
            | {
                f"grid{axis.upper()}": f"(t.grid_size_{axis} + t.workgroup_size_{axis} - 1) / t.workgroup_size_{axis}"
                for axis in "xyz"
            }
            | {f"block{axis.upper()}": f"t.workgroup_size_{axis}" for axis in "xyz"}
            | {
                "registersPerThread": _SYMBOL.format("arch_vgpr_count"), "staticSharedMemory": "t.group_segment_size",
                "dynamicSharedMemory": "0", "demangledName": "({parts} * 2 * t.kernel_id + 2 * {part} + 1)",
                "counted": _COUNTED,
            },
        ),
        _as(
            f"{_CUPTI}MEMCPY", "rocpd_memory_copy",
            _ROC_GPU
            | {
                "bytes": "t.size", "copyKind": f"CASE WHEN {_FROM} THEN iif({_TO}, 9, 1) ELSE iif({_TO}, 2, 8) END",
                "deviceId": _AGENT.format("type_index", f"iif({_TO}, t.src_agent_id, t.dst_agent_id)"),
            },
        ),
        _as(
            f"{_CUPTI}RUNTIME", "rocpd_region",
            _REGION | {"nameId": _STRING, "eventClass": _IN_CATEGORY.replace("MARKER", "HSA").format("LIKE")},
            _IN_CATEGORY.format("NOT LIKE"),
        ),
        _as(
            "NVTX_EVENTS", "rocpd_region",
            _REGION | {"textId": _STRING, "eventType": str(tables.PUSH_POP[0])},
            _IN_CATEGORY.format("LIKE"),
        ),
    ),
    strings=(
        ("rocpd_string", "({parts} * 2 * t.id + 2 * {part})", "t.string"),
        ("rocpd_info_kernel_symbol", "({parts} * 2 * t.id + 2 * {part} + 1)", "t.display_name"),
    ),
    ids=PLAIN,
    gpus=(
        "rocpd_info_agent",
        {
            "id": "t.type_index", "name": "t.product_name", "smCount": _JSON.format("cu_count"),
            "threadsPerWarp": _JSON.format("wave_front_size"), "maxWarpsPerSm": _JSON.format("max_waves_per_cu"),
            "maxShmemPerSm": _JSON.format("lds_size_in_kb") + " * 1024",
            "clockRate": _JSON.format("max_engine_clk_fcompute") + " * 1000000",
            "gfx": _JSON.format("gfx_target_version"),
        },
        "t.type = 'GPU'",
    ),
    settings={"database version": ("rocpd_metadata", "CASE t.tag WHEN 'schema_version' THEN t.value END")},
    counters=(
        "rocpd_pmc_event",
        {
            "counted": _COUNTED, "metric": _COUNTER.format("name"), "unit": _COUNTER.format("units"),
            "value": "printf('%!.17g', t.value)",
        },
    ),
    context=r"rocpd_(info|metadata|string|event|arg|track|pmc_event)",
)  # fmt: skip


# rocprof v1 with --sqlite, and RPDTracer: names stand in the rows themselves, or in one table

_V1 = _row(start="t.BeginNs", end="t.EndNs")
_OWN_PID = "coalesce(t.pid, 0)"
_V1_API = _V1 | {"globalTid": f"({_OWN_PID} << 32) | coalesce(t.tid, 0)", "correlationId": 't."Index"'}

ROCPROF_V1 = Dialect(
    "rocprof",
    "AMD rocprof",
    frozenset({"KERN", "A"}),
    (
        _as(
            f"{_CUPTI}KERNEL", "KERN",
            _V1
            | {
                "deviceId": 't."gpu-id"', "streamId": 't."queue-id"', "gridX": "t.grd / t.wgr", "gridY": "1",
                "gridZ": "1", "blockX": "t.wgr", "blockY": "1", "blockZ": "1", "registersPerThread": "t.arch_vgpr",
                "staticSharedMemory": "t.lds", "dynamicSharedMemory": "0", "demangledName": "4 * t.rowid",
                "globalPid": f"{_OWN_PID} << 32", "correlationId": 't."Index"',
            },
        ),
        _as(
            f"{_CUPTI}MEMCPY", "COPY",
            _V1
            | {
                "copyKind": "CASE t.Name WHEN 'CopyHostToDevice' THEN 1 WHEN 'CopyDeviceToHost' THEN 2"
                " WHEN 'CopyDeviceToDevice' THEN 8 ELSE 0 END",
            },
        ),
        *(
            _as(f"{_CUPTI}RUNTIME", name, _V1_API | {"nameId": f"4 * t.rowid + {side + 1}", "eventClass": str(side)})
            for side, name in enumerate(("HIP", "HSA"))
        ),
    ),
    strings=(
        ("KERN", "4 * t.rowid", "trim(t.KernelName, '\"')"),
        ("HIP", "4 * t.rowid + 1", "t.Name"),
        ("HSA", "4 * t.rowid + 2", "t.Name"),
    ),
    ids=PLAIN,
    context=r"(A|rocpd_.*)$",
)  # fmt: skip

_RPD_OP = _row(
    "start", "end", deviceId="t.gpuId", streamId="t.queueId",
    correlationId="(SELECT o.api_id FROM {rocpd_api_ops} AS o WHERE o.op_id = t.id LIMIT 1)",
    globalPid="(SELECT a.pid FROM {rocpd_api} AS a LIMIT 1) << 32",
)  # fmt: skip
_RPD_TYPE = "(SELECT s.string FROM {rocpd_string} AS s WHERE s.id = t.opType_id)"

RPD = Dialect(
    "rocprof",
    "RPDTracer",
    frozenset({"rocpd_op", "rocpd_api", "rocpd_string"}),
    (
        _as(
            f"{_CUPTI}KERNEL", "rocpd_op", _RPD_OP | {"demangledName": "t.description_id"},
            f"coalesce({_RPD_TYPE}, '') NOT LIKE 'Copy%'",
        ),
        _as(
            f"{_CUPTI}MEMCPY", "rocpd_op",
            _RPD_OP
            | {
                "copyKind": f"CASE {_RPD_TYPE} WHEN 'CopyHostToDevice' THEN 1 WHEN 'CopyDeviceToHost' THEN 2"
                " WHEN 'CopyDeviceToDevice' THEN 8 ELSE 0 END"
            },
            f"{_RPD_TYPE} LIKE 'Copy%'",
        ),
        _as(
            f"{_CUPTI}RUNTIME", "rocpd_api",
            _row("start", "end", globalTid="(t.pid << 32) | t.tid", correlationId="t.id", nameId="t.apiName_id"),
        ),
    ),
    strings=(("rocpd_string", "t.id", "t.string"),),
    ids=PLAIN,
    context=r"rocpd_",
)  # fmt: skip

DIALECTS = (ROCPD, NVPROF, ROCPROF_V1, RPD)
