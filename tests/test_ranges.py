"""Ranges: host time, the GPU work inside by any thread, its projection, and ranges that another call closes."""

import csv
import gzip
import io
import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from chrome_file import ChromeFile
from laid_out import body
from nsys_file import NsysFile
from nvtx_trace import nvtx_trace
from sample_runs import recorded, run_of
from test_range_tree import two_steps
from tui_pilot import opened, press, screen_text

from tracetui.analysis.attribution.operator_tree import device_work
from tracetui.analysis.attribution.projection import in_ranges, launched_meanwhile, open_elsewhere
from tracetui.analysis.captures.roles import phases
from tracetui.analysis.kernels import NOT_IN_ANY_RANGE, kernels
from tracetui.analysis.ranges import (
    COLUMNS,
    containing_rows,
    meanwhile_kernels,
    meanwhile_launches,
    range_paths,
    range_tree,
    ranges,
)
from tracetui.analysis.selection import Scope, select
from tracetui.analysis.tree_kernels import range_tree_kernels
from tracetui.app.cli.main import main
from tracetui.parsers import Source, Trace, TraceInfo
from tracetui.parsers.chrome.reader import read_chrome
from tracetui.parsers.nsys.reader import read_nsys

Recording = Callable[[str], Trace]

GPT = "chrome/gpt_small_ctx256.trace.json.gz"
DDP = "chrome/ddp_vit_small_2ranks/rank0.pt.trace.json.gz"
DEIT = "chrome/deit_small_train_bf16_bs32.pt.trace.json.gz"


@pytest.mark.parametrize("path", [GPT, DDP, DEIT])
def test_ranges_equal_a_walk_over_every_activity(recording: Recording, path: str) -> None:
    trace = recording(path)
    host = trace.host.select("kind", "name", "duration", "parent").cast({"name": pl.String}).rows()
    name = {row: "ProfilerStep" if n.startswith("ProfilerStep#") else n for row, (_, n, _, _) in enumerate(host)}
    spent, own, ops, host_time, instances = (defaultdict[str, int](int) for _ in range(5))
    extent: dict[int, tuple[int, int]] = {}
    for row, (kind, _, duration, _) in enumerate(host):
        if kind in ("annotation", "dataloader"):
            instances[name[row]] += 1
            host_time[name[row]] += duration
    work = trace.device.filter(pl.col("kind").is_in(["kernel", "memcpy", "memset"]))
    for start, duration, around in work.select("start", "duration", "range").iter_rows():
        seen = set()
        own[NOT_IN_ANY_RANGE if around is None else name[around]] += duration
        while around is not None:
            low, high = extent.get(around, (start, start + duration))
            extent[around] = min(low, start), max(high, start + duration)
            if name[around] not in seen:
                seen.add(name[around])
                spent[name[around]] += duration
                ops[name[around]] += 1
            around = host[around][3]
    projected = defaultdict[str, int](int)
    for row, (low, high) in extent.items():
        projected[name[row]] += high - low
    *found, rest = ranges(select(trace)).iter_rows(named=True)
    assert {row["name"] for row in found} == set(instances)
    for row in found:
        key = row["name"]
        expected = instances[key], host_time[key], projected[key], spent[key], ops[key]
        columns = ("instances", "host_total_ns", "gpu_projected_ns", "device_ns", "gpu_ops")
        assert tuple(row[column] for column in columns) == expected, key
        assert row["device_self_ns"] == own[key]
        assert sum(entry["ns"] for entry in row["by_category"]) == row["device_ns"]
        assert sum(entry["calls"] for entry in row["by_category"]) == row["gpu_ops"]
    assert rest["name"] == NOT_IN_ANY_RANGE
    assert rest["device_ns"] == rest["device_self_ns"] == own[NOT_IN_ANY_RANGE]
    assert sum(row["device_self_ns"] for row in (*found, rest)) == work["duration"].sum()


