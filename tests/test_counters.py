"""Counters of Nsight Compute per launch and per kernel, against recordings and what ncu itself says of them."""

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ncu_file
import polars as pl
import pytest
from as_json import report
from chrome_file import ChromeFile
from sample_runs import recorded

from tracetui.analysis.counters.counters import (
    BOUND,
    by_kernel,
    kernel_counters,
    kernel_rules,
    launch_counters,
    launch_metrics,
    metric_table,
)
from tracetui.analysis.counters.metrics import not_collected
from tracetui.parsers import Trace, open_path
from tracetui.parsers.chrome.reader import read_chrome
from tracetui.parsers.ncu.reader import read_ncu
from tracetui.parsers.runs.opening import split_counted

ELAPSED = "avg.pct_of_peak_sustained_elapsed"
ACTIVE = "avg.pct_of_peak_sustained_active"
FULL = {
    "gpu__time_duration.sum": "us",
    f"sm__throughput.{ELAPSED}": "%",
    f"gpu__compute_memory_throughput.{ELAPSED}": "%",
    f"gpu__dram_throughput.{ELAPSED}": "%",
    "l1tex__t_sector_hit_rate.pct": "%",
    "lts__t_sector_hit_rate.pct": "%",
    f"sm__warps_active.{ACTIVE}": "%",
    "sm__maximum_warps_per_active_cycle_pct": "%",
    "launch__occupancy_limit_registers": "block",
    "launch__occupancy_limit_shared_mem": "block",
    "launch__occupancy_limit_warps": "block",
    "launch__occupancy_limit_blocks": "block",
    "launch__registers_per_thread": "register/thread",
    "launch__waves_per_multiprocessor": "",
    f"sm__pipe_tensor_cycles_active.{ACTIVE}": "%",
}
VALUES = ["12.5", "70", "40", "35", "1.85", "52.27", "43.32", "100", "8", "6", "16", "32", "64", "0.75", "0"]


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str], Trace]:
    """Reads a text as a file."""

    def work(text: str) -> Trace:
        path = tmp_path / "report.csv"
        path.write_text(text)
        return read_ncu(path)

    return work


def raw(metrics: dict[str, str], *rows: list[str]) -> str:
    return ncu_file.wide_table(metrics, [("k", row) for row in rows])


def first(trace: Trace) -> dict[str, Any]:
    return launch_counters(trace).row(0, named=True)


# --- against the recordings


def test_tensor_cores_agree_with_the_ground_truth() -> None:
    with recorded("ops/truth.csv").open() as file:
        truth = {row["ncu_name"]: row["tensor_cores"] == "1" for row in csv.DictReader(file)}
    launches = launch_counters(read_ncu(recorded("ops/ops.ncu.csv.gz")))
    assert launches.height == 43
    assert set(launches["name"]) == set(truth)
    assert launches["tensor_cores"].to_list() == [truth[name] for name in launches["name"]]
    kernels = kernel_counters(read_ncu(recorded("ops/ops.ncu.csv.gz")))
    assert dict(kernels.select("name", "tensor_cores").iter_rows()) == truth


def test_plain_kernels_use_no_tensor_cores_though_their_pipe_ticks() -> None:
    launches = launch_counters(read_ncu(recorded("ncu/vim_full_raw.csv.gz")))
    assert 2 < launches["tensor_percent"].max() < 4
    assert launches["tensor_cores"].to_list() == [False] * 44


def test_both_pages_of_one_report_agree() -> None:
    """To the last digit that the details page prints."""
    pages = [launch_counters(read_ncu(recorded(f"ncu/vim_full_{page}.csv.gz"))) for page in ("raw", "details")]
    whole, printed = pages
    for column in ("name", "grid", "block", "occupancy_limiter", "bound", "registers", "range"):
        assert whole[column].to_list() == printed[column].to_list(), column
    half = {column: 0.005 for column in whole.columns if column.endswith("_percent")} | {
        "duration_ns": 5.0,  # 20.38 us
        "shared_memory": 50.0,  # 12.67 Kbyte
        "waves": 0.0,
    }
    compared = 0
    for column, tolerance in half.items():
        pairs = list(zip(whole[column].to_list(), printed[column].to_list(), strict=True))
        if column == "tensor_percent":
            assert {value for _, value in pairs} == {None}
            continue
        for exact, rounded in pairs:
            assert rounded == pytest.approx(exact, abs=tolerance + 1e-9), column
            compared += 1
    assert compared == 44 * 12


