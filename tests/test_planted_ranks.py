"""What is said of jobs with a planted cause (`simulated_job`): who made the others wait, how much, and why."""

import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from shutil import copy
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from simulated_job import Job as Simulated
from simulated_job import Program, ddp, fsdp, launching, pipeline, tensor, two_level

from tracetui.analysis.ranks.job import Job, jobs
from tracetui.analysis.ranks.sentences import answer, in_title
from tracetui.analysis.ranks.summarise import summarise
from tracetui.parsers import open_path
from tracetui.parsers.runs.opening import find_ranks


def judged(made: Simulated, folder: Path) -> Job:
    """The job as its folder has it."""
    made.write(folder)
    made.write_hosts(folder)
    files, _ = find_ranks(str(folder))
    traces = [open_path(file.path, cache=False) for file in files]
    (job,) = jobs(
        [summarise(run.main, rank=file.rank, manifest=run.manifest) for file, run in zip(files, traces, strict=True)]
    )
    return job


def test_ranks_that_stop_in_turn(tmp_path: Path) -> None:
    """Each rank stops once, two of them in the same step; on average all are alike."""
    made = Simulated(8, seed=3, pauses={(number, number % 6): 40_000 for number in range(8)})
    made.run(ddp)
    job = judged(made, tmp_path)
    assert job.answers.program == ()
    turns = job.answers.turns
    assert turns is not None
    assert (turns.part, turns.steps, len(turns.ranks)) == ("silent", 6, 6)
    # hosts run ahead of their GPUs, which hides a part of each stop
    assert turns.lost_ns == pytest.approx(1000 * made.lost_us, rel=0.02)
    assert sum(ns for _, ns in turns.ranks) == pytest.approx(turns.lost_ns)
    assert any("late in turn, each by more silent host time" in text for text in answer((job,)))
    assert in_title(job).startswith("late in turn: 6 ranks, ")


def test_a_pause_that_is_met_again_counts_once(tmp_path: Path) -> None:
    """The others wait 60 times for what one rank did once a step, before its forward pass."""
    made = Simulated(8, seed=4, sleeps={3: ("load_batch", 9_000)})
    made.run(partial(ddp, layers=64, forward=130, bucket=8 << 20))
    job = judged(made, tmp_path)
    last = job.answers.recording
    assert last is not None
    assert (last.rank, last.last) == (3, last.of)
    assert last.late_ns == pytest.approx(9e6, rel=0.05)
    assert last.silent_ns == pytest.approx(9e6, rel=0.05)
    waited = job.calls.filter(pl.col("rank") == 0)["wait_ns"].sum() / 6
    assert waited > 1.5 * last.late_ns


def test_waits_on_several_streams_are_no_longer_than_the_step(tmp_path: Path) -> None:
    made = Simulated(8, seed=5)
    made.run(pipeline)
    job = judged(made, tmp_path)
    assert job.ranks.select((pl.col("wait_ns") + pl.col("transfer_ns") <= pl.col("step_ns")).all()).item()
    every = job.calls.group_by("rank").agg(pl.col("wait_ns").sum() / job.called_steps)
    assert every["wait_ns"].max() > job.step_ns  # as they stand, they are
    assert job.answers.recording is None
    assert job.answers.turns is None


# --- slower GPUs


@pytest.mark.parametrize("program", [fsdp, tensor])
def test_a_gpu_that_is_slower_by_a_tenth(tmp_path: Path, program: Program) -> None:
    """In DDP and FSDP nearly all launches of the other ranks run beside collectives that wait for this one."""
    made = Simulated(8, seed=6, slow={5: 1.1})
    made.run(program)
    job = judged(made, tmp_path)
    (late,) = job.answers.program
    assert (late.rank, late.named_by) == (5, ("gpu",))
    assert late.cause is not None
    assert late.cause.kind == "slow_gpu"
    assert late.cause.factor == pytest.approx(1.1, abs=0.015)
    # who, how much, why and how sure, on a line that 80 columns have room for
    assert re.fullmatch(r"late: rank 5, \+\S+ [mµ]s GPU work/step, 1\.\d\d ×(, last \d+/\d+)?", in_title(job))
    assert len(in_title(job)) <= 60
    assert late.gpu_ns == pytest.approx(1000 * made.lost_us, rel=0.2)


def test_kernels_that_collectives_slow_are_no_slower_gpu(tmp_path: Path) -> None:
    """Only while a collective runs beside them do this rank's kernels take longer, and by more than 5 % of a step."""
    made = Simulated(8, seed=7, beside={2: 1.18})
    made.run(partial(ddp, bucket=150 << 20))
    job = judged(made, tmp_path)
    assert job.answers.program == ()
    over = job.ranks.filter(pl.col("rank") == 2)["over_gpu_ns"][0]
    assert over > 0.05 * job.step_ns
    said = answer((job,))[0]
    assert "that collectives beside it can't explain (rank 2 has" in said


