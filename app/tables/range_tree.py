"""Shortens the tree of ranges: ranges that differ only by a number become one line, ``step ×1000``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from tracetui.app.text.names import without_number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tracetui.analysis.base.json_values import Json


_SUMMED = ("calls", "device_us", "device_meanwhile_us")


class MergedRange(Struct):
    """Several range paths whose names differ only by numbers."""

    name: str
    """The first one's own."""
    base: str
    """The same without its number."""
    depth: int
    names: set[str] = field(default_factory=set)
    """Their own names: one where only the ranges around them have numbers."""
    calls: int = 0
    paths: list[str] = field(default_factory=list)
    """The paths of all of them."""
    host_total_us: float = 0.0
    device_self_us: float = 0.0
    device_total_us: float = 0.0
    device_meanwhile_us: float | None = None

    @property
    def label(self) -> str:
        """``batch ×3``; a single name is given as it is."""
        return f"{self.base} ×{len(self.names)}" if len(self.names) > 1 else self.name


def spelled(row: Json) -> str:
    """``domain:name``; the name alone where the domain is the default one or there are none."""
    return f"{row['domain']}:{row['name']}" if row["domain"] else str(row["name"])


def merged_ranges(rows: Iterable[Json]) -> list[MergedRange]:
    """Merges the report's rows of `range_tree`, which stand depth first; parents still precede children."""
    top = _Branch(MergedRange("", "", -1))
    way = [top]
    for row in rows:
        name = spelled(row)
        del way[row["depth"] + 1 :]
        way.append(way[-1].below(name, row["depth"]))
        node = way[-1].node
        node.names.add(name)
        node.paths.append(row["path"])
        node.calls += row["calls"]
        node.host_total_us += row["host_total_us"] or 0
        node.device_self_us += row["device_self_us"]
        node.device_total_us += row["device_total_us"]
        if (meanwhile := row["device_meanwhile_us"]) is not None:
            node.device_meanwhile_us = (node.device_meanwhile_us or 0) + meanwhile
    # merging can bring a child of a later path before an elder sibling of its parent
    found: list[MergedRange] = []
    left = [*reversed(top.branches.values())]
    while left:
        branch = left.pop()
        found.append(branch.node)
        left += reversed(branch.branches.values())
    return found


class _Branch(Struct):
    """A merged range and those inside it, by their name without its number, in order of appearance."""

    node: MergedRange
    branches: dict[str, _Branch] = field(default_factory=dict)

    def below(self, name: str, depth: int) -> _Branch:
        """The branch of a range inside this one."""
        base = without_number(name)
        if base not in self.branches:
            self.branches[base] = _Branch(MergedRange(name, base, depth))
        return self.branches[base]


def merged_kernels(kernels: Iterable[Json], paths: Iterable[str]) -> list[Json]:
    """The rows of `range_tree_kernels` of these paths, one per kernel, the most time of any thread first."""
    mine = set(paths)
    found: dict[tuple[str, str], Json] = {}
    for row in kernels:
        if row["path"] in mine:
            known = found.setdefault((row["name"], row["category"]), {**row, **dict.fromkeys(_SUMMED, 0)})
            known |= {key: known[key] + row[key] for key in _SUMMED}
    return sorted(found.values(), key=lambda row: (-row["device_meanwhile_us"], row["name"]))


def _gpu(node: MergedRange) -> float:
    return max(node.device_total_us, node.device_meanwhile_us or 0)


def largest(nodes: list[MergedRange], limit: int | None) -> list[MergedRange]:
    """At most so many, those with most GPU (else host) time: a range holds at least what is inside it."""
    if limit is None or len(nodes) <= limit:
        return nodes
    ranked = sorted(range(len(nodes)), key=lambda n: (-_gpu(nodes[n]), -nodes[n].host_total_us, n))
    return [nodes[n] for n in sorted(ranked[:limit])]
