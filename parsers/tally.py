"""Counts what a parser skips or repairs, by reason, with one example each."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from tracetui.parsers.categories import encodable
from tracetui.parsers.trace import Note

EXAMPLE_LENGTH = 120
CUT_SHORT = (
    "the compressed stream ends early",
    "the file ends before its closing bracket",
    "event cut off by the end of the file",
    "row cut short",
    "rest of the pickle",
    "the rest of table",
    "table that can't be read",
    "rows still in the database's write-ahead log",
    "XLA's profiler stops at a million events",
)
"""First words of the readers' notes that mean the recording was longer than the file."""


class Tally:
    """Collects notes while a file is read; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], int] = {}
        self._examples: dict[tuple[str, str], str] = {}

    def skipped(self, reason: str, count: int = 1, example: str = "") -> None:
        """Counts events that are lost."""
        self._add("skipped", reason, count, example)

    def repaired(self, reason: str, count: int = 1, example: str = "") -> None:
        """Counts events that were kept, but changed."""
        self._add("repaired", reason, count, example)

    def missing(self, reason: str, count: int = 1, example: str = "") -> None:
        """Counts things that a complete file would have."""
        self._add("missing", reason, count, example)

    def take_over(self, notes: Iterable[Note]) -> None:
        """Adds what another tally counted."""
        for note in notes:
            self._add(note.kind, note.reason, note.count, note.example)

    def _add(self, kind: str, reason: str, count: int, example: str) -> None:
        if count <= 0:
            return
        key = (kind, reason)
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + count
            if example:
                self._examples.setdefault(key, encodable(example[:EXAMPLE_LENGTH]))

    @property
    def skipped_events(self) -> int:
        """How many events were lost in all."""
        return sum(count for (kind, _), count in self._counts.items() if kind == "skipped")

    def notes(self) -> tuple[Note, ...]:
        """Everything counted so far, in the order it was first seen."""
        with self._lock:
            return tuple(Note(*key, count, self._examples.get(key, "")) for key, count in self._counts.items())
