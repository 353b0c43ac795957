"""Runs the user's own program under torch.profiler, recording its optimizer steps or a stretch of time."""

from __future__ import annotations

import importlib
import json
import runpy
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import machine_torch
from .profilers import TRACE, Refused

if TYPE_CHECKING:
    from .progress import Progress


def run(spec: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Runs ``script`` (its argv) as ``python`` would, with a profiler inside.

    With ``window`` null, the profiler follows the calls of ``torch.optim.Optimizer.step``: `warmup` of them pass, then
    `steps` are recorded. A program that never calls it is recorded by time: ``window`` is (delay, length) in seconds.
    """
    recorder = _Recorder(spec, progress)
    argv = list(spec["script"])[1:]
    if not argv:
        raise Refused("no program to run")
    progress.say("warm-up", 0, spec["warmup"])
    if spec.get("window"):
        recorder.by_time(float(spec["window"][0]), float(spec["window"][1]))
    else:
        recorder.by_optimizer_step()
    code: Any = None
    try:
        _run_program(argv)
    except SystemExit as left:
        code = left.code
    finally:
        recorder.stop()
    recorder.check()
    if code:
        raise SystemExit(code)
    return {
        "software": machine_torch.software(),
        "settings": machine_torch.settings(),
        "devices": machine_torch.devices(),
        "workload": {"model": " ".join(argv), "backend": "user"},
        "measurement": {"files": recorder.files, "steps_recorded": recorder.recorded, "clean_step_ns": []},
    }


def _run_program(argv: Any) -> None:
    if argv[:1] == ["-m"]:
        sys.argv = argv[1:]
        sys.path[0] = str(Path.cwd())
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = argv
        sys.path[0] = str(Path(argv[0]).absolute().parent)
        runpy.run_path(argv[0], run_name="__main__")


class _Recorder:
    """A profiler that somebody else's program steps without knowing it."""

    def __init__(self, spec: dict[str, Any], progress: Progress) -> None:
        self._spec = spec
        self._progress = progress
        self._profiler: Any | None = None
        self._calls = 0
        self._done = False
        self._follows_steps = False
        self.recorded = 0
        self.files: list[str] = []

    def by_optimizer_step(self) -> None:
        """Follows the optimizer."""
        try:
            from torch.optim.optimizer import register_optimizer_step_post_hook
        except ImportError as error:
            raise Refused(
                "this torch has no hook for optimizer steps; give a stretch of time: --window DELAY+LENGTH"
            ) from error
        self._follows_steps = True
        register_optimizer_step_post_hook(lambda *_: self._stepped())

    def by_time(self, delay: float, length: float) -> None:
        """Records from `delay` seconds after now for `length` seconds.

        A signal's handler runs in the main thread, and the profiler follows the operators of the thread that starts it.
        torch is there before the clock runs: it must not be interrupted while it is being imported.
        """
        importlib.import_module("torch.profiler")

        def ring(*_: Any) -> None:
            if self._profiler is None and not self._done:
                self._start()
                signal.setitimer(signal.ITIMER_REAL, length)
            else:
                self.stop()

        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, max(delay, 1e-3))

    def _stepped(self) -> None:
        self._calls += 1
        past = self._calls - self._spec["warmup"]
        if self._done:
            return
        if past < 0:
            self._progress.say("warm-up", self._calls, self._spec["warmup"])
        elif past == 0:
            self._start()
        elif self._profiler is not None:
            self.recorded = past
            self._progress.say("profiling", past, self._spec["steps"])
            if past < self._spec["steps"]:
                self._profiler.step()
            else:
                self.stop()

    def _start(self) -> None:
        import torch
        from torch.profiler import ProfilerAction, ProfilerActivity, profile

        if self._done or self._profiler is not None:
            return
        activities = [ProfilerActivity.CPU]
        if torch.cuda.is_available():
            torch.cuda.synchronize()
            activities.append(ProfilerActivity.CUDA)
        self._profiler = profile(
            activities=activities,
            schedule=lambda _: ProfilerAction.RECORD,  # without a schedule it would mark no steps
            record_shapes=True,
            profile_memory=self._spec["with_memory"],
            with_stack=self._spec["with_stack"],
        )
        self._profiler.start()
        self._profiler.add_metadata_json("tracetui", json.dumps({"run": self._spec["run_id"]}))
        self._progress.say("profiling", 0, self._spec["steps"])

    def stop(self) -> None:
        """Ends the recording, if one is under way, and writes it."""
        import torch

        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return
        self._done = True
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        profiler.stop()
        self._progress.say("writing")
        target = Path(self._spec["out"]) / TRACE
        profiler.export_chrome_trace(str(target))
        self.files.append(target.name)

    def check(self) -> None:
        """Reports that the program ended before anything was recorded."""
        if not self._done or (self._follows_steps and not self.recorded):
            raise Refused(
                f"the program ended before a step was recorded: it called optimizer.step() {self._calls} times, and "
                f"recording begins after {self._spec['warmup']}; lower --warmup, or record a stretch of time: "
                "--window DELAY+LENGTH"
            )
