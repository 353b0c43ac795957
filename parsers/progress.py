"""How far a load has come, and whether anyone still wants it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Progress:
    """One report of a load under way."""

    stage: str
    """``reading``, ``linking`` or ``cached``."""
    done: int
    """Bytes of the file read so far, compressed where it is."""
    total: int
    events: int = 0
    path: Path | None = None


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told of progress, and who may stop the load."""

    progress: Callable[[Progress], None] | None = None
    cancel: threading.Event | None = None

    def report(self, progress: Progress) -> None:
        """Tells whoever listens."""
        if self.progress:
            self.progress(progress)

    @property
    def cancelled(self) -> bool:
        """Whether the load should stop."""
        return self.cancel is not None and self.cancel.is_set()
