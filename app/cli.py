"""The command line: `tracetui open`, `report`, `diff` and `cache`.

Nothing heavy is imported before a command needs it: `--help` and `--version` answer without Polars and Textual.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tracetui.app.exit_codes import DONE, INTERRUPTED, UNREADABLE, USAGE, UsageError
from tracetui.app.terminal.choice import DRIVERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.scope import Scope
    from tracetui.app.request import Request

MOST = 2**31 - 1
"""More steps, rows, ranks or GPUs than there are; larger numbers mean the same and need not fit anywhere."""
FORMATS = ("text", "json", "markdown", "csv")
KINDS = ("chrome", "jax", "nsys", "ncu", "memory_snapshot")
COLORS = ("auto", "never", "16", "256", "truecolor")
SAMPLES = {
    "vim_tiny_fp32": "vim_tiny_fp32_bs4.pt.trace.json.gz",
    "vim_tiny_fp16": "vim_tiny_fp16_bs4.pt.trace.json.gz",
    "gpt_small": "gpt_small_ctx256.trace.json.gz",
}
EXIT_CODES = """\
exit codes:
  0  done
  1  the input can't be read (one line on standard error says which file and why)
  2  wrong usage
  3  a --fail-on condition holds
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    from tracetui.app.profile_options import split_command

    words, program = split_command(sys.argv[1:] if argv is None else argv)
    try:
        arguments = build_parser().parse_args(words)
    except SystemExit as stop:  # argparse has printed the help or what is wrong
        return stop.code if isinstance(stop.code, int) else USAGE
    arguments.program = program
    debug: bool = arguments.debug
    try:
        code = _run(arguments)
        if sys.stdout is not None:  # None where whoever started the program has closed it
            sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has seen enough; Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except Exception as error:
        if debug:
            raise
        return _explain(error)
    return code


def script() -> NoReturn:
    """The console script: runs the command and leaves at once.

    Taking a large trace apart would take as long as opening it from the cache; the process ends anyway.
    """
    code = main()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


