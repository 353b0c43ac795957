"""Steps that are not alike: grouped as a plain reading of the rule does, found where planted, and told on the page."""

import copy
import gzip
import json
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from as_json import report
from hypothesis import given
from hypothesis import strategies as st
from made_run import HGEMM, Made, finding, look
from sample_runs import recorded, run_of

from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.gpu.step_kinds import GAPS, HELD, SCATTER, SCATTER_VALUES, UNEVEN, StepKinds, grouped, page_kinds
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import select
from tracetui.parsers import open_path
from tracetui.parsers.iterations import as_recorded

DEIT = "chrome/deit_small_train_bf16_bs32.pt.trace.json.gz"
STOP_US = 150_000


def plain(lengths: list[float], work: list[int]) -> set[frozenset[int]]:
    """The kinds by the words of docs/metrics.md, one step and one gap after the other."""

    def cut(steps: list[int]) -> int | None:
        logs = [float(np.log(lengths[step])) for step in steps]
        gaps = [at for at in range(1, len(steps)) if logs[at] - logs[at - 1] > np.log(UNEVEN)]
        usual = [one for one in set(work) if 2 * sum(work[step] == one for step in steps) > len(steps)]
        for at in gaps if usual else ():
            sides = [{work[step] == usual[0] for step in side} for side in (steps[:at], steps[at:])]
            if sides in ([{True}, {False}], [{False}, {True}]):
                return at
        return by_lengths(logs)

    def by_lengths(logs: list[float]) -> int | None:
        gaps = [at for at in range(1, len(logs)) if logs[at] - logs[at - 1] > np.log(UNEVEN)]
        best, where = 0.0, None
        for at in gaps if len(logs) > 2 else ():
            squares = sum(float(np.var(side)) * len(side) for side in (logs[:at], logs[at:]))
            squares += SCATTER_VALUES * SCATTER**2
            width = (logs[at] - logs[at - 1]) / (squares / (len(logs) - 2 + SCATTER_VALUES)) ** 0.5
            best, where = max((best, where), (width, at), key=lambda pair: pair[0])
        if where is None or best > np.interp(len(logs), *GAPS):
            return where
        rest = by_lengths(logs[:-1])
        hides = rest is not None and logs[-1] - logs[-2] > logs[rest] - logs[rest - 1]
        return len(logs) - 1 if hides else None

    waiting, kinds = [sorted(range(len(lengths)), key=lambda step: lengths[step])], set()
    while waiting:
        steps = waiting.pop()
        at = cut(steps)
        if at is None:
            kinds.add(frozenset(steps))
        else:
            waiting += [steps[:at], steps[at:]]
    return kinds


@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 4), st.sampled_from((0.0, 0.02, 0.2)), st.booleans())
def test_kinds_are_those_of_a_plain_reading(seed: int, steps: int, kinds: int, scatter: float, tells: bool) -> None:
    random = np.random.default_rng(seed)
    kind = random.integers(0, kinds, steps)
    lengths = (1e6 * random.uniform(1, 50, kinds)[kind] * np.exp(random.normal(0, scatter, steps))).tolist()
    work = random.permutation(kinds)[kind].tolist() if tells else []
    groups = grouped(lengths, work)
    assert {frozenset(group.tolist()) for group in groups} == plain(lengths, work or [0] * steps)
    assert sorted(place for group in groups for place in group.tolist()) == list(range(steps))
    assert len(groups[0]) == max(map(len, groups))


@given(st.integers(0, 2**32), st.integers(5, 60), st.integers(1, 4), st.floats(2, 300))
def test_planted_rare_steps_are_found(seed: int, usual: int, rare: int, ratio: float) -> None:
    random = np.random.default_rng(seed)
    rare = min(rare, usual - 1)
    is_rare = random.permutation(np.arange(usual + rare) < rare)
    scattered = random.uniform(0.96, 1.04, usual + rare)
    groups = grouped(np.where(is_rare, ratio, 1.0) * scattered * 1e6)
    assert [group.tolist() for group in groups] == [np.flatnonzero(~is_rare).tolist(), np.flatnonzero(is_rare).tolist()]


@pytest.mark.parametrize("steps", [3, 4, 5, 6, 8, 10, 16, 30])
def test_scatter_alone_makes_no_kinds(steps: int) -> None:
    random = np.random.default_rng(steps)
    alarms = sum(len(grouped(1e6 * np.exp(random.normal(0, 0.1, steps)))) > 1 for _ in range(2000))
    assert alarms <= 40, "2 % of runs whose steps scatter by 10 %; 1 % is meant"


def with_a_stop(folder: Path, step: int, part: float = 0.5) -> Path:
    """A real recording of three steps, in one of which the program stands still."""
    document = json.loads(gzip.decompress(recorded(DEIT).read_bytes()))
    (mark,) = (
        one
        for one in document["traceEvents"]
        if one.get("name") == f"ProfilerStep#{step}" and one["cat"] == "user_annotation"
    )
    at = mark["ts"] + part * mark["dur"]
    for event in document["traceEvents"]:
        if event.get("ts", at - 1) >= at:
            event["ts"] += STOP_US
        elif event.get("ph") == "X" and event["ts"] + event["dur"] > at and event["pid"] == mark["pid"]:
            event["dur"] += STOP_US
    path = folder / "stopped.pt.trace.json"
    path.write_text(json.dumps(document))
    return path


