"""Commands that print what recordings say: report, check, diff, sweep, ranks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.cli.options.shared import FORMATS, add_output, add_run, add_sample
from tracetui.app.cli.options.values import condition, count, input_path, job_part, positive, steps

if TYPE_CHECKING:
    from tracetui.app.cli.options.shared import Commands, Parents

PICTURES = ("svg", "png")
"""Formats of one picture, which `report` and `diff` have."""
GROUPINGS = ("name", "category", "class", "module", "range", "shape", "input_shapes", "stream")
"""`analysis.kernels.GROUPINGS`."""
DIFF_SECTIONS = ("kinds", "kernels", "operators", "modules", "ranges", "findings")
"""The tables of a diff, `analysis.tables.registry.COMPARED`."""
SWEEP_SECTIONS = ("points", "comparisons", "kinds", "captures", "matrix", "phases", "categories", "top_kernels")
"""`app.reports.content.sweep.SECTIONS`."""
RANGE_KERNELS = 3
"""How many kernels `report --kernels` shows under each range."""
LIKES = ("torch", "ncu", "guide", "nsys", "variants")
"""`app.reports.content.drafts.kinds.LIKES`."""


def add_report(commands: Commands, parents: Parents) -> None:
    """Adds `tracetui report`."""
    parser = commands.add_parser(
        "report",
        parents=parents,
        help="print what the tabs show",
        description="Print what the tabs show: text for people, JSON for scripts, Markdown for issues, CSV for tables, "
        "HTML for a browser.",
    )
    parser.add_argument("paths", nargs="*", type=input_path, metavar="PATH", help="a trace, its ranks, or a folder")
    add_sample(parser)
    add_run(parser, "the run to use if a folder holds several, by letter or name (default: the newest)")
    parser.add_argument(
        "--section", nargs="+", action="extend", metavar="NAME", help="only these sections (csv: one, default kernels)"
    )
    parser.add_argument(
        "--like",
        choices=LIKES,
        help="print a draft of a whole report in its author's order: torch, guide (of a run); ncu, nsys, variants (of "
        "a folder of recordings)",
    )
    parser.add_argument(
        "--by",
        choices=GROUPINGS,
        default="name",
        metavar="NAME",
        help=f"what the kernels are grouped by: {', '.join(GROUPINGS)} (default: %(default)s)",
    )
    parser.add_argument(
        "--kernels",
        type=count,
        nargs="?",
        const=RANGE_KERNELS,
        dest="range_kernels",
        metavar="N",
        help="with --section modules or range_tree: under each of them the N kernels that take most time, 0 for all "
        "(default: %(const)s); JSON and CSV list all",
    )
    parser.add_argument(
        "--nsys-report",
        action="append",
        metavar="NAME",
        help="a table as `nsys stats` prints it, of any trace: cuda_gpu_kern_sum, nvtx_gpu_proj_sum, ... (repeatable)",
    )
    parser.add_argument(
        "--max-tokens",
        type=positive,
        metavar="N",
        help="shorten by importance to about N tokens (of 3 bytes), and say what is left out: text, markdown, json",
    )
    add_output(parser, (*FORMATS, *PICTURES))


def add_check(commands: Commands, parents: Parents) -> None:
    """Adds `tracetui check`."""
    parser = commands.add_parser(
        "check",
        parents=parents,
        help="go through the profiling checklist",
        description="Go through the checklist before optimising: for each point whether it is done, failed or not in "
        "this recording, the figure it rests on, and the command that records what is missing.",
    )
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="a recording, its ranks, or a folder")
    add_sample(parser)
    add_run(parser, "the run to use if a folder holds several, by letter or name (default: the newest)")
    parser.add_argument("--format", choices=("text", "json", "markdown"), default="text", help="default: %(default)s")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write to a file instead of standard output")


def add_diff(commands: Commands, parents: Parents) -> None:
    """Adds `tracetui diff`."""
    parser = commands.add_parser(
        "diff",
        parents=parents,
        help="compare two runs, per step",
        description="Compare two runs per step. A is the base; a positive difference means that B takes longer.",
    )
    parser.add_argument("a", type=input_path, metavar="A", help="the base: a trace or a folder")
    parser.add_argument("b", type=input_path, metavar="B", help="the run to compare with it")
    parser.add_argument(
        "--fail-on",
        action="append",
        type=condition,
        default=[],
        metavar="CONDITION",
        help="regression:5%% exits 3 when B's step takes more than 5 %% longer than A's, and 4 when the two did other "
        "work (another batch, another size of the input), so that it can't be judged",
    )
    parser.add_argument(
        "--section",
        choices=(*DIFF_SECTIONS, "counters"),
        help="only this table, in every format but json (csv, svg and png: kernels; counters: of reports of Nsight "
        "Compute)",
    )
    add_output(parser, (*FORMATS, *PICTURES))


def add_sweep(commands: Commands, parents: Parents) -> None:
    """Adds `tracetui sweep`."""
    parser = commands.add_parser(
        "sweep",
        parents=parents,
        help="compare many runs that differ in an option",
        description="Show step time, throughput, kernels and GPU time against batch, context, keep rate, type. Reads a "
        "folder that `tracetui profile --sweep` wrote, any folder of captures, or a table (CSV).",
    )
    parser.add_argument("path", type=input_path, metavar="PATH", help="a folder of runs, or a CSV file")
    parser.add_argument(
        "--section",
        nargs="+",
        action="extend",
        choices=SWEEP_SECTIONS,
        metavar="NAME",
        help=f"only these tables: {', '.join(SWEEP_SECTIONS)} (csv: one, default points; json has all)",
    )
    add_output(parser)


def add_ranks(commands: Commands, parents: Parents) -> None:
    """Adds `tracetui ranks`."""
    parser = commands.add_parser(
        "ranks",
        parents=parents,
        help="compare the ranks of a large job",
        description="Summarise every rank of a job, some tens of kilobytes each, and compare them. Summaries are kept "
        "and used again, in the user's cache or with --into in a folder, which `tracetui open` shows without the "
        "recordings.",
    )
    parser.add_argument("path", type=input_path, metavar="DIR", help="a folder of recordings, or of their summaries")
    add_run(parser, "the job to use if a folder holds several, by letter or name (default: the newest)")
    parser.add_argument("--steps", type=steps, metavar="FIRST-LAST", help="only these steps: 3 or 2-5")
    parser.add_argument(
        "--skip-steps", type=count, default=0, metavar="N", help="leave out the first N steps (warm-up)"
    )
    parser.add_argument(
        "--jobs", type=positive, metavar="N", help="processes (default: as many as cores, if memory allows)"
    )
    parser.add_argument(
        "--part", type=job_part, metavar="I/N", help="only part I of N, the first being 0: an element of a job array"
    )
    parser.add_argument("--into", type=Path, metavar="OUT", help="the folder for the summaries (default: the cache)")
    parser.add_argument("--dask", metavar="ADDRESS", help="a Dask scheduler, or its file (needs tracetui[dask])")
    add_output(parser)
