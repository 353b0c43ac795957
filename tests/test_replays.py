"""Kernels of replayed graphs get the operators and modules of their capture, and nothing that is not sure."""

from __future__ import annotations

import csv
import json
from shutil import copyfile
from typing import TYPE_CHECKING

import polars as pl
import pytest
from chrome_file import ChromeFile
from graph_files import Launch, capture, layer, names, replay, written
from sample_runs import DATA, OUTSIDE, VIM_FP16

from tracetui.app.cli import main as cli
from tracetui.parsers import Trace, open_path
from tracetui.parsers.replays import AMBIGUOUS
from tracetui.parsers.runs.opening import ATTACHED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SERVING = OUTSIDE / "serving"
HEAD = [Launch("embed", "aten::embedding", "Embedding_0")]
TAIL = [Launch("head", "aten::linear", "Head_0")]
PIECES = [HEAD, *map(layer, range(6)), TAIL]


def opened(folder: Path) -> Trace:
    return open_path(folder, cache=False).main


def told(trace: Trace) -> list[tuple[str, str | None, str | None]]:
    """Kernel, operator and module of each replayed kernel, in order."""
    host = trace.host.with_row_index("row").select("row", pl.col("name").cast(pl.String))
    rows = trace.device.filter(pl.col("kind") == "kernel").select(pl.col("name").cast(pl.String), "operator", "module")
    for key in ("operator", "module"):
        named = host.rename({"row": key, "name": f"{key}_name"})
        rows = rows.join(named, on=key, how="left", maintain_order="left")
    return list(rows.select("name", "operator_name", "module_name").iter_rows())


def launched(graphs: Sequence[Sequence[Launch]]) -> list[tuple[str, str | None, str | None]]:
    return [(one.kernel, one.operator, f"nn.Module: {one.module}") for graph in graphs for one in graph]


def executed(graphs: Sequence[Sequence[str]], *, iteration: str = "") -> ChromeFile:
    """Replays of graphs with these kernels; all in one range where it has a name."""
    file = ChromeFile()
    now = 1000.0
    for kernels in graphs:
        now = replay(file, kernels, now)
    if iteration:
        file.annotation(iteration, 999, now + 1)
    return file


def captured(graphs: Sequence[Sequence[Launch]], label: str = "capture_32_FULL", **how: bool) -> ChromeFile:
    file = ChromeFile()
    capture(file, graphs, label, **how)
    return file


def test_the_execution_is_opened_and_named_by_the_capture_beside_it(tmp_path):
    trace = opened(written(tmp_path, executed([names(piece) for piece in PIECES]), captured(PIECES)))
    assert trace.source.path.name == "execution.pt.trace.json"
    assert told(trace) == launched(PIECES)
    assert trace.replays is not None
    assert (trace.replays.matched, trace.replays.ambiguous, trace.replays.named_ns) == (20, 0, trace.replays.ns)


def test_rows_of_the_host_stay_a_walk_through_the_tree(tmp_path):
    trace = opened(written(tmp_path, executed([names(piece) for piece in PIECES]), captured(PIECES)))
    host = trace.host.with_row_index("row")
    below = host.filter(pl.col("parent").is_not_null())
    assert (below["parent"] < below["row"]).all()
    parents = host["depth"].gather(below["parent"])
    assert (below["depth"] == parents + 1).all()
    launches = host["name"].cast(pl.String).gather(trace.device["launch"])
    assert set(launches) == {"cudaGraphLaunch"}


@pytest.mark.parametrize(
    ("first", "last", "places"),
    [(0, 8, 1), (2, 8, 1), (0, 5, 1), (3, 6, 4)],
    ids=["whole", "cut in front", "cut behind", "cut at both ends"],
)
def test_equal_pieces_are_told_apart_by_the_order_within_an_iteration(tmp_path, first, last, places):
    part = PIECES[first:last]
    file = executed([names(piece) for piece in part], iteration="execute_32_context_0(sq0sk0)_generation_32(sq32sk64)")
    trace = opened(written(tmp_path, file, captured(PIECES)))
    if places == 1:
        assert told(trace) == launched(part)
        return
    assert [(kernel, operator) for kernel, operator, _ in told(trace)] == [
        (kernel, operator) for kernel, operator, _ in launched(part)
    ]
    assert {module for *_, module in told(trace)} == {AMBIGUOUS}
    assert trace.replays is not None
    assert (trace.replays.matched, trace.replays.ambiguous, trace.replays.named_ns) == (9, 9, 0)


