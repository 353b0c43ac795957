"""Databases of nvprof, rocprofv3, rocprof v1 and RPDTracer, against the figures of their own bytes."""

import gzip
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from judged import facts, fires, silent
from sample_runs import recorded

from tracetui.analysis.counters.counters import kernel_counters
from tracetui.analysis.findings.core.facts import Facts
from tracetui.app.cli.main import main
from tracetui.parsers import Run, Trace, open_path
from tracetui.parsers.errors import TraceError


def sums(trace: Trace, *by: str) -> dict[object, tuple[int, int]]:
    """Number and time of the work by these columns of the device frame."""
    keys = [pl.col(name).cast(pl.String) for name in by]
    found = trace.device.group_by(keys).agg(pl.len(), pl.col("duration").sum())
    return {row[0] if len(by) == 1 else row[:-2]: row[-2:] for row in found.rows()}


def calls(trace: Trace, name: str) -> int:
    return int((trace.host["name"].cast(pl.String) == name).sum())


def kinds(trace: Trace) -> dict[str, int]:
    return dict(trace.host.group_by(pl.col("kind").cast(pl.String)).len().rows())


def test_nvprof_with_one_kernel() -> None:
    trace = open_path(recorded("formats/nvprof/one_kernel.nvvp"), cache=False).main
    assert (trace.info.kind, trace.info.tool) == ("nvprof", "NVIDIA nvprof")
    assert sums(trace, "kind", "name") == {
        ("kernel", "_Z15squareMatrixGpuPdS_"): (1, 4_868_167),
        ("memcpy", "[CUDA memcpy Host-to-Device]"): (1, 12_513),
    }
    assert trace.device.filter(kind="memcpy")["bytes"].to_list() == [131_072]
    assert (kinds(trace)["runtime"], kinds(trace)["driver"], calls(trace, "cudaLaunchKernel")) == (8, 104, 1)
    launched = trace.host["name"].cast(pl.String)[trace.device.filter(kind="kernel")["launch"].item()]
    assert launched == "cudaLaunchKernel"
    (gpu,) = trace.info.devices
    assert (gpu.name, gpu.sm_count, gpu.memory_bandwidth) == ("TITAN X (Pascal)", 28, 480_480_000_000)
    assert trace.info.base_time == 1_635_255_385_567_024_396  # the first call, ns since 1970


def test_nvprof_with_markers_and_two_gpus() -> None:
    trace = open_path(recorded("formats/nvprof/qcu_a.nvvp.gz"), cache=False).main
    assert sums(trace, "kind")["kernel"] == (145, 395_426_740)
    assert sums(trace, "kind")["memset"] == (29, 2_335_344)
    assert sums(trace, "name")["_Z17give_random_valuePvm"] == (3, 81_119_962)
    moved = trace.device.filter(kind="memcpy").group_by(pl.col("name").cast(pl.String))
    assert set(moved.agg(pl.len(), pl.col("bytes").sum()).rows()) == {
        ("[CUDA memcpy Host-to-Device]", 18, 9_450_304),
        ("[CUDA memcpy Device-to-Host]", 9, 59_768_832),
        ("[CUDA memcpy Device-to-Device]", 21, 1_840_250_880),
    }
    assert kinds(trace) == {"runtime": 819, "driver": 5_115, "overhead": 961, "annotation": 142}
    assert trace.device["device"].unique().to_list() == [1]
    ranges = trace.host.filter(kind="annotation")
    assert ranges["domain"].unique().to_list() == ["NCCL"]
    assert ranges["duration"].min() > 0
    assert set(ranges["thread"]) == {2_384_667_072} < set(trace.host.filter(kind="runtime")["thread"])


def test_rocpd_of_eight_gpus() -> None:
    path = recorded("formats/rocpd/ck_bmm_results.db.gz")
    trace = open_path(path, cache=False).main
    assert (trace.info.kind, trace.info.tool) == ("rocprof", "AMD rocprofv3")
    found = {str(name).partition("<")[0]: of for name, of in sums(trace, "name").items()}
    assert found == {"__amd_rocclr_fillBufferAligned": (1, 24_175), "void ck_tile::kentry": (150, 2_580_371)}
    assert (trace.host.height, calls(trace, "hipLaunchKernel")) == (629, 150)
    launches = trace.host["name"].cast(pl.String).gather(trace.device["launch"])
    assert launches.value_counts().sort("count").rows() == [("hipMemset", 1), ("hipLaunchKernel", 150)]
    first = trace.device.row(0, named=True)
    assert (first["grid"], first["block"], first["device"], first["registers"]) == ([304, 1, 1], [256, 1, 1], 0, 12)
    (gpu,) = trace.info.devices
    assert (gpu.name, gpu.architecture, gpu.sm_count, gpu.warp_size) == ("AMD Instinct MI300X", "gfx942", 304, 64)
    assert "hunter2" not in repr(trace.info) + repr(trace.notes)


