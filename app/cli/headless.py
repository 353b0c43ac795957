"""The commands without a screen: they open the input, check the options against it, print, and return an exit code."""

from __future__ import annotations

import errno
import os
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import to_builtins
from msgspec.structs import replace as replace_fields

from tracetui.analysis.base.number_format import format_bytes, format_percent, format_signed_us, format_us, spans
from tracetui.analysis.selection import select
from tracetui.app.cli.options import LAID_OUT
from tracetui.app.session.open_runs import chooser, repeating, run_with_steps
from tracetui.app.text.exit_codes import CONDITION_HOLDS, DONE, NOT_JUDGED, UsageError
from tracetui.app.text.fitting import printable
from tracetui.parsers import TraceError, open_path
from tracetui.parsers.runs.folder.comments import comments_on

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from tracetui.analysis.base.json_values import Json
    from tracetui.analysis.findings.config import Config
    from tracetui.analysis.scope import Scope
    from tracetui.app.cli.options import Request
    from tracetui.app.reports.layout import Layout
    from tracetui.app.reports.parts import Part
    from tracetui.parsers import Progress, Run, Trace

Found = TypeVar("Found")
"""A report of any kind."""


def print_open(paths: Sequence[Path], request: Request) -> int:
    """Runs `tracetui open` without a terminal: prints the report of one run or the diff of two."""
    if len(paths) > 2:
        raise UsageError("without a terminal, open takes one path, or two to compare; `tracetui report` takes more")
    if len(paths) == 2 and request.run is not None:
        names = [path.name or str(path) for path in paths]
        paths = [paths[first := chooser(request.run, "the command")(names)], paths[1 - first]]
        request = replace(request, run=None)
    if len(paths) == 2:
        return print_diff(paths[0], paths[1], request)
    return print_report(paths, request)


def print_report(paths: Sequence[Path], request: Request) -> int:
    """Prints the report of one run."""
    from tracetui.analysis.report.report import SECTIONS, report

    for name in request.sections or ():
        if name not in SECTIONS:
            raise UsageError(f"no section named {name!r}; there are {', '.join(SECTIONS)}")
    sections = request.sections
    if request.format == "csv":
        sections = sections or ("kernels",)
        if len(sections) > 1:
            raise UsageError("csv prints one section; pick it with --section NAME")
    if request.by != "name" and sections is not None and "kernels" not in sections:
        raise UsageError("--by groups the kernels: ask for them with --section kernels")
    if request.range_kernels is not None and sections is not None and not {"modules", "range_tree"} & {*sections}:
        raise UsageError("--kernels shows kernels in a tree: ask for it with --section modules or range_tree")
    if request.max_tokens is not None and request.format not in ("text", "markdown", "json"):
        raise UsageError(f"--max-tokens shortens text, markdown and json, not {request.format}")
    check_output(request, paths)
    run, config = opened(paths, request)
    if run.unread and "ranks" in (sections or SECTIONS):
        from tracetui.analysis.ranks.files.at_hand import with_straggler

        with job_progress() as progress:
            run = with_straggler(run, request.scope, progress)

    def open_file(path: Path) -> Trace:
        return open_path(path, cache=request.cache).main

    found = report(
        run,
        request.scope,
        sections,
        _rows_for_data(request),
        open_file,
        config,
        request.on_error,
        request.by,
        _printed_sections(request),
        range_kernels=request.range_kernels is not None,
    )
    found = to_builtins(replace_fields(found, run=replace_fields(found.run, comments=list(comments_on(run)))))
    shown = _render(found, request, paths) if request.max_tokens is None else _shortened(found, request, paths)
    write(shown, request, paths)
    return DONE


def opened(paths: Sequence[Path], request: Request) -> tuple[Run, Config]:
    """Opens what was given and reads the thresholds that hold for it; problems of both are among the run's warnings."""
    run, config = open_run(paths, request), rules_config(*paths)
    return replace(run, warnings=(*run.warnings, *config.problems)), config


