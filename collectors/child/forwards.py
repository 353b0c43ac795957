"""Finds the module that a program without an optimizer calls again and again: its calls are the program's steps."""

from __future__ import annotations

import functools
import gc
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

LEARNED_FROM = 8
"""Calls of outermost modules that are looked at: an encoder may come once, and its decoder for each token."""


class Watch:
    """Looks at the calls of modules that no other module makes, until it knows which one repeats.

    To see all calls costs time, so it lasts for these few only. What threads other than the program's own call is not
    looked at: replicas of a model run there.
    """

    def __init__(self, found: Callable[[Any], None]) -> None:
        """Begins to look.

        Args:
            found: told of the module that repeats: the first one that comes in both halves of `LEARNED_FROM` calls. It
                is never told if there is an optimizer by then, whose steps are the steps.
        """
        from torch import nn

        self._found = found
        self._depth = 0
        self._stopped = False
        self._calls: list[Any] = []
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
        self._calls.clear()

    def _watched(self, call: Callable[..., Any]) -> Callable[..., Any]:
        is_compiling = _is_compiling()

        @functools.wraps(call)
        def watched(module: Any, *args: Any, **named: Any) -> Any:
            if is_compiling() or threading.current_thread() is not threading.main_thread():
                return call(module, *args, **named)
            self._depth += 1
            try:
                result = call(module, *args, **named)
            finally:
                self._depth -= 1
            if not self._depth and not self._stopped:
                self._called(module)
            return result

        return watched

    def _called(self, module: Any) -> None:
        self._calls.append(module)
        half = LEARNED_FROM // 2
        if len(self._calls) < LEARNED_FROM:
            return
        later = {id(each) for each in self._calls[-half:]}
        repeats = next((each for each in self._calls[:-half] if id(each) in later), None)
        if repeats is None:  # each was another one so far
            self._calls = self._calls[-half:]
            return
        self.stop()
        if not _has_optimizer():
            self._found(repeats)


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


def _is_compiling() -> Callable[[], bool]:
    """Whether torch.compile looks at a call instead of making it."""
    import torch

    asked: Callable[[], bool] | None = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    return asked if asked is not None else lambda: False


def _has_optimizer() -> bool:
    from torch.optim import Optimizer

    # by type(), since isinstance asks an object for its class and a proxy may do anything then
    return any(issubclass(type(each), Optimizer) for each in gc.get_objects())
