"""Draws the table of loaders in README.md as bars: `peers.svg` beside it (make peers).

python benchmarks/picture.py
"""

from __future__ import annotations

import re
from pathlib import Path

from tracetui.app.charts.bars import Bar, bars_svg
from tracetui.app.charts.slide import slide

HERE = Path(__file__).resolve().parent
TABLE = re.compile(r"\| loader \| CPU s \| peak MB \|.*\n\|[-:|]+\n((?:\|.*\n)+)")
OF = re.compile(r"^A trace of (.*?) \(`make_trace", re.MULTILINE)
NUMBER = re.compile(r"[\d.]+")


def bars(page: str) -> list[Bar]:
    """One for each loader, as long as its processor time."""
    found = TABLE.search(page)
    if found is None:
        raise SystemExit("README.md has no table of loaders")
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in found[1].splitlines()]
    return [Bar(_named(row[0]), _seconds(row[1]), (f"{_seconds(row[1]):.2f} s", f"{row[2]} MB")) for row in rows]


def _named(cell: str) -> str:
    name = cell.replace("`", "").partition(",")[0].partition(" in ")[0]
    return f"tracetui, {name}" if name in ("columns", "frames") else name


def _seconds(cell: str) -> float:
    number = NUMBER.search(cell)
    if number is None:
        raise SystemExit(f"no time in {cell!r}")
    return float(number[0])


def main() -> None:
    page = (HERE / "README.md").read_text(encoding="utf-8")
    of = OF.search(page)
    title = f"Reading a trace of {of[1] if of else 'the benchmarks'}"
    chart = bars_svg(bars(page), ("CPU time", "peak memory"), title)
    (HERE / "peers.svg").write_text(
        slide(chart, title, "processor time, medians of three rounds in turn on two shared x86-64 cores",
              "pysimdjson makes no object; HolisticTraceAnalysis reads complete events only. benchmarks/README.md"),
        encoding="utf-8",
    )  # fmt: skip


if __name__ == "__main__":
    main()
