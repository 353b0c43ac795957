"""Reads XLA's traces (JAX, TensorFlow): their events have no category, but tell it by process, thread and arguments.

Processes are ``/host:CPU`` and ``/device:GPU:0`` (or TPU), a GPU's threads ``Stream #14(Compute,MemcpyD2D)``; the
arguments are texts (`cupti_collector.cc` of XLA writes them).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracetui.parsers import categories, schema
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.categories import NULL_CODE
from tracetui.parsers.chrome import columns
from tracetui.parsers.chrome.columns import NULL, Columns, Events
from tracetui.parsers.nesting import LaneClock
from tracetui.parsers.trace import TraceInfo

DEVICE_PROCESS = re.compile(r"/device:(GPU|TPU|CUSTOM):(?P<number>\d{1,9})(?!\d)")
EVENT_LIMIT = 1_000_000
"""How many complete events XLA's profiler writes at most (`TraceContainer::CapEvents`); the latest are dropped."""

MOST_REGISTERS = 1024
"""That a thread can have on any GPU."""
_STREAM = re.compile(r"[Ss]tream\s*#?(\d{1,18})")
_OPS = "XLA Ops"
_FIELD = re.compile(r"(\w+):(\S+)")
_GRAPH = re.compile(r"Cuda ?Graph(Exec)?:\d+$", re.IGNORECASE)
_FRAMEWORK = re.compile(
    r"::|^(Pj[Ii]t|PjRt|PJRT|Xla|XLA|xla|Tfrt|PythonRefManager|ParseArguments|CommonPjRt|Thunk)|XLA (GPU|CPU) module"
    r"|^\[\d+\] |^Wait for \w+ holds|<UNKNOWN>"
)
"""Names of JAX's and XLA's own functions; calls inside one of them are theirs too."""
_POOL = re.compile(r"tf_|tsl|pjrt|py_xla|xla|eigen|host threads/|thread_?pool|callback", re.IGNORECASE)
"""Threads on which no user code runs, by the start of their name."""
_API_THREAD = "Host Threads/"
"""Threads with nothing but calls into the driver."""


def settle(events: Events, rows: Ints, info: TraceInfo) -> None:
    """Gives events without a category their kind, in place, and reads what XLA says about them.

    What ran on a device's streams stays in the device group, with its operation and program. The rest becomes host
    events: Python functions, API calls, operations and XLA's functions (both operators), annotations.
    """
    device = events.groups["device"]
    for name in ("hlo_op", "hlo_module", "tf_op", "op_name", "step_num", "kernel_details", "memcpy_details"):
        device.setdefault(name, np.full(device["kind"].size, NULL_CODE, np.uint32))
    for name in ("memset_details", "xla_context"):
        device.setdefault(name, np.full(device["kind"].size, NULL_CODE, np.uint32))
    on_device = _place(device, rows, info)
    host = rows[~on_device]
    kind = _host_kinds(device, host, rows[on_device], info)
    step = _codes_to_ints(device["step_num"][host], _whole)
    columns.move_to_host(events, host, kind, step=step)
    _describe(events.groups["device"])


def _place(device: Columns, rows: Ints, info: TraceInfo) -> Bools:
    """Returns which rows belong to a device, and fills in their device, stream and kind.

    Streams hold a GPU's work; other lines of its process (``XLA Modules``, ``Framework Ops``, …) repeat it as
    annotations. A device without streams (a TPU) works on its line of operations.
    """
    numbers = {pid: match for pid, name in info.processes if (match := DEVICE_PROCESS.match(name))}
    lines = {(pid, tid): name for pid, tid, name in info.threads if pid in numbers}
    with_streams = {pid for (pid, _), name in lines.items() if _STREAM.match(name)}
    found = np.zeros(rows.size, np.bool_)
    process, thread = device["process"][rows], device["thread"][rows]
    for pid, match in numbers.items():
        of_process = process == pid
        found |= of_process
        mine = rows[of_process]
        device["device"][mine] = int(match["number"])
        device["kind"][mine] = schema.DEVICE_KINDS.index("annotation")
        for tid in np.unique(thread[of_process]).tolist():
            name = lines.get((pid, tid), "")
            line = mine[thread[of_process] == tid]
            if stream := _STREAM.match(name):
                device["stream"][line] = int(stream.group(1))
                device["kind"][line] = _device_kinds(device, line)
            elif pid not in with_streams and (name == _OPS or not name):
                device["stream"][line] = tid
                device["kind"][line] = np.where(
                    _holds_others(device, line), schema.DEVICE_KINDS.index("annotation"), _device_kinds(device, line)
                )
    return found


