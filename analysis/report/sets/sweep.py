"""A sweep as the JSON contract (`docs/reference/report.md`)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import to_builtins

from tracetui.analysis.base.json_values import Json, known, us
from tracetui.analysis.captures.captures import ordered
from tracetui.analysis.findings.engine import find
from tracetui.analysis.report.findings import judged
from tracetui.analysis.report.sets.capture_tables import category_rows, phase_rows, top_kernel_rows
from tracetui.analysis.report.sets.captures import capture_rows
from tracetui.analysis.sweeps.compare import Crossover, comparisons, kind_changes
from tracetui.parsers.names.kernel_names import short_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tracetui.analysis.findings.config import Config
    from tracetui.analysis.findings.core.finding import Findings
    from tracetui.analysis.sweeps.compare import Comparison, Row
    from tracetui.analysis.sweeps.model import Point, Sweep

SCHEMA = "tracetui.sweep/1"


def sweep_report(
    sweep: Sweep, config: Config | None = None, on_error: Callable[[Exception], None] | None = None
) -> Json:
    """Points, variants against their baselines, the crossover, and what the rules found.

    Args:
        sweep: what `sweep.read_sweep` returned.
        config: thresholds of the rules, and which rules are silenced.
        on_error: called with the error of a rule that failed; the other rules still run.
    """
    found = find(sweep, config, on_error=on_error)
    compared = comparisons(sweep)
    chosen = next((one.crossover for one in compared if one.crossover.value is not None), None)
    if chosen is None:
        chosen = compared[0].crossover if compared else Crossover(sweep.x_axis, None, None, "nothing to compare")
    return {
        "schema": SCHEMA,
        "path": str(sweep.path),
        "source": sweep.source,
        "base": sweep.base,
        "axes": list(sweep.axes),
        "x_axis": sweep.x_axis,
        "points": [point_row(point, sweep, found) for point in sweep.points],
        "comparisons": [comparison_row(one) for one in compared],
        "crossover": _crossover(chosen),
        "kinds": kind_rows(compared),
        **_captures(sweep),
        "counters": _counters(sweep),
        **to_builtins(judged(found)),
        "notes": list(sweep.notes),
    }


def _captures(sweep: Sweep) -> Json:
    """The points' captures, and the same as flat rows; empty where no recording's kind is compared by its ranges."""
    known = [replace(point.capture, axes=point.axes) for point in sweep.points if point.capture is not None]
    if all(row.problem is not None for row in known):
        known = []
    captures = capture_rows(ordered(known))
    return {
        "captures": captures,
        "phases": phase_rows(captures),
        "categories": category_rows(captures),
        "top_kernels": top_kernel_rows(captures),
    }


def speedup_rows(found: Json) -> list[Json]:
    """The comparisons of a sweep's report as flat rows, one per variant and size."""
    return [
        {**_key(one), **{key: row[key] for key in row if key not in ("busy_percent", "paths")}}
        for one in found["comparisons"]
        for row in one["points"]
    ]


def kind_rows(compared: Iterable[Comparison]) -> list[Json]:
    """One row per variant, size and kind of GPU work."""
    return [
        {
            **_key(comparison_row(one)),
            "x": change.x,
            "kind": change.kind,
            "status": change.status,
            "baseline_calls": change.base_calls,
            "variant_calls": change.variant_calls,
            "baseline_us": us(change.base_ns),
            "variant_us": us(change.variant_ns),
            "delta_us": us(change.variant_ns - change.base_ns),
            "name": change.top,
            "short_name": short_name(change.top),
        }
        for one in compared
        for change in kind_changes(one)
    ]


def _key(one: Json) -> Json:
    """What a flat row says of its comparison."""
    return {"comparison": one["label"], **{key: one[key] for key in ("axis", "baseline", "variant", "x_axis")}}


def point_row(point: Point, sweep: Sweep, found: Findings) -> Json:
    """One point; an axis that it lacks is null."""
    return {
        **{axis: point.axes.get(axis) for axis in sweep.axes},
        "step_us": us(point.step_ns),
        "std_us": us(point.std_ns),
        "repeats": point.repeats,
        "images_per_s": known(point.images_per_s),
        "kernels": point.kernels,
        "gpu_us": us(point.gpu_ns),
        "busy_percent": known(point.busy_percent),
        "flops": point.flops,
        "batch_seen": known(point.seen),
        "problem": point.problem,
        "findings": [
            finding.id
            for finding in found.found
            if any(item.query is not None and item.query.row == point.label for item in finding.evidence)
        ],
        "path": None if point.path is None else str(point.path),
    }


def _counters(sweep: Sweep) -> Json | None:
    """The points that Nsight Compute measured as a table of configurations, and their changes along each axis."""
    from tracetui.analysis.sweeps.counters import changes, counted_points, groups

    points = counted_points(sweep)
    if not points:
        return None
    from tracetui.analysis.report.counters import configuration_rows

    found = configuration_rows(groups(sweep))
    rows = found["configurations"]
    whole = {row["configuration"]: row for row in rows if row["kind"] == "all"}
    return {
        "rows": [{**{axis: points[row["configuration"]].axes.get(axis) for axis in sweep.axes}, **row} for row in rows],
        "weights": found["configuration_weights"],
        "stopped": {label: point.stopped for label, point in points.items() if point.stopped is not None},
        "changes": [
            {
                "axis": one.axis,
                "baseline": one.base.axes[one.axis],
                "variant": one.variant.axes[one.axis],
                "fixed": one.fixed,
                "changes": _differences(whole[one.base.label], whole[one.variant.label]),
            }
            for one in changes(sweep)
        ],
    }


def _differences(base: Json, variant: Json) -> Json:
    """The variant less the baseline, of every number that both have."""
    from tracetui.analysis.tables.nsight.configurations import CONFIGURATIONS

    keys = [
        field.json_key
        for field in CONFIGURATIONS.data_fields
        if field.kind != "text" and not field.name.endswith("_covered")
    ]
    known = [key for key in keys if base[key] is not None and variant[key] is not None]
    return {key: variant[key] - base[key] for key in known}


def comparison_row(one: Comparison) -> Json:
    """One variant against its baseline."""
    return {
        "label": one.label,
        "axis": one.axis,
        "baseline": one.base,
        "variant": one.value,
        "fixed": dict(one.fixed),
        "x_axis": one.x_axis,
        "points": [_row(row) for row in one.rows],
        "crossover": _crossover(one.crossover),
    }


def _row(row: Row) -> Json:
    def less(a: float | None, b: float | None) -> float | None:
        return None if a is None or b is None else b - a

    return {
        "x": row.x,
        "baseline_us": us(row.base.step_ns),
        "variant_us": us(row.variant.step_ns),
        "speedup": known(row.speedup),
        "speedup_error": known(row.speedup * row.error) if row.error is not None else None,
        "within_noise": row.is_noise,
        "possible_speedup": row.possible_speedup,
        "work_removed_percent": row.work_removed_percent,
        "lost_percent": row.lost_percent,
        "kernels_delta": less(row.base.kernels, row.variant.kernels),
        "gpu_delta_us": us(less(row.base.gpu_ns, row.variant.gpu_ns)),
        "step_delta_us": us(less(row.base.step_ns, row.variant.step_ns)),
        "busy_percent": [row.base.busy_percent, row.variant.busy_percent],
        "paths": [None if point.path is None else str(point.path) for point in (row.base, row.variant)],
    }


def _crossover(found: Crossover) -> Json:
    return {
        "axis": found.axis,
        "value": found.value,
        "interval": None if found.interval is None else list(found.interval),
        "verdict": found.verdict,
    }
