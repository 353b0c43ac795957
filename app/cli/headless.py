"""What commands without a screen share: opening the input as the options say, laying out a report, writing it."""

from __future__ import annotations

import errno
import os
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tracetui.analysis.base.number_format import format_bytes, spans
from tracetui.app.text.exit_codes import UsageError
from tracetui.app.text.fitting import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tracetui.analysis.findings.config import Config
    from tracetui.analysis.scope import Scope
    from tracetui.app.cli.options import Request
    from tracetui.app.reports.layout import Layout
    from tracetui.app.reports.parts import Part
    from tracetui.parsers import Progress, Run, Trace

PATIENCE_S = 0.5
"""Reading that is done by then shows no progress."""
Found = TypeVar("Found")
"""A report of any kind."""


def opened(paths: Sequence[Path], request: Request) -> tuple[Run, Config]:
    """Opens what was given and reads the thresholds that hold for it; problems of both are among the run's warnings."""
    run, config = open_run(paths, request), rules_config(*paths)
    return replace(run, warnings=(*run.warnings, *config.problems)), config


def rules_config(*paths: Path) -> Config:
    """Reads the user's thresholds, beside the recordings or in the working directory, and prints their problems."""
    from tracetui.analysis.findings import config

    found = config.load(*paths, Path.cwd())
    for problem in found.problems:
        print(f"tracetui: warning: {printable(problem)}", file=sys.stderr)
    return found


def open_run(paths: Sequence[Path], request: Request) -> Run:
    """Opens what was given as the request says, showing on a terminal how far it is."""
    from tracetui.app.session.open_runs import chooser, run_with_steps
    from tracetui.parsers import TraceError, open_path

    choose = None
    if request.run is not None:
        if len(paths) > 1:
            raise UsageError(f"--run {request.run} picks a run of one folder; {len(paths)} paths were given")
        choose = chooser(request.run, str(paths[0]))
    with status_line(PATIENCE_S, 0.1) as show:

        def report(progress: Progress) -> None:
            if show is not None:
                show(f"{progress.stage} {format_bytes(progress.done)} of {format_bytes(progress.total)}")

        progress = None if show is None else report
        run = open_path(*paths, progress=progress, cache=request.cache, choose=choose, rank=request.rank)
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
    files = tuple(file for file in run.rank_files if file.rank == rank)
    return replace(run, traces=traces, rank_files=files, whole=run)


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
    from tracetui.analysis.selection import select
    from tracetui.app.session.open_runs import repeating

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


def main_recording(run: Run, said: str) -> Trace:
    """The main tool's recording, of the lowest rank; says on standard error which, where there are several like it."""
    trace = run.main
    if len(run.ranks) > 1 or len(run.of_kind(trace.info.kind)) > 1:
        which = f"rank {trace.info.rank}" if trace.info.rank is not None else trace.source.path.name
        line = f"{run.path} holds {len(run.traces) + len(run.unread)} recordings: {said} {which}"
        print(f"tracetui: {printable(line)}; --rank N or --source KIND picks another", file=sys.stderr)
    return trace


def trace_reader(request: Request) -> Callable[[Path], Trace]:
    """What opens a file beside those given, with the cache or without as the request says."""
    from tracetui.parsers import open_path

    return lambda path: open_path(path, cache=request.cache).main


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

    layout = Layout(limit or request.rows, is_ascii(request), request.charts, request.range_kernels, request.all)
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
    """The command that shows on the screen what a report is of, by default from the tab of its first section on."""
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
    """Raises TraceError, before all else, for an output that would replace a file unasked, or a recording."""
    if request.output is None:
        return
    from tracetui.parsers.runs.detect import is_of_a_run
    from tracetui.parsers.written import refuse

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


@contextmanager
def status_line(patience_s: float = 0.0, interval_s: float = 0.2) -> Iterator[Callable[[str], None] | None]:
    """Yields what shows a line on standard error in place of the one before; None where nobody sees it.

    Args:
        patience_s: nothing is shown before that.
        interval_s: lines that come sooner after the last one are left out.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    due, shown = time.monotonic() + patience_s, 0

    def show(line: str) -> None:
        nonlocal due, shown
        if (now := time.monotonic()) >= due:
            sys.stderr.write("\r" + line.ljust(shown))
            sys.stderr.flush()
            due, shown = now + interval_s, len(line)

    try:
        yield show
    finally:
        if shown:
            sys.stderr.write("\r" + " " * shown + "\r")
            sys.stderr.flush()


@contextmanager
def job_progress() -> Iterator[Callable[[int, int], None] | None]:
    """Yields what shows how many of a job's recordings are done; None where nobody sees it."""
    began = time.monotonic()
    before: int | None = None
    with status_line() as show:

        def report(done: int, total: int) -> None:
            nonlocal before
            before = done - 1 if before is None else before
            left = (time.monotonic() - began) / max(done - before, 1) * (total - done)
            soon = f", {left:.0f} s left" if left >= 1 else ""
            if show is not None:
                show(f"{done:,} of {total:,} recordings{soon}")

        yield report if show is not None else None
