"""NVIDIA's report tables against what `nsys stats` printed for the same recordings, and the definitions behind them.

Run as a script, this prints the table of benchmarks/accuracy.md.
"""

import csv
import json
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from nsys_file import NsysFile
from nvtx_trace import nvtx_trace
from sample_runs import FP32, GPT, recorded, run_of

from tracetui.analysis.attribution.projection import enclosing, project
from tracetui.analysis.nsys.nvtx import _projected
from tracetui.analysis.nsys.stats import REPORTS, nsys_report
from tracetui.analysis.nsys.values import rounded
from tracetui.analysis.ranges import ranges
from tracetui.analysis.selection import Selection, select
from tracetui.app.cli import main as cli
from tracetui.app.reports.nsys_report import render
from tracetui.app.text.exit_codes import DONE, USAGE
from tracetui.parsers import Source, Trace, TraceInfo, open_path

DOCS = Path(__file__).resolve().parents[1] / "benchmarks" / "accuracy.md"
STATS = recorded("nsys/stats")
ALL_SUMS = (
    "nvtx_sum", "cuda_api_sum", "cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum",
    "cuda_kern_exec_sum", "nvtx_gpu_proj_sum", "nvtx_kern_sum",
)  # fmt: skip
RECORDINGS = {
    "vim_tiny_fp32_bs4": ("nsys/vim_tiny_fp32_bs4.sqlite.gz", ALL_SUMS),
    "gpt_small_ctx256": ("nsys/gpt_small_ctx256.sqlite.gz", ALL_SUMS),
    "graph_whole": ("nsys/graph_whole.sqlite.gz", ("cuda_api_sum", "nvtx_sum")),
    "ops": ("ops/ops.sqlite.gz", ("cuda_gpu_kern_sum", "nvtx_kern_sum")),
}
"""Recordings, and the reports that NVIDIA printed for each."""
GOLDENS = [(name, report) for name, (_, reports) in RECORDINGS.items() for report in reports]


def opened(name: str) -> Trace:
    return run_of(RECORDINGS[name][0]).traces[0]


def as_csv(sel: Selection, *reports: str) -> str:
    text, _ = render(sel, reports, "csv", None, ascii=False)
    return text


@dataclass(frozen=True)
class Comparison:
    rows: int
    values: int
    mismatches: list[str]


def compare(name: str, report: str) -> Comparison:
    """Every cell of NVIDIA's CSV with ours, as printed; a missing or further row is one mismatch per cell."""
    expected = list(csv.reader((STATS / f"{name}_{report}.csv").read_text().splitlines(keepends=True)))
    found = list(csv.reader(as_csv(select(opened(name)), report).splitlines(keepends=True)))
    width = len(expected[0])
    rows = max(len(expected), len(found))
    lines = (table + [[""] * width] * (rows - len(table)) for table in (expected, found))
    wrong = [
        f"row {number}, {title}: {theirs!r} here {ours!r}"
        for number, (their_row, our_row) in enumerate(zip(*lines, strict=True))
        for title, theirs, ours in zip(expected[0], their_row, our_row, strict=True)
        if theirs != ours
    ]
    return Comparison(len(expected) - 1, (len(expected) - 1) * width, wrong)


@pytest.mark.parametrize(("name", "report"), GOLDENS)
def test_equals_nvidias_table_to_the_byte(name: str, report: str) -> None:
    found = compare(name, report)
    assert not found.mismatches, "\n".join(found.mismatches[:10])
    assert found.values >= 10
    assert as_csv(select(opened(name)), report) == (STATS / f"{name}_{report}.csv").read_text()


def test_every_table_of_nvidia_is_compared() -> None:
    assert {path.stem for path in STATS.glob("*.csv")} == {f"{name}_{report}" for name, report in GOLDENS}


# --- definitions, on files made for them


