"""Draws a tree as an icicle: one row of boxes per level, each as wide as its share, largest first."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from tracetui.analysis.base import number_format
from tracetui.app.text import fitting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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


class Run(NamedTuple):
    """Cells with one style: ``box``, ``base`` (zoomed into, or around that), ``rest``, ``selected`` or ``gap``."""

    text: str
    style: str


def layout(
    way: Sequence[Node],
    roots: Sequence[Node],
    children: Callable[[Node], Sequence[Node]],
    width: int,
    levels: int,
    *,
    whole: float = 0.0,
) -> list[list[Box]]:
    """Returns the boxes of each level, from the left.

    Args:
        way: the nodes zoomed into, outermost first; each takes the whole width.
        roots: the nodes of the first level.
        children: those inside a node.
        width: cells of the whole.
        levels: the maximum number of levels, including those of `way`.
        whole: the value that the first level's width represents, if that is more than its nodes.
    """
    found = [[Box(node, 0, width)] for node in way]
    if way:
        level = _share(way[-1].value, children(way[-1]), 0, width, asked=True)
    else:
        level = _share(whole, roots, 0, width)
    while level and len(found) < levels:
        found.append(level)
        level = [
            inner
            for box in level
            if not box.hidden
            for inner in _share(box.node.value, children(box.node), box.start, box.width)
        ]
    return found[:levels]


def _share(whole: float, nodes: Sequence[Node], start: int, width: int, *, asked: bool = False) -> list[Box]:
    """Divides a box among the nodes inside it; nodes that are too small share the last box.

    After zooming in, nodes get boxes of their own even if no box has room for a name.
    """
    nodes = sorted((node for node in nodes if node.value > 0), key=lambda node: -node.value)
    whole = max(whole, sum(node.value for node in nodes))
    edges, reached = [0], 0.0
    for node in nodes:
        reached += node.value
        edges.append(round(reached / whole * width))
    found: list[Box] = []
    least = 1 if asked and nodes and edges[1] < LEAST_BOX else LEAST_BOX
    for number, (begin, end) in enumerate(pairwise(edges)):
        if end - begin < least and len(nodes) - number > 1:
            rest = nodes[number:]
            if edges[-1] > begin:
                rows = tuple(row for node in rest for row in node.rows)
                together = Node(rows, f"{len(rest)} more", sum(node.value for node in rest))
                found.append(Box(together, start + begin, edges[-1] - begin, len(rest)))
            return found
        if end > begin:
            found.append(Box(nodes[number], start + begin, end - begin))
    return found


def box_runs(
    boxes: Sequence[Box], base: float, width: int, *, chosen: Node | None = None, above: bool = False,
    second: Callable[[Node], str] | None = None, ascii: bool = False,
) -> list[Run]:  # fmt: skip
    """Returns one level as text of exactly `width` cells.

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
    percent = "" if share is None else f" {number_format.format_percent(share)}"
    name, mark = box.node.name, "..." if ascii else "…"
    forms = (
        [f"{mark} {name}{percent}", f"{mark} {name}", f"{mark} {box.hidden}", mark] if box.hidden else [name + percent]
    )
    found = next((form for form in forms if fitting.cell_width(form) <= room), None)
    if found is None:
        found = fitting.fit(name, room, ascii=ascii) if room >= LEAST_NAME else ""
    return found


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
    found = layout((), roots, children, width, levels)
    return ["".join(run.text for run in box_runs(boxes, base, width, ascii=ascii)).rstrip() for boxes in found]
