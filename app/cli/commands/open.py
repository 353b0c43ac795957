"""`tracetui open`: shows the screen, or without a terminal prints; and what is shown without a command."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tracetui.app import tabs
from tracetui.app.cli.command import option, switch
from tracetui.app.cli.commands.diff import print_diff
from tracetui.app.cli.commands.ranks import is_folder_of_summaries
from tracetui.app.cli.commands.report import print_report
from tracetui.app.cli.options import (
    SAMPLES,
    Common,
    Covered,
    Looks,
    Recordings,
    Request,
    check_there,
    sample_path,
    warn,
)
from tracetui.app.cli.values import input_path
from tracetui.app.settings.schema import Settings
from tracetui.app.terminal.choice import DRIVERS
from tracetui.app.text.exit_codes import DONE, UsageError


@dataclass(kw_only=True)
class Options(Looks, Recordings, Covered, Common):
    """Explore a trace, a folder of traces, or several runs: the first two side by side. Without a terminal: the
    report.
    """

    paths: list[Path] = option(
        nargs="*", type=input_path, metavar="PATH", help="a trace or a folder; several paths become runs a, b, c, ..."
    )
    run: str | None = option(
        "--run",
        metavar="NAME",
        help="the run to view first, by letter or name, if a folder holds several runs or several paths are given",
    )
    tab: str | None = option(
        "--tab",
        metavar="NAME",
        help="the tab to start on, by its name, the start of its name, or its key: overview, kern, 8",
        words=lambda: tabs.NAMES,
    )
    filter: str | None = option("--filter", metavar="TEXT", help="start with this filter")
    mouse: bool = switch(
        "--mouse",
        default=None,
        help="mouse on (default: off over SSH)",
        opposite=("--no-mouse", "mouse off", False),
        either="mouse",
    )
    driver: str = option(
        "--driver",
        choices=DRIVERS,
        help="what sends the screen: cells (only what differs), or stock (Textual's own) (default: auto)",
    )
    settings: Any = field(default=None)


def run(options: Options) -> int:
    """Shows the screen, or without a terminal the report."""
    paths = options.given_paths()
    check_there(paths)
    if len(paths) == 1 and is_folder_of_summaries(paths[0]):
        from tracetui.app.cli.commands.ranks import print_summaries, recordings_of

        if not has_terminal():
            warn(options.settings, unread=True)
            return print_summaries(paths[0], options)
        paths = (recordings_of(paths[0]) or paths[0],)
    if not has_terminal():
        warn(options.settings, unread=False)
        if options.tab is not None:
            from tracetui.app.keys.commands import find_tab

            find_tab(options.tab)
        for name in ("tab", "filter"):
            if getattr(options, name) is not None:
                print(f"tracetui: --{name} does nothing without a terminal: this is the report", file=sys.stderr)
        return _print(paths, options)
    names = ("scope", "rank", "source", "tab", "filter", "run", "settings")
    return _screen(paths, options, {name: getattr(options, name) for name in names})


def _screen(paths: Sequence[Path], looks: Options | Settings, options: Mapping[str, Any]) -> int:
    """Shows the screen; how it looks say the options of `open`, or without a command the settings."""
    from tracetui.app.screen.run import run_tui

    names = ("color", "ascii", "mouse", "driver", "low_bandwidth", "cache")
    return run_tui(paths, **{name: getattr(looks, name) for name in names}, **options)


def _print(paths: Sequence[Path], request: Request) -> int:
    """Prints the report of one run or the diff of two."""
    from tracetui.app.session.open_runs import chooser

    if len(paths) > 2:
        raise UsageError("without a terminal, open takes one path, or two to compare; `tracetui report` takes more")
    if len(paths) == 2 and request.run is not None:
        names = [path.name or str(path) for path in paths]
        paths = [paths[first := chooser(request.run, "the command")(names)], paths[1 - first]]
        request = replace(request, run=None)
    if len(paths) == 2:
        return print_diff(paths[0], paths[1], request)
    return print_report(paths, request)


def start(settings: Settings) -> int:
    """Runs without a command: shows what can be opened."""
    if has_terminal():
        return _screen((), settings, {"samples": [sample_path(next(iter(SAMPLES)))], "settings": settings})
    warn(settings, unread=True)
    from tracetui.app.screen.dialogs.start_list import entries, plain, recordings_in

    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "")
    print(plain(entries(Path.cwd(), recordings_in(Path.cwd())), ascii=settings.ascii or not encoding.startswith("utf")))
    return DONE


def has_terminal() -> bool:
    """Returns whether there is a terminal for the screen."""
    if "TEXTUAL_DRIVER" in os.environ:  # the screen goes to a browser
        return True
    # Keys come from standard input, and a redirected output wants the report; errors may go elsewhere.
    return os.environ.get("TERM") != "dumb" and all(
        stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)
    )
