"""Widgets that paint whole lines themselves, and keep each line until it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.text import Text
    from typing_extensions import Self


class Latest(Message):
    """A message of which only the last one matters."""

    def can_replace(self, message: Message) -> bool:
        """Returns whether it replaces an older one of its kind."""
        return isinstance(message, type(self))


class Painted(Widget):
    """A widget without border, padding and opacity, whose lines need nothing but their own content.

    Textual asks every widget near a change for all its lines, and adds borders and filters to each anew. These widgets
    answer with the lines that they have, and paint only those that `refresh` named since.
    """

    def __init__(self, *children: Widget, **options: Any) -> None:
        super().__init__(*children, **options)
        self._lines_ready: dict[int, Strip] = {}
        """Lines ready for the screen, by their number."""
        self._lines_ready_for: tuple[object, ...] = ()
        """The size and the filters that they were painted for."""

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Paints these regions anew, or everything."""
        if repaint and regions:
            for region in regions:
                for y in region.line_range:
                    self._lines_ready.pop(y, None)
        elif repaint:
            self._lines_ready.clear()
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def notify_style_update(self) -> None:
        """Colours have changed."""
        self._lines_ready.clear()
        super().notify_style_update()

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines of a part of the widget."""
        filters = self.get_line_filters()
        asked = (self.outer_size, *filters)
        if asked != self._lines_ready_for:
            self._lines_ready.clear()
            self._lines_ready_for = asked
        kept, wanted = self._lines_ready, crop.line_range
        missing = [y for y in wanted if y not in kept]
        if missing:
            if self.outer_size != self.size:  # a border or padding, which only Textual knows to paint
                return super().render_lines(crop)
            below, background = self.background_colors
            blank = Style.from_color(bgcolor=(below + background).rich_color)
            for y in missing:
                strip = self.render_line(y).adjust_cell_length(self.outer_size.width, blank)
                for filter in filters:
                    strip = strip.apply_filter(filter, background)
                kept[y] = strip
        strips = [kept[y] for y in wanted]
        if crop.column_span != (0, self.outer_size.width):
            strips = [strip.crop(*crop.column_span) for strip in strips]
        return strips

    def strip_of(self, text: Text) -> Strip:
        """A text of one line in the widget's own style, as wide as the widget; what does not fit is cut."""
        console = self.app.console
        style = self.rich_style
        segments = Segment.apply_style(text.render(console), style + console.get_style(text.style))
        return Strip(segments).adjust_cell_length(self.outer_size.width, style)


class Picture(Painted):
    """Lines of plain text, as high as there are lines."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._text: tuple[str, ...] = ()

    def show(self, lines: Sequence[str]) -> None:
        """Shows these lines, which must have passed `fitting.printable`, and paints those that are new."""
        before, self._text = self._text, tuple(lines)
        if len(before) != len(self._text):
            self.refresh(layout=True)
            return
        width = self.outer_size.width
        changed = [y for y, (old, new) in enumerate(zip(before, self._text, strict=True)) if old != new]
        if changed:
            self.refresh(*(Region(0, y, width, 1) for y in changed))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """The number of lines."""
        return len(self._text)

    def render_line(self, y: int) -> Strip:
        """A line, cut where it does not fit."""
        style = self.rich_style
        text = self._text[y] if y < len(self._text) else ""
        return Strip([Segment(text, style)]).adjust_cell_length(self.outer_size.width, style)
