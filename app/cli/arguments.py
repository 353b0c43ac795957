"""Declares every command with its options; `cli.main` runs them.

argparse only, so that `--help` and `--version` answer without Polars and Textual.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

from tracetui.app.cli.asking.options import add_mcp, add_query, add_schema, add_skill
from tracetui.app.cli.option_values import condition, count, input_path, job_part, memory_size, port, positive, steps
from tracetui.app.cli.profile_options import add_profile
from tracetui.app.cli.prove_options import add_prove
from tracetui.app.settings.schema import COLORS, NAMES, THEMES
from tracetui.app.terminal.choice import DRIVERS
from tracetui.app.text.exit_codes import DONE
from tracetui.app.text.tool_words import KINDS

FORMATS = ("text", "json", "markdown", "csv", "html")
PICTURES = ("svg", "png")
"""Formats of one picture, which `report` has."""
GROUPINGS = ("name", "category", "class", "module", "range", "shape", "input_shapes", "stream")
"""`analysis.kernel_groups.GROUPINGS`."""
DIFF_SECTIONS = ("kinds", "kernels", "operators", "modules", "ranges", "findings")
"""The tables of a diff, `analysis.tables.registry.COMPARED`."""
SWEEP_SECTIONS = ("points", "comparisons", "kinds", "captures", "matrix", "phases", "categories", "top_kernels")
"""`app.reports.content.sweeps.sweep.SECTIONS`."""
RANGE_KERNELS = 3
"""How many kernels `report --kernels` shows under each range."""
LIKES = ("torch", "ncu", "guide", "nsys", "variants")
"""`app.reports.content.drafts.kinds.LIKES`."""
SAMPLES = {
    "vim_tiny": "vim_tiny",
    "vim_tiny_fp16": "vim_tiny_fp16",
    "topk_deit_sweep": "topk_deit_sweep",
}
EXIT_CODES = """\
exit codes:
  0  done
  1  the input can't be read (one line on standard error says which file and why)
  2  wrong usage
  3  a --fail-on condition holds
  4  a --fail-on condition can't be judged: the runs did other work
