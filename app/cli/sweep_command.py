"""`tracetui sweep`: reads a sweep and prints it as text, JSON, Markdown or CSV."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.cli import headless
from tracetui.app.reports.sweep_report import sweep_csv, sweep_markdown, sweep_text
from tracetui.app.text.exit_codes import DONE

if TYPE_CHECKING:
    from tracetui.app.cli.request import Request


def print_sweep(path: Path, request: Request) -> int:
    """Prints the sweep in a folder or a CSV file."""
    from tracetui.analysis.findings.config import load
    from tracetui.analysis.report.sweep import sweep_report
    from tracetui.analysis.sweeps.reading import read_sweep
    from tracetui.parsers import open_path

    terminal = sys.stderr is not None and sys.stderr.isatty()

    def done(number: int, whole: int) -> None:
        if terminal:
            sys.stderr.write(f"\rreading run {number} of {whole}" + ("\r\x1b[K" if number == whole else ""))
            sys.stderr.flush()

    sweep = read_sweep(path, lambda file: open_path(file, cache=request.cache), done)
    config = load(path if path.is_dir() else path.parent, Path.cwd())
    found = sweep_report(sweep, config, request.on_error)
    if request.format == "json":
        from tracetui.app.reports.json_report import to_json

        text = to_json(found)
    elif request.format == "csv":
        text = sweep_csv(found)
    elif request.format == "markdown":
        ascii = headless.is_ascii(request)
        text = sweep_markdown(found, limit=request.limit or None, ascii=ascii, charts=request.charts)
    else:
        ascii = headless.is_ascii(request)
        text = sweep_text(found, limit=request.limit or None, ascii=ascii, charts=request.charts)
    headless.write(text, request)
    return DONE
