"""`tracetui sweep`: reads a sweep and prints it as text, JSON, Markdown or CSV."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.cli import headless
from tracetui.app.text.exit_codes import DONE, UsageError

if TYPE_CHECKING:
    from tracetui.analysis.base.json_values import Json
    from tracetui.app.cli.request import Request


def print_sweep(path: Path, request: Request) -> int:
    """Prints the sweep in a folder or a CSV file."""
    from tracetui.analysis.findings.config import load
    from tracetui.analysis.report.sweep import sweep_report
    from tracetui.analysis.sweeps.reading import read_sweep
    from tracetui.parsers import open_path

    if request.format == "csv" and len(request.sections or ()) > 1:
        raise UsageError("csv prints one section; pick it with --section NAME")
    headless.check_output(request, [path])
    terminal = sys.stderr is not None and sys.stderr.isatty()

    def done(number: int, whole: int) -> None:
        if terminal:
            sys.stderr.write(f"\rreading run {number} of {whole}" + ("\r\x1b[K" if number == whole else ""))
            sys.stderr.flush()

    sweep = read_sweep(path, lambda file: open_path(file, cache=request.cache), done)
    config = load(path if path.is_dir() else path.parent, Path.cwd())
    found = sweep_report(sweep, config, request.on_error)
    headless.write(_render(found, request), request, [path])
    return DONE


def _render(found: Json, request: Request) -> str:
    if request.format == "json":
        from tracetui.app.reports.json_report import to_json

        return to_json(found)
    from tracetui.app.reports.content.sweep import sweep_parts
    from tracetui.app.reports.content.sweep_sections import section_csv, section_parts

    if request.format == "csv":
        return section_csv(found, (request.sections or ("points",))[0])
    if (sections := request.sections) is not None:
        return headless.laid_out(lambda found, layout: section_parts(found, sections, layout), found, request)
    return headless.laid_out(sweep_parts, found, request, limit=request.limit or None)
