"""Remembers the recently opened recordings: path, kind, size and time, and nothing from inside them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracetui.app.settings import state
from tracetui.app.text.paths import is_there
from tracetui.app.text.tool_words import WORDS

FILE = "recent"
KEPT = 50
"""How many paths are remembered."""
_SPANS = ((60, "s"), (60, "min"), (24, "h"), (7, "d"))


@dataclass(frozen=True, slots=True)
class Recent:
    """One opened path."""

    path: Path
    kinds: tuple[str, ...]
    """The tools that wrote the recordings (`TraceInfo.kind`)."""
    bytes: int | None
    opened: float
    """When it was last opened, seconds since 1970."""

    @property
    def tools(self) -> str:
        """Returns the tools in words."""
        return ", ".join(WORDS[kind].label for kind in self.kinds)

    @property
    def is_there(self) -> bool:
        """Returns whether the path still exists."""
        return is_there(self.path)


def recents() -> list[Recent]:
    """Returns recently opened paths, newest first; damaged entries are left out."""
    entries = state.read(FILE).get("opened")
    found = [_read(entry) for entry in entries] if isinstance(entries, list) else []
    return sorted((entry for entry in found if entry is not None), key=lambda entry: -entry.opened)[:KEPT]


def remember(path: Path, kinds: Iterable[str], size: int | None, *, now: float | None = None) -> None:
    """Remembers that a path was opened; does nothing if that can't be written."""
    path = Path(os.path.abspath(path))  # noqa: PTH100  a link keeps the name that the user gave
    known = tuple(dict.fromkeys(kind for kind in kinds if kind in WORDS))
    new = Recent(path, known, size, time.time() if now is None else now)
    entries = [new, *(entry for entry in recents() if entry.path != path)][:KEPT]
    state.write(FILE, {"version": 1, "opened": [_written(entry) for entry in entries]})


def age(opened: float, now: float) -> str:
    """Returns how long ago that was: ``5 min ago``; ``just now`` below a minute, a date above four weeks."""
    span: float = max(now - opened, 0)
    if span < 60:
        return "just now"
    if span > 28 * 86400:
        return time.strftime("%Y-%m-%d", time.localtime(opened))
    unit = "s"
    for most, unit in _SPANS:
        if span < most:
            return f"{int(span)} {unit} ago"
        span /= most
    return f"{int(span)} weeks ago" if int(span) > 1 else "a week ago"


def _written(entry: Recent) -> dict[str, Any]:
    return {"path": str(entry.path), "kinds": entry.kinds, "bytes": entry.bytes, "opened": round(entry.opened, 3)}


def _read(entry: object) -> Recent | None:
    if not isinstance(entry, dict):
        return None
    path, kinds, size, opened = (entry.get(name) for name in ("path", "kinds", "bytes", "opened"))
    if not isinstance(path, str) or not path or "\0" in path or isinstance(opened, bool):
        return None
    if not isinstance(opened, (int, float)) or not 0 <= opened < 1e11:
        return None
    named = (kind for kind in kinds if isinstance(kind, str)) if isinstance(kinds, list) else ()
    known = tuple(kind for kind in named if kind in WORDS)
    return Recent(Path(path), known, size if type(size) is int and size >= 0 else None, float(opened))
