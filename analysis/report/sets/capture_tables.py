"""Captures as flat rows: one per capture and phase, per kind of work of each, per top kernel, and as a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.tables.captures import WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tracetui.analysis.base.json_values import Json

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
