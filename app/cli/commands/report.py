"""`tracetui report`: prints what the tabs show."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.cli import headless
from tracetui.app.cli.command import option, switch
from tracetui.app.cli.commands.ranks import is_folder_of_summaries
from tracetui.app.cli.options import (
    ANY_RUN,
    FORMATS,
    LAID_OUT,
    PICTURES,
    Common,
    Covered,
    Printed,
    Recordings,
    format_option,
)
from tracetui.app.cli.values import count, input_path, positive
from tracetui.app.text.exit_codes import DONE, UsageError
from tracetui.app.text.fitting import printable
from tracetui.parsers.errors import instead

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from tracetui.analysis.findings.config import Config
    from tracetui.analysis.report.model import Report, Row
    from tracetui.analysis.report.sweep import SweepReport
    from tracetui.app.cli.options import Request
    from tracetui.app.reports.short import Parts, Short
    from tracetui.parsers import Run

GROUPINGS = ("name", "category", "class", "module", "range", "line", "shape", "input_shapes", "stream")
"""`analysis.kernels.GROUPINGS`."""
RANGE_KERNELS = 3
"""How many kernels `report --kernels` shows under each range."""
LIKES = ("torch", "ncu", "guide", "nsys", "variants")
"""`app.reports.content.drafts.LIKES`."""
STACKS = ("collapsed", "speedscope")
"""`app.reports.stacks`: formats of the sampled program's stacks alone."""
USUAL_PICTURE = "timeline"
"""The picture where none is asked for."""


def _sections() -> Sequence[str]:
    from tracetui.analysis.report.report import SECTIONS

    return tuple(SECTIONS)


def _nsys_reports() -> Sequence[str]:
    from tracetui.analysis.nsys.stats import REPORTS

    return tuple(REPORTS)


@dataclass(kw_only=True)
class Options(Printed, Recordings, Covered, Common):
    """Print what the tabs show: text for people, JSON for scripts, Markdown for issues, CSV for tables, HTML for a
    browser.
    """

    paths: list[Path] = option(nargs="*", type=input_path, metavar="PATH", help="a trace, its ranks, or a folder")
    run: str | None = option("--run", metavar="NAME", help=ANY_RUN)
    section: list[str] | None = option(
        "--section",
        nargs="+",
        action="extend",
        metavar="NAME",
        help="only these sections (csv: one, default kernels)",
        words=_sections,
    )
    like: str | None = option(
        "--like",
        choices=LIKES,
        help="print a draft of a whole report in its author's order: torch, guide (of a run); ncu, nsys, variants (of "
        "a folder of recordings)",
    )
    by: str = option(
        "--by",
        choices=GROUPINGS,
        default="name",
        metavar="NAME",
        help=f"what the kernels are grouped by: {', '.join(GROUPINGS)} (default: %(default)s)",
    )
    range_kernels: int | None = option(
        "--kernels",
        type=count,
        nargs="?",
        const=RANGE_KERNELS,
        metavar="N",
        help="with --section modules or range_tree: under each of them the N kernels that take most time, 0 for all "
        "(default: %(const)s); JSON and CSV list all",
    )
    nsys_report: list[str] | None = option(
        "--nsys-report",
        action="append",
        metavar="NAME",
        help="a table as `nsys stats` prints it, of any trace: cuda_gpu_kern_sum, nvtx_gpu_proj_sum, ... (repeatable)",
        words=_nsys_reports,
    )
    all: bool = switch("--all", help="text: every finding, with what it rests on, in place of the first five in short")
    max_tokens: int | None = option(
        "--max-tokens",
        type=positive,
        metavar="N",
        help="shorten by importance to about N tokens (of 3 bytes), and say what is left out: text, markdown, json",
    )
    format: str = format_option(*FORMATS, *PICTURES, *STACKS, last=True)


def run(options: Options) -> int:
    """Prints a report, tables of `nsys stats`, a draft, or a picture."""
    paths = options.given_paths()
    if options.nsys_report:
        return print_nsys_reports(paths, options.nsys_report, options)
    if options.like:
        return print_like(paths, options.like, options)
    if options.format in PICTURES:
        return print_picture(paths, options)
    if len(paths) == 1 and is_folder_of_summaries(paths[0]):
        from tracetui.app.cli.commands.ranks import print_summaries

        return print_summaries(paths[0], options)
    if options.format in STACKS:
        return print_stacks(paths, options)
    return print_report(paths, options)


def print_stacks(paths: Sequence[Path], request: Request) -> int:
    """Prints the stacks of the sampled program as other tools read them."""
    from tracetui.analysis.host_lines import sampled
    from tracetui.app.reports.stacks import collapsed, speedscope
    from tracetui.app.text.sample_words import NO_SAMPLES

    headless.check_output(request, paths)
    run, _ = headless.opened(paths, request)
    found, problem = sampled(run.main)
    if found is None:
        raise UsageError(problem or NO_SAMPLES)
    text = collapsed(found) if request.format == "collapsed" else speedscope(found, run.path.name)
    headless.write(text, request, paths)
    return DONE