def test_a_gpu_that_is_slowed_down_in_one_step(tmp_path: Path) -> None:
    made = Simulated(8, seed=8, throttled={(4, 3): 1.6})
    made.run(ddp)
    (late,) = judged(made, tmp_path).answers.program
    assert late.cause is not None
    assert (late.rank, late.cause.kind, late.cause.step) == (4, "slow_gpu", 13)
    assert late.cause.factor == pytest.approx(1.6, abs=0.04)


def test_most_ranks_are_slower(tmp_path: Path) -> None:
    many = (0, 2, 3, 4, 6, 7, 8, 9, 10, 11)
    made = Simulated(16, seed=9, slow=dict.fromkeys(many, 1.25))
    made.run(ddp)
    job = judged(made, tmp_path)
    assert {late.rank for late in job.answers.program} == set(many)
    said = answer((job,))[0]
    assert "10 of 16 ranks (0, 2-4, 6-11) each have" in said
    assert "than the other 6: each launch of the same kernels takes 1.25 times" in said


def test_all_ranks_of_a_host_are_slower(tmp_path: Path) -> None:
    made = Simulated(24, seed=10, slow=dict.fromkeys(range(8, 16), 1.15))
    made.run(ddp)
    job = judged(made, tmp_path)
    assert {late.rank for late in job.answers.program} == set(range(8, 16))
    assert "8 of 24 ranks (8-15), all of host node1, each have" in answer((job,))[0]


def test_a_host_whose_calls_take_longer(tmp_path: Path) -> None:
    made = Simulated(4, seed=11, slow_host={1: 1.8})
    made.run(launching)
    job = judged(made, tmp_path)
    assert job.answers.program == ()
    last = job.answers.recording
    assert last is not None
    assert last.cause is not None
    assert (last.rank, last.cause.kind) == (1, "calls")
    assert last.cause.factor == pytest.approx(1.8, rel=0.05)


# --- links


def test_a_group_whose_transfers_are_slow(tmp_path: Path) -> None:
    made = Simulated(32, seed=12, links={(11, 19): 8.0, (9, 17): 2.0, (10, 18): 1.35})  # the last is no slow one yet
    made.run(two_level)
    job = judged(made, tmp_path)
    assert job.answers.program == ()
    assert job.answers.recording is None  # who waited for it is not to blame
    for row, (one, other) in zip(job.links.to_dicts(), [(11, 19), (9, 17)], strict=True):
        assert (row["kind"], row["ranks"], row["like"]) == ("all_reduce", [one - 8, one, other, other + 8], 8)
        assert row["more_ns"] == pytest.approx(1000 * made.planted[one, other] / 6, rel=0.02)
    assert any("A link is slow: all_reduce of ranks 3, 11, 19, 27" in text for text in answer((job,)))
    assert in_title(job).startswith("slow link: ranks 3, 11, 19, 27, +")


def test_a_pair_of_stages_whose_link_is_slow(tmp_path: Path) -> None:
    made = Simulated(8, seed=13, links={(2, 4): 40.0, (4, 2): 40.0})
    made.run(pipeline)
    job = judged(made, tmp_path)
    assert sorted(job.links["ranks"].to_list()) == [[2, 4], [4, 2]]
    assert set(job.links["kind"]) == {"send"}
    assert job.links["more_ns"].sum() == pytest.approx(1000 * (made.planted[2, 4] + made.planted[4, 2]) / 6, rel=0.02)


@pytest.mark.parametrize(("program", "size"), [(two_level, 16), (pipeline, 16)])
def test_links_that_are_alike_are_not_named(tmp_path: Path, program: Program, size: int) -> None:
    made = Simulated(size, seed=14)
    made.run(program)
    job = judged(made, tmp_path)
    assert job.links.height == 0
    assert job.answers.program == ()


# --- cut and doubled


@pytest.mark.parametrize("share", [0.38, 0.62])
def test_a_step_that_a_file_has_a_part_of_is_not_compared(tmp_path: Path, share: float) -> None:
    """The mark of a step stands before its events: a file that ends in between seems to have a silent step."""
    made = Simulated(4, seed=15, cut={2: share})
    made.run(ddp)
    job = judged(made, tmp_path)
    assert job.answers.program == ()
    assert job.answers.turns is None
    assert job.ranks["steps"].to_list()[2] == int(6 * share)


def test_a_file_that_ends_before_its_first_step_does_costs_no_other_rank(tmp_path: Path) -> None:
    made = Simulated(4, seed=15, cut={2: 0.1}, slow={1: 1.2})
    made.run(ddp)
    job = judged(made, tmp_path)
    assert (job.empty, job.missing, job.apart, job.bounded) == ((2,), (), False, True)
    assert [late.rank for late in job.answers.program] == [1]
    assert any("no whole step and no collective is recorded: rank 2." in text for text in answer((job,)))


