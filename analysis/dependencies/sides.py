"""Which side limits a step, told from what would be left of it; `unknown` where that is not told throughout."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeAlias

    Side: TypeAlias = Literal["host", "gpu", "ranks", "unknown"]


def sides(
    step_ns: float,
    host_free_ns: float,
    kernels_free_ns: float,
    in_time_ns: float | None,
    missed_ns: float,
) -> frozenset[Side]:
    """The sides that may limit a step: ``host``, ``gpu``, or ``ranks``, whose lateness free hosts would gain most.

    Args:
        step_ns: the step.
        host_free_ns: what would be left of it with a free host.
        kernels_free_ns: the same with free GPU work.
        in_time_ns: the same with all other ranks in time; None if none may have been waited for.
        missed_ns: how much the replay of the recorded step misses. It may be missed on any side, so each of these times
            may be longer or shorter by it.
    """
    found: set[Side] = set()
    waited_ns = 0.0 if in_time_ns is None else step_ns - in_time_ns
    for off, late in product((-missed_ns, missed_ns), repeat=2):
        free = host_free_ns + off
        if waited_ns > 0 and 2 * (waited_ns + late) > step_ns - free:
            found.add("ranks")
        else:
            found.add("host" if kernels_free_ns - off > free else "gpu")
    return frozenset(found)


def agreed(said: Iterable[Side]) -> Side:
    """The one side that is said; the host where it is a host in any case, of this rank or another."""
    found = set(said)
    if found == {"host", "ranks"}:
        return "host"
    return found.pop() if len(found) == 1 else "unknown"