def capture(path: Path) -> Selection:
    """Two threads, ranges within one another and across, launches in and out of them."""
    file = NsysFile()
    file.gpu()
    file.domain("NCCL", 3)
    file.push_pop("step", 1_000, 9_000)
    file.push_pop("fold", 1_200, 4_000)
    file.push_pop("fold", 1_400, 2_600)
    file.start_end("save", 3_000, 12_000)
    file.start_end("request", 1_000, 20_000, end_tid=77)
    file.push_pop("coll", 5_000, 6_000, domain=3)
    file.push_pop("no work", 6_100, 6_200)
    file.mark("here", 6_150)
    file.push_pop("step", 1_100, 9_500, tid=55)
    file.launch("gemm", (1_500, 1_600), (2_000, 2_500), grid=(4, 2, 1), block=(128, 1, 1))
    file.launch("gemm", (2_000, 2_100), (2_500, 3_100), grid=(4, 2, 1), block=(128, 1, 1))
    file.launch("relu", (3_100, 3_250), (3_200, 3_215))  # began before its call returned
    copy = file.call("cudaMemcpyAsync_v3020", 3_300, 3_400)
    file.memcpy(4_000, 4_900, bytes=1_000_000, correlation=copy)
    fill = file.call("cudaMemsetAsync_v3020", 4_100, 4_150)
    file.memset(4_900, 5_000, bytes=4_096, correlation=fill)
    file.launch("reduce<float>(T1 *, int)", (5_100, 5_200), (5_300, 5_420))
    file.launch("gemm", (8_900, 9_100), (9_300, 9_400))  # its call ends after the step
    file.launch("gemm", (2_000, 2_300), (6_000, 6_700), tid=55)
    file.launch("relu", (9_600, 9_650), (9_700, 9_731), tid=55)
    file.kernel("gemm", 13_000, 13_100, correlation=9_999)  # whose call is not in the file
    file.os_call("poll", 100, 2_000)
    file.os_call("poll", 3_000, 3_045)
    file.os_call("read", 150, 1_000, tid=55)
    file.os_call("profiling started", 0, 50_000, event_class=31)
    return select(open_path(file.write(path), cache=False).traces[0])


# what nsys stats 2022.4 prints for that file, with the range names of 2025 (`:name`)
PRINTED = {
    "nvtx_sum": """\
Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Style,Range
38.4,19000,1,19000.0,19000.0,19000,19000,0.0,StartEnd,:request
33.1,16400,2,8200.0,8200.0,8000,8400,282.8,PushPop,:step
18.2,9000,1,9000.0,9000.0,9000,9000,0.0,StartEnd,:save
8.1,4000,2,2000.0,2000.0,1200,2800,1131.4,PushPop,:fold
2.0,1000,1,1000.0,1000.0,1000,1000,0.0,PushPop,NCCL:coll
0.2,100,1,100.0,100.0,100,100,0.0,PushPop,:no work
""",
    "nvtx_startend_sum": """\
Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Range
67.9,19000,1,19000.0,19000.0,19000,19000,0.0,:request
32.1,9000,1,9000.0,9000.0,9000,9000,0.0,:save
""",
    "nvtx_kern_sum": """\
NVTX Range,Style,PID,TID,NVTX Inst,Kern Inst,Total Time (ns),Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Kernel Name
,,,,0,1,100,100.0,100.0,100,100,0.0,gemm
,,100,55,0,1,31,31.0,31.0,31,31,0.0,relu
:fold,PushPop,100,100,2,2,2200,550.0,550.0,500,600,57.7,gemm
:fold,PushPop,100,100,1,1,15,15.0,15.0,15,15,0.0,relu
:save,StartEnd,100,100,1,1,120,120.0,120.0,120,120,0.0,"reduce<float>(T1 *, int)"
:save,StartEnd,100,100,1,1,100,100.0,100.0,100,100,0.0,gemm
:save,StartEnd,100,100,1,1,15,15.0,15.0,15,15,0.0,relu
:step,PushPop,100,55,1,1,700,700.0,700.0,700,700,0.0,gemm
:step,PushPop,100,100,1,2,1100,550.0,550.0,500,600,70.7,gemm
:step,PushPop,100,100,1,1,120,120.0,120.0,120,120,0.0,"reduce<float>(T1 *, int)"
:step,PushPop,100,100,1,1,15,15.0,15.0,15,15,0.0,relu
NCCL:coll,PushPop,100,100,1,1,120,120.0,120.0,120,120,0.0,"reduce<float>(T1 *, int)"
""",
    "cuda_gpu_kern_gb_sum": """\
Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),GridXYZ,BlockXYZ,Name
50.8,1100,2,550.0,550.0,500,600,70.7,   4    2    1, 128    1    1,gemm
41.6,900,3,300.0,100.0,100,700,346.4,   1    1    1,  32    1    1,gemm
5.5,120,1,120.0,120.0,120,120,0.0,   1    1    1,  32    1    1,"reduce<float>(T1 *, int)"
2.1,46,2,23.0,23.0,15,31,11.3,   1    1    1,  32    1    1,relu
""",
    "cuda_api_gpu_sum": """\
Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Category,Operation
46.3,2000,5,400.0,500.0,100,700,282.8,CUDA_KERNEL,gemm
23.2,1000,7,142.9,100.0,50,300,83.8,CUDA_API,cudaLaunchKernel
20.9,900,1,900.0,900.0,900,900,0.0,MEMORY_OPER,[CUDA memcpy Host-to-Device]
2.8,120,1,120.0,120.0,120,120,0.0,CUDA_KERNEL,"reduce<float>(T1 *, int)"
2.3,100,1,100.0,100.0,100,100,0.0,MEMORY_OPER,[CUDA memset]
2.3,100,1,100.0,100.0,100,100,0.0,CUDA_API,cudaMemcpyAsync
1.2,50,1,50.0,50.0,50,50,0.0,CUDA_API,cudaMemsetAsync
1.1,46,2,23.0,23.0,15,31,11.3,CUDA_KERNEL,relu
""",
    "osrt_sum": """\
Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
69.6,1945,2,972.5,972.5,45,1900,1311.7,poll
30.4,850,1,850.0,850.0,850,850,0.0,read
""",
}


