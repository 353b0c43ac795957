"""`tracetui diff`: compares two runs, per step."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.cli import headless
from tracetui.app.cli.command import option
from tracetui.app.cli.options import FORMATS, PICTURES, Common, Covered, Printed, format_option
from tracetui.app.cli.values import condition, input_path
from tracetui.app.text.exit_codes import CONDITION_HOLDS, DONE, NOT_JUDGED, UsageError
from tracetui.app.text.fitting import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.base.json_values import Json
    from tracetui.app.cli.options import Request
    from tracetui.parsers import Run, Trace

SECTIONS = ("kinds", "kernels", "operators", "modules", "ranges", "findings")
"""The tables of a diff, `analysis.tables.registry.COMPARED`."""


@dataclass(kw_only=True)
class Options(Printed, Covered, Common):
    """Compare two runs per step. A is the base; a positive difference means that B takes longer."""

    a: Path = option(type=input_path, metavar="A", help="the base: a trace or a folder")
    b: Path = option(type=input_path, metavar="B", help="the run to compare with it")
    fail_on: list[float] = option(
        "--fail-on",
        action="append",
        type=condition,
        default=[],
        metavar="CONDITION",
        help="regression:5%% exits 3 when B's step takes more than 5 %% longer than A's, and 4 when the two did other "
        "work (another batch, another size of the input), so that it can't be judged",
    )
    section: str | None = option(
        "--section",
        choices=(*SECTIONS, "counters"),
        help="only this table, in every format but json (csv, svg and png: kernels; counters: of reports of Nsight "
        "Compute)",
    )
    format: str = format_option(*FORMATS, *PICTURES, last=True)


def run(options: Options) -> int:
    """Prints what changed, or draws it."""
    if options.format in PICTURES:
        return _draw(options)
    return print_diff(options.a, options.b, options, fail_above_percent=options.fail_on)


def print_diff(a: Path, b: Path, request: Request, *, fail_above_percent: Sequence[float] = ()) -> int:
    """Prints what changed from A to B; returns what `judged` says of `fail_above_percent`."""
    headless.check_output(request, [a, b])
    found = diff_of(a, b, request, request.rows if request.format in ("json", "csv") else None)
    headless.write(_render_diff(found, request, (a, b)), request, [a, b])
    return judged(found, fail_above_percent)


def _draw(options: Options) -> int:
    """Writes a picture of what changed from A to B; returns what `judged` says."""
    from tracetui.app.cli.commands.report import check_png, write_picture
    from tracetui.app.reports.content.pictures import of_diff
    from tracetui.app.reports.open_command import spelled

    section = (options.sections or ("kernels",))[0]
    if section in ("findings", "counters"):
        raise UsageError(
            f"no picture of a diff named {section!r}; there are kinds, kernels, operators, modules, ranges"
        )
    check_png(options)
    headless.check_output(options, (options.a, options.b))
    found = diff_of(options.a, options.b, options, None)
    foot = spelled(headless.opening((options.a, options.b), options, tab="diff"))
    svg = of_diff(found, section, foot, ascii=headless.is_ascii(options))
    if svg is None:
        raise UsageError(f"nothing differs in --section {section}")
    write_picture(svg, options, (options.a, options.b))
    return judged(found, options.fail_on)


def diff_of(a: Path, b: Path, request: Request, rows: int | None) -> Json:
    """The report of a diff with at most so many rows per list; None for all."""
    from tracetui.analysis.report.report import diff_report
    from tracetui.analysis.selection import select

    runs = headless.open_run([a], request), headless.open_run([b], request)
    chosen = [select(_one_trace(run), request.scope) for run in runs]
    return diff_report(chosen[0], chosen[1], rows, runs, headless.rules_config(a, b), request.on_error)


def _one_trace(run: Run) -> Trace:
    """Returns the trace that a diff compares: the main tool's, of the lowest rank."""
    trace = run.main
    if len(run.ranks) > 1 or len(run.of_kind(trace.info.kind)) > 1:
        which = "its first trace" if trace.info.rank is None else f"rank {trace.info.rank}"
        many = len(run.traces) + len(run.unread)
        line = f"{run.path} holds {many} traces: comparing {which}; --rank N picks another"
        print(f"tracetui: {printable(line)}", file=sys.stderr)
    return trace


def _render_diff(found: Json, request: Request, paths: Sequence[Path]) -> str:
    if request.format == "json":
        from tracetui.app.reports.json_report import to_json

        return to_json(found)
    if request.format == "csv":
        from tracetui.app.reports.csv_report import diff_csv

        return diff_csv(found, (request.sections or ("kernels",))[0])
    from tracetui.app.reports.content.diff import diff_parts

    if request.sections is not None:
        found = {**found, "only": request.sections[0]}
    return headless.laid_out(diff_parts, found, request, opens=headless.opening(paths, request, tab="diff"))


def judged(found: Json, fail_above_percent: Sequence[float]) -> int:
    """Returns exit code 3 if the median step slowed down by more than a limit and by more than its noise.

    Returns 4 if the two did other work, so that this can't be judged.
    """
    from tracetui.analysis.base.number_format import format_percent, format_signed_us, format_us

    if not fail_above_percent:
        return DONE
    from tracetui.analysis.compare.comparable import OTHER_WORK

    if found["comparable"]["verdict"] == OTHER_WORK:
        rows = [row for row in found["comparable"]["differences"] if row["work"]]
        what = "; ".join(f"{row['field']}: A {row['a']}, B {row['b']}" for row in rows)
        print(printable(f"tracetui: not judged: the runs did other work ({what})"), file=sys.stderr)
        return NOT_JUDGED
    step = found["step"]
    change = step["median_delta_percent"]
    if change is None:
        from tracetui.parsers.errors import TraceError

        raise TraceError(found["b"]["path"], "--fail-on can't be judged: a step time is unknown or zero")
    limit = min(fail_above_percent)
    if change <= limit:
        return DONE
    times = f"{format_us(step['a_median_us'], ascii=True)} -> {format_us(step['b_median_us'], ascii=True)}"
    kind = "" if step["rests_on"] == "recorded" else f"{step['rests_on']} "
    line = f"median {kind}step {times}, {format_percent(change, signed=True)} (limit {limit:g} %)"
    if step["beyond_noise"] is None:
        line += "; noise unknown: a run has fewer than two steps"
    else:
        low, high = (format_signed_us(step[f"median_{end}_us"], ascii=True) for end in ("low", "high"))
        line += f"; 95 % interval {low} to {high}"
        if step["detectable_us"]:
            seen, percent = format_us(step["detectable_us"], ascii=True), format_percent(step["detectable_percent"])
            line += f"; four of five such recordings show a change of {seen} ({percent})"
    if found["comparable"]["verdict"] == "not_comparable":
        line += "; the runs are not comparable"
    if step["beyond_noise"] is False:
        print(f"tracetui: no proof of a regression: {line}", file=sys.stderr)
        return DONE
    print(f"tracetui: regression: {line}", file=sys.stderr)
    return CONDITION_HOLDS
