"""Where our numbers differ from the reference tools', and that this is what was meant.

Each test runs the same function twice, by the reference's convention and by ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import polars as pl
import pytest
from hta_numbers import concurrency, gpu_time

from tracetui.analysis.base.conventions import CATEGORIES, HTA, TORCH_TB, TRACETUI
from tracetui.analysis.gpu.activities import activities
from tracetui.analysis.gpu.idle import gaps
from tracetui.analysis.host import launches
from tracetui.analysis.overview import Overview, overview
from tracetui.analysis.selection import select
from tracetui.parsers import Trace

Handmade: TypeAlias = Callable[..., Trace]
Recording: TypeAlias = Callable[[str], Trace]

VIM_FP32 = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"
VIM_FP16 = "chrome/vim_tiny_fp16_bs4.pt.trace.json.gz"
DDP_RANK0 = "chrome/ddp_vit_small_2ranks/rank0.pt.trace.json.gz"
CONTROL = "chrome/hta_trace_diff/control.json.gz"
GRAPHS = "chrome/cudagraph_replay.trace.json.gz"


def us(found: Overview) -> dict[str, float]:
    """The average step by category, microseconds."""
    return {row["category"]: row["ns"] / 1000 for row in found.average.iter_rows(named=True)}


def test_full_steps_count_no_time_twice(handmade: Handmade) -> None:
    """torch-tb-profiler takes "no time left" for "nothing assigned yet" and hands the step out a second time."""
    trace = handmade(
        ("annotation", "ProfilerStep#1", 0, 100),
        ("operator", "aten::mm", 10, 90, {"External id": 5}),
        ("call", "cudaLaunchKernel", 20, 25, {"correlation": 1, "External id": 5}),
        ("kernel", "gemm", 0, 100, {"correlation": 1, "External id": 5}),
    )
    theirs, ours = us(overview(select(trace), TORCH_TB)), us(overview(select(trace)))
    assert {name: time for name, time in theirs.items() if time} == {
        "kernel": 100, "runtime": 5, "cpu_exec": 75, "other": 20,
    }  # fmt: skip
    assert {name: time for name, time in ours.items() if time} == {"kernel": 100}


def test_steps_are_marked_on_the_host(recording: Recording) -> None:
    """Annotations that the profiler projects on the GPU are no further steps."""
    theirs, ours = (overview(select(recording(VIM_FP32)), c) for c in (TORCH_TB, TRACETUI))
    assert (theirs.steps, ours.steps) == (5, 3)
    assert theirs.per_step["duration_ns"].to_list().count(0) == 2
    assert theirs.average_step_ns == pytest.approx(ours.average_step_ns * 3 / 5)
    assert ours.average_step_ns / 1000 == pytest.approx(106_418.02, abs=0.05)


def test_gpu_annotations_are_no_cpu_time(handmade: Handmade) -> None:
    trace = handmade(
        ("annotation", "ProfilerStep#1", 0, 100),
        ("call", "cudaLaunchKernel", 0, 10, {"correlation": 1}),
        ("kernel", "gemm", 20, 40, {"correlation": 1}),
        ("kernel", "gemm", 60, 80, {"correlation": 1}),
        ("projected", "forward", 20, 80),
    )
    theirs, ours = us(overview(select(trace), TORCH_TB)), us(overview(select(trace)))
    assert (theirs["cpu_exec"], theirs["other"]) == (20, 30)
    assert (ours["cpu_exec"], ours["other"]) == (0, 50)


def test_driver_calls_are_api_calls(handmade: Handmade) -> None:
    """Triton and cuBLAS launch through cuda_driver: their calls are runtime, their kernels belong to the step."""
    trace = handmade(
        ("annotation", "ProfilerStep#1", 0, 100),
        ("annotation", "ProfilerStep#2", 100, 200),
        ("call", "cudaLaunchKernel", 10, 20, {"correlation": 1}),
        ("driver", "cuLaunchKernel", 80, 95, {"correlation": 2}),
        ("call", "cudaLaunchKernel", 160, 170, {"correlation": 3}),
        ("kernel", "first", 30, 40, {"correlation": 1}),
        ("kernel", "triton_poi_fused", 110, 130, {"correlation": 2}),
        ("kernel", "last", 180, 190, {"correlation": 3}),
    )
    theirs, ours = (overview(select(trace), c) for c in (TORCH_TB, TRACETUI))
    assert theirs.per_step["runtime_ns"].to_list() == [10_000, 10_000]
    assert ours.per_step["runtime_ns"].to_list() == [25_000, 10_000]
    assert theirs.per_step["duration_ns"].to_list() == [100_000, 100_000]
    assert ours.per_step["duration_ns"].to_list() == [130_000, 70_000]


def test_driver_calls_in_a_recording(recording: Recording) -> None:
    theirs, ours = (us(overview(select(recording(VIM_FP32)), c)) for c in (HOST_STEPS, TRACETUI))
    assert theirs["runtime"] == pytest.approx(6594.13, abs=0.05)
    assert ours["runtime"] == pytest.approx(7582.1, abs=0.1)
    assert ours["runtime"] + ours["cpu_exec"] == pytest.approx(theirs["runtime"] + theirs["cpu_exec"], abs=0.1)


HOST_STEPS = replace(TORCH_TB, device_annotations=False)


def test_communication_is_gpu_time_of_collectives(recording: Recording) -> None:
    """torch-tb-profiler counts NCCL kernels as compute, and the host's time in nccl:* calls as communication."""
    trace = recording(DDP_RANK0)
    theirs, ours = (us(overview(select(trace), c)) for c in (HOST_STEPS, TRACETUI))
    assert theirs["communication"] == pytest.approx(295.3, abs=0.1)
    assert theirs["kernel"] == pytest.approx(37_814.4, abs=0.1)
    assert 28_000 < ours["communication"] < 30_000
    assert 8_000 < ours["kernel"] < 10_000
    work = activities(select(trace))
    assert set(work.frame.filter(pl.Series(work.communication))["name"].cast(pl.String)) == {
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    }


