"""Why the host was late for the GPU: it waited for data, it waited for the GPU, or it was busy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.base import api_names, intervals, names
from tracetui.analysis.dependencies.host_layers import loading_rows

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Intervals, Ints
    from tracetui.analysis.gpu.activities import Activities
    from tracetui.parsers import Trace

HOST_WAITS = ("loader", "synchronisation", "launching")
"""Why the host was late: it waited for the next batch; a call had waited for the GPU; it launched and did more."""
_ASKS = ("aten::item", "aten::_local_scalar_dense")
"""Operators that return once the GPU has done what they wait for."""
_NOBODY = -1


def host_waits(trace: Trace, work: Activities, start: Ints, end: Ints) -> dict[str, Ints]:
    """Divides stretches in which the GPU waits for the host, in order, among `HOST_WAITS`; ns of each.

    The host is the thread that launches the work which ends the stretch; after the last work of all, the thread that
    launched it. What it spent of the stretch in the loader is the loader's. A call that waits for the GPU and reaches
    into the stretch kept it from preparing anything, so at most its whole duration, also before the stretch, is what
    it cost here: synchronisation. The rest is launching and other work of the host.

    Args:
        trace: the recording.
        work: what the GPUs did.
        start: of the stretches, ascending; none overlaps another.
        end: of the stretches.
    """
    lasting = end - start
    found = {cause: np.zeros(start.size, np.int64) for cause in HOST_WAITS}
    thread = _late_thread(trace, work, end)
    loading, waiting = loading_rows(trace), _waiting_rows(trace)
    for number in np.unique(thread[thread != _NOBODY]).tolist():
        of = thread == number
        loads, waits = (_spans(rows.filter(_threads(rows) == number)) for rows in (loading, waiting))
        found["loader"][of] = intervals.covered(loads, start[of], end[of])
        rest = lasting[of] - found["loader"][of]
        found["synchronisation"][of] = np.minimum(rest, _reaching(waits, start[of], end[of]))
    found["launching"] = lasting - found["loader"] - found["synchronisation"]
    return found


def _late_thread(trace: Trace, work: Activities, end: Ints) -> Ints:
    """The thread (`_threads`) that launches what begins at the end of each stretch; `_NOBODY` where none is known."""
    order = np.argsort(work.start, kind="stable")
    begins, launch = work.start[order], work.column("launch")[order]
    if not begins.size:
        return np.full(end.size, _NOBODY, np.int64)
    at = np.minimum(np.searchsorted(begins, end, side="left"), begins.size - 1)
    threads = np.append(_threads(trace.host).to_numpy(), _NOBODY)
    found: Ints = threads[launch[at]]  # no launch, -1, reads the entry at the end
    return found


def _threads(host: pl.DataFrame) -> pl.Series:
    """A number for each thread of each process."""
    return host.select((pl.col("process").fill_null(0) * (1 << 32) + pl.col("thread").fill_null(0)).alias("of"))["of"]


def _waiting_rows(trace: Trace) -> pl.DataFrame:
    return trace.host.filter(pl.Series(names.matching(trace.host["name"], _waits)))


def _waits(name: str) -> bool:
    return name in _ASKS or api_names.waits(name) or api_names.fills(name)


def _spans(rows: pl.DataFrame) -> Intervals:
    start: Ints = rows["start"].to_numpy()
    return intervals.union(start, start + rows["duration"].to_numpy())


def _reaching(spans: Intervals, start: Ints, end: Ints) -> Ints:
    """The whole duration of the spans that share time with each stretch."""
    sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(spans[1] - spans[0])))
    first = np.searchsorted(spans[1], start, side="right")
    last = np.searchsorted(spans[0], end, side="left")
    found: Ints = sums[np.maximum(first, last)] - sums[first]
    return found
