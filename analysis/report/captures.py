"""Captures side by side: a row each, and as flat rows to plot, per phase, per kind of work and as a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict, replace

from tracetui.analysis.base.json_values import known, us
from tracetui.analysis.captures.names import spelled
from tracetui.analysis.captures.model import (
    CaptureRow,
    CategoryShare,
    PhaseInSteps,
    PhaseRow,
    StepTotals,
    TopKernel,
)
from tracetui.analysis.sweeps.model import place
from tracetui.analysis.tables.captures import WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tracetui.analysis.base.json_values import Json
    from tracetui.analysis.captures import captures as measured
    from tracetui.analysis.captures.captures import Capture
    from tracetui.analysis.captures.names import Value
    from tracetui.analysis.captures.roles import Phase, Phases, Share


def capture_rows(found: Iterable[Capture]) -> list[CaptureRow]:
    """One per file, in order."""
    return [_capture(row) for row in found]


def _capture(row: Capture) -> CaptureRow:
    own: dict[tuple[str, str | None], Json] = {
        (each["name"], each.get("domain") or ""): each for each in row.own.iter_rows(named=True)
    }
    top = [_top(kernel, row) for kernel in row.top]
    whole = row.phases
    return CaptureRow(
        name=row.name,
        path=str(row.path),
        kind=row.kind,
        rank=row.rank,
        axes=dict(row.axes),
        problem=row.problem,
        out_of_memory=row.out_of_memory,
        cut=list(row.cut),
        base=row.base,
        steps=row.steps,
        average_step_us=us(row.average_step_ns),
        wall_us=us(row.wall_ns),
        kernels=row.kernels,
        gpu_us=us(row.gpu_ns),
        kernels_per_step=known(row.step_kernels),
        gpu_us_per_step=us(row.step_gpu_ns),
        busy_percent=known(row.busy_percent),
        categories=_shares(row.categories, row.gpu_ns),
        top_kernel=top[0] if top else None,
        top_by_category=top,
        phases={phase.name: _phase(phase, whole, {}) for phase in whole.by_role},
        in_steps=StepTotals(steps=whole.steps, host_us=us(whole.step_ns), launched_us=us(whole.step_launched_ns))
        if whole.steps
        else None,
        ranges=[_phase(phase, whole, own.get((phase.name, phase.domain), {})) for phase in whole.by_name],
    )


def _top(kernel: measured.TopKernel, row: Capture) -> TopKernel:
    return TopKernel(
        category=kernel.category,
        name=kernel.name,
        short_name=kernel.short_name,
        calls=kernel.calls,
        total_us=us(kernel.ns),
        mean_us=us(kernel.ns / kernel.calls),
        percent=_percent(kernel.ns, row.gpu_ns),
    )


def _phase(phase: Phase, whole: Phases, own: Json) -> PhaseRow:
    """Sums and means of a phase; what can't be known is None; `own` is what its ranges' own thread launched."""
    many = phase.instances
    in_steps = None
    if whole.steps and phase.step_host_ns is not None:
        in_steps = PhaseInSteps(
            instances=phase.step_instances,
            host_us=us(phase.step_host_ns),
            host_percent=_percent(phase.step_host_ns, whole.step_ns),
            launched_us=us(phase.step_launched_ns),
            launched_percent=_percent(phase.step_launched_ns, whole.step_launched_ns),
        )
    return PhaseRow(
        name=phase.name,
        domain=phase.domain,
        role=phase.role,
        names=list(phase.names),
        instances=many,
        host_total_us=us(phase.host_ns),
        host_mean_us=_mean(phase.host_ns, many),
        launched_us=us(phase.launched_ns),
        launched_mean_us=_mean(phase.launched_ns, many),
        launched_ops=phase.launched_ops,
        launched_span_us=us(phase.span_ns),
        launched_span_mean_us=_mean(phase.span_ns, many),
        gpu_projected_us=us(own.get("gpu_projected_ns")),
        device_us=us(own.get("device_ns")),
        gpu_ops=own.get("gpu_ops"),
        by_category=_shares(phase.shares, phase.launched_ns),
        in_steps=in_steps,
    )


def _shares(shares: Iterable[Share], whole: int | None) -> list[CategoryShare]:
    return [
        CategoryShare(category=one.category, calls=one.calls, us=one.ns / 1000, percent=_percent(one.ns, whole))
        for one in shares
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

    def parts(self, width: int) -> Iterator[Grid]:
        """Grids of at most so many columns each."""
        for first in range(0, len(self.columns), width):
            yield replace(self, columns=self.columns[first : first + width])


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
    titles = {value: spelled(grid.across, value) for value in grid.columns}
    header = ["phase", "measure", *grid.down, *titles.values()]
    found = []
    for role in [role for role in ROLES if any(role in row.phases for row in captures)]:
        for measure in MEASURES:
            for row in grid.rows:
                cells = {title: _cell(grid.captures.get((*row, one)), role, measure) for one, title in titles.items()}
                found.append({"phase": role, "measure": measure, **dict(zip(grid.down, row, strict=True)), **cells})
    return header, found


def _cell(capture: CaptureRow | None, role: str, measure: str) -> float | str | None:
    if capture is None:
        return None
    return OOM if capture.ended_in(role) else capture.of_phase(role, measure)
