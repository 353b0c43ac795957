"""Reads runs in the background, with progress, cancelling, and errors in one line each."""

from __future__ import annotations

import math
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

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
"""How often the progress line may change; each change is sent over the connection."""


@dataclass
class LoadProgress(Message):
    """Reports how far reading has come."""

    letter: str
    progress: Progress

    def can_replace(self, message: Message) -> bool:
        """Returns whether it replaces an older message of the same run: only the last one matters."""
        return isinstance(message, LoadProgress) and message.letter == self.letter


class Reading(NamedTuple):
    """A run that is being read."""

    key: str
    """Of its job."""
    cancel: threading.Event
    began: float
    """Seconds (`time.monotonic`)."""


class Loader:
    """Reads runs by their letters, each in its own thread, and sends messages to an app."""

    def __init__(self, target: MessagePump, *, cache: bool, meanwhile: Callable[[], object] | None = None) -> None:
        self._target = target
        """Receives the messages."""
        self._meanwhile = meanwhile
        """Work to do during the first reading, such as imports of the views that will show the run."""
        self._cache = cache
        self._readings: dict[str, Reading] = {}
        self._count = 0
        self.lines: dict[str, str] = {}
        """The progress of each run that is being read."""
        self.shares: dict[str, str] = {}
        """The same in two words, for narrow places: ``reading 25 %``."""
        self.failures: dict[str, str] = {}
        """Why each failed run could not be read."""
        self.wanted: dict[Side, str] = {}
        """The letters of the runs that were last requested as A and B."""

    def failure(self, side: Side) -> str:
        """Returns why the requested run could not be opened; empty if nothing failed."""
        return self.failures.get(self.wanted.get(side, ""), "")

    def is_loading(self, side: Side) -> bool:
        """Returns whether a run is being read to become A or B."""
        return self.wanted.get(side, "") in self.lines

    def start(
        self,
        letter: str,
        paths: tuple[Path, ...],
        choose: Callable[[Sequence[str]], int] | None = None,
        *,
        rank: int | None = None,
        more_of: Run | None = None,
    ) -> None:
        """Starts reading; posts a `JobDone` at the end, to be passed to `finish`.

        If the same run is already being read, that reading is cancelled.

        Args:
            letter: the run's.
            paths: the paths to read.
            choose: picks the run of a folder from the names of its runs; the first by default.
            rank: the rank to read of a job of many.
            more_of: the run whose rank this is, if it is open already.
        """
        self.give_up(letter)
        cancel = threading.Event()
        cache, target = self._cache, self._target
        meanwhile, self._meanwhile = self._meanwhile, None
        self._count += 1
        key = f"open-{letter}-{self._count}"
        self._readings[letter] = Reading(key, cancel, time.monotonic())
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
            # imported here because Polars and NumPy take longer than the first paint
            from tracetui.parsers import open_path

            if more_of is not None and rank is not None:
                return more_of.with_rank(rank, report, cancel)
            if meanwhile is not None:
                threading.Thread(target=meanwhile, daemon=True).start()
            if len(paths) == 1 and paths[0].is_dir():
                from tracetui.app.session.of_summaries import run_of, summaries_in

                if (folder := summaries_in(paths)) is not None:
                    return run_of(folder)
            given = {"choose": choose, "rank": rank}
            chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
            return open_path(*paths, progress=report, cancel=cancel, cache=cache, **chosen)

        jobs.start(target, key, read)

    def note(self, event: LoadProgress) -> None:
        """Records progress."""
        if event.letter in self.lines:
            progress = event.progress
            self.lines[event.letter] = self._line(event.letter, progress)
            share = f" {100 * progress.done // progress.total} %" if progress.total else ""
            self.shares[event.letter] = f"{progress.stage}{share}"

    def finish(self, key: str) -> tuple[str, bool] | None:
        """Returns which run was read and whether reading was stopped early; None if the reading was cancelled."""
        letter = next((letter for letter, reading in self._readings.items() if reading.key == key), None)
        if letter is None:
            return None
        return letter, self._end(letter).cancel.is_set()

    def _end(self, letter: str) -> Reading:
        del self.lines[letter], self.shares[letter]
        return self._readings.pop(letter)

    def give_up(self, letter: str) -> None:
        """Cancels the reading of a run."""
        if letter in self._readings:
            self._end(letter).cancel.set()

    def close(self) -> None:
        """Cancels all reading, because nobody will look at the result."""
        for letter in list(self._readings):
            self.give_up(letter)

    def stop(self) -> None:
        """Stops all reading; readers return what they have when they next check."""
        for reading in self._readings.values():
            reading.cancel.set()

    def _line(self, letter: str, progress: Progress) -> str:
        parts = [progress.stage.capitalize()]
        if progress.path is not None:
            parts.append(fit(printable(progress.path.name), 32))
        if progress.total:
            parts.append(f"{format_bytes(progress.done)} of {format_bytes(progress.total)}")
            elapsed = time.monotonic() - self._readings[letter].began
            if 0 < progress.done < progress.total and elapsed > 0.5:
                parts.append(f"{math.ceil(elapsed * (progress.total / progress.done - 1))} s left")
        if progress.events:
            parts.append(f"{progress.events:,} events")
        return "  ".join(parts)


def explain(error: Exception | None, paths: tuple[Path, ...], *, cancelled: bool) -> tuple[str, bool]:
    """Says why a run could not be opened: a line for the user, and whether it is a bug in tracetui."""
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
