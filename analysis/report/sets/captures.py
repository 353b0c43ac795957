"""The table of captures as the JSON contract (`docs/reference/report.md`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.base.json_values import Json, known, us

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tracetui.analysis.captures.captures import Capture, TopKernel
    from tracetui.analysis.captures.roles import Phase, Phases, Share


def capture_rows(found: Iterable[Capture]) -> list[Json]:
    """One object per file, in order."""
    return [_capture(row) for row in found]


def _capture(row: Capture) -> Json:
    by_name = {(phase.name, phase.domain): _phase(phase, row.phases) for phase in row.phases.by_name}
    for own in row.own.iter_rows(named=True):
        if (known_range := by_name.get((own["name"], own.get("domain") or ""))) is not None:
            known_range["gpu_projected_us"] = us(own["gpu_projected_ns"])
            known_range["device_us"] = us(own["device_ns"])
            known_range["gpu_ops"] = own["gpu_ops"]
    top = [_top(kernel, row) for kernel in row.top]
    return {
        "name": row.name,
        "path": str(row.path),
        "kind": row.kind,
        "rank": row.rank,
        "axes": dict(row.axes),
        "problem": row.problem,
        "out_of_memory": row.out_of_memory,
        "cut": list(row.cut),
        "base": row.base,
        "steps": row.steps,
        "average_step_us": us(row.average_step_ns),
        "wall_us": us(row.wall_ns),
        "kernels": row.kernels,
        "gpu_us": us(row.gpu_ns),
        "kernels_per_step": known(row.step_kernels),
        "gpu_us_per_step": us(row.step_gpu_ns),
        "busy_percent": known(row.busy_percent) if row.busy_percent is not None else None,
        "categories": _shares(row.categories, row.gpu_ns),
        "top_kernel": top[0] if top else None,
        "top_by_category": top,
        "phases": {phase.name: _phase(phase, row.phases) for phase in row.phases.by_role},
        "in_steps": {
            "steps": row.phases.steps,
            "host_us": us(row.phases.step_ns),
            "launched_us": us(row.phases.step_launched_ns),
        }
        if row.phases.steps
        else None,
        "ranges": list(by_name.values()),
    }


def _top(kernel: TopKernel, row: Capture) -> Json:
    return {
        "category": kernel.category,
        "name": kernel.name,
        "short_name": kernel.short_name,
        "calls": kernel.calls,
        "total_us": us(kernel.ns),
        "mean_us": us(kernel.ns / kernel.calls),
        "percent": _percent(kernel.ns, row.gpu_ns),
    }


def _phase(phase: Phase, whole: Phases) -> Json:
    """Sums and means of a phase; what can't be known is null."""
    many = phase.instances
    in_steps = None
    if whole.steps and phase.step_host_ns is not None:
        in_steps = {
            "instances": phase.step_instances,
            "host_us": us(phase.step_host_ns),
            "host_percent": _percent(phase.step_host_ns, whole.step_ns),
            "launched_us": us(phase.step_launched_ns),
            "launched_percent": _percent(phase.step_launched_ns, whole.step_launched_ns),
        }
    return {
        "name": phase.name,
        "domain": phase.domain,
        "role": phase.role,
        "names": list(phase.names),
        "instances": many,
        "host_total_us": us(phase.host_ns),
        "host_mean_us": _mean(phase.host_ns, many),
        "launched_us": us(phase.launched_ns),
        "launched_mean_us": _mean(phase.launched_ns, many),
        "launched_ops": phase.launched_ops,
        "launched_span_us": us(phase.span_ns),
        "launched_span_mean_us": _mean(phase.span_ns, many),
        "gpu_projected_us": None,
        "device_us": None,
        "gpu_ops": None,
        "by_category": _shares(phase.shares, phase.launched_ns),
        "in_steps": in_steps,
    }


def _shares(shares: Iterable[Share], whole: int | None) -> list[Json]:
    return [
        {"category": share.category, "calls": share.calls, "us": us(share.ns), "percent": _percent(share.ns, whole)}
        for share in shares
    ]


def _percent(part: int | None, whole: int | None) -> float | None:
    return 100 * part / whole if part is not None and whole else None


def _mean(ns: int | None, many: int | None) -> float | None:
    return us(ns / many) if ns is not None and many else None
