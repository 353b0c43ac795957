"""Runs the benchmark of `tracetui doctor --measure-peaks` in the Python of workloads and reads its output."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from tracetui.collectors.machine import recording as machines
from tracetui.collectors.machine.probe import ROOT, Probe, Runner, run_command

PROGRAM = Path(__file__).parents[1] / "child" / "measure_peaks.py"
MARK = "tracetui-peaks:"
SECONDS = 300.0
"""Most of this time is for importing torch from a board's memory card."""


class MeasureError(Exception):
    """Nothing was measured; the text says why, in one line."""


def measure_peaks(python: str | None = None, *, root: Path = ROOT, runner: Runner = run_command) -> dict[str, Any]:
    """Measures the first GPU: ``device``, ``sm_count``, ``flops`` by precision, ``bandwidth``, its clock cap, the time.

    Args:
        python: the Python that runs workloads; this one if None.
        root: where the machine's files are.
        runner: runs the program and the machine's tools.

    Raises:
        MeasureError: torch or a GPU is missing, or the benchmark failed.
    """
    ran = Probe(root, runner).run(python or sys.executable, str(PROGRAM), timeout_s=SECONDS)
    line = next((line for line in reversed(ran.out.splitlines()) if line.startswith(MARK)), None)
    said: Any = None
    if line is not None:
        try:
            said = json.loads(line[len(MARK) :])
        except ValueError:
            said = None
    if not isinstance(said, dict):
        last = ran.err.strip().splitlines()[-1:] or ["the benchmark printed nothing"]
        raise MeasureError(last[0])
    if said.get("error"):
        raise MeasureError(str(said["error"]))
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {**said, "clock_cap_hz": _cap(root, runner), "measured_utc": when}


def _cap(root: Path, runner: Runner) -> int | None:
    """The highest clock allowed now; the measurement holds only for this cap."""
    gpus = machines.power_state(root=root, runner=runner).get("gpus") or [{}]
    cap = gpus[0].get("max_clock_hz")
    return cap if isinstance(cap, int) else None
