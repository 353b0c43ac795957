"""What an export holds beside the events: threads, CPU samples, calls of the system, GPU metrics, unified memory."""

import gzip
import re
import sqlite3
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from as_json import report
from laid_out import body, run_parts
from nsys_file import PID, NsysFile, global_pid, global_tid
from sample_runs import recorded

from tracetui.analysis.nsys.gpu_samples import Sampled, gpu_samples
from tracetui.analysis.nsys.threads import cpu_functions, os_calls, reason_of, threads
from tracetui.analysis.nsys.unified_memory import unified_memory
from tracetui.analysis.report.sections import ON_REQUEST
from tracetui.analysis.selection import Scope, select
from tracetui.app.reports.layout import Layout
from tracetui.app.reports.text import text
from tracetui.app.views.host import system_pages
from tracetui.parsers import Run, Trace
from tracetui.parsers.nsys.reader import read_nsys

SYSTEM, GPU = "nsys/system.sqlite.gz", "nsys/gpu_metrics.sqlite.gz"
"""A loader thread that computes batches for a main thread that waits for each; the same GPU work with its metrics."""


@cache
def trace_of(name: str) -> Trace:
    return read_nsys(recorded(name))


def ask(name: str, query: str) -> list[Any]:
    """What SQLite itself says of a recording."""
    connection = sqlite3.connect(":memory:")
    connection.deserialize(gzip.decompress(recorded(name).read_bytes()))
    return connection.execute(query).fetchall()


def made(file: NsysFile, folder: Path) -> Trace:
    return read_nsys(file.write(folder / "a.sqlite"))


@pytest.mark.skipif(not hasattr(sqlite3.Connection, "deserialize"), reason="Python before 3.11 opens no bytes")
def test_the_time_of_each_thread_on_the_cpu_is_what_the_scheduler_recorded() -> None:
    found = threads(select(trace_of(SYSTEM)))
    spent = "sum(CASE WHEN isSchedIn THEN -start ELSE start END)"
    expected = ask(SYSTEM, f"SELECT globalTid & 0xffffff, {spent} FROM SCHED_EVENTS GROUP BY 1")
    assert dict(found.select("thread", "on_cpu_ns").rows()) == dict(expected)
    sampled = ask(SYSTEM, "SELECT globalTid & 0xffffff, count(*) FROM COMPOSITE_EVENTS GROUP BY 1")
    assert {thread: n for thread, n in found.select("thread", "samples").rows() if n} == dict(sampled)
    window = trace_of(SYSTEM).info.window
    assert window is not None
    first = found.row(0, named=True)
    assert (first["thread"], first["name"], first["program"], first["turns"]) == (518, "t", "t", 1)
    assert first["samples_percent"] == pytest.approx(100 * 353 / 395)
    assert 70 < first["percent"] < 100


@pytest.mark.skipif(not hasattr(sqlite3.Connection, "deserialize"), reason="Python before 3.11 opens no bytes")
def test_the_functions_that_were_sampled() -> None:
    found = cpu_functions(select(trace_of(SYSTEM)))
    first = found.row(0, named=True)
    assert (first["function"], first["thread"], first["samples"], first["total_samples"]) == (
        "decode_image(int)", 518, 353, 353,
    )  # fmt: skip
    assert found["samples"].sum() == 395
    # a library without names is one function: a stack that passes through it twice counts once
    nameless = dict(
        ask(
            SYSTEM,
            "SELECT m.value, count(DISTINCT c.id) FROM SAMPLING_CALLCHAINS c JOIN StringIds m ON m.id = c.module "
            "JOIN COMPOSITE_EVENTS e ON e.id = c.id WHERE unresolved AND e.globalTid & 0xffffff = 494 GROUP BY 1",
        )
    )
    ours = dict(found.filter(thread=494).select("function", "total_samples").rows())
    for path, count in nameless.items():
        if not path.startswith("["):
            assert ours[f"[{path.rsplit('/', 1)[-1]}]"] == count, path


