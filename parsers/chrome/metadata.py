"""Reads what a Chrome trace says about itself: devices, rank, capture settings, process and thread names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from tracetui.parsers.categories import NULL_CODE, encodable
from tracetui.parsers.chrome import marks
from tracetui.parsers.chrome.devices.properties import described_devices, whole
from tracetui.parsers.chrome.xla import DEVICE_PROCESS
from tracetui.parsers.names.collectives import MOST_RANKS
from tracetui.parsers.names.people import without_users
from tracetui.parsers.trace import DeviceInfo, ProcessGroup, TraceInfo

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tracetui.parsers.chrome.columns import Events

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
    processes = dict(_named(events.metadata, "process_name"))
    is_jax = any(name.startswith(("/device:", "/host:")) for name in processes.values())
    is_jax |= any((events.groups["device"].get(name, NO_CODES) != NULL_CODE).any() for name in ("hlo_op", "step_num"))
    is_kineto = "schemaVersion" in header or "deviceProperties" in header or "traceName" in header
    own = marks.own(header)
    threads = sorted({(key[0], key[1], without_users(name)) for key, name in _named_threads(events.metadata)})
    return TraceInfo(
        kind="jax" if is_jax else "chrome",
        tool="JAX profiler" if is_jax else "PyTorch Kineto" if is_kineto else "Chrome trace",
        rank=whole(distributed.get("rank")),
        world_size=whole(distributed.get("world_size")),
        devices=described_devices(header) or _jax_devices(processes.values()),
        captured=tuple((key, encodable(str(header[key]))) for key in CAPTURE_KEYS if key in header),
        window=events.window,
        base_time=whole(header.get("baseTimeNanoseconds")),
        processes=tuple((pid, without_users(name)) for pid, name in sorted(processes.items())),
        threads=tuple(threads),
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


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return encodable(value) if isinstance(value, str) else None


def _named(metadata: list[dict[str, Any]], kind: str) -> Iterable[tuple[int, str]]:
    for event in metadata:
        pid, name = whole(event.get("pid")), _mapping(event.get("args")).get("name")
        if event.get("name") == kind and pid is not None and isinstance(name, str):
            yield pid, encodable(name)


def _named_threads(metadata: list[dict[str, Any]]) -> Iterable[tuple[tuple[int, int], str]]:
    for event in metadata:
        pid, tid, name = whole(event.get("pid")), _thread(event.get("tid")), _mapping(event.get("args")).get("name")
        if event.get("name") == "thread_name" and pid is not None and tid is not None and isinstance(name, str):
            yield (pid, tid), encodable(name)


def _thread(value: Any) -> int | None:
    if isinstance(value, str) and (digits := re.search(r"(?<!\d)\d{1,18}(?!\d)", value)):
        return int(digits.group())
    return whole(value)


def _jax_devices(names: Iterable[str]) -> tuple[DeviceInfo, ...]:
    """The accelerators that have their own process; of a TPU only the name is known."""
    found = {int(match["number"]): match[1] for name in names if (match := DEVICE_PROCESS.match(name))}
    return tuple(DeviceInfo(id=number, name=None if kind == "GPU" else kind) for number, kind in sorted(found.items()))