def _device_kinds(device: Columns, rows: Ints) -> Ints:
    """The kind of device work: by what the details describe, else by name."""
    kind = categories.numbers(device["name"][rows], lambda text: schema.DEVICE_KINDS.index(_kind_by_name(text)))
    for column, name in (("kernel_details", "kernel"), ("memcpy_details", "memcpy"), ("memset_details", "memset")):
        kind[device[column][rows] != NULL_CODE] = schema.DEVICE_KINDS.index(name)
    return kind


def _kind_by_name(name: str) -> str:
    if _GRAPH.match(name):
        return "graph"
    match = re.match(r"[Mm]em(cpy|set)(?=[A-Z ]|$)", name)
    return f"mem{match[1]}" if match else "kernel"


def _holds_others(device: Columns, rows: Ints) -> Bools:
    """Which operations of one line contain others (a loop its body): their time is that of their contents."""
    start = device["start"][rows]
    end = start + device["duration"][rows]
    order = np.lexsort((-end, start))
    holds = np.zeros(rows.size, np.bool_)
    first, second = order[:-1], order[1:]
    holds[first] = (start[second] < end[first]) & (end[second] <= end[first])
    return holds


def _host_kinds(device: Columns, rows: Ints, on_device: Ints, info: TraceInfo) -> Ints:
    """The host kind of each row."""
    name = device["name"][rows]
    operations = np.unique(device["hlo_op"][on_device])
    kinds = {kind: number for number, kind in enumerate(schema.HOST_KINDS)}
    kind = categories.numbers(name, lambda text: kinds.get(_host_kind(text) or "", -1))
    undecided = kind < 0

    thread_names = {(pid, tid): text for pid, tid, text in info.threads}
    process, thread = device["process"][rows], device["thread"][rows]
    lane, first = columns.lanes(process, thread)
    texts = [thread_names.get((int(process[at]), int(thread[at])), "") for at in first.tolist()]
    python = np.zeros(first.size, np.bool_)
    python[lane[kind == kinds["python"]]] = True
    pool = np.array([_POOL.match(text) is not None for text in texts], np.bool_) & ~python
    api = np.array([text.startswith(_API_THREAD) for text in texts], np.bool_)

    framework = categories.numbers(name, lambda text: int(_FRAMEWORK.search(text) is not None)) > 0
    framework &= undecided
    start = device["start"][rows]
    inside = _inside(lane, start, start + device["duration"][rows], framework)
    kind[undecided] = kinds["annotation"]
    kind[undecided & (framework | inside | pool[lane])] = kinds["operator"]
    is_operation = (device["hlo_op"][rows] != NULL_CODE) | np.isin(name, operations[operations != NULL_CODE])
    kind[undecided & is_operation] = kinds["operator"]
    called = undecided & (device["correlation"][rows] != NULL)
    kind[called | (undecided & api[lane])] = kinds["driver"]
    kind[undecided & (device["step_num"][rows] != NULL_CODE)] = kinds["annotation"]
    return kind


def _host_kind(name: str) -> str | None:
    """The kind that the name alone tells."""
    if name.startswith("$"):
        return "python"
    if name.startswith("end: "):  # the profiler's own mark of the end of an operation
        return "overhead"
    if re.match(r"(cuda|hip)[A-Z]", name):
        return "runtime"
    return "driver" if re.match(r"cu[A-Z]", name) else None


def _inside(lane: Ints, start: Ints, end: Ints, around: Bools) -> Bools:
    """Which events start while one of those marked in `around` is in progress on their thread."""
    if not around.any():
        return around
    clock = LaneClock(int(lane.max()) + 1, start, end)
    keys, ends = clock.key(lane[around], start[around]), clock.key(lane[around], end[around])
    order = np.argsort(keys)
    at = clock.last_begun(keys[order], lane, start)
    inside: Bools = (at >= 0) & (clock.key(lane, start) < np.maximum.accumulate(ends[order])[at])
    return inside


