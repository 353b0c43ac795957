"""Timeline: what it says of the lanes in view and of the selected event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from tracetui.analysis.base.number_format import format_ns, spans
from tracetui.analysis.timeline.facts import facts
from tracetui.analysis.timeline.ranks_timeline import RanksTimeline
from tracetui.app.keys import commands
from tracetui.app.text.fitting import printable
from tracetui.app.views.lanes.moving import Moving
from tracetui.app.views.texts.timeline_text import arrivals_line, facts_text, selected_lines
from tracetui.app.widgets.lines import Line

if TYPE_CHECKING:
    from tracetui.app.widgets.timeline import TimelineWidget


def _certain(built: RanksTimeline) -> str:
    """How far moments of different ranks can be told apart."""
    return "" if built.residual_ns is None else f" ±{format_ns(built.residual_ns)}"


class Described(Moving):
    """The title, two lines about the selected event, and everything about it on demand."""

    def on_timeline_picture_moved(self, event: TimelineWidget.Moved) -> None:
        """Follows the cursor."""
        event.stop()
        self._describe()

    def _describe(self) -> None:
        built, picture = self._built, self.picture
        if built is None:
            return
        own, ascii = self.host.own, self.session.ascii
        left = Text(f" {printable(picture.title, ascii=ascii)}", "bold")
        shown = self._stretch(picture.start, picture.end)
        whole = picture.start <= built.start and picture.end >= built.end
        left.append(own(f"  {shown}{' · all' if whole else ' of'} {format_ns(built.end - built.start)}"), "not bold")
        if picture.lanes.hidden:
            left.append(f"  {len(picture.lanes.hidden)} hidden (X)", "not bold")
        self.query_one("#title", Line).show(left, self._count())
        if self.searched:
            left.append(f"  {printable(self.searched, ascii=ascii)}", "not bold")
        if isinstance(built, RanksTimeline):
            left.append(own(f"  ranks {spans(built.ranks)}{_certain(built)}"), "not bold")
        place = picture.selected
        of, here = (built, None) if place is None else built.local(place)
        first, second = selected_lines(of, here, self.size.width, ascii=ascii)
        if isinstance(built, RanksTimeline) and place is not None and (arrivals := built.arrivals(place)):
            second = arrivals_line(arrivals)
        self.query_one("#selected", Line).show(own(f" {first}"))
        self.query_one("#context", Line).show(own(f" {second}"))
        if self.detail.display:
            self._show_detail()

    def _count(self) -> str:
        place, built = self.picture.selected, self._built
        return f"{place.position + 1:,}/{built.row(place).size:,} " if place is not None and built is not None else ""

    def action_details(self) -> None:
        """Shows or hides everything about the selected event."""
        self.detail.display = not self.detail.display
        if self.detail.display:
            self.call_after_refresh(self._show_detail)
        self.host.refresh_lines()

    def _show_detail(self) -> None:
        self.detail.show_text(Text("\n".join(self._detail_lines())))

    def _detail_lines(self) -> list[str]:
        built, place = self._built, self.picture.selected
        if built is None or place is None:
            return ["Nothing is selected."]
        width = (self.detail.size.width or self.size.width) - 2
        return facts_text(facts(*built.local(place)), built.zero, width, ascii=self.session.ascii)

    def action_scroll_detail(self, lines: int) -> None:
        """Scrolls the details."""
        if not self.detail.display:
            self.host.say(f"The details are closed: {commands.key('timeline.details')} opens them")
        self.detail.scroll_relative(y=lines, animate=False)

    def action_copy(self) -> None:
        """Copies everything about the selected event."""
        self.app.copy_to_clipboard("\n".join(self._detail_lines()))
        self.host.say("Copied the details")