def test_ranges_of_gpt_training(recording: Recording) -> None:
    rows = {row["name"]: row for row in ranges(select(recording(GPT))).iter_rows(named=True)}
    assert rows["forward_pass"]["instances"] == 4
    assert rows["forward_pass"]["by_category"][0]["category"] == "gemm"
    assert rows["optimizer_step"]["by_category"][0]["category"] == "optimizer"
    attention = rows["scaled dot product attention"]
    inner = [rows[name]["device_ns"] for name in ("computing attention scores", "computing softmax", "final matmul")]
    assert attention["device_ns"] == sum(inner)


def test_communication_is_a_category(recording: Recording) -> None:
    rows = {row["name"]: row for row in ranges(select(recording(DDP))).iter_rows(named=True)}
    assert [entry["category"] for entry in rows["nccl:all_reduce"]["by_category"]] == ["communication"]


def test_a_trace_without_ranges(tmp_path: Path) -> None:
    frame = ranges(select(Trace.empty(TraceInfo("chrome", "made"), Source(tmp_path, 0))))
    assert frame.is_empty()
    assert frame.columns == list(COLUMNS)


def test_ranges_of_two_domains_with_one_name() -> None:
    trace = nvtx_trace(
        ("range", "send", 0, 100),
        ("range", "send", 10, 60, {"domain": "NCCL"}),
        ("call", "cudaLaunchKernel", 20, 25),
        ("call", "cudaLaunchKernel", 70, 75),
        ("kernel", "a", 30, 130, {"launch": 20}),
        ("kernel", "b", 130, 137, {"launch": 70}),
    )
    rows = {(row["domain"], row["name"]): row for row in ranges(select(trace)).iter_rows(named=True)}
    assert list(rows) == [("", "send"), ("NCCL", "send")]
    assert [rows["", "send"][key] for key in ("device_ns", "device_self_ns", "gpu_ops")] == [107, 7, 2]
    assert [rows["NCCL", "send"][key] for key in ("device_ns", "device_self_ns", "gpu_ops")] == [100, 100, 1]
    assert [row["gpu_projected_ns"] for row in rows.values()] == [107, 100]


def test_a_range_inside_one_of_its_name_adds_host_time_and_no_gpu_time() -> None:
    trace = nvtx_trace(
        ("range", "fold", 0, 100),
        ("range", "fold", 10, 60),
        ("call", "cudaLaunchKernel", 20, 25),
        ("kernel", "a", 30, 50, {"launch": 20}),
    )
    (row,) = ranges(select(trace)).iter_rows(named=True)
    assert (row["instances"], row["host_total_ns"], row["gpu_projected_ns"]) == (2, 150, 40)
    assert (row["device_ns"], row["device_self_ns"], row["gpu_ops"]) == (20, 20, 1)
    assert row["by_category"] == [{"category": "other", "calls": 1, "ns": 20}]


def test_ranges_that_overlap_keep_their_time_and_contain_what_lies_within_them() -> None:
    trace = nvtx_trace(
        ("range", "epoch", 0, 50, {"style": "start_end"}),
        ("range", "save", 30, 90, {"style": "start_end"}),
        ("call", "cudaLaunchKernel", 10, 12),
        ("call", "cudaLaunchKernel", 40, 42),
        ("call", "cudaLaunchKernel", 49, 51),  # ends after epoch
        ("kernel", "a", 100, 101, {"launch": 10}),
        ("kernel", "b", 102, 104, {"launch": 40}),
        ("memset", "[CUDA memset]", 110, 114, {"launch": 49}),
    )
    rows = {row["name"]: row for row in ranges(select(trace)).iter_rows(named=True)}
    assert (rows["epoch"]["host_total_ns"], rows["save"]["host_total_ns"]) == (50, 60)
    assert (rows["epoch"]["device_ns"], rows["epoch"]["gpu_projected_ns"], rows["epoch"]["gpu_ops"]) == (3, 4, 2)
    assert (rows["save"]["device_ns"], rows["save"]["gpu_projected_ns"], rows["save"]["gpu_ops"]) == (6, 12, 2)
    assert {row["style"] for row in rows.values()} == {"start_end"}
    assert [row["device_self_ns"] for row in rows.values()] == [4, 3]  # what both contain is of the shorter one


