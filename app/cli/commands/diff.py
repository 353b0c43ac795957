"""`tracetui diff`: compares two runs, per step."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tracetui.app.cli.command import option
from tracetui.app.cli.options import FORMATS, PICTURES, Common, Covered, Printed, format_option
from tracetui.app.cli.values import condition, input_path

SECTIONS = ("kinds", "kernels", "operators", "modules", "ranges", "findings")
"""The tables of a diff, `analysis.tables.registry.COMPARED`."""


@dataclass(kw_only=True)
class Options(Printed, Covered, Common):
    """Compare two runs per step. A is the base; a positive difference means that B takes longer."""

    a: Path = option(type=input_path, metavar="A", help="the base: a trace or a folder")
    b: Path = option(type=input_path, metavar="B", help="the run to compare with it")
    fail_on: list[float] = option(
        "--fail-on",
        action="append",
        type=condition,
        default=[],
        metavar="CONDITION",
        help="regression:5%% exits 3 when B's step takes more than 5 %% longer than A's, and 4 when the two did other "
        "work (another batch, another size of the input), so that it can't be judged",
    )
    section: str | None = option(
        "--section",
        choices=(*SECTIONS, "counters"),
        help="only this table, in every format but json (csv, svg and png: kernels; counters: of reports of Nsight "
        "Compute)",
    )
    format: str = format_option(*FORMATS, *PICTURES, last=True)


def run(options: Options) -> int:
    """Prints what changed, or draws it."""
    if options.format in PICTURES:
        from tracetui.app.cli.picture import print_diff_picture

        return print_diff_picture(options.a, options.b, options, fail_above_percent=options.fail_on)
    from tracetui.app.cli.headless import print_diff

    return print_diff(options.a, options.b, options, fail_above_percent=options.fail_on)
