"""Which operator, module and backward pass a kernel belongs to, on recordings that make it hard."""

import gzip
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import json_reader
import numpy as np
import polars as pl
import pytest
from as_json import report
from chrome_file import ChromeFile
from laid_out import report_text
from made_run import Made
from sample_runs import VIM, recorded, run_of
from test_chrome_reader import assert_same

from tracetui.analysis.base.api_names import runtime
from tracetui.analysis.compare.diff import diff
from tracetui.analysis.findings.core import program
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.kernels import kernels
from tracetui.analysis.matching.replaced_kernels import replacements
from tracetui.analysis.memops import memops
from tracetui.analysis.overview import overview
from tracetui.analysis.selection import Selection, in_steps, select
from tracetui.parsers import Trace, links, open_path, schema
from tracetui.parsers.chrome.reader import read_chrome
from tracetui.parsers.names.kernel_names import short_name


def linked_percent(trace, column):
    kernels = trace.device.filter(pl.col("kind") == "kernel")
    return 100 * kernels.filter(pl.col(column).is_not_null())["duration"].sum() / kernels["duration"].sum()


@pytest.mark.parametrize(
    ("name", "operator", "module", "step"),
    [
        ("vim_tiny_fp32_bs4.pt.trace.json.gz", 100, 100, 100),
        ("gpt_small_ctx256.trace.json.gz", 100, 0, 49.75),  # two of its four iterations are called train_step
        ("deit_small_train_bf16_bs32.pt.trace.json.gz", 100, 0, 100),
        ("cudagraph_replay.trace.json.gz", 0, 0, 0),
        ("hta_trace_diff/control.json.gz", 98.29, 0, 100),  # External id is the correlation here
        ("hta_trace_diff/test.json.gz", 91.48, 0, 93.01),  # the same, and 614 activities of the step before
    ],
)
def test_share_of_kernel_time_with_a_home(recording, name, operator, module, step):
    trace = recording(f"chrome/{name}")
    assert linked_percent(trace, "operator") == pytest.approx(operator, abs=0.01)
    assert linked_percent(trace, "module") == pytest.approx(module, abs=0.01)
    assert linked_percent(trace, "step") == pytest.approx(step, abs=0.01)


def test_what_was_queued_before_the_recording_is_in_no_step(recording):
    """The correlation ids, which grow, confirm what the order on the stream says: all are below the first call's."""
    trace = recording("chrome/hta_trace_diff/test.json.gz")
    note = next(note for note in trace.notes if "queued before" in note.reason)
    queued = trace.device.filter(pl.col("launch").is_null())
    assert note.count == queued.height == 614
    assert queued["step"].null_count() == queued.height
    assert queued["correlation"].max() < trace.host["correlation"].min()


def test_queued_before_against_plain_search():
    chance = np.random.default_rng(5)
    for _ in range(500):
        count = chance.integers(0, 12)
        launch = np.where(chance.random(count) < 0.5, -1, 3)
        device, stream = chance.integers(-1, 2, count), chance.integers(-1, 3, count)
        lanes = list(zip(device.tolist(), stream.tolist(), strict=True))
        kind = np.where(chance.random(count) < 0.2, schema.DEVICE_KINDS.index("annotation"), 0)
        expected = []
        for row in range(count):
            mine = [other for other in range(count) if lanes[other] == lanes[row] and kind[other] == kind[row]]
            known = [other for other in mine if launch[other] >= 0]
            lost = [other for other in mine if launch[other] < 0]
            expected.append(kind[row] == 0 and launch[row] < 0 and bool(known) and max(lost) < known[0])
        assert links.queued_before(launch, kind, device, stream).tolist() == expected


def test_calls_that_never_return_do_not_swallow_the_modules(recording):
    """vim_tiny has 576 `<built-in method …>` calls whose end the profiler never saw."""
    trace = recording("chrome/vim_tiny_fp32_bs4.pt.trace.json.gz")
    cut = next(note for note in trace.notes if "outlived" in note.reason)
    assert cut.count == 720  # those, and 144 that end a moment after their caller
    built_in = trace.host.filter(pl.col("name").cast(pl.String).str.contains("redispatch_boxed|apply of FunctionMeta"))
    assert built_in["duration"].max() < trace.steps["duration"].max()
    assert trace.steps["duration"].to_list() == [113718011, 105685696, 99850358]  # annotations are never cut by calls


