"""The command line: runs a command, and prints one line if it fails.

Nothing heavy is imported before a command needs it: `--help` and `--version` answer without Polars and Textual.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tracetui.app.cli.arguments import PICTURES, SAMPLES, build_parser
from tracetui.app.cli.profile_options import split_command
from tracetui.app.text.exit_codes import DONE, INTERRUPTED, UNREADABLE, USAGE, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from tracetui.analysis.scope import Scope
    from tracetui.app.cli.request import Request
    from tracetui.app.settings.schema import Settings

SUMMARIES = ".tracetui-rank"
"""`analysis.ranks.files.stored.SUFFIX`."""
SELDOM = (20_000, 20, 20)
"""When the cycle collector runs: importing makes many objects and hardly a cycle, and it would take 4 % of a report."""


MAX_MEMORY = "TRACETUI_MAX_MEMORY"
"""`parsers.runs.memory_limit.VARIABLE`, whose module would import NumPy."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    words, program = split_command(sys.argv[1:] if argv is None else argv)
    try:
        parser = build_parser()
        arguments, left = parser.parse_known_args(words)
        if left and not (arguments.command == "query" and all(not word.startswith("-") for word in left)):
            parser.error(f"unrecognized arguments: {' '.join(left)}")
    except SystemExit as stop:  # argparse has printed the help or what is wrong
        return stop.code if isinstance(stop.code, int) else USAGE
    arguments.words, arguments.program = words, program
    if left:  # `query PATH --rank 1 'select …'`: argparse fills a list of words only once
        arguments.asked += left
    debug: bool = arguments.debug
    if (most := getattr(arguments, "max_memory", None)) is not None:
        os.environ[MAX_MEMORY] = str(most)
    try:
        arguments.settings = _settled(arguments)
        if arguments.command not in (None, "open", "config"):  # these settle their options themselves
            _warn(arguments.settings, unread=arguments.command not in ("report", "check", "diff", "rules"))
        code = COMMANDS[arguments.command](arguments) if arguments.command else _start(arguments.settings)
        if sys.stdout is not None:  # None if the parent process has closed it
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


def _settled(arguments: argparse.Namespace) -> Settings:
    """Fills options that the command line leaves open from settings files and environment."""
    from tracetui.app.settings.schema import fill

    given = [*getattr(arguments, "paths", ()), *(getattr(arguments, name, None) for name in ("path", "a", "b"))]
    folders = [path for path in given if isinstance(path, Path)]
    return fill(arguments, [*folders, Path.cwd()])


def _warn(settings: Settings, *, unread: bool) -> None:
    """Prints on standard error which settings could not be used.

    Args:
        settings: the settings in force.
        unread: whether to name unreadable files too; false if the command does so when it reads thresholds.
    """
    from tracetui.app.text.fitting import printable

    for problem in settings.problems:
        if problem in settings.unread and not unread:
            continue
        print(f"tracetui: warning: {printable(problem)}", file=sys.stderr)


def script() -> NoReturn:
    """The console script: runs the command and ends the process at once.

    Freeing a large trace would take as long as opening it from the cache, and the process ends anyway.
    """
    gc.set_threshold(*SELDOM)
    code = main()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


def _start(settings: Settings) -> int:
    """Runs without a command: shows what can be opened."""
    samples = [_sample(next(iter(SAMPLES)))]
    if _has_terminal():
        from tracetui.app.screen.run import run_tui

        return run_tui(
            (),
            samples=samples,
            color=settings.color,
            ascii=settings.ascii,
            mouse=settings.mouse,
            driver=settings.driver,
            low_bandwidth=settings.low_bandwidth,
            cache=settings.cache,
            settings=settings,
        )
    _warn(settings, unread=True)
    from tracetui.app.screen.dialogs.start_list import entries, plain, recordings_in

    print(plain(entries(Path.cwd(), recordings_in(Path.cwd())), ascii=not _is_utf8()))
    return DONE


