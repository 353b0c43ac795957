"""Pages of kernels: what ran on the GPU, by name or group, and the launches of one; `kernels_view` is their tab."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.analysis.kernel_groups import group_kernels, group_rows, kernel_groups
from tracetui.analysis.kernels import NOT_ATTRIBUTED, kernel_launches, operator_kernels
from tracetui.analysis.modules import module_kernels
from tracetui.analysis.operator_groups import group_operator_rows
from tracetui.app.tables.columns import Column
from tracetui.app.text.formats import format_ns
from tracetui.app.text.names import tell_apart, with_full_names
from tracetui.app.text.words import group_words, nothing
from tracetui.app.views.common.counted import GROUPED, OPERATOR_IN, filled, in_units
from tracetui.app.views.common.measured import beside
from tracetui.app.views.common.page import Page

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tracetui.app.session.session import Session

COLUMNS = (
    Column(
        "name", "Kernel", width=22, priority=0, flex=True, short="short_name", full="full_name", about="kernel function"
    ),
    Column("total_ns", "Total", "time", priority=0, main=True, sums=True, about="sum of the durations of all calls"),
    Column("percent", "%", "percent", width=5, priority=0, bar=True, main=True, about="share of all kernel time"),
    Column("calls", "Calls", "count", width=6, priority=1, main=True, sums=True, about="number of launches"),
    Column("mean_ns", "Mean", "time", priority=2, about="mean duration of a call"),
    Column("module", "Module", width=10, priority=3, flex=True, about="nn.Module that launched most of its time"),
    Column("occupancy_percent", "Occup", "percent", width=5, priority=5, about="achieved occupancy, an estimate"),
    Column("tensor_cores", "TC", "flag", width=3, priority=6, about="uses tensor cores, judged by its name"),
    Column("category", "Category", width=11, priority=6, about="kind of work, judged by its name"),
    Column("operator", "Operator", width=14, priority=6, flex=True, about="operator that launched most of its time"),
    Column("median_ns", "Median", "time", priority=7, about="median duration of a call"),
    Column("min_ns", "Min", "time", priority=9, about="shortest call"),
    Column("max_ns", "Max", "time", priority=8, about="longest call"),
    Column("std_ns", "Std", "time", priority=9, about="standard deviation of the calls (sample)"),
    Column("blocks_per_sm", "Blk/SM", "number", width=6, priority=8, about="blocks per multiprocessor"),
    Column("registers", "Regs", "number", width=4, priority=8, about="registers per thread, the most of all calls"),
    Column("shared_memory", "Smem", "bytes", width=8, priority=9, about="shared memory per block, the most"),
    Column("in_steps_ns", "In steps", "time", priority=10, sums=True, about="the part of the total inside steps"),
    Column("range", "Range", width=14, priority=6, flex=True, about="innermost range that launched most of its time"),
)

GROUP_TITLES = {"class": "Module class", "shape": "Grid × block", "input_shapes": "Input shapes"}
"""Title of the column that names the group, where it is not that of the grouping."""
GROUP_ABOUT = {
    "category": "kind of work, judged by the kernel's name",
    "class": "class of the innermost nn.Module around the launch",
    "module": "innermost nn.Module around the launch, or whose gradient is computed",
    "range": "innermost range around the launch",
    "shape": "blocks in the grid, and threads in a block",
    "input_shapes": "of the innermost operator around the launch",
    "stream": "CUDA stream",
}

LAUNCHES = (
    Column("at_ns", "At", "time", width=9, priority=0, about="time since the recording began"),
    Column("duration_ns", "Duration", "time", priority=0, main=True, about="time on the GPU"),
    Column("step", "Step", "number", width=4, priority=2, about="step that launched it"),
    Column("stream", "Stream", "number", width=4, priority=4, about="CUDA stream"),
    Column("grid", "Grid", width=10, priority=2, about="blocks in the grid, x × y × z"),
    Column("block", "Block", width=8, priority=3, about="threads in a block"),
    Column("delay_ns", "Delay", "time", priority=3, about="from the end of the launch call to the kernel's start"),
    Column(
        "module",
        "Module",
        width=14,
        priority=1,
        flex=True,
        tail=True,
        about="path of the nn.Module call around the launch",
    ),
    Column("operator", "Operator", width=14, priority=5, flex=True, about="innermost operator around the launch"),
    Column("device", "GPU", "number", width=3, priority=6, about="device id"),
    Column("registers", "Regs", "number", width=4, priority=7, about="registers per thread"),
    Column("shared_memory", "Smem", "bytes", width=8, priority=8, about="shared memory per block"),
    Column("occupancy_percent", "Occup", "percent", width=5, priority=7, about="achieved occupancy, an estimate"),
    Column("blocks_per_sm", "Blk/SM", "number", width=6, priority=8, about="blocks per multiprocessor"),
    Column("range", "Range", width=14, priority=6, flex=True, tail=True, about="range around the launch"),
)

IN_RANGES = ("range", "meanwhile")
"""`Page.within` of kernels that a range's own thread launched, and of those that any thread launched meanwhile."""

