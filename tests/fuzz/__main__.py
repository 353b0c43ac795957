"""`python -m fuzz`: tries inputs on several processes, and writes what came of them."""

import argparse
import json
import math
import sys
import time
from pathlib import Path

from fuzz import loop
from fuzz.formats import FORMATS
from fuzz.page import write_table


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fuzz", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="everything follows from it (default: 1)")
    parser.add_argument("--format", action="append", choices=list(FORMATS), help="may be repeated (default: all)")
    parser.add_argument("--count", type=int, default=4000, help="inputs in all, spread over the formats")
    parser.add_argument("--first", type=int, default=0, help="number of the first input of each format")
    parser.add_argument("--only", type=int, help="one input of one format, by its number")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="begin no input after so long (default: no end)"
    )
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"), help="folder for finds and summary.json")
    parser.add_argument(
        "--table", type=Path, nargs="+", help="only write benchmarks/trust.md's table, of these summaries"
    )
    return parser


def main() -> int:
    """Returns 1 if anything was found."""
    given = _parser().parse_args()
    if given.table:
        write_table(given.table)
        return 0
    names = given.format or list(FORMATS)
    if given.only is not None:
        (finds := given.out / "finds").mkdir(parents=True, exist_ok=True)
        return int(loop.one(names[0], given.seed, given.only, finds))
    began = time.time()
    summary = loop.run(names, given.seed, given.first, given.count, given.jobs, given.out, given.seconds)
    summary["seconds"] = round(time.time() - began)
    (given.out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    found = sum(len(each["finds"]) for each in summary["formats"].values())
    print(f"{sum(each['inputs'] for each in summary['formats'].values()):,} inputs, seed {given.seed}, "
          f"{summary['seconds']:,} s: {found} kinds of finds; {given.out / 'summary.json'}")  # fmt: skip
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
