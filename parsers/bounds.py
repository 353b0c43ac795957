"""Bounds what takes time for each of its kind: a recording of other people may hold any number of names and devices.

What is beyond a bound keeps its rows and times, and a note says what is no longer told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from tracetui.parsers import categories
from tracetui.parsers.schema import MAX_SIZE
from tracetui.parsers.tally import Tally
from tracetui.parsers.trace import FRAMES, Trace

LONGEST_NAME = 1 << 14
"""Bytes; compilers write a few thousand."""
MOST_NAMES, MOST_NAME_BYTES = {"kernel": 1 << 13, "call": 1 << 14}, 1 << 22
"""Of kernels, and of what the host did but Python's functions: some fifty rules look at each, most at kernels."""
MOST_STEPS = 1 << 14
MOST_DEVICES = 1 << 10
MOST_STREAMS = 1 << 13
_SIZES = ("bytes", "allocated", "reserved")
_NAMED = ("name", "operation", "scope", "metric")


def bounded(trace: Trace) -> Trace:
    """The trace with names, devices, streams and steps within bounds; the busiest are kept, and the first steps."""
    tally = Tally()
    frames: dict[str, Any] = {name: _shortened(getattr(trace, name), tally) for name in FRAMES}
    frames["memory"] = _sized(frames["memory"], -MAX_SIZE, tally)
    device = _sized(frames["device"], 0, tally)
    device = _without(device, ("device",), MOST_DEVICES, tally)
    device = _without(device, ("device", "stream"), MOST_STREAMS, tally)
    if (more := frames["steps"].height - MOST_STEPS) > 0:
        tally.skipped(f"step behind the first {MOST_STEPS:,}", more)
        frames["steps"] = frames["steps"].head(MOST_STEPS)
        device = device.with_columns(pl.when(pl.col("step") < MOST_STEPS).then(pl.col("step")))
    frames["device"] = _fewer_names(device, pl.col("kind") == "kernel", "kernel", tally)
    frames["host"] = _fewer_names(frames["host"], pl.col("kind") != "python", "call", tally)
    notes = tally.notes()
    return replace(trace, **frames, notes=(*trace.notes, *notes)) if notes else trace


def _shortened(frame: pl.DataFrame, tally: Tally) -> pl.DataFrame:
    """The frame with the beginnings of names that are too long."""
    for column in _NAMED if frame.height else ():
        if frame.schema.get(column) != pl.Categorical:
            continue
        distinct = pl.col(column).unique().drop_nulls()
        long = frame.select_seq(distinct.filter(distinct.cast(pl.String).str.len_bytes() > LONGEST_NAME))[column]
        if long.len():
            short = [text[:LONGEST_NAME] + "…" for text in long.cast(pl.String)]
            tally.repaired(f"name of more than {LONGEST_NAME:,} bytes cut", len(short), short[0])
            frame = frame.with_columns(_renamed(frame[column], long, short))
    return frame


def _sized(frame: pl.DataFrame, least: int, tally: Tally) -> pl.DataFrame:
    """The frame without the numbers of bytes that no memory holds, whose sums 64 bits need not hold either."""
    sizes = pl.col([name for name in _SIZES if name in frame.columns])
    beyond = frame.select(~sizes.is_between(least, MAX_SIZE))
    if number := sum(int(column.sum()) for column in beyond):
        tally.repaired("number of bytes that no memory holds read as unknown", number)
        frame = frame.with_columns(pl.when(sizes.is_between(least, MAX_SIZE)).then(sizes))
    return frame


def _without(frame: pl.DataFrame, columns: Sequence[str], most: int, tally: Tally) -> pl.DataFrame:
    """The frame without the last of these columns in rows of all but the busiest of its values."""
    if frame.height <= most or frame.select(columns).n_unique() <= most:
        return frame
    busiest = frame.group_by(columns, maintain_order=True).agg(pl.col("duration").sum())
    rare = busiest.sort("duration", descending=True, maintain_order=True)[most:].select(columns)
    found = frame.select(columns).with_row_index().join(rare, on=columns, how="semi", nulls_equal=True)["index"]
    what = columns[-1]
    tally.repaired(f"GPU work whose {what} is not kept: more than {most:,} {what}s", len(found))
    rows = pl.int_range(pl.len(), dtype=pl.UInt32).is_in(found.implode())
    return frame.with_columns(pl.when(~rows).then(pl.col(what)))


def _fewer_names(frame: pl.DataFrame, of: pl.Expr, noun: str, tally: Tally) -> pl.DataFrame:
    """The frame with one name for rows of one sort of all but the busiest names."""
    distinct = frame["name"].filter(frame.select(of).to_series()).unique().drop_nulls()
    if (
        distinct.len() <= (most := MOST_NAMES[noun])
        and distinct.cast(pl.String).str.len_bytes().sum() <= MOST_NAME_BYTES
    ):
        return frame
    busiest = frame.filter(of & pl.col("name").is_not_null()).group_by("name", maintain_order=True)
    by_time = busiest.agg(pl.col("duration").sum(), rows=pl.len())
    by_time = by_time.sort("duration", descending=True, maintain_order=True)
    bytes_so_far = by_time["name"].cast(pl.String).str.len_bytes().cum_sum()
    rare = by_time.filter((bytes_so_far > MOST_NAME_BYTES) | (pl.int_range(pl.len()) >= most))
    bound = f"{most:,} names or {MOST_NAME_BYTES >> 20} MiB of them"
    tally.repaired(
        f"{noun} whose name is not kept: more than {bound}",
        int(rare["rows"].sum()),
        str(rare["name"].cast(str)[0]),
    )
    return frame.with_columns(_renamed(frame["name"], rare["name"], [f"{noun}s of other names"] * rare.height))


def _renamed(names: pl.Series, old: pl.Series, new: list[str]) -> pl.Series:
    """The names with some of them replaced; no text is copied for each row."""
    codes = names.to_physical().replace(old.to_physical(), pl.Series(categories.encode(new)))
    return categories.decode(codes.fill_null(categories.NULL_CODE).to_numpy()).alias(names.name)
