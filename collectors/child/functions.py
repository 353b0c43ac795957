"""Finds which of the program's own functions repeats, and has its returns end steps where nothing else does."""

from __future__ import annotations

import gc
import inspect
import sys
import threading
import time
from collections import Counter
from types import FunctionType
from typing import TYPE_CHECKING, Any

from .marks import leave_uncompiled
from .unchanged import is_programs, place_words

if TYPE_CHECKING:
    from collections.abc import Callable

LEAST_CALLS, LEAST_SHARE = 3, 0.8
MOST_EVENTS = 1_000_000
"""So much is looked at: for about a second, since each costs about a microsecond."""
_TOOLS = (3, 4, 5)
"""Of sys.monitoring's numbers, those that debuggers, coverage and profilers don't take."""
_IN_PARTS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_LIBRARY, _TORCH, _PART, _OWN = range(4)


class _Site:
    """What one place of one of the program's functions has called: calls of torch in it, and ns."""

    def __init__(self, caller: int, code: Any, depth: int) -> None:
        self.caller, self.code, self.depth = caller, code, depth
        self.returns = self.in_a_row = 0
        self.work = (0, 0)


class Calls:
    """Counts the calls of the program's own functions in the thread that makes it, which is slow: for a short time."""

    def __init__(self) -> None:
        """Begins to look, unless somebody else does."""
        self._kinds: dict[int, tuple[int, Any]] = {}
        self._sites: dict[tuple[int, int, int], _Site] = {}
        self._stack: list[tuple[Any, _Site, tuple[int, int], Counter[_Site]]] = []
        """The calls under way: with their frame, what was done before, and how often they called from each place."""
        self._events = self._torch = self._ended_ns = 0
        self._begun_ns, self._look = time.perf_counter_ns(), self._seen
        frame, frames = inspect.currentframe(), []
        while frame is not None:
            frames.append(frame)
            frame = frame.f_back
        for each in reversed(frames):
            self._seen(each, "call", None)
        self._torch = 0
        if sys.getprofile() is None:
            sys.setprofile(self._look)

    def end(self) -> None:
        """Looks no more."""
        self._ended_ns = self._ended_ns or time.perf_counter_ns()
        if sys.getprofile() is self._look:
            sys.setprofile(None)

    def found(self) -> Any | None:
        """The code of the outermost function that repeats and does most of the work, as far as is known.

        That is measured by calls of torch, or by time where these say nothing: a GPU is often waited for elsewhere.
        Several that take turns do it together; then the one that is called least often ends the step. None where there
        is none, or where one further out has returned once or twice and may repeat too.
        """
        total = self._done()
        returns: Counter[int] = Counter()
        work = {site: site.work for site in self._sites.values()}
        for site in work:
            returns[id(site.code)] += site.returns
        for _, site, before, _ in self._stack:
            if site in work:
                work[site] = _more(work[site], before, total)
        # one that is also called from elsewhere doesn't return once in each turn
        sites = [each for each in work if work[each][0] and 0 < each.returns == returns[id(each.code)]]
        for caller in dict.fromkeys(site.caller for site in sorted(sites, key=lambda each: each.depth)):
            for by in range(2):
                together: list[_Site] = []
                for site in sorted((each for each in sites if each.caller == caller), key=lambda each: -work[each][by]):
                    together.append(site)
                    if sum(work[each][by] for each in together) >= LEAST_SHARE * total[by]:
                        repeats = all(each.in_a_row >= LEAST_CALLS for each in together)
                        return min(together, key=lambda each: each.returns).code if repeats else None
        return None

    def _done(self) -> tuple[int, int]:
        return self._torch, (self._ended_ns or time.perf_counter_ns()) - self._begun_ns

    def _seen(self, frame: Any, event: str, function: Any) -> None:
        self._events += 1
        if event == "return":
            if self._stack and self._stack[-1][0] is frame:
                self._leave()
        elif event == "call":
            kind = self._kind(frame)
            if kind == _OWN:
                self._enter(frame)
            elif kind == _TORCH and frame.f_back is not None:
                self._torch += self._kind(frame.f_back) >= _PART
        elif event == "c_call" and self._kind(frame) >= _PART:
            module = function.__module__ or type(function.__self__).__module__
            self._torch += str(module).partition(".")[0] == "torch"
        if self._events >= MOST_EVENTS:
            self.end()

    def _enter(self, frame: Any) -> None:
        code, depth = frame.f_code, len(self._stack)
        above = self._stack[-1][0] if depth else frame
        key = (id(above.f_code), above.f_lasti if depth else -1, id(code))
        site = self._sites.get(key)
        if site is None:
            site = self._sites[key] = _Site(key[0], code, depth)
        self._stack.append((frame, site, self._done(), Counter()))

    def _leave(self) -> None:
        _, site, before, _ = self._stack.pop()
        site.work, site.returns = _more(site.work, before, self._done()), site.returns + 1
        if self._stack:
            calls = self._stack[-1][3]
            calls[site] += 1
            site.in_a_row = max(site.in_a_row, calls[site])

    def _kind(self, frame: Any) -> int:
        code = frame.f_code
        known = self._kinds.get(id(code))
        if known is None:
            if str(frame.f_globals.get("__name__")).partition(".")[0] == "torch":
                kind = _TORCH
            elif not is_programs(code.co_filename):
                kind = _LIBRARY
            else:  # parts of a generator's or a comprehension's work are those of what goes through it
                kind = _PART if code.co_flags & _IN_PARTS or code.co_name.endswith("comp>") else _OWN
            known = self._kinds[id(code)] = (kind, code)  # held, so that its id stays its own
        return known[0]