def _describe(device: Columns) -> None:
    """Turns XLA's texts into the columns of the data model, in place."""
    kernel = _fields(device.pop("kernel_details"))
    copy = _fields(device.pop("memcpy_details"))
    fill = _fields(device.pop("memset_details"))
    _fill(device["registers"], kernel, _registers)
    _fill(device["shared_memory"], kernel, _shared_memory)
    _fill(device["occupancy_percent"], kernel, lambda found: _real(found.get("occ_pct")) or None)
    _fill(device["grid"], kernel, lambda found: _dim3(found.get("grid", "")))
    _fill(device["block"], kernel, lambda found: _dim3(found.get("block", "")))
    _fill(device["bytes"], copy, lambda found: _whole(found.get("size", found.get("num_bytes"))))
    _fill(device["bytes"], fill, lambda found: _whole(found.get("num_bytes", found.get("size"))))
    device["memory_kinds"] = np.full(device["kind"].size, NULL_CODE, np.uint32)
    _fill(device["memory_kinds"], copy, _copy_kinds)
    _fill(device["memory_kinds"], fill, lambda found: _encoded(_memory_kind(found.get("kind"))))
    context = _codes_to_ints(device.pop("xla_context"), lambda text: _whole(text.removeprefix("$$")))
    device["context"] = np.where(device["context"] == NULL, context, device["context"])
    device["operation"] = device.pop("hlo_op")
    device["scope"] = _scopes(device.pop("hlo_module"), device.pop("tf_op"), device.pop("op_name"))


def _fields(codes: NDArray[np.uint32]) -> list[tuple[Ints, dict[str, str]]]:
    """Yields (rows, parsed details) for each distinct ``regs:32 grid:1,1,1 …``."""
    rows = np.flatnonzero(codes != NULL_CODE)
    rows = rows[np.argsort(codes[rows], kind="stable")]
    distinct, first = np.unique(codes[rows], return_index=True)
    texts = categories.texts(distinct)
    parts = np.split(rows, first[1:]) if rows.size else []
    return [(part, dict(_FIELD.findall(texts[code]))) for code, part in zip(distinct.tolist(), parts, strict=True)]


def _fill(
    column: NDArray[Any],
    described: list[tuple[Ints, dict[str, str]]],
    value: Callable[[dict[str, str]], float | list[int] | None],
) -> None:
    for rows, found in described:
        known = value(found)
        if known is not None:
            column[rows] = known


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"-?\d{1,18}", text) else None


def _real(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else float("nan")
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def _registers(found: dict[str, str]) -> int | None:
    """Per thread; older profilers of ROCm write numbers here that no GPU has."""
    number = _whole(found.get("regs"))
    return number if number is not None and 0 <= number <= MOST_REGISTERS else None


def _shared_memory(found: dict[str, str]) -> int | None:
    parts = [_whole(found.get(key)) for key in ("static_shared", "dynamic_shared", "shm")]
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _dim3(text: str) -> list[int] | None:
    parts = text.split(",")
    if len(parts) == 3 and all(re.fullmatch(r"\d{1,9}", part) for part in parts):
        return [int(part) for part in parts]
    return None


def _memory_kind(name: str | None) -> str | None:
    """``Device Static`` of ``device_static``; nothing of ``unknown``."""
    if not name or name.lower() in ("unknown", "invalid"):
        return None
    return name.replace("_", " ").title()


def _copy_kinds(found: dict[str, str]) -> int | None:
    ends = [_memory_kind(found.get(key)) for key in ("kind_src", "kind_dst")]
    return None if None in ends else _encoded(" -> ".join(str(end) for end in ends))


def _encoded(text: str | None) -> int | None:
    return None if text is None else int(categories.encode([text])[0])


def _codes_to_ints(codes: NDArray[np.uint32], number: Callable[[str], int | None]) -> Ints:
    """The whole number that each text spells; `NULL` if it spells none."""

    def known(text: str) -> int:
        value = number(text)
        return NULL if value is None else value

    return categories.numbers(codes, known)


def _scopes(module: NDArray[np.uint32], tf_op: NDArray[np.uint32], op_name: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """``jit_f/jit(f)/jit(main)/dot_general`` for each distinct triple; null if not even the program is known.

    The name scopes are in ``tf_op``, or in newer traces in ``name`` while ``tf_op`` has ``XlaModule:`` or ``Thunk:``.
    """
    (programs, program), (firsts, first), (seconds, second) = (
        np.unique(codes, return_inverse=True) for codes in (module, tf_op, op_name)
    )
    triples, at = np.unique((program * firsts.size + first) * seconds.size + second, return_inverse=True)
    texts = categories.texts(np.concatenate((programs, firsts, seconds)))
    scopes: list[str | None] = []
    for triple in triples.tolist():
        rest, number = divmod(triple, seconds.size)
        spelled = [texts.get(int(code), "") for code in (firsts[rest % firsts.size], seconds[number])]
        scope = next((text for text in spelled if text and not re.match(r"(XlaModule|Thunk):", text)), "")
        name = texts.get(int(programs[rest // firsts.size]), "")
        scopes.append("/".join(part for part in (name, scope) if part) or None)
    return categories.encode(scopes)[at]