"""


def build_parser() -> argparse.ArgumentParser:
    """Builds the parser with all commands and options."""
    parser = argparse.ArgumentParser(
        prog="tracetui",
        description="Explore GPU performance traces in the terminal: what is slow, and why.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    parser.add_argument("--debug", action="store_true", help="show a traceback if something goes wrong")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", help="without a command: list what was opened lately"
    )
    common = _common_options()
    scope = _scope_options()

    one = commands.add_parser(
        "open",
        parents=[common, scope],
        help="explore a trace (prints the report if there is no terminal)",
        description="Explore a trace, a folder of traces, or several runs: the first two side by side. Without a "
        "terminal: the report.",
    )
    one.add_argument(
        "paths",
        nargs="*",
        type=input_path,
        metavar="PATH",
        help="a trace or a folder; several paths become runs a, b, c, ...",
    )
    _add_sample(one)
    _add_run(one, "the run to view first, by letter or name, if a folder holds several runs or several paths are given")
    one.add_argument(
        "--tab",
        metavar="NAME",
        help="the tab to start on, by its name, the start of its name, or its key: overview, kern, 8",
    )
    one.add_argument("--filter", metavar="TEXT", help="start with this filter")
    mouse = one.add_mutually_exclusive_group()
    mouse.add_argument("--mouse", action="store_true", default=None, help="mouse on (default: off over SSH)")
    mouse.add_argument("--no-mouse", action="store_false", dest="mouse", help="mouse off")
    one.add_argument(
        "--driver",
        choices=DRIVERS,
        help="what sends the screen: cells (only what differs), or stock (Textual's own) (default: auto)",
    )
    _add_looks(one)

    report = commands.add_parser(
        "report",
        parents=[common, scope],
        help="print what the tabs show",
        description="Print what the tabs show: text for people, JSON for scripts, Markdown for issues, CSV for tables, "
        "HTML for a browser.",
    )
    report.add_argument("paths", nargs="*", type=input_path, metavar="PATH", help="a trace, its ranks, or a folder")
    _add_sample(report)
    _add_run(report, "the run to use if a folder holds several, by letter or name (default: the newest)")
    report.add_argument(
        "--section", nargs="+", action="extend", metavar="NAME", help="only these sections (csv: one, default kernels)"
    )
    report.add_argument(
        "--like",
        choices=LIKES,
        help="print a draft of a whole report in its author's order: torch, guide (of a run); ncu, nsys, variants (of "
        "a folder of recordings)",
    )
    report.add_argument(
        "--by",
        choices=GROUPINGS,
        default="name",
        metavar="NAME",
        help=f"what the kernels are grouped by: {', '.join(GROUPINGS)} (default: %(default)s)",
    )
    report.add_argument(
        "--kernels",
        type=count,
        nargs="?",
        const=RANGE_KERNELS,
        dest="range_kernels",
        metavar="N",
        help="with --section modules or range_tree: under each of them the N kernels that take most time, 0 for all "
        "(default: %(const)s); JSON and CSV list all",
    )
    report.add_argument(
        "--nsys-report",
        action="append",
        metavar="NAME",
        help="a table as `nsys stats` prints it, of any trace: cuda_gpu_kern_sum, nvtx_gpu_proj_sum, ... (repeatable)",
    )
    report.add_argument(
        "--max-tokens",
        type=positive,
        metavar="N",
        help="shorten by importance to about N tokens (of 3 bytes), and say what is left out: text, markdown, json",
    )
    _add_output(report, (*FORMATS, *PICTURES))

    check = commands.add_parser(
        "check",
        parents=[common, scope],
        help="go through the profiling checklist",
        description="Go through the checklist before optimising: for each point whether it is done, failed or not in "
        "this recording, the figure it rests on, and the command that records what is missing.",
    )
    check.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="a recording, its ranks, or a folder")
    _add_sample(check)
    _add_run(check, "the run to use if a folder holds several, by letter or name (default: the newest)")
    check.add_argument("--format", choices=("text", "json", "markdown"), default="text", help="default: %(default)s")
    check.add_argument("--output", type=Path, metavar="FILE", help="write to a file instead of standard output")

    diff = commands.add_parser(
        "diff",
        parents=[common, scope],
        help="compare two runs, per step",
        description="Compare two runs per step. A is the base; a positive difference means that B takes longer.",
    )
    diff.add_argument("a", type=input_path, metavar="A", help="the base: a trace or a folder")
    diff.add_argument("b", type=input_path, metavar="B", help="the run to compare with it")
    diff.add_argument(
        "--fail-on",
        action="append",
        type=condition,
        default=[],
        metavar="CONDITION",
        help="regression:5%% exits 3 when B's step takes more than 5 %% longer than A's, and 4 when the two did other "
        "work (another batch, another size of the input), so that it can't be judged",
    )
    diff.add_argument(
        "--section",
        choices=(*DIFF_SECTIONS, "counters"),
        help="only this table, in every format but json (csv: kernels; counters: of reports of Nsight Compute)",
    )
    _add_output(diff)

    sweep = commands.add_parser(
        "sweep",
        parents=[common],
        help="compare many runs that differ in an option",
        description="Show step time, throughput, kernels and GPU time against batch, context, keep rate, type. Reads a "
        "folder that `tracetui profile --sweep` wrote, any folder of captures, or a table (CSV).",
    )
    sweep.add_argument("path", type=input_path, metavar="PATH", help="a folder of runs, or a CSV file")
    sweep.add_argument(
        "--section",
        nargs="+",
        action="extend",
        choices=SWEEP_SECTIONS,
        metavar="NAME",
        help=f"only these tables: {', '.join(SWEEP_SECTIONS)} (csv: one, default points; json has all)",
    )
    _add_output(sweep)

    job = commands.add_parser(
        "ranks",
        parents=[common],
        help="compare the ranks of a large job",
        description="Summarise every rank of a job, some tens of kilobytes each, and compare them. Summaries are kept "
        "and used again, in the user's cache or with --into in a folder, which `tracetui open` shows without the "
        "recordings.",
    )
    job.add_argument("path", type=input_path, metavar="DIR", help="a folder of recordings, or of their summaries")
    _add_run(job, "the job to use if a folder holds several, by letter or name (default: the newest)")
    job.add_argument("--steps", type=steps, metavar="FIRST-LAST", help="only these steps: 3 or 2-5")
    job.add_argument("--skip-steps", type=count, default=0, metavar="N", help="leave out the first N steps (warm-up)")
    job.add_argument(
        "--jobs", type=positive, metavar="N", help="processes (default: as many as cores, if memory allows)"
    )
    job.add_argument(
        "--part", type=job_part, metavar="I/N", help="only part I of N, the first being 0: an element of a job array"
    )
    job.add_argument("--into", type=Path, metavar="OUT", help="the folder for the summaries (default: the cache)")
    job.add_argument("--dask", metavar="ADDRESS", help="a Dask scheduler, or its file (needs tracetui[dask])")
    _add_output(job)

    query = add_query(commands, [common, scope])
    _add_run(query, "the run to use if a folder holds several, by letter or name (default: the newest)")

    add_profile(commands, common)
    add_prove(commands, common)

    models = commands.add_parser(
        "models",
        help="list the models that can be profiled by name",
        description="List the models that can be profiled by name: their parameters, their FLOPs, and what they need.",
    )
    models.add_argument("name", nargs="?", metavar="NAME", help="show one model: its options and what it needs")
    models.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")
    models.add_argument("--python", metavar="PATH", help="ask this Python what is installed (default: tracetui's own)")
    _add_ascii(models)
    models.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)

    rules = commands.add_parser(
        "rules",
        help="list the rules behind the findings, with their thresholds",
        description="List every rule behind the findings: its thresholds (yours are marked), needs and bases.",
    )
    rules.add_argument("id", nargs="?", metavar="ID", help="one rule, explained")
    rules.add_argument("--format", choices=("text", "json", "markdown"), default="text", help="default: %(default)s")
    _add_plain(rules)

    share = commands.add_parser(
        "scrub",
        help="copy a recording without host names, paths, commands and environments",
        description="Make a copy that can be shared: Chrome JSON, nsys SQLite, ncu CSV, memory snapshot, run.json or a "
        "folder of them. Names of kernels, operators and ranges, times and sizes stay; removed items are counted.",
    )
    share.add_argument("paths", nargs="+", type=input_path, metavar="FILE", help="a recording, or a folder of them")
    share.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="the copy, or a folder for several (default: X.scrubbed.json)"
    )
    share.add_argument("--force", action="store_true", help="replace existing copies")
    share.add_argument(
        "--names", action="store_true", help="also in names of kernels, operators, ranges and functions; none merge"
    )
    share.add_argument("--strict", action="store_true", help="write no copy that holds what can't be judged")
    _add_plain(share)

    part = commands.add_parser(
        "cut",
        help="copy part of a Chrome trace into a smaller one",
        description="Make a smaller Chrome trace of some steps or of a stretch of time: what lies in it byte for byte, "
        "with the launches of its GPU work, and all that the file says of the recording. Environment, paths and names "
        "in it stay: tracetui scrub takes them out.",
    )
    part.add_argument("path", type=input_path, metavar="FILE", help="a Chrome trace, plain or gzipped")
    part.add_argument("--steps", type=steps, metavar="FIRST-LAST", help="these steps and their GPU work: 3 or 2-5")
    part.add_argument("--from", dest="begin", metavar="TIME", help="start, as Timeline shows it: 3.1ms")
    part.add_argument("--to", dest="end", metavar="TIME", help="end: 9ms")
    part.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="the copy; .gz compresses (default: X.cut-....trace.json.gz)"
    )
    part.add_argument("--force", action="store_true", help="replace an existing copy, though never the recording")
    part.add_argument("--no-cache", action="store_false", dest="cache", help="do not use or fill the cache")
    _add_plain(part)

    doctor = commands.add_parser(
        "doctor",
        help="check terminal, torch, profilers, permissions and machine state",
        description="Check what `tracetui` and `tracetui profile` need, and say how to fix what is missing. Exit "
        "code 1 if something must be fixed.",
    )
    doctor.add_argument("--python", metavar="PATH", help="the Python that runs the workload (default: this one)")
    doctor.add_argument(
        "--output", type=Path, metavar="DIR", help="the folder to which runs will be written (default: here)"
    )
    doctor.add_argument(
        "--measure-peaks",
        action="store_true",
        help="measure what the GPU reaches (matrix products, memory) for rooflines; takes some seconds and needs torch",
    )
    doctor.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")
    _add_plain(doctor)

    serve = commands.add_parser(
        "serve",
        parents=[common, scope],
        help="show the screen in a browser (needs tracetui[web])",
        description="Serve the screen to a browser on this machine, at an address with a token. Nothing is written or "
        "opened besides what is given. From elsewhere, go through SSH (ssh -L 8000:localhost:8000).",
    )
    serve.add_argument(
        "paths", nargs="*", type=input_path, metavar="PATH", help="a trace or a folder; a second one is B"
    )
    _add_sample(serve)
    serve.add_argument("--tab", metavar="NAME", help="the tab to start on")
    serve.add_argument("--filter", metavar="TEXT", help="start with this filter")
    _add_looks(serve)
    serve.add_argument("--host", default="localhost", help="the address to listen on (default: %(default)s)")
    serve.add_argument(
        "--port",
        type=port,
        default=8000,
        metavar="N",
        help="the port to listen on; 0 for any free one (default: %(default)s)",
    )
    serve.add_argument("--no-token", action="store_true", help="an address without a token, open to all who reach it")
    serve.add_argument(
        "--allow-write", action="store_true", help="the browser may write files, open others, and is remembered"
    )

    add_skill(commands)
    add_schema(commands)
    add_mcp(commands, common)

    config = commands.add_parser(
        "config",
        help="show your settings and where each comes from",
        description="Show the settings in force and where each comes from. The strongest first: command line, "
        "environment, what was chosen on the screen, the project's .tracetui.toml, your config.toml, default.",
    )
    config.add_argument(
        "path",
        nargs="?",
        type=Path,
        metavar="PATH",
        help="show the settings that hold for this recording (default: for this folder)",
    )
    what = config.add_mutually_exclusive_group()
    what.add_argument("--path", action="store_true", dest="where", help="print only the path of your file")
    what.add_argument("--init", action="store_true", help="write your file, with every setting explained")
    what.add_argument("--keys", action="store_true", help="list the actions with their keys")
    what.add_argument("--columns", action="store_true", help="list the pages with their columns")
    what.add_argument("--reset", action="store_true", help="reset what was chosen on the screen")
    config.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")
    _add_plain(config)

    completion = commands.add_parser(
        "completion",
        help="print a script that completes commands in your shell",
        description="Print the script that completes `tracetui` in a shell. "
        'bash: eval "$(tracetui completion bash)" in ~/.bashrc; '
        "zsh: tracetui completion zsh > _tracetui in a folder of $fpath; "
        "fish: tracetui completion fish > ~/.config/fish/completions/tracetui.fish",
    )
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))
    completion.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)

    cache = commands.add_parser("cache", help="show or empty the cache of parsed traces")
    cache.add_argument("action", nargs="?", choices=("info", "clear"), default="info")
    cache.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    return parser


class _Version(argparse.Action):
    """Looks up the version only on request: reading package metadata takes longer than everything else here."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        print(f"tracetui {version('tracetui')}")
        parser.exit(DONE)


