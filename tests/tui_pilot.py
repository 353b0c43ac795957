"""Drives the screen in tests: waits for its jobs, reads what it shows as plain text."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from weakref import WeakSet

import textual.app
import textual.pilot
import textual.screen
from programs import PATIENCE_SECONDS
from rich.segment import Segment
from textual import events
from textual.app import App
from textual.cache import FIFOCache
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot
from textual.strip import Strip
from textual.timer import Timer

from tracetui.app.screen.tui import TracetuiApp
from tracetui.app.session import jobs

QUIET_LOOKS = 3
"""How often in a row no job must be seen until the screen counts as idle."""
LONGEST_PAUSE_SECONDS = 1.0
"""What the screen does after a longer pause than this it does of its own, and nobody waits for it."""


def screen_text(app: App[Any]) -> str:
    """What the terminal shows, a line per row, without trailing spaces."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


def lines(app: App[Any]) -> list[str]:
    """The rows of the screen, the empty ones too."""
    return screen_text(app).split("\n")


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


_timers: WeakSet[Timer] = WeakSet()
"""Those that were started to go off once."""
_start = Timer._start


def _start_known(timer: Timer) -> None:
    """Starts a timer, and keeps in mind that something follows it."""
    _start(timer)
    if timer._repeat == 0 and timer._interval <= LONGEST_PAUSE_SECONDS:
        _timers.add(timer)


def _next_timer() -> Timer | None:
    """The shortest of the timers that have yet to go off in this test."""
    for timer in tuple(_timers):
        if timer._task is None or timer._task.done() or timer._task.get_loop() is not asyncio.get_running_loop():
            _timers.discard(timer)
    return min(_timers, key=lambda timer: timer._interval, default=None)


async def _work_ended(app: App[Any]) -> bool:
    """Waits for something that is under way, and returns whether there was anything.

    These are jobs, Textual's workers (the palette's search), and pauses after which something happens: after typing,
    and after the palette has closed, when Textual paints nothing for a moment. A pause ends at once when nothing else
    is under way, so that what a test sees does not depend on how fast the machine is.
    """
    if jobs.busy():
        await asyncio.to_thread(jobs.wait, "", PATIENCE_SECONDS)
        return True
    if tasks := [worker._task for worker in app.workers if worker._task is not None and not worker._task.done()]:
        await asyncio.wait(tasks, timeout=PATIENCE_SECONDS)
        return True
    if (timer := _next_timer()) is not None:
        timer.stop()
        with app._context():
            await timer._tick(next_timer=0, count=1)
        return True
    return False


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


CACHES = {
    "_divide_cache": 4, "_crop_cache": 16, "_style_cache": 16, "_filter_cache": 4, "_line_length_cache": 4,
    "_crop_extend_cache": 4, "_offsets_cache": 4,
}  # fmt: skip
"""The caches of each line that Textual draws, most of which are never used, with their sizes."""


def _without_caches(strip: Strip, segments: Iterable[Segment], cell_length: int | None = None) -> None:
    """Makes a line as Textual does, but for its caches."""
    strip._segments, strip._cell_length = list(segments), cell_length
    strip._render_cache = strip._link_ids = strip._cell_count = None


def _cache_when_used(strip: Strip, name: str) -> FIFOCache[Any, Any]:
    if name not in CACHES:
        raise AttributeError(name)
    made: FIFOCache[Any, Any] = FIFOCache(CACHES[name])
    setattr(strip, name, made)
    return made


assert CACHES.keys() == {name for name in Strip.__slots__ if name.endswith("_cache")} - {"_render_cache"}
Strip.__init__, Strip.__getattr__ = _without_caches, _cache_when_used  # type: ignore[method-assign,assignment,attr-defined]
RuleSet.__hash__ = object.__hash__  # type: ignore[method-assign] # the same, but not computed in Python
Stylesheet._parse_rules = _parsed_once  # type: ignore[method-assign]
Timer._start = _start_known  # type: ignore[method-assign]


async def settle(pilot: Pilot[Any]) -> None:
    """Waits until nothing is under way and the screen has been drawn; the end of one job may begin the next."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE_SECONDS
    quiet = 0
    while quiet < QUIET_LOOKS:
        if loop.time() > deadline:
            raise TimeoutError("a job of the screen has not ended")
        await drained()
        if await _work_ended(pilot.app) or _is_mounting(pilot.app):
            quiet = 0
            continue
        pilot.app.screen._on_timer_update()
        quiet = 0 if loop._ready else quiet + 1  # type: ignore[attr-defined]


def _is_mounting(app: App[Any]) -> bool:
    """Whether the view of the tab is made, and has not its widgets yet."""
    view = app.shell.made(app.tab) if isinstance(app, TracetuiApp) else None
    return view is not None and not view.is_mounted


async def press(pilot: Pilot[Any], *keys: str) -> None:
    """Presses keys one by one, and waits after each for everything that it starts."""
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


async def write(pilot: Pilot[Any], text: str) -> None:
    """Pastes a text into the line that has the keys, and waits for the pause after which the screen follows."""
    pilot.app.focused.post_message(events.Paste(text))
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
