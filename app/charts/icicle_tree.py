"""Makes the nodes of an icicle from a frame in tree order; instances that differ only by number count as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from tracetui.app.charts.icicle import Node
from tracetui.app.text.fitting import printable
from tracetui.app.text.names import without_number

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from tracetui.app.charts.icicle import Box


class IcicleTree(Struct):
    """Rows of a tree, and which of them are shown separately."""

    names: list[str]
    values: list[float]
    children_of: dict[int, list[int]]
    """Rows below each row, -1 for the roots."""
    whole: float = 0.0
    """The sum of all roots, including those that are not shown."""
    ascii: bool = False
    apart: set[int] = field(default_factory=set)
    """Rows that are shown separately, and not grouped with others of their name."""

    @classmethod
    def of(
        cls, names: Sequence[str], depths: Sequence[int], values: Iterable[float | None], *,
        kept: Container[int] | None = None, ascii: bool = False,
    ) -> IcicleTree:  # fmt: skip
        """Builds the tree from rows in depth-first order; only from those in `kept`, if given."""
        children: dict[int, list[int]] = {}
        way: list[int] = []
        for row, depth in enumerate(depths):
            del way[depth:]
            if kept is None or row in kept:
                children.setdefault(way[-1] if way else -1, []).append(row)
            way.append(row)
        known = [value or 0.0 for value in values]
        whole = sum(value for value, depth in zip(known, depths, strict=True) if not depth)
        return cls(list(names), known, children, whole, ascii)

    @property
    def roots(self) -> list[Node]:
        """Returns the nodes of the first level."""
        return self._nodes(self.children_of.get(-1, []))

    def children(self, node: Node) -> list[Node]:
        """Returns the nodes inside a node."""
        return self._nodes([child for row in node.rows for child in self.children_of.get(row, ())])

    def way_to(self, row: int) -> list[int]:
        """Returns a row and its ancestors."""
        above = {child: parent for parent, children in self.children_of.items() for child in children}
        found = [row]
        while (parent := above.get(found[-1], -1)) >= 0:
            found.append(parent)
        return found

    def inside(self, box: Box) -> list[Node]:
        """Returns the nodes inside a box; for a box that small siblings share, these siblings."""
        return self._nodes(sorted(box.node.rows)) if box.hidden else self.children(box.node)

    def _nodes(self, rows: Sequence[int]) -> list[Node]:
        groups: dict[str, list[int]] = {}
        for row in rows:
            groups.setdefault(without_number(self.names[row]), []).append(row)
        found = []
        for base, members in groups.items():
            group = tuple(members)
            if len(group) > 1 and group[0] not in self.apart:
                count = f" {'x' if self.ascii else '×'}{len(group)}"
                name = printable(base, ascii=self.ascii) + count
                found.append(Node(group, name, sum(self.values[row] for row in group), group))
            else:
                found += [
                    Node((row,), printable(self.names[row], ascii=self.ascii), self.values[row], group) for row in group
                ]
        return found
