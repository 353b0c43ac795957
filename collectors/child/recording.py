"""Records steps from within a program, as `tracetui profile` does from outside: `with recording("run") as record`.

Sampling and what is known of the machine's clocks need a process beside it, so there are none.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
import uuid
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import machine_torch
from .marks import MEASURED
from .profilers import Refused
from .progress import Progress
from .script import Recorder

if TYPE_CHECKING:
    from types import TracebackType


class recording:  # noqa: N801  as open() and profile() are spelled
    """Records the steps of a program into a folder that tracetui opens.

    The program calls `step` at the end of each. In order, as `tracetui profile` does: some pass, some are timed without
    a profiler, on a GPU some are recorded lightly, and `steps` with everything; then all of it is written, and the
    program goes on as if nothing had been. Of a job with ranks the first is recorded.
    """

    def __init__(
        self,
        output: str | os.PathLike[str],
        *,
        steps: int = 3,
        warmup: int = 3,
        clean_steps: int = 10,
        light_steps: int = 10,
        with_stack: bool = True,
        with_memory: bool = False,
        device: str = "cuda",
    ) -> None:
        """Says what is recorded; numbers are of steps.

        Args:
            output: the folder to make.
            steps: recorded with operators, shapes and modules.
            warmup: passed before anything is timed.
            clean_steps: timed without a profiler.
            light_steps: of a GPU, recorded lightly; 0 for none.
            with_stack: record Python's functions and modules.
            with_memory: record the allocator's events.
            device: ``cpu`` for a program whose GPU work does not count.
        """
        self._final = Path(output).absolute()
        self._partial = self._final.with_name(self._final.name + ".partial")
        flags = {"with_stack": with_stack, "with_memory": with_memory}
        self._spec: dict[str, Any] = {
            "run_id": str(uuid.uuid4()), "tool": "torch", "out": str(self._partial), "entry": None, "device": device,
            "steps": steps, "warmup": warmup, "clean_steps": clean_steps, "light_steps": light_steps,
            "sample_seconds": 0, **flags,
        }  # fmt: skip
        self._wanted = os.environ.get("RANK", "0") == "0"
        self._recorder: Recorder | None = None
        self._stepped: Any = None

    def __enter__(self) -> recording:
        """Begins with the steps that pass; one that has ended records nothing more, as of a trainer that fits twice."""
        if not self._wanted:
            return self
        if self._final.exists():
            raise Refused(f"{self._final}: exists already")
        import torch

        if not torch.cuda.is_available():
            self._spec["device"] = "cpu"
        self._partial.mkdir(parents=True, exist_ok=True)
        os.environ.setdefault("TEARDOWN_CUPTI", "0")  # as `main` does
        self._begun = time.time_ns()
        self._recorder = Recorder(self._spec, Progress(os.devnull), lambda: self._write("running", None))
        self._stepped = self._recorder.by_hand()
        self._write("running", None)
        return self

    def step(self) -> None:
        """Ends a step."""
        if self._recorder is not None:
            self._stepped()
            if self._recorder.has_all:
                self._end(None)

    @property
    def going(self) -> bool:
        """Whether there are steps to come."""
        return self._recorder is not None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Ends a recording that is still under way; what it has is kept."""
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        recorder = self._recorder
        if recorder is None:
            return
        why = None if error is None else type(error).__name__
        recorder.stop()
        try:
            recorder.check()
        except Refused:
            why = why or "the program ended before a step was recorded"
        self._write("finished" if why is None else "failed", why)
        self._recorder, self._wanted = None, False
        self._partial.rename(self._final)
        clean = recorder.measured()["clean_step_ns"]
        step = f"; a step without a profiler takes {statistics.median(clean) / 1e6:.4g} ms" if clean else ""
        print(f"tracetui: {why or 'recorded'}{step}: tracetui {self._final}", file=sys.stderr)  # in a trainer's log

    def _write(self, status: str, why: str | None) -> None:
        """Writes run.json (`parsers.runs.manifest`), whole or not at all."""
        recorder, spec = self._recorder, self._spec
        if recorder is None:
            return
        facts = machine_torch.facts(recorder.settings)
        measured = recorder.measured()
        program = Path(sys.argv[0]).name  # its arguments may hold secrets
        ended = status != "running"
        manifest = {
            "schema": "tracetui.run/1",
            "status": status,
            "identity": {
                "run_id": spec["run_id"],
                "started_utc": datetime.fromtimestamp(self._begun // 10**9, timezone.utc).isoformat(),
                "started_unix_ns": self._begun,
                "pid": os.getpid(),
            },
            "software": facts["software"],
            "device": facts["devices"],
            "workload": {"model": program, "device": spec["device"], "backend": "user", **facts["settings"]},
            "measurement": {
                "tool": "torch",
                "warmup_steps": spec["warmup"],
                "steps": spec["steps"],
                "flags": {
                    "with_stack": spec["with_stack"],
                    "profile_memory": spec["with_memory"],
                    "record_shapes": True,
                },
                **{key: measured[key] for key in MEASURED if measured.get(key)},
            },
            "outcome": {
                "explanation": why,
                "ended_unix_ns": time.time_ns() if ended else None,
                "duration_ns": time.time_ns() - self._begun if ended else None,
                "skipped": recorder.skipped() if ended else [],
            },
        }
        scratch = self._partial / "run.json.partial"
        scratch.write_text(json.dumps(manifest, indent=1) + "\n")
        scratch.replace(self._partial / "run.json")
