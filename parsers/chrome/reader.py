"""Reads one Chrome trace: chunks in parallel on the fast path, the rest on the slow path."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from tracetui.parsers import categories, resources
from tracetui.parsers.arrays import Codes
from tracetui.parsers.bytes_source import ByteSource
from tracetui.parsers.categories import NULL_CODE, encodable
from tracetui.parsers.chrome import classify, columns, forms, layout, xla
from tracetui.parsers.chrome.chunks import Chunk, ChunkReader
from tracetui.parsers.chrome.collectives import TEXTS
from tracetui.parsers.chrome.columns import Columns, Events
from tracetui.parsers.chrome.frames import build_trace
from tracetui.parsers.chrome.layout import whole
from tracetui.parsers.chrome.pieces import decode, split
from tracetui.parsers.chrome.records import Collector
from tracetui.parsers.chrome.scan import HOST_NAMES, XLA_TEXTS, Part, scan
from tracetui.parsers.chrome.tokens import Irregular
from tracetui.parsers.chrome.xla import DEVICE_PROCESS
from tracetui.parsers.errors import Cancelled, TraceError
from tracetui.parsers.iterations import whole_steps, with_steps
from tracetui.parsers.names.collectives import MOST_RANKS
from tracetui.parsers.names.people import MAY_HOLD_HOME, without_home, without_users
from tracetui.parsers.progress import Progress, Watch
from tracetui.parsers.resources import in_order
from tracetui.parsers.tally import Tally
from tracetui.parsers.tool_registry import EXAMPLES
from tracetui.parsers.trace import DeviceInfo, ProcessGroup, Source, Trace, TraceInfo

NO_CODES = np.empty(0, np.uint32)
CAPTURE_KEYS = (
    "record_shapes", "with_stack", "with_modules", "with_flops", "profile_memory",
    "cupti_version", "cuda_runtime_version", "cuda_driver_version", "hip_runtime_version", "hip_driver_version",
    "schemaVersion", "trace_id",
)  # fmt: skip
"""The only header keys that are kept: newer files also carry environment variables and host names."""


def trace_info(events: Events) -> TraceInfo:
    """The context of a Chrome trace, from its top-level keys and its ``ph: M`` events."""
    header = events.header
    distributed = _mapping(header.get("distributedInfo"))
    processes = {pid: name for pid, _, name in _named(events.metadata, "process_name")}
    named = list(_named(events.metadata, "thread_name"))
    threads = {(pid, tid, without_users(name)) for pid, tid, name in named if tid is not None}
    known = classify.is_classified(events)
    tool = forms.tool_of(events, processes.values(), {name for _, _, name in named}, known=known)
    is_jax = any(name.startswith(("/device:", "/host:")) for name in processes.values())
    is_jax |= any((events.groups["device"].get(name, NO_CODES) != NULL_CODE).any() for name in ("hlo_op", "step_num"))
    is_jax &= tool != forms.TENSORFLOW
    own = layout.own(header)
    return TraceInfo(
        kind="jax" if is_jax else "chrome",
        tool="JAX profiler" if is_jax else tool or "Chrome trace",
        rank=whole(distributed.get("rank")),
        world_size=whole(distributed.get("world_size")),
        devices=_described_devices(header) or _jax_devices(processes.values()),
        captured=tuple((key, encodable(_said(header[key]))) for key in CAPTURE_KEYS if key in header),
        window=events.window,
        base_time=whole(header.get("baseTimeNanoseconds")),
        processes=tuple((pid, without_users(name)) for pid, name in sorted(processes.items())),
        threads=tuple(sorted(threads)),
        run_id=_text(own.get("run")),
        recorded_pass=_text(own.get("pass")),
        groups=_groups(distributed.get("pg_config")),
    )


def _groups(config: Any) -> tuple[ProcessGroup, ...]:
    found = []
    for entry in config if isinstance(config, list) else ():
        name = _mapping(entry).get("pg_name")
        if name is None:
            continue
        ranks = entry.get("ranks")
        numbers = [whole(rank) for rank in ranks] if isinstance(ranks, list) else []
        members = tuple(number for number in numbers if number is not None)
        size = whole(entry.get("pg_size"))
        size = size if size is not None and 0 < size < MOST_RANKS else None
        complete = len(members) == len(numbers) and size in (None, len(members))
        found.append(ProcessGroup(encodable(str(name)), _text(entry.get("pg_desc")), size, members if complete else ()))
    return tuple(found)


def _said(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return encodable(value) if isinstance(value, str) else None


def _named(metadata: list[dict[str, Any]], kind: str) -> Iterable[tuple[int, int | None, str]]:
    """The process, thread and name of the events that name one of this kind."""
    for event in metadata:
        pid, name = whole(event.get("pid")), _mapping(event.get("args")).get("name")
        if event.get("name") == kind and pid is not None and isinstance(name, str):
            yield pid, _thread(event.get("tid")), encodable(name)


def _thread(value: Any) -> int | None:
    number = whole(value)
    if number is None and isinstance(value, str) and (digits := re.search(r"(?<!\d)\d{1,18}(?!\d)", value)):
        return int(digits.group())
    return number


def _jax_devices(names: Iterable[str]) -> tuple[DeviceInfo, ...]:
    """The accelerators that have their own process; of a TPU only the name is known."""
    found = {int(match["number"]): match[1] for name in names if (match := DEVICE_PROCESS.match(name))}
    return tuple(DeviceInfo(id=number, name=None if kind == "GPU" else kind) for number, kind in sorted(found.items()))


_AMD_NAME = re.compile(r"\b(amd|radeon|instinct)\b", re.IGNORECASE)
_AMD_HEADER = ("hip_runtime_version", "hip_driver_version", "roctracer_version", "rocprofiler_version")
_WAVEFRONT = 64
"""Threads that AMD's data-centre GPUs run as one."""
_ARCHITECTURES = {
    ("9.0", 60): "gfx906", ("9.0", 104): "gfx90a", ("9.0", 110): "gfx90a", ("9.0", 120): "gfx908",
    ("9.4", None): "gfx942", ("9.5", None): "gfx950",
}  # fmt: skip
"""By version and compute units: the stepping is not in the file. MI50, MI210 and MI250 (a die), MI250X, MI100;
MI300A, MI300X and MI325X; MI350X and MI355X (LLVM's table of AMDGPU processors)."""


