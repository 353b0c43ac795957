"""`tracetui doctor`: prints the checks as text of 80 columns or as JSON."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from tracetui.app.cli.command import option, switch
from tracetui.app.cli.options import Plain, format_option
from tracetui.app.reports.layout import Layout
from tracetui.app.text.exit_codes import DONE, UNREADABLE
from tracetui.collectors.checks.check import FAIL, OK, SKIPPED, WARN, Check

MARKS = {OK: "ok", WARN: "warn", FAIL: "FAIL", SKIPPED: "-"}
MARK_WIDTH, NAME_WIDTH = 6, 16
SUMS = {FAIL: "to mend", WARN: "to know about", OK: "fine", SKIPPED: "skipped"}


@dataclass(kw_only=True)
class Options(Plain):
    """Check what `tracetui` and `tracetui profile` need, and say how to fix what is missing. Exit code 1 if something
    must be fixed.
    """

    python: str | None = option(
        "--python", metavar="PATH", help="the Python that runs the workload (default: this one)", values="programs"
    )
    output: Path | None = option(
        "-o", "--output", type=Path, metavar="DIR", help="the folder to which runs will be written (default: here)"
    )
    measure_peaks: bool = switch(
        "--measure-peaks",
        help="measure what the GPU reaches (matrix products, memory) for rooflines; takes some seconds and needs torch",
    )
    format: str = format_option("text", "json")


def run(options: Options) -> int:
    """Runs the checks, prints them, and returns an exit code that says whether something must be fixed."""
    from tracetui.collectors.checks import doctor

    if options.measure_peaks:
        return _measure(options)
    checks = doctor.examine(options.python, options.output)
    as_json = options.format == "json"
    text = json.dumps(doctor.document(checks), indent=2) if as_json else doctor_text(checks, ascii=options.ascii)
    print(text, flush=True)
    return UNREADABLE if any(check.status == FAIL for check in checks) else DONE


def _measure(options: Options) -> int:
    """Measures the GPU's rooflines, keeps them for later reports, and prints them."""
    from tracetui.analysis.roofline.peaks_measured import keep
    from tracetui.analysis.roofline.words import PRECISIONS
    from tracetui.app.charts.roofline import rate
    from tracetui.collectors.checks.target_python import MeasureError, measure_peaks

    page = Layout(ascii=options.ascii)
    try:
        found = measure_peaks(options.python)
        path = keep(found)
    except (MeasureError, OSError) as error:
        print("\n".join(page.paragraph(f"Nothing was measured: {error}")), file=sys.stderr, flush=True)
        return UNREADABLE
    if options.format == "json":
        print(json.dumps(found, indent=2), flush=True)
        return DONE
    lines = page.paragraph(f"Measured on {found.get('device')}, the best of repeated runs:")
    for name, flops in found["flops"].items():
        lines.append(f"  {page.text(PRECISIONS.get(name, name)):<14}{rate(flops, 'FLOP/s')}")
    lines.append(f"  {'memory':<14}{rate(found['bandwidth'], 'B/s')}")
    for text in found.get("skipped") or []:
        lines += page.paragraph(f"Not measured: {text}")
    lines += page.paragraph(f"Kept in {path} for rooflines of runs on this GPU at this clock.")
    print("\n".join(lines), flush=True)
    return DONE


def doctor_text(found: Sequence[Check], *, ascii: bool = False) -> str:
    """Returns one line per check under the name of its group, followed by its fix, and a summary."""
    page = Layout(ascii=ascii)
    lines = []
    for group, checks in groupby(found, key=lambda check: check.group):
        lines += [group, *(line for check in checks for line in _check(page, check)), ""]
    counts = Counter(check.status for check in found)
    lines.append(", ".join(f"{counts[status]} {text}" for status, text in SUMS.items() if counts[status]))
    return "\n".join(lines)


def _check(page: Layout, check: Check) -> list[str]:
    title = f"  {MARKS[check.status]:<{MARK_WIDTH}}{check.name:<{NAME_WIDTH}}"
    lines = page.field(title, check.message, width=len(title))
    if check.remedy:
        lines += page.field(" " * len(title) + "-> ", check.remedy, width=len(title) + 3)
    return lines
