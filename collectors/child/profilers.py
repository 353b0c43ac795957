"""Runs the steps of a workload under each tool."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TRACE = "trace.pt.trace.json.gz"
STEP = "step {}"
"""The range around each profiled step for tools without steps of their own; numbered as torch.profiler does."""


class Refused(Exception):  # noqa: N818  no error of the program
    """The requested recording is not possible here; the text is for the user."""


def record_torch(spec: dict[str, Any], run_step: Callable[[], None], say: Callable[[int], None]) -> dict[str, Any]:
    """Runs the steps under torch.profiler and writes the Chrome trace.

    Args:
        spec: what the parent asked for.
        run_step: one step of the workload, its device work awaited where that belongs to the step.
        say: told how many steps are done.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available() and spec["device"] != "cpu":
        activities.append(ProfilerActivity.CUDA)
    target = Path(spec["out"]) / TRACE
    warmup, steps = spec["profiler_warmup"], spec["steps"]

    def write(profiler: Any) -> None:
        profiler.export_chrome_trace(str(target))

    marks: list[Any] = []
    with profile(
        activities=activities,
        schedule=schedule(wait=0, warmup=warmup, active=steps, repeat=1),
        on_trace_ready=write,
        record_shapes=True,
        profile_memory=spec["with_memory"],
        with_stack=spec["with_stack"],
    ) as profiler:
        profiler.add_metadata_json("tracetui", json.dumps({"run": spec["run_id"], "entry": spec["entry"]}))
        for number in range(warmup + steps):
            if number == warmup:
                marks.append(mark(spec["device"]))
            run_step()
            if number >= warmup:
                marks.append(mark(spec["device"]))
            if number in (warmup - 1, warmup + steps - 1):
                # otherwise the warm-up step's kernels would be recorded and the last step's cut off
                synchronize(spec["device"])
            profiler.step()
            say(max(number + 1 - warmup, 0))
    return {
        "files": [target.name],
        "schedule": {"wait": 0, "warmup": warmup, "active": steps, "repeat": 1, "skip_first": 0},
        "profiled_step_ns": durations(marks),
    }


def record_capture_range(
    spec: dict[str, Any], run_step: Callable[[], None], say: Callable[[int], None]
) -> dict[str, Any]:
    """Opens the capture range that nsys and ncu wait for, runs the steps inside NVTX ranges, and closes it."""
    import torch

    if not torch.cuda.is_available():
        raise Refused(f"{spec['tool']} records GPU work, and torch sees no CUDA device here")
    runtime = torch.cuda.cudart()
    torch.cuda.synchronize()
    started = runtime.cudaProfilerStart()
    if started is not None and int(started) != 0:
        raise Refused(f"cudaProfilerStart failed with code {int(started)}, so the capture would be empty")
    try:
        for number in range(spec["steps"]):
            torch.cuda.nvtx.range_push(STEP.format(spec["profiler_warmup"] + number))
            run_step()
            torch.cuda.synchronize()
            torch.cuda.nvtx.range_pop()
            say(number + 1)
    finally:
        torch.cuda.synchronize()
        runtime.cudaProfilerStop()
    return {"files": []}


def record_memory(spec: dict[str, Any], run_step: Callable[[], None], say: Callable[[int], None]) -> dict[str, Any]:
    """Runs the steps with the CUDA allocator's history on and writes the snapshot."""
    import torch

    if not torch.cuda.is_available():
        raise Refused("the memory snapshot is of CUDA's allocator, and torch sees no CUDA device here")
    target = Path(spec["out"]) / "memory.pickle"
    torch.cuda.memory._record_memory_history(max_entries=spec["memory_entries"], stacks="python")
    try:
        for number in range(spec["steps"]):
            run_step()
            say(number + 1)
        torch.cuda.synchronize()
        torch.cuda.memory._dump_snapshot(str(target))
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    return {"files": [target.name]}


RECORDERS = {
    "torch": record_torch,
    "nsys": record_capture_range,
    "ncu": record_capture_range,
    "memory": record_memory,
}


def synchronize(device: str) -> None:
    """Waits until the device has done its work."""
    if device != "cpu":
        import torch

        if torch.cuda.is_available():
            torch.cuda.synchronize()


def mark(device: str) -> Any:
    """A moment on the device's time line, or on the host's if the device is the CPU."""
    if device != "cpu":
        import torch

        if torch.cuda.is_available():
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            return event
    return time.perf_counter_ns()


def durations(marks: list[Any]) -> list[int]:
    """The times between consecutive moments, ns; the device must have reached the last one."""
    return [_between(before, after) for before, after in zip(marks, marks[1:])]


def _between(before: Any, after: Any) -> int:
    nanoseconds: int = after - before if isinstance(before, int) else round(before.elapsed_time(after) * 1e6)
    return nanoseconds


def endless(make: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """Yields batches without end: an exhausted loader starts again."""
    while True:
        empty = True
        for batch in make():
            empty = False
            yield batch
        if empty:
            raise Refused("the data holds no batch")
