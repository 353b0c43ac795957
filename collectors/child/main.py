"""Does what a spec asks: builds the workload or runs the user's script under one tool, and reports the result.

Writes ``result.<tool>.json`` beside the recording, also when it fails; exits with 0, 1 (it failed) or 2 (it can't be
done here). What a user's program has yielded so far is written as soon as it is known: the program may leave through
``os._exit`` or be killed.
"""

from __future__ import annotations

import importlib
import json
import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import compiled, machine_torch, prove, ranks, script
from .marks import Marks, synchronize
from .profilers import RECORDERS, Refused, endless, record_capture
from .progress import Progress
from .sampling import Sampling

LEAST_WARMUP_S = 3.0
"""On CUDA the clocks need some seconds to rise, however many steps run in that time."""
MOST_WARMUP_STEPS = 1000


def run_steps(spec: dict[str, Any], workload: Any, progress: Any) -> dict[str, Any]:
    """Runs the workload as the spec asks.

    Args:
        spec: see `collectors.profiler_commands.child_spec`.
        workload: what an entry of `models` built.
        progress: told of every step.

    Returns:
        ``clean_step_ns`` and ``clean_host_ns`` (one per clean step; empty where none was asked for), ``sampled``, and
        what the tool's recorder returned.
    """
    batches = endless(workload.batches)

    def run_step() -> None:
        workload.step(next(batches))

    warm_up(spec, run_step, progress)
    clean = clean_loop(spec, run_step, progress)
    sampling = Sampling(spec, clean, progress)
    while sampling.goes_on():
        run_step()
        sampling.step()
    recorded = RECORDERS[spec["tool"]](spec, run_step, progress)
    if spec["tool"] == "torch" and getattr(workload, "recapture", bool)():
        recorded["files"].append(record_capture(spec, run_step))
    skipped = [*sampling.skipped, *recorded.get("skipped", ())]
    return {
        **recorded,
        "skipped": skipped,
        "sampled": sampling.measured(),
        "clean_step_ns": clean.step_ns(),
        "clean_host_ns": clean.host_ns(),
    }


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


FAILED, REFUSED = 1, 2


def main(path: str) -> int:
    """Does what the spec at `path` asks; returns the exit code."""
    spec = ranks.placed(json.loads(Path(path).read_text()))
    progress = Progress(spec["progress"] if ranks.told(spec) else os.devnull)
    # torn down after the light recording, CUPTI would have to start again for the next one, which has crashed programs
    # with CUDA graphs and has cost recordings their GPU activities; nothing is timed after it anyway
    os.environ.setdefault("TEARDOWN_CUPTI", "0")
    os.environ.setdefault(compiled.PROVENANCE, "1")
    result: dict[str, Any] = {"tool": spec["tool"], "error": None}
    code = 0
    if spec.get("rank") is not None:
        ranks.end_with_the_others()
    file = Path(spec["out"]) / f"result.{ranks.file_of(spec, spec['tool'])}.json"
    try:
        _run(spec, progress, result, lambda: _write(file, _by_rank(spec, {**result, "unfinished": True})))
    except Exception as error:  # whatever happened, the user gets one line
        is_refusal = isinstance(error, Refused) or any(kind.__name__ == "ModelError" for kind in type(error).__mro__)
        code = REFUSED if is_refusal else FAILED
        result["error"] = str(error) if is_refusal else f"{type(error).__name__}: {_first_line(error)}"
        result["out_of_memory"] = prove.is_out_of_memory(error)
        traceback.print_exc()
    except KeyboardInterrupt:
        code, result["error"] = 130, "interrupted"
    except SystemExit as left:  # the user's script left on its own
        code = left.code if isinstance(left.code, int) else (1 if left.code else 0)
        result["error"] = None if not code else f"the program exited with code {code}"
    try:
        if (told := compiled.kept(Path(spec["out"]))) is not None:
            result.setdefault("measurement", {})["compiled"] = told
    except Exception as error:  # what torch.compile tells is its own affair, and no reason to fail
        problem = f"what torch.compile wrote was not kept: {type(error).__name__}: {_first_line(error)}"
        result["notes"] = [*result.get("notes", ()), problem]
    _write(file, _by_rank(spec, result))
    return code


def _by_rank(spec: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """The result with the rank that it is of, where the job has ranks."""
    if spec.get("rank") is None:
        return result
    return {**result, "rank": {**ranks.identity(spec), "ended_unix_ns": time.time_ns()}}


def _run(spec: dict[str, Any], progress: Progress, result: dict[str, Any], keep: Callable[[], None]) -> None:
    if spec.get("script"):
        script.run(spec, progress, result, keep)
        return
    if spec.get("variants"):
        prove.run(spec, progress, result)
        return
    progress.say("building")
    registry = importlib.import_module(spec["registry"])
    workload = registry.find(spec["entry"]).build(spec["options"])
    progress.say("warm-up", 0, spec["warmup"], notes=list(workload.notes))
    measured = run_steps(spec, workload, progress)
    leave = getattr(workload, "leave", None)  # a workload of the user's own may have none
    if leave is not None:
        leave()
    # asked after the steps: only then it knows what it really saw
    described = workload.describe()
    result.update(
        {
            **machine_torch.facts(),
            "notes": described.pop("notes", []),
            "workload": described,
            "skipped": measured.pop("skipped", []),
            "measurement": measured,
        }
    )


def _first_line(error: BaseException) -> str:
    text = str(error).strip()  # torch puts its frames into the line
    return text.splitlines()[0].partition(" Stack trace: ")[0] if text else "no message"


def _write(path: Path, result: dict[str, Any]) -> None:
    """Writes the whole file or nothing, since the parent may read it at any moment."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(result, indent=1, default=str) + "\n")
    partial.replace(path)
