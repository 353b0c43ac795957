"""Whether a launch used tensor cores, as far as its counters tell."""

from __future__ import annotations

import re

import polars as pl

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


def evidence(counters: pl.DataFrame) -> pl.DataFrame:
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


def verdict() -> pl.Expr:
    """Whether tensor cores were used; needs `evidence`'s columns, ``warps``, ``capability`` and ``tensor_percent``.

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
