"""What the command line gave a command: paths, what the numbers cover, how to print, settings."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.cli.options.shared import SAMPLES
from tracetui.app.text.exit_codes import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from tracetui.analysis.scope import Scope
    from tracetui.app.cli.request import Request
    from tracetui.app.settings.schema import Settings


def settled(arguments: argparse.Namespace) -> Settings:
    """Fills options that the command line leaves open from settings files and environment."""
    from tracetui.app.settings.schema import fill

    given = [*getattr(arguments, "paths", ()), *(getattr(arguments, name, None) for name in ("path", "a", "b"))]
    folders = [path for path in given if isinstance(path, Path)]
    return fill(arguments, [*folders, Path.cwd()])


def warn(settings: Settings, *, unread: bool) -> None:
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


def request_of(arguments: argparse.Namespace) -> Request:
    """Builds the request from those options for printing that the command has."""
    from tracetui.app.cli.request import Request

    section = getattr(arguments, "section", None)
    return Request(
        scope=scope_of(arguments),
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


def scope_of(arguments: argparse.Namespace) -> Scope:
    """Builds the scope from the options for it."""
    from tracetui.analysis.scope import Scope

    devices = frozenset(arguments.devices) if arguments.devices else None
    return Scope(steps=arguments.steps, skip_steps=arguments.skip_steps, devices=devices, steps_by=arguments.steps_by)


def paths_of(arguments: argparse.Namespace) -> tuple[Path, ...]:
    """Returns the paths to open: the sample first, then the given paths."""
    paths = list(arguments.paths)
    if not paths and getattr(arguments, "section", None):
        # `report --section kernels PATH`: argparse took the path as one more section.
        while len(arguments.section) > 1 and Path(arguments.section[-1]).exists():
            paths.insert(0, Path(arguments.section.pop()))
    if arguments.sample is not None:
        paths.insert(0, sample(arguments.sample))
    if not paths:
        raise UsageError(f"no path given; `tracetui {arguments.command} --sample` takes a recording that ships with it")
    return tuple(paths)


def check_there(paths: Sequence[Path]) -> None:
    """Raises an error for the first path where nothing is."""
    for path in paths:
        if not path.exists():
            from tracetui.parsers.errors import TraceError

            raise TraceError(path, "no such file or folder", "check the path")


def sample(name: str) -> Path:
    """Returns the path of a recording that ships with tracetui."""
    from tracetui import samples

    return Path(samples.__path__[0], SAMPLES[name])


def is_utf8() -> bool:
    """Returns whether standard output takes characters outside ASCII."""
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "").startswith("utf")


def has_terminal() -> bool:
    """Returns whether there is a terminal for the screen."""
    if "TEXTUAL_DRIVER" in os.environ:  # the screen goes to a browser
        return True
    # Keys come from standard input, and a redirected output wants the report; errors may go elsewhere.
    return os.environ.get("TERM") != "dumb" and all(
        stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)
    )