def _open(arguments: argparse.Namespace) -> int:
    paths = _paths(arguments)
    _check_there(paths)
    if len(paths) == 1 and _is_folder_of_summaries(paths[0]):
        from tracetui.app.cli.commands.ranks import print_summaries, recordings_of

        if not _has_terminal():
            _warn(arguments.settings, unread=True)
            return print_summaries(paths[0], _request(arguments))
        paths = (recordings_of(paths[0]) or paths[0],)
    if not _has_terminal():
        from tracetui.app.cli.headless import print_open

        _warn(arguments.settings, unread=False)
        return print_open(paths, _request(arguments))
    from tracetui.app.screen.run import run_tui

    return run_tui(
        paths,
        scope=_scope(arguments),
        rank=arguments.rank,
        source=arguments.source,
        tab=arguments.tab,
        filter=arguments.filter,
        run=arguments.run,
        color=arguments.color,
        ascii=arguments.ascii,
        mouse=arguments.mouse,
        driver=arguments.driver,
        low_bandwidth=arguments.low_bandwidth,
        cache=arguments.cache,
        settings=arguments.settings,
    )


def _is_folder_of_summaries(path: Path) -> bool:
    """Whether a folder has summaries of ranks and no recordings; what tells is imported only where names say so."""
    if not path.is_dir() or not any(name.endswith(SUMMARIES) for name in os.listdir(path)):  # noqa: PTH208
        return False
    from tracetui.app.cli.commands.ranks import is_summaries

    return is_summaries(path)


def _check_there(paths: Sequence[Path]) -> None:
    for path in paths:
        if not path.exists():
            from tracetui.parsers.errors import TraceError

            raise TraceError(path, "no such file or folder", "check the path")


def _report(arguments: argparse.Namespace) -> int:
    if arguments.nsys_report:
        from tracetui.app.cli.headless import print_nsys_reports

        return print_nsys_reports(_paths(arguments), arguments.nsys_report, _request(arguments))
    if arguments.like:
        from tracetui.app.cli.commands.sweep import print_like

        return print_like(_paths(arguments), arguments.like, _request(arguments))
    paths = _paths(arguments)
    if arguments.format in PICTURES:
        from tracetui.app.cli.commands.picture import print_picture

        return print_picture(paths, _request(arguments))
    if len(paths) == 1 and _is_folder_of_summaries(paths[0]):
        from tracetui.app.cli.commands.ranks import print_summaries

        return print_summaries(paths[0], _request(arguments))
    from tracetui.app.cli.headless import print_report

    return print_report(paths, _request(arguments))


def _check(arguments: argparse.Namespace) -> int:
    from tracetui.app.cli.commands.check import print_check

    return print_check(_paths(arguments), _request(arguments))


def _diff(arguments: argparse.Namespace) -> int:
    from tracetui.app.cli.headless import print_diff

    return print_diff(arguments.a, arguments.b, _request(arguments), fail_above_percent=arguments.fail_on)


def _query(arguments: argparse.Namespace) -> int:
    from tracetui.app.cli.asking.query import query_command

    return query_command(arguments, _scope(arguments), _paths)


def _schema(arguments: argparse.Namespace) -> int:
    from tracetui.app.cli.asking.schema import print_schema

    return print_schema(arguments.output, arguments.key)


def _skill(arguments: argparse.Namespace) -> int:
    from tracetui.app.cli.asking.skill import skill

    sys.stdout.write(skill())
    return DONE


def _mcp(arguments: argparse.Namespace) -> int:
    from tracetui.app.cli.asking.mcp import serve_mcp

    _check_there(arguments.paths)
    return serve_mcp(arguments.paths, allow_run=arguments.allow_run, cache=arguments.cache)


