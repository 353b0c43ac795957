"""Classifies events by their category, or by name and arguments if that is missing or too coarse.

The profilers of Meta's MTIA, Huawei's Ascend and IBM's AIU write traces of their own: work on the device has a category
of its own (MTIA), no category but a process of the device's own (Ascend), or names that say which unit worked (AIU).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from tracetui.parsers import categories, schema
from tracetui.parsers.arrays import Ints
from tracetui.parsers.chrome import columns, forms, xla
from tracetui.parsers.chrome.columns import NAMED_WORK, NULL, OTHER_KIND, Columns, Events
from tracetui.parsers.chrome.layout import whole
from tracetui.parsers.nesting import LaneClock
from tracetui.parsers.trace import TraceInfo

HOST_CATEGORIES = {
    "cpu_op": "operator", "operator": "operator", "hpu_op": "operator",
    "user_annotation": "annotation",
    "python_function": "python",
    "cuda_runtime": "runtime", "runtime": "runtime", "glow_runtime": "runtime", "mtia_runtime": "runtime",
    "xpu_runtime": "runtime", "privateuse1_runtime": "runtime", "hip_runtime": "runtime",
    "cuda_driver": "driver", "xpu_driver": "driver", "privateuse1_driver": "driver", "driver": "driver",
    "overhead": "overhead",
    "cuda_api": "runtime", "nvtx": "annotation",
}  # fmt: skip
"""Kineto's host categories in lower case, from 2020 to 2026 (libkineto ActivityType); and those of converters of
Nsight Systems."""

DEVICE_CATEGORIES = {
    "kernel": "kernel", "gpu_op": "kernel", "concurrent_kernel": "kernel",
    "gpu_memcpy": "memcpy", "memcpy": "memcpy",
    "gpu_memset": "memset", "memset": "memset",
    "cuda_sync": "synchronization", "cuda_event": "synchronization",
    "gpu_user_annotation": "annotation", "collective_comm": "annotation",
    "cuda": "kernel", "cuda_kernel": "kernel", "cuda_memcpy": "memcpy", "cuda_memset": "memset",
    "nvtx-kernel": "annotation",
}  # fmt: skip
NAMED_CATEGORIES = frozenset({"mtia_ccp_events"})
"""Categories of work on a device whose names tell the kind."""
PROFILER_RANGE = "cuda_profiler_range"
IGNORED_CATEGORIES = frozenset({"trace", "profiler", PROFILER_RANGE})
"""Spans of the profiler itself: they define the recorded window and are never shown as work."""
COUNTED = schema.DEVICE_KINDS.index("counted")
_OPENS = r"^<built-in method __enter__ of torch\._C\._profiler\._?RecordFunctionFast"
COUNTERS_NOT_KERNELS = "kernel of which Kineto recorded counters (cuda_profiler_range) and no times"
"""The note on a kernel in a profiler range: with `profiler_metrics` CUPTI replays kernels one by one and times none."""


def device_kind(category: str) -> int:
    """The kind of an event that is none of the host's, as a number in a column."""
    if category in NAMED_CATEGORIES:
        return NAMED_WORK
    known = DEVICE_CATEGORIES.get(category)
    return OTHER_KIND if known is None else schema.DEVICE_KINDS.index(known)


def settle(events: Events, info: TraceInfo) -> None:
    """Gives every event its final kind, in place.

    Names distinguish modules and data-loader waits from other Python functions and annotations. Events without a usable
    category are classified by their process (JAX) or their arguments (damaged Kineto files).
    """
    settle_accelerators(events)
    _settle_others(events, info)
    host = events.groups["host"]
    kind, name = host["kind"], host["name"]
    for source, pattern, target in (
        ("python", r"^nn\.Module: ", "module"),
        ("annotation", r"^enumerate\(Data", "dataloader"),
        ("operator", r"^enumerate\(Data", "dataloader"),
        ("operator", "^ProfilerStep#", "annotation"),
    ):
        rows = np.flatnonzero(kind == schema.HOST_KINDS.index(source))
        kind[rows[categories.matching(name[rows], pattern)]] = schema.HOST_KINDS.index(target)
    _settle_opened(host)
    device = events.groups["device"]
    if info.tool == forms.ONNX:  # the process of its kernels is none, or the program's
        device["device"][device["device"] == NULL] = 0
    for column, fallback in (("device", "process"), ("stream", "thread")):
        empty = device[column] == NULL
        device[column][empty] = device.pop(fallback)[empty]