def _described_devices(header: Mapping[str, Any]) -> tuple[DeviceInfo, ...]:
    """The devices in a trace's header, under Kineto's ``deviceProperties``.

    ROCm fills in the same keys for AMD's GPUs. Their major and minor are the beginning of the architecture's name (9
    and 4 of gfx942), no compute capability, and their SMs are compute units.
    """
    properties = header.get("deviceProperties")
    if not isinstance(properties, list):
        return ()
    of_rocm = any(key in header for key in _AMD_HEADER)
    rows = ((position, entry if isinstance(entry, dict) else {}) for position, entry in enumerate(properties))
    return tuple(_device(position, entry, of_rocm=of_rocm) for position, entry in rows)


def _device(position: int, said: dict[str, Any], *, of_rocm: bool) -> DeviceInfo:
    number, units = whole(said.get("id")), whole(said.get("numSms"))
    name = (encodable(said["name"]) or None) if isinstance(said.get("name"), str) else None
    major, minor = whole(said.get("computeMajor")), whole(said.get("computeMinor"))
    version = None if major is None or minor is None else f"{major}.{minor}"
    warp = whole(said.get("warpSize"))
    amd = of_rocm or warp == _WAVEFRONT or _AMD_NAME.search(name or "") is not None
    return DeviceInfo(
        id=position if number is None else number,
        name=name,
        compute_capability=None if amd else version,
        architecture=architecture(version, units) if amd and version else None,
        sm_count=units,
        memory_bytes=whole(said.get("totalGlobalMem")),
        max_threads_per_sm=whole(said.get("maxThreadsPerMultiprocessor")),
        warp_size=warp,
        registers_per_sm=whole(said.get("regsPerMultiprocessor")),
        shared_memory_per_sm=whole(said.get("sharedMemPerMultiprocessor")),
    )


def architecture(version: str, units: int | None) -> str:
    """The name of AMD's architecture; an x stands for what the file doesn't tell."""
    known = _ARCHITECTURES.get((version, units)) or _ARCHITECTURES.get((version, None))
    return known or f"gfx{version.replace('.', '')}x"


ESCAPABLE = {"name", *HOST_NAMES, *XLA_TEXTS, *TEXTS}
"""Columns of plain strings."""
JSON_TEXTS = ("input_shapes", "input_types")
"""Columns of raw JSON text."""
ODD_NUMBERS = r"\d[.eE]|-0"
"""What numbers have that may be spelled in several ways."""


def read_chrome(path: Path, watch: Watch | None = None) -> Trace:
    """Reads a Chrome trace, plain or gzip, into the six frames.

    Raises:
        TraceError: the file can't be read or holds no trace.
        Cancelled: stopped before the first event.
    """
    watch = watch or Watch()
    tally = Tally()
    events = read_events(path, tally, watch)
    if events.partial and not events.total:
        raise Cancelled
    size = path.stat().st_size
    watch.report(Progress("linking", size, size, events.parsed, path))
    source = Source(path, size, events.total, events.parsed, events.partial)
    info = trace_info(events)
    if info.tool in forms.LACKS:
        tally.missing(forms.LACKS[info.tool])
    if info.kind == "jax" and 0 <= events.total - xla.EVENT_LIMIT <= len(events.metadata):
        tally.missing("XLA's profiler stops at a million events: the .xplane.pb beside it has those that came later")
    return whole_steps(with_steps(build_trace(events, info, source, tally)))


