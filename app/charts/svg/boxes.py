"""A tree as boxes: one row per level, each box as wide as its share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import format_percent
from tracetui.app.charts.icicle import box_text, layout
from tracetui.app.charts.svg.drawing import LETTER, WIDTH, Drawing

if TYPE_CHECKING:
    from tracetui.app.charts.icicle_tree import IcicleTree

ROW = 24
CELLS = int(WIDTH / LETTER)
"""Letters in a line: boxes and what has room in them are found as for a terminal of so many columns."""


def boxes_svg(tree: IcicleTree, levels: int, about: str) -> str:
    """The boxes of so many levels, largest first, with name and share where there is room."""
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
