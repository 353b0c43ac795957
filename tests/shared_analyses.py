"""Lets the screens that tests open on one recording share its reading and analyses, as the tabs of one screen do."""

import os
from collections.abc import Callable, Hashable
from typing import Any

import pytest
from sample_runs import is_kept

from tracetui.app.session.open_runs import OpenRun
from tracetui.app.session.session import Session
from tracetui.parsers import Run

_hold, _cached = OpenRun.hold, Session.cached
_runs: dict[Hashable, Run] = {}
_files_of_runs: dict[int, tuple[Run, Hashable]] = {}
_results: dict[Hashable, Any] = {}


class Sharing:
    """Whether the test that runs now may take what another one computed."""

    test: pytest.Function | None = None

    @classmethod
    def allowed(cls) -> bool:
        """Folders and variables that a test sets change no analysis; what it replaces in the program may."""
        if cls.test is None or "monkeypatch" not in cls.test.fixturenames:
            return cls.test is not None
        patch = cls.test.funcargs.get("monkeypatch")  # absent where only a fixture has it
        return patch is not None and not patch._setattr and all(of is os.environ for of, *_ in patch._setitem)


def begin() -> None:
    """Shares from now on, for tests that do not change the program (`Sharing.allowed`)."""
    OpenRun.hold = _hold_shared  # type: ignore[method-assign]
    Session.cached = _cached_shared  # type: ignore[method-assign, assignment]


def _hold_shared(entry: OpenRun, run: Run, config: Any = None) -> None:
    """Holds what an earlier test read of the same files, if nobody writes to them."""
    if Sharing.allowed() and _is_kept(run):
        files = _files(run)
        run = _runs.setdefault((run.path, run.warnings, files), run)
        _files_of_runs[id(run)] = run, files
    _hold(entry, run, config)


def _is_kept(run: Run) -> bool:
    """Whether all of a run was read, from recordings that stand with the tests or the program."""
    return all(not trace.source.partial and is_kept(trace.source.path) for trace in run.traces)


def _files(run: Run) -> Hashable:
    """What a run was read from, wherever links to it lie."""
    paths = [trace.source.path for trace in run.traces]
    of_traces = tuple((path.name, path.resolve(), path.stat().st_mtime_ns) for path in paths)
    others = tuple((name, tuple(path.name for path in files)) for name, files in run.others)
    return run.path.name, run.place, others, repr(run.manifest), repr(run.proofs), of_traces


def _cached_shared(session: Session, key: Hashable, compute: Callable[[], Any]) -> Any:
    """The session's own cache, filled with what other screens computed with the same runs, scope and settings."""
    runs = [run for run in map(session.runs.get, ("a", "b")) if run]
    if not Sharing.allowed() or session.scope.window is not None or any(id(run) not in _files_of_runs for run in runs):
        return _cached(session, key, compute)
    settings = repr(session.config), session.ascii, *map(os.environ.get, ("TRACETUI_CONFIG_DIR", "TRACETUI_PEAKS"))
    read = tuple(run and _files_of_runs[id(run)][1] for run in map(session.runs.get, ("a", "b")))
    place = (key, read, session.rank, session.kind, session.scope, settings)

    def known_or_new() -> Any:
        if place not in _results:
            _results[place] = compute()
        return _results[place]

    return _cached(session, key, known_or_new)
