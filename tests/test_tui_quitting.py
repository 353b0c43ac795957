"""Closing at any moment: nothing fails, nothing is said on the terminal, and what was to be kept is kept."""

import asyncio
import json
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import pytest
from sample_runs import FP32
from textual import events, messages
from textual._context import message_hook
from textual.app import ScreenError
from textual.pilot import Pilot

import tracetui.parsers
from tracetui.app.screen import keyboard
from tracetui.app.screen import restoring as left
from tracetui.app.screen.run import run_tui
from tracetui.app.screen.tui import TracetuiApp
from tracetui.app.session import jobs
from tracetui.app.text.exit_codes import DONE
from tracetui.app.widgets.lines import TabBar
from tracetui.parsers import Cancelled, Run, open_path

LONGEST_SECONDS = 60
"""Of one visit; only where the program never ends."""
TURNS = 500
"""Of the event loop, until a key has surely been read."""
JOBS = "jobs"
"""A step in which all jobs end that are under way, and those that they lead to."""


SIZE = 60, 14
"""Columns and rows: few, since what is painted is not looked at."""


class Scene(NamedTuple):
    """What is on the screen, and what is going on, when the program is to end."""

    name: str
    before: tuple[str, ...]
    """Keys and ends of jobs, each done with before the next."""
    last: str = ""
    """The key in whose wake the program ends; none at the start."""
    paths: int = 1


READ = (JOBS,)
SCENES = (
    Scene("start", ()),
    Scene("the start screen", (), paths=0),
    Scene("reading", (), "2"),
    Scene("reading ends", (), JOBS),
    Scene("two runs are being read", (), JOBS, paths=2),
    Scene("a tab for the first time", READ, "2"),
    Scene("a tab computes", (*READ, "2"), "3"),
    Scene("a tab again", (*READ, "2", JOBS), "1"),
    Scene("the timeline", READ, "T"),
    Scene("findings", (*READ, "8"), JOBS),
    Scene("a row's launches", (*READ, "2", JOBS), "enter"),
    Scene("the help", READ, "question_mark"),
    Scene("the palette", READ, "ctrl+p"),
    Scene("another run is asked for", READ, "o"),
    Scene("the list of runs", READ, "r", paths=2),
    Scene("a run is chosen", (*READ, "N", "down"), "enter", paths=2),
    Scene("a filter is typed", (*READ, "2", JOBS, "slash"), "g"),
)
COUNTS = (1, 6, 25)
"""The program is to end after so many messages, counted over all parts of the screen."""


def hang_up(app: TracetuiApp) -> None:
    """As the driver's threads do, from outside of any part of the app."""
    asyncio.get_running_loop().call_soon_threadsafe(app.exit, context=Context())


def interrupt(app: TracetuiApp) -> None:
    """Ctrl+C from another terminal: asyncio gives up the task that the program is."""
    asyncio.get_running_loop().call_soon(visit_of(app).program.cancel)


WAYS: tuple[Callable[[TracetuiApp], object], ...] = (
    hang_up,
    lambda app: app.post_message(events.Key("ctrl+q", None)),
    interrupt,
    lambda app: app.post_message(messages.ExitApp()),  # as the driver of the browser view does
)
MOMENTS = [
    pytest.param(
        scene, count, WAYS[(at + row) % len(WAYS)], at % 3, id=f"{scene.name}-{count}-{(at + row) % len(WAYS)}"
    )
    for row, scene in enumerate(SCENES)
    for at, count in enumerate(COUNTS)
]


class Visit:
    """One start of the program, which ends at a moment that is counted and not timed."""

    def __init__(self, app: TracetuiApp, scene: Scene, count: int, way: Callable[[TracetuiApp], object]) -> None:
        self.app, self.scene, self.way = app, scene, way
        self.start_for_good = jobs.start
        self.program: asyncio.Task[None]
        self.waiting: list[tuple[Any, str, Callable[[], object]]] = []
        """Jobs that were begun; they end when the test says so."""
        self.missing = count if not scene.before and not scene.last else 1 << 30
        self.after = 0
        self.closing = False
        self.late = 0

    def start(self, target: Any, key: str, work: Callable[[], object]) -> None:
        """Stands in for `jobs.start`."""
        self.waiting.append((target, key, work))

    def end_jobs(self) -> None:
        while self.waiting:
            target, key, work = self.waiting.pop(0)
            self.start_for_good(target, key, work)  # in a thread of its own: what a job knows belongs to its thread
            jobs.wait(key, LONGEST_SECONDS)

    def note(self, message: events.Message) -> None:
        """Called with every message that any part is about to get."""
        if self.closing:
            self.after += 1
            if self.after == self.late:
                self.end_jobs()
            return
        self.missing -= 1
        if self.missing <= 0:
            self.close()

    def close(self) -> None:
        """Ends the program, with the timer just gone off that keeps the place."""
        self.closing = True
        saving = self.app.restorer._saving
        if saving is not None and saving._task is not None:
            tick = saving._tick(next_timer=0.0, count=0)
            with suppress(StopIteration):
                tick.send(None)
        if not self.late:
            self.end_jobs()
        self.way(self.app)

    async def run(self, count: int) -> None:
        token = message_hook.set(self.note)
        self.program = asyncio.ensure_future(self.app.run_async(headless=True, size=SIZE))
        acting = asyncio.ensure_future(self.act(count))
        try:
            with suppress(asyncio.CancelledError):
                await asyncio.wait_for(asyncio.shield(self.program), LONGEST_SECONDS)
        finally:
            message_hook.reset(token)
            acting.cancel()
            with suppress(asyncio.CancelledError):
                await acting
        self.end_jobs()

    async def act(self, count: int) -> None:
        """Does what comes before, and then what the program ends in the midst of."""
        pilot = Pilot(self.app)
        while not self.app.is_mounted:
            await asyncio.sleep(0)
        with self.app._context(), suppress(ScreenError):  # the program has ended meanwhile
            await pilot.pause()
            for step in self.scene.before:
                await self.take(step, pilot)
            if self.scene.last:
                self.missing = count
                await self.take(self.scene.last, pilot)
            if not self.closing:
                self.close()
            for _ in range(TURNS):
                await asyncio.sleep(0)
            hang_up(self.app)  # the key means something else here

    async def take(self, step: str, pilot: Pilot[None]) -> None:
        if step == JOBS:
            while self.waiting and not self.closing:
                self.end_jobs()
                await pilot.pause()
        else:
            self.app.post_message(events.Key(step, step if len(step) == 1 else None))
            await pilot.pause()


