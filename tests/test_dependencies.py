"""The dependency graph: its replay against plain rules, what would be left of a step, and the critical path."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_run import ADD, SGEMM, Made, facts_of
from sample_runs import run_of

from tracetui.analysis.dependencies.costs import (
    as_recorded,
    by_segments,
    one_by_one,
    recorded_steps,
    step_times,
    walk,
)
from tracetui.analysis.dependencies.critical_path import RESOURCES, UNKNOWN, critical_path, path_lane, slacks
from tracetui.analysis.dependencies.graph import Graph, graph
from tracetui.analysis.dependencies.model import LAUNCHING_NS, Model, faster_work, model, without_calls
from tracetui.analysis.dependencies.waits import FREE, FULL, LOST, NONE, WAIT, Calls, Work
from tracetui.analysis.gpu.steps import step_slots
from tracetui.analysis.overview import overview
from tracetui.analysis.selection import Scope, select
from tracetui.parsers import Trace, schema

RECORDED_TIMELINES = (
    "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz",
    "chrome/gpt_small_ctx256.trace.json.gz",
    "chrome/deit_small_train_bf16_bs32.pt.trace.json.gz",
    "chrome/cudagraph_replay.trace.json.gz",
    "chrome/kineto_samples/resnet50_num_workers_4.pt.trace.json.gz",
    "chrome/ddp_vit_small_2ranks/rank0.pt.trace.json.gz",
    "nsys/gpt_small_ctx256.sqlite.gz",
    "nsys/graph_node.sqlite.gz",
    "nsys/graph_whole.sqlite.gz",
    "ops/ops.trace.json.gz",
    "jax/h200.trace.json.gz",
)
EXPLAINED = 0.03
"""The part of a step that an unchanged replay may be wrong by."""


def _model(made: Made, folder: Path, clean: tuple[int, ...] = ()) -> Model:
    found = model(select(made.trace(folder)), clean)
    assert found is not None
    return found


def _same(graph: Graph, costs) -> None:
    plain, quick = one_by_one(graph, costs), by_segments(graph, costs)
    for name in ("call_start", "call_end", "work_start", "work_end", "followed", "released"):
        assert np.array_equal(getattr(plain, name), getattr(quick, name)), name


@pytest.mark.parametrize("name", RECORDED_TIMELINES)
def test_segments_give_what_one_call_after_the_other_gives(name: str) -> None:
    found = graph(select(run_of(name).main))
    if found is None:
        pytest.skip("no launches of GPU work")
    costs = as_recorded(found)
    nothing = np.zeros_like(costs.stretch)
    _same(found, costs)
    _same(found, replace(costs, stretch=nothing, call=nothing))
    _same(found, replace(costs, work=np.zeros_like(costs.work), gap=np.zeros_like(costs.gap)))


@st.composite
def _graphs(draw: st.DrawFn) -> Graph:
    """Any calls on up to three threads, with work on up to three streams."""
    size = draw(st.integers(1, 30))
    small = st.integers(0, 50)
    stretch, length = (np.array(draw(st.lists(small, min_size=size, max_size=size))) for _ in range(2))
    start = np.cumsum(np.append(0, (stretch + length)[:-1])) + stretch
    before = np.arange(size) - 1
    own = np.full(size, NONE)
    for position in draw(st.lists(st.integers(2, max(size - 1, 2)), max_size=3)):
        if position < size:
            before[position], own[position] = draw(st.integers(0, position - 1)), draw(st.integers(0, position - 1))
    number = np.array(draw(st.lists(st.integers(0, 2), min_size=size, max_size=size)))
    call = np.repeat(np.arange(size), number)
    many = call.size
    stream = np.array(draw(st.lists(st.integers(0, 2), min_size=many, max_size=many)), np.int64)
    lasting = np.array(draw(st.lists(small, min_size=many, max_size=many)), np.int64)
    queued, after = np.full(many, NONE), np.full(many, NONE)
    for item in range(many):
        earlier = np.flatnonzero(stream[:item] == stream[item])
        queued[item] = earlier[-1] if earlier.size else NONE
        others = np.flatnonzero((stream[:item] != stream[item]) & (call[:item] < call[item]))
        if others.size and draw(st.booleans()):
            after[item] = draw(st.sampled_from(others.tolist()))
    kind = np.zeros(size, np.int8)
    wait_from, waited = [0], []
    first = np.searchsorted(call, np.arange(size + 1))
    for position in range(size):
        if draw(st.integers(0, 3)) == 0:
            kind[position] = WAIT
            waited += (
                draw(st.lists(st.integers(0, max(int(first[position + 1]) - 1, 0)), max_size=2))
                if first[position + 1]
                else []
            )
        wait_from.append(len(waited))
    calls = Calls(
        np.arange(size), start, start + length, np.zeros(size, np.int64), before, stretch, own, kind,
        np.array(wait_from), np.array(waited, np.int64),
    )  # fmt: skip
    begin = start[call] + 5
    work = Work(np.arange(many), begin, begin + lasting, call, queued, after, np.zeros(many, np.int64), stream)
    held = np.array(draw(st.lists(st.integers(0, 300), min_size=3, max_size=3)), np.int64)
    return Graph(calls, work, first, 7, 2, 1, 3, schema_steps(), 0, held)


def schema_steps():
    return schema.empty(schema.STEPS)


@given(_graphs())
def test_segments_give_what_one_call_after_the_other_gives_for_any_graph(found: Graph) -> None:
    _same(found, as_recorded(found))


@given(_graphs())
def test_sums_that_fit_no_64_bits_are_replayed_in_plain_numbers(found: Graph) -> None:
    costs = replace(as_recorded(found), stretch=np.full(found.calls.start.size, 1 << 61))
    plain, quick = one_by_one(found, costs), walk(found, costs)
    for name in ("call_start", "call_end", "work_start", "work_end"):
        assert np.array_equal(getattr(plain, name), getattr(quick, name)), name


def _step_ends(found: Graph, costs) -> list[int]:
    work, times = found.work, walk(found, costs)
    ends = [int(times.work_end[work.step == step].max()) for step in np.unique(work.step[work.step != NONE])]
    return np.maximum.accumulate(ends).tolist()


@given(_graphs(), st.data())
def test_slack_is_all_that_work_may_take_more_and_not_a_nanosecond_less(found: Graph, data: st.DataObject) -> None:
    middle = data.draw(st.integers(0, found.calls.start.size))
    step = np.where(found.work.call < middle, 0, 1)
    step[data.draw(st.lists(st.integers(0, max(step.size - 1, 0)), max_size=2)) if step.size else []] = NONE
    two = pl.concat([schema_steps(), pl.DataFrame({"index": [0, 1]}).select(pl.col("index").cast(
        schema.STEPS["index"]))], how="diagonal")  # fmt: skip
    found = replace(found, steps=two, work=replace(found.work, step=step))
    costs = as_recorded(found)
    slack = slacks(found, costs, walk(found, costs))
    before = _step_ends(found, costs)
    assert ((slack == UNKNOWN) == (step == NONE)).all()
    for item in np.flatnonzero(slack != UNKNOWN).tolist():
        longer = costs.work.copy()
        longer[item] += slack[item]
        assert _step_ends(found, replace(costs, work=longer)) == before
        longer[item] += 3
        assert max(np.subtract(_step_ends(found, replace(costs, work=longer)), before)) == 3


@given(_graphs(), st.randoms(use_true_random=False))
def test_less_of_anything_never_takes_longer(found: Graph, random) -> None:
    costs = as_recorded(found)
    less = replace(
        costs,
        stretch=np.array([random.randint(0, value) for value in costs.stretch.tolist()], np.int64),
        work=np.array([random.randint(0, value) for value in costs.work.tolist()], np.int64),
    )
    before, after = walk(found, costs), walk(found, less)
    assert (after.call_end <= before.call_end).all()
    assert (after.work_end <= before.work_end).all()


@pytest.mark.parametrize("name", RECORDED_TIMELINES)
def test_an_unchanged_replay_is_the_recording_or_says_that_it_is_not(name: str) -> None:
    found = model(select(run_of(name).main))
    if found is None:
        pytest.skip("no launches of GPU work")
    taken = recorded_steps(found.graph)
    replayed = step_times(found.graph, walk(found.graph, as_recorded(found.graph)))
    missed = np.abs(replayed - taken) > EXPLAINED * np.maximum(taken, 1)
    assert int(missed.sum()) == len(found.unexplained)
    assert found.host_free_ns <= found.recorded_ns * (1 + EXPLAINED) or found.unexplained
    path = critical_path(select(run_of(name).main), found)
    assert path.resources["percent"].sum() == pytest.approx(100)
    assert set(path.resources["resource"]) <= set(RESOURCES)
    assert path.stretches["ns"].sum() == pytest.approx(path.resources["ns"].sum())


def test_a_run_that_waits_for_the_gpu_gains_all_that_the_gpu_saves(tmp_path: Path) -> None:
    made = Made()
    for step in range(4):
        begin = 1000 * step
        made.step(step, begin, begin + 999)
        made.launch(SGEMM, (begin, begin + 10), (begin + 10, begin + 510))
        made.launch(ADD, (begin + 10, begin + 20), (begin + 510, begin + 910))
        made.host("cuda_runtime", "cudaDeviceSynchronize", begin + 20, begin + 920)
    found = _model(made, tmp_path)
    assert found.waits_for == "gpu"
    gemm = np.isin(found.graph.work.row, np.arange(0, 8, 2))
    saved = found.saved(lambda costs: faster_work(found.graph, costs, gemm, 0.0))
    assert saved.most_ns == pytest.approx(500_000, rel=0.02)
    saved = found.saved(lambda costs: faster_work(found.graph, costs, gemm, 0.25))
    assert saved.most_ns == pytest.approx(375_000, rel=0.02)


def test_a_run_that_waits_for_launches_gains_nothing_from_faster_kernels(tmp_path: Path) -> None:
    made = Made()
    for step in range(4):
        made.step(step, 10_000 * step, 10_000 * step + 9_999)
        for at in range(10_000 * step, 10_000 * (step + 1), 1000):
            made.launch(SGEMM, (at + 980, at + 990), (at + 995, at + 999))
    found = _model(made, tmp_path)
    assert found.waits_for == "host"
    every = np.ones(40, np.bool_)
    assert found.saved(lambda costs: faster_work(found.graph, costs, every, 0.0)).most_ns <= 5_000
    gone = found.saved(lambda costs: faster_work(found.graph, costs, every, 0.0, fewer_launches=True))
    assert gone.most_ns == pytest.approx(10 * LAUNCHING_NS, rel=0.02)  # the rest of each ms is other work
    assert found.host_free_ns < 100_000
    path = critical_path(found.sel, found)
    assert path.share("host", "api") > 99


def test_a_launch_that_is_spared_spares_the_usual_way_to_it_for_certain_and_all_of_it_at_most(tmp_path: Path) -> None:
    """Each step makes eight launches of 20 µs of host time, and two of 150."""
    made = Made()
    for step in range(4):
        at = 1000 * step
        made.step(step, at, at + 499)
        for way in (*[20] * 8, 150, 150):
            at += way
            made.launch(SGEMM, (at - 10, at), (at + 5, at + 9))
    found = _model(made, tmp_path)
    assert found.waits_for == "host"
    long = np.arange(40) % 10 >= 8

    def spared(*, whole_way: bool) -> float:
        return found.saved(
            lambda costs: faster_work(found.graph, costs, long, 0.0, fewer_launches=True, whole_way=whole_way)
        ).most_ns

    assert spared(whole_way=False) == pytest.approx(40_000, abs=2_000)
    assert spared(whole_way=True) == pytest.approx(300_000, abs=2_000)


def test_a_slow_host_may_have_lost_all_its_time_with_the_loader(tmp_path: Path) -> None:
    """600 of 1000 µs are a loader's; without a profiler the steps took 1500."""
    made = Made()
    for step in range(4):
        begin = 1000 * step
        made.step(step, begin, begin + 999)
        made.launch(SGEMM, (begin + 980, begin + 990), (begin + 995, begin + 999))
    found = _model(made, tmp_path, (1_500_000, 1_500_000, 1_500_000))
    begun = found.graph.calls.start
    gone = begun - 900_000, begun - 300_000
    plain, most = (
        found.saved(lambda costs: without_calls(found.graph, costs, gone), may_hold_loss=loss).most_ns
        for loss in (False, True)
    )
    assert plain == pytest.approx(600_000, rel=0.02)
    assert most == pytest.approx(1_100_000, rel=0.02)


