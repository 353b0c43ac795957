"""Operators: what the framework computed, on the host and on the GPU; inside, their kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tracetui.analysis.kernels import NOT_ATTRIBUTED, NOT_RECORDED
from tracetui.analysis.operators import (
    group_operators,
    known_groupings,
    operator_groups,
    operators,
)
from tracetui.analysis.tables.program import OPERATOR_GROUPS, OPERATORS, OPERATORS_BY_SHAPE
from tracetui.app.session.measured import conventions
from tracetui.app.text.words import nothing
from tracetui.app.views.common.counted import GROUPED, CountedView, in_units
from tracetui.app.views.common.page import Page
from tracetui.app.views.kernel_pages import inside_group_operator
from tracetui.app.views.kernels import PicturedView

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tracetui.analysis.tables.table import Field
    from tracetui.app.session.session import Session

BY_SHAPE = "by shape"
HOST_COLUMNS = ("host_self_ns", "host_total_ns", "calls")
"""The columns if nothing ran on a GPU."""


INSIDE_COLUMNS = tuple(column for column in OPERATORS.columns if column.name in (
    "name", "device_self_ns", "percent", "host_self_ns", "calls", "kernels",
))  # fmt: skip
GROUPED_BY = {"module": "module", "class": "module class"}


def group_page(session: Session, by: str) -> Page:
    """Operators by module, or by class of modules."""
    frame = session.of_counted(
        ("operator groups", by), lambda counted: operator_groups(counted, by, conventions(session))
    )
    on_gpu = bool(frame["device_self_ns"].sum())
    about = "class of the innermost module around the call" if by == "class" else "innermost module around the call"
    group = replace(OPERATOR_GROUPS.columns[0], title=GROUPED_BY[by].capitalize(), tail=by == "module", about=about)
    page = Page.of(
        OPERATOR_GROUPS,
        frame,
        title=f"Operators by {GROUPED_BY[by]}",
        columns=_told((group, *OPERATOR_GROUPS.columns[1:]), on_gpu=on_gpu),
        note=f"{session.counted().describe_totals()} · "
        + ("% of all GPU time" if on_gpu else "no GPU work in this trace"),
        empty=nothing("operators", session.trace().info.kind),
        sort=("device_self_ns" if on_gpu else "host_self_ns", True),
        within=(f"{GROUPED}{by}", ""),
    )
    return in_units(session, page)


def inside_group(session: Session, page: Page, row: Mapping[str, Any]) -> Callable[[], Page]:
    """What Enter on a group opens: its operators."""
    by, group = (page.within or ("", ""))[0].removeprefix(GROUPED), str(row["group"])

    def work() -> Page:
        frame = session.of_counted(
            ("group operators", by, group),
            lambda counted: group_operators(counted, by, group, conventions(session)),
        )
        on_gpu, counted = bool(frame["device_self_ns"].sum()), session.counted()
        page = Page(
            id="group_operators",
            title=group,
            frame=frame,
            columns=_told(INSIDE_COLUMNS, on_gpu=on_gpu),
            noun="operators",
            note=f"{counted.describe()}{counted.work_words} · {'% of its GPU time' if on_gpu else 'no GPU work in it'}",
            sort=("device_self_ns" if on_gpu else "host_self_ns", True),
            inside="kernels",
            within=(f"{GROUPED}{by}", group),
            key="name",
        )
        return in_units(session, page)

    return work


def _told(columns: tuple[Field, ...], *, on_gpu: bool) -> tuple[Field, ...]:
    """Without the GPU's numbers where there are none."""
    if on_gpu:
        return columns
    return tuple(column for column in columns if not column.right or column.name in (*HOST_COLUMNS, "operators"))


class OperatorsView(CountedView, PicturedView):
    """One row per operator name."""

    TAB = "operators"
    TABLES = ("operators", BY_SHAPE)

    GROUPS = True

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
        selection = session.counted()
        by_shape = BY_SHAPE in (self.kind, self.grouped_by.replace("input_shapes", BY_SHAPE))
        frame = session.of_counted(
            ("operators", by_shape), lambda counted: operators(counted, by_shape, conventions(session))
        )
        if (frame["name"] == NOT_ATTRIBUTED).all():
            frame = frame.clear()  # this tool does not know operators
        on_gpu = bool(frame["device_self_ns"].sum())
        columns = (OPERATORS_BY_SHAPE if by_shape else OPERATORS).columns
        columns = _told(columns, on_gpu=on_gpu)
        page = Page(
            id="operator_shapes" if by_shape else "operators",
            title="Operators by input shape" if by_shape else "Operators",
            frame=frame,
            columns=columns,
            noun="operators",
            note=f"{selection.describe_totals()} · {'% of all GPU time' if on_gpu else 'no GPU work in this trace'}"
            if frame.height
            else "",
            empty=nothing("operators", selection.trace.info.kind),
            alone=not frame.height,
            sort=("device_self_ns" if on_gpu else "host_self_ns", True),
            inside="kernels",
            key="name",
        )
        return in_units(session, page)

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