def test_a_thread_that_never_left_its_cpu_had_it_all_the_time(tmp_path: Path) -> None:
    file = NsysFile()
    file.call("cudaFree", 0, 1000)
    loader = global_tid(PID, 7)
    for start, on, thread in ((400, 0, loader), (700, 1, loader), (100, 1, global_pid(PID) | PID)):
        file.row("SCHED_EVENTS", start=start, cpu=1, isSchedIn=on, globalTid=thread)
    trace = made(file, tmp_path)
    rows = threads(select(trace)).select("thread", "on_cpu_ns", "turns", "percent", "samples").rows()
    assert rows == [(PID, 900, 1, 90.0, None), (7, 700, 2, 70.0, None)]
    part = threads(select(trace, Scope(window=(300, 800))))
    assert part.select("thread", "on_cpu_ns").rows() == [(PID, 500), (7, 200)]


@pytest.mark.skipif(not hasattr(sqlite3.Connection, "deserialize"), reason="Python before 3.11 opens no bytes")
def test_calls_of_the_system_have_a_reason_and_a_caller() -> None:
    found = os_calls(select(trace_of(SYSTEM)))
    expected = ask(
        SYSTEM,
        "SELECT s.value, o.globalTid & 0xffffff, count(*), sum(end - start), max(end - start) FROM OSRT_API o "
        "JOIN StringIds s ON s.id = o.nameId WHERE eventClass <> 31 GROUP BY 1, 2",
    )
    assert sorted(found.select("name", "thread", "calls", "total_ns", "max_ns").rows()) == sorted(expected)
    waits = found.filter(name="pthread_cond_wait").row(0, named=True)
    assert (waits["reason"], waits["caller"], waits["calls"]) == ("waits for a condition", "main", 9)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("pthread_mutex_lock", "waits for a lock"), ("sem_timedwait", "waits for a semaphore"),
        ("__poll", "waits for input"), ("epoll_wait", "waits for input"), ("usleep", "sleeps"),
        ("ioctl", "calls a driver"), ("mmap64", "maps memory"), ("fopen64", "reads or writes"),
        ("pwrite64", "reads or writes"), ("pthread_barrier_wait", "waits for a thread"),
        ("waitpid", "waits for a process"), ("pthread_mutex_unlock", "wakes others"), ("dlopen", "other"),
    ],
)  # fmt: skip
def test_the_reason_of_a_call(name: str, reason: str) -> None:
    assert reason_of(name) == reason


def test_the_mean_of_a_kernel_is_over_the_samples_in_which_it_ran() -> None:
    # 10 % until 100, 80 % until 200, 0 % until 300
    one = Sampled(0, "SMs Active", "%", np.array([0, 100, 200, 300]), np.array([50.0, 10.0, 80.0, 0.0]))
    starts, ends = np.array([50, 150, 290, 500]), np.array([150, 200, 310, 600])
    means = one.means(starts, ends, np.array([0, 0, 1, 2]), 3)
    # 50 of the first, 100 of the second sample; what follows the last sample is not known
    assert means.tolist()[:2] == pytest.approx([(50 * 10 + 100 * 80) / 150, 0.0])
    assert np.isnan(means[2])


@pytest.mark.skipif(not hasattr(sqlite3.Connection, "deserialize"), reason="Python before 3.11 opens no bytes")
def test_the_gpus_metrics_of_all_the_time_and_of_each_kernel() -> None:
    found = gpu_samples(select(trace_of(GPU)))
    whole, gemm, transpose = found.sort("kernel", nulls_last=False).rows(named=True)
    names = dict(ask(GPU, "SELECT metricId, metricName FROM TARGET_INFO_GPU_METRICS"))
    trace = trace_of(GPU)
    end = max(sum(trace.info.window or (0, 0)), *(trace.host["start"] + trace.host["duration"]).to_list())
    means = {
        names[metric]: mean
        for metric, mean in ask(
            GPU,
            "SELECT metricId, avg(value) FROM GPU_METRICS WHERE timestamp > (SELECT min(timestamp) FROM GPU_METRICS) "
            f"AND timestamp <= {end} GROUP BY 1",
        )
    }
    assert (whole["total_ns"],) == ask(GPU, f"SELECT {end} - min(timestamp) FROM GPU_METRICS")[0]
    assert whole["sm_active_percent"] == pytest.approx(means["SMs Active [Throughput %]"], rel=0.005)
    assert whole["clock_mhz"] == pytest.approx(means["GPC Clock Frequency [MHz]"] / 1e6, rel=1e-3)
    assert gemm["kernel"] == "gemm(float *, const float *)"
    assert gemm["sm_active_percent"] > 80 > 70 > whole["sm_active_percent"]
    assert gemm["dram_read_percent"] < 1
    # a launch of transpose takes a sixth of a sample: what is in it is gemm's
    assert transpose["samples"] < transpose["calls"]
    assert transpose["sm_active_percent"] is None
    (curve,) = [entry["curve"] for entry in whole["metrics"] if entry["metric"] == "SMs Active"]
    assert len(curve) == 120
    assert np.mean(curve) == pytest.approx(whole["sm_active_percent"], rel=1e-3)
    assert max(curve) > 90
    assert gemm["metrics"][0]["curve"] == []
    run = report(Run(trace.source.path, (trace,)), sections=["gpu_samples"])
    assert "SMs Active over the sampled time" in text(run_parts(run, Layout()), Layout())
    assert {entry["metric"] for entry in whole["metrics"]} == {re.sub(r" \[.*", "", name) for name in names.values()}


