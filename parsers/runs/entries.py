"""The folder in the user's cache directory that keeps what was made of files, so that it need not be made again.

An entry is a folder: a trace's frames (`parsers.runs.cache`), or the text of a report. It is written under a temporary
name and renamed when complete, so two processes may write the same one. The oldest go when the whole grows too large.
The cache's folder may be one in which the user keeps other things: only what was written here is removed.

Imports no Polars: who finds the text of a report needs none.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MAX_BYTES = 4 << 30
"""How much the cache may hold; ``TRACETUI_CACHE_MB`` overrides it, 0 turns the cache off."""
LEFTOVER_SECONDS = 86_400
"""An unfinished entry that was not written to for this long belongs to a program that was killed."""
_writing: set[Path] = set()
"""Unfinished entries of this process."""
CONTEXT, REPORT = "context.json", "report.txt"
_FILES = re.compile(rf"{re.escape(CONTEXT)}|{re.escape(REPORT)}|[a-z]+\.arrow")
_ENTRY = re.compile(r"[0-9a-f]{40}")
_UNFINISHED = ".writing-"


@dataclass(frozen=True)
class CacheInfo:
    """What the cache holds."""

    folder: Path
    traces: int
    reports: int
    bytes: int
    limit: int


def folder() -> Path:
    """Where entries live: ``TRACETUI_CACHE_DIR``, else the platform's user cache directory."""
    if chosen := os.environ.get("TRACETUI_CACHE_DIR"):
        return Path(chosen)
    from platformdirs import user_cache_path

    return user_cache_path("tracetui", appauthor=False) / "traces"


def limit() -> int:
    """How many bytes the cache may hold."""
    try:
        return int(os.environ["TRACETUI_CACHE_MB"]) << 20
    except (KeyError, ValueError):
        return MAX_BYTES


def state_of(stat: os.stat_result) -> tuple[int, ...]:
    """What changes when a file gets other content, also where a program sets its time of change back."""
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino


def state_at(path: Path) -> tuple[int, ...]:
    """The same of what lies at a path; nothing where nothing does."""
    with suppress(OSError):
        return state_of(path.stat())
    return ()


def keep(key: str, write: Callable[[Path], object]) -> None:
    """Has an entry written into a folder; with a full disk or a read-only home it does nothing."""
    if limit() <= 0:
        return
    target = folder() / key
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=target.parent))
    except OSError:
        return
    _writing.add(scratch)
    try:
        write(scratch)
        if not target.exists():
            scratch.rename(target)
    except (OSError, ValueError):  # a text with half a surrogate pair, too
        pass
    finally:
        remove(scratch)
        _writing.discard(scratch)
    _trim(limit(), keep=target)


def used(entry: Path) -> None:
    """Has an entry stay when others go."""
    with suppress(OSError):  # a cache that can only be read
        os.utime(entry)  # the least recently used go first


def abandon() -> None:
    """Removes half-written entries; for a program that ends now, whatever its threads are doing."""
    for scratch in tuple(_writing):
        gone = scratch.with_name(f"{scratch.name}-gone")
        with suppress(OSError):  # renamed first: by now it may be complete and in its place
            scratch.rename(gone)
            remove(gone)


def info() -> CacheInfo:
    """How much the cache holds."""
    found = list(_entries())
    reports = sum((entry / REPORT).exists() for _, entry, _ in found)
    return CacheInfo(folder(), len(found) - reports, reports, sum(size for _, _, size in found), limit())


def clear() -> CacheInfo:
    """Empties the cache; returns what it held."""
    before = info()
    for _, entry, _ in _entries():
        remove(entry)
    return before


def _entries() -> Iterator[tuple[float, Path, int]]:
    """(last use, folder, bytes) of each entry, unfinished ones included; nothing else that lies in the folder."""
    try:
        found = list(folder().iterdir())
    except OSError:
        return
    for entry in found:
        try:
            if _is_ours(entry):
                yield entry.stat().st_mtime, entry, sum(file.stat().st_size for file in entry.iterdir())
        except OSError:  # noqa: PERF203  another process took it away
            continue


def _is_ours(entry: Path) -> bool:
    """Returns whether this module made a folder: its name says so, and it holds an entry's files and nothing else."""
    if not (_ENTRY.fullmatch(entry.name) or entry.name.startswith(_UNFINISHED)):
        return False
    if entry.is_symlink() or not entry.is_dir():
        return False
    return all(_FILES.fullmatch(file.name) and file.is_file() for file in entry.iterdir())


def remove(entry: Path) -> None:
    """Removes an entry's own files, and its folder if nothing else is in it."""
    with suppress(OSError):
        for file in [*entry.iterdir()]:
            if _FILES.fullmatch(file.name):
                file.unlink(missing_ok=True)
        entry.rmdir()


def _trim(allowed: int, keep: Path) -> None:
    entries = sorted(_entries())
    held = sum(size for _, _, size in entries)
    for used, entry, size in entries:
        if entry.name.startswith(_UNFINISHED) and time.time() - used > LEFTOVER_SECONDS:
            remove(entry)
            held -= size
    for _, entry, size in entries:
        if held <= allowed:
            return
        if entry != keep and not entry.name.startswith(_UNFINISHED):
            remove(entry)
            held -= size
