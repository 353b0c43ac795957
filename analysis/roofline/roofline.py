"""Roofline: how close each kernel comes to what the GPU's arithmetic and memory allow.

For every kernel with known work: FLOP/s, arithmetic intensity (FLOPs per byte of DRAM traffic), and the share of its
time that it would need at the roof: ``max(FLOPs / peak, bytes / bandwidth) / time``. Work comes from Nsight Compute's
counters (what was really computed and moved) and, where operators were recorded with shapes, from these (what must be
computed and moved at least). Both stand side by side: the difference of their bytes is what was moved more than once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import polars as pl
from msgspec import Struct

from tracetui.analysis.kernels import kernel_rows
from tracetui.analysis.matching.join import Measured, conventions_of, joined, kernel_counters_of
from tracetui.analysis.roofline.counters import launch_flops
from tracetui.analysis.roofline.peaks import Peaks, peaks_of
from tracetui.analysis.roofline.shapes import shape_work
from tracetui.analysis.roofline.words import AT_ROOF_PERCENT
from tracetui.analysis.selection import Selection
from tracetui.parsers import Run, Trace
from tracetui.parsers.names import kernel_names

TOLERANCE_PERCENT = 1.0
ABOVE = {
    "compute": "above the roof: the algorithm needs fewer FLOPs than counted (Winograd, FFT), or the clock was higher",
    "memory": "above the roof: its input was still in a cache, or is one number read many times (expand)",
}
"""Why work computed from shapes may put a kernel above the roof."""
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Letters of kernels in a chart: the kernels with the most time among those that have a place there."""
SCHEMA = {
    "letter": pl.String(),
    "name": pl.String(),
    "short_name": pl.String(),
    "origin": pl.String(),
    "launches": pl.UInt32(),
    "total_ns": pl.Float64(),
    "flops": pl.Float64(),
    "bytes": pl.Float64(),
    "precision": pl.String(),
    "achieved_flops": pl.Float64(),
    "achieved_bytes": pl.Float64(),
    "intensity": pl.Float64(),
    "peak_flops": pl.Float64(),
    "attained_percent": pl.Float64(),
    "memory_roof_percent": pl.Float64(),
    "compute_roof_percent": pl.Float64(),
    "roof": pl.String(),
    "bound": pl.String(),
    "gap_ns": pl.Float64(),
    "unknown": pl.List(pl.String()),
}


class Roofline(Struct, frozen=True):
    """The roofs and the kernels under them."""

    points: pl.DataFrame
    """A row per kernel and origin (`SCHEMA`), the most time first. ``letter``: its key in a chart; ``launches`` and
    ``total_ns``: what the row is of;
    ``flops`` and ``bytes`` per launch (means), ``achieved_…`` per second; ``precision``: the one with most FLOPs;
    ``peak_flops``: of its mix of precisions; ``attained_percent``: time at the roof, of the time taken;
    ``…_roof_percent``: of either roof alone; ``roof``: which of the two roofs limits it; ``bound``: Nsight
    Compute's class where it measured the kernel, else the roof if `AT_ROOF_PERCENT` is attained, or ``neither``;
    ``gap_ns``: the time that running at the roof would save over all launches; ``unknown``: what is not known, or was
    assumed. Null means not known."""
    peaks: Peaks
    work: pl.DataFrame
    """`shapes.shape_work`: where shapes are known, the work of each kernel, operator and configuration."""
    launches: pl.DataFrame
    """`counters.launch_flops` of the launches with counters, ``name`` as the recording spells it."""
    covered_percent: float | None
    """Share of the recording's kernel time in scope that is of kernels whose FLOPs or bytes are known."""

    @property
    def ridge(self) -> dict[str, float]:
        """FLOP per byte above which arithmetic is the limit, by precision; empty where a roof is not known."""
        if self.peaks.bandwidth is None:
            return {}
        return {name: peak.value / self.peaks.bandwidth.value for name, peak in self.peaks.compute.items()}


_Bounds: TypeAlias = "dict[str | None, str | None]"


class _Sum(Struct):
    """Work of one kernel, added up."""

    launches: int = 0
    time: float = 0.0
    flops: float = 0.0
    bytes: float = 0.0
    ideal: float = 0.0
    compute: float = 0.0
    memory: float = 0.0


