"""What the GPUs did, as arrays: when, on which device and stream, and which kind of work."""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.base import names
from tracetui.analysis.base.remembered import latest
from tracetui.analysis.selection import Selection
from tracetui.parsers import Trace, schema
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.names.collectives import is_collective_kernel
from tracetui.parsers.replays import replayed_work

WORK = ("kernel", "memcpy", "memset", "graph")
KERNEL, MEMCPY, MEMSET, GRAPH = (schema.DEVICE_KINDS.index(kind) for kind in WORK)
COLUMNS = (
    "kind", "name", "start", "duration", "device", "stream", "correlation", "external_id", "launch",
    "occupancy_percent", "blocks_per_sm", "block",
)  # fmt: skip


class Activities(Struct, frozen=True):
    """Device activities in order of start, an array per property."""

    frame: pl.DataFrame
    """The rows behind the arrays: the columns of `schema.DEVICE` that analyses of all activities need."""
    start: Ints
    end: Ints
    kernel: Bools
    """Kernels, communication included."""
    compute: Bools
    """Kernels that compute, and whole graphs."""
    communication: Bools
    memcpy: Bools
    memset: Bools

    def column(self, name: str) -> Ints:
        """A whole-number column; -1 where it is null."""
        values: Ints = self.frame[name].cast(pl.Int64).fill_null(-1).to_numpy()
        return values

    def where(self, chosen: Bools) -> Activities:
        """Only the chosen rows."""
        return self if chosen.all() else self._of(self.frame.filter(pl.Series(chosen)), chosen)

    def at(self, chosen: Ints | slice) -> Activities:
        """Only the rows at these positions."""
        return self if isinstance(chosen, slice) else self._of(self.frame[chosen], chosen)

    def _of(self, frame: pl.DataFrame, chosen: Bools | Ints) -> Activities:
        return Activities(
            frame,
            self.start[chosen],
            self.end[chosen],
            *(part[chosen] for part in (self.kernel, self.compute, self.communication, self.memcpy, self.memset)),
        )


def distinct(values: Ints) -> list[int]:
    """The different values of a column that has few of them, ascending."""
    if values.size and values.min() == values.max():
        return [int(values[0])]
    return sorted(pl.Series(values).unique().to_list())


def by_value(values: Ints) -> list[tuple[int, Ints | slice]]:
    """The different values of a column, ascending, and the positions of each; all positions are a slice."""
    if not values.size:
        return []
    low, high = int(values.min()), int(values.max())
    if low == high:
        return [(low, slice(None))]
    # NumPy sorts numbers of 16 bits by radix sort
    order = np.argsort((values - low).astype(np.uint16) if high - low < 1 << 16 else values, kind="stable")
    ordered = values[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    return list(zip(ordered[first].tolist(), np.split(order, first[1:]), strict=True))


@latest
def activities(sel: Selection) -> Activities:
    """The work of the devices in scope, in and outside steps.

    Annotations and synchronisations are not work.
    """
    frame = sel.trace.device
    kind = frame["kind"].to_physical().to_numpy()
    chosen = (kind == KERNEL) | (kind == MEMCPY) | (kind == MEMSET) | (kind == GRAPH)
    if sel.scope.devices is not None:
        chosen &= frame["device"].is_in(list(sel.scope.devices)).fill_null(value=False).to_numpy()
    frame = frame.select(COLUMNS)
    if not chosen.all():
        frame, kind = frame.filter(pl.Series(chosen)), kind[chosen]
    start = frame["start"].to_numpy()
    kernel = kind == KERNEL
    communication = kernel & names.matching(frame["name"], is_collective_kernel)
    compute = (kernel & ~communication) | (kind == GRAPH)
    end = start + frame["duration"].to_numpy()
    return Activities(frame, start, end, kernel, compute, communication, kind == MEMCPY, kind == MEMSET)


@latest
def graphs(trace: Trace) -> pl.DataFrame:
    """A row for each launch of a graph whose kernels were recorded, in order: ``launch`` (host row), ``when``, others.

    ``graph`` is the graph's number, from 1 by the first launch: launches are of one where their nodes' numbers say so
    (the upper half is the graph's), else where their kernels are called alike. ``ns`` and ``ended`` are of the kernels.
    """
    kernel, name = pl.col("kind") == "kernel", pl.col("name").to_physical()
    found = replayed_work(trace).filter(pl.col("kind").is_in(WORK)).group_by("launch", "when", "process").agg(
        id=pl.col("graph_node").min() // (1 << 32), names=name.filter(kernel).hash().sum(), kernels=kernel.sum(),
        streams=pl.struct("device", "stream").n_unique(), ns=pl.col("duration").filter(kernel).sum(),
        ended=(pl.col("start") + pl.col("duration")).filter(kernel).max(),
    ).filter(pl.col("kernels") > 0).sort("when", "launch").collect()  # fmt: skip
    same = pl.when(pl.col("id").is_null()).then(pl.struct("names", "kernels"))
    first = found.with_columns(key=pl.struct("process", "id", same.alias("names"))).with_columns(
        begun=pl.col("when").min().over("key")
    )
    return first.with_columns(graph=pl.struct("begun", "key").rank("dense"))


def graph_numbers(trace: Trace, rows: pl.DataFrame) -> pl.Series:
    """The number of the graph, by device row, where that runs on several streams; null for what is of its stream alone.

    The streams are the driver's: it spreads the branches of a graph, often over hundreds. What else is on streams on
    which no other work ran, as ranges are, goes with the graph.
    """
    spread = graphs(trace).filter(pl.col("streams") > 1).select("launch", "graph")
    if not spread.height:
        return pl.repeat(None, rows.height, dtype=pl.UInt32, eager=True)
    found = rows.select("kind", "device", "stream", "launch").join(spread, "launch", "left", maintain_order="left")
    graph, on = pl.col("graph"), ("device", "stream")
    other = (pl.col("kind").is_in(WORK) & graph.is_null()).any().over(on)
    of_stream = pl.when(~other).then(graph.drop_nulls().first().over(on))
    numbers: pl.Series = found.select(graph=pl.coalesce("graph", of_stream))["graph"]
    return numbers
