"""Times reports of small recordings in this checkout and another, alternately, each run in its own process.

    python benchmarks/small_reports.py --other OTHER/.venv/bin/python [--rounds 9] [--big big.json]

Prints medians and least values of processor time (all threads) and of wall time, and the ratios this / other. The least
processor time tells most on a machine with other work. Both checkouts compile their modules in the first round, which
does not count. With `--big` the text report of a large trace stands beside `open_path` alone. Each round has a variable
of its own, so that no report finds its text of the round before, but those that are said to.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = "import runpy; runpy.run_module('tracetui.app', run_name='__main__')"
OPEN = "import os, sys; from tracetui.parsers import open_path; run = open_path(sys.argv[1], cache=False); os._exit(0)"
FLOOR = "import numpy, polars"
AGAIN = ", printed before"


def measured(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Processor and wall seconds of a process."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    lasted = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed with {process.returncode}")
    return used.ru_utime + used.ru_stime, lasted


def cases(big: Path | None) -> dict[str, list[str]]:
    """What is run, by name: the words after ``python -c``."""
    found = {
        "Polars and NumPy imported, no more": [FLOOR],
        "report --sample": [PROGRAM, "report", "--sample"],
        "report --sample, uncached": [PROGRAM, "report", "--sample", "--no-cache"],
        "report --sample --section overview": [PROGRAM, "report", "--sample", "--section", "overview"],
        "the same, uncached": [PROGRAM, "report", "--sample", "--section", "overview", "--no-cache"],
        f"report --sample{AGAIN}": [PROGRAM, "report", "--sample"],
    }
    if big is not None:
        found["open_path of the large trace"] = [OPEN, str(big)]
        found["its text report, uncached"] = [PROGRAM, "report", str(big), "--no-cache"]
        found["its text report, from the cache"] = [PROGRAM, "report", str(big)]
        found[f"its text report{AGAIN}"] = [PROGRAM, "report", str(big)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", type=Path, required=True, help="the Python of another checkout's environment")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--big", type=Path, help="a large trace, as make_trace.py writes it")
    options = parser.parse_args()
    pythons = {"other": str(options.other), "this": sys.executable}
    with tempfile.TemporaryDirectory() as folder:
        environments = {}
        for side in pythons:
            environments[side] = {
                **os.environ,
                "PYTHONPYCACHEPREFIX": f"{folder}/{side}-modules",
                "TRACETUI_CACHE_DIR": f"{folder}/{side}-traces",
                "TRACETUI_NO_STATE": "1",
            }
            environments[side].pop("PYTHONDONTWRITEBYTECODE", None)
        for name, words in cases(options.big).items():
            times: dict[str, list[tuple[float, float]]] = {side: [] for side in pythons}
            for number in range(options.rounds + 1):
                for side, python in pythons.items():
                    own = {} if name.endswith(AGAIN) else {"TRACETUI_ROUND": str(number)}
                    found = measured([python, "-c", *words], {**environments[side], **own})
                    if number:
                        times[side].append(found)
            print(f"{name}, {options.rounds} rounds:")
            for what, place in (("processor", 0), ("wall", 1)):
                of = {side: [one[place] for one in found] for side, found in times.items()}
                middle = {side: statistics.median(values) for side, values in of.items()}
                least = {side: min(values) for side, values in of.items()}
                print(
                    f"  {what:9} s  median {middle['other']:.3f} -> {middle['this']:.3f} "
                    f"({middle['this'] / middle['other']:.2f})   least {least['other']:.3f} -> {least['this']:.3f} "
                    f"({least['this'] / least['other']:.2f})",
                    flush=True,
                )


if __name__ == "__main__":
    main()
