"""`tracetui sweep`: compares many runs that differ in an option."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.cli import headless
from tracetui.app.cli.command import option
from tracetui.app.cli.options import Common, Printed, Request
from tracetui.app.cli.values import input_path
from tracetui.app.text.exit_codes import DONE, UsageError

if TYPE_CHECKING:
    from tracetui.analysis.report.sweep import SweepReport

SECTIONS = ("points", "comparisons", "kinds", "captures", "matrix", "phases", "categories", "top_kernels")
"""What `app.reports.content.sweep.section_parts` knows."""


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
    from tracetui.parsers import open_path

    path = options.path
    if options.format == "csv" and len(options.sections or ()) > 1:
        raise UsageError("csv prints one section; pick it with --section NAME")
    headless.check_output(options, [path])
    with headless.status_line() as show:

        def done(number: int, total: int) -> None:
            if show is not None:
                show(f"reading run {number} of {total}")

        sweep = read_sweep(path, lambda file: open_path(file, cache=options.cache), done)
    config = load(path if path.is_dir() else path.parent, Path.cwd())
    report = sweep_report(sweep, config, options.on_error)
    headless.write(_render(report, path, options), options, [path])
    return DONE


def _render(found: SweepReport, path: Path, request: Request) -> str:
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
