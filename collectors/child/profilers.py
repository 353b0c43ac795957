"""Runs the steps of a workload under each tool.

Under torch.profiler there are two passes. The light one records the GPU and the calls that give it work, which hardly
slows the program down. It has no operators, modules or shapes, and no steps: their boundaries go into the trace's
metadata. The rich pass after it has the names; `analysis.matching.light_times` carries them over.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import ranks
from .marks import Marks, synchronize, uses_gpu

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .progress import Progress

TRACE = "trace.pt.trace.json.gz"
_FLAGS = ("operators", "record_shapes", "with_stack", "profile_memory", "cuda_sync_events")
STEP = "step {}"
"""The range around each profiled step for tools without steps of their own; numbered as torch.profiler does."""
LIGHT_TRACE = "light.pt.trace.json.gz"
CAPTURE_TRACE = "capture.pt.trace.json.gz"
LIGHT_WARMUP = 2
"""Steps at the beginning of the recording that do not count: CUPTI makes its buffers there."""


class Refused(Exception):  # noqa: N818  no error of the program
    """The requested recording is not possible here; the text is for the user."""


def _records_gpus() -> bool:
    """Whether this torch can record a GPU: builds without CUPTI can't."""
    from torch.profiler import ProfilerActivity, supported_activities

    return ProfilerActivity.CUDA in supported_activities()


def with_sync_events() -> Any:
    """The setting that has waits for streams and events recorded too; None where this torch lacks it."""
    return _config(enable_cuda_sync_events=True)


def with_collections() -> dict[str, Any]:
    """The argument that has the pauses of Python's collector recorded too, where this torch can."""
    config = _config(record_python_gc_info=True)
    return {} if config is None else {"experimental_config": config}


def _config(**settings: bool) -> Any:
    try:
        from torch._C._profiler import _ExperimentalConfig

        return _ExperimentalConfig(**settings)
    except (ImportError, AttributeError, TypeError):
        return None


def started_light(spec: dict[str, Any]) -> tuple[LightPass | None, list[str]]:
    """A light recording under way, if one is asked for and possible here; else why there is none, if that is news."""
    if not spec.get("light_steps") or not uses_gpu(spec["device"]):
        return None, []
    if not _records_gpus():
        return None, ["no light recording, since this torch was built without CUPTI and can't record a GPU"]
    recording = LightPass(spec)
    try:
        recording.start()
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return None, [f"no light recording, since torch.profiler refused it: {reason}"]
    return recording, []


