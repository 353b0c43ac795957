"""A sweep with what its variants and the rules say, also as the JSON contract (`docs/reference/report.md`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from tracetui.analysis.base.json_values import Json
from tracetui.analysis.captures.captures import ordered
from tracetui.analysis.captures.model import CaptureRow, category_rows, phase_rows, top_kernel_rows
from tracetui.analysis.captures.names import Value, place
from tracetui.analysis.findings.config import Config
from tracetui.analysis.findings.engine import find
from tracetui.analysis.report.findings import judged
from tracetui.analysis.report.model import Judged, Row
from tracetui.analysis.report.rows import object_row
from tracetui.analysis.sweeps.compare import Comparison, Crossover, KindChange, baseline, comparisons, kind_changes
from tracetui.analysis.sweeps.model import CAPTURE, Point, Sweep
from tracetui.analysis.tables.runs import SWEEP_POINTS
from tracetui.analysis.tables.sweeps import KINDS, SPEEDUPS

SCHEMA = "tracetui.sweep/1"
_OF_VARIANT = (
    "x", "baseline_ns", "variant_ns", "speedup", "speedup_error", "within_noise", "possible_speedup",
    "work_removed_percent", "lost_percent", "kernels_delta", "gpu_delta_ns", "step_delta_ns",
)  # fmt: skip


class CounterChange(Struct, frozen=True):
    """What changes in the counters from a baseline to a variant, all else alike."""

    axis: str
    baseline: Value
    variant: Value
    fixed: dict[str, Value]
    changes: dict[str, float]
    """The variant less the baseline, of every number that both have."""


class SweepCounters(Struct, frozen=True):
    """The points that Nsight Compute measured as a table of configurations."""

    rows: list[Row]
    weights: dict[str, str]
    stopped: dict[str, int]
    """By point the limit of launches at which Nsight Compute stopped."""
    changes: list[CounterChange]


class SweepReport(Struct, frozen=True):
    """A sweep and what is said of it."""

    sweep: Sweep
    comparisons: list[Comparison]
    kinds: list[tuple[Comparison, list[KindChange]]]
    """The kinds of GPU work of each comparison."""
    judged: Judged
    marks: dict[str, list[str]]
    """By a point's label the ids of the findings about it."""
    captures: list[CaptureRow]
    """What the points' ranges measure; empty where no recording's kind is compared by its ranges."""
    counters: SweepCounters | None

    @property
    def crossover(self) -> Crossover:
        """The first that has a place."""
        known = [one.crossover for one in self.comparisons]
        nothing = Crossover(self.sweep.x_axis, None, None, "nothing to compare")
        return next((one for one in known if one.value is not None), known[0] if known else nothing)


def sweep_report(
    sweep: Sweep, config: Config | None = None, on_error: Callable[[Exception], None] | None = None
) -> SweepReport:
    """Points, variants against their baselines, the crossover, and what the rules found.

    Args:
        sweep: what `sweep.read_sweep` returned.
        config: thresholds of the rules, and which rules are silenced.
        on_error: called with the error of a rule that failed; the other rules still run.
    """
    findings = find(sweep, config, on_error=on_error)
    marks: dict[str, list[str]] = {}
    for finding in findings.found:
        for label in {item.query.row for item in finding.evidence if item.query is not None}:
            marks.setdefault(label, []).append(finding.id)
    compared = comparisons(sweep)
    captures = [replace(point.capture, axes=point.axes) for point in sweep.points if point.capture is not None]
    return SweepReport(
        sweep=sweep,
        comparisons=compared,
        kinds=[(one, kind_changes(one)) for one in compared],
        judged=judged(findings),
        marks=marks,
        captures=ordered(captures) if any(row.problem is None for row in captures) else [],
        counters=_counters(sweep),
    )


def sweep_json(found: SweepReport) -> Json:
    """The report as JSON."""
    sweep = found.sweep
    return {
        "schema": SCHEMA,
        "path": str(sweep.path),
        "source": sweep.source,
        "base": sweep.base,
        "axes": list(sweep.axes),
        "x_axis": sweep.x_axis,
        "points": point_rows(found),
        "comparisons": [_comparison(one) for one in found.comparisons],
        "crossover": to_builtins(found.crossover),
        "kinds": kind_rows(found),
        "captures": to_builtins(found.captures),
        "phases": phase_rows(found.captures),
        "categories": category_rows(found.captures),
        "top_kernels": top_kernel_rows(found.captures),
        "counters": to_builtins(found.counters),
        **to_builtins(found.judged),
        "notes": list(sweep.notes),
    }


