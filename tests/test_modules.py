"""The module tree, and trees of modules and ranges down to the kernels: paths, times, the backward pass, sums."""

import csv
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from laid_out import body
from sample_runs import recorded, run_of
from tui_pilot import opened, press

from tracetui.analysis.attribution.calltree import merged_paths
from tracetui.analysis.attribution.module_tree import module_tree
from tracetui.analysis.attribution.operator_tree import device_work
from tracetui.analysis.kernels import NOT_ATTRIBUTED, kernels
from tracetui.analysis.modules import module_kernels, modules
from tracetui.analysis.ranges import range_tree
from tracetui.analysis.selection import Scope, Selection, select
from tracetui.analysis.tree_kernels import (
    module_tree_kernels,
    modules_to_kernels,
    range_own_kernels,
    range_tree_kernels,
    ranges_to_kernels,
)
from tracetui.app.cli.main import main
from tracetui.parsers import Source, Trace, TraceInfo
from tracetui.parsers.names import kernel_names

Recording = Callable[[str], Trace]

VIM = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"
MLP = "chrome/forms/torch213_cpu_mlp_modules.pt.trace.json.gz"
WORK = ["kernel", "memcpy", "memset", "graph"]


@pytest.mark.parametrize("codes", [[0, 1, 2], [2, 0, 1]])
def test_paths_of_one_depth_are_numbered_by_their_first_node_whatever_the_codes_of_names(codes: list[int]) -> None:
    label = np.array(codes)[[0, 1, 0, 2, 1]]
    path, parent, labels = merged_paths(np.array([-1, 0, -1, 2, 0]), label, 3)
    assert (path.tolist(), parent.tolist()) == ([0, 1, 0, 2, 1], [-1, 0, 0])
    assert labels.tolist() == codes


def test_paths_name_every_module_around(recording: Recording) -> None:
    trace = recording(VIM)
    tree, host = module_tree(trace), trace.host
    for row, number in zip(tree.calls.rows.tolist(), tree.path.tolist(), strict=True):
        names, above = [], row
        while above is not None:
            if host["kind"][above] == "module":
                names.append(str(host["name"][above]).removeprefix("nn.Module: "))
            above = host["parent"][above]
        assert tree.paths[number] == "/".join(reversed(names))
    assert tree.calls.rows.size == 300


@pytest.mark.parametrize("path", [VIM, MLP, None])
def test_tree_order_and_sums(recording: Recording, training: Trace, path: str | None) -> None:
    frame = modules(select(recording(path) if path else training))
    tree = frame.filter(pl.col("path") != NOT_ATTRIBUTED)
    rows = {row["path"]: row for row in tree.iter_rows(named=True)}
    seen: list[str] = []
    for row in tree.iter_rows(named=True):
        parent = row["path"].rpartition("/")[0]
        assert row["depth"] == row["path"].count("/")
        assert row["path"].endswith(row["name"])
        assert not parent or parent in seen
        assert not seen or not parent or seen[-1].startswith(parent)  # nothing foreign between a parent and its child
        seen.append(row["path"])
        children = [other for other in rows.values() if other["path"].rpartition("/")[0] == row["path"]]
        assert row["host_self_ns"] == row["host_total_ns"] - sum(child["host_total_ns"] for child in children)
        assert row["device_total_ns"] == row["device_self_ns"] + sum(child["device_total_ns"] for child in children)
        assert row["backward_device_ns"] >= sum(child["backward_device_ns"] for child in children)
    assert frame["path"][-1] == NOT_ATTRIBUTED


def test_vim_tiny_kernels_all_belong_to_modules(recording: Recording) -> None:
    trace = recording(VIM)
    lost = trace.device.filter((pl.col("kind") == "kernel") & pl.col("module").is_null())
    assert lost.is_empty()
    rows = modules(select(trace)).filter(pl.col("class_name") == "Mamba")
    assert rows.height == 48
    assert set(rows["calls"]) == {3}
    # what is left are copies of the batch to the device and of the loss back
    left = modules(select(trace)).row(-1, named=True)
    copies = trace.device.filter(pl.col("kind") == "memcpy")
    assert (left["kernels"], left["device_self_ns"]) == (copies.height, copies["duration"].sum())