def _settle_opened(host: Columns) -> None:
    """Makes annotations of operators that a call opened and left open, in place.

    `torch._C._profiler._RecordFunctionFast` begins its range within its ``__enter__``, and another function's
    ``__exit__`` may end it: unlike an operator it outlives the call that it begins in.
    """
    kind, name = host["kind"], host["name"]
    python = np.flatnonzero(kind == schema.HOST_KINDS.index("python"))
    if not python.size:
        return
    calls = python[categories.matching(name[python], _OPENS)]
    operators = np.flatnonzero(kind == schema.HOST_KINDS.index("operator"))
    if not calls.size or not operators.size:
        return
    rows = np.concatenate((calls, operators))
    thread, _ = columns.lanes(host["process"][rows], host["thread"][rows])
    start, end = host["start"][rows], host["start"][rows] + host["duration"][rows]
    # the last such call begun on the operator's thread, if it is still in progress
    order = np.lexsort((start[: calls.size], thread[: calls.size]))
    times = LaneClock(int(thread.max()) + 1, start, end)
    keys = times.key(thread[: calls.size], start[: calls.size])[order]
    mine = slice(calls.size, None)
    at = times.last_begun(keys, thread[mine], start[mine])
    call = order[at]
    left_open = (at >= 0) & (start[mine] < end[call]) & (end[mine] > end[call])
    kind[operators[left_open]] = schema.HOST_KINDS.index("annotation")


def _settle_others(events: Events, info: TraceInfo) -> None:
    """Moves events of `OTHER_KIND` to the host or the device group."""
    device = events.groups["device"]
    rows = np.flatnonzero(device["kind"] == OTHER_KIND)
    if not rows.size:
        return
    if info.kind == "jax":
        xla.settle(events, rows, info)
        return
    rows = forms.settle(device, rows, info.processes)
    name, has_correlation = device["name"][rows], device["correlation"][rows] != NULL
    stays = has_correlation & (device["stream"][rows] != NULL)
    # a record with a correlation id is of a call or of what that launched, and calls are known by their names
    of_no_call = categories.numbers(name, lambda text: text != "" and _ON_HOST.match(text) is None) > 0
    stays |= has_correlation & of_no_call & (device["process"][rows] != NULL)
    device["kind"][rows[stays]] = categories.numbers(name[stays], forms.device_kind)
    kinds = categories.numbers(name[~stays], lambda text: schema.HOST_KINDS.index(_host_kind(text, info.tool)))
    columns.move_to_host(events, rows[~stays], kinds)


_CALL = re.compile(r"_*(?:(?:cuda|hip|musa|cu|mu|ze|ur|acl|rt)[A-Z]|hsa_)")
"""Names of calls of a GPU's runtime or driver."""
_ON_HOST = re.compile(rf"\$|.*\.py|aten::|{_CALL.pattern}")
"""Names of what no GPU runs: Python's functions, operators, calls."""


def _host_kind(name: str, tool: str) -> str:
    if name.startswith("$") or ".py" in name:
        return "python"
    if _CALL.match(name):
        return "driver" if re.match(r"cu[A-Z]", name) else "runtime"
    is_operator = name.startswith("aten::") or tool == forms.TENSORFLOW
    is_operator |= tool == forms.ONNX and name.endswith("_kernel_time")
    return "operator" if is_operator else "annotation"


