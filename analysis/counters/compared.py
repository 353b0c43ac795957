"""Several reports of Nsight Compute side by side: kernel by kernel, and as configurations by kind of kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import polars as pl
from msgspec import Struct

from tracetui.analysis.counters.counters import MEANS, bound_class, launch_counters
from tracetui.analysis.counters.metrics import by_column
from tracetui.analysis.counters.source_lines import is_page
from tracetui.analysis.side_by_side import per_run, together
from tracetui.parsers import Run, Trace, open_path
from tracetui.parsers.errors import TraceError
from tracetui.parsers.names import kernel_names
from tracetui.parsers.ncu.pages import join_pages

COMPARED = ("duration_ns", *MEANS)
"""Columns of `launch_counters` that are compared."""
UNITS = {"registers": "", "shared_memory": "byte", "dram_bytes": "byte", "waves": ""}
LABELS = {
    "registers": "registers a thread",
    "shared_memory": "shared memory a block",
    "dram_bytes": "DRAM bytes",
    "waves": "waves",
}
SUFFIXES = (".gz", ".csv", ".txt", ".log", ".ncu-rep")


class Compared(Struct, frozen=True):
    """Reports side by side; every list has an item per file, in their order."""

    files: pl.DataFrame
    """``label, path, launches, kernels, total_ns, common_launches``: what was profiled, and how many of those launches
    are of kernels that every file profiled."""
    kernels: pl.DataFrame
    """``name, short_name, launches`` (list; 0 where a file has none), the most launches first."""
    metrics: pl.DataFrame
    """``of, kernel, metric, label, unit, values, launches, changes``.

    ``of`` is ``all`` (the mean over every profiled launch), ``common`` (over launches of kernels that all files
    profiled) or ``kernel`` (over the launches of ``kernel``); each launch counts the same. ``launches`` is how many of
    them have the metric, ``changes`` the value less the first file's, in its unit. A metric that no file has is left
    out.
    """
    same_kernels: bool
    """Whether all files profiled the same kernels equally often; otherwise the means of ``all`` are of different
    work."""


def compare(traces: Sequence[Trace]) -> Compared:
    """Puts the counters of several traces side by side.

    Kernels are matched by name, or by their key (`names.kernel_key`) where versions of ncu spell them differently.
    """
    tables = [launch_counters(trace) for trace in traces]
    launches = together(enumerate(tables))
    counts = _counts(launches, len(tables))
    described = launches.group_by("identity", maintain_order=True).agg(pl.first("name", "short_name"))
    kernels = described.join(counts, on="identity").sort(
        pl.col("launches").list.sum(), "name", descending=[True, False]
    )
    common = _common(launches, counts)
    every = pl.lit(None, pl.String)
    means = _means(
        [
            launches.with_columns(of=pl.lit("all"), kernel=every),
            common.with_columns(of=pl.lit("common"), kernel=every),
            launches.with_columns(of=pl.lit("kernel"), kernel="identity"),
        ],
        kernels["identity"].to_list(),
    )
    spelled = dict(zip(kernels["identity"], kernels["name"], strict=True))
    return Compared(
        files=_files(traces, tables, common),
        kernels=kernels.drop("identity"),
        metrics=per_run(means, ("of", "kernel", "metric", "label", "unit"), len(tables)).with_columns(
            pl.col("kernel").replace(spelled)
        ),
        same_kernels=_is_same(counts),
    )


def _counts(launches: pl.DataFrame, runs: int) -> pl.DataFrame:
    """How often each run profiled each kernel: identity, launches (a list)."""
    each = launches.group_by("identity", "run").agg(pl.col("launches").sum())
    return per_run(each.with_columns(value=None), ("identity",), runs).select("identity", "launches")


def _common(launches: pl.DataFrame, counts: pl.DataFrame) -> pl.DataFrame:
    """The launches of kernels that every run profiled."""
    everywhere = counts.filter(pl.col("launches").list.min() > 0)["identity"]
    return launches.filter(pl.col("identity").is_in(everywhere.implode()))


def _is_same(counts: pl.DataFrame) -> bool:
    """Whether all runs profiled the same kernels equally often."""
    return bool((counts["launches"].list.n_unique() == 1).all())


def reports_of(run: Run, open_file: Callable[[Path], Trace] | None = None) -> tuple[list[Trace], list[str]]:
    """The reports of Nsight Compute to put side by side, and what kept others from being opened, one line each.

    Those of the run, in its order; where the run is one of a folder of such reports, all of the folder, by path.

    Args:
        run: what `open_path` returned.
        open_file: opens a file that is not open yet.
    """
    traces, problems = [trace for trace in run.of_kind("ncu") if not is_page(trace)], list[str]()
    if not traces or not run.others or run.main.info.kind != "ncu":
        return traces, problems
    from tracetui.parsers.runs.detect import comparable_files

    at_hand = {trace.source.path: trace for trace in traces}
    for path in comparable_files(run):
        if path not in at_hand:
            try:
                at_hand[path] = open_file(path) if open_file else open_path(path).main
            except TraceError as problem:
                problems.append(str(problem))
    return join_pages([at_hand[path] for path in sorted(at_hand) if not is_page(at_hand[path])]), problems


def labels(paths: Sequence[Path]) -> list[str]:
    """What to call each file: its name without suffixes, with its folder where that alone tells two apart."""
    short = [_stem(path.name) for path in paths]
    if len(set(short)) < len(short):
        short = [f"{path.parent.name}/{name}" for path, name in zip(paths, short, strict=True)]
    return short


def _stem(name: str) -> str:
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def _files(traces: Sequence[Trace], tables: Sequence[pl.DataFrame], common: pl.DataFrame) -> pl.DataFrame:
    paths = [trace.source.path for trace in traces]
    shared = dict(common.group_by("run").agg(pl.col("launches").sum()).iter_rows())
    return pl.DataFrame(
        {
            "label": labels(paths),
            "path": [str(path) for path in paths],
            "launches": [int(table["launches"].sum()) for table in tables],
            "kernels": [table["name"].n_unique() for table in tables],
            "total_ns": [
                (table["duration_ns"] * table["launches"]).sum() if table["duration_ns"].count() else None
                for table in tables
            ],
            "common_launches": [shared.get(number, 0) for number in range(len(tables))],
        },
        schema_overrides={"total_ns": pl.Float64},
    )


def _means(parts: Sequence[pl.DataFrame], kernels: Sequence[str]) -> pl.DataFrame:
    """Means of launches by ``of``, ``kernel``, metric and run, in the order of the parts, kernels and metrics."""
    titles = {column: LABELS.get(column) or by_column(column).label for column in COMPARED}
    units = {column: UNITS[column] if column in UNITS else by_column(column).unit for column in COMPARED}
    number, weight = pl.col("value"), pl.col("launches")
    found = pl.concat(
        part.select("of", "run", "kernel", "launches", *(pl.col(column).cast(pl.Float64) for column in COMPARED))
        .unpivot(on=COMPARED, index=["of", "run", "kernel", "launches"], variable_name="metric")
        .drop_nulls("value")
        .group_by("of", "kernel", "metric", "run", maintain_order=True)
        .agg(value=(number * weight).sum() / weight.sum(), launches=weight.sum())
        .sort(
            pl.col("kernel").replace_strict(
                {name: place for place, name in enumerate(kernels)}, default=0, return_dtype=pl.UInt32
            ),
            pl.col("metric").replace_strict(
                {column: place for place, column in enumerate(COMPARED)}, return_dtype=pl.UInt32
            ),
        )
        for part in parts
    )
    return found.with_columns(
        label=pl.col("metric").replace_strict(titles, return_dtype=pl.String),
        unit=pl.col("metric").replace_strict(units, return_dtype=pl.String),
    )


ALL, COMMON = "all", "common"
"""Kinds that are no category: every profiled launch, and those of kernels that all configurations profiled."""
TIME, COUNT = "duration_ns", "one"
"""Weights that every mean can fall back to: the launch's time, and nothing."""


