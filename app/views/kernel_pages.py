"""Pages of kernels in any tab: by name or group, of a module, operator or range; launches of one; a tree of ranges."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from tracetui.analysis.attribution.generated import call_lines
from tracetui.analysis.base.number_format import format_count, format_ns, format_percent
from tracetui.analysis.kernels import (
    NOT_ATTRIBUTED,
    NOT_RECORDED,
    group_kernels,
    group_rows,
    kernel_groups,
    kernel_launches,
    operator_kernels,
    range_names,
)
from tracetui.analysis.matching.join import Joined, with_counters
from tracetui.analysis.modules import module_kernels
from tracetui.analysis.operators import group_operator_kernels, group_operator_rows, tensor_marks
from tracetui.analysis.ranges import (
    kernel_ranges,
    meanwhile_kernels,
    meanwhile_launches,
    range_kernels,
    range_launches,
    range_tree,
)
from tracetui.analysis.selection import Selection
from tracetui.analysis.tables.kernels import (
    KERNEL_GROUPS,
    KERNEL_LINES,
    KERNEL_MODULES,
    KERNEL_OPERATORS,
    KERNEL_RANGES,
    KERNELS,
    LAUNCHES,
    MEASURED,
    UNCLEAR,
    USES,
)
from tracetui.analysis.tables.program import RANGE_TREE
from tracetui.analysis.tables.table import Field
from tracetui.analysis.tree_kernels import range_own_kernels, ranges_to_kernels
from tracetui.app.session.measured import conventions, joined_with, measured_as, measured_of
from tracetui.app.session.session import Session
from tracetui.app.text.names import tell_apart, tell_work_apart, with_full_names
from tracetui.app.text.tool_words import WORDS
from tracetui.app.text.words import group_words, nothing
from tracetui.app.views.common.counted import GROUPED, OPERATOR_IN, filled, in_units
from tracetui.app.views.common.page import Page

GROUP_TITLES = {
    "class": "Module class",
    "line": "Program line",
    "shape": "Grid × block",
    "input_shapes": "Input shapes",
}
"""Title of the column that names the group, if it differs from the grouping's."""
GROUP_ABOUT = {
    "category": "kind of work, judged by the kernel's name",
    "class": "class of the innermost nn.Module around the launch",
    "module": "innermost nn.Module around the launch, or whose gradient is computed",
    "range": "innermost range around the launch",
    "line": "innermost Python function of the program's own code around the launch, or whose gradient is computed",
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
    # a kernel of every step would seem to be of the one in which it took longest
    of_step = pl.col("range").cast(pl.String).str.starts_with("ProfilerStep#")
    frame = frame.with_columns(pl.when(~of_step).then("range").alias("range"))
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


def kernels_of(
    session: Session,
    key: Hashable,
    compute: Callable[[Selection], pl.DataFrame],
    *,
    title: str,
    within: tuple[str, str],
    empty: str = "",
) -> Callable[[], Page]:
    """What Enter opens on something that launches kernels: these, computed once and kept under a key."""
    return lambda: kernel_page(session, session.of_counted(key, compute), title=title, empty=empty, within=within)


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
    page = work_group_page(session, by, "kernels", None)
    note = " · ".join((page.note, *_kernel_time(page.frame)))
    return replace(page, note=note, within=(f"{GROUPED}{by}", ""))


WORK_GROUPS = "work_groups"
"""The page of groups of other work than kernels, which nothing is inside."""


def work_group_page(
    session: Session, by: str, noun: str, rows: Callable[[Selection], pl.DataFrame] | None, *, host: bool = False
) -> Page:
    """Groups of any work.

    Args:
        session: what is in view.
        by: what they are grouped by.
        noun: what they are.
        rows: see `kernel_groups`.
        host: whether their time is the host's.
    """
    frame = session.of_counted(
        (noun, "groups", by), lambda counted: kernel_groups(counted, by, None if rows is None else rows(counted))
    )
    table = KERNEL_GROUPS.having(
        "group", title=GROUP_TITLES.get(by, by.capitalize()), tail=by == "module", about=GROUP_ABOUT[by]
    )
    if rows is not None:
        table = table.having("kernels", title="Names", about="number of different names")
        table = replace(
            table.having("name", title="Mostly", about="what takes most of the time"), id=WORK_GROUPS, drill=""
        )
    columns = tuple(column for column in table.columns if column.name in frame.columns)
    page = Page.of(
        table,
        with_full_names(frame),
        title=f"{noun[0].upper()}{noun[1:]} by {group_words(by)}",
        columns=known_columns(columns, frame),
        note=session.counted().describe_totals(host=host),
        empty=nothing("kernels", session.trace().info.kind),
    )
    return in_units(session, page)


def inside_group(session: Session, page: Page, row: Mapping[str, Any]) -> Callable[[], Page]:
    """What Enter on a group opens: its kernels."""
    by = page.within[0].removeprefix(GROUPED) if page.within else ""
    group = str(row["group"])
    key = ("group kernels", by, group)
    within = (f"{GROUPED}{by}", group)
    return kernels_of(session, key, lambda counted: group_kernels(counted, by, group), title=group, within=within)


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
    spelled = measured_as(session, pl.Series([name]))[0]
    frame = frame.with_columns(at_ns=pl.col("start") - begin, name=pl.lit(name), measured_as=pl.lit(spelled))
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
    return kernels_of(
        session,
        ("module_kernels", path),
        lambda counted: module_kernels(counted, path),
        title=name,
        within=("module", path),
        empty=f"{name} launched no kernels.\n\nIts work ran on the host only: Esc goes back.",
    )


def inside_module_work(session: Session, row: Mapping[str, Any]) -> Callable[[], Page] | None:
    """What Enter below a module opens: an operator's kernels there, a kernel's launches; None for copies."""
    module, operator = str(row["module"]), str(row["operator"])
    if row["row_kind"] == "kernel":
        within = (f"{OPERATOR_IN}module\t{module}", operator)
        return inside_kernel(session, {"name": row["kernel"], "short_name": row["name"]}, within)
    return inside_group_operator(session, "module", module, operator) if row["row_kind"] == "operator" else None


def inside_group_operator(session: Session, by: str, group: str, name: str, empty: str = "") -> Callable[[], Page]:
    """What Enter on an operator of a group opens: the kernels that it launched there."""
    return kernels_of(
        session,
        ("group operator kernels", by, group, name),
        lambda counted: group_operator_kernels(counted, by, group, name),
        title=name,
        within=(f"{OPERATOR_IN}{by}\t{group}", name),
        empty=empty,
    )


def inside_operator(session: Session, name: str) -> Callable[[], Page]:
    """What Enter on an operator opens: its kernels."""
    return kernels_of(
        session,
        ("operator_kernels", name),
        lambda counted: operator_kernels(counted, name),
        title=name,
        within=("operator", name),
        empty=f"{name} launched no kernels itself.\n\nThe operators it called may have: Esc goes back.",
    )


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
    table = with_counters(table, measured).with_columns(measured_as=measured_as(session, table["name"]))
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


# --- ranges


RANGES_ON_HOST = tuple(
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
    columns = RANGE_TREE.columns if total else RANGES_ON_HOST
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
        return kernels_of(
            session,
            ("meanwhile_kernels", number),
            lambda counted: meanwhile_kernels(counted, number),
            title=f"{name}, any thread",
            within=("meanwhile", str(number)),
        )
    return kernels_of(
        session,
        ("range_kernels", number),
        lambda counted: range_kernels(counted, number),
        title=name,
        within=("range", str(number)),
        empty=f"No kernels were launched in {name}.\n\nIts work ran on the host only, or another thread launched\n"
        "its kernels: Esc goes back.",
    )


def _launches_in(counted: Selection, number: int, *, meanwhile: bool = False) -> pl.DataFrame:
    """Device rows launched inside a range, or by any thread while it was open (``row``), and the ``range`` of each."""
    if meanwhile:
        rows = meanwhile_launches(counted, number)
        return pl.DataFrame({"row": rows["row"], "range": range_names(counted, rows)})
    found, paths = range_launches(counted, number)
    return pl.DataFrame({"row": found["row"], "range": pl.Series(paths, dtype=pl.String)})


def inside_own_kernel(session: Session, row: Mapping[str, Any]) -> Callable[[], Page] | None:
    """What Enter on a kernel below a range in the tree opens: its launches in the range itself; None for copies."""
    if row["row_kind"] != "kernel":
        return None
    name, short, number = str(row["kernel"]), str(row["name"]), int(row["number"])
    if not row["device_self_ns"] and row["device_meanwhile_ns"]:
        return inside_range_kernel(session, {"name": name, "short_name": short}, number, meanwhile=True)
    path = str(row["path"]).removesuffix(f"/{name}")

    def work(counted: Selection) -> Page:
        return launch_page(session, name, short, only=_launches_in(counted, number).filter(range=path))

    return lambda: session.of_counted(("own launches", name, number), work)


def inside_range_kernel(
    session: Session, row: Mapping[str, Any], number: int, *, meanwhile: bool
) -> Callable[[], Page]:
    """What Enter on a kernel of a range opens: the launches inside the range, or of any thread while it was open."""
    name, short = str(row["name"]), str(row.get("short_name") or row["name"])

    def work(counted: Selection) -> Page:
        return launch_page(session, name, short, only=_launches_in(counted, number, meanwhile=meanwhile))

    key = "meanwhile_launches" if meanwhile else "range_launches"
    return lambda: session.of_counted((key, name, number), work)


# --- what is inside a row of any tab


def inside_row(session: Session, page: Page, row: Mapping[str, Any]) -> Callable[[], Page] | None:
    """Returns what Enter opens on a kernel, module or operator in any tab; None for other rows."""
    if page.id == KERNEL_LINES.id:
        kernel = {"name": row["kernel"], "short_name": row["name"]}
        opens = inside_row(session, replace(page, id="kernels"), kernel)
        line = None if row["name"] == NOT_RECORDED else row["name"]
        return None if opens is None else lambda: _of_line(opens(), line)
    if page.id == "range_tree" and row.get("row_kind", "range") != "range":
        return inside_own_kernel(session, row)
    if page.id == "modules" and row.get("row_kind", "module") != "module":
        return inside_module_work(session, row)
    if page.id in ("range_tree", "kernel_ranges") or (page.within is not None and page.within[0] in IN_RANGES):
        if page.within is None:
            return inside_range(session, row)
        return inside_range_kernel(session, row, int(page.within[1]), meanwhile=page.within[0] == "meanwhile")
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


def _of_line(page: Page, line: str | None) -> Page:
    return replace(page, frame=page.frame.filter(pl.col("line").eq_missing(line)))


def member_page(session: Session, page: Page, row: Mapping[str, Any], kind: str) -> Page | None:
    """What launches a kernel: the operators, modules or lines listed in its row; ranges where no module is known."""
    frame = pl.DataFrame(row.get(kind) or ())
    table = {"modules": KERNEL_MODULES, "operators": KERNEL_OPERATORS, "lines": KERNEL_LINES}[kind]
    if kind == "modules" and row.get("module") is None:
        around = kernel_ranges(session.counted(), str(row["name"]))
        if around.height and around["number"].max() != -1:
            frame, table, kind = around, KERNEL_RANGES, "ranges"
    if not frame.height:
        return None
    if kind != "ranges":
        frame = frame.sort("ns", descending=True, maintain_order=True)
    total = max(int(frame["ns"].sum()), 1)
    # of what torch.compile wrote, it is the line itself
    begins = kind == "lines" and not call_lines(session.trace()).height
    first = replace(table.columns[0], title="Function (its first line)") if begins else table.columns[0]
    return Page.of(
        table,
        frame.with_columns((pl.col("ns") / total * 100).alias("percent"), kernel=pl.lit(row.get("name"))),
        title=f"{row.get('short_name') or row.get('name')}: {kind}",
        columns=(first, *table.columns[1:]),
        note=f"{format_ns(total)} of kernel time",
        within=page.within if kind == "lines" else None,
    )
