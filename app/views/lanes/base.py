"""What every part of the Timeline shares: its lanes, its widgets, the way to an event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.app.charts.scale import stretch
from tracetui.app.views.common.base import View
from tracetui.app.widgets.detail_pane import DetailPane
from tracetui.app.widgets.timeline import TimelineWidget

if TYPE_CHECKING:
    from tracetui.analysis.timeline.timeline import Place, Timeline


class LanesView(View):
    """The lanes, and the lines around them."""

    TAB = "timeline"

    def __init__(self) -> None:
        super().__init__()
        self._built: Timeline | None = None

    @property
    def picture(self) -> TimelineWidget:
        """The lanes."""
        return self.query_one(TimelineWidget)

    @property
    def detail(self) -> DetailPane:
        """Everything about the selected event."""
        return self.query_one(DetailPane)

    def go(self, place: Place) -> None:
        """Selects an event; where it would be too small to be seen, zooms in."""
        assert self._built is not None
        start, end = self._built.span(place)
        picture = self.picture
        cells = (end - start) * picture.columns // max(picture.end - picture.start, 1)
        if not cells:
            span = (end - start) * 12
            picture.start, picture.end = (start + end - span) // 2, (start + end + span) // 2
        picture.select(place)

    def _stretch(self, start: int, end: int) -> str:
        assert self._built is not None
        return stretch(start - self._built.zero, end - self._built.zero, ascii=self.session.ascii)

    def action_details(self) -> None:
        """Shows or hides everything about the selected event."""
        raise NotImplementedError
