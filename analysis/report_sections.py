"""The report's sections, each from one analysis function; an analysis is imported when its section is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracetui.analysis.report_rows import Json, known, rows, us

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl
    from tracetui.analysis.selection import Selection
    from tracetui.parsers import Trace

Section = tuple[Any, "int | None"]
"""What a section holds, and how many rows its whole list has (null where it is no list)."""

KERNEL_COLUMNS = (
    "name", "short_name", "category", "calls", "total_ns", "in_steps_ns", "percent", "mean_ns", "median_ns", "min_ns",
    "max_ns", "std_ns", "occupancy_percent", "blocks_per_sm", "registers", "shared_memory", "tensor_cores", "module",
    "operator", "modules", "operators",
)  # fmt: skip
MEMOP_COLUMNS = ("kind", "name", "calls", "total_ns", "mean_ns", "bytes", "throughput_gbps")
OPERATOR_COLUMNS = (
    "name", "calls", "host_self_ns", "host_total_ns", "device_self_ns", "device_total_ns", "kernels", "percent",
    "tensor_core_eligible",
)  # fmt: skip
MODULE_COLUMNS = (
    "path", "name", "class_name", "depth", "calls", "host_self_ns", "host_total_ns", "device_self_ns",
    "device_total_ns", "backward_device_ns", "kernels",
)  # fmt: skip
HOST_COLUMNS = ("kind", "name", "calls", "self_ns", "total_ns", "self_per_step_ns", "percent")
API_COLUMNS = ("name", "calls", "total_ns", "mean_ns", "median_ns", "min_ns", "max_ns", "std_ns", "percent")
RANGE_COLUMNS = (
    "name", "domain", "instances", "host_total_ns", "gpu_projected_ns", "device_ns", "gpu_ops", "by_category",
)  # fmt: skip
GPU_COLUMNS = (
    "device", "name", "busy_percent", "utilization_percent", "sm_efficiency_percent", "occupancy_percent",
    "tensor_core_percent",
)  # fmt: skip
IDLE_SHARES = ("host_wait_percent", "kernel_wait_percent", "other_percent")


def source(trace: Trace) -> Json:
    """Where the numbers come from and what of it could not be read."""
    info, origin = trace.info, trace.source
    return {
        "path": str(origin.path),
        "kind": info.kind,
        "tool": info.tool,
        "tool_version": info.tool_version,
        "rank": info.rank,
        "world_size": info.world_size,
        "bytes": origin.bytes,
        "events_total": origin.events_total,
        "events_parsed": origin.events_parsed,
        "partial": origin.partial,
        "captured": dict(info.captured),
        "skipped": _notes(trace, "skipped"),
        "repaired": _notes(trace, "repaired"),
        "missing": _notes(trace, "missing"),
    }


def devices(trace: Trace) -> list[Json]:
    """The GPUs the trace describes."""
    fields = ("id", "name", "compute_capability", "sm_count", "memory_bytes")
    return [{field: getattr(device, field) for field in fields} for device in trace.info.devices]


def overview(sel: Selection, limit: int | None) -> Section:
    """Step time by category, GPU metrics, idle time, and what the run waits for."""
    from tracetui.analysis.overview import CATEGORIES, overview

    found = overview(sel)
    steps = [
        {
            "index": row["index"],
            "name": row["name"],
            "us": us(row["duration_ns"]),
            "categories": {
                name: {"us": us(row[f"{name}_ns"]), "percent": _percent(row[f"{name}_ns"], row["duration_ns"])}
                for name in CATEGORIES
            },
        }
        for row in (found.per_step if limit is None else found.per_step.head(limit)).iter_rows(named=True)
    ]
    return {
        "steps": found.steps,
        "base": found.base,
        "average_step_us": us(found.average_step_ns),
        "categories": {
            row["category"]: {"us": us(row["ns"]), "percent": known(row["percent"])}
            for row in found.average.iter_rows(named=True)
        },
        "per_step": steps,
        "gpu": rows(found.gpu, GPU_COLUMNS),
        "idle": _idle(found.idle),
        "overlap_percent": known(found.overlap_percent),
        "waits_for": {"what": found.verdict.waits_for, "sentence": found.verdict.sentence},
    }, found.per_step.height


def kernels(sel: Selection, limit: int | None) -> Section:
    """One row per kernel name."""
    from tracetui.analysis.kernels import kernels

    frame = kernels(sel)
    found = rows(frame, KERNEL_COLUMNS, limit)
    for row in found:
        row["counters"] = {}
    return found, frame.height


def memops(sel: Selection, limit: int | None) -> Section:
    """Copies and fills by kind."""
    from tracetui.analysis.memops import memops

    return _table(memops(sel), MEMOP_COLUMNS, limit)


def operators(sel: Selection, limit: int | None) -> Section:
    """One row per framework operator."""
    from tracetui.analysis.operators import operators

    return _table(operators(sel), OPERATOR_COLUMNS, limit)


def modules(sel: Selection, limit: int | None) -> Section:
    """The nn.Module tree, depth first."""
    from tracetui.analysis.modules import modules

    return _table(modules(sel), MODULE_COLUMNS, limit)


def host_functions(sel: Selection, limit: int | None) -> Section:
    """Where the host's time goes: operators, Python functions, modules, API calls."""
    from tracetui.analysis.host import host_functions

    return _table(host_functions(sel), HOST_COLUMNS, limit)