def test_every_metric_of_both_pages_agrees_where_names_are_known() -> None:
    raw_rows, details = (read_ncu(recorded(f"ncu/vim_full_{page}.csv.gz")) for page in ("raw", "details"))
    same = {
        "DRAM Frequency": ("dram__cycles_elapsed.avg.per_second", 5e6),
        "SM Frequency": ("gpc__cycles_elapsed.avg.per_second", 5e6),
        "Elapsed Cycles": ("gpc__cycles_elapsed.max", 0.5),
        "SM Active Cycles": ("sm__cycles_active.avg", 0.005),
        "Achieved Active Warps Per SM": ("sm__warps_active.avg.per_cycle_active", 0.005),
        "Threads": ("launch__thread_count", 0.0),
    }

    def values(trace: Trace, name: str) -> list[float]:
        return trace.counters.filter(pl.col("metric").cast(pl.String) == name).sort("device_row")["value"].to_list()

    for label, (name, half) in same.items():
        printed, exact = values(details, label), values(raw_rows, name)
        assert len(printed) == len(exact) == 44
        assert printed == pytest.approx(exact, abs=half + 1e-6), label


def test_the_bound_class_is_what_ncu_says() -> None:
    """Its rule speaks of latency where both shares are below 60 %, of a small grid where there is less than a wave."""
    says = {"low compute throughput": "latency", "grid is too small": "latency"}
    for name in ("vim_full_details", "vim_basic_stdout_details"):
        launches = launch_counters(read_ncu(recorded(f"ncu/{name}.csv.gz")))
        for bound, rules in launches.select("bound", "rules").iter_rows():
            (text,) = (rule["text"] for rule in rules if rule["name"] == "SOLBottleneck")
            assert [verdict for part, verdict in says.items() if part in text] == [bound]


def test_scan_metrics() -> None:
    (kernel,) = kernel_counters(read_ncu(recorded("ncu/scan_metrics_raw.csv.gz"))).iter_rows(named=True)
    assert kernel["short_name"] == "selective_scan_fwd_kernel"
    assert (kernel["launches"], kernel["total_ns"], kernel["duration_ns"]) == (8, 166336, 20792)
    assert (kernel["duration_min_ns"], kernel["duration_max_ns"]) == (20384, 21600)
    assert kernel["sm_percent"] == pytest.approx((37.08 + 35.22 + 36.62 + 36.56 + 36.78 + 36.91 + 36.53 + 37.08) / 8)
    assert (kernel["l1_hit_percent"], kernel["l2_hit_percent"]) == pytest.approx((81.5275, 64.815))
    assert (kernel["theoretical_occupancy_percent"], kernel["occupancy_limiter"]) == (25, "registers")
    assert (kernel["memory_percent"], kernel["bound"], kernel["tensor_cores"]) == (None, None, None)


# --- names, old and new


def test_a_raw_page(read: Callable[[str], Trace]) -> None:
    row = first(read(raw(FULL, VALUES)))
    assert row["duration_ns"] == 12500
    assert (row["sm_percent"], row["memory_percent"], row["dram_percent"]) == (70, 40, 35)
    assert (row["l1_hit_percent"], row["l2_hit_percent"]) == (1.85, 52.27)
    assert (row["occupancy_percent"], row["theoretical_occupancy_percent"]) == (43.32, 100)
    assert (row["occupancy_limiter"], row["registers"], row["waves"]) == ("shared memory", 64, 0.75)
    assert (row["bound"], row["tensor_cores"], row["missing"]) == ("compute", False, [])


