"""What several sections and rules ask for is computed once: kept with what it was computed of, or only the latest."""

from __future__ import annotations

import weakref
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracetui.parsers import Trace

Owner = TypeVar("Owner")
Found = TypeVar("Found")
_KEPT = "_remembered"


def kept(compute: Callable[[Owner], Found]) -> Callable[[Owner], Found]:
    """A function of a recording or a selection, computed once and kept as long as that; for small results only."""

    @wraps(compute)
    def known(owner: Owner) -> Found:
        answers = _answers(owner)
        if compute not in answers:
            answers[compute] = compute(owner)
        found: Found = answers[compute]
        return found

    return known


def kept_of_pair(compute: Callable[[Trace, Trace], Found]) -> Callable[[Trace, Trace], Found]:
    """The same of two recordings, kept with the second."""

    @wraps(compute)
    def known(first: Trace, second: Trace) -> Found:
        answers: dict[int, tuple[Trace, Found]] = _answers(second).setdefault(compute, {})
        # the first is held beside the answer: as long as it is, no other has its identity
        if id(first) not in answers:
            answers[id(first)] = first, compute(first, second)
        return answers[id(first)][1]

    return known


def latest(compute: Callable[..., Found]) -> Callable[..., Found]:
    """A function that remembers its last result, as long as its first argument lives; for arrays of many rows.

    The other arguments are compared, the first is told by its identity. Nobody may write into the result.
    """
    slot: list[tuple[weakref.ref[Any], tuple[Any, ...], dict[str, Any], Found]] = []

    @wraps(compute)
    def known(owner: Any, *arguments: Any, **named: Any) -> Found:
        for held, given, called, answer in tuple(slot):
            if held() is owner and given == arguments and called == named:
                return answer
        found = compute(owner, *arguments, **named)
        slot[:] = [(weakref.ref(owner, lambda _: slot.clear()), arguments, named, found)]
        return found

    return known


def _answers(owner: Any) -> dict[Any, Any]:
    # as functools.cached_property does: a frozen dataclass has a dictionary of its own all the same
    answers: dict[Any, Any] = owner.__dict__.setdefault(_KEPT, {})
    return answers
