"""A tree as an icicle: one row of boxes per level, each as wide as its share, largest first."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from itertools import pairwise

from msgspec import Struct, field

from tracetui.analysis.base.number_format import format_percent
from tracetui.app.charts.cells import Run, texts
from tracetui.app.charts.drawing import LETTER, WIDTH, Drawing
from tracetui.app.text import fitting
from tracetui.app.text.fitting import printable
from tracetui.app.text.names import without_number

LEAST_BOX = 5
"""The least cells of a useful box: smaller siblings share one."""
LEAST_NAME = 3
"""The least cells from which a name can be recognized."""
LEAST_WIDTH = 20


class Node(Struct, frozen=True):
    """What a box represents."""

    rows: tuple[int, ...]
    """Rows of a frame: one module, or several that are shown as one."""
    name: str
    """Has passed `fitting.printable`."""
    value: float
    """The value that its width shows; as far as known, at least the sum of its children."""
    group: tuple[int, ...] = ()
    """The rows that it is grouped with by default."""


class Box(Struct, frozen=True):
    """A node's place."""

    node: Node
    start: int
    width: int
    """Cells, at least 1."""
    hidden: int = 0
    """How many nodes share the box; 0 for a box of a single node."""


def layout(
    way: Sequence[Node],
    roots: Sequence[Node],
    children: Callable[[Node], Sequence[Node]],
    width: int,
    levels: int,
    *,
    total: float = 0.0,
) -> list[list[Box]]:
    """Returns the boxes of each level, from the left.

    Args:
        way: the nodes zoomed into, outermost first; each takes the whole width.
        roots: the nodes of the first level.
        children: those inside a node.
        width: cells of the whole.
        levels: the maximum number of levels, including those of `way`.
        total: the value that the first level's width represents, if that is more than its nodes.
    """
    drawn = [[Box(node, 0, width)] for node in way]
    if way:
        level = _share(way[-1].value, children(way[-1]), 0, width, asked=True)
    else:
        level = _share(total, roots, 0, width)
    while level and len(drawn) < levels:
        drawn.append(level)
        level = [
            inner
            for box in level
            if not box.hidden
            for inner in _share(box.node.value, children(box.node), box.start, box.width)
        ]
    return drawn[:levels]


def _share(total: float, nodes: Sequence[Node], start: int, width: int, *, asked: bool = False) -> list[Box]:
    """Divides a box among the nodes inside it; nodes that are too small share the last box.

    After zooming in, nodes get boxes of their own even if no box has room for a name.
    """
    nodes = sorted((node for node in nodes if node.value > 0), key=lambda node: -node.value)
    total = max(total, sum(node.value for node in nodes))
    edges, reached = [0], 0.0
    for node in nodes:
        reached += node.value
        edges.append(round(reached / total * width))
    boxes: list[Box] = []
    least = 1 if asked and nodes and edges[1] < LEAST_BOX else LEAST_BOX
    for number, (begin, end) in enumerate(pairwise(edges)):
        if end - begin < least and len(nodes) - number > 1:
            rest = nodes[number:]
            if edges[-1] > begin:
                rows = tuple(row for node in rest for row in node.rows)
                together = Node(rows, f"{len(rest)} more", sum(node.value for node in rest))
                boxes.append(Box(together, start + begin, edges[-1] - begin, len(rest)))
            return boxes
        if end > begin:
            boxes.append(Box(nodes[number], start + begin, end - begin))
    return boxes


def box_runs(
    boxes: Sequence[Box], base: float, width: int, *, chosen: Node | None = None, above: bool = False,
    second: Callable[[Node], str] | None = None, ascii: bool = False,
) -> list[Run]:  # fmt: skip
    """Returns one level as text of exactly `width` cells.

    Its styles are ``box``, ``base`` (zoomed into, or around that), ``rest``, ``selected`` and ``gap``.

    Args:
        boxes: boxes of the level, from the left.
        base: the value that the shares in the boxes refer to.
        width: cells of the level.
        chosen: the node under the cursor.
        above: whether the level was zoomed into.
        second: text for a level's second line, in place of name and share.
        ascii: no characters outside ASCII.
    """
    runs: list[Run] = []
    at = 0
    for box in boxes:
        if box.start > at:
            runs.append(Run(" " * (box.start - at), "gap"))
        share = 100 * box.node.value / base if base else None
        text = box_text(box, None if above else share, ascii=ascii) if second is None else _line(second(box.node), box)
        style = "base" if above else "rest" if box.hidden else "box"
        if chosen is not None and box.node.rows == chosen.rows:
            style = "selected"
        runs.append(Run(_filled(text, box, ascii=ascii, plain=second is not None), style))
        at = box.start + box.width
    if at < width:
        runs.append(Run(" " * (width - at), "gap"))
    return runs


