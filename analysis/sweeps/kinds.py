"""What kinds of GPU work a sweep's variant adds to its baseline and removes from it, at each size."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tracetui.analysis.captures.names import Value
    from tracetui.analysis.sweeps.compare import Comparison, Row
    from tracetui.analysis.sweeps.model import Point

SAME_PERCENT = 1.0
"""Two times that differ by no more are the same, where the launches are as many."""


@dataclass(frozen=True, slots=True)
class KindChange:
    """One kind of work of a variant and of its baseline at one size; calls and ns per step, medians over repeats."""

    x: Value
    kind: str
    status: str
    """``added``, ``removed``, ``changed`` or ``same``."""
    base_calls: float
    variant_calls: float
    base_ns: float
    variant_ns: float
    top: str
    """The kernel of the kind with most time, in the variant where it has the kind."""


def kind_changes(one: Comparison) -> list[KindChange]:
    """All kinds at each size, by size, the largest difference first; none of a size without recorded GPU work."""
    return [change for row in one.rows for change in _changes(row)]


def _changes(row: Row) -> Iterable[KindChange]:
    base, variant = kinds_of(row.base), kinds_of(row.variant)
    if not base or not variant:
        return []
    found = []
    for kind in dict.fromkeys((*base, *variant)):
        (a_calls, a_ns, a_top), (b_calls, b_ns, b_top) = (side.get(kind, (0.0, 0.0, "")) for side in (base, variant))
        near = abs(b_ns - a_ns) <= SAME_PERCENT / 100 * max(a_ns, b_ns)
        status = "same" if a_calls == b_calls and near else "changed"
        status = "added" if kind not in base else "removed" if kind not in variant else status
        found.append(KindChange(row.x, kind, status, a_calls, b_calls, a_ns, b_ns, b_top or a_top))
    return sorted(found, key=lambda change: (-abs(change.variant_ns - change.base_ns), change.kind))


def kinds_of(point: Point) -> dict[str, tuple[float, float, str]]:
    """Calls and ns per step of each kind, medians over the repeats that were read; and its kernel with most time."""
    read = [sample.kinds for sample in point.samples if sample.kinds]
    found: dict[str, tuple[float, float, str]] = {}
    for kind in dict.fromkeys(kind for kinds in read for kind in kinds):
        cells = [kinds.get(kind, (0.0, 0.0, "")) for kinds in read]
        calls = statistics.median(calls for calls, _, _ in cells)
        if calls:
            spent = statistics.median(ns for _, ns, _ in cells)
            found[kind] = calls, spent, next(top for _, _, top in cells if top)
    return found
