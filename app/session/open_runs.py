"""The open runs: their letters, the paths that opened them, their names in a list, and the steps the user wants."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from tracetui.app.text.exit_codes import UsageError
from tracetui.app.text.fitting import letter_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tracetui.analysis.findings.config import Config
    from tracetui.parsers import Run, Trace

_numbers = count(1)
LEAST_PART = 3
"""The shortest part of a name that can select a run; anything shorter is a letter."""
LISTED = 20
"""How many runs a message lists."""


class OpenRun(Struct, eq=False):
    """One entry of the list of runs; it may not have been read yet."""

    letter: str
    paths: tuple[Path, ...]
    """The paths to read."""
    origin: Path
    """What the user opened: this path, or the folder that holds it."""
    label: str = ""
    """Its name in the folder's list."""
    run: Run | None = None
    config: Config | None = None
    """The rule thresholds for it."""
    number: int = field(default_factory=lambda: next(_numbers))
    """A number that is unique to this reading: analyses are cached by it."""
    window: tuple[int, int] | None = None
    """The range marked while it was in view, ns on its own clock."""
    window_words: str = ""
    looked: int = 0
    """When it was last in view or compared, as an increasing number."""
    remark: str = ""
    """Why it is in the list if the user did not open it: ``compared last time``."""

    def hold(self, run: Run, config: Config | None = None) -> None:
        """Stores what was read."""
        self.run, self.config, self.number = run, config, next(_numbers)
        self.window, self.window_words, self.remark = None, "", ""

    def drop(self) -> None:
        """Releases what was read; the entry stays and can be read again."""
        self.label = self.label or self.name
        self.run, self.number = None, next(_numbers)

    @property
    def name(self) -> str:
        """Returns its name for the user."""
        if self.run is not None:
            return self.run.name
        return self.label or (self.paths[0].name or str(self.paths[0]) if self.paths else "")

    def is_of(self, paths: tuple[Path, ...]) -> bool:
        """Returns whether opening these paths would open this run."""
        asked, own = ({os.path.abspath(path) for path in of} for of in (paths, self.paths))  # noqa: PTH100
        if asked == own:
            return True
        if len(asked) != 1:
            return False
        path = Path(*asked)
        if self.run is not None and path == self.run.path.absolute():
            return True
        # a run that was found in a folder of runs may have a folder of its own
        return path != self.origin.absolute() and all(file.absolute().parent == path for file in self.paths)


def find_run(runs: Iterable[tuple[str, str]], wanted: str) -> int | None:
    """Finds the run that the user means: by letter, by name, or by the only name that starts with or contains the text.

    Args:
        runs: (letter, name) of each.
        wanted: the requested letter or name.

    Returns:
        Its position; None if no run matches, or more than one does.
    """
    listed = [(letter, name.casefold().rstrip("/")) for letter, name in runs]
    asked = wanted.casefold().rstrip("/")
    if not asked:
        return None
    for found in (
        [at for at, (letter, _) in enumerate(listed) if letter == asked],
        [at for at, (_, name) in enumerate(listed) if name == asked],
        [at for at, (_, name) in enumerate(listed) if name.rpartition("/")[2].partition(".")[0] == asked],
        [at for at, (_, name) in enumerate(listed) if name.startswith(asked)],
        [at for at, (_, name) in enumerate(listed) if asked in name and len(asked) >= LEAST_PART],
    ):
        if len(found) == 1:
            return found[0]
    return None


def chooser(wanted: str, place: str) -> Callable[[Sequence[str]], int]:
    """Returns a function that picks a run of a folder, for the reader.

    Args:
        wanted: its letter or name.
        place: the folder, for the error (`UsageError`) that lists the runs if none matches.
    """

    def choose(names: Sequence[str]) -> int:
        runs = numbered(names)
        found = find_run(runs, wanted)
        if found is None:
            raise UsageError(no_such_run(wanted, runs, place))
        return found

    return choose


def numbered(names: Iterable[str]) -> list[tuple[str, str]]:
    """Returns (letter, name) of runs in order."""
    return [(letter_of(at), name) for at, name in enumerate(names)]


def no_such_run(wanted: str, runs: Iterable[tuple[str, str]], place: str) -> str:
    """Returns the error line that lists the available runs."""
    folded = wanted.casefold()
    listed = list(runs)
    alike = [run for run in listed if folded in run[1].casefold()] if len(wanted) >= LEAST_PART else []
    listed = alike if len(alike) > 1 else listed
    shown = ", ".join(f"{letter} {name}" for letter, name in listed[:LISTED])
    rest = f", and {len(listed) - LISTED} more" if len(listed) > LISTED else ""
    if len(alike) > 1:
        return f"--run {wanted}: {place} has several such runs: {shown}{rest}"
    return f"--run {wanted}: {place} has no such run; there are {shown}{rest}"


MOST_NAMES = 12
"""How many names of ranges a message lists."""


def run_with_steps(run: Run, name: str | None) -> Run:
    """Returns the run with the ranges of this name as its steps; the run itself without a name.

    Raises:
        UsageError: no recording of the run has such a range; it names those that repeat.
    """
    if name is None:
        return run
    from tracetui.analysis.selection import run_by

    changed = run_by(run, name)
    if not any(trace.steps.height for trace in changed.traces):
        path = run.traces[0].source.path if run.traces else run.path
        raise UsageError(f"--steps-by {name}: {path} has no range of this name; {repeating(run.traces)}")
    return changed


def repeating(traces: Sequence[Trace]) -> str:
    """Names the ranges that repeat, which may be steps."""
    from tracetui.parsers.iterations import candidates

    names = list(dict.fromkeys(name for trace in traces for name in candidates(trace)))
    if not names:
        return "no range in it repeats"
    rest = f", and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"those that repeat: {', '.join(names[:MOST_NAMES])}{rest}"
