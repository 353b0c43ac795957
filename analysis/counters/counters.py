"""Hardware counters of Nsight Compute and ROCm: one row per profiled launch, one per kernel, what was not collected."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl
from msgspec import Struct

from tracetui.analysis.base.remembered import kept
from tracetui.analysis.counters.metrics import ALWAYS_PRINTED, LIMITS, METRICS, PERCENTAGES, missing
from tracetui.parsers.names import kernel_names

if TYPE_CHECKING:
    from tracetui.parsers import Trace


class BoundLimits(Struct, frozen=True):
    """Where Nsight Compute's rule SOLBottleneck draws its lines, in percent of peak."""

    low: float = 60.0
    """Below it on both sides, latency keeps the kernel from using either."""
    balanced: float = 10.0
    """Compute and memory closer than this are balanced."""


BOUND = BoundLimits()
NVTX_SECTION = "NVTX"
WARP = 32
_VERSION = re.compile(r"\d+(\.\d+)?")
RULE_FIELDS = ("kind", "section", "name", "speedup_percent", "speedup_type", "text")
"""The fields of a rule's struct."""
RANGE = "push/pop range"
_PART = pl.coalesce(
    pl.col("metric").str.extract(r"(?:^|\.)([a-z0-9]+?)__"), pl.col("metric").str.extract("^([a-z0-9]+?)_")
)
"""Finds the part of the GPU that counts a raw metric."""
MEANS = (*PERCENTAGES, "registers", "shared_memory", "waves", "dram_bytes")
"""Columns of which a kernel has the mean of its launches."""


@kept
def launch_counters(trace: Trace) -> pl.DataFrame:
    """One row per profiled launch, in the order of the file.

    Percentages are of the peak that ncu names (SM, memory and DRAM: of elapsed cycles; hit rates: of sectors;
    occupancy: of the resident warps an SM can hold). ``memory_percent`` is the busiest part of the memory system, not
    DRAM. ``launches`` is 1, or how many a row of a summary stands for. ``occupancy_limiter`` names what allows the
    fewest resident blocks, several where they tie. ``tensor_cores`` is `tensor_verdict`, ``bound``
    `bound_class`. ``missing`` lists sections that hold nothing and single metrics that are absent. ``range`` is the
    NVTX push/pop stack, outermost first. Null is what the file does not say.
    """
    device = trace.device
    metrics = trace.counters.filter(pl.col("kind") == "metric")
    measured = metrics.filter(pl.col("value").is_not_null())
    rows = pl.DataFrame({"device_row": pl.int_range(device.height, dtype=pl.UInt32, eager=True)})
    table = rows.hstack(
        device.select("name", "grid", "block", "device", "registers", "shared_memory", "duration").with_columns(
            pl.col("name").cast(pl.String)
        )
    )
    table = table.join(
        _named(pl.concat([measured, _unlimited(metrics)])), on="device_row", how="left", maintain_order="left"
    )
    table = table.join(tensor_evidence(measured), on="device_row", how="left", maintain_order="left")
    names = table["name"].to_list()
    short = {name: kernel_names.short_name(name) for name in set(names)}
    # ROCm counts while a kernel runs, whose duration is no counter
    table = table.with_columns(duration_ns=pl.coalesce("duration_ns", pl.col("duration").cast(pl.Float64)))
    table = table.with_columns(
        pl.Series("short_name", [short[name] for name in names], pl.String),
        _capability(trace, table["device"]),
        warps=_warps(),
        launches=pl.col("invocations").fill_null(1).cast(pl.UInt32),
        duration_min_ns=pl.coalesce("duration_min_ns", "duration_ns"),
        duration_max_ns=pl.coalesce("duration_max_ns", "duration_ns"),
        dram_bytes=pl.coalesce(
            "dram_total",
            pl.col("dram_read") + pl.col("dram_written"),
            pl.col("dram_rate") * pl.col("duration_ns") / 1e9,
        ),
        occupancy_limiter=_limiter(),
        bound=bound_class(),
    )
    table = table.with_columns(tensor_cores=tensor_verdict())
    table = table.with_columns(missing=missing())
    rules = _rules(trace)
    table = table.join(rules, on="device_row", how="left", maintain_order="left")
    ranges = trace.counters.filter((pl.col("section") == NVTX_SECTION) & (pl.col("metric") == RANGE))
    ranges = ranges.select("device_row", range="text").unique("device_row", keep="first")
    table = table.join(ranges, on="device_row", how="left", maintain_order="left")
    return table.select(
        "device_row", "name", "short_name", "range", "grid", "block", "launches", "duration_ns", "duration_min_ns",
        "duration_max_ns", "sm_percent", "memory_percent", "dram_percent", "l1_percent", "l2_percent",
        "l1_hit_percent", "l2_hit_percent", "occupancy_percent", "theoretical_occupancy_percent", "occupancy_limiter",
        "registers", "shared_memory", "waves", "tensor_percent", "tensor_cores", "dram_bytes", "bound", "missing",
        pl.col("rules").fill_null(pl.lit([], dtype=rules.schema["rules"])),
    )  # fmt: skip


