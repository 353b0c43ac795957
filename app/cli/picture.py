"""`tracetui report` and `diff` with `--format svg` and `png`: one picture, in the shape of a slide."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tracetui.app.cli import headless
from tracetui.app.session.of_summaries import run_of, summaries_in
from tracetui.app.text.exit_codes import DONE, UsageError
from tracetui.app.text.fitting import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tracetui.analysis.findings.config import Config
    from tracetui.app.cli.options import Request
    from tracetui.parsers import Run

USUAL = "timeline"
"""The picture where none is asked for."""


def print_picture(paths: Sequence[Path], request: Request) -> int:
    """Writes a picture of a run."""
    from tracetui.app.reports.content.pictures import OF_JOB, PICTURES

    names = request.sections or (USUAL,)
    known = (*PICTURES, OF_JOB)
    if len(names) > 1:
        raise UsageError(f"{request.format} is one picture; pick it with --section NAME")
    if names[0] not in known:
        raise UsageError(f"no picture named {names[0]!r}; there are {', '.join(known)}")
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
