"""What operators are given, what they launch, and which of their thread come next."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

from tracetui.analysis.attribution.calltree import lanes_of, parents_of, row_ids
from tracetui.analysis.attribution.operator_tree import scope_mask
from tracetui.analysis.attribution.place import forwards
from tracetui.analysis.base.names import of_kinds
from tracetui.analysis.findings.core.facts import Facts
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.nesting import nearest

Shapes = list[list[int]]


@lru_cache(1 << 12)  # a program calls few operators with few shapes, over and over
def inputs_of(text: str | None) -> Shapes:
    """The shapes of a call's inputs; of what is no tensor an empty one."""
    try:
        given: list[Any] = msgspec.json.decode(text or "", type=list[Any])
    except msgspec.MsgspecError:
        return []
    return [
        shape if isinstance(shape, list) and all(isinstance(size, int) for size in shape) else [] for shape in given
    ]


def launched_by(facts: Facts, rows: Ints) -> Ints:
    """The device rows that these operators launch, and those that their gradients do."""
    host = facts.trace.host
    chosen, parent = np.zeros(host.height, np.bool_), parents_of(host)
    chosen[rows] = True
    launch = row_ids(facts.trace.device["launch"])
    before = forwards(facts.trace)[launch]
    inside: Bools = (nearest(parent, chosen, launch) >= 0) | (nearest(parent, chosen, before) >= 0)
    return np.flatnonzero(inside)


def in_a_row(facts: Facts, rows: Ints, after: int, before: int = 0) -> list[tuple[Ints, Ints]]:
    """For each of these operators, so many before it and after it in the same thread, in the order of their starts."""
    lane = lanes_of(facts.trace.host)
    # the frame has them by thread, and by start
    operators = np.flatnonzero(of_kinds(facts.trace.host["kind"], "operator") & scope_mask(facts.sel))
    found = []
    for row, place in zip(rows.tolist(), np.searchsorted(operators, rows).tolist(), strict=True):
        sides = operators[max(place - before, 0) : place], operators[place + 1 : place + 1 + after]
        found.append((sides[0][lane[sides[0]] == lane[row]], sides[1][lane[sides[1]] == lane[row]]))
    return found