def kernel_counters(trace: Trace) -> pl.DataFrame:
    """One row per kernel name, the most total time first; see `by_kernel`."""
    return by_kernel(launch_counters(trace))


def by_kernel(launches: pl.DataFrame) -> pl.DataFrame:
    """Means over the launches of each kernel, every launch counting the same, of those that have the value.

    ``launches`` is how many were profiled; ``total_ns`` their time together; ``duration_ns`` their mean. ``bound`` is
    the class of the mean SM and memory shares. ``tensor_cores`` is true if any launch used them, false if none did and
    all are known. ``grid`` and ``block`` are null where the launches differ. ``rules`` has each rule once, with the
    number of launches it is about and its mean estimated speed-up.

    Args:
        launches: what `launch_counters` gives, or some of its rows.
    """
    rule = pl.struct(*RULE_FIELDS, "launches", "gain_ns")
    rules = kernel_rules(launches).group_by(pl.col("kernel").alias("name"), maintain_order=True).agg(rules=rule)
    return means(launches).join(rules, on="name", how="left", maintain_order="left")


def means(launches: pl.DataFrame) -> pl.DataFrame:
    """`by_kernel` without the rules, whose lists take longer than the numbers."""
    weight = pl.col("launches")

    def mean(column: str) -> pl.Expr:
        known = pl.col(column).is_not_null()
        return pl.when(known.any()).then((pl.col(column) * weight).sum() / weight.filter(known).sum().cast(pl.Float64))

    def same(column: str) -> pl.Expr:
        return pl.when(pl.col(column).n_unique() == 1).then(pl.col(column).first())

    known = pl.col("tensor_cores")
    table = launches.group_by("name", maintain_order=True).agg(
        pl.col("short_name").first(),
        launches=weight.sum(),
        total_ns=pl.when(pl.col("duration_ns").is_not_null().any()).then((pl.col("duration_ns") * weight).sum()),
        duration_ns=mean("duration_ns"),
        duration_min_ns=pl.col("duration_min_ns").min(),
        duration_max_ns=pl.col("duration_max_ns").max(),
        grid=same("grid"),
        block=same("block"),
        **{column: mean(column) for column in MEANS},
        occupancy_limiter=pl.col("occupancy_limiter")
        .drop_nulls()
        .str.split(", ")
        .explode()
        .unique(maintain_order=True),
        tensor_cores=pl.when(known.any()).then(pl.lit(value=True)).when(known.is_not_null().all()).then(known.any()),
        missing=pl.col("missing").explode().drop_nulls().unique(maintain_order=True),
    )
    limiters = pl.col("occupancy_limiter").list
    table = table.with_columns(
        occupancy_limiter=pl.when(limiters.len() > 0).then(limiters.join(", ")), bound=bound_class()
    )
    return table.sort("total_ns", "name", descending=[True, False], nulls_last=True)


def bound_class() -> pl.Expr:
    """What keeps a kernel from running faster: ``compute``, ``memory``, ``latency`` or ``balanced``.

    As Nsight Compute's rule SOLBottleneck decides by the shares of peak of SM and memory system: both below 60 % is
    latency; else the one that leads by 10 points or more; else balanced. Null where one of them is unknown.
    """
    compute, memory = pl.col("sm_percent"), pl.col("memory_percent")
    return (
        pl.when(compute.is_null() | memory.is_null())
        .then(pl.lit(None, pl.String))
        .when((compute < BOUND.low) & (memory < BOUND.low))
        .then(pl.lit("latency"))
        .when((compute - memory).abs() < BOUND.balanced)
        .then(pl.lit("balanced"))
        .when(compute > memory)
        .then(pl.lit("compute"))
        .otherwise(pl.lit("memory"))
    )


