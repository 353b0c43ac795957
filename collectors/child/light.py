"""The light pass: a recording of the GPU and of the calls that give it work, which hardly slows the program down.

It has no operators, modules or shapes, and no steps: their boundaries go into the trace's metadata. The rich pass after
it has the names; `analysis.matching.light_times` carries them over.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from . import ranks
from .marks import Marks, synchronize, uses_gpu

TRACE = "light.pt.trace.json.gz"
WARMUP = 2
"""Steps at the beginning of the recording that do not count: CUPTI makes its buffers there."""


def _records_gpus() -> bool:
    """Whether this torch can record a GPU: builds without CUPTI can't."""
    from torch.profiler import ProfilerActivity

    try:
        from torch.profiler import supported_activities
    except ImportError:  # before torch 1.9; it can only be tried
        return True
    return ProfilerActivity.CUDA in supported_activities()


def with_sync_events() -> Any:
    """The setting that has waits for streams and events recorded too; None where this torch lacks it."""
    try:
        from torch._C._profiler import _ExperimentalConfig

        return _ExperimentalConfig(enable_cuda_sync_events=True)
    except (ImportError, AttributeError, TypeError):
        return None


def started(spec: dict[str, Any]) -> tuple[LightPass | None, list[str]]:
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
        profiler.export_chrome_trace(str(Path(self._spec["out"]) / ranks.file_of(self._spec, TRACE)))
        return {
            "name": "light",
            "file": ranks.file_of(self._spec, TRACE),
            "steps": self.steps,
            "step_ns": self._marks.step_ns(),
            "host_ns": self._marks.host_ns(),
            "flags": {
                "operators": False,
                "record_shapes": False,
                "with_stack": False,
                "profile_memory": False,
                "cuda_sync_events": self._config is not None,
            },
        }

    def drop(self) -> None:
        """Ends a recording that no step was recorded in, and writes nothing."""
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            profiler.stop()
