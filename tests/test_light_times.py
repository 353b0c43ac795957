"""The times of tables are those of a run's light recording, and each table says on which recording it rests."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from as_json import report, trace_report
from by_schema import wrong
from laid_out import run_parts
from made_run import finding, silent
from reported import opened, reported
from sample_runs import DATA
from test_light_recordings import recording
from test_one_scope import sums, total

from tracetui.analysis.attribution.operator_tree import device_work
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.engine import findings_of
from tracetui.analysis.kernels import GROUPINGS, kernel_groups, kernels
from tracetui.analysis.matching.light_overview import run_overview
from tracetui.analysis.matching.light_times import light_selection, light_times, with_light_times
from tracetui.analysis.selection import Scope, Selection, in_steps, select
from tracetui.app.reports.layout import Layout
from tracetui.app.reports.text import text
from tracetui.app.session.session import Session
from tracetui.parsers import Run, Trace

MLP, GRAPHS = DATA / "mlp_profiled", DATA / "two_passes"
"""Ten light steps and three rich ones of a small network; twelve and four of a program that replays CUDA graphs."""
WORK = ("kernel", "gpu_memcpy", "gpu_memset")


def beside(light: Trace | None, rich: Trace) -> Trace:
    """The rich recording of a run with this light one."""
    return replace(rich, light=lambda: light)


def carried(light: Trace, rich: Trace) -> list[int]:
    """The durations of the rich recording's work in tables."""
    return with_light_times(select(beside(light, rich))).timed["duration"].to_list()


def lasting(trace: Trace, *durations: int) -> Trace:
    return replace(trace, device=trace.device.with_columns(duration=pl.Series(durations)))


def in_file(path: Path) -> float:
    """GPU time per step of a light recording in µs, read from its JSON: work whose call began between the marks."""
    with gzip.open(path / "light.pt.trace.json.gz") as file:
        found = json.load(file)
    marks = [(mark - found["baseTimeNanoseconds"]) / 1000 for mark in found["tracetui"]["marks"]]
    events = [event for event in found["traceEvents"] if event.get("ph") == "X"]
    calls = {
        event["args"]["correlation"]: event["ts"]
        for event in events
        if event["cat"] in ("cuda_runtime", "cuda_driver") and "correlation" in event["args"]
    }
    spent = sum(
        event["dur"]
        for event in events
        if event["cat"] in WORK and marks[0] <= calls[event["args"]["correlation"]] < marks[-1]
    )
    return float(spent) / (len(marks) - 1)


@pytest.mark.parametrize("path", [MLP, GRAPHS])
def test_kernels_copies_and_fills_take_what_the_light_file_says(path: Path) -> None:
    run = opened(path)
    bare = replace(run, traces=(replace(run.main, light=None),))
    scope = Scope(steps=(int(run.main.steps["index"][0]), int(run.main.steps["index"][-1])))
    light, rich = (report(one, scope, ["kernels", "memops"])["run"]["traces"][0] for one in (run, bare))
    ours, recorded = (
        sum(row["total_us"] for row in (*trace["kernels"], *trace["memops"])) / run.main.steps.height
        for trace in (light, rich)
    )
    # each launch's mean is rounded to whole ns
    rounded = 0.0005 * sum(row["calls"] for row in (*light["kernels"], *light["memops"])) / run.main.steps.height
    assert ours == pytest.approx(in_file(path), abs=rounded)
    assert recorded != pytest.approx(in_file(path), rel=1e-4)


@pytest.mark.parametrize("path", [MLP, GRAPHS])
def test_all_tables_count_the_same_work_with_light_times(path: Path) -> None:
    every = with_light_times(select(opened(path).main))
    last = int(every.steps["index"][-1])
    for sel in (every, in_steps(every), with_light_times(select(every.trace, Scope(steps=(last, last))))):
        assert sel.work_times is not None
        work = total(device_work(sel)["duration"])
        assert work != total(device_work(sel.recorded)["duration"])
        found = sums(sel, total(kernels(sel)["total_ns"]))
        assert found == dict.fromkeys(found, work)
        for by in GROUPINGS:
            assert total(kernel_groups(sel, by)["total_ns"]) == total(kernels(sel)["total_ns"]), by


