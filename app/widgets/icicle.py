"""A tree as boxes with a cursor: down moves inside, right moves to smaller boxes, Enter zooms in."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual.message import Message
from textual.strip import Strip

from tracetui.app.charts.icicle import Box, IcicleTree, Node, box_runs, layout
from tracetui.app.keys import commands
from tracetui.app.widgets.painted import Painted

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.events import Click

MOST_LEVELS = 64
TWO_LINES = 2
"""Lines of a level where there is room: the second one says the time."""


class Icicle(Painted, can_focus=True):
    """Boxes as wide as their share; the keys of tables and trees work on the boxes."""

    BINDINGS: ClassVar = [*commands.bindings("table"), *commands.bindings("tree")]
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "icicle--box", "icicle--base", "icicle--rest", "icicle--selected", "icicle--gap",
    }  # fmt: skip

    class Moved(Message):
        """The cursor is on another box."""

    class Activated(Message):
        """A box was double-clicked."""

    class Refused(Message):
        """The user asked for a sort order or an expansion, which an icicle does not have."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.source = IcicleTree([], [], {})
        self.ascii = False
        self.time: Callable[[Node], str] = lambda node: ""
        """What stands in the second line of a box."""
        self.way: list[Box] = []
        """The boxes zoomed into, the outermost first."""
        self._ways: list[list[Box]] = []
        """What was zoomed into before."""
        self.levels: list[list[Box]] = []
        self.level, self.place = 0, 0
        """Where the cursor is: which level, which box of it."""
        self.top = 0
        self._laid_out = 0

    # --- what is shown

    def load(self, tree: IcicleTree, *, stand_on: int | None = None) -> None:
        """Shows another tree, the cursor on the box of a row."""
        self.source = tree
        self.way, self._ways = [], []
        self._lay_out()
        self.stand_on(stand_on)

    @property
    def current(self) -> Box | None:
        """The box under the cursor."""
        if self.level < len(self.levels) and self.place < len(self.levels[self.level]):
            return self.levels[self.level][self.place]
        return None

    @property
    def base(self) -> float:
        """Returns the base of the shares: the box zoomed into, or all."""
        return self.way[-1].node.value if self.way else self.source.total

    def stand_on(self, row: int | None) -> None:
        """Puts the cursor on the box that shows a row, the nearest one that holds it."""
        way = self.source.way_to(row) if row is not None else []
        self._stand_on_last(0, lambda box: any(wanted in box.node.rows for wanted in way))

    def _stand_on_last(self, level: int, is_it: Callable[[Box], bool]) -> None:
        """Puts the cursor on the innermost of the boxes that fit, else on the first of a level."""
        self.level, self.place = level, 0
        for level, boxes in enumerate(self.levels):
            for place, box in enumerate(boxes):
                if is_it(box):
                    self.level, self.place = level, place
        self.moved()

    def _lay_out(self) -> None:
        self._laid_out = self.size.width
        nodes = [box.node for box in self.way]
        inside = self.source.inside(self.way[-1]) if self.way else self.source.roots

        def children(node: Node) -> list[Node]:
            return inside if nodes and node is nodes[-1] else self.source.children(node)

        roots, width = self.source.roots, max(self.size.width, 1)
        self.levels = layout(nodes, roots, children, width, MOST_LEVELS, total=self.source.total)

    def relay(self, rows: tuple[int, ...]) -> None:
        """Lays the boxes out anew, the cursor on the box of these rows."""
        self._lay_out()
        self._stand_on_last(max(len(self.way) - 1, 0), lambda box: bool(rows) and set(rows) <= set(box.node.rows))

    def moved(self) -> None:
        """Keeps the cursor in sight and repaints."""
        shown = max(self.size.height // self._lines, 1)
        self.top = min(max(self.top, self.level - shown + 1), self.level)
        self.refresh()
        self.post_message(self.Moved())

    def on_resize(self) -> None:
        """Shares the new width."""
        box = self.current
        self.relay(box.node.rows if box is not None else ())

    # --- painting

    @property
    def _lines(self) -> int:
        """Lines of a level."""
        return TWO_LINES if len(self.levels) * TWO_LINES <= self.size.height else 1

    def render_line(self, y: int) -> Strip:
        """A level, or its second line."""
        width = self.size.width
        if width != self._laid_out:
            self._lay_out()
        number, line = divmod(y, self._lines)
        number += self.top
        if number >= len(self.levels):
            return Strip.blank(width, self.rich_style)
        chosen = self.current
        runs = box_runs(
            self.levels[number], self.base, width, chosen=chosen.node if chosen and number == self.level else None,
            above=number < len(self.way) - 1, second=self.time if line else None, ascii=self.ascii,
        )  # fmt: skip
        styles = {style: self.get_component_rich_style(f"icicle--{style}") for style in {run.style for run in runs}}
        return Strip([Segment(run.text, styles[run.style]) for run in runs]).adjust_cell_length(width)

    # --- moving

    def action_move(self, levels: int) -> None:
        """To the box around this one, or to the largest one inside it."""
        here, level = self.current, self.level + levels
        if here is None or not 0 <= level < len(self.levels):
            return
        middle = here.start + here.width // 2
        for place, box in enumerate(self.levels[level]):
            inside = here.start <= box.start < here.start + here.width
            around = box.start <= middle < box.start + box.width
            if inside if levels > 0 else around:
                self.level, self.place = level, place
                self.moved()
                return

    def action_expand(self) -> None:
        """To the next box of the level."""
        self._beside(1)

    def action_collapse(self) -> None:
        """To the box before."""
        self._beside(-1)

    def _beside(self, step: int) -> None:
        if self.levels and 0 <= self.place + step < len(self.levels[self.level]):
            self.place += step
            self.moved()

    def action_goto(self, position: int) -> None:
        """To the first level, or the last."""
        if self.levels:
            self.level = 0 if position >= 0 else len(self.levels) - 1
            self.place = 0
            self.moved()

    def action_page(self, pages: int) -> None:
        """To the first level, or the last."""
        self.action_goto(-1 if pages > 0 else 0)

    action_half_page = action_page  # an icicle is seldom deeper than the screen

    def action_fold(self) -> None:
        """Shows the instances of a box apart, or together again."""
        box = self.current
        if box is None or len(box.node.group) < 2:
            return
        group = box.node.group
        rows = box.node.rows[:1] if group[0] not in self.source.apart else group
        self.source.apart ^= set(group)
        if any(not way.hidden and set(group) & set(way.node.rows) for way in self.way):
            self.way, self._ways = [], []
        self.relay(rows)

    def zoom(self) -> bool:
        """Gives the box under the cursor the whole width; whether there was something inside."""
        box = self.current
        if box is None or not self.source.inside(box) or (self.way and self.level == len(self.way) - 1):
            return False
        self._ways.append(self.way)
        self.way = self.way[: self.level + 1] if self.level < len(self.way) else [*self._around(box), box]
        self._lay_out()
        if box.hidden and [one.hidden for one in self.levels[len(self.way)]] == [box.hidden]:
            self.out()
            return False
        self.level, self.place = len(self.way) - 1, 0
        self.moved()
        return True

    def _around(self, box: Box) -> list[Box]:
        """Returns the boxes around a box, starting with those zoomed into."""
        found = list(self.way)
        for boxes in self.levels[len(self.way) : self.level]:
            found += [one for one in boxes if one.start <= box.start < one.start + one.width]
        return found

    def out(self) -> bool:
        """Undoes the last zoom; returns whether there was one."""
        if not self._ways:
            return False
        left = self.way[-1].node.rows
        self.way = self._ways.pop()
        self.relay(left)
        return True

    def action_collapse_all(self) -> None:
        """Zooms out altogether."""
        if self._ways:
            rows = self.way[-1].node.rows
            self.way, self._ways = [], []
            self.relay(rows)

    def _refuse(self, *_: object) -> None:
        """Nothing is folded here, and there is one order."""
        self.post_message(self.Refused())

    action_expand_chain = action_expand_all = action_sort_by = action_reverse = _refuse

    def on_click(self, event: Click) -> None:
        """Puts the cursor on the box; twice zooms in."""
        level = event.y // self._lines + self.top
        if level >= len(self.levels):
            return
        for place, box in enumerate(self.levels[level]):
            if box.start <= event.x < box.start + box.width:
                self.level, self.place = level, place
                self.moved()
                if event.chain == 2:
                    self.post_message(self.Activated())
