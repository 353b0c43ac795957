"""Which kernel, and which launch, of one recording a launch of another is; and what a run's tools say together."""

import csv
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from as_json import report
from laid_out import report_markdown, report_text
from sample_runs import recorded

from tracetui.analysis.compare.comparable import comparable
from tracetui.analysis.compare.diff import diff
from tracetui.analysis.kernels import kernels
from tracetui.analysis.matching.join import join_kernels, kernel_counters_of, pairs, with_counters
from tracetui.analysis.selection import select
from tracetui.app.cli.main import main
from tracetui.parsers import Run, Source, Trace, TraceInfo, schema

Recording = Callable[[str], Trace]

OPS = {"kineto_name": "ops/ops.trace.json.gz", "nsys_name": "ops/ops.sqlite.gz", "ncu_name": "ops/ops.ncu.csv.gz"}
VIM = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"
VIM_HALF = "chrome/vim_tiny_fp16_bs4.pt.trace.json.gz"
VIM_NSYS = "nsys/vim_tiny_fp32_bs4.sqlite.gz"


def made(*launches: tuple[str, int] | tuple[str, int, int], kind: str = "nsys", duration: int = 10) -> Trace:
    """A trace of kernels: (name, blocks) or (name, blocks, duration in ns), one after the other."""
    rows: list[dict[str, Any]] = [
        {
            "kind": "kernel",
            "name": name,
            "start": None if kind == "ncu" else 100 * n,
            "duration": more[0] if more else duration,
            "grid": [blocks, 1, 1],
            "block": [32, 1, 1],
        }
        for n, (name, blocks, *more) in enumerate(launches)
    ]
    columns = {column: pl.Series(column, [row.get(column) for row in rows], dtype) for column, dtype in DEVICE}
    trace = Trace.empty(TraceInfo(kind, kind), Source(Path(f"{kind}.file"), 1))
    return replace(trace, device=pl.DataFrame(columns))


DEVICE = tuple(schema.DEVICE.items())


def found(main: Trace, other: Trace) -> list[tuple[str, str | None, str | None, int | None]]:
    rows = join_kernels(main, other).launches
    return list(
        zip(
            rows["status"].cast(str), rows["kernel"].cast(str), rows["by"].cast(str), rows["main_row"].to_list(),
            strict=True,
        )
    )  # fmt: skip


# --- recordings


@pytest.mark.parametrize("other", OPS)
@pytest.mark.parametrize("main", OPS)
def test_all_43_launches_join_all_ways_row_by_row(recording: Recording, main: str, other: str) -> None:
    ours, theirs = recording(OPS[main]), recording(OPS[other])
    join = join_kernels(ours, theirs)
    assert join.launches.height == join.count("matched") == 43
    assert join.gpu_time_percent == join.other_time_percent == 100
    with recorded("ops/truth.csv").open() as file:
        spelled = {row[other]: row[main] for row in csv.DictReader(file)}
    rows = join.launches
    assert [spelled[name] for name in rows["name"].cast(str)] == rows["kernel"].cast(str).to_list()
    # the three tools saw the launches in one order
    is_kernel = ours.device.with_row_index("row").filter(pl.col("kind") == "kernel")
    in_order = is_kernel.sort("start", maintain_order=True) if ours.has_timeline else is_kernel
    assert rows["main_row"].to_list() == in_order["row"].to_list()


def test_vim_between_torch_and_nsys(recording: Recording) -> None:
    join = join_kernels(recording(VIM), recording(VIM_NSYS))
    assert join.count("matched") == 2040
    assert join.gpu_time_percent is not None
    assert join.gpu_time_percent >= 99
    assert join.other_time_percent == 100
    assert join.launches["main_row"].n_unique() == 2040


@pytest.mark.parametrize(
    ("name", "launches", "percent"),
    [("vim_full_raw", 44, 99.754), ("vim_full_details", 44, 99.754), ("scan_metrics_raw", 8, 24.691)],
)
@pytest.mark.parametrize("main", [VIM, VIM_NSYS])
def test_every_measured_launch_finds_its_kernel(recording, main, name, launches, percent) -> None:
    join = join_kernels(recording(main), recording(f"ncu/{name}.csv.gz"))
    assert (join.count("matched"), join.launches.height) == (launches, launches)
    assert join.gpu_time_percent == pytest.approx(percent, abs=0.02)