def api(sel: Selection, limit: int | None) -> Section:
    """CUDA runtime and driver API calls by name."""
    from tracetui.analysis.api import api_calls

    return _table(api_calls(sel), API_COLUMNS, limit)


def ranges(sel: Selection, limit: int | None) -> Section:
    """Annotations and NVTX ranges."""
    from tracetui.analysis.ranges import ranges

    return _table(ranges(sel), RANGE_COLUMNS, limit)


def launches(sel: Selection, limit: int | None) -> Section:
    """How kernels reach the GPU: how many, how short, how late."""
    from tracetui.analysis.api import launches

    found = launches(sel)
    return {
        "count": found.count,
        "short_kernels": found.short_kernels,
        "runtime_outliers": found.runtime_outliers,
        "delay_outliers": found.delay_outliers,
        "median_delay_us": us(found.median_delay_ns),
    }, None


def memory(sel: Selection, limit: int | None) -> Section:
    """The allocator's peaks."""
    from tracetui.analysis.memory import memory

    found = memory(sel)
    return {
        "peak_allocated_bytes": found.peak_allocated_bytes,
        "peak_reserved_bytes": found.peak_reserved_bytes,
    }, None


def later(sel: Selection, limit: int | None) -> Section:
    """A section that nothing fills yet."""
    return [], 0


SECTIONS: dict[str, Callable[[Selection, int | None], Section]] = {
    "overview": overview,
    "kernels": kernels,
    "memops": memops,
    "operators": operators,
    "modules": modules,
    "host_functions": host_functions,
    "api": api,
    "ranges": ranges,
    "launches": launches,
    "counters": later,
    "memory": memory,
    "findings": later,
}
"""Every section of a trace, in the order of the report."""


def _table(frame: pl.DataFrame, columns: tuple[str, ...], limit: int | None) -> Section:
    return rows(frame, columns, limit), frame.height


def _notes(trace: Trace, kind: str) -> list[Json]:
    found = [note for note in trace.notes if note.kind == kind]
    return [{"reason": note.reason, "count": note.count, "example": note.example} for note in found]


def _percent(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else 100 * part / whole


def _idle(frame: pl.DataFrame) -> Json:
    """The shares of the idle time of every GPU together, and per device."""
    per_device = rows(frame.filter(frame["stream"].is_null()), ("device", "idle_ns", *IDLE_SHARES))
    idle = [row["idle_us"] for row in per_device]
    whole = sum(value for value in idle if value is not None)
    shares: Json = dict.fromkeys(IDLE_SHARES)
    if whole:
        shares = {
            name: sum((row[name] or 0) * (row["idle_us"] or 0) for row in per_device) / whole for name in IDLE_SHARES
        }
    return {**shares, "idle_us": whole if idle else None, "per_device": per_device}