class Mean(Struct, frozen=True):
    """A rate of a launch, and what it is a share of."""

    column: str
    weight: str = TIME
    """The column whose sum is the whole: the mean with these weights is the ratio of the sums."""


WEIGHTED = (
    Mean("sm_percent"), Mean("memory_percent"), Mean("dram_percent"), Mean("l1_percent", "active_cycles"),
    Mean("l2_percent"), Mean("l1_hit_percent", "l1_sectors"), Mean("l2_hit_percent", "l2_sectors"),
    Mean("occupancy_percent", "active_cycles"), Mean("theoretical_occupancy_percent"),
    Mean("tensor_percent", "active_cycles"), Mean("tensor_cores_percent"), Mean("registers"), Mean("shared_memory"),
    Mean("waves"),
)  # fmt: skip
"""Throughputs are shares of elapsed time, occupancy and pipes of active cycles, hit rates of sectors; what a launch
was given is shared by its time."""
RATIOS = {
    "dram_rate": ("dram_bytes", TIME, 1e9),
    "flop_rate": ("flops", TIME, 1e9),
    "intensity": ("flops", "dram_bytes", 1.0),
    "sectors_per_load": ("load_sectors", "load_requests", 1.0),
    "sectors_per_store": ("store_sectors", "store_requests", 1.0),
}
"""Ratios of sums over the launches that have both parts, and a factor."""
SUMS = ("dram_bytes", "flops")
MEASURED = (*(mean.column for mean in WEIGHTED), *SUMS, *RATIOS)
"""Every column with a value and a coverage of its own."""
WORDS = {
    TIME: "time", COUNT: "launches", "active_cycles": "active cycles", "l1_sectors": "sectors",
    "l2_sectors": "sectors",
}  # fmt: skip

