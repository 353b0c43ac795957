"""Asks the Python that runs workloads, in a separate process, what it has installed; imports none of it here."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from tracetui.collectors.checks.check import TargetPython
from tracetui.collectors.machine import recording as machines
from tracetui.collectors.machine.probe import ROOT, Probe, Ran, Runner, run_command

SECONDS = 180.0
"""Importing torch from a board's memory card is slow."""
MARK = "tracetui-doctor:"
_ASK = """
import json, sys
found = {"version": ".".join(str(n) for n in sys.version_info[:3]), "packages": {}}
def say(error):
    return (type(error).__name__ + ": " + str(error)).splitlines()[0][:300]
try:
    import importlib.metadata as metadata
except ImportError:
    metadata = None
def version(*names):
    for name in names:
        try:
            return metadata.version(name)
        except Exception:
            pass
    return None
try:
    import torch
    found["torch"] = torch.__version__
    found["cuda_runtime"] = torch.version.cuda
    try:
        found["cuda_available"] = torch.cuda.is_available()
        if found["cuda_available"]:
            torch.cuda.init()
            facts = torch.cuda.get_device_properties(0)
            found["compute_capability"] = "%d.%d" % (facts.major, facts.minor)
            found["sm_count"] = facts.multi_processor_count
        elif torch.version.cuda:
            torch.cuda.init()
    except Exception as error:
        found["cuda_error"] = say(error)
    try:
        found["architectures"] = list(torch.cuda.get_arch_list())
        found["cudnn"] = str(torch.backends.cudnn.version() or "") or None
    except Exception:
        pass
except ImportError as error:
    if getattr(error, "name", None) != "torch":
        found["torch_error"] = say(error)
except Exception as error:
    found["torch_error"] = say(error)
found["cupti"] = version(*("nvidia-cuda-cupti" + end for end in ("", "-cu13", "-cu12", "-cu11")))
for name, modules in (
    ("mamba_ssm", ("selective_scan_cuda",)), ("causal_conv1d", ("causal_conv1d_cuda",)), ("timm", ("timm",)),
    ("triton", ("triton",)), ("PIL", ("PIL",)),
):
    try:
        for module in modules:
            __import__(module)
        known = version(name, name.replace("_", "-"), "pillow" if name == "PIL" else name)
        found["packages"][name] = known or "unknown version"
    except ImportError as error:
        if getattr(error, "name", None) not in (name,) + modules:
            found["packages"][name] = "error: " + say(error)
    except Exception as error:
        found["packages"][name] = "error: " + say(error)
print("tracetui-doctor:" + json.dumps(found))
"""


def ask(probe: Probe, python: str | None) -> TargetPython:
    """Returns what the Python at a path, or this one, has installed."""
    path = python or sys.executable
    ran = probe.run(path, "-c", _ASK, timeout_s=SECONDS)
    said = _answer(ran, MARK)
    if said is None:
        why = "its answer could not be read" if MARK in ran.out else _why(ran.code, ran.err)
        return TargetPython(path, answered=False, error=why)
    said["architectures"] = tuple(said.get("architectures") or ())
    known = {key: value for key, value in said.items() if key in TargetPython.__dataclass_fields__}
    return TargetPython(path, answered=True, **known)


def _why(code: int | None, said: str) -> str:
    last = said.strip().splitlines()[-1] if said.strip() else ""
    if code is None:
        return last or "it could not be started"
    if code < 0:
        return f"signal {-code} ended it while torch was imported"
    return last or f"it ended with exit code {code}"


def _answer(ran: Ran, mark: str) -> dict[str, Any] | None:
    """The JSON of the last line that begins with the mark; None if there is none that can be read."""
    line = next((line for line in reversed(ran.out.splitlines()) if line.startswith(mark)), None)
    try:
        said = None if line is None else json.loads(line.removeprefix(mark))
    except ValueError:
        return None
    return said if isinstance(said, dict) else None


# --- what the GPU reaches

PROGRAM = Path(__file__).with_name("measure_peaks.py")
PEAKS_MARK = "tracetui-peaks:"
PEAKS_SECONDS = 300.0
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
    ran = Probe(root, runner).run(python or sys.executable, str(PROGRAM), timeout_s=PEAKS_SECONDS)
    said = _answer(ran, PEAKS_MARK)
    if said is None:
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
