"""Devices that are not CUDA's: what ran on them, what they are called, and whose runtime launched it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import json_reader
import polars as pl
import pytest
from as_json import report
from chrome_file import ChromeFile
from laid_out import report_text
from sample_runs import recorded
from test_chrome_reader import assert_same

from tracetui.analysis.base.api_names import runtime
from tracetui.analysis.findings.core import program
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.kernels import kernels
from tracetui.analysis.memops import memops
from tracetui.analysis.overview import overview
from tracetui.analysis.selection import select
from tracetui.parsers import open_path
from tracetui.parsers.chrome.reader import read_chrome, stream_chrome

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tracetui.parsers import Trace

MTIA, AIU = "public/hta_mtia_inf.json.gz", "public/aiu_allreduce_tp4.json.gz"
AMD_HEADER = {"hip_runtime_version": 60443483}


def by_kind(trace: Trace) -> dict[str, int]:
    rows = trace.device.group_by(pl.col("kind").cast(pl.String)).agg(pl.col("duration").sum())
    return dict(rows.iter_rows())


def test_work_of_an_mtia_is_device_work(recording: Callable[[str], Trace]) -> None:
    """Times are sums of the file's own decimals; waiting for an event and marking one is no work."""
    trace = recording(MTIA)
    assert by_kind(trace) == {"kernel": 414_085_123, "memcpy": 45_371_190, "synchronization": 352_668_857}
    assert set(trace.device["device"]) == {17}
    assert trace.device["stream"].n_unique() == 12
    assert dict(kernels(select(trace)).select("name", "calls").iter_rows()) == {"merge": 36, "pe_exe": 24, "remote": 37}
    assert memops(select(trace))["bytes"].to_list() == [788_900_408]
    assert overview(select(trace)).gpu["name"].to_list() == ["ARTEMIS"]
    # calls of its runtime launched it
    work = trace.device.filter(pl.col("correlation").is_not_null(), pl.col("kind") != "synchronization")
    assert work["launch"].null_count() < 0.1 * work.height


def test_both_ways_of_reading_agree_on_an_mtia() -> None:
    assert_same(read_chrome(recorded(MTIA)), json_reader.read_trace(recorded(MTIA)))
    assert sum(batch["device"].height for batch in stream_chrome(recorded(MTIA)) if "device" in batch) == 0


def test_work_of_an_aiu_is_device_work(recording: Callable[[str], Trace]) -> None:
    """Its cores compute, or prepare until what they need is there; the exchange of a collective is communication."""
    trace = recording(AIU)
    assert by_kind(trace) == {"kernel": 5_538_947, "synchronization": 3_014_995}
    assert set(trace.device["device"]) == {0, 1, 2, 3}
    assert set(trace.device["stream"]) == {0, 1, 2, 3}
    found = overview(select(trace))
    assert found.per_step["collective_ns"].sum() > 0
    names = {row["short_name"]: row["category"] for row in kernels(select(trace)).iter_rows(named=True)}
    assert names["add_11 Cmpt Exec"] != "communication"
    assert {kind for name, kind in names.items() if "SenRdma" in name} == {"communication"}


def ascend(path: Path) -> Path:
    """What torch_npu writes: no categories, numbers in quotes, a process for the hardware."""
    file = ChromeFile()
    for name, key, said in (("process_name", "name", "Ascend Hardware"), ("process_labels", "labels", "NPU 0")):
        file.events.append({"ph": "M", "name": name, "pid": 1305281504, "tid": 0, "args": {key: said}})
    file.events.append({"ph": "M", "name": "process_name", "pid": 4711, "tid": 0, "args": {"name": "CANN"}})
    for name, begin in (("MatMulV2", 10), ("MEMCPY_ASYNC", 20), ("EVENT_WAIT", 30), ("hcom_allReduce__046_0", 40)):
        row: dict[str, Any] = {"ph": "X", "name": name, "pid": 1305281504, "tid": 3, "ts": f"{begin}.500", "dur": "4.5"}
        file.events.append(row | {"args": {"Task Type": "AI_CORE", "Stream Id": 3}})
    file.events.append({"ph": "X", "name": "AscendCL@aclnnMatmul", "pid": 4711, "tid": 1, "ts": "1", "dur": "2"})
    return file.write(path)