def print_report(paths: Sequence[Path], request: Request) -> int:
    """Prints the report of one run; as it was kept where nothing that it follows from has changed."""
    from tracetui.app.session.kept_report import Kept

    kept = Kept(paths, request) if request.cache and not request.debug else None
    if kept is not None and (text := kept.text()) is not None:
        headless.check_output(request, paths)
        headless.write(text, request, paths)
        return DONE
    failed, shown = computed(paths, request)
    headless.write(shown, request, paths)
    if kept is not None and not failed:
        kept.keep(shown)
    return DONE


def computed(paths: Sequence[Path], request: Request) -> tuple[bool, str]:
    """(Whether anything was printed beside it or has failed, the report)"""
    from msgspec.structs import replace as replace_fields

    from tracetui.analysis.report.report import SECTIONS, report
    from tracetui.parsers.runs.comments import comments_on

    for name in request.sections or ():
        if name not in SECTIONS:
            raise UsageError(f"no section named {name!r}; {instead(name, SECTIONS)}")
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
    headless.check_output(request, paths)
    run, config = headless.opened(paths, request)
    if run.unread and "ranks" in (sections or SECTIONS):
        from tracetui.analysis.ranks.of_run import with_straggler

        with headless.job_progress() as progress:
            run = with_straggler(run, request.scope, progress)

    failures: list[Exception] = []

    def note(error: Exception) -> None:
        failures.append(error)
        if request.on_error is not None:
            request.on_error(error)

    found = report(
        run,
        request.scope,
        sections,
        request.rows if request.format in ("json", "csv") else None,
        headless.trace_reader(request),
        config,
        note,
        request.by,
        _printed_sections(request),
        range_kernels=request.range_kernels is not None,
    )
    found = replace_fields(found, run=replace_fields(found.run, comments=list(comments_on(run))))
    shown = _render(found, request, paths) if request.max_tokens is None else _shortened(found, request, paths)
    return bool(failures or found.run.warnings), shown


def _printed_sections(request: Request) -> Callable[[Run, list[Row]], list[Collection[str] | None]] | None:
    """Returns which sections of which recordings the format prints, so that the others are not computed; None for all.

    Text, Markdown and HTML only name another tool's recording. Beside the table of captures they print every
    recording that has a section.
    """
    if request.format not in LAID_OUT or "captures" in (request.sections or ()):
        return None
    from tracetui.app.reports.content.run import printed_sections

    return printed_sections


def _render(found: Report, request: Request, paths: Sequence[Path]) -> str:
    if request.format == "json":
        from tracetui.app.reports.json_report import to_json

        return to_json(found)
    if request.format == "csv":
        from tracetui.app.reports.csv_report import report_csv

        kinds = dict.fromkeys(trace.source.kind for trace in found.run.traces)
        if len(kinds) > 1:
            print(f"tracetui: rows of one tool; --source picks it: {', '.join(kinds)}", file=sys.stderr)
        if found.run.other_runs:
            print(f"tracetui: rows of one run of this folder: {found.run.path}", file=sys.stderr)
        return report_csv(found, (request.sections or ("kernels",))[0])
    from tracetui.app.reports.content.run import run_parts

    return headless.laid_out(run_parts, found, request, opens=headless.opening(paths, request))


def _shortened(found: Report, request: Request, paths: Sequence[Path]) -> str:
    """The report in the longest form that has at most so many tokens."""
    from tracetui.app.reports.short import shortened

    most = request.max_tokens or 0

    def printed(found: Short, parts: Parts | None, rows: int) -> str:
        if parts is None:
            from tracetui.app.reports.json_report import to_json

            return to_json(found, compact=True)
        given = replace(request, charts=False)
        return headless.laid_out(
            parts, found, given, limit=min(rows, request.rows or rows), opens=headless.opening(paths, request)
        )

    return shortened(found, most, printed, as_data=request.format == "json")


def print_nsys_reports(paths: Sequence[Path], names: Sequence[str], request: Request) -> int:
    """Prints tables of `nsys stats`; says on standard error what they lack."""
    from tracetui.analysis.selection import select
    from tracetui.app.reports import nsys_report

    reports = nsys_report.check_names(names)
    if request.format in ("markdown", "html") or request.sections is not None:
        other = "--section" if request.sections is not None else request.format
        raise UsageError(f"--nsys-report prints text, csv or json of whole reports; it does not go with {other}")
    headless.check_output(request, paths)
    run = headless.open_run(paths, request)
    trace = nsys_report.trace_for(run)
    if (many := len(run.traces) + len(run.unread)) > 1:
        line = f"{run.path} holds {many} traces: reporting on {trace.source.path.name}; "
        print(f"tracetui: {printable(line)}--rank N or --source KIND picks another", file=sys.stderr)
    text, notes = nsys_report.render(
        select(trace, request.scope), reports, request.format, request.limit or None, ascii=headless.is_ascii(request)
    )
    headless.write(text, request, paths)
    for note in notes:
        print(f"tracetui: {printable(note)}", file=sys.stderr)
    return DONE


