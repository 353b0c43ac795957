"""Kernels by category, module, range, launch shape, input shapes and stream: every grouping is of the same launches."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import polars as pl
import pytest
from sample_runs import CLEAN, SWEEP, TRAIN
from sample_runs import VIM as VIM_RUN

from tracetui.analysis.kernels import (
    GROUPINGS,
    NOT_ATTRIBUTED,
    NOT_RECORDED,
    group_kernels,
    group_rows,
    kernel_groups,
    kernel_rows,
    kernels,
    known_groupings,
    labels,
)
from tracetui.analysis.modules import module_kernels, modules
from tracetui.analysis.selection import Scope, select
from tracetui.app.cli.commands import report as options
from tracetui.app.views.kernels import KernelsView
from tracetui.parsers import Trace, open_path
from tracetui.parsers.names import kernel_names

if TYPE_CHECKING:
    from collections.abc import Callable

    Recording = Callable[[str], Trace]

VIM = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"
RECORDINGS = (
    VIM, "chrome/gpt_small_ctx256.trace.json.gz", "chrome/cudagraph_replay.trace.json.gz", "jax/h200.trace.json.gz",
    "chrome/deit_small_train_bf16_bs32.pt.trace.json.gz", "ncu/vim_full_details.csv.gz",
)  # fmt: skip
SMALL_VIT = Path(__file__).parent / "data" / "small_vit_train.pt.trace.json.gz"


@pytest.fixture(scope="module")
def training() -> Trace:
    """Two training steps of a small ViT, recorded on an H200."""
    return open_path(SMALL_VIT).traces[0]


@pytest.mark.parametrize("path", RECORDINGS)
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
        id: KernelsView.members(view, SimpleNamespace(id=id), row, "operators") is not None  # type: ignore[arg-type]
        for id in ("kernels", "kernel_groups", "kernel_launches", "copies")
    }
    assert opened == {"kernels": True, "kernel_groups": False, "kernel_launches": False, "copies": False}
