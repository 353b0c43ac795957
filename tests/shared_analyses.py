"""Lets tests of one recording share its reading and analyses, as the tabs of one screen do.

Screens share what a session computes; reports, rules and whatever else takes a recording share its traces, the facts
and selections of them, and what the rules say.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import pytest
from msgspec import json
from sample_runs import DATA, OUTSIDE, SAMPLES, is_kept

from tracetui.analysis.findings import engine
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Abstention, Finding
from tracetui.analysis.findings.declared.rule import Rule
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import Selection
from tracetui.app.session.open_runs import OpenRun
from tracetui.app.session.session import Session
from tracetui.parsers import Run, Trace, TraceError
from tracetui.parsers.runs import opening

KEPT_RUNS = 40
"""So many runs, those that were opened last, stay in memory with what was computed of them."""
_SHARED = "_shared_by_tests"
"""In the dictionary of a trace: what was computed of it."""
_hold, _cached = OpenRun.hold, Session.cached
_open_some, _with_program, _ask, _find = opening._open_some, opening._with_program, engine._ask, engine.find
_new_selection, _new_facts, _setattr = Selection.__init__, Facts.__init__, pytest.MonkeyPatch.setattr
_opened: OrderedDict[Hashable, tuple[list[Trace], list[TraceError]]] = OrderedDict()
_runs: dict[Hashable, Run] = {}
_files_of_runs: dict[int, tuple[Run, Hashable]] = {}
_results: dict[Hashable, Any] = {}


class Sharing:
    """Whether the test that runs now may take what another one computed."""

    test: pytest.Function | None = None
    changed = False
    """Whether it has replaced something in the program by a monkeypatch of its own."""

    @classmethod
    def allowed(cls) -> bool:
        """Folders and variables that a test sets change no analysis; what it replaces in the program may."""
        if cls.changed or cls.test is None or "monkeypatch" not in cls.test.fixturenames:
            return cls.test is not None and not cls.changed
        patch = cls.test.funcargs.get("monkeypatch")  # absent where only a fixture has it
        return patch is not None and not patch._setattr and all(of is os.environ for of, *_ in patch._setitem)

    @classmethod
    def untouched(cls) -> bool:
        """Whether nothing in the program is replaced, nor will be while the test has what it shares."""
        return not cls.changed and (cls.test is None or "monkeypatch" not in cls.test.fixturenames)


def begin() -> None:
    """Shares from now on, for tests that do not change the program (`Sharing.allowed`)."""
    OpenRun.hold = _hold_shared  # type: ignore[method-assign]
    Session.cached = _cached_shared  # type: ignore[method-assign, assignment]
    opening._open_some = _open_shared
    opening._with_program = _with_program_shared
    Selection.__init__ = _selection_shared  # type: ignore[method-assign]
    Facts.__init__ = _facts_shared  # type: ignore[method-assign]
    Facts.of = _facts_of_shared  # type: ignore[method-assign]
    engine._ask = _ask_shared
    engine.find = _find_shared
    pytest.MonkeyPatch.setattr = _setattr_noted  # type: ignore[method-assign, assignment]


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
    return run.path.name, run.place, others, _text_of(run.manifest), _text_of(run.proofs), of_traces


def _text_of(said: Any) -> bytes:
    """What run.json and proofs say; JSON that is kept as it stands in the file has no text of its own."""
    return json.encode(said, enc_hook=repr)


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


def _setattr_noted(patch: pytest.MonkeyPatch, *what: Any, **how: Any) -> None:
    """Notes what a test replaces in the program; pytest-asyncio replaces the test's own function while it runs."""
    Sharing.changed |= Sharing.test is not None and what[0] is not Sharing.test
    _setattr(patch, *what, **how)


_PLACES = tuple(str(place) for place in (DATA, SAMPLES, OUTSIDE, OUTSIDE.resolve()))


def _open_shared(files: list[Any], rank: int | None, watch: Any, cache: bool, problems: list[TraceError]) -> Any:
    """The traces of a run that stands with the tests, read once; a link to it elsewhere is another run."""
    kept = all(str(file.path.absolute()).startswith(_PLACES) for file in files)
    if not (cache and kept and watch.progress is watch.cancel is None and Sharing.untouched()):
        return _open_some(files, rank, watch, cache, problems)
    key = repr(files), rank, _environment()
    if key not in _opened:
        said: list[TraceError] = []
        _opened[key] = _open_some(files, rank, watch, cache, said), said
        for trace in _opened[key][0]:
            trace.__dict__.setdefault(_SHARED, {})
        while len(_opened) > KEPT_RUNS:
            _opened.popitem(last=False)
    _opened.move_to_end(key)
    traces, said = _opened[key]
    problems += said
    return list(traces)


