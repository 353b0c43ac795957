"""Lets the screens that tests open on one recording share its reading and analyses, as the tabs of one screen do."""

import os
from collections.abc import Callable, Hashable
from typing import Any

from sample_runs import is_kept

from tracetui.app.session.open_runs import OpenRun
from tracetui.app.session.session import Session
from tracetui.parsers import Run

_hold, _cached = OpenRun.hold, Session.cached
_runs: dict[Hashable, Run] = {}
_results: dict[Hashable, Any] = {}


class Sharing:
    """Whether the test that runs now may take what another one computed."""

    allowed = False


def begin() -> None:
    """Shares from now on, for tests that do not change the program (`Sharing.allowed`)."""
    OpenRun.hold = _hold_shared  # type: ignore[method-assign]
    Session.cached = _cached_shared  # type: ignore[method-assign, assignment]


def _hold_shared(entry: OpenRun, run: Run, config: Any = None) -> None:
    """Holds what an earlier test read of the same files, if nobody writes to them."""
    _hold(entry, _runs.setdefault(_files(run), run) if Sharing.allowed and _is_kept(run) else run, config)


def _is_kept(run: Run) -> bool:
    """Whether all of a run was read, from recordings that stand with the tests or the program."""
    return all(not trace.source.partial and is_kept(trace.source.path) for trace in run.traces)


def _files(run: Run) -> Hashable:
    stats = [(path, path.stat()) for path in (trace.source.path for trace in run.traces)]
    return run.path, run.place, run.others, tuple((path, stat.st_size, stat.st_mtime_ns) for path, stat in stats)


def _cached_shared(session: Session, key: Hashable, compute: Callable[[], Any]) -> Any:
    """The session's own cache, filled with what other screens computed with the same runs, scope and settings."""
    runs = [session.runs.get("a"), session.runs.get("b")]
    known = {id(run) for run in _runs.values()}
    if not Sharing.allowed or session.scope.window is not None or any(run and id(run) not in known for run in runs):
        return _cached(session, key, compute)
    settings = repr(session.config), session.ascii, os.environ["TRACETUI_CONFIG_DIR"]
    place = (key, *map(id, runs), session.rank, session.kind, session.scope, settings)

    def known_or_new() -> Any:
        if place not in _results:
            _results[place] = compute()
        return _results[place]

    return _cached(session, key, known_or_new)
