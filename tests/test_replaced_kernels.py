"""Kernels that stand where another run's kernels stood: in the same calls of the same operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest
from made_run import Made
from sample_runs import run_of

from tracetui.analysis.compare.diff import diff
from tracetui.analysis.matching.replaced_kernels import replacements
from tracetui.analysis.selection import in_steps, select
from tracetui.parsers.names.kernel_names import short_name

if TYPE_CHECKING:
    from pathlib import Path

    from tracetui.analysis.selection import Selection

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