def build_parser() -> argparse.ArgumentParser:
    """All commands and options."""
    parser = argparse.ArgumentParser(
        prog="tracetui",
        description="Explore GPU performance traces in the terminal: what is slow, and why.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    parser.add_argument("--debug", action="store_true", help="show a traceback where something goes wrong")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    common = _common_options()
    scope = _scope_options()

    one = commands.add_parser(
        "open",
        parents=[common, scope],
        help="explore a trace (the report, where there is no terminal)",
        description="Explore a trace, a folder of traces, or two runs side by side. Without a terminal: the report.",
    )
    one.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="a trace or a folder; a second one is B")
    _add_sample(one)
    one.add_argument(
        "--tab", metavar="NAME", help="the tab to start on, by its name, how it begins, or its key: overview, kern, 8"
    )
    one.add_argument("--filter", metavar="TEXT", help="start with this filter")
    mouse = one.add_mutually_exclusive_group()
    mouse.add_argument("--mouse", action="store_true", default=None, help="mouse on (default: off over SSH)")
    mouse.add_argument("--no-mouse", action="store_false", dest="mouse", help="mouse off")
    one.add_argument(
        "--driver",
        choices=DRIVERS,
        default="auto",
        help="what sends the screen: cells (only what differs), or stock (Textual's own) (default: %(default)s)",
    )
    one.set_defaults(run=_open)

    report = commands.add_parser(
        "report",
        parents=[common, scope],
        help="print what the tabs show",
        description="Print what the tabs show: text for people, JSON for scripts, Markdown for issues, CSV for tables.",
    )
    report.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="a trace, its ranks, or a folder")
    _add_sample(report)
    report.add_argument(
        "--section", nargs="+", action="extend", metavar="NAME", help="only these sections (csv: one, default kernels)"
    )
    report.add_argument(
        "--nsys-report",
        action="append",
        metavar="NAME",
        help="a table as `nsys stats` prints it, of any trace: cuda_gpu_kern_sum, nvtx_gpu_proj_sum, ... (repeatable)",
    )
    _add_output(report)
    report.set_defaults(run=_report)

    diff = commands.add_parser(
        "diff",
        parents=[common, scope],
        help="compare two runs, per step",
        description="Compare two runs per step: A is the base, a positive difference means that B takes longer.",
    )
    diff.add_argument("a", type=Path, metavar="A", help="the base: a trace or a folder")
    diff.add_argument("b", type=Path, metavar="B", help="what is compared with it")
    diff.add_argument(
        "--fail-on",
        action="append",
        type=_condition,
        default=[],
        metavar="CONDITION",
        help="regression:5%% exits 3 when B's step takes more than 5 %% longer than A's",
    )
    diff.add_argument("--section", choices=("kernels", "operators", "modules", "findings"), help="the table csv prints")
    _add_output(diff)
    diff.set_defaults(run=_diff)

    sweep = commands.add_parser(
        "sweep",
        parents=[common],
        help="compare many runs that differ in an option",
        description="Step time, throughput, kernels and GPU time against batch, context, keep rate, type: of a folder "
        "that `tracetui profile --sweep` wrote, of any folder of captures, or of a table (CSV).",
    )
    sweep.add_argument("path", type=Path, metavar="PATH", help="a folder of runs, or a CSV file")
    _add_output(sweep)
    sweep.set_defaults(run=_sweep)

    from tracetui.app.profile_options import add_profile

    add_profile(commands, common).set_defaults(run=_profile)

    models = commands.add_parser(
        "models",
        help="list the models that can be profiled by name",
        description="The models that can be profiled by name: parameters, FLOPs, and what they need.",
    )
    models.add_argument("name", nargs="?", metavar="NAME", help="one model: its options and what it needs")
    models.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")
    models.add_argument("--python", metavar="PATH", help="ask this Python what is installed (default: tracetui's own)")
    models.add_argument("--ascii", action="store_true", help="ASCII characters only")
    models.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    models.set_defaults(run=_models)

    rules = commands.add_parser(
        "rules",
        help="list what the findings look for, with their thresholds",
        description="Every rule behind the findings: thresholds (your own marked), what it needs, what it rests on.",
    )
    rules.add_argument("id", nargs="?", metavar="ID", help="one rule, explained")
    rules.add_argument("--format", choices=("text", "json", "markdown"), default="text", help="default: %(default)s")
    _add_plain(rules)
    rules.set_defaults(run=_rules)

    share = commands.add_parser(
        "scrub",
        help="copy a recording without host names, paths, commands and environments",
        description="Make a copy that can be shared: Chrome JSON, nsys SQLite, ncu CSV, memory snapshot, run.json or a "
        "folder of them. Names of kernels, operators and ranges, times and sizes stay; what was removed is counted.",
    )
    share.add_argument("paths", nargs="+", type=Path, metavar="FILE", help="a recording, or a folder of them")
    share.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="the copy, or a folder for several (default: X.scrubbed.json)"
    )
    share.add_argument("--force", action="store_true", help="replace copies that are there")
    _add_plain(share)
    share.set_defaults(run=_scrub)

    doctor = commands.add_parser(
        "doctor",
        help="check terminal, torch, profilers, permissions and the machine's state",
        description="Check what `tracetui` and `tracetui profile` need, and say what mends what is missing. Exit "
        "code 1 where something must be mended.",
    )
    doctor.add_argument("--python", metavar="PATH", help="the Python that runs the workload (default: this one)")
    doctor.add_argument("--output", type=Path, metavar="DIR", help="where runs are to be written (default: here)")
    doctor.add_argument(
        "--measure-peaks",
        action="store_true",
        help="measure what the GPU reaches (products, memory) for rooflines: takes some seconds, needs torch",
    )
    doctor.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")
    _add_plain(doctor)
    doctor.set_defaults(run=_doctor)

    cache = commands.add_parser("cache", help="show or empty the cache of parsed traces")
    cache.add_argument("action", nargs="?", choices=("info", "clear"), default="info")
    cache.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    cache.set_defaults(run=_cache)
    return parser


