"""Measures the bytes sent and the time to the picture for each user action, with Textual's own driver and with ours.

    python benchmarks/bytes.py [--sizes 80x24 200x60] [--colors truecolor 16] [--rates 0 30 8] [--round-trip 0]

The program runs in a pseudo-terminal on the bundled vim_tiny sample. The reader at its other end takes as many KB/s as
the rate says (0: all at once) and answers questions as a terminal does, after the round trip. Times of a key are those
to the first and to the last byte of its pictures; the lag is how long pictures go on after a held key is released.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pty
import re
import select
import signal
import statistics
import struct
import sys
import termios
import threading
import time
from collections import deque
from fcntl import ioctl

DRIVERS = ("stock", "cells")
QUESTIONS = {b"\x1b[?2026$p": b"\x1b[?2026;2$y", b"\x1b[5n": b"\x1b[0n"}
QUESTION = re.compile(b"|".join(map(re.escape, QUESTIONS)))
LONGEST = max(map(len, QUESTIONS))
QUIET_SECONDS = 0.5
LONGEST_START = 90
"""Seconds until the first picture, on a slow line too."""
LOADING = """
import sys, time
import tracetui.parsers
from pathlib import Path
from tracetui.app.cli.main import main
from tracetui.parsers.progress import Progress
def slow(*paths, progress, cancel, cache):
    for number in range(100_000):
        if cancel.wait(0.01):
            raise tracetui.parsers.Cancelled
        done = number * 1_000_000
        progress(Progress("reading", done, 10**11, number * 3000, Path(paths[0])))