@pytest.fixture
def made(tmp_path: Path) -> Callable[[str], Path]:
    """Makes a database of these statements."""

    def make(statements: str) -> Path:
        path = tmp_path / "made.db"
        with sqlite3.connect(path) as connection:
            connection.executescript(statements)
        return path

    return make


V1 = """
CREATE TABLE A(k TEXT);
CREATE TABLE KERN("Index" INTEGER, KernelName TEXT, "gpu-id" INTEGER, "queue-id" INTEGER, pid INTEGER, tid INTEGER,
                  grd INTEGER, wgr INTEGER, lds INTEGER, arch_vgpr INTEGER, BeginNs INTEGER, EndNs INTEGER);
INSERT INTO KERN VALUES(7, '"vectoradd(float*, int) [clone .kd]"', 4, 1, 20, 20, 1024, 256, 512, 8, 1000, 1700);
CREATE TABLE COPY("Index" INTEGER, Name TEXT, BeginNs INTEGER, EndNs INTEGER);
INSERT INTO COPY VALUES(0, 'CopyHostToDevice', 100, 400);
CREATE TABLE HIP("Index" INTEGER, pid INTEGER, tid INTEGER, BeginNs INTEGER, EndNs INTEGER, Name TEXT);
INSERT INTO HIP VALUES(7, 20, 21, 900, 950, 'hipLaunchKernel');
"""
RPD = """
CREATE TABLE rocpd_string(id INTEGER PRIMARY KEY, string TEXT);
INSERT INTO rocpd_string VALUES(1, 'gemm'), (2, 'KernelExecution'), (3, 'CopyDeviceToHost'), (4, 'hipLaunchKernel');
CREATE TABLE rocpd_api(id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, start INTEGER, end INTEGER,
                       apiName_id INTEGER);
INSERT INTO rocpd_api VALUES(9, 5, 6, 10, 20, 4);
CREATE TABLE rocpd_op(id INTEGER PRIMARY KEY, gpuId INTEGER, queueId INTEGER, start INTEGER, end INTEGER,
                      description_id INTEGER, opType_id INTEGER);
INSERT INTO rocpd_op VALUES(1, 2, 0, 30, 70, 1, 2), (2, 2, 0, 80, 90, 1, 3);
CREATE TABLE rocpd_api_ops(id INTEGER PRIMARY KEY, api_id INTEGER, op_id INTEGER);
INSERT INTO rocpd_api_ops VALUES(1, 9, 1);
"""


def test_rocprof_v1_database(made: Callable[[str], Path]) -> None:
    trace = open_path(made(V1), cache=False).main
    assert (trace.info.kind, trace.info.tool) == ("rocprof", "AMD rocprof")
    rows = trace.device.select("kind", pl.col("name").cast(pl.String), "start", "duration", "device", "grid", "launch")
    assert rows.rows() == [
        ("memcpy", "[CUDA memcpy Host-to-Device]", 0, 300, None, None, None),
        ("kernel", "vectoradd(float*, int) [clone .kd]", 900, 700, 4, [4, 1, 1], 0),
    ]


def test_rpd_database(made: Callable[[str], Path]) -> None:
    trace = open_path(made(RPD), cache=False).main
    rows = trace.device.select("kind", pl.col("name").cast(pl.String), "duration", "device", "process", "launch").rows()
    assert rows == [("kernel", "gemm", 40, 2, 5, 0), ("memcpy", "[CUDA memcpy Device-to-Host]", 10, 2, 5, None)]


def test_nothing_is_looked_up_row_by_row_without_an_index(made: Callable[[str], Path]) -> None:
    rows = ",".join(f"({number}, 0, 0)" for number in range(1_200))
    statements = RPD.replace("id INTEGER PRIMARY KEY, api_id", "id INTEGER, api_id")
    trace = open_path(made(statements + f"INSERT INTO rocpd_api_ops VALUES{rows};"), cache=False).main
    assert trace.device["launch"].to_list() == [None, None]


