"""Timeline: the marked range, which restricts every tab."""

from __future__ import annotations

from tracetui.analysis.timeline.ranks_timeline import RanksTimeline
from tracetui.app.keys import commands
from tracetui.app.views.common.messages import RangeMarked
from tracetui.app.views.lanes.base import LanesView


class Marking(LanesView):
    """The keys for both ends of a range."""

    def action_mark(self, end: str) -> None:
        """Marks the start or end of a range, at the selected event's start or end; both together restrict all tabs."""
        built, picture = self._built, self.picture
        if built is None:
            return
        if isinstance(built, RanksTimeline):
            key = commands.key("timeline.ranks")
            self.host.say(f"A range is marked in the lanes of one rank: {key} and Enter show them")
            return
        span = built.span(picture.selected) if picture.selected is not None else (picture.time, picture.time)
        begin, finish = picture.marks
        if end == "begin":
            begin = span[0]
            finish = finish if finish is not None and finish > begin else None
        else:
            finish = span[1]
            begin = begin if begin is not None and begin < finish else None
        picture.marks = begin, finish
        picture.changed(moved=False)
        if begin is None or finish is None:
            self.post_message(RangeMarked(None))
            self.host.say(
                f"{'Begin' if finish is None else 'End'} marked: {']' if finish is None else '['} marks the other end"
            )
        else:
            self.post_message(RangeMarked((begin, finish), f"range {self._stretch(begin, finish)}"))

    def forget_marks(self) -> None:
        """Removes the marks, because the range is no longer in force."""
        self.picture.marks = None, None
        self.picture.changed(moved=False)