class _Version(argparse.Action):
    """Looks the version up only when asked: reading package metadata takes longer than everything else here."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        print(f"tracetui {version('tracetui')}")
        parser.exit(DONE)


def _common_options() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--color",
        choices=COLORS,
        default="auto",
        help="colours of the screen; reports have none (default: %(default)s)",
    )
    common.add_argument("--ascii", action="store_true", help="ASCII characters only")
    common.add_argument("--no-cache", action="store_false", dest="cache", help="neither use nor fill the cache")
    common.add_argument(
        "--debug", action="store_true", default=argparse.SUPPRESS, help="show a traceback where something goes wrong"
    )
    return common


def _add_plain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ascii", action="store_true", help="ASCII characters only")
    parser.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def _scope_options() -> argparse.ArgumentParser:
    scope = argparse.ArgumentParser(add_help=False)
    group = scope.add_argument_group("what the numbers are about")
    group.add_argument("--steps", type=_steps, metavar="FIRST-LAST", help="only these steps: 3 or 2-5")
    group.add_argument("--skip-steps", type=_count, default=0, metavar="N", help="leave out the first N (warm-up)")
    group.add_argument(
        "--source", choices=KINDS, metavar="KIND", help=f"only this tool's recordings of a run: {', '.join(KINDS)}"
    )
    group.add_argument("--rank", type=_count, metavar="N", help="only this rank of a distributed run")
    group.add_argument(
        "--device", type=_count, action="append", dest="devices", metavar="N", help="only this GPU (repeatable)"
    )
    return scope


def _add_sample(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sample",
        nargs="?",
        const="vim_tiny_fp32",
        choices=tuple(SAMPLES),
        metavar="NAME",
        help=f"a recording that ships with tracetui: {', '.join(SAMPLES)}",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=FORMATS, default="text", help="default: %(default)s")
    parser.add_argument("--limit", type=_count, metavar="N", help="rows per list; 0 for all (text shows 10, json all)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write to a file instead of standard output")


def _steps(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    try:
        span = int(first), int(last) if dash else int(first)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a step (3) nor a range of steps (2-5)") from None
    if span[0] > span[1]:
        raise argparse.ArgumentTypeError(f"{text!r} ends before it begins")
    return span


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return min(int(text), MOST)


def _condition(text: str) -> float:
    kind, _, size = text.partition(":")
    number = size.strip().removesuffix("%")
    try:
        limit = float(number)
    except ValueError:
        limit = -1.0
    if kind != "regression" or not 0 <= limit < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no condition; the one there is: regression:5%")
    return limit


def _run(arguments: argparse.Namespace) -> int:
    code: int = arguments.run(arguments)
    return code


def _open(arguments: argparse.Namespace) -> int:
    paths = _paths(arguments)
    if len(paths) > 2:
        raise UsageError("open takes one path, or two to compare; `tracetui report` takes more")
    for path in paths:
        if not path.exists():
            from tracetui.parsers.errors import TraceError

            raise TraceError(path, "no such file or folder", "check the path")
    if not _has_terminal():
        from tracetui.app.headless import print_open

        return print_open(paths, _request(arguments))
    from tracetui.app.tui import run_tui

    return run_tui(
        paths,
        scope=_scope(arguments),
        rank=arguments.rank,
        source=arguments.source,
        tab=arguments.tab,
        filter=arguments.filter,
        color=arguments.color,
        ascii=arguments.ascii,
        mouse=arguments.mouse,
        driver=arguments.driver,
        cache=arguments.cache,
    )


def _report(arguments: argparse.Namespace) -> int:
    if arguments.nsys_report:
        from tracetui.app.headless import print_nsys_reports

        return print_nsys_reports(_paths(arguments), arguments.nsys_report, _request(arguments))
    from tracetui.app.headless import print_report

    return print_report(_paths(arguments), _request(arguments))


def _diff(arguments: argparse.Namespace) -> int:
    from tracetui.app.headless import print_diff

    return print_diff(arguments.a, arguments.b, _request(arguments), fail_above_percent=arguments.fail_on)


def _sweep(arguments: argparse.Namespace) -> int:
    from tracetui.analysis.scope import Scope
    from tracetui.app.request import Request
    from tracetui.app.sweep_report import print_sweep

    request = Request(
        Scope(),
        format=arguments.format,
        limit=arguments.limit,
        output=arguments.output,
        ascii=arguments.ascii,
        cache=arguments.cache,
        debug=arguments.debug,
    )
    return print_sweep(arguments.path, request)


def _profile(arguments: argparse.Namespace) -> int:
    from tracetui.app import profile_command
    from tracetui.app.profile_options import axes_of, request_of
    from tracetui.collectors.request import ProfileError

    request = request_of(arguments, arguments.program, sys.argv)
    axes = axes_of(arguments)
    try:
        if arguments.dry_run:
            profile_command.dry_run(request, axes, arguments.repeats)
            return DONE
        code, folder = profile_command.profile(request, axes, arguments.repeats)
    except ProfileError as problem:
        raise UsageError(str(problem)) from problem
    if code or not arguments.open:
        return code
    opened = [str(folder), *(["--ascii"] if arguments.ascii else []), *([] if arguments.cache else ["--no-cache"])]
    return main(["open", "--color", arguments.color, *opened])


def _models(arguments: argparse.Namespace) -> int:
    from tracetui.app.models_list import print_models

    return print_models(arguments.name, format=arguments.format, python=arguments.python, ascii=arguments.ascii)


def _rules(arguments: argparse.Namespace) -> int:
    from tracetui.analysis.findings.config import load
    from tracetui.app.formats import printable
    from tracetui.app.rules_list import print_rules

    config = load(Path.cwd())
    for problem in config.problems:
        print(f"tracetui: warning: {printable(problem)}", file=sys.stderr)
    return print_rules(arguments.id, config, format=arguments.format, ascii=arguments.ascii)


def _scrub(arguments: argparse.Namespace) -> int:
    from tracetui.app.scrub import scrub_command

    return scrub_command(arguments.paths, arguments.output, force=arguments.force, ascii=arguments.ascii)


def _doctor(arguments: argparse.Namespace) -> int:
    from tracetui.app.doctor import doctor_command, measure_command

    if arguments.measure_peaks:
        return measure_command(arguments.python, format=arguments.format, ascii=arguments.ascii)
    return doctor_command(arguments.python, arguments.output, format=arguments.format, ascii=arguments.ascii)


def _cache(arguments: argparse.Namespace) -> int:
    from tracetui.app.headless import cache_command

    return cache_command(clear=arguments.action == "clear")


def _request(arguments: argparse.Namespace) -> Request:
    """The options that say what is printed and how, out of whichever of them the command has."""
    from tracetui.app.request import Request

    section = getattr(arguments, "section", None)
    return Request(
        scope=_scope(arguments),
        rank=arguments.rank,
        source=arguments.source,
        format=getattr(arguments, "format", "text"),
        sections=None if section is None else tuple([section] if isinstance(section, str) else section),
        limit=getattr(arguments, "limit", None),
        output=getattr(arguments, "output", None),
        ascii=arguments.ascii,
        cache=arguments.cache,
        debug=arguments.debug,
    )


def _scope(arguments: argparse.Namespace) -> Scope:
    from tracetui.analysis.scope import Scope

    devices = frozenset(arguments.devices) if arguments.devices else None
    return Scope(steps=arguments.steps, skip_steps=arguments.skip_steps, devices=devices)


def _paths(arguments: argparse.Namespace) -> tuple[Path, ...]:
    """What to open: the sample first, then the paths given."""
    paths = list(arguments.paths)
    if not paths and getattr(arguments, "section", None):
        # `report --section kernels PATH`: argparse took the path for one more section.
        while len(arguments.section) > 1 and Path(arguments.section[-1]).exists():
            paths.insert(0, Path(arguments.section.pop()))
    if arguments.sample is not None:
        from importlib.resources import files

        paths.insert(0, Path(str(files("tracetui.samples") / SAMPLES[arguments.sample])))
    if not paths:
        raise UsageError(f"no path given; `tracetui {arguments.command} --sample` takes a recording that ships with it")
    return tuple(paths)


def _has_terminal() -> bool:
    # The screen is drawn on standard error, keys come from standard input, and a redirected output wants the report.
    return os.environ.get("TERM") != "dumb" and all(
        stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)
    )


def _explain(error: Exception) -> int:
    """One line on standard error for what went wrong, and the exit code that goes with it."""
    from tracetui.app.formats import printable

    if isinstance(error, UsageError):
        code, line = USAGE, str(error)
    else:
        code, line = UNREADABLE, _unreadable(error)
    print(f"tracetui: {printable(line)}", file=sys.stderr)
    return code


def _unreadable(error: Exception) -> str:
    from tracetui.parsers.errors import TraceError

    if isinstance(error, TraceError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename or 'standard output'}: {error.strerror or error}"
    if isinstance(error, MemoryError):
        return "out of memory; a recording of fewer steps needs less"
    return f"{type(error).__name__}: {error}; this is a bug in tracetui, --debug shows where"
