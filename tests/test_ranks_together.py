"""What all ranks of a job say together: matching, clocks, waiting and chains, on jobs whose truth is known."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rank_summaries import STEP_NS, TRANSFER_NS, Made, with_frames
from simulated_job import FIRST_STEP, LOADER, three_d
from simulated_job import Job as Simulated

from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Finding
from tracetui.analysis.findings.engine import find
from tracetui.analysis.ranks import summary
from tracetui.analysis.ranks.clocks import line
from tracetui.analysis.ranks.job import Job, combine, jobs
from tracetui.analysis.ranks.matched import DIFFERENT, NOT_EVERYWHERE, match
from tracetui.analysis.ranks.sentences import answer, brief
from tracetui.analysis.ranks.summarise import summarise
from tracetui.analysis.ranks.waiting import who_for_whom
from tracetui.parsers import Run, open_path

Recorded = tuple[Simulated, "Run", Job]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Recorded]:
    """Writes and reads a simulated job."""

    def make(size: int = 4, program: dict[str, object] | None = None, **how: object) -> Recorded:
        truth = Simulated(size, 3, **how).run(partial(three_d, **(program or {})))  # type: ignore[arg-type]
        folder = tmp_path_factory.mktemp("job")
        truth.write(folder)
        run = open_path(folder, cache=False)
        return truth, run, combine([summarise(trace) for trace in run.traces])

    return make


def recorded(truth: Simulated) -> list[int]:
    """Who came last to each collective of the recorded steps, in the order of time."""
    return [last for _, _, last, _, step in sorted(truth.met, key=lambda one: one[0]) if step >= 0]


def said_of(run: Run) -> tuple[Finding, ...]:
    """What the rules on jobs find."""
    rules = {id: one for id, one in all_rules("run").items() if {"ranks", "collectives"}.intersection(one.needs)}
    return find(Facts(run), rules=rules).found


# --- matching


@given(
    first=st.lists(st.integers(0, 12), min_size=4, max_size=4),
    last=st.lists(st.integers(0, 6), min_size=4, max_size=4),
    seq=st.booleans(),
    seed=st.integers(0, 100),
    offset=st.floats(-5e6, 5e6),
)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_began_elsewhere_is_aligned(first, last, seq, seed, offset) -> None:
    """Whatever the windows lack at either end: what is matched is the same collective, and nothing common is lost."""
    skipped = {rank: (first[rank], last[rank]) for rank in range(4)}
    clocks = {"host1": (offset, 0.0)}
    made = Made(ranks=4, steps=5, per_step=6, seq=seq, skipped=skipped, seed=seed, ranks_per_host=2, offsets=clocks)
    summaries = made.summaries()
    truth = [range(skip, 30 - end) for skip, end in skipped.values()]
    found = match(summaries).calls.select().sort("instance", "rank")
    common = range(max(one.start for one in truth), min(one.stop for one in truth))
    # the bytes tell the place within a step, and the step is known to the test
    told = found.with_columns(number=pl.col("step") * 6 + pl.col("bytes_in") // 1_000_000 - 1)
    by_instance = told.group_by("instance").agg(pl.col("number").n_unique(), calls=pl.len())
    assert by_instance["number"].to_list() == [1] * len(common)
    assert by_instance["calls"].to_list() == [4] * len(common)
    assert sorted(told["number"].unique().to_list()) == list(common)


def test_what_differs_or_is_on_some_ranks_only_is_counted() -> None:
    summaries = Made(ranks=4, skipped={2: (3, 0)}).summaries()
    odd = summaries[1].collectives.with_columns(
        bytes_in=pl.when(pl.col("seq") == 50).then(pl.lit(7)).otherwise("bytes_in")
    )
    summaries[1] = with_frames(summaries[1], collectives=odd)
    found = match(summaries)
    assert found.calls["instance"].n_unique() == 100 - 3 - 1
    counted = {(row[0], row[1]): row[2] for row in found.unmatched.iter_rows()}
    assert counted[1, DIFFERENT] == 1
    assert {rank: counted[rank, NOT_EVERYWHERE] for rank in (0, 1, 3)} == {0: 4, 1: 3, 3: 4}
    assert counted[2, NOT_EVERYWHERE] == 1


def test_calls_are_what_they_were_in_less_than_half_of_the_bytes() -> None:
    summaries = Made(ranks=64, steps=80, offsets={"host1": (5e12, 1e-5)}, seq=False).summaries()
    found = match(summaries).calls
    assert 2 * found.frame.estimated_size() < found.select().estimated_size()
    for rank in (0, 9):
        own = found.select().filter(pl.col("rank") == rank).sort("begin")
        names = [name for name in summary.COLLECTIVES if name in own.columns]
        assert own.select(names).equals(summaries[rank].collectives.sort("begin").select(names))


def test_many_ranks_cost_little() -> None:
    summaries = Made(ranks=128, per_step=50, late={7: 300_000}, silent={7: 5_000_000}, ranks_per_host=8).summaries()
    begin = time.process_time()
    job = combine(summaries)
    spent = time.process_time() - begin
    assert job.collectives.height == 500
    assert job.calls.height == 128 * 500
    assert [late.rank for late in job.answers.program] == [7]
    assert spent < 1  # about 0.15 s here; 1,024 ranks 1.2 s


# --- clocks


@given(offset=st.floats(-5e6, 5e6), drift=st.floats(-1e-4, 1e-4), seed=st.integers(0, 50), named=st.booleans())
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_clocks_are_fitted_to_their_residual(offset: float, drift: float, seed: int, named: bool) -> None:
    made = Made(ranks=8, offsets={"host1": (offset, drift)}, seed=seed, late={5: 400_000}, host_names=named)
    job = combine(made.summaries())
    assert job.residual_ns is not None
    # where hosts are not named, what no collective tells from one clock is left as it is
    assert job.residual_ns < (2 * made.noise_ns if named else 100_000)
    ends = job.calls.group_by("instance").agg(spread=pl.col("end").max() - pl.col("end").min())
    least = 4 * made.noise_ns if named else 120_000
    assert ends["spread"].max() < least  # type: ignore[operator]
    if abs(offset) > 200_000:
        assert not job.one_clock
    assert set(job.collectives["last_rank"]) == {5}


def test_a_line_is_robust() -> None:
    time = np.linspace(0, 1e9, 300)
    away = 40_000 + 3e-5 * time
    away[::7] += 5e6  # every seventh is far off
    offset, slope = line(time, away)
    assert offset == pytest.approx(40_000, abs=10)
    assert slope == pytest.approx(3e-5, rel=1e-3)
    assert line(time, np.random.default_rng(0).normal(0, 100, 300))[1] == 0


# --- waiting


def test_waiting_and_transfer() -> None:
    made = Made(ranks=4, late={2: 3_000_000})
    job = combine(made.summaries())
    assert job.collectives["transfer_ns"].to_numpy() == pytest.approx(TRANSFER_NS, abs=2 * made.noise_ns)
    assert set(job.collectives["last_rank"]) == {2}
    by_rank = dict(job.ranks.select("rank", "wait_ns").iter_rows())
    assert by_rank[2] < 10 * made.noise_ns
    # ten waits of 3 ms that begin 2 ms after each other
    assert by_rank[0] == pytest.approx((9 * 2 + 3) * 1_000_000, rel=0.01)
    assert set(job.waits["for_rank"]) == {2}
    assert job.waits["wait_ns"].sum() == pytest.approx(10 * 3 * (9 * 2 + 3) * 1_000_000, rel=0.01)
    assert job.answers.recording is not None
    assert (job.answers.recording.rank, job.answers.recording.last, job.answers.recording.of) == (2, 100, 100)


def test_of_many_pairs_those_of_who_was_waited_for_longest_are_told() -> None:
    found = combine(Made(ranks=6, noise_ns=500_000).summaries()).waiting
    whole, pairs = who_for_whom(found)
    assert pairs == whole.height == 24
    some, still = who_for_whom(found, most=11)
    assert still == pairs
    causes = whole.group_by("for_rank").agg(pl.col("wait_ns").sum()).sort("wait_ns", descending=True)["for_rank"]
    assert some.rows() == whole.filter(pl.col("for_rank").is_in(causes[:2].to_list())).rows()


def test_clocks_that_are_far_off_change_no_match() -> None:
    """By order alone: 350 ms are nine steps. Of one step, ends that lie apart tell that a recording lacks its last."""
    far = Made(ranks=12, seq=False, offsets={"host1": (350e6, 4e-5), "host2": (-3e9, -4e-5)})
    job = combine(far.summaries())
    assert job.collectives["ranks"].to_list() == [12] * 100
    assert job.collectives["transfer_ns"].to_numpy() == pytest.approx(TRANSFER_NS, abs=2 * far.noise_ns)
    job = combine(Made(ranks=4, steps=1, seq=False, skipped={2: (0, 1)}).summaries())
    assert job.collectives["ranks"].to_list() == [4] * 9
    assert job.collectives["transfer_ns"].to_numpy() == pytest.approx(TRANSFER_NS, abs=2 * far.noise_ns)
    assert job.one_clock


def test_what_clocks_do_not_tell_names_nobody() -> None:
    job = combine(Made(ranks=4).summaries())
    assert job.answers.recording is None
    assert job.answers.program == ()
    assert job.residual_ns is not None
    late = job.collectives.filter(pl.col("last_rank").is_not_null())
    assert late.filter(pl.col("late_ns") <= job.residual_ns).height == 0


def test_missing_ranks_are_named() -> None:
    summaries = Made(ranks=128).summaries()
    job = combine([summaries[3], summaries[40]])
    assert (job.here, job.world_size, len(job.missing)) == (2, 128, 126)
    assert any(text.startswith("2 of 128 ranks are here") for text in answer([job]))
    assert brief([job]).startswith("Job of 2 of 128 ranks.")
    assert combine([]).here == 0
    assert answer([combine([])])  # says that nothing is known


# --- who is late in the program, and why: recordings with planted causes


@pytest.mark.parametrize(
    ("plant", "amount", "cause", "name"),
    [
        ({"extra": {1: 4000}}, 4000, "gpu_work", "metrics"),
        ({"sleeps": {1: ("load_batch", 3000)}}, 3000, "host", "load_batch"),
        ({"sleeps": {1: (LOADER, 3000)}}, 3000, "loader", ""),
        ({"pauses": {(1, 1): 20_000}}, None, "pause", ""),
        ({"slow": {1: 1.3}}, None, "slow_gpu", ""),
    ],
)
def test_a_planted_cause_is_found(made, plant, amount, cause, name) -> None:
    _, _, job = made(3, contention=1.0, gpu_noise=0.0, **plant)
    (late,) = job.answers.program
    assert late.cause is not None
    assert (late.rank, late.cause.kind, late.cause.name) == (1, cause, name)
    if amount is not None:
        assert late.late_ns == pytest.approx(amount * 1e3, rel=0.02)
    if cause == "pause":
        assert late.cause.step == FIRST_STEP + 1
    assert job.answers.recording is not None
    assert job.answers.recording.rank == 1


def test_lateness_in_many_short_calls_names_nobody(made: Callable[..., Recorded]) -> None:
    _, run, job = made(3, slow_host={1: 40})
    assert job.answers.program == ()
    assert job.answers.recording is not None
    assert job.answers.recording.cause is not None
    assert (job.answers.recording.rank, job.answers.recording.cause.kind) == (1, "calls")
    assert any("can't be told" in text for text in answer([job]))
    found = {one.id: one for one in said_of(run)}
    assert "S20" not in found
    assert found["S21"].ceiling_percent is None


def test_even_jobs_name_nobody(made: Callable[..., Recorded]) -> None:
    for how in ({"program": {"stages": 2}}, {"program": {"tensor": 2}}, {"light": True, "before": 1}):
        _, run, job = made(**how)
        assert job.answers.program == ()
        assert job.answers.recording is None
        assert not {"S20", "S21", "V30"} & {one.id for one in said_of(run)}


def test_chains_lead_to_their_root(made: Callable[..., Recorded]) -> None:
    """Rank 1 sends late, so 3, 5 and 7 do, and all of them come late to their gradients."""
    _, _, job = made(8, {"stages": 4}, sleeps={1: ("load_batch", 5000)})
    assert job.answers.recording is not None
    assert job.answers.recording.rank == 1
    gradients = job.collectives.filter((pl.col("kind") == "all_reduce") & (pl.col("late_ns") > 1_000_000))
    assert set(gradients["last_rank"]) == {1, 3, 5, 7}
    assert set(gradients["root_rank"]) == {1}


def test_a_light_recording_that_ran_ahead(made: Callable[..., Recorded]) -> None:
    """No steps, no arguments, and the work of a step before the window: own GPU time alone would name the others."""
    truth, run, job = made(light=True, before=1, extra={2: 4000})
    assert not run.main.steps.height
    assert job.step_count == 0
    assert job.collectives.height == len(recorded(truth))
    assert [late.rank for late in job.answers.program] == [2]
    assert job.collectives["last_rank"].to_list() == recorded(truth)


def test_who_came_last_is_what_was_simulated(made: Callable[..., Recorded]) -> None:
    clocks = dict.fromkeys(range(4, 8), (2300.0, 80.0))
    truth, _, job = made(8, clocks=clocks, sleeps={5: ("load_batch", 4000)}, extra={3: 9000})
    assert not job.one_clock
    assert job.collectives["last_rank"].to_list() == recorded(truth)
    assert job.residual_ns is not None
    assert job.residual_ns < 5_000  # ends lie up to 4 µs apart


def test_the_critical_path_is_on_the_late_rank(made: Callable[..., Recorded]) -> None:
    _, _, job = made(extra={2: 4000})
    assert job.path["rank"][0] == 2
    assert job.path["percent"][0] > 95
    whole = (job.calls["end"].max() - job.calls["begin"].min()) / 3  # type: ignore[operator]
    assert float((job.path["own_ns"] + job.path["transfer_ns"]).sum()) == pytest.approx(whole, rel=1e-3)


# --- findings


def test_stages_and_bubbles(made: Callable[..., Recorded]) -> None:
    _, run, job = made(4, {"stages": 4, "factors": (1, 1, 1.5, 1)})
    assert job.pipeline["stage"].to_list() == [0, 1, 2, 3]
    assert job.pipeline["micro_batches"].to_list() == [4] * 4
    assert job.pipeline["ideal_percent"][0] == pytest.approx(100 * 3 / 7)
    found = {one.id: one for one in said_of(run)}
    assert found["S26"].title.startswith("Stage 2 of the pipeline has most work")
    assert found["S26"].impact_ns == pytest.approx(job.pipeline["own_gpu_ns"][2] - job.pipeline["own_gpu_ns"].mean())
    assert "4 stages can't do with less than 42.9 %" in found["S25"].title


def test_small_buckets_and_missing_ranks(made: Callable[..., Recorded], tmp_path: Path) -> None:
    truth = Simulated(4, 3, bandwidths=(30.0, 45.0)).run(partial(three_d, buckets=40, size=1 << 19))
    paths = truth.write(tmp_path)
    paths[3].unlink()
    run = open_path(tmp_path, cache=False)
    found = {one.id: one for one in said_of(run)}
    assert "40 collectives per step of 512.0 KiB on average" in found["S22"].title
    assert {one.label: one.value for one in found["V30"].evidence}["missing ranks"] == "3"
    assert "S22" not in {one.id for one in said_of(made()[1])}


def test_ranks_of_two_jobs_are_told_and_not_compared(tmp_path: Path) -> None:
    """Two ranks of one job and the other two of another: as many, and no collective in common."""
    ours, theirs = (
        Simulated(4, 3).run(partial(three_d, size=size)).write(tmp_path / name)
        for size, name in ((1 << 19, ""), (3 << 18, "other"))
    )
    for rank in (2, 3):
        theirs[rank].replace(ours[rank])
    run = open_path(*(ours[rank] for rank in range(4)), cache=False)
    first = said_of(run)[0]
    assert (first.id, first.severity) == ("V30", "invalid")
    job = combine([summarise(trace) for trace in run.traces])
    assert answer([job])[0].startswith("These 4 recordings are not ranks of one job: none of ")
    assert "In the program" not in " ".join(answer([job]))


# --- real recordings


def test_passes_are_jobs_of_their_own() -> None:
    rich, light = (Made(ranks=2, silent={1: int(STEP_NS)}).summaries() for _ in range(2))
    for one in light:
        object.__setattr__(one, "recorded_pass", "light")
    found = jobs([*light, *rich])
    assert [job.recorded_pass for job in found] == [None, "light"]


def test_matching_costs_twice_as_much_for_twice_the_collectives() -> None:
    """Clocks that drift apart by 120 ppm send every rank through the search for its place."""
    spent = []
    for steps in (240, 480):
        offsets = {f"host{number}": (number * 1e6, (number - 1) * 60e-6) for number in range(3)}
        made = Made(ranks=12, steps=steps, per_step=16, seq=False, offsets=offsets, skipped={5: (40, 0), 9: (0, 25)})
        summaries = made.summaries()
        began = time.process_time()
        matched = match(summaries)
        spent.append(time.process_time() - began)
        assert (matched.calls["rank"] == 0).sum() >= steps * 16 - 65
    assert spent[1] <= 3 * spent[0] + 0.1  # the square would be four times, of more than a second
