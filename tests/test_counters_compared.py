"""Several reports of Nsight Compute side by side: in the analysis, the reports and on the screen."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import ncu_file
import pytest
from as_json import report
from laid_out import body
from sample_runs import recorded
from tui_pilot import opened, press, screen_text

from tracetui.analysis.counters.compared import compare
from tracetui.app.cli.main import main
from tracetui.parsers import open_path
from tracetui.parsers.ncu.reader import read_ncu

COPY = "void at::native::vectorized_elementwise_kernel<4, float16_copy_kernel_cuda(at::TensorIteratorBase &)>(int)"
METRICS = {
    "sm_percent": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "memory_percent": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "occupancy_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "l1_hit_percent": "l1tex__t_sector_hit_rate.pct",
    "l2_hit_percent": "lts__t_sector_hit_rate.pct",
}
UTILIZATION = {  # SM, memory, occupancy, L1 hit, L2 hit
    "ncu_224_bs1_baseline": (3.20, 28.85, 43.32, 1.85, 52.27),
    "ncu_224_bs1_with_tr": (3.24, 29.09, 43.44, 1.85, 51.89),
    "ncu_448_bs8_with_tr": (4.34, 39.00, 54.84, 1.85, 50.67),
    "ncu_448_bs4_with_tr": (4.40, 39.13, 54.90, 1.85, 50.33),
    "ncu_448_bs1_with_tr": (4.28, 38.44, 55.19, 1.85, 50.51),
}
"""Means over three launches of one copy kernel, as a report on five configurations gave them."""


@pytest.fixture
def five(tmp_path: Path) -> list[Path]:
    """Details pages whose launches spread around those means."""
    paths = []
    for name, means in UTILIZATION.items():
        labels = [
            (ncu_file.SOL, "Compute (SM) Throughput"), (ncu_file.SOL, "Memory Throughput"),
            ("Occupancy", "Achieved Occupancy"), ("Memory Workload Analysis", "L1/TEX Hit Rate"),
            ("Memory Workload Analysis", "L2 Hit Rate"),
        ]  # fmt: skip
        rows = [
            (number, COPY, section, label, "%", f"{mean + away:.2f}")
            for number, away in enumerate((-0.5, 0, 0.5))
            for (section, label), mean in zip(labels, means, strict=True)
        ]
        path = tmp_path / f"{name}.csv"
        path.write_text(ncu_file.long_table(rows))
        paths.append(path)
    return paths


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main([str(argument) for argument in arguments]) == 0
    return capsys.readouterr().out


def test_every_table_of_the_report_on_five_configurations(five: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, "report", *five, "--section", "counters", "--format", "json", "--no-cache"))
    run = found["run"]
    compared = run["counters_compared"]
    assert [file["label"] for file in compared["files"]] == list(UTILIZATION)
    assert [(file["launches"], file["kernels"]) for file in compared["files"]] == [(3, 1)] * 5
    whole = {row["metric"]: row for row in compared["metrics"] if row["of"] == "all"}
    for place, metric in enumerate(METRICS):
        row = whole[metric]
        assert row["values"] == pytest.approx([means[place] for means in UTILIZATION.values()]), metric
        assert row["launches"] == [3] * 5
        assert row["unit"] == "%"
    # the baseline against the second configuration
    assert [
        whole[name]["changes"][1] for name in ("sm_percent", "memory_percent", "occupancy_percent")
    ] == pytest.approx([0.04, 0.24, 0.12])
    # which kernels were profiled, and how often
    assert compared["kernels"] == [
        {"name": COPY, "short_name": "elementwise: float16_copy_kernel_cuda", "launches": [3] * 5}
    ] or (compared["kernels"][0]["launches"] == [3] * 5 and len(compared["kernels"]) == 1)
    assert compared["same_kernels"] is True
    assert len(run["traces"]) == 5
    assert [row["launch"] for row in run["traces"][0]["counters"]] == [0, 1, 2]


def test_the_same_tables_as_text_and_markdown(five: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "report", *five, "--section", "counters", "--no-cache")
    assert all(len(line) <= 80 for line in body(text).splitlines())
    lines = [line.split() for line in text.splitlines()]
    assert ["3.20", "%", "3.24", "%", "4.34", "%", "4.40", "%", "4.28", "%", "SM"] in lines
    assert ["+0.04", "pt", "+1.14", "pt", "+1.20", "pt", "+1.08", "pt", "SM"] in lines
    assert "1.85 %  1.85 %  1.85 %  1.85 %  1.85 %  L1 hit rate" in " ".join(text.split("\n")).replace("   ", "  ")
    assert "says little about a whole program" in " ".join(text.split())
    page = printed(capsys, "report", *five, "--section", "counters", "--no-cache", "--format", "markdown")
    assert "| 43.32 % | 43.44 % | 54.84 % | 54.90 % | 55.19 % | `achieved occupancy` |" in page
    assert "| 3 | 3 | 3 | 3 | 3 | `" in page


def test_two_files_have_a_column_for_the_change(five: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "report", *five[:2], "--section", "counters", "--no-cache")
    lines = [line.split() for line in text.splitlines()]
    assert ["28.85", "%", "29.09", "%", "+0.24", "pt", "memory"] in lines
    # the first file given is the base, whatever it is called
    swapped = printed(capsys, "report", five[1], five[0], "--section", "counters", "--no-cache")
    assert ["29.09", "%", "28.85", "%", "-0.24", "pt", "memory"] in [line.split() for line in swapped.splitlines()]


def test_a_folder_of_reports_is_compared_whole(five: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    (five[0].parent / "cut.csv").write_text('"ID","Process ID","Kernel Name","Section Name"\n')
    out = printed(capsys, "report", five[0].parent, "--section", "counters", "--format", "json", "--no-cache")
    compared = json.loads(out)["run"]["counters_compared"]
    # a table without rows is a report on nothing
    assert [file["label"] for file in compared["files"]] == ["cut", *sorted(UTILIZATION)]
    assert [file["launches"] for file in compared["files"]] == [0, 3, 3, 3, 3, 3]
    (row,) = (row for row in compared["metrics"] if (row["of"], row["metric"]) == ("all", "sm_percent"))
    assert row["values"][0] is None
    assert row["values"][1:] == pytest.approx([UTILIZATION[name][0] for name in sorted(UTILIZATION)])
    assert row["changes"] == [None] * 6
    assert compared["problems"] == []


def test_one_file_is_compared_with_nothing(five: list[Path]) -> None:
    assert report(open_path(five[0], cache=False), sections=["counters"])["run"]["counters_compared"] is None


def test_files_with_other_kernels_say_so(tmp_path: Path) -> None:
    a, b = tmp_path / "a.csv", tmp_path / "b.csv"
    names = {"gpu__time_duration.sum": "ns", METRICS["sm_percent"]: "%"}
    a.write_text(ncu_file.wide_table(names, [("gemm(float*)", ["100", "80"]), ("copy(int)", ["10", "2"])]))
    b.write_text(ncu_file.wide_table(names, [("copy(int)", ["12", "4"]), ("copy(int)", ["14", ""])]))
    found = compare([read_ncu(a), read_ncu(b)])
    assert not found.same_kernels
    assert found.files.select("label", "launches", "kernels", "total_ns", "common_launches").rows() == [
        ("a", 2, 2, 110.0, 1), ("b", 2, 1, 26.0, 2),
    ]  # fmt: skip
    assert dict(found.kernels.select("name", "launches").iter_rows()) == {"copy(int)": [1, 2], "gemm(float*)": [1, 0]}

    def row(of: str, metric: str, kernel: str | None = None) -> tuple[Any, ...]:
        (one,) = (
            (item["values"], item["launches"], item["changes"])
            for item in found.metrics.iter_rows(named=True)
            if (item["of"], item["metric"], item["kernel"]) == (of, metric, kernel)
        )
        return one

    assert row("all", "duration_ns") == ([55, 13], [2, 2], [0, -42])
    assert row("common", "duration_ns") == ([10, 13], [1, 2], [0, 3])
    assert row("all", "sm_percent") == ([41, 4], [2, 1], [0, -37])  # one of b's launches has no SM share
    assert row("kernel", "duration_ns", "gemm(float*)") == ([100, None], [1, 0], [0, None])
    assert "memory_percent" not in found.metrics["metric"].to_list()


def test_kernels_meet_over_other_spellings(tmp_path: Path) -> None:
    a, b = tmp_path / "a.csv", tmp_path / "b.csv"
    names = {"gpu__time_duration.sum": "ns"}
    a.write_text(
        ncu_file.wide_table(names, [("void f<(bool)1, float>(float *)", ["1"]), ("g(int)", ["5"]), ("g(float)", ["7"])])
    )
    b.write_text(
        ncu_file.wide_table(names, [("void f<1, float>(float *)", ["2"]), ("g(int)", ["6"]), ("g(float)", ["9"])])
    )
    found = compare([read_ncu(a), read_ncu(b)])
    assert found.same_kernels
    # two functions that differ in nothing but their parameters stay two
    assert sorted(found.kernels["name"]) == ["g(float)", "g(int)", "void f<(bool)1, float>(float *)"]


def test_files_of_one_name_are_told_by_their_folder(tmp_path: Path) -> None:
    paths = []
    for folder in ("base", "changed"):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "ncu.csv"
        path.write_text(ncu_file.wide_table({"gpu__time_duration.sum": "ns"}, [("k", ["1"])]))
        paths.append(path)
    assert compare([read_ncu(path) for path in paths]).files["label"].to_list() == ["base/ncu", "changed/ncu"]


def test_csv_has_a_row_per_launch(capsys: pytest.CaptureFixture[str]) -> None:
    path = recorded("ncu/vim_full_details.csv.gz")
    rows = list(
        csv.DictReader(
            io.StringIO(printed(capsys, "report", path, "--section", "counters", "--format", "csv", "--no-cache"))
        )
    )
    assert len(rows) == 44
    assert rows[14]["short_name"] == "selective_scan_fwd_kernel"
    assert (rows[14]["grid"], rows[14]["block"], rows[14]["duration_us"]) == ("4x384x1", "32x1x1", "20.38")
    assert rows[14]["range"] == "forward_pass"
    assert rows[14]["missing"] == "ComputeWorkloadAnalysis"
    assert "rules" not in rows[14]


def test_text_report_of_one_recording(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "report", recorded("ncu/vim_full_details.csv.gz"), "--no-cache")
    assert all(len(line) <= 80 for line in body(text).splitlines())
    assert "20.68 µs  3  36.4  38.0   3.81    81.6    64.5  17.9  latency  selective_scan" in text
    assert "Not collected: tensor pipe (on the raw page only)." in text
    assert "36.69 µs  59.1  TheoreticalOccupancy" in text
    assert "hunter2" not in text


# --- the screen


async def test_the_counters_tab() -> None:
    async with opened(recorded("ncu/vim_full_details.csv.gz")) as (app, pilot):
        await press(pilot, "6")
        kernels = screen_text(app)
        assert "44 launches of 17 kernels, 303.9 µs" in kernels
        assert "20.68 µs   36.4   38.0" in kernels
        assert "Not collected: tensor pipe" in kernels
        assert "ncu --import REPORT.ncu-rep --csv --page raw" in kernels
        await press(pilot, "enter")
        launches = screen_text(app)
        assert "3 launches of 1 kernel" in launches
        assert "20.38 µs" in launches
        assert "20.77 µs" in launches
        await press(pilot, "enter")
        metrics = screen_text(app)
        assert "88 metrics, 14 rules" in metrics
        assert "gain 58.9 %, global" in metrics
        await press(pilot, "d")
        assert "Every scheduler is capable of issuing" in screen_text(app)
        await press(pilot, "escape", "escape", "escape", "v")
        assert "Profiled launches" in screen_text(app)
        await press(pilot, "v")
        assert "Advice of ncu" in screen_text(app)
        assert "UncoalescedGlobalA" in screen_text(app)
        await press(pilot, "v")
        assert "Elapsed Cycles" in screen_text(app)
        await press(pilot, "v")
        assert "20.68 µs   36.4   38.0" in screen_text(app)


async def test_the_counters_tab_without_counters() -> None:
    async with opened(recorded("chrome/cudagraph_replay.trace.json.gz")) as (app, pilot):
        await press(pilot, "6")
        assert "ncu --set full --import-source yes --export counters.ncu-rep PROGRAM" in screen_text(app)
        await press(pilot, "v", "v")
        assert "No hardware counters here." in screen_text(app)


async def test_a_folder_of_reports_side_by_side_on_the_screen(five: list[Path]) -> None:
    async with opened(five[0].parent, size=(140, 40)) as (app, pilot):
        await press(pilot, "escape", "6", "v", "v", "v", "v")
        text = screen_text(app)
        assert "Side by side" in text
        assert all(f"{means[1]:.2f} %" in text for means in UTILIZATION.values())


async def test_reports_side_by_side_on_the_screen(five: list[Path]) -> None:
    async with opened(*five[:2], size=(120, 40)) as (app, pilot):
        await press(pilot, "6", "v", "v", "v", "v")
        text = screen_text(app)
        assert "ncu_224_bs1_baseline" in text
        assert "28.85 %" in text
        assert "29.09 %" in text
        assert "+0.24 pt" in text
        assert "says little about a whole program" in text
        await press(pilot, "9")
        assert "no steps to compare" in screen_text(app)