def test_no_step_is_dropped(handmade: Handmade) -> None:
    """torch-tb-profiler leaves out a last step with a fifth less GPU work than the one before."""
    calls = [("call", "cudaLaunchKernel", t, t + 1, {"correlation": t}) for t in (10, 20, 30, 110)]
    kernels = [("kernel", "gemm", t + 5, t + 6, {"correlation": t}) for t in (10, 20, 30, 110)]
    trace = handmade(
        ("annotation", "ProfilerStep#1", 0, 100), ("annotation", "ProfilerStep#2", 100, 200), *calls, *kernels
    )
    assert overview(select(trace), TORCH_TB).per_step["index"].to_list() == [1]
    assert overview(select(trace)).per_step["index"].to_list() == [1, 2]


def test_fp32_ffma_kernels_use_no_tensor_cores(recording: Recording) -> None:
    """``sm80_xmma_gemm_f32f32_…_ffma`` runs on the CUDA cores; ``nvjet`` runs on tensor cores."""
    share = pl.col("tensor_core_percent")
    fp32, fp16 = (
        [overview(select(recording(name)), c).gpu.select(share).item() for c in (HOST_STEPS, TRACETUI)]
        for name in (VIM_FP32, VIM_FP16)
    )
    assert fp32[0] == pytest.approx(47.86, abs=0.01)
    assert fp32[1] == 0
    assert fp16[0] == 0
    assert fp16[1] > 30


def test_tensor_core_share_needs_no_external_id(recording: Recording) -> None:
    """Where `External id` is the correlation (2022 to 2024), no operator is found by it and tb has no share."""
    theirs, ours = (overview(select(recording(CONTROL)), c).gpu["tensor_core_percent"][0] for c in (TORCH_TB, TRACETUI))
    assert theirs is None
    assert ours == pytest.approx(14.95, abs=0.01)


def test_last_step_counts(recording: Recording) -> None:
    """HTA leaves out the last step, since its kernels may not all have been recorded."""
    theirs, ours = (activities(select(recording(VIM_FP32)), c).start.size for c in (HTA, TRACETUI))
    assert 0 < theirs < ours
    assert theirs == pytest.approx(ours * 2 / 3, rel=0.01)


def test_idle_time_is_never_negative(recording: Recording) -> None:
    """HTA's gap before a kernel that begins before its predecessor ends counts as negative idle time."""
    theirs, ours = (gaps(select(recording(DDP_RANK0)), c)["duration_ns"] for c in (HTA, TRACETUI))
    assert theirs.min() == -1568
    assert ours.to_frame().filter(pl.col("duration_ns") <= 0).height == 0


