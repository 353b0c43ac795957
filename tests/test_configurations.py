"""Counters by configuration: how launches are weighted, by kind of kernel, in reports, sweeps and the diff."""

import csv
import gzip
import io
import json
import shutil
from pathlib import Path
from typing import Any

import ncu_file
import polars as pl
import pytest
from as_json import report
from laid_out import body
from reported import compared, opened, swept
from sample_runs import recorded

from tracetui.analysis.counters.compared import ALL, COMMON, MEASURED, configurations, weights_of
from tracetui.analysis.report.sweep import sweep_json, sweep_report
from tracetui.analysis.roofline.counters import launch_table
from tracetui.analysis.sweeps.reading import read_sweep
from tracetui.app.cli.main import main
from tracetui.app.views.sweep import _page as sweep_page
from tracetui.parsers.errors import TraceError
from tracetui.parsers.names import kernel_names
from tracetui.parsers.ncu.reader import read_ncu

MLP = "ncu/mlp"
FP32, BF16, TF32, FP16 = (f"{MLP}/mlp_bs64_{dtype}.csv.gz" for dtype in ("fp32", "bf16", "tf32", "fp16"))
RAW, DETAILS = "ncu/vim_full_raw.csv.gz", "ncu/vim_full_details.csv.gz"
TIME = "gpu__time_duration.sum"
SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
OCCUPANCY, ACTIVE = "sm__warps_active.avg.pct_of_peak_sustained_active", "sm__cycles_active.avg"
L2_SECTORS = "lts__t_sectors.sum"
GEMM = "sgemm_32x32x32_NN(float*)"
COPY = "void at::native::vectorized_elementwise_kernel<4, float16_copy_kernel_cuda>(int)"


def launches(name: str) -> list[dict[str, str]]:
    """The rows of a raw page as the csv module reads them."""
    text = gzip.decompress(recorded(name).read_bytes()).decode()
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith("==")]
    return list(csv.DictReader(lines))[1:]


def number(row: dict[str, str], metric: str) -> float:
    return float(row[metric].replace(",", ""))


def row_of(table: pl.DataFrame, configuration: str, kind: str = ALL) -> dict[str, Any]:
    (row,) = (
        row for row in table.iter_rows(named=True) if (row["configuration"], row["kind"]) == (configuration, kind)
    )
    return row


def of(*names: str) -> dict[str, list[pl.DataFrame]]:
    return {name: [launch_table(opened(recorded(name)).main)] for name in names}


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main([*(str(argument) for argument in arguments), "--no-cache"]) == 0
    return capsys.readouterr().out


# --- how launches count


@pytest.mark.parametrize("name", [FP32, RAW])
def test_means_are_ratios_of_sums(name: str) -> None:
    table, rows = configurations(of(name)), launches(name)
    for kind in (ALL, "gemm", "elementwise"):
        mine = [row for row in rows if kind in (ALL, kernel_names.category(row["Kernel Name"]))]
        time = sum(number(row, TIME) for row in mine)
        found = row_of(table, name, kind)
        assert found["launches"] == len(mine)
        assert found["total_ns"] == pytest.approx(1000 * time)  # the page is in µs
        assert found["sm_percent"] == pytest.approx(sum(number(r, SM) * number(r, TIME) for r in mine) / time)
        active = sum(number(row, ACTIVE) for row in mine)
        assert found["occupancy_percent"] == pytest.approx(
            sum(number(row, OCCUPANCY) * number(row, ACTIVE) for row in mine) / active
        )


def test_hit_rates_are_hits_by_sectors() -> None:
    rows, found = launches(RAW), row_of(configurations(of(RAW)), RAW)
    hits = sum(number(row, "lts__t_sectors_lookup_hit.sum") for row in rows)
    assert found["l2_hit_percent"] == pytest.approx(100 * hits / sum(number(row, L2_SECTORS) for row in rows), abs=0.01)
    # L1: what the sampled counters of the whole cache say, which the table does not use
    hit, whole = (
        sum(number(row, f"SM_B.TriageCompute.l1tex__t_sectors{part}.sum") for row in rows)
        for part in ("_lookup_hit", "")
    )
    assert found["l1_hit_percent"] == pytest.approx(100 * hit / whole, abs=0.1)
    loaded, loads = (
        sum(number(row, f"l1tex__t_{part}_pipe_lsu_mem_global_op_ld.sum") for row in rows)
        for part in ("sectors", "requests")
    )
    assert found["sectors_per_load"] == pytest.approx(loaded / loads)