tracetui.parsers.open_path = slow
main(sys.argv[1:])
"""
"""A reader that has news a hundred times a second, and never ends."""


class Line:
    """The program at the far end of a line that carries so many bytes a second."""

    def __init__(self, command: list[str], size: str, rate: float, round_trip: float) -> None:
        self._rate, self._round_trip = rate, round_trip
        self.bytes = 0
        self._awaited, self._came = b"", b""
        self.first: float | None = None
        self.last = 0.0
        self._owed: deque[tuple[float, bytes]] = deque()
        self._tail = b""
        self._ended = False
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.execvpe(command[0], command, {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"})
        columns, lines = map(int, size.split("x"))
        ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while not self._ended:
            while self._owed and self._owed[0][0] <= time.perf_counter():
                os.write(self.terminal, self._owed.popleft()[1])
            if not select.select([self.terminal], [], [], 0.002)[0]:
                continue
            began = time.perf_counter()
            try:
                piece = os.read(self.terminal, 128 if self._rate else 1 << 16)
            except OSError:
                return
            if self._rate:
                time.sleep(max(len(piece) / self._rate - (time.perf_counter() - began), 0))
            self.bytes += len(piece)
            self.took(piece)
            if self._awaited:
                self._came += piece
            self.last = time.perf_counter()
            self.first = self.first or self.last
            tail = self._tail + piece
            end = 0
            for question in QUESTION.finditer(tail):
                self._owed.append((self.last + self._round_trip, QUESTIONS[question[0]]))
                end = question.end()
            self._tail = tail[max(end, len(tail) - LONGEST + 1) :]

    def took(self, piece: bytes) -> None:
        """Handles received bytes."""

    def begin(self, words: bytes, quiet: float = 2.0, key: bytes = b"") -> None:
        """Waits until these words are painted, however long a busy machine takes, and then until nothing comes.

        Args:
            words: as they follow a change of the picture, in one piece.
            quiet: seconds without a byte.
            key: pressed first.
        """
        self._awaited = words
        os.write(self.terminal, key)
        begin = time.perf_counter()
        while words not in self._came and time.perf_counter() - begin < LONGEST_START:
            time.sleep(0.01)
        if words not in self._came:
            raise SystemExit(f"{words.decode()!r} was not painted within {LONGEST_START} s")
        self._awaited, self._came = b"", b""
        self.settle(quiet)

    def settle(self, quiet: float = QUIET_SECONDS, limit: float = 120) -> None:
        """Waits until nothing has come for a while."""
        begin = time.perf_counter()
        while time.perf_counter() - max(self.last, begin) < quiet and time.perf_counter() - begin < limit:
            time.sleep(0.01)

    def press(self, key: bytes) -> tuple[int, float, float]:
        """Bytes that answer a key, and milliseconds to the first and to the last of them."""
        before, self.first, begin = self.bytes, None, time.perf_counter()
        os.write(self.terminal, key)
        self.settle()
        if self.first is None:
            return 0, 0.0, 0.0
        return self.bytes - before, 1000 * (self.first - begin), 1000 * (self.last - begin)

    def hold(self, key: bytes, seconds: float = 3, rate: float = 30) -> tuple[int, float]:
        """Bytes while a key is held, and the seconds that pictures go on after its release."""
        before, begin = self.bytes, time.perf_counter()
        for number in range(int(seconds * rate)):
            time.sleep(max(begin + number / rate - time.perf_counter(), 0))
            os.write(self.terminal, key)
        released = time.perf_counter()
        self.settle()
        return self.bytes - before, max(self.last - released, 0)

    def idle(self, seconds: float = 3) -> float:
        """Bytes per second while nobody does anything."""
        before = self.bytes
        time.sleep(seconds)
        return (self.bytes - before) / seconds

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        self._ended = True
        self._thread.join()
        os.close(self.terminal)


def program(driver: str, color: str, *more: str) -> list[str]:
    return [sys.executable, "-m", "tracetui.app", "open", "--sample", "--driver", driver, "--color", color, *more]


def actions(driver: str, size: str, color: str, rate: float, round_trip: float) -> dict[str, str]:
    """Yields each action and what it cost."""
    begin = time.perf_counter()
    line = Line(program(driver, color), size, rate, round_trip)
    line.begin(b"Waits for")
    found = {"first paint": f"{line.bytes:,} B  {line.last - begin:.2f} s"}

    def row(name: str, *keys: bytes) -> None:
        took = [line.press(key) for key in keys]
        count, first, last = (statistics.median(values) for values in zip(*took, strict=True))
        found[name] = f"{count:,.0f} B  {first:.0f} to {last:.0f} ms"

    row("switch tab", b"2", b"3", b"2")
    line.press(b"\x1b[B")
    row("cursor down", *[b"\x1b[B"] * 5)
    line.press(b"4")  # has rows for many pages
    row("page down", *[b"\x1b[6~"] * 3)
    line.press(b"2")
    line.press(b"T")
    line.settle(3.0)
    line.press(b"V")  # without arrows
    for key in (b"w", b"w", b"w"):
        line.press(key)
    row("timeline: pan", *[b"d"] * 5)
    row("timeline: zoom", *[b"w"] * 3, *[b"s"] * 3)
    line.press(b"V")
    row("timeline: next event, with its arrow", *[b"."] * 5)
    line.press(b"2")
    row("palette open", b"\x10")
    found["palette open and idle, per second"] = f"{line.idle():,.0f} B"
    line.press(b"\x1b")
    found["idle, per second"] = f"{line.idle():,.0f} B"
    if not rate:
        row("move of the mouse", b"\x1b[<35;20;10M", b"\x1b[<35;21;11M")
    line.close()
    line = Line(program(driver, color, "--tab", "host"), size, rate, round_trip)  # has hundreds of rows
    line.begin(b"Host functions")
    count, lag = line.hold(b"\x1b[B")
    found["key held 3 s"] = f"{count:,} B  {lag:.2f} s lag"
    line.close()
    if not rate:
        slow = [sys.executable, "-c", LOADING, "open", "--sample", "--driver", driver, "--color", color]
        line = Line(slow, size, rate, round_trip)
        line.begin(b"keep what was read", 0.0)
        time.sleep(2)
        found["while loading, per second"] = f"{line.idle(5):,.0f} B"
        line.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["80x24", "200x60"])
    parser.add_argument("--colors", nargs="+", default=["truecolor", "16"])
    parser.add_argument("--rates", nargs="+", type=float, default=[0, 30, 8], help="KB/s; 0 is no limit")
    parser.add_argument("--round-trip", type=float, default=0, help="milliseconds until the terminal's answer is back")
    options = parser.parse_args()
    for name in ("NO_COLOR", "SSH_CONNECTION", "TRACETUI_DRIVER", "TMUX"):
        os.environ.pop(name, None)
    os.environ["TRACETUI_NO_STATE"] = "1"
    for size in options.sizes:
        for color in options.colors:
            for rate in options.rates:
                found = [actions(driver, size, color, 1000 * rate, options.round_trip / 1000) for driver in DRIVERS]
                print(f"\n{size}, {color}, {f'{rate:g} KB/s' if rate else 'no limit'}\n")
                print("| action | Textual's driver | ours |\n|---|--:|--:|")
                for name in found[0]:
                    print(f"| {name} | {found[0][name]} | {found[1][name]} |", flush=True)


if __name__ == "__main__":
    main()
