"""The counters of a sweep: a row per point, kind of kernels by kind, and what changes along each axis."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tracetui.analysis.base.json_values import us
from tracetui.analysis.base.number_format import format_count
from tracetui.analysis.counters.compared import ALL, COMMON
from tracetui.analysis.sweeps.model import shown as spelled
from tracetui.analysis.tables.nsight.configurations import CONFIGURATIONS
from tracetui.app.reports.content.counters import stopped_text, weighted
from tracetui.app.reports.content.side_by_side import letter
from tracetui.app.reports.counter_text import change_text, value_text
from tracetui.app.reports.csv_report import plain_csv
from tracetui.app.reports.layout import GAP, Shown
from tracetui.app.reports.parts import Block, cell, filled, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tracetui.analysis.base.json_values import Json
    from tracetui.analysis.report.sweep import SweepCounters
    from tracetui.analysis.sweeps.model import Sweep
    from tracetui.analysis.tables.table import Field
    from tracetui.app.reports.layout import Layout

METRICS = (
    "sm_percent", "memory_percent", "dram_percent", "l1_hit_percent", "l2_hit_percent", "occupancy_percent",
    "tensor_cores_percent",
)  # fmt: skip
RATES = ("dram_bytes", "gflop", "intensity", "sectors_per_load", "sectors_per_store", "registers", "waves")
"""A second table: what was moved and computed, and how launches were shaped."""
CSV_KEYS = ("step_us",)
AXES_WIDTH = 24
"""Characters of a line that the values of the axes may take."""


def head(counters: SweepCounters, axes: Sequence[str]) -> str:
    """What was read, and what times are about."""
    rows = [row for row in counters.rows if row["kind"] == ALL]
    over = " x ".join(axes) or "one point"
    launches = format_count(sum(row["launches"] for row in rows))
    return (
        f"Reports of Nsight Compute: {len(rows)} points over {over}, {launches} profiled launches. They hold single "
        "launches and no steps: times are sums over these launches, at the clocks that ncu set."
    )


def blocks(counters: SweepCounters, axes: Sequence[str], layout: Layout) -> Iterator[Block]:
    """The tables; the points stand in them by the values of their axes, or by letters where there are many axes."""
    places = _Places(counters.rows, axes)
    rows = [{**row, "gflop": None if row["flops"] is None else row["flops"] / 1e9} for row in counters.rows]
    whole = [row for row in rows if row["kind"] == ALL]
    yield from places.legend()
    known = [field.name for field in filled(CONFIGURATIONS.chosen(METRICS), whole)]
    notes = (weighted(counters.weights, known), stopped_text(places.named(counters.stopped)))
    names = ("launches", "total_ns", *METRICS)
    yield _table("Counters by point", whole, places, names, layout, after=tuple(filter(None, notes)))
    if any(row[field.json_key] is not None for row in whole for field in CONFIGURATIONS.chosen(RATES)):
        yield _table("Work and launches by point", whole, places, RATES, layout)
    if common := [row for row in rows if row["kind"] == COMMON]:
        yield _table("Counters of the kernels that every point profiled", common, places, names, layout)
    kinds = [row for row in rows if row["kind"] not in (ALL, COMMON)]
    listed = list(dict.fromkeys(row["kind"] for row in kinds))
    chosen = [row for row in kinds if row["kind"] in listed[: layout.limit]]
    of_kinds = ("kind", "time_percent", *(name for name in METRICS if name != "dram_percent"))
    by_kind = _table("By kind of kernel", chosen, places, of_kinds, layout)
    yield replace(by_kind, base="of the point's profiled time", whole=len(kinds))
    yield from _changes(counters, axes, places, layout)


class _Places:
    """How the points are named in the tables: by their axes, or by letters."""

    def __init__(self, rows: Sequence[Json], axes: Sequence[str]) -> None:
        whole = [row for row in rows if row["kind"] == ALL]
        self.axes = [axis for axis in axes if len({row[axis] for row in whole}) > 1 or len(whole) < 2]
        widths = [max(len(axis), *(len(spelled(row[axis])) for row in whole)) + len(GAP) for axis in self.axes]
        self.lettered = len(self.axes) > 1 and sum(widths) > AXES_WIDTH
        self._names = {row["configuration"]: letter(number) for number, row in enumerate(whole)}
        self._whole = whole

    def legend(self) -> Iterator[Block]:
        """What each letter stands for."""
        if self.lettered:
            columns = (Shown(" ", right=False), Shown("point", right=False, share=1))
            cells = [
                [self._names[row["configuration"]], ", ".join(f"{axis} {spelled(row[axis])}" for axis in self.axes
                                                              if row[axis] is not None)]
                for row in self._whole
            ]  # fmt: skip
            yield Block("Points that Nsight Compute measured", columns=columns, cells=cells)

    @property
    def columns(self) -> list[Shown]:
        """The columns that name a row's point."""
        return [Shown(" ", right=False)] if self.lettered else [_axis(axis) for axis in self.axes]

    def cells(self, row: Json) -> list[str]:
        """The cells of these columns."""
        if self.lettered:
            return [self._names[row["configuration"]]]
        return [spelled(row[axis]) for axis in self.axes]

    def named(self, points: Mapping[str, int]) -> dict[str, int]:
        """The same by what these points are called in the tables."""
        return {self._names[label] if self.lettered else label: value for label, value in points.items()}

    def name(self, axis: str, value: object, fixed: Json) -> list[str]:
        """The cells of the point that has this value, and these on the other axes."""
        there = {**fixed, axis: value}
        row = next(row for row in self._whole if all(row[name] == there.get(name) for name in there))
        return self.cells(row)


