"""`tracetui check`: goes through the profiling checklist and prints each point with its figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.app.cli import headless
from tracetui.app.text.exit_codes import DONE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tracetui.app.cli.request import Request


def print_check(paths: Sequence[Path], request: Request) -> int:
    """Prints the checklist of one run; points that failed are no error."""
    from tracetui.analysis.report.checklist import check_report

    headless.check_output(request, paths)
    run = headless.open_run(paths, request)
    found = check_report(run, request.scope, headless.rules_config(*paths), request.on_error)
    if request.format == "json":
        from tracetui.app.reports.json_report import to_json

        headless.write(to_json(found), request, paths)
        return DONE
    from tracetui.app.reports.checklist import check_parts

    opens = headless.opening(paths, request, tab="findings")
    headless.write(headless.laid_out(check_parts, found, request, opens=opens), request, paths)
    return DONE