def test_backward_kernels_go_to_the_forward_module(training: Trace) -> None:
    """35.07 % of kernel time is forward, 62.56 % backward; what is left is the optimizer's and the loss function's."""
    device = training.device.filter(pl.col("kind") == "kernel")
    whole = device["duration"].sum()
    forward = device.filter(pl.col("module").is_not_null())["duration"].sum()
    backward = device.filter(pl.col("module").is_null() & pl.col("forward_module").is_not_null())["duration"].sum()
    assert 100 * forward / whole == pytest.approx(35.07, abs=0.005)
    assert 100 * backward / whole == pytest.approx(62.56, abs=0.005)
    tree = modules(select(training)).filter(pl.col("depth") == 0)
    fills = training.device.filter((pl.col("kind") == "memset") & pl.col("forward_module").is_not_null())
    assert tree["backward_device_ns"].sum() == backward + fills["duration"].sum()

    left = module_kernels(select(training), NOT_ATTRIBUTED)
    assert left["total_ns"].sum() == whole - forward - backward
    optimizer = left.filter(pl.col("operator").str.starts_with("aten::_foreach_"))
    assert set(optimizer["category"]) == {"optimizer"}
    rest = left.filter(~pl.col("operator").str.starts_with("aten::_foreach_"))
    assert rest["short_name"].str.contains("nll_loss|softmax|fill").all()
    assert rest["total_ns"].sum() < 0.001 * whole


def test_what_the_engine_does_around_a_backward_operator_counts_for_it(training: Trace) -> None:
    """Bias gradients are summed by autograd's engine, beside `AddmmBackward0`: 34 calls, 2.7 % of kernel time."""
    sums = kernels(select(training)).filter(pl.col("short_name") == "reduce: sum")
    paths = {entry["path"].rpartition("/")[2]: entry["calls"] for entries in sums["modules"] for entry in entries}
    assert NOT_ATTRIBUTED not in paths
    assert sum(calls for name, calls in paths.items() if name.startswith("Linear_")) == 34


def test_backward_time_is_where_the_gradient_is(training: Trace) -> None:
    """A linear layer's backward pass has two products where its forward has one; a layer norm's has norm kernels."""
    rows = {row["name"]: row for row in modules(select(training)).iter_rows(named=True)}
    linear = rows["Linear_0"]
    assert 1.3 * linear["device_total_ns"] < linear["backward_device_ns"] < 3 * linear["device_total_ns"]
    names = module_kernels(select(training), next(r["path"] for r in rows.values() if r["name"] == "LayerNorm_0"))
    assert {kernel_names.category(name) for name in names["name"]} >= {"norm"}
    assert names["short_name"].str.contains("grad|Backward").any()


def test_what_a_backward_pass_computes_again_is_the_module_of_the_forward_pass() -> None:
    """Two checkpointed blocks: autograd calls each again, where no module is around it."""
    sel = select(run_of("chrome/checkpointed.pt.trace.json.gz").main)
    called = dict(modules(sel).select("path", "calls").iter_rows())
    assert called["Net_0"] == called["Net_0/Linear_4"] == 1
    assert {called[f"Net_0/Block_{number}"] for number in (0, 1)} == {2}
    assert called["Net_0/Block_1/Linear_3"] == 2
    assert len(called) == 9  # with what belongs to no module


def test_kernels_of_a_module_hold_those_of_its_children(recording: Recording) -> None:
    sel = select(recording(VIM))
    block = modules(sel).filter(pl.col("name") == "Block_1").row(0, named=True)
    frame = module_kernels(sel, block["path"])
    assert frame["calls"].sum() == block["kernels"]
    assert frame["total_ns"].sum() == block["device_total_ns"]
    assert not module_kernels(sel, "VisionMamba_0/Block_1/Mixer_1").filter(pl.col("category") == "norm").height
    assert module_kernels(sel, "VisionMamba_0/Block").is_empty()  # a part of a name is no path


def test_steps_restrict_the_tree(recording: Recording) -> None:
    trace = recording(VIM)
    whole, one = modules(select(trace)), modules(select(trace, Scope(steps=(2, 2))))
    assert one["path"].to_list() == whole["path"].to_list()
    assert one["calls"].sum() * 3 == whole["calls"].sum()


