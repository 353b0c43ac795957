"""The module tree: paths, times, the backward pass, and what no module holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tracetui.analysis.kernels import NOT_ATTRIBUTED, kernels
from tracetui.analysis.modules import module_kernels, module_paths, modules
from tracetui.analysis.selection import Scope, select
from tracetui.parsers import Source, Trace, TraceInfo, open_path
from tracetui.parsers.names import kernel_names

if TYPE_CHECKING:
    from collections.abc import Callable

    Recording = Callable[[str], Trace]

VIM = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"
MLP = "chrome/forms/torch213_cpu_mlp_modules.pt.trace.json.gz"
SMALL_VIT = Path(__file__).parent / "data" / "small_vit_train.pt.trace.json.gz"
WORK = ["kernel", "memcpy", "memset", "graph"]


@pytest.fixture(scope="module")
def training() -> Trace:
    """Two training steps of a small ViT with stacks, recorded on an H200."""
    return open_path(SMALL_VIT).traces[0]


def test_paths_name_every_module_around(recording: Recording) -> None:
    trace = recording(VIM)
    frame = module_paths(trace)
    host = trace.host
    for row, path in frame.iter_rows():
        names, above = [], row
        while above is not None:
            if host["kind"][above] == "module":
                names.append(str(host["name"][above]).removeprefix("nn.Module: "))
            above = host["parent"][above]
        assert path == "/".join(reversed(names))
    assert frame.height == 300


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


def test_nothing_is_lost(recording: Recording, training: Trace) -> None:
    for trace in (recording(VIM), training):
        frame = modules(select(trace))
        roots = frame.filter(pl.col("depth") == 0)
        spent = trace.device.filter(pl.col("kind").is_in(WORK))
        assert roots["device_total_ns"].sum() + roots["backward_device_ns"].sum() == spent["duration"].sum()


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
        assert module_paths(trace).is_empty()