def test_rates_are_sums_by_sums() -> None:
    found = row_of(configurations(of(FP32)), FP32)
    assert found["dram_rate"] == pytest.approx(1e9 * found["dram_bytes"] / found["total_ns"])
    assert found["intensity"] == pytest.approx(found["flops"] / found["dram_bytes"])
    # four products of 64 x 1024 x 1024, and one of 64 x 1000 x 1024 in place of the last
    assert found["flops"] == pytest.approx(2 * 64 * 1024 * (3 * 1024 + 1000), rel=0.02)


def test_kinds_add_up_to_all() -> None:
    table = configurations(of(RAW))
    kinds = [row for row in table.iter_rows(named=True) if row["kind"] != ALL]
    whole = row_of(table, RAW)
    assert sum(row["launches"] for row in kinds) == whole["launches"] == 44
    for column in ("total_ns", "dram_bytes", "flops"):
        assert sum(row[column] for row in kinds) == pytest.approx(whole[column])
    assert sum(row["time_percent"] for row in kinds) == pytest.approx(100)


def test_both_pages_of_a_report_say_the_same() -> None:
    table = configurations(of(RAW, DETAILS))
    ours, theirs = (row_of(table, name) for name in (RAW, DETAILS))
    for column in ("sm_percent", "memory_percent", "occupancy_percent", "l1_hit_percent", "l2_hit_percent"):
        assert ours[column] == pytest.approx(theirs[column], abs=0.02), column
    # only a raw page has sectors, so here both go by time
    assert weights_of(of(RAW))["l2_hit_percent"] == "sectors"
    assert weights_of(of(RAW, DETAILS))["l2_hit_percent"] == "time"
    assert theirs["flops"] is None
    assert theirs["flops_covered"] == 0


def made(folder: Path, name: str, metrics: dict[str, str], rows: list[tuple[str, list[str]]]) -> pl.DataFrame:
    path = folder / f"{name}.csv"
    path.write_text(ncu_file.wide_table(metrics, rows))
    return launch_table(read_ncu(path))


def test_coverage_is_of_the_time(tmp_path: Path) -> None:
    a = made(tmp_path, "a", {TIME: "ns", SM: "%"}, [(GEMM, ["300", "80"]), (COPY, ["100", ""])])
    b = made(tmp_path, "b", {TIME: "ns", SM: "%"}, [(COPY, ["100", "4"]), (COPY, ["300", "8"])])
    table = configurations({"a": [a], "b": [b]})
    assert (row_of(table, "a")["sm_percent"], row_of(table, "a")["sm_percent_covered"]) == (80, 75)
    assert (row_of(table, "b")["sm_percent"], row_of(table, "b")["sm_percent_covered"]) == (7, 100)
    assert row_of(table, "a")["occupancy_percent"] is None
    assert row_of(table, "a")["occupancy_percent_covered"] == 0
    assert row_of(table, "a", COMMON)["launches"] == 1
    assert row_of(table, "b", COMMON)["launches"] == 2
    # of one configuration, reports count together
    both = row_of(configurations({"all": [a, b]}), "all")
    assert both["sm_percent"] == pytest.approx((300 * 80 + 100 * 4 + 300 * 8) / 700)


def test_without_times_each_launch_counts_alike(tmp_path: Path) -> None:
    table = made(tmp_path, "a", {SM: "%"}, [(GEMM, ["80"]), (COPY, ["4"]), (COPY, [""])])
    found = row_of(configurations({"a": [table]}), "a")
    assert (found["sm_percent"], found["total_ns"], found["time_percent"]) == (42, None, None)
    assert found["sm_percent_covered"] == pytest.approx(200 / 3)
    assert weights_of({"a": [table]})["sm_percent"] == "launches"


def test_a_report_of_nothing_has_a_row(tmp_path: Path) -> None:
    """Otherwise the letters of the files after it would be wrong."""
    nothing = made(tmp_path, "a", {TIME: "ns", SM: "%"}, [])
    table = configurations({"a": [nothing], "b": [made(tmp_path, "b", {TIME: "ns", SM: "%"}, [(GEMM, ["3", "80"])])]})
    assert [(row["configuration"], row["launches"]) for row in table.iter_rows(named=True) if row["kind"] == ALL] == [
        ("a", 0), ("b", 1),
    ]  # fmt: skip
    assert row_of(table, "a")["sm_percent"] is None
    assert row_of(table, "b")["sm_percent"] == 80
    assert configurations({"a": [nothing]}).height == 1


