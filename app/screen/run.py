"""Starts the screen as the terminal and the user's settings require."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from textual import constants

from tracetui.app.screen.tui import TracetuiApp
from tracetui.app.settings.theme import settle_color
from tracetui.app.terminal.choice import driver_class
from tracetui.app.text.exit_codes import UsageError

REMOTE_ESCAPE_SECONDS = 0.4


def run_tui(
    paths: Sequence[Path], *, color: str, mouse: bool | None, driver: str, low_bandwidth: bool | None, **options: Any
) -> int:
    """Shows runs until the user quits; returns the exit code.

    Args:
        paths: run A, then B to compare with, then more for the list of runs; if empty, the start screen asks.
        color: auto, never, 16, 256 or truecolor.
        mouse: None means on, but off over SSH, where every pointer motion costs kilobytes.
        driver: what sends the screen, one of `terminal.choice.DRIVERS`.
        low_bandwidth: None means on over SSH.
        options: the others of `TracetuiApp`.

    Raises:
        UsageError: there is no such run.
    """
    remote = "SSH_CONNECTION" in os.environ
    if remote and "ESCDELAY" not in os.environ:
        # a slow link may spread the three bytes of an arrow key over more than the usual 0.1 s
        constants.ESCAPE_DELAY = REMOTE_ESCAPE_SECONDS  # type: ignore[misc]
    slow = remote if low_bandwidth is None else low_bandwidth
    app = TracetuiApp(
        paths, color=settle_color(color), low_bandwidth=slow, driver_class=driver_class(driver), **options
    )
    app.run(mouse=not remote if mouse is None else mouse)
    app.ranges.stop()
    # a module that was never imported has written nothing, nor one that a reading thread is still importing
    if abandon := getattr(sys.modules.get("tracetui.parsers.runs.entries"), "abandon", None):
        abandon()
    if app.runs.usage:
        raise UsageError(app.runs.usage)
    return app.runs.exit_code or app.return_code or 0
