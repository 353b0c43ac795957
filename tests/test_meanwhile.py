"""What any thread launched while ranges were open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from nvtx_trace import nvtx_trace
from test_range_tree import two_steps
from tui_pilot import opened, press, screen_text

from tracetui.analysis.attribution.operator_tree import device_work
from tracetui.analysis.attribution.projection import in_ranges, launched_meanwhile
from tracetui.analysis.captures.roles import phases
from tracetui.analysis.ranges import meanwhile_kernels, meanwhile_launches, range_paths, range_tree
from tracetui.analysis.selection import Scope, select

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracetui.parsers import Trace

    Recording = Callable[[str], Trace]

NSYS_GPT = "nsys/gpt_small_ctx256.sqlite.gz"


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
