"""By whose definitions numbers are: our own, or those of a tool that the functions behind the views are held against.

A tool's definitions are in the tests (`other_definitions.py`); docs/metrics.md says why each difference is there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.kernel_names import tensor_cores_unclear

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Intervals
    from tracetui.parsers import Trace

CATEGORIES = ("kernel", "communication", "memcpy", "memset", "runtime", "dataloader", "cpu_exec", "other")
"""What a step's time is split into."""
GPU_CATEGORIES = CATEGORIES[:4]
"""Those in which a GPU works."""


@dataclass(frozen=True, slots=True)
class Conventions:
    """One set of definitions; a function takes the place of ours."""

    name: str
    priority: tuple[str, ...] = CATEGORIES[:-1]
    """Time that several categories claim belongs to the first of these."""
    uses_tensor_cores: Callable[[str], bool] = kernel_names.uses_tensor_cores
    tensor_cores_unclear: Callable[[str], bool] = tensor_cores_unclear
    """Whether a name leaves it open."""
    tensor_core_operators: frozenset[str] = kernel_names.TENSOR_CORE_OPERATORS
    recursion_counts_again: bool = False
    """Whether a call inside another of the same name adds to the name's total time once more."""
    failed_occupancy_is_zero: bool = False
    """Whether an estimate of occupancy that the profiler could not make counts as the 0 that it wrote."""
    restart_empty_slots: bool = False
    """Whether time counts twice once the first categories have filled all steps."""
    is_one_gpu: bool = False
    """Whether all GPUs count as one, and where none computes, the CPU."""
    steps: Callable[[Trace], Any] | None = None
    """The steps of a recording (`steps.StepSlots`)."""
    host: Callable[[Trace], dict[str, Intervals]] | None = None
    """`overview.host_ranges`."""
    work: Callable[..., Any] | None = None
    """Which rows count as GPU work, of the trace and those that do by ours."""
    sorts: Callable[..., Any] | None = None
    """Which rows communicate and which compute, of the trace, the rows and those that are kernels."""
    gaps: Callable[..., Any] | None = None
    """`idle.gaps_of`, of the trace and its activities."""
    launches: Callable[..., Any] | None = None
    """`host.LAUNCHES`, of a selection."""
    tensor_share: Callable[..., float | None] | None = None
    """The share of kernel time on tensor cores, of the trace and a GPU's kernels."""
    extras: Callable[..., Any] | None = None
    """Which host rows stand in the tree of operators besides, of the frame and the kinds of its rows."""
    is_operator: Callable[[str], bool] | None = None
    """Whether a row of the tree counts as an operator."""
    calls: Callable[..., Any] | None = None
    """`operator_tree.api_calls`."""
    merged: Callable[..., Any] | None = None
    """The tree with calls made one, of the tree, names and operators: tree, new place of each node, nodes left."""
    module_times: Callable[..., dict[str, Any]] | None = None
    """Times of modules in place of ours, of the tree, the modules and how many they are."""


TRACETUI = Conventions("tracetui")
"""Our own definitions."""
