"""A program that stands between tracetui and a program of a run: whatever that one starts ends with it.

`process.run` starts it, with the standard library alone. It is the one to which the system gives the children of
processes that have ended (PR_SET_CHILD_SUBREAPER in prctl(2)), so it finds all of them, whichever session or group they
have gone to. It ends them when the program has ended, when it is told to, and when tracetui is gone, killed or not.

Its arguments: two file descriptors (one to read orders from, one to write the number of the error to if the program
can't be started), the seconds of patience, the log, a file for standard output or nothing, and the program's words.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

KILL_NOW = b"k"
"""The order to kill everything; any other order, and the end of the orders, asks the program to end first."""
LOG_HEAD = LOG_TAIL = 1 << 20
"""Bytes of the program's first and last words that are kept."""
_LOOK_S = 0.1
_ASKED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that ask this program to end what it keeps."""
_SUBREAPER, _DEATH_SIGNAL = 36, 1
"""PR_SET_CHILD_SUBREAPER and PR_SET_PDEATHSIG of prctl(2)."""


class Log:
    """Keeps the first and the last of what is written; what is between is counted."""

    def __init__(self, file: IO[bytes]) -> None:
        file.seek(0, os.SEEK_END)
        self._file = file
        self._head_end = file.tell() + LOG_HEAD
        self._left_out = 0
        self._marker = b""

    def write(self, text: bytes) -> None:
        """Adds a text; where the whole has grown too long, its middle goes. On a full disk the text is lost."""
        with contextlib.suppress(OSError):
            self._write(text)

    def _write(self, text: bytes) -> None:
        self._file.write(text)
        end = self._file.tell()
        if end <= self._head_end + 2 * LOG_TAIL:
            return
        self._file.seek(end - LOG_TAIL)
        tail = self._file.read()
        self._left_out += end - LOG_TAIL - self._head_end - len(self._marker)
        self._marker = b"\n[%d bytes left out]\n" % self._left_out
        self._file.seek(self._head_end)
        self._file.truncate()
        self._file.write(self._marker + tail)


class Keeper:
    """Follows one program and ends what it leaves."""

    def __init__(self, program: int, patience_s: float) -> None:
        self._program = program
        self._patience_s = patience_s
        self._signals = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]
        self._deadline: float | None = None
        """When the next signal is due; null as long as nothing is to end."""
        self.status: int | None = None
        """How the program ended, as waitpid(2) has it; null while it runs."""

    def reap(self) -> None:
        """Takes note of children that have ended, adopted ones among them."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self._program:
                    self.status = ended[1]

    def end(self, *, at_once: bool = False) -> None:
        """Begins to end everything."""
        if at_once:
            self._signals = [signal.SIGKILL]
        if at_once or self._deadline is None:
            self._deadline = time.monotonic()

    def look(self) -> bool:
        """Sends the signal that is due; returns whether everything has ended, or will not end by any signal."""
        self.reap()
        left = descendants(os.getpid())
        if self.status is not None:
            if not left:
                self.reap()  # who ended since the last look
                return True
            if self._deadline is None or signal.SIGINT in self._signals:  # nobody is left whom SIGINT would reach
                self._signals = [signal.SIGTERM, signal.SIGKILL]
                self._deadline = time.monotonic()
        if self._deadline is None or time.monotonic() < self._deadline:
            return False
        if not self._signals:
            return True
        number = self._signals.pop(0)
        if self.status is None:  # else its number may be another group's by now
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._program, number)
        for process in left if number != signal.SIGINT else ():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, number)
        self._deadline = time.monotonic() + self._patience_s
        return False

    @property
    def ending(self) -> bool:
        """Returns whether everything is about to end."""
        return self._deadline is not None or self.status is not None


def descendants(of: int) -> list[int]:
    """The processes that come from this one and run; none where there is no /proc."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text(errors="replace").rpartition(")")[2].split()[:2]
        except (OSError, ValueError):  # it has just ended
            continue
        if state not in "ZX":
            children.setdefault(int(parent), []).append(int(stat.parent.name))
    found = list(children.get(of, ()))
    for process in found:  # grows while it is walked
        found += children.get(process, ())
    return found


def main(arguments: list[str]) -> int:
    """Runs the program to its end; returns its exit code, or the number of the signal that ended it, negative."""
    orders, said, patience, log, output, *words = arguments
    _prctl(_SUBREAPER, 1)
    read, write = os.pipe()
    os.set_blocking(read, False)
    awake = _wakes()
    try:
        with open(output, "wb") if output else contextlib.nullcontext(write) as standard:  # noqa: PTH123
            program = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=standard,
                stderr=write,
                start_new_session=True,
                preexec_fn=lambda: _prctl(_DEATH_SIGNAL, signal.SIGKILL),
            )
    except OSError as error:
        os.write(int(said), str(error.errno).encode())
        return 0
    os.close(int(said))
    os.close(write)
    keeper = Keeper(program.pid, float(patience))
    try:
        with open(log, "r+b", buffering=0) as file:  # noqa: PTH123
            _follow(keeper, Log(file), int(orders), read, awake)
    finally:
        for process in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
    return -signal.SIGKILL if keeper.status is None else os.waitstatus_to_exitcode(keeper.status)


def _wakes() -> int:
    """Has signals wake the loop instead of ending this program; returns where their numbers can be read."""
    awake, waker = os.pipe()
    os.set_blocking(awake, False)
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    for number in (*_ASKED, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    return awake


def _follow(keeper: Keeper, log: Log, orders: int, read: int, awake: int) -> None:
    """Logs what the program prints and does what is asked, until everything has ended."""
    selector = selectors.DefaultSelector()
    for source in (orders, read, awake):
        selector.register(source, selectors.EVENT_READ)
    while not (keeper.ending and keeper.look()):
        for key, _ in selector.select(_LOOK_S if keeper.ending else None):
            text = os.read(key.fd, 1 << 16)
            if key.fd == read:
                log.write(text)
            elif key.fd == awake:
                keeper.reap()
                if any(number in text for number in _ASKED):
                    keeper.end()
            else:
                keeper.end(at_once=KILL_NOW in text)
            if not text:
                selector.unregister(key.fd)
    with contextlib.suppress(BlockingIOError):
        while text := os.read(read, 1 << 16):
            log.write(text)


def _prctl(what: int, value: int) -> None:
    """Sets an attribute of this process; does nothing on systems without prctl(2)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(what, value, 0, 0, 0)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    if code < 0:  # it ends as the program did
        with contextlib.suppress(ImportError, OSError, ValueError):
            import resource

            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