BOUND_WORDS = {
    "latency": "waits for latency",
    "balanced": "uses arithmetic and memory alike",
    "compute": "is bound by compute",
    "memory": "is bound by memory",
}
"""What a kernel does by its `bound_class`, in words."""


def kernel_rules(launches: pl.DataFrame) -> pl.DataFrame:
    """Returns ncu's rules by kernel, the largest gain first.

    The columns are ``kernel, short_name, kind, section, name, speedup_type, launches, speedup_percent, gain_ns, text``:
    how many launches a rule is about, the mean of its estimates, the time that global estimates add up to (local ones
    are not of the kernel's time), and the rule's text for the first launch.

    Args:
        launches: what `launch_counters` gives, or some of its rows.
    """
    own = pl.col("name").alias("kernel"), "device_row", "short_name", "duration_ns"
    said = launches.select("name", "device_row", "short_name", "duration_ns", "rules").explode("rules")
    said = said.drop_nulls("rules").select(*own, pl.col("rules").struct.unnest())
    # a rule with several messages for one launch counts once, with the largest gain
    said = said.sort("speedup_percent", descending=True, nulls_last=True, maintain_order=True).unique(
        ["device_row", "kernel", "kind", "section", "name"], keep="first", maintain_order=True
    )
    gain = pl.when(pl.col("speedup_type") == "global").then(pl.col("duration_ns") * pl.col("speedup_percent") / 100)
    return (
        said.with_columns(gain_ns=gain)
        .group_by("kernel", "short_name", "kind", "section", "name", "speedup_type", maintain_order=True)
        .agg(
            launches=pl.len(),
            speedup_percent=pl.col("speedup_percent").mean(),
            gain_ns=pl.when(pl.col("gain_ns").count() > 0).then(pl.col("gain_ns").sum()),
            text=pl.col("text").first(),
        )
        .sort("gain_ns", "speedup_percent", descending=True, nulls_last=True, maintain_order=True)
    )


def metric_table(trace: Trace) -> pl.DataFrame:
    """Every metric over all launches: ``section, metric, unit, launches, mean_value, min_value, max_value, text``.

    ``launches`` is how many have a number; ``text`` is the value where none has.
    """
    found = trace.counters.filter((pl.col("kind") == "metric") & (pl.col("metric").cast(pl.String) != RANGE))
    value = pl.col("value")
    table = found.group_by("section", "metric", "unit", maintain_order=True).agg(
        launches=value.count(),
        mean_value=value.mean(),
        min_value=value.min(),
        max_value=value.max(),
        text=pl.col("text").drop_nulls().first(),
    )
    table = table.with_columns(pl.col("section", "metric", "unit").cast(pl.String))
    return table.with_columns(pl.coalesce("section", _PART).alias("section"))


def launch_metrics(trace: Trace, row: int) -> pl.DataFrame:
    """Every metric of one launch as the file has it: ``section, metric, unit, value, text``.

    Metrics of a raw page have no section; the part of the GPU that counts them (``sm``, ``lts``, ``dram``) stands for
    it.
    """
    mine = trace.counters.filter((pl.col("device_row") == row) & (pl.col("kind") == "metric"))
    return (
        mine.select(pl.col("section", "metric", "unit").cast(pl.String), "value", "text")
        .with_columns(pl.coalesce("section", _PART).alias("section"))
        .sort(pl.col("section").str.to_lowercase(), maintain_order=True)
    )