def _with_program_shared(trace: Trace, manifest: Any, light_pass: Any) -> Trace:
    if _SHARED not in trace.__dict__ or not Sharing.untouched():
        return _with_program(trace, manifest, light_pass)
    known = trace.__dict__[_SHARED]
    key = "program", _text_of(manifest), light_pass and light_pass.path
    if key not in known:
        known[key] = _with_program(trace, manifest, light_pass)
        known[key].__dict__.setdefault(_SHARED, {})
    found: Trace = known[key]
    return found


def _environment() -> Hashable:
    """What a user may set, which recordings and facts depend on."""
    return tuple(sorted(item for item in os.environ.items() if item[0].startswith("TRACETUI_")))


def _selection_shared(sel: Selection, trace: Trace, scope: Scope, times: Any = None) -> None:
    """A selection that has what another one of the same part of the trace found."""
    _new_selection(sel, trace, scope, times)
    if _SHARED in trace.__dict__ and scope.window is None and Sharing.untouched():
        known = trace.__dict__[_SHARED].setdefault(("selection", scope, times is None), sel.__dict__)
        object.__setattr__(sel, "__dict__", known)


def _facts_shared(facts: Facts, run: Run, trace: Trace | None = None, scope: Scope | None = None) -> None:
    _new_facts(facts, run, trace, scope)
    _share(facts)


def _share(facts: Facts, *more: Hashable) -> None:
    """Facts that have what other facts of the same run and scope found; what a job's ranks say depends on the order."""
    run, known = facts.run, facts.trace.__dict__.get(_SHARED)
    at_hand = all(_SHARED in trace.__dict__ for trace in run.traces) and len(run.ranks) < 2
    if known is None or type(facts) is not Facts or not at_hand or facts.scope.window or not Sharing.untouched():
        return
    of_run = run.path, tuple(map(id, run.traces)), _text_of(run.manifest), _text_of(run.proofs), repr(run.passes)
    key = "facts", of_run, facts.scope, _environment(), *more
    facts.__dict__ = known.setdefault(key, facts.__dict__)
    facts.__dict__.setdefault(_SHARED, {})


def _facts_of_shared(run: Run, sel: Selection) -> Facts:
    """Facts of a selection; those of one with other times than the run's own are apart."""
    facts = object.__new__(Facts)
    _new_facts(facts, run, sel.trace, sel.scope)
    _share(facts, *([] if (sel.times is None) == (sel.trace.light is None) else ["as recorded"]))
    facts.__dict__.setdefault("sel", sel)
    return facts


def _known_of(subject: Any) -> dict[Hashable, Any] | None:
    """Where answers are kept; None for facts that share nothing."""
    return subject.__dict__.get(_SHARED) if type(subject) is Facts and Sharing.untouched() else None


def _find_shared(subject: Any, config: Any = None, rules: Any = None, on_error: Any = None, looks: Any = None) -> Any:
    """All findings of the same facts by the same rules and thresholds; those of a rule that failed are not kept."""
    known = _known_of(subject)
    if known is None or looks is not None:
        return _find(subject, config, rules, on_error, looks)
    key = "find", repr(config), rules and tuple(map(id, rules.values()))
    if key not in known:
        found = _find(subject, config, rules, on_error)
        if any(each.missing.startswith(engine.BUG) for each in found.abstained):
            return found
        known[key] = rules, found
    return known[key][1]


def _ask_shared(rule: Rule, look: Callable[..., Any], subject: Any, config: Any) -> list[Finding | Abstention]:
    """What a rule said of the same facts by the same thresholds."""
    known = _known_of(subject)
    if known is None:
        return _ask(rule, look, subject, config)
    key = id(rule), id(look), repr(config.thresholds)
    if key not in known:
        known[key] = rule, look, _ask(rule, look, subject, config)  # kept, so that no other has their numbers
    return list(known[key][2])
