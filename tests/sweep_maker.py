"""Makes runs and sweeps as `tracetui profile` leaves them, without running anything."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def write_trace(path: Path, steps_us: Sequence[float], kernels: dict[str, tuple[int, float]]) -> None:
    """A Chrome trace: steps of these lengths, in each of them each kernel so many times of so many µs."""
    events: list[dict[str, Any]] = []
    at, correlation = 1000.0, 0

    def add(cat: str, name: str, start: float, duration: float, tid: int, args: dict[str, Any]) -> None:
        row = {"ph": "X", "cat": cat, "name": name, "ts": start, "dur": duration, "pid": 0 if tid == 7 else 1}
        events.append({**row, "tid": tid, "args": args})

    for number, length in enumerate(steps_us, 1):
        add("user_annotation", f"ProfilerStep#{number}", at, length, 1, {})
        begin = at + 1
        for name, (calls, each) in kernels.items():
            for _ in range(calls):
                correlation += 1
                add("cuda_runtime", "cudaLaunchKernel", begin - 0.5, 0.4, 1, {"correlation": correlation})
                add("kernel", name, begin, each, 7, {"correlation": correlation, "stream": 7, "device": 0})
                begin += each
        assert begin <= at + length, "the kernels do not fit into the step"
        at += length + 5
    path.write_text(json.dumps({"traceEvents": events}))


def manifest(**workload: Any) -> dict[str, Any]:
    """A run.json of a finished run."""
    return {
        "schema": "tracetui.run/1",
        "status": "finished",
        "device": [{"index": 0, "name": "NVIDIA H200", "sm_count": 132}],
        "workload": {"model": "made", "device": "cuda:0", "dtype": "fp32", "backend": "torch", **workload},
        "measurement": {"tool": "torch", "steps": 3, "flags": {"with_stack": False, "profile_memory": False}},
    }


def write_run(folder, steps_us, kernels, clean_us=(), **workload) -> None:
    """A run's folder: its trace and its run.json."""
    folder.mkdir(parents=True)
    write_trace(folder / "trace.pt.trace.json", steps_us, kernels)
    written = manifest(**workload)
    written["measurement"]["clean_step_ns"] = [int(1000 * step) for step in clean_us]
    (folder / "run.json").write_text(json.dumps(written))


def write_sweep(folder: Path, points: Sequence[tuple[dict[str, Any], Sequence[float], float, int]]) -> Path:
    """A sweep: for each point its options, the step of each repeat (µs), FLOPs, and its number of kernels of 10 µs."""
    entries = []
    for values, repeats, flops, kernels in points:
        for repeat, step in enumerate(repeats, 1):
            name = ",".join(f"{key}={value}" for key, value in values.items()) + f"/repeat-{repeat}"
            write_run(
                folder / name,
                [step * 1.2] * 3,
                {"sgemm": (kernels, 10.0)},
                [step * 3, step, step],
                options=values,
                requested_batch=values.get("batch"),
                batch=values.get("batch"),
                flops_per_step=int(flops),
            )
            entries.append({"values": values, "repeat": repeat, "folder": name, "status": "finished"})
    axes = [{"name": key, "values": sorted({str(p[0][key]) for p in points})} for key in points[0][0]]
    index = {"schema": "tracetui.sweep-index/1", "axes": axes, "points": entries}
    (folder / "sweep.json").write_text(json.dumps(index))
    return folder
