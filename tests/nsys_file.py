"""Makes small Nsight Systems exports (SQLite) for tests, in the schemas of several years.

    file = NsysFile()
    with file.range("step", 0, 100):  # any time; what stands inside is only for the eye
        file.launch("gemm", call=(10, 20), kernel=(30, 60))
    path = file.write(tmp_path / "a.sqlite")

Times are ns. Processes and threads are numbers of the operating system. Tables come to be with their first row, as
nsys makes them. ``file.row("TABLE", column=value)`` writes anything else.
"""

import gzip
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PID = 100
VM = 1 << 48

_DEVICE = "start end deviceId contextId greenContextId streamId correlationId globalPid"
_NVTX = (
    "start end eventType rangeId category color text:TEXT globalTid endGlobalTid textId domainId uint64Value "
    "int64Value doubleValue:REAL uint32Value int32Value floatValue:REAL jsonTextId jsonText:TEXT binaryData:TEXT"
)
SCHEMA = {
    "StringIds": "id value:TEXT",
    "CUPTI_ACTIVITY_KIND_KERNEL": f"{_DEVICE} demangledName shortName mangledName launchType cacheConfig "
    "registersPerThread gridX gridY gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory "
    "localMemoryPerThread localMemoryTotal gridId sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig",
    "CUPTI_ACTIVITY_KIND_MEMCPY": f"{_DEVICE} bytes copyKind deprecatedSrcId srcKind dstKind srcDeviceId srcContextId "
    "dstDeviceId dstContextId migrationCause graphNodeId virtualAddress copyCount",
    "CUPTI_ACTIVITY_KIND_MEMSET": f"{_DEVICE} value bytes graphNodeId memKind",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": f"{_DEVICE} deprecatedSyncType syncType eventId eventSyncId",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": f"{_DEVICE} graphId graphExecId",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end eventClass globalTid correlationId nameId returnValue callchainId",
    "CUDA_GRAPH_EVENTS": "start end eventClass globalTid nameId graphId originalGraphId graphExecId",
    "OSRT_API": "start end eventClass globalTid correlationId nameId returnValue nestingLevel callchainId",
    "PROFILER_OVERHEAD": "start end globalTid nameId returnValue",
    "NVTX_EVENTS": _NVTX,
    "ThreadNames": "nameId priority globalTid",
    "PROCESSES": "globalPid pid name:TEXT",
    "TARGET_INFO_GPU": "vmId id name:TEXT busLocation:TEXT isDiscrete l2CacheSize totalMemory memoryBandwidth "
    "clockRate smCount uuid:TEXT chipName:TEXT maxShmemPerSm maxRegistersPerSm threadsPerWarp maxWarpsPerSm "
    "computeMajor computeMinor",
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId pid",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs utcTime:TEXT localTime:TEXT",
    "TARGET_INFO_SYSTEM_ENV": "globalVid devStateName:TEXT name:TEXT nameEnum value:TEXT",
    "ANALYSIS_DETAILS": "globalVid duration startTime stopTime",
    "DIAGNOSTIC_EVENT": "timestamp timestampType source severity text:TEXT globalPid",
    "META_DATA_EXPORT": "name:TEXT value:TEXT",
    "EXPORT_META_DATA": "name:TEXT value:TEXT",
    "META_DATA_CAPTURE": "name:TEXT value:TEXT",
    "ENUM_CUDA_MEMCPY_OPER": "id name:TEXT label:TEXT",
    "ENUM_CUDA_MEM_KIND": "id name:TEXT label:TEXT",
    "ProcessStreams": "globalPid filenameId contentId",
}
"""Columns of each table in 2025; those without a type are whole numbers."""

LATER_COLUMNS = {
    2020: {"mangledName", "greenContextId", "deprecatedSyncType", "binaryData", "jsonTextId", "jsonText", "copyCount",
           "virtualAddress", "endGlobalTid", "graphExecId"},
    2022: {"greenContextId", "deprecatedSyncType", "binaryData", "copyCount", "virtualAddress"},
    2025: set(),
}  # fmt: skip
"""What the schemas of earlier years lack."""


def global_pid(pid: int) -> int:
    return VM | pid << 24


def global_tid(pid: int, tid: int) -> int:
    return global_pid(pid) | tid


