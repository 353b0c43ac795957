"""What a view wants done outside of it: messages that bubble to the application, which has a handler for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tracetui.analysis.findings.core.finding import Query
    from tracetui.analysis.tables.field import Field


class OpenRuns(Message):
    """Brings a run into view, or two to compare, and goes to the tab for that."""

    def __init__(self, a: Path, b: Path | None = None) -> None:
        self.a, self.b = a, b
        super().__init__()


class ShowEvidence(Message):
    """Goes to the rows that a finding rests on, with a way back to the finding."""

    def __init__(self, query: Query) -> None:
        self.query = query
        super().__init__()


class ShowRows(Message):
    """Goes to a table of a tab, and to the row of this name."""

    def __init__(self, tab: str, table: str, name: str) -> None:
        self.tab, self.table, self.name = tab, table, name
        super().__init__()


class ShowInTimeline(Message):
    """Goes to the timeline, and there to a row of one of the trace's frames."""

    def __init__(self, source: str, row: int) -> None:
        self.source, self.row = source, row
        super().__init__()


class RangeMarked(Message):
    """A stretch of time was marked, which restricts every tab; or it is no longer."""

    def __init__(self, window: tuple[int, int] | None, words: str = "") -> None:
        """Sets up.

        Args:
            window: start and end, ns on the trace's clock; null for no restriction.
            words: what the header says of it.
        """
        self.window, self.words = window, words
        super().__init__()


class BackToFinding(Message):
    """Goes back to the finding that led to the rows in view."""


class WentBack(Message):
    """Esc has led to a page that was in view before: the way back may be shorter by it."""


class NothingToClose(Message):
    """Esc found nothing to close in the view: it means the application then."""


class NamesChosen(Message):
    """Short, full or raw names were asked for in all tabs."""


class ColumnsChosen(Message):
    """Other columns of a page are shown from now on."""

    def __init__(self, page: str, columns: Sequence[Field]) -> None:
        """Sets up.

        Args:
            page: id of the page.
            columns: all columns of the page.
        """
        self.page, self.columns = page, columns
        super().__init__()
