"""What a change of somebody else's program works with: it replaces functions, and waits for moments of the program."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_PACKAGE = __name__.rpartition(".")[0]


class Hand:
    """What a change works with."""

    def __init__(self) -> None:
        self.count = 0
        """How often the change has changed something."""
        self.settle: list[Callable[[], None]] = []
        self.first_call: list[Callable[[Any], None]] = []
        self.afterwards: list[Callable[[], None]] = []

    def did(self) -> None:
        """Notes that something was changed."""
        self.count += 1

    def replace(self, owner: Any, name: str, around: Callable[[Any, Any, Any], Any]) -> None:
        """Calls `around(original, args, named)` in place of a function, for good."""
        replace(owner, name, around)

    def keep_set(self, settle: Callable[[], None]) -> None:
        """Settles something now and at each call and step until the first steps are over."""
        settle()
        self.settle.append(settle)

    def at_first_call(self, change: Callable[[Any], None]) -> None:
        """Changes each of the program's outermost modules before its first call."""
        self.first_call.append(change)

    def after_first_steps(self, then: Callable[[], None]) -> None:
        """Does something once the first steps are over."""
        self.afterwards.append(then)

    def is_programs_call(self) -> bool:
        """Asked in `around`: whether the program itself called, not torch, nor we."""
        return is_programs()


_LAYERS = {"replaced", "around", "programs", "_seeded", "is_programs_call", "is_programs"}
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
