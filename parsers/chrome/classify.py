"""Classifies events by their category, or by name and arguments if that is missing or too coarse."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from tracetui.parsers import categories, schema
from tracetui.parsers.chrome import columns, xla
from tracetui.parsers.chrome.columns import NAMED_WORK, NULL, OTHER_KIND
from tracetui.parsers.chrome.devices import accelerators
from tracetui.parsers.nesting import LaneClock

if TYPE_CHECKING:
    from tracetui.parsers.chrome.columns import Columns, Events
    from tracetui.parsers.trace import TraceInfo

HOST_CATEGORIES = {
    "cpu_op": "operator", "operator": "operator", "hpu_op": "operator",
    "user_annotation": "annotation",
    "python_function": "python",
    "cuda_runtime": "runtime", "runtime": "runtime", "glow_runtime": "runtime", "mtia_runtime": "runtime",
    "xpu_runtime": "runtime", "privateuse1_runtime": "runtime", "hip_runtime": "runtime",
    "cuda_driver": "driver", "xpu_driver": "driver", "privateuse1_driver": "driver", "driver": "driver",
    "overhead": "overhead",
}  # fmt: skip
"""Kineto's host categories in lower case, from 2020 to 2026 (libkineto ActivityType)."""

DEVICE_CATEGORIES = {
    "kernel": "kernel", "gpu_op": "kernel", "concurrent_kernel": "kernel",
    "gpu_memcpy": "memcpy", "memcpy": "memcpy",
    "gpu_memset": "memset", "memset": "memset",
    "cuda_sync": "synchronization", "cuda_event": "synchronization",
    "gpu_user_annotation": "annotation", "collective_comm": "annotation",
}  # fmt: skip
NAMED_CATEGORIES = frozenset({"mtia_ccp_events"})
"""Categories of work on a device whose names tell the kind."""
PROFILER_RANGE = "cuda_profiler_range"
IGNORED_CATEGORIES = frozenset({"trace", "profiler", PROFILER_RANGE})
"""Spans of the profiler itself: they define the recorded window and are never shown as work."""
_OPENS = re.compile(r"<built-in method __enter__ of torch\._C\._profiler\._?RecordFunctionFast")
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
    accelerators.settle(events)
    _settle_others(events, info)
    host = events.groups["host"]
    kind, name = host["kind"], host["name"]
    for source, prefix, target in (
        ("python", "nn.Module: ", "module"),
        ("annotation", "enumerate(Data", "dataloader"),
        ("operator", "enumerate(Data", "dataloader"),
        ("operator", "ProfilerStep#", "annotation"),
    ):
        rows = np.flatnonzero(kind == schema.HOST_KINDS.index(source))
        codes = [code for code, text in categories.texts(name[rows]).items() if text.startswith(prefix)]
        if codes:
            kind[rows[np.isin(name[rows], np.array(codes, np.uint32))]] = schema.HOST_KINDS.index(target)
    _settle_opened(host)
    device = events.groups["device"]
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
    codes = [code for code, text in categories.texts(name[python]).items() if _OPENS.match(text)]
    calls = python[np.isin(name[python], np.array(codes, np.uint32))]
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
    name = device["name"][rows]
    stays = (device["stream"][rows] != NULL) & (device["correlation"][rows] != NULL)
    kinds = columns.by_name(name[stays], lambda text: schema.DEVICE_KINDS.index(_device_kind(text)))
    device["kind"][rows[stays]] = kinds
    leaving, name = rows[~stays], name[~stays]
    alone = columns.by_name(name, lambda text: schema.HOST_KINDS.index(_host_kind(text, has_correlation=False)))
    called = columns.by_name(name, lambda text: schema.HOST_KINDS.index(_host_kind(text, has_correlation=True)))
    columns.move_to_host(events, leaving, np.where(device["correlation"][leaving] != NULL, called, alone))


def _device_kind(name: str) -> str:
    low = name.lower()
    return next((kind for kind in ("memcpy", "memset") if kind in low), "kernel")


def _host_kind(name: str, *, has_correlation: bool) -> str:
    if name.startswith("$") or ".py" in name:
        return "python"
    if re.match(r"(cuda|hip)[A-Z]", name):
        return "runtime"
    if has_correlation or re.match(r"cu[A-Z]", name):
        return "driver"
    return "operator" if name.startswith("aten::") else "annotation"
