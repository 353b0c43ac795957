"""A terminal emulator, a program in a pseudo-terminal, and one that writes down what Textual would have sent."""

import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

import pyte
from programs import PATIENCE_SECONDS

UNKNOWN_TO_PYTE = re.compile(rb"\x1b\[[>=<?][0-9;]*\$?[a-zA-Z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
UNFINISHED = re.compile(rb"\x1b[^a-zA-Z\x07]*$")

RECORDED = """
import os, sys
from textual.events import Key
from tracetui.app.terminal import driver
from tracetui.app.cli.main import main
raw, typed = (open(sys.argv.pop(1), "ab", buffering=0) for _ in range(2))
class Recorded(driver.CellDriver):
    def write(self, data):
        raw.write(data.encode())
        super().write(data)
    def process_message(self, message):
        super().process_message(message)
        if isinstance(message, Key):
            typed.write(b".")
driver.CellDriver = Recorded
if "CRASHES" in os.environ:
    from tracetui.app.screen.tui import TracetuiApp
    TracetuiApp.action_redraw = lambda self: 1 / 0
if "PATIENT" in os.environ:
    driver.PATIENCE_SECONDS = 3600
sys.exit(main())
"""
"""`tracetui` with our driver. First arguments: files for what Textual wrote, and for a dot with each key that was read.

With CRASHES, Ctrl+L fails; with PATIENT, answers are waited for as long as it takes.
"""


class Emulator:
    """What a terminal shows."""

    def __init__(self, columns: int, lines: int) -> None:
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self._rest = b""

    def feed(self, data: bytes) -> None:
        data = self._rest + data
        unfinished = UNFINISHED.search(data)
        cut = unfinished.start() if unfinished else len(data)
        self._rest = data[cut:]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._stream.feed(UNKNOWN_TO_PYTE.sub(b"", data[:cut]))

    def resize(self, columns: int, lines: int) -> None:
        self.screen.resize(lines, columns)

    def clear(self) -> None:
        self.screen.reset()

    def cells(self) -> list[list[tuple[object, ...]]]:
        """All that a person sees: of a blank, only the background and the lines through it."""
        rows = []
        for y in range(self.screen.lines):
            row: list[tuple[object, ...]] = []
            for x in range(self.screen.columns):
                cell = self.screen.buffer[y][x]
                if cell.data == " " and not (cell.reverse or cell.underscore or cell.strikethrough):
                    row.append((" ", cell.bg))
                else:
                    row.append(tuple(cell))
            rows.append(row)
        return rows

    @property
    def text(self) -> str:
        return "\n".join(self.screen.display)


class Terminal:
    """The program on one end of a pty, this on the other."""

    def __init__(
        self,
        *arguments: str,
        size: tuple[int, int] = (80, 24),
        errors: int | None = None,
        command: Sequence[str] = (sys.executable, "-m", "tracetui.app", "open"),
        cwd: Path | None = None,
        **environment: str,
    ) -> None:
        self.master, slave = pty.openpty()
        ioctl(slave, TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        clean = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLORTERM", "SSH_CONNECTION", "TEXTUAL")}
        self.process = subprocess.Popen(
            [*command, *arguments],
            stdin=slave, stdout=slave, stderr=slave if errors is None else errors, start_new_session=True,
            cwd=cwd, env={**clean, "TERM": "xterm-256color", **environment},
        )  # fmt: skip
        os.close(slave)
        self.seen = b""
        self.screen = Emulator(*size)

    def read(self, seconds: float) -> bytes:
        """What comes within a time."""
        got, deadline = b"", time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self.master], [], [], left)[0]:
                try:
                    chunk = os.read(self.master, 65536)
                except OSError:
                    break
                if not chunk:
                    break
                got += chunk
        self.seen += got
        self.screen.feed(got)
        return got

    def until(self, words: str) -> None:
        """Reads until some words are on the screen."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while words not in self.screen.text:
            assert time.monotonic() < deadline, self.screen.text
            self.read(0.05)

    def quiet(self) -> None:
        """Reads until nothing has come for a while."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.read(0.8):
            assert time.monotonic() < deadline, "it goes on sending"

    def press(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def quit(self, keys: bytes = b"q") -> int:
        """Presses q and waits for the end; its exit code."""
        self.press(keys)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline
            self.read(0.05)
        self.read(0.2)
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.master)
