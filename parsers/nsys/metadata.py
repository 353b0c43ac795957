"""Reads what a file says about the recording: tools, GPUs, threads, settings, the profiler's own warnings.

Settings and system properties are selected by name, since the same tables hold the profiled program's environment.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from msgspec import Struct, field

from tracetui.parsers.names.people import without_users
from tracetui.parsers.nsys.database import Database, Query
from tracetui.parsers.nsys.dialects import Dialect
from tracetui.parsers.nsys.privacy import is_environment
from tracetui.parsers.nsys.scan import read_carefully
from tracetui.parsers.nsys.tables import Vocabulary
from tracetui.parsers.tally import Tally
from tracetui.parsers.trace import DeviceInfo

COPY_KINDS = {
    0: "Unknown", 1: "Host-to-Device", 2: "Device-to-Host", 3: "Host-to-Array", 4: "Array-to-Host",
    5: "Array-to-Array", 6: "Array-to-Device", 7: "Device-to-Array", 8: "Device-to-Device", 9: "Host-to-Host",
    10: "Peer-to-Peer", 11: "Unified Host-to-Device", 12: "Unified Device-to-Host", 13: "Unified Device-to-Device",
}  # fmt: skip
MEMORY_KINDS = {
    0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device Static", 6: "Managed Static",
    7: "Unknown",
}  # fmt: skip
"""The content of ENUM_CUDA_MEMCPY_OPER and ENUM_CUDA_MEM_KIND, for older files without these tables."""

EXPORT_TABLES = ("META_DATA_EXPORT", "EXPORT_META_DATA")
SHOWN_SETTINGS = {
    "EXPORT_SCHEMA_VERSION": "export schema",
    "EXPORT_PLATFORM": "platform",
    "EXPORT_ARCH": "architecture",
    "CAPTURE_EVENT_TYPE": "traced",
    "START_TRIGGER": "capture starts",
    "STOP_TRIGGER": "capture stops",
    "CUDA_GRAPH_TRACE_OPTIONS:MODE": "CUDA graph trace",
    "COLLECT_GPU_MEMORY_USAGE": "GPU memory usage",
    "CpuDescription": "CPU",
    "CpuCores": "CPU cores",
    "OsDescription": "operating system",
    "NvDriverVersion": "NVIDIA driver",
    "CudaDriverVersion": "CUDA driver",
    "HardwarePlatform": "hardware platform",
    "SoftwarePlatform": "software platform",
}
"""The properties that are shown; no other is read."""
VALUE_LENGTH = 200


class Metadata(Struct):
    """The context of a recording."""

    product_version: str | None = None
    settings: tuple[tuple[str, str], ...] = ()
    gpus: tuple[DeviceInfo, ...] = ()
    gpu_of: dict[tuple[int, int], int] = field(default_factory=dict)
    """The GPU behind (process, the number it gave the GPU), where processes number them differently."""
    cuda_of: dict[int, int] = field(default_factory=dict)
    """CUDA's number of each GPU, by nsys's own; empty where processes number them differently."""
    processes: tuple[tuple[int, str], ...] = ()
    thread_names: tuple[tuple[int, int, int], ...] = ()
    """(global thread id, priority, string id)"""
    capture: tuple[int | None, int | None] = (None, None)
    """Start and duration of the recording, ns on a clock that may begin earlier than that of the events."""
    base_time: int | None = None


class SmallTables:
    """Reads small tables, as far as they exist."""

    def __init__(self, database: Database, connection: sqlite3.Connection, tally: Tally) -> None:
        self._database, self._connection, self._tally = database, connection, tally

    def rows(self, name: str, *integers: str, texts: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        """The table's rows by column; a missing column or an empty text is None."""
        table = self._database.tables.get(name)
        return [] if table is None else self._read(Query.of(table, *integers, texts=texts), (*integers, *texts))

    def computed(
        self, dialect: Dialect, name: str, columns: dict[str, str], texts: tuple[str, ...] = (), where: str = ""
    ) -> list[dict[str, Any]]:
        """The rows of another program's table by our names of its columns."""
        found = []
        for part in dialect.parts(self._database):
            if name in part:
                table = self._database.tables[part[name][1:-1]]
                query = Query.computing(table, self._connection, part, columns, texts, where)
                found += self._read(query, tuple(columns))
        return found

    def _read(self, query: Query, columns: tuple[str, ...]) -> list[dict[str, Any]]:
        if not query.columns:
            return []
        blank = dict.fromkeys(columns)
        found = read_carefully(self._connection, query, self._tally)
        return [
            blank | {column: _decoded(value) for column, value in row.items() if value != b""}
            for row in found.iter_rows(named=True)
        ]