@pytest.mark.parametrize(("steps", "taken"), [((1, 1), [995]), ((2, 3), [995, 1000]), ((0, 3), [1000, 1000, 1000])])
def test_the_first_of_one_or_two_steps_holds_what_its_host_does_before_its_first_launch(tmp_path, steps, taken) -> None:
    """A loader of 600 µs and 100 µs of other host time come first; each step ends 5 µs before the next begins."""
    made = Made()
    for step in range(4):
        begin = 1000 * step
        made.step(step, begin, begin + 999)
        made.host("cpu_op", "enumerate(DataLoader)#_Next", begin, begin + 600)
        for at in range(4):
            made.launch(
                SGEMM, (begin + 700 + 10 * at, begin + 705 + 10 * at), (begin + 715 + 70 * at, begin + 785 + 70 * at)
            )
        made.host("cuda_runtime", "cudaDeviceSynchronize", begin + 740, begin + 997)
    found = model(select(made.trace(tmp_path), Scope(steps=steps)))
    assert found is not None
    assert recorded_steps(found.graph).tolist() == [1000 * each for each in taken]
    assert found.unexplained == ()
    # with the host free the loader is gone as well: what is left is the GPU's
    assert found.host_free_ns == pytest.approx(300_000, rel=0.1)
    if len(taken) < 3:
        assert critical_path(found.sel, found).share("loader", "host") == pytest.approx(100 * 700 / 995, abs=1)


