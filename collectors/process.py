"""Runs one program of a run and follows it; whatever it has started ends with it (`keeper`)."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tracetui.collectors import keeper
from tracetui.collectors.machine.masking import masked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

POLL_S = 0.1
PATIENCE_S = 10.0
"""How long a program that was asked to end may take: nsys writes its report only then."""
OWN_ONLY = 0o600
"""The mode of a log: a program may print anything."""
_END = b"e"


def run(
    words: Sequence[str], log: Path, tick: Callable[[], None], *, cwd: Path | None = None, output: Path | None = None
) -> int:
    """Runs a program to its end; what it prints goes to the log, of which the first and the last MiB are kept.

    Args:
        words: the command line.
        log: a file that its output is added to.
        tick: called about ten times a second; raise there to end the program.
        cwd: the folder it runs in.
        output: a file for its standard output instead of the log.

    Returns:
        Its exit code; negative the number of the signal that ended it. Nothing that it has started runs any more.

    Raises:
        OSError: it can't be started.
        BaseException: what `tick` raised; the program, and what it has started, have ended by then.
    """
    log.touch(mode=OWN_ONLY)
    with log.open("ab") as out:
        out.write(f"$ {' '.join(masked(words))}\n".encode())
    heard, orders = os.pipe()
    told, said = os.pipe()
    command = [sys.executable, "-I", "-S", keeper.__file__, str(heard), str(said), str(PATIENCE_S), str(log.absolute())]
    try:
        with log.open("ab") as errors:
            process = subprocess.Popen(
                [*command, "" if output is None else str(output.absolute()), *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                cwd=cwd,
                pass_fds=(heard, said),
                start_new_session=True,
            )
    except OSError:
        os.close(orders)
        os.close(told)
        raise
    finally:
        os.close(heard)
        os.close(said)
    try:
        with os.fdopen(told, "rb") as answer:
            if number := answer.read():
                process.wait()
                raise OSError(int(number), os.strerror(int(number)), words[0])
        return _followed(process, orders, tick)
    finally:
        os.close(orders)


def _followed(process: subprocess.Popen[bytes], orders: int, tick: Callable[[], None]) -> int:
    """Waits for the end of the program; has it ended when `tick` raises, and killed when Ctrl+C comes once more."""
    try:
        while True:
            try:
                return process.wait(POLL_S)
            except subprocess.TimeoutExpired:  # noqa: PERF203  that is the wait
                tick()
    except BaseException:
        order = _END
        while process.returncode is None:
            try:
                with contextlib.suppress(BrokenPipeError):
                    os.write(orders, order)
                process.wait()
            except KeyboardInterrupt:  # noqa: PERF203  the user asked twice
                order = keeper.KILL_NOW
        raise
