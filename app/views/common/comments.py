"""Which rows of a page people wrote comments on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.parsers.runs.folder.comments import comments_on

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tracetui.app.views.common.page import Page
    from tracetui.parsers import Run


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
