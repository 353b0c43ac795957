"""The tree of ranges: paths, times that add up, kernels of a path; and where it stands on the screen and in reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest
from nvtx_trace import nvtx_trace

from tracetui.analysis.range_tree import LAYOUT, range_kernels, range_launches, range_tree
from tracetui.analysis.ranges import NOT_IN_ANY_RANGE
from tracetui.analysis.selection import Scope, select
from tracetui.parsers import Source, Trace, TraceInfo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Recording = Callable[[str], Trace]

GPT = "chrome/gpt_small_ctx256.trace.json.gz"
DDP = "chrome/ddp_vit_small_2ranks/rank0.pt.trace.json.gz"
NSYS_GPT = "nsys/gpt_small_ctx256.sqlite.gz"
NSYS_VIM = "nsys/vim_tiny_fp32_bs4.sqlite.gz"


def two_steps() -> Trace:
    return nvtx_trace(
        ("range", "step", 0, 100),
        ("range", "forward", 10, 50),
        ("range", "all_reduce", 20, 30, {"domain": "NCCL"}),
        ("range", "backward", 60, 90),
        ("range", "step", 100, 200),
        ("range", "forward", 110, 140),
        ("call", "cudaLaunchKernel", 12, 14),
        ("call", "cudaLaunchKernel", 22, 24),
        ("call", "cudaLaunchKernel", 55, 57),
        ("call", "cudaLaunchKernel", 62, 64, {"thread": 2}),
        ("call", "cudaLaunchKernel", 112, 114),
        ("kernel", "gemm", 300, 310, {"launch": 12}),
        ("kernel", "ncclAllReduce", 310, 330, {"launch": 22}),
        ("kernel", "relu", 330, 333, {"launch": 55}),
        ("kernel", "gemm_backward", 333, 373, {"launch": 62}),
        ("memcpy", "[CUDA memcpy Host-to-Device]", 400, 405, {"launch": 112}),
    )


def test_ranges_with_the_same_ranges_around_them_are_one_row() -> None:
    found = range_tree(select(two_steps()))
    assert found.select("path", "depth", "calls", "host_total_ns", "host_self_ns").rows() == [
        ("step", 0, 2, 200, 100),
        ("step/forward", 1, 2, 70, 60),
        ("step/forward/NCCL:all_reduce", 2, 1, 10, 10),
        ("step/backward", 1, 1, 30, 30),
        (NOT_IN_ANY_RANGE, 0, 0, None, None),
    ]
    assert found.select("device_self_ns", "device_total_ns", "gpu_ops", "gpu_projected_ns").rows() == [
        (3, 38, 4, 38),  # 300 to 333 and 400 to 405
        (15, 35, 3, 35),
        (20, 20, 1, 20),
        (0, 0, 0, 0),
        (40, 40, 1, None),
    ]
    assert found.schema == pl.Schema(LAYOUT)


def test_the_kernels_of_a_path_are_those_of_what_is_inside_too() -> None:
    sel = select(two_steps())
    number = dict(range_tree(sel).select("path", "number").rows())
    kernels = {path: set(range_kernels(sel, at)["name"]) for path, at in number.items()}
    assert kernels == {
        "step": {"gemm", "ncclAllReduce", "relu"},
        "step/forward": {"gemm", "ncclAllReduce"},
        "step/forward/NCCL:all_reduce": {"ncclAllReduce"},
        "step/backward": set(),
        NOT_IN_ANY_RANGE: {"gemm_backward"},
    }
    rows, paths = range_launches(sel, number["step/forward"])
    assert paths == ["step/forward", "step/forward/NCCL:all_reduce"]
    assert rows.height == 2


def test_ranges_that_overlap_stand_beside_each_other() -> None:
    trace = nvtx_trace(
        ("range", "epoch", 0, 100, {"style": "start_end"}),
        ("range", "load", 50, 150, {"style": "start_end"}),
        ("range", "step", 60, 90),
        ("range", "request", 0, 500, {"style": "cross_thread"}),
        ("range", "mark", 65, 65, {"style": "mark"}),
        ("call", "cudaLaunchKernel", 40, 42),
        ("call", "cudaLaunchKernel", 70, 72),
        ("call", "cudaLaunchKernel", 99, 101),
        ("kernel", "a", 200, 201, {"launch": 40}),
        ("kernel", "b", 210, 212, {"launch": 70}),
        ("kernel", "c", 220, 224, {"launch": 99}),
    )
    found = range_tree(select(trace))
    assert found.select("path", "depth", "host_self_ns", "device_self_ns", "device_total_ns").rows() == [
        ("epoch", 0, 100, 1, 1),
        ("load", 0, 70, 4, 6),
        ("load/step", 1, 30, 2, 2),
    ]


def test_a_range_inside_one_of_its_name_is_one_level_deeper() -> None:
    trace = nvtx_trace(
        ("range", "fold", 0, 100),
        ("range", "fold", 10, 60),
        ("call", "cudaLaunchKernel", 20, 25),
        ("kernel", "a", 30, 50, {"launch": 20}),
    )
    found = range_tree(select(trace))
    assert found.select("path", "calls", "host_self_ns", "device_self_ns", "device_total_ns").rows() == [
        ("fold", 1, 50, 0, 20),
        ("fold/fold", 1, 50, 20, 20),
    ]


def test_a_trace_without_ranges_has_no_tree(tmp_path: Path) -> None:
    assert range_tree(select(Trace.empty(TraceInfo("nsys", "made"), Source(tmp_path, 0)))).is_empty()
    alone = nvtx_trace(("call", "cudaLaunchKernel", 1, 2), ("kernel", "a", 3, 4, {"launch": 1}))
    assert range_tree(select(alone)).is_empty()


@pytest.mark.parametrize("path", [GPT, DDP, NSYS_GPT, NSYS_VIM])
def test_the_roots_hold_all_gpu_time(recording: Recording, path: str) -> None:
    trace = recording(path)
    work = trace.device.filter(pl.col("kind").is_in(["kernel", "memcpy", "memset", "graph"]))
    found = range_tree(select(trace))
    assert found["device_self_ns"].sum() == found.filter(depth=0)["device_total_ns"].sum() == work["duration"].sum()
    assert found.filter(depth=0)["gpu_ops"].sum() == work.height
    for row in found.filter(pl.col("number") >= 0).head(12).iter_rows(named=True):
        assert row["device_self_ns"] <= row["device_total_ns"]
        assert 0 <= row["host_self_ns"] <= row["host_total_ns"]
    kernels = range_kernels(select(trace), int(found["number"][0]))
    assert kernels["total_ns"].sum() <= found["device_total_ns"][0]


def test_the_ranges_of_a_training_run(recording: Recording) -> None:
    found = range_tree(select(recording(NSYS_GPT)))
    assert found["path"].to_list() == [
        "train_step",
        "train_step/forward_pass",
        "train_step/forward_pass/scaled dot product attention",
        "train_step/forward_pass/scaled dot product attention/computing attention scores",
        "train_step/forward_pass/scaled dot product attention/computing softmax",
        "train_step/forward_pass/scaled dot product attention/final matmul",
        "train_step/backward_pass",
        "train_step/optimizer_step",
        NOT_IN_ANY_RANGE,
    ]
    # as nvtx_gpu_proj_sum of nsys has them
    projected = dict(found.select("name", "gpu_projected_ns").rows())
    assert projected["train_step"] == 98_800_546
    assert projected["computing softmax"] == 343_902


def test_a_scope_restricts_the_tree(recording: Recording) -> None:
    trace = recording(NSYS_VIM)
    one = range_tree(select(trace, Scope(steps=(1, 1))))
    assert [name for name in one["name"] if name.startswith("batch")] == ["batch_1"]
    whole = range_tree(select(trace))
    assert (
        one.filter(pl.col("name") == "batch_1")
        .drop("number")
        .equals(whole.filter(pl.col("name") == "batch_1").drop("number"))
    )