def test_two_recordings_in_one_rocpd_file_keep_their_names(made: Callable[[str], Path]) -> None:
    statements = ""
    for number in (1, 2):
        end = f"_0000000{number}_0000_0000_0000_000000000000"
        statements += f"""
        CREATE TABLE rocpd_metadata{end}(id INTEGER PRIMARY KEY, tag TEXT, value TEXT);
        CREATE TABLE rocpd_info_process{end}(id INTEGER PRIMARY KEY, pid INTEGER);
        INSERT INTO rocpd_info_process{end} VALUES(1, {number});
        CREATE TABLE rocpd_info_kernel_symbol{end}(id INTEGER PRIMARY KEY, display_name TEXT, arch_vgpr_count INTEGER);
        INSERT INTO rocpd_info_kernel_symbol{end} VALUES(1, 'kernel {number}', 8);
        CREATE TABLE rocpd_kernel_dispatch{end}(id INTEGER PRIMARY KEY, pid INTEGER, kernel_id INTEGER, start INTEGER,
                                                end INTEGER);
        INSERT INTO rocpd_kernel_dispatch{end} VALUES(1, 1, 1, {number}0, {number}5);"""
    trace = open_path(made(statements), cache=False).main
    assert trace.device.select("process", pl.col("name").cast(pl.String)).rows() == [(1, "kernel 1"), (2, "kernel 2")]


def test_no_copy_is_made_of_a_database_that_scrub_does_not_know(made, tmp_path, capsys) -> None:
    assert main(["scrub", str(made(V1)), "--output", str(tmp_path / "copy.db")]) != 0
    assert "a database of AMD rocprof, of which no copy is made" in capsys.readouterr().err
    assert not (tmp_path / "copy.db").exists()


def test_another_programs_database_is_refused(made: Callable[[str], Path]) -> None:
    with pytest.raises(TraceError, match="an SQLite database of another program"):
        open_path(made("CREATE TABLE people(name TEXT); INSERT INTO people VALUES('a');"), cache=False)


# --- what rocprofv3 writes beside databases


def test_rocprofv3s_json() -> None:
    trace = open_path(recorded("formats/rocprof/v3_results.json.gz"), cache=False).main
    assert (trace.info.kind, trace.source.events_parsed) == ("rocprof", 1_500)
    found = sums(trace, "name")
    assert sum(time for _, time in found.values()) == 4_997_375
    assert len(found) == 3
    assert found["__amd_rocclr_copyBuffer"] == (967, 3_364_316)
    (gpu,) = trace.info.devices
    assert (gpu.name, gpu.architecture) == ("AMD Instinct MI350X", "gfx950")
    assert "/workspace" not in repr(trace.info) + repr(trace.notes)


@pytest.mark.parametrize("part", ["kernel_trace.csv", "memory_copy_trace.csv"])
def test_rocprofv3s_csv_files_of_one_prefix_are_one_recording(part: str) -> None:
    trace = open_path(recorded(f"formats/rocprof/v3_{part}"), cache=False).main
    assert sums(trace, "kind") == {"kernel": (8, 93_334), "memcpy": (4, 402_766)}
    kernels = {str(name).partition("(")[0]: of for name, of in sums(trace, "name").items()}
    assert kernels["void addition_kernel<float>"] == (2, 28_987)
    assert trace.device.filter(kind="kernel")["grid"][0].to_list() == [16, 1024, 1]


def test_rocprofv3s_calls_and_markers_are_those_of_the_kernels(tmp_path: Path) -> None:
    (tmp_path / "1_kernel_trace.csv").write_text(
        '"Kind","Agent_Id","Queue_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
        '"KERNEL_DISPATCH","Agent 4",1,"f<int, 2>(int)",9,1200,1500\n"KERNEL_DISPATCH",4\n'
    )
    header = '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
    (tmp_path / "1_hip_api_trace.csv").write_text(header + '"HIP_RUNTIME_API","hipLaunchKernel",77,78,9,1000,1100\n')
    (tmp_path / "1_marker_api_trace.csv").write_text(header + '"MARKER_CORE_API","load",77,78,0,900,1150\n')
    (tmp_path / "1_agent_info.csv").write_text(
        '"Node_Id","Agent_Type","Cu_Count","Product_Name"\n2,"CPU",0,"CPU"\n3,"GPU",304,"One"\n4,"GPU",304,"Two"\n'
    )
    run = open_path(tmp_path, cache=False)
    assert (len(run.traces), run.others) == (1, ())
    trace = run.main
    (row,) = trace.device.rows(named=True)
    assert (row["name"], row["process"], row["device"], row["duration"]) == ("f<int, 2>(int)", 77, 1, 300)
    assert [trace.host["name"][row[of]] for of in ("launch", "range")] == ["hipLaunchKernel", "load"]
    assert [gpu.name for gpu in trace.info.devices] == ["Two"]
    assert [(note.kind, note.reason, note.count) for note in trace.notes] == [("skipped", "row cut short", 1)]