@pytest.mark.parametrize("report", PRINTED)
def test_equals_what_nsys_printed_for_a_made_file(tmp_path: Path, report: str) -> None:
    assert as_csv(capture(tmp_path / "made.sqlite"), report) == PRINTED[report]


def test_the_projection_of_each_range(tmp_path: Path) -> None:
    found = _projected(capture(tmp_path / "made.sqlite")).sort("range_id")
    assert found.select("label", "projected", "style", "thread", "launches", "level", "children").rows() == [
        (":step", 3420, "push_pop", 100, 6, 0, 2),
        (":step", 700, "push_pop", 55, 1, 0, 0),
        (":fold", 2900, "push_pop", 100, 4, 1, 1),
        (":fold", 1100, "push_pop", 100, 2, 2, 0),
        (":save", 6200, "start_end", 100, 5, 0, 0),
        ("NCCL:coll", 120, "push_pop", 100, 1, 1, 0),
    ]


def test_the_projection_summed_by_name(tmp_path: Path) -> None:
    lines = as_csv(capture(tmp_path / "made.sqlite"), "nvtx_gpu_proj_sum").splitlines()
    assert lines[1:4] == [
        ":save,StartEnd,6200,9000,1,6200.0,6200.0,6200,6200,0.0,5,5.0,0.0,0.0",
        ":step,PushPop,4120,16400,2,2060.0,2060.0,700,3420,1923.3,7,3.5,0.0,1.0",
        ":fold,PushPop,4000,4000,2,2000.0,2000.0,1100,2900,1272.8,6,3.0,1.5,0.5",
    ]


def test_the_gpu_trace_lists_all_work_in_its_order(tmp_path: Path) -> None:
    table = nsys_report(capture(tmp_path / "made.sqlite"), "cuda_gpu_trace").rows
    assert table["Start (ns)"].to_list() == [2000, 2500, 3200, 4000, 4900, 5300, 6000, 9300, 9700, 13000]
    copy, fill = table.row(3, named=True), table.row(4, named=True)
    assert (copy["Bytes (MB)"], copy["Throughput (MB/s)"]) == (1.0, 1_111_111.0)  # 10⁹ // 900, times 10⁶ bytes
    assert (copy["SrcMemKd"], copy["DstMemKd"]) == ("Pageable", "Device")
    assert (fill["Throughput (MB/s)"], fill["SrcMemKd"], fill["DstMemKd"]) == (40_960.0, "Device", None)
    assert table.row(0, named=True)["Device"] == "NVIDIA H200 (0)"
    assert [table.row(0, named=True)[f"{what}{axis}"] for what in ("Grd", "Blk") for axis in "XYZ"] == [
        4,
        2,
        1,
        128,
        1,
        1,
    ]


