"""Reading runs in the background: progress, giving up, and what went wrong, in a line each."""

from __future__ import annotations

import math
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from textual.message import Message

from tracetui.analysis.base.number_format import format_bytes
from tracetui.app.session import jobs
from tracetui.app.text.fitting import fit, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from textual.message_pump import MessagePump

    from tracetui.app.session.session import Side
    from tracetui.parsers import Progress, Run

PROGRESS_SECONDS = 0.1
"""How often the progress line changes at most; each change is sent over the link."""


class LoadProgress(Message):
    """How far reading has come."""

    def __init__(self, letter: str, progress: Progress) -> None:
        self.letter = letter
        self.progress = progress
        super().__init__()

    def can_replace(self, message: Message) -> bool:
        """Only the last one of a run matters."""
        return isinstance(message, LoadProgress) and message.letter == self.letter


class Loader:
    """Reads runs, each in its own thread, for an app that gets the messages. Runs go by their letters."""

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
        self._cancel: dict[str, threading.Event] = {}
        self._began: dict[str, float] = {}
        self._keys: dict[str, str] = {}
        self._count = 0
        self.lines: dict[str, str] = {}
        """What is known about a run being read."""
        self.shares: dict[str, str] = {}
        """The same in two words, for where there is little room: ``reading 25 %``."""
        self.failures: dict[str, str] = {}
        """Why a run could not be read."""
        self.wanted: dict[Side, str] = {}
        """The letters of the runs that were last asked for as A and B."""

    def failure(self, side: Side) -> str:
        """Why the run that was asked for could not be opened; empty where nothing failed."""
        return self.failures.get(self.wanted.get(side, ""), "")

    def is_loading(self, side: Side) -> bool:
        """Whether a run is being read to become A or B."""
        return self.wanted.get(side, "") in self.lines

    def start(self, letter: str, paths: tuple[Path, ...], choose: Callable[[Sequence[str]], int] | None = None) -> None:
        """Begins to read; a `JobDone` will come, whose key `finish` understands.

        A reading of the same run that is under way is given up and forgotten.

        Args:
            letter: the run's.
            paths: what it takes to read.
            choose: which run of a folder it is, by the names of those that are there; the first by default.
        """
        self.give_up(letter)
        cancel = threading.Event()
        cache, target = self._cache, self._target
        meanwhile, self._meanwhile = self._meanwhile, None
        self._cancel[letter] = cancel
        self._began[letter] = time.monotonic()
        self.lines[letter] = "Opening …"
        self.shares[letter] = "opening …"
        self.failures.pop(letter, None)
        told = [-PROGRESS_SECONDS]

        def report(progress: Progress) -> None:
            now = time.monotonic()
            if now - told[0] < PROGRESS_SECONDS or cancel.is_set():
                return
            told[0] = now
            with suppress(RuntimeError):
                target.post_message(LoadProgress(letter, progress))

        def read() -> Run:
            # imported here: Polars and NumPy take longer than the first paint
            from tracetui.parsers import open_path

            if meanwhile is not None:
                threading.Thread(target=meanwhile, daemon=True).start()
            chosen = {} if choose is None else {"choose": choose}
            return open_path(*paths, progress=report, cancel=cancel, cache=cache, **chosen)

        self._count += 1
        key = f"open-{letter}-{self._count}"
        self._keys[key] = letter
        jobs.start(target, key, read)

    def note(self, event: LoadProgress) -> None:
        """Takes progress down."""
        if event.letter in self.lines:
            progress = event.progress
            self.lines[event.letter] = self._line(event.letter, progress)
            share = f" {100 * progress.done // progress.total} %" if progress.total else ""
            self.shares[event.letter] = f"{progress.stage}{share}"

    def finish(self, key: str) -> tuple[str, bool] | None:
        """Which run has been read, and whether it had been given up; null for one that was forgotten."""
        letter = self._keys.pop(key, None)
        if letter is None:
            return None
        self.lines.pop(letter, None)
        self.shares.pop(letter, None)
        return letter, self._cancel.pop(letter).is_set()

    def give_up(self, letter: str) -> None:
        """Stops the reading of a run, and forgets it."""
        if letter in self._cancel:
            self._cancel.pop(letter).set()
            self._keys = {key: other for key, other in self._keys.items() if other != letter}
            self.lines.pop(letter, None)
            self.shares.pop(letter, None)

    def close(self) -> None:
        """Gives up all reading, and forgets it: nobody will look at it."""
        for letter in list(self._cancel):
            self.give_up(letter)

    def stop(self) -> None:
        """Gives up; readers hand over what they have at their next look."""
        for cancel in self._cancel.values():
            cancel.set()

    def _line(self, letter: str, progress: Progress) -> str:
        parts = [progress.stage.capitalize()]
        if progress.path is not None:
            parts.append(fit(printable(progress.path.name), 32))
        if progress.total:
            parts.append(f"{format_bytes(progress.done)} of {format_bytes(progress.total)}")
            elapsed = time.monotonic() - self._began[letter]
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