def _common_options() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--color",
        choices=COLORS,
        help="colours of the screen; reports have none (default: auto)",
    )
    _add_ascii(common)
    common.add_argument("--cache", action="store_true", default=None, help=argparse.SUPPRESS)
    common.add_argument(
        "--no-cache",
        action="store_false",
        dest="cache",
        help="do not use or fill the cache, and do not remember what was opened",
    )
    common.add_argument(
        "--max-memory",
        type=memory_size,
        metavar="SIZE",
        help="read no recording for which the program would need more, such as 8GB (default: what is free)",
    )
    common.add_argument(
        "--debug", action="store_true", default=argparse.SUPPRESS, help="show a traceback if something goes wrong"
    )
    return common


def _add_ascii(parser: argparse.ArgumentParser) -> None:
    # both ways, since a settings file may say the opposite; null if neither is given
    parser.add_argument("--ascii", action="store_true", default=None, help="ASCII characters only")
    parser.add_argument("--no-ascii", action="store_false", dest="ascii", help=argparse.SUPPRESS)


def _add_looks(parser: argparse.ArgumentParser) -> None:
    looks = parser.add_argument_group("looks", "to make them permanent: `tracetui config --init`")
    looks.add_argument("--theme", choices=THEMES, help="colours: %(choices)s (default: auto)", metavar="NAME")
    looks.add_argument("--names", choices=NAMES, help="how kernel names are shown: %(choices)s (default: short)")
    looks.add_argument(
        "--low-bandwidth",
        action=argparse.BooleanOptionalAction,
        help="use few colours and scroll tables by half pages (default: on over SSH)",
    )