def test_what_autograd_launches_is_in_no_range() -> None:
    trace = nvtx_trace(
        ("range", "backward", 0, 100),
        ("call", "cudaLaunchKernel", 20, 25, {"thread": 2}),
        ("kernel", "a", 30, 50, {"launch": 20}),
        ("kernel", "never seen launched", 60, 65),
    )
    rows = list(ranges(select(trace)).iter_rows(named=True))
    assert [(row["name"], row["device_ns"], row["gpu_ops"]) for row in rows] == [
        ("backward", 0, 0),
        (NOT_IN_ANY_RANGE, 25, 2),
    ]
    assert (rows[1]["instances"], rows[1]["host_total_ns"], rows[1]["gpu_projected_ns"]) == (0, 0, None)
    assert rows[1]["by_category"] == [{"category": "other", "calls": 2, "ns": 25}]


def test_instants_and_ranges_across_threads_hold_no_known_gpu_work() -> None:
    trace = nvtx_trace(
        ("range", "mark", 20, 20, {"style": "mark"}),
        ("range", "request", 0, 90, {"style": "cross_thread"}),
        ("call", "cudaLaunchKernel", 20, 25),
        ("kernel", "a", 30, 50, {"launch": 20}),
    )
    rows = {row["name"]: row for row in ranges(select(trace)).iter_rows(named=True)}
    assert rows["request"]["host_total_ns"] == 90
    assert rows["mark"]["instances"] == 1
    for name in ("mark", "request"):
        assert rows[name]["device_ns"] is rows[name]["gpu_projected_ns"] is rows[name]["gpu_ops"] is None
    assert rows[NOT_IN_ANY_RANGE]["device_ns"] == 20


def test_a_graph_recorded_whole_is_work_of_its_range() -> None:
    trace = nvtx_trace(
        ("range", "replay", 0, 50),
        ("call", "cudaGraphLaunch", 10, 12),
        ("graph", "[CUDA graph 1]", 20, 95, {"launch": 10}),
    )
    (row,) = ranges(select(trace)).iter_rows(named=True)
    assert (row["device_ns"], row["gpu_projected_ns"], row["gpu_ops"]) == (75, 75, 1)


def test_a_kernel_s_range_is_the_one_it_counts_for(tmp_path: Path) -> None:
    """Also where start/end ranges overlap: the shortest around the launch."""
    file = NsysFile()
    file.start_end("early", 0, 60)
    file.start_end("late", 50, 200)
    file.launch("a", call=(52, 55), kernel=(100, 110))
    file.launch("b", call=(70, 75), kernel=(120, 140))
    sel = select(read_nsys(file.write(tmp_path / "a.sqlite")))
    own = dict(ranges(sel).select("name", "device_self_ns").rows())
    assert own == {"early": 10, "late": 20}
    assert dict(kernels(sel).select("name", "range").rows()) == {"a": "early", "b": "late"}


NSYS_GPT = "nsys/gpt_small_ctx256.sqlite.gz"
BY_SQL = """
WITH work AS (
    SELECT start, "end", correlationId, globalPid FROM CUPTI_ACTIVITY_KIND_KERNEL
    UNION ALL SELECT start, "end", correlationId, globalPid FROM CUPTI_ACTIVITY_KIND_MEMCPY
    UNION ALL SELECT start, "end", correlationId, globalPid FROM CUPTI_ACTIVITY_KIND_MEMSET
)
SELECT coalesce(r.text, s.value), sum(w."end" - w.start),
       sum(CASE WHEN a.globalTid = r.globalTid AND a."end" <= r."end" THEN w."end" - w.start ELSE 0 END)
FROM NVTX_EVENTS r
LEFT JOIN StringIds s ON s.id = r.textId
JOIN CUPTI_ACTIVITY_KIND_RUNTIME a ON a.start >= r.start AND a.start < r."end"
JOIN work w ON w.correlationId = a.correlationId AND w.globalPid = (a.globalTid & ~16777215)
WHERE r.eventType = 59 AND (r.globalTid & ~16777215) = (a.globalTid & ~16777215)
GROUP BY 1
"""
"""What was launched while each range was open: by any thread, and by the range's own."""


