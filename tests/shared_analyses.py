"""Lets screens and reports that tests make of one recording share its reading, and what is computed of it."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sample_runs import is_kept

import tracetui.parsers
from tracetui.analysis.report import report as reports
from tracetui.app.session.open_runs import OpenRun
from tracetui.app.session.session import Session
from tracetui.parsers.runs import opening

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from tracetui.analysis.report.model import Trace as TraceReport
    from tracetui.analysis.selection import Scope
    from tracetui.parsers import Run, Trace

_hold, _cached, _open, _report = OpenRun.hold, Session.cached, opening.open_path, reports.trace_report
_runs: dict[Hashable, Run] = {}
_opened: dict[Hashable, Run] = {}
_results: dict[Hashable, Any] = {}
_reports: dict[Hashable, TraceReport] = {}


class Sharing:
    """Whether the test that runs now may take what another one computed, and what it has taken already."""

    allowed = False
    taken: set[Hashable] = set()  # noqa: RUF012


def begin() -> None:
    """Shares from now on, for tests that do not change the program (`Sharing.allowed`)."""
    OpenRun.hold = _hold_shared  # type: ignore[method-assign]
    Session.cached = _cached_shared  # type: ignore[method-assign, assignment]


def begin_for_reports() -> None:
    """Does it for what commands open and report, too; before any test module has imported them."""
    opening.open_path = tracetui.parsers.open_path = _open_shared
    reports.trace_report = _report_shared


def _open_shared(*paths: Path | str, cache: bool = True, rank: int | None = None, **asked: Any) -> Run:
    """What an earlier test opened, if nobody writes to it and nothing but a rank was asked for."""
    given = tuple(map(str, paths))
    if not Sharing.allowed or not cache or any(asked.values()) or not all(is_kept(Path(path)) for path in given):
        return _open(*paths, cache=cache, rank=rank, **asked)
    place = given, rank, str(Path.cwd())
    if place in Sharing.taken:  # a test that opens it twice may compare the two
        return _open(*paths, rank=rank)
    Sharing.taken.add(place)
    if place not in _opened:
        _opened[place] = _open(*paths, rank=rank)
    return _opened[place]


def _report_shared(
    trace: Trace, scope: Scope, sections: Iterable[str], limit: int | None = None, run: Run | None = None,
    config: Any = None, on_error: Any = None, by: str = "name", *, range_kernels: bool = False,
) -> TraceReport:  # fmt: skip
    """What an earlier test had reported of the same recording; a test that asks twice has it computed anew."""
    sections = tuple(sections)
    answer = partial(_report, trace, scope, sections, limit, run, config, on_error, by, range_kernels=range_kernels)
    known = {id(trace) for run in (*_opened.values(), *_runs.values()) for trace in run.traces}
    of_run = () if run is None else (str(run.path), *map(id, run.traces))
    if not Sharing.allowed or not {id(trace), *of_run[1:]} <= known:
        return answer()
    settings = repr(config), os.environ["TRACETUI_CONFIG_DIR"]
    place = id(trace), scope, frozenset(sections), limit, of_run, settings, by, range_kernels
    if place not in _reports or place in Sharing.taken:
        _reports[place] = answer()
    Sharing.taken.add(place)
    return _reports[place]


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