def test_two_steps_of_a_loader_wait_for_it(recording: Callable[[str], Trace]) -> None:
    """Without the wait before the first launch, these two of the recording's steps took 118.9 and 175.2 ms."""
    sel = select(recording("chrome/kineto_samples/resnet50_num_workers_0.pt.trace.json.gz"), Scope(steps=(5, 6)))
    found = overview(sel)
    assert found.verdict.kind == "dataloader"
    slots = step_slots(sel)
    assert found.verdict.recorded_ns == pytest.approx(float((slots.end - slots.start).mean()), rel=0.001)


def test_a_wait_that_is_gone_lets_the_host_run_ahead(tmp_path: Path) -> None:
    made = Made()
    for step in range(4):
        begin = 2000 * step
        made.step(step, begin, begin + 1999)
        made.launch(SGEMM, (begin, begin + 10), (begin + 10, begin + 1010))
        made.host("cuda_runtime", "cudaStreamSynchronize", begin + 10, begin + 1015)
        made.host("cpu_op", "aten::work", begin + 1015, begin + 1999)
    found = _model(made, tmp_path)
    wait = frozenset(np.flatnonzero(found.graph.calls.kind == WAIT).tolist())
    assert len(wait) == 4
    assert found.ends[0].median_ns == pytest.approx(2_000_000, rel=0.01)
    saved = found.saved(lambda costs: replace(costs, no_wait=wait))
    assert saved.most_ns == pytest.approx(990_000, rel=0.05)