def copied(made: Simulated, folder: Path, ranks: Iterable[int], name: str = "rank{rank}.pt.trace.json") -> None:
    """Writes some ranks' files of a job into a folder that has others."""
    with TemporaryDirectory() as own:
        made.write(Path(own))
        for rank in ranks:
            copy(Path(own) / f"rank{rank}.pt.trace.json", folder / name.format(rank=rank))


@pytest.mark.parametrize(("strange", "factor"), [((5,), 1.35), ((4, 5, 6, 7), 1.0)])
def test_ranks_of_another_job_are_compared_with_nobody(tmp_path: Path, strange: tuple[int, ...], factor: float) -> None:
    """Two jobs of one program, each with ranks that the folder lacks of the other: numbers and sizes are alike."""
    made, other = Simulated(8, seed=16, slow={2: 1.15}), Simulated(8, seed=17)
    made.run(ddp)
    other.run(partial(ddp, forward=520 * factor))
    made.write(tmp_path)
    copied(other, tmp_path, strange)
    files, _ = find_ranks(str(tmp_path))
    (job,) = jobs([summarise(open_path(file.path, cache=False).main, rank=file.rank) for file in files])
    assert job.strange == strange
    assert [late.rank for late in job.answers.program] == [2]
    assert job.links.height == 0
    said = answer((job,))[0]
    assert said.startswith("Of another job than the other")


def test_recordings_that_are_there_twice_are_no_part_of_what_was_launched(tmp_path: Path) -> None:
    """Beside run.json lie a newer copy of a rank, and a smaller job."""
    made, other = Simulated(8, seed=18), Simulated(4, seed=19)
    made.run(ddp)
    other.run(ddp)
    made.write(tmp_path)
    made.write_hosts(tmp_path)
    copied(made, tmp_path, [5], "rank{rank}.pt.trace (1).json")
    copied(other, tmp_path, range(4), "b_rank{rank}.pt.trace.json")
    files, said = find_ranks(str(tmp_path))
    assert [file.path.name for file in files] == [f"rank{rank}.pt.trace.json" for rank in range(8)]
    assert any("left out: b_rank0.pt.trace.json and 3 more, rank5.pt.trace (1).json" in each for each in said)


# --- missing


@pytest.mark.parametrize(
    ("program", "size", "culprit", "here"),
    [(pipeline, 12, 4, (1, 2, 7, 9)), (tensor, 16, 5, (0, 1, 3, 4, 6, 7, 8, 9, 11, 12, 13, 14, 15))],
)
def test_who_waited_for_a_rank_that_is_missing_is_not_late(tmp_path, program, size, culprit, here) -> None:
    made = Simulated(size, seed=13, slow={culprit: 1.3})
    made.run(program)
    copied(made, tmp_path, here)
    files, _ = find_ranks(str(tmp_path))
    (job,) = jobs([summarise(open_path(file.path, cache=False).main, rank=file.rank) for file in files])
    assert job.missing == tuple(rank for rank in range(size) if rank not in here)
    assert (job.answers.program, job.answers.recording, job.answers.turns, job.links.height) == ((), None, None, 0)


def test_a_stop_of_a_rank_that_is_missing_is_no_slow_transfer(tmp_path: Path) -> None:
    made = Simulated(12, seed=14, pauses={(3, 2): 60_000})
    made.run(ddp)
    copied(made, tmp_path, (1, 2, 7, 9))
    files, _ = find_ranks(str(tmp_path))
    (job,) = jobs([summarise(open_path(file.path, cache=False).main, rank=file.rank) for file in files])
    assert (job.answers.program, job.answers.recording) == ((), None)
    assert any("in slow transfers or waiting for missing ranks" in text for text in answer((job,)))


def test_a_link_is_judged_by_what_its_bytes_need(tmp_path: Path) -> None:
    """The one group of a host has no like; at 300 of 450 GB/s it is as fast as measured ones, at a fifth it is not."""
    for gpu, by, named in (("NVIDIA H200", 5.0, True), ("NVIDIA H200", 1.0, False), ("GPU X", 5.0, False)):
        made = Simulated(8, seed=21, links={(3, 4): by}, gpu=gpu)
        made.run(ddp)
        job = judged(made, tmp_path / f"{gpu}{by}")
        assert (job.links.height == 1) is named
        if named:
            slow = job
    (row,) = slow.links.to_dicts()
    moved = (32 << 20) * 1.75  # of a ring of eight, twice 7/8 of the bytes
    assert (row["link"], row["least_ns"]) == ("NVLink 4", pytest.approx((32 << 20) / 450))
    assert row["most_ns"] == row["usual_ns"] == pytest.approx(20_000 + moved / 225)
    took = [end - arrived for arrived, end in slow.collectives.select("arrived", "end").iter_rows()]
    assert row["more_ns"] == pytest.approx(sum(one - row["most_ns"] for one in took) / 6, rel=0.02)
    (said,) = [text for text in answer((slow,)) if "A link is slow" in text]
    assert "where 32.00 MiB over NVLink 4 take 74.57 µs to 281.0 µs:" in said
