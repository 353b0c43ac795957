"""What is said of jobs with a planted cause (`planted_ranks`): who made the others wait, how much, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest
from planted_ranks import Planted

from tracetui.analysis.ranks.job import Job, jobs
from tracetui.analysis.ranks.sentences import answer
from tracetui.analysis.ranks.summarise import summarise
from tracetui.parsers import open_path
from tracetui.parsers.runs.opening import find_ranks

if TYPE_CHECKING:
    from pathlib import Path


def judged(made: Planted, folder: Path) -> Job:
    """The job as its folder has it."""
    made.write(folder)
    files, _ = find_ranks(str(folder))
    traces = [open_path(file.path, cache=False) for file in files]
    (job,) = jobs(
        [summarise(run.main, rank=file.rank, manifest=run.manifest) for file, run in zip(files, traces, strict=True)]
    )
    return job


def test_ranks_that_stop_in_turn(tmp_path: Path) -> None:
    """Each rank stops once, two of them in the same step; on average all are alike."""
    made = Planted(8, seed=3, pauses={(number, number % 6): 40_000 for number in range(8)})
    even = Planted(8, seed=3)
    made.ddp()
    even.ddp()
    job = judged(made, tmp_path)
    assert job.answers.program == ()
    turns = job.answers.turns
    assert turns is not None
    assert (turns.part, turns.steps, len(turns.ranks)) == ("silent", 6, 6)
    # hosts run ahead of their GPUs, which hides a part of each stop
    assert turns.lost_ns == pytest.approx(1000 * (made.lasted - even.lasted) / 6, rel=0.02)
    assert sum(ns for _, ns in turns.ranks) == pytest.approx(turns.lost_ns)
    assert any("late in turn, each by more silent host time" in text for text in answer((job,)))


def test_a_pause_that_is_met_again_counts_once(tmp_path: Path) -> None:
    """The others wait 60 times for what one rank did once a step, before its forward pass."""
    made = Planted(8, seed=4, sleeps={3: ("load_batch", 9_000)})
    made.ddp(layers=64, forward=130, bucket=90)
    job = judged(made, tmp_path)
    last = job.answers.recording
    assert last is not None
    assert (last.rank, last.last) == (3, last.of)
    assert last.late_ns == pytest.approx(9e6, rel=0.05)
    assert last.silent_ns == pytest.approx(9e6, rel=0.05)
    waited = job.calls.filter(pl.col("rank") == 0)["wait_ns"].sum() / 6
    assert waited > 1.5 * last.late_ns


def test_waits_on_several_streams_are_no_longer_than_the_step(tmp_path: Path) -> None:
    made = Planted(8, seed=5)
    made.pipeline()
    job = judged(made, tmp_path)
    assert job.ranks.select((pl.col("wait_ns") + pl.col("transfer_ns") <= pl.col("step_ns")).all()).item()
    every = job.calls.group_by("rank").agg(pl.col("wait_ns").sum() / job.called_steps)
    assert every["wait_ns"].max() > job.step_ns  # as they stand, they are
    assert job.answers.recording is None
    assert job.answers.turns is None