def read_events(path: Path, tally: Tally, watch: Watch) -> Events:
    """Reads a file's events into columns, not yet sorted or linked: in file order, those of the slow path last."""
    found = Tally()
    events, again = _read(path, found, watch)
    if again is not None:
        start, keys = again
        found, header = Tally(), events.header
        found.repaired(layout.TWICE)
        events, _ = _read(path, found, watch, start)
        events.header = {**header, **keys, **events.header}
    tally.take_over(found.notes())
    return events


def _read(
    path: Path, tally: Tally, watch: Watch, start: int = 0
) -> tuple[Events, tuple[int, Mapping[str, Any]] | None]:
    """Reads the list of events that begins at `start`, or the first one; returns where another one begins, too."""
    parts: dict[str, list[Columns]] = {name: [] for name in columns.GROUPS}
    collector = Collector(tally)
    scanned, partial = 0, False
    resources.keep_chunks_in_heap()
    with ByteSource(path) as source:
        reader = ChunkReader(source, start)
        for part in _scanned(reader):
            if isinstance(part, Chunk):
                collector.collect(split(part.buffer[: part.end].tobytes(), part.position, tally))
            else:
                scanned += part.parsed
                collector.collect(decode(part.decode, tally))
                if part.has_escapes:
                    _unescape(part.groups)
                for name, group in part.groups.items():
                    parts[name].append(group)
            done = source.compressed_position()
            watch.report(Progress("reading", done, source.size, scanned + collector.parsed, path))
            if watch.cancelled:
                partial = True
                break
        else:
            collector.collect(split(reader.last, reader.last_position, tally))
            nothing = not scanned and not collector.parsed and not collector.metadata
            if not reader.tell_early_end(tally) and nothing and layout.is_list(reader.head):
                skipped = ", ".join(f"{note.count:,} × {note.reason}" for note in tally.notes())
                why = f"JSON, but not a trace: none of it is an event that is read{skipped and f' ({skipped})'}"
                raise TraceError(path, why, f"give {EXAMPLES}")
    for name, group in collector.finish().items():
        parts[name].append(group)
    resources.release_freed()
    groups = {name: columns.concatenate(columns.GROUPS[name], parts.pop(name)) for name in columns.GROUPS}
    host = groups["host"]
    for column in JSON_TEXTS:  # as Kineto spells them, so that the same shape is the same text in every file
        _rewrite(host[column], _spelled, ODD_NUMBERS if reader.is_kineto else "")
    for column in {"name", "stack", "kernel_file"} & host.keys():  # functions of Python are named by their file
        _rewrite(host[column], without_home, MAY_HOLD_HOME)
    parsed = scanned + collector.parsed
    events = Events(
        groups,
        collector.metadata,
        reader.header,
        collector.window,
        total=parsed + tally.skipped_events,
        parsed=parsed,
        partial=partial,
    )
    return events, reader.again or collector.again


def _scanned(chunks: Iterable[Chunk]) -> Iterator[Part | Chunk]:
    """Scans chunks on all cores, in file order; returns a chunk unread if the fast path can't read it."""

    def work(chunk: Chunk) -> Part | Chunk:
        try:
            return scan(chunk)
        except Irregular:
            return chunk

    return in_order(work, chunks)


def _unescape(groups: dict[str, Columns]) -> None:
    """Resolves JSON escapes in the strings that the fast path took over raw."""
    for group in groups.values():
        for column in ESCAPABLE & group.keys():
            _rewrite(group[column], lambda text: json.loads(f'"{text}"', strict=False), r"\\")
        for column in set(JSON_TEXTS) & group.keys():
            _rewrite(group[column], _spelled, r"\\")


def _spelled(text: str) -> str:
    """JSON text as the slow path writes it; whole numbers without a fraction or exponent."""
    return json.dumps(json.loads(text, strict=False, parse_float=_plain_number), ensure_ascii=False)


_EXACT = 2**53
"""Below it a float holds each whole number."""


def _plain_number(text: str) -> int | float:
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < _EXACT else value


def _rewrite(codes: Codes, plain: Callable[[str], str], only: str) -> None:
    """Replaces the strings that match a regular expression, all at once: one may become what another was."""
    better: dict[int, str] = {}
    for code, text in categories.texts(codes[categories.matching(codes, only)]).items():
        with suppress(ValueError, RecursionError):  # what is not JSON, or nested too deeply to be, stays unchanged
            if (new := plain(text)) != text:
                better[code] = new
    if not better:
        return
    known = np.array(sorted(better), codes.dtype)
    at = np.minimum(np.searchsorted(known, codes), known.size - 1)
    changed = known[at] == codes
    codes[changed] = categories.encode([better[code] for code in known.tolist()])[at[changed]]
