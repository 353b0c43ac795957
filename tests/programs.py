"""Starts programs that end with the test, and waits for what they do."""

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

PATIENCE_SECONDS = 120.0
"""The longest wait for what is to happen; only a fault takes so long, however busy the machine is."""

Held = TypeVar("Held")


@contextmanager
def started(words: Sequence[str], **how: Any) -> Iterator[subprocess.Popen[Any]]:
    """A program that is killed at the end, if it still runs then, so that no later test meets it or its pipes."""
    with subprocess.Popen(words, **how) as process:
        try:
            yield process
        finally:
            process.kill()


def eventually(holds: Callable[[], Held], said: Callable[[], object] = lambda: "it has not happened") -> Held:
    """Waits until something holds, and returns it; else the test fails with what is said."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (held := holds()):
        assert time.monotonic() < deadline, said()
        time.sleep(0.02)
    return held


def is_running(process: int) -> bool:
    """Whether a process runs; one that has ended and that nobody asked about may still have its number."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
