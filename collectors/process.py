"""Runs one program of a run in its own process group, follows it, and kills the group if necessary."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

POLL_S = 0.1
PATIENCE_S = 10.0
"""How long a program that was asked to end may take: nsys writes its report only then."""


def run(
    words: Sequence[str], log: Path, tick: Callable[[], None], *, cwd: Path | None = None, output: Path | None = None
) -> int:
    """Runs a program to its end; what it prints goes to the log.

    Args:
        words: the command line.
        log: a file that its output is added to.
        tick: called about ten times a second; raise KeyboardInterrupt there to end the program.
        cwd: the folder it runs in.
        output: a file for its standard output instead of the log.

    Returns:
        Its exit code; negative the number of the signal that ended it.

    Raises:
        OSError: it can't be started.
        KeyboardInterrupt: the user interrupted it; the whole process group has ended by then.
    """
    with log.open("ab") as out, (output or log).open("wb" if output else "ab") as standard:
        out.write(f"$ {' '.join(words)}\n".encode())
        out.flush()
        process = subprocess.Popen(
            list(words), stdin=subprocess.DEVNULL, stdout=standard, stderr=out, cwd=cwd, start_new_session=True
        )
        try:
            while True:
                try:
                    return process.wait(POLL_S)
                except subprocess.TimeoutExpired:  # noqa: PERF203  that is the wait
                    tick()
        except BaseException:
            end(process)
            raise


def end(process: subprocess.Popen[bytes]) -> None:
    """Tells the whole group to stop, with a stronger signal each time."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                process.wait(POLL_S)
            except subprocess.TimeoutExpired:
                continue
            except KeyboardInterrupt:  # the user asked twice: kill at once
                break
            return