def test_without_iterations_a_run_of_equal_pieces_may_begin_anywhere(tmp_path):
    layers = [layer(number) for number in range(4)]
    file = executed([names(piece) for piece in layers] * 2)
    trace = opened(written(tmp_path, file, captured(layers)))
    assert {module for *_, module in told(trace)} == {AMBIGUOUS}
    with_ends = [HEAD, *layers, TAIL]
    again = executed([names(piece) for piece in with_ends * 3])
    assert told(opened(written(tmp_path / "ends", again, captured(with_ends)))) == launched(with_ends * 3)


def test_several_replays_of_one_graph(tmp_path):
    graph = [*HEAD, *layer(0), *layer(1)]
    trace = opened(written(tmp_path, executed([names(graph)] * 5), captured([graph])))
    assert told(trace) == launched([graph] * 5)
    calls = trace.host.filter(pl.col("name").cast(pl.String) == "aten::embedding")
    assert calls.height == 5
    assert calls["duration"].to_list() == [0] * 5


def test_a_replay_without_its_last_kernel_is_taken_for_its_graph_and_said(tmp_path):
    graph = [one for number in range(20) for one in layer(number)] + TAIL
    trace = opened(written(tmp_path, executed([names(graph)[:-1]]), captured([graph])))
    assert told(trace) == launched([graph[:-1]])
    assert trace.replays is not None
    assert trace.replays.incomplete == 1


def test_a_record_lost_among_equal_ones_names_only_what_is_sure(tmp_path):
    """Of layers with three kernels each the second layer's second is lost, so only its neighbours are in doubt."""
    graph = [one for number in range(20) for one in layer(number)]
    kernels = names(graph)
    del kernels[4]
    trace = opened(written(tmp_path, executed([kernels]), captured([graph])))
    rows = told(trace)
    assert rows == launched([[*graph[:4], *graph[5:]]])
    same = [Launch("add", f"aten::add_{number}", f"Layer_{number}") for number in range(40)]
    unsure = opened(written(tmp_path / "same", executed([names(same)[1:]]), captured([same])))
    assert {operator for _, operator, _ in told(unsure)} == {AMBIGUOUS}


def test_branches_that_run_in_another_order_are_matched_by_name(tmp_path):
    graph = [*HEAD, *layer(0), *TAIL]
    kernels = names(graph)
    kernels[1], kernels[2] = kernels[2], kernels[1]
    trace = opened(written(tmp_path, executed([kernels]), captured([graph])))
    assert sorted(told(trace)) == sorted(launched([graph]))


def test_the_capture_of_another_model_names_nothing(tmp_path, capsys):
    other = [layer(number, flash=True) for number in range(6)]
    folder = written(tmp_path, executed([names(piece) for piece in PIECES]), captured(other))
    trace = opened(folder)
    assert {operator for _, operator, _ in told(trace)} == {None}
    assert trace.replays is not None
    assert trace.replays.matched == 0
    assert cli.main(["report", str(folder)]) == 0
    assert "no captured graph has the kernels of a replay" in " ".join(capsys.readouterr().out.split())


def test_the_batch_decides_between_captures_with_the_same_kernels(tmp_path):
    small, large = ([Launch("gemm", f"aten::mm_{batch}", "Model_0")] for batch in (16, 64))
    file = executed([["gemm"]], iteration="step[DECODE bs=20]")
    folder = written(tmp_path, file, captured([small], "capture_16_FULL"), captured([large], "capture_64_FULL"))
    assert told(opened(folder)) == launched([large])
    unknown = executed([["gemm"]], iteration="decoding")
    folder = written(
        tmp_path / "b", unknown, captured([small], "capture_16_FULL"), captured([large], "capture_64_FULL")
    )
    assert told(opened(folder)) == [("gemm", AMBIGUOUS, "nn.Module: Model_0")]


