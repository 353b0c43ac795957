"""What one rank waits for, where the recordings of its job know it and its own can't."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from as_json import report
from rank_traces import Job as MadeJob
from rank_traces import Plant
from test_ranks_recorded import found as recorded_jobs

from tracetui.analysis.dependencies.limit import Limit
from tracetui.analysis.ranks.summarise import summarise
from tracetui.analysis.ranks.together.job import Job, jobs
from tracetui.analysis.ranks.together.own_verdict import in_its_job
from tracetui.parsers import open_path

if TYPE_CHECKING:
    from pathlib import Path

OWN = Limit("host", "Waits for the CPU, not the GPU (steps 4-6).")


def made(folder: Path, *plants: Plant) -> Job:
    MadeJob(ranks=4, plants=plants).write(folder)
    (job,) = jobs([summarise(trace) for trace in open_path(folder, cache=False).traces])
    return job


def test_a_rank_that_waits_for_a_late_one_waits_for_nothing_else(tmp_path: Path) -> None:
    job = made(tmp_path, Plant(2, "gpu", 14_000))
    said = in_its_job(OWN, job, 0)
    assert said.kind == "ranks"
    assert said.sentence.startswith("Waits for rank 2, which is late in the program: of a step of ")
    assert "GPU" not in said.sentence
    assert in_its_job(OWN, job, 2) is OWN  # nobody is who it waits for
    assert in_its_job(OWN, job, 9) is OWN
    assert in_its_job(OWN, None, 0) is OWN


def test_an_even_job_says_nothing_against_a_rank(tmp_path: Path) -> None:
    job = made(tmp_path)
    assert all(in_its_job(OWN, job, rank) is OWN for rank in range(4))


def test_a_rank_that_comes_last_in_the_recording_alone_is_said_so() -> None:
    """In the even job of H200s rank 0's host came late in the rich recording; rank 3 waited most of its step for it."""
    rich, _ = recorded_jobs("fsdp", "rich", "light")
    said = in_its_job(OWN, rich, 3)
    assert said.kind == "ranks"
    assert said.sentence.startswith("Waits for rank 0, which comes last in this recording: of a step of ")
    assert "can't be told" in said.sentence
    assert in_its_job(OWN, rich, 0) is OWN
    unsure = replace(OWN, kind="unknown", why="recording_cost")
    kept = in_its_job(unsure, rich, 3)
    assert (kept.kind, kept.why) == ("unknown", "recording_cost")
    assert "In its job, of a step of " in kept.sentence


@pytest.mark.parametrize(("kind", "amount"), [("gpu", 14_000), ("host", 12_000)])
def test_the_report_of_each_rank_agrees_with_its_job(tmp_path: Path, kind: str, amount: float) -> None:
    MadeJob(ranks=4, plants=(Plant(2, kind, amount),)).write(tmp_path)
    found = report(open_path(tmp_path, cache=False), sections=("ranks", "overview"))
    assert found["run"]["job"]["said"][0].startswith("In the program rank 2 has ")
    for trace in found["run"]["traces"]:
        waits = trace["overview"]["waits_for"]
        if trace["source"]["rank"] == 2:
            assert waits["what"] != "ranks"
        else:
            assert (waits["what"], waits["sentence"][:18]) == ("ranks", "Waits for rank 2, ")
