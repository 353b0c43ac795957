"""What the longer ones of the sampled steps do, by the lines in which a sampler saw them (`parsers.runs.samples`)."""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING

from tracetui.analysis.base.own_code import LIBRARY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.parsers.runs.samples import Frame, Samples

HALF = 0.5
"""What tells why a step is longer takes this part of what it takes longer, or more."""


def what_takes_longer(of: Samples, rare: set[int], typical: set[int]) -> tuple[str, bool]:
    """The function in which the rare steps spend what they take longer, and whether only they call it.

    Of those that only they call it is the outermost, the program's own before a library's; else what the innermost of
    the program's own calls there.
    Empty where no function takes `HALF` of it.

    Args:
        of: the samples of one process.
        rare: places of steps in its `step_ns`.
        typical: places of the others that they are compared with.
    """
    usual = sum(of.host_ns[step] for step in typical)
    excess = sum(of.host_ns[step] for step in rare) / len(rare) - usual / len(typical)
    # at each edge of a step, a sample may count for its neighbour
    stray = min(2 * len(rare) * 1e9 / (of.rate_hz or inf), HALF * usual)
    ns: dict[bool, Counter[tuple[str, str]]] = {True: Counter(), False: Counter()}
    seen: dict[tuple[str, str], tuple[int, str]] = {}
    for stay in of.stays:
        if not of.threads[stay.thread].steps or stay.step not in rare | typical:
            continue
        is_rare = stay.step in rare
        within = dict(_functions([of.frames[at] for at in of.stacks[stay.stack].frames]))
        for function, place in within.items():
            ns[is_rare][function] += stay.ns
            if is_rare:
                seen.setdefault(function, place)
    longer = [
        function
        for function, spent in ns[True].items()
        if spent / len(rare) - ns[False][function] / len(typical) >= HALF * excess
    ]
    if not longer or excess <= 0:
        return "", False
    new = [function for function in longer if ns[False][function] <= stray]
    own = [function for function in new if not LIBRARY.search(function[0])]
    if new:
        told = min(own or new, key=seen.__getitem__)
    else:
        inner = max((seen[function] for function in longer if not LIBRARY.search(function[0])), default=(-1, ""))
        below = [function for function in longer if seen[function] > inner and LIBRARY.search(function[0])]
        told = min(below, key=seen.__getitem__) if below else max(longer, key=seen.__getitem__)
    return f"{_file(told[0])}: {told[1]}{seen[told][1]}", bool(new)


def _functions(stack: list[Frame]) -> Iterator[tuple[tuple[str, str], tuple[int, str]]]:
    """Of each function in a stack, the outermost last: how deep it is, and the line of the program that calls it."""
    called = [""]
    for frame in stack:
        called.append(called[-1] if LIBRARY.search(frame.file) else f", at {_file(frame.file)}:{frame.line}")
    for depth in reversed(range(len(stack))):
        yield (stack[depth].file, stack[depth].function), (depth, called[depth])


def _file(path: str) -> str:
    return path.rpartition("/")[2]
