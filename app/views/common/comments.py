"""Which rows of a page people wrote comments on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.app.text.fitting import cell_width, fit, fit_parts
from tracetui.parsers.runs.comments import comments_on

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tracetui.app.views.common.page import Page
    from tracetui.parsers import Run

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
            return page.total if cell_width(page.total) <= room else ""
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