def test_what_the_recording_lacks_is_named(recording: Recording) -> None:
    join = join_kernels(recording(VIM), recording("ncu/vim_basic_stdout_details.csv.gz"))
    assert [join.count(status) for status in ("matched", "ambiguous", "unmatched")] == [2, 0, 1]
    lacking = join.named("unmatched").to_dicts()
    assert [row["launches"] for row in lacking] == [1]
    assert "distribution_elementwise_grid_stride_kernel" in lacking[0]["name"]
    assert join.launches["status"].to_list() == ["unmatched", "matched", "matched"]


def test_base_names_join_by_the_order_of_the_launches(recording: Recording) -> None:
    """As ``ncu --kernel-name-base function`` prints them; several functions have one base name."""
    from tracetui.parsers.names.kernel_key import function_name

    ours, theirs = recording(OPS["kineto_name"]), recording(OPS["ncu_name"])
    bases = [function_name(name).base for name in theirs.device["name"].cast(str)]
    assert len(set(bases)) < 36
    theirs = replace(theirs, device=theirs.device.with_columns(name=pl.Series(bases, dtype=pl.Categorical)))
    whole = join_kernels(ours, recording(OPS["ncu_name"])).launches
    rows = join_kernels(ours, theirs).launches
    assert rows["kernel"].cast(str).to_list() == whole["kernel"].cast(str).to_list()
    assert rows["main_row"].to_list() == whole["main_row"].to_list()
    assert set(rows["by"].cast(str)) == {"name", "launch order"}


def test_a_stretch_in_the_middle_is_found_in_the_whole(recording: Recording) -> None:
    ours, theirs = recording(OPS["kineto_name"]), recording(OPS["ncu_name"])
    part = replace(theirs, device=theirs.device.slice(11, 9))
    whole = join_kernels(ours, theirs).launches
    assert join_kernels(ours, part).launches["main_row"].to_list() == whole["main_row"].to_list()[11:20]


def test_matching_does_not_depend_on_order_or_launch_configuration(recording: Recording) -> None:
    ours, theirs = recording(OPS["kineto_name"]), recording(OPS["ncu_name"])
    shuffled = theirs.device.with_columns(
        grid=pl.Series([[7, 7, 7]] * 43, dtype=schema.DEVICE["grid"]),
        block=pl.Series([None] * 43, dtype=schema.DEVICE["block"]),
    ).sample(fraction=1, shuffle=True, seed=5)
    join = join_kernels(ours, replace(theirs, device=shuffled))
    assert join.count("matched") == 43


# --- what a name can't tell


A, B = "void a::k<int>(int*)", "void b::k<int>(int*)"


def test_namespaces_tell_two_functions_apart() -> None:
    main = made((A, 1), (B, 2))
    assert found(main, made(("void a::k<int>(T1 *)", 5), ("void b::k<int>(T1 *)", 5))) == [
        ("matched", A, "name", 0),
        ("matched", B, "name", 1),
    ]
    # a namespace that neither has: another function
    assert found(main, made(("void c::k<int>(T1 *)", 1)))[0][0] == "unmatched"
    # none at all: either
    assert found(made((A, 1), (B, 1), (A, 1)), made(("k", 1), kind="ncu"))[0][0] == "ambiguous"


def test_parameters_tell_overloads_apart() -> None:
    main = made(("scale(float*, int)", 1), ("scale(double*, int)", 1))
    rows = found(main, made(("scale(double *, int)", 1), ("scale(float *, int)", 1), kind="ncu"))
    assert [row[1] for row in rows] == ["scale(double*, int)", "scale(float*, int)"]


def test_grid_and_block_prefer_one_of_several() -> None:
    main = made((A, 1), (B, 2), (A, 1), (B, 2), (A, 3))
    rows = found(main, made(("k", 2), ("k", 3), ("k", 9), kind="ncu"))
    assert rows[0][:3] == ("matched", B, "grid and block")
    assert rows[1][:3] == ("matched", A, "grid and block")
    assert rows[2][:3] == ("ambiguous", None, None)
    # one candidate is matched whatever its grid
    assert found(made((A, 1)), made(("k", 9), kind="ncu"))[0][:2] == ("matched", A)


