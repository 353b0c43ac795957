"""Reads XPlane (``.xplane.pb``), which JAX's and TensorFlow's profilers write: planes of lines of events with numbers.

The Chrome JSON that lies beside it is made from it, and cut at a million events. Planes are its processes, lines its
threads, and what is known of an event its arguments: so the events are put into the columns that JSON is read into, and
`xla` tells what they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, field

from tracetui.parsers import categories
from tracetui.parsers.bytes_source import ByteSource
from tracetui.parsers.chrome import columns
from tracetui.parsers.chrome.columns import NULL, OTHER_KIND, Columns, Events
from tracetui.parsers.chrome.frames import build_trace
from tracetui.parsers.chrome.reader import architecture, trace_info
from tracetui.parsers.chrome.xla import DEVICE_PROCESS
from tracetui.parsers.errors import Cancelled, TraceError
from tracetui.parsers.iterations import whole_steps, with_steps
from tracetui.parsers.progress import Progress, Watch
from tracetui.parsers.tally import Tally
from tracetui.parsers.trace import DeviceInfo, Source, Trace
from tracetui.parsers.wire import Damaged, Span, double, fields, signed, text

Said = dict[str, str | int | float | None]
"""What stats say, by their names."""

BLOCK = 1 << 22
TENSORFLOW = "TensorFlow profiler"
_STEPS = "Steps"
_DERIVED = "TensorFlow "
"""How lines begin that TensorFlow derives from its streams; JAX has none."""
_TEXTS = {
    "hlo_op": "hlo_op", "hlo_module": "hlo_module", "tf_op": "tf_op", "name": "op_name", "step_num": "step_num",
    "kernel_details": "kernel_details", "memcpy_details": "memcpy_details", "Memset_details": "memset_details",
    "context_id": "xla_context",
}  # fmt: skip
_NUMBERS = ("start", "duration", "process", "thread", "correlation", "offset")
_PICOSECONDS = 1000
_ANNOTATION = "annotation"
"""What TensorFlow has in the place of ``tf_op``: the operator, then its shapes behind a ``#``."""
_LARGEST = 1 << 62


class _Plane(Struct):
    """A plane's name, and where its parts lie."""

    name: str = ""
    lines: list[Span] = field(default_factory=list)
    events: dict[int, tuple[str, list[Span]]] = field(default_factory=dict)
    """The name of each kind of event, and what is known of all events of it."""
    stats: dict[int, str] = field(default_factory=dict)
    """The names of what is known of events; also texts that events refer to."""
    own: list[Span] = field(default_factory=list)
    """What is known of the plane."""


class _Read(Struct):
    """Events as they are read, column by column."""

    numbers: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in _NUMBERS})
    texts: dict[str, list[str | None]] = field(
        default_factory=lambda: {name: [] for name in ("name", *_TEXTS.values())}
    )
    metadata: list[dict[str, Any]] = field(default_factory=list)
    devices: list[DeviceInfo] = field(default_factory=list)
    base_time: int | None = None
    of_tensorflow: bool = False
    steps: dict[int, list[tuple[str, int, int]]] = field(default_factory=dict)
    """Name, start and duration of each step, by the plane that has a line of them."""

    def add_steps(self) -> None:
        """Makes the steps of the plane with the most of them events of the host, if the host has none of its own."""
        if not self.steps or any(name is not None for name in self.texts["step_num"]):
            return
        process, steps = max(self.steps.items(), key=lambda item: (len(item[1]), -item[0]))
        self.name("process_name", -process, f"/host:{_STEPS}")
        for name, start, duration in steps:
            self.add({"step_num": name}, name, start, duration, -process, 0, 0)

    def add(self, said: Said, name: str, start: int, duration: int, process: int, thread: int, offset: int) -> None:
        """Adds an event."""
        correlation = said.get("correlation_id")
        correlation = correlation if isinstance(correlation, int) else NULL
        values = (start, duration, process, thread, correlation, offset)
        for numbers, value in zip(self.numbers.values(), values, strict=True):
            numbers.append(value)
        self.texts["name"].append(name)
        for title, column in _TEXTS.items():
            found = said.get(title)
            self.texts[column].append(None if found is None else str(found))

    def name(self, kind: str, process: int, name: str, thread: int | None = None) -> None:
        """Notes the name of a process or a thread, as JSON has it."""
        self.metadata.append({"name": kind, "pid": process, "tid": thread, "args": {"name": name}})

    def groups(self) -> dict[str, Columns]:
        """The events as the reader of JSON has them; consumes them."""
        size = len(self.numbers["start"])
        device: Columns = {name: np.array(self.numbers.pop(name), np.int64) for name in list(self.numbers)}
        device |= {name: categories.encode(self.texts.pop(name)) for name in list(self.texts)}
        device["kind"] = np.full(size, OTHER_KIND, np.uint8)
        groups = {name: columns.concatenate(columns.GROUPS[name], []) for name in columns.GROUPS if name != "device"}
        return groups | {"device": columns.concatenate(columns.GROUPS["device"], [device])}


