"""`tracetui check`: goes through the profiling checklist and prints each point with its figure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tracetui.app.cli import headless
from tracetui.app.cli.command import option
from tracetui.app.cli.options import ANY_RUN, OUTPUT, Common, Covered, Recordings, format_option
from tracetui.app.text.exit_codes import DONE


@dataclass(kw_only=True)
class Options(Recordings, Covered, Common):
    """Go through the checklist before optimising: for each point whether it is done, failed or not in this recording,
    the figure it rests on, and the command that records what is missing.
    """

    paths: list[Path] = option(nargs="*", type=Path, metavar="PATH", help="a recording, its ranks, or a folder")
    run: str | None = option("--run", metavar="NAME", help=ANY_RUN)
    format: str = format_option("text", "json", "markdown")
    output: Path | None = option("-o", "--output", type=Path, metavar="FILE", help=OUTPUT)


def run(options: Options) -> int:
    """Prints the checklist of one run; points that failed are no error."""
    from tracetui.analysis.checklist import check_report

    paths = options.given_paths()
    headless.check_output(options, paths)
    run = headless.open_run(paths, options)
    report = check_report(run, options.scope, headless.rules_config(*paths), options.on_error)
    if options.format == "json":
        from tracetui.app.reports.json_report import to_json

        headless.write(to_json(report), options, paths)
        return DONE
    from tracetui.app.reports.checklist import check_parts

    opens = headless.opening(paths, options, tab="findings")
    headless.write(headless.laid_out(check_parts, report, options, opens=opens), options, paths)
    return DONE
