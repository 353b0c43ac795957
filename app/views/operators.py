"""Operators: what the framework computed, on the host and on the GPU; inside, their kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tracetui.analysis.kernels import NOT_ATTRIBUTED
from tracetui.analysis.operators import operators
from tracetui.app.columns import Column
from tracetui.app.views.counted import CountedView, in_units
from tracetui.app.views.kernels import inside_row, member_page
from tracetui.app.views.launch_picture import PicturedView
from tracetui.app.views.measured import conventions
from tracetui.app.views.page import Page
from tracetui.app.words import nothing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

COLUMNS = (
    Column("name", "Operator", width=20, priority=0, flex=True, about="operator, as the framework calls it"),
    Column(
        "device_self_ns",
        "GPU self",
        "time",
        priority=0,
        main=True,
        sums=True,
        about="GPU work that its own calls launched",
    ),
    Column("percent", "%", "percent", width=5, priority=1, bar=True, main=True, about="share of all GPU time"),
    Column("device_total_ns", "GPU total", "time", priority=2, sums=True, about="with the operators it called"),
    Column(
        "host_self_ns", "CPU self", "time", priority=1, sums=True, about="host time of its own, without what it called"
    ),
    Column("host_total_ns", "CPU total", "time", priority=3, sums=True, about="host time with what it called"),
    Column("calls", "Calls", "count", width=6, priority=1, main=True, sums=True, about="number of calls"),
    Column(
        "kernels",
        "GPU ops",
        "count",
        width=6,
        priority=4,
        sums=True,
        about="kernels, copies and fills it launched itself",
    ),
    Column("tensor_core_eligible", "TC ok", "flag", width=5, priority=6, about="could use tensor cores"),
    Column("tensor_core_percent", "TC used", "percent", width=7, priority=7, about="of its GPU time, on tensor cores"),
)
SHAPE_COLUMNS = (
    COLUMNS[0],
    Column("input_shapes", "Input shapes", width=24, priority=0, flex=True, about="shapes of the tensors it was given"),
    *(replace(column, priority=column.priority + 2) if column.priority else column for column in COLUMNS[1:]),
)
HOST_COLUMNS = ("host_self_ns", "host_total_ns", "calls")
"""The numbers where nothing ran on a GPU."""


class OperatorsView(CountedView, PicturedView):
    """One row per operator name."""

    TAB = "operators"
    TABLES = ("operators", "by shape")

    def root(self) -> Page:
        """All operators in scope, or each with each of its input shapes."""
        session = self.session
        selection = session.counted()
        by_shape = self.kind == "by shape"
        frame = session.of_counted(
            ("operators", by_shape), lambda counted: operators(counted, by_shape, conventions(session))
        )
        if (frame["name"] == NOT_ATTRIBUTED).all():
            frame = frame.clear()  # this tool does not know operators
        on_gpu = bool(frame["device_self_ns"].sum())
        columns = SHAPE_COLUMNS if by_shape else COLUMNS
        if not on_gpu:
            columns = tuple(column for column in columns if not column.right or column.name in HOST_COLUMNS)
        page = Page(
            id="operator_shapes" if by_shape else "operators",
            title="Operators by input shape" if by_shape else "Operators",
            frame=frame,
            columns=columns,
            noun="operators",
            note=f"{selection.describe()} · {'% of all GPU time' if on_gpu else 'no GPU work in this trace'}"
            if frame.height
            else "",
            empty=nothing("operators", selection.trace.info.kind),
            alone=not frame.height,
            sort=("device_self_ns" if on_gpu else "host_self_ns", True),
            inside="" if by_shape else "kernels",
            key="name",
        )
        return in_units(session, page)

    def inside(self, page: Page, row: Mapping[str, Any]) -> Callable[[], Page] | None:
        """An operator's kernels; a kernel's launches."""
        return inside_row(self.session, page, row)

    def members(self, page: Page, row: Mapping[str, Any], kind: str) -> Page | None:
        """A kernel's operators or modules."""
        return member_page(self.session, row, kind) if page.id == "kernels" else None
