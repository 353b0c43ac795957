"""Opens what is inside a row in any tab: launches of a kernel; kernels of a module, operator or range."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.analysis.base.number_format import format_ns
from tracetui.analysis.tables.kernels import KERNEL_MODULES, KERNEL_OPERATORS
from tracetui.app.views.common.page import Page
from tracetui.app.views.kernel_pages import (
    IN_RANGES,
    inside_group,
    inside_kernel,
    inside_module,
    inside_module_work,
    inside_operator,
)
from tracetui.app.views.ranges import (
    inside_meanwhile_kernel,
    inside_own_kernel,
    inside_range,
    inside_range_kernel,
    kernel_ranges_page,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tracetui.app.session.session import Session


def inside_row(session: Session, page: Page, row: Mapping[str, Any]) -> Callable[[], Page] | None:
    """Returns what Enter opens on a kernel, module or operator in any tab; None for other rows."""
    if page.id == "range_tree" and row.get("row_kind", "range") != "range":
        return inside_own_kernel(session, row)
    if page.id == "modules" and row.get("row_kind", "module") != "module":
        return inside_module_work(session, row)
    if page.id in ("range_tree", "kernel_ranges") or (page.within is not None and page.within[0] in IN_RANGES):
        if page.within is None:
            return inside_range(session, row)
        inside = inside_range_kernel if page.within[0] == "range" else inside_meanwhile_kernel
        return inside(session, row, int(page.within[1]))
    if page.id == "kernel_groups":
        return inside_group(session, page, row)
    if page.id == "kernels":
        return inside_kernel(session, row, page.within)
    if page.id in ("modules", "kernel_modules"):
        path = str(row["path"])
        return inside_module(session, path, path.rpartition("/")[2] or str(row.get("name") or path))
    if page.id in ("operators", "kernel_operators"):
        return inside_operator(session, str(row["name"]))
    return None


def member_page(session: Session, row: Mapping[str, Any], kind: str) -> Page | None:
    """The operators or modules that launch a kernel, from the lists in its row; ranges where no module is known."""
    members = row.get(kind)
    if kind == "modules" and row.get("module") is None and (found := kernel_ranges_page(session, row)) is not None:
        return found
    if not members:
        return None
    frame = pl.DataFrame(members).sort("ns", descending=True, maintain_order=True)
    total = max(int(frame["ns"].sum()), 1)
    return Page.of(
        KERNEL_MODULES if kind == "modules" else KERNEL_OPERATORS,
        frame.with_columns((pl.col("ns") / total * 100).alias("percent")),
        title=f"{row.get('short_name') or row.get('name')}: {kind}",
        note=f"{format_ns(total)} of kernel time",
    )