def is_classified(events: Events) -> bool:
    """Whether any event of a file has a category, or a process or unit, by which this module knows it."""
    device = events.groups["device"]
    known = events.groups["host"]["kind"].size > 0 or bool((device["kind"] != OTHER_KIND).any())
    known |= bool(_devices(events.metadata))
    return known or bool(categories.matching(device["name"], _AIU_UNIT.pattern).any())


_PROCESS = re.compile(r"(MTIA|NPU|HPU|XPU|AIU) \d+$|Ascend Hardware$")
"""Processes and labels of devices."""
_AIU_UNIT = re.compile(r" (Cmpt (Exec|Prep)|Dma[IO])$")
"""The unit of an AIU that did something: its cores, or one of the two directions of its copying."""
_WAITS = re.compile(
    r"event_(record|wait)$|(Event|Notify|Capture)_?(Record|Wait)|EVENT_|NOTIFY_|WAIT_|PROFILER_TRACE| Cmpt Prep$"
)
"""What marks or awaits a moment; the cores of an AIU *prepare* until what they need is there."""
_COLLECTIVE = re.compile(r"^SenRdma")
_COPIES = re.compile(r"dma_request$|memcpy|Memcpy|MEMCPY|SDMA| Dma[IO]$")
_FILLS = re.compile(r"memset|Memset|MEMSET")


def work_kind(name: str) -> str:
    """The kind of an activity that a device other than a GPU recorded."""
    if _WAITS.search(name):
        return "synchronization"
    if _COLLECTIVE.search(name):
        return "kernel"  # the exchange of a collective, with the waiting for the other side
    if _FILLS.search(name):
        return "memset"
    return "memcpy" if _COPIES.search(name) else "kernel"


def settle_accelerators(events: Events) -> None:
    """Gives work on accelerators that are neither CUDA nor HIP devices its kind, device and stream, in place."""
    device = events.groups["device"]
    kind = device["kind"]
    other = np.flatnonzero(kind == OTHER_KIND)
    if other.size:
        numbers = _devices(events.metadata)
        found = np.isin(device["process"][other], np.array(sorted(numbers), np.int64))
        of_aiu = categories.numbers(device["name"][other], lambda name: _AIU_UNIT.search(name) is not None) > 0
        found |= of_aiu
        kind[other[found]] = NAMED_WORK
        _place(device, other[found], numbers)
        _number_streams(device, other[of_aiu])
    rows = np.flatnonzero(kind == NAMED_WORK)
    if rows.size:
        kind[rows] = categories.numbers(device["name"][rows], lambda name: schema.DEVICE_KINDS.index(work_kind(name)))


def _place(device: Columns, rows: Ints, numbers: dict[int, int]) -> None:
    """Fills in the device that a process is, where its label says it; a thread of it is a stream."""
    for process, number in numbers.items():
        mine = rows[(device["process"][rows] == process) & (device["device"][rows] == NULL)]
        device["device"][mine] = number


def _number_streams(device: Columns, rows: Ints) -> None:
    """Numbers an AIU's threads from 0, which are hashes of the units' names."""
    unknown = rows[device["stream"][rows] == NULL]
    device["stream"][unknown] = np.unique(device["thread"][unknown].view(np.uint64), return_inverse=True)[1]


def _devices(metadata: Iterable[dict[str, Any]]) -> dict[int, int]:
    """The processes that are devices, with the number of each: the label's, else the process's own."""
    found: dict[int, int] = {}
    for event in metadata:
        args, process = event.get("args"), whole(event.get("pid"))
        if not isinstance(args, dict) or process is None:
            continue
        said = str(args.get("labels" if event.get("name") == "process_labels" else "name"))
        if event.get("name") in ("process_name", "process_labels") and _PROCESS.match(said):
            digits = re.search(r"(?<!\d)\d{1,18}$", said)
            found[process] = int(digits.group()) if digits else found.get(process, process)
    return found
