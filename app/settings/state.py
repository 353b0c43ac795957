"""Files in the user's data folder that hold what the program remembers between two starts: one JSON object each.

Nothing here is worth an error: what can't be read is as if it were not there, what can't be written is forgotten.
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

FOLDER_VARIABLE = "TRACETUI_DATA_DIR"
OFF_VARIABLE = "TRACETUI_NO_STATE"
"""Where this is set, to anything but 0, nothing is remembered."""
LARGEST = 4 << 20
"""Bytes of a file of ours; a larger one is not ours."""


def off() -> bool:
    """Whether nothing is to be remembered, nor anything that was to be known."""
    return os.environ.get(OFF_VARIABLE, "") not in ("", "0")


def folder() -> Path:
    """Where they are: TRACETUI_DATA_DIR, or the user's data folder for tracetui."""
    if own := os.environ.get(FOLDER_VARIABLE):
        return Path(own)
    from platformdirs import user_data_path

    return user_data_path("tracetui", appauthor=False)


def read(name: str) -> dict[str, Any]:
    """What a file holds; empty where it is not there or damaged.

    Args:
        name: of the file, without its suffix, as ``settings`` or ``recent``.
    """
    if off():
        return {}
    file = folder() / f"{name}.json"
    try:
        if file.stat().st_size > LARGEST:
            return {}
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def write(name: str, content: dict[str, Any]) -> bool:
    """Replaces a file as a whole, readable by the user alone; whether that worked."""
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
    """Removes a file; whether there was one."""
    if off():
        return False
    try:
        (folder() / f"{name}.json").unlink()
    except OSError:
        return False
    return True