def _named(measured: pl.DataFrame) -> pl.DataFrame:
    """``device_row`` and a column per entry of `METRICS`, from the first of its names that a launch has."""
    names = [
        (name, metric.unit, metric.column, order)
        for metric in METRICS
        for order, name in enumerate((*metric.raw, *metric.labels))
    ]
    mapping = pl.DataFrame(
        names, schema={"metric": pl.String, "wanted": pl.String, "column": pl.String, "order": pl.UInt8}, orient="row"
    )
    found = (
        measured.select("device_row", "metric", "unit", "value")
        .join(mapping.with_columns(pl.col("metric").cast(pl.Categorical)), on="metric")
        .with_columns(pl.col("unit").cast(pl.String))
        .filter((pl.col("unit") == pl.col("wanted")) | (pl.col("unit").fill_null("") == "") | (pl.col("wanted") == ""))
        .sort("order", maintain_order=True)
        .unique(["device_row", "column"], keep="first", maintain_order=True)
    )
    columns = [metric.column for metric in METRICS]
    value = pl.col("value")
    return found.group_by("device_row").agg(
        **{column: value.filter(pl.col("column") == column).first() for column in columns}
    )


def _unlimited(metrics: pl.DataFrame) -> pl.DataFrame:
    """The limits of resident blocks that old versions print as ``inf``: the frame holds no such number."""
    names = [name for metric in METRICS if metric.column in LIMITS for name in (*metric.raw, *metric.labels)]
    infinite = metrics.filter(pl.col("value").is_null()).filter(pl.col("text").str.to_lowercase() == "inf")
    infinite = infinite.filter(pl.col("metric").cast(pl.String).is_in(names))
    return infinite.with_columns(value=pl.lit(float("inf")))


def _capability(trace: Trace, device: pl.Series) -> pl.Series:
    """Compute capability of each launch's device as a number."""
    known: dict[int, float] = {}
    for info in trace.info.devices:
        if _VERSION.fullmatch(info.compute_capability or ""):
            known[info.id] = float(info.compute_capability or 0)
    return pl.Series("capability", [known.get(number or 0) for number in device.to_list()], pl.Float64)


def _warps() -> pl.Expr:
    """How many warps a launch has."""
    blocks = pl.coalesce(_product("grid"), "grid_size")
    threads = pl.coalesce(_product("block"), "block_size")
    return blocks * (threads / WARP).ceil()


def _product(column: str) -> pl.Expr:
    size = pl.col(column).arr
    return size.get(0).cast(pl.Float64) * size.get(1) * size.get(2)


def _limiter() -> pl.Expr:
    smallest = pl.min_horizontal(pl.when(pl.col(column) > 0).then(pl.col(column)) for column in LIMITS)
    names = pl.concat_list(pl.when(pl.col(column) == smallest).then(pl.lit(name)) for column, name in LIMITS.items())
    known = pl.all_horizontal(pl.col(column).is_not_null() for column in ALWAYS_PRINTED)
    return pl.when(known).then(names.list.drop_nulls().list.join(", "))


def _rules(trace: Trace) -> pl.DataFrame:
    said = trace.counters.filter(~pl.col("kind").is_in(["metric", "sample"]))
    rule = pl.struct(
        pl.col("kind").cast(pl.String),
        pl.col("section").cast(pl.String),
        pl.col("metric").cast(pl.String).alias("name"),
        pl.col("value").alias("speedup_percent"),
        pl.col("unit").cast(pl.String).alias("speedup_type"),
        "text",
    )
    return said.group_by("device_row", maintain_order=True).agg(rules=rule)


HMMA_PER_WARP = 16
"""More `hmma` instructions per launched warp than this are matrix products.

On an H200 the counter also ticked up to 9 times a warp in kernels without one (layer norm), which `truth.csv` of the
recorded operations settles by weighing them against FFMA.
"""
PIPE_PERCENT = 10.0
"""From here on a busy tensor pipe means matrix products on Hopper and later, where it ticks in plain kernels too.

A layer norm of the recorded vision model keeps it 3 % busy on an H200.
"""
HOPPER = 9.0
_COUNT = re.compile(r"sm(?:sp)?__inst_executed_pipe_tensor_op_(\w+)\.sum")
_ALL = re.compile(r"sm(?:sp)?__inst_executed_pipe_tensor\.sum")
_OPERATIONS = re.compile(r"sm(?:sp)?__ops_path_tensor_\w+\.sum")
_SHARE = re.compile(
    r"sm(?:sp)?__(?:inst_executed_pipe_tensor_op_(?P<a>\w+?)|pipe_tensor_op_(?P<b>\w+?)_cycles_active)"
    r"\.avg\.pct_of_peak_sustained_\w+"
)