def _more(work: tuple[int, int], before: tuple[int, int], now: tuple[int, int]) -> tuple[int, int]:
    return work[0] + now[0] - before[0], work[1] + now[1] - before[1]


def name_of(code: Any) -> str:
    """A function as it is called, and where it is."""
    place = place_words((code.co_filename, code.co_firstlineno, code.co_name, 0))
    name = getattr(code, "co_qualname", code.co_name).rpartition("<locals>.")[2]
    return f"{name} ({place['file']}:{place['line']})"


def after_each_return(code: Any, stepped: Callable[[], None]) -> bool:
    """Has this done after each call of a function in the main thread; returns whether it can be."""

    def ended(*_: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            stepped()

    dynamo: Any = sys.modules.get("torch._dynamo")  # which would compile it where the function was
    called = ended if dynamo is None else dynamo.disable(ended)
    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is None:
        return _in_place(code, called)
    tool = next((each for each in _TOOLS if monitoring.get_tool(each) in (None, "tracetui")), None)
    if tool is not None:
        if monitoring.get_tool(tool) is None:
            monitoring.use_tool_id(tool, "tracetui")
        monitoring.register_callback(tool, monitoring.events.PY_RETURN, called)
        monitoring.set_local_events(tool, code, monitoring.events.PY_RETURN)
    return tool is not None


def _around(*args: Any, **named: Any) -> Any:
    original: Any = "original"
    ended: Any = "ended"
    result = original(*args, **named)
    ended()
    return result


def _in_place(code: Any, ended: Any) -> bool:
    """Puts other code into the functions of this one, before Python 3.12: nobody knows who else holds a function."""
    around, changed = _around.__code__, False
    for each in gc.get_referrers(code):
        if isinstance(each, FunctionType) and each.__code__ is code:
            original = FunctionType(code, each.__globals__, each.__name__, each.__defaults__, each.__closure__)
            original.__kwdefaults__ = each.__kwdefaults__
            given = {"original": original, "ended": ended}
            constants = tuple(given.get(str(constant), constant) for constant in around.co_consts)
            # Python wants as many free variables as the function has
            each.__code__ = around.replace(co_consts=constants, co_freevars=code.co_freevars)
            leave_uncompiled(each)
            changed = True
    return changed
