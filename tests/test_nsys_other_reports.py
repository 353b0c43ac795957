"""NVIDIA's reports of what no frame holds: every one that nsys 2025.3 has is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from nsys_file import PID, NsysFile, global_pid, global_tid

from tracetui.analysis.nsys.stats import NOT_MADE, REPORTS, nsys_report
from tracetui.analysis.selection import select
from tracetui.app.reports.nsys_report import render
from tracetui.parsers.nsys.reader import read_nsys

if TYPE_CHECKING:
    from pathlib import Path

    from tracetui.analysis.selection import Selection

OF_2025 = frozenset(
    [
        "cuda_api_gpu_sum",
        "cuda_api_sum",
        "cuda_api_trace",
        "cuda_gpu_kern_gb_sum",
        "cuda_gpu_kern_sum",
        "cuda_gpu_mem_size_sum",
        "cuda_gpu_mem_time_sum",
        "cuda_gpu_sum",
        "cuda_gpu_trace",
        "cuda_kern_exec_sum",
        "cuda_kern_exec_trace",
        "dx11_pix_sum",
        "dx12_gpu_marker_sum",
        "dx12_pix_sum",
        "mpi_event_sum",
        "mpi_event_trace",
        "mpi_msg_size_sum",
        "network_congestion",
        "nvtx_gpu_proj_sum",
        "nvtx_gpu_proj_trace",
        "nvtx_kern_sum",
        "nvtx_pushpop_sum",
        "nvtx_pushpop_trace",
        "nvtx_startend_sum",
        "nvtx_sum",
        "nvvideo_api_sum",
        "openacc_sum",
        "opengl_khr_gpu_range_sum",
        "opengl_khr_range_sum",
        "openmp_sum",
        "osrt_sum",
        "syscall_sum",
        "um_cpu_page_faults_sum",
        "um_sum",
        "um_total_sum",
        "vulkan_api_sum",
        "vulkan_api_trace",
        "vulkan_gpu_marker_sum",
        "vulkan_marker_sum",
        "wddm_queue_sum",
    ]
)
"""What ``nsys stats --help-reports`` of 2025.3.1 lists."""
TID = global_tid(PID, PID)
ADDRESS = 0x7F5500000000


@pytest.fixture
def sel(tmp_path: Path) -> Selection:
    file = NsysFile()
    file.kernel("k", 0, 10)
    s = file.string
    for start, end, name, size in ((0, 10, "MPI_Send", 4096), (20, 35, "MPI_Send", 1_000_000)):
        file.row("MPI_P2P_EVENTS", start=start, end=end, globalTid=TID, textId=s(name), tag=7, remoteRank=1, size=size)
    file.row("MPI_COLLECTIVES_EVENTS", start=40, end=100, globalTid=TID, textId=s("MPI_Allreduce"), rootRank=0,
             size=2048, recvSize=1024)  # fmt: skip
    file.row("MPI_COLLECTIVES_EVENTS", start=100, end=130, globalTid=TID, textId=s("MPI_Barrier"))
    file.row("MPI_RANKS", globalTid=TID, rank=3)
    for table, times in (("PARALLEL", ((0, 100), (200, 350))), ("TASK", ((10, 20),))):
        for start, end in times:
            file.row(f"OPENMP_EVENT_KIND_{table}", start=start, end=end, globalTid=TID, nameId=s(table.title()))
    for start, end, kind in ((0, 10, 107), (10, 40, 107), (50, 99, 106)):
        file.row("SYSCALL", start=start, end=end, eventClass=kind, globalTid=TID, nameId=s("read"))
    file.row("NVVIDEO_DECODER_API", start=0, end=7, globalTid=TID, nameId=s("cuvidDecodePicture_v1000"))
    file.row("CUPTI_ACTIVITY_KIND_OPENACC_OTHER", start=0, end=9, nameId=s("acc_wait"), lineNo=12, srcFile=s("a.c"))
    file.row("DX12_WORKLOAD", start=0, end=9)
    for start, end, size, kind in ((0, 1000, 4096, 11), (2000, 2500, 8192, 12)):
        file.memcpy(start, end, kind=kind, bytes=size, virtualAddress=ADDRESS)
    file.memcpy(5, 9, kind=11, bytes=64, virtualAddress=77)
    for _ in range(3):
        file.row("CUDA_UM_CPU_PAGE_FAULT_EVENTS", start=1, globalPid=global_pid(PID), address=ADDRESS,
                 CpuInstruction=s("touch(float*)"), sourceFile=s("a.c"), sourceLine=5)  # fmt: skip
    file.row("CUDA_UM_GPU_PAGE_FAULT_EVENTS", start=1, end=2, globalPid=global_pid(PID), deviceId=0, address=ADDRESS,
             numberOfPageFaults=4, faultAccessType=1)  # fmt: skip
    return select(read_nsys(file.write(tmp_path / "a.sqlite")))


def test_every_report_of_nsys_is_known() -> None:
    assert set(REPORTS) == OF_2025


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("mpi_event_sum", ['52.2,60,1,60.0,60.0,60,60,0.0,collectives,MPI_Allreduce',
                           '26.1,30,1,30.0,30.0,30,30,0.0,collectives,MPI_Barrier',
                           '21.7,25,2,12.5,12.5,10,15,3.5,p2p,MPI_Send']),
        ("mpi_msg_size_sum", ["1004096,2,502048.0,502048.0,4096,1000000,704210.5,p2p,MPI_Send",
                              "2048,1,2048.0,2048.0,2048,2048,0.0,coll_send,MPI_Allreduce",
                              "1024,1,1024.0,1024.0,1024,1024,0.0,coll_recv,MPI_Allreduce"]),
        ("mpi_event_trace", ["0,10,10,MPI_Send,100,100,7,3,1,,0.004,,", "20,35,15,MPI_Send,100,100,7,3,1,,1.000,,",
                             "40,100,60,MPI_Allreduce,100,100,,3,,0,,0.002,0.001",
                             "100,130,30,MPI_Barrier,100,100,,3,,,,,"]),
        ("openmp_sum", ["96.2,250,2,125.0,125.0,100,150,35.4,Parallel", "3.8,10,1,10.0,10.0,10,10,0.0,Task"]),
        ("syscall_sum", ["100.0,40,2,20.0,20.0,10,30,14.1,read"]),
        ("nvvideo_api_sum", ["100.0,7,1,7.0,7.0,7,7,0.0,Decoder,cuvidDecodePicture"]),
        ("openacc_sum", ["100.0,9,1,9.0,9.0,9,9,0.0,acc_wait@a.c:12"]),
        ("um_total_sum", ["0.004,0.008,3,4,0x4d,0x7f5500000000"]),
        ("um_sum", ["0x4d,0.000,,,,16000.000", "0x7f5500000000,0.004,0.008,3,4,8191.992"]),
        ("um_cpu_page_faults_sum", ["3,touch(float*),a.c,5"]),
    ],
)  # fmt: skip
def test_a_report_as_csv(sel: Selection, name: str, rows: list[str]) -> None:
    text, notes = render(sel, [name], "csv", None, ascii=False)
    assert text.splitlines()[1:] == rows
    assert not notes


def test_what_is_not_made_says_so_and_what_is_not_there_too(sel: Selection) -> None:
    _, notes = render(sel, ["dx12_gpu_marker_sum", "wddm_queue_sum", "vulkan_api_sum"], "csv", None, ascii=False)
    assert notes == [
        "dx12_gpu_marker_sum is a report that tracetui does not make: "
        "nsys stats --report dx12_gpu_marker_sum a.sqlite does",
        "a.sqlite does not contain WDDM event data: wddm_queue_sum has no rows",
        "a.sqlite does not contain Vulkan API trace data: vulkan_api_sum has no rows",
    ]
    assert all(not nsys_report(sel, name).rows.height for name in NOT_MADE)
