"""Tells what ran on accelerators that are neither CUDA nor HIP devices: Meta's MTIA, Huawei's Ascend, IBM's AIU.

Their profilers write Chrome traces of their own: work on the device has a category of its own (MTIA), no category but a
process of the device's own (Ascend), or names that say which unit worked (AIU).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from tracetui.parsers import schema
from tracetui.parsers.chrome import columns
from tracetui.parsers.chrome.columns import NAMED_WORK, NULL, OTHER_KIND
from tracetui.parsers.chrome.devices.properties import whole

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from tracetui.parsers.chrome.columns import Columns, Events

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


def settle(events: Events) -> None:
    """Gives such work its kind, device and stream, in place."""
    device = events.groups["device"]
    kind = device["kind"]
    other = np.flatnonzero(kind == OTHER_KIND)
    if other.size:
        numbers = _devices(events.metadata)
        found = np.isin(device["process"][other], np.array(sorted(numbers), np.int64))
        of_aiu = columns.by_name(device["name"][other], lambda name: _AIU_UNIT.search(name) is not None) > 0
        found |= of_aiu
        kind[other[found]] = NAMED_WORK
        _place(device, other[found], numbers)
        _number_streams(device, other[of_aiu])
    rows = np.flatnonzero(kind == NAMED_WORK)
    if rows.size:
        kind[rows] = columns.by_name(device["name"][rows], lambda name: schema.DEVICE_KINDS.index(work_kind(name)))


def _place(device: Columns, rows: NDArray[np.int64], numbers: dict[int, int]) -> None:
    """Fills in the device that a process is, where its label says it; a thread of it is a stream."""
    for process, number in numbers.items():
        mine = rows[(device["process"][rows] == process) & (device["device"][rows] == NULL)]
        device["device"][mine] = number


def _number_streams(device: Columns, rows: NDArray[np.int64]) -> None:
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
