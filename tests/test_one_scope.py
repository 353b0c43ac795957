"""Every table counts the same GPU work: kernels, copies and fills add up to what any other table adds up to."""

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from as_json import trace_report
from made_frames import made_trace
from sample_runs import DATA, OUTSIDE, SAMPLES

from tracetui.analysis.attribution.operator_tree import device_work
from tracetui.analysis.kernels import GROUPINGS, kernel_groups, kernels
from tracetui.analysis.memops import memops
from tracetui.analysis.modules import modules
from tracetui.analysis.operators import operator_groups, operators
from tracetui.analysis.overview import overview
from tracetui.analysis.ranges import range_tree, ranges
from tracetui.analysis.selection import Scope, Selection, in_steps, select
from tracetui.parsers import Trace, TraceError, open_path
from tracetui.parsers.iterations import as_recorded

SUFFIXES = (".json", ".json.gz", ".sqlite", ".sqlite.gz", ".csv.gz", "ncu.csv")
NO_RECORDINGS = {"golden", "stats", "broken", "memory"}


def recordings() -> list[Path]:
    """All recordings with a time line or durations: the project's, the sample, and those beside it."""
    found = [
        path
        for root in (DATA, SAMPLES / "vim_tiny", OUTSIDE)
        for path in sorted(root.rglob("*"))
        if path.name.endswith(SUFFIXES)
        and not NO_RECORDINGS.intersection(path.parts)
        and not path.stem.startswith(("run", "truth"))
    ]
    # of a recording that stands in both places, the project's own copy; of a job's ranks the first
    return list({path.name if "ranks4" not in path.parts else path.parent: path for path in reversed(found)}.values())[
        ::-1
    ]


def traces(path: Path) -> tuple[Trace, ...]:
    try:
        return open_path(path).traces
    except TraceError:
        pytest.skip("no trace")


def total(values: pl.Series) -> int:
    return int(values.sum() or 0)


def of_modules(sel: Selection) -> int | None:
    frame = modules(sel)
    if not frame.height:
        return None
    # the backward pass of a module holds that of the modules inside it
    return total(frame["device_self_ns"]) + total(frame.filter(pl.col("depth") == 0)["backward_device_ns"])


def sums(sel: Selection, of_kernels: int) -> dict[str, int]:
    """What each table that splits the GPU's time adds up to; a table without rows has nothing to split it by."""
    tables = {"ranges": ranges(sel), "range tree": range_tree(sel)}
    found: dict[str, int | None] = {
        "kernels, copies and fills": of_kernels + total(memops(sel)["total_ns"]),
        "operators": total(operators(sel)["device_self_ns"]),
        "operators by shape": total(operators(sel, by_shape=True)["device_self_ns"]),
        "operators by module": total(operator_groups(sel, "module")["device_self_ns"]),
        "modules": of_modules(sel),
        **{name: total(frame["device_self_ns"]) if frame.height else None for name, frame in tables.items()},
    }
    return {name: ns for name, ns in found.items() if ns is not None}


