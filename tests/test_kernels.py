"""The kernel table and its groupings, launches of one kernel, and who launched them."""

import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from as_json import report
from sample_runs import CLEAN, SWEEP, TRAIN, report_of, run_of
from sample_runs import VIM as VIM_RUN

from tracetui.analysis.collectives import work_rows
from tracetui.analysis.host import waiting_calls
from tracetui.analysis.kernels import (
    GROUPINGS,
    NOT_ATTRIBUTED,
    NOT_RECORDED,
    group_kernels,
    group_rows,
    kernel_groups,
    kernel_launches,
    kernel_rows,
    kernels,
    known_groupings,
    labels,
    operator_kernels,
)
from tracetui.analysis.memops import copy_rows, memops
from tracetui.analysis.modules import module_kernels, modules
from tracetui.analysis.selection import Scope, select
from tracetui.app.cli.commands import report as options
from tracetui.app.views.kernels import KernelsView
from tracetui.parsers import Run, Source, Trace, TraceInfo, open_path
from tracetui.parsers.names import kernel_names

Recording = Callable[[str], Trace]

VIM = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"
VIM_HALF = "chrome/vim_tiny_fp16_bs4.pt.trace.json.gz"
GPT = "chrome/gpt_small_ctx256.trace.json.gz"


def test_the_dominant_kernel_of_vim_tiny(recording: Recording) -> None:
    row = kernels(select(recording(VIM))).row(0, named=True)
    assert (row["short_name"], row["category"], row["calls"]) == ("selective_scan_fwd_kernel", "scan", 144)
    assert (row["module"], row["operator"], row["tensor_cores"]) == ("Mamba ×48", "MambaInnerFn", False)
    assert row["total_ns"] == 2_308_127
    assert row["in_steps_ns"] == row["total_ns"]
    assert len(row["modules"]) == 48
    assert {entry["calls"] for entry in row["modules"]} == {3}
    assert sum(entry["ns"] for entry in row["modules"]) == row["total_ns"]
    assert row["modules"][0]["path"].startswith("VisionMamba_0/Block_")
    assert row["operators"] == [{"name": "MambaInnerFn", "calls": 144, "ns": row["total_ns"]}]


def test_statistics_of_one_kernel(recording: Recording) -> None:
    trace = recording(VIM)
    row = kernels(select(trace)).row(1, named=True)
    rows = trace.device.filter(pl.col("name").cast(pl.String) == row["name"])
    spent = rows["duration"].to_list()
    assert row["mean_ns"] == pytest.approx(statistics.mean(spent))
    assert row["median_ns"] == statistics.median(spent)
    assert row["std_ns"] == pytest.approx(statistics.stdev(spent))
    assert (row["min_ns"], row["max_ns"]) == (min(spent), max(spent))
    weighted = sum(o * d for o, d in rows.select("occupancy_percent", "duration").iter_rows()) / sum(spent)
    assert row["occupancy_percent"] == pytest.approx(weighted)


def test_shares_and_order(recording: Recording) -> None:
    frame = kernels(select(recording(GPT)))
    assert frame["percent"].sum() == pytest.approx(100)
    assert frame["total_ns"].to_list() == sorted(frame["total_ns"], reverse=True)
    assert (frame["in_steps_ns"] <= frame["total_ns"]).all()  # the recording holds the initialisation too
    assert frame["in_steps_ns"].sum() < frame["total_ns"].sum() / 2
    once = frame.filter(pl.col("calls") == 1)
    assert once["std_ns"].to_list() == [0.0] * once.height


