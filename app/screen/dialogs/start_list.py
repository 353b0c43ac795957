"""Lists what can be opened, recordings of the current folder and recent ones, as entries and as text."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tracetui.analysis.base.number_format import format_bytes
from tracetui.app.settings.recent import age, recents
from tracetui.app.text.fitting import printable
from tracetui.app.text.paths import is_file, is_folder
from tracetui.app.text.tool_words import WORDS

HERE_SHOWN = 200
LOOKED_AT = 400
"""The maximum number of files and folders that are examined for recordings."""
LOOKED_AT_BELOW = 40
"""The same for each folder one level below."""
TRACE_NAMES = (".json", ".json.gz", ".trace", ".sqlite", ".csv")
OWN_NAMES = frozenset({"run.json", "sweep.json"})
"""The files that `tracetui profile` writes beside a recording."""
SHOWN_FILES = 500
NOTHING = (
    "No recording in this folder, and none was opened before.",
    "",
    "tracetui open PATH             a trace, or a folder of them",
    "tracetui open --sample         a recording that ships with tracetui",
    "tracetui profile vim_tiny      records one (tracetui profile --help)",
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the list; one without a path is a heading."""

    label: str
    path: Path | None = None
    tools: str = ""
    size: str = ""
    when: str = ""
    missing: bool = False


def entries(
    folder: Path, here: Sequence[Path], samples: Sequence[Path] = (), *, now: float | None = None
) -> list[Entry]:
    """Returns the recordings in a folder, recent ones, and those that ship with the program.

    Args:
        folder: the current one.
        here: the recordings in it (`recordings_in`).
        samples: recordings that ship with the program.
        now: seconds since 1970.
    """
    now = time.time() if now is None else now
    found: list[Entry] = []
    if here:
        found.append(Entry("In this folder"))
    for path in here:
        name = path.name + ("/" if is_folder(path) else "")
        found.append(Entry(name, path, size=_size(path), when=age(_changed(path), now)))
    lately = recents()
    if lately:
        found.append(Entry("Opened lately"))
    for recent in lately:
        tools = ", ".join(WORDS[kind].short for kind in recent.kinds)
        size = "" if recent.bytes is None else format_bytes(recent.bytes)
        label, when = short_path(recent.path, folder), age(recent.opened, now)
        found.append(Entry(label, recent.path, tools, size, when, missing=not recent.is_there))
    fresh = [path for path in samples if not any(path == recent.path for recent in lately)]
    if fresh:
        found.append(Entry("Comes with tracetui"))
        found += [Entry(path.name, path, size=_size(path)) for path in fresh]
    return found


def short_path(path: Path, folder: Path) -> str:
    """Returns a path as a user would type it: relative to here, relative to home, or absolute."""
    for base, mark in ((folder, ""), (_home(), "~")):
        if base is not None and path != base and path.is_relative_to(base):
            below = path.relative_to(base).as_posix()
            return f"{mark}/{below}" if mark else below
    return str(path)


def plain(found: Sequence[Entry], *, ascii: bool = False) -> str:
    """Returns the list as lines of text, for use without a screen; if it is empty, says what to do."""
    lines: list[str] = [] if found else list(NOTHING)
    for entry in found:
        if entry.path is None:
            lines += [*([""] if lines else []), f"{entry.label}:"]
            continue
        facts = [word for word in (entry.tools, entry.size, entry.when, "missing" if entry.missing else "") if word]
        lines.append(f"  {entry.label}" + (f"   ({', '.join(facts)})" if facts else ""))
    lines += ["", "tracetui open PATH explores one; tracetui --help lists all commands."] if found else []
    return "\n".join(printable(line, ascii=ascii) for line in lines)


def recordings_in(folder: Path) -> list[Path]:
    """Finds the recordings in a folder by their content, and the folders in it that hold some; newest first."""
    from tracetui.parsers.runs.detect import files_below, looks_like_trace  # this imports Polars and NumPy

    try:
        there = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))[:LOOKED_AT]
    except OSError:
        return []
    found = []
    for entry in there:
        # reading a pipe would block
        below = islice(files_below(entry), LOOKED_AT_BELOW) if is_folder(entry) else (entry,) if is_file(entry) else ()
        if any(map(looks_like_trace, below)):
            found.append(entry)
    return sorted(found, key=lambda path: -_changed(path))[:HERE_SHOWN]


def traces_beside(path: Path) -> list[tuple[str, tuple[Path, ...]]]:
    """Returns the files beside a path that are named like traces, and the folders that hold some."""
    folder = path.absolute().parent
    found: list[tuple[str, tuple[Path, ...]]] = []
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return []
    for entry in entries:
        if entry == path.absolute() or entry.name.startswith("."):
            continue
        if is_file(entry) and _is_called_like_one(entry):
            found.append((entry.name, (entry,)))
        elif is_folder(entry) and _holds_traces(entry):
            found.append((f"{entry.name}/", (entry,)))
        if len(found) >= SHOWN_FILES:
            break
    return found


def _holds_traces(folder: Path) -> bool:
    try:
        return any(map(_is_called_like_one, folder.iterdir()))
    except OSError:
        return False


def _is_called_like_one(path: Path) -> bool:
    return path.name.endswith(TRACE_NAMES) and path.name not in OWN_NAMES


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _size(path: Path) -> str:
    try:
        return "folder" if path.is_dir() else format_bytes(path.stat().st_size)
    except OSError:
        return ""


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:
        return None
