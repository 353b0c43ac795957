"""Sorts the page in view by a column that is named by a part of its title."""

from __future__ import annotations

from tracetui.app.tables.by_name import columns_named
from tracetui.app.text.fitting import fit
from tracetui.app.views.common.filtered import FilteredView
from tracetui.app.widgets.prompt import Question

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