@pytest.mark.parametrize("name", ["gpt_small_ctx256.trace.json.gz", "deit_small_train_bf16_bs32.pt.trace.json.gz"])
def test_autograd_launches_move_to_their_operators_thread(recording, name):
    trace = recording(f"chrome/{name}")
    assert any("thread" in note.reason for note in trace.notes)
    launches = trace.host[trace.device["launch"].drop_nulls().to_list()]
    operators = trace.host.filter(pl.col("kind") == "operator")
    assert set(launches["thread"]) <= set(operators["thread"])


def test_graph_kernels_share_their_launch(recording):
    trace = recording("chrome/cudagraph_replay.trace.json.gz")
    per_launch = trace.device.group_by("launch").len()
    assert per_launch["len"].to_list() == [20] * 20
    assert set(trace.host[per_launch["launch"].to_list()]["name"].cast(pl.String)) == {"cudaGraphLaunch"}


def events(tmp_path, *rows):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": list(rows)}))
    return read_chrome(path)


def host(cat, name, ts, dur, tid=1, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}


def device(name, ts, dur, **args):
    args = {"device": 0, "stream": 7, **args}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": args}


def test_containment_comes_before_the_external_id(tmp_path):
    trace = events(
        tmp_path,
        host("cpu_op", "outer", 0, 100, **{"External id": 1}),
        host("cpu_op", "inner", 10, 50, **{"External id": 2}),
        host("cuda_runtime", "cudaLaunchKernel", 20, 5, correlation=9, **{"External id": 1}),
        device("k", 30, 5, correlation=9, **{"External id": 1}),
    )
    assert trace.host["name"].cast(pl.String)[trace.device["operator"][0]] == "inner"


def test_the_external_id_serves_where_nothing_encloses(tmp_path):
    trace = events(
        tmp_path,
        host("cpu_op", "op", 0, 10, **{"External id": 3}),
        host("cuda_runtime", "cudaLaunchKernel", 50, 5, correlation=9, **{"External id": 3}),
        device("k", 60, 5, correlation=9, **{"External id": 3}),
        device("no launch", 70, 5, **{"External id": 3}),
        device("unknown", 80, 5, correlation=11, **{"External id": 4}),
    )
    names = trace.host["name"].cast(pl.String)
    assert [row if row is None else names[row] for row in trace.device["operator"]] == ["op", "op", None]


def test_an_external_id_that_copies_the_correlation_is_not_believed(tmp_path):
    trace = events(
        tmp_path,
        host("cpu_op", "wrong", 0, 10, **{"External id": 9}),
        host("cuda_runtime", "cudaLaunchKernel", 50, 5, correlation=9, **{"External id": 9}),
        device("k", 60, 5, correlation=9, **{"External id": 9}),
    )
    assert trace.device["operator"].to_list() == [None]


def test_a_launch_comes_before_other_calls_of_its_correlation(tmp_path):
    trace = events(
        tmp_path,
        host("cuda_runtime", "cudaStreamIsCapturing", 5, 1, correlation=9),
        host("cuda_driver", "cuLaunchKernelEx", 10, 5, correlation=9),
        device("k", 60, 5, correlation=9),
    )
    assert trace.host["name"].cast(pl.String)[trace.device["launch"][0]] == "cuLaunchKernelEx"


def test_steps_come_from_host_annotations_only(tmp_path):
    projected = {**device("ProfilerStep#1", 0, 90), "cat": "gpu_user_annotation"}
    trace = events(tmp_path, host("user_annotation", "ProfilerStep#1", 0, 100), projected, device("k", 5, 5))
    assert trace.steps.rows() == [(1, "ProfilerStep#1", 0, 100_000)]
    assert trace.device.filter(pl.col("kind") == "kernel")["step"].to_list() == [0]


Call = tuple[str, tuple[str, ...]]