MODULES = (
    Column("path", "Module", width=30, priority=0, flex=True, tail=True, about="path in the tree of nn.Modules"),
    Column("ns", "Total", "time", priority=0, main=True, about="time of this kernel launched from there"),
    Column("percent", "%", "percent", width=5, priority=0, bar=True, main=True, about="share of this kernel's time"),
    Column("calls", "Calls", "count", width=6, priority=1, main=True, about="launches from there"),
)
OPERATORS = (Column("name", "Operator", width=30, priority=0, flex=True, about="innermost operator"), *MODULES[1:])

MEMOPS = (
    Column("name", "Operation", width=30, priority=0, flex=True, about="as nsys names it"),
    Column("total_ns", "Total", "time", priority=0, main=True, sums=True, about="sum of the durations"),
    Column("calls", "Calls", "count", width=6, priority=1, main=True, sums=True, about="how many"),
    Column("mean_ns", "Mean", "time", priority=2, about="mean duration"),
    Column("bytes", "Bytes", "bytes", width=9, priority=1, sums=True, about="bytes moved or filled"),
    Column("throughput_gbps", "GB/s", "number", width=6, priority=1, about="bytes by total time, 10^9 bytes a second"),
)


def kernel_page(
    session: Session, frame: pl.DataFrame, *, title: str, empty: str = "", within: tuple[str, str] | None = None
) -> Page:
    """A table of kernels, with what ncu measured of them where the run holds that."""
    base = session.counted().describe_totals()
    total = int(frame["total_ns"].sum()) if frame.height else 0
    frame, columns, coverage = beside(session, frame, COLUMNS)
    remarks = (base, f"{format_ns(total)} of kernel time", *coverage)
    page = Page(
        id="kernels",
        title=title,
        frame=with_full_names(tell_apart(frame)),
        columns=known_columns(columns, frame),
        noun="kernels",
        note=" · ".join(remarks) if frame.height else base,
        empty=empty or nothing("kernels", session.trace().info.kind),
        sort=("total_ns", True),
        inside="launches",
        within=within,
        key="name",
    )
    return in_units(session, page)


def group_page(session: Session, by: str) -> Page:
    """Kernels by what they have in common; inside, the kernels of a group."""
    frame = session.of_counted(("kernel groups", by), lambda counted: kernel_groups(counted, by))
    group = Column(
        "group",
        GROUP_TITLES.get(by, by.capitalize()),
        width=22,
        priority=0,
        flex=True,
        tail=by == "module",
        about=GROUP_ABOUT[by],
    )
    rest = [column for column in COLUMNS[1:] if column.name in frame.columns]
    top = Column("name", "Top kernel", width=14, priority=2, flex=True, short="short_name", full="full_name",
                 about="kernel with most of its time")  # fmt: skip
    count = Column("kernels", "Kernels", "count", width=7, priority=1, about="how many kernels, by name")
    page = Page(
        id="kernel_groups",
        title=f"Kernels by {group_words(by)}",
        frame=with_full_names(frame),
        columns=known_columns((group, *rest[:3], count, top, *rest[3:]), frame),
        noun="groups",
        note=f"{session.counted().describe_totals()} · {format_ns(int(frame['total_ns'].sum() or 0))} of kernel time",
        empty=nothing("kernels", session.trace().info.kind),
        sort=("total_ns", True),
        inside="kernels",
        within=(f"{GROUPED}{by}", ""),
        key="group",
    )
    return in_units(session, page)


