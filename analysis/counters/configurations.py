"""Configurations and their counters in one table: reports of Nsight Compute by kind of kernel, weighted by time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
from msgspec import Struct

from tracetui.analysis.counters.compared import identities
from tracetui.analysis.counters.counters import bound_class
from tracetui.parsers.names import kernel_names

ALL, COMMON = "all", "common"
"""Kinds that are no category: every profiled launch, and those of kernels that all configurations profiled."""
TIME, COUNT = "duration_ns", "one"
"""Weights that every mean can fall back to: the launch's time, and nothing."""


class Mean(Struct, frozen=True):
    """A rate of a launch, and what it is a share of."""

    column: str
    weight: str = TIME
    """The column whose sum is the whole: the mean with these weights is the ratio of the sums."""


MEANS = (
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
MEASURED = (*(mean.column for mean in MEANS), *SUMS, *RATIOS)
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

    A mean of rates is weighted by what the rate is a share of (`MEANS`). Where that is not known of every launch that
    has the rate, in whichever configuration, all rows take time instead, so that they stay comparable; `weights` tells.

    Args:
        groups: what `roofline.launch_table` gives of each report, by the name of its configuration; those of one
            configuration count together.
    """
    launches = _together(groups)
    by = weights(launches)
    described = launches.group_by("kernel").agg(pl.col("configuration").n_unique().alias("in"))
    everywhere = described.filter(pl.col("in") == len(groups))["kernel"]
    parts = [launches.with_columns(kind=pl.lit(ALL))]
    if len(groups) > 1 and not same_launches(launches, len(groups)):
        parts.append(launches.filter(pl.col("kernel").is_in(everywhere.implode())).with_columns(kind=pl.lit(COMMON)))
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
    for mean in MEANS:
        having = launches.filter(pl.col(mean.column).is_not_null())
        having = having if having.height else launches
        choices = [name for name in (mean.weight, TIME) if not having[name].null_count() and having[name].sum()]
        found[mean.column] = choices[0] if choices else COUNT
    return found


def weights_of(groups: Groups) -> dict[str, str]:
    """`weights` in words, by column."""
    return {column: WORDS[name] for column, name in weights(_together(groups)).items()}


def same_launches(launches: pl.DataFrame, configurations: int) -> bool:
    """Whether so many configurations profiled the same kernels equally often."""
    counts = launches.group_by("kernel", "configuration").agg(pl.col("launches").sum())
    each = counts.group_by("kernel").agg(pl.len().alias("in"), pl.col("launches").n_unique().alias("different"))
    return bool(((each["in"] == configurations) & (each["different"] == 1)).all())


def _together(groups: Groups) -> pl.DataFrame:
    """All launches with their configuration, and what tells kernels apart whatever version of ncu spelled them."""
    tables = [table.with_columns(configuration=pl.lit(name)) for name, parts in groups.items() for table in parts]
    spelled = [table["name"].to_list() for table in tables]
    kernels = identities(spelled)
    return pl.concat(
        table.with_columns(kernel=pl.Series([kernels[name] for name in names], dtype=pl.String))
        for table, names in zip(tables, spelled, strict=True)
    )


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
    for mean in MEANS:
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
        kernels=pl.col("kernel").n_unique(),
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