def run(folder: Path, *calls: Call, steps: int = 2) -> Selection:
    """Steps that call these operators, each of which launches these kernels."""
    made, at = Made(), 0.0
    for number in range(steps):
        begin = at
        for operator, launched in calls:
            made.host("cpu_op", operator, at, at + 4 * len(launched) + 1)
            for kernel in launched:
                made.launch(kernel, (at + 1, at + 2), (at + 3, at + 4))
                at += 4
            at += 1
        made.step(number, begin, at + 1)
        at += 2
    folder.mkdir()
    return in_steps(made.facts(folder).sel)


def found(tmp_path: Path, ours: list[Call], theirs: list[Call]) -> list[tuple[tuple[str, ...], tuple[str, ...], str]]:
    a, b = run(tmp_path / "a", *ours), run(tmp_path / "b", *theirs)
    names = [{kernel for _, kernels in calls for kernel in kernels} for calls in (ours, theirs)]
    both = {name: name for name in names[0] & names[1]}
    return [
        (one.a_names, one.b_names, one.operator)
        for one in replacements(a, b, names[0] - names[1], names[1] - names[0], both)
    ]


MM, ADD = "aten::mm", "aten::add"


def test_one_kernel_for_another_in_the_same_calls(tmp_path: Path) -> None:
    ours = [(MM, ("sgemm_a",)), (ADD, ("add",)), (MM, ("sgemm_b",))]
    theirs = [(MM, ("nvjet_x",)), (ADD, ("add",)), (MM, ("nvjet_y",))]
    assert found(tmp_path, ours, theirs) == [(("sgemm_a",), ("nvjet_x",), MM), (("sgemm_b",), ("nvjet_y",), MM)]


def test_one_stands_for_two(tmp_path: Path) -> None:
    ours = [(MM, ("sgemm_a",)), (MM, ("sgemm_b",)), (MM, ("sgemm_a",))]
    assert found(tmp_path, ours, [(MM, ("nvjet_x",))] * 3) == [(("sgemm_a", "sgemm_b"), ("nvjet_x",), MM)]


def test_inside_a_call_the_neighbours_tell(tmp_path: Path) -> None:
    ours = [(MM, ("first", "sgemm_a", "middle", "sgemm_b", "last"))]
    theirs = [(MM, ("first", "nvjet_x", "middle", "nvjet_y", "last"))]
    assert found(tmp_path, ours, theirs) == [(("sgemm_a",), ("nvjet_x",), MM), (("sgemm_b",), ("nvjet_y",), MM)]


def test_of_several_at_one_place_the_category_tells(tmp_path: Path) -> None:
    softmax, other = "softmax_warp_forward", "cunn_SoftMaxForward"
    ours, theirs = [(MM, ("sgemm_a", softmax))], [(MM, (other, "nvjet_x"))]
    assert sorted(found(tmp_path, ours, theirs)) == [(("sgemm_a",), ("nvjet_x",), MM), ((softmax,), (other,), MM)]


def test_one_place_of_many_is_no_replacement(tmp_path: Path) -> None:
    ours = [(MM, ("sgemm_a",)), *[(ADD, ("sgemm_a",))] * 3, ("aten::mul", ("add",))]
    theirs = [(MM, ("nvjet_x",)), *[(ADD, ("add",))] * 3, ("aten::mul", ("add",))]
    assert not found(tmp_path, ours, theirs)


def test_calls_that_are_not_as_many_tell_only_of_single_kernels(tmp_path: Path) -> None:
    ours = [(MM, ("sgemm_a",))]
    assert found(tmp_path, ours, [(MM, ("nvjet_x",))] * 2) == [(("sgemm_a",), ("nvjet_x",), MM)]


