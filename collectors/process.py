"""Runs one program of a run and follows it; whatever it has started ends with it (`keeper`)."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tracetui.collectors import keeper
from tracetui.collectors.machine.masking import masked

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


@dataclass(frozen=True)
class Tick:
    """How far a run has come."""

    tool: str
    phase: str
    """``building``, ``warm-up``, ``clean``, ``light``, ``profiling``, ``writing``, ``sampling``, ``comparing``,
    ``recorded, …`` (what the program then does), ``exporting``"""
    step: int = 0
    of: int = 0
    pid: int | None = None
    """While it waits for a sampler, the process to sample; 0 when that has ended."""
    workers: bool = False
    """Whether that has processes of its own, which are to be sampled too."""
    elapsed_s: float = 0.0
    power: dict[str, Any] | None = None
    """The newest sample of the machine's state (`parsers.runs.manifest.PowerState`)."""


@dataclass
class Outcome:
    """How a run ended."""

    status: str
    """``finished``, ``failed`` or ``interrupted``"""
    folder: Path
    exit_code: int = 0
    problems: list[str] = field(default_factory=list)
    """What went wrong or was left out, one line each."""


class Follower:
    """Reads what the child adds to its progress file."""

    def __init__(self, path: Path, first: Tick, begun: float | None = None) -> None:
        """Follows from here on.

        Args:
            path: the progress file; what is in it by now is of an earlier child.
            first: the state until the child reports one.
            begun: when the run began, on the monotonic clock; now if None.
        """
        self._path = path
        self._at = path.stat().st_size if path.exists() else 0
        self._state = first
        self._begun = time.monotonic() if begun is None else begun

    def newest(self) -> Tick:
        """The state that the last complete new line reports; the previous one if there is no new line."""
        lines, _, _ = self._added().rpartition(b"\n")
        if lines:
            self._at += len(lines) + 1
            with contextlib.suppress(ValueError, KeyError, TypeError):
                said = json.loads(lines.splitlines()[-1])
                pid = said.get("pid")
                self._state = Tick(
                    self._state.tool,
                    str(said["phase"]),
                    int(said["step"]),
                    int(said["of"]),
                    pid if isinstance(pid, int) else None,
                    workers=said.get("workers") is True,
                )
        return replace(self._state, elapsed_s=time.monotonic() - self._begun)

    def _added(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                return file.read()
        except OSError:
            return b""