def test_a_launch_with_nothing_in_the_queue_has_no_queue_time(tmp_path: Path) -> None:
    rows = csv.DictReader(as_csv(capture(tmp_path / "made.sqlite"), "cuda_kern_exec_sum").splitlines())
    relu = next(row for row in rows if row["Kernel Name"] == "relu" and row["TID"] == "100")
    assert [relu[title] for title in ("Count", "QCount", "QAvg (ns)", "QMin (ns)", "QStdDev (ns)")] == [
        "1", "0", "", "", "0.0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "expected"),
    [(86953.25, 86953.3), (841.15, 841.1), (0.25, 0.3), (0.35, 0.3), (2.45, 2.5), (12.0, 12.0), (None, None)],
)
def test_rounds_the_binary_value_with_ties_away_from_zero(value: float | None, expected: float | None) -> None:
    assert rounded(value) == expected


def test_equal_totals_keep_the_order_of_first_appearance() -> None:
    trace = nvtx_trace(
        ("kernel", "zeta", 0, 10),
        ("kernel", "alpha", 20, 25),
        ("kernel", "alpha", 30, 35),
        ("kernel", "big", 40, 90),
        ("memcpy", "[CUDA memcpy Host-to-Device]", 100, 110, {"bytes": 1}),
        ("memcpy", "[CUDA memcpy Device-to-Host]", 120, 130, {"bytes": 1}),
    )
    sel = select(trace)
    assert nsys_report(sel, "cuda_gpu_kern_sum").rows["Name"].to_list() == ["big", "zeta", "alpha"]
    # of copies it is the name that decides
    assert [name[13:-1] for name in nsys_report(sel, "cuda_gpu_mem_time_sum").rows["Operation"]] == [
        "Device-to-Host", "Host-to-Device",
    ]  # fmt: skip


def test_labels_of_emit_nvtx_are_as_in_the_file(tmp_path: Path) -> None:
    texts = [
        "aten::mm, seq = 3, op_id = 5, sizes = [[2, 3], [3, 4]]", "aten::mm, op_id = 6", "MmBackward0, seq = 3",
        "aten::mm, seq = 4, op_id = 7", "plain",
    ]  # fmt: skip
    file = NsysFile()
    for number, text in enumerate(texts):
        file.push_pop(text, 100 * number, 100 * number + 50 - number)
    sel = select(open_path(file.write(tmp_path / "a.sqlite"), cache=False).traces[0])
    assert nsys_report(sel, "nvtx_sum").rows["Range"].to_list() == [f":{text}" for text in texts]
    assert set(ranges(sel)["name"]) == {"aten::mm", "MmBackward0", "plain"}


def test_a_graph_recorded_whole_is_left_out_and_said_so() -> None:
    trace = nvtx_trace(
        ("range", "replay", 0, 50),
        ("call", "cudaGraphLaunch", 10, 12),
        ("graph", "[CUDA graph 1]", 20, 95, {"launch": 10}),
    )
    text, notes = render(select(trace), ("cuda_gpu_kern_sum", "nvtx_gpu_proj_sum"), "csv", None, ascii=False)
    assert text.count("\n") == 3  # two headers with an empty line between them
    assert any("--cuda-graph-trace=node" in note for note in notes)
    _, notes = render(select(trace), ("nvtx_sum",), "csv", None, ascii=False)
    assert notes == []


def test_little_or_nothing_to_report(tmp_path: Path) -> None:
    for report in REPORTS:
        nothing = nsys_report(select(Trace.empty(TraceInfo("nsys", "made"), Source(tmp_path, 0))), report)
        assert nothing.rows.is_empty(), report
        bare = nvtx_trace(
            ("kernel", "of an unknown GPU", 0, 10),
            ("memset", "[CUDA memset]", 20, 20),  # takes no time
            ("os", "poll", 0, 5),
            ("range", "r", 0, 0),
        )
        few = nsys_report(select(bare), report)
        assert few.rows.columns == nothing.rows.columns, report
        assert few.rows.dtypes == nothing.rows.dtypes, report
        assert as_csv(select(bare), report).count("\n") == few.rows.height + 1, report


