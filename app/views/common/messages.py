"""Messages from views to the application, which has a handler for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tracetui.analysis.findings.core.finding import Query
    from tracetui.analysis.tables.table import Field


@dataclass
class OpenRuns(Message):
    """Shows a run, or two to compare, and goes to the tab for that."""

    a: Path
    b: Path | None = None


@dataclass
class ShowEvidence(Message):
    """Goes to the rows that a finding rests on, with a way back to the finding."""

    query: Query


class BackToPlace(Message):
    """Goes back to the previous place, as Ctrl+O does."""


@dataclass
class ShowRows(Message):
    """Goes to a table of a tab, and to the row of this name."""

    tab: str
    table: str
    name: str


@dataclass
class ShowRank(Message):
    """Shows a rank of the run in view, from its overview on."""

    rank: int


@dataclass
class ShowInTimeline(Message):
    """Goes to the timeline, and there to a row of one of the trace's frames."""

    source: str
    row: int


@dataclass
class ShowGap(Message):
    """Goes to the timeline, and there to a stretch in which a GPU is idle."""

    device: int | None
    start: int
    """ns on the trace's clock."""
    end: int


@dataclass
class ShowRanks(Message):
    """Goes to the timeline of several ranks on their common clock."""

    ranks: Sequence[int]
    start: int | None = None
    """Where to go, ns on the job's clock (`Job.calls`, `Job.collectives`): of a collective, its first arrival; None for
    the whole recording."""
    end: int | None = None


@dataclass
class RangeMarked(Message):
    """A time range was marked, which restricts every tab, or its restriction ended."""

    window: tuple[int, int] | None
    """Start and end, ns on the trace's clock; None for no restriction."""
    words: str = ""
    """What the header says of it."""


class BackToFinding(Message):
    """Goes back to the finding that led to the rows in view."""


class WentBack(Message):
    """Esc has led to a page that was in view before, so the navigation history may shrink."""


class NothingToClose(Message):
    """Esc found nothing to close in the view, so the application handles it."""


class NamesChosen(Message):
    """The user chose short, full or raw names for all tabs."""


@dataclass
class ColumnsChosen(Message):
    """Other columns of a page are shown from now on."""

    page: str
    """Its id."""
    columns: Sequence[Field]
    """All columns of the page."""
