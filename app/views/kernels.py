"""Kernels: what ran on the GPU, by name; inside, their launches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.analysis.base.quantities import format_ns
from tracetui.analysis.kernel_groups import group_kernels, group_rows, kernel_groups, known_groupings
from tracetui.analysis.kernels import NOT_ATTRIBUTED, kernel_launches, kernels, operator_kernels
from tracetui.analysis.memops import memops
from tracetui.analysis.modules import module_kernels
from tracetui.analysis.operator_groups import group_operator_rows
from tracetui.analysis.tables.kernels import KERNEL_GROUPS, KERNEL_MODULES, KERNEL_OPERATORS, KERNELS, LAUNCHES, MEMOPS
from tracetui.app.text.names import tell_apart, with_full_names
from tracetui.app.text.words import group_words, nothing
from tracetui.app.views.common.counted import GROUPED, OPERATOR_IN, CountedView, filled, in_units
from tracetui.app.views.common.launch_picture import PicturedView
from tracetui.app.views.common.measured import beside
from tracetui.app.views.common.page import Page

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tracetui.analysis.tables.field import Field
    from tracetui.app.session.session import Session


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


IN_RANGES = ("range", "meanwhile")
"""`Page.within` of kernels that a range's own thread launched, and of those that any thread launched meanwhile."""


def kernel_page(
    session: Session, frame: pl.DataFrame, *, title: str, empty: str = "", within: tuple[str, str] | None = None
) -> Page:
    """A table of kernels, with what ncu measured of them where the run holds that."""
    base = session.counted().describe_totals()
    total = int(frame["total_ns"].sum()) if frame.height else 0
    frame, columns, coverage = beside(session, frame, KERNELS.columns)
    remarks = (base, f"{format_ns(total)} of kernel time", *coverage)
    page = Page.of(
        KERNELS,
        with_full_names(tell_apart(frame)),
        title=title,
        columns=known_columns(columns, frame),
        note=" · ".join(remarks) if frame.height else base,
        empty=empty or nothing("kernels", session.trace().info.kind),
        within=within,
    )
    return in_units(session, page)


def group_page(session: Session, by: str) -> Page:
    """Kernels by what they have in common; inside, the kernels of a group."""
    frame = session.of_counted(("kernel groups", by), lambda counted: kernel_groups(counted, by))
    table = KERNEL_GROUPS.having(
        "group", title=GROUP_TITLES.get(by, by.capitalize()), tail=by == "module", about=GROUP_ABOUT[by]
    )
    columns = tuple(column for column in table.columns if column.name in frame.columns)
    page = Page.of(
        KERNEL_GROUPS,
        with_full_names(frame),
        title=f"Kernels by {group_words(by)}",
        columns=known_columns(columns, frame),
        note=f"{session.counted().describe_totals()} · {format_ns(int(frame['total_ns'].sum() or 0))} of kernel time",
        empty=nothing("kernels", session.trace().info.kind),
        within=(f"{GROUPED}{by}", ""),
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


def known_columns(columns: tuple[Field, ...], frame: pl.DataFrame) -> tuple[Field, ...]:
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
    return Page.of(
        LAUNCHES, frame, title=title, columns=known_columns(LAUNCHES.columns, frame), note=selection.describe()
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


def inside_row(session: Session, page: Page, row: Mapping[str, Any]) -> Callable[[], Page] | None:
    """What Enter opens on a kernel, a module or an operator, wherever it is listed; null elsewhere."""
    if page.id in ("range_tree", "kernel_ranges") or (page.within is not None and page.within[0] in IN_RANGES):
        from tracetui.app.views.ranges import inside_meanwhile_kernel, inside_range, inside_range_kernel

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
    if kind == "modules" and row.get("module") is None:
        from tracetui.app.views.ranges import kernel_ranges_page  # which takes its pages of kernels from here

        if (found := kernel_ranges_page(session, row)) is not None:
            return found
    if not members:
        return None
    frame = pl.DataFrame(members).sort("ns", descending=True, maintain_order=True)
    total = max(int(frame["ns"].sum()), 1)
    return Page.of(
        KERNEL_MODULES if kind == "modules" else KERNEL_OPERATORS,
        frame.with_columns((pl.col("ns") / total * 100).alias("percent")),
        title=f"{row.get('short_name') or row.get('name')}: {kind}",
    )


class KernelsView(CountedView, PicturedView):
    """One row per kernel name, or per group of kernels; copies and fills beside them."""

    TAB = "kernels"
    TABLES = ("kernels", "copies")
    GROUPS = True

    def groupings(self) -> tuple[str, ...]:
        """What this recording says of its kernels."""
        return self.session.of_counted("kernel groupings", known_groupings)

    def root(self) -> Page:
        """All kernels in scope, or all copies and fills."""
        session = self.session
        if self.kind == "copies":
            page = Page.of(
                MEMOPS,
                session.of_counted("memops", memops),
                note=session.counted().describe(),
                empty="No memcpy or memset in this trace: \nnothing was copied or filled on the GPU.",
            )
            return in_units(session, page)
        if self.grouped_by != "name":
            return group_page(session, self.grouped_by)
        return kernel_page(session, session.of_counted("kernels", kernels), title="Kernels")

    def inside(self, page: Page, row: Mapping[str, Any]) -> Callable[[], Page] | None:
        """A kernel's launches; the kernels of a module or an operator that launches it."""
        return inside_row(self.session, page, row)

    def members(self, page: Page, row: Mapping[str, Any], kind: str) -> Page | None:
        """A kernel's operators or modules."""
        return member_page(self.session, row, kind) if page.id == "kernels" else None