def _decoded(value: object) -> Any:
    """A text of the file, whatever its bytes are; a number as it is."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


LABELS = Vocabulary(COPY_KINDS, MEMORY_KINDS)


def vocabulary(tables: SmallTables) -> Vocabulary:
    """The labels from the file, else the ones that have always been used."""

    def labels(table: str, known: dict[int, str]) -> dict[int, str]:
        rows = tables.rows(table, "id", texts=("label", "name"))
        return known | {row["id"]: row["label"] for row in rows if row["id"] is not None and row["label"]}

    return Vocabulary(labels("ENUM_CUDA_MEMCPY_OPER", COPY_KINDS), labels("ENUM_CUDA_MEM_KIND", MEMORY_KINDS))


def read(tables: SmallTables, dialect: Dialect) -> Metadata:
    """Reads everything but the events, their names, and what the profiler warns of."""
    export = [row for name in EXPORT_TABLES for row in tables.rows(name, texts=("name", "value"))]
    version = next((row["value"] for row in export if row["name"] == "EXPORT_PRODUCT_VERSION"), None)
    settings = [
        *export,
        *tables.rows("META_DATA_CAPTURE", texts=("name", "value")),
        *tables.rows("TARGET_INFO_SYSTEM_ENV", texts=("name", "value")),
    ]
    started = tables.rows("TARGET_INFO_SESSION_START_TIME", "utcEpochNs")
    details = tables.rows("ANALYSIS_DETAILS", "startTime", "stopTime", "duration")
    capture = (details[0]["startTime"], details[0]["duration"]) if details else (None, None)
    gpu_of = {
        (row["pid"], row["cudaId"]): row["gpuId"]
        for row in tables.rows("TARGET_INFO_CUDA_DEVICE", "gpuId", "cudaId", "pid")
        if None not in (row["pid"], row["cudaId"], row["gpuId"])
    }
    gpus = _gpus(tables, dialect)
    cuda_of = _cuda_of(gpu_of, gpus)
    return Metadata(
        product_version=version,
        settings=_shown(settings) + tuple(_settings(tables, dialect)),
        gpus=tuple(sorted((replace(gpu, id=cuda_of.get(gpu.id, gpu.id)) for gpu in gpus), key=lambda gpu: gpu.id)),
        gpu_of={} if cuda_of else gpu_of,
        cuda_of=cuda_of,
        processes=_processes(tables),
        thread_names=tuple(
            (row["globalTid"], row["priority"] or 0, row["nameId"])
            for row in tables.rows("ThreadNames", "nameId", "priority", "globalTid")
            if row["globalTid"] is not None and row["nameId"] is not None
        ),
        capture=capture,
        base_time=started[0]["utcEpochNs"] if started else None,
    )


def _cuda_of(gpu_of: dict[tuple[int, int], int], gpus: tuple[DeviceInfo, ...]) -> dict[int, int]:
    """CUDA's number of each GPU, which its work has and `nsys stats` prints; a GPU without one takes a free one.

    Empty where processes disagree (each may see another GPU as its first): only nsys's numbers tell those apart.
    """
    pairs = {(gpu, cuda) for (_, cuda), gpu in gpu_of.items()}
    found = dict(pairs)
    if not len(pairs) == len(found) == len(set(found.values())):
        return {}
    rest = [gpu.id for gpu in gpus if gpu.id not in found]
    free = (number for number in range(len(gpus) + len(found)) if number not in set(found.values()))
    return found | dict(zip(rest, free, strict=False)) if found else {}


def _shown(rows: list[dict[str, Any]]) -> tuple[tuple[str, str], ...]:
    """The properties in the list, values of the same one joined in their own order: rows may stand in any."""
    found: dict[str, list[str]] = {}
    for row in rows:
        name, value = row["name"], row["value"]
        if not name or not value:
            continue
        label = SHOWN_SETTINGS.get(name) or SHOWN_SETTINGS.get(name.partition(":")[2])
        if label and not is_environment(value) and len(value) <= VALUE_LENGTH and value.isprintable():
            values = found.setdefault(label, [])
            if value not in values:
                values.append(value)
    return tuple((label, ", ".join(sorted(found[label]))) for label in SHOWN_SETTINGS.values() if label in found)


def _settings(tables: SmallTables, dialect: Dialect) -> Iterator[tuple[str, str]]:
    for label, (table, sql) in dialect.settings.items():
        rows = tables.computed(dialect, table, {"value": sql}, ("value",))
        if value := next((row["value"] for row in rows if row["value"]), None):
            yield label, value[:VALUE_LENGTH]


def _gpus(tables: SmallTables, dialect: Dialect) -> tuple[DeviceInfo, ...]:
    columns = (
        "id", "totalMemory", "smCount", "threadsPerWarp", "maxWarpsPerSm", "maxRegistersPerSm", "maxShmemPerSm",
        "computeMajor", "computeMinor", "maxBlocksPerSm", "clockRate", "memoryBandwidth",
    )  # fmt: skip
    table, computed, where = dialect.gpus
    if computed:
        rows = tables.computed(dialect, table, computed, ("name",), where)
    else:
        rows = tables.rows(table, *columns, texts=("name",))
    gpus = {row["id"]: gpu_of(row) for row in rows if row["id"] is not None}
    return tuple(gpus[number] for number in sorted(gpus))


def gpu_of(row: Mapping[str, Any]) -> DeviceInfo:
    """A GPU by the words of nsys's table for its properties; what is not said is null."""
    warps, warp = row.get("maxWarpsPerSm"), row.get("threadsPerWarp")
    major, minor = row.get("computeMajor"), row.get("computeMinor")
    return DeviceInfo(
        id=row["id"],
        name=row.get("name") or None,
        compute_capability=None if major is None or minor is None else f"{major}.{minor}",
        architecture=_gfx(row.get("gfx")),
        sm_count=row.get("smCount"),
        memory_bytes=row.get("totalMemory"),
        max_threads_per_sm=warps * warp if warps and warp else None,
        warp_size=warp,
        registers_per_sm=row.get("maxRegistersPerSm"),
        shared_memory_per_sm=row.get("maxShmemPerSm"),
        max_blocks_per_sm=row.get("maxBlocksPerSm"),
        clock_hz=row.get("clockRate") or None,
        memory_bandwidth=row.get("memoryBandwidth") or None,
    )


def gpu_of_amd(number: int, name: str | None, said: Mapping[str, Any]) -> DeviceInfo:
    """A GPU as ROCm describes an agent, in its words."""
    lds, clock = said.get("lds_size_in_kb"), said.get("max_engine_clk_fcompute")
    known = {
        "id": number, "name": name, "smCount": said.get("cu_count"), "gfx": said.get("gfx_target_version"),
        "threadsPerWarp": said.get("wave_front_size"), "maxWarpsPerSm": said.get("max_waves_per_cu"),
        "maxShmemPerSm": lds << 10 if lds else None, "clockRate": clock * 1_000_000 if clock else None,
    }  # fmt: skip
    return gpu_of(known)


def _gfx(version: int | None) -> str | None:
    """AMD's name of an architecture: ``gfx942`` for 90402."""
    return None if not version else f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def _processes(tables: SmallTables) -> tuple[tuple[int, str], ...]:
    rows = tables.rows("PROCESSES", "globalPid", "pid", texts=("name",))
    named = {row["pid"]: row["name"] for row in rows if row["pid"] is not None and row["name"]}
    return tuple((pid, without_users(name)) for pid, name in sorted(named.items()) if not is_environment(name))
