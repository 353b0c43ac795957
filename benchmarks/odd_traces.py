"""Whole reports of odd recordings at two sizes, each in a process of its own: twice as many should take twice as long.

    python benchmarks/odd_traces.py [--sizes 20000 40000] [--python OTHER/.venv/bin/python] [threads streams ...]

Prints processor seconds of all threads and the peak of memory, for text and JSON. A process that takes more than ten
minutes of processor time is ended.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PROGRAM = "import runpy; runpy.run_module('tracetui.app', run_name='__main__')"
LIMIT_S = 600
KINDS = ("threads", "processes", "streams", "devices", "names", "ranges", "steps", "nested")


def events(kind: str, size: int) -> list[dict[str, Any]]:
    """So many launches with what `kind` says all different; for ``nested``, one launch inside so many ranges."""
    found: list[dict[str, Any]] = []

    def add(cat: str, name: str, pid: int, tid: int, ts: int, dur: int, **args: int) -> None:
        found.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args})

    for at in range(size):
        of = {name: at if kind == name else 0 for name in KINDS}
        where = (1 + of["processes"], 1 + of["threads"] + of["processes"])
        launch = 10 * at if kind != "nested" else size
        if kind == "nested":
            add("user_annotation", f"range {at % 50} x", *where, at, 2 * (size - at))
            if at:
                continue
        elif kind == "ranges":
            add("user_annotation", f"range {at} x", *where, launch, 9)
        elif kind == "steps":
            add("user_annotation", f"ProfilerStep#{at}", *where, launch, 9)
        else:
            add("cpu_op", f"op{of['names']}", *where, launch, 5)
        add("cuda_runtime", "cudaLaunchKernel", *where, launch + 1, 2, correlation=at + 1)
        device, stream = of["devices"], 7 + of["streams"]
        args = {"device": device, "stream": stream, "correlation": at + 1}
        add("kernel", f"k{of['names']}", device, stream, launch + 5, 4, **args)
    return found


def measured(python: str, path: Path, form: str) -> str:
    """Processor seconds and peak memory of one report."""
    command = [python, "-c", PROGRAM, "report", str(path), "--no-cache", "--format", form]
    process = subprocess.Popen(
        command,
        env={**os.environ, "TRACETUI_NO_STATE": "1"},
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S)),
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        return f"ended with {process.returncode}"
    return f"{used.ru_utime + used.ru_stime:.1f} s, {used.ru_maxrss // 1024} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=KINDS, metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--sizes", type=int, nargs="+", default=(20_000, 40_000))
    parser.add_argument("--python", default=sys.executable, help="the Python of another checkout's environment")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for kind in options.kinds:
            for size in options.sizes:
                path = Path(folder, f"{kind}.json")
                path.write_text(json.dumps({"traceEvents": events(kind, size)}), "utf-8")
                told = ", ".join(f"{form} {measured(options.python, path, form)}" for form in ("text", "json"))
                print(f"{kind} {size}: {told}", flush=True)


if __name__ == "__main__":
    main()
