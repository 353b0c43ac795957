"""NVIDIA's report tables: what `nsys stats` prints, made from any trace's frames.

Definitions: NVIDIA's description of its statistical reports (Nsight Systems Analysis Guide), and what `nsys stats`
printed for recordings, which `tests/test_nsys_stats.py` compares with value by value. docs/nsys.md says what differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.nsys import nvtx as nsys_nvtx
from tracetui.analysis.nsys import others
from tracetui.analysis.nsys import tables as nsys_tables
from tracetui.analysis.nsys.values import StatsTable
from tracetui.parsers.nsys.beside.unread import held

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracetui.analysis.selection import Selection


@dataclass(frozen=True, slots=True)
class _Report:
    title: str
    make: Callable[[Selection], pl.DataFrame]
    lacks: str
    """The data that the trace lacks if the report is empty, in NVIDIA's words."""
    old: str
    """Its name before 2023."""


_GPU, _KERNELS, _API = "GPU trace data", "CUDA kernel data", "CUDA trace data"
_MPI, _UNIFIED = "MPI event data", "CUDA Unified Memory data: copies and page faults of CPU and GPU"
_NVTX, _MEMORY = "NV Tools Extension (NVTX) data", "GPU memory data"
_REPORTS = {
    "cuda_api_gpu_sum": _Report("CUDA Summary (API/Kernels/MemOps)", nsys_tables.cuda_api_gpu_sum, _API, "apigpusum"),
    "cuda_api_sum": _Report("CUDA API Summary", nsys_tables.cuda_api_sum, _API, "cudaapisum"),
    "cuda_api_trace": _Report("CUDA API Trace", nsys_tables.cuda_api_trace, _API, "cudaapitrace"),
    "cuda_gpu_kern_gb_sum": _Report(
        "CUDA GPU Kernel/Grid/Block Summary", nsys_tables.cuda_gpu_kern_gb_sum, _KERNELS, ""
    ),
    "cuda_gpu_kern_sum": _Report("CUDA GPU Kernel Summary", nsys_tables.cuda_gpu_kern_sum, _KERNELS, "gpukernsum"),
    "cuda_gpu_mem_size_sum": _Report(
        "CUDA GPU MemOps Summary (by Size)", nsys_tables.cuda_gpu_mem_size_sum, _MEMORY, "gpumemsizesum"
    ),
    "cuda_gpu_mem_time_sum": _Report(
        "CUDA GPU MemOps Summary (by Time)", nsys_tables.cuda_gpu_mem_time_sum, _MEMORY, "gpumemtimesum"
    ),
    "cuda_gpu_sum": _Report("CUDA GPU Summary (Kernels/MemOps)", nsys_tables.cuda_gpu_sum, _GPU, "gpusum"),
    "cuda_gpu_trace": _Report("CUDA GPU Trace", nsys_tables.cuda_gpu_trace, _GPU, "gputrace"),
    "cuda_kern_exec_sum": _Report(
        "CUDA Kernel Launch & Exec Time Summary", nsys_tables.cuda_kern_exec_sum, _KERNELS, "kernexecsum"
    ),
    "cuda_kern_exec_trace": _Report(
        "CUDA Kernel Launch & Exec Time Trace", nsys_tables.cuda_kern_exec_trace, _KERNELS, "kernexectrace"
    ),
    "nvtx_gpu_proj_sum": _Report("NVTX GPU Projection Summary", nsys_nvtx.nvtx_gpu_proj_sum, _NVTX, "nvtxgpuprojsum"),
    "nvtx_gpu_proj_trace": _Report("NVTX GPU Projection Trace", nsys_nvtx.nvtx_gpu_proj_trace, _NVTX, "nvtxgpuproj"),
    "nvtx_kern_sum": _Report("NVTX Range Kernel Summary", nsys_nvtx.nvtx_kern_sum, _KERNELS, "nvtxkernsum"),
    "nvtx_pushpop_sum": _Report("NVTX Push/Pop Range Summary", nsys_nvtx.nvtx_pushpop_sum, _NVTX, "nvtxppsum"),
    "nvtx_pushpop_trace": _Report("NVTX Push/Pop Range Trace", nsys_nvtx.nvtx_pushpop_trace, _NVTX, "nvtxpptrace"),
    "nvtx_startend_sum": _Report("NVTX Start/End Range Summary", nsys_nvtx.nvtx_startend_sum, _NVTX, "nvtxsesum"),
    "nvtx_sum": _Report("NVTX Range Summary", nsys_nvtx.nvtx_sum, _NVTX, "nvtxsum"),
    "mpi_event_sum": _Report("MPI Event Summary", others.mpi_event_sum, _MPI, ""),
    "mpi_event_trace": _Report("MPI Event Trace", others.mpi_event_trace, _MPI, ""),
    "mpi_msg_size_sum": _Report("MPI Message Size Summary", others.mpi_msg_size_sum, _MPI, ""),
    "nvvideo_api_sum": _Report("NvVideo API Summary", others.nvvideo_api_sum, "NvVideo trace data", ""),
    "openacc_sum": _Report("OpenACC Summary", others.openacc_sum, "OpenACC event data", ""),
    "openmp_sum": _Report("OpenMP Summary", others.openmp_sum, "OpenMP event data", ""),
    "syscall_sum": _Report("Syscall Summary", others.syscall_sum, "syscall data", ""),
    "um_cpu_page_faults_sum": _Report(
        "Unified Memory CPU Page Faults Summary",
        others.um_cpu_page_faults_sum,
        "CUDA Unified Memory CPU page faults data",
        "",
    ),
    "um_sum": _Report("Unified Memory Analysis Summary", others.um_sum, _UNIFIED, ""),
    "um_total_sum": _Report("Unified Memory Totals Summary", others.um_total_sum, _UNIFIED, ""),
    "vulkan_api_sum": _Report("Vulkan API Summary", others.vulkan_api_sum, "Vulkan API trace data", ""),
    "osrt_sum": _Report("OS Runtime Summary", nsys_tables.osrt_sum, "OS Runtime trace data", "osrtsum"),
}
NOT_MADE = {
    "dx11_pix_sum": ("DX11 PIX Range Summary", "DX11 CPU debug markers", "D3D11_PIX_DEBUG_API"),
    "dx12_gpu_marker_sum": ("DX12 GPU Command List PIX Ranges Summary", "DX12 GPU debug markers", "DX12_WORKLOAD"),
    "dx12_pix_sum": ("DX12 PIX Range Summary", "DX12 CPU debug markers", "D3D12_PIX_DEBUG_API"),
    "network_congestion": ("Network Devices Congestion", "network device metrics", "NET_NIC_METRIC"),
    "opengl_khr_gpu_range_sum": (
        "OpenGL KHR_debug GPU Range Summary", "GPU KHR Extension (KHR_DEBUG) data", "KHR_DEBUG_EVENTS"
    ),
    "opengl_khr_range_sum": ("OpenGL KHR_debug Range Summary", "KHR Extension (KHR_DEBUG) data", "KHR_DEBUG_EVENTS"),
    "vulkan_api_trace": ("Vulkan API Trace", "Vulkan API trace data", "VULKAN_API"),
    "vulkan_gpu_marker_sum": (
        "Vulkan GPU Range Summary", "GPU Vulkan Debug Extension (GPU Vulkan Debug markers) data", "VULKAN_WORKLOAD"
    ),
    "vulkan_marker_sum": (
        "Vulkan Range Summary", "Vulkan Debug Extension (Vulkan Debug Util) data", "VULKAN_DEBUG_API"
    ),
    "wddm_queue_sum": ("WDDM Queue Utilization Summary", "WDDM event data", "WDDM_QUEUE_PACKET_START_EVENTS"),
}  # fmt: skip
"""Reports about graphics and networks, which are known by name only: title, data, and the table that has it."""
REPORTS = tuple(sorted({**_REPORTS, **NOT_MADE}))
"""The names that `nsys_report` takes, alphabetically."""
_ALIASES = {report.old: name for name, report in _REPORTS.items() if report.old} | {
    "nvtxsssum": "nvtx_startend_sum",
    "nvtx_pp_sum": "nvtx_pushpop_sum",
    "nvtx_se_sum": "nvtx_startend_sum",
}


def known_name(name: str) -> str | None:
    """The current name of a report, given that name or an older one; null for an unknown name."""
    return name if name in _REPORTS or name in NOT_MADE else _ALIASES.get(name)


def nsys_report(sel: Selection, name: str) -> StatsTable:
    """One of NVIDIA's tables.

    Args:
        sel: the trace and what of it the numbers are about.
        name: out of `REPORTS`, or an older name of one of them.

    Raises:
        KeyError: there is no such report.
    """
    current = known_name(name)
    if current is None:
        raise KeyError(name)
    if current in NOT_MADE:
        title, data, table = NOT_MADE[current]
        return StatsTable(
            current, title, pl.DataFrame(schema={"Name": pl.String}), data, not_made=table in held(sel.trace)
        )
    report = _REPORTS[current]
    return StatsTable(current, report.title, report.make(sel), report.lacks)
