"""The step that is shown and its parts: categories, idle time, the GPU's use, and the lanes of one step."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import polars as pl
import pytest
from sample_runs import run_of

from tests.sample_runs import FP32, GPT
from tracetui.analysis.base import intervals
from tracetui.analysis.base.conventions import CATEGORIES
from tracetui.analysis.overview import overview
from tracetui.analysis.ranks.of_run import ranks_of
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import in_steps, select
from tracetui.analysis.timeline.step_lanes import step_lanes, typical_step
from tracetui.parsers import Trace, open_path

Handmade: TypeAlias = Callable[..., Trace]
Recording: TypeAlias = Callable[[str], Trace]

RECORDINGS = (
    "vim_tiny_fp32_bs4.pt.trace.json.gz",
    "gpt_small_ctx256.trace.json.gz",
    "cudagraph_replay.trace.json.gz",
    "ddp_vit_small_2ranks/rank1.pt.trace.json.gz",
    "hta_trace_diff/test.json.gz",
    "kineto_samples/resnet50_num_workers_0.pt.trace.json.gz",
    "forms/amd_mi250_rocm.json.gz",
    "forms/cpu_only_rank34.json.gz",
    "forms/torch213_cpu_mlp_modules.pt.trace.json.gz",
)


@pytest.fixture
def two_steps(handmade: Handmade) -> Trace:
    """Two steps; the first one's kernel ends within the second's host time."""
    return handmade(
        ("annotation", "ProfilerStep#3", 0, 100),
        ("annotation", "ProfilerStep#4", 110, 200),
        ("operator", "aten::mm", 10, 60, {"External id": 1}),
        ("call", "cudaLaunchKernel", 20, 30, {"correlation": 1}),
        ("call", "cudaLaunchKernel", 115, 120, {"correlation": 2}),
        ("call", "cudaMemcpyAsync", 150, 155, {"correlation": 3}),
        ("kernel", "gemm", 50, 130, {"correlation": 1, "blocks per SM": 0.5, "est. achieved occupancy %": 40}),
        ("kernel", "ncclDevKernel_AllReduce", 140, 160, {"correlation": 2, "stream": 8}),
        ("memcpy", "Memcpy HtoD (Pinned -> Device)", 150, 180, {"correlation": 3, "bytes": 60_000}),
    )


def test_gpu_metrics(two_steps: Trace) -> None:
    row = overview(select(two_steps)).gpu.row(0, named=True)
    assert row["busy_percent"] == pytest.approx(100 * 120 / 200)
    assert row["utilization_percent"] == pytest.approx(100 * 100 / 200)
    assert row["sm_efficiency_percent"] == pytest.approx(100 * 0.5 * 80 / 200)
    assert row["occupancy_percent"] == pytest.approx(40)
    assert row["tensor_core_percent"] == 0


def test_concurrent_blocks_fill_an_sm_at_most_once(handmade: Handmade) -> None:
    trace = handmade(
        ("operator", "aten::mm", 0, 100),
        ("kernel", "a", 0, 60, {"blocks per SM": 0.7}),
        ("kernel", "b", 40, 80, {"blocks per SM": 0.6, "stream": 8}),
    )
    row = overview(select(trace)).gpu.row(0, named=True)
    assert row["sm_efficiency_percent"] == pytest.approx((40 * 0.7 + 20 * 1.0 + 20 * 0.6) / 0.8)
    assert row["occupancy_percent"] is None


def test_work_launched_before_the_first_step_is_not_its_own(handmade: Handmade) -> None:
    trace = handmade(
        ("annotation", "ProfilerStep#1", 100, 200),
        ("call", "cudaLaunchKernel", 150, 155, {"correlation": 2}),
        ("kernel", "before", 90, 120, {"correlation": 1}),
        ("kernel", "own", 160, 230, {"correlation": 2}),
    )
    step = overview(select(trace)).per_step.row(0, named=True)
    assert (step["start"], step["duration_ns"]) == (120_000, 110_000)
    every = select(trace)
    assert every.device["duration"].sum() == 100_000  # totals count it all the same, and say so
    assert (every.describe(), every.describe_totals()) == ("step 1", "step 1 and outside")
    assert select(trace, Scope(devices=frozenset({0}))).describe_totals() == "step 1 and outside, GPU 0"
    assert in_steps(every).describe_totals() == "step 1"
    assert every.describe_totals(calls=True) == "step 1"  # its one call began inside


def test_scope_of_time(two_steps: Trace) -> None:
    found = overview(select(two_steps, Scope(window=(120_000, 150_000))))
    assert found.per_step["duration_ns"].to_list() == [10_000, 20_000]
    assert found.gpu["utilization_percent"][0] == pytest.approx(100 * 20 / 30)
    assert found.base == "steps 3-4, marked range"
    nothing = overview(select(two_steps, Scope(window=(500_000, 600_000))))
    assert (nothing.per_step.height, nothing.gpu.height, nothing.verdict.kind) == (0, 0, "unknown")


def test_a_trace_without_steps_is_one(handmade: Handmade) -> None:
    found = overview(select(handmade(("operator", "aten::mm", 5, 25), ("kernel", "gemm", 20, 40))))
    assert (found.steps, found.per_step.height, found.average_step_ns) == (0, 1, 20_000)
    assert found.base == "first to last GPU work (no steps)"
    assert (found.recorded_ns, found.setup_ns) == (35_000, 15_000)
    on_host = overview(select(handmade(("operator", "aten::mm", 5, 25))))
    assert (on_host.base, on_host.average_step_ns, on_host.setup_ns) == ("whole file (no steps)", 20_000, None)


def test_an_empty_trace(handmade: Handmade) -> None:
    found = overview(select(handmade()))
    assert (found.steps, found.per_step.height, found.average_step_ns) == (0, 0, 0)
    assert (found.average["ns"].sum(), found.overlap_percent, found.verdict.kind) == (0, None, "unknown")
    assert found.average["category"].to_list() == list(CATEGORIES)


@pytest.mark.parametrize("name", RECORDINGS)
def test_categories_sum_to_the_step(recording: Recording, name: str) -> None:
    found = overview(select(recording(f"chrome/{name}")))
    steps = found.per_step
    total = steps.select(pl.sum_horizontal(f"{category}_ns" for category in CATEGORIES)).to_series()
    assert total.to_list() == steps["duration_ns"].to_list()
    assert found.average["percent"].sum() == pytest.approx(100)
    for row in found.idle.iter_rows(named=True):
        assert row["host_wait_percent"] + row["kernel_wait_percent"] + row["other_percent"] == pytest.approx(100)
    for row in found.gpu.iter_rows(named=True):
        whole = found.idle.filter((pl.col("device") == row["device"]) & pl.col("stream").is_null())
        window = steps["start"][-1] + steps["duration_ns"][-1] - steps["start"][0]
        assert 100 * whole["idle_ns"][0] / window + row["busy_percent"] == pytest.approx(100)
        assert row["utilization_percent"] <= row["busy_percent"]


def test_the_straggler_is_who_computes_longest(recording: Recording) -> None:
    table = ranks_of(run_of("chrome/ddp_vit_small_2ranks"))
    assert table["rank"].to_list() == [0, 1]
    assert table["straggler"].to_list() == [False, True]
    fast, slow = table.iter_rows(named=True)
    assert fast["communication_ns"] > 50 * slow["communication_ns"]
    assert slow["behind_percent"] == pytest.approx(-fast["behind_percent"])


def test_one_rank_has_nobody_to_wait_for() -> None:
    run = run_of("chrome/vim_tiny_fp32_bs4.pt.trace.json.gz")
    assert ranks_of(run).height == 0


CALLS = ("operator", "dataloader", "runtime", "driver", "overhead")
WORK = ("kernel", "memcpy", "memset", "graph")


def covered(frame: pl.DataFrame, start: int, end: int) -> int:
    """ns of a stretch in which at least one of the events runs."""
    begin = np.maximum(frame["start"].to_numpy(), start)
    until = np.minimum((frame["start"] + frame["duration"]).to_numpy(), end)
    left, right = intervals.union(begin[until > begin], until[until > begin])
    return int((right - left).sum())


@pytest.mark.parametrize("path", [FP32, GPT], ids=["vim", "gpt"])
def test_lanes_are_as_busy_as_their_events(path: Path) -> None:
    trace = open_path(path).main
    steps = overview(select(trace)).per_step
    row = steps.row(typical_step(steps), named=True)
    start, end = row["start"], row["start"] + row["duration_ns"]
    found = step_lanes(trace, start, end, 50)
    assert {one.lane.kind for one in found} >= {"calls", "stream"}
    for one in found:
        lane = one.lane
        assert len(one.busy) == 50
        if lane.kind == "calls":
            events = trace.host.filter(thread=lane.thread, process=lane.process).filter(pl.col("kind").is_in(CALLS))
        else:
            events = trace.device.filter(pl.col("kind").is_in(WORK), device=lane.device, stream=lane.stream)
        # an instant counts as 1 ns in a row, and edges of parts are rounded
        assert one.share == pytest.approx(covered(events, start, end) / (end - start), abs=1e-3)


def test_a_stretch_without_events_has_no_lanes() -> None:
    trace = open_path(FP32).main
    assert step_lanes(trace, 0, 1) == step_lanes(trace, 5, 5) == []


def test_the_typical_step_is_nearest_to_the_median() -> None:
    assert typical_step(pl.DataFrame({"duration_ns": [90, 10, 12, 11, 500]})) == 2
    assert typical_step(pl.DataFrame({"duration_ns": [7]})) == 0
