"""What the names of files and folders say of whoever recorded: torch's own begin with the machine's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tracetui.collectors.scrubbing.marks import HOST

if TYPE_CHECKING:
    from pathlib import Path

    from tracetui.collectors.scrubbing.redactor import Redactor

SUFFIXES = re.compile(
    r"((?:\.pt)?(?:\.trace)?\.(?:jsonl?|sqlite3?|db|csv|txt|log|pickle|pkl)(?:\.gz)?|\.gz)$", re.IGNORECASE
)
_BY_HANDLER = re.compile(r"(?!rank[-_]?\d)(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*)_\d+\.\d{13,19}")
"""``tensorboard_trace_handler`` names a file after the machine, the process and the time."""
_OF_JAX = "profile"
"""JAX names a file after the machine: ``plugins/profile/2024_05_01/HOST.trace.json``."""


def split(name: str) -> tuple[str, str]:
    """A file's name without its suffixes, and these: ``.pt.trace.json.gz``."""
    match = SUFFIXES.search(name)
    return (name[: match.start()], match[1]) if match else (name, "")


def learn(path: Path, redactor: Redactor) -> None:
    """Learns the machine after which a profiler has named a file."""
    stem, suffix = split(path.name)
    if match := _BY_HANDLER.fullmatch(stem):
        redactor.learn(match["host"], HOST)
    elif suffix.startswith(".trace.json") and path.absolute().parent.parent.name == _OF_JAX:
        redactor.learn(stem, HOST)


def clean(name: str, redactor: Redactor) -> str:
    """A file's or folder's name without what is private in it; its suffixes stay."""
    stem, suffix = split(name)
    stem = redactor.words(stem)
    if redactor.would_change(stem):
        stem = redactor.value(stem).replace("/", "_").strip() or "redacted"
    return stem + suffix
