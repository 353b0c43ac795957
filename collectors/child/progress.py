"""Tells the parent how far the child is: one JSON object per line, in a file that the parent follows."""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import Any

LEAST_S = 0.1
"""The parent looks no more often, and a line takes tens of microseconds, which short steps would show."""


class Progress:
    """Appends lines to the progress file; a full disk must not end a run that is still measuring."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._phase, self._due = "", 0.0
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def say(self, phase: str, step: int = 0, of: int = 0, **more: Any) -> None:
        """Reports how far a phase of the run has come; within a phase, at most every `LEAST_S` seconds.

        Args:
            phase: ``building``, ``warm-up``, ``clean``, ``light``, ``profiling`` or ``writing``.
            step: how many of its steps are done.
            of: how many there are; 0 where that is not known.
            more: anything else worth knowing, such as a warning.
        """
        now = time.monotonic()
        if phase == self._phase and now < self._due and step != of and not more:
            return
        self._phase, self._due = phase, now + LEAST_S
        line: dict[str, Any] = {"phase": phase, "step": step, "of": of, "time": time.time()}
        line.update(more)
        with contextlib.suppress(OSError):
            os.write(self._file, (json.dumps(line) + "\n").encode())