def kinds_of(facts: Facts) -> StepKinds:
    kinds = page_kinds(facts.sel)
    assert kinds is not None
    return kinds


def test_a_pause_between_two_schedules_is_no_step_s(tmp_path: Path) -> None:
    """The same three steps again, ten seconds later, under the numbers that a second cycle of the schedule has."""
    before = Facts(run_of(recorded(DEIT))).verdict
    for gone in (0, 7):
        said = json.loads(gzip.decompress((recorded(DEIT)).read_bytes()))
        again = copy.deepcopy([event for event in said["traceEvents"] if "ts" in event and event["ph"] != "M"])
        for event in again:
            event["ts"] += 10e6
            if event["name"].startswith("ProfilerStep#"):
                event["name"] = f"ProfilerStep#{int(event['name'][13:]) + gone}"
        said["traceEvents"] += again
        path = tmp_path / "twice.pt.trace.json"
        path.write_text(json.dumps(said))
        verdict = Facts(open_path(path, cache=False)).verdict
        assert verdict.recorded_ns == pytest.approx(before.recorded_ns, rel=0.02)
        assert verdict.sentence.startswith(before.sentence[:40])
        assert "the mean" not in verdict.sentence


def test_one_stop_in_three_steps_makes_no_step_time_that_no_step_took(tmp_path: Path) -> None:
    step = 2
    before = Facts(run_of(recorded(DEIT))).run_overview.per_step["duration_ns"].to_list()
    facts = Facts(open_path(with_a_stop(tmp_path, step), cache=False))
    verdict, kinds = facts.verdict, kinds_of(facts)
    assert verdict.recorded_ns is not None
    assert min(before) * 0.99 <= verdict.recorded_ns <= max(before) * 1.01
    assert [kind.steps for kind in kinds.kinds] == [tuple(other for other in (1, 2, 3) if other != step), (step,)]
    assert facts.path is not None
    assert facts.path.step_ns < 1.1 * max(before)
    assert "(1 of 3 takes " in verdict.sentence
    rare = finding("S28", facts)
    assert (rare.severity, rare.impact_of) == ("warning", "mean_step"), "how often such a stop comes is not known"
    assert rare.impact_ns == pytest.approx(STOP_US * 1e3 / 3, rel=0.05)
    assert HELD in (kinds.rare[0].particular or "")
    assert "py-spy" in rare.advice
    assert not look("V7", facts).found


def test_a_chosen_step_says_that_it_is_unlike_the_others(tmp_path: Path) -> None:
    run = open_path(with_a_stop(tmp_path, 2), cache=False)
    assert "unlike 2 of 3 steps, which take " in Facts(run, scope=Scope(steps=(2, 2))).verdict.sentence
    assert "unlike" not in Facts(run, scope=Scope(steps=(3, 3))).verdict.sentence


def trained(folder: Path, validations: tuple[int, ...], steps: int = 8, taking: float = 900) -> Facts:
    """Steps of 300 µs, some of them with a validation behind, of 12 forward passes."""
    made, now = Made(), 0.0
    for step in range(steps):
        begin, passes = now, count()
        for _ in range(5):
            made.launch(HGEMM, (now, now + 10), (now + 15, now + 65))
            now += 60
        if step in validations:
            made.host("python_function", "train.py(70): validate", now, now + taking)
            made.host("python_function", "torch/nn/modules/module.py(10): eval", now + 1, now + taking - 1)
            for number, _ in zip(passes, range(12), strict=False):
                at = now + 2 + number * (taking - 10) / 12
                made.launch("forward_kernel", (at, at + 5), (at + 6, at + 30))
            now += taking
        made.step(step, begin, now)
    return made.facts(folder)


@pytest.mark.parametrize("validations", [(2,), (3, 7), (0, 4)])
def test_a_validation_in_some_steps_is_named(tmp_path: Path, validations: tuple[int, ...]) -> None:
    kinds = kinds_of(trained(tmp_path, validations))
    assert [kind.steps for kind in kinds.rare] == [validations], "other work is no warm-up, even in the first step"
    assert kinds.rare[0].particular == "train.py(70): validate"
    assert sum(kind.percent for kind in kinds.kinds) == pytest.approx(100)


def test_work_tells_steps_apart_that_lengths_would_not(tmp_path: Path) -> None:
    """A third longer, once in three steps: too little for lengths alone."""
    kinds = kinds_of(trained(tmp_path, (1,), steps=3, taking=100))
    assert [kind.steps for kind in kinds.kinds] == [(0, 2), (1,)]
    lengths = [kind.mean_ns for kind in kinds.kinds]
    assert len(grouped([lengths[0], lengths[1], lengths[0] * 1.03])) == 1


