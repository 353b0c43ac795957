"""Writes the table of captures as CSV: one line per file, with every value as a column."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.base.json_values import Json

PLAIN = (
    "path", "kind", "rank", "problem", "base", "steps", "average_step_us", "wall_us", "kernels", "gpu_us",
    "kernels_per_step", "gpu_us_per_step", "busy_percent",
)  # fmt: skip
TOP = ("short_name", "category", "calls", "total_us", "mean_us", "percent")
PHASE = (
    "instances", "host_total_us", "host_mean_us", "launched_us", "launched_mean_us", "launched_span_us",
    "launched_span_mean_us",
)  # fmt: skip
IN_STEPS = ("instances", "host_us", "host_percent", "launched_us", "launched_percent")
RANGE = ("instances", "host_total_us", "gpu_projected_us", "device_us", "launched_us", "launched_span_us")


def flat(found: Sequence[Json]) -> list[Json]:
    """Returns one flat object per capture, all with the same keys in the same order; missing values are null.

    Axes come as ``axis.ctx``, categories as ``gpu.gemm_us``, phases as ``forward.host_mean_us``,
    ``forward.gemm_us``, ``forward.in_steps.host_percent``, ranges as ``range.forward_pass.host_total_us``.
    """
    rows = [_flat(row) for row in found]
    groups: dict[str, dict[str, None]] = {}
    for row in rows:
        for key in row:
            groups.setdefault(key.partition(".")[0], {})[key] = None
    keys = [key for group in groups.values() for key in group]
    return [{key: row.get(key) for key in keys} for row in rows]


def _flat(row: Json) -> Json:
    cells = {"name": row["name"], **{f"axis.{axis}": value for axis, value in row["axes"].items()}}
    cells |= {key: row[key] for key in PLAIN}
    cells |= {f"top_kernel.{key}": (row["top_kernel"] or {}).get(key) for key in TOP}
    cells |= {f"gpu.{share['category']}_us": share["us"] for share in row["categories"]}
    for role, phase in row["phases"].items():
        cells |= {f"{role}.{key}": phase[key] for key in PHASE}
        cells |= {f"{role}.in_steps.{key}": (phase["in_steps"] or {}).get(key) for key in IN_STEPS}
        cells |= {f"{role}.{share['category']}_us": share["us"] for share in phase["by_category"]}
    for phase in row["ranges"]:
        name = f"{phase['domain']}:{phase['name']}" if phase["domain"] else phase["name"]
        cells |= {f"range.{name}.{key}": phase[key] for key in RANGE}
    return cells