def test_work_of_the_process_of_the_hardware_is_device_work(tmp_path: Path) -> None:
    trace = read_chrome(ascend(tmp_path / "trace_view.json"))
    assert trace.device.select(pl.col("kind").cast(pl.String), "device", "stream", "duration").rows() == [
        (kind, 0, 3, 4500) for kind in ("kernel", "memcpy", "synchronization", "kernel")
    ]
    assert trace.host["name"].cast(pl.String).to_list() == ["AscendCL@aclnnMatmul"]
    assert overview(select(trace)).per_step["collective_ns"].to_list() == [4500]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("public/tl_vllm_piecewise.json.gz", "8 × not named in the file (gfx942, 304 compute units, 192.0 GiB)"),
        ("public/tl_sglang_decode.json.gz", "AMD Instinct MI300X (gfx942, 304 compute units, 192.0 GiB)"),
        ("public/tl_mi210_gpuonly.json.gz", "4 × AMD Instinct MI210 (gfx90a, 104 compute units, 63.98 GiB)"),
        ("chrome/forms/amd_mi250_rocm.json.gz", "4 × AMD Radeon Graphics (gfx90a, 104 compute units, 63.98 GiB)"),
    ],
)
def test_gpus_of_amd_have_compute_units(name: str, said: str) -> None:
    found = report(open_path(recorded(name), cache=False), sections=("api",))
    text = report_text(found)
    assert f"GPU {said}" in " ".join(text.split())
    assert "HIP API calls" in text
    assert {device["compute_capability"] for device in found["run"]["traces"][0]["device"]} == {None}


@pytest.mark.parametrize(
    ("header", "properties", "architecture"),
    [
        (AMD_HEADER, {"name": "", "computeMajor": 11, "computeMinor": 0, "numSms": 48, "warpSize": 32}, "gfx110x"),
        (AMD_HEADER, {"computeMajor": 9, "computeMinor": 0, "numSms": 120, "warpSize": 64}, "gfx908"),
        ({}, {"computeMajor": 9, "computeMinor": 0, "numSms": 64, "warpSize": 64}, "gfx90x"),
        ({}, {"name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0, "numSms": 132, "warpSize": 32}, None),
    ],
)
def test_the_architecture_is_as_exact_as_the_file(
    tmp_path: Path, header: dict[str, Any], properties: dict[str, Any], architecture: str | None
) -> None:
    file = ChromeFile(**header, deviceProperties=[{"id": 0, **properties}])
    (device,) = read_chrome(file.write(tmp_path / "a.json")).info.devices
    assert device.architecture == architecture
    assert device.compute_capability == (None if architecture else "9.0")


def test_a_gpu_with_another_number_than_the_one_described_has_its_name(recording: Callable[[str], Trace]) -> None:
    """The process saw one GPU, as number 0; its work is numbered by what the driver sees."""
    gpu = overview(select(recording("public/tl_sglang_decode.json.gz"))).gpu
    assert gpu.select("device", "name").rows() == [(9, "AMD Instinct MI300X")]


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        (["cudaLaunchKernel", "cuLaunchKernel", "hipMemcpy"], "CUDA"),
        (["hipLaunchKernel"], "HIP"),
        (["urEnqueueKernelLaunch"], "SYCL"),
        (["custom", "curious"], ""),
    ],
)
def test_the_runtime_of_calls(calls: list[str], said: str) -> None:
    assert runtime(calls) == said


def test_gloo_of_a_rank_without_a_gpu_is_communication(recording: Callable[[str], Trace]) -> None:
    """Two threads exchange at a time; their union inside the step counts, by hand from the ten ranges."""
    found = overview(select(recording("chrome/forms/cpu_only_rank34.json.gz")))
    row = found.per_step.row(0, named=True)
    begun, ends, step_end = 1212075548353304, 1212075556659473 + 170471258, 1212075529876817 + 210109162
    assert row["communication_ns"] == row["collective_ns"] == ends - begun
    assert row["cpu_exec_ns"] == 0
    assert step_end < 1212075759485376  # the next exchange is in no step
    assert "nothing to wait for but the CPU and other ranks" in found.verdict.sentence


def test_a_runtime_whose_waiting_calls_are_not_known_gives_no_verdict(recording: Callable[[str], Trace]) -> None:
    """The MTIA works for 95 % of the time, and what its host waits in would count as work of the host."""
    found = overview(select(recording(MTIA)))
    assert found.gpu["busy_percent"][0] > 90
    assert found.verdict.kind == "unknown"
    assert "which calls of this device's runtime wait is not known" in found.verdict.sentence


def test_the_capability_is_that_of_the_one_kind_described(tmp_path: Path) -> None:
    file = ChromeFile()
    file.gpu("NVIDIA H200", "9.0", 132)
    file.launch("gemm", call=(10, 12), kernel=(20, 60))
    file.events[-1]["args"]["device"] = 3
    facts = Facts(open_path(file.write(tmp_path / "a.json"), cache=False))
    assert facts.trace.device["device"].to_list() == [3]
    assert program.capability(facts) == "9.0"