def test_without_modules_the_tree_is_empty(recording: Recording, tmp_path: Path) -> None:
    nothing = Trace.empty(TraceInfo("chrome", "made"), Source(tmp_path, 0))
    for trace in (nothing, recording("chrome/gpt_small_ctx256.trace.json.gz")):
        frame = modules(select(trace))
        assert frame.is_empty()
        assert frame.columns == modules(select(recording(VIM))).columns
        assert not module_tree(trace).paths


VIT = "small_vit_train.pt.trace.json.gz"
GPT = "chrome/gpt_small_ctx256.trace.json.gz"
JAX = "jax/h200.trace.json.gz"
CPU = "chrome/forms/torch213_cpu_mlp_modules.pt.trace.json.gz"


def to_kernels(sel: Selection) -> pl.DataFrame:
    return modules_to_kernels(modules(sel), module_tree_kernels(sel))


def children(frame: pl.DataFrame) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    way: list[int] = []
    for row, depth in enumerate(frame["depth"]):
        del way[depth:]
        found.setdefault(way[-1] if way else -1, []).append(row)
        way.append(row)
    return found


def add_up(frame: pl.DataFrame, columns: tuple[str, ...]) -> None:
    """Fails where a row that has others below it is more or less than their sum."""
    for row, below in children(frame).items():
        for column in columns:
            if row >= 0:
                assert frame[column][row] == frame[column][below].sum(), (column, frame["path"][row])


@pytest.mark.parametrize("name", [VIT, VIM, JAX])
def test_modules_operators_and_kernels_add_up(name: str) -> None:
    sel = select(run_of(name).main)
    tree, frame = modules(sel), to_kernels(sel)
    add_up(frame, ("device_total_ns", "backward_device_ns", "kernels"))
    roots = frame.filter(depth=0)
    assert roots["device_total_ns"].sum() + roots["backward_device_ns"].sum() == device_work(sel)["duration"].sum()
    # the modules are the same rows in the same order
    assert frame.filter(row_kind="module").select(tree.columns).equals(tree)
    assert set(frame["row_kind"]) >= {"module", "operator", "kernel"}
    leaves = frame.filter(~pl.col("row_kind").is_in(["module", "operator"]))
    assert leaves["calls"].sum() == device_work(sel).height
    assert frame["path"].n_unique() == frame.height
    # an operator's occupancy is the mean over the time of its kernels
    both = pl.col("occupancy_percent").is_not_null() & (pl.col("row_kind") == "operator")
    for row in frame.filter(both).head(20).iter_rows(named=True):
        below = frame.filter(pl.col("row_kind") == "kernel", module=row["module"], operator=row["operator"])
        held = (below["occupancy_percent"] * below["known_occupancy_ns"]).sum() / below["known_occupancy_ns"].sum()
        assert row["occupancy_percent"] == pytest.approx(held)


def test_what_belongs_to_no_module_has_a_row_with_its_kernels() -> None:
    sel = select(run_of(VIT).main)
    frame = to_kernels(sel)
    at = frame["path"].to_list().index(NOT_ATTRIBUTED)
    assert frame["depth"][at] == 0
    names = frame[at + 1 :]["name"].to_list()
    assert any("multi_tensor" in name or "Adam" in name or "copy" in name for name in names)


@pytest.mark.parametrize("name", [GPT, VIM, VIT, "nsys/gpt_small_ctx256.sqlite.gz"])
def test_ranges_and_kernels_add_up(name: str) -> None:
    sel = select(run_of(name).main)
    tree = range_tree(sel)
    frame = ranges_to_kernels(tree, range_own_kernels(sel))
    add_up(frame, ("device_total_ns", "gpu_ops"))
    assert frame.filter(depth=0)["device_total_ns"].sum() == device_work(sel)["duration"].sum()
    assert frame.filter(row_kind="range").select(tree.columns).equals(tree)
    if name == GPT:  # whose backward pass another thread launches
        number = tree.filter(path="backward_pass")["number"].item()
        backward = frame.filter((pl.col("row_kind") != "range") & (pl.col("number") == number))
        theirs = range_tree_kernels(sel).filter(number=number)
        assert backward["device_meanwhile_ns"].sum() == theirs["device_meanwhile_ns"].sum() > 20_000_000


