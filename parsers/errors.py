"""Errors about inputs, worded for the user."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def near(name: str, known: Iterable[str]) -> str:
    """The name that a wrong one may be meant for; empty if none is like it."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, list(known), 1)), "")


def instead(name: str, known: Iterable[str]) -> str:
    """What to say behind a wrong name: the one that it may be meant for, or else all that there are."""
    known = list(known)
    return f"did you mean {found}?" if (found := near(name, known)) else f"there are {', '.join(known)}"


def no_such(path: Path) -> TraceError:
    """The error for a path that is not there; it names the entry of its folder that may be meant."""
    if path.is_symlink():
        return TraceError(path, "a link that leads nowhere", "give the file that it is to lead to")
    try:
        found = near(path.name, (other.name for other in path.parent.iterdir()))
    except OSError:
        found = ""
    return TraceError(path, "no such file or folder", f"did you mean {found}?" if found else "check the path")


class TraceError(Exception):
    """An input that can't be read: which file, what is wrong with it, what to do.

    Shown as one line, never as a traceback.
    """

    def __init__(self, path: Path | str, problem: str, advice: str = "") -> None:
        self.path = path
        self.problem = problem
        self.advice = advice
        super().__init__(str(self))

    def __str__(self) -> str:
        """The one line that the user sees."""
        line = f"{self.path}: {self.problem}"
        return f"{line}; {self.advice}" if self.advice else line


class Cancelled(Exception):  # noqa: N818  a request of the user, not an error
    """The user cancelled the load before anything usable was read."""