Groups = Mapping[str, Sequence[pl.DataFrame]]
"""Tables of launches by the name of their configuration."""


def configurations(groups: Groups) -> pl.DataFrame:
    """One row per configuration and kind of kernels.

    ``configuration, kind, launches, kernels, total_ns, time_percent, duration_ns``, `MEASURED`, and for each of these
    ``…_covered``: the share of the row's time that is of launches which have it (of its launches, where no times are
    known). ``kind`` is `ALL`, `COMMON` (only where configurations profiled different launches) or a category;
    ``time_percent`` is of the configuration's profiled time; ``duration_ns`` is the mean of a launch. ``bound`` is the
    class of the row's means.

    A mean of rates is weighted by what the rate is a share of (`WEIGHTED`). Where that is not known of every launch
    that has the rate, in whichever configuration, all rows take time instead, so that they stay comparable; `weights`
    tells.

    Args:
        groups: what `roofline.launch_table` gives of each report, by the name of its configuration; those of one
            configuration count together.
    """
    launches = _together(groups)
    by = weights(launches)
    counts = _counts(launches, len(groups))
    parts = [launches.with_columns(kind=pl.lit(ALL))]
    if len(groups) > 1 and not _is_same(counts):
        parts.append(_common(launches, counts).with_columns(kind=pl.lit(COMMON)))
    kinds = {name: kernel_names.category(name) for name in launches["name"].unique().to_list()}
    parts.append(launches.with_columns(kind=pl.col("name").replace_strict(kinds, return_dtype=pl.String)))
    table = _with_empty(_rows(pl.concat(parts), by), list(groups))
    whole = table.filter(pl.col("kind") == ALL).select("configuration", whole_ns="total_ns")
    table = table.join(whole, on="configuration", how="left", maintain_order="left").with_columns(
        time_percent=100 * pl.col("total_ns") / pl.col("whole_ns"), bound=bound_class()
    )
    return _ordered(table.drop("whole_ns"), list(groups))


