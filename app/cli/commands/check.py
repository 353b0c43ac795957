"""`tracetui check`: goes through the profiling checklist and prints each point with its figure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.cli import headless
from tracetui.app.cli.command import option
from tracetui.app.cli.options import ANY_RUN, OUTPUT, Common, Covered, Recordings, format_option
from tracetui.app.reports.finding_words import titled
from tracetui.app.reports.parts import Facts, Part, Sentences, Title
from tracetui.app.text.exit_codes import DONE
from tracetui.app.text.tool_words import WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.analysis.checklist import CheckPoint, CheckReport
    from tracetui.app.reports.layout import Layout


BOXES = {"done": "[x]", "failed": "[!]", "not_recorded": "[ ]"}
LEGEND = {"done": "done", "failed": "failed", "not_recorded": "not in this recording"}


def check_parts(found: CheckReport, layout: Layout) -> Iterator[Part]:
    """The whole checklist."""
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


@dataclass(kw_only=True)
class Options(Recordings, Covered, Common):
    """Go through the checklist before optimising: for each point whether it is done, failed or not in this recording,
    the figure it rests on, and the command that records what is missing.
    """

    paths: list[Path] = option(nargs="*", type=Path, metavar="PATH", help="a recording, its ranks, or a folder")
    run: str | None = option("--run", metavar="NAME", help=ANY_RUN)
    format: str = format_option("text", "json", "markdown")
    output: Path | None = option("-o", "--output", type=Path, metavar="FILE", help=OUTPUT)


def run(options: Options) -> int:
    """Prints the checklist of one run; points that failed are no error."""
    from tracetui.analysis.checklist import check_report

    paths = options.given_paths()
    headless.check_output(options, paths)
    run = headless.open_run(paths, options)
    report = check_report(run, options.scope, headless.rules_config(*paths), options.on_error)
    if options.format == "json":
        from tracetui.app.reports.json_report import to_json

        headless.write(to_json(report), options, paths)
        return DONE
    opens = headless.opening(paths, options, tab="findings")
    headless.write(headless.laid_out(check_parts, report, options, opens=opens), options, paths)
    return DONE
