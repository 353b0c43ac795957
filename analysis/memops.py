"""Copies and fills: how many, how long, how many bytes, how fast."""

from __future__ import annotations

import re

import polars as pl

from tracetui.analysis.base.names import mapped, rows_of
from tracetui.analysis.sampled_calls import lines
from tracetui.analysis.selection import Selection

_PLACES = {
    "H": "Host",
    "D": "Device",
    "P": "Peer",
    "A": "Array",
    "U": "Unified",
}
_COPY = re.compile(r"(?:hip)?Memcpy ?([A-Z])(?:to|2)([A-Z])", re.IGNORECASE)
_WORDS = re.compile(r"(Host|Device)To(Host|Device)")


def copy_rows(sel: Selection) -> pl.DataFrame:
    """Device rows of the copies and fills in scope, named as nsys names them."""
    rows = rows_of(sel.timed, "memcpy", "memset")
    return rows.with_columns(mapped(rows["name"], operation_name, None, pl.String()).alias("name"))


def memops(sel: Selection) -> pl.DataFrame:
    """One row per direction of copy and one for fills, named as nsys names them.

    Returns:
        kind (memcpy or memset), name, calls, total_ns, mean_ns, bytes, throughput_gbps (bytes over their own time, in
        10⁹ bytes a second; null without time or size), line (the program's own frame that launched most of its time;
        null where none was recorded), the longest total first.
    """
    rows = copy_rows(sel)
    rows = rows.select(
        pl.col("kind").cast(pl.String), "name", "duration", "bytes", lines(sel.trace, rows).alias("line")
    )
    sized = pl.col("duration").filter(pl.col("bytes").is_not_null()).sum()
    of_lines = rows.drop_nulls("line").group_by("kind", "name", "line").agg(pl.col("duration").sum())
    main = of_lines.sort("duration", "line", descending=[True, False]).unique(["kind", "name"], keep="first")
    return (
        rows.group_by("kind", "name")
        .agg(
            pl.len().alias("calls"),
            pl.col("duration").sum().alias("total_ns"),
            pl.col("duration").mean().alias("mean_ns"),
            pl.when(pl.col("bytes").count() > 0).then(pl.col("bytes").sum()).alias("bytes"),
            pl.when((sized > 0) & (pl.col("bytes").sum() > 0))
            .then(pl.col("bytes").sum() / sized)
            .alias("throughput_gbps"),
        )
        .join(main.select("kind", "name", "line"), on=["kind", "name"], how="left")
        .sort("total_ns", "name", descending=[True, False])
    )


def operation_name(name: str) -> str:
    """Nsys's name of a copy or fill: ``Memcpy HtoD (Pinned -> Device)`` of Kineto, ``MemcpyH2D`` of XLA."""
    if name.startswith("["):
        return name
    if "memset" in name.lower():
        return "[CUDA memset]"
    if match := _COPY.search(name):
        places = [_PLACES.get(letter.upper(), letter) for letter in match.groups()]
    elif match := _WORDS.search(name):
        places = [word.capitalize() for word in match.groups()]
    else:
        return name
    return f"[CUDA memcpy {places[0]}-to-{places[1]}]"
