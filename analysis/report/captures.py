"""Captures side by side: a row each, and as flat rows to plot, per phase, per kind of work and as a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict

from tracetui.analysis.captures.model import (
    CaptureRow,
    CategoryShare,
)
from tracetui.analysis.captures.names import spelled
from tracetui.analysis.sweeps.model import place
from tracetui.analysis.tables.captures import WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tracetui.analysis.base.json_values import Json
    from tracetui.analysis.captures.model import CaptureRow, CategoryShare
    from tracetui.analysis.captures.names import Value


ROLES = (
    "step", "forward", "loss", "backward", "optimizer", "attention", "softmax", "matmul", "evaluation", "warmup",
)  # fmt: skip
MEASURES = ("host_mean_us", "launched_span_mean_us", "launched_mean_us")
"""What a matrix has of each phase."""
OOM = "OOM"
"""What stands where a capture ran out of memory."""
_OF_PHASE = (
    "instances", "host_mean_us", "launched_span_mean_us", "launched_mean_us", "host_total_us", "launched_us",
    "launched_ops",
)  # fmt: skip


def phase_rows(captures: Iterable[CaptureRow]) -> list[Json]:
    """One row per capture and phase, the whole capture first; a row without numbers for a capture that has none."""
    return [row for capture in captures for row in _phases(capture)]


def _phases(capture: CaptureRow) -> Iterator[Json]:
    reason = capture.out_of_memory or capture.problem
    nothing = {**_key(capture, WHOLE), **dict.fromkeys((*_OF_PHASE, *_IN_STEPS))}
    if capture.problem is not None:
        yield {**nothing, "outcome": "out of memory" if capture.out_of_memory else "not read", "reason": reason}
        return
    whole = {"host_total_us": capture.wall_us, "launched_us": capture.gpu_us, "launched_ops": capture.kernels}
    yield {**nothing, **whole, "outcome": "cut" if capture.out_of_memory else "measured", "reason": reason}
    for role in sorted(capture.phases, key=ROLES.index):
        phase = capture.phases[role]
        yield {
            **_key(capture, role),
            **{key: getattr(phase, key) for key in _OF_PHASE},
            **{key: getattr(phase.in_steps, key, None) for key in _IN_STEPS},
            "outcome": "cut" if role in capture.cut else "measured",
            "reason": reason if role in capture.cut else None,
        }


_IN_STEPS = ("host_percent", "launched_percent")


def _key(capture: CaptureRow, phase: str) -> Json:
    return {**capture.axes, "name": capture.name, "phase": phase}


def category_rows(captures: Iterable[CaptureRow]) -> list[Json]:
    """One row per capture, phase and kind of work."""
    found = []
    for capture in captures:
        phases: list[tuple[str, list[CategoryShare], int | None]] = [(WHOLE, capture.categories, None)]
        for role in sorted(capture.phases, key=ROLES.index):
            phases.append((role, capture.phases[role].by_category, capture.phases[role].instances))
        for phase, shares, instances in phases:
            for share in shares:
                each = share.us / instances if instances else None
                found.append({**_key(capture, phase), **asdict(share), "mean_us": each})
    return found


def top_kernel_rows(captures: Iterable[CaptureRow]) -> list[Json]:
    """One row per capture and kind of work: its largest kernel."""
    return [
        {**capture.axes, **asdict(kernel), "name": capture.name, "kernel": kernel.name}
        for capture in captures
        for kernel in capture.top_by_category
    ]


class Grid(Struct, frozen=True):
    """Captures by their axes: a row for each place on all axes but one, and a column per value of that one."""

    down: tuple[str, ...]
    across: str
    rows: tuple[tuple[Value, ...], ...]
    columns: tuple[Value, ...]
    captures: dict[tuple[Value, ...], CaptureRow]
    """By row, then column."""

    @property
    def titles(self) -> list[str]:
        """What the columns are called."""
        return [spelled(self.across, value) for value in self.columns]


def grid_of(captures: Sequence[CaptureRow]) -> Grid | None:
    """The captures by their axes; None where names follow no pattern, or several captures share a place."""
    axes = list(captures[0].axes) if captures else []
    if not axes:
        return None
    numbers = [axis for axis in axes if not any(isinstance(row.axes[axis], str) for row in captures)]
    across = numbers[-1] if numbers else axes[-1]
    down = tuple(axis for axis in axes if axis != across)
    places = {(*(row.axes[axis] for axis in down), row.axes[across]): row for row in captures}
    columns = list(dict.fromkeys(row.axes[across] for row in captures))
    if numbers:
        columns.sort(key=place)
    rows = tuple(dict.fromkeys(key[:-1] for key in places))
    return Grid(down, across, rows, tuple(columns), places) if len(places) == len(captures) else None


def matrix_rows(captures: Sequence[CaptureRow]) -> tuple[list[str], list[Json]]:
    """Header and rows of all phases as a matrix: ``phase``, ``measure``, the axes down, a column per value across.

    What ran out of memory is ``OOM``. Empty where there is no grid.
    """
    if (grid := grid_of(captures)) is None:
        return [], []
    header = ["phase", "measure", *grid.down, *grid.titles]
    found = []
    for role in [role for role in ROLES if any(role in row.phases for row in captures)]:
        for measure in MEASURES:
            for row in grid.rows:
                cells = (_cell(grid.captures.get((*row, value)), role, measure) for value in grid.columns)
                found.append(dict(zip(header, (role, measure, *row, *cells), strict=True)))
    return header, found


def _cell(capture: CaptureRow | None, role: str, measure: str) -> float | str | None:
    if capture is None:
        return None
    return OOM if capture.ended_in(role) else capture.of_phase(role, measure)