def counters_csv(counters: SweepCounters, sweep: Sweep) -> str:
    """A line per point and kind of kernels: the axes, the step where it is known, and every counter."""
    steps = {tuple(map(point.axes.get, sweep.axes)): us(point.step_ns) for point in sweep.points}
    rows = [{**row, "step_us": steps.get(tuple(map(row.get, sweep.axes)))} for row in counters.rows]
    return plain_csv(rows, (*sweep.axes, *CSV_KEYS, *CONFIGURATIONS.csv_header))


def _table(
    heading: str, rows: Sequence[Json], places: _Places, names: Sequence[str], layout: Layout,
    after: tuple[str, ...] = (),
) -> Block:  # fmt: skip
    """A row per point; metrics that no row has are left out."""
    fields = filled(CONFIGURATIONS.chosen(names), rows)
    lead = [field for field in fields if field.name == "kind"]
    rest = [field for field in fields if field.name != "kind"]
    columns = [*map(shown, lead), *places.columns, *map(shown, rest)]
    cells = [
        [
            *(cell(field, row, ascii=layout.ascii) for field in lead),
            *places.cells(row),
            *(cell(field, row, ascii=layout.ascii) for field in rest),
        ]
        for row in rows
    ]
    return Block(heading, columns=tuple(columns), cells=cells, whole=len(rows), after=after)


def _axis(name: str) -> Shown:
    return Shown(name, right=name != "capture", share=int(name == "capture"), is_name=name == "capture")


def _changes(counters: SweepCounters, axes: Sequence[str], places: _Places, layout: Layout) -> Iterator[Block]:
    """For each axis what each value changes from its baseline, all else alike."""
    fields = CONFIGURATIONS.chosen(("total_ns", *METRICS))
    for axis in axes:
        rows = [row for row in counters.changes if row.axis == axis]
        if not rows:
            continue
        known = [field for field in fields if any(field.json_key in row.changes for row in rows)]
        cells = [
            [
                *places.name(axis, row.variant, row.fixed),
                *(_change(field, row.changes.get(field.json_key), layout) for field in known),
            ]
            for row in rows
        ]
        columns = [*places.columns, *(replace(shown(field), title=field.title) for field in known)]
        yield Block(
            f"Change from {axis} {spelled(rows[0].baseline)}, all else alike", "percentage points; time as it is",
            tuple(columns), cells, len(cells),
        )  # fmt: skip


def _change(field: Field, change: float | None, layout: Layout) -> str:
    if field.kind == "time":
        return change_text(None if change is None else change * 1000, "ns", ascii=layout.ascii)
    if field.kind == "percent":
        return "-" if change is None else f"{change:+.2f}"
    return value_text(change, "")