@pytest.mark.parametrize("content", ['{"rocprofiler-sdk-tool": [{"agents": 5}]}', '{"rocprofiler-sdk-tool": [{'])
def test_odd_json_of_rocprofv3_is_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(TraceError, match="rocprofv3's JSON, which can't be read"):
        open_path(tmp_path / "a.json", cache=False)


def test_numbers_of_more_than_64_bits_are_none(tmp_path: Path) -> None:
    kernels = [{"start_timestamp": start, "end_timestamp": 5, "dispatch_info": {}} for start in (1, 2**64 - 1)]
    said = {"rocprofiler-sdk-tool": [{"buffer_records": {"kernel_dispatch": kernels}}]}
    (tmp_path / "a.json").write_text(json.dumps(said))
    assert open_path(tmp_path / "a.json", cache=False).main.device["duration"].to_list() == [4]


def test_rocprof_v1s_json() -> None:
    trace = open_path(recorded("formats/rocprof/vector_add_results.json"), cache=False).main
    assert sums(trace, "kind") == {"kernel": (1, 3_431_611), "memcpy": (3, 1_066_407_390)}
    assert trace.device.filter(kind="kernel")["device"].to_list() == [4]


# --- what AMD's profilers counted


def counted(run: Run) -> dict[tuple[str, str], list[float]]:
    """The values of each counter of each kernel, in the order of the launches."""
    (trace,) = run.of_kind("ncu")
    rows = trace.counters.with_columns(name=trace.device["name"].cast(pl.String).gather(trace.counters["device_row"]))
    found = rows.group_by("name", pl.col("metric").cast(pl.String), maintain_order=True).agg("value")
    return {(name, metric): values for name, metric, values in found.rows()}


OF_THE_DOCUMENTATION = """\
"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id","Kernel_Name",\
"Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count","Counter_Name",\
"Counter_Value","Start_Timestamp","End_Timestamp"
1,1,"Agent 1",1,15606,15606,1048576,17,"void add<float>(float*, int)",64,0,0,8,0,16,"SQ_WAVES",16384.000000,\
3200098838431081,3200098838483232
4,4,"Agent 1",1,15606,15606,1048576,18,"divide(float*, int)",64,0,0,12,0,16,"SQ_WAVES",16384.000000,\
3200098838879399,3200098838927550
1,1,"Agent 1",1,15606,15606,1048576,17,"void add<float>(float*, int)",64,0,0,8,0,16,"FETCH_SIZE",4.5e+01,\
3200098838431081,3200098838483232
"""


def test_counters_of_rocprofv3_alone(tmp_path: Path) -> None:
    (tmp_path / "1_counter_collection.csv").write_text(OF_THE_DOCUMENTATION)
    run = open_path(tmp_path, cache=False)
    assert [trace.info.tool for trace in run.traces] == ["AMD rocprofv3", "AMD rocprofv3, counters"]
    rows = run.main.device.select(pl.col("name").cast(pl.String), "start", "duration", "grid", "block", "registers")
    assert rows.rows() == [
        ("void add<float>(float*, int)", 0, 52_151, [16_384, 1, 1], [64, 1, 1], 8),
        ("divide(float*, int)", 448_318, 48_151, [16_384, 1, 1], [64, 1, 1], 12),
    ]
    assert counted(run) == {
        ("void add<float>(float*, int)", "SQ_WAVES"): [16_384],
        ("void add<float>(float*, int)", "FETCH_SIZE"): [45 * 1024],
        ("divide(float*, int)", "SQ_WAVES"): [16_384],
    }
    kernels = kernel_counters(run.of_kind("ncu")[0])
    assert kernels.select("name", "duration_ns", "dram_bytes").rows() == [
        ("void add<float>(float*, int)", 52_151, None), ("divide(float*, int)", 48_151, None)
    ]  # fmt: skip


