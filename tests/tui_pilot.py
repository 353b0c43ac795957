"""Drives the screen in tests: waits for its jobs, reads what it shows as plain text."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from textual import events

from tracetui.app.screen.tui import TracetuiApp
from tracetui.app.session import jobs
from tracetui.app.widgets.prompt import Prompt

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from textual.app import App
    from textual.pilot import Pilot

PATIENCE_SECONDS = 60
QUIET_LOOKS = 3
"""How often in a row no job must be seen until the screen counts as idle."""


def screen_text(app: App[Any]) -> str:
    """What the terminal shows, a line per row, without trailing spaces."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


async def settle(pilot: Pilot[Any]) -> None:
    """Waits until no job is under way and the screen has been drawn; the end of one job may begin the next."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    quiet = 0
    while quiet < QUIET_LOOKS:
        if asyncio.get_running_loop().time() > deadline:
            raise TimeoutError("a job of the screen has not ended")
        await pilot.pause()
        quiet = 0 if jobs.busy() else quiet + 1
        await asyncio.sleep(0.005)


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