OF_2020 = {
    "GPU Speed Of Light": {
        "SOL FB": ("%", "46.47"), "Memory Frequency": ("cycle/second", "768683274.02"),
        "SM Frequency": ("cycle/second", "1138271055.75"), "Memory [%]": ("%", "46.47"),
        "Duration": ("nsecond", "9024"), "SOL L2": ("%", "30.6"), "SM [%]": ("%", "12.9"), "SOL TEX": ("%", "20.1"),
    },
    "Memory Workload Analysis": {
        "Memory Throughput": ("Gbyte/second", "100"), "L1 Hit Rate": ("%", "11"), "L2 Hit Rate": ("%", "22"),
    },
    "Occupancy": {
        "Block Limit SM": ("block", "32"), "Block Limit Registers": ("block", "5"),
        "Block Limit Shared Mem": ("block", "inf"), "Block Limit Warps": ("block", "5"),
        "Achieved Occupancy": ("%", "55.5"), "Theoretical Occupancy": ("%", "62.5"),
    },
    "Launch Statistics": {"Registers Per Thread": ("register/thread", "40"), "Waves Per SM": ("", "1.5")},
}  # fmt: skip
OF_2023 = {
    "GPU Speed Of Light Throughput": {
        "DRAM Frequency": ("cycle/nsecond", "6.24"), "SM Frequency": ("cycle/nsecond", "1.32"),
        "Memory Throughput": ("%", "46.47"), "DRAM Throughput": ("%", "46.47"), "Duration": ("usecond", "9.024"),
        "L1/TEX Cache Throughput": ("%", "20.1"), "L2 Cache Throughput": ("%", "30.6"),
        "Compute (SM) Throughput": ("%", "12.9"),
    },
    "Memory Workload Analysis": {
        "Memory Throughput": ("Gbyte/second", "100"), "L1/TEX Hit Rate": ("%", "11"), "L2 Hit Rate": ("%", "22"),
    },
    "Occupancy": {
        "Block Limit SM": ("block", "32"), "Block Limit Registers": ("block", "5"),
        "Block Limit Shared Mem": ("block", "100"), "Block Limit Warps": ("block", "5"),
        "Achieved Occupancy": ("%", "55.5"), "Theoretical Occupancy": ("%", "62.5"),
    },
    "Launch Statistics": {"Registers Per Thread": ("register/thread", "40"), "Waves Per SM": ("", "1.5")},
}  # fmt: skip


