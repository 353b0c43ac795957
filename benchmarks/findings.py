"""How long the rules behind the findings take, rule by rule.

    python benchmarks/findings.py FILE [--rules 12]

Seconds, and processor seconds of all threads; what several rules look at (steps, the replay of launches, ...) counts
with the one that asks first.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from tracetui.analysis.findings import engine
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.engine import findings_of
from tracetui.parsers.runs.opening import open_path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rules", type=int, default=12, help="how many to list")
    options = parser.parse_args()
    run = open_path(options.file)
    spent: list[tuple[float, float, str]] = []
    ask = engine._ask

    def timed(declared, *more):  # type: ignore[no-untyped-def]
        begin, used = time.perf_counter(), time.process_time()
        try:
            return ask(declared, *more)
        finally:
            spent.append((time.process_time() - used, time.perf_counter() - begin, declared.id))

    engine._ask = timed
    begin, used = time.perf_counter(), time.process_time()
    findings_of(Facts(run, run.main))
    print("| rule | seconds | processor seconds |\n|---|--:|--:|")
    print(f"| all | {time.perf_counter() - begin:.1f} | {time.process_time() - used:.1f} |")
    for cpu, wall, id in sorted(spent, reverse=True)[: options.rules]:
        print(f"| {id} | {wall:.2f} | {cpu:.2f} |")


if __name__ == "__main__":
    main()
