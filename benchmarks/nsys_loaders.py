"""Times the Nsight Systems reader against `polars.read_database`, alternately, each run in its own process.

    python benchmarks/make_nsys.py big.sqlite
    python benchmarks/nsys_loaders.py big.sqlite [--rounds 3] [--peer-rounds 1]

*columns* is every field of every event that the frames need, as typed columns with their names; *frames* the five
frames sorted, nested and linked; *polars* reads the three event tables and the strings through sqlite3, all columns,
and leaves the rest to do. Prints medians of the seconds of the call and of the processor seconds of the whole process
(which tell more where others use the machine too: ours keeps two cores busy), and the highest peak memory.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import subprocess
import sys
from pathlib import Path

MEASURE = """
import json, resource, sys, time
from pathlib import Path
path = Path(sys.argv[1])
{setup}
begin = time.perf_counter()
{call}
seconds = time.perf_counter() - begin
used = resource.getrusage(resource.RUSAGE_SELF)
print("RESULT", json.dumps([seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6]))
"""
READER = """
from tracetui.parsers.nsys.reader import read_events, read_nsys
from tracetui.parsers.progress import Watch
from tracetui.parsers.tally import Tally
"""
TABLES = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS")
LOADERS = {
    "columns": (READER, "kept = read_events(path, Tally(), Watch())"),
    "frames": (READER, "kept = read_nsys(path)"),
    "polars": (
        "import sqlite3\nimport polars as pl",
        "connection = sqlite3.connect(path)\n"
        f"kept = [pl.read_database(f'SELECT * FROM {{name}}', connection, infer_schema_length=None) "
        f"for name in {(*TABLES, 'StringIds')}]",
    ),
}
OURS = ("columns", "frames")


def run(code: str, path: Path) -> tuple[float, float, float]:
    """(seconds of the call, processor seconds of the process, peak MB)"""
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    line = next((line for line in done.stdout.splitlines() if line.startswith("RESULT")), None)
    if line is None:
        sys.exit(done.stderr.strip() or f"exit status {done.returncode}")
    seconds, processor, peak = json.loads(line.removeprefix("RESULT"))
    return seconds, processor, peak


def rows_of(path: Path) -> int:
    connection = sqlite3.connect(path)
    return sum(connection.execute(f"SELECT max(rowid) FROM {name}").fetchone()[0] or 0 for name in TABLES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("export", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer-rounds", type=int, default=1, help="rounds of what takes long (0 leaves it out)")
    options = parser.parse_args()
    size, rows = options.export.stat().st_size / 1e6, rows_of(options.export)
    results: dict[str, list[tuple[float, float, float]]] = {name: [] for name in LOADERS}
    for number in range(max(options.rounds, options.peer_rounds)):
        for name, (setup, call) in LOADERS.items():
            if number < (options.rounds if name in OURS else options.peer_rounds):
                results[name].append(run(MEASURE.format(setup=setup, call=call), options.export))
    print(f"{options.export.name}: {size:.1f} MB, {rows} rows, Python {sys.version.split()[0]}")
    print(f"{'loader':10}{'rounds':>7}{'call s':>8}{'M rows/s':>10}{'CPU s':>11}{'peak MB':>9}{'peak/size':>11}")
    seconds = {}
    for name, measured in results.items():
        if not measured:
            continue
        seconds[name] = statistics.median(row[0] for row in measured)
        processor, peak = statistics.median(row[1] for row in measured), max(row[2] for row in measured)
        print(
            f"{name:10}{len(measured):7}{seconds[name]:8.2f}{rows / seconds[name] / 1e6:10.2f}"
            f"{processor:11.2f}{peak:9.0f}{peak / size:11.2f}"
        )
    for name in OURS:
        if "polars" in seconds:
            print(f"{name} {seconds['polars'] / seconds[name]:.1f}x faster than polars.read_database")


if __name__ == "__main__":
    main()