def test_without_a_duration_no_time_is_known(recording: Recording) -> None:
    trace = recording(GPT)
    whole = kernels(select(trace))
    name = whole["name"][0]
    unmeasured = pl.when(pl.col("name").cast(pl.String) != name).then("duration").alias("duration")
    sel = select(replace(trace, device=trace.device.with_columns(unmeasured)))
    frame = kernels(sel)
    assert frame["name"].to_list() == [*whole["name"][1:], name], "what is not known comes last"
    last = frame.row(-1, named=True)
    times = ("total_ns", "percent", "in_steps_ns", "mean_ns", "median_ns", "min_ns", "max_ns", "std_ns")
    assert [last[time] for time in times] == [None] * len(times)
    assert last["calls"] == whole["calls"][0]
    assert frame["total_ns"].to_list()[:-1] == whole["total_ns"].to_list()[1:]
    rows = kernel_groups(sel, "category").select("total_ns", "std_ns")
    assert rows["total_ns"].sum() == whole["total_ns"][1:].sum()
    steps = replace(sel.trace, steps=recording(VIM).steps)
    assert kernels(select(steps))["in_steps_ns"].to_list()[-1] is None
    none = replace(trace, device=trace.device.with_columns(duration=pl.lit(None, pl.Int64)))
    found = report(Run(trace.source.path, (none,)), sections=["kernels"], by="category")["run"]["traces"][0]
    for row in (*found["kernels"], *found["kernel_groups"]):
        assert (row["total_us"], row["std_us"], row["percent"]) == (None, None, None)


def test_labels_of_modules(recording: Recording) -> None:
    labels = dict(kernels(select(recording(VIM))).select("short_name", "module").iter_rows())
    assert labels["_layer_norm_fwd_1pass_kernel"] == "Block ×24 +1 class"
    assert labels["index: flip"] == "Mixer ×24"
    assert labels["nll_loss_forward_reduce_cuda_kernel_2d"] == "CrossEntropyLoss_0"


def test_launches_of_one_kernel(recording: Recording) -> None:
    sel = select(recording(VIM))
    row = kernels(sel).row(0, named=True)
    frame = kernel_launches(sel, row["name"])
    assert (frame.height, frame["duration_ns"].sum()) == (row["calls"], row["total_ns"])
    assert frame["start"].is_sorted()
    assert set(frame["step"]) == {1, 2, 3}
    assert set(frame.select("grid", "block").unique().row(0)) == {"4x384x1", "32x1x1"}
    assert frame["delay_ns"].min() == 0  # type: ignore[comparison-overlap]
    device, host = sel.trace.device, sel.trace.host
    for number, delay in frame.select("row", "delay_ns").head(20).iter_rows():
        launch = host.row(device["launch"][number], named=True)
        assert delay == max(0, device["start"][number] - launch["start"] - launch["duration"])
    assert frame["module"][0] == "VisionMamba_0/Block_0/Mixer_0/Mamba_0"
    assert kernel_launches(sel, "no such kernel").is_empty()


def test_steps_restrict_the_table(recording: Recording) -> None:
    trace = recording(VIM)
    one = kernels(select(trace, Scope(steps=(3, 3)))).row(0, named=True)
    assert (one["calls"], one["percent"]) == (48, pytest.approx(24.7, abs=0.1))


def test_kernels_of_an_operator(recording: Recording) -> None:
    sel = select(recording(VIM))
    frame = operator_kernels(sel, "aten::mm")
    assert frame["total_ns"].sum() == 5_082_859  # the operator's own device time
    assert frame["percent"].sum() == pytest.approx(100)
    assert set(frame["operator"]) == {"aten::mm"}
    assert operator_kernels(sel, "aten::no_such").is_empty()
    assert operator_kernels(sel, NOT_ATTRIBUTED).is_empty()


def test_backward_kernels_count_for_the_module_of_their_forward(training: Trace) -> None:
    frame = kernels(select(training)).filter(pl.col("short_name").str.contains("layer_norm_grad|GammaBetaBackward"))
    assert frame.height
    assert frame["module"].str.contains(r"^LayerNorm ×\d+$").all()


def test_traces_without_kernels(recording: Recording, tmp_path: Path) -> None:
    nothing = Trace.empty(TraceInfo("chrome", "made"), Source(tmp_path, 0))
    for trace in (nothing, recording("chrome/forms/cpu_only_rank34.json.gz")):
        sel = select(trace)
        assert kernels(sel).is_empty()
        assert kernels(sel).columns == kernels(select(recording(VIM))).columns
        assert kernel_launches(sel, "any").is_empty()


