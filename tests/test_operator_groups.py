"""Operators by module and class of modules: the same calls and the same work as by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
from sample_runs import FP32
from tui_pilot import opened, press, screen_text

from tracetui.analysis.kernels import NOT_ATTRIBUTED
from tracetui.analysis.modules import modules
from tracetui.analysis.operators import (
    group_operator_kernels,
    group_operators,
    known_groupings,
    operator_groups,
    operators,
)
from tracetui.analysis.selection import Scope, select
from tracetui.parsers import Trace, open_path

if TYPE_CHECKING:
    from collections.abc import Callable

    Recording = Callable[[str], Trace]

RECORDINGS = (
    "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz", "chrome/gpt_small_ctx256.trace.json.gz", "jax/h200.trace.json.gz",
    "chrome/forms/torch213_cpu_mlp_modules.pt.trace.json.gz", "chrome/cudagraph_replay.trace.json.gz",
)  # fmt: skip
SUMS = ("calls", "host_self_ns", "device_self_ns", "kernels")


@pytest.fixture(scope="module")
def training() -> Trace:
    """Two training steps of a small ViT, recorded on an H200."""
    return open_path(Path(__file__).parent / "data" / "small_vit_train.pt.trace.json.gz").traces[0]


@pytest.mark.parametrize("path", RECORDINGS)
@pytest.mark.parametrize("by", ["module", "class"])
def test_every_grouping_adds_up_to_the_table_by_name(recording: Recording, path: str, by: str) -> None:
    sel = select(recording(path))
    table, found = operators(sel), operator_groups(sel, by)
    for column in SUMS:
        assert found[column].sum() == table[column].sum()
    assert found["group"].is_unique().all()
    parts = pl.concat(group_operators(sel, by, group).select("name", *SUMS) for group in found["group"])
    by_name = parts.group_by("name").agg(pl.col(SUMS).sum())
    for row in by_name.iter_rows(named=True):
        known = table.filter(name=row["name"])
        assert [row[column] for column in SUMS] == [known[column].sum() for column in SUMS]


def test_a_group_has_its_operators_and_they_their_kernels(training: Trace) -> None:
    sel = select(training)
    for row in operator_groups(sel, "class").iter_rows(named=True):
        inside = group_operators(sel, "class", row["group"])
        assert [inside[column].sum() for column in SUMS] == [row[column] for column in SUMS]
        assert inside["name"][0] == row["name"]
        assert inside.filter(pl.col("name") != NOT_ATTRIBUTED).height == row["operators"]
        kernels = group_operator_kernels(sel, "class", row["group"], row["name"])
        assert kernels["total_ns"].sum() <= inside["device_self_ns"][0]


def test_a_backward_operator_belongs_to_the_module_of_its_forward_one(training: Trace) -> None:
    sel = select(training)
    linear = group_operators(sel, "class", "Linear")
    assert "AddmmBackward0" in linear["name"].to_list()
    assert linear.filter(name="AddmmBackward0")["calls"].item() > 0
    backward = modules(sel).filter(pl.col("path") == NOT_ATTRIBUTED)["device_self_ns"].item()
    assert operator_groups(sel, "module").filter(group=NOT_ATTRIBUTED)["device_self_ns"].item() == backward


def test_one_step_has_its_own(training: Trace) -> None:
    first = training.steps["index"][0]
    sel = select(training, Scope(steps=(first, first)))
    assert operator_groups(sel, "module")["host_self_ns"].sum() == operators(sel)["host_self_ns"].sum() > 0


def test_only_what_is_known_is_offered(recording: Recording, training: Trace) -> None:
    assert known_groupings(select(training)) == ("name", "input_shapes", "class", "module")
    assert known_groupings(select(recording("chrome/gpt_small_ctx256.trace.json.gz"))) == ("name", "input_shapes")
    assert known_groupings(select(recording("chrome/cudagraph_replay.trace.json.gz"))) == ("name",)


async def test_b_goes_round_and_enter_goes_in():
    async with opened(FP32, tab="operators") as (app, pilot):
        whole = app.view.table.frame["device_self_ns"].sum()
        for words in ("input shape", "module class", "module"):
            await press(pilot, "b")
            assert f" Operators by {words}  steps" in screen_text(app)
            assert app.view.table.frame["device_self_ns"].sum() == whole
        group = app.view.table.current
        await press(pilot, "enter")
        assert app.view.table.frame["device_self_ns"].sum() == group["device_self_ns"]
        operator = app.view.table.current
        await press(pilot, "enter")
        assert app.view.table.frame["total_ns"].sum() == operator["device_self_ns"]
        kernel = app.view.table.current
        await press(pilot, "enter")
        assert app.view.table.frame["duration_ns"].sum() == kernel["total_ns"]
        await press(pilot, "escape", "escape", "escape", "b")
        assert " Operators  steps" in screen_text(app)


async def test_shapes_are_one_of_the_groupings():
    async with opened(FP32, tab="operators") as (app, pilot):
        await press(pilot, "v")
        assert "Operators by input shape" in screen_text(app)
        row = app.view.table.current
        await press(pilot, "enter")
        assert app.view.table.frame["total_ns"].sum() == row["device_self_ns"]
        await press(pilot, "escape", "b")
        assert "Operators by module class" in screen_text(app)
        await press(pilot, "B")
        assert "Operators by input shape" in screen_text(app)


async def test_an_unknown_grouping_is_not_offered(recording: Recording):
    async with opened(recording("chrome/cudagraph_replay.trace.json.gz").source.path, tab="kernels") as (app, pilot):
        for words in ("category", "launch shape", "stream"):
            await press(pilot, "b")
            assert f"Kernels by {words}" in screen_text(app)
