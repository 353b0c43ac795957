"""Whose definitions a number follows: our own, or those of the tool it is compared with.

`TRACETUI` is what every view shows. The other two exist so that the very functions behind the views can be held
against what torch-tb-profiler and HolisticTraceAnalysis print; `docs/metrics.md` says why each difference is there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.kernel_names import tensor_cores_unclear

CATEGORIES = ("kernel", "communication", "memcpy", "memset", "runtime", "dataloader", "cpu_exec", "other")
"""What a step's time is split into."""
GPU_CATEGORIES = CATEGORIES[:4]
"""Those in which a GPU works."""

TB_COLLECTIVES = frozenset(
    f"{library}:{operation}"
    for library in ("nccl", "gloo")
    for operation in ("broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter")
)
"""Operators that torch-tb-profiler knows as communication (`NcclOpNameSet`, `GlooOpNameSet` in profiler/trace.py)."""

HTA_LAUNCHES = frozenset({"cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync"})
"""Calls in HTA's launch statistics (analyzers/cuda_kernel_analysis.py)."""

_HTA_COMMUNICATION = re.compile(r"nccl|hip|hccl|.*ncclKernel")
_HTA_MEMORY = re.compile(r"(hip)?Memcpy|(hip)?Memset|dma")
_HTA_NOT_COMPUTE = re.compile(r"nccl|hccl|.*Memcpy|.*Memset|dma|.*Sync|Stream Wait Event")


def hta_kernel_type(name: str) -> str:
    """HTA's kernel type of a device activity, by its name (`get_kernel_type`)."""
    if _HTA_COMMUNICATION.match(name):
        return "communication"
    if _HTA_MEMORY.match(name):
        return "memory"
    return "other" if _HTA_NOT_COMPUTE.match(name) else "computation"


@dataclass(frozen=True, slots=True)
class Conventions:
    """One set of definitions."""

    name: str
    priority: tuple[str, ...] = CATEGORIES[:-1]
    """Time that several categories claim belongs to the first of these."""
    communication: Literal["kernels", "operators", "kernel types"] = "kernels"
    """`kernels`: GPU time of NCCL/RCCL kernels. `operators`: host time of ``nccl:*`` operators and the kernels that
    carry their `External id`. `kernel types`: by HTA's name patterns."""
    driver_is_runtime: bool = True
    """Whether driver API calls count as runtime, and what they launched as a step's work."""
    named_steps: bool = True
    """Whether a program's own ranges may be its steps where the profiler marked none."""
    device_annotations: bool = False
    """Whether annotations projected on the GPU count as steps and CPU time."""
    restart_empty_slots: bool = False
    """Whether time counts twice once the first categories have filled all steps."""
    drop_partial_tail: bool = False
    """Whether last steps are left out that have no GPU work, or over a fifth less than the step before."""
    drop_last_step: bool = False
    """Whether only what was launched before the last step counts."""
    gaps_by_stream: bool = False
    """Whether idle time is the time between one activity and the next of each stream, negative where they overlap."""
    synchronization_is_work: bool = False
    """Whether the profiler's rows for stream and event waits count as device activity."""
    launch_calls: frozenset[str] | None = None
    """API calls in the launch statistics; None for every call that started device work."""
    failed_occupancy_is_zero: bool = False
    """Whether an estimate of occupancy that the profiler could not make counts as the 0 that it wrote."""
    operator_kernels_only: bool = False
    """Whether the tensor-core share covers only kernels whose launch carries an operator's `External id`."""
    operator_link: Literal["containment", "external_id"] = "containment"
    """How a launch finds its operator: the innermost around the call, or the one its `External id` names."""
    single_child_chains: bool = True
    """Whether an operator and its only child of the same name count as two calls (otherwise as one)."""
    recursion_counts_again: bool = False
    """Whether a call inside another of the same name adds to the name's total time once more."""
    module_self_without_operators: bool = False
    """Whether a module's own host time leaves out its operators, and its own device time is that of its operators."""
    tensor_core_operators: frozenset[str] = kernel_names.TENSOR_CORE_OPERATORS
    uses_tensor_cores: Callable[[str], bool] = kernel_names.uses_tensor_cores
    tensor_cores_unclear: Callable[[str], bool] = tensor_cores_unclear
    """Whether a name leaves it open."""


TRACETUI = Conventions("tracetui")
"""Our own definitions."""

TORCH_TB = Conventions(
    "torch-tb-profiler",
    priority=("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu_exec"),
    communication="operators",
    driver_is_runtime=False,
    named_steps=False,
    device_annotations=True,
    restart_empty_slots=True,
    drop_partial_tail=True,
    failed_occupancy_is_zero=True,
    operator_kernels_only=True,
    operator_link="external_id",
    single_child_chains=False,
    recursion_counts_again=True,
    module_self_without_operators=True,
    tensor_core_operators=kernel_names.TORCH_TB_TENSOR_CORE_OPERATORS,
    uses_tensor_cores=kernel_names.torch_tb_uses_tensor_cores,
    tensor_cores_unclear=lambda _: False,
)
"""torch-tb-profiler's last source (pytorch/kineto at 041e7ce)."""

HTA = Conventions(
    "HolisticTraceAnalysis",
    communication="kernel types",
    named_steps=False,
    drop_last_step=True,
    gaps_by_stream=True,
    synchronization_is_work=True,
    launch_calls=HTA_LAUNCHES,
)
"""HolisticTraceAnalysis 0.6.1 with its rounding to whole microseconds disabled."""
