"""The tree of ranges: what stands for modules where the program's author named its parts by NVTX or record_function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.analysis.base.number_format import format_ns
from tracetui.analysis.kernels import range_names
from tracetui.analysis.ranges import (
    kernel_ranges,
    meanwhile_kernels,
    meanwhile_launches,
    range_kernels,
    range_launches,
    range_tree,
)
from tracetui.analysis.tables.kernels import KERNEL_RANGES
from tracetui.analysis.tables.program import RANGE_TREE
from tracetui.analysis.tree_kernels import range_own_kernels, ranges_to_kernels
from tracetui.app.text.names import tell_work_apart
from tracetui.app.views.common.counted import in_units
from tracetui.app.views.common.page import Page
from tracetui.app.views.kernel_pages import kernel_page, launch_page

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tracetui.app.session.session import Session

HOST_COLUMNS = tuple(
    column for column in RANGE_TREE.columns if not column.name.startswith(("device", "gpu", "percent"))
)
"""Where nothing ran on a GPU."""


def tree_page(session: Session, title: str, crumb: str = "") -> Page:
    """The tree of all ranges in scope; `crumb` is its title in the breadcrumb of what is inside."""
    selection = session.counted()
    frame = session.of_counted("range_tree", range_tree)
    if frame.height:
        frame = session.of_counted(
            "ranges to kernels", lambda counted: tell_work_apart(ranges_to_kernels(frame, range_own_kernels(counted)))
        )
    total = int(frame.filter(depth=0)["device_total_ns"].sum())
    columns = RANGE_TREE.columns if total else HOST_COLUMNS
    if not launched_elsewhere(frame, "device_total_ns"):
        columns = tuple(column for column in columns if column.name != "device_meanwhile_ns")
    label = pl.when(pl.col("domain") == "").then("name").otherwise(pl.concat_str("domain", "name", separator=":"))
    share = (pl.col("device_total_ns") / total * 100) if total else pl.lit(None, dtype=pl.Float64)
    page = Page.of(
        RANGE_TREE,
        frame.with_columns(label.alias("label"), share.alias("percent")),
        title=title,
        crumb=crumb,
        columns=columns,
        noun="ranges and kernels" if "row_kind" in frame.columns else RANGE_TREE.noun,
        note=f"{selection.describe_totals()} · {'% of all GPU time' if total else 'no GPU work in this trace'}",
    )
    return in_units(session, page)


def launched_elsewhere(frame: pl.DataFrame, own: str) -> bool:
    """Whether other threads launched work while a range was open; otherwise that column repeats `own`."""
    elsewhere = (pl.col("device_meanwhile_ns") != pl.col(own)).any()
    return bool(frame.select(elsewhere.fill_null(value=False)).item())


def inside_range(session: Session, row: Mapping[str, Any]) -> Callable[[], Page]:
    """Returns what Enter on a range opens: its kernels, and those that other threads launched while it was open."""
    number, path = int(row["number"]), str(row["path"])
    name = str(row.get("label") or path.rpartition("/")[2])
    if (row.get("device_meanwhile_ns") or 0) > (row.get("device_total_ns") or 0):
        return lambda: kernel_page(
            session,
            session.of_counted(("meanwhile_kernels", number), lambda counted: meanwhile_kernels(counted, number)),
            title=f"{name}, any thread",
            within=("meanwhile", str(number)),
        )

    def work() -> Page:
        return kernel_page(
            session,
            session.of_counted(("range_kernels", number), lambda counted: range_kernels(counted, number)),
            title=name,
            empty=f"No kernels were launched in {name}.\n\nIts work ran on the host only, or another thread launched\n"
            "its kernels: Esc goes back.",
            within=("range", str(number)),
        )

    return work


def inside_own_kernel(session: Session, row: Mapping[str, Any]) -> Callable[[], Page] | None:
    """What Enter on a kernel below a range in the tree opens: its launches in the range itself; None for copies."""
    if row["row_kind"] != "kernel":
        return None
    name, short, number = str(row["kernel"]), str(row["name"]), int(row["number"])
    found = {"name": name, "short_name": short}
    if not row["device_self_ns"] and row["device_meanwhile_ns"]:
        return inside_meanwhile_kernel(session, found, number)

    def work() -> Page:
        rows, paths = range_launches(session.counted(), number)
        own = pl.DataFrame({"row": rows["row"], "range": pl.Series(paths, dtype=pl.String)})
        path = str(row["path"]).removesuffix(f"/{name}")
        return launch_page(session, name, short, only=own.filter(range=path))

    return lambda: session.of_counted(("own launches", name, number), lambda _: work())


def inside_range_kernel(session: Session, row: Mapping[str, Any], number: int) -> Callable[[], Page]:
    """What Enter on a kernel of a range opens: the launches inside the range."""
    name, short = str(row["name"]), str(row.get("short_name") or row["name"])

    def work() -> Page:
        rows, paths = range_launches(session.counted(), number)
        own = pl.DataFrame({"row": rows["row"], "range": pl.Series(paths, dtype=pl.String)})
        return launch_page(session, name, short, only=own)

    return lambda: session.of_counted(("range_launches", name, number), lambda _: work())


def inside_meanwhile_kernel(session: Session, row: Mapping[str, Any], number: int) -> Callable[[], Page]:
    """Returns what Enter on a kernel launched by any thread opens: its launches while the range was open."""
    name, short = str(row["name"]), str(row.get("short_name") or row["name"])

    def work() -> Page:
        selection = session.counted()
        rows = meanwhile_launches(selection, number)
        own = pl.DataFrame({"row": rows["row"], "range": range_names(selection, rows)})
        return launch_page(session, name, short, only=own)

    return lambda: session.of_counted(("meanwhile_launches", name, number), lambda _: work())


def kernel_ranges_page(session: Session, row: Mapping[str, Any]) -> Page | None:
    """The ranges that launch a kernel; None where none does."""
    frame = kernel_ranges(session.counted(), str(row["name"]))
    if not frame.height or frame["number"].max() == -1:
        return None
    total = max(int(frame["ns"].sum()), 1)
    return Page.of(
        KERNEL_RANGES,
        frame.with_columns((pl.col("ns") / total * 100).alias("percent")),
        title=f"{row.get('short_name') or row['name']}: ranges",
        note=f"{format_ns(total)} of kernel time",
    )