def read_xplane(path: Path, watch: Watch | None = None) -> Trace:
    """Reads an XPlane file, plain or gzip, as far as it is whole.

    Raises:
        TraceError: the file can't be read or holds no plane.
        Cancelled: stopped before the first event.
    """
    watch = watch or Watch()
    tally = Tally()
    with ByteSource(path) as source:
        data = b"".join(map(bytes, source.blocks(BLOCK, watch)))
        size = source.size
        if source.damage:
            tally.missing("the compressed stream ends early", 1, source.damage)
    read, planes = _Read(), 0
    for planes, plane in enumerate(_planes(data, tally), 1):
        _read_plane(data, plane, planes, read, tally, watch)
        watch.report(Progress("reading", size, size, len(read.numbers["start"]), path))
        if watch.cancelled:
            break
    if not planes:
        advice = "copy it anew, or give the .trace.json.gz beside it"
        raise TraceError(path, "an XPlane file without a whole plane", advice)
    read.add_steps()
    total = len(read.numbers["start"])
    if watch.cancelled and not total:
        raise Cancelled
    events = Events(read.groups(), read.metadata, parsed=total, total=total + tally.skipped_events)
    source_of = Source(path, size, events.total, total, watch.cancelled)
    info = replace(
        trace_info(events),
        kind="jax",
        tool=TENSORFLOW if read.of_tensorflow else "JAX profiler",
        devices=tuple(sorted(read.devices, key=lambda device: device.id)),
        base_time=read.base_time,
    )
    return whole_steps(with_steps(build_trace(events, info, source_of, tally)))


def _planes(data: bytes, tally: Tally) -> Iterator[_Plane]:
    """The planes of a file, each whole."""
    try:
        for number, value in fields(data, 0, len(data)):
            if number != 1 or not isinstance(value, tuple):
                continue  # warnings, and the names of machines, which are nobody's business
            try:
                yield _plane(data, value)
            except Damaged:
                tally.missing("plane of an XPlane file that is damaged")
    except Damaged:
        tally.missing("the rest of the file, which is cut")


def _plane(data: bytes, span: Span) -> _Plane:
    plane = _Plane()
    for number, value in fields(data, *span):
        if not isinstance(value, tuple):
            continue
        if number == 2:
            plane.name = text(data, value)
        elif number == 3:
            plane.lines.append(value)
        elif number == 4:
            key, entry = _entry(data, value)
            names = {at: text(data, part) for at, part in entry if at in (2, 4) and isinstance(part, tuple)}
            said = [part for at, part in entry if at == 5 and isinstance(part, tuple)]
            plane.events[key] = names.get(4) or names.get(2, ""), said
        elif number == 5:
            key, entry = _entry(data, value)
            plane.stats[key] = next((text(data, part) for at, part in entry if at == 2 and isinstance(part, tuple)), "")
        elif number == 6:
            plane.own.append(value)
    return plane


def _entry(data: bytes, span: Span) -> tuple[int, list[tuple[int, int | Span]]]:
    """The key of a map's entry, and the fields of its value."""
    key, found = 0, list[tuple[int, "int | Span"]]()
    for number, value in fields(data, *span):
        if number == 1 and isinstance(value, int):
            key = value
        elif number == 2 and isinstance(value, tuple):
            found = list(fields(data, *value))
    return key, found