def test_one_recording_of_capture_and_replay(tmp_path):
    file = ChromeFile()
    now = capture(file, PIECES, at=0)
    for piece in PIECES:
        now = replay(file, names(piece), now + 10)
    trace = opened(file.write(tmp_path / "both.pt.trace.json"))
    assert told(trace) == launched(PIECES)


def test_cuda_names_no_kernels_so_the_warm_up_before_does(tmp_path):
    graph = [*HEAD, *layer(0), Launch("triton_poi_fused_add_0", "triton_poi_fused_add_0", "Layer_0")]
    folder = written(tmp_path, executed([names(graph)]), captured([graph], named=False, eager=True))
    trace = opened(folder)
    assert told(trace) == launched([graph])
    assert trace.replays is not None
    assert trace.replays.by_order == 0
    only_triton = opened(written(tmp_path / "cold", executed([names(graph)]), captured([graph], named=False)))
    assert told(only_triton) == launched([graph])
    assert only_triton.replays is not None
    assert only_triton.replays.by_order == 4
    assert 0 < only_triton.replays.by_order_ns < only_triton.replays.ns
    nothing = opened(written(tmp_path / "no", executed([names(graph)[:4]]), captured([graph[:4]], named=False)))
    assert {operator for _, operator, _ in told(nothing)} == {None}


def test_a_kernel_leads_to_the_captured_line(tmp_path, capsys):
    folder = written(tmp_path, executed([names(piece) for piece in PIECES]), captured(PIECES))
    assert cli.main(["report", str(folder), "--section", "kernels", "--format", "json"]) == 0
    assert '"module": "Head_0"' in capsys.readouterr().out
    from tracetui.analysis.sampled_calls import lines

    trace = opened(folder)
    assert set(lines(trace, trace.device)) == {
        f"model.py({10 + len(one.operator)}): forward" for piece in PIECES for one in piece
    }


def test_a_capture_alone_is_opened(tmp_path):
    captured(PIECES).write(tmp_path / "graph_capture.pt.trace.json")
    executed([]).write(tmp_path / "other.pt.trace.json")
    run = open_path(tmp_path, cache=False)
    assert len(run.others) == 1


@pytest.mark.skipif(not SERVING.is_dir(), reason="the recordings beside the checkout are not here")
def test_the_public_pair_has_the_sums_of_tracelens():
    trace = opened(SERVING / "vllm_piecewise")
    assert trace.replays is not None
    assert (trace.replays.matched, trace.replays.kernels, trace.replays.ambiguous) == (361, 361, 0)
    host = trace.host["name"].cast(pl.String)
    rows = trace.device.filter(pl.col("operator").is_not_null())
    sums = rows.with_columns(operator=host.gather(rows["operator"])).group_by("operator").agg(pl.col("duration").sum())
    ours = dict(sums.iter_rows())
    with (SERVING / "vllm_piecewise" / "tracelens_ops_summary.csv").open() as file:
        theirs = {row["name"]: float(row["total_direct_kernel_time_sum"]) for row in csv.DictReader(file)}
    shared = ours.keys() & theirs.keys()
    assert len(shared) >= 12
    for name in shared:
        assert ours[name] / 1000 == pytest.approx(theirs[name], abs=1)


