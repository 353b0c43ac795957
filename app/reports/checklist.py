"""The checklist as text and Markdown: a box per point, the figure it rests on, and what records what is missing."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.reports.finding_words import titled
from tracetui.app.reports.parts import Facts, Part, Sentences, Title
from tracetui.app.text.tool_words import WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.analysis.checklist import CheckPoint, CheckReport
    from tracetui.app.reports.layout import Layout

BOXES = {"done": "[x]", "failed": "[!]", "not_recorded": "[ ]"}
LEGEND = {"done": "done", "failed": "failed", "not_recorded": "not in this recording"}


def check_parts(found: CheckReport, layout: Layout) -> Iterator[Part]:
    """The whole checklist.

    Args:
        found: what `analysis.checklist.check_report` returned.
        layout: whether ASCII only.
    """
    del layout
    yield Title(f"tracetui check: {Path(found.path).name or found.path}")
    yield Facts(tuple(_head(found)))
    yield Sentences((found.waits_for,) if found.waits_for else ())
    for number, (group, points) in enumerate(groupby(found.points, key=lambda row: str(row.group)), 1):
        rows = list(points)
        yield Sentences(
            tuple(map(_said, rows)),
            heading=f"{number}. {group}",
            bullets=True,
            marks=tuple(BOXES[row.status] for row in rows),
            boxes=True,
        )
    yield _to_record(found.points)
    yield Sentences((_sum(found),))


def _head(found: CheckReport) -> Iterator[tuple[str, str]]:
    name = Path(found.recording).name
    yield "File", f"{name} ({WORDS[found.kind].label})"
    if len(found.ranks) > 1:
        others = ", ".join(str(rank) for rank in found.ranks if rank != found.rank)
        yield "Rank", f"{found.rank}; --rank N checks another ({others})"
    if found.other_runs:
        yield "Run", f"one of {found.other_runs + 1} in this folder; --run NAME checks another"
    yield "Base", found.base


def _said(row: CheckPoint) -> str:
    """A point in words, after its box."""
    if row.status == "failed":
        said = f"{titled(row.figure or '', row.doubted_by)} ({', '.join(row.findings)})"
        said += f"; {row.beside}" if row.beside else ""
    elif row.status == "done":
        said = row.figure or ""
    else:
        known = f". Known so far: {row.figure}" if row.figure else ""
        said = f"not in this recording: {row.missing}{known}"
    point = row.point
    if not point.endswith("?"):
        return f"{point}: {said}"
    # the name of a kernel stays as it is
    return f"{point} {said[:1].upper()}{said[1:]}" if said.split(" ")[0].rstrip(":,").isalpha() else f"{point} {said}"


def _to_record(points: list[CheckPoint]) -> Facts:
    """Each command that records what is missing, with the points that it answers."""
    wanted: dict[str, list[str]] = {}
    for row in points:
        if row.command:
            wanted.setdefault(row.command, []).append(row.point.rstrip("?"))
    rows = ((("Record", command), ("for", ", ".join(names))) for command, names in wanted.items())
    return Facts(tuple(row for pair in rows for row in pair))


def _sum(found: CheckReport) -> str:
    counts = "; ".join(
        f"{box} {LEGEND[status]}: {found.counts[status]}" for status, box in BOXES.items() if found.counts[status]
    )
    more = " tracetui report, section findings, says what to try." if found.counts["failed"] else ""
    return f"{counts}.{more}"