def roofline(run: Run | None, sel: Selection, peaks: Peaks | None = None, measured: Measured | None = None) -> Roofline:
    """The roofline of a selection.

    Args:
        run: the run that the selection's recording is of; its Nsight Compute reports give counters.
        sel: the recording within a scope.
        peaks: instead of `peaks_of` the recording.
        measured: `kernel_counters_of` the recording, where that is known already.
    """
    trace = sel.trace
    roofs = peaks_of(run, trace) if peaks is None else peaks
    if measured is None and run is not None:
        measured = kernel_counters_of(run, trace)
    work = shape_work(sel, conventions_of(measured).uses_tensor_cores)
    launches = _measured_launches(run, trace)
    bounds = _bounds(launches)
    rows = [*_counter_points(launches, roofs, bounds), *_shape_points(work, roofs, bounds)]
    points = _lettered(rows)
    known = points.filter(pl.col("flops").is_not_null() | pl.col("bytes").is_not_null())
    return Roofline(points, roofs, work, launches, _covered(sel, known["name"].to_list()))


def _lettered(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """The table in its order, with letters for the first kernels that have a place in the chart."""
    points = pl.DataFrame(rows, schema=SCHEMA).sort(
        "total_ns", "name", "origin", descending=[True, False, False], nulls_last=True
    )
    placed = (points["intensity"].fill_null(0) > 0) & (points["achieved_flops"].fill_null(0) > 0)
    letters: list[str | None] = [None] * points.height
    for letter, row in zip(LETTERS, placed.arg_true().to_list(), strict=False):
        letters[row] = letter
    return points.with_columns(letter=pl.Series(letters, dtype=pl.String))


def _measured_launches(run: Run | None, trace: Trace) -> pl.DataFrame:
    """Counters of the recording's kernels, named as it names them; without counters an empty frame."""
    frames = []
    if trace.info.kind == "ncu":
        frames.append(launch_flops(trace).with_columns(main_row=pl.col("device_row")))
    elif run is not None:
        for match in joined(run, trace, "ncu"):
            ours = match.join.launches.filter(pl.col("status") == "matched")
            ours = ours.select(
                pl.col("row").cast(pl.UInt32).alias("device_row"),
                pl.col("kernel").cast(pl.String),
                pl.col("main_row").cast(pl.UInt32),
            )
            counted = launch_flops(match.other).join(ours, on="device_row", maintain_order="left")
            frames.append(counted.with_columns(name=pl.col("kernel")).drop("kernel"))
    return pl.concat(frames) if frames else pl.DataFrame()


def _counter_points(launches: pl.DataFrame, peaks: Peaks, bounds: _Bounds) -> Iterable[dict[str, Any]]:
    for name, part in _by_name(launches).items():
        total, unknown = _Sum(), dict.fromkeys(note for row in part for note in row["unknown"] or () if note)
        by_precision: dict[str, float] = {}
        known_flops = known_bytes = known_time = True
        for row in part:
            times = row["launches"]
            total.launches += times
            if row["duration_ns"] is None:
                known_time = False
                continue
            total.time += row["duration_ns"] * times
            mix = {one["precision"]: one["flops"] for one in row["flops"] or []}
            known_flops &= row["flops"] is not None
            known_bytes &= row["bytes"] is not None
            _add(total, mix, row["bytes"] or 0.0, times, peaks)
            for precision, flops in mix.items():
                by_precision[precision] = by_precision.get(precision, 0.0) + flops * times
        if not known_time:
            unknown["duration not collected"] = None
        point = _point(str(name), "counters", total, by_precision, peaks, list(unknown))
        yield _limited(point, flops=known_flops, moved=known_bytes, time=known_time and total.time > 0) | {
            "bound": bounds[name]
        }


def _by_name(rows: pl.DataFrame) -> dict[str | None, list[dict[str, Any]]]:
    """The rows of each name, names in the order of their first row."""
    rows_of: dict[str | None, list[dict[str, Any]]] = {}
    for row in rows.iter_rows(named=True):
        rows_of.setdefault(row["name"], []).append(row)
    return rows_of


def _bounds(launches: pl.DataFrame) -> _Bounds:
    """Nsight Compute's class for each kernel's mean shares of peak, as `counters.by_kernel` has it."""
    if not launches.height:
        return {}
    from tracetui.analysis.counters.counters import bound_class

    means = launches.group_by("name").agg(pl.col("sm_percent", "memory_percent").mean())
    return dict(means.select("name", bound_class().alias("bound")).iter_rows())


def _shape_points(work: pl.DataFrame, peaks: Peaks, bounds: _Bounds) -> Iterable[dict[str, Any]]:
    for name, part in _by_name(work).items():
        total = _Sum()
        by_precision: dict[str, float] = {}
        known = all(row["flops"] is not None for row in part)
        for row in part:
            times = row["launches"]
            total.launches += times
            total.time += row["total_ns"]
            if not known:
                continue
            _add(total, {row["precision"]: row["flops"]}, row["bytes"], times, peaks)
            by_precision[row["precision"]] = by_precision.get(row["precision"], 0.0) + row["flops"] * times
        notes = [note for note in dict.fromkeys(row["note"] for row in part) if note]
        point = _point(str(name), "shapes", total, by_precision, peaks, notes)
        point = _limited(point, flops=known, moved=known, time=total.time > 0)
        attained = point["attained_percent"]
        if attained is not None and attained > 100 + TOLERANCE_PERCENT:
            point["unknown"] = [*point["unknown"], ABOVE[point["roof"]]]
        if attained is not None:
            point["bound"] = point["roof"] if attained >= AT_ROOF_PERCENT else "neither"
        yield point | ({"bound": bound} if (bound := bounds.get(name)) else {})


def _add(total: _Sum, mix: dict[str, float], moved: float, times: int, peaks: Peaks) -> None:
    """Adds `times` launches of this work, and the time that each would take at the roofs."""
    compute = sum(flops / peak for name, flops in mix.items() if (peak := peaks.flops(name)))
    memory = moved / peaks.bandwidth.value if peaks.bandwidth is not None else 0.0
    total.flops += sum(mix.values()) * times
    total.bytes += moved * times
    total.compute += compute * times * 1e9
    total.memory += memory * times * 1e9
    total.ideal += max(compute, memory) * times * 1e9


def _point(
    name: str, origin: str, total: _Sum, by_precision: dict[str, float], peaks: Peaks, unknown: list[str]
) -> dict[str, Any]:
    """A row of the table, as if everything were known."""
    seconds = total.time / 1e9
    worked = {precision: flops for precision, flops in by_precision.items() if flops > 0}
    roofless = sorted(precision for precision in worked if peaks.flops(precision) is None)
    has_roofs = peaks.bandwidth is not None and not roofless
    if roofless or peaks.bandwidth is None:
        unknown = [*unknown, *([f"peak of {', '.join(roofless)}"] if roofless else [])]
        unknown += ["memory bandwidth"] if peaks.bandwidth is None else []
    return {
        "letter": None,
        "name": name,
        "short_name": kernel_names.short_name(name),
        "origin": origin,
        "launches": total.launches,
        "total_ns": total.time,
        "flops": total.flops / total.launches,
        "bytes": total.bytes / total.launches,
        "precision": max(worked, key=worked.__getitem__) if worked else None,
        "achieved_flops": total.flops / seconds if seconds else None,
        "achieved_bytes": total.bytes / seconds if seconds else None,
        "intensity": total.flops / total.bytes if total.bytes else None,
        "peak_flops": total.flops / total.compute * 1e9 if total.compute and not roofless else None,
        "attained_percent": 100 * total.ideal / total.time if has_roofs and total.time else None,
        "memory_roof_percent": 100 * total.memory / total.time if peaks.bandwidth is not None and total.time else None,
        "compute_roof_percent": 100 * total.compute / total.time if total.time and not roofless else None,
        "roof": ("compute" if total.compute > total.memory else "memory") if has_roofs and total.ideal else None,
        "bound": None,
        "gap_ns": max(total.time - total.ideal, 0.0) if has_roofs else None,
        "unknown": unknown,
    }


def _limited(point: dict[str, Any], *, flops: bool = True, moved: bool = True, time: bool = True) -> dict[str, Any]:
    """Removes the numbers that depend on unknown work."""
    gone: set[str] = set()
    if not flops:
        gone |= {"flops", "precision", "achieved_flops", "peak_flops", "compute_roof_percent"}
    if not moved:
        gone |= {"bytes", "achieved_bytes", "memory_roof_percent"}
    if not flops or not moved:
        gone |= {"intensity", "attained_percent", "roof", "gap_ns"}
    if not time:
        gone |= {
            "total_ns", "achieved_flops", "achieved_bytes", "attained_percent", "memory_roof_percent",
            "compute_roof_percent", "gap_ns",
        }  # fmt: skip
    return {name: None if name in gone else value for name, value in point.items()}


def _covered(sel: Selection, names: list[str]) -> float | None:
    rows = kernel_rows(sel).select(pl.col("name").cast(pl.String), pl.col("duration").fill_null(0))
    total = int(rows["duration"].sum())
    if not total:
        return None
    return 100 * int(rows.filter(pl.col("name").is_in(names))["duration"].sum()) / total
