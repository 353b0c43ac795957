"""Times the Chrome reader against json.load and HolisticTraceAnalysis, alternately, each run in its own process.

    python benchmarks/make_trace.py 300 big.json
    python benchmarks/loaders.py big.json --hta-python path/to/python-with-HTA [--rounds 5]

Prints per loader the median seconds of the call, the median of the whole process, its peak memory, and how many times
faster ours is. HTA is installed apart (pip install HolisticTraceAnalysis) because it brings pandas and plotly.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

MEASURE = """
import json, resource, sys, time
path = sys.argv[1]
{setup}
begin = time.perf_counter()
{call}
seconds = time.perf_counter() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print("RESULT", json.dumps([seconds, peak]))
"""
READER = """
from pathlib import Path
from tracetui.parsers.chrome.reader import read_chrome, read_events
from tracetui.parsers.progress import Watch
from tracetui.parsers.tally import Tally
"""
LOADERS = {
    "columns": (READER, "kept = read_events(Path(path), Tally(), Watch())"),
    "frames": (READER, "kept = read_chrome(Path(path))"),
    "json.load": ("", "kept = json.load(open(path, 'rb'))"),
    "HTA": (
        "import logging; logging.disable(logging.CRITICAL)\n"
        "from hta.common.trace_parser import parse_trace_dataframe\nfrom hta.configs.parser_config import ParserConfig",
        "kept = parse_trace_dataframe(path, ParserConfig())",
    ),
}


def run(python: str, code: str, path: Path) -> tuple[float, float, float]:
    """(seconds of the call, seconds of the process, peak MB)"""
    begin = time.perf_counter()
    done = subprocess.run([python, "-c", code, str(path)], capture_output=True, text=True, check=False)
    wall = time.perf_counter() - begin
    line = next((line for line in done.stdout.splitlines() if line.startswith("RESULT")), None)
    if line is None:
        sys.exit(f"{python}: {done.stderr.strip().splitlines()[-1:] or done.returncode}")
    seconds, peak = json.loads(line.removeprefix("RESULT"))
    return seconds, wall, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--hta-python", help="interpreter that has HolisticTraceAnalysis; without it HTA is left out")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=LOADERS, default=list(LOADERS))
    options = parser.parse_args()
    size = options.trace.stat().st_size / 1e6
    names = [name for name in options.only if name != "HTA" or options.hta_python]
    results: dict[str, list[tuple[float, float, float]]] = {name: [] for name in names}
    for _ in range(options.rounds):
        for name in names:
            setup, call = LOADERS[name]
            python = options.hta_python if name == "HTA" else sys.executable
            results[name].append(run(python, MEASURE.format(setup=setup, call=call), options.trace))
    print(f"{options.trace.name}: {size:.1f} MB on disk, {options.rounds} rounds, Python {sys.version.split()[0]}")
    median = {name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in results.items()}
    print(
        f"{'loader':12} {'call s':>8} {'process s':>10} {'peak MB':>8} {'peak/size':>10}  columns faster  frames faster"
    )
    for name, (seconds, wall, peak) in median.items():
        ratios = [seconds / median[ours][0] if ours in median else float("nan") for ours in ("columns", "frames")]
        cost = f"{seconds:8.2f} {wall:10.2f} {peak:8.0f} {peak / size:10.2f}"
        print(f"{name:12} {cost} {ratios[0]:14.1f}x {ratios[1]:13.1f}x")


if __name__ == "__main__":
    main()