@pytest.mark.parametrize("path", [MLP, GRAPHS])
def test_the_report_says_what_rests_on_which_recording(path: Path) -> None:
    assert not wrong("report", reported(path))
    (found,) = reported(path)["run"]["traces"]
    light = opened(path).light
    assert light is not None
    assert found["light"]["used"]
    assert found["light"]["matched"] == found["light"]["launches"] > 0
    assert found["light"]["matched_percent"] == 100
    said = found["rests_on"]
    assert {said[name] for name in ("overview", "launches", "kernels", "memops", "roofline")} == {"light"}
    assert {said[name] for name in ("operators", "modules", "ranges", "findings")} == {"both"}
    assert {said[name] for name in ("host_functions", "api", "critical_path")} == {"rich"}
    assert f"GPU: mean of {light.steps.height} light steps, host as recorded" in found["totals_base"]
    lines = printed(opened(path))
    host_counts = found["overview"]["waits_for"]["what"] != "gpu"  # the host's functions are left out otherwise
    assert host_counts == (path == MLP)
    for heading, words in (
        ("Kernels (", "light recording"),
        ("Modules (", "GPU light, host as recorded"),
        *([("Host functions (", "as recorded")] if host_counts else []),
        ("CUDA API calls (", "as recorded"),
        (
            "The step: ",
            "without the profiler" if found["overview"]["step"]["of"] == "clean" else "in the light recording",
        ),
    ):
        line = next(line for line in lines if line.startswith(heading))
        assert words in line
    assert any("launches found" in line for line in lines)


def printed(run: Run, **scope: Any) -> list[str]:
    layout = Layout(limit=5)
    return text(run_parts(report(run, Scope(**scope)), layout), layout).splitlines()


def test_the_overview_is_that_of_the_light_recording() -> None:
    run = opened(MLP)
    assert run.light is not None
    found, light = run_overview(with_light_times(select(run.main))), in_steps(select(run.light))
    assert found.steps == light.steps.height == 10
    assert found.base == "steps 1-10 of the light recording"
    assert found.as_recorded is not None
    assert found.average_step_ns < found.as_recorded.average_step_ns / 2
    unknown = found.average.filter(pl.col("ns").is_null())["category"].to_list()
    assert unknown == ["dataloader", "cpu_exec"]
    # what is not known is part of the rest, so the categories still add up
    assert found.average["ns"].sum() == pytest.approx(found.average_step_ns)
    some = run_overview(with_light_times(select(run.main, Scope(steps=(2, 3)))))
    assert (some.as_recorded, some.steps) == (None, 2)
    (of_some,) = report(run, Scope(steps=(2, 3)), ["overview", "kernels"])["run"]["traces"]
    assert of_some["rests_on"] == {"overview": "rich", "kernels": "light"}


def test_the_screen_shows_the_light_times() -> None:
    session = Session()
    entry = session.add((MLP,))
    entry.run = opened(MLP)
    session.take("a", entry.letter)
    sel = session.selection()
    table = session.of_counted("kernels", kernels)
    assert total(table["total_ns"]) == total(kernels(with_light_times(select(opened(MLP).main)))["total_ns"])
    assert sel.describe_totals().endswith("GPU: mean of 10 light steps, host as recorded")
    assert sel.describe_totals(calls=True).endswith(", as recorded")


def test_gains_of_gpu_work_rest_on_the_light_recording() -> None:
    """With other times in the light recording alone, the gains are other ones; its own steps are their base."""
    run = opened(GRAPHS)
    light = run.light
    assert light is not None
    work = light.device.filter(pl.col("step").is_not_null() & (pl.col("kind") == "kernel"))
    ends = work.group_by("step").agg(end=(pl.col("start") + pl.col("duration")).max()).sort("step")["end"]
    step = float(ends.diff().drop_nulls().median())  # type: ignore[arg-type]
    gains = {}
    for name, used in (("light", light), ("none", None)):
        trace = replace(run.main, light=None if used is None else lambda: light)
        facts = Facts(replace(run, traces=(trace,)))
        found = {one.id: one for one in findings_of(facts).found}["K4"]
        gains[name] = (found.impact_ns, found.ceiling_percent)
        if used is not None:
            assert facts.model is not None
            assert facts.model.sel.trace is light
            assert found.ceiling_percent == pytest.approx(100 * float(found.impact_ns or 0) / step)
    assert gains["light"] != gains["none"]