def test_the_order_of_launches_prefers_one_of_several() -> None:
    sequence = [("init<int>(int)", 1), (A, 4), ("mid<int>(int)", 1), (B, 4), ("end<int>(int)", 1)]
    other = made(("init", 1), ("k", 4), ("mid", 1), ("k", 4), ("end", 1), kind="ncu")
    rows = found(made(*sequence), other)
    assert [row[1] for row in rows] == [name for name, _ in sequence]
    assert [row[2] for row in rows] == ["name", "launch order", "name", "launch order", "name"]
    assert [row[3] for row in rows] == [0, 1, 2, 3, 4]


def test_ambiguous_launches_cover_no_time() -> None:
    join = join_kernels(made((A, 1, 30), (B, 1, 50), ("only", 1, 20)), made(("only", 1), ("k", 1), kind="ncu"))
    assert [join.count(status) for status in ("matched", "ambiguous", "unmatched")] == [1, 1, 0]
    assert join.gpu_time_percent == 20
    assert join.other_time_percent == 50


def test_which_launch_of_a_kernel_is_told_only_where_it_can_be() -> None:
    steps = [("a", 1), ("b", 1)] * 3
    assert [row[3] for row in found(made(*steps), made(("a", 1), ("b", 1)))] == [None, None]
    assert [row[3] for row in found(made(*steps), made(*steps))] == [0, 1, 2, 3, 4, 5]
    # as many launches of each, in another order
    assert [row[3] for row in found(made(("a", 1), ("b", 1), ("a", 1)), made(("b", 1), ("a", 1), ("a", 1)))] == [
        1,
        0,
        2,
    ]
    # the grid leaves one place
    grown = made(("a", 1), ("b", 1), ("a", 2), ("b", 1), ("a", 1), ("b", 1))
    assert [row[3] for row in found(grown, made(("a", 2), ("b", 1)))] == [2, 3]
    # the other recording is longer
    longer = found(made(("a", 1), ("b", 1), ("c", 1)), made(("c", 1), ("a", 1), ("b", 1), ("c", 1)))
    assert [row[3] for row in longer] == [None, 0, 1, 2]


def test_launches_are_ordered_by_their_calls(handmade: Callable[..., Trace]) -> None:
    main = handmade(
        ("call", "cudaLaunchKernel", 0, 1, {"correlation": 1}),
        ("call", "cudaLaunchKernel", 2, 3, {"correlation": 2}),
        ("kernel", "k<int>", 50, 60, {"correlation": 1, "stream": 7}),
        ("kernel", "k<float>", 10, 20, {"correlation": 2, "stream": 8}),
    )
    join = join_kernels(main, made(("void k<int>(int)", 1), ("void k<float>(int)", 1), kind="ncu"))
    names = main.device["name"].gather(join.launches["main_row"]).cast(str).to_list()
    assert names == ["k<int>", "k<float>"]  # the second call's kernel ran first


def test_recordings_without_kernels() -> None:
    empty = made()
    some = made(("a", 1))
    assert join_kernels(empty, empty).launches.height == 0
    join = join_kernels(empty, some)
    assert (join.count("unmatched"), join.gpu_time_percent, join.other_time_percent) == (1, None, 0)
    join = join_kernels(some, empty)
    assert (join.launches.height, join.gpu_time_percent, join.other_time_percent) == (0, 0, None)


def test_a_name_of_no_kernel_is_found_among_thousands() -> None:
    chance = random.Random(1)
    names = [f"void ns{n % 7}::kernel{n}<float, {n}>(float*)" for n in range(3000)]
    launches = [(chance.choice(names), chance.randint(1, 9)) for _ in range(20_000)]
    other = [(name.replace("float*", "T1 *"), blocks) for name, blocks in launches]
    join = join_kernels(made(*launches), made(*other, ("void nowhere<1>(int)", 1)))
    assert join.count("matched") == 20_000
    assert join.launches["main_row"].to_list() == [*range(20_000), None]


# --- what the tools of a run say together


@pytest.fixture(scope="module")
def vim(recording: Recording) -> Run:
    """A run of three tools, whose ncu recordings lack three kernels, and hold one that the run does not."""
    files = (VIM, VIM_NSYS, "ncu/vim_full_raw.csv.gz", "ncu/vim_basic_stdout_details.csv.gz")
    return Run(Path("vim"), tuple(recording(name) for name in files))


