"""Starts the screen as the terminal and the user's settings require."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from textual import constants

from tracetui.app.screen.tui import TracetuiApp
from tracetui.app.settings.theme import settle_color
from tracetui.app.terminal.choice import driver_class
from tracetui.app.text.exit_codes import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tracetui.analysis.scope import Scope
    from tracetui.app.settings.schema import Settings

REMOTE_ESCAPE_SECONDS = 0.4


def run_tui(
    paths: Sequence[Path],
    *,
    scope: Scope | None = None,
    rank: int | None = None,
    source: str | None = None,
    tab: str | None = None,
    filter: str | None = None,
    run: str | None = None,
    samples: Sequence[Path] = (),
    color: str = "auto",
    ascii: bool = False,
    mouse: bool | None = None,
    driver: str = "auto",
    low_bandwidth: bool | None = None,
    cache: bool = True,
    settings: Settings | None = None,
) -> int:
    """Shows runs until the user quits; returns the exit code.

    Args:
        paths: run A, then B to compare with, then more for the list of runs; if empty, the start screen asks.
        scope: what the numbers cover.
        rank: the distributed rank to show first.
        source: the tool whose recording to show first (`TraceInfo.kind`).
        tab: the tab to start on.
        filter: the initial filter.
        run: which run to view first, by letter or name, if a folder or the paths hold several.
        samples: recordings to offer if no path is given.
        color: auto, never, 16, 256 or truecolor.
        ascii: no characters outside ASCII.
        mouse: None means on, but off over SSH, where every pointer motion costs kilobytes.
        driver: what sends the screen, one of `terminal.choice.DRIVERS`.
        low_bandwidth: None means on over SSH.
        cache: use the cache of parsed traces, and remember what was opened.
        settings: the user's other settings.

    Raises:
        UsageError: there is no such run.
    """
    remote = "SSH_CONNECTION" in os.environ
    color = settle_color(color)
    if remote and "ESCDELAY" not in os.environ:
        # a slow link may spread the three bytes of an arrow key over more than the usual 0.1 s
        constants.ESCAPE_DELAY = REMOTE_ESCAPE_SECONDS  # type: ignore[misc]
    app = TracetuiApp(
        paths,
        scope=scope,
        rank=rank,
        source=source,
        tab=tab,
        filter=filter,
        run=run,
        samples=samples,
        color=color,
        ascii=ascii,
        low_bandwidth=remote if low_bandwidth is None else low_bandwidth,
        cache=cache,
        driver_class=driver_class(driver),
        settings=settings,
    )
    app.run(mouse=not remote if mouse is None else mouse)
    app.ranges.stop()
    # a module that was never imported has written nothing, nor one that a reading thread is still importing
    if abandon := getattr(sys.modules.get("tracetui.parsers.runs.entries"), "abandon", None):
        abandon()
    if app.runs.usage:
        raise UsageError(app.runs.usage)
    return app.runs.exit_code or app.return_code or 0
