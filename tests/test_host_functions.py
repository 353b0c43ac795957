"""Host hot spots, API calls, launches, copies and memory, recomputed one at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import polars as pl
import pytest
from as_json import report
from hta_numbers import queue_depth
from laid_out import report_text
from sample_runs import run_of

from tracetui.analysis.gpu.steps import step_slots
from tracetui.analysis.host import CALLS, api_calls, host_functions, launches
from tracetui.analysis.memops import memops, operation_name
from tracetui.analysis.memory.peak import memory
from tracetui.analysis.selection import Scope, select
from tracetui.analysis.tables.program import HOST_FUNCTIONS
from tracetui.app.tables.columns import own_time
from tracetui.parsers import Source, Trace, TraceInfo

Recording = Callable[[str], Trace]

VIM = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"
MLP = "chrome/forms/torch213_cpu_mlp_modules.pt.trace.json.gz"
DDP = "chrome/ddp_vit_small_2ranks/rank0.pt.trace.json.gz"


@pytest.mark.parametrize("path", [VIM, MLP, DDP])
def test_times_equal_a_walk_over_every_call(recording: Recording, path: str) -> None:
    trace = recording(path)
    host = trace.host.select("kind", "name", "duration", "parent").cast({"name": pl.String}).rows()
    calls, own, total = (defaultdict[tuple[str, str], int](int) for _ in range(3))
    for kind, name, duration, parent in host:
        if kind not in CALLS:
            continue
        calls[kind, name] += 1
        own[kind, name] += duration
        if parent is not None:
            own[host[parent][:2]] -= duration
        while parent is not None and host[parent][:2] != (kind, name):
            parent = host[parent][3]
        total[kind, name] += duration if parent is None else 0
    found = host_functions(select(trace))
    assert found.height == len(calls)
    for row in found.iter_rows(named=True):
        key = row["kind"], row["name"]
        assert (row["calls"], row["self_ns"], row["total_ns"]) == (calls[key], own[key], total[key]), key


def test_what_works_comes_before_what_waits(recording: Recording) -> None:
    frame = host_functions(select(recording(VIM)))
    assert frame["name"][0] == "aten::mm"
    assert frame["waits"].is_sorted()
    working, waiting = frame.filter(~pl.col("waits")), frame.filter("waits")
    assert working["self_ns"].is_sorted(descending=True)
    assert waiting["self_ns"].is_sorted(descending=True)
    assert waiting["name"][0].startswith("<built-in method acquire of _thread.lock")
    assert "cudaDeviceSynchronize" in set(waiting["name"])
    assert "cudaLaunchKernel" in set(working["name"])


def test_shares_are_of_the_steps_time(recording: Recording) -> None:
    sel = select(recording(VIM))
    row = host_functions(sel).row(0, named=True)
    slots = step_slots(sel)
    time = int((slots.end - slots.start).sum())
    assert row["self_per_step_ns"] == pytest.approx(row["self_ns"] / 3)
    assert row["percent"] == pytest.approx(100 * row["self_ns"] / time)
    one = host_functions(select(recording(VIM), Scope(steps=(2, 2)))).filter(pl.col("name") == row["name"])
    assert one["calls"].item() * 3 == row["calls"]
    assert one["self_per_step_ns"].item() == one["self_ns"].item()


def test_without_steps_the_whole_file_is_one(recording: Recording) -> None:
    frame = host_functions(select(recording("chrome/cudagraph_replay.trace.json.gz")))
    assert frame["self_per_step_ns"].to_list() == frame["self_ns"].to_list()
    assert frame["percent"][0] > 0


def test_an_empty_trace_has_no_functions(tmp_path: Path) -> None:
    frame = host_functions(select(Trace.empty(TraceInfo("chrome", "made"), Source(tmp_path, 0))))
    assert frame.is_empty()
    assert frame.columns == ["kind", "name", "calls", "self_ns", "total_ns", "self_per_step_ns", "percent", "waits"]


def test_calls_before_the_work_are_no_share_of_it(recording: Recording) -> None:
    """JAX's `start_trace` runs for 15 ms before the 1.8 ms that the file calls work."""
    rows = {
        row["name"]: row for row in host_functions(select(recording("jax/h200.trace.json.gz"))).iter_rows(named=True)
    }
    assert rows["$profiler.py:151 start_trace"]["self_ns"] > 10**7
    assert rows["$profiler.py:151 start_trace"]["percent"] == 0
    assert sum(row["percent"] for row in rows.values()) <= 100


def test_nothing_is_per_step_in_a_recording_without_steps() -> None:
    """The column is called `Self` then, in reports as on the screen, and stands there once."""
    columns = {steps: own_time(HOST_FUNCTIONS.columns, per_step=steps) for steps in (True, False)}
    assert [one.title for one in columns[True]].count("Self/step") == 1
    assert [one.title for one in columns[False]].count("Self") == 1
    assert not any("step" in one.title for one in columns[False])
    for name, said in (("ops/ops.trace.json.gz", "Self"), ("compiled_mlp.pt.trace.json.gz", "Self/step")):
        found = report(run_of(name), sections=("host_functions",))
        lines = report_text(found).splitlines()
        at = next(number for number, line in enumerate(lines) if line.startswith("Host functions ("))
        assert lines[at + 1].split()[0] == said


def test_what_was_called_outside_of_steps_says_so() -> None:
    """Operators count every call of this rank's aten::empty, all of them made after its step."""
    found = report(run_of("chrome/forms/cpu_only_rank34.json.gz"), sections=("host_functions", "operators"))
    (own,), (operator,) = (found["run"]["traces"][0][name] for name in ("host_functions", "operators"))
    assert own["self_us"] == own["total_us"] == operator["host_self_us"] == 3.964
    assert own["self_per_step_us"] == 0
    text = " ".join(report_text(found).split())
    assert "0 where all were made outside of them" in text


Handmade: TypeAlias = Callable[..., Trace]


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
