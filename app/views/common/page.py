"""What a table view shows at one depth of drilling: a frame and how to show it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tracetui.app.tables.filters import Filter

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from tracetui.analysis.tables.field import Field
    from tracetui.analysis.tables.table import Table


@dataclass(frozen=True)
class Page:
    """One table with its words."""

    id: str
    """Kind of page: column choices are remembered by it, drilling depends on it."""
    title: str
    """Its place in the breadcrumb."""
    frame: pl.DataFrame
    columns: tuple[Field, ...]
    noun: str
    """What a row is, in the plural."""
    note: str = ""
    """The base of the numbers: "steps 1-3, 9.35 ms of kernel time"."""
    empty: str = ""
    """Why there are no rows, and what to do; shown in place of an empty table."""
    sort: tuple[str, bool] | None = None
    """The order the frame already has, for the header's marker."""
    inside: str = ""
    """What Enter opens, for the footer; empty where it shows the details."""
    within: tuple[str, str] | None = None
    """Of a list of kernels: ("module", path) or ("operator", name) whose launches it counts; null for all."""
    alone: bool = False
    """Whether the other tables of the tab are known to be empty too, so that no key leads to them."""
    key: str = ""
    """The column that names a row uniquely, to find it again."""
    unit: str = ""
    """What its totals are of, where not of the whole range: ``per step``."""
    saved_as: str = ""
    """What a file of it is called, where not by its id."""

    @classmethod
    def of(cls, table: Table, frame: pl.DataFrame, **more: Any) -> Page:
        """The frame as the page of a declared table; `more` is what only this page has, or has otherwise."""
        declared = {
            "id": table.id, "title": table.title, "noun": table.noun, "columns": table.columns, "sort": table.sort,
            "inside": table.drill, "key": table.key,
        }  # fmt: skip
        return cls(frame=frame, **(declared | more))


@dataclass
class PageState:
    """A page and where the person is in it."""

    page: Page
    sort: tuple[str, bool] | None = None
    filter: str = ""
    parsed: Filter = field(default_factory=Filter)
    cursor: int = 0
    again: Callable[[], Page] | None = None
    """Computes the page anew; null where that takes more than what is in view."""
    expanded: frozenset[int] | None = None
