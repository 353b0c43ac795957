"""Caches what several sections and rules need: results live as long as their input, or only the latest is kept."""

from __future__ import annotations

import weakref
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracetui.parsers import Trace

Owner = TypeVar("Owner")
Found = TypeVar("Found")
_KEPT = "_remembered"


def kept(compute: Callable[[Owner], Found]) -> Callable[[Owner], Found]:
    """Computes a function of a recording or selection once and keeps the small result as long as that lives."""

    @wraps(compute)
    def known(owner: Owner) -> Found:
        answers = _answers(owner)
        if compute not in answers:
            answers[compute] = compute(owner)
        found: Found = answers[compute]
        return found

    return known


def kept_of_pair(compute: Callable[[Trace, Trace], Found]) -> Callable[[Trace, Trace], Found]:
    """Does the same for a function of two recordings; the second one keeps the result."""

    @wraps(compute)
    def known(first: Trace, second: Trace) -> Found:
        answers: dict[int, tuple[Trace, Found]] = _answers(second).setdefault(compute, {})
        # the first is kept with the result, so that no other object can get its identity
        if id(first) not in answers:
            answers[id(first)] = first, compute(first, second)
        return answers[id(first)][1]

    return known


def latest(compute: Callable[..., Found]) -> Callable[..., Found]:
    """Makes a function remember its last result as long as its first argument lives; for arrays of many rows.

    The first argument is compared by identity, the others by value, the same whether they are given or left as they
    are by default. Callers must not write into the result.
    """
    slot: list[tuple[weakref.ref[object], tuple[object, ...], Found]] = []
    expected = signature(compute)

    @wraps(compute)
    def known(owner: object, *arguments: object, **named: object) -> Found:
        call = expected.bind(owner, *arguments, **named)
        call.apply_defaults()
        for held, given, answer in tuple(slot):
            if held() is owner and given == call.args[1:]:
                return answer
        found = compute(*call.args)
        slot[:] = [(weakref.ref(owner, lambda _: slot.clear()), call.args[1:], found)]
        return found

    return known


def _answers(owner: object) -> dict[object, Any]:
    # as functools.cached_property does: even a frozen dataclass has a dictionary of its own
    answers: dict[object, Any] = owner.__dict__.setdefault(_KEPT, {})
    return answers
