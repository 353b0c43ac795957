"""A line that says how far a job of many recordings is."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRESS_SECONDS = 0.2
"""How often the line of progress changes."""


@contextmanager
def job_progress() -> Iterator[Callable[[int, int], None] | None]:
    """A line on standard error that says how far it is, where somebody sees it."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    began, told = time.monotonic(), 0.0
    first: int | None = None

    def report(done: int, whole: int) -> None:
        nonlocal told, first
        now = time.monotonic()
        first = done - 1 if first is None else first
        if now - told < PROGRESS_SECONDS and done < whole:
            return
        told = now
        left = (now - began) / max(done - first, 1) * (whole - done)
        soon = f", {left:.0f} s left" if left >= 1 else ""
        sys.stderr.write(f"\r\x1b[K{done:,} of {whole:,} recordings{soon}")
        sys.stderr.flush()

    try:
        yield report
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
