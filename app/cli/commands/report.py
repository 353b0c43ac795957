"""`tracetui report`: prints what the tabs show."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.cli.command import option
from tracetui.app.cli.commands.ranks import is_folder_of_summaries
from tracetui.app.cli.options import ANY_RUN, FORMATS, PICTURES, Common, Covered, Printed, Recordings, format_option
from tracetui.app.cli.values import count, input_path, positive

if TYPE_CHECKING:
    from collections.abc import Sequence

GROUPINGS = ("name", "category", "class", "module", "range", "shape", "input_shapes", "stream")
"""`analysis.kernels.GROUPINGS`."""
RANGE_KERNELS = 3
"""How many kernels `report --kernels` shows under each range."""
LIKES = ("torch", "ncu", "guide", "nsys", "variants")
"""`app.reports.content.drafts.kinds.LIKES`."""


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
    max_tokens: int | None = option(
        "--max-tokens",
        type=positive,
        metavar="N",
        help="shorten by importance to about N tokens (of 3 bytes), and say what is left out: text, markdown, json",
    )
    format: str = format_option(*FORMATS, *PICTURES, last=True)


def run(options: Options) -> int:
    """Prints a report, tables of `nsys stats`, a draft, or a picture."""
    paths = options.given_paths()
    if options.nsys_report:
        from tracetui.app.cli.headless import print_nsys_reports

        return print_nsys_reports(paths, options.nsys_report, options)
    if options.like:
        from tracetui.app.cli.commands.sweep import print_like

        return print_like(paths, options.like, options)
    if options.format in PICTURES:
        from tracetui.app.cli.picture import print_picture

        return print_picture(paths, options)
    if len(paths) == 1 and is_folder_of_summaries(paths[0]):
        from tracetui.app.cli.commands.ranks import print_summaries

        return print_summaries(paths[0], options)
    from tracetui.app.cli.headless import print_report

    return print_report(paths, options)