@pytest.mark.parametrize("labels", [OF_2020, OF_2023], ids=["2020", "2023"])
def test_labels_of_the_details_page(read, labels) -> None:
    rows = [
        (0, "k", section, name, unit, value)
        for section, metrics in labels.items()
        for name, (unit, value) in metrics.items()
    ]
    row = first(read(ncu_file.long_table(rows)))
    expected = {
        "duration_ns": 9024, "sm_percent": 12.9, "memory_percent": 46.47, "dram_percent": 46.47, "l1_percent": 20.1,
        "l2_percent": 30.6, "l1_hit_percent": 11, "l2_hit_percent": 22, "occupancy_percent": 55.5,
        "theoretical_occupancy_percent": 62.5, "registers": 40, "waves": 1.5, "bound": "latency",
        "dram_bytes": 902_400,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == pytest.approx(expected)
    assert row["occupancy_limiter"] == "registers, warps"


def test_the_memory_share_is_not_the_memory_rate(read: Callable[[str], Trace]) -> None:
    """Trap 25: with the byte rate only, the share of the memory system is not known."""
    row = first(
        read(ncu_file.long_table([(0, "k", "Memory Workload Analysis", "Memory Throughput", "Gbyte/s", "73.56")]))
    )
    assert row["memory_percent"] is None
    assert row["dram_bytes"] is None  # its duration is not known


@pytest.mark.parametrize(
    ("read_names", "values", "expected"),
    [
        ({"dram__bytes.sum": "Mbyte"}, ["2"], 2e6),
        ({"dram__bytes_read.sum": "Kbyte", "dram__bytes_write.sum": "byte"}, ["3", "4"], 3004),
        ({"dram__bytes_op_read.sum": "byte", "dram__bytes_op_write.sum": "byte"}, ["3", "4"], 7),
        ({"dram__bytes_read.sum": "byte"}, ["3"], None),
    ],
)
def test_dram_bytes(read, read_names, values, expected) -> None:
    assert first(read(raw(read_names, values)))["dram_bytes"] == expected


# --- what is made of them


@pytest.mark.parametrize(
    ("compute", "memory", "bound"),
    [
        (59.99, 59.99, "latency"), (60, 20, "compute"), (20, 60, "memory"), (65, 60, "balanced"),
        (60, 69.9, "balanced"), (60, 70, "memory"), (95, 85, "compute"), (95, 86, "balanced"),
        (None, 90, None), (90, None, None),
    ],
)  # fmt: skip
def test_bound_classes(read, compute, memory, bound) -> None:
    names = {f"sm__throughput.{ELAPSED}": "%", f"gpu__compute_memory_throughput.{ELAPSED}": "%"}
    cells = ["" if value is None else str(value) for value in (compute, memory)]
    assert (BOUND.low, BOUND.balanced) == (60, 10)
    assert first(read(raw(names, cells)))["bound"] == bound


@pytest.mark.parametrize(
    ("limits", "limiter"),
    [
        ((8, 16, 16, 32, None), "registers"), ((16, 4, 16, 32, 32), "shared memory"), ((16, 16, 8, 32, 32), "warps"),
        ((32, 32, 32, 16, 32), "blocks"), ((16, 16, 16, 32, 8), "barriers"),
        ((8, 8, 16, 32, 32), "registers, shared memory"), ((None, 8, 16, 32, 32), None),
        ((8, 16, 16, 32, 0), "registers"),
    ],
)  # fmt: skip
def test_what_limits_occupancy(read, limits, limiter) -> None:
    names = ("registers", "shared_mem", "warps", "blocks", "barriers")
    metrics = {f"launch__occupancy_limit_{name}": "block" for name in names}
    assert (
        first(read(raw(metrics, ["" if value is None else str(value) for value in limits])))["occupancy_limiter"]
        == limiter
    )


COUNTS = "sm__inst_executed_pipe_tensor_op_{}.sum"


def shares(kind: str) -> str:
    return f"sm__pipe_tensor_op_{kind}_cycles_active.{ACTIVE}"


@pytest.mark.parametrize(
    ("capability", "metrics", "used"),
    [
        # 192 blocks of 128 threads are 768 warps; 9 hmma a warp is what a plain layer norm ticks on Hopper
        ("9.0", {COUNTS.format("hmma"): 9 * 768, COUNTS.format("gmma"): 0}, False),
        ("9.0", {COUNTS.format("hmma"): 16 * 768, COUNTS.format("gmma"): 0}, False),
        ("9.0", {COUNTS.format("hmma"): 17 * 768, COUNTS.format("gmma"): 0}, True),
        ("9.0", {COUNTS.format("hmma"): 768, COUNTS.format("gmma"): 1}, True),
        ("8.0", {COUNTS.format("hmma"): 0, COUNTS.format("dmma"): 5, COUNTS.format("imma"): 0}, True),
        ("8.0", {COUNTS.format("hmma"): 0, COUNTS.format("dmma"): 0, COUNTS.format("imma"): 3}, True),
        ("9.0", {COUNTS.format("hmma"): 768}, None),  # a few: gmma would tell
        ("8.0", {"sm__inst_executed_pipe_tensor.sum": 1}, True),
        ("8.0", {"sm__inst_executed_pipe_tensor.sum": 0}, False),
        ("9.0", {"sm__inst_executed_pipe_tensor.sum": 768}, None),
        # counts go before shares
        ("9.0", {COUNTS.format("hmma"): 768, COUNTS.format("gmma"): 0,
                 f"sm__pipe_tensor_cycles_active.{ACTIVE}": 30}, False),
        ("9.0", {"sm__ops_path_tensor_src_fp16.sum": 4096, "sm__ops_path_tensor_src_int8.sum": 0}, True),
        ("9.0", {"sm__ops_path_tensor_src_fp16.sum": 0, "sm__ops_path_tensor_src_int8.sum": 0,
                 f"sm__pipe_tensor_cycles_active.{ACTIVE}": 3}, False),
        ("9.0", {shares("gmma"): 12}, True),
        ("9.0", {shares("gmma"): 0, shares("hmma"): 2}, None),
        ("8.6", {f"sm__pipe_tensor_cycles_active.{ACTIVE}": 0.5}, True),
        ("8.6", {f"sm__inst_executed_pipe_tensor.{ACTIVE}": 0}, False),
        ("9.0", {f"sm__pipe_tensor_cycles_active.{ACTIVE}": 3}, None),
        ("9.0", {f"sm__pipe_tensor_cycles_active.{ACTIVE}": 40}, True),
        ("9.0", {f"sm__pipe_tensor_cycles_active.{ACTIVE}": 0}, False),
        ("9.0", {f"sm__throughput.{ELAPSED}": 40}, None),
    ],
)  # fmt: skip
def test_whether_tensor_cores_were_used(read, capability, metrics, used) -> None:
    text = raw({name: "%" if "pct" in name else "inst" for name in metrics}, [str(value) for value in metrics.values()])
    assert first(read(text.replace('"8.6"', f'"{capability}"')))["tensor_cores"] is used


def test_kernels_are_means_of_their_launches(read: Callable[[str], Trace]) -> None:
    names = {"gpu__time_duration.sum": "ns", f"sm__throughput.{ELAPSED}": "%", f"sm__warps_active.{ACTIVE}": "%"}
    text = ncu_file.wide_table(
        names, [("a", ["100", "10", "5"]), ("b", ["1000", "50", ""]), ("a", ["300", "30", ""]), ("c", ["", "1", "1"])]
    )
    table = kernel_counters(read(text))
    assert table["name"].to_list() == ["b", "a", "c"]
    rows = {row["name"]: row for row in table.iter_rows(named=True)}
    a, b, c = rows["a"], rows["b"], rows["c"]
    assert (a["launches"], a["total_ns"], a["duration_ns"], a["duration_min_ns"], a["duration_max_ns"]) == (
        2,
        400,
        200,
        100,
        300,
    )
    assert (a["sm_percent"], a["occupancy_percent"]) == (20, 5)  # each launch counts the same, of those that have it
    assert (b["occupancy_percent"], c["duration_ns"], c["total_ns"]) == (None, None, None)
    assert a["grid"] == [96, 2, 1]


def test_a_summary_weighs_by_its_launches(read: Callable[[str], Trace]) -> None:
    header = ["Process ID", "Kernel Name", "Block Size", "Grid Size", "Invocations", "Section Name", "Metric Name",
              "Metric Unit", "Minimum", "Maximum", "Average"]  # fmt: skip
    rows = [
        ["1", "k", "(64, 1, 1)", "(8, 1, 1)", "3", ncu_file.SOL, "Duration", "us", "1", "3", "2"],
        ["1", "k", "(64, 1, 1)", "(16, 1, 1)", "1", ncu_file.SOL, "Duration", "us", "6", "6", "6"],
    ]
    (kernel,) = kernel_counters(read("\n".join(map(ncu_file.line, [header, *rows])))).iter_rows(named=True)
    assert (kernel["launches"], kernel["total_ns"], kernel["duration_ns"]) == (4, 12_000, 3000)
    assert (kernel["duration_min_ns"], kernel["duration_max_ns"], kernel["grid"]) == (1000, 6000, None)


def test_rules_with_what_they_would_gain(read: Callable[[str], Trace]) -> None:
    rows = [(number, "k", ncu_file.SOL, "Duration", "us", str(value)) for number, value in enumerate((10, 30))]
    rules = [
        (0, "k", "Occupancy", "TheoreticalOccupancy", "OPT", "first", "global", "50"),
        (1, "k", "Occupancy", "TheoreticalOccupancy", "OPT", "second", "global", "10"),
        (1, "k", "WorkloadDistribution", "WorkloadImbalance", "OPT", "SMs", "global", "20"),
        (1, "k", "WorkloadDistribution", "WorkloadImbalance", "OPT", "L2", "global", "5"),
        (1, "k", "SchedulerStats", "IssueSlotUtilization", "OPT", "slots", "local", "99"),
        (1, "k", "SpeedOfLight", "SOLBottleneck", "WRN", "small", "", ""),
    ]
    launches = launch_counters(read(ncu_file.long_table(rows, rules=rules)))
    assert [len(said) for said in launches["rules"].to_list()] == [1, 5]
    found = kernel_rules(launches).select("name", "launches", "speedup_percent", "gain_ns", "text").rows()
    assert found == [
        ("TheoreticalOccupancy", 2, 30.0, 8000.0, "first"),
        ("WorkloadImbalance", 1, 20.0, 6000.0, "SMs"),  # one launch can't gain twice by one rule
        ("IssueSlotUtilization", 1, 99.0, None, "slots"),
        ("SOLBottleneck", 1, None, None, "small"),
    ]
    assert [rule["name"] for rule in by_kernel(launches)["rules"].to_list()[0]] == [row[0] for row in found]


def test_every_metric_of_a_launch_by_section() -> None:
    details = read_ncu(recorded("ncu/vim_full_details.csv.gz"))
    metrics = launch_metrics(details, 14)
    assert metrics.height == 88
    assert metrics["section"].to_list() == sorted(metrics["section"].to_list(), key=str.lower)
    two = metrics.filter(pl.col("metric") == "Memory Throughput").select("section", "unit", "value").rows()
    assert two == [
        ("GPU Speed Of Light Throughput", "%", 37.94),
        ("Memory Workload Analysis", "byte/s", 185_430_000_000.0),
    ]
    by_part = launch_metrics(read_ncu(recorded("ncu/vim_full_raw.csv.gz")), 0)
    assert {"sm", "lts", "dram", "launch", "NVTX"} <= set(by_part["section"])
    assert by_part.height == 97504 // 44


def test_all_metrics_over_all_launches(read: Callable[[str], Trace]) -> None:
    names = {"sm__a.sum": "Kbyte", "launch__b": ""}
    table = metric_table(read(raw(names, ["1", "all"], ["3", "all"], ["", "all"])))
    assert table.rows() == [
        ("sm", "sm__a.sum", "byte", 2, 2000.0, 1000.0, 3000.0, None),
        ("launch", "launch__b", "", 0, None, None, None, "all"),
    ]


# --- what was not collected


def test_what_is_missing_and_what_would_collect_it() -> None:
    def gaps(name: str) -> tuple[tuple[str, ...], str]:
        trace = read_ncu(recorded(name))
        found = not_collected(trace, launch_counters(trace))
        assert found is not None
        return found.what, found.command

    what, command = gaps("ncu/vim_basic_stdout_details.csv.gz")
    assert what == ("L1 and L2 hit rates (MemoryWorkloadAnalysis)", "tensor pipe (ComputeWorkloadAnalysis)")
    assert "--set full" in command
    # collected, but a details page does not print it
    assert gaps("ncu/vim_full_details.csv.gz") == (
        ("tensor pipe (on the raw page only)",), "ncu --import REPORT.ncu-rep --csv --page raw",
    )  # fmt: skip
    what, _ = gaps("ncu/scan_metrics_raw.csv.gz")
    assert what[1] == f"memory (gpu__compute_memory_throughput.{ELAPSED})"
    full = read_ncu(recorded("ncu/vim_full_raw.csv.gz"))
    assert not_collected(full, launch_counters(full)) is None


def test_one_missing_section_is_asked_for_by_name(read: Callable[[str], Trace]) -> None:
    without = {name: unit for name, unit in FULL.items() if "hit_rate" not in name}
    trace = read(raw(without, [value for name, value in zip(FULL, VALUES, strict=True) if name in without]))
    launches = launch_counters(trace)
    assert launches["missing"].to_list() == [["MemoryWorkloadAnalysis"]]
    found = not_collected(trace, launches)
    assert found is not None
    assert "--section MemoryWorkloadAnalysis" in found.command


def test_a_metric_that_some_launches_have_is_not_missing(read: Callable[[str], Trace]) -> None:
    trace = read(raw(FULL, VALUES, [""] * len(VALUES)))
    launches = launch_counters(trace)
    assert len(launches["missing"][1]) == 5
    assert not_collected(trace, launches) is None


def test_nothing_profiled(read: Callable[[str], Trace]) -> None:
    trace = read(raw(FULL))
    assert launch_counters(trace).height == kernel_counters(trace).height == 0
    assert not_collected(trace, launch_counters(trace)) is None


CUPTI = "public/hta_cupti.json.gz"


def test_counters_of_a_recording_are_those_of_its_kernels() -> None:
    events = json.loads(gzip.decompress(recorded(CUPTI).read_bytes()))["traceEvents"]
    ranges = [event for event in events if event.get("cat") == "cuda_profiler_range"]
    run = open_path(recorded(CUPTI), cache=False)
    timed, counted = run.traces
    assert not timed.device.height
    assert not timed.counters.height
    assert (counted.device.height, counted.device["duration"].null_count()) == (77, 77)
    names = counted.device["name"].cast(pl.String).to_list()
    assert names == [event["name"] for event in sorted(ranges, key=lambda event: event["ts"])]
    sums = {metric: sum(event["args"][metric] for event in ranges) for metric in ranges[0]["args"]}
    table = metric_table(counted)
    assert dict(table.select("metric", pl.col("mean_value") * pl.col("launches")).iter_rows()) == sums
    first = launch_metrics(counted, 0)
    assert first.filter(pl.col("metric").str.contains("ffma"))["value"].to_list() == [38731776]
    found = report(run, sections=("counters",))["run"]["traces"][1]
    assert sum(row["launches"] for row in found["counters"]) == 77


def test_counted_kernels_belong_to_their_launches() -> None:
    """As many launches as kernels: the calls are in the kernels' order, so their operators are known."""
    trace = read_chrome(recorded(CUPTI))
    operators = trace.host["name"].cast(pl.String).gather(trace.device["operator"])
    assert trace.device["launch"].is_sorted()
    assert operators.null_count() == 0
    assert operators[0] == "aten::uniform_"
    names = trace.device["name"].cast(pl.String)
    assert set(operators.filter(names.str.contains("max_pool"))) == {"aten::max_pool2d_with_indices"}


def test_a_range_that_no_launch_matches_is_still_counted(tmp_path) -> None:
    file = ChromeFile()
    file.launch("gemm", call=(10, 12), kernel=(20, 60))
    for number in range(3):
        file.event("cuda_profiler_range", "gemm", (100 + number, 200), pid=0, tid=0, **{"sm__cycles.sum": number})
    file.events.append({"ph": "C", "name": "power", "pid": 0, "tid": 0, "ts": 5, "args": {"W": 300}})
    timed, counted = split_counted(read_chrome(file.write(tmp_path / "a.json")))
    assert timed.device["duration"].to_list() == [40_000]
    assert timed.device["launch"].null_count() == 0
    assert timed.counters["value"].to_list() == [300]
    assert counted.counters.select("device_row", "value").rows() == [(0, 0), (1, 1), (2, 2)]
    assert split_counted(timed) == (timed,)
