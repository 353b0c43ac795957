"""The command that opens what a report is of, at the place that it is about."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from tracetui.analysis.scope import Scope
from tracetui.app.text.fitting import cell_width, printable

TABS = {
    "overview": "overview", "critical_path": "overview", "timeline": "timeline", "steps": "overview",
    "kernels": "kernels", "durations": "kernels", "memops": "kernels", "launches": "kernels",
    "communication": "kernels", "operators": "operators", "host_functions": "host", "host_lines": "host",
    "host_stacks": "host", "api": "host",
    "threads": "host", "cpu_functions": "host", "os_calls": "host", "modules": "modules", "ranges": "modules",
    "range_tree": "modules",
    "counters": "counters", "roofline": "counters", "configurations": "counters", "source_lines": "counters",
    "memory": "memory", "unified_memory": "memory", "findings": "findings", "tried": "findings",
    "collectives": "collectives", "ranks": "ranks", "waiting": "ranks", "stragglers": "ranks", "transfers": "ranks",
    "stages": "ranks",
}  # fmt: skip
"""The tab of a section."""


def open_command(
    what: Iterable[str],
    *,
    tab: str = "",
    filter: str = "",
    scope: Scope | None = None,
    rank: int | None = None,
    source: str | None = None,
    run: str | None = None,
) -> tuple[str, ...]:
    """The words of the command, each quoted for a shell.

    Args:
        what: the words that say what is opened: paths as they were `given`, or a sample.
        tab: where to begin; the first tab where it is empty.
        filter: on the tables there.
        scope: what the numbers are about; a marked stretch of time can't be said in a command.
        rank: the rank in view, where one was chosen.
        source: the tool whose recording is in view, where one was chosen.
        run: which run of a folder.
    """
    words = ["tracetui", "open", *what]
    words += ["--tab", tab] if tab else []
    words += ([f"--filter={filter}"] if filter.startswith("-") else ["--filter", filter]) if filter else []
    if scope is not None:
        if scope.steps is not None:
            first, last = scope.steps
            words += ["--steps", str(first) if first == last else f"{first}-{last}"]
        words += ["--skip-steps", str(scope.skip_steps)] if scope.skip_steps else []
        words += ["--steps-by", scope.steps_by] if scope.steps_by is not None else []
        for device in sorted(scope.devices or ()):
            words += ["--device", str(device)]
    words += ["--rank", str(rank)] if rank is not None else []
    words += ["--source", source] if source is not None else []
    words += ["--run", run] if run is not None else []
    return tuple(words)


def given(path: Path) -> tuple[str, ...]:
    """The words that say what is opened: a path, which is no option, or the name of what ships with tracetui."""
    from tracetui import samples

    if any(path.absolute().parent == Path(folder).absolute() for folder in samples.__path__) and path.is_dir():
        return "--sample", path.name
    return (f"./{path}" if str(path).startswith("-") else str(path),)


def spelled(words: Sequence[str]) -> str:
    """The command in one line."""
    return printable(shlex.join(words))


def lines(words: Sequence[str], width: int) -> list[str]:
    """The command in lines of a shell, each of which ends where an argument does; one argument is never cut.

    Args:
        words: of the command.
        width: columns of a line.
    """
    found = [""]
    for word in map(printable, map(shlex.quote, words)):
        longer = f"{found[-1]} {word}" if found[-1] else word
        if found[-1] and cell_width(longer) > width - 2:
            found[-1] += " \\"
            found.append(f"    {word}")
        else:
            found[-1] = longer
    return found
