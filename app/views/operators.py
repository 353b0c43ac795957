"""Operators: what the framework computed, on the host and on the GPU; inside, their kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from tracetui.analysis.kernels import NOT_ATTRIBUTED, NOT_RECORDED
from tracetui.analysis.operators import (
    group_operators,
    known_groupings,
    operator_groups,
    operators,
)
from tracetui.analysis.tables.program import OPERATOR_GROUPS, OPERATORS, OPERATORS_BY_SHAPE
from tracetui.analysis.tables.table import Field, Table
from tracetui.app.session.measured import conventions
from tracetui.app.session.session import Session
from tracetui.app.text.words import nothing
from tracetui.app.views.common.counted import GROUPED, CountedView, in_units
from tracetui.app.views.common.page import Page
from tracetui.app.views.kernel_pages import inside_group_operator
from tracetui.app.views.kernels import PicturedView

BY_SHAPE = "by shape"
HOST_COLUMNS = ("host_self_ns", "host_total_ns", "calls")
"""The columns if nothing ran on a GPU."""


INSIDE_COLUMNS = tuple(column for column in OPERATORS.columns if column.name in (
    "name", "device_self_ns", "percent", "host_self_ns", "calls", "kernels",
))  # fmt: skip
GROUPED_BY = {"module": "module", "class": "module class"}


def _page(
    session: Session, table: Table, frame: pl.DataFrame, note: str, columns: Sequence[Field], **more: Any
) -> Page:
    """A table of operators: without the GPU's numbers where there are none, and sorted by the host's then."""
    on_gpu = _on_gpu(frame)
    if not on_gpu:
        columns = [field for field in columns if not field.right or field.name in (*HOST_COLUMNS, "operators")]
    sort = ("device_self_ns" if on_gpu else "host_self_ns", True)
    return in_units(session, Page.of(table, frame, note=note, columns=tuple(columns), sort=sort, **more))


def _on_gpu(frame: pl.DataFrame) -> bool:
    return bool(frame["device_self_ns"].sum())


def _of_all(session: Session, frame: pl.DataFrame) -> str:
    share = "% of all GPU time" if _on_gpu(frame) else "no GPU work in this trace"
    return f"{session.counted().describe_totals()} · {share}"


def group_page(session: Session, by: str) -> Page:
    """Operators by module, or by class of modules."""
    frame = session.of_counted(
        ("operator groups", by), lambda counted: operator_groups(counted, by, conventions(session))
    )
    about = "class of the innermost module around the call" if by == "class" else "innermost module around the call"
    table = OPERATOR_GROUPS.having("group", title=GROUPED_BY[by].capitalize(), tail=by == "module", about=about)
    return _page(
        session,
        table,
        frame,
        _of_all(session, frame),
        table.columns,
        title=f"Operators by {GROUPED_BY[by]}",
        empty=nothing("operators", session.trace().info.kind),
        within=(f"{GROUPED}{by}", ""),
    )


def inside_group(session: Session, page: Page, row: Mapping[str, Any]) -> Callable[[], Page]:
    """What Enter on a group opens: its operators."""
    by, group = (page.within or ("", ""))[0].removeprefix(GROUPED), str(row["group"])

    def work() -> Page:
        counted = session.counted()
        frame = session.of_counted(
            ("group operators", by, group),
            lambda counted: group_operators(counted, by, group, conventions(session)),
        )
        share = "% of its GPU time" if _on_gpu(frame) else "no GPU work in it"
        note = f"{counted.describe()}{counted.work_words} · {share}"
        within = (f"{GROUPED}{by}", group)
        return _page(session, OPERATORS, frame, note, INSIDE_COLUMNS, id="group_operators", title=group, within=within)

    return work


class OperatorsView(CountedView, PicturedView):
    """One row per operator name."""

    TAB = "operators"
    TABLES = ("operators", BY_SHAPE)

    GROUPS = ("operators",)

    def groupings(self) -> tuple[str, ...]:
        """What this recording says of its operators."""
        return self.session.of_counted("operator groupings", known_groupings)

    def action_group(self, step: int) -> None:
        """Switches to the next grouping; the table by shape counts as one."""
        if self.kind == BY_SHAPE and len(self._stack) == 1:
            self.kind = self.TABLES[0]
            self.session.grouped[self.TAB] = "input_shapes"
        super().action_group(step)

    def action_show_table(self, kind: str) -> None:
        """Shows a table of this tab and ends any grouping."""
        self.session.grouped.pop(self.TAB, None)
        super().action_show_table(kind)

    def root(self) -> Page:
        """All operators in scope, each with each of its input shapes, or by module."""
        session = self.session
        if self.grouped_by in GROUPED_BY and self.kind != BY_SHAPE:
            return group_page(session, self.grouped_by)
        by_shape = BY_SHAPE in (self.kind, self.grouped_by.replace("input_shapes", BY_SHAPE))
        frame = session.of_counted(
            ("operators", by_shape), lambda counted: operators(counted, by_shape, conventions(session))
        )
        if (frame["name"] == NOT_ATTRIBUTED).all():
            frame = frame.clear()  # this tool does not know operators
        table = OPERATORS_BY_SHAPE if by_shape else OPERATORS
        return _page(
            session,
            table,
            frame,
            _of_all(session, frame) if frame.height else "",
            table.columns,
            empty=nothing("operators", session.trace().info.kind),
            alone=not frame.height,
        )

    def inside(self, page: Page, row: Mapping[str, Any]) -> Callable[[], Page] | None:
        """A group's operators; an operator's kernels; a kernel's launches."""
        if page.id == "operator_groups":
            return inside_group(self.session, page, row)
        if page.id not in ("group_operators", "operator_shapes"):
            return super().inside(page, row)
        by, group = page.within or (f"{GROUPED}input_shapes", str(row.get("input_shapes") or NOT_RECORDED))
        name = str(row["name"])
        none = f"{name} launched no kernels itself here.\n\nThe operators it called may have: Esc goes back."
        return inside_group_operator(self.session, by.removeprefix(GROUPED), group, name, none)