def _known(data: bytes, spans: list[Span], plane: _Plane) -> Said:
    """What stats say, by their names."""
    found: Said = {}
    for span in spans:
        name = ""
        for number, value in fields(data, *span):
            if number == 1 and isinstance(value, int):
                name = plane.stats.get(value, "")
            elif not isinstance(value, tuple):
                found[name] = plane.stats.get(value, "") if number == 7 else signed(value)
            elif number == 2:
                found[name] = double(data, value)
            elif number == 5:
                found[name] = text(data, value)
    return found


def _read_plane(data: bytes, plane: _Plane, number: int, read: _Read, tally: Tally, watch: Watch) -> None:
    own = _known(data, plane.own, plane)
    if isinstance(began := own.get("profile_start_time"), int) and 0 < began < _LARGEST:
        read.base_time = began
    if (match := DEVICE_PROCESS.match(plane.name)) is not None:
        read.devices.append(_device(int(match["number"]), match[1], own))
    read.name("process_name", number, plane.name)
    shared: dict[int, Said] = {}
    for span in plane.lines:
        try:
            line = list(fields(data, *span))
        except Damaged:
            tally.missing("line of an XPlane file that is damaged")
            continue
        whole = {at: value for at, value in line if isinstance(value, int)}
        names = {at: text(data, value) for at, value in line if at in (2, 11) and isinstance(value, tuple)}
        name, thread, begin = names.get(11) or names.get(2, ""), signed(whole.get(1, 0)), signed(whole.get(3, 0))
        read.of_tensorflow |= name.startswith(_DERIVED)
        # what this line holds are no events of the device, but steps that both sides share
        steps = read.steps.setdefault(number, []) if name == _STEPS else None
        if steps is None:
            read.name("thread_name", number, name, thread)
        for at, value in line:
            if at == 4 and isinstance(value, tuple):
                try:
                    _read_event(data, value, plane, shared, (number, thread, begin), steps, read, tally)
                except Damaged:
                    tally.skipped("event that is damaged")
        if watch.cancelled:
            return


def _read_event(
    data: bytes,
    span: Span,
    plane: _Plane,
    shared: dict[int, Said],
    of_line: tuple[int, int, int],
    steps: list[tuple[str, int, int]] | None,
    read: _Read,
    tally: Tally,
) -> None:
    kind = offset = duration = 0
    spans: list[Span] = []
    for number, value in fields(data, *span):
        if number == 4 and isinstance(value, tuple):
            spans.append(value)
        elif not isinstance(value, int):
            continue
        elif number == 1:
            kind = value
        elif number == 2:
            offset = signed(value)
        elif number == 3:
            duration = signed(value)
        elif number == 5:
            tally.skipped("number of events that are not told apart")
            return
    process, thread, begin = of_line
    start = begin + offset // _PICOSECONDS
    if not (0 <= duration < _LARGEST and abs(start) < _LARGEST):
        tally.skipped("event at a time that no clock shows")
        return
    name, common = plane.events.get(kind, ("", []))
    if kind not in shared:
        shared[kind] = _known(data, common, plane)
    said = {**shared[kind], **_known(data, spans, plane)} if spans or common else {}
    # from the rounded start to the rounded end, so that what touches does not overlap
    duration = (begin * _PICOSECONDS + offset + duration) // _PICOSECONDS - start
    if steps is not None:
        steps.append((str(said.get("step_name", name)), start, duration))
        return
    if "tf_op" not in said and isinstance(annotation := said.get(_ANNOTATION), str):
        said["tf_op"] = annotation.partition("#")[0]
    read.add(said, name, start, duration, process, thread, span[0])


def _device(number: int, kind: str, own: Said) -> DeviceInfo:
    """A GPU as its plane describes it, which does not name it."""

    def whole(name: str, factor: int = 1) -> int | None:
        value = own.get(name)
        return value * factor if isinstance(value, int) and 0 < value < _LARGEST // factor else None

    major, minor, units = own.get("compute_cap_major"), own.get("compute_cap_minor"), whole("core_count")
    version = f"{major}.{minor}" if isinstance(major, int) and isinstance(minor, int) else None
    amd = own.get("device_vendor") == "AMD"
    return DeviceInfo(
        id=number,
        name=None if kind == "GPU" else kind,
        compute_capability=None if amd else version,
        architecture=architecture(version, units) if amd and version else None,
        sm_count=units,
        memory_bytes=whole("memory_size"),
        clock_hz=whole("clock_rate", 1000),
        memory_bandwidth=whole("memory_bandwidth"),
    )
