"""One step: a report's shares are of one step, its parts add up to it, and no other step's time stands beside it."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from as_json import as_structs, report
from sample_runs import OUTSIDE, SAMPLES, SWEEP, recorded

from tracetui.analysis.base import intervals
from tracetui.analysis.base.number_format import format_us
from tracetui.analysis.dependencies.costs import step_edges, that_count
from tracetui.analysis.dependencies.model import UNEXPLAINED, Model, model
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.gpu.activities import activities
from tracetui.analysis.matching.clean_step import page_step, replayed_trace
from tracetui.analysis.overview import host_ranges, overview
from tracetui.analysis.ranks.files import reading
from tracetui.analysis.report.sections import Sections
from tracetui.analysis.schemas.outputs import json_schema
from tracetui.analysis.selection import Scope, Selection, select
from tracetui.app.reports.content.run import run_parts
from tracetui.app.reports.layout import Layout
from tracetui.app.reports.text import text
from tracetui.parsers import open_path

RUNS: dict[str, Path] = {
    **{name: SAMPLES / name for name in ("vim_tiny", "vim_tiny_fp16")},
    "topk_deit_sweep": SWEEP / "batch=16,keep=0.1" / "repeat-1",
    **{
        name: recorded(name)
        for name in (
            "limits/copy_pageable",
            "limits/gpt_graphs",
            "mlp_profiled",
            "two_passes",
            "gpt_clean",
            "gpt_train",
            "causes/batches",
            "causes/jetscore",
            "causes/seqrec",
        )
    },
    **{f"planted/{path.parent.name}": path.parent for path in sorted((OUTSIDE / "planted").glob("*/run.json"))[::6]},
    **{f"ranks4/{path.name}": path for path in (OUTSIDE / "ranks4").glob("ddp_host")},
}
REPLAYED = [name for name in RUNS if not name.startswith(("ranks4", "causes/batches"))]
"""Those of one rank that have GPU work."""
GPU = ("kernel", "communication", "memcpy", "memset")
KINDS = {"clean": "without the profiler", "light": "in the light recording", "recorded": "as recorded"}


@cache  # a test's runs have the scope of the module, so that one process is asked for the same report
def reported(name: str) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        if name.startswith("ranks4"):  # read here, where processes would take longer to start
            patch.setattr(reading, "SMALL_BYTES", 1 << 40)
        return report(open_path(RUNS[name]), Scope())


def traces(name: str) -> list[dict[str, Any]]:
    return [trace for trace in reported(name)["run"]["traces"] if trace.get("overview")]


@pytest.mark.parametrize("name", RUNS, scope="module")
def test_parts_add_up_and_none_exceeds_the_whole(name: str) -> None:
    assert traces(name)
    for trace in traces(name):
        step = trace["overview"]["step"]
        costs = [cost for cost in step["categories"].values() if cost["us"] is not None]
        assert sum(cost["us"] for cost in costs) == pytest.approx(step["us"])
        assert sum(cost["percent"] for cost in costs) == pytest.approx(100)
        assert all(0 <= cost["us"] <= step["us"] for cost in costs)
        assert all(cost["percent"] == pytest.approx(100 * cost["us"] / step["us"]) for cost in costs)
        busy = sum(step["categories"][name]["percent"] for name in GPU)
        assert step["gpu_busy_percent"] == pytest.approx(busy)
        for row in step["gpu"]:
            shares = [value for key, value in row.items() if key.endswith("_percent") and value is not None]
            assert all(-1e-6 <= share <= 100 + 1e-6 for share in shares), row
            assert (row["utilization_percent"] or 0) <= row["busy_percent"] + 1e-6 <= 100 + 2e-6
            assert row["busy_percent"] <= busy + 1e-6
        if len(step["gpu"]) == 1:
            assert step["gpu"][0]["busy_percent"] == pytest.approx(busy, abs=1e-6)
            idle = step["us"] * (1 - busy / 100)
            assert (step["idle"]["idle_us"] or 0) == pytest.approx(idle, abs=0.01)
        causes = [step["idle"][key] for key in ("host_wait_percent", "kernel_wait_percent", "other_percent")]
        assert causes == [None] * 3 or sum(causes) == pytest.approx(100)
        path = trace["critical_path"]
        if path is not None:
            assert sum(row["percent"] for row in path["resources"]) == pytest.approx(100)


@pytest.mark.parametrize("name", RUNS, scope="module")
def test_the_step_is_the_headline_s_and_the_base_of_gains(name: str) -> None:
    for trace in traces(name):
        step, told = trace["overview"]["step"], trace["overview"]["waits_for"]
        clean = told["clean_us"] is not None
        assert (step["of"] == "clean") == clean == (step["recording_us"] is None)
        assert step["by_replay"] == (clean and bool(step["gpu"]))
        assert step["us"] == (told["clean_us"] if clean else told["recorded_us"])
        assert trace["critical_path"] is None or (trace["critical_path"]["of"] == "clean") == clean
        assert not clean or format_us(step["us"]) in told["sentence"]
        for finding in trace["findings"]:
            if finding["impact_of"] == "step":  # what rare steps take is a part of the mean step
                assert (finding["impact_us"] or 0) <= step["us"] * (1 + 1e-9), finding["id"]
            assert (finding["ceiling_percent"] or 0) <= 100 + 1e-9, finding["id"]


_STEP = re.compile(r"^(The step|Critical path|Average|Waits|As recorded|[!~i] V[78] )", re.MULTILINE)


@pytest.mark.parametrize("name", RUNS, scope="module")
def test_no_step_time_is_printed_but_the_page_s_and_the_recorded_one(name: str) -> None:
    """Neither the light recording's mean or median, nor that of the critical path, stands on a page of clean steps."""
    found = reported(name)
    layout = Layout(limit=5)
    printed = text(run_parts(as_structs(found), layout), layout)
    for trace in traces(name):
        page, path = trace["overview"], trace["critical_path"]
        shown = f"{format_us(page['step']['us'])} {KINDS[page['step']['of']]}"
        if len(traces(name)) == 1:
            assert shown in printed
        recording = page["as_recorded"] or page
        allowed = {format_us(page["step"]["us"]), format_us(recording["average_step_us"])}
        others = [page["average_step_us"], page["waits_for"]["recorded_us"], path and path["step_us"]]
        lines = [line for line in printed.splitlines() if _STEP.match(line)]
        assert lines
        for other in {format_us(us) for us in others if us is not None} - allowed:
            assert not [line for line in lines if other in line], other
        assert page["step"]["of"] != "clean" or page["as_recorded"] is None or "Steps of the light" not in printed


