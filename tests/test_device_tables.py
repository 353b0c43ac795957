"""API calls, launches, copies and memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest
from hta_numbers import queue_depth

from tracetui.analysis.host import api_calls, launches
from tracetui.analysis.memops import memops, operation_name
from tracetui.analysis.memory.peak import memory
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import select
from tracetui.parsers import Trace

Handmade: TypeAlias = Callable[..., Trace]
Recording: TypeAlias = Callable[[str], Trace]


@pytest.fixture
def launching(handmade: Handmade) -> Trace:
    return handmade(
        ("annotation", "ProfilerStep#1", 0, 300),
        ("annotation", "ProfilerStep#2", 300, 600),
        ("call", "cudaLaunchKernel", 0, 10, {"correlation": 1}),
        ("call", "cudaLaunchKernel", 20, 80, {"correlation": 2}),
        ("call", "cudaGraphLaunch", 100, 120, {"correlation": 3}),
        ("call", "cudaDeviceSynchronize", 130, 290),
        ("driver", "cuLaunchKernel", 310, 314, {"correlation": 4}),
        ("kernel", "a", 8, 9, {"correlation": 1}),
        ("kernel", "b", 81, 91, {"correlation": 2}),
        ("kernel", "g1", 230, 240, {"correlation": 3}),
        ("kernel", "g2", 240, 270, {"correlation": 3}),
        ("memset", "Memset (Device)", 320, 322, {"correlation": 4, "bytes": 4000}),
    )


def test_api_calls(launching: Trace) -> None:
    table = api_calls(select(launching))
    assert table["name"].to_list() == ["cudaDeviceSynchronize", "cudaLaunchKernel", "cudaGraphLaunch", "cuLaunchKernel"]
    row = table.row(1, named=True)
    assert (row["calls"], row["total_ns"], row["min_ns"], row["max_ns"]) == (2, 70_000, 10_000, 60_000)
    assert (row["mean_ns"], row["median_ns"]) == (35_000, 35_000)
    assert row["std_ns"] == pytest.approx(35_355.339)
    assert table["std_ns"][0] == 0
    assert table["percent"].sum() == pytest.approx(100)
    assert api_calls(select(launching, Scope(steps=(2, 2))))["name"].to_list() == ["cuLaunchKernel"]


def test_launches(launching: Trace) -> None:
    found = launches(select(launching))
    assert found.frame.select("api", "kernel", "cpu_ns", "gpu_ns", "delay_ns").rows() == [
        ("cudaLaunchKernel", "a", 10_000, 1_000, 0),  # its kernel began before the call returned
        ("cudaLaunchKernel", "b", 60_000, 10_000, 1_000),
        ("cudaGraphLaunch", "g1", 20_000, 40_000, 110_000),
        ("cuLaunchKernel", "Memset (Device)", 4_000, 2_000, 6_000),
    ]
    assert (found.count, found.short_kernels, found.runtime_outliers, found.delay_outliers) == (4, 2, 1, 1)
    assert found.median_delay_ns == 3_500
    assert launches(select(launching, Scope(steps=(1, 1)))).count == 3


def test_nothing_launched(handmade: Handmade) -> None:
    found = launches(select(handmade(("operator", "aten::mm", 0, 1))))
    assert (found.count, found.median_delay_ns, found.frame.height) == (0, None, 0)
    assert api_calls(select(handmade())).height == 0
    assert memops(select(handmade())).height == 0


def test_queue_depth(launching: Trace) -> None:
    found = queue_depth(select(launching))
    assert found["depth"].to_list()[:4] == [1, 0, 1, 0]
    assert found["depth"].max() == 2  # the graph's two kernels
    assert found["depth"][-1] == 0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Memcpy HtoD (Pinned -> Device)", "[CUDA memcpy Host-to-Device]"),
        ("Memcpy DtoH (Device -> Pageable)", "[CUDA memcpy Device-to-Host]"),
        ("Memcpy DtoD (Device -> Device)", "[CUDA memcpy Device-to-Device]"),
        ("Memcpy PtoP (Device -> Device)", "[CUDA memcpy Peer-to-Peer]"),
        ("CopyHostToDevice", "[CUDA memcpy Host-to-Device]"),
        ("Memset (Device)", "[CUDA memset]"),
        ("[CUDA memcpy Unified Host-to-Device]", "[CUDA memcpy Unified Host-to-Device]"),
        ("something else", "something else"),
    ],
)
def test_names_of_copies(name: str, expected: str) -> None:
    assert operation_name(name) == expected


def test_copies_of_a_recording(recording: Recording) -> None:
    first = memops(select(recording("chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"))).row(0, named=True)
    assert (first["kind"], first["name"], first["calls"]) == ("memcpy", "[CUDA memcpy Host-to-Device]", 6)
    assert (first["total_ns"], first["bytes"]) == (157_759, 7_225_440)
    assert first["throughput_gbps"] == pytest.approx(7_225_440 / 157_759)


def test_unknown_sizes_stay_unknown(recording: Recording) -> None:
    row = memops(select(recording("chrome/forms/amd_mi250_rocm.json.gz"))).row(0, named=True)
    assert (row["bytes"], row["throughput_gbps"]) == (None, None)


def test_memory_peaks(recording: Recording) -> None:
    found = memory(select(recording("chrome/gpt_small_ctx256.trace.json.gz")))
    assert found.on_gpu
    assert found.peak_allocated_bytes == found.curve["allocated"].max()
    assert found.peak_reserved_bytes == 2_508_193_792
    assert found.peaks["device_type"].to_list() == [0, 1]
    host = memory(select(recording("chrome/forms/torch213_cpu_mlp_modules.pt.trace.json.gz")))
    assert (host.on_gpu, host.peak_allocated_bytes) == (False, 1_727_536)
    nothing = memory(select(recording("chrome/cudagraph_replay.trace.json.gz")))
    assert (nothing.peak_allocated_bytes, nothing.peak_reserved_bytes, nothing.curve.height) == (None, None, 0)
