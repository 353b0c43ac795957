"""Watches the machine during a run without disturbing it.

Samples that take long are taken less often, so that watching costs at most a twentieth of one core. Whenever there are
too many samples, every second one is dropped. An error costs one sample.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

INTERVAL_S = 0.5
MOST = 2000
"""Samples kept; a multiple of two."""
SHARE = 20
"""A sample that takes one second is followed by a pause of this many seconds."""
STOP_S = 3.0
PR_SET_PDEATHSIG = 1
"""From linux/prctl.h."""

S = TypeVar("S")


class Sampler(Generic[S]):
    """Calls `take` every half second in its own thread until it is stopped."""

    def __init__(self, take: Callable[[], S], interval_s: float = INTERVAL_S, most: int = MOST) -> None:
        self._take = take
        self._interval_s = interval_s
        self._most = max(most - most % 2, 2)
        self._samples: list[S] = []
        self._stride = 1
        self._taken = 0
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.latest: S | None = None
        """The latest sample, even if it was thinned out."""

    def start(self) -> None:
        """Starts sampling; the first sample is taken at once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="machine sampler", daemon=True)
            self._thread.start()

    def stop(self) -> list[S]:
        """Stops and returns the samples, oldest first; waits at most three seconds for a sample that hangs."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(STOP_S)
        return self.samples

    @property
    def samples(self) -> list[S]:
        """The samples so far, evenly spread over the run."""
        with self._lock:
            return list(self._samples)

    def _watch(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            with contextlib.suppress(Exception):  # the run continues whatever a sensor does
                self._keep(self._take())
            took = time.monotonic() - began
            self._stopping.wait(max(self._interval_s - took, took * SHARE))

    def _keep(self, sample: S) -> None:
        with self._lock:
            self.latest = sample
            if self._taken % self._stride == 0:
                self._samples.append(sample)
            self._taken += 1
            if len(self._samples) >= self._most:
                del self._samples[1::2]
                self._stride *= 2


class Lines:
    """Keeps the last lines of a program that prints one line per measurement, as tegrastats and nvidia-smi do.

    The program gets a pseudo-terminal, since it would buffer what it writes to a pipe and old lines would come late.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._lines: deque[tuple[float, str]] = deque(maxlen=64)
        self._process: subprocess.Popen[bytes] | None = None
        try:
            screen, end = os.openpty()
        except OSError:
            return
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=end,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl+C goes to the run, which then stops this program
                preexec_fn=_end_with_parent(),
            )
        except (OSError, ValueError):
            os.close(screen)
            return
        finally:
            os.close(end)
        threading.Thread(target=self._read, args=(screen,), name="machine lines", daemon=True).start()

    def last(self, seconds: float) -> list[str]:
        """The lines of the last `seconds`, oldest first."""
        oldest = time.monotonic() - seconds
        return [line for when, line in list(self._lines) if when >= oldest]

    def close(self) -> None:
        """Ends the program."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(1.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _read(self, screen: int) -> None:
        # reading the terminal fails when the program has ended
        with contextlib.suppress(OSError), open(screen, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                self._lines.append((time.monotonic(), line.rstrip("\n")))


def _end_with_parent() -> Callable[[], object] | None:
    """Runs first in a child and makes it end when this process is killed."""
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None
    return partial(prctl, PR_SET_PDEATHSIG, signal.SIGTERM)
