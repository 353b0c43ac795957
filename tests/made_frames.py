"""Traces made of plain rows, without a file: a dictionary per row, null where it says nothing."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from tracetui.parsers import Source, Trace, TraceInfo, schema

Row: TypeAlias = dict[str, Any]

EMPTY = Trace.empty(TraceInfo("chrome", "made"), Source(Path("made.json"), 0))


def made_trace(*, steps: Sequence[Row] = (), host: Sequence[Row] = (), device: Sequence[Row] = ()) -> Trace:
    """Makes a trace of rows as they are given: their order and their row ids are the caller's."""
    return replace(
        EMPTY,
        steps=made_frame(steps, schema.STEPS) if steps else EMPTY.steps,
        host=made_frame(host, schema.HOST) if host else EMPTY.host,
        device=made_frame(device, schema.DEVICE) if device else EMPTY.device,
    )


def made_frame(rows: Sequence[Row], layout: dict[str, pl.DataType]) -> pl.DataFrame:
    """Makes a frame of this layout."""
    columns = []
    for name, dtype in layout.items():
        values = [row.get(name) for row in rows]
        told = any(value is not None for value in values)
        first = pl.Series(
            name, values if told else [None], dtype=pl.String() if told and dtype == pl.Categorical else dtype
        )
        columns.append(first.cast(dtype) if told else first.new_from_index(0, len(rows)))
    return pl.DataFrame(columns)


def on_lanes(rows: Sequence[Row]) -> list[Row]:
    """Host rows in the order of `schema.HOST`: by thread, start, then the longer first."""
    return sorted(rows, key=lambda row: (row["process"], row["thread"], row["start"], -row["duration"]))