def print_nsys_reports(paths: Sequence[Path], names: Sequence[str], request: Request) -> int:
    """Prints tables of `nsys stats`; says on standard error what they lack."""
    from tracetui.app.reports import nsys_report

    reports = nsys_report.check_names(names)
    if request.format in ("markdown", "html") or request.sections is not None:
        other = "--section" if request.sections is not None else request.format
        raise UsageError(f"--nsys-report prints text, csv or json of whole reports; it does not go with {other}")
    check_output(request, paths)
    run = open_run(paths, request)
    trace = nsys_report.trace_for(run)
    if (many := len(run.traces) + len(run.unread)) > 1:
        line = f"{run.path} holds {many} traces: reporting on {trace.source.path.name}; "
        print(f"tracetui: {printable(line)}--rank N or --source KIND picks another", file=sys.stderr)
    text, notes = nsys_report.render(
        select(trace, request.scope), reports, request.format, request.limit or None, ascii=is_ascii(request)
    )
    write(text, request, paths)
    for note in notes:
        print(f"tracetui: {printable(note)}", file=sys.stderr)
    return DONE


def print_diff(a: Path, b: Path, request: Request, *, fail_above_percent: Sequence[float] = ()) -> int:
    """Prints what changed from A to B; returns what `judged` says of `fail_above_percent`."""
    check_output(request, [a, b])
    found = diff_of(a, b, request, _rows_for_data(request))
    write(_render_diff(found, request, (a, b)), request, [a, b])
    return judged(found, fail_above_percent)


def diff_of(a: Path, b: Path, request: Request, rows: int | None) -> Json:
    """The report of a diff with at most so many rows per list; null for all."""
    from tracetui.analysis.report.report import diff_report

    runs = open_run([a], request), open_run([b], request)
    chosen = [select(_one_trace(run), request.scope) for run in runs]
    return diff_report(chosen[0], chosen[1], rows, runs, rules_config(a, b), request.on_error)


def rules_config(*paths: Path) -> Config:
    """Reads the user's thresholds, beside the recordings or in the working directory, and prints their problems."""
    from tracetui.analysis.findings import config

    found = config.load(*paths, Path.cwd())
    for problem in found.problems:
        print(f"tracetui: warning: {printable(problem)}", file=sys.stderr)
    return found


def open_run(paths: Sequence[Path], request: Request) -> Run:
    """Opens what was given as the request says, showing on a terminal how far it is."""
    choose = None
    if request.run is not None:
        if len(paths) > 1:
            raise UsageError(f"--run {request.run} picks a run of one folder; {len(paths)} paths were given")
        choose = chooser(request.run, str(paths[0]))
    progress = _ProgressLine() if sys.stderr is not None and sys.stderr.isatty() else None
    try:
        run = open_path(*paths, progress=progress, cache=request.cache, choose=choose, rank=request.rank)
    finally:
        if progress is not None:
            progress.clear()
    for warning in run.warnings:
        print(f"tracetui: warning: {printable(warning)}", file=sys.stderr)
    if not run.traces:
        raise TraceError(run.path, "no trace found in it", "give a file that a profiler wrote")
    if request.source is not None:
        run = _only_source(run, request.source)
    if request.rank is not None:
        run = _only_rank(run, request.rank)
    run = run_with_steps(run, request.scope.steps_by)
    _check_steps(run.traces, request.scope)
    return run if request.scope.devices is None else _only_devices(run, request.scope.devices)


def _only_source(run: Run, kind: str) -> Run:
    traces = run.of_kind(kind)
    if not traces:
        raise UsageError(f"--source {kind}: {run.path} has {', '.join(sorted({t.info.kind for t in run.traces}))}")
    return replace(run, traces=traces, rank_files=tuple(file for file in run.rank_files if file.kind == kind))


def _only_rank(run: Run, rank: int) -> Run:
    """Returns the traces of one rank, and those of other tools that belong to no rank."""
    kinds = {trace.info.kind for trace in run.traces if trace.info.rank == rank}
    traces = tuple(
        trace
        for trace in run.traces
        if trace.info.rank == rank or (trace.info.rank is None and trace.info.kind not in kinds)
    )
    if not kinds:
        there = f"has ranks {spans(run.ranks)}" if run.ranks else "has no ranks"
        raise UsageError(f"--rank {rank}: {run.path} {there}")
    return replace(run, traces=traces, rank_files=tuple(file for file in run.rank_files if file.rank == rank))


def _only_devices(run: Run, devices: frozenset[int]) -> Run:
    """Returns the traces with work on one of these GPUs; each rank has its own GPU."""
    used = [{d for d in trace.device["device"].unique() if d is not None and d >= 0} for trace in run.traces]
    there = sorted(set().union(*used))
    missing = sorted(devices.difference(there))
    if missing:
        ran = f"work on GPU {_listed(there)}" if there else "no GPU work"
        raise UsageError(f"--device {missing[0]}: {run.path} has {ran}")
    traces = tuple(trace for trace, on in zip(run.traces, used, strict=True) if on & devices)
    return replace(run, traces=traces, rank_files=())


