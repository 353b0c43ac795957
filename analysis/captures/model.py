"""Captures side by side: structs, which the reports of a run and of a sweep have, and flat rows and a matrix of them.

As in `model` the order of the fields is that of the JSON, and what is unknown is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from msgspec import Struct
from msgspec.structs import asdict

from tracetui.analysis.base.json_values import Json, share_of
from tracetui.analysis.captures import names
from tracetui.analysis.captures.names import place, spelled
from tracetui.analysis.tables.captures import WHOLE


class CategoryShare(Struct, frozen=True, kw_only=True):
    """What one kind of GPU work takes."""

    category: str
    calls: int
    us: float
    percent: Annotated[float | None, share_of("the GPU time of the capture, phase or range")]


class TopKernel(Struct, frozen=True, kw_only=True):
    """The kernel that takes most of its kind of work, % of the capture's GPU time."""

    category: str
    name: str
    short_name: str
    calls: int
    total_us: float | None
    mean_us: float | None
    percent: Annotated[float | None, share_of("the GPU time of its kind")]


class PhaseInSteps(Struct, frozen=True, kw_only=True):
    """What of a phase lies inside steps, % of theirs."""

    instances: int | None
    host_us: float | None
    host_percent: Annotated[float | None, share_of("the steps' time")]
    launched_us: float | None
    launched_percent: Annotated[float | None, share_of("what the steps launched")]


class PhaseRow(Struct, frozen=True, kw_only=True):
    """Ranges of one name, or of one role."""

    name: str
    domain: str | None
    role: str | None
    names: list[str]
    instances: int | None
    host_total_us: float | None
    host_mean_us: float | None
    launched_us: float | None
    launched_mean_us: float | None
    launched_ops: int | None
    launched_span_us: float | None
    launched_span_mean_us: float | None
    gpu_projected_us: float | None
    device_us: float | None
    gpu_ops: int | None
    by_category: list[CategoryShare]
    in_steps: PhaseInSteps | None


class StepTotals(Struct, frozen=True, kw_only=True):
    """All steps of a capture together."""

    steps: int
    host_us: float | None
    launched_us: float | None


class CaptureRow(Struct, frozen=True, kw_only=True):
    """What one file holds."""

    name: str
    path: str
    kind: str
    rank: int | None
    axes: dict[str, names.Value]
    problem: str | None
    out_of_memory: str | None
    cut: list[str]
    base: str | None
    steps: int | None
    average_step_us: float | None
    wall_us: float | None
    kernels: int | None
    gpu_us: float | None
    kernels_per_step: float | None
    gpu_us_per_step: float | None
    busy_percent: Annotated[float | None, share_of("the average step")]
    categories: list[CategoryShare]
    top_kernel: TopKernel | None
    top_by_category: list[TopKernel]
    phases: dict[str, PhaseRow]
    in_steps: StepTotals | None
    ranges: list[PhaseRow]

    @property
    def label(self) -> str:
        """Its name as short as its axes allow: ``small ctx128``."""
        return names.label(self.axes, self.name)

    def of_phase(self, role: str, key: str) -> float | None:
        """A number of a phase; None where it has no such phase."""
        value: float | None = getattr(self.phases[role], key) if role in self.phases else None
        return value

    def ended_in(self, role: str) -> bool:
        """Whether it ran out of memory before or in this phase, so that it has no whole one."""
        return bool(self.out_of_memory) and (role in self.cut or role not in self.phases)


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
    rows: tuple[tuple[names.Value, ...], ...]
    columns: tuple[names.Value, ...]
    captures: dict[tuple[names.Value, ...], CaptureRow]
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