def test_what_any_thread_launched_is_what_sql_finds_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "gpt.sqlite"
    file.write_bytes(gzip.decompress(recorded(NSYS_GPT).read_bytes()))
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as base:
        expected = {name: (any_thread, own) for name, any_thread, own in base.execute(BY_SQL)}
    found = ranges(select(run_of(NSYS_GPT).main))
    rows = {row["name"]: (row["device_meanwhile_ns"], row["device_ns"]) for row in found.iter_rows(named=True)}
    assert rows.pop("(not in any range)")[0] is None
    assert rows == {name: expected[name] for name in rows}
    assert rows["backward_pass"] == (35_946_131, 2_240)


def test_every_operation_stands_under_one_range() -> None:
    sel = select(run_of(NSYS_GPT).main)
    found = range_tree_kernels(sel)
    work = device_work(sel)
    assert (found["calls"].sum(), found["device_meanwhile_ns"].sum()) == (work.height, work["duration"].sum())
    by_path = {path: rows for (path,), rows in found.group_by("path")}
    for row in range_tree(sel).filter(depth=1).iter_rows(named=True):
        inside = [rows for path, rows in by_path.items() if path == row["path"] or path.startswith(f"{row['path']}/")]
        assert sum(rows["device_meanwhile_ns"].sum() for rows in inside) == row["device_meanwhile_ns"]
        assert sum(rows["device_ns"].sum() for rows in inside) == row["device_total_ns"]


def test_a_launch_without_a_range_of_its_thread_is_of_the_range_that_began_last() -> None:
    trace = nvtx_trace(
        ("range", "outer", 0, 100),
        ("range", "done", 10, 20),
        ("range", "also done", 12, 14),
        ("range", "inner", 40, 60),
        ("range", "other", 50, 55, {"thread": 2}),
        ("range", "elsewhere", 0, 500, {"process": 8}),
        *(("call", "cudaLaunchKernel", at, at + 1, {"thread": 3}) for at in (15, 30, 45, 52, 100)),
        *(("kernel", "k", 200 + at, 201 + at, {"launch": at}) for at in (15, 30, 45, 52, 100)),
        ("kernel", "unknown", 400, 401),
    )
    sel = select(trace)
    rows = open_elsewhere(sel, containing_rows(trace.host), device_work(sel))
    names = [*trace.host["name"].cast(str).to_list(), None]
    assert [names[row] for row in rows.tolist()] == ["done", "outer", "inner", "other", None, None]
    assert open_elsewhere(sel, np.empty(0, np.int64), device_work(sel)).tolist() == [-1] * 6


def test_the_tree_lists_the_kernels_of_the_backward_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(recorded(NSYS_GPT)), "--section", "range_tree", "--kernels", "2"]) == 0
    lines = body(capsys.readouterr().out).splitlines()
    at = next(n for n, line in enumerate(lines) if line.endswith("    backward_pass"))
    assert lines[at].split()[:4] == ["2.240", "µs", "35.95", "ms"]
    assert [line.split()[:3] for line in lines[at + 1 : at + 3]] == [["0", "7.376", "ms"], ["0", "6.051", "ms"]]
    assert lines[at + 3].endswith("- 23 more")
    assert max(map(len, lines)) <= 80


