"""Drives the screen in tests: waits for its jobs, reads what it shows as plain text."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import shared_analyses
import textual.app
import textual.pilot
import textual.screen
from textual import events
from textual.css.stylesheet import Stylesheet

from tracetui.app.screen.tui import TracetuiApp
from tracetui.app.session import jobs
from tracetui.app.widgets.prompt import Prompt

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from textual.app import App
    from textual.css.model import RuleSet
    from textual.pilot import Pilot

PATIENCE_SECONDS = 60
QUIET_LOOKS = 3
"""How often in a row no job must be seen until the screen counts as idle."""


def screen_text(app: App[Any]) -> str:
    """What the terminal shows, a line per row, without trailing spaces."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


async def drained(_min_sleep: float = 0, _max_sleep: float = 0) -> None:
    """Waits until the event loop has nothing left to do but to wait: every message has been handled.

    It takes the place of Textual's own wait for keys and pauses, which looks every 20 ms whether the process has
    stopped computing; that takes longer, and a busy machine looks idle to it.
    """
    loop = asyncio.get_running_loop()
    idle = 0
    while idle < QUIET_LOOKS:  # each look lets the loop collect what threads and timers have sent
        await asyncio.sleep(0)
        idle = 0 if loop._ready else idle + 1  # type: ignore[attr-defined]


# Nothing is drawn on a clock's tick: `settle` draws when the screen has come to rest.
textual.screen.UPDATE_PERIOD = PATIENCE_SECONDS  # type: ignore[misc]
textual.app.wait_for_idle = textual.pilot.wait_for_idle = drained  # type: ignore[attr-defined]

_parse = Stylesheet._parse_rules
_parsed: dict[tuple[Any, ...], list[RuleSet]] = {}


def _parsed_once(sheet: Stylesheet, css: str, *place: Any, **origin: Any) -> list[RuleSet]:
    """Parses a style sheet once for all apps that have it and the same colours."""
    key = (tuple(sheet._variables.items()), css, place, tuple(origin.items()))
    if key not in _parsed:
        _parsed[key] = _parse(sheet, css, *place, **origin)
    return _parsed[key]


Stylesheet._parse_rules = _parsed_once  # type: ignore[method-assign]
shared_analyses.begin()


async def settle(pilot: Pilot[Any]) -> None:
    """Waits until no job is under way and the screen has been drawn; the end of one job may begin the next."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE_SECONDS
    quiet = 0
    while quiet < QUIET_LOOKS:
        if loop.time() > deadline:
            raise TimeoutError("a job of the screen has not ended")
        await drained()
        if pilot.app._resize_timer is not None:
            pilot.app._check_resize()
        pilot.app.screen._on_timer_update()
        if busy := jobs.busy():
            await asyncio.to_thread(jobs.wait, "", PATIENCE_SECONDS)
        quiet = 0 if busy or loop._ready else quiet + 1  # type: ignore[attr-defined]


async def press(pilot: Pilot[Any], *keys: str) -> None:
    """Presses keys one by one, and waits after each for everything that it starts."""
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


async def write(pilot: Pilot[Any], text: str) -> None:
    """Pastes a text into the line that has the keys, and waits for the pause after which the screen follows."""
    pilot.app.focused.post_message(events.Paste(text))
    await pilot.pause()  # the line has it
    await pilot.pause()  # and what the line is part of knows
    for prompt in pilot.app.screen.query(Prompt):
        while (pending := prompt._pending) is not None and pending._task is not None and not pending._task.done():
            await asyncio.sleep(0.005)  # the pause after which the screen follows
    await settle(pilot)


@asynccontextmanager
async def opened(
    *paths: Path, size: tuple[int, int] = (80, 24), **options: Any
) -> AsyncIterator[tuple[TracetuiApp, Pilot[None]]]:
    """The app with its run read and its first tab drawn."""
    os.environ.pop("NO_COLOR", None)
    app = TracetuiApp(paths, **options)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        yield app, pilot
        assert not app.shell.errors, app.shell.errors[0]