# --- the projection against a plain search


def _random_ranges(rng: random.Random) -> list[tuple[int, int, int, str]]:
    """(thread, start, end, style) of ranges that nest and of ranges that don't."""
    found = []

    def nest(thread: int, low: int, high: int, depth: int) -> None:
        at = low
        while depth < 4 and high - at > 20:
            start = rng.randint(at, high - 2)
            end = rng.randint(start + 1, high)
            found.append((thread, start, end, "push_pop"))
            nest(thread, start + 1, end - 1, depth + 1)
            at = end + 1

    for thread in (1, 2):
        nest(thread, 0, 3_000, 0)
        for _ in range(8):
            start, end = sorted(rng.sample(range(3_000), 2))
            found.append((thread, start, end, "start_end"))
    return sorted(set(found))


@pytest.mark.parametrize("seed", range(5))
def test_slices_and_parents_equal_a_search_over_all_pairs(seed: int) -> None:
    rng = random.Random(seed)
    spans = _random_ranges(rng)
    starts = {thread: sorted(rng.sample(range(0, 3_000, 7), 120)) for thread in (1, 2)}
    calls = [(thread, start, start + rng.randint(1, 6)) for thread in (1, 2) for start in starts[thread]]
    events = [("range", f"r{n}", a, b, {"thread": t, "style": s}) for n, (t, a, b, s) in enumerate(spans)]
    host = nvtx_trace(*events, *(("call", "launch", a, b, {"thread": t}) for t, a, b in calls)).host
    is_range = (host["kind"] == "annotation").to_numpy()
    rows, call_rows = np.flatnonzero(is_range), np.flatnonzero(~is_range)
    launch = rng.choices(call_rows.tolist(), k=400)
    device = pl.DataFrame(
        {
            "launch": pl.Series(launch, dtype=pl.UInt32),
            "start": rng.sample(range(10_000), 400),
            "duration": [rng.randint(0, 50) for _ in launch],
        }
    )
    found = project(host, rows, device)
    time = host.select("thread", "start", end=pl.col("start") + pl.col("duration")).rows()
    for number, row in enumerate(rows.tolist()):
        thread, start, end = time[row]
        inside = [
            n for n, call in enumerate(launch)
            if time[call][0] == thread and time[call][1] >= start and time[call][2] <= end
        ]  # fmt: skip
        assert sorted(found.work[found.begin[number] : found.end[number]].tolist()) == inside
        assert found.launches[number] == len({launch[n] for n in inside})
        if inside:
            assert found.start_ns[number] == min(device["start"][n] for n in inside)
            assert found.end_ns[number] == max(device["start"][n] + device["duration"][n] for n in inside)

    own = [time[row] for row in rows.tolist()]
    parent = enclosing(*(np.array(values) for values in zip(*own, strict=True)))
    for number, (thread, start, end) in enumerate(own):
        around = [
            (other[2] - other[1], n) for n, other in enumerate(own)
            if n != number and other[0] == thread and other[1] <= start and other[2] >= end
            and (other[1:] != (start, end) or n < number)
        ]  # fmt: skip
        expected = min(around)[0] if around else None
        chosen = int(parent[number])
        assert (None if chosen < 0 else own[chosen][2] - own[chosen][1]) == expected


# --- the command


@pytest.mark.parametrize("path", [FP32, GPT], ids=lambda path: path.name)
def test_any_trace_has_these_reports(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [part for report in REPORTS for part in ("--nsys-report", report)]
    assert cli.main(["report", str(path), *arguments, "--format", "csv"]) == DONE
    out, err = capsys.readouterr()
    tables = out.split("\n\n")
    assert len(tables) == len(REPORTS)
    for report, table in zip(REPORTS, tables, strict=True):
        head, *rows = csv.reader(table.splitlines())
        assert rows or report in err
        assert all(len(row) == len(head) for row in rows)


def test_ranges_of_a_pytorch_trace_are_named_as_it_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["report", str(GPT), "--nsys-report", "nvtxsum", "--format", "csv"])
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert {"forward_pass", "backward_pass", "optimizer_step"} <= {row["Range"] for row in rows}
    assert {row["Style"] for row in rows} == {"PushPop"}