def _check_steps(traces: Sequence[Trace], scope: Scope) -> None:
    """Raises an error that lists the existing steps, if the requested ones do not exist."""
    path = traces[0].source.path
    if scope.steps is None and not scope.skip_steps:
        return
    option = "--skip-steps" if scope.steps is None else "--steps"
    if not any(trace.steps.height for trace in traces):
        raise UsageError(f"{option}: {path} has no steps; --steps-by NAME takes ranges for them: {repeating(traces)}")
    if not any(select(trace, scope).steps.height for trace in traces):
        found = sorted({index for trace in traces for index in trace.steps["index"]})
        warm_up = sum(trace.marked_by.warm_up for trace in traces if trace.marked_by is not None)
        rest = f", after a warm-up of {warm_up}" if warm_up else ""
        raise UsageError(f"{option} leaves no step: {path} has steps {_listed(found)}{rest}")


def _listed(numbers: Sequence[int]) -> str:
    """Writes numbers in short form: ``1-3``, ``0, 2``."""
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]}-{numbers[-1]}"
    return ", ".join(map(str, numbers))


def _one_trace(run: Run) -> Trace:
    """Returns the trace that a diff compares: the main tool's, of the lowest rank."""
    trace = run.main
    if len(run.ranks) > 1 or len(run.of_kind(trace.info.kind)) > 1:
        which = "its first trace" if trace.info.rank is None else f"rank {trace.info.rank}"
        many = len(run.traces) + len(run.unread)
        line = f"{run.path} holds {many} traces: comparing {which}; --rank N picks another"
        print(f"tracetui: {printable(line)}", file=sys.stderr)
    return trace


def _rows_for_data(request: Request) -> int | None:
    """Returns the row limit for data formats; text is limited when it is laid out, since it also shows totals."""
    return request.rows if request.format in ("json", "csv") else None


def _printed_sections(request: Request) -> Callable[[Run, list[Json]], list[Collection[str] | None]] | None:
    """Returns which sections of which recordings the format prints, so that the others are not computed; None for all.

    Text, Markdown and HTML only name another tool's recording. Beside the table of captures they print every
    recording that has a section.
    """
    if request.format not in LAID_OUT or "captures" in (request.sections or ()):
        return None
    from tracetui.app.reports.content.run import printed_sections

    return printed_sections


def _render(found: Json, request: Request, paths: Sequence[Path]) -> str:
    if request.format == "json":
        from tracetui.app.reports.json_report import to_json

        return to_json(found)
    if request.format == "csv":
        from tracetui.app.reports.csv_report import report_csv

        return report_csv(found, (request.sections or ("kernels",))[0])
    from tracetui.app.reports.content.run import run_parts

    return laid_out(run_parts, found, request, opens=opening(paths, request))


def _shortened(found: Json, request: Request, paths: Sequence[Path]) -> str:
    """The report in the longest form that has at most so many tokens."""
    from tracetui.app.reports.short import shortened

    most = request.max_tokens or 0

    def printed(found: Json, parts: Callable[[Json, Layout], Iterable[Part]] | None, rows: int) -> str:
        if parts is None:
            from tracetui.app.reports.json_report import to_json

            return to_json(found, compact=True)
        given = replace(request, charts=False)
        return laid_out(parts, found, given, limit=min(rows, request.rows or rows), opens=opening(paths, request))

    return shortened(found, most, printed, as_data=request.format == "json")


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
    return laid_out(diff_parts, found, request, opens=opening(paths, request, tab="diff"))


def laid_out(
    parts: Callable[[Found, Layout], Iterable[Part]],
    found: Found,
    request: Request,
    *,
    limit: int | None = None,
    opens: Sequence[str] = (),
) -> str:
    """Lays out a report as text, as Markdown or as HTML, from the same parts.

    Args:
        parts: makes the parts from `found`.
        found: the report as in JSON, with complete lists.
        request: says which format, whether ASCII, whether charts.
        limit: rows per list, if not the request's.
        opens: the words of the command that shows the same on the screen; the report ends with it.
    """
    from tracetui.app.reports.layout import Layout
    from tracetui.app.reports.parts import Command

    layout = Layout(limit or request.rows, is_ascii(request), request.charts, request.range_kernels)
    whole = [*parts(found, layout), *([Command(OPENS, tuple(opens))] if opens else [])]
    if request.format == "markdown":
        from tracetui.app.reports.markdown import markdown

        return markdown(whole, layout)
    if request.format == "html":
        from tracetui.app.reports.html.page import html

        return html(whole, layout)
    from tracetui.app.reports.text import text

    return text(whole, layout)


