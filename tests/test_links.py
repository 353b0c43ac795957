"""Which operator, module and backward pass a kernel belongs to, on recordings that make it hard."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from made_run import Made
from sample_runs import run_of

from tracetui.analysis.compare.diff import diff
from tracetui.analysis.matching.replaced_kernels import replacements
from tracetui.analysis.selection import Selection, in_steps, select
from tracetui.parsers import links, open_path, schema
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


def test_backward_kernels_find_their_forward_module(small_vit):
    kernels = small_vit.device.filter(pl.col("kind") == "kernel")
    forward, backward = (
        kernels.filter(pl.col("module").is_not_null()),
        kernels.filter(pl.col("module").is_null() & pl.col("forward_module").is_not_null()),
    )
    total = kernels["duration"].sum()
    assert 100 * forward["duration"].sum() / total == pytest.approx(35.07, abs=0.01)
    assert 100 * backward["duration"].sum() / total == pytest.approx(62.56, abs=0.01)
    names = small_vit.host["name"].cast(pl.String)
    attention = backward.filter(pl.col("name").cast(pl.String).str.contains("fmha|flash"))
    assert attention.height > 0
    assert {names[row].split("_")[0] for row in attention["forward_module"]} == {"nn.Module: Attention"}
    homeless = kernels.filter(pl.col("module").is_null() & pl.col("forward_module").is_null())
    assert homeless.filter(pl.col("name").cast(pl.String).str.contains("multi_tensor")).height > 0


@pytest.fixture(scope="module")
def small_vit(request):
    return open_path(request.path.parent / "data" / "small_vit_train.pt.trace.json.gz").traces[0]


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
        for operator, kernels in calls:
            made.host("cpu_op", operator, at, at + 4 * len(kernels) + 1)
            for kernel in kernels:
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
