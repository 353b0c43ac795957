"""Paths that a person typed, or that were remembered: none of them is worth an error."""

from __future__ import annotations

import os
from pathlib import Path


def typed(text: str) -> Path:
    """The path that was typed, ``~`` being home; as it is where there is no such user."""
    path = Path(text.strip())
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def is_there(path: Path) -> bool:
    """Whether a path leads to something; not where that can't be told, as behind a folder that can't be entered."""
    return os.path.exists(path)  # noqa: PTH110  Path.exists raises for such a folder, and for a name that is too long


def is_file(path: Path) -> bool:
    """Whether a path leads to a file, as far as that can be told."""
    return os.path.isfile(path)  # noqa: PTH113  as above


def is_folder(path: Path) -> bool:
    """Whether a path leads to a folder, as far as that can be told."""
    return os.path.isdir(path)  # noqa: PTH112  as above