def _plain_parts(sel: Selection, found: Model) -> list[dict[str, int]]:
    """The parts of each recorded step between the ends of its and the last one's GPU work, ns by ns of their edges."""
    ranges, work = host_ranges(sel.trace), activities(sel)
    for category, rows in zip(GPU, (work.compute, work.communication, work.memcpy, work.memset), strict=True):
        ranges[category] = intervals.union(work.start[rows], work.end[rows])
    edges = step_edges(found.graph, found.graph.work.start, found.graph.work.end)
    parts, claimed = [dict[str, int]() for _ in edges[1:]], intervals.empty()
    for category in (*GPU, "runtime", "dataloader", "cpu_exec"):
        own = intervals.subtract(ranges[category], claimed)
        claimed = intervals.union(*(np.concatenate(pair) for pair in zip(claimed, own, strict=True)))
        for part, ns in zip(parts, intervals.covered(own, edges[:-1], edges[1:]), strict=True):
            part[category] = int(ns)
    return parts


@pytest.mark.parametrize("name", REPLAYED)
def test_a_replay_at_recorded_costs_has_the_recorded_parts(name: str) -> None:
    """The form that the clean step is held to: without a change of costs the replay says what the recording says."""
    sel = Facts(open_path(RUNS[name])).sel.recorded
    found = model(sel)
    assert found is not None
    steps = overview(select(replayed_trace(found))).per_step
    typical = steps.filter(pl.Series(that_count(found.graph, steps.height)))
    assert typical["duration_ns"].to_list() == found.ends[0].step_ns.tolist()
    if found.unexplained:
        return
    for part, step in zip(_plain_parts(sel, found), steps.iter_rows(named=True), strict=True):
        for category, ns in part.items():
            assert step[f"{category}_ns"] == pytest.approx(ns, abs=2 * UNEXPLAINED * step["duration_ns"]), category


@pytest.mark.parametrize("name", REPLAYED)
def test_the_replayed_steps_are_the_model_s(name: str) -> None:
    facts = Facts(open_path(RUNS[name]))
    found = facts.model
    if found is None or found.clean_ns is None:
        assert facts.page_step.of != "clean"
        return
    made = replayed_trace(found)
    steps = overview(select(made)).per_step
    if found.graph.typical is not None:
        steps = steps.filter(pl.Series(found.graph.typical[-steps.height :]))
    assert steps["duration_ns"].to_list() == found.ends[0].step_ns.tolist()
    assert made.device.height == found.graph.work.row.size
    assert made.device["duration"].sum() == int((found.times().work_end - found.times().work_start).sum())
    shares = steps.select(pl.col(f"{name}_ns") / pl.col("duration_ns") for name in facts.page_step.average["category"])
    means = [100 * float(np.mean(column.to_numpy())) for column in shares]
    for (_, _, percent), mean in zip(facts.page_step.average.iter_rows(), means, strict=True):
        assert percent is None or percent == pytest.approx(mean, abs=1e-6)


@pytest.mark.parametrize("name", ["vim_tiny", "mlp_profiled"])
def test_a_part_of_the_run_is_as_recorded(name: str) -> None:
    run = open_path(RUNS[name])
    index = run.main.steps["index"].to_list()
    facts = Facts(run, scope=Scope(steps=(index[1], index[1])))
    step = facts.page_step
    assert (step.of, step.by_replay) == ("recorded", False)
    assert facts.model is not None
    assert facts.model.clean_ns is None
    assert step.ns == facts.model.recorded_ns
    assert (facts.verdict.clean_ns, facts.verdict.recorded_ns) == (None, step.ns)
    assert Sections(facts.sel, run=run).overview()[0].step.of == "recorded"
    assert page_step(facts.run_overview) is step


