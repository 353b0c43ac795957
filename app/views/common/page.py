"""A page of a table view: a frame and how to show it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tracetui.app.tables.filters import Filter

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from tracetui.analysis.tables.table import Field, Table


@dataclass(frozen=True)
class Page:
    """One table with its texts."""

    id: str
    """Kind of page: column choices are remembered by it, drilling depends on it."""
    title: str
    """Its text in the breadcrumb."""
    frame: pl.DataFrame
    columns: tuple[Field, ...]
    noun: str
    """What a row is, in the plural."""
    note: str = ""
    """The base of the numbers: "steps 1-3, 9.35 ms of kernel time"."""
    total: str = ""
    """The number of the note that stays wherever there is room for it: ``18.71 ms``."""
    crumb: str = ""
    """Its text in the breadcrumb of what is inside; empty if that is the title."""
    brief: str = ""
    """What stands in place of the note where that has no room; empty if only the note's parts are left out."""
    empty: str = ""
    """Why there are no rows, and what to do about it; shown in place of an empty table."""
    sort: tuple[str, bool] | None = None
    """The order the frame already has, for the header's marker."""
    inside: str = ""
    """What Enter opens, for the footer; empty where it shows the details."""
    within: tuple[str, str] | None = None
    """For a list of kernels: the ("module", path) or ("operator", name) whose launches it counts; None for all."""
    alone: bool = False
    """Whether the other tables of the tab are known to be empty too, so that no key leads to them."""
    key: str = ""
    """The column that names a row uniquely, to find it again."""
    unit: str = ""
    """What its totals cover, if not the whole range: ``per step``."""
    saved_as: str = ""
    """The name of a saved file, if not its id."""

    @classmethod
    def of(cls, table: Table, frame: pl.DataFrame, **more: Any) -> Page:
        """Makes the page of a declared table from a frame; `more` sets or overrides attributes of this page."""
        declared = {
            "id": table.id, "title": table.title, "noun": table.noun, "columns": table.columns, "sort": table.sort,
            "inside": table.drill, "key": table.key,
        }  # fmt: skip
        return cls(frame=frame, **(declared | more))


@dataclass
class PageState:
    """A page and the user's position in it."""

    page: Page
    sort: tuple[str, bool] | None = None
    filter: str = ""
    parsed: Filter = field(default_factory=Filter)
    cursor: int = 0
    again: Callable[[], Page] | None = None
    """Recomputes the page; None if that needs more than what is in view."""
    expanded: frozenset[int] | None = None