def print_like(paths: Sequence[Path], name: str, request: Request) -> int:
    """Prints the draft of this kind."""
    from tracetui.analysis.report.report import report
    from tracetui.app.reports.content.drafts import LIKES, Draft, like_parts

    if request.format not in LAID_OUT:
        formats = ", ".join(LAID_OUT)
        raise UsageError(f"--like prints {formats}; for {request.format} ask for a section: --section NAME")
    if request.sections is not None or request.by != "name":
        raise UsageError("--like has its own sections: it goes with neither --section nor --by")
    like = LIKES[name]
    headless.check_output(request, paths)
    config = headless.rules_config(*paths)
    sweep = _as_sweep(paths[0], config, request) if like.sweep and len(paths) == 1 and paths[0].is_dir() else None
    compares = any("comparisons" in chapter.pieces for chapter in like.chapters)
    if compares and request.run is None and sweep is not None and (losing := _losing(sweep)) is not None:
        request = replace(request, run=losing.relative_to(paths[0]).as_posix())
    run = headless.open_run(paths, request)

    found = report(
        run, request.scope, like.sections, None, headless.trace_reader(request), config, request.on_error,
        sections_of=_used,
    )  # fmt: skip
    command = () if run.manifest is None else run.manifest.identity.command
    draft = Draft(found.run, sweep, command, str(paths[0]) if like.sweep and len(paths) == 1 else "")
    opens = headless.opening(paths, request, tab="sweep" if sweep is not None else "")
    text = headless.laid_out(lambda about, layout: like_parts(draft, name, layout), {}, request, opens=opens)
    headless.write(text, request, paths)
    return DONE


def _used(run: Run, ranks: list[Row]) -> list[Collection[str] | None]:
    """All sections of the main recording and of one by each other tool: a draft shows no others."""
    seen = {run.main.info.kind}
    used: list[Collection[str] | None] = []
    for trace in run.traces:
        fresh = trace is run.main or trace.info.kind not in seen
        seen.add(trace.info.kind)
        used.append(None if fresh else ())
    return used


def _losing(sweep: SweepReport) -> Path | None:
    """The recording of the variant that gains least of its baseline, which a report on variants asks about."""
    rows = [row for one in sweep.comparisons for row in one.rows]
    samples = min(rows, key=lambda row: row.gain).variant.samples if rows else ()
    return next((sample.path for sample in samples if sample.path is not None and sample.path.is_dir()), None)


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


# --- pictures in the shape of a slide, of `report` and `diff`


def print_picture(paths: Sequence[Path], request: Request) -> int:
    """Writes a picture of a run."""
    from tracetui.app.reports.content.pictures import OF_JOB, PICTURES
    from tracetui.app.session.of_summaries import run_of, summaries_in

    names = request.sections or (USUAL_PICTURE,)
    known = (*PICTURES, OF_JOB)
    if len(names) > 1:
        raise UsageError(f"{request.format} is one picture; pick it with --section NAME")
    if names[0] not in known:
        raise UsageError(f"no picture named {names[0]!r}; {instead(names[0], known)}")
    check_png(request)
    headless.check_output(request, paths)
    if (folder := summaries_in(paths)) is not None:
        run, config = run_of(folder), headless.rules_config(*paths)
    else:
        run, config = headless.opened(paths, request)
    svg = _drawn(names[0], run, config, paths, request)
    if svg is None:
        raise UsageError(f"{printable(str(paths[0]))} has nothing to draw for --section {names[0]}")
    write_picture(svg, request, paths)
    return DONE


def check_png(request: Request) -> None:
    """Refuses to write bytes to a terminal."""
    if request.format == "png" and request.output is None and (sys.stdout is None or sys.stdout.isatty()):
        raise UsageError("png is no text: --output FILE writes it")


def _drawn(name: str, run: Run, config: Config, paths: Sequence[Path], request: Request) -> str | None:
    from tracetui.analysis.report.report import trace_report
    from tracetui.app.reports.content.pictures import OF_JOB, SECTION_OF, of_job, picture
    from tracetui.app.reports.open_command import TABS, spelled

    ascii = headless.is_ascii(request)
    foot = spelled(headless.opening(paths, request, tab=TABS.get(name, "")))
    if name == OF_JOB:
        return of_job(run, request.scope, foot, ascii=ascii)
    section = SECTION_OF.get(name, name)
    for trace in sorted(run.traces, key=lambda trace: trace is not run.main):
        found = trace_report(trace, request.scope, (section,), None, run, config, request.on_error)
        if getattr(found, section) is None:
            continue
        rank = "" if trace.info.rank is None else f"rank {trace.info.rank}"
        said = " · ".join(part for part in (run.name, rank, found.base) if part)
        if (svg := picture(name, found, said, foot, ascii=ascii)) is not None:
            return svg
    return None


def write_picture(svg: str, request: Request, paths: Sequence[Path]) -> None:
    """Writes a picture in the form that was asked for."""
    if request.format == "svg":
        headless.write(svg, request, paths)
        return
    from tracetui.app.charts.slide import png
    from tracetui.parsers.written import written

    content = png(svg)
    if request.output is None:
        sys.stdout.buffer.write(content)
        return
    with written(request.output, force=request.force, sources=paths, advice=headless.REPLACE) as part:
        part.write_bytes(content)
