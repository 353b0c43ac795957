"""Messages from views to the application, which has a handler for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tracetui.analysis.findings.core.finding import Query
    from tracetui.analysis.tables.table import Field


class OpenRuns(Message):
    """Shows a run, or two to compare, and goes to the tab for that."""

    def __init__(self, a: Path, b: Path | None = None) -> None:
        self.a, self.b = a, b
        super().__init__()


class ShowEvidence(Message):
    """Goes to the rows that a finding rests on, with a way back to the finding."""

    def __init__(self, query: Query) -> None:
        self.query = query
        super().__init__()


class BackToPlace(Message):
    """Goes back to the previous place, as Ctrl+O does."""


class ShowRows(Message):
    """Goes to a table of a tab, and to the row of this name."""

    def __init__(self, tab: str, table: str, name: str) -> None:
        self.tab, self.table, self.name = tab, table, name
        super().__init__()


class ShowRank(Message):
    """Shows a rank of the run in view, from its overview on."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        super().__init__()


class ShowInTimeline(Message):
    """Goes to the timeline, and there to a row of one of the trace's frames."""

    def __init__(self, source: str, row: int) -> None:
        self.source, self.row = source, row
        super().__init__()


class ShowGap(Message):
    """Goes to the timeline, and there to a stretch in which a GPU is idle."""

    def __init__(self, device: int | None, start: int, end: int) -> None:
        """Sets up.

        Args:
            device: the GPU.
            start: of the gap, ns on the trace's clock.
            end: of the gap.
        """
        self.device, self.start, self.end = device, start, end
        super().__init__()


class ShowRanks(Message):
    """Goes to the timeline of several ranks on their common clock."""

    def __init__(self, ranks: Sequence[int], start: int | None = None, end: int | None = None) -> None:
        """Sets up.

        Args:
            ranks: whose lanes are shown.
            start: where to go, ns on the job's clock (`Job.calls`, `Job.collectives`): of a collective, its first
                arrival; None for the whole recording.
            end: where that ends.
        """
        self.ranks, self.start, self.end = tuple(ranks), start, end
        super().__init__()


class RangeMarked(Message):
    """A time range was marked, which restricts every tab, or its restriction ended."""

    def __init__(self, window: tuple[int, int] | None, words: str = "") -> None:
        """Sets up.

        Args:
            window: start and end, ns on the trace's clock; None for no restriction.
            words: what the header says of it.
        """
        self.window, self.words = window, words
        super().__init__()


class BackToFinding(Message):
    """Goes back to the finding that led to the rows in view."""


class WentBack(Message):
    """Esc has led to a page that was in view before, so the navigation history may shrink."""


class NothingToClose(Message):
    """Esc found nothing to close in the view, so the application handles it."""


class NamesChosen(Message):
    """The user chose short, full or raw names for all tabs."""


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