def test_clean_steps_decide_and_a_recording_alone_says_that_it_can_not(tmp_path: Path) -> None:
    made = Made()
    for step in range(5):
        begin = 1000 * step
        made.step(step, begin, begin + 999)
        for number in range(10):
            at = begin + 100 * number
            for event in range(8):
                made.host("cpu_op", "aten::op", at + 10 * event, at + 10 * event + 9)
            made.launch(SGEMM, (at + 88, at + 98), (at + 99, at + 159))
    alone = _model(made, tmp_path)
    assert alone.host_free_ns == pytest.approx(600_000, rel=0.03)
    assert alone.waits_for == "unknown"
    assert _model(made, tmp_path, (605_000, 610_000, 600_000)).waits_for == "gpu"
    slow = _model(made, tmp_path, (950_000, 955_000, 960_000))
    assert slow.waits_for == "host"
    assert slow.ends[0].median_ns == pytest.approx(955_000, rel=0.01)
    assert slow.step_ns == 955_000


def test_a_launch_into_a_full_queue_and_a_wait_for_what_was_not_recorded(tmp_path: Path) -> None:
    made = Made()
    made.step(1, 0, 100_000)
    for number in range(300):
        made.launch(ADD, (number, number + 0.9), (10 + 100 * number, 110 + 100 * number))
    made.launch(ADD, (300, 5000), (30_010, 30_110))
    made.host("cuda_runtime", "cudaStreamSynchronize", 31_000, 90_000)
    found = graph(select(made.trace(tmp_path)))
    assert found is not None
    assert found.calls.kind.tolist() == [FREE] * 300 + [FULL, LOST]


