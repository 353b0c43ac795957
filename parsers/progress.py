"""Reports the progress of a load, and whether it should stop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct


class Progress(Struct, frozen=True):
    """One progress report of a load."""

    stage: str
    """``reading``, ``linking`` or ``cached``."""
    done: int
    """Bytes of the file read so far, compressed ones if it is compressed."""
    total: int
    events: int = 0
    path: Path | None = None


class Watch(Struct, frozen=True):
    """Receives a load's progress, and may stop the load."""

    progress: Callable[[Progress], None] | None = None
    cancel: threading.Event | None = None

    def report(self, progress: Progress) -> None:
        """Reports the progress to the listener."""
        if self.progress:
            self.progress(progress)

    @property
    def cancelled(self) -> bool:
        """Whether the load should stop."""
        return self.cancel is not None and self.cancel.is_set()
