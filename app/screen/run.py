"""How the screen is started, as the terminal and the person's settings ask for."""

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
    """Shows runs until the person quits; the exit code.

    Args:
        paths: run A, B to compare with, and more for the list of runs; none asks which.
        scope: what the numbers are about.
        rank: the distributed rank to show first.
        source: the tool whose recording to show first (`TraceInfo.kind`).
        tab: the tab to begin with.
        filter: a filter in force from the start.
        run: which run to look at first, by letter or name, of a folder with several or of several paths.
        samples: recordings to offer where no path is given.
        color: auto, never, 16, 256 or truecolor.
        ascii: no characters outside ASCII.
        mouse: null is on, but off over SSH, where every motion of the pointer costs kilobytes.
        driver: what sends the screen, one of `terminal.choice.DRIVERS`.
        low_bandwidth: null is over SSH.
        cache: use the cache of parsed traces, and remember what was opened.
        settings: what else the person prefers.

    Raises:
        UsageError: there is no such run.
    """
    remote = "SSH_CONNECTION" in os.environ
    color = settle_color(color)
    if remote and "ESCDELAY" not in os.environ:
        # a slow link may split the three bytes of an arrow key by more than the usual 0.1 s
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
    if kept := sys.modules.get("tracetui.parsers.runs.cache"):  # nothing is half written that was never imported
        kept.abandon()
    if app.runs.usage:
        raise UsageError(app.runs.usage)
    return app.runs.exit_code or app.return_code or 0