def test_counters_stand_beside_the_kernels(vim: Run) -> None:
    measured = kernel_counters_of(vim, vim.main)
    assert measured is not None
    assert measured.kernels.height == 17
    assert measured.launches == 46
    assert measured.gpu_time_percent == pytest.approx(99.754, abs=1e-3)
    table = with_counters(kernels(select(vim.main)), measured)
    rows = {row["short_name"]: row for row in table.iter_rows(named=True)}
    scan = rows["selective_scan_fwd_kernel"]
    assert (scan["measured_launches"], scan["measured_bound"]) == (3, "latency")
    assert scan["measured_occupancy_percent"] == pytest.approx(17.94, abs=0.01)
    assert scan["occupancy_percent"] == 18  # the profiler's own estimate stays
    assert rows["softmax_warp_forward"]["measured_launches"] is None
    assert rows["softmax_warp_forward"]["tensor_cores_from"] == "name"
    assert scan["tensor_cores_from"] == "counters"


def test_the_counters_decide_on_tensor_cores(recording: Recording) -> None:
    run = Run(Path("ops"), tuple(recording(name) for name in OPS.values()))
    table = with_counters(kernels(select(run.main)), kernel_counters_of(run, run.main))
    with recorded("ops/truth.csv").open() as file:
        truth = {row["kineto_name"]: row["tensor_cores"] == "1" for row in csv.DictReader(file)}
    assert dict(table.select("name", "tensor_cores").iter_rows()) == truth
    assert set(table["tensor_cores_from"]) == {"counters"}
    # a name that says nothing: only the counters can tell
    gemm = next(name for name, used in truth.items() if used)
    hidden = [
        replace(
            t, device=t.device.with_columns(pl.col("name").cast(str).replace(gemm, "my_kernel").cast(pl.Categorical))
        )
        for t in run.traces
        if t.info.kind != "nsys"
    ]
    run = Run(Path("ops"), tuple(hidden))
    alone = kernels(select(run.main)).filter(pl.col("name") == "my_kernel")
    assert alone["tensor_cores"].to_list() == [False]
    told = with_counters(alone, kernel_counters_of(run, run.main))
    assert told.select("tensor_cores", "tensor_cores_from").rows() == [(True, "counters")]


def test_a_run_of_one_tool_has_no_counters(recording: Recording) -> None:
    run = Run(Path("vim"), (recording(VIM),))
    assert kernel_counters_of(run, run.main) is None
    body = report(run, sections=("kernels",))["run"]
    assert body["joins"] == []
    assert {row["tensor_cores_from"] for row in body["traces"][0]["kernels"]} == {"name"}
    assert all(row["counters"] == {} for row in body["traces"][0]["kernels"])


def test_the_report_says_how_well_the_recordings_match(vim: Run) -> None:
    found = report(vim)
    joins = {Path(row["trace"]).name: row for row in found["run"]["joins"]}
    assert {row["with"] for row in joins.values()} == {str(vim.main.source.path)}
    full = joins["vim_full_raw.csv.gz"]
    assert (full["kind"], full["launches"], full["matched"], full["ambiguous"]) == ("ncu", 44, 44, 0)
    assert full["gpu_time_percent"] == pytest.approx(99.754, abs=1e-3)
    basic = joins["vim_basic_stdout_details.csv.gz"]
    assert [row["launches"] for row in basic["unmatched"]] == [1]
    assert joins["vim_tiny_fp32_bs4.sqlite.gz"]["matched"] == 2040
    rows = {row["short_name"]: row for row in found["run"]["traces"][0]["kernels"]}
    counters = rows["selective_scan_fwd_kernel"]["counters"]
    assert counters["launches"] == 3
    assert counters["occupancy_limiter"] == "registers"
    assert counters["duration_us"] is not None
    assert rows["softmax_warp_forward"]["counters"] == {}
    text = " ".join(report_text(found).split())
    assert "Counters of vim_full_raw.csv.gz: 44 of 44 launches found their kernel; these kernels take 99.8 %" in text
    assert "1 launch is not in vim_tiny_fp32_bs4.pt.trace.json.gz: random: normal." in text
    assert "vim_tiny_fp32_bs4.sqlite.gz: 100.0 % of the kernel time is of kernels that match" in text


# --- the same kernels in two runs


def test_a_chrome_trace_compares_with_an_nsys_export(recording: Recording) -> None:
    a, b = recording(VIM), recording(VIM_NSYS)
    found = diff(select(a), select(b)).kernels
    assert found.height == 20
    assert set(found["status"]) <= {"changed", "same"}
    assert set(found["paired_by"]) == {"name", "key"}
    spelled = found.filter(pl.col("paired_by") == "key")
    assert spelled["b_name"].null_count() == 0
    assert not set(spelled["b_name"]) & set(found["name"])
    assert found.filter(pl.col("paired_by") == "name")["b_name"].null_count() == found.height - spelled.height