def point_rows(found: SweepReport) -> list[Json]:
    """The points; an axis that one lacks is null."""
    best = found.sweep.best
    return [
        {axis: point.axes.get(axis) for axis in found.sweep.axes}
        | object_row(
            SWEEP_POINTS.data_fields,
            point.value,
            best=point.label in best,
            findings=found.marks.get(point.label, []),
            path=None if point.path is None else str(point.path),
        )
        for point in found.sweep.points
    ]


def speedup_rows(found: SweepReport) -> list[Json]:
    """The comparisons, a row per variant and size."""
    fields = SPEEDUPS.chosen(_OF_VARIANT)
    return [{**_key(one), **object_row(fields, partial(getattr, row))} for one in found.comparisons for row in one.rows]


def kind_rows(found: SweepReport) -> list[Json]:
    """A row per variant, size and kind of GPU work."""
    fields = KINDS.data_fields[len(_key(found.comparisons[0])) :] if found.comparisons else ()
    return [
        {**_key(one), **object_row(fields, partial(getattr, change))}
        for one, changes in found.kinds
        for change in changes
    ]


def _key(one: Comparison) -> Json:
    """What a row says of its comparison."""
    return {
        "comparison": one.label, "axis": one.axis, "baseline": one.base, "variant": one.value, "x_axis": one.x_axis,
    }  # fmt: skip


def _comparison(one: Comparison) -> Json:
    """One variant against its baseline."""
    fields = SPEEDUPS.chosen(_OF_VARIANT)
    return {
        "label": one.label,
        "axis": one.axis,
        "baseline": one.base,
        "variant": one.value,
        "fixed": dict(one.fixed),
        "x_axis": one.x_axis,
        "points": [
            object_row(fields, partial(getattr, row))
            | {
                "busy_percent": [row.base.busy_percent, row.variant.busy_percent],
                "paths": [None if point.path is None else str(point.path) for point in (row.base, row.variant)],
            }
            for row in one.rows
        ],
        "crossover": to_builtins(one.crossover),
    }


def _counters(sweep: Sweep) -> SweepCounters | None:
    """The points that Nsight Compute measured, and their changes along each axis."""
    points = {point.label: point for point in sweep.points if point.counted}
    if not points:
        return None
    from tracetui.analysis.report.counters import configuration_rows

    found = configuration_rows({label: point.counted for label, point in points.items()})
    rows = found["configurations"]
    whole = {row["configuration"]: row for row in rows if row["kind"] == "all"}
    return SweepCounters(
        rows=[{axis: points[row["configuration"]].axes.get(axis) for axis in sweep.axes} | row for row in rows],
        weights=found["configuration_weights"],
        stopped={label: point.stopped for label, point in points.items() if point.stopped is not None},
        changes=[
            CounterChange(
                axis, base.axes[axis], variant.axes[axis], base.beside(axis),
                _differences(whole[base.label], whole[variant.label]),
            )
            for axis in sweep.axes
            if axis != CAPTURE
            for base, variant in _changes(list(points.values()), axis)
        ],
    )  # fmt: skip


def _changes(points: list[Point], axis: str) -> list[tuple[Point, Point]]:
    """Every point along an axis with the one at the axis' baseline, all else alike."""
    values = sorted({point.axes[axis] for point in points if axis in point.axes}, key=place)
    first = baseline(axis, values) if len(values) > 1 else None
    bases = [point for point in points if point.axes.get(axis) == first]
    return [
        (base, point)
        for point in points
        if first is not None and point.axes.get(axis, first) != first
        for base in bases
        if base.beside(axis) == point.beside(axis)
    ]


def _differences(base: Row, variant: Row) -> dict[str, float]:
    from tracetui.analysis.tables.nsight.configurations import CONFIGURATIONS

    keys = [
        field.json_key
        for field in CONFIGURATIONS.data_fields
        if field.kind != "text" and not field.name.endswith("_covered")
    ]
    return {key: variant[key] - base[key] for key in keys if base[key] is not None and variant[key] is not None}
