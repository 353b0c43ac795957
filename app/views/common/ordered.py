"""Sorts the page in view by a column that is named by a part of its title."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tracetui.app.text.fitting import fit
from tracetui.app.views.common.filtered import FilteredView
from tracetui.app.widgets.prompt import Question

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


HINTS = (("Enter", "sort, again: reverse"), ("Esc", "cancel"), ("a part of a title", ""))


class OrderedView(FilteredView):
    """A view whose rows the user can sort."""

    def action_sort(self) -> None:
        """Asks for the column to sort by, and says at the right which one is meant."""
        if self.state is None:
            return
        self.host.ask(Question("sort", "sort by:", self._sort_by, changed=self._say_meant, pause=0.0, hints=HINTS))
        self._say_meant("")

    def _say_meant(self, text: str) -> None:
        """Lists the columns that the text may mean; the first is the one that Enter takes."""
        found = columns_named(self.table.chosen, text)
        first = f"[{found[0].label}]" if found and text.strip() else ""
        titles = " ".join(filter(None, (first, *(column.label for column in found[bool(first) :]))))
        words = titles or "no column has this in its title"
        self.host.remark(fit(words, max(self.size.width - 32, 12), ascii=self.session.ascii))

    def _sort_by(self, text: str) -> bool:
        """Sorts by the column that is meant, or reverses the order of its rows; returns whether the line closes."""
        if not text.strip() or self.state is None:
            return True
        found = columns_named(self.table.chosen, text)
        if not found:
            return False
        column, sort = found[0], self.table.sort
        same = sort is not None and sort[0] == column.name
        self.table.set_sort(column.name, descending=not sort[1] if same and sort is not None else column.right)
        if column not in self.table.shown:
            self.host.say(f"Sorted by {column.label}, which has no room here")
        return True
