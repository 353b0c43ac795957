"""Running a workload's steps: warm-up, a clean loop without any profiler, then the steps under the tool."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from . import ranks
from .marks import Marks, synchronize
from .profilers import RECORDERS, endless

if TYPE_CHECKING:
    from collections.abc import Callable

LEAST_WARMUP_S = 3.0
"""On CUDA the clocks need some seconds to rise, however many steps run in that time."""
MOST_WARMUP_STEPS = 1000


def run(spec: dict[str, Any], workload: Any, progress: Any) -> dict[str, Any]:
    """Runs the workload as the spec asks.

    Args:
        spec: see `collectors.profiler_commands.child_spec`.
        workload: what an entry of `models` built.
        progress: told of every step.

    Returns:
        ``clean_step_ns`` and ``clean_host_ns`` (one per clean step; empty where none was asked for) and what the tool's
        recorder returned.
    """
    batches = endless(workload.batches)

    def run_step() -> None:
        workload.step(next(batches))

    warm_up(spec, run_step, progress)
    clean = clean_loop(spec, run_step, progress)
    recorded = RECORDERS[spec["tool"]](spec, run_step, progress)
    return {**recorded, "clean_step_ns": clean.step_ns(), "clean_host_ns": clean.host_ns()}


def warm_up(spec: dict[str, Any], run_step: Callable[[], None], progress: Any) -> None:
    """Runs at least the warm-up steps of the spec, and on CUDA for at least its seconds."""
    begun = time.monotonic()
    least = 0.0 if spec["device"] == "cpu" else spec.get("warmup_s", LEAST_WARMUP_S)
    for number in range(MOST_WARMUP_STEPS):
        enough = number >= spec["warmup"] and time.monotonic() - begun >= least
        if not ranks.agreed(spec, number, wants=not enough):
            break
        progress.say("warm-up", number, spec["warmup"])
        run_step()
        synchronize(spec["device"])


def clean_loop(spec: dict[str, Any], run_step: Callable[[], None], progress: Any) -> Marks:
    """Times steps without a profiler, each from the end of the previous step to its own end.

    It must run before anything is recorded: the first recording loads CUPTI, which then stays in the process and slows
    its calls down. On CUDA the ends are events on the stream, so that the host may run ahead as it does elsewhere.
    """
    marks = Marks(spec["device"])
    count = spec["clean_steps"]
    if not count:
        return marks
    synchronize(spec["device"])
    ranks.meet(spec, "clean")
    marks.add()
    for number in range(count):
        run_step()
        marks.add()
        progress.say("clean", number + 1, count)
    synchronize(spec["device"])
    return marks
