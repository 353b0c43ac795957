"""How long the timeline takes to build, and to draw a screenful after a pan or a zoom.

    python benchmarks/timeline.py [--events 10000000] [trace ...]

Of each trace, and of one made of that many events (a fifth of them kernels on two streams, the rest calls on four
threads, eight deep): seconds to build the lanes, their memory, and milliseconds to bin and draw all rows that fit on
80x24 and 200x60, from the whole recording down to microseconds, with all lanes open.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.timeline.rows import NONE
from tracetui.analysis.timeline.timeline import Timeline, timeline
from tracetui.app.charts.lanes import row_runs
from tracetui.app.widgets.timeline import LaneList
from tracetui.parsers import Trace, schema
from tracetui.parsers.runs.opening import open_path
from tracetui.parsers.trace import Source, TraceInfo

if TYPE_CHECKING:
    from collections.abc import Callable

THREADS, DEPTH = 4, 8
ZOOMS = (1, 3, 10, 100, 1000, 10_000, 100_000)
SCREENS = ((80, 24, 15), (200, 60, 26))
"""Columns, rows, and columns that the names of the lanes take."""


def generated(events: int, seed: int = 1) -> Trace:
    """A trace of so many events that nest as calls do."""
    rng = np.random.default_rng(seed)
    kernels = events // 5
    trees = (events - kernels) // (THREADS * DEPTH)
    calls = trees * DEPTH
    start = np.empty((THREADS, trees, DEPTH), np.int64)
    lasting = np.empty_like(start)
    for thread in range(THREADS):
        span = rng.integers(20_000, 60_000, trees)
        begin = np.concatenate(([0], np.cumsum(span + rng.integers(100, 9000, trees))[:-1]))
        for depth in range(DEPTH):
            start[thread, :, depth] = begin + depth * 900
            lasting[thread, :, depth] = span - depth * 2000
    names = [f"call_{number}" for number in range(500)]
    size = THREADS * calls
    host = pl.DataFrame(
        {
            "kind": pl.Series(np.tile(np.array(["python"] * 3 + ["operator"] * 4 + ["runtime"]), THREADS * trees)).cast(
                schema.HostKind
            ),
            "name": pl.Series(rng.integers(0, 500, size)).replace_strict(list(range(500)), names).cast(pl.Categorical),
            "start": start.reshape(-1),
            "duration": lasting.reshape(-1),
            "process": np.full(size, 1),
            "thread": np.repeat(np.arange(1, THREADS + 1), calls),
        }
    )
    launched = np.sort(rng.choice(np.arange(DEPTH - 1, size, DEPTH), min(kernels, size // DEPTH), replace=False))
    kernels = launched.size
    begun = np.sort(start.reshape(-1)[launched] + 5000)
    stream = rng.integers(7, 9, kernels)
    end = np.append(begun[1:], begun[-1] + 5000)
    device = pl.DataFrame(
        {
            "kind": pl.Series(["kernel"], dtype=schema.DeviceKind).new_from_index(0, kernels),
            "name": pl.Series(rng.integers(0, 50, kernels))
            .replace_strict(list(range(50)), names[:50])
            .cast(pl.Categorical),
            "start": begun,
            "duration": np.maximum((end - begun) * rng.integers(1, 10, kernels) // 10, 1),
            "device": np.zeros(kernels, np.int64),
            "stream": stream,
            "launch": pl.Series(launched, dtype=pl.UInt32),
        }
    )

    def filled(frame: pl.DataFrame, layout: dict[str, pl.DataType]) -> pl.DataFrame:
        return frame.select(
            pl.col(name).cast(dtype) if name in frame.columns else pl.lit(None, dtype=dtype).alias(name)
            for name, dtype in layout.items()
        )

    bare = Trace.empty(TraceInfo("chrome", "generated"), Source(Path("generated"), 0))
    return replace(bare, host=filled(host, schema.HOST), device=filled(device, schema.DEVICE))


def bytes_of(shown: Timeline) -> int:
    """What the lanes hold on top of the trace."""
    arrays = [
        array
        for lane in shown.lanes
        for row in lane.rows
        for array in (row.events, row.start, row.done, row.best, row.reach)
        if array is not None
    ]
    return sum(array.nbytes for array in arrays) + shown.launches.nbytes


def frames(shown: Timeline, columns: int, rows: int, margin: int, clock: Callable[[], float]) -> list[float]:
    """Milliseconds of each screenful: at each zoom some windows at random, and the rows from each lane's first on."""
    rng = np.random.default_rng(7)
    lines = LaneList(tuple(len(lane.rows) for lane in shown.lanes))
    lines.show_all()
    cells, page = columns - margin, rows - 7
    tops = [number for number, (_, depth) in enumerate(lines.lines) if not depth]
    taken = []
    for zoom in ZOOMS:
        span = max((shown.end - shown.start) // zoom, cells)
        for _ in range(8):
            low = shown.start + int(rng.integers(0, max(shown.end - shown.start - span, 1)))
            top = int(rng.choice(tops))
            begin = clock()
            edges = low + np.arange(cells + 1, dtype=np.int64) * span // cells
            for lane, depth in lines.lines[top : top + page]:
                row_runs(shown, lane, depth, edges, NONE, ascii=False)
            taken.append((clock() - begin) * 1000)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", type=Path)
    parser.add_argument("--events", type=int, default=10_000_000)
    arguments = parser.parse_args()
    made = [("generated", generated(arguments.events))] if arguments.events else []
    for name, trace in [*made, *((path.name, open_path(path).main) for path in arguments.traces)]:
        begin = time.perf_counter()
        shown = timeline(trace)
        seconds = time.perf_counter() - begin
        if shown is None:
            print(f"{name}: nothing has a place in time")
            continue
        events = sum(lane.size for lane in shown.lanes)
        rows = sum(len(lane.rows) for lane in shown.lanes)
        print(f"{name}: {events:,} events in {rows} rows, built in {seconds:.2f} s, {bytes_of(shown) / 1e6:.0f} MB")
        for columns, lines, margin in SCREENS:
            for what, clock in (("wall", time.perf_counter), ("own CPU", time.process_time)):
                taken = sorted(frames(shown, columns, lines, margin, clock))
                print(
                    f"  {columns}x{lines} {what}: median {statistics.median(taken):.1f} ms, "
                    f"p95 {taken[int(len(taken) * 0.95)]:.1f} ms, longest {taken[-1]:.1f} ms"
                )


if __name__ == "__main__":
    main()
