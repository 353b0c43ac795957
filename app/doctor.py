"""`tracetui doctor` as text of 80 columns, or as JSON."""

from __future__ import annotations

import json
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

from tracetui.app.exit_codes import DONE, UNREADABLE
from tracetui.app.text_table import Page
from tracetui.collectors.checks.check import FAIL, OK, SKIPPED, WARN
from tracetui.collectors.doctor import document, examine

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tracetui.collectors.checks.check import Check

MARKS = {OK: "ok", WARN: "warn", FAIL: "FAIL", SKIPPED: "-"}
MARK_WIDTH, NAME_WIDTH = 6, 16
SUMS = {FAIL: "to mend", WARN: "to know about", OK: "fine", SKIPPED: "skipped"}


def doctor_command(python: str | None, output: Path | None, *, format: str, ascii: bool) -> int:
    """Looks, prints, and says by the exit code whether something must be mended."""
    found = examine(python, output)
    print(json.dumps(document(found), indent=2) if format == "json" else doctor_text(found, ascii=ascii), flush=True)
    return UNREADABLE if any(check.status == FAIL for check in found) else DONE


def doctor_text(found: Sequence[Check], *, ascii: bool = False) -> str:
    """A line per check under the name of its group, what mends it below, and a sum."""
    page = Page(ascii=ascii)
    lines = []
    for group, checks in groupby(found, key=lambda check: check.group):
        lines += [group, *(line for check in checks for line in _check(page, check)), ""]
    counts = Counter(check.status for check in found)
    lines.append(", ".join(f"{counts[status]} {text}" for status, text in SUMS.items() if counts[status]))
    return "\n".join(lines)


def _check(page: Page, check: Check) -> list[str]:
    title = f"  {MARKS[check.status]:<{MARK_WIDTH}}{check.name:<{NAME_WIDTH}}"
    lines = page.field(title, check.message, width=len(title))
    if check.remedy:
        lines += page.field(" " * len(title) + "-> ", check.remedy, width=len(title) + 3)
    return lines
