"""Ranges: host time, the GPU work inside, and its projection."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import polars as pl
import pytest
from nsys_file import NsysFile
from nvtx_trace import nvtx_trace

from tracetui.analysis.kernels import NOT_IN_ANY_RANGE, kernels
from tracetui.analysis.ranges import COLUMNS, ranges
from tracetui.analysis.selection import select
from tracetui.parsers import Source, Trace, TraceInfo
from tracetui.parsers.nsys.reader import read_nsys

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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