def _sweep(arguments: argparse.Namespace) -> int:
    from tracetui.analysis.scope import Scope
    from tracetui.app.cli.commands.sweep import print_sweep
    from tracetui.app.cli.request import Request

    request = Request(
        Scope(),
        format=arguments.format,
        sections=None if arguments.section is None else tuple(arguments.section),
        limit=arguments.limit,
        output=arguments.output,
        force=arguments.force,
        ascii=arguments.ascii,
        charts=arguments.charts,
        cache=arguments.cache,
        debug=arguments.debug,
    )
    return print_sweep(arguments.path, request)


def _ranks(arguments: argparse.Namespace) -> int:
    from tracetui.analysis.scope import Scope
    from tracetui.app.cli.commands.ranks import Work, print_ranks
    from tracetui.app.cli.request import Request

    request = Request(
        Scope(steps=arguments.steps, skip_steps=arguments.skip_steps),
        run=arguments.run,
        format=arguments.format,
        limit=arguments.limit,
        output=arguments.output,
        force=arguments.force,
        ascii=arguments.ascii,
        charts=arguments.charts,
        cache=arguments.cache,
        debug=arguments.debug,
    )
    _check_there([arguments.path])
    return print_ranks(arguments.path, request, Work(arguments.jobs, arguments.part, arguments.into, arguments.dask))


def _profile(arguments: argparse.Namespace) -> int:
    from tracetui.app.cli.commands import profile as profile_command
    from tracetui.app.cli.profile_options import axes_of, request_of
    from tracetui.collectors.request import ProfileError

    request = request_of(arguments, arguments.program, ["tracetui", *sys.argv[1:]])
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


def _prove(arguments: argparse.Namespace) -> int:
    from tracetui.app.cli.commands.prove import prove_command
    from tracetui.collectors.request import ProfileError

    _check_there([arguments.path])
    try:
        return prove_command(arguments, arguments.program)
    except ProfileError as problem:
        raise UsageError(str(problem)) from problem


def _models(arguments: argparse.Namespace) -> int:
    from tracetui.app.cli.models_list import print_models

    return print_models(arguments.name, format=arguments.format, python=arguments.python, ascii=arguments.ascii)


def _rules(arguments: argparse.Namespace) -> int:
    from tracetui.analysis.findings.config import load
    from tracetui.app.cli.rules_list import print_rules
    from tracetui.app.text.fitting import printable

    config = load(Path.cwd())
    for problem in config.problems:
        print(f"tracetui: warning: {printable(problem)}", file=sys.stderr)
    return print_rules(arguments.id, config, format=arguments.format, ascii=arguments.ascii)


def _scrub(arguments: argparse.Namespace) -> int:
    from tracetui.app.cli.scrub import scrub_command

    return scrub_command(
        arguments.paths,
        arguments.output,
        force=arguments.force,
        names=arguments.names,
        strict=arguments.strict,
        ascii=arguments.ascii,
    )


def _cut(arguments: argparse.Namespace) -> int:
    from tracetui.app.cli.commands.cut import cut_command

    return cut_command(
        arguments.path,
        arguments.begin,
        arguments.end,
        steps=arguments.steps,
        output=arguments.output,
        force=arguments.force,
        cache=arguments.cache,
        ascii=arguments.ascii,
    )


def _doctor(arguments: argparse.Namespace) -> int:
    from tracetui.app.cli.doctor import doctor_command, measure_command

    if arguments.measure_peaks:
        return measure_command(arguments.python, format=arguments.format, ascii=arguments.ascii)
    return doctor_command(arguments.python, arguments.output, format=arguments.format, ascii=arguments.ascii)


def _serve(arguments: argparse.Namespace) -> int:
    from tracetui.app.cli.serve import serve

    _check_there(_paths(arguments))
    return serve(
        arguments.words,
        host=arguments.host,
        port=arguments.port,
        with_token=not arguments.no_token,
        allow_write=arguments.allow_write,
    )


