"""A tab whose totals can cover the whole range, one step or one call, and whose rows can be grouped."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import polars as pl

from tracetui.analysis.tables.table import Field
from tracetui.app.keys import commands
from tracetui.app.session.session import Session
from tracetui.app.tables import totals
from tracetui.app.tables.totals import Per
from tracetui.app.views.common.page import Page
from tracetui.app.views.common.table_view import WAITING, TableView

GROUPED = "by "
"""The start of `Page.within` for the kernels of a group: ``("by category", "gemm")``."""
OPERATOR_IN = "operator "
"""The same for kernels that an operator launched in a group: ``("operator module\\tBlock_3", "aten::mm")``."""


def in_units(session: Session, page: Page, *, calls: str = "calls") -> Page:
    """Converts a page's totals to the whole range, one step or one call, as requested; its title says which.

    Args:
        session: holds the request; for numbers per step, the page must be of `Session.counted`.
        page: one with totals of the whole range.
        calls: the column that counts calls.
    """
    per = told(session)
    page = replace(page, columns=filled(page.columns, page.frame))
    if per == "total" or not page.frame.height:
        return page
    steps = session.counted().step_count
    frame, columns = totals.divided(page.frame, page.columns, per, steps=steps, calls=calls)
    if per == "call" and page.sort is not None and any(c.sums and c.name == page.sort[0] for c in columns):
        frame = frame.sort(page.sort[0], descending=page.sort[1], nulls_last=True, maintain_order=True)
    return replace(page, frame=frame, columns=columns, unit=totals.WORDS[per], saved_as=f"{page.id}_per_{per}")


def filled(columns: tuple[Field, ...], frame: pl.DataFrame) -> tuple[Field, ...]:
    """Removes columns that are empty in all rows, because the tool does not record them."""
    if not frame.height:
        return columns
    return tuple(c for c in columns if c.name not in frame.columns or not _is_empty(frame[c.name]))


def _is_empty(values: pl.Series) -> bool:
    if values.dtype == pl.String:
        values = values.replace("", None)
    return bool(values.null_count() == values.len())


def told(session: Session) -> Per:
    """Returns what the totals of a run's tables cover; without steps, never one step."""
    return "total" if session.per == "step" and not session.has_steps else session.per


class CountedView(TableView):
    """A table whose numbers can be divided, and whose rows can be grouped."""

    BINDINGS = commands.bindings("counted")
    GROUPS: ClassVar[tuple[str, ...]] = ()
    """The tables whose rows can be grouped."""
    USUAL_PER: ClassVar[Per] = "total"
    """What its totals cover by default."""

    def __init__(self) -> None:
        super().__init__()
        self._shown_per: Per | None = None

    # --- what a tab may define

    @property
    def per(self) -> Per:
        """Returns what its totals cover."""
        return told(self.session)

    @per.setter
    def per(self, per: Per) -> None:
        self.session.per = per

    @property
    def has_steps(self) -> bool:
        """Returns whether numbers per step are possible."""
        return self.session.has_steps

    def groupings(self) -> tuple[str, ...]:
        """Returns what the rows can be grouped by, first of all by name; runs in a thread."""
        return ("name",)

    @property
    def grouped_by(self) -> str:
        """Returns what the rows are grouped by."""
        return self.session.grouped.get(self.TAB, "name")

    # --- totals, per step, per call

    def action_units(self) -> None:
        """Switches from totals to numbers per step, then per call."""
        state = self.state
        if state is None:
            return
        if not any(column.sums for column in state.page.columns):
            self.host.say("There are no totals in this table that could be divided by steps or calls")
            return
        self.per = totals.next_unit(self.per, has_steps=self.has_steps)
        words = totals.WORDS[self.per] or "totals of everything in view"
        self.rebuild()
        self.host.say(f"{words[0].upper()}{words[1:]}" + ("" if self.has_steps else " (no steps are known here)"))

    def rebuild(self) -> None:
        """Recomputes all open pages; the rows in view, their order and the cursor stay."""
        self._shown_per = self.per
        makers = [self.root]
        for state in self._stack[1:]:
            if state.again is None:
                break
            makers.append(state.again)
        self._compute("pages", lambda: [make() for make in makers])

    def show(self, result: Page) -> None:
        """Starts over from the root page."""
        self._shown_per = self.per
        super().show(result)

    def show_inner(self, result: Page | list[Page]) -> None:
        """Shows an opened page, or applies the recomputed pages."""
        if not isinstance(result, list):
            super().show_inner(result)
            return
        self._remember()
        row = self.table.current
        del self._stack[len(result) :]
        self._stack = [replace(state, page=page) for state, page in zip(self._stack, result, strict=True)]
        self._show_page()
        key = result[-1].key
        if row is not None and self.table.cursor and key in row and key in result[-1].frame.columns:
            same = result[-1].frame[key].cast(pl.String).eq_missing(pl.Series([row[key]]).cast(pl.String)).arg_true()
            if same.len():
                self.table.stand_on(same[0])

    def revisit(self) -> None:
        """Applies changes made since the last visit."""
        super().revisit()
        if self._stack and self._shown_per != self.per:
            self.rebuild()

    # --- groups

    def action_group(self, step: int) -> None:
        """Groups the rows of the first page by the next available grouping."""
        if not self.GROUPS or self.state is None:
            grouped = "Kernels, Operators, Collectives, and the gaps and API calls of Host"
            self.host.say(f"The rows of this tab are not grouped: {commands.key('table.group')} works in {grouped}")
            return
        if len(self._stack) > 1:
            self.host.say(f"{commands.key('go.back')} goes back to the table that {commands.key('table.group')} groups")
            return
        if self.kind not in self.GROUPS:
            tables = " and ".join(self.GROUPS)
            self.host.say(f"Only the {tables} can be grouped: {commands.key('table.next')} goes to them")
            return

        def work() -> Page:
            known = self.groupings()
            at = known.index(self.grouped_by) if self.grouped_by in known else 0
            self.session.grouped[self.TAB] = known[(at + step) % len(known)]
            return self.root()

        self.host.say(WAITING)
        self._compute("root", work)

    def go_to(self, name: str) -> None:
        """Goes to the named row, after ending the grouping, since groups have no such rows."""
        if self._was_grouped():
            self._wanted = name
            self.reload()
        else:
            super().go_to(name)

    def open_at(self, table: str, name: str) -> None:
        """Opens a table with its rows by name; for a finding, with the totals that its filter refers to."""
        anew = self._was_grouped()
        if self.host.came_from_finding and self.per != self.USUAL_PER:
            self.per = self.USUAL_PER
            anew = anew or bool(self._stack)
        if anew:
            self._wanted = name or None
            kind = table or next(iter(self.TABLES), "")
            self.kind = kind if kind in self.TABLES else self.kind
            self.reload()
        else:
            super().open_at(table, name)

    def _was_grouped(self) -> bool:
        """Ends the grouping; returns whether a grouped table must be recomputed."""
        return self.session.grouped.pop(self.TAB, None) is not None and bool(self._stack)

    def footer_labels(self) -> dict[str, str]:
        """Returns labels that say what the keys for groups and units lead to."""
        labels = super().footer_labels() | {"table.units": "", "table.group": ""}
        state = self.state
        if state is None or self.has_class("-blank"):
            return labels
        if any(column.sums for column in state.page.columns):
            labels["table.units"] = totals.WORDS[totals.next_unit(self.per, has_steps=self.has_steps)] or "totals"
        if len(self._stack) == 1 and self.kind in self.GROUPS:
            labels["table.group"] = "group"
        return labels
