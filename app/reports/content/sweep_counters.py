"""The counters of a sweep: a row per point, kind of kernels by kind, and what changes along each axis."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import format_count
from tracetui.analysis.counters.configurations import ALL, COMMON
from tracetui.analysis.tables.counters import CONFIGURATIONS
from tracetui.app.reports.content.configurations import weighted
from tracetui.app.reports.counter_text import change_text, value_text
from tracetui.app.reports.csv_report import plain_csv
from tracetui.app.reports.layout import Shown
from tracetui.app.reports.parts import Block, cell, filled, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tracetui.analysis.base.json_values import Json
    from tracetui.analysis.tables.field import Field
    from tracetui.app.reports.layout import Layout

METRICS = (
    "sm_percent", "memory_percent", "dram_percent", "l1_hit_percent", "l2_hit_percent", "occupancy_percent",
    "tensor_cores_percent",
)  # fmt: skip
RATES = ("dram_bytes", "gflop", "intensity", "sectors_per_load", "sectors_per_store", "registers", "waves")
"""A second table: what was moved and computed, and how launches were shaped."""
CSV_KEYS = ("step_us",)


def head(found: Json) -> str:
    """What was read, and what times are about."""
    rows = [row for row in found["counters"]["rows"] if row["kind"] == ALL]
    axes = " x ".join(found["axes"]) or "one point"
    launches = format_count(sum(row["launches"] for row in rows))
    return (
        f"Reports of Nsight Compute: {len(rows)} points over {axes}, {launches} profiled launches. They hold single "
        "launches and no steps: times are sums over these launches, at the clocks that ncu set."
    )


def blocks(found: Json, layout: Layout) -> Iterator[Block]:
    """The tables; the points stand in them by the values of their axes."""
    rows, axes = found["counters"]["rows"], found["axes"]
    whole = [
        {**row, "gflop": None if row["flops"] is None else row["flops"] / 1e9} for row in rows if row["kind"] == ALL
    ]
    note = weighted(found["counters"]["weights"])
    yield _table("Counters by point", whole, axes, ("launches", "total_ns", *METRICS), layout, after=(note,))
    if optional := [field.name for field in filled(CONFIGURATIONS.chosen(RATES), whole)]:
        yield _table("Work and launches by point", whole, axes, optional, layout)
    common = [row for row in rows if row["kind"] == COMMON]
    if common:
        names = ("launches", "total_ns", *METRICS)
        yield _table("Counters of the kernels that every point profiled", common, axes, names, layout)
    kinds = [row for row in rows if row["kind"] not in (ALL, COMMON)]
    listed = list(dict.fromkeys(row["kind"] for row in kinds))
    chosen = [row for row in kinds if row["kind"] in listed[: layout.limit]]
    names = ("kind", "time_percent", *(name for name in METRICS if name != "dram_percent"))
    yield replace(
        _table("By kind of kernel", chosen, axes, names, layout), base="of the point's profiled time", whole=len(kinds)
    )
    yield from _changes(found, layout)


def counters_csv(found: Json) -> str:
    """A line per point and kind of kernels: the axes, the step where it is known, and every counter."""
    steps = {_place(row, found["axes"]): row["step_us"] for row in found["points"]}
    rows = [{**row, "step_us": steps.get(_place(row, found["axes"]))} for row in found["counters"]["rows"]]
    return plain_csv(rows, (*found["axes"], *CSV_KEYS, *CONFIGURATIONS.csv_header))


def _place(row: Json, axes: Sequence[str]) -> tuple[object, ...]:
    return tuple(row[axis] for axis in axes)


def _table(
    heading: str, rows: Sequence[Json], axes: Sequence[str], names: Sequence[str], layout: Layout,
    after: tuple[str, ...] = (),
) -> Block:  # fmt: skip
    """Rows by the values of their axes; metrics that no row has are left out."""
    fields = filled(CONFIGURATIONS.chosen(names), rows)
    lead = [field for field in fields if field.name == "kind"]
    rest = [field for field in fields if field.name != "kind"]
    columns = [*map(shown, lead), *map(_axis, axes), *map(shown, rest)]
    cells = [
        [
            *(cell(field, row, ascii=layout.ascii) for field in lead),
            *(_spelled(row[axis]) for axis in axes),
            *(cell(field, row, ascii=layout.ascii) for field in rest),
        ]
        for row in rows
    ]
    return Block(heading, columns=tuple(columns), cells=cells, whole=len(rows), after=after)


def _axis(name: str) -> Shown:
    return Shown(name, right=name != "capture", share=int(name == "capture"), is_name=name == "capture")


def _changes(found: Json, layout: Layout) -> Iterator[Block]:
    """For each axis the metrics at its baseline and what each other value changes."""
    fields = CONFIGURATIONS.chosen(("total_ns", *METRICS))
    for axis in found["axes"]:
        rows = [row for row in found["counters"]["changes"] if row["axis"] == axis]
        if not rows:
            continue
        others = [name for name in found["axes"] if name != axis]
        known = [field for field in fields if any(field.json_key in row["changes"] for row in rows)]
        cells = [
            [
                *(_spelled(row["fixed"].get(name)) for name in others),
                _spelled(row["variant"]),
                *(_change(field, row["changes"].get(field.json_key), layout) for field in known),
            ]
            for row in rows
        ]
        columns = [*map(_axis, others), Shown(axis), *(replace(shown(field), title=field.title) for field in known)]
        yield Block(
            f"Change from {axis} {_spelled(rows[0]['baseline'])}", "percentage points; time as it is",
            tuple(columns), cells, len(cells),
        )  # fmt: skip


def _change(field: Field, change: float | None, layout: Layout) -> str:
    if field.kind == "time":
        return change_text(None if change is None else change * 1000, "ns", ascii=layout.ascii)
    if field.kind == "percent":
        return "-" if change is None else f"{change:+.2f}"
    return value_text(change, "")


def _spelled(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else "-" if value is None else str(value)