def test_several_reports_and_a_limit(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["report", "--sample", "--nsys-report", "gpukernsum,cuda_api_sum", "--limit", "2"]
    cli.main([*arguments, "--format", "csv"])
    kernels, calls = capsys.readouterr().out.split("\n\n")
    assert [len(table.splitlines()) for table in (kernels, calls)] == [3, 3]
    cli.main([*arguments, "--format", "json"])
    found = json.loads(capsys.readouterr().out)
    assert [(report["name"], len(report["rows"])) for report in found["reports"]] == [
        ("cuda_gpu_kern_sum", 2),
        ("cuda_api_sum", 2),
    ]
    assert found["reports"][0]["count"] > 2
    cli.main(arguments)
    text = capsys.readouterr().out
    assert " ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):" in text
    assert "more rows)" in text
    assert max(map(len, text.splitlines())) < 220


def test_an_empty_report_is_its_header_and_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", "--sample", "--nsys-report", "osrt_sum", "--format", "csv"]) == DONE
    out, err = capsys.readouterr()
    assert out.startswith("Time (%),Total Time (ns),Num Calls,")
    assert out.count("\n") == 1
    assert "does not contain OS Runtime trace data" in err


@pytest.mark.parametrize(
    "arguments",
    [["kernels"], ["cuda_gpu_kern_sum:base"], ["nvtx_sum", "--format", "markdown"], ["nvtx_sum", "--section", "api"]],
)
def test_what_there_is_no_report_for_is_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", "--sample", "--nsys-report", *arguments]) == USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1


def test_an_unknown_report_names_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["report", "--sample", "--nsys-report", "kernels"])
    err = capsys.readouterr().err
    assert all(name in err for name in REPORTS)


def test_steps_restrict_the_reports(capsys: pytest.CaptureFixture[str]) -> None:
    totals = []
    for steps in ([], ["--steps", "2"]):
        cli.main(["report", "--sample", "--nsys-report", "cuda_gpu_kern_sum", "--format", "json", *steps])
        (report,) = json.loads(capsys.readouterr().out)["reports"]
        totals.append(sum(row["Instances"] for row in report["rows"]))
    assert totals[0] == 3 * totals[1] > 0


def table() -> str:
    """The Markdown table of benchmarks/accuracy.md."""
    lines = ["| report | recording | rows | values compared | mismatches |", "|---|---|--:|--:|--:|"]
    rows = values = wrong = 0
    for report in ALL_SUMS:
        for name in (name for name, printed in GOLDENS if printed == report):
            found = compare(name, report)
            rows, values, wrong = rows + found.rows, values + found.values, wrong + len(found.mismatches)
            lines.append(f"| {report} | {name} | {found.rows} | {found.values} | {len(found.mismatches)} |")
    lines.append(f"| **all** | | **{rows}** | **{values}** | **{wrong}** |")
    return "\n".join(lines)


def test_the_docs_hold_this_table() -> None:
    assert table() in DOCS.read_text()


if __name__ == "__main__":
    print(table())


def test_the_gpu_trace_has_both_kinds_of_shared_memory_and_gpus_in_cudas_order(tmp_path: Path) -> None:
    file = NsysFile()
    file.gpu(0, "Slow GPU")
    file.gpu(1, "Fast GPU")
    file.cuda_device(gpu=0, cuda=1)
    file.cuda_device(gpu=1, cuda=0)
    file.launch("gemm", (0, 10), (20, 30), staticSharedMemory=1_536, dynamicSharedMemory=98_304)
    copy = file.call("cudaMemcpyAsync_v3020", 40, 50)
    file.memcpy(60, 70, bytes=8, correlation=copy)
    sel = select(open_path(file.write(tmp_path / "made.sqlite"), cache=False).traces[0])
    assert sel.device["device"].to_list() == [0, 0]
    rows = nsys_report(sel, "cuda_gpu_trace").rows.select("Device", "StcSMem (MB)", "DymSMem (MB)").rows()
    assert rows == [("Fast GPU (0)", 0.002, 0.098), ("Fast GPU (0)", None, None)]
