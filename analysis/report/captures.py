"""The table of captures as the JSON contract (`docs/reference/report.md`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.base.json_values import Json, known, us
from tracetui.analysis.tables.captures import WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tracetui.analysis.base.json_values import Json
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


ROLES = (
    "step", "forward", "loss", "backward", "optimizer", "attention", "softmax", "matmul", "evaluation", "warmup",
)  # fmt: skip
MEASURES = ("host_mean_us", "launched_span_mean_us", "launched_mean_us")
"""What a matrix has of each phase."""
_OF_PHASE = (
    "instances", "host_mean_us", "launched_span_mean_us", "launched_mean_us", "host_total_us", "launched_us",
    "launched_ops",
)  # fmt: skip


def phase_rows(captures: Iterable[Json]) -> list[Json]:
    """One row per capture and phase, the whole capture first; a row without numbers for a capture that has none."""
    return [row for capture in captures for row in _phases(capture)]


def _phases(capture: Json) -> Iterator[Json]:
    reason = capture["out_of_memory"] or capture["problem"]
    if capture["problem"] is not None:
        outcome = "out of memory" if capture["out_of_memory"] else "not read"
        yield {**_key(capture, WHOLE), **dict.fromkeys((*_OF_PHASE, *_IN_STEPS)), "outcome": outcome, "reason": reason}
        return
    ended = "cut" if capture["out_of_memory"] else "measured"
    whole = dict.fromkeys((*_OF_PHASE, *_IN_STEPS)) | {
        "host_total_us": capture["wall_us"],
        "launched_us": capture["gpu_us"],
        "launched_ops": capture["kernels"],
    }
    yield {**_key(capture, WHOLE), **whole, "outcome": ended, "reason": reason}
    for role in sorted(capture["phases"], key=ROLES.index):
        phase = capture["phases"][role]
        inside = phase["in_steps"] or {}
        yield {
            **_key(capture, role),
            **{key: phase[key] for key in _OF_PHASE},
            **{key: inside.get(key) for key in _IN_STEPS},
            "outcome": "cut" if role in capture["cut"] else "measured",
            "reason": reason if role in capture["cut"] else None,
        }


_IN_STEPS = ("host_percent", "launched_percent")


def _key(capture: Json, phase: str) -> Json:
    return {**capture["axes"], "name": capture["name"], "phase": phase}


def category_rows(captures: Iterable[Json]) -> list[Json]:
    """One row per capture, phase and kind of work."""
    found = []
    for capture in captures:
        phases = {WHOLE: (capture["categories"], None)} | {
            role: (capture["phases"][role]["by_category"], capture["phases"][role]["instances"])
            for role in sorted(capture["phases"], key=ROLES.index)
        }
        for phase, (shares, instances) in phases.items():
            for share in shares:
                each = share["us"] / instances if instances else None
                cells = {key: share[key] for key in ("category", "calls", "us", "percent")}
                found.append({**_key(capture, phase), **cells, "mean_us": each})
    return found


def top_kernel_rows(captures: Iterable[Json]) -> list[Json]:
    """One row per capture and kind of work: its largest kernel."""
    return [
        {**capture["axes"], **kernel, "name": capture["name"], "kernel": kernel["name"]}
        for capture in captures
        for kernel in capture["top_by_category"]
    ]


def matrix_rows(captures: Sequence[Json]) -> tuple[list[str], list[Json]]:
    """Header and rows of all phases as a matrix: ``phase``, ``measure``, the axes down, a column per value across.

    What ran out of memory is ``OOM``. Empty where names follow no pattern, or several captures share a place.
    """
    axes = list(captures[0]["axes"]) if captures else []
    if not axes:
        return [], []
    numbers = [axis for axis in axes if not any(isinstance(row["axes"][axis], str) for row in captures)]
    across = numbers[-1] if numbers else axes[-1]
    down = [axis for axis in axes if axis != across]
    values = list(dict.fromkeys(row["axes"][across] for row in captures))
    values = sorted(values) if numbers else values
    places = {(*(row["axes"][axis] for axis in down), row["axes"][across]): row for row in captures}
    if len(places) < len(captures):
        return [], []
    rows_down = list(dict.fromkeys(place[:-1] for place in places))
    titles = {value: value if isinstance(value, str) else f"{across}{value:g}" for value in values}
    header = ["phase", "measure", *down, *titles.values()]
    found = []
    for role in [role for role in ROLES if any(role in row["phases"] for row in captures)]:
        for measure in MEASURES:
            for place in rows_down:
                cells = {titles[value]: _cell(places.get((*place, value)), role, measure) for value in values}
                found.append({"phase": role, "measure": measure, **dict(zip(down, place, strict=True)), **cells})
    return header, found


def _cell(capture: Json | None, role: str, measure: str) -> float | str | None:
    if capture is None:
        return None
    phase = capture["phases"].get(role)
    if ended_in(capture, role):
        return "OOM"
    value: float | None = phase[measure] if phase else None
    return value


def ended_in(capture: Json, role: str) -> bool:
    """Whether a capture ran out of memory before or in this phase, so that it has no whole one."""
    return bool(capture["out_of_memory"]) and (role in capture["cut"] or role not in capture["phases"])