def test_every_counter_says_how_much_it_covers() -> None:
    columns = configurations(of(TF32)).columns
    assert not [name for name in MEASURED if f"{name}_covered" not in columns]


# --- reports


def test_the_table_in_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    paths = recorded(FP32), recorded(BF16)
    text = printed(capsys, "report", *paths, "--section", "configurations")
    assert all(len(line) <= 80 for line in body(text).splitlines())
    lines = [line.split() for line in text.splitlines()]
    assert ["17.28", "%", "6.55", "%", "-10.73", "pt", "SM"] in lines
    assert ["gemm", "B", "23.20", "µs", "40.6", "12.6", "16.6", "0", "66.3", "14.2", "100.0"] in lines
    assert "Weighted by time; L1, achieved occupancy, tensor pipe by active cycles." in text
    page = printed(capsys, "report", *paths, "--section", "configurations", "--format", "markdown")
    assert "| 17.28 % | 6.55 % | -10.73 pt | `SM` |" in page
    rows = list(
        csv.DictReader(io.StringIO(printed(capsys, "report", *paths, "--section", "configurations", "--format", "csv")))
    )
    assert [(row["configuration"], row["kind"]) for row in rows[:3]] == [
        ("mlp_bs64_fp32", "all"), ("mlp_bs64_bf16", "all"), ("mlp_bs64_fp32", "gemm"),
    ]  # fmt: skip
    assert float(rows[0]["sm_percent"]) == pytest.approx(17.27876)
    assert rows[0]["l2_hit_percent_covered"] == "100.0"


def test_the_report_has_rows_and_weights() -> None:
    run = report(opened(recorded(FP32)), sections=["configurations"])["run"]
    assert run["configuration_weights"]["occupancy_percent"] == "active cycles"
    assert [row["kind"] for row in run["configurations"]] == ["all", "gemm", "elementwise"]
    assert "counters_compared" not in run


# --- sweeps


def test_a_folder_of_reports_is_a_sweep_over_its_names(capsys: pytest.CaptureFixture[str]) -> None:
    found = sweep_json(swept(recorded(MLP)))
    assert found["axes"] == ["dtype"]
    whole = {row["dtype"]: row for row in found["counters"]["rows"] if row["kind"] == "all"}
    assert {dtype: row["launches"] for dtype, row in whole.items()} == {"bf16": 16, "fp16": 16, "fp32": 15, "tf32": 7}
    assert whole["tf32"]["tensor_cores_percent"] == pytest.approx(80.93, abs=0.01)
    changes = {row["variant"]: row for row in found["counters"]["changes"]}
    assert changes.keys() == {"bf16", "fp16", "tf32"}
    assert changes["bf16"]["baseline"] == "fp32"
    assert changes["bf16"]["changes"]["sm_percent"] == pytest.approx(
        whole["bf16"]["sm_percent"] - whole["fp32"]["sm_percent"]
    )
    assert found["notes"] == []
    assert all(row["step_us"] is None and row["gpu_us"] is None for row in found["points"])
    text = printed(capsys, "sweep", recorded(MLP))
    assert all(len(line) <= 80 for line in body(text).splitlines())
    assert "4 points over dtype, 54 profiled launches" in " ".join(text.split())
    assert "no steps in it" not in text
    assert "fp32  15  127.1 µs  17.3  26.1   3.40    11.2    64.8  22.9     0" in text
    rows = list(csv.DictReader(io.StringIO(printed(capsys, "sweep", recorded(MLP), "--format", "csv"))))
    assert [(row["dtype"], row["kind"]) for row in rows[:4]] == [
        ("bf16", "all"), ("fp16", "all"), ("fp32", "all"), ("tf32", "all"),
    ]  # fmt: skip
    assert rows[2]["step_us"] == ""


