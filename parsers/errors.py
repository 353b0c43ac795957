"""Errors about inputs, worded for the user."""

from __future__ import annotations

from pathlib import Path


def no_such(path: Path) -> TraceError:
    """The error for a path that is not there; it names the entry of its folder that may be meant."""
    from difflib import get_close_matches

    try:
        near = get_close_matches(path.name, (other.name for other in path.parent.iterdir()), 1)
    except OSError:
        near = []
    return TraceError(path, "no such file or folder", f"did you mean {near[0]}?" if near else "check the path")


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