def test_types_alone_make_no_other_kernel(recording: Recording) -> None:
    found = diff(select(recording(VIM)), select(recording(VIM_HALF))).kernels
    other_types = found.filter(pl.col("paired_by") == "types")
    assert set(other_types["short_name"]) == {
        "selective_scan_fwd_kernel", "causal_conv1d_fwd_kernel", "softmax_warp_forward", "elementwise: add",
    }  # fmt: skip
    assert set(other_types["status"]) == {"changed"}
    assert all("Half" in name and "Half" not in ours for ours, name in other_types.select("name", "b_name").rows())


def test_pairs_of_names() -> None:
    half, single = "void norm<__half, 4>(int)", "void norm<float, 4>(int)"
    assert pairs([single], [half]) == {half: (single, "types")}
    assert pairs([single], ["void norm<__half, 8>(int)"]) == {}  # numbers are no types
    assert pairs([single], ["void other<__half, 4>(int)"]) == {}
    assert pairs([single], [half, "void norm<__nv_bfloat16, 4>(int)"]) == {}  # which of the two?
    assert pairs([single, half], [half]) == {half: (half, "name")}
    nsys = "void a::norm<float, (int)4>(int)"
    assert pairs(["void a::norm<float, 4>(int)", "void b::norm<float, 4>(int)"], [nsys]) == {
        nsys: ("void a::norm<float, 4>(int)", "key")
    }


def test_markdown_says_it_too(vim: Run) -> None:
    text = report_markdown(report(vim, limit=3), limit=3)
    assert "Counters of vim\\_full\\_raw.csv.gz: 44 of 44 launches found their kernel" in text
    assert "1 launch is not in vim\\_tiny\\_fp32\\_bs4.pt.trace.json.gz: random: normal." in text


def test_an_ncu_recording_alone_shows_its_own_counters(recording: Recording) -> None:
    trace = recording(OPS["ncu_name"])
    rows = report(Run(Path("ops"), (trace,)), sections=("kernels",))["run"]["traces"][0]["kernels"]
    assert {row["tensor_cores_from"] for row in rows} == {"counters"}
    assert rows[0]["counters"]["launches"] == 1


def test_the_overview_counts_tensor_cores_as_the_counters_tell(recording: Recording) -> None:
    ours, measured = recording(OPS["kineto_name"]), recording(OPS["ncu_name"])
    gemm = "nvjet_sm90_hsh_256x128_64x4_1x2_h_bz_coopA_NNT"

    def renamed(trace: Trace) -> Trace:
        names = pl.col("name").cast(str).replace(gemm, "my_kernel").cast(pl.Categorical)
        return replace(trace, device=trace.device.with_columns(names))

    def share(*traces: Trace) -> float:
        body = report(Run(Path("ops"), traces), sections=("overview",))["run"]["traces"][0]
        return float(body["overview"]["gpu"][0]["tensor_core_percent"])

    assert share(renamed(ours)) < share(ours) - 2
    assert share(renamed(ours), renamed(measured)) == pytest.approx(share(ours))


def test_settings_that_only_one_tool_records_are_no_difference(recording: Recording) -> None:
    fields = [row.field for row in comparable(recording(VIM), recording(VIM_NSYS)).differences]
    assert fields == ["tool", "steps"]  # of the nsys recording the first is left out as a warm-up
    same_tool = comparable(recording(VIM), recording("chrome/gpt_small_ctx256.trace.json.gz")).differences
    assert same_tool != []


def test_counters_stay_with_a_rank(capsys: pytest.CaptureFixture[str]) -> None:
    ranks = recorded("chrome/ddp_vit_small_2ranks")
    counters = recorded("ncu/vim_basic_stdout_details.csv.gz")
    paths = [*map(str, sorted(ranks.iterdir())), str(counters)]
    assert main(["report", *paths, "--rank", "1", "--format", "json", "--section", "kernels", "--limit", "1"]) == 0
    body = json.loads(capsys.readouterr().out)["run"]
    assert [trace["source"]["rank"] for trace in body["traces"]] == [1, None]
    assert [(Path(row["with"]).name, row["matched"]) for row in body["joins"]] == [("rank1.pt.trace.json.gz", 1)]
