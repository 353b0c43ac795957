"""Handles paths that the user typed or that were remembered, without raising errors."""

from __future__ import annotations

import os
from pathlib import Path


def typed(text: str) -> Path:
    """Returns the typed path with ``~`` expanded; unchanged if there is no such user.

    A path in quotes, as terminals paste a file that is dropped on them, is taken without them.
    """
    text = text.strip()
    if len(text) > 2 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    path = Path(text)
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def is_there(path: Path) -> bool:
    """Returns whether a path exists; false if that can't be told, as inside a folder that can't be entered."""
    return os.path.exists(path)  # noqa: PTH110  Path.exists raises for such a folder, and for a name that is too long


def is_file(path: Path) -> bool:
    """Returns whether a path is a file; false if that can't be told."""
    return os.path.isfile(path)  # noqa: PTH113  as above


def is_folder(path: Path) -> bool:
    """Returns whether a path is a folder; false if that can't be told."""
    return os.path.isdir(path)  # noqa: PTH112  as above


def from_home(line: str) -> str:
    """Returns a line with ``~`` in place of the path of the user's folder."""
    home = os.environ.get("HOME", "").rstrip("/")
    return line.replace(f"{home}/", "~/") if home else line