class NsysFile:
    """Rows of an export, written at the end."""

    def __init__(self, year: int = 2025, *, version: str | None = "2025.3.2.0") -> None:
        self.year = year
        self.tables: dict[str, list[dict[str, Any]]] = {}
        self.declared: dict[str, str] = {}
        self._strings: dict[str | bytes, int] = {}
        self._correlation = 0
        self.row("ProcessStreams", globalPid=global_pid(PID), filenameId=None, contentId=None)
        if version and year >= 2022:
            self.setting("EXPORT_PRODUCT_VERSION", version)

    def row(self, table: str, **values: Any) -> None:
        """A row of any table; columns that are not in `SCHEMA` are added as they come."""
        self.tables.setdefault(table, []).append(values)

    def declare(self, table: str, columns: str) -> None:
        """Gives a table other columns than `SCHEMA` does, in its spelling."""
        self.declared[table] = columns
        self.tables.setdefault(table, [])

    def string(self, text: str | bytes | None) -> int | None:
        """The number of a string."""
        if text is None:
            return None
        if text not in self._strings:
            self._strings[text] = len(self._strings)
            self.row("StringIds", id=self._strings[text], value=text)
        return self._strings[text]

    def correlation(self) -> int:
        """A number not given before."""
        self._correlation += 1
        return self._correlation

    # what ran on a GPU

    def _device(self, start: int | None, end: int | None, **more: Any) -> dict[str, Any]:
        pid = more.pop("pid", PID)
        known = {"device": "deviceId", "stream": "streamId", "context": "contextId", "correlation": "correlationId"}
        values = {"deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": None, "globalPid": global_pid(pid)}
        values |= {known.get(name, name): value for name, value in more.items()}
        return values | {"start": start, "end": end}

    def kernel(self, name, start, end, *, short=None, grid=(1, 1, 1), block=(32, 1, 1), **more) -> None:
        """A kernel; `more` are pid, device, stream, context, correlation, or columns by their own name."""
        values = self._device(start, end, **more)
        defaults = {
            "demangledName": self.string(name), "shortName": self.string(short or name),
            "mangledName": self.string(name), "registersPerThread": 32, "staticSharedMemory": 0,
            "dynamicSharedMemory": 0, **dict(zip(("gridX", "gridY", "gridZ"), grid, strict=True)),
            **dict(zip(("blockX", "blockY", "blockZ"), block, strict=True)),
        }  # fmt: skip
        self.row("CUPTI_ACTIVITY_KIND_KERNEL", **(defaults | values))

    def memcpy(self, start, end, *, kind=1, source=0, target=2, bytes=1024, **more) -> None:
        values = self._device(start, end, **more)
        self.row("CUPTI_ACTIVITY_KIND_MEMCPY", copyKind=kind, srcKind=source, dstKind=target, bytes=bytes, **values)

    def memset(self, start: int, end: int, *, memory: int = 2, bytes: int = 1024, **more: Any) -> None:
        self.row("CUPTI_ACTIVITY_KIND_MEMSET", memKind=memory, bytes=bytes, **self._device(start, end, **more))

    def graph(self, start: int, end: int, *, graph: int | None = 1, exec_id: int | None = None, **more: Any) -> None:
        values = self._device(start, end, **more)
        self.row("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", graphId=graph, graphExecId=exec_id, **values)

    def synchronization(self, start: int, end: int, *, sync_type: int = 3, **more: Any) -> None:
        values = self._device(start, end, **({"stream": 0xFFFFFFFF} | more))
        self.row("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", syncType=sync_type, **values)

    # what the host did

    def call(self, name, start, end, *, pid=PID, tid=None, correlation=None, driver=False, **more) -> int:
        """A CUDA API call; returns its correlation id."""
        number = self.correlation() if correlation is None else correlation
        values = {
            "start": start, "end": end, "eventClass": int(driver), "globalTid": global_tid(pid, tid or pid),
            "correlationId": number, "nameId": self.string(name), "returnValue": 0,
        }  # fmt: skip
        self.row("CUPTI_ACTIVITY_KIND_RUNTIME", **(values | more))
        return number

    def launch(
        self,
        name: str,
        call: tuple[int, int],
        kernel: tuple[int, int],
        *,
        pid: int = PID,
        tid: int | None = None,
        api: str = "cudaLaunchKernel_v7000",
        correlation: int | None = None,
        **more: Any,
    ) -> int:
        """A call and the kernel that it launches; returns their correlation id."""
        number = self.call(api, *call, pid=pid, tid=tid, correlation=correlation)
        self.kernel(name, *kernel, pid=pid, correlation=number, **more)
        return number

    def os_call(self, name, start, end, *, pid=PID, tid=None, event_class=27) -> None:
        values = {"eventClass": event_class, "globalTid": global_tid(pid, tid or pid), "nameId": self.string(name)}
        self.row("OSRT_API", start=start, end=end, **values)

    def overhead(self, name: str, start: int, end: int, *, pid: int = PID, tid: int | None = None) -> None:
        self.row(
            "PROFILER_OVERHEAD", start=start, end=end, globalTid=global_tid(pid, tid or pid), nameId=self.string(name)
        )

    # NVTX

    def nvtx(
        self,
        kind: int,
        text: str | bytes | None,
        start: int | None,
        end: int | None = None,
        *,
        registered: bool = False,
        pid: int = PID,
        tid: int | None = None,
        domain: int = 0,
        end_tid: int | None = None,
        **more: Any,
    ) -> None:
        """A row of NVTX_EVENTS; `registered` puts the text among the strings."""
        values = {
            "start": start, "end": end, "eventType": kind, "globalTid": global_tid(pid, tid or pid), "domainId": domain,
            "text": None if registered else text, "textId": self.string(text) if registered else None,
            "endGlobalTid": None if end_tid is None else global_tid(pid, end_tid),
        }  # fmt: skip
        self.row("NVTX_EVENTS", **(values | more))

    @contextmanager
    def range(self, text: str | bytes | None, start: int, end: int | None, **more: Any) -> Iterator[None]:
        """A push/pop range around what stands inside, for the eye: only the times count."""
        self.push_pop(text, start, end, **more)
        yield

    def push_pop(self, text: str | bytes | None, start: int, end: int | None, **more: Any) -> None:
        self.nvtx(59, text, start, end, **more)

    def start_end(self, text: str | bytes | None, start: int, end: int | None, **more: Any) -> None:
        self.nvtx(60, text, start, end, **more)

    def mark(self, text: str, at: int, **more: Any) -> None:
        self.nvtx(34, text, at, **more)

    def domain(self, name: str, number: int, at: int = 0, **more: Any) -> None:
        self.nvtx(75, name, at, domain=number, **more)

    # context

    def thread_name(self, name: str, tid: int, *, pid: int = PID, priority: int = 20) -> None:
        self.row("ThreadNames", nameId=self.string(name), priority=priority, globalTid=global_tid(pid, tid))

    def process(self, name: str, pid: int = PID) -> None:
        self.row("PROCESSES", globalPid=global_pid(pid), pid=pid, name=name)

    def gpu(self, number: int = 0, name: str = "NVIDIA H200", **more: Any) -> None:
        values = {
            "vmId": VM, "totalMemory": 150109880320, "smCount": 132, "maxShmemPerSm": 233472,
            "maxRegistersPerSm": 65536, "threadsPerWarp": 32, "maxWarpsPerSm": 64, "computeMajor": 9, "computeMinor": 0,
        }  # fmt: skip
        self.row("TARGET_INFO_GPU", id=number, name=name, **(values | more))

    def cuda_device(self, gpu: int, cuda: int, pid: int = PID) -> None:
        self.row("TARGET_INFO_CUDA_DEVICE", gpuId=gpu, cudaId=cuda, pid=pid)

    def diagnostic(self, text: str | bytes, severity: int = 2) -> None:
        self.row("DIAGNOSTIC_EVENT", timestamp=0, severity=severity, text=text, globalPid=global_pid(PID))

    def setting(self, name: str, value: str | bytes) -> None:
        """A property of the export, under the table's name of its year."""
        self.row("META_DATA_EXPORT" if self.year >= 2023 else "EXPORT_META_DATA", name=name, value=value)

    def capture_setting(self, name: str, value: str | bytes) -> None:
        self.row("META_DATA_CAPTURE", name=name, value=value)

    def system(self, name: str, value: str | bytes) -> None:
        self.row("TARGET_INFO_SYSTEM_ENV", name=name, value=value)

    # writing

    def write(self, path: Path) -> Path:
        """Writes the database, gzipped if the name ends so."""
        target = path.with_suffix("") if path.suffix == ".gz" else path
        connection = sqlite3.connect(target)
        for table, rows in self.tables.items():
            columns = self._columns(table, rows)
            described = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
            connection.execute(f"CREATE TABLE {table} ({described})")
            marks = ", ".join("CAST(? AS TEXT)" if kind == "TEXT" else "?" for kind in columns.values())
            values = [tuple(row.get(name) for name in columns) for row in rows]
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", values)
        connection.commit()
        connection.close()
        if target != path:
            path.write_bytes(gzip.compress(target.read_bytes()))
            target.unlink()
        return path

    def _columns(self, table: str, rows: list[dict[str, Any]]) -> dict[str, str]:
        """Name and type of each column."""
        absent = set() if table in self.declared else LATER_COLUMNS[self.year]
        spelt = self.declared.get(table, SCHEMA.get(table, "")).split()
        parts = [name.partition(":") for name in spelt]
        columns = {name: kind or "INTEGER" for name, _, kind in parts if name not in absent}
        for row in rows:
            for name in row:
                if name not in columns and name not in absent and table not in self.declared:
                    columns[name] = "INTEGER"
        if table == "StringIds":
            columns["id"] = "INTEGER NOT NULL PRIMARY KEY"
        return columns