def tensor_evidence(counters: pl.DataFrame) -> pl.DataFrame:
    """Returns what the tensor counters of each launch that has any say.

    Args:
        counters: rows of kind ``metric`` with a value; ``metric`` as a Categorical.

    Returns:
        ``device_row, hmma, other`` (instructions), ``tensor_instructions`` (of all kinds), ``operations`` and how many
        metrics they are the sum of (``operation_kinds``), ``other_share`` (percent); null where not collected.
    """
    roles: dict[str, str] = {}
    for name in counters["metric"].unique().cast(pl.String).to_list():
        if "tensor" not in name:
            continue
        if (found := _COUNT.fullmatch(name)) is not None:
            roles[name] = "hmma" if found[1] == "hmma" else "other"
        elif _ALL.fullmatch(name):
            roles[name] = "tensor_instructions"
        elif _OPERATIONS.fullmatch(name):
            roles[name] = "operations"
        elif (found := _SHARE.fullmatch(name)) is not None and (found["a"] or found["b"]) != "hmma":
            roles[name] = "other_share"
    mapping = pl.DataFrame(
        {"metric": pl.Series(list(roles), dtype=pl.String).cast(pl.Categorical), "role": list(roles.values())},
        schema={"metric": pl.Categorical(), "role": pl.String()},
    )
    found_rows = counters.join(mapping, on="metric")

    def total(role: str, how: str = "sum") -> pl.Expr:
        value = pl.col("value").filter(pl.col("role") == role)
        return pl.when(value.len() > 0).then(value.sum() if how == "sum" else value.max())

    return found_rows.group_by("device_row").agg(
        # the same instructions may be counted both per SM and per sub-partition: take the larger, not the sum
        hmma=total("hmma", "max"),
        other=total("other"),
        tensor_instructions=total("tensor_instructions", "max"),
        operations=total("operations"),
        operation_kinds=(pl.col("role") == "operations").sum(),
        other_share=total("other_share"),
    )


def tensor_verdict() -> pl.Expr:
    """Whether tensor cores were used; needs `tensor_evidence`, ``warps``, ``capability`` and ``tensor_percent``.

    The first that is known decides:

    1. instructions: any gmma, dmma, imma (anything but hmma), or more than `HMMA_PER_WARP` hmma per launched warp;
    2. operations on the tensor path (the roofline metrics since 2024), which are 0 in plain kernels even where the
       pipe's share is not;
    3. shares of the tensor pipe by kind, other than hmma, above 0;
    4. the share of the tensor pipe: on compute capability below 9 anything above 0; since Hopper, 0 and
       `PIPE_PERCENT` or more tell, and what lies between does not.
    """
    old = pl.col("capability") < HOPPER
    counted = pl.col("hmma") / pl.col("warps")
    instructions = (
        pl.when(pl.col("other") > 0)
        .then(pl.lit(value=True))
        .when(counted > HMMA_PER_WARP)
        .then(pl.lit(value=True))
        .when((counted.is_not_null() | (pl.col("hmma") == 0)) & pl.col("other").is_not_null())
        .then(pl.lit(value=False))
        .when(pl.col("tensor_instructions") == 0)
        .then(pl.lit(value=False))
        .when(pl.col("tensor_instructions") / pl.col("warps") > pl.when(old).then(0).otherwise(HMMA_PER_WARP))
        .then(pl.lit(value=True))
    )
    operations = (
        pl.when(pl.col("operations") > 0)
        .then(pl.lit(value=True))
        .when((pl.col("operations") == 0) & (pl.col("operation_kinds") > 1))
        .then(pl.lit(value=False))
    )
    by_kind = pl.when(pl.col("other_share") > 0).then(pl.lit(value=True))
    share = (
        pl.when(pl.col("tensor_percent") == 0)
        .then(pl.lit(value=False))
        .when(pl.col("tensor_percent") >= pl.when(old).then(0).otherwise(PIPE_PERCENT))
        .then(pl.lit(value=True))
    )
    return pl.coalesce(instructions, operations, by_kind, share)