def test_without_calls_takes_their_time_and_their_waits(tmp_path: Path) -> None:
    made = Made()
    for step in range(4):
        begin = 1000 * step
        made.step(step, begin, begin + 999)
        made.host("cpu_op", "load", begin, begin + 700)
        made.launch(SGEMM, (begin + 800, begin + 810), (begin + 820, begin + 900))
    found = _model(made, tmp_path)
    loads = np.arange(0, 4_000_000, 1_000_000), np.arange(700_000, 4_000_000, 1_000_000)
    offset = found.graph.calls.start[0] - 800_000
    gone = loads[0] + offset, loads[1] + offset
    saved = found.saved(lambda costs: without_calls(found.graph, costs, gone))
    assert saved.most_ns == pytest.approx(700_000, rel=0.01)


def test_a_recording_without_launches_has_no_graph(tmp_path: Path) -> None:
    made = Made()
    made.step(1, 0, 100)
    made.host("cpu_op", "aten::mm", 10, 90)
    facts = facts_of(made.trace(tmp_path))
    assert facts.model is None
    assert facts.path is None
    assert facts.overview.verdict.kind == "unknown"


@pytest.mark.parametrize("name", ["chrome/vim_tiny_fp32_bs4.pt.trace.json.gz", "nsys/gpt_small_ctx256.sqlite.gz"])
def test_the_path_on_the_recordings_clock_is_one_chain_as_long_as_the_steps(name: str) -> None:
    sel = select(run_of(name).main)
    found = model(sel)
    assert found is not None
    lane = path_lane(sel, found)
    start, end = lane["start"].to_numpy(), (lane["start"] + lane["duration"]).to_numpy()
    assert (start[1:] >= end[:-1]).all()
    # as recorded, replay and recording have the same events; the chain covers each step from end to end
    assert int(lane["duration"].sum()) == pytest.approx(int(recorded_steps(found.graph).sum()), rel=EXPLAINED)
    summed = critical_path(sel, found).resources
    lasting = dict(lane.group_by(pl.col("resource").cast(pl.String)).agg(pl.col("duration").sum()).iter_rows())
    for resource, percent in summed.select("resource", "percent").iter_rows():
        assert 100 * lasting.get(resource, 0) / sum(lasting.values()) == pytest.approx(percent, abs=3)


def test_a_launch_that_is_not_made_spares_no_other_work_of_the_host(tmp_path: Path) -> None:
    """Two launches a step, 10 ms apart: without one the step is its kernel and at most `LAUNCHING_NS` shorter."""
    made = Made()
    for step in range(4):
        begin = 20_000 * step
        made.step(step, begin, begin + 19_999)
        made.launch(SGEMM, (begin + 9_990, begin + 10_000), (begin + 10_001, begin + 10_101))
        made.launch(ADD, (begin + 19_950, begin + 19_960), (begin + 19_961, begin + 19_991))
    found = _model(made, tmp_path)
    chosen = np.arange(found.graph.work.row.size) % 2 == 1
    for whole_way in (False, True):
        saved = found.saved(
            lambda costs, whole_way=whole_way: faster_work(
                found.graph, costs, chosen, 0.0, fewer_launches=True, whole_way=whole_way
            )
        )
        assert saved.most_ns <= 30_000 + LAUNCHING_NS
