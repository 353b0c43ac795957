"""`tracetui sweep`: reads a sweep and prints it as text, JSON, Markdown or CSV."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.cli import headless
from tracetui.app.text.exit_codes import DONE

if TYPE_CHECKING:
    from tracetui.analysis.base.json_values import Json
    from tracetui.app.cli.request import Request


def print_sweep(path: Path, request: Request) -> int:
    """Prints the sweep in a folder or a CSV file."""
    from tracetui.analysis.findings.config import load
    from tracetui.analysis.report.sweep import sweep_report
    from tracetui.analysis.sweeps.reading import read_sweep
    from tracetui.parsers import open_path

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
    from tracetui.app.reports.content.sweep import sweep_csv, sweep_parts

    if request.format == "csv":
        return sweep_csv(found)
    return headless.laid_out(sweep_parts, found, request, limit=request.limit or None)