OPENS = "On the screen:"


def opening(paths: Iterable[Path], request: Request, *, tab: str = "") -> tuple[str, ...]:
    """The words of the command that shows on the screen what a report is of.

    Args:
        paths: what was read.
        request: says which part of it, and which sections.
        tab: where to begin; by default the tab of the first section that was asked for.
    """
    from tracetui.app.reports.open_command import TABS, given, open_command

    words = [word for path in paths for word in given(path)]
    begin = tab or next((TABS[name] for name in request.sections or () if name in TABS), "")
    return open_command(
        words, tab=begin, scope=request.scope, rank=request.rank, source=request.source, run=request.run
    )


def is_ascii(request: Request) -> bool:
    """Returns whether only ASCII was requested, or standard output can't take more."""
    encoding = "utf-8" if request.output is not None else (getattr(sys.stdout, "encoding", None) or "utf-8")
    return request.ascii or not encoding.lower().replace("-", "").startswith("utf")


REPLACE = "--force replaces it, --output writes to another file"
"""What to do about an output that is there already."""


def check_output(request: Request, paths: Sequence[Path]) -> None:
    """Refuses an output that would replace a file unasked, or a recording at all, before anything is computed.

    Args:
        request: has the output, and whether it may replace a file.
        paths: what is read.

    Raises:
        TraceError: it is refused, and why.
    """
    from tracetui.parsers.runs.detect import is_of_a_run
    from tracetui.parsers.written import refuse

    if request.output is None:
        return
    sources = [*paths, *([request.output] if request.output.is_file() and is_of_a_run(request.output) else [])]
    refuse(request.output, force=request.force, sources=sources, advice=REPLACE)


def write(text: str, request: Request, paths: Sequence[Path]) -> None:
    """Writes a report to the requested file, which is none of those read, or to standard output."""
    if request.output is None:
        if sys.stdout is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    else:
        from tracetui.parsers.written import write_text

        write_text(request.output, text, force=request.force, sources=paths, advice=REPLACE)


def judged(found: Json, fail_above_percent: Sequence[float]) -> int:
    """Returns exit code 3 if the median step slowed down by more than a limit and by more than its noise.

    Returns 4 if the two did other work, so that this can't be judged.
    """
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


class _ProgressLine:
    """Shows reading progress in one line on standard error, if reading takes longer than a moment."""

    PATIENCE_S = 0.5
    INTERVAL_S = 0.1

    def __init__(self) -> None:
        self._due = time.monotonic() + self.PATIENCE_S
        self._shown = 0

    def __call__(self, progress: Progress) -> None:
        """Replaces the line, at most a few times a second."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + self.INTERVAL_S
        line = f"{progress.stage} {format_bytes(progress.done)} of {format_bytes(progress.total)}"
        sys.stderr.write("\r" + line.ljust(self._shown))
        sys.stderr.flush()
        self._shown = len(line)

    def clear(self) -> None:
        """Removes the line, so that it does not stay above the report."""
        if self._shown:
            sys.stderr.write("\r" + " " * self._shown + "\r")
            sys.stderr.flush()


PROGRESS_SECONDS = 0.2
"""How often the line of progress changes."""


@contextmanager
def job_progress() -> Iterator[Callable[[int, int], None] | None]:
    """A line on standard error that says how far it is, where somebody sees it."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    began, told = time.monotonic(), 0.0
    first: int | None = None

    def report(done: int, whole: int) -> None:
        nonlocal told, first
        now = time.monotonic()
        first = done - 1 if first is None else first
        if now - told < PROGRESS_SECONDS and done < whole:
            return
        told = now
        left = (now - began) / max(done - first, 1) * (whole - done)
        soon = f", {left:.0f} s left" if left >= 1 else ""
        sys.stderr.write(f"\r\x1b[K{done:,} of {whole:,} recordings{soon}")
        sys.stderr.flush()

    try:
        yield report
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
