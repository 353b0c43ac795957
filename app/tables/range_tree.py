"""Shortens the tree of ranges: ranges that differ only by a number become one line, ``step ×1000``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tracetui.app.text.names import without_number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tracetui.analysis.base.json_values import Json


@dataclass(slots=True)
class MergedRange:
    """Several range paths whose names differ only by numbers."""

    name: str
    """The first one's own."""
    base: str
    """The same without its number."""
    depth: int
    names: set[str] = field(default_factory=set)
    """Their own names: one where only the ranges around them have numbers."""
    calls: int = 0
    host_total_us: float = 0.0
    device_self_us: float = 0.0
    device_total_us: float = 0.0

    @property
    def label(self) -> str:
        """``batch ×3``; a single name is given as it is."""
        return f"{self.base} ×{len(self.names)}" if len(self.names) > 1 else self.name


def spelled(row: Json) -> str:
    """``domain:name``; the name alone where the domain is the default one or there are none."""
    return f"{row['domain']}:{row['name']}" if row["domain"] else str(row["name"])


def merged_ranges(rows: Iterable[Json]) -> list[MergedRange]:
    """Merges the report's rows of `range_tree`, which stand depth first; parents still precede children."""
    merged: dict[tuple[str, ...], MergedRange] = {}
    way: list[str] = []
    for row in rows:
        name = spelled(row)
        del way[row["depth"] :]
        way.append(without_number(name))
        node = merged.setdefault(tuple(way), MergedRange(name, way[-1], row["depth"]))
        node.names.add(name)
        node.calls += row["calls"]
        node.host_total_us += row["host_total_us"] or 0
        node.device_self_us += row["device_self_us"]
        node.device_total_us += row["device_total_us"]
    place = {key: number for number, key in enumerate(merged)}
    # merging can bring a child of a later path before an elder sibling of its parent
    order = sorted(merged, key=lambda key: [place.get(key[: depth + 1], len(place)) for depth in range(len(key))])
    return [merged[key] for key in order]


def largest(nodes: list[MergedRange], limit: int | None) -> list[MergedRange]:
    """At most so many, those with most GPU (else host) time: a range holds at least what is inside it."""
    if limit is None or len(nodes) <= limit:
        return nodes
    ranked = sorted(range(len(nodes)), key=lambda n: (-nodes[n].device_total_us, -nodes[n].host_total_us, n))
    return [nodes[n] for n in sorted(ranked[:limit])]