@pytest.mark.parametrize(
    ("path", "number"),
    [
        pytest.param(path, at // 2, id="/".join(path.parts[-2:]))
        for at, path in enumerate(recordings())
        if at % 2 or "TRACETUI_ALL_PAIRS" in os.environ
    ],
)
def test_all_tables_count_the_same_work(path: Path, number: int) -> None:
    """In the whole recording, and in a part of it, which is another one in every third."""
    for trace in traces(path):
        if not trace.has_timeline:
            continue
        every = select(trace)
        bare = select(as_recorded(trace, keep_own=False))
        parts = [bare]
        if trace.steps.height:
            parts.append(in_steps(every))
        if trace.steps.height > 1:
            last = int(trace.steps["index"][-1])
            parts.append(select(trace, Scope(steps=(last, last))))
        if "TRACETUI_ALL_PAIRS" not in os.environ:
            parts = [parts[number % len(parts)]]
        for sel in (every, *parts):
            work = total(device_work(sel)["duration"])
            of_kernels = total(kernels(sel)["total_ns"])
            found = sums(sel, of_kernels)
            assert found == dict.fromkeys(found, work), sel.describe()
            for by in GROUPINGS if sel is every else ():
                assert total(kernel_groups(sel, by)["total_ns"]) == of_kernels, by
        assert total(device_work(every)["duration"]) == total(device_work(bare)["duration"])


@pytest.mark.parametrize(
    ("name", "steps", "outside"),
    [("gpt_small_ctx256.trace.json.gz", "0-1", " and outside"), ("nsys/gpt_small_ctx256.sqlite.gz", "0-2", "")],
)
def test_sections_of_a_report_have_one_base(name: str, steps: str, outside: str) -> None:
    """Work that no step launched is in all of them or in none, and the heading says which."""
    (trace,) = traces(DATA / name)
    for scope, said in (
        (Scope(), f"steps {steps} of train_step{outside}"),
        (Scope(steps=(0, 0)), "step 0 of train_step"),
    ):
        found = trace_report(trace, scope, ("kernels", "memops", "operators", "ranges"))
        assert found["totals_base"] == said
        whole = sum(row["total_us"] for row in (*found["kernels"], *found["memops"]))
        assert sum(row["device_self_us"] for row in found["ranges"]) == pytest.approx(whole)
        if found["operators"]:
            assert sum(row["device_self_us"] for row in found["operators"]) == pytest.approx(whole)
        of_steps = sum(row["in_steps_us"] for row in found["kernels"])
        of_all = sum(row["total_us"] for row in found["kernels"])
        assert (of_steps < of_all) == said.endswith(" and outside")


def two_gpus() -> Trace:
    """GPU 0 computes while GPU 1 communicates, and the other way round: neither overlaps its own communication."""
    names = ["gemm", "ncclDevKernel_AllReduce"]
    return made_trace(
        device=[
            {"kind": "kernel", "name": names[(number + gpu) % 2], "start": 100 * number, "duration": 100, "device": gpu,
             "stream": 7}
            for number in range(4)
            for gpu in range(2)
        ]
    )  # fmt: skip


def test_overlap_is_that_of_each_gpu() -> None:
    found = overview(select(two_gpus()))
    assert found.overlap_percent == 0
    assert found.per_step.select("computation_ns", "collective_ns", "overlap_ns").row(0) == (400, 400, 0)
    # both at once on one GPU, summed over the GPUs
    both = two_gpus()
    kernel = {"kind": "kernel", "name": "gemm", "start": 150, "duration": 100, "device": 1, "stream": 8}
    more = made_trace(device=[*both.device.to_dicts(), kernel])
    found = overview(select(more))
    assert found.per_step.select("computation_ns", "collective_ns", "overlap_ns").row(0) == (450, 400, 50)
    assert found.overlap_percent == pytest.approx(100 * 50 / 400)


def test_gpu_statements_are_of_the_time_that_the_gpu_worked(made: Trace) -> None:
    """Start-up and tear-down of a program without steps are no idle time of its GPU, and no launching."""
    found = overview(select(made))
    assert found.base == "first to last GPU work (no steps)"
    assert found.average_step_ns == 1000
    assert found.gpu["busy_percent"][0] == pytest.approx(90)
    assert int(found.idle.filter(pl.col("stream").is_null())["idle_ns"][0]) == 100
    assert (found.setup_ns, found.recorded_ns) == (50_000, 101_000)
    assert "(first to last GPU work, no steps)" in found.verdict.sentence


def test_host_shares_are_of_all_that_was_recorded(made: Trace) -> None:
    from tracetui.analysis.host import host_functions

    rows = {row["name"]: row for row in host_functions(select(made)).iter_rows(named=True)}
    assert rows["poll"]["percent"] == pytest.approx(100)
    assert rows["cudaLaunchKernel"]["percent"] == pytest.approx(100 * 20 / 101_000)


@pytest.fixture
def made() -> Trace:
    host = [
        {"kind": "os", "name": "poll", "start": 0, "duration": 101_000, "process": 1, "thread": 2},
        {"kind": "runtime", "name": "cudaLaunchKernel", "start": 49_900, "duration": 10, "process": 1, "thread": 3},
        {"kind": "runtime", "name": "cudaLaunchKernel", "start": 49_950, "duration": 10, "process": 1, "thread": 3},
    ]
    device = [
        {"kind": "kernel", "name": "a", "start": 50_000, "duration": 500, "device": 0, "stream": 7, "launch": 1},
        {"kind": "kernel", "name": "b", "start": 50_600, "duration": 400, "device": 0, "stream": 7, "launch": 2},
    ]
    return made_trace(host=host, device=device)


@pytest.mark.parametrize("name", ["nsys/graph_node.sqlite.gz", "nsys/graph_whole.sqlite.gz", "ops/ops.sqlite.gz"])
def test_no_thread_is_busy_for_longer_than_was_recorded(name: str) -> None:
    from tracetui.analysis.host import host_functions

    for trace in traces(DATA / name):
        bare = as_recorded(trace, keep_own=False)
        shares = host_functions(select(bare))
        threads = bare.host.select("process", "thread").unique().height
        assert float(np.nanmax(shares["percent"].to_numpy())) <= 100 * threads
        assert shares.filter(pl.col("calls") == 1)["percent"].max() <= 100  # type: ignore[operator]