def weights(launches: pl.DataFrame) -> dict[str, str]:
    """The column that weighs each mean: its own, else time, else each launch alike, whichever every launch has."""
    found = {}
    for mean in WEIGHTED:
        having = launches.filter(pl.col(mean.column).is_not_null())
        having = having if having.height else launches
        choices = [name for name in (mean.weight, TIME) if not having[name].null_count() and having[name].sum()]
        found[mean.column] = choices[0] if choices else COUNT
    return found


def weights_of(groups: Groups) -> dict[str, str]:
    """`weights` in words, by column."""
    return {column: WORDS[name] for column, name in weights(_together(groups)).items()}


def _together(groups: Groups) -> pl.DataFrame:
    """All launches with the name of their configuration."""
    found = together((number, table) for number, parts in enumerate(groups.values()) for table in parts)
    names = pl.Series(list(groups), dtype=pl.String)
    return found.with_columns(configuration=names.gather(found["run"]))


def _rows(launches: pl.DataFrame, by: Mapping[str, str]) -> pl.DataFrame:
    count = pl.col("launches").cast(pl.Float64)
    time = pl.col(TIME) * count
    timed = launches[TIME].count() > 0
    share = time if timed else count

    def total(column: str) -> pl.Expr:
        return pl.when(pl.col(column).is_not_null().any()).then((pl.col(column) * count).sum())

    def covered(known: pl.Expr) -> pl.Expr:
        whole = share.sum()
        return pl.when(whole > 0).then(100 * pl.when(known).then(share).otherwise(0.0).sum() / whole).otherwise(0.0)

    columns: dict[str, pl.Expr] = {}
    for mean in WEIGHTED:
        value = pl.col(mean.column).cast(pl.Float64)
        weight = pl.when(value.is_not_null()).then(pl.col(by[mean.column]) * count)
        columns[mean.column] = pl.when(weight.sum() > 0).then((value * weight).sum() / weight.sum())
        columns[f"{mean.column}_covered"] = covered(value.is_not_null())
    for name in SUMS:
        columns[name] = total(name)
        columns[f"{name}_covered"] = covered(pl.col(name).is_not_null())
    for name, (above, below, factor) in RATIOS.items():
        both = pl.col(above).is_not_null() & pl.col(below).is_not_null()
        whole = pl.when(both).then(pl.col(below) * count).sum()
        columns[name] = pl.when(whole > 0).then(factor * pl.when(both).then(pl.col(above) * count).sum() / whole)
        columns[f"{name}_covered"] = covered(both)
    return launches.group_by("configuration", "kind", maintain_order=True).agg(
        pl.col("launches").sum(),
        kernels=pl.col("identity").n_unique(),
        total_ns=total(TIME),
        duration_ns=pl.when(pl.col(TIME).is_not_null().any()).then(
            time.sum() / pl.when(pl.col(TIME).is_not_null()).then(count).sum()
        ),
        **columns,
    )


def _with_empty(table: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """The table with a row for each configuration in which nothing was profiled."""
    absent = [name for name in names if name not in set(table["configuration"])]
    nothing = pl.DataFrame(
        {"configuration": absent, "kind": ALL, "launches": 0, "kernels": 0},
        schema={name: table.schema[name] for name in ("configuration", "kind", "launches", "kernels")},
    )
    covered = [name for name in table.columns if name.endswith("_covered")]
    return pl.concat([table, nothing], how="diagonal").with_columns(pl.col(covered).fill_null(0.0))


def _ordered(table: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """All kernels first, then by kind, the one with most time first; in each the configurations as they were given."""
    spent = table.group_by("kind").agg(spent=pl.col("total_ns").sum(), many=pl.col("launches").sum())
    place = {name: number for number, name in enumerate(names)}
    first = {ALL: 0, COMMON: 1}
    return (
        table.join(spent, on="kind", how="left")
        .with_columns(
            first=pl.col("kind").replace_strict(first, default=2, return_dtype=pl.UInt8),
            place=pl.col("configuration").replace_strict(place, return_dtype=pl.UInt32),
        )
        .sort("first", "spent", "many", "kind", "place", descending=[False, True, True, False, False], nulls_last=True)
        .drop("first", "spent", "many", "place")
    )
