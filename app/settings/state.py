"""Reads and writes what the program remembers between two starts: JSON files in the user's data folder.

Nothing here raises an error: an unreadable file counts as missing, and what can't be written is dropped.
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import Any

FOLDER_VARIABLE = "TRACETUI_DATA_DIR"
OFF_VARIABLE = "TRACETUI_NO_STATE"
"""If this is set to anything but 0, nothing is remembered."""
LARGEST = 4 << 20
"""The maximum size of our files in bytes; a larger file is not ours."""


def off() -> bool:
    """Returns whether remembering is off, for reading and writing."""
    return os.environ.get(OFF_VARIABLE, "") not in ("", "0")


def folder() -> Path:
    """Returns the folder of the files: TRACETUI_DATA_DIR, or the user's data folder for tracetui."""
    if own := os.environ.get(FOLDER_VARIABLE):
        return Path(own)
    from platformdirs import user_data_path

    return user_data_path("tracetui", appauthor=False)


def read(name: str) -> dict[str, Any]:
    """Returns what a file holds, such as ``settings`` or ``recent``; empty if it is missing or damaged."""
    if off():
        return {}
    file = folder() / f"{name}.json"
    try:
        about = file.stat()
        if not S_ISREG(about.st_mode) or about.st_size > LARGEST:
            return {}
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def write(name: str, content: dict[str, Any]) -> bool:
    """Replaces a file as a whole, readable only by the user; returns whether that worked."""
    if off():
        return False
    file = folder() / f"{name}.json"
    made: str | None = None
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, made = tempfile.mkstemp(dir=file.parent, prefix=f".{name}-", suffix=".json")
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            json.dump(content, out, indent=1, sort_keys=True)
        Path(made).replace(file)
    except (OSError, TypeError, ValueError):
        if made is not None:
            with suppress(OSError):
                Path(made).unlink()
        return False
    return True


def forget(name: str) -> bool:
    """Removes a file; returns whether it existed."""
    if off():
        return False
    try:
        (folder() / f"{name}.json").unlink()
    except OSError:
        return False
    return True
