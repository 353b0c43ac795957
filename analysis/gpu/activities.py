"""What the GPUs did, as arrays: when, on which device and stream, and which kind of work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.base import names
from tracetui.analysis.base.conventions import TRACETUI, Conventions
from tracetui.analysis.base.remembered import latest
from tracetui.parsers import schema
from tracetui.parsers.names.collectives import is_collective_kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.selection import Selection

    Bools = NDArray[np.bool_]

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
def activities(sel: Selection, conventions: Conventions = TRACETUI) -> Activities:
    """The work of the devices in scope, in and outside steps.

    Annotations and synchronisations are not work.
    """
    frame = sel.trace.device
    kind = frame["kind"].to_physical().to_numpy()
    chosen = (kind == KERNEL) | (kind == MEMCPY) | (kind == MEMSET) | (kind == GRAPH)
    if conventions.work is not None:
        chosen = conventions.work(sel.trace, chosen)
    if sel.scope.devices is not None:
        chosen &= frame["device"].is_in(list(sel.scope.devices)).fill_null(value=False).to_numpy()
    frame = frame.select(COLUMNS)
    if not chosen.all():
        frame, kind = frame.filter(pl.Series(chosen)), kind[chosen]
    start = frame["start"].to_numpy()
    kernel = kind == KERNEL
    if conventions.sorts is not None:
        communication, compute = conventions.sorts(sel.trace, frame, kernel)
    else:
        communication = kernel & names.matching(frame["name"], is_collective_kernel)
        compute = (kernel & ~communication) | (kind == GRAPH)
    end = start + frame["duration"].to_numpy()
    return Activities(frame, start, end, kernel, compute, communication, kind == MEMCPY, kind == MEMSET)
