"""Chrome JSON of other tools: their GPU work is read, once, and no key of a header makes a file Kineto's."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from sample_runs import recorded

from tracetui.app.cli.main import main
from tracetui.parsers import Trace
from tracetui.parsers.chrome.reader import read_chrome


def work(trace: Trace) -> dict[str, tuple[int, int]]:
    """How many activities of each kind there are, and their time."""
    rows = trace.device.group_by("kind").agg(pl.len(), pl.col("duration").sum()).rows()
    return {kind: (count, duration) for kind, count, duration in rows}


RECORDINGS = {
    "odd/rocprof_hsa.json": ("rocprof", {"kernel": (5, 2_010_000)}, {0}),
    "formats/rocprof/vector_add_results.json": (
        "rocprof",
        {"kernel": (1, 3_431_611), "memcpy": (3, 1_066_407_390)},
        {4},
    ),
    "formats/chrome/cupti_list.json": (
        "Chrome trace",
        {"kernel": (100, 29_354_725), "memcpy": (200, 7_157_614_710)},
        {1},
    ),
    "formats/chrome/nsightful_cut.json": ("Chrome trace", {"kernel": (874, 268_005_287)}, {0}),
}


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_gpu_work_of_other_tools_is_read(name: str) -> None:
    tool, expected, devices = RECORDINGS[name]
    trace = read_chrome(recorded(name))
    assert trace.info.tool == tool
    assert {kind: sums for kind, sums in work(trace).items() if kind != "annotation"} == expected
    assert set(trace.device["device"]) == devices
    assert not trace.device.filter(pl.col("kind") != "annotation")["launch"].drop_nulls().len()


def named(kind: str, number: int, name: str, thread: int = 0) -> dict[str, Any]:
    return {"ph": "M", "name": f"{kind}_name", "pid": number, "tid": thread, "args": {"name": name}}


def event(name: str, at: float, duration: float, process: int = 1, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "name": name, "pid": process, "tid": 1, "ts": at, "dur": duration, **more}


def read(folder: Path, events: list[dict[str, Any]], **header: Any) -> Trace:
    path = folder / "in.json"
    path.write_text(json.dumps({**header, "traceEvents": events} if header else events))
    return read_chrome(path)


HOST, GPU = "/job:localhost/replica:0/task:0/device:GPU:0 Compute", "/device:GPU:0/"
LINES = {1: HOST, 2: f"{GPU}stream:13 Compute", 3: f"{GPU}stream:14 Compute", 4: f"{GPU}stream:all Compute",
         5: f"{GPU}memcpy Compute"}  # fmt: skip


@pytest.mark.parametrize("lines", [(1, 2, 3, 4, 5), (1, 4, 5), (1, 2, 3)], ids=["all", "no single stream", "single"])
def test_a_kernel_in_two_lines_of_tensorflow_counts_once(tmp_path: Path, lines: tuple[int, ...]) -> None:
    events = [named("process", number, LINES[number]) for number in lines]
    for step in range(4):
        at = 100 * step
        events += [event("Conv2D", at + 20, 30, line, cat="Op") for line in (2, 4) if line in lines]
        events += [event("MEMCPYHtoD", at + 60, 5, line, cat="Op") for line in (3, 4, 5) if line in lines]
        events.append(event("Conv2D", at, 10, 1, cat="Op"))
    trace = read(tmp_path, events, x=1)
    assert (trace.info.kind, trace.info.tool) == ("chrome", "TensorFlow timeline")
    counted = {kind: sums for kind, sums in work(trace).items() if kind != "annotation"}
    assert counted == {"kernel": (4, 120_000), "memcpy": (4, 20_000)}
    assert trace.host["kind"].cast(pl.String).to_list() == ["operator"] * 4
    if 2 in lines:
        assert set(trace.device.filter(pl.col("kind") == "kernel")["stream"]) == {13}


def test_onnx_runtime_has_nodes_and_kernels(tmp_path: Path) -> None:
    events = [event("model_run", 0, 900, cat="Session")]
    events += [event(f"Conv_{i}_kernel_time", 100 * i, 90, cat="Node", args={"op_name": "Conv"}) for i in range(5)]
    events += [event("conv<float>(float*)", 100 * i, 50, -1, cat="Kernel", args={"stream": "7"}) for i in range(5)]
    trace = read(tmp_path, events)
    assert trace.info.tool == "ONNX Runtime profiler"
    assert work(trace) == {"kernel": (5, 250_000)}
    assert trace.device.select("device", "stream").unique().rows() == [(0, 7)]
    assert trace.host["kind"].value_counts().sort("count").rows() == [("annotation", 1), ("operator", 5)]


def test_a_record_with_a_correlation_id_is_a_call_or_what_it_launched(tmp_path: Path) -> None:
    def record(name: str, at: int, number: int, **more: int) -> dict[str, Any]:
        return event(name, at, 5, args={"correlationId": number, **more})

    names = ("void at::native::add<float>(float*)", "memcpy_like_kernel", "[MEMSET]", "Memcpy DtoH (Device -> Pinned)")
    events = [record(name, 10 * at, at, streamId=3, deviceId=2) for at, name in enumerate(names, 1)]
    events += [record("cudaLaunchKernel", 10 * at - 9, at) for at in (1, 2)]
    trace = read(tmp_path, events)
    assert trace.device.select("kind", "device", "stream").rows() == [
        ("kernel", 2, 3), ("kernel", 2, 3), ("memset", 2, 3), ("memcpy", 2, 3),
    ]  # fmt: skip
    assert trace.device["launch"].to_list() == [0, 1, None, None]


KEYS: list[dict[str, Any]] = [{"schemaVersion": 1}, {"deviceProperties": []}, {"traceName": "x"}]


@pytest.mark.parametrize("header", KEYS, ids=str)
def test_a_key_of_the_header_alone_makes_no_file_kinetos(tmp_path: Path, header: dict[str, Any]) -> None:
    plain = [event("work", 10 * at, 5) for at in range(4)]
    assert read(tmp_path, plain, **header).info.tool == "Chrome trace"
    for number in (("", "", ""), ("1 ", "0 ", "2 ")):  # early versions number the processes
        gpu = [
            *(named("process", at, f"{number[at]}{what}") for at, what in enumerate(("GPU3", "CPU HIP API", "COPY"))),
            *(event(name, 0, 5, at) for at, name in enumerate(("k", "hipMalloc", "CopyHostToDevice"))),
        ]
        trace = read(tmp_path, gpu, **header)
        assert (trace.info.tool, trace.device["device"].to_list()) == ("rocprof", [3, 3])
        assert trace.device["kind"].to_list() == ["kernel", "memcpy"]
    assert read(tmp_path, [event("f (/x.py:3)", 0, 5)], viztracer_metadata={}, **header).info.tool == "VizTracer"
    assert read(tmp_path, [*plain, event("aten::mm", 90, 5, cat="cpu_op")], **header).info.tool == "PyTorch Kineto"
    assert read(tmp_path, [], **header).info.tool == "PyTorch Kineto"


NO_GPU = {
    "clang -ftime-trace": ([event("ExecuteCompiler", 0, 100)], {"beginningOfTime": 1}),
    "browser's profile": ([named("thread", 1, "CrRendererMain", 3), event("RunTask", 0, 5, cat="v8")], {"x": 1}),
}


@pytest.mark.parametrize("tool", NO_GPU)
def test_what_is_no_programs_is_named_with_the_way_out(tmp_path, tool, capsys) -> None:
    events, header = NO_GPU[tool]
    assert read(tmp_path, events, **header).info.tool == tool
    assert main(["report", str(tmp_path / "in.json"), "--no-cache"]) == 0
    said = capsys.readouterr().out
    assert tool in said
    assert "no GPU work of a program" in " ".join(said.split())
    kernel = event("gemm", 0, 5, 0, cat="kernel", args={"device": 0, "stream": 7})
    assert read(tmp_path, [*events, kernel], **header).info.tool == "Chrome trace"


def test_launches_without_ids_are_not_said_to_have_lost_their_kernels(tmp_path, capsys) -> None:
    events = [event("cudaLaunchKernel", 10 * at, 5, cat="cuda_api", args={"correlationId": at}) for at in range(9)]
    events += [event("gemm", 10 * at + 6, 3, cat="cuda") for at in range(9)]
    read(tmp_path, events)
    assert main(["report", str(tmp_path / "in.json"), "--format", "json", "--no-cache"]) == 0
    found = json.loads(capsys.readouterr().out)["run"]["traces"][0]["findings"]
    assert "V17" not in [finding["id"] for finding in found]
