"""The moments between steps: on the clocks of GPU, host and recordings, and whose calls make them."""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import sys
import threading
import time
from collections import Counter
from types import FunctionType
from typing import TYPE_CHECKING, Any

from . import machine_torch
from .unchanged import is_programs, place_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MEASURED = (
    "clean_step_ns", "clean_host_ns", "clean_gc_ns", "profiled_step_ns", "passes", "schedule", "step_of", "unchanged",
    "in_vain", "unheld", "spare", "compiled",
)  # fmt: skip
"""What run.json takes over of what was measured, where there is any."""


def uses_gpu(device: str) -> bool:
    """Whether the work to time runs on a CUDA device."""
    if device == "cpu":
        return False
    import torch

    return bool(torch.cuda.is_available())


def synchronize(device: str) -> None:
    """Waits until the device has done its work."""
    if uses_gpu(device):
        import torch

        torch.cuda.synchronize()


class Marks:
    """Boundaries of steps. On CUDA each is also an event on the stream, so that the host may run ahead of the GPU."""

    def __init__(self, device: str) -> None:
        self._on_gpu = uses_gpu(device)
        self._events: list[Any] = []
        self._host: list[int] = []
        self.unix_ns: list[int] = []
        """Each boundary in ns since 1970, as the events of a recording are dated."""

    def add(self) -> None:
        """Marks this moment, when the host has given out all work of a step."""
        if self._on_gpu:
            import torch

            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._events.append(event)
        self._host.append(time.perf_counter_ns())
        self.unix_ns.append(time.time_ns())

    def settle(self) -> None:
        """Moves the last boundary on the wall clock to now: the wait for the device belongs to the last step."""
        if self.unix_ns:
            self.unix_ns[-1] = max(time.time_ns(), self.unix_ns[-1])

    @property
    def steps(self) -> int:
        """How many steps lie between the boundaries."""
        return max(len(self._host) - 1, 0)

    def host_ns(self) -> list[int]:
        """How long the host was busy with each step; where it runs ahead of the GPU, less than the step takes."""
        return [after - before for before, after in zip(self._host, self._host[1:])]

    def step_ns(self) -> list[int]:
        """How long each step took: on the GPU's time line, which must have reached the last boundary, else the host's.

        Empty where the boundaries are on several GPUs, whose clocks don't compare.
        """
        if not self._on_gpu:
            return self.host_ns()
        try:
            return [round(before.elapsed_time(after) * 1e6) for before, after in zip(self._events, self._events[1:])]
        except (RuntimeError, ValueError):
            return []

    def spent_ns(self, pauses: Pauses) -> list[int]:
        """How much of each step on the host's clock these pauses took."""
        return [
            sum(max(min(end, after) - max(start, before), 0) for start, end in pauses.spans)
            for before, after in zip(self._host, self._host[1:])
        ]


class Pauses:
    """When Python's collector held up the process: two looks at the clock for each collection."""

    def __init__(self) -> None:
        self.spans: list[tuple[int, int]] = []
        self._begun = 0

    def begin(self) -> None:
        """Watches the collector from now on."""
        gc.callbacks.append(self._seen)

    def end(self) -> None:
        """Watches it no longer."""
        if self._seen in gc.callbacks:
            gc.callbacks.remove(self._seen)

    def _seen(self, phase: str, _: Any) -> None:
        if phase == "start":
            self._begun = time.perf_counter_ns()
        elif self._begun:
            self.spans.append((self._begun, time.perf_counter_ns()))


LEARNED_FROM = 8
"""Calls of outermost modules that are looked at: an encoder may come once, and its decoder for each token."""
MOST_WATCHED = 256
"""Where none repeats within these, twice as many are looked at, up to so many: a program may call its layers itself."""