def box_text(box: Box, share: float | None, *, ascii: bool = False) -> str:
    """Returns name and share, as far as the box has room."""
    room = box.width - 1
    percent = "" if share is None else f" {format_percent(share)}"
    name, mark = box.node.name, "..." if ascii else "…"
    forms = (
        [f"{mark} {name}{percent}", f"{mark} {name}", f"{mark} {box.hidden}", mark] if box.hidden else [name + percent]
    )
    fitted = next((form for form in forms if fitting.cell_width(form) <= room), None)
    if fitted is None:
        fitted = fitting.fit(name, room, ascii=ascii) if room >= LEAST_NAME else ""
    return fitted


def _line(text: str, box: Box) -> str:
    return text if len(text) < box.width else ""


def _filled(text: str, box: Box, *, ascii: bool, plain: bool) -> str:
    """Returns edge, text, and a line to the end of the box, so that its extent shows without colours."""
    edge, fill = ("|", "-") if ascii else ("▏", "─")
    rest = box.width - 1 - fitting.cell_width(text)
    if plain:
        return edge + text + " " * rest
    return edge + text + (" " if rest > 1 and text else fill * rest) + fill * (rest - 1) * (rest > 1 and bool(text))


def icicle(
    roots: Sequence[Node], children: Callable[[Node], Sequence[Node]], width: int, levels: int, *, ascii: bool = False
) -> list[str]:
    """Returns rows of text, one per level, of at most `width`; none if there is no room or nothing to draw.

    Args:
        roots: the nodes of the first level; shares refer to their sum.
        children: those inside a node.
        width: cells.
        levels: at most so many rows.
        ascii: no characters outside ASCII.
    """
    base = sum(node.value for node in roots)
    if width < LEAST_WIDTH or base <= 0:
        return []
    levels_of_boxes = layout((), roots, children, width, levels)
    return [row.rstrip() for row in texts(box_runs(boxes, base, width, ascii=ascii) for boxes in levels_of_boxes)]


class IcicleTree(Struct):
    """Rows of a tree, and which of them are shown separately."""

    names: list[str]
    values: list[float]
    children_of: dict[int, list[int]]
    """Rows below each row, -1 for the roots."""
    total: float = 0.0
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
        sizes = [value or 0.0 for value in values]
        total = sum(value for value, depth in zip(sizes, depths, strict=True) if not depth)
        return cls(list(names), sizes, children, total, ascii)

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
        way = [row]
        while (parent := above.get(way[-1], -1)) >= 0:
            way.append(parent)
        return way

    def inside(self, box: Box) -> list[Node]:
        """Returns the nodes inside a box; for a box that small siblings share, these siblings."""
        return self._nodes(sorted(box.node.rows)) if box.hidden else self.children(box.node)

    def _nodes(self, rows: Sequence[int]) -> list[Node]:
        groups: dict[str, list[int]] = {}
        for row in rows:
            groups.setdefault(without_number(self.names[row]), []).append(row)
        nodes = []
        for base, members in groups.items():
            group = tuple(members)
            if len(group) > 1 and group[0] not in self.apart:
                count = f" {'x' if self.ascii else '×'}{len(group)}"
                name = printable(base, ascii=self.ascii) + count
                nodes.append(Node(group, name, sum(self.values[row] for row in group), group))
            else:
                nodes += [
                    Node((row,), printable(self.names[row], ascii=self.ascii), self.values[row], group) for row in group
                ]
        return nodes


ROW = 24
CELLS = int(WIDTH / LETTER)
"""Letters in a line: boxes and what has room in them are found as for a terminal of so many columns."""


def boxes_svg(tree: IcicleTree, levels: int, about: str) -> str:
    """Draws so many levels as SVG, with name and share where a box has room."""
    roots = tree.roots
    base = sum(node.value for node in roots)
    rows = layout((), roots, tree.children, CELLS, levels)
    drawing = Drawing(ROW * len(rows), about)
    wide = WIDTH / CELLS
    for level, boxes in enumerate(rows):
        for box in boxes:
            share = 100 * box.node.value / base if base else None
            title = f"{box.node.name}{'' if share is None else ' ' + format_percent(share)}"
            x, y = box.start * wide, ROW * level
            drawing.rect(x + 0.5, y + 1, box.width * wide - 1, ROW - 2, "rest" if box.hidden else "box", title)
            drawing.text(x + 5, y + 16, box_text(box, share, ascii=tree.ascii))
    return drawing.svg()