def test_counters_of_rocprofv3_beside_its_kernels(tmp_path: Path) -> None:
    """The kernels are those of the trace, which names no process; a dispatch that it lacks is a kernel too."""
    (tmp_path / "1_counter_collection.csv").write_text(OF_THE_DOCUMENTATION)
    (tmp_path / "1_kernel_trace.csv").write_text(
        '"Kind","Agent_Id","Queue_Id","Dispatch_Id","Kernel_Name","Correlation_Id","Start_Timestamp",'
        '"End_Timestamp"\n"KERNEL_DISPATCH","Agent 1",1,9,"late",9,3200098838999999,3200098839999999\n'
        '"KERNEL_DISPATCH","Agent 1",1,1,"first",1,3200098838431081,3200098838483232\n'
    )
    run = open_path(tmp_path, cache=False)
    assert run.main.device["name"].cast(pl.String).to_list() == ["first", "divide(float*, int)", "late"]
    assert counted(run) == {
        ("first", "SQ_WAVES"): [16_384],
        ("first", "FETCH_SIZE"): [46_080],
        ("divide(float*, int)", "SQ_WAVES"): [16_384],
    }


def test_counters_of_rocprofv3_are_of_the_run_of_a_database_beside_them(tmp_path: Path) -> None:
    """Another recording of the same program: its kernels don't count again, and the product of a grid is no other."""
    (tmp_path / "a.db").write_bytes(gzip.decompress(recorded("formats/rocpd/ck_bmm_results.db.gz").read_bytes()))
    header = OF_THE_DOCUMENTATION.partition("\n")[0]
    with sqlite3.connect(tmp_path / "a.db") as connection:
        rows = connection.execute(
            "SELECT dispatch_id, name, grid_x * grid_y * grid_z, workgroup_x * workgroup_y * workgroup_z, pid, start,"
            " end FROM kernels"
        ).fetchall()
    lines = [
        f'{at},{at},"Agent 1",1,{pid},1,{grid},1,"{name}",{group},0,0,8,0,16,"SQ_WAVES",{at}.5,{start + 7},{end + 7}'
        for at, name, grid, group, pid, start, end in rows
    ]
    (tmp_path / "1_counter_collection.csv").write_text("\n".join([header, *lines]) + "\n")
    run = open_path(tmp_path, cache=False)
    assert ([trace.info.tool for trace in run.traces], run.others) == (["AMD rocprofv3", "AMD rocprofv3, counters"], ())
    assert [trace.device.height for trace in run.traces] == [151, 151]
    assert silent("V25", Facts(run))


def test_counters_of_rocprofv3s_json(tmp_path: Path) -> None:
    """The layout of rocprofiler-sdk's tool, put into a real file: parts of the GPU, a second pass, a kernel alone."""
    content = json.loads(gzip.decompress(recorded("formats/rocprof/v3_results.json.gz").read_bytes()))
    (process,) = content["rocprofiler-sdk-tool"]
    first, second = process["buffer_records"]["kernel_dispatch"][:2]
    alone = second | {"dispatch_info": second["dispatch_info"] | {"dispatch_id": 99_999_999}}
    process["counters"] = [{"id": {"handle": 7}, "name": "SQ_WAVES"}, {"id": {"handle": 8}, "name": "FETCH_SIZE"}]
    process["callback_records"] = {
        "counter_collection": [
            {"thread_id": 1, "dispatch_data": dispatch, "arch_vgpr_count": 8, "records": records}
            for dispatch, records in (
                (first, [{"counter_id": {"handle": 7}, "value": value} for value in (3.0, 4.0)]),
                (first, [{"counter_id": {"handle": handle}, "value": 9.0} for handle in (7, 8)]),
                (alone, [{"counter_id": {"handle": 7}, "value": 1.5}]),
            )
        ]
    }
    process["buffer_records"]["marker_api"] = [
        {"kind": 1, "operation": 0, "thread_id": 5, "correlation_id": {"internal": 3}, "start_timestamp": 1_000,
         "end_timestamp": 2_000}
    ]  # fmt: skip
    process.setdefault("strings", {})["marker_api"] = [{"key": 3, "value": "step 0"}]
    (tmp_path / "1_results.json").write_text(json.dumps(content))
    run = open_path(tmp_path, cache=False)
    assert run.main.device.height == 1_501
    assert run.main.host.select(pl.col("name", "kind").cast(pl.String), "duration").rows() == [
        ("step 0", "annotation", 1_000)
    ]
    (counters,) = run.of_kind("ncu")
    assert counters.device.height == 2
    assert sorted(counters.counters.select("device_row", pl.col("metric").cast(pl.String), "value").rows()) == [
        (0, "FETCH_SIZE", 9 * 1024), (0, "SQ_WAVES", 7), (1, "SQ_WAVES", 1.5)
    ]  # fmt: skip


