"""Kernels: one row per name, and the launches behind each."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracetui.analysis.attribution.calltree import NONE, row_ids
from tracetui.analysis.attribution.generated import kernel_files, source_of
from tracetui.analysis.attribution.module_tree import ModuleTree, ScopeTree, module_tree, scope_tree
from tracetui.analysis.base import names
from tracetui.analysis.base.conventions import TRACETUI, Conventions
from tracetui.analysis.base.names import of_kinds, rows_of
from tracetui.analysis.gpu.activities import graph_numbers
from tracetui.analysis.gpu.occupancy import tensor_cores_known, with_estimated_occupancy
from tracetui.analysis.sampled_calls import lines
from tracetui.analysis.selection import Selection, step_at
from tracetui.parsers import Trace, schema
from tracetui.parsers.arrays import Ints
from tracetui.parsers.names import kernel_names

NOT_ATTRIBUTED = "(not attributed)"
"""Shown as the operator or module of kernels that belong to none."""
NOT_IN_ANY_RANGE = "(not in any range)"
"""The row of GPU work that no range holds: of another thread (autograd's), or launched between ranges."""

PERCENT = pl.when(pl.col("total_ns").sum() > 0).then(100 * pl.col("total_ns") / pl.col("total_ns").sum())
"""Each row's share of the time of all."""
_WEIGHTED = ("occupancy_percent", "blocks_per_sm")


def as_work(sel: Selection, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `schema.DEVICE`, null but for these columns, of what the host did itself: their launch is its row."""
    index = sel.trace.steps.with_row_index("step").select("index", pl.col("step").cast(schema.DEVICE["step"]))
    step = pl.DataFrame({"index": step_at(sel.trace.steps, rows["start"].to_numpy())})
    step = step.join(index, on="index", how="left", maintain_order="left").select("step")
    return pl.concat([schema.empty(schema.DEVICE), pl.concat([rows, step], how="horizontal")], how="diagonal_relaxed")


def kernel_rows(sel: Selection) -> pl.DataFrame:
    """The kernels in scope; a CUDA graph that the source recorded as one activity counts as one."""
    return with_estimated_occupancy(rows_of(sel.timed, "kernel", "graph"))


def kernels(sel: Selection, conventions: Conventions = TRACETUI) -> pl.DataFrame:
    """One row per kernel name, the most total time first.

    ``percent`` is of the kernel time in scope; ``in_steps_ns`` the time of those launched in a step (null without
    steps); ``std_ns`` the sample deviation, 0 for one call. Occupancy and blocks per SM are means weighted by duration
    over the launches that have them, as the profiler estimated them; registers and shared memory are the largest.
    ``operators``, ``modules`` and ``lines`` list who launched it, the most time first; a kernel of the backward pass
    counts for the module whose gradient it computes.
    """
    return summarize(sel, kernel_rows(sel), conventions)


def summarize(sel: Selection, rows: pl.DataFrame, conventions: Conventions = TRACETUI) -> pl.DataFrame:
    """The table of `kernels` for some of the device rows; ``percent`` is of their own time."""
    unknown = [column for column in _WEIGHTED if rows[column].null_count() == rows.height]
    numbers = sums(sel) | {column: pl.lit(None, pl.Float64) for column in unknown}
    # these need each group's values side by side; Polars adds whole numbers up in one pass, but not together with them
    spread = {name: numbers.pop(name) for name in ("median_ns", "std_ns", *_WEIGHTED)}
    groups = rows.lazy().group_by("name")
    table = groups.agg(**numbers).collect().join(groups.agg(**spread).collect(), on="name", nulls_equal=True)
    raw = table["name"].cast(pl.String)
    distinct = raw.to_list()
    names_tell = tensor_cores_known(sel.trace)
    table = table.with_columns(
        raw,
        pl.Series("short_name", [kernel_names.short_name(name) for name in distinct], pl.String),
        pl.Series("category", [kernel_names.category(name) for name in distinct], pl.String),
        pl.Series(
            "tensor_cores",
            [conventions.uses_tensor_cores(name) if names_tell else None for name in distinct],
            pl.Boolean,
        ),
        percent=PERCENT,
    )
    operators = _listed(rows, operator_names(sel, rows).alias("operator"), NOT_ATTRIBUTED)
    own_lines = _listed(rows, lines(sel.trace, rows).alias("line"), NOT_RECORDED)
    for owners in (operators, own_lines, *(of(sel, rows) for of in (_modules, _main_ranges, _generated))):
        table = table.join(owners, on="name", how="left")
    return table.select(
        "name", "short_name", "category", *_numbers(sel), "tensor_cores", "operator", "operators", "module", "modules",
        "range", "line", "lines", "kernel_file", "source_nodes",
    ).sort("total_ns", "name", descending=[True, False], nulls_last=True)  # fmt: skip


def _numbers(sel: Selection) -> list[str]:
    """The columns of `sums` in their order, with the share behind the total that it is of."""
    calls, total, *others = sums(sel)
    return [calls, total, "percent", *others]


def sums(sel: Selection) -> dict[str, pl.Expr]:
    """The aggregations of a group of launches: the numbers of `kernels`; no time is known without a duration."""
    spent = pl.col("duration")
    measured = spent.count() > 0
    steps = pl.when(measured).then(pl.when(pl.col("step").is_not_null()).then(spent).sum())
    return {
        "calls": pl.len().cast(pl.UInt32),
        "total_ns": pl.when(measured).then(spent.sum()),
        "in_steps_ns": steps if sel.trace.steps.height else pl.lit(None, pl.Int64),
        "mean_ns": spent.mean(),
        "median_ns": spent.median(),
        "min_ns": spent.min(),
        "max_ns": spent.max(),
        "std_ns": pl.when(measured).then(spent.std().fill_null(0.0)),
        **{column: _weighted(column) for column in _WEIGHTED},
        "registers": pl.col("registers").max(),
        "shared_memory": pl.col("shared_memory").max(),
    }


def operator_kernels(sel: Selection, name: str) -> pl.DataFrame:
    """The kernels that calls of an operator launched themselves; as in `kernels`."""
    rows = kernel_rows(sel)
    operator = operator_names(sel, rows).cast(pl.String)
    return summarize(sel, rows.filter(operator.is_null() if name == NOT_ATTRIBUTED else operator == name))


def kernel_launches(sel: Selection, name: str) -> pl.DataFrame:
    """Every launch of one kernel, in order.

    ``delay_ns`` is the time from the end of the API call to the kernel's start, 0 where it began before that.
    """
    rows = kernel_rows(sel)
    rows = rows.filter(names.matching(rows["name"], name.__eq__))
    host = sel.trace.host
    launch = pl.Series(row_ids(rows["launch"]))
    called = host.select(end=pl.col("start") + pl.col("duration"))["end"].gather(or_null(launch))
    step = sel.trace.steps["index"].gather(rows["step"])
    files = kernel_files(sel.trace, rows)
    told = {file: source_of(sel.trace, name, file) for file in files.unique().drop_nulls()}
    nodes, sources = ([told[file][part] or None if file else None for file in files] for part in (0, 1))
    return rows.select(
        lines(sel.trace, rows).alias("line"),
        pl.Series("source_nodes", nodes, dtype=pl.String),
        pl.Series("source_lines", sources, dtype=pl.String),
        files.alias("kernel_file"),
        "row",
        "start",
        pl.col("duration").alias("duration_ns"),
        "stream",
        "device",
        step.alias("step"),
        size_text("grid"),
        size_text("block"),
        "registers",
        "shared_memory",
        "occupancy_percent",
        "blocks_per_sm",
        (pl.col("start") - called).clip(lower_bound=0).alias("delay_ns"),
        operator_names(sel, rows).cast(pl.String).alias("operator"),
        _paths(sel, rows).alias("module"),
        range_names(sel, rows),
    )


def _weighted(column: str) -> pl.Expr:
    """The mean of a column weighted by duration, over the rows that have it; null where none has."""
    weight = pl.col("duration").filter(pl.col(column).is_not_null())
    return pl.when(weight.sum() > 0).then((pl.col(column) * pl.col("duration")).sum() / weight.sum())


def size_text(column: str) -> pl.Expr:
    """``4x384x1`` instead of three numbers."""
    parts = [pl.col(column).arr.get(axis).cast(pl.String) for axis in range(3)]
    return pl.concat_str(parts, separator="x").alias(column)


def or_null(rows: pl.Series) -> pl.Series:
    """Row numbers, with null in place of negative ones."""
    return pl.select(pl.when(rows >= 0).then(rows)).to_series()


def _owners(rows: pl.DataFrame, key: str) -> pl.DataFrame:
    """Calls and time of each kernel name by the column `key`, the most time first; no owner comes last."""
    none = rows[key].null_count() == rows.height  # as of a recording without operators or modules
    by = rows.lazy().group_by("name", *([] if none else [key]))
    owners = by.agg(calls=pl.len().cast(pl.UInt32), ns=pl.col("duration").sum()).collect()
    if none:
        owners = owners.select("name", pl.lit(None, rows[key].dtype).alias(key), "calls", "ns")
    return owners.with_columns(pl.col("name").cast(pl.String))


def _listed(rows: pl.DataFrame, owner: pl.Series, none: str) -> pl.DataFrame:
    """Per kernel name: the owner with most of its time, called as the series, and all as a list in its plural."""
    key = owner.name
    owners = _owners(rows.select("name", "duration", owner), key).with_columns(pl.col(key).cast(pl.String))
    owners = owners.sort("ns", key, descending=[True, False])
    return owners.group_by("name", maintain_order=True).agg(
        pl.col(key).drop_nulls().first(),
        pl.struct(pl.col(key).fill_null(none).alias("name"), "calls", "ns").alias(f"{key}s"),
    )


def operator_names(sel: Selection, rows: pl.DataFrame) -> pl.Series:
    """What each device row computes: the operation of its compiled program, else the operator around its launch."""
    named = sel.trace.host["name"].gather(rows["operator"])
    operation = rows["operation"]
    if operation.null_count() == rows.height:
        return named
    return pl.select(pl.coalesce(operation, named)).to_series()


def path_numbers(sel: Selection, rows: pl.DataFrame) -> tuple[Ints, ModuleTree | ScopeTree]:
    """The module path number of each device row (-1 for none) and the tree that they are of.

    Where the trace has no modules these are name scopes, if it has any.
    """
    tree = module_tree(sel.trace)
    if not tree.paths and rows["scope"].null_count() < rows.height:
        has_scope = rows["scope"].is_not_null()
        scopes = scope_tree(rows.filter(has_scope))
        number = np.full(rows.height, NONE, np.int64)
        number[has_scope.to_numpy()] = scopes.number
        return number, scopes
    if not tree.paths:
        return np.full(rows.height, NONE, np.int64), tree
    own = tree.path_of(row_ids(rows["module"]))
    return np.where(own != NONE, own, tree.path_of(row_ids(rows["forward_module"]))), tree


def _paths(sel: Selection, rows: pl.DataFrame) -> pl.Series:
    number, tree = path_numbers(sel, rows)
    return pl.Series(tree.paths, dtype=pl.String).gather(or_null(pl.Series(number)))


def _ranges(sel: Selection, rows: pl.DataFrame) -> pl.DataFrame:
    """Name and domain of the innermost range around the launch of each device row."""
    host, around = sel.trace.host, rows["range"]
    loose = np.flatnonzero(of_kinds(host["style"], "start_end"))
    if loose.size:
        from tracetui.analysis.attribution.projection import innermost

        # the frame's own column is only approximate for overlapping ranges; the table of ranges counts as here
        around = or_null(pl.Series(innermost(host, loose, rows)))
    return pl.DataFrame({"range": host["name"].gather(around), "domain": host["domain"].gather(around)})


def range_names(sel: Selection, rows: pl.DataFrame) -> pl.Series:
    """The innermost range around the launch of each device row, with its domain; null for none."""
    return _ranges(sel, rows).select(_spelled().alias("range"))["range"]


def _spelled() -> pl.Expr:
    """``NCCL:all_reduce``; the name alone in NVTX's default domain and where there are no domains."""
    range_name, domain = pl.col("range").cast(pl.String), pl.col("domain").cast(pl.String)
    return pl.when(domain != "").then(pl.concat_str(domain, range_name, separator=":")).otherwise(range_name)


def _main_ranges(sel: Selection, rows: pl.DataFrame) -> pl.DataFrame:
    """Per kernel name: the range that launched most of its time."""
    return _with_most(rows.with_columns(range_names(sel, rows)), "range")


def _generated(sel: Selection, rows: pl.DataFrame) -> pl.DataFrame:
    """The file that Inductor wrote most of a kernel's launches to, and its source nodes."""
    most = _with_most(rows.with_columns(kernel_file=kernel_files(sel.trace, rows)), "kernel_file")
    told = [
        source_of(sel.trace, name, file or "")[0] or None for name, file in most.select("name", "kernel_file").rows()
    ]
    return most.with_columns(source_nodes=pl.Series(told, dtype=pl.String))


def _with_most(rows: pl.DataFrame, owner: str) -> pl.DataFrame:
    """Per kernel name: the owner of most of its time."""
    return (
        rows.lazy()
        .filter(pl.col(owner).is_not_null())
        .group_by("name", owner)
        .agg(ns=pl.col("duration").sum())
        .with_columns(pl.col("name").cast(pl.String))
        .sort("ns", owner, descending=[True, False])
        .group_by("name", maintain_order=True)
        .agg(pl.col(owner).first())
        .collect()
    )


def _modules(sel: Selection, rows: pl.DataFrame) -> pl.DataFrame:
    """Per kernel name: who launched it in short, and all module paths."""
    number, tree = path_numbers(sel, rows)
    table = tree.frame()
    numbers = or_null(pl.Series("number", number))
    owners = _owners(rows.select("name", "duration", numbers), "number")
    owners = owners.with_columns(
        table["path"].gather(owners["number"]).alias("path"),
        table["name"].gather(owners["number"]).alias("module_name"),
        table["class_name"].gather(owners["number"]).alias("class_name"),
    ).sort("ns", "path", descending=[True, False])
    labels = _labels(owners.filter(pl.col("path").is_not_null()))
    lists = owners.group_by("name", maintain_order=True).agg(
        modules=pl.struct(pl.col("path").fill_null(NOT_ATTRIBUTED), "calls", "ns")
    )
    return lists.join(labels, on="name", how="left")


def _labels(owners: pl.DataFrame) -> pl.DataFrame:
    """``Mamba ×48`` for 48 paths of one class, ``Linear ×24 +2 classes`` for more, the name itself for one path."""
    classes = (
        owners.group_by("name", "class_name", maintain_order=True)
        .agg(ns=pl.col("ns").sum(), paths=pl.len(), module_name=pl.col("module_name").first())
        .sort("ns", "class_name", descending=[True, False])
        .group_by("name", maintain_order=True)
        .agg(pl.first("class_name", "module_name", "paths"), others=pl.len() - 1)
    )
    first = (
        pl.when(pl.col("paths") == 1)
        .then(pl.col("module_name"))
        .otherwise(pl.concat_str("class_name", pl.lit(" ×"), "paths"))
    )
    more = (
        pl.when(pl.col("others") == 0)
        .then(pl.lit(""))
        .when(pl.col("others") == 1)
        .then(pl.lit(" +1 class"))
        .otherwise(pl.concat_str(pl.lit(" +"), "others", pl.lit(" classes")))
    )
    return classes.select("name", module=first + more)


NOT_RECORDED = "(not recorded)"
"""The group of launches of which the recording does not say what they are grouped by."""
GROUPINGS = ("name", "category", "class", "module", "range", "line", "shape", "input_shapes", "stream")
"""What kernels can be grouped by; ``name`` is `kernels.kernels`."""
UNKNOWN = {"class": NOT_ATTRIBUTED, "module": NOT_ATTRIBUTED, "range": NOT_IN_ANY_RANGE}
"""By grouping, the name of the group of launches that have none; `NOT_RECORDED` for those not listed."""


def kernel_groups(sel: Selection, by: str, rows: pl.DataFrame | None = None) -> pl.DataFrame:
    """One row per group of kernel launches, or of other work, the most total time first.

    Args:
        sel: the launches.
        by: ``category``: kind of work, judged by the name (`kernel_names.category`). ``module``: path of the innermost
            nn.Module around the launch, or whose gradient is computed; a name scope in compiled programs. ``class``:
            that module's class. ``range``:
            the innermost annotation around the launch. ``line``: the program's own frame around it. ``shape``: grid ×
            block of the launch. ``input_shapes``: of the innermost operator around the launch. ``stream``: stream, with
            its GPU where there are several.
        rows: of other work: `memops.copy_rows`, `host.waiting_calls`, `collectives.work_rows`.

    Returns:
        ``group``, ``kernels`` (how many names), ``name`` and ``short_name`` of the kernel with most of its time, then
        the numbers of `kernels.kernels`, from ``calls`` to ``shared_memory``.
    """
    rows = kernel_rows(sel) if rows is None else rows
    rows = rows.with_columns(labels(sel, rows, by).alias("group"), pl.col("name").cast(pl.String))
    table = rows.group_by("group").agg(kernels=pl.col("name").n_unique(), **sums(sel)).with_columns(percent=PERCENT)
    most = (
        rows.group_by("group", "name")
        .agg(ns=pl.col("duration").sum())
        .sort("ns", "name", descending=[True, False])
        .group_by("group", maintain_order=True)
        .agg(pl.col("name").first())
    )
    table = table.join(most, on="group", how="left")
    short = pl.Series("short_name", [kernel_names.short_name(name) for name in table["name"]], pl.String)
    return (
        table.with_columns(short)
        .select("group", "kernels", "name", "short_name", *_numbers(sel))
        .sort("total_ns", "group", descending=[True, False], nulls_last=True)
    )


def group_rows(sel: Selection, by: str, group: str) -> pl.DataFrame:
    """The kernel launches of a group: device rows (`schema.DEVICE`) with their ``row``."""
    rows = kernel_rows(sel)
    return rows.filter(labels(sel, rows, by) == group)


def group_kernels(sel: Selection, by: str, group: str) -> pl.DataFrame:
    """The kernels of a group, as in `kernels.kernels`; ``percent`` is of the group's time."""
    return summarize(sel, group_rows(sel, by, group))


def known_groupings(sel: Selection, rows: pl.DataFrame | None = None) -> tuple[str, ...]:
    """The groupings that this recording says something about; ranges stand in where no module is known.

    `rows` as of `kernel_groups`: other work has no category.
    """
    of_kernels, rows = rows is None, kernel_rows(sel) if rows is None else rows
    modules = _some(_module_column(sel, rows, "path"))
    known = {
        "name": True,
        "category": of_kernels,
        "class": _some(_module_column(sel, rows, "class_name")),
        "module": modules,
        "line": _some(lines(sel.trace, rows)),
        "range": not modules and _some(rows["range"]),
        "shape": _some(rows["grid"]),
        "input_shapes": _some(sel.trace.host["input_shapes"]) and _some(_input_shapes(sel, rows)),
        "stream": _some(rows["stream"]),
    }
    return tuple(by for by in GROUPINGS if known[by])


def labels(sel: Selection, rows: pl.DataFrame, by: str) -> pl.Series:
    """The group of each device row, as text; never null.

    Raises:
        ValueError: kernels are not grouped by this.
    """
    if by == "category":
        names = rows["name"].cast(pl.String)
        categories = {name: kernel_names.category(name) for name in names.unique().drop_nulls().to_list()}
        labelled = names.replace_strict(categories, default=None, return_dtype=pl.String)
    elif by in ("class", "module"):
        labelled = _module_column(sel, rows, "path" if by == "module" else "class_name")
    elif by == "range":
        labelled = range_names(sel, rows)
    elif by == "line":
        labelled = lines(sel.trace, rows)
    elif by == "shape":
        labelled = rows.select(pl.concat_str(size_text("grid"), size_text("block"), separator=" × ")).to_series()
    elif by == "input_shapes":
        labelled = _input_shapes(sel, rows)
    elif by == "stream":
        labelled = _streams(sel.trace, rows)
    elif by == "name":
        labelled = rows["name"].cast(pl.String)
    else:
        raise ValueError(f"kernels are not grouped by {by!r}; there are {', '.join(GROUPINGS)}")
    groups: pl.Series = labelled.fill_null(UNKNOWN.get(by, NOT_RECORDED))
    return groups


def _input_shapes(sel: Selection, rows: pl.DataFrame) -> pl.Series:
    texts: pl.Series = sel.trace.host["input_shapes"].gather(rows["operator"]).cast(pl.String).replace("", None)
    return texts


def _module_column(sel: Selection, rows: pl.DataFrame, column: str) -> pl.Series:
    number, tree = path_numbers(sel, rows)
    named: pl.Series = tree.frame()[column].replace("", None).gather(or_null(pl.Series(number)))
    return named


def _streams(trace: Trace, rows: pl.DataFrame) -> pl.Series:
    graph = pl.format("graph {}", graph_numbers(trace, rows))
    stream = pl.coalesce(graph, pl.concat_str(pl.lit("stream "), "stream"))
    if rows["device"].n_unique() > 1:
        stream = pl.concat_str(pl.lit("GPU "), pl.col("device").cast(pl.String).fill_null("?"), pl.lit(", "), stream)
    return rows.select(stream.alias("stream")).to_series()


def _some(column: pl.Series) -> bool:
    return bool(column.null_count() < column.len())