def test_launched_runs_bring_their_counters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points = []
    for dtype, name in (("fp32", FP32), ("tf32", TF32)):
        folder = tmp_path / f"dtype={dtype}"
        folder.mkdir()
        shutil.copy(recorded(name), folder / "ncu.csv.gz")
        points.append({"values": {"dtype": dtype}, "repeat": 1, "folder": folder.name, "status": "finished"})
    (tmp_path / "sweep.json").write_text(json.dumps({"schema": "tracetui.sweep-index/1", "points": points}))
    text = printed(capsys, "sweep", tmp_path)
    lines = [line.split() for line in text.splitlines()]
    assert ["tf32", "7", "39.78", "µs", "3.16", "10.0", "9.83", "0", "24.8", "10.6", "80.9"] in lines
    assert "Change from dtype fp32" in text
    found = sweep_report(read_sweep(tmp_path))
    assert found.counters is not None
    page = sweep_page("counters", found)
    rows = page.frame.filter(kind="all").select("axis_dtype", "launches", "total_ns").rows()
    assert rows == [
        (row["dtype"], row["launches"], pytest.approx(row["total_us"] * 1000))
        for row in found.counters.rows
        if row["kind"] == "all"
    ]
    assert len(rows) == 2
    assert page.frame.height == len(found.counters.rows) > 2
    assert {"axis_dtype", "kind", "sm_percent", "l2_hit_percent"} <= {column.name for column in page.columns}


def test_pages_of_one_report_are_one_point(tmp_path: Path) -> None:
    for part in ("raw", "details"):
        shutil.copy(recorded(f"ncu/vim_full_{part}.csv.gz"), tmp_path / f"vim_fp32_{part}.csv.gz")
    shutil.copy(recorded(FP16), tmp_path / "vim_fp16_raw.csv.gz")
    sweep = read_sweep(tmp_path)
    assert [(point.axes, sum(table.height for table in point.counted)) for point in sweep.points] == [
        ({"dtype": "fp16"}, 16), ({"dtype": "fp32"}, 44),
    ]  # fmt: skip


def test_a_report_is_no_table_of_a_sweep() -> None:
    with pytest.raises(TraceError, match="no table of a sweep"):
        read_sweep(recorded(DETAILS))


# --- the diff


def test_the_diff_compares_counters(capsys: pytest.CaptureFixture[str]) -> None:
    found = compared(recorded(FP32), recorded(BF16))
    assert found["comparable"]["verdict"] == "explained"
    fields = {row["field"]: row for row in found["comparable"]["differences"]}
    assert (fields["dtype"]["a"], fields["dtype"]["b"]) == ("fp32", "bf16")
    assert (fields["profiled launches"]["a"], fields["profiled launches"]["b"]) == (15, 16)
    assert fields["kernels"]["a"].startswith("4 not in B: sgemm_largek_lds64")
    assert found["findings"] == []
    rows = found["counters"]["configurations"]
    assert [row["sm_percent"] for row in rows if row["kind"] == "all"] == pytest.approx([17.27876, 6.55318])
    text = printed(capsys, "diff", recorded(FP32), recorded(BF16))
    assert "per step" not in text
    assert "127.1 µs in A and 57.15 µs in B (-69.95 µs, -55.0 %)" in " ".join(text.split())
    assert ["17.28", "%", "6.55", "%", "-10.73", "pt", "SM"] in [line.split() for line in text.splitlines()]
    assert all(len(line) <= 80 for line in body(text).splitlines())


def test_other_kernels_of_one_precision_are_other_work() -> None:
    found = compared(recorded(RAW), recorded(FP32))["comparable"]
    assert found["verdict"] == "other_work"
    assert {row["field"] for row in found["differences"] if row["work"]} == {"profiled launches", "kernels"}


def test_launches_of_other_sizes_are_named(tmp_path: Path) -> None:
    a, b = tmp_path / "a.csv", tmp_path / "b.csv"
    a.write_text(ncu_file.wide_table({TIME: "ns"}, [(GEMM, ["300"]), (COPY, ["100"])]))
    b.write_text(a.read_text().replace("(96, 2, 1)", "(192, 2, 1)", 1))
    found = compared(a, b)["comparable"]
    (row,) = (row for row in found["differences"] if row["field"].startswith("grid"))
    assert (row["a"], row["b"]) == ("96x2x1 x 128x1x1 (1)", "192x2x1 x 128x1x1 (1)")
    assert found["verdict"] == "other_work"


def test_diffs_of_other_tools_have_no_counters() -> None:
    path = recorded("nsys/graph_node.sqlite.gz")
    assert compared(path, path)["counters"] is None
