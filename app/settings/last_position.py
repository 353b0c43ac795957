"""Stores the last position in a run by its path, and restores it as long as the run's files are the same.

Kept are the tab, what was typed as filter, ids of columns and pages, the marked range, and paths; no name and no
number of what the recording holds but the two ends of that range.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tracetui.app import tabs
from tracetui.app.settings import state
from tracetui.app.text.times import LATEST

FILE = "left"
KEPT = 100
"""How many runs are remembered."""
MOST_NAMES = 200
LONGEST = 1000
"""The maximum length of a filter, path or name; anything longer was not written by us."""


@dataclass(frozen=True)
class Left:
    """The last position in a run."""

    tab: str = "overview"
    filter: str = ""
    sorts: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """Sort column and whether the largest comes first, by page id."""
    window: tuple[int, int] | None = None
    """The marked range, ns on the trace's clock."""
    words: str = ""
    """The text for the range."""
    run: str = ""
    """Which run of the folder was in view."""
    other: Path | None = None
    """The run that it was compared with."""


def load(origin: Path) -> Left | None:
    """Loads the last position for a path; None if it is unknown, or the files have changed since."""
    runs = state.read(FILE).get("runs")
    entry = runs.get(_key(origin)) if isinstance(runs, dict) else None
    if not isinstance(entry, dict) or not _unchanged(entry.get("files")):
        return None
    other = _text(entry.get("other"))
    tab = _text(entry.get("tab"))
    return Left(
        tab=tab if tab in tabs.TITLES else "overview",
        filter=_text(entry.get("filter")),
        sorts=_sorts(entry.get("sorts")),
        window=_window(entry.get("window")),
        words=_text(entry.get("words")),
        run=_text(entry.get("run")),
        other=Path(other) if other else None,
    )


def store(origin: Path, left: Left, files: Iterable[Path], *, now: float | None = None) -> None:
    """Stores the last position in a run; does nothing if that can't be written."""
    runs = state.read(FILE).get("runs")
    entries = {key: entry for key, entry in runs.items() if isinstance(entry, dict)} if isinstance(runs, dict) else {}
    entries[_key(origin)] = {
        "files": [_seal(file) for file in files],
        "saved": round(time.time() if now is None else now, 3),
        "tab": left.tab,
        "filter": left.filter[:LONGEST],
        "sorts": left.sorts,
        "window": left.window,
        "words": left.words,
        "run": left.run,
        "other": None if left.other is None else _key(left.other),
    }
    newest = sorted(entries, key=lambda key: -_number(entries[key].get("saved")))[:KEPT]
    state.write(FILE, {"version": 1, "runs": {key: entries[key] for key in newest}})


def forget(origin: Path) -> None:
    """Removes the last position for a path."""
    runs = state.read(FILE).get("runs")
    if isinstance(runs, dict) and runs.pop(_key(origin), None) is not None:
        state.write(FILE, {"version": 1, "runs": runs})


def _key(origin: Path) -> str:
    return os.path.abspath(origin)  # noqa: PTH100  a link keeps the name that the user gave


def _seal(file: Path) -> list[object]:
    """Returns values that change when a file changes."""
    try:
        stat = file.stat()
    except OSError:
        return [_key(file), -1, -1]
    return [_key(file), stat.st_size, stat.st_mtime_ns]


def _unchanged(files: object) -> bool:
    if not isinstance(files, list) or not files:
        return False
    seals = [entry for entry in files if isinstance(entry, list) and len(entry) == 3 and isinstance(entry[0], str)]
    return len(seals) == len(files) and all("\0" not in entry[0] and _seal(Path(entry[0])) == entry for entry in seals)


def _text(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= LONGEST and "\0" not in value else ""


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and abs(value) < LATEST else 0.0


def _window(value: object) -> tuple[int, int] | None:
    if not isinstance(value, list) or len(value) != 2 or not all(type(end) is int for end in value):
        return None
    start, end = value
    return (start, end) if -LATEST <= start < end <= LATEST else None


def _sorts(value: object) -> dict[str, tuple[str, bool]]:
    found = {}
    for page, sort in list(value.items())[:MOST_NAMES] if isinstance(value, dict) else ():
        if isinstance(sort, list) and len(sort) == 2 and isinstance(sort[0], str) and isinstance(sort[1], bool):
            found[page] = (sort[0], sort[1])
    return found
