"""What the screen is drawn on."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from typing import TextIO


def shows(stream: TextIO | None) -> bool:
    """Returns whether a stream is a terminal."""
    return stream is not None and stream.isatty()


def screen_file() -> TextIOWrapper | None:
    """Returns what the screen is drawn on: standard error, or standard output where errors go to a file."""
    return sys.__stderr__ if shows(sys.__stderr__) or not shows(sys.__stdout__) else sys.__stdout__