def test_kernels_without_any_owner_or_occupancy(recording: Recording) -> None:
    trace = recording(VIM)
    nobody = [pl.lit(None, pl.UInt32).alias(name) for name in ("launch", "operator", "module", "forward_module")]
    unknown = [pl.lit(None, pl.Float64).alias(name) for name in ("occupancy_percent", "blocks_per_sm")]
    bare = replace(trace, device=trace.device.with_columns(*nobody, *unknown))
    frame = kernels(select(bare))
    for column in ("operator", "module", "occupancy_percent", "blocks_per_sm"):
        assert frame[column].null_count() == frame.height
    assert [entry["name"] for entry in frame["operators"][0]] == [NOT_ATTRIBUTED]
    assert [entry["path"] for entry in frame["modules"][0]] == [NOT_ATTRIBUTED]
    assert kernel_launches(select(bare), frame["name"][0])["delay_ns"].null_count() == frame["calls"][0]


@pytest.mark.parametrize(
    "name", ["public/hta_mtia_inf.json.gz", "public/aiu_allreduce_tp4.json.gz", "chrome/forms/amd_mi250_rocm.json.gz"]
)
def test_tensor_cores_are_unknown_where_names_of_kernels_do_not_tell(name: str) -> None:
    trace = report_of(name)["run"]["traces"][0]
    is_gpu = "rocm" in name
    assert all((row["tensor_cores"] is None) != is_gpu for row in trace["kernels"])
    assert all((row["tensor_core_percent"] is None) != is_gpu for row in trace["overview"]["gpu"])
    assert (trace["tensor_cores"]["percent"] is None) != is_gpu
    assert is_gpu or all(row["tensor_core_percent"] is None for row in trace["operators"])


@pytest.mark.parametrize("path", [VIM, GPT, "jax/h200.trace.json.gz", "ncu/vim_full_details.csv.gz"])
@pytest.mark.parametrize("by", GROUPINGS)
def test_every_grouping_is_of_the_same_launches(recording: Recording, path: str, by: str) -> None:
    sel = select(recording(path))
    table, found = kernels(sel), kernel_groups(sel, by)
    assert found["total_ns"].sum() == table["total_ns"].sum()
    assert found["calls"].sum() == table["calls"].sum()
    assert found["percent"].sum() == pytest.approx(100)
    assert found["group"].null_count() == 0
    assert found["group"].is_unique().all()
    for row in found.head(3).iter_rows(named=True):
        inside = group_kernels(sel, by, row["group"])
        assert (inside["total_ns"].sum(), inside["calls"].sum()) == (row["total_ns"], row["calls"])
        assert inside.height == row["kernels"]
        assert inside["name"][0] == row["name"]


@pytest.mark.parametrize("path", [VIM_RUN, TRAIN, CLEAN, SWEEP], ids=lambda path: path.name)
def test_every_grouping_of_our_own_recordings_adds_up(path: Path) -> None:
    for trace in open_path(path).traces:
        sel = select(trace)
        table = kernels(sel)
        for by in GROUPINGS:
            found = kernel_groups(sel, by)
            assert found.select("total_ns", "calls").sum().row(0) == table.select("total_ns", "calls").sum().row(0)


@pytest.mark.parametrize(
    ("path", "of", "by", "group"),
    [
        ("planted/clip_loop", copy_rows, "line", "clip_loop.py(7): step"),
        ("planted/clip_loop", waiting_calls, "line", "clip_loop.py(7): step"),
        ("causes/rl_buffer", waiting_calls, "line", "rl_buffer.py(12): sample, line 18"),  # the line by samples
        ("ranks4/ddp_gpu/rich", work_rows, "stream", "stream 19"),
    ],
)
def test_other_work_is_grouped_as_kernels_are(path, of, by, group) -> None:
    sel = select(run_of(path).main)
    rows = of(sel)
    found = kernel_groups(sel, by, rows)
    assert by in known_groupings(sel, rows)
    assert "category" not in known_groupings(sel, rows)
    assert found["group"][0] == group
    assert found["total_ns"].sum() == rows["duration"].sum()
    assert found["in_steps_ns"].sum() == rows.filter(pl.col("step").is_not_null())["duration"].sum()


def test_copies_by_name_are_the_table_of_copies() -> None:
    sel = select(run_of("planted/clip_loop").main)
    found = kernel_groups(sel, "name", copy_rows(sel))
    assert (
        found.select(name="group", calls="calls", total_ns="total_ns").rows()
        == memops(sel).select("name", "calls", "total_ns").rows()
    )