def test_csv_has_every_kernel_of_every_range(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(recorded(NSYS_GPT))
    assert main(["report", path, "--section", "range_tree", "--kernels", "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert sum(float(row["device_meanwhile_us"]) for row in rows) == pytest.approx(61_386.699)
    assert main(["report", path, "--section", "kernels", "--kernels"]) == 2
    assert "--section modules or range_tree" in capsys.readouterr().err


def test_a_range_has_what_other_threads_launched_while_it_was_open() -> None:
    sel = select(two_steps())
    found = range_tree(sel)
    assert dict(found.select("path", "device_meanwhile_ns").rows()) == {
        "step": 78,
        "step/forward": 35,
        "step/forward/NCCL:all_reduce": 20,
        "step/backward": 40,
        "(not in any range)": None,
    }
    number = dict(found.select("path", "number").rows())
    inside = meanwhile_kernels(sel, number["step/backward"])
    assert inside.select("name", "total_ns", "calls").rows() == [("gemm_backward", 40, 1)]
    assert meanwhile_launches(sel, number["step/forward"]).height == 2  # the copy is no kernel


def test_a_launch_counts_once_and_by_when_its_call_begins() -> None:
    trace = nvtx_trace(
        ("range", "a", 0, 100),
        ("range", "a", 50, 150, {"thread": 2}),
        ("range", "b", 100, 100),
        ("call", "cudaLaunchKernel", 60, 62, {"thread": 3}),
        ("call", "cudaLaunchKernel", 99, 120, {"thread": 3}),
        ("call", "cudaLaunchKernel", 150, 151, {"thread": 3}),
        ("kernel", "both", 200, 201, {"launch": 60}),
        ("kernel", "begun", 201, 203, {"launch": 99}),
        ("kernel", "at the end", 203, 207, {"launch": 150}),
        ("kernel", "unknown", 207, 215),
    )
    found = range_tree(select(trace))
    assert dict(found.filter(found["number"] >= 0).select("path", "device_meanwhile_ns").rows()) == {"a": 3, "b": 0}


def test_another_process_has_its_own_launches() -> None:
    trace = nvtx_trace(
        ("range", "a", 0, 100),
        ("range", "a", 0, 100, {"process": 8, "thread": 2}),
        ("range", "c", 0, 100, {"process": 9, "thread": 3}),
        ("call", "cudaLaunchKernel", 10, 12),
        ("call", "cudaLaunchKernel", 20, 22, {"process": 8, "thread": 2}),
        ("kernel", "x", 200, 201, {"launch": 10}),
        ("kernel", "y", 201, 203, {"launch": 20}),
    )
    assert dict(range_tree(select(trace)).select("path", "device_meanwhile_ns").rows()) == {"a": 3, "c": 0}


def test_without_launches_or_ranges_there_is_nothing() -> None:
    sel = select(nvtx_trace(("kernel", "x", 0, 5)))
    none = np.empty(0, np.int64)
    spent, ops = launched_meanwhile(sel, none, none, 2)
    assert (spent.tolist(), ops.tolist()) == ([0, 0], [0, 0])
    assert in_ranges(sel, none, device_work(sel)).tolist() == [False]


def test_a_backward_pass_is_counted_as_the_captures_count_it(recording: Recording) -> None:
    sel = select(recording(NSYS_GPT))
    found = range_tree(sel)
    of_captures = {phase.name: phase.launched_ns for phase in phases(sel).by_name}
    for row in found.filter(found["number"] >= 0).iter_rows(named=True):
        assert row["device_meanwhile_ns"] == of_captures[row["name"]]
        assert row["device_meanwhile_ns"] >= row["device_total_ns"]
    backward = found.filter(name="backward_pass").row(0, named=True)
    assert backward["device_meanwhile_ns"] > 1000 * backward["device_total_ns"]
    tree, work = range_paths(sel.trace), device_work(sel)
    inside = work.filter(in_ranges(sel, tree.rows[tree.path == backward["number"]], work))
    assert inside["duration"].sum() == backward["device_meanwhile_ns"]
    kernels = inside.filter(inside["kind"] == "kernel")["duration"].sum()
    assert meanwhile_kernels(sel, backward["number"])["total_ns"].sum() == kernels


def test_only_work_in_scope_counts(recording: Recording) -> None:
    trace = recording(NSYS_GPT)
    whole = range_tree(select(trace)).filter(name="train_step")["device_meanwhile_ns"].sum()
    parts = [range_tree(select(trace, Scope(steps=(step, step)))) for step in trace.steps["index"]]
    assert sum(part.filter(name="train_step")["device_meanwhile_ns"].sum() for part in parts) == pytest.approx(whole)


async def test_the_tree_shows_it_where_it_differs(recording: Recording) -> None:
    path = recording(NSYS_GPT).source.path
    async with opened(path, tab="modules") as (app, pilot):
        assert "Any thread" in screen_text(app)
        table = app.view.table
        for position in range(table.height_of_view):
            table.move_to(position)
            if table.current["name"] == "backward_pass":
                break
        meanwhile = app.view.table.current["device_meanwhile_ns"]
        await press(pilot, "enter")
        assert "backward_pass, any thread" in screen_text(app)
        assert app.view.table.frame["total_ns"].sum() == pytest.approx(meanwhile, rel=0.01)  # less copies
        kernel = app.view.table.current
        await press(pilot, "enter")
        assert app.view.table.frame["duration_ns"].sum() == kernel["total_ns"]


async def test_a_tree_without_other_threads_has_one_column(recording: Recording) -> None:
    path = recording("nsys/vim_tiny_fp32_bs4.sqlite.gz").source.path
    async with opened(path, tab="modules") as (app, _):
        assert "Any thread" not in screen_text(app)


COMPILED = "compiled_mlp.pt.trace.json.gz"
ENTER, EXIT = (
    f"<built-in method __{word}__ of torch._C._profiler._RecordFunctionFast object>" for word in ("enter", "exit")
)
OPENED = "Pregraph bytecode|AOTDispatcher Runtime Wrapper Prologue"


@pytest.mark.parametrize(
    ("name", "ranges"),
    [(COMPILED, 4), ("public/tl_vllm_piecewise.json.gz", 1), ("public/tl_b200_eager.json.gz", 2)],
)
def test_ranges_of_compiled_code_are_as_long_as_recorded(recording, name, ranges) -> None:
    events = json.loads(gzip.decompress(recorded(name).read_bytes()), parse_float=str)["traceEvents"]
    wanted = sorted(int(Decimal(event["dur"]) * 1000) for event in events if event["name"] in OPENED.split("|"))
    host = recording(name).host.with_columns(pl.col("name").cast(pl.String))
    found = host.filter(pl.col("name").str.contains(f"^({OPENED})$"))
    assert found.height == ranges
    assert set(found["kind"]) == {"annotation"}
    assert found["duration"].sort().to_list() == wanted


def test_what_a_compiled_kernel_is_launched_in_stays_an_operator(recording: Callable[[str], Trace]) -> None:
    """Inductor opens such a range around each Triton kernel too, within the function that closes it."""
    trace = recording(COMPILED)
    kinds = trace.host.filter(pl.col("name").cast(pl.String).str.starts_with("triton_"))["kind"]
    assert set(kinds) == {"operator"}
    kernels = trace.device.filter(pl.col("name").cast(pl.String).str.starts_with("triton_"))
    assert kernels.height == 4
    operators = trace.host["name"].cast(pl.String).gather(kernels["operator"])
    assert operators.to_list() == kernels["name"].cast(pl.String).to_list()


def test_only_what_outlives_the_call_that_opened_it_is_a_range(tmp_path: Path) -> None:
    file = ChromeFile()
    file.python("model.py(1): forward", 0, 100)
    file.python(ENTER, 10, 12)
    file.operator("left open", 11, 50)
    file.python("helper.py(2): after", 45, 60)  # ends after the range, which must not cut it
    file.python(EXIT, 48, 52)
    file.python(ENTER, 70, 80)
    file.operator("aten::empty", 71, 75)
    file.operator("aten::add", 85, 90)
    host = read_chrome(file.write(tmp_path / "a.json")).host.with_columns(pl.col("name").cast(pl.String))
    kinds = dict(host.select("name", pl.col("kind").cast(pl.String)).iter_rows())
    assert kinds["left open"] == "annotation"
    assert {kinds["aten::empty"], kinds["aten::add"]} == {"operator"}
    lasting = dict(host.select("name", "duration").iter_rows())
    assert lasting["left open"] == 39_000
    assert lasting["helper.py(2): after"] == 15_000
