"""Tells the parent how far the child is: one JSON object per line, in a file that the parent follows."""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import Any


class Progress:
    """Appends lines to the progress file; a full disk must not end a run that is still measuring."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def say(self, phase: str, step: int = 0, of: int = 0, **more: Any) -> None:
        """Reports how far a phase of the run has come.

        Args:
            phase: ``building``, ``warm-up``, ``clean``, ``profiling`` or ``writing``.
            step: how many of its steps are done.
            of: how many there are; 0 where that is not known.
            more: anything else worth knowing, such as a warning.
        """
        line: dict[str, Any] = {"phase": phase, "step": step, "of": of, "time": time.time()}
        line.update(more)
        with contextlib.suppress(OSError):
            os.write(self._file, (json.dumps(line) + "\n").encode())