def _add_plain(parser: argparse.ArgumentParser) -> None:
    _add_ascii(parser)
    parser.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def _scope_options() -> argparse.ArgumentParser:
    scope = argparse.ArgumentParser(add_help=False)
    group = scope.add_argument_group("what the numbers cover")
    group.add_argument("--steps", type=steps, metavar="FIRST-LAST", help="only these steps: 3 or 2-5")
    group.add_argument(
        "--steps-by",
        metavar="NAME",
        help="the ranges of this name are the steps (default: the profiler's own, else those that hold most GPU work)",
    )
    group.add_argument("--skip-steps", type=count, default=0, metavar="N", help="leave out the first N steps (warm-up)")
    group.add_argument(
        "--source", choices=KINDS, metavar="KIND", help=f"only this tool's recordings of a run: {', '.join(KINDS)}"
    )
    group.add_argument("--rank", type=count, metavar="N", help="only this rank of a distributed run")
    group.add_argument(
        "--device", type=count, action="append", dest="devices", metavar="N", help="only this GPU (repeatable)"
    )
    return scope


def _add_sample(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sample",
        nargs="?",
        const="vim_tiny",
        choices=tuple(SAMPLES),
        metavar="NAME",
        help=f"a recording that ships with tracetui: {', '.join(SAMPLES)}",
    )


def _add_run(parser: argparse.ArgumentParser, words: str) -> None:
    parser.add_argument("--run", metavar="NAME", help=words)


def _add_output(parser: argparse.ArgumentParser, formats: tuple[str, ...] = FORMATS) -> None:
    parser.add_argument("--format", choices=formats, default="text", help="default: %(default)s")
    parser.add_argument(
        "--limit", type=count, metavar="N", help="rows per list; 0 for all (text shows 10, html 50, json all)"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write to a file instead of standard output")
    parser.add_argument("--force", action="store_true", help="let --output replace a file, though never a recording")
    parser.add_argument(
        "--no-charts", action="store_false", dest="charts", help="leave the charts out of text, Markdown and HTML"
    )
