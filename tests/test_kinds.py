"""Kinds of work that a variant adds and removes, in a sweep and between two runs; the picture of its speed-up."""

from __future__ import annotations

import csv
import io
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from laid_out import diff_text
from reported import compared, swept
from sample_runs import SWEEP, run_of
from sweep_maker import write_sweep

from tracetui.analysis.captures.kinds import kind_times
from tracetui.analysis.report.sweep import sweep_json
from tracetui.analysis.selection import in_steps, select
from tracetui.analysis.sweeps.compare import kinds_of
from tracetui.analysis.sweeps.model import Point, Sample
from tracetui.app.cli.main import main
from tracetui.app.reports.content.sweep import kind_blocks, section_csv, section_parts, speedup_chart
from tracetui.app.reports.csv_report import diff_csv
from tracetui.app.reports.layout import Layout
from tracetui.app.reports.markdown import markdown
from tracetui.app.reports.text import text
from tracetui.app.views.sweep import _page
from tracetui.parsers import open_path
from tracetui.parsers.names.kernel_names import category, kind_of

if TYPE_CHECKING:
    from pathlib import Path

VIM = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"
ADDED = {"top-k", "sort", "gather/scatter", "reduce"}


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return sweep_json(swept(SWEEP))


def test_a_kind_is_the_category_but_for_what_is_too_wide() -> None:
    names = {
        "void at::native::sbtopk::gatherTopK<float, unsigned int, 1, false>(int)": "top-k",
        "void at::native::bitonicSortKVInPlace<2, -1, 16, 16, float, long>(int)": "sort",
        "void at::native::vectorized_gather_kernel<16, long>(char*, char*)": "gather/scatter",
        "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel>(long)": "gather/scatter",
        "void at::native::_scatter_gather_elementwise_kernel<128, 8>(int)": "gather/scatter",
        "void at::native::CatArrayBatchedCopy<int, unsigned int, 3, 64, 64>(int*)": "concatenate",
        "void at::native::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(float*)": "loss",
        "void (anonymous namespace)::indexSelectLargeIndex<float>(int)": "gather/scatter",
        "nchwToNhwcKernel": "copy",
        "void at::native::index_elementwise_kernel<128, 4, at::native::flip_kernel_impl<float> >(long)": "copy",
        "store_kvcache": "copy",
        "trampoline_kernel": "other",
    }
    assert {name: kind_of(name) for name in names} == names
    others = [
        name for name in run_of(VIM).main.device["name"].cast(str).unique() if category(name) not in ("other", "copy")
    ]
    assert len(others) > 5
    assert all(kind_of(name) == category(name) for name in others)


def test_kinds_are_all_the_work_of_the_steps() -> None:
    sel = in_steps(select(run_of(VIM).main))
    table = kind_times(sel)
    work = sel.device.filter(sel.device["kind"].is_in(["kernel", "memcpy", "memset"]))
    assert table["ns"].sum() * sel.step_count == pytest.approx(work["duration"].sum())
    assert table["calls"].sum() * sel.step_count == pytest.approx(work.height)
    copies = work.filter(work["kind"] == "memcpy")
    assert table.filter(kind="memcpy")["ns"].item() == pytest.approx(copies["duration"].sum() / sel.step_count)


def test_what_token_reduction_adds_at_every_batch(found: dict[str, Any]) -> None:
    for batch in (1, 4, 16):
        rows = [row for row in found["kinds"] if row["x"] == batch]
        added = {row["kind"] for row in rows if row["status"] == "added"}
        assert added - {"memset"} == ADDED
        (one,) = (row for one in found["comparisons"] for row in one["points"] if row["x"] == batch)
        assert sum(row["delta_us"] for row in rows) == pytest.approx(one["gpu_delta_us"], rel=0.05)  # medians


def test_the_added_kernels_are_those_of_the_trace(found: dict[str, Any]) -> None:
    run = open_path(SWEEP / "batch=16,keep=0.1" / "repeat-1").main
    counted = Counter(kind_of(name) for name in run.device.filter(run.device["kind"] == "kernel")["name"].cast(str))
    steps = run.steps.height
    for row in found["kinds"]:
        if row["x"] == 16 and row["kind"] not in ("memcpy", "memset"):
            assert row["variant_calls"] == pytest.approx(counted[row["kind"]] / steps), row["kind"]


