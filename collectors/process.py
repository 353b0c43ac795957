"""Runs one program of a run in its own process group, follows it, and kills the group if necessary."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    """Tells the whole group to stop, with a stronger signal each time, until none of it runs.

    The program is the leader of a session of its own, so Ctrl+C on the terminal reaches only tracetui, which ends here
    what it launched. What the program has launched may outlive it: a shell's background jobs ignore SIGINT.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        deadline = time.monotonic() + PATIENCE_S
        try:
            while time.monotonic() < deadline:
                if process.poll() is not None and not group_runs(process.pid):
                    return
                time.sleep(POLL_S)
        except KeyboardInterrupt:  # the user asked twice: kill at once
            continue


def group_runs(group: int) -> bool:
    """Returns whether a process of this group runs; one that has ended and that nobody asks about does not."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's process
        return True
    states = [state for state, of in map(_state_and_group, Path("/proc").glob("[0-9]*/stat")) if of == group]
    return not states or any(state not in ("Z", "X") for state in states)


def _state_and_group(stat: Path) -> tuple[str, int]:
    """Returns a process's state and group, as proc(5) has them behind its name, which may hold anything."""
    try:
        state, _, group = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
        return state, int(group)
    except (OSError, ValueError):  # it has just ended
        return "X", -1