def test_profile_s_recording_of_the_capture_belongs_to_that_of_the_replays(tmp_path):
    def recorded(run: str, what: str) -> ChromeFile:
        return ChromeFile(tracetui={"run": run, "pass": what})

    for folder, run in (("same", "r1"), ("other", "r2"), ("no replay", "r1")):
        (tmp_path / folder).mkdir()
        captured_of = recorded(run, "capture")
        capture(captured_of, PIECES, "")
        captured_of.write(tmp_path / folder / "capture.pt.trace.json")
        replayed = recorded("r1", "rich")
        now = 1000.0
        for piece in PIECES if folder != "no replay" else ():
            now = replay(replayed, names(piece), now)
        replayed.write(tmp_path / folder / "trace.pt.trace.json")
    run = open_path(tmp_path / "same", cache=False)
    assert [one.source.path.name for one in run.traces] == ["trace.pt.trace.json"]
    assert told(run.main) == launched(PIECES)
    other = open_path(tmp_path / "other", cache=False)
    assert other.main.replays is None
    # the steps that were recorded may be those between two replays
    copyfile(VIM_FP16 / "run.json", tmp_path / "no replay" / "run.json")
    between = open_path(tmp_path / "no replay", cache=False)
    assert [one.source.path.name for one in between.traces] == ["trace.pt.trace.json"]
    assert between.name == "no replay"
    # a run of `profile` is called by its folder, which has nothing but its recordings
    copyfile(VIM_FP16 / "run.json", tmp_path / "same" / "run.json")
    assert open_path(tmp_path / "same", cache=False).name == "same"


def test_replays_on_an_nvidia_gpu_have_their_operators_and_lines():
    """A decode loop on an H200 whose recording begins before the eager warm-up and the capture of its graph."""
    from tracetui.analysis.sampled_calls import lines

    trace = opened(DATA / "decode_captured")
    found = trace.replays
    assert found is not None
    assert (found.launches, found.pieces, found.kernels, found.matched, found.ambiguous) == (32, 1, 7424, 7424, 0)
    assert found.named_ns == found.ns == 23_477_951
    assert 100 * found.by_order_ns / found.ns < 12
    rows = trace.device.filter((pl.col("kind") == "kernel") & (pl.col("operator") > pl.col("launch")))
    named = rows.with_columns(
        operator=trace.host["name"].cast(pl.String).gather(rows["operator"]), name=pl.col("name").cast(pl.String)
    )
    # what a kernel's own name says of its operator must be what its place says
    known = {"sdpa": "aten::_cudnn_attention_forward", "nvjet": "aten::mm", "ArgMax": "aten::argmax",
             "index_copy": "aten::index_copy_", "layer_norm": "aten::_fused_rms_norm"}  # fmt: skip
    for part, operator in known.items():
        of_name = named.filter(pl.col("name").str.contains(part, literal=True))
        assert of_name.height
        assert set(of_name["operator"]) == {operator}, part
    assert {"llm.py(14): forward", "llm.py(45): forward"} <= {str(line) for line in lines(trace, rows)}


def test_the_driver_s_names_of_captured_kernels_prove_each_replay():
    """Three equal layers on an H100, each graphed by `make_graphed_callables` before the recording began."""
    found = opened(DATA / "graphed_train").replays
    assert found is not None
    assert (found.launches, found.pieces, found.kernels, found.matched, found.by_order) == (18, 6, 162, 162, 0)
    assert found.named_ns == found.ns


@pytest.mark.parametrize(
    ("recording", "family", "said"),
    [("graphed_train", None, 3), ("graphed_train", "gpt", 0), ("decode_captured", None, 0)],
)
def test_clean_steps_after_captures_had_cupti_attached(recording, family, said, tmp_path):
    """A model's capture is recorded after its clean steps, and so is one within the recording."""
    for file in (DATA / recording).glob("*.gz"):
        (tmp_path / file.name).symlink_to(file)
    told = {"workload": {"family": family}, "measurement": {"tool": "torch", "clean_step_ns": [25_000_000] * 3}}
    (tmp_path / "run.json").write_text(json.dumps({"schema": "tracetui.run/1", **told}))
    trace = opened(tmp_path)
    assert len(trace.clean_step_ns) == 3
    assert sum(note.count for note in trace.notes if note.reason == ATTACHED) == said


def test_a_graph_is_handed_over_at_the_end_of_its_launch():
    """Where the host waits for each replay, its launches of 0.2 ms are part of each iteration."""
    from tracetui.analysis.dependencies.model import model
    from tracetui.analysis.selection import select

    found = model(select(opened(DATA / "decode_captured")))
    assert found is not None
    assert abs(found.replayed_ns - found.recorded_ns) < 0.001 * found.recorded_ns