def _config(arguments: argparse.Namespace) -> int:
    from tracetui.app.cli.commands.config import config_command

    return config_command(arguments)


def _completion(arguments: argparse.Namespace) -> int:
    from tracetui.app.cli.completion import script as completion_script

    sys.stdout.write(completion_script(arguments.shell))
    return DONE


def _cache(arguments: argparse.Namespace) -> int:
    from tracetui.app.cli.headless import cache_command

    return cache_command(clear=arguments.action == "clear")


def _request(arguments: argparse.Namespace) -> Request:
    """Builds the request from those options for printing that the command has."""
    from tracetui.app.cli.request import Request

    section = getattr(arguments, "section", None)
    return Request(
        scope=_scope(arguments),
        rank=arguments.rank,
        source=arguments.source,
        run=getattr(arguments, "run", None),
        format=getattr(arguments, "format", "text"),
        sections=None if section is None else tuple([section] if isinstance(section, str) else section),
        by=getattr(arguments, "by", "name"),
        range_kernels=getattr(arguments, "range_kernels", None),
        limit=getattr(arguments, "limit", None),
        output=getattr(arguments, "output", None),
        force=getattr(arguments, "force", False),
        ascii=arguments.ascii,
        charts=getattr(arguments, "charts", True),
        max_tokens=getattr(arguments, "max_tokens", None),
        cache=arguments.cache,
        debug=arguments.debug,
    )


def _scope(arguments: argparse.Namespace) -> Scope:
    from tracetui.analysis.scope import Scope

    devices = frozenset(arguments.devices) if arguments.devices else None
    return Scope(steps=arguments.steps, skip_steps=arguments.skip_steps, devices=devices, steps_by=arguments.steps_by)


def _paths(arguments: argparse.Namespace) -> tuple[Path, ...]:
    """Returns the paths to open: the sample first, then the given paths."""
    paths = list(arguments.paths)
    if not paths and getattr(arguments, "section", None):
        # `report --section kernels PATH`: argparse took the path as one more section.
        while len(arguments.section) > 1 and Path(arguments.section[-1]).exists():
            paths.insert(0, Path(arguments.section.pop()))
    if arguments.sample is not None:
        paths.insert(0, _sample(arguments.sample))
    if not paths:
        raise UsageError(f"no path given; `tracetui {arguments.command} --sample` takes a recording that ships with it")
    return tuple(paths)


def _sample(name: str) -> Path:
    from tracetui import samples

    return Path(samples.__path__[0], SAMPLES[name])


def _is_utf8() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "").startswith("utf")


def _has_terminal() -> bool:
    if "TEXTUAL_DRIVER" in os.environ:  # the screen goes to a browser
        return True
    # Keys come from standard input, and a redirected output wants the report; errors may go elsewhere.
    return os.environ.get("TERM") != "dumb" and all(
        stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)
    )


def _explain(error: Exception) -> int:
    """One line on standard error for what went wrong, and the exit code that goes with it."""
    from tracetui.app.text.fitting import printable

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
    if isinstance(error, FileNotFoundError) and not error.filename:
        return "the working directory is gone; change to one that is there"
    if isinstance(error, OSError):
        return f"{error.filename or 'standard output'}: {error.strerror or error}"
    if isinstance(error, MemoryError):
        return "out of memory; a recording with fewer steps needs less"
    return f"{type(error).__name__}: {error}; this is a bug in tracetui, --debug shows where"


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "open": _open,
    "report": _report,
    "check": _check,
    "diff": _diff,
    "query": _query,
    "schema": _schema,
    "skill": _skill,
    "mcp": _mcp,
    "sweep": _sweep,
    "ranks": _ranks,
    "profile": _profile,
    "prove": _prove,
    "models": _models,
    "rules": _rules,
    "scrub": _scrub,
    "cut": _cut,
    "doctor": _doctor,
    "serve": _serve,
    "config": _config,
    "completion": _completion,
    "cache": _cache,
}