def test_a_longer_first_step_with_the_same_work_is_no_rare_one(tmp_path: Path) -> None:
    facts = Facts(open_path(with_a_stop(tmp_path, 1), cache=False))
    kinds = kinds_of(facts)
    assert [kinds.called(kind) for kind in kinds.kinds] == ["typical", "first"]
    assert (kinds.rare, kinds.rare_ns) == ((), 0)
    assert not look("S28", facts).found


def test_saving_in_every_fifth_step_comes_first() -> None:
    path = recorded("planted/save_often")
    (trace,) = report(run_of(path), sections=("overview", "findings"))["run"]["traces"]
    clean = json.loads((path / "run.json").read_text())["measurement"]["clean_step_ns"]
    typical, rare = trace["overview"]["kinds"]
    assert (typical["kind"], typical["of"], typical["steps"], rare["numbers"]) == ("typical", "clean", 8, "3, 8")
    ordered = sorted(clean)
    assert typical["median_us"] == pytest.approx(np.median(ordered[:8]) / 1e3)
    assert rare["mean_us"] == pytest.approx(sum(ordered[8:]) / 2e3)
    assert rare["percent"] == pytest.approx(100 * sum(ordered[8:]) / sum(clean))
    assert rare["particular"] == "torch/serialization.py(945): save, under save_often.py(9): step"
    assert trace["overview"]["waits_for"]["clean_us"] == pytest.approx(typical["median_us"])
    first: dict[str, Any] = max(trace["findings"], key=lambda row: row["impact_us"] or 0)
    assert (first["id"], first["impact_of"]) == ("S28", "mean_step")
    assert first["impact_us"] == pytest.approx((np.mean(clean) - np.mean(ordered[:8])) / 1e3)
    assert first is trace["findings"][0]
    assert first["title"].startswith("Save less often, or beside the steps: torch/serialization.py")


ALIKE = ["planted/ckpt", "planted/clip_loop", "planted/cpu_opt", "planted/nchw", "planted/watch", "planted/blocking",
         "ranks4/ddp_gpu", "ranks4/ddp_host", "ranks4/fsdp", DEIT, "gpt_clean"]  # fmt: skip


@pytest.mark.parametrize("name", ALIKE)
def test_steps_that_scatter_are_of_one_kind(name: str) -> None:
    for trace in run_of(recorded(name)).traces:
        kinds = page_kinds(select(trace)) if trace.steps.height else None
        assert kinds is None or len(kinds.kinds) == 1


def test_kinds_of_a_recording_without_steps_are_not_known() -> None:
    main = run_of(recorded("small_vit_train.pt.trace.json.gz")).main
    assert page_kinds(select(as_recorded(main, keep_own=False))) is None


def test_replays_of_a_graph_in_a_row_are_iterations() -> None:
    """32 tokens that a decode loop on an H200 replays a graph for, after a prefill of about ten times their length."""
    main = run_of(recorded("decode_captured")).main
    found = page_kinds(select(main))
    assert found is not None
    replay, other = found.kinds
    assert (replay.phase, len(replay.steps), other.phase, len(other.steps)) == ("decode", 32, "before", 1)
    calls = main.host.filter(pl.col("name").cast(pl.String).str.contains("GraphLaunch")).sort("start")["start"]
    between = (calls[-1] - calls[0]) / 31
    assert replay.mean_ns == pytest.approx(between, rel=0.02)
    assert replay.served is not None
    assert replay.served.kernels == 7424 / 32
    assert (replay.served.batch, replay.served.context) == (8, 640)  # by the shapes of its attention
    assert replay.served.tokens_per_s == pytest.approx(8e9 / between, rel=0.02)


def test_evaluation_between_training_steps_is_a_kind_by_its_ranges_or_by_what_it_does(tmp_path):
    trace = open_path(Path(__file__).parent / "data/chrome/train_eval.pt.trace.json.gz", cache=False).main
    assert trace.marked_by is not None
    assert (trace.marked_by.name, trace.marked_by.warm_up) == ("train_step", 0)
    trained, evaluated = (0, 1, 2, 4, 5, 6, 8, 9, 10), (3, 7, 11)
    unnamed = replace(trace, steps=trace.steps.with_columns(name=pl.lit("ProfilerStep#0", pl.Categorical)))
    for one in (trace, unnamed):
        kinds = page_kinds(select(one))
        assert kinds is not None
        assert [(kind.phase, kind.steps) for kind in kinds.kinds] == [(None, trained), ("evaluation", evaluated)]
        length = one.steps["duration"].to_list()
        means = [np.mean([length[step] for step in steps]) for steps in (trained, evaluated)]
        assert [kind.mean_ns for kind in kinds.kinds] == pytest.approx(means)
        assert not kinds.rare
    # nothing is an evaluation where nothing trains, and none is one that makes none of the calls of those that do
    told = pl.col("name").cast(pl.String)
    backward = told.str.contains("(?i)backward|autograd|optimizer|train_step|eval_step")
    untrained = replace(unnamed, host=trace.host.with_columns(name=pl.when(~backward).then("name")))
    assert {kind.phase for kind in page_kinds(select(untrained)).kinds} == {None}