def test_repeats_count_as_their_median() -> None:
    samples = [
        Sample({}, "a", kinds={"gemm": (2.0, 10.0, "g"), "sort": (1.0, 5.0, "s")}),
        Sample({}, "b", kinds={"gemm": (4.0, 30.0, "g")}),
        Sample({}, "c", kinds={"gemm": (4.0, 20.0, "g")}),
        Sample({}, "d"),
    ]
    assert kinds_of(Point({}, tuple(samples))) == {"gemm": (4.0, 20.0, "g")}


def test_tables_and_csv_say_the_same(found: dict[str, Any]) -> None:
    rows = list(csv.DictReader(io.StringIO(section_csv(swept(SWEEP), "kinds"))))
    assert [(row["kind"], float(row["delta_us"])) for row in rows] == [
        (row["kind"], pytest.approx(row["delta_us"])) for row in found["kinds"]
    ]
    (block,) = kind_blocks(swept(SWEEP), Layout())
    top_k = next(cells for cells in block.cells if cells[0] == "+ top-k")
    assert top_k[1::2] == ["+14.35 µs", "+15.90 µs", "+17.46 µs"]
    assert top_k[2::2] == ["+3", "+3", "+3"]
    layout = Layout()
    assert "| + top-k |" in markdown(section_parts(swept(SWEEP), ("kinds",), layout), layout)


def test_the_speed_up_has_a_picture_and_a_csv(found: dict[str, Any]) -> None:
    (one,) = found["comparisons"]
    chart = speedup_chart(swept(SWEEP).comparisons[0], Layout())
    assert chart is not None
    assert chart.rows[-1].strip() == "o speed-up   x what the removed work allows   + as fast as the baseline"
    assert chart.rows[1].strip().startswith("3.16 │x")  # 35 GFLOPs to 11
    rows = list(csv.DictReader(io.StringIO(section_csv(swept(SWEEP), "comparisons"))))
    for row, point in zip(rows, one["points"], strict=True):
        assert float(row["speedup"]) == pytest.approx(float(row["baseline_us"]) / float(row["variant_us"]))
        lost = 100 * (1 - float(row["speedup"]) / float(row["possible_speedup"]))
        assert float(row["lost_percent"]) == pytest.approx(lost) == pytest.approx(point["lost_percent"])
    for charts in (True, False):
        layout = Layout(charts=charts)
        assert (
            "what the removed work allows" in text(section_parts(swept(SWEEP), ("comparisons",), layout), layout)
        ) == charts


def test_a_point_without_a_number_or_with_one_size_has_no_picture(tmp_path: Path) -> None:
    from tracetui.analysis.report.sweep import sweep_report
    from tracetui.analysis.sweeps.reading import read_sweep

    points = [
        ({"batch": 1, "keep": keep}, [step], flops, 5) for keep, step, flops in ((1.0, 900.0, 2e9), (0.5, 800.0, 1e9))
    ]
    (one,) = sweep_report(read_sweep(write_sweep(tmp_path / "one", points))).comparisons
    assert speedup_chart(one, Layout()) is None


def test_a_diff_lists_the_kinds_of_only_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = (SWEEP / f"batch=16,keep={keep}" / "repeat-1" for keep in ("1.0", "0.1"))
    told = {row["kind"]: row for row in compared(a, b)["kinds"]}
    assert {kind for kind, row in told.items() if row["status"] == "added"} >= ADDED
    assert sum(row["delta_us"] for row in told.values()) == pytest.approx(
        next(row["delta_us"] for row in compared(a, b)["split"] if row["part"] == "gpu_time"), abs=1
    )
    assert main(["diff", str(a), str(b), "--section", "kinds"]) == 0
    said = capsys.readouterr().out
    assert "Kinds of work: " in said
    assert "Operators" not in said
    assert "Kinds of work that only one of them has" in diff_text(compared(a, b))
    assert {row["kind"] for row in csv.DictReader(io.StringIO(diff_csv(compared(a, b), "kinds")))} == set(told)


def test_the_screen_lists_what_differs(found: dict[str, Any]) -> None:
    frame = _page("kinds", swept(SWEEP)).frame
    differing = [row for row in found["kinds"] if row["status"] != "same"]
    assert frame["kind"].to_list() == [row["kind"] for row in differing]
    assert frame["delta_ns"].to_list() == pytest.approx([1000 * row["delta_us"] for row in differing])
