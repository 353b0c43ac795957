"""Finds a column by a part of its title."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.tables.table import Field


def columns_named(columns: Sequence[Field], text: str) -> list[Field]:
    """Returns the columns that a text may mean, the likeliest first.

    Upper and lower case are the same. The whole title goes first, then a title that begins with the text, then a word
    of it that does, then a title that holds it, then one that has its letters in their order (``gt``: GPU total).

    Args:
        columns: in the order of the table; of equally good ones, the earlier goes first.
        text: as typed; an empty one means every column.
    """
    wanted = text.strip().lower()
    ranked = [(rank, column) for column in columns if (rank := _rank(column.label.lower(), wanted)) is not None]
    return [column for _, column in sorted(ranked, key=lambda each: each[0])]


def _rank(title: str, wanted: str) -> int | None:
    letters = ".*".join(map(re.escape, wanted.replace(" ", "")))
    forms = (
        title == wanted,
        title.startswith(wanted),
        any(word.startswith(wanted) for word in title.split()),
        wanted in title,
        re.search(letters, title) is not None,
    )
    return next((rank for rank, holds in enumerate(forms) if holds), None)
