"""Reading runs in the background: progress, giving up, and what went wrong, in a line each."""

from __future__ import annotations

import math
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from textual.message import Message

from tracetui.app import jobs
from tracetui.app.formats import fit, format_bytes, printable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from textual.message_pump import MessagePump

    from tracetui.app.session import Side
    from tracetui.parsers import Progress, Run

PROGRESS_SECONDS = 0.1
"""How often the progress line changes at most; each change is sent over the link."""


class LoadProgress(Message):
    """How far reading has come."""

    def __init__(self, side: Side, progress: Progress) -> None:
        self.side = side
        self.progress = progress
        super().__init__()

    def can_replace(self, message: Message) -> bool:
        """Only the last one matters."""
        return isinstance(message, LoadProgress)


class Loader:
    """Reads run A and run B, each in its own thread, for an app that gets the messages."""

    def __init__(self, target: MessagePump, *, cache: bool, meanwhile: Callable[[], object] | None = None) -> None:
        """Sets up.

        Args:
            target: gets the messages.
            cache: use the cache of parsed traces.
            meanwhile: what can be got ready beside the first reading: imports of what will show the run.
        """
        self._target = target
        self._meanwhile = meanwhile
        self._cache = cache
        self._cancel: dict[Side, threading.Event] = {}
        self._began: dict[Side, float] = {}
        self._keys: dict[str, Side] = {}
        self._count = 0
        self.lines: dict[Side, str] = {}
        """What is known about a run being read."""
        self.shares: dict[Side, str] = {}
        """The same in two words, for where there is little room: ``reading 25 %``."""
        self.failures: dict[Side, str] = {}
        """Why a run could not be read."""

    def start(self, side: Side, paths: tuple[Path, ...]) -> None:
        """Begins to read; a `JobDone` will come, whose key `finish` understands.

        A run still being read for the same side is given up and forgotten.
        """
        if side in self._cancel:
            self._cancel[side].set()
            self._keys = {key: other for key, other in self._keys.items() if other != side}
        cancel = threading.Event()
        cache, target = self._cache, self._target
        meanwhile, self._meanwhile = self._meanwhile, None
        self._cancel[side] = cancel
        self._began[side] = time.monotonic()
        self.lines[side] = "Opening …"
        self.shares[side] = "opening …"
        self.failures.pop(side, None)
        told = [-PROGRESS_SECONDS]

        def report(progress: Progress) -> None:
            now = time.monotonic()
            if now - told[0] < PROGRESS_SECONDS or cancel.is_set():
                return
            told[0] = now
            with suppress(RuntimeError):
                target.post_message(LoadProgress(side, progress))

        def read() -> Run:
            # imported here: Polars and NumPy take longer than the first paint
            from tracetui.parsers import open_path

            if meanwhile is not None:
                threading.Thread(target=meanwhile, daemon=True).start()
            return open_path(*paths, progress=report, cancel=cancel, cache=cache)

        self._count += 1
        key = f"open-{side}-{self._count}"
        self._keys[key] = side
        jobs.start(target, key, read)

    def note(self, event: LoadProgress) -> None:
        """Takes progress down."""
        if event.side in self.lines:
            progress = event.progress
            self.lines[event.side] = self._line(event.side, progress)
            share = f" {100 * progress.done // progress.total} %" if progress.total else ""
            self.shares[event.side] = f"{progress.stage}{share}"

    def finish(self, key: str) -> tuple[Side, bool] | None:
        """Which side has been read, and whether it had been given up; null for one that was forgotten."""
        side = self._keys.pop(key, None)
        if side is None:
            return None
        self.lines.pop(side, None)
        self.shares.pop(side, None)
        return side, self._cancel.pop(side).is_set()

    def stop(self) -> None:
        """Gives up; readers hand over what they have at their next look."""
        for cancel in self._cancel.values():
            cancel.set()

    def _line(self, side: Side, progress: Progress) -> str:
        parts = [progress.stage.capitalize()]
        if progress.path is not None:
            parts.append(fit(printable(progress.path.name), 32))
        if progress.total:
            parts.append(f"{format_bytes(progress.done)} of {format_bytes(progress.total)}")
            elapsed = time.monotonic() - self._began[side]
            if 0 < progress.done < progress.total and elapsed > 0.5:
                parts.append(f"{math.ceil(elapsed * (progress.total / progress.done - 1))} s left")
        if progress.events:
            parts.append(f"{progress.events:,} events")
        return "  ".join(parts)


def explain(error: Exception | None, paths: tuple[Path, ...], *, cancelled: bool) -> tuple[str, bool]:
    """Why a run could not be opened: the line for the person, and whether it is a bug of ours."""
    from tracetui.parsers import Cancelled, TraceError

    path = paths[0] if paths else ""
    if isinstance(error, Cancelled) or (cancelled and error is None):
        return f"{path}: stopped before anything was read", False
    if isinstance(error, TraceError):
        return str(error), False
    if isinstance(error, OSError):
        return f"{error.filename or path}: {error.strerror or error}", False
    if error is None:
        return f"{path}: no trace in it", False
    return f"{path}: {type(error).__name__}: {error}; this is a bug in tracetui", True
