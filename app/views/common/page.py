"""A page of a table view: a frame and how to show it, and what people wrote on its rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.app.tables.filters import Filter
from tracetui.app.text.fitting import cell_width, fit, fit_parts
from tracetui.parsers.runs.comments import comments_on

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tracetui.analysis.tables.table import Field, Table
    from tracetui.parsers import Run


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


# --- comments that people wrote on rows

LEAST = 12
"""Columns of a comment from which it can be read."""
BASE_PARTS = 2
"""Parts of a note that say what the numbers cover: the steps, and what all shares are of."""
PARTS = " · "
LABELS = ("  Comment: ", "  # ")
"""What stands before a comment, the second as in the gutter of its row."""


def note_text(page: Page, comment: str, room: int, *, ascii: bool) -> str:
    """A page's note, with a comment behind it, as far as there is room; the details have the comment whole.

    Args:
        page: its note begins with the base of the numbers; other remarks give way.
        comment: text that `printable` returned; empty if there is none.
        room: columns.
        ascii: no characters outside ASCII.
    """
    note = page.brief if page.brief and cell_width(page.note) > room else page.note
    if not comment:
        shown = fit_parts(note, room, ascii=ascii)
        if page.total and (cell_width(shown) > room or page.total not in shown):
            # the total goes first where the base is long, and stays when nothing else fits
            shown = fit_parts(f"{page.total}{PARTS}{note}", room, ascii=ascii)
            whole = shown if cell_width(shown) <= room else page.total
            return whole if cell_width(whole) <= room else ""
        return shown
    parts = note.split(PARTS)
    kept = note
    for count in range(len(parts), min(BASE_PARTS, len(parts)) - 1, -1):
        kept = PARTS.join(parts[:count])
        for label in LABELS:
            left = room - cell_width(kept) - len(label)
            if left >= min(cell_width(comment), LEAST if label == LABELS[-1] else room):
                return (kept + label).lstrip() + fit(comment, left, ascii=ascii)
    return (kept + LABELS[-1]).strip()


def row_name(page: Page, row: Mapping[str, object]) -> str:
    """What names a row of a page, in the file of comments and for finding it again."""
    return str(row.get(name_column(page)) or "")


def name_column(page: Page) -> str:
    """The column that names a row: a finding's key, the page's, a name, a moment; else its first column."""
    known = page.frame.columns
    columns = (column.name for column in page.columns)
    wanted = ("finding_key", page.key, "path", "name", "at_ns", "instance", "rank", *columns)
    return next((name for name in wanted if name and name in known), "")


def by_row(page: Page, tab: str, run: Run) -> dict[int, str]:
    """The last comment on each row of a page, by row of its frame."""
    mine = {one.row: one.text for one in comments_on(run) if one.tab == tab and one.page == page.id}
    column = name_column(page)
    if not mine or column not in page.frame.columns:
        return {}
    names = page.frame[column].cast(pl.String)
    at = names.is_in(list(mine)).arg_true()
    return {row: mine[names[row]] for row in at.to_list()}
