"""What is read of whole folders: `tracetui sweep`, and the drafts of `tracetui report --like`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import to_builtins

from tracetui.app.cli.command import option
from tracetui.app.cli.options import LAID_OUT, Common, Printed
from tracetui.app.cli.values import input_path
from tracetui.app.text.exit_codes import DONE, UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tracetui.analysis.base.json_values import Json
    from tracetui.analysis.findings.config import Config
    from tracetui.analysis.report.sweep import SweepReport
    from tracetui.app.cli.options import Request
    from tracetui.parsers import Run, Trace

SECTIONS = ("points", "comparisons", "kinds", "captures", "matrix", "phases", "categories", "top_kernels")
"""`app.reports.content.sweep.SECTIONS`."""


@dataclass(kw_only=True)
class Options(Printed, Common):
    """Show step time, throughput, kernels and GPU time against batch, context, keep rate, type. Reads a folder that
    `tracetui profile --sweep` wrote, any folder of captures, or a table (CSV).
    """

    path: Path = option(type=input_path, metavar="PATH", help="a folder of runs, or a CSV file")
    section: list[str] | None = option(
        "--section",
        nargs="+",
        action="extend",
        choices=SECTIONS,
        metavar="NAME",
        help=f"only these tables: {', '.join(SECTIONS)} (csv: one, default points; json has all)",
    )


def run(options: Options) -> int:
    """Prints the sweep in a folder or a CSV file."""
    from tracetui.analysis.findings.config import load
    from tracetui.analysis.report.sweep import sweep_report
    from tracetui.analysis.sweeps.reading import read_sweep
    from tracetui.app.cli import headless
    from tracetui.parsers import open_path

    path = options.path
    if options.format == "csv" and len(options.sections or ()) > 1:
        raise UsageError("csv prints one section; pick it with --section NAME")
    headless.check_output(options, [path])
    terminal = sys.stderr is not None and sys.stderr.isatty()

    def done(number: int, whole: int) -> None:
        if terminal:
            sys.stderr.write(f"\rreading run {number} of {whole}" + ("\r\x1b[K" if number == whole else ""))
            sys.stderr.flush()

    sweep = read_sweep(path, lambda file: open_path(file, cache=options.cache), done)
    config = load(path if path.is_dir() else path.parent, Path.cwd())
    report = sweep_report(sweep, config, options.on_error)
    headless.write(_render(report, path, options), options, [path])
    return DONE


def _render(found: SweepReport, path: Path, request: Request) -> str:
    from tracetui.app.cli import headless

    if request.format == "json":
        from tracetui.analysis.report.sweep import sweep_json
        from tracetui.app.reports.json_report import to_json

        return to_json(sweep_json(found))
    from tracetui.app.reports.content.sweep import section_csv, section_parts, sweep_parts

    if request.format == "csv":
        return section_csv(found, (request.sections or ("points",))[0])
    opens = headless.opening([path], request, tab="sweep")
    if (sections := request.sections) is not None:
        return headless.laid_out(
            lambda found, layout: section_parts(found, sections, layout), found, request, opens=opens
        )
    return headless.laid_out(sweep_parts, found, request, limit=request.limit or None, opens=opens)


def print_like(paths: Sequence[Path], name: str, request: Request) -> int:
    """Prints the draft of this kind."""
    from tracetui.analysis.report.report import report
    from tracetui.app.cli import headless
    from tracetui.app.reports.content.drafts.draft import Draft
    from tracetui.app.reports.content.drafts.kinds import LIKES, like_parts
    from tracetui.parsers import open_path

    if request.format not in LAID_OUT:
        formats = ", ".join(LAID_OUT)
        raise UsageError(f"--like prints {formats}; for {request.format} ask for a section: --section NAME")
    if request.sections is not None or request.by != "name":
        raise UsageError("--like has its own sections: it goes with neither --section nor --by")
    like = LIKES[name]
    headless.check_output(request, paths)
    run, config = headless.opened(paths, request)

    def open_file(path: Path) -> Trace:
        return open_path(path, cache=request.cache).main

    found = report(run, request.scope, like.sections, None, open_file, config, request.on_error, sections_of=_used)
    sweep = _as_sweep(paths[0], config, request) if like.sweep and len(paths) == 1 and paths[0].is_dir() else None
    command = () if run.manifest is None else run.manifest.identity.command
    draft = Draft(to_builtins(found.run), sweep, command, str(paths[0]) if like.sweep and len(paths) == 1 else "")
    opens = headless.opening(paths, request, tab="sweep" if sweep is not None else "")
    text = headless.laid_out(lambda about, layout: like_parts(draft, name, layout), {}, request, opens=opens)
    headless.write(text, request, paths)
    return DONE


def _used(run: Run, ranks: list[Json]) -> list[Collection[str] | None]:
    """All sections of the main recording and of one by each other tool: a draft shows no others."""
    seen = {run.main.info.kind}
    used: list[Collection[str] | None] = []
    for trace in run.traces:
        fresh = trace is run.main or trace.info.kind not in seen
        seen.add(trace.info.kind)
        used.append(None if fresh else ())
    return used


def _as_sweep(path: Path, config: Config, request: Request) -> SweepReport | None:
    """The folder as a sweep; None where it is none."""
    from tracetui.analysis.report.sweep import sweep_report
    from tracetui.analysis.sweeps.reading import read_sweep
    from tracetui.parsers import TraceError, open_path

    try:
        sweep = read_sweep(path, lambda file: open_path(file, cache=request.cache))
    except TraceError:
        return None
    return sweep_report(sweep, config, request.on_error)
