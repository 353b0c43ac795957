"""Reads what a Chrome trace says about itself: devices, rank, capture settings, process and thread names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from tracetui.parsers.categories import NULL_CODE, encodable
from tracetui.parsers.chrome import marks
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
    threads = sorted({(key[0], key[1], name) for key, name in _named_threads(events.metadata)})
    return TraceInfo(
        kind="jax" if is_jax else "chrome",
        tool="JAX profiler" if is_jax else "PyTorch Kineto" if is_kineto else "Chrome trace",
        rank=_whole(distributed.get("rank")),
        world_size=_whole(distributed.get("world_size")),
        devices=_devices(header.get("deviceProperties")) or _jax_devices(processes.values()),
        captured=tuple((key, encodable(str(header[key]))) for key in CAPTURE_KEYS if key in header),
        window=events.window,
        base_time=_whole(header.get("baseTimeNanoseconds")),
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
        numbers = [_whole(rank) for rank in ranks] if isinstance(ranks, list) else []
        whole = tuple(number for number in numbers if number is not None)
        size = _whole(entry.get("pg_size"))
        size = size if size is not None and 0 < size < MOST_RANKS else None
        complete = len(whole) == len(numbers) and size in (None, len(whole))
        found.append(ProcessGroup(encodable(str(name)), _text(entry.get("pg_desc")), size, whole if complete else ()))
    return tuple(found)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _whole(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _text(value: Any) -> str | None:
    return encodable(value) if isinstance(value, str) else None


def _named(metadata: list[dict[str, Any]], kind: str) -> Iterable[tuple[int, str]]:
    for event in metadata:
        pid, name = _whole(event.get("pid")), _mapping(event.get("args")).get("name")
        if event.get("name") == kind and pid is not None and isinstance(name, str):
            yield pid, encodable(name)


def _named_threads(metadata: list[dict[str, Any]]) -> Iterable[tuple[tuple[int, int], str]]:
    for event in metadata:
        pid, tid, name = _whole(event.get("pid")), _thread(event.get("tid")), _mapping(event.get("args")).get("name")
        if event.get("name") == "thread_name" and pid is not None and tid is not None and isinstance(name, str):
            yield (pid, tid), encodable(name)


def _thread(value: Any) -> int | None:
    if isinstance(value, str) and (digits := re.search(r"\d+", value)):
        return int(digits.group())
    return _whole(value)


def _devices(properties: Any) -> tuple[DeviceInfo, ...]:
    if not isinstance(properties, list):
        return ()
    found = []
    for position, entry in enumerate(properties):
        device = _mapping(entry)
        major, minor = _whole(device.get("computeMajor")), _whole(device.get("computeMinor"))
        found.append(
            DeviceInfo(
                id=position if (number := _whole(device.get("id"))) is None else number,
                name=encodable(device["name"]) if isinstance(device.get("name"), str) else None,
                compute_capability=None if major is None or minor is None else f"{major}.{minor}",
                sm_count=_whole(device.get("numSms")),
                memory_bytes=_whole(device.get("totalGlobalMem")),
                max_threads_per_sm=_whole(device.get("maxThreadsPerMultiprocessor")),
                warp_size=_whole(device.get("warpSize")),
                registers_per_sm=_whole(device.get("regsPerMultiprocessor")),
                shared_memory_per_sm=_whole(device.get("sharedMemPerMultiprocessor")),
            )
        )
    return tuple(found)


def _jax_devices(names: Iterable[str]) -> tuple[DeviceInfo, ...]:
    """The accelerators that have their own process; of a TPU only the name is known."""
    found = {int(match["number"]): match[1] for name in names if (match := DEVICE_PROCESS.match(name))}
    return tuple(DeviceInfo(id=number, name=None if kind == "GPU" else kind) for number, kind in sorted(found.items()))
