"""What the GPUs did, as arrays: when, on which device and stream, and which kind of work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.base import names
from tracetui.analysis.base.conventions import (
    TB_COLLECTIVES,
    TRACETUI,
    Conventions,
    hta_kernel_type,
)
from tracetui.analysis.base.remembered import latest
from tracetui.parsers import Trace, schema
from tracetui.parsers.names.collectives import is_collective_kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.selection import Selection

    Bools = NDArray[np.bool_]

WORK = ("kernel", "memcpy", "memset", "graph")
KERNEL, MEMCPY, MEMSET, GRAPH = (schema.DEVICE_KINDS.index(kind) for kind in WORK)
STEP_MARK = "ProfilerStep"
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
def activities(sel: Selection, conventions: Conventions = TRACETUI) -> Activities:
    """The work of the devices in scope, in and outside steps.

    Annotations and synchronisations are not work (HTA counts the latter).
    """
    frame = sel.trace.device
    kind = frame["kind"].to_physical().to_numpy()
    chosen = (kind == KERNEL) | (kind == MEMCPY) | (kind == MEMSET) | (kind == GRAPH)
    if conventions.synchronization_is_work:
        chosen |= kind == schema.DEVICE_KINDS.index("synchronization")
    if sel.scope.devices is not None:
        chosen &= frame["device"].is_in(list(sel.scope.devices)).fill_null(value=False).to_numpy()
    if conventions.drop_last_step:
        chosen &= launched_before_last_step(sel.trace)
    frame = frame.select(COLUMNS)
    if not chosen.all():
        frame, kind = frame.filter(pl.Series(chosen)), kind[chosen]
    start = frame["start"].to_numpy()
    kernel = kind == KERNEL
    if conventions.communication == "kernel types":
        communication = names.matching(frame["name"], lambda name: hta_kernel_type(name) == "communication")
        compute = names.matching(frame["name"], lambda name: hta_kernel_type(name) == "computation")
    elif conventions.communication == "operators":
        communication = kernel & _of_collectives(sel.trace, frame)
        compute = kernel & ~communication
    else:
        communication = kernel & names.matching(frame["name"], is_collective_kernel)
        compute = (kernel & ~communication) | (kind == GRAPH)
    end = start + frame["duration"].to_numpy()
    return Activities(frame, start, end, kernel, compute, communication, kind == MEMCPY, kind == MEMSET)


def _of_collectives(trace: Trace, device: pl.DataFrame) -> Bools:
    """Which rows carry the `External id` of one of torch-tb-profiler's communication operators; none matches none."""
    marks = trace.host.filter(pl.col("kind").is_in(["operator", "annotation"])).select("name", "external_id")
    ids = marks["external_id"].filter(pl.Series(names.matching(marks["name"], TB_COLLECTIVES.__contains__)))
    return device["external_id"].is_in(ids.implode(), nulls_equal=True).to_numpy()


def last_step_start(trace: Trace) -> int | None:
    """When HTA's last step begins; None for a trace with fewer than two (`_filter_irrelevant_gpu_kernels`).

    It is the latest start among annotations called ProfilerStep, on the host or projected on the GPU.
    """
    marks = pl.concat(
        [
            frame.filter(pl.col("kind") == "annotation").select(pl.col("name").cast(pl.String), "start")
            for frame in (trace.host, trace.device)
        ]
    ).filter(pl.col("name").str.contains(STEP_MARK, literal=True))
    return None if marks["name"].n_unique() < 2 else int(marks["start"].max())  # type: ignore[arg-type]


def launched_before_last_step(trace: Trace) -> Bools:
    """Which device rows HTA keeps: those whose correlation stands on a host event begun before the last step."""
    last = last_step_start(trace)
    if last is None:
        return np.ones(trace.device.height, np.bool_)
    known = trace.host.filter(pl.col("start") < last)["correlation"].drop_nulls()
    return trace.device["correlation"].is_in(known.implode()).fill_null(value=False).to_numpy()
