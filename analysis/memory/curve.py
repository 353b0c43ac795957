"""A memory's curve, reduced to as many points as there is room for without losing a peak."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.memory.peak import Peak, of_memory, peak, totals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.selection import Selection

CURVE: dict[str, pl.DataType] = {"time": pl.Int64(), "allocated": pl.Int64(), "reserved": pl.Int64()}


def curve(sel: Selection, at: Peak | None = None) -> pl.DataFrame:
    """The events of the memory with the peak, in order: time (null where only the order is known), bytes (`CURVE`)."""
    moment = at or peak(sel)
    if moment is None:
        return pl.DataFrame(schema=CURVE)
    return totals(sel).filter(of_memory(moment.device_type, moment.device)).select(*CURVE)


def curve_points(frame: pl.DataFrame, points: int) -> pl.DataFrame:
    """Reduces a curve to its fullest moment in each equal stretch of time, with the most reserved in that stretch.

    Where times are unknown, stretches have equally many events.
    """
    if frame.height <= points:
        return frame
    place = _places(frame["time"], points, None, None)
    return (
        frame.with_columns(pl.Series("place", place))
        .group_by("place", maintain_order=True)
        .agg(
            pl.col("time").get(pl.col("allocated").arg_max()),
            pl.col("allocated").max(),
            pl.col("reserved").max(),
        )
        .select(*CURVE)
    )


def columns(
    frame: pl.DataFrame, width: int, window: tuple[int, int] | None = None
) -> tuple[list[int | None], list[int | None]]:
    """The most allocated and reserved in each of `width` equal stretches of time, for a chart.

    A stretch without an event has the level it began with; before the first event that is unknown.

    Args:
        frame: a curve.
        width: how many stretches.
        window: start and duration, ns; the curve's own where not given.
    """
    if not frame.height or width < 1:
        return [], []
    begin, span = window if window is not None else (None, None)
    place = _places(frame["time"], width, begin, span)
    return _levels(frame["allocated"], place, width), _levels(frame["reserved"], place, width)


def _places(times: pl.Series, parts: int, begin: int | None, span: int | None) -> Ints:
    if times.null_count():
        return np.arange(len(times), dtype=np.int64) * parts // len(times)
    values = np.maximum.accumulate(times.to_numpy())
    first = int(values[0]) if begin is None else begin
    length = max(int(values[-1]) - first if span is None else span, 1)
    # in float64: a product of ns and parts may overflow 64 bits, and rounding is far smaller than a stretch
    share = (values - first).astype(np.float64) * parts / length
    places: Ints = np.clip(share.astype(np.int64), 0, parts - 1)
    return places


def _levels(values: pl.Series, place: Ints, width: int) -> list[int | None]:
    level: NDArray[np.float64] = values.cast(pl.Float64).to_numpy()
    known = ~np.isnan(level)
    level, place = level[known], place[known]
    found: list[int | None] = [None] * width
    if not level.size:
        return found
    starts = np.flatnonzero(np.append(True, place[1:] != place[:-1]))
    most = np.maximum.reduceat(level, starts)
    after: float | None = None
    ends = level[np.append(starts[1:], level.size) - 1]
    inside = {int(place[start]): number for number, start in enumerate(starts.tolist())}
    for column in range(width):
        number = inside.get(column)
        if number is not None:
            found[column] = int(most[number] if after is None else max(most[number], after))
            after = float(ends[number])
        elif after is not None:
            found[column] = int(after)
    return found