def test_gaps_without_a_known_launch_have_no_known_cause(handmade: Handmade) -> None:
    trace = handmade(
        ("operator", "aten::mm", 0, 100),
        ("kernel", "a", 0, 10, {"correlation": 1}),
        ("kernel", "b", 20, 100, {"correlation": 2}),
    )
    theirs, ours = (gaps(select(trace), c) for c in (HTA, TRACETUI))
    assert theirs["cause"].to_list() == ["kernel_wait"]
    assert ours.filter(pl.col("stream").is_null())["cause"].to_list() == ["other"]


def test_idle_of_a_device_is_not_that_of_its_streams(handmade: Handmade) -> None:
    """HTA knows only streams: two that take turns are each idle, but the GPU is not."""
    trace = handmade(
        ("operator", "aten::mm", 0, 100),
        ("kernel", "a", 0, 50, {"correlation": 1, "stream": 7}),
        ("kernel", "b", 50, 100, {"correlation": 2, "stream": 8}),
    )
    found = gaps(select(trace))
    assert found.filter(pl.col("stream").is_null()).height == 0
    assert dict(found.select("stream", "duration_ns").iter_rows()) == {7: 50_000, 8: 50_000}


def test_durations_are_not_cut_to_whole_microseconds(handmade: Handmade, recording: Recording) -> None:
    """HTA rounds starts up and ends down by default; a kernel shorter than a microsecond gets a negative duration.

    Even without that, its kernel types are sums of stretches cut to whole microseconds.
    """
    trace = handmade(("operator", "aten::relu", 0, 20), ("kernel", "relu", 10.3, 10.9, {"correlation": 1}))
    assert gpu_time(select(trace)).compute_ns == 600
    types = concurrency(select(recording(DDP_RANK0)))
    short = types.filter(pl.col("kinds") == "memory")
    assert short["ns"][0] > 1000 * short["whole_us"][0]
    assert types["ns"].sum() - 1000 * types["whole_us"].sum() > 1_000_000


def test_every_call_that_starts_work_is_a_launch(recording: Recording) -> None:
    """HTA knows neither cudaGraphLaunch nor cuLaunchKernel."""
    graphs = select(recording(GRAPHS))
    assert launches(graphs, HTA).count == 0
    assert launches(graphs).count == 20
    assert set(launches(graphs).frame["api"]) == {"cudaGraphLaunch"}
    drivers = launches(select(recording(VIM_FP32))).frame["api"].value_counts()
    assert dict(drivers.iter_rows())["cuLaunchKernelEx"] > 0
    assert "cuLaunchKernelEx" not in set(launches(select(recording(VIM_FP32)), HTA).frame["api"])


def test_categories_still_sum_to_the_step_in_every_convention(recording: Recording) -> None:
    for conventions in (HOST_STEPS, TRACETUI):
        steps = overview(select(recording(DDP_RANK0)), conventions).per_step
        assert (
            steps.select(pl.sum_horizontal(f"{name}_ns" for name in CATEGORIES)).to_series() == steps["duration_ns"]
        ).all()


def test_hta_loses_microseconds_to_its_floats(recording: Recording) -> None:
    """The one value of HTA's that ours misses, by 2 of 43 947 µs: in float64 microseconds the same sum is HTA's."""
    trace = recording(DDP_RANK0)
    rows = concurrency(select(trace), HTA).filter(pl.col("kinds") == "communication")
    assert rows["whole_us"][0] == 43_949
    work = activities(select(trace), HTA)
    low = min(trace.host["start"].to_numpy().min(), trace.device["start"].to_numpy().min())
    edges, changes = [], []
    for bit, chosen in enumerate((work.compute, work.communication, work.memcpy | work.memset)):
        start = work.start[chosen] / 1000 - low / 1000
        reach = np.maximum.accumulate(start + (work.end - work.start)[chosen] / 1000)
        opens = np.flatnonzero(start[1:] > reach[:-1]) + 1
        begins, ends = start[np.append(0, opens)], reach[np.append(opens - 1, start.size - 1)]
        edges += [begins, ends]
        changes += [np.full(begins.size, 1 << bit), np.full(ends.size, -1 << bit)]
    order = np.argsort(np.concatenate(edges), kind="stable")
    lengths = np.diff(np.concatenate(edges)[order]).astype(np.int64)
    running = np.cumsum(np.concatenate(changes)[order])[:-1]
    assert lengths[running == 2].sum() == 43_947