Ended: TypeAlias = "tuple[TracetuiApp, list[str]]"
"""The app behind a visit, and what the event loop had to complain of."""
_visits: dict[TracetuiApp, Visit] = {}


def visit_of(app: TracetuiApp) -> Visit:
    return _visits[app]


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, Run]]:
    """Two small recordings, read once."""
    found = []
    for name in ("one", "two"):
        rows = [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n}", "pid": 1, "tid": 1, "ts": 100.0 * n,
                 "dur": 90.0} for n in range(3)]  # fmt: skip
        for at in range(12):
            begin, called = 25.0 * at, {"correlation": at}
            lane = {"stream": 7, "device": 0, **called}
            rows += [
                {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": begin, "dur": 9.0},
                {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": begin + 1,
                 "dur": 3.0, "args": called},
                {"ph": "X", "cat": "kernel", "name": f"gemm_{at % 3}", "pid": 0, "tid": 7, "ts": begin + 6, "dur": 5.0,
                 "args": lane},
            ]  # fmt: skip
        path = tmp_path_factory.mktemp("traces") / f"{name}.json"
        path.write_text(json.dumps({"traceEvents": rows}))
        found.append((path, open_path(path, cache=False)))
    return found


@pytest.fixture
def visit(traces, tmp_path, monkeypatch):
    """Starts the program, ends it at a moment, and gives it back with what went wrong."""
    monkeypatch.setenv("TRACETUI_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("TRACETUI_NO_STATE")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.chdir(tmp_path)
    known = dict(traces)

    def read(path: Path, cancel: threading.Event | None = None, **_: object) -> Run:
        if cancel is not None and cancel.is_set():
            raise Cancelled
        return replace(known[path])

    monkeypatch.setattr(tracetui.parsers, "open_path", read)

    def start(scene: Scene, count: int, way: Callable[[TracetuiApp], object], late: int) -> Ended:
        app = TracetuiApp([path for path, _ in traces[: scene.paths]])
        visit = _visits[app] = Visit(app, scene, count, way)
        visit.late = late * 5
        monkeypatch.setattr(jobs, "start", visit.start)
        wrong: list[str] = []

        async def main() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, what: wrong.append(str(what)))
            await visit.run(count)

        with suppress(KeyboardInterrupt):
            asyncio.run(main())
        del _visits[app]
        return app, wrong

    return start


@pytest.mark.parametrize(("scene", "count", "way", "late"), MOMENTS)
def test_the_end_is_clean_at_any_moment(visit, capfd, traces, scene, count, way, late):
    path = traces[0][0]
    before = left.Left(tab="host") if late == 1 else None
    if before is not None:
        left.store(path, before, [path])
    app, wrong = visit(scene, count, way, late)
    assert app._exception is None, repr(app._exception)
    assert app.shell.errors == []
    assert wrong == []
    assert capfd.readouterr().err == ""
    assert not app.is_running
    assert app.runs.exit_code == DONE  # what was being read is no recording that can't be read
    if "a" in app.session.runs and way is not interrupt:
        kept = left.load(app.session.open[app.session.sides["a"]].origin)
        assert kept is not None
        assert (kept.tab, kept.filter) == (app.tab, app.session.filter)
    elif "a" not in app.session.runs:
        assert left.load(path) == before


def test_there_are_many_moments():
    assert len(MOMENTS) >= 50


def test_a_part_that_never_answers_keeps_nobody(visit, monkeypatch):
    monkeypatch.setattr(keyboard, "LEAVING_SECONDS", 0.01)
    usual = TabBar.call_later

    def never_to_the_end(bar: TabBar, callback: Callable[[], object]) -> bool:
        return callback == bar.app.ending._answered or usual(bar, callback)

    monkeypatch.setattr(TabBar, "call_later", never_to_the_end)
    app, wrong = visit(Scene("reading", (), "2"), 6, hang_up, 0)
    assert (app._exception, wrong) == (None, [])
    assert not app.is_running
    assert app.ending._unanswered, "the bar of tabs has not answered"


def test_ending_while_the_reader_is_still_being_imported_is_no_failure(monkeypatch):
    monkeypatch.setitem(sys.modules, "tracetui.parsers.runs.entries", ModuleType("half"))
    monkeypatch.setattr(TracetuiApp, "run", lambda app, **_: None)
    assert run_tui([FP32], cache=False, color="auto", mouse=None, driver="auto", low_bandwidth=None) == DONE