def inside_group(session: Session, page: Page, row: Mapping[str, Any]) -> Callable[[], Page]:
    """What Enter on a group opens: its kernels."""
    by = page.within[0].removeprefix(GROUPED) if page.within else ""
    group = str(row["group"])

    def work() -> Page:
        frame = session.of_counted(("group kernels", by, group), lambda counted: group_kernels(counted, by, group))
        return kernel_page(session, frame, title=group, within=(f"{GROUPED}{by}", group))

    return work


def known_columns(columns: tuple[Column, ...], frame: pl.DataFrame) -> tuple[Column, ...]:
    """Without those that no row fills; where no module is known, the range takes the module's place."""
    shown = filled(columns, frame)
    of_module = next((column.priority for column in columns if column.name == "module"), 0)
    lost = "module" in {column.name for column in columns} - {column.name for column in shown}
    return tuple(replace(column, priority=of_module) if column.name == "range" and lost else column for column in shown)


def launch_page(
    session: Session,
    name: str,
    title: str,
    within: tuple[str, str] | None = None,
    only: pl.DataFrame | None = None,
) -> Page:
    """The launches of one kernel: all, or those of a module with what is inside it, or those of an operator.

    `only` restricts them to its device rows (``row``) and gives the ``range`` of each.
    """
    selection = session.counted()
    frame = kernel_launches(selection, name)
    if only is not None:
        frame = frame.drop("range").join(only, on="row", how="inner", maintain_order="left")
    if within is not None and within[0].startswith(GROUPED):
        rows = group_rows(selection, within[0].removeprefix(GROUPED), within[1])["row"]
        frame = frame.filter(pl.col("row").is_in(rows.implode()))
    elif within is not None and within[0].startswith(OPERATOR_IN):
        by, group = within[0].removeprefix(OPERATOR_IN).split("\t", 1)
        rows = group_operator_rows(selection, by, group, within[1])["row"]
        frame = frame.filter(pl.col("row").is_in(rows.implode()))
    elif within is not None:
        column, owner = within
        own = pl.col(column) == owner
        if owner == NOT_ATTRIBUTED:
            own = pl.col(column).is_null()
        elif column == "module":
            own |= pl.col(column).str.starts_with(f"{owner}/")
        frame = frame.filter(own)
    window = selection.trace.info.window
    begin = window[0] if window else (frame["start"].min() or 0)
    frame = frame.with_columns((pl.col("start") - begin).alias("at_ns"))
    return Page(
        id="launches",
        title=title,
        frame=frame,
        columns=known_columns(LAUNCHES, frame),
        noun="launches",
        note=selection.describe(),
        key="row",
    )


def inside_kernel(
    session: Session, row: Mapping[str, Any], within: tuple[str, str] | None = None
) -> Callable[[], Page]:
    """What Enter on a kernel opens."""
    name, short = str(row["name"]), str(row.get("short_name") or row["name"])
    return lambda: session.of_counted(
        ("launches", name, within), lambda counted: launch_page(session, name, short, within)
    )


def inside_module(session: Session, path: str, name: str) -> Callable[[], Page]:
    """What Enter on a module opens: its kernels."""

    def work() -> Page:
        return kernel_page(
            session,
            session.of_counted(("module_kernels", path), lambda counted: module_kernels(counted, path)),
            title=name,
            empty=f"{name} launched no kernels.\n\nIts work ran on the host only: Esc goes back.",
            within=("module", path),
        )

    return work


def inside_operator(session: Session, name: str) -> Callable[[], Page]:
    """What Enter on an operator opens: its kernels."""

    def work() -> Page:
        return kernel_page(
            session,
            session.of_counted(("operator_kernels", name), lambda counted: operator_kernels(counted, name)),
            title=name,
            empty=f"{name} launched no kernels itself.\n\nThe operators it called may have: Esc goes back.",
            within=("operator", name),
        )

    return work
