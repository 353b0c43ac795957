"""The command line: runs a command, and prints one line if it fails.

Nothing heavy is imported before a command needs it: `--help` and `--version` answer without Polars and Textual.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from tracetui.app.cli.arguments import build_parser
from tracetui.app.cli.failing import explain
from tracetui.app.cli.given import settled, warn
from tracetui.app.cli.options.profile import split_command
from tracetui.app.cli.running import others, reports, screen
from tracetui.app.text.exit_codes import DONE, INTERRUPTED, USAGE, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

SELDOM = (20_000, 20, 20)
"""When the cycle collector runs: importing makes many objects and hardly a cycle, and it would take 4 % of a report."""
NEARLY_NEVER = (200_000, 20, 20)
"""The same for commands that print and end: a small report makes 110,000 objects, and one look at them takes 3 % of it.
A screen would show the pause."""
_SCREENS = ("open", "serve")
MAX_MEMORY = "TRACETUI_MAX_MEMORY"
"""`parsers.runs.opening.VARIABLE`, whose module would import NumPy."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    words, program = split_command(sys.argv[1:] if argv is None else argv)
    if words and words[0] not in COMMANDS and os.path.exists(words[0]):  # noqa: PTH110  pathlib would be imported
        print(f"tracetui: error: {words[0]!r} is a path: `tracetui open {words[0]!r}` opens it", file=sys.stderr)
        return USAGE
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
        arguments.settings = settled(arguments)
        if arguments.command not in (None, "open", "config"):  # these settle their options themselves
            warn(arguments.settings, unread=arguments.command not in ("report", "check", "diff", "rules"))
        code = COMMANDS[arguments.command](arguments) if arguments.command else screen.run_start(arguments.settings)
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
        return explain(error)
    return code


def script() -> NoReturn:
    """The console script: runs the command and ends the process at once.

    Freeing a large trace would take as long as opening it from the cache, and the process ends anyway.
    """
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), _SCREENS[0])
    gc.set_threshold(*(SELDOM if command in _SCREENS else NEARLY_NEVER))
    code = main()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


def _profile(arguments: argparse.Namespace) -> int:
    from tracetui.app.cli.commands import profile as profile_command
    from tracetui.app.cli.options.profile import axes_of, request_of
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


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "open": screen.run_open,
    "report": reports.run_report,
    "check": reports.run_check,
    "diff": reports.run_diff,
    "query": reports.run_query,
    "schema": reports.run_schema,
    "skill": reports.run_skill,
    "mcp": reports.run_mcp,
    "sweep": reports.run_sweep,
    "ranks": reports.run_ranks,
    "profile": _profile,
    "prove": others.run_prove,
    "models": others.run_models,
    "rules": others.run_rules,
    "scrub": others.run_scrub,
    "cut": others.run_cut,
    "doctor": others.run_doctor,
    "serve": screen.run_serve,
    "config": others.run_config,
    "completion": others.run_completion,
    "cache": others.run_cache,
}