def test_the_diff_merges_the_rows_and_loses_no_time() -> None:
    a, b = (select(run_of(f"chrome/vim_tiny_{kind}_bs4.pt.trace.json.gz").main) for kind in ("fp32", "fp16"))
    kernels = diff(a, b).kernels
    pairs = kernels.filter(paired_by="operator")
    gemm = pairs.filter(operator="aten::mm").sort("delta_ns").row(0, named=True)
    assert [short_name(name) for name in gemm["b_names"]] == ["cutlass_80_wmma_tensorop_f16…m_f16_32x32_64x1_tn"]
    assert (len(gemm["a_names"]), gemm["a_calls"], gemm["b_calls"]) == (2, 96, 96)
    assert "64x64x8" in gemm["name"]  # which takes four fifths of their time
    assert gemm["delta_ns"] == pytest.approx(-375_384, abs=1)
    assert set(pairs["status"]) == {"changed"}
    for side, sel in (("a_ns", a), ("b_ns", b)):
        rows = in_steps(sel).device.filter(pl.col("kind") == "kernel")
        assert kernels[side].sum() == pytest.approx(rows["duration"].sum() / 3)


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
def test_the_architecture_is_as_exact_as_the_file(tmp_path, header, properties, architecture) -> None:
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
    assert "no GPU work is in this recording" in found.verdict.sentence


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


@cache
def _vim():
    path = VIM / "trace.pt.trace.json.gz"
    return read_chrome(path), gzip.decompress(path.read_bytes())


def vim():
    """The sample's trace, and what stands in its file, to be changed."""
    trace, text = _vim()
    return trace, json.loads(text)


@pytest.mark.parametrize("seconds", [3_833.5, -3_833.5])
def test_a_gpu_on_another_clock_is_moved_to_its_launches(tmp_path, seconds):
    own, told = vim()
    for event in told["traceEvents"]:
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"):
            event["ts"] += seconds * 1e6
    (tmp_path / "trace.json").write_text(json.dumps(told))
    moved = read_chrome(tmp_path / "trace.json")
    assert [note.count for note in moved.notes if note.reason == links.OTHER_CLOCK] == [own.device.height]
    assert moved.device["step"].equals(own.device["step"])
    assert moved.device["launch"].equals(own.device["launch"])
    apart = (moved.device["start"] - own.device["start"]).unique()
    assert -100_000 < apart.min() <= apart.max() <= 0  # by the latency of the launch that was served soonest
    assert apart.max() - apart.min() <= 1  # ns, by rounding


def test_gpu_work_after_the_host_s_last_event_keeps_its_time(tmp_path):
    """What waits in a queue is on the same clock."""
    late = [
        host("cuda_runtime", "cudaLaunchKernel", 0, 5, correlation=1),
        host("cuda_runtime", "cudaLaunchKernel", 10, 5, correlation=2),
        device("k", 300_000, 7, correlation=1),
        device("k", 400_000, 7, correlation=2),
    ]
    trace = events(tmp_path, *late)
    assert trace.device["start"].to_list() == [300_000_000, 400_000_000]
    assert not trace.notes


@pytest.mark.parametrize("lost", [False, True])
def test_launches_of_one_correlation_id_keep_their_own_work(tmp_path, lost):
    """In each step one launch has the same id; with one kernel lost, work is that of the last launch before it."""
    own, told = vim()
    again = [
        own.device.filter((pl.col("kind") == "kernel") & (pl.col("step") == step))["correlation"][3]
        for step in range(own.steps.height)
    ]
    assert len(again) > 2
    for event in told["traceEvents"]:
        if (event.get("args") or {}).get("correlation") in again:
            if lost and event["cat"] == "kernel" and event["args"]["correlation"] == again[1]:
                event["ph"] = "i"
            event["args"]["correlation"] = again[0]
    (tmp_path / "trace.json").write_text(json.dumps(told))
    found = read_chrome(tmp_path / "trace.json")
    gone = pl.col("correlation").ne_missing(again[1]) if lost else pl.lit(True)
    assert found.device["launch"].equals(own.device.filter(gone)["launch"])
    assert found.device["step"].equals(own.device.filter(gone)["step"])
    assert [note.count for note in found.notes if note.reason == links.AGAIN] == [len(again) - lost]
    assert not [note for note in own.notes if note.reason == links.AGAIN]


def test_a_launch_within_another_of_its_id_is_one(tmp_path):
    calls = [host("cuda_runtime", "cudaLaunchKernel", 0, 9, correlation=1),
             host("cuda_driver", "cuLaunchKernel", 2, 3, correlation=1)]  # fmt: skip
    trace = events(tmp_path, *calls, device("k", 4, 7, correlation=1), device("k", 12, 7, correlation=1))
    assert trace.device["launch"].to_list() == [0, 0]
    assert not trace.notes
