"""Pages of kernels: what ran on the GPU, by name or group, and the launches of one; their tab is `kernels`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.analysis.base.number_format import format_count, format_ns, format_percent
from tracetui.analysis.kernels import (
    NOT_ATTRIBUTED,
    group_kernels,
    group_rows,
    kernel_groups,
    kernel_launches,
    operator_kernels,
)
from tracetui.analysis.matching.join import Joined, with_counters
from tracetui.analysis.modules import module_kernels
from tracetui.analysis.operators import group_operator_kernels, group_operator_rows, tensor_marks
from tracetui.analysis.tables.kernels import KERNEL_GROUPS, KERNELS, LAUNCHES, MEASURED, UNCLEAR, USES
from tracetui.app.session.measured import conventions, joined_with, measured_of
from tracetui.app.text.names import tell_apart, with_full_names
from tracetui.app.text.tool_words import WORDS
from tracetui.app.text.words import group_words, nothing
from tracetui.app.views.common.counted import GROUPED, OPERATOR_IN, filled, in_units
from tracetui.app.views.common.page import Page

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tracetui.analysis.tables.table import Field
    from tracetui.app.session.session import Session

GROUP_TITLES = {"class": "Module class", "shape": "Grid × block", "input_shapes": "Input shapes"}
"""Title of the column that names the group, if it differs from the grouping's."""
GROUP_ABOUT = {
    "category": "kind of work, judged by the kernel's name",
    "class": "class of the innermost nn.Module around the launch",
    "module": "innermost nn.Module around the launch, or whose gradient is computed",
    "range": "innermost range around the launch",
    "shape": "blocks in the grid, and threads in a block",
    "input_shapes": "of the innermost operator around the launch",
    "stream": "CUDA stream",
}


OF_KERNEL_TIME = " of kernel time"
IN_RANGES = ("range", "meanwhile")
"""`Page.within` of kernels that a range's own thread launched, or any thread while the range was open."""


def kernel_page(
    session: Session, frame: pl.DataFrame, *, title: str, empty: str = "", within: tuple[str, str] | None = None
) -> Page:
    """A table of kernels, with what ncu measured of them where the run holds that."""
    base = session.counted().describe_totals(host=False)
    time = _kernel_time(frame)
    frame, columns, coverage = beside(session, frame, KERNELS.columns)
    marks = tensor_marks(frame, conventions(session))
    tensor = _on_tensor_cores(frame, marks)
    # before the rest, which a narrow title cuts, where it explains signs
    remarks = (base, *time, *tensor, *coverage) if (marks != "").any() else (base, *time, *coverage, *tensor)
    page = Page.of(
        KERNELS,
        with_full_names(tell_apart(frame.with_columns(marks))),
        title=title,
        columns=known_columns(columns, frame),
        note=" · ".join(remarks) if frame.height else base,
        total=time[0].removesuffix(OF_KERNEL_TIME) if time and frame.height else "",
        empty=empty or nothing("kernels", session.trace().info.kind),
        within=within,
    )
    return in_units(session, page)


def _kernel_time(frame: pl.DataFrame) -> tuple[str, ...]:
    """The remark on the time of all kernels; none where no launch has a duration."""
    total = frame["total_ns"]
    return () if total.len() and not total.count() else (f"{format_ns(int(total.sum()))}{OF_KERNEL_TIME}",)


def _on_tensor_cores(frame: pl.DataFrame, marks: pl.Series) -> tuple[str, ...]:
    """The share of kernel time on tensor cores, which explains the signs behind the times."""
    spent = frame["total_ns"].fill_null(0)
    total = int(spent.sum())
    if not total or frame["tensor_cores"].null_count() == frame.height:
        return ()
    used, unclear = (100 * int(spent.filter(marks == sign).sum()) / total for sign in (USES, UNCLEAR))
    words = f"{USES} " * bool(used) + f"tensor cores {format_percent(used)}"
    return (words + f", {UNCLEAR} {format_percent(unclear)}" if unclear else words,)


def group_page(session: Session, by: str) -> Page:
    """Returns the table of kernel groups; Enter opens the kernels of a group."""
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
        note=" · ".join((session.counted().describe_totals(host=False), *_kernel_time(frame))),
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
    """Removes columns that are empty in all rows; if no module is known, the range takes the module's place."""
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
        LAUNCHES,
        frame,
        title=title,
        columns=known_columns(LAUNCHES.columns, frame),
        note=f"{selection.describe()}{selection.work_words}",
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


def inside_module_work(session: Session, row: Mapping[str, Any]) -> Callable[[], Page] | None:
    """What Enter below a module opens: an operator's kernels there, a kernel's launches; None for copies."""
    module, operator = str(row["module"]), str(row["operator"])
    within = (f"{OPERATOR_IN}module\t{module}", operator)
    if row["row_kind"] == "kernel":
        return inside_kernel(session, {"name": row["kernel"], "short_name": row["name"]}, within)
    if row["row_kind"] != "operator":
        return None

    def work() -> Page:
        frame = session.of_counted(
            ("group operator kernels", "module", module, operator),
            lambda counted: group_operator_kernels(counted, "module", module, operator),
        )
        return kernel_page(session, frame, title=operator, within=within)

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


_PEAK = "of peak, mean of the launches that ncu measured"
BEFORE = "occupancy_percent"


def beside(
    session: Session, table: pl.DataFrame, columns: tuple[Field, ...]
) -> tuple[pl.DataFrame, tuple[Field, ...], list[str]]:
    """Returns a table of kernels with what other tools measured, its columns, and how much GPU time that covers.

    If no other tool measured anything, the table is returned unchanged.
    """
    run, trace = session.runs["a"], session.trace()
    if trace.info.kind != "ncu" and len({other.info.kind for other in run.traces}) < 2:
        return table, columns, []
    kinds = dict.fromkeys(other.info.kind for other in run.traces)
    pairs = [pair for kind in kinds for pair in joined_with(session, kind)]
    measured = measured_of(session)
    if measured is None:
        return table, columns, _matches(pairs)
    place = next(n for n, column in enumerate(columns) if column.name == BEFORE)
    rest = [_by_counters(column) for column in columns[place:]]
    remark = f"ncu: {format_percent(measured.gpu_time_percent)} of GPU time, {format_count(measured.launches)} launches"
    table = with_counters(table, measured)
    collected = [column for column in MEASURED if not table.height or table[column.name].count()]
    remarks = [] if trace.info.kind == "ncu" else [remark]
    return table, (*columns[:place], *collected, *rest), [*remarks, *_matches(pairs)]


def _by_counters(column: Field) -> Field:
    """Replaces a column that holds an estimate or is judged by name, if counters tell more."""
    if column.name == BEFORE:
        return replace(column, title="Est occ", priority=8)
    if column.name == "tensor_cores":
        return replace(
            column, about="used tensor cores, as ncu's counters tell; of kernels it did not measure, by name"
        )
    return column


def _matches(pairs: Sequence[Joined]) -> list[str]:
    return [
        f"{WORDS[pair.other.info.kind].recording}: {format_percent(pair.join.gpu_time_percent)} of the GPU time matches"
        for pair in pairs
        if pair.other.info.kind != "ncu"
    ]