def test_without_a_gpu_the_modules_stay_as_they_are() -> None:
    sel = select(run_of(CPU).main)
    assert to_kernels(sel).filter(row_kind="module").height == to_kernels(sel).height == modules(sel).height


def test_a_report_lists_the_kernels_below_their_operators(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(recorded(VIT)), "--section", "modules", "--kernels", "1", "--limit", "0"]) == 0
    lines = body(capsys.readouterr().out).splitlines()
    at = next(n for n, line in enumerate(lines) if line.rstrip().endswith("Mlp ×4"))
    left = next(line.index("Module") for line in lines if line.endswith("Module"))
    names = [line[left:] for line in lines[at + 1 : at + 6]]
    assert [len(name) - len(name.lstrip()) for name in names] == [8, 10, 12, 12, 10], names
    assert names[0].split() == ["Linear", "×8"]
    assert names[1].strip() == "aten::mm"
    assert names[2].strip().startswith("- sm80_xmma_gemm")
    assert names[3].strip() == "- 4 more"
    assert max(map(len, lines)) <= 80
    assert main(["report", str(recorded(VIT)), "--section", "modules", "--kernels", "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    whole = device_work(select(run_of(VIT).main))["duration"].sum() / 1000
    assert sum(float(row["device_us"]) + float(row["backward_device_us"]) for row in rows) == pytest.approx(whole)


async def test_kernels_of_one_short_name_look_different_in_the_trees() -> None:
    async with opened(recorded(VIM), size=(120, 40)) as (app, pilot):
        await press(pilot, "5")
        work = app.view.table.frame.filter(row_kind="kernel").select("kernel", "name").unique()
        assert work["name"].is_unique().all()
        assert {"elementwise: add<vectorized>", "elementwise: add<128>"} <= set(work["name"])
        await press(pilot, "2")
        known = dict(app.view.table.frame.select("name", "short_name").iter_rows())
        assert all(known[kernel] == name for kernel, name in work.iter_rows())  # as everywhere else


def test_kernels_of_one_short_name_look_different_in_reports(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(recorded(VIM)), "--section", "modules", "--kernels", "9"]) == 0
    text = capsys.readouterr().out
    assert "- elementwise: add<vectorized>" in text
    assert "- elementwise: add<128>" in text


async def test_the_tab_of_modules_goes_down_to_launches() -> None:
    async with opened(recorded(VIM), tab="modules") as (app, pilot):
        table = app.view.table
        frame = app.view.state.page.frame
        conv = frame["path"].to_list().index("VisionMamba_0/Conv2d_0")
        assert conv not in table.expanded  # operators and kernels stay folded at first
        table.stand_on(conv)
        await press(pilot, "plus", "down")
        row = table.row_number(table.cursor)
        assert (frame["name"][row], frame["row_kind"][row]) == ("aten::cudnn_convolution", "operator")
        await press(pilot, "enter")
        assert app.view.state.page.frame["name"].len() == 1
        assert app.view.state.page.frame["total_ns"].sum() == frame["device_total_ns"][row]
        await press(pilot, "escape", "down", "enter")
        assert app.view.state.page.id == "launches"
        assert app.view.state.page.frame["duration_ns"].sum() == frame["device_total_ns"][row]
        await press(pilot, "escape", "D")
        tree = app.view.icicle.source
        node = next(one for one in tree.roots if one.name == "VisionMamba_0")
        while inside := tree.children(node):
            assert sum(one.value for one in inside) == node.value
            node = max(inside, key=lambda one: one.value)
        assert frame["row_kind"][node.rows[0]] == "kernel"


async def test_the_tree_of_ranges_goes_down_to_launches() -> None:
    async with opened(recorded(GPT), tab="modules") as (app, pilot):
        table, frame = app.view.table, app.view.state.page.frame
        row = frame.with_row_index().filter(
            (pl.col("row_kind") == "kernel") & (pl.col("path").str.starts_with("forward_pass/sm80"))
        )["index"][0]
        table.stand_on(row)
        await press(pilot, "enter")
        page = app.view.state.page
        assert (page.id, page.frame["duration_ns"].sum()) == ("launches", frame["device_self_ns"][row])
