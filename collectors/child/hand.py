"""What a change of somebody else's program works with: it replaces functions, and waits for moments of the program."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_PACKAGE = __name__.rpartition(".")[0]


class Hand:
    """What a change works with. One that is off has prepared all and changes nothing until it is switched on."""

    def __init__(self, *, on: bool = True) -> None:
        self.on = on
        self.draws_alike = False
        """Whether random numbers must be those of the unchanged program, even where others are drawn faster."""
        self.count = 0
        """How often the change has changed something since it is on."""
        self.optimizers: list[Any] = []
        """Those that have made a step."""
        self.settle: list[Callable[[], None]] = []
        self.first_call: list[Callable[[Any], None]] = []
        self.first_step: list[Callable[[Any], None]] = []
        self.afterwards: list[Callable[[], None]] = []
        self._undo: list[Callable[[], None]] = []

    def did(self, undo: Callable[[], None] | None = None) -> None:
        """Notes that something was changed, and how that is taken back, unless it is over anyway."""
        self.count += 1
        if undo is not None:
            self._undo.append(undo)

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Changes an attribute."""
        own, before = name in vars(owner), vars(owner).get(name)
        setattr(owner, name, value)
        self.did(lambda: setattr(owner, name, before) if own else delattr(owner, name))

    def replace(self, owner: Any, name: str, around: Callable[[Any, Any, Any], Any]) -> None:
        """Calls `around(original, args, named)` in place of a function while the change is on."""

        def around_if_on(original: Any, args: Any, named: Any) -> Any:
            return around(original, args, named) if self.on else original(*args, **named)

        replace(owner, name, around_if_on)

    def keep_set(self, settle: Callable[[], None]) -> None:
        """Settles something now and at each call and step until the first steps are over."""
        if self.on:
            settle()
        self.settle.append(settle)

    def at_first_call(self, change: Callable[[Any], None]) -> None:
        """Changes each of the program's outermost modules before its first call."""
        self.first_call.append(change)

    def at_first_step(self, change: Callable[[Any], None]) -> None:
        """Changes each optimizer before its first step."""
        self.first_step.append(change)

    def after_first_steps(self, then: Callable[[], None]) -> None:
        """Does something once the first steps are over."""
        self.afterwards.append(then)

    def switch_on(self, modules: list[Any]) -> None:
        """Makes the change between two steps of a running program, whose outermost modules these are."""
        self.on, self.count = True, 0
        for now in (*self.settle, *self.afterwards):
            now()
        for changes, things in ((self.first_call, modules), (self.first_step, self.optimizers)):
            for change in changes:
                for thing in things:
                    change(thing)

    def switch_off(self) -> None:
        """Takes it back."""
        self.on = False
        while self._undo:
            self._undo.pop()()

    def is_programs_call(self) -> bool:
        """Asked in `around`: whether the program itself called, not torch, nor we."""
        return is_programs()


_LAYERS = {"replaced", "around", "around_if_on", "programs", "_seeded", "is_programs_call", "is_programs"}
"""Functions of ours between a caller and what it calls."""


def is_programs() -> bool:
    """Whether the call that is being looked at is the program's own: neither torch's nor ours."""
    frame: Any = sys._getframe(1)
    while frame.f_code.co_name in _LAYERS and frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        frame = frame.f_back
    caller = str(frame.f_globals.get("__name__", ""))
    return caller.split(".")[0] != "torch" and not caller.startswith(_PACKAGE)


def replace(owner: Any, name: str, around: Callable[[Any, Any, Any], Any]) -> Callable[[], None]:
    """Replaces a function; returns what puts it back, unless it was replaced once more."""
    original, own = getattr(owner, name), name in vars(owner)

    @functools.wraps(original)
    def replaced(*args: Any, **named: Any) -> Any:
        return around(original, args, named)

    def undo() -> None:
        if vars(owner).get(name) is replaced:
            if own:
                setattr(owner, name, original)
            else:
                delattr(owner, name)

    setattr(owner, name, replaced)
    return undo
