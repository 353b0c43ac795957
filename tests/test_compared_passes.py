"""What a diff is of: steps without a profiler, light recordings, or the recordings as they are; and that it says so."""

import json
import statistics
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from as_json import as_diff, diff_report
from by_schema import wrong
from laid_out import diff_parts
from reported import opened
from sample_runs import DATA
from test_light_times import beside, in_file

from tracetui.analysis.attribution.operator_tree import device_work
from tracetui.analysis.compare.compared_passes import OF_GPU, OF_NAMES, light_pair
from tracetui.analysis.compare.diff import diff, kernels_inside
from tracetui.analysis.compare.step_difference import step_difference
from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.core.facts import Facts, Pair
from tracetui.analysis.findings.engine import find
from tracetui.analysis.gpu.steps import step_slots
from tracetui.analysis.selection import Scope, in_steps, select
from tracetui.app.cli.commands.diff import judged
from tracetui.app.reports.layout import Layout
from tracetui.app.reports.text import text
from tracetui.parsers import Run, Trace

MLP = DATA / "mlp_profiled"
CLEAN = json.loads((MLP / "run.json").read_text())["measurement"]["clean_step_ns"]
SLOWER = 3


def stretched(trace: Trace, factor: int) -> Trace:
    """A recording in which everything takes so many times as long."""

    def longer(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(pl.col("start", "duration") * factor)

    return replace(trace, steps=longer(trace.steps), host=longer(trace.host), device=longer(trace.device))


def other(run: Run, *, clean: bool = True, light: bool = True) -> Run:
    """The same run again: its light recording is three times as long, its rich one is not, its clean steps double."""
    assert run.light is not None
    trace = beside(stretched(run.light, SLOWER) if light else None, run.main)
    trace = trace if light else replace(trace, light=None)
    return replace(run, traces=(replace(trace, clean_step_ns=tuple(2 * ns for ns in CLEAN) if clean else ()),))


def compared(run: Run, with_run: Run, **scope: Any) -> dict[str, Any]:
    chosen = Scope(**scope)
    found = diff_report(select(run.main, chosen), select(with_run.main, chosen), runs=(run, with_run))
    assert not wrong("diff", found)
    return found


def printed(found: dict[str, Any]) -> str:
    layout = Layout(limit=3)
    return " ".join(text(diff_parts(found, layout), layout).split())


def test_the_step_is_that_without_a_profiler_and_the_recorded_one_stands_beside_it() -> None:
    run = opened(MLP)
    found = compared(run, other(run))
    step = found["step"]
    assert (step["rests_on"], step["a_steps"], step["b_steps"]) == ("clean", len(CLEAN), len(CLEAN))
    median = statistics.median(CLEAN) / 1000
    assert step["a_median_us"] == pytest.approx(median)
    assert step["median_delta_us"] == pytest.approx(median)
    assert step["beyond_noise"]
    # both rich recordings are the same
    assert step["recorded"]["median_delta_us"] == 0
    assert step["recorded"]["a_median_us"] > 3 * median
    said = printed(found)
    assert f"{len(CLEAN)} and {len(CLEAN)} steps without a profiler" in said
    assert "As recorded the medians are" in said


def test_fail_on_judges_the_clean_steps(capsys: pytest.CaptureFixture[str]) -> None:
    run = opened(MLP)
    found = compared(run, other(run))
    assert judged(as_diff(found), (50.0,)) == 3
    assert "median clean step" in capsys.readouterr().err
    assert judged(as_diff(found), (150.0,)) == 0


def test_what_needs_no_names_of_the_program_is_of_the_light_recordings() -> None:
    run = opened(MLP)
    second = other(run)
    found = compared(run, second)
    rests = {"step": "clean", **dict.fromkeys(OF_GPU, "light"), **dict.fromkeys(OF_NAMES, "recorded")}
    assert found["rests_on"] == rests
    gpu = in_file(MLP)
    part = next(row for row in found["split"] if row["part"] == "gpu_time")
    assert (part["a_us"], part["b_us"]) == pytest.approx((gpu, SLOWER * gpu))
    assert sum(row["count_effect_us"] + row["mean_effect_us"] for row in found["waterfall"]) == pytest.approx(2 * gpu)
    assert sum(row["delta_us"] for row in found["kinds"]) == pytest.approx(2 * gpu)
    # the split adds up to the light steps
    lights = light_pair(select(run.main), select(second.main))
    assert lights is not None
    for side, sel in zip("ab", lights, strict=True):
        slots = step_slots(sel)
        mean = (slots.end - slots.start).mean() / 1000
        assert sum(row[f"{side}_us"] for row in found["split"]) == pytest.approx(mean)
    assert max(abs(row["delta_us"]) for row in found["operators"]) == 0
    said = printed(found)
    assert "Where the difference in step time comes from (light recordings)" in said
    assert "Times of the light recordings." in said
    assert found["a"]["base"] == "steps 1-3 of the rich recording"


def test_noise_of_a_kernel_is_that_between_light_steps() -> None:
    run = opened(MLP)
    a, b = select(run.main), select(other(run).main)
    found = diff(a, b)
    row = found.kernels.row(0, named=True)
    assert run.light is not None
    work = device_work(in_steps(select(run.light))).filter(pl.col("name").cast(pl.String) == row["name"])
    times = work.group_by("step").agg(pl.col("duration").sum()).sort("step")["duration"].to_numpy().astype(float)
    assert times.size == run.light.steps.height
    assert row["noise_ns"] == pytest.approx(step_difference(times, SLOWER * times).noise_ns)
    # rows inside a category add up to it, those inside an operator are as recorded
    category = found.waterfall.row(0, named=True)
    inside = kernels_inside(a, b, "categories", category["category"])
    assert inside["delta_ns"].sum() == pytest.approx(category["count_effect_ns"] + category["mean_effect_ns"])
    assert kernels_inside(a, b, "operators", found.operators["name"][0])["delta_ns"].abs().max() == 0
    assert (found.steps_of("kernels"), found.steps_of("operators")) == ((10, 10), (3, 3))


def test_without_clean_steps_of_both_the_light_ones_count() -> None:
    run = opened(MLP)
    step = compared(run, other(run, clean=False))["step"]
    assert (step["rests_on"], step["a_steps"]) == ("light", 10)
    assert step["b_median_us"] == pytest.approx(SLOWER * step["a_median_us"])
    assert step["recorded"]["delta_us"] == 0


def test_without_anything_else_in_both_it_is_as_recorded() -> None:
    run = opened(MLP)
    for found in (compared(run, other(run, clean=False, light=False)), compared(run, other(run), steps=(1, 3))):
        assert set(found["rests_on"].values()) == {"recorded"}
        assert (found["step"]["rests_on"], found["step"]["recorded"], found["step"]["delta_us"]) == (
            "recorded",
            None,
            0,
        )
        assert "light recordings" not in printed(found)
    # clean steps of both are enough for the step and its parts, which one light recording is not
    found = compared(run, other(run, light=False))
    assert (found["rests_on"]["step"], found["rests_on"]["split"]) == ("clean", "clean")
    for side in "ab":
        parts = sum(row[f"{side}_us"] for row in found["split"])
        assert parts == pytest.approx(found["step"][f"{side}_median_us"])
        assert sum(row[f"{side}_us"] for row in found["waiting"]) == pytest.approx(
            next(row[f"{side}_us"] for row in found["split"] if row["part"] == "host_wait")
        )


def test_the_cause_of_a_difference_is_that_of_the_steps_it_names() -> None:
    run = opened(MLP)
    pair = Pair(Facts(run), Facts(other(run)))
    (found,) = find(pair, rules={"D12": all_rules()["D12"]}).found
    assert found.title.startswith("The light step is ")
    assert found.impact_ns == pytest.approx(pair.diff.split["delta_ns"].sum())
    assert pair.diff.split["delta_ns"].sum() == pytest.approx(pair.diff.gpu_step.delta_ns)