class LightPass:
    """One light recording; whoever runs the steps tells it where each ends."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._spec = spec
        self._config = with_sync_events()
        self._profiler: Any = None
        self._marks = Marks(spec["device"])

    @property
    def steps(self) -> int:
        """How many steps are recorded so far."""
        return self._marks.steps

    def start(self) -> None:
        """Starts recording; the steps to come warm up."""
        from torch.profiler import ProfilerActivity, profile

        synchronize(self._spec["device"])
        more = {} if self._config is None else {"experimental_config": self._config}
        profiler = profile(activities=[ProfilerActivity.CUDA], **more)
        profiler.start()
        self._profiler = profiler

    def begin(self) -> None:
        """Marks the beginning of the first step."""
        synchronize(self._spec["device"])
        self._marks.add()

    def step(self) -> None:
        """Marks the end of a step."""
        self._marks.add()

    def finish(self) -> dict[str, Any]:
        """Waits for the GPU, ends the recording and writes it.

        Returns:
            What run.json says of it (`parsers.runs.manifest.Pass`).
        """
        synchronize(self._spec["device"])
        self._marks.settle()
        profiler, self._profiler = self._profiler, None
        about = {
            "run": self._spec["run_id"],
            "entry": self._spec.get("entry"),
            "pass": "light",
            "marks": self._marks.unix_ns,
        }
        # Kineto takes metadata until the recording ends
        profiler.add_metadata_json("tracetui", json.dumps(about))
        profiler.stop()
        file = ranks.file_of(self._spec, LIGHT_TRACE)
        profiler.export_chrome_trace(str(Path(self._spec["out"]) / file))
        return _pass("light", file, self._marks, cuda_sync_events=self._config is not None)

    def drop(self) -> None:
        """Ends a recording that no step was recorded in, and writes nothing."""
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            profiler.stop()


def record_torch(spec: dict[str, Any], run_step: Callable[[], None], progress: Progress) -> dict[str, Any]:
    """Runs the steps under torch.profiler: where there is a GPU once with little recorded, then once with all.

    Args:
        spec: what the parent asked for.
        run_step: one step of the workload, its device work awaited where that belongs to the step.
        progress: told how many steps are done.
    """
    passes = []
    recording, skipped = started_light(spec)
    if recording is not None:
        passes.append(_record_light(recording, spec["light_steps"], run_step, progress))
    passes.append(_record_rich(spec, run_step, progress))
    warmup, steps = spec["profiler_warmup"], spec["steps"]
    return {
        "files": [recorded["file"] for recorded in passes],
        "schedule": {"wait": 0, "warmup": warmup, "active": steps, "repeat": 1, "skip_first": 0},
        "profiled_step_ns": passes[-1]["step_ns"],
        "passes": passes,
        "skipped": skipped,
    }


def _record_light(recording: LightPass, steps: int, run_step: Callable[[], None], progress: Progress) -> dict[str, Any]:
    for _ in range(LIGHT_WARMUP):
        run_step()
    recording.begin()
    for number in range(steps):
        run_step()
        recording.step()
        progress.say("light", number + 1, steps)
    return recording.finish()


def _record_rich(spec: dict[str, Any], run_step: Callable[[], None], progress: Progress) -> dict[str, Any]:
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available() and spec["device"] != "cpu":
        activities.append(ProfilerActivity.CUDA)
    target = Path(spec["out"]) / ranks.file_of(spec, TRACE)
    warmup, steps = spec["profiler_warmup"], spec["steps"]

    def write(profiler: Any) -> None:
        profiler.export_chrome_trace(str(target))

    marks = Marks(spec["device"])
    with profile(
        activities=activities,
        schedule=schedule(wait=0, warmup=warmup, active=steps, repeat=1),
        on_trace_ready=write,
        record_shapes=True,
        profile_memory=spec["with_memory"],
        with_stack=spec["with_stack"],
        **with_collections(),
    ) as profiler:
        profiler.add_metadata_json("tracetui", json.dumps(about(spec)))
        for number in range(warmup + steps):
            if number == warmup:
                marks.add()
            run_step()
            if number >= warmup:
                marks.add()
            if number in (warmup - 1, warmup + steps - 1):
                # otherwise the warm-up step's kernels would be recorded and the last step's cut off
                synchronize(spec["device"])
            profiler.step()
            progress.say("profiling", max(number + 1 - warmup, 0), steps)
    return rich_pass(spec, marks)


def record_capture(spec: dict[str, Any], run_step: Callable[[], None]) -> str:
    """Records a step that captures a CUDA graph, after the same work launched eagerly; returns the file's name.

    Replays have the names of what this step launched: nothing else tells where in the program their kernels come from.
    """
    from torch.profiler import profile

    with profile(record_shapes=True, with_stack=spec["with_stack"]) as profiler:
        profiler.add_metadata_json("tracetui", json.dumps({**about(spec), "pass": "capture"}))
        run_step()
        synchronize(spec["device"])
    profiler.export_chrome_trace(str(Path(spec["out"]) / CAPTURE_TRACE))
    return CAPTURE_TRACE


def about(spec: dict[str, Any]) -> dict[str, Any]:
    """What the rich recording says of itself in its metadata."""
    return {"run": spec["run_id"], "entry": spec["entry"], "pass": "rich"}


def rich_pass(spec: dict[str, Any], marks: Marks) -> dict[str, Any]:
    """What run.json says of the rich recording (`parsers.runs.manifest.Pass`).

    Args:
        spec: what the parent asked for.
        marks: the boundaries of its steps; the device has reached the last one.
    """
    return _pass(
        "rich",
        ranks.file_of(spec, TRACE),
        marks,
        operators=True,
        record_shapes=True,
        with_stack=spec["with_stack"],
        profile_memory=spec["with_memory"],
    )


def _pass(name: str, file: str, marks: Marks, **flags: bool) -> dict[str, Any]:
    times = {"steps": marks.steps, "step_ns": marks.step_ns(), "host_ns": marks.host_ns()}
    return {"name": name, "file": file, **times, "flags": {**dict.fromkeys(_FLAGS, False), **flags}}


def record_capture_range(spec: dict[str, Any], run_step: Callable[[], None], progress: Progress) -> dict[str, Any]:
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
            progress.say("profiling", number + 1, spec["steps"])
    finally:
        torch.cuda.synchronize()
        runtime.cudaProfilerStop()
    return {"files": []}


def record_memory(spec: dict[str, Any], run_step: Callable[[], None], progress: Progress) -> dict[str, Any]:
    """Runs the steps with the CUDA allocator's history on and writes the snapshot."""
    import torch

    if not torch.cuda.is_available():
        raise Refused("the memory snapshot is of CUDA's allocator, and torch sees no CUDA device here")
    target = Path(spec["out"]) / "memory.pickle"
    torch.cuda.memory._record_memory_history(max_entries=spec["memory_entries"], stacks="python")
    try:
        for number in range(spec["steps"]):
            run_step()
            progress.say("profiling", number + 1, spec["steps"])
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


def endless(make: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """Yields batches without end: an exhausted loader starts again."""
    while True:
        empty = True
        for batch in make():
            empty = False
            yield batch
        if empty:
            raise Refused("the data holds no batch")
