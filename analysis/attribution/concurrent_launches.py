"""GPU work that any thread launched while ranges were open, for ranges whose work another thread launches.

A range contains the launches of its own thread (`projection`). PyTorch's autograd launches a backward pass from a
thread of its own, which has no ranges: ``backward_pass`` on the main thread then contains next to nothing, though its
thread waits for that work. Counted by time, as `captures` does, a range holds what any thread of its process launched
between its start and its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tracetui.analysis.attribution.calltree import NONE, row_ids
from tracetui.analysis.attribution.operator_tree import device_work
from tracetui.analysis.base import intervals

if TYPE_CHECKING:
    import polars as pl

    from tracetui.analysis.attribution.calltree import Bools
    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.selection import Selection


def launched_meanwhile(sel: Selection, rows: Ints, number: Ints, size: int) -> tuple[Ints, Ints]:
    """GPU time (ns) and number of the kernels, copies, fills and whole graphs launched while ranges of a set were open.

    A launch counts for a set if its call begins while a range of the set is open, and only once however many are open.

    Args:
        sel: the selection whose work is counted.
        rows: host rows of ranges.
        number: the set of each range, from 0.
        size: how many sets there are.
    """
    spent, ops = np.zeros(size, np.int64), np.zeros(size, np.int64)
    work = device_work(sel)
    process, time = _launches(sel, work)
    duration = work["duration"].fill_null(0).to_numpy()
    host = sel.trace.host
    order = np.argsort(number, kind="stable")
    edges = np.searchsorted(number[order], np.arange(size + 1))
    of_range = host["process"].fill_null(NONE).to_numpy()[rows]
    start = host["start"].to_numpy()[rows]
    end = start + host["duration"].to_numpy()[rows]
    for one in np.unique(process[process != UNKNOWN]).tolist():
        launched = np.flatnonzero(process == one)
        launched = launched[np.argsort(time[launched], kind="stable")]
        times = time[launched]
        running = np.concatenate(([0], np.cumsum(duration[launched])))
        for at in range(size):
            mine = order[edges[at] : edges[at + 1]]
            mine = mine[of_range[mine] == one]
            if not mine.size:
                continue
            opened, closed = intervals.union(start[mine], end[mine])
            low, high = np.searchsorted(times, opened), np.searchsorted(times, closed)
            spent[at] += int((running[high] - running[low]).sum())
            ops[at] += int((high - low).sum())
    return spent, ops


def in_ranges(sel: Selection, rows: Ints, device: pl.DataFrame) -> Bools:
    """Which device rows were launched while any of these ranges of their process was open."""
    process, time = _launches(sel, device)
    host = sel.trace.host
    of_range = host["process"].fill_null(NONE).to_numpy()[rows]
    start = host["start"].to_numpy()[rows]
    end = start + host["duration"].to_numpy()[rows]
    found = np.zeros(device.height, np.bool_)
    for one in np.unique(of_range).tolist():
        opened, closed = intervals.union(start[of_range == one], end[of_range == one])
        at = np.searchsorted(opened, time, side="right") - 1
        found |= (process == one) & (at >= 0) & (time < np.append(closed, 0)[at])
    return found


def open_elsewhere(sel: Selection, rows: Ints, device: pl.DataFrame) -> Ints:
    """The host row of the range that began last among those open when each device row was launched; -1 for none.

    Of ranges inside each other that is the innermost; of several threads' ranges, the latest.
    """
    process, time = _launches(sel, device)
    host = sel.trace.host
    of_range = host["process"].fill_null(NONE).to_numpy()[rows]
    found = np.full(device.height, NONE, np.int64)
    for one in np.unique(of_range).tolist():
        launched = np.flatnonzero(process == one)
        mine = rows[of_range == one]
        start = host["start"].to_numpy()[mine]
        end = start + host["duration"].to_numpy()[mine]
        order = np.lexsort((-end, start))
        mine, start, end = mine[order], start[order], end[order]
        around = _begun_before(end)
        at = np.searchsorted(start, time[launched], side="right") - 1
        while (over := (at >= 0) & (np.append(end, UNKNOWN)[at] <= time[launched])).any():
            at[over] = around[at[over]]
        found[launched] = np.where(at >= 0, np.append(mine, NONE)[at], NONE)
    return found


def _begun_before(end: Ints) -> Ints:
    """For ranges in the order of their starts, the last one before each that ends after it; -1 for none."""
    around = np.full(end.size, NONE, np.int64)
    waiting: list[int] = []
    ends = end.tolist()
    for at, mine in enumerate(ends):
        while waiting and ends[waiting[-1]] <= mine:
            waiting.pop()
        if waiting:
            around[at] = waiting[-1]
        waiting.append(at)
    return around


UNKNOWN = np.iinfo(np.int64).min
"""Stands for the process of work whose launch is not known."""


def _launches(sel: Selection, device: pl.DataFrame) -> tuple[Ints, Ints]:
    """Process and time of the call that launched each device row."""
    launch = row_ids(device["launch"])
    host = sel.trace.host
    if not host.height:
        return np.full(launch.size, UNKNOWN), np.zeros(launch.size, np.int64)
    process = np.where(launch >= 0, host["process"].fill_null(NONE).to_numpy()[launch], UNKNOWN)
    return process, host["start"].to_numpy()[launch]
