"""How long each collective takes at most once every rank has come to it, as far as one rank's recording tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.base.remembered import kept

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.selection import Selection
    from tracetui.parsers import Trace

_SAME = ("kind", "group", "bytes")
_OUT_OF_STEPS = -1


def transfers(sel: Selection, described: Trace | None = None) -> Ints | None:
    """The most that each activity takes without waiting for other ranks, ns, by device row; -1 for all else.

    A collective's kernel runs from its rank's arrival on, so the shortest one holds the least waiting. More bytes take
    no less time: the bound is the shortest of the same kind and group with as many bytes or more, and where sizes are
    not known, of the same place in any step.

    Args:
        sel: the recording; collectives outside its scope tell nothing.
        described: another recording of the same program that knows kinds and sizes, where this one doesn't; told by
            the place in the step, if all steps of both have as many.

    Returns:
        None where no collectives ran on the GPU.
    """
    trace = sel.trace
    own = _collectives(trace)
    if own.height:
        own = own.filter(pl.col("row").is_in(sel.device["row"].cast(pl.Int64).implode()))
    if not own.height:
        return None
    pool = own
    if described is not None and described is not trace:
        own = _described(own, told := _collectives(described))
        pool = pl.concat([own, told])
    sizes = pool.drop_nulls("bytes").group_by(_SAME).agg(pl.col("duration").min())
    sizes = sizes.sort("bytes", descending=True)
    sizes = sizes.with_columns(bound=pl.col("duration").cum_min().over("kind", "group"))
    found = own.join(sizes.drop("duration"), on=_SAME, how="left", nulls_equal=True, maintain_order="left")
    same_place = pl.col("duration").min().over("name", "place")
    bound = found.select(pl.coalesce("bound", pl.when(pl.col("step") >= 0).then(same_place), "duration")).to_series()
    by_row = np.full(trace.device.height, -1, np.int64)
    by_row[found["row"].to_numpy()] = np.minimum(bound.to_numpy(), found["duration"].to_numpy())
    return by_row


@kept
def _collectives(trace: Trace) -> pl.DataFrame:
    """Row (of the device frame), step, place (in its step, by launch), duration, name, kind, group, bytes (or null)."""
    frame = trace.collectives
    frame = frame.filter(pl.col("device").is_not_null() & pl.col("part_of").is_null())
    row = frame["device"]
    device = trace.device.select("start", "duration", "step", "launch", "name")[row]
    launched = trace.host["start"].gather(device["launch"])
    return (
        frame.select(
            row.cast(pl.Int64).alias("row"),
            device["step"].cast(pl.Int64).fill_null(_OUT_OF_STEPS).alias("step"),
            launched.fill_null(device["start"]).alias("launched"),
            device["duration"].fill_null(0),
            device["name"].cast(pl.String),
            pl.col("kind").cast(pl.String),
            pl.col("group").cast(pl.String),
            pl.max_horizontal("bytes_in", "bytes_out").alias("bytes"),
        )
        .sort("launched", "row")
        .with_columns(place=pl.int_range(pl.len()).over("step"))
        .drop("launched")
    )


def _described(own: pl.DataFrame, told: pl.DataFrame) -> pl.DataFrame:
    """The collectives with kind, group and size of those at the same place of a step in the other recording."""
    inside = told.filter(pl.col("step") >= 0)
    places = inside.group_by("place").agg(
        pl.col(*_SAME, "name").first(),
        alike=pl.struct(*_SAME, "name").n_unique() == 1,
        steps=pl.col("step").n_unique(),
    )
    counts = pl.concat([each.filter(pl.col("step") >= 0).group_by("step").len()["len"] for each in (own, told)])
    if counts.n_unique() != 1 or not places["alike"].all():
        return own
    named = own.join(places.select("place", "name", *_SAME), on=["place", "name"], how="left", suffix="_told")
    outside = pl.col("step") == _OUT_OF_STEPS
    return named.select(
        pl.when(outside).then(pl.col(name)).otherwise(pl.coalesce(f"{name}_told", name)).alias(name)
        if name in _SAME
        else pl.col(name)
        for name in own.columns
    )