def test_migrations_by_cause_and_faults_by_access(tmp_path: Path) -> None:
    file = NsysFile()
    file.kernel("k", 0, 1000)
    for start, cause in ((10, 2), (20, 2), (40, 4)):
        file.memcpy(start, start + 5, kind=11 if cause == 2 else 12, bytes=4096, migrationCause=cause)
    file.memcpy(60, 70, kind=1)
    for faults, access in ((3, 1), (4, 1), (5, 2)):
        file.row("CUDA_UM_GPU_PAGE_FAULT_EVENTS", start=5, end=9, globalPid=global_pid(PID), deviceId=0, address=1,
                 numberOfPageFaults=faults, faultAccessType=access)  # fmt: skip
    touch, program = file.string("touch(float*)"), file.string("/home/me/app")
    for _ in range(2):
        file.row("CUDA_UM_CPU_PAGE_FAULT_EVENTS", start=7, globalPid=global_pid(PID), address=1, CpuInstruction=touch,
                 module=program)  # fmt: skip
    columns = ("what", "how", "cause", "count", "faults", "bytes", "total_ns")
    assert unified_memory(select(made(file, tmp_path))).select(columns).rows() == [
        ("migration", "host to device", "page fault", 2, None, 8192, 10),
        ("migration", "device to host", "eviction", 1, None, 4096, 5),
        ("GPU faults", "read", None, 2, 7, None, 8),
        ("GPU faults", "write", None, 1, 5, None, 4),
        ("CPU faults", "touch(float*)", None, 2, 2, None, None),
    ]


def test_a_report_reads_the_file_again_only_if_asked() -> None:
    trace = trace_of(SYSTEM)
    run = Run(trace.source.path, (trace,))
    by_default = report(run, sections_of=lambda run, _: [("launches",) for _ in run.traces])
    assert not set(ON_REQUEST) & set(by_default["run"]["traces"][0])
    said = text(run_parts(report(run, sections=ON_REQUEST), Layout()), Layout())
    assert "decode_image(int)" in said
    assert "waits for a condition" in said
    assert "No samples of the GPU: record with nsys profile --gpu-metrics-devices=all." in " ".join(said.split())
    assert max(map(len, body(said).splitlines())) <= 80
    exported = replace(trace, source=replace(trace.source, path=trace.source.path.with_name("a.nsys-rep")))
    said = text(run_parts(report(Run(exported.source.path, (exported,)), sections=["threads"]), Layout()), Layout())
    assert "nsys export --type=sqlite FILE" in " ".join(said.split())
    assert system_pages(trace) == ("threads", "CPU samples", "OS calls")
    assert system_pages(trace_of(GPU)) == ("GPU metrics",)


def test_a_file_that_is_gone_leaves_the_sections_empty(tmp_path: Path) -> None:
    file = NsysFile()
    file.call("cudaFree", 0, 1000)
    file.row("SCHED_EVENTS", start=1, cpu=1, isSchedIn=1, globalTid=global_pid(PID))
    trace = made(file, tmp_path)
    assert threads(select(trace)).height == 1
    trace.source.path.unlink()
    for table in (threads, cpu_functions, os_calls, gpu_samples, unified_memory):
        assert isinstance(found := table(select(trace)), pl.DataFrame)
        assert not found.height
