"""Exports of Nsight Systems: what a file says reaches the frames, whatever its year and its oddities."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from nsys_file import PID, NsysFile, global_pid

from tracetui.analysis.overview import overview
from tracetui.analysis.ranges import ranges
from tracetui.analysis.selection import select
from tracetui.parsers import Trace
from tracetui.parsers.nsys.reader import read_nsys
from tracetui.parsers.schema import DEVICE, HOST, STEPS

Read = "Callable[[NsysFile], Trace]"


@pytest.fixture(params=[True, False], ids=["bulk", "careful"])
def read(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[NsysFile], Trace]:
    """Writes a file and reads it by one of the two roads."""
    return lambda file: read_nsys(file.write(tmp_path / "a.sqlite"), bulk=request.param)


def host(trace: Trace, *columns: str) -> list[Any]:
    rows = trace.host.select(columns).rows()
    return [row[0] for row in rows] if len(columns) == 1 else rows


def device(trace: Trace, *columns: str) -> list[Any]:
    rows = trace.device.select(columns).rows()
    return [row[0] for row in rows] if len(columns) == 1 else rows


def reasons(trace: Trace, kind: str) -> dict[str, int]:
    return {note.reason: note.count for note in trace.notes if note.kind == kind}


def range_names(trace: Trace) -> list[str | None]:
    """The range of each device activity."""
    names = trace.host["name"].cast(pl.String).to_list()
    return [None if row is None else names[row] for row in trace.device["range"].to_list()]


def test_a_launch_inside_a_range_inside_a_step(read: Callable[[NsysFile], Trace]) -> None:
    file = NsysFile()
    with file.range("ProfilerStep#3", 0, 1000), file.range("forward", 100, 500):
        file.launch("void gemm<float>(T1)", call=(110, 120), kernel=(300, 450), grid=(4, 2, 1), block=(64, 2, 1),
                    registers=40, registersPerThread=48, staticSharedMemory=100, dynamicSharedMemory=28)  # fmt: skip
    trace = read(file)
    assert host(trace, "kind", "name", "start", "duration", "process", "thread", "parent", "depth", "style") == [
        ("runtime", "cudaLaunchKernel", 110, 10, PID, PID, None, 0, None),
        ("annotation", "ProfilerStep#3", 0, 1000, PID, PID, None, 0, "push_pop"),
        ("annotation", "forward", 100, 400, PID, PID, 1, 1, "push_pop"),
    ]
    (kernel,) = trace.device.to_dicts()
    assert {name: value for name, value in kernel.items() if value is not None} == {
        "kind": "kernel", "name": "void gemm<float>(T1)", "start": 300, "duration": 150, "process": PID, "device": 0,
        "stream": 7, "context": 1, "correlation": 1, "launch": 0, "range": 2, "step": 0, "grid": [4, 2, 1],
        "block": [64, 2, 1], "registers": 48, "shared_memory": 128,
    }  # fmt: skip
    assert trace.steps.rows() == [(3, "ProfilerStep#3", 0, 1000)]
    assert (trace.host.schema, trace.device.schema, trace.steps.schema) == (
        pl.Schema(HOST), pl.Schema(DEVICE), pl.Schema(STEPS)
    )  # fmt: skip
    assert trace.info.kind == "nsys"
    assert trace.info.tool_version == "2025.3.2.0"
    assert (trace.source.events_total, trace.source.events_parsed, trace.source.partial) == (4, 4, False)


def test_text_that_is_not_utf8(read: Callable[[NsysFile], Trace]) -> None:
    """Trap 1."""
    file = NsysFile()
    file.kernel(b"kernel\xff<int>", 0, 10)
    file.push_pop(b"\xd8\xee\xe3", 0, 10)
    file.system("CpuDescription", b"\xff\xfe\x00")
    file.diagnostic(b"lost \xe9vents")
    trace = read(file)
    assert device(trace, "name") == ["kernel\N{REPLACEMENT CHARACTER}<int>"]
    assert host(trace, "name") == ["\N{REPLACEMENT CHARACTER}" * 3]
    assert reasons(trace, "missing")["Nsight Systems warning: lost \N{REPLACEMENT CHARACTER}vents"] == 1


def test_no_kernels_at_all(read: Callable[[NsysFile], Trace]) -> None:
    """Trap 2."""
    file = NsysFile()
    file.os_call("poll", 0, 10)
    trace = read(file)
    assert trace.device.height == 0
    assert host(trace, "kind", "name") == [("os", "poll")]


def test_an_old_file_has_no_metadata_and_fewer_columns(read: Callable[[NsysFile], Trace]) -> None:
    """Traps 3 and 5."""
    file = NsysFile(2020)
    file.launch("k", call=(0, 10), kernel=(20, 30))
    file.memcpy(30, 40, kind=2, source=2, target=1, bytes=64)
    file.memcpy(40, 50, kind=99, source=0, target=99)
    file.memset(50, 60, memory=1)
    file.push_pop("r", 0, 50)
    trace = read(file)
    assert trace.info.tool_version is None
    assert trace.info.devices == ()
    assert device(trace, "kind", "name", "memory_kinds", "bytes") == [
        ("kernel", "k", None, None),
        ("memcpy", "[CUDA memcpy Device-to-Host]", "Device -> Pinned", 64),
        ("memcpy", "[CUDA memcpy kind 99]", "Pageable -> kind 99", 1024),
        ("memset", "[CUDA memset]", "Pinned", 1024),
    ]
    assert reasons(trace, "missing") == {"description of the GPUs (table TARGET_INFO_GPU)": 1}


@pytest.mark.parametrize(("year", "table"), [(2022, "EXPORT_META_DATA"), (2025, "META_DATA_EXPORT")])
def test_the_version_table_of_each_year(read: Callable[[NsysFile], Trace], year: int, table: str) -> None:
    """Trap 4."""
    file = NsysFile(year, version="2022.4.2.1")
    file.kernel("k", 0, 1)
    assert table in file.tables
    assert read(file).info.tool_version == "2022.4.2.1"


def test_correlation_ids_of_two_processes_collide(read: Callable[[NsysFile], Trace]) -> None:
    """Trap 6."""
    file = NsysFile()
    file.launch("a", call=(0, 10), kernel=(20, 30), pid=1, correlation=5)
    file.launch("b", call=(3, 12), kernel=(22, 33), pid=2, correlation=5)
    file.kernel("c", 40, 50, pid=3, correlation=5)
    trace = read(file)
    launch = trace.device["launch"].to_list()
    assert [None if row is None else trace.host["process"][row] for row in launch] == [1, 2, None]
    assert device(trace, "process") == [1, 2, 3]


def test_kernels_without_their_call(read: Callable[[NsysFile], Trace]) -> None:
    """Trap 7: the recording began between the call and its kernel."""
    file = NsysFile()
    file.launch("a", call=(100, 110), kernel=(120, 130), correlation=50)
    for number, correlation in enumerate((1, 49, 51, 10**9, None, -3)):
        file.kernel("early", number, number + 1, correlation=correlation)
    trace = read(file)
    assert device(trace, "launch") == [None] * 6 + [0]
    assert device(trace, "correlation")[:6] == [1, 49, 51, 10**9, None, -3]


def test_whole_cuda_graphs_count_as_work(read: Callable[[NsysFile], Trace]) -> None:
    """Trap 8."""
    file = NsysFile()
    with file.range("replay", 0, 100):
        number = file.call("cudaGraphLaunch_v10000", 10, 20)
    file.graph(30, 90, graph=4, exec_id=9, correlation=number)
    file.graph(100, 110, graph=None, exec_id=9)
    trace = read(file)
    assert device(trace, "kind", "name", "duration", "launch") == [
        ("graph", "[CUDA graph 4]", 60, 0),
        ("graph", "[CUDA graph 9]", 10, None),
    ]
    assert range_names(trace) == ["replay", None]
    (reason,) = (reason for reason in reasons(trace, "missing") if "graph" in reason)
    assert "--cuda-graph-trace=node" in reason
    assert reasons(trace, "missing")[reason] == 2


def test_graphs_captured_node_by_node(read: Callable[[NsysFile], Trace]) -> None:
    file = NsysFile()
    number = file.call("cudaGraphLaunch_v10000", 10, 20)
    file.kernel("a", 30, 40, correlation=number, graphNodeId=8589934592)
    file.kernel("b", 40, 50, correlation=number, graphNodeId=8589934593)
    file.kernel("c", 60, 70)
    trace = read(file)
    assert device(trace, "graph_node") == [8589934592, 8589934593, None]
    assert device(trace, "launch") == [0, 0, None]
    assert not any("graph" in reason for reason in reasons(trace, "missing"))


def test_negative_times(read: Callable[[NsysFile], Trace]) -> None:
    """Trap 9."""
    file = NsysFile()
    file.row("CUDA_GRAPH_EVENTS", start=-158789230, end=-158789230, eventClass=95, globalTid=global_pid(PID), nameId=0)
    file.push_pop("early", -1000, 500)
    file.launch("k", call=(-900, -890), kernel=(-500, 100))
    trace = read(file)
    assert device(trace, "start", "duration") == [(-500, 600)]
    assert range_names(trace) == ["early"]


def test_an_end_before_the_start_is_no_duration(read: Callable[[NsysFile], Trace]) -> None:
    file = NsysFile()
    file.kernel("k", 100, 90)
    trace = read(file)
    assert device(trace, "start", "duration") == [(100, 0)]
    assert reasons(trace, "repaired") == {"end before the start, taken as no duration": 1}


def test_synchronisations_are_named_by_their_call(read: Callable[[NsysFile], Trace]) -> None:
    """Trap 10: `syncType` means something else every few versions. Also stream -1, written as 2^32 - 1."""
    file = NsysFile()
    for sync_type, name in (
        (1, "cudaDeviceSynchronize_v3020"),
        (2, "cudaStreamSynchronize_v3020"),
        (0, "cuCtxSynchronize"),
    ):
        number = file.call(name, 10 * sync_type, 10 * sync_type + 5)
        file.synchronization(10 * sync_type + 1, 10 * sync_type + 4, sync_type=sync_type, correlation=number)
    file.synchronization(90, 95, correlation=12345, stream=7)
    assert device(read(file), "kind", "name", "stream") == [
        ("synchronization", "cuCtxSynchronize", None),
        ("synchronization", "cudaDeviceSynchronize", None),
        ("synchronization", "cudaStreamSynchronize", None),
        ("synchronization", "Synchronization", 7),
    ]


def test_the_start_of_os_tracing_is_no_call(read: Callable[[NsysFile], Trace]) -> None:
    """Trap 11."""
    file = NsysFile()
    file.os_call("profiling started", 0, 100, event_class=31)
    file.os_call("ioctl", 10, 20)
    trace = read(file)
    assert host(trace, "kind", "name", "correlation") == [("os", "ioctl", None)]
    assert trace.source.events_total == trace.source.events_parsed == 2


def test_kernels_keep_their_demangled_name(read: Callable[[NsysFile], Trace]) -> None:
    """Trap 13: short names merge kernels that have nothing in common."""
    file = NsysFile()
    file.kernel("void copy<float>(T1)", 0, 1, short="copy")
    file.kernel("void copy<double>(T1)", 1, 2, short="copy")
    assert device(read(file), "name") == ["void copy<float>(T1)", "void copy<double>(T1)"]


def test_names_of_calls_as_nsys_stats_has_them(read: Callable[[NsysFile], Trace]) -> None:
    """Trap 14: exactly ``_v`` and four digits at the end are dropped."""
    file = NsysFile()
    given = ("cudaMemcpyAsync_v3020", "cudaLaunchKernel_v7000", "cudaStreamIsCapturing_v10000", "cuGetProcAddress_v2",
             "cudaGetDeviceProperties_v2_v12000", "cuLaunchKernel", "cudaFoo_v12", "x_v30200")  # fmt: skip
    for number, name in enumerate(given):
        file.call(name, number * 10, number * 10 + 5, driver=name.startswith("cuL"))
    trace = read(file)
    assert host(trace, "name") == [
        "cudaMemcpyAsync", "cudaLaunchKernel", "cudaStreamIsCapturing_v10000", "cuGetProcAddress_v2",
        "cudaGetDeviceProperties_v2_v12000", "cuLaunchKernel", "cudaFoo_v12", "x_v30200",
    ]  # fmt: skip
    assert host(trace, "kind").count("driver") == 1


@pytest.mark.parametrize("registered", [False, True])
def test_labels_of_emit_nvtx_are_folded(read: Callable[[NsysFile], Trace], registered: bool) -> None:
    """Trap 15."""
    file = NsysFile()
    file.push_pop("aten::to, seq = 5, op_id = 7, sizes = [[2, 3], []]", 0, 10, registered=registered)
    file.push_pop("aten::to, op_id = 317177", 20, 30, registered=registered)
    file.push_pop("FlashAttnFunc, seq = 47575, op_id = 9, input_op_ids = [[1,0]]", 40, 50, registered=registered)
    file.push_pop("MulBackward0, stashed seq=12", 60, 70, registered=registered)
    file.push_pop("layers, sizes of [1]", 80, 90, registered=registered)
    assert host(read(file), "name", "sequence", "external_id", "input_shapes") == [
        ("aten::to", 5, 7, "[[2, 3], []]"),
        ("aten::to", None, 317177, None),
        ("FlashAttnFunc", 47575, 9, None),
        ("MulBackward0", 12, None, None),
        ("layers, sizes of [1]", None, None, None),
    ]


def test_registered_strings_domains_and_marks(read: Callable[[NsysFile], Trace]) -> None:
    """Trap 16. A domain belongs to its process; what was never named has no name, as in nsys."""
    file = NsysFile()
    file.domain("NCCL", 1, at=5)
    file.domain("renamed later", 1, at=50)
    file.domain("other process", 1, pid=200)
    file.push_pop("ncclAllReduce", 10, 20, registered=True, domain=1)
    file.push_pop("inline", 30, 40, textId=file.string("not this"))
    file.push_pop("elsewhere", 10, 20, domain=1, pid=200)
    file.push_pop("unnamed domain", 50, 60, domain=7)
    file.push_pop(None, 70, 80)
    file.mark("here", 15)
    trace = read(file)
    assert host(trace, "name", "domain", "style", "duration", "parent") == [
        ("ncclAllReduce", "NCCL", "push_pop", 10, None),
        ("here", "", "mark", 0, 0),
        ("inline", "", "push_pop", 10, None),
        ("unnamed domain", "", "push_pop", 10, None),
        ("(unknown)", "", "push_pop", 10, None),
        ("elsewhere", "other process", "push_pop", 10, None),
    ]
    assert trace.source.events_parsed == 9


def test_the_shorter_of_two_ranges_of_two_styles_is_the_inner_one(read: Callable[[NsysFile], Trace]) -> None:
    """A start/end range inside a push/pop one holds the launch, as in the tree of ranges; and the other way round."""
    file = NsysFile()
    file.push_pop("step", 0, 1000)
    file.start_end("forward", 100, 300)
    file.start_end("epoch", 0, 2000)
    file.launch("a", call=(150, 160), kernel=(200, 250))
    file.launch("b", call=(400, 410), kernel=(450, 500))
    file.launch("c", call=(1400, 1410), kernel=(1450, 1500))
    trace = read(file)
    names = trace.host["name"].gather(trace.device["range"]).cast(pl.String).to_list()
    assert names == ["forward", "step", "epoch"]
    table = ranges(select(trace))
    own = dict(table.select("name", "device_self_ns").rows())
    assert own == {"epoch": 50, "step": 50, "forward": 50}


def test_ranges_that_begin_and_end_anywhere(read: Callable[[NsysFile], Trace]) -> None:
    """Start/end ranges overlap: none is cut, none cuts, and they hold what no push/pop range does."""
    file = NsysFile()
    file.start_end("a", 0, 100)
    file.start_end("b", 50, 150)
    file.start_end("c", 140, 300, end_tid=7)
    file.nvtx(71, "nvtxt", 400, 500)
    file.push_pop("inner", 60, 90)
    file.launch("in both", call=(55, 58), kernel=(200, 210))
    file.launch("in push/pop", call=(70, 75), kernel=(211, 220))
    file.launch("in b only", call=(98, 102), kernel=(221, 230))
    file.launch("in what ends elsewhere", call=(200, 210), kernel=(231, 240))
    trace = read(file)
    loose = trace.host.filter(pl.col("style").is_in(["start_end", "cross_thread"]))
    assert loose.select("name", "style", "start", "duration", "parent", "depth").rows() == [
        ("a", "start_end", 0, 100, None, 0),
        ("b", "start_end", 50, 100, None, 0),
        ("c", "cross_thread", 140, 160, None, 0),
        ("nvtxt", "start_end", 400, 100, None, 0),
    ]
    assert range_names(trace) == ["b", "inner", "b", None]


def test_a_range_holds_a_launch_only_if_it_holds_the_whole_call(read: Callable[[NsysFile], Trace]) -> None:
    file = NsysFile()
    file.push_pop("outer", 0, 100)
    file.push_pop("ends within the call", 10, 50)
    file.launch("k", call=(45, 60), kernel=(70, 80))
    file.launch("exactly", call=(10, 50), kernel=(81, 90))
    assert range_names(read(file)) == ["outer", "ends within the call"]


def test_ranges_of_two_domains_may_overlap(read: Callable[[NsysFile], Trace]) -> None:
    file = NsysFile()
    file.push_pop("a", 0, 100, domain=0)
    file.push_pop("b", 50, 150, domain=1)
    file.push_pop("c", 110, 140, domain=1)
    assert host(read(file), "name", "duration", "parent", "depth") == [
        ("a", 100, None, 0), ("b", 100, None, 0), ("c", 30, 1, 1),
    ]  # fmt: skip


def test_ranges_that_were_never_closed_last_to_the_latest_nvtx_time(read: Callable[[NsysFile], Trace]) -> None:
    file = NsysFile()
    file.push_pop("open", 10, None)
    file.push_pop("inside", 20, 300)
    file.mark("latest", 700)
    file.launch("k", call=(100, 110), kernel=(5000, 9000))
    file.call("cudaStreamSynchronize_v3020", 200, None)
    trace = read(file)
    assert host(trace, "name", "duration") == [
        ("cudaLaunchKernel", 10), ("cudaStreamSynchronize", 8800), ("open", 690), ("inside", 280), ("latest", 0),
    ]  # fmt: skip
    assert range_names(trace) == ["inside"]
    assert reasons(trace, "repaired") == {
        "range without an end, taken to last to the latest NVTX time": 1,
        "call without an end, taken to last to the end of the recording": 1,
    }


def test_rows_without_times_are_counted(read: Callable[[NsysFile], Trace]) -> None:
    file = NsysFile()
    file.kernel("k", None, 10)
    file.kernel("k", 10, None)
    file.kernel("k", 10, 20)
    file.push_pop("r", None, 5)
    trace = read(file)
    assert trace.device.height == 1
    assert reasons(trace, "skipped") == {
        "kernel without a start or an end": 2,
        "NVTX range without a start or an end": 1,
    }
    assert (trace.source.events_total, trace.source.events_parsed) == (4, 1)


def test_copies_dominate(read: Callable[[NsysFile], Trace]) -> None:
    """Trap 17. Labels come from the file where it has them."""
    file = NsysFile()
    file.row("ENUM_CUDA_MEMCPY_OPER", id=1, name="X", label="Host-to-Elsewhere")
    file.row("ENUM_CUDA_MEM_KIND", id=0, name="X", label="Paged")
    for number in range(3):
        file.memcpy(100 * number, 100 * number + 90)
    file.memcpy(300, 310, kind=8, source=2, target=2)
    file.memcpy(310, 320, kind=None, source=None, target=None)
    assert device(read(file), "name", "memory_kinds") == [
        *[("[CUDA memcpy Host-to-Elsewhere]", "Paged -> Device")] * 3,
        ("[CUDA memcpy Device-to-Device]", "Device -> Device"),
        ("[CUDA memcpy Unknown]", None),
    ]


def test_threads_processes_and_gpus_are_named(read: Callable[[NsysFile], Trace]) -> None:
    file = NsysFile()
    file.gpu(2, "Big GPU", computeMajor=8, computeMinor=6)
    file.gpu(3, "Other GPU")
    file.cuda_device(gpu=2, cuda=0, pid=PID)
    file.cuda_device(gpu=3, cuda=0, pid=200)
    file.process("python3")
    file.process("bystander", pid=999)
    file.thread_name("comm", 1)
    file.thread_name("worker", 2)
    file.thread_name("idle", 3)
    file.launch("a", call=(0, 1), kernel=(2, 3), tid=1)
    file.launch("b", call=(0, 1), kernel=(3, 4), tid=2)
    file.launch("c", call=(0, 1), kernel=(4, 5), pid=200)
    file.nvtx(39, "data loader", 0, tid=2)
    file.nvtx(33, "io", 0, category=4)
    trace = read(file)
    assert trace.info.threads == ((PID, 1, "comm"), (PID, 2, "data loader"))
    assert trace.info.processes == ((PID, "python3"),)
    assert device(trace, "device") == [2, 2, 3]
    assert [(gpu.id, gpu.name, gpu.compute_capability) for gpu in trace.info.devices] == [
        (2, "Big GPU", "8.6"), (3, "Other GPU", "9.0"),
    ]  # fmt: skip
    assert trace.info.devices[0].max_threads_per_sm == 2048
    assert dict(trace.info.captured)["NVTX categories"] == "io"


def test_events_that_no_frame_holds_are_counted_and_named(read: Callable[[NsysFile], Trace]) -> None:
    file = NsysFile()
    file.kernel("k", 0, 10)
    for n in range(5):
        file.row("SCHED_EVENTS", start=n, cpu=1, isSchedIn=n % 2, globalTid=global_pid(PID))
    for n in (3, 9):  # nsys numbers these itself, not without gaps
        file.row("COMPOSITE_EVENTS", id=n, start=n, cpu=1, threadState=1, globalTid=global_pid(PID), cpuCycles=1)
    file.row("CUPTI_ACTIVITY_KIND_CUDA_EVENT", deviceId=0, streamId=7, eventId=1)
    file.row("SAMPLING_CALLCHAINS", id=3, symbol=1, module=1, stackDepth=0)
    file.row("TARGET_INFO_PROCESS", start=0)
    trace = read(file)
    assert reasons(trace, "skipped") == {
        "events of the table SCHED_EVENTS, which --section threads reads when asked": 5,
        "events of the table COMPOSITE_EVENTS, which --section threads reads when asked": 2,
        "events of the table CUPTI_ACTIVITY_KIND_CUDA_EVENT, which is not read": 1,
    }
    assert (trace.source.events_total, trace.source.events_parsed) == (9, 1)


def test_a_warning_of_the_profiler_names_its_process(read: Callable[[NsysFile], Trace]) -> None:
    file = NsysFile()
    file.call("cudaFree", 0, 10)
    file.process("/usr/bin/python3")
    file.process("nvidia-smi", 200)
    file.row("DIAGNOSTIC_EVENT", severity=2, text="Events were lost.", globalPid=global_pid(200))
    file.row("DIAGNOSTIC_EVENT", severity=2, text="Events were late.", globalPid=global_pid(PID))
    file.row("DIAGNOSTIC_EVENT", severity=2, text="All is slow.", globalPid=1 << 48)
    assert set(reasons(read(file), "missing")) >= {
        "Nsight Systems warning of process 200 (nvidia-smi), of which no event is here: Events were lost.",
        f"Nsight Systems warning of process {PID} (python3): Events were late.",
        "Nsight Systems warning: All is slow.",
    }


def test_a_file_without_gpu_work_is_as_long_as_it_was_recorded(read: Callable[[NsysFile], Trace]) -> None:
    file = NsysFile()
    file.call("cudaFree", 1_000, 2_000)
    file.row("ANALYSIS_DETAILS", globalVid=1, duration=50_000, startTime=777, stopTime=50_777)
    found = overview(select(read(file)))
    assert (found.average_step_ns, found.recorded_ns) == (50_000, 50_000)


def test_what_the_profiler_itself_says(read: Callable[[NsysFile], Trace]) -> None:
    file = NsysFile()
    file.kernel("k", 0, 10)
    file.overhead("CUPTI Buffer flush", 5, 8)
    file.diagnostic("Profiling has started.", severity=1)
    file.diagnostic("Not all CUDA events might have been collected.", severity=2)
    file.diagnostic("Not all CUDA events might have been collected.", severity=2)
    file.diagnostic("CUPTI failed\nwith 35", severity=3)
    file.row("ANALYSIS_DETAILS", globalVid=1, duration=1000, startTime=777, stopTime=1777)
    file.row("TARGET_INFO_SESSION_START_TIME", utcEpochNs=1795151433711414714)
    file.system("NvDriverVersion", "580.159.04")
    file.capture_setting("PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE", "Graph")
    trace = read(file)
    missing = reasons(trace, "missing")
    assert missing["Nsight Systems warning: Not all CUDA events might have been collected."] == 2
    assert missing["Nsight Systems error: CUPTI failed with 35"] == 1
    assert not any("started" in reason for reason in missing)
    assert host(trace, "kind", "name") == [("overhead", "CUPTI Buffer flush")]
    assert trace.info.window == (0, 1000)
    assert trace.info.base_time == 1795151433711414714
    assert dict(trace.info.captured)["NVIDIA driver"] == "580.159.04"
    assert dict(trace.info.captured)["CUDA graph trace"] == "Graph"


@pytest.mark.parametrize(
    ("names", "steps"),
    [
        (["ProfilerStep#4", "ProfilerStep#5"], [4, 5]),
        (["batch_0", "batch_1"], [0, 1]),
        (["Iteration 7", "Iteration 8"], [7, 8]),
        (["iteration-12"], []),  # what occurs once is no step
        (["train step: 3/100", "train step: 4/100"], [3, 4]),
        (["step[1]", "step[2]"], [1, 2]),
        (["train_step", "train_step"], [0, 1]),
        (["train_step"], []),
        (["forward", "forward"], []),
        (["footstep 1", "stepper 2"], []),
        (["batch_size 4"], []),
        (["epoch 1", "epoch 2"], []),
    ],
)
def test_steps(read: Callable[[NsysFile], Trace], names: list[str], steps: list[int]) -> None:
    file = NsysFile()
    for number, name in enumerate(names):
        with file.range(name, 100 * number, 100 * number + 90):
            file.push_pop("step", 100 * number + 10, 100 * number + 20)
    trace = read(file)
    if steps or len(names) == 1:
        assert trace.steps["index"].to_list() == steps
    else:  # the ranges inside are all there is
        assert trace.steps["name"].to_list() == ["step"] * len(names)


def test_steps_are_those_of_the_outermost_family(read: Callable[[NsysFile], Trace]) -> None:
    file = NsysFile()
    for number in range(2):
        with file.range(f"step {number}", 100 * number, 100 * number + 90):
            for part in range(3):
                file.push_pop(f"batch {part}", 100 * number + 20 * part + 10, 100 * number + 20 * part + 25)
        file.push_pop(f"step {number}", 100 * number, 100 * number + 40, tid=9)
    assert read(file).steps.select("index", "start", "duration").rows() == [(0, 0, 90), (1, 100, 90)]


def test_ids_that_the_list_of_strings_lacks(read: Callable[[NsysFile], Trace]) -> None:
    file = NsysFile()
    file.kernel("k", 0, 1, demangledName=4711)
    file.call("c", 0, 1, nameId=4712)
    file.push_pop(None, 0, 5, textId=4713)
    file.kernel("k", 2, 3)
    trace = read(file)
    assert device(trace, "name") == ["(unknown)", "k"]
    assert host(trace, "name") == ["(unknown)", "(unknown)"]
    assert reasons(trace, "missing")["name that the file's list of strings lacks"] == 3


def test_escape_sequences_stay_in_names(read: Callable[[NsysFile], Trace]) -> None:
    """The screen clears them, so that a name stays what it is."""
    file = NsysFile()
    file.push_pop("\x1b[31mred\x1b[0m", 0, 5)
    assert host(read(file), "name") == ["\x1b[31mred\x1b[0m"]


def test_tables_without_the_columns_that_matter(read: Callable[[NsysFile], Trace]) -> None:
    file = NsysFile()
    file.declare("CUPTI_ACTIVITY_KIND_KERNEL", "start end")
    file.row("CUPTI_ACTIVITY_KIND_KERNEL", start=5, end=9)
    file.declare("NVTX_EVENTS", "start end eventType")
    file.row("NVTX_EVENTS", start=1, end=2, eventType=59)
    file.declare("CUPTI_ACTIVITY_KIND_RUNTIME", "end nameId")
    file.row("CUPTI_ACTIVITY_KIND_RUNTIME", end=3, nameId=0)
    file.declare("CUPTI_ACTIVITY_KIND_MEMSET", "other")
    file.row("CUPTI_ACTIVITY_KIND_MEMSET", other=1)
    file.declare("OSRT_API", "start end eventClass")
    trace = read(file)
    assert device(trace, "start", "duration", "device", "launch") == [(5, 4, None, None)]
    assert host(trace, "kind", "process", "thread", "start") == [("annotation", None, None, 1)]
    assert reasons(trace, "skipped") == {"API call without a start or an end": 1}


def test_wide_numbers(read: Callable[[NsysFile], Trace]) -> None:
    """Columns are kept narrow; a value that doesn't fit widens them, nulls and all."""
    file = NsysFile()
    file.kernel("a", 0, 1, correlation=None, stream=1)
    file.kernel("b", 1, 2, correlation=2**40, stream=2**33)
    file.kernel("c", 2, 3, correlation=-5, stream=None, contextId=2**32 - 1)
    file.memcpy(3, 4, bytes=2**45)
    trace = read(file)
    assert device(trace, "correlation", "stream", "context", "bytes") == [
        (None, 1, 1, None), (2**40, 2**33, 1, None), (-5, None, None, None), (None, 7, 1, 2**45),
    ]  # fmt: skip


def test_events_are_ordered_by_process_thread_and_start(read: Callable[[NsysFile], Trace]) -> None:
    file = NsysFile()
    for number in (3, 1, 2):
        file.call("late", 50, 60, pid=2, tid=number)
        file.call("early", 10, 20, pid=2, tid=number)
        file.call("other", 10, 20, pid=1, tid=number)
        file.push_pop("r", 0, 5, pid=2, tid=number)
    rows = host(read(file), "process", "thread", "name")
    assert rows == [
        (process, thread, name)
        for process in (1, 2)
        for thread in (1, 2, 3)
        for name in (("other",) if process == 1 else ("early", "late", "r"))
    ]


def test_an_export_without_events(read: Callable[[NsysFile], Trace]) -> None:
    file = NsysFile()
    file.declare("NVTX_EVENTS", "start end eventType text:TEXT")
    trace = read(file)
    assert (trace.host.height, trace.device.height, trace.steps.height) == (0, 0, 0)
    assert trace.host.schema == pl.Schema(HOST)
