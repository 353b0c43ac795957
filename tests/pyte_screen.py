"""A terminal emulator's view of a byte stream, and a program that writes down what Textual would have sent."""

from __future__ import annotations

import re
import warnings

import pyte

UNKNOWN_TO_PYTE = re.compile(rb"\x1b\[[>=<?][0-9;]*\$?[a-zA-Z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
UNFINISHED = re.compile(rb"\x1b[^a-zA-Z\x07]*$")

RECORDED = """
import os, sys
from textual.events import Key
from tracetui.app.terminal import driver
from tracetui.app.cli.main import main
from tracetui.app.terminal import sender
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
    sender.PATIENCE_SECONDS = 3600
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