def test_one_step_has_its_own_totals(training: Trace) -> None:
    sel = select(training, Scope(steps=(training.steps["index"][0],) * 2))
    assert kernel_groups(sel, "category")["total_ns"].sum() == kernels(sel)["total_ns"].sum() > 0


def test_by_name_is_the_table_of_kernels(training: Trace) -> None:
    sel = select(training)
    found, table = kernel_groups(sel, "name"), kernels(sel)
    assert found["group"].to_list() == table["name"].to_list()
    for column in ("total_ns", "calls", "percent", "mean_ns", "median_ns", "std_ns", "in_steps_ns", "registers"):
        assert found[column].to_list() == table[column].to_list()


def test_categories_are_those_of_the_names(training: Trace) -> None:
    sel = select(training)
    for row in kernel_groups(sel, "category").iter_rows(named=True):
        assert {kernel_names.category(name) for name in group_kernels(sel, "category", row["group"])["name"]} == {
            row["group"]
        }


def test_modules_count_the_kernels_that_the_tree_gives_them(training: Trace) -> None:
    sel = select(training)
    tree = modules(sel)
    leaf = next(
        path for path in tree["path"].to_list() if path and not tree["path"].str.starts_with(f"{path}/").any()
        and module_kernels(sel, path).height
    )  # fmt: skip
    group = kernel_groups(sel, "module").filter(group=leaf)
    assert group["total_ns"].sum() == module_kernels(sel, leaf)["total_ns"].sum()
    named = dict(tree.select("path", "class_name").iter_rows())
    by_class = kernel_groups(sel, "class").filter(group=named[leaf])
    instances = kernel_groups(sel, "module").filter(pl.col("group").replace_strict(named, default=None) == named[leaf])
    assert by_class["total_ns"].sum() == instances["total_ns"].sum()


def test_launch_shapes_are_grid_and_block(training: Trace) -> None:
    sel = select(training)
    first = kernel_groups(sel, "shape").row(0, named=True)
    rows = group_rows(sel, "shape", first["group"])
    grid, block = (text.split("x") for text in first["group"].split(" × "))
    assert {tuple(map(str, row)) for row in rows["grid"].to_list()} == {tuple(grid)}
    assert {tuple(map(str, row)) for row in rows["block"].to_list()} == {tuple(block)}


def test_what_is_not_recorded_is_a_group_and_no_grouping(recording: Recording) -> None:
    sel = select(recording("ncu/vim_full_details.csv.gz"))
    assert kernel_groups(sel, "module")["group"].to_list() == [NOT_ATTRIBUTED]
    assert kernel_groups(sel, "input_shapes")["group"].to_list() == [NOT_RECORDED]
    assert known_groupings(sel) == ("name", "category", "shape", "stream")


def test_ranges_stand_in_for_modules(recording: Recording) -> None:
    sel = select(recording("chrome/gpt_small_ctx256.trace.json.gz"))
    assert "range" in known_groupings(sel)
    assert "module" not in known_groupings(sel)
    assert "module" in known_groupings(select(recording(VIM)))


def test_streams_name_the_gpu_where_there_are_several(training: Trace) -> None:
    rows = kernel_rows(select(training)).head(4).with_columns(device=pl.Series([0, 0, 1, None], dtype=pl.Int64))
    assert labels(select(training), rows, "stream").to_list() == [
        *["GPU 0, stream 7"] * 2, "GPU 1, stream 7", "GPU ?, stream 7",
    ]  # fmt: skip


def test_there_are_no_other_groupings(training: Trace) -> None:
    with pytest.raises(ValueError, match="not grouped by 'colour'; there are name, category"):
        kernel_groups(select(training), "colour")
    assert options.GROUPINGS == GROUPINGS


def test_only_a_kernel_of_the_list_of_kernels_opens_its_operators() -> None:
    view = SimpleNamespace(session=None)
    row = {"name": "k", "operators": [{"name": "aten::mm", "ns": 30, "calls": 1}]}
    opened = {
        id: KernelsView.members(view, SimpleNamespace(id=id, within=None), row, "operators") is not None  # type: ignore[arg-type]
        for id in ("kernels", "kernel_groups", "kernel_launches", "copies")
    }
    assert opened == {"kernels": True, "kernel_groups": False, "kernel_launches": False, "copies": False}
