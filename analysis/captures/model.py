"""Captures side by side as structs: rows of ``captures`` in the report of a run and in that of a sweep.

As in `model` the order of the fields is that of the JSON, and what is unknown is None.
"""

from __future__ import annotations

from msgspec import Struct

from tracetui.analysis.captures import names


class CategoryShare(Struct, frozen=True, kw_only=True):
    """What one kind of GPU work takes."""

    category: str
    calls: int
    us: float
    percent: float | None


class TopKernel(Struct, frozen=True, kw_only=True):
    """The kernel that takes most of its kind of work, % of the capture's GPU time."""

    category: str
    name: str
    short_name: str
    calls: int
    total_us: float | None
    mean_us: float | None
    percent: float | None


class PhaseInSteps(Struct, frozen=True, kw_only=True):
    """What of a phase lies inside steps, % of theirs."""

    instances: int | None
    host_us: float | None
    host_percent: float | None
    launched_us: float | None
    launched_percent: float | None


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
    busy_percent: float | None
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
