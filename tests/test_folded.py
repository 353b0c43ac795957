"""Repeated siblings of trees share one row: which ones do, and what it says."""

from collections.abc import Sequence

import polars as pl
import pytest
from sample_runs import FP16, FP32, run_of

from tests.tui_pilot import opened, press, screen_text
from tracetui.analysis.modules import modules
from tracetui.analysis.selection import select
from tracetui.analysis.tree_kernels import module_tree_kernels, modules_to_kernels
from tracetui.app.widgets.tree_table import Folded, repeated_siblings, with_folded

Row = tuple[str, int, str]


def folded(rows: Sequence[Row]) -> list[tuple[str, int]]:
    frame = pl.DataFrame(rows, schema=["name", "depth", "row_kind"], orient="row")
    return [(group.name, len(group.rows)) for group in groups_of(frame)]


def groups_of(frame: pl.DataFrame) -> list[Folded]:
    path: list[int] = []
    children: dict[int, list[int]] = {}
    for row, depth in enumerate(frame["depth"]):
        del path[depth:]
        children.setdefault(path[-1] if path else -1, []).append(row)
        path.append(row)
    work = set(frame.select((pl.col("row_kind") != "module").arg_true()).to_series())
    return repeated_siblings(frame, children, work)


def block(name: str, *kernels: str) -> list[Row]:
    return [(name, 0, "module"), *((kernel, 1, "kernel") for kernel in kernels)]


def test_names_that_differ_in_one_number_fold_where_the_same_is_inside() -> None:
    same = [row for number in range(12) for row in block(f"blocks.{number}", "gemm", "softmax")]
    assert folded(same) == [("blocks.0-11", 12)]
    other = [row for number in range(12) for row in block(f"blocks.{number}", "gemm" if number % 2 else "conv")]
    assert folded(other) == [("blocks.0…10", 6), ("blocks.1…11", 6)]
    assert folded([row for number in range(2) for row in block(f"blocks.{number}", "gemm")]) == []
    assert folded([row for number in range(3) for row in block(f"conv{number}", "gemm")]) == [], "other things"
    assert folded([row for number in range(3) for row in block(f"b.{number:05000}", "gemm")]) == [], "no number"


def test_of_two_numbers_one_may_differ() -> None:
    names = [f"stage.{stage}.block.{number}" for stage in range(2) for number in range(4)]
    assert folded([row for name in names for row in block(name, "gemm")]) == [
        ("stage.0.block.0-3", 4), ("stage.1.block.0-3", 4),
    ]  # fmt: skip
    mixed = ["a.0.b.0", "a.1.b.1", "a.2.b.2"]
    assert folded([row for name in mixed for row in block(name, "gemm")]) == []
    assert folded([row for _ in range(3) for row in block("b.1", "gemm")]) == [], "their numbers do not differ"


def test_numbers_of_kernels_tell_different_kernels_apart() -> None:
    assert folded([(f"triton_add_{number}", 0, "kernel") for number in range(5)]) == []
    inside = [row for number in range(3) for row in block(f"blocks.{number}", f"triton_add_{number}")]
    assert folded(inside) == []


def test_a_group_has_the_sums_and_per_call_the_means() -> None:
    frame = pl.DataFrame(
        {
            "name": ["b.0", "b.1", "b.2"],
            "depth": [0, 0, 0],
            "calls": [1, 1, 2],
            "percent": [20.0, 30.0, 50.0],
            "device_total_ns": [20_000, 30_000, 50_000],
            "row_kind": ["module"] * 3,
        }
    )
    groups = groups_of(frame)
    total = with_folded(frame, groups).row(-1, named=True)
    assert total["name"] == "b.0-2 3 × 33.33 µs"
    assert (total["calls"], total["percent"], total["device_total_ns"]) == (4, 100.0, 100_000)
    of_call = frame.with_columns(pl.col("device_total_ns") / pl.col("calls"))
    mean = with_folded(of_call, groups, per_call=True).row(-1, named=True)
    assert (mean["name"], mean["calls"], mean["device_total_ns"]) == ("b.0-2 3 ×", 4, 25_000.0)


def test_the_blocks_of_a_recording_add_up_in_one_row() -> None:
    sel = select(run_of(FP32).main)
    frame = modules_to_kernels(modules(sel), module_tree_kernels(sel))
    blocks = next(group for group in groups_of(frame) if group.name == "Block_0-23")
    row = with_folded(frame, [blocks]).row(-1, named=True)
    own = frame.filter(pl.col("name").str.contains(r"^Block_\d+$"))
    assert row["name"].startswith("Block_0-23 24 × ")
    assert row["device_total_ns"] == own["device_total_ns"].sum()
    assert row["calls"] == own["calls"].sum() == 72


async def test_enter_opens_repeated_modules_also_in_a_diff() -> None:
    async with opened(FP32, FP16, size=(100, 40)) as (app, pilot):
        await press(pilot, "5")
        assert "Block_0-23 24 × " in screen_text(app)
        assert "Block_14" not in screen_text(app)
        await press(pilot, "9", "v", "v")
        while "Block_0-23" not in str(app.view.table.current):  # type: ignore[attr-defined]
            await press(pilot, "down")
        folded_row = app.view.table.current  # type: ignore[attr-defined]
        await press(pilot, "enter")
        text = screen_text(app)
        assert text.count("Block_") > 20
        frame = app.view.table.view()  # type: ignore[attr-defined]
        own = frame.filter(pl.col("short_name").str.contains(r"^Block_\d+$"))
        assert folded_row["delta_ns"] == pytest.approx(own["delta_ns"].sum())
        assert folded_row["a_calls"] == pytest.approx(own["a_calls"].sum())