def test_counters_of_rocprof_v1_without_times() -> None:
    run = open_path(recorded("formats/rocprof/vector_add_counters.csv"), cache=False)
    (trace,) = run.traces
    (row,) = trace.device.rows(named=True)
    assert (row["kind"], row["start"], row["duration"], row["grid"], row["device"]) == (
        "kernel", None, None, [3_906_250, 1, 1], 4
    )  # fmt: skip
    name = "vector_add(float*, float*, float*, int) [clone .kd]"
    assert counted(run) == {(name, "GPUBusy"): [100], (name, "Wavefronts"): [15_625_000]}


def test_counters_of_rocprof_v1_with_times(tmp_path: Path) -> None:
    (tmp_path / "counters.csv").write_text(
        "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,vgpr,sgpr,fbar,sig,WriteSize,DispatchNs,"
        "BeginNs,EndNs,CompleteNs\n\n"
        '0,"_occa_weightedNorm2_0.kd",0,1,0,16433,16439,262144,512,4096,0,16,32,0,0x7fa90163e700,4,4556288436792544,'
        "4556288440165491,4556288440211571,4556288440226587\n"
    )
    run = open_path(tmp_path / "counters.csv", cache=False)
    assert run.main.device["duration"].to_list() == [46_080]
    assert run.main.notes[0].reason == "description of the GPUs (agent_info.csv)"
    assert counted(run) == {("_occa_weightedNorm2_0.kd", "WriteSize"): [4096]}


def test_counters_of_rocpd_are_what_its_own_view_sums(tmp_path: Path) -> None:
    """Rows as rocprofv3 writes them, a part of the GPU each, put into a real database, which sums them itself."""
    path = tmp_path / "counted.db"
    path.write_bytes(gzip.decompress(recorded("formats/rocpd/ck_bmm_results.db.gz").read_bytes()))
    with sqlite3.connect(path) as connection:
        (events,) = connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'rocpd_pmc_event_%'").fetchone()
        kernels, info = (events.replace("pmc_event", name) for name in ("kernel_dispatch", "info_pmc"))
        connection.execute(
            f"INSERT INTO {info}(id, nid, pid, agent_id, name, symbol) VALUES(1, 1, 1, 1, 'SQ_WAVES', 'SQ_WAVES'),"
            "(2, 1, 1, 1, 'TCC_HIT', 'TCC_HIT')"
        )
        for part in range(3):
            connection.execute(
                f"INSERT INTO {events}(event_id, pmc_id, value)"
                f" SELECT event_id, 1 + dispatch_id % 2, dispatch_id / 7.0 + {part} FROM {kernels}"
                " WHERE dispatch_id > 5"
            )
        connection.execute(f"INSERT INTO {events}(event_id, pmc_id, value) VALUES(999999, 1, 5)")
        theirs = connection.execute("SELECT counter_name, value FROM counters_collection ORDER BY start").fetchall()
    run = open_path(path, cache=False)
    (trace,) = run.of_kind("ncu")
    assert len(theirs) == trace.device.height == 146
    assert trace.counters.select(pl.col("metric").cast(pl.String), "value").rows() == theirs
    assert (run.main.device.height, run.main.counters.height) == (151, 0)
    assert [(note.reason, note.count) for note in run.main.notes] == [("kernel of a counter", 1)]


def test_what_is_said_of_kernels_that_were_not_counted(tmp_path: Path) -> None:
    (tmp_path / "1_counter_collection.csv").write_text(OF_THE_DOCUMENTATION)
    (tmp_path / "1_kernel_trace.csv").write_text(
        '"Kind","Agent_Id","Queue_Id","Process_Id","Dispatch_Id","Kernel_Name","Correlation_Id","Start_Timestamp",'
        '"End_Timestamp"\n"KERNEL_DISPATCH","Agent 1",1,15606,9,"late",9,3200098838999999,3200098839999999\n'
    )
    finding = fires("V4", facts(tmp_path))
    assert finding.title.startswith("ROCm counted only 9.12 % of the kernel time")
    assert finding.next_command == ""