class Watch:
    """Looks at the calls of modules that no other module makes, until it knows which one repeats.

    To see all calls costs time, so it lasts for these few only. What threads other than the program's own call is not
    looked at: replicas of a model run there.
    """

    def __init__(self, found: Callable[[Any, int], None]) -> None:
        """Begins to look.

        Args:
            found: told of the module that repeats, and how many of its calls are one round (`_round`). It is the first
                one that comes in both halves of the calls, which are `LEARNED_FROM`, or twice as many until one does.
                It is never told if there is an optimizer by then, whose steps are the steps.
        """
        from torch import nn

        self._found = found
        self._depth = 0
        self._stopped = False
        self._calls: list[tuple[Any, Any]] = []
        self._repeats: Any = None
        self._enough = LEARNED_FROM
        self._module: Any = nn.Module
        self._call = nn.Module.__call__
        # a hook on all modules would not see those that are compiled in place, and changes what is compiled
        self._watching = self._watched(self._call)
        nn.Module.__call__ = self._watching  # type: ignore[method-assign,unused-ignore]

    def stop(self) -> None:
        """Leaves modules as they were, or as the program has changed them since."""
        if self._module.__call__ is self._watching:
            self._module.__call__ = self._call
        self._stopped = True
        self._repeats = None
        self._calls.clear()

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Leaves modules as they were while a profiler starts: the first one learns for good what calls a module."""
        is_mine = self._module.__call__ is self._watching
        if is_mine:
            self._module.__call__ = self._call
        try:
            yield
        finally:
            if is_mine:
                self._module.__call__ = self._watching

    def _watched(self, call: Callable[..., Any]) -> Callable[..., Any]:
        is_compiling, watch = _is_compiling(), self

        @functools.wraps(call)
        def watched(self: Any, *args: Any, **named: Any) -> Any:  # profilers look for a module of this name
            if is_compiling() or threading.current_thread() is not threading.main_thread():
                return call(self, *args, **named)
            watch._depth += 1
            try:
                result = call(self, *args, **named)
            finally:
                watch._depth -= 1
            if not watch._depth and not watch._stopped:
                watch._called(self, _calling(sys._getframe(1)))
            return result

        _leave_uncompiled(watched)
        return watched

    def _called(self, module: Any, place: Any) -> None:
        self._calls.append((module, place))
        many = len(self._calls)
        if many < self._enough:
            return
        if self._repeats is None:
            later = {id(each) for each, _ in self._calls[many // 2 :]}
            self._repeats = next((each for each, _ in self._calls[: many // 2] if id(each) in later), None)
        if self._repeats is None:  # each was another one so far
            if many < MOST_WATCHED:
                self._enough = 2 * many
            else:
                del self._calls[: many // 2]
            return
        calls = _round([place for each, place in self._calls if each is self._repeats])
        if calls is None and many < MOST_WATCHED:
            return
        repeats = self._repeats
        self.stop()
        if not _has_optimizer():
            self._found(repeats, calls or 1)


def _round(places: list[Any]) -> int | None:
    """After how many calls of a module the places that call it begin anew; 1 if they keep no order, None if not known.

    A speculative decoder drafts with its model in one place and verifies in another: a call alone is no whole of its
    work. Only rounds of few calls are told: what follows a prompt token by token is no round.
    """
    if len(set(places)) == 1:
        return 1
    for calls in range(1, LEARNED_FROM + 1):
        begin = len(places) - max(2 * calls, LEARNED_FROM)
        if begin < 0 or places[begin + calls :] != places[begin:-calls]:
            continue
        while begin > 0 and places[begin - 1] == places[begin - 1 + calls]:
            begin -= 1
        return None if (len(places) - begin) % calls else calls  # a step ends with its round
    return 1 if len(places) >= 3 * LEARNED_FROM else None


def _calling(frame: Any) -> tuple[Any, int]:
    """The line, outside of torch, that a call comes from."""
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("torch."):
        frame = frame.f_back
    return frame.f_code, frame.f_lineno


def after_each_call(module: Any, stepped: Callable[[], None]) -> None:
    """Has this done after each call of a module, and nothing after those of others."""
    compiled = getattr(module, "_compiled_call_impl", None)
    if compiled is None:
        module.register_forward_hook(lambda *_: stepped())
        return

    def call(*args: Any, **named: Any) -> Any:  # a hook would become part of what was compiled in place
        result = compiled(*args, **named)
        stepped()
        return result

    module._compiled_call_impl = call


def _leave_uncompiled(function: Any) -> None:
    """Has torch.compile go past a function that stands between a compiled call and its module, as past torch's own.

    After a graph break it would compile the function itself, and again for each class of modules.
    """
    with contextlib.suppress(ImportError, AttributeError):  # of torch before 2.0
        from torch._C._dynamo import eval_frame as dynamo

        if hasattr(dynamo, "skip_code"):
            dynamo.skip_code(function.__code__)
        else:
            skipped = dynamo._FrameExecStrategy(dynamo._FrameAction.SKIP, dynamo._FrameAction.DEFAULT)
            dynamo.set_code_exec_strategy(function.__code__, skipped)


def _is_compiling() -> Callable[[], bool]:
    """Whether torch.compile looks at a call instead of making it."""
    import torch

    asked: Callable[[], bool] | None = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    return asked if asked is not None else lambda: False


def _has_optimizer() -> bool:
    from torch.optim import Optimizer

    return bool(machine_torch.instances(Optimizer))


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
        self._events = self._torch = self._last = self._ended_ns = 0
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
            elif kind == _TORCH and frame.f_back is not None and self._kind(frame.f_back) >= _PART:
                self._torch, self._last = self._torch + 1, id(frame)
        elif event == "c_call" and self._kind(frame) >= _PART:
            module = function.__module__ or type(function.__self__).__module__
            self._torch += str(module).partition(".")[0] == "torch"
        if self._events >= MOST_EVENTS:
            self.end()

    def _enter(self, frame: Any) -> None:
        if id(frame.f_back) == self._last:  # torch only stands around this call, as where it is compiled
            self._torch, self._last = self._torch - 1, 0
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
            _leave_uncompiled(each)
            changed = True
    return changed