def test_a_launch_takes_its_mean_over_the_light_steps() -> None:
    light = lasting(recording(["a", "b"], ["a", "b"], ["a", "b"]), 1, 10, 2, 20, 6, 60)
    # each rich step launches the same, so each is compared with every light step
    assert carried(light, recording(["a", "b"], ["a", "b"], slow=9)) == [3, 30, 3, 30]


def test_steps_that_alternate_take_the_times_of_their_kind() -> None:
    light = lasting(recording(["a"], ["a", "b"], ["a"], ["a", "b"]), 1, 5, 50, 3, 7, 70)
    assert carried(light, recording(["a", "b"], ["a"], ["a", "b"], slow=9)) == [6, 60, 2, 6, 60]


def test_work_of_one_recording_alone_is_counted() -> None:
    light = lasting(recording(["a", "new", "b"]), 1000, 20, 980)
    rich = lasting(recording(["a", "b", "gone"], before=["a"]), 7, 900, 900, 10)
    found = light_times(beside(light, rich))
    assert found is not None
    assert (found.launches, found.matched, found.lost_ns, found.kept, found.problem) == (3, 2, 20, 1, "")
    assert found.percent == pytest.approx(99)
    assert found.kept_percent == pytest.approx(100 * 10 / 1810)
    # what no step launched and what the light recording lacks keep their times
    assert carried(light, rich) == [7, 1000, 980, 10]


def other(light: Trace) -> Trace:
    """The light recording of a program that runs other kernels."""
    name = pl.lit("other").cast(light.device.schema["name"])
    return replace(light, device=light.device.with_columns(name=name))


def test_recordings_of_other_work_are_not_mixed_and_the_report_says_so() -> None:
    run = opened(MLP)
    assert run.light is not None
    for light, problem in (
        (other(run.light), "only 0 % of the GPU time is of work that both recordings have"),
        (None, "it can't be read"),
        (replace(run.light, steps=run.light.steps.clear()), "its steps are not known"),
    ):
        rich = beside(light, run.main)
        sel = with_light_times(select(rich))
        assert sel.timed.equals(sel.device)
        assert light_selection(sel) is None
        assert run_overview(sel).as_recorded is None
        found = trace_report(rich, Scope(), ("kernels", "operators", "overview"))
        assert (found["light"]["used"], found["light"]["problem"]) == (False, problem)
        assert set(found["rests_on"].values()) == {"rich"}
        assert "light" not in found["totals_base"]
    said = " ".join(" ".join(printed(replace(run, traces=(beside(other(run.light), run.main),)))).split())
    assert "no table of kernels has its times: only 0 % of the GPU time" in said


def test_a_run_without_a_light_recording_says_nothing_of_one() -> None:
    bare = replace(opened(MLP).main, light=None)
    sel: Selection = select(bare)
    assert with_light_times(sel) is sel
    found = trace_report(bare, Scope(), ("kernels",))
    assert (found["light"], found["rests_on"]) == (None, None)


def test_the_steps_that_are_judged_are_those_of_the_averages_shown() -> None:
    """The first rich step is slow, which no average shows; that of the light recording is made so."""
    run = opened(MLP)
    assert silent("V6", Facts(run))
    rich_only = finding("V6", Facts(replace(run, traces=(replace(run.main, light=None),))))
    assert rich_only.title.startswith("The first step is a warm-up: it takes 1.58 times")
    light = run.light
    assert light is not None
    first, moved = pl.int_range(pl.len()) == 0, 9_000_000
    steps = light.steps.with_columns(
        pl.when(first).then(pl.col("start") - moved).otherwise("start").alias("start"),
        pl.when(first).then(pl.col("duration") + moved).otherwise("duration").alias("duration"),
    )
    slow = beside(replace(light, steps=steps), run.main)
    found = finding("V6", Facts(replace(run, traces=(slow,))))
    # it begins at the end of the GPU work before it; of ten steps it raises the average by less than 10 %
    assert found.title.startswith("The first light step is a warm-up: it takes 1.79 times")
    assert found.severity == "warning"
    # leaving out a step would show the rich recording's averages
    assert found.next_command == ""
    # of some steps the rich recording's averages are shown
    assert finding("V6", Facts(run, scope=Scope(steps=(1, 3)))).title == rich_only.title