def _objects(schema: Any) -> Iterator[dict[str, Any]]:
    for value in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _objects(value)
    if isinstance(schema, dict) and isinstance(schema.get("properties"), dict):
        yield schema["properties"]


def test_each_share_names_its_base() -> None:
    (step,) = [one for one in _objects(json_schema("report")) if "gpu_busy_percent" in one]
    shares = [key for key in step if key.endswith("_percent")]
    assert all("% of the " in step[key]["description"] for key in shares)
    assert "% of the idle time" in step["idle"]["description"]
    assert "shares are of the step" in step["categories"]["description"]
    for document in ("report", "diff", "ranks"):
        for properties in _objects(json_schema(document)):
            for key in (key for key in properties if key.endswith("percent")):
                said = f" {properties[key].get('description', '')}"
                assert re.search(r" (of|than|over) |'s ", said), (document, key, said)


_STEP_TIME = re.compile(r"(^|(?<!per)_)step_us$|^(clean|recorded)_us$")
_STEP_IN_WORDS = re.compile(r"^(without the profiler|(\w+ )?step(,? as recorded| without the profiler|$))")
_NO_PART = {"replay_off_percent", "attained_percent", "memory_roof_percent", "compute_roof_percent"}
"""A replay may be longer than the step, and a kernel whose data is in a cache above the memory's roof."""
_NOT_OF_STEPS = {
    ("overview", "recorded_us"),
    *((f"host_{of}", "step_us") for of in ("lines", "stacks", "lines_sampled")),
}
"""The length of the recording, what a line or call takes of a step, and the steps that were sampled, which say so."""


def _numbers(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any], float]]:
    """Each number of a report: its keys from the outside, what it is beside, and itself."""
    if isinstance(value, list):
        for one in value:
            yield from _numbers(one, path)
    elif isinstance(value, dict):
        for key, one in value.items():
            if isinstance(one, (dict, list)):
                yield from _numbers(one, (*path, key))
            elif isinstance(one, (int, float)) and not isinstance(one, bool):
                yield (*path, key), value, one


def _known_steps(trace: dict[str, Any]) -> list[float]:
    """The page's step, those of its kinds, and what is labelled as recorded."""
    page = trace["overview"]
    recording = page["as_recorded"] or page
    known = [
        page["step"]["us"],
        page["average_step_us"],
        recording["average_step_us"],
        page["waits_for"]["recorded_us"],
    ]
    kinds = page["kinds"]
    known += [kind[key] for kind in kinds for key in ("mean_us", "median_us")]
    if kinds:  # what rare steps take is of the mean of all
        known.append(sum(kind["mean_us"] * kind["steps"] for kind in kinds) / sum(kind["steps"] for kind in kinds))
    each = [step["us"] for step in page.get("per_step") or ()]
    return [us for us in (*known, *each) if us is not None]


@pytest.mark.parametrize("name", RUNS, scope="module")
def test_the_whole_report_has_one_step(name: str) -> None:
    """Every share of every section is a part of its whole, and every step time is one that the page names."""
    found = reported(name)
    job = found["run"].get("job") or {}
    for trace in found["run"]["traces"]:
        if not trace.get("overview"):
            continue
        for path, _, number in _numbers(trace):
            if path[-1].endswith("percent") and path[-1] not in _NO_PART and "kinds" not in path:
                assert -1e-6 <= number <= 100 + 1e-6, (path, number)
        known = _known_steps(trace)
        if trace["critical_path"] and trace["critical_path"]["of"] == "recorded":
            known.append(trace["critical_path"]["step_us"])
        told = [us for us in (job.get("step_us"), job.get("clean_step_us")) if us is not None]
        times = [
            (path, number)
            for path, _, number in _numbers(trace)
            if _STEP_TIME.search(path[-1]) and path[0] != "source" and path not in _NOT_OF_STEPS
        ]
        assert times
        for path, number in times:
            assert any(number == pytest.approx(us, rel=1e-6) for us in known), (path, number, known)
        for row in trace["findings"]:
            for item in row["evidence"]:
                if item["unit"] == "ns" and _STEP_IN_WORDS.search(item["label"]):
                    us = item["value"] / 1000
                    assert any(us == pytest.approx(one, rel=1e-6) for one in (*known, *told)), (row["id"], item)
            gain, share = row["impact_us"], row["ceiling_percent"]
            if gain and share and share < 100 and row["impact_of"] == "step":  # one base for all gains
                assert 100 * gain / share == pytest.approx(trace["overview"]["step"]["us"], rel=1e-3), row["id"]
            assert (row["impact_least_us"] or 0) <= (gain or 0) + 1e-6, row["id"]
