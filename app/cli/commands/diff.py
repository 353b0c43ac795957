"""`tracetui diff`: compares two runs, per step."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.cli import headless
from tracetui.app.cli.command import option
from tracetui.app.cli.options import FORMATS, PICTURES, Common, Covered, Printed, Request, format_option
from tracetui.app.cli.values import condition, input_path
from tracetui.app.text.exit_codes import CONDITION_HOLDS, DONE, NOT_JUDGED, UsageError
from tracetui.app.text.fitting import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.report.diff import DiffReport, StepsCompared
    from tracetui.analysis.selection import Selection
    from tracetui.parsers import Run

SECTIONS = ("kinds", "kernels", "operators", "modules", "ranges", "findings")
"""The tables of a diff, `analysis.tables.registry.COMPARED`."""


@dataclass(kw_only=True)
class Options(Printed, Covered, Common):
    """Compare two runs per step. A is the base; a positive difference means that B takes longer."""

    a: Path = option(
        type=input_path,
        metavar="A",
        help="the base: a trace, a folder, or a folder of repeats (runs of one configuration, as profile --repeats "
        "writes them), which tell how much runs differ by chance",
    )
    b: Path = option(type=input_path, metavar="B", help="what to compare with it, of the same kinds")
    fail_on: list[float] = option(
        "--fail-on",
        action="append",
        type=condition,
        default=[],
        metavar="CONDITION",
        help="regression:5%% exits 3 when B's step is proven to take more than 5 %% longer than A's: by repeats, or of "
        "two single runs by more GPU work, launches or operators; 4 when it can't be judged: single runs without such "
        "a cause, repeats too far apart, or other work (batch, size of the input); else 0",
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


def diff_of(a: Path, b: Path, request: Request, rows: int | None) -> DiffReport:
    """The report of a diff with at most so many rows per list; None for all."""
    from tracetui.analysis.compare.repeats import TypicalStep, between_runs, middle
    from tracetui.analysis.report.diff import diff_report

    sides = [_repeats(path, request) for path in (a, b)]
    steps = [[TypicalStep.of(sel) for _, sel in side] if max(map(len, sides)) > 1 else [] for side in sides]
    between = between_runs(*steps)
    at = [0, 0] if between is None else [middle(side, between.rests_on) for side in steps]
    (ours, left), (theirs, right) = (side[n] for side, n in zip(sides, at, strict=True))
    rules = headless.rules_config(a, b)
    return diff_report(left, right, rows, (ours, theirs), rules, request.on_error, between)


def _repeats(path: Path, request: Request) -> list[tuple[Run, Selection]]:
    """The repeats that a folder holds with what of each is compared; else the one run of a path."""
    from tracetui.analysis.compare.repeats import runs_in
    from tracetui.analysis.selection import select

    folders, apart = runs_in(path)
    if apart:
        print(printable(f"tracetui: {path} holds no repeats of one configuration: {apart} differ"), file=sys.stderr)
    runs = [headless.open_run([folder], request) for folder in folders or (path,)]
    return [(run, select(headless.main_recording(run, "comparing"), request.scope)) for run in runs]


def _render_diff(found: DiffReport, request: Request, paths: Sequence[Path]) -> str:
    if request.format == "json":
        from tracetui.app.reports.json_report import to_json

        return to_json(found)
    if request.format == "csv":
        from tracetui.app.reports.csv_report import diff_csv

        return diff_csv(found, (request.sections or ("kernels",))[0])
    from tracetui.app.reports.content.diff import diff_parts

    parts = partial(diff_parts, only=(request.sections or (None,))[0])
    return headless.laid_out(parts, found, request, opens=headless.opening(paths, request, tab="diff"))


def judged(found: DiffReport, fail_above_percent: Sequence[float]) -> int:
    """Returns exit code 3 if B's step is proven to be slower by more than a limit, and 4 if that can't be judged."""
    if not fail_above_percent:
        return DONE
    from tracetui.analysis.compare.comparable import OTHER_WORK

    if found.comparable.verdict == OTHER_WORK:
        rows = [row for row in found.comparable.differences if row.work]
        what = "; ".join(f"{row.field}: A {row.a}, B {row.b}" for row in rows)
        print(printable(f"tracetui: not judged: the runs did other work ({what})"), file=sys.stderr)
        return NOT_JUDGED
    limit, told = min(fail_above_percent), found.step.regression
    if told.not_slower_percent is None:
        from tracetui.parsers.errors import TraceError

        raise TraceError(found.b.path, "--fail-on can't be judged: a step time is unknown or zero")
    if limit >= told.not_slower_percent:
        return DONE
    slower = told.slower_percent is not None and limit < told.slower_percent
    line = f"{_change(found.step, limit)}; {_why(found.step, slower=slower)}"
    if found.comparable.verdict == "not_comparable":
        line += "; the runs are not comparable"
    print(printable(f"tracetui: {'regression' if slower else 'not judged'}: {line}", ascii=True), file=sys.stderr)
    return CONDITION_HOLDS if slower else NOT_JUDGED


def _change(step: StepsCompared, limit: float) -> str:
    """``median clean step 3.335 ms -> 4.769 ms, +43.0 % (limit 5 %)``; of repeats the mean."""
    from tracetui.analysis.base.number_format import format_percent, format_us

    typical, of = step.typical, "median" if step.between_runs is None else "mean"
    times = " -> ".join(format_us(us, ascii=True) for us in (typical.a_us, typical.b_us))
    kind = "" if typical.rests_on == "recorded" else f" {typical.rests_on}"
    return f"{of}{kind} step {times}, {format_percent(typical.delta_percent, signed=True)} (limit {limit:g} %)"


def _why(step: StepsCompared, *, slower: bool) -> str:
    """What proves a change, or what would."""
    from tracetui.analysis.base.number_format import format_percent, format_signed_us
    from tracetui.app.reports.content.diff import SETTLE, cause_words

    if (runs := step.between_runs) is not None:
        many = f"{len(runs.a_runs_us)} and {len(runs.b_runs_us)} runs"
        low, high = (format_signed_us(us, ascii=True) for us in step.typical.interval_us)
        line = f"{many}, 95 % interval {low} to {high}"
        seen = format_percent(runs.detectable_percent)
        return line if slower else f"{line}; they show changes from {seen}, more runs show less"
    if slower:
        return f"{cause_words(step.regression.causes[0], ascii=True)}: that explains it"
    why = "may be chance" if step.beyond_noise is False else "no added work explains it"
    return f"{why}. {SETTLE}".removesuffix(".")
