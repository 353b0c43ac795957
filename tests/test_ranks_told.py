"""What tells a rank that is late in the program from one that was slowed, stopped once, or waited for a dead one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
import pytest
from rank_summaries import STEP_NS, Made
from rank_traces import Job as MadeJob
from rank_traces import Plant

from tracetui.analysis.ranks.environment import environment
from tracetui.analysis.ranks.present import rank_rows
from tracetui.analysis.ranks.summarise import summarise
from tracetui.analysis.ranks.summary import WORK
from tracetui.analysis.ranks.together.causes import Works
from tracetui.analysis.ranks.together.job import Job, jobs
from tracetui.analysis.ranks.together.late import Cause, Late
from tracetui.analysis.ranks.together.said import answer, at_the_median, cause_words, step_words
from tracetui.analysis.scope import Scope
from tracetui.parsers import open_path
from tracetui.parsers.runs.manifest import parse
from tracetui.parsers.trace import Source, Trace, TraceInfo

if TYPE_CHECKING:
    from pathlib import Path

    from tracetui.analysis.ranks.summary import RankSummary


def summaries(folder: Path, **how: object) -> list[RankSummary]:
    """Of a simulated job."""
    MadeJob(**how).write(folder)  # type: ignore[arg-type]
    return [summarise(trace) for trace in open_path(folder, cache=False).traces]


def job_of(found: list[RankSummary]) -> Job:
    (job,) = jobs(found)
    return job


def longer(one: RankSummary, silent_ns: int) -> RankSummary:
    """The summary with one more step, in which its host was silent."""
    last = one.steps[-1].with_columns(
        pl.col("step", "begin") + 1, end=pl.col("end") + silent_ns, silent_ns=pl.lit(silent_ns, pl.Int64)
    )
    return replace(one, steps=pl.concat([one.steps, last]))


def test_the_step_in_which_a_rank_waits_for_a_dead_one_is_not_compared() -> None:
    even = Made(ranks=3, steps=6).summaries()
    found = [longer(even[0], 50 * STEP_NS), *even[1:]]
    job = job_of(found)
    assert job.answers.program == ()
    assert job.compared == tuple(range(6))
    assert job.left_out == {0: (6,)}
    assert any(
        said.startswith("Compared are steps 0-5, which all ranks have: rank 0 also has 6") for said in answer((job,))
    )
    assert rank_rows(found, Scope())["step_ns"].to_list() == [STEP_NS] * 3
    assert job_of(even).compared == ()


def test_a_rank_that_was_cut_after_few_steps_takes_none_from_the_others() -> None:
    found = Made(ranks=3, steps=6).summaries()
    found[2] = replace(found[2], steps=found[2].steps[:1])
    job = job_of(found)
    assert (job.compared, job.left_out) == ((), {})
    assert job.ranks["steps"].to_list() == [6, 6, 1]


def test_kernels_that_collectives_slow_are_no_work_of_its_own(tmp_path: Path) -> None:
    """On two H200 the same kernels took 1.2 times as long on the rank whose collectives waited beside them."""
    found = summaries(tmp_path, ranks=3, plants=(Plant(1, "host", 3000), Plant(1, "throttled", 1.15)))
    (late,) = job_of(found).answers.program
    assert late.named_by == ("silent",)
    assert late.gpu_ns > 500_000
    assert late.named_ns == pytest.approx(3e6, rel=0.02)
    slow = summaries(tmp_path / "slow", ranks=3, plants=(Plant(1, "host", 3000), Plant(1, "throttled", 1.3)))
    assert job_of(slow).answers.program[0].named_by == ("gpu", "silent")


def test_pythons_own_collector_is_known_by_its_function(tmp_path: Path) -> None:
    found = summaries(tmp_path, ranks=3, plants=(Plant(1, "host", 3000, "<built-in function collect>"),))
    (late,) = job_of(found).answers.program
    assert late.cause is not None
    assert late.cause.kind == "collection"


def test_a_stop_that_the_other_recording_lacks_is_not_the_programs(tmp_path: Path) -> None:
    stopped = [
        replace(one, recorded_pass="rich") for one in summaries(tmp_path / "a", plants=(Plant(1, "gc", 20_000),))
    ]
    even = [replace(one, recorded_pass="light") for one in summaries(tmp_path / "b")]
    again = [replace(one, recorded_pass="light") for one in stopped]
    rich, _ = jobs([*stopped, *even])
    assert rich.answers.program == ()
    assert [late.rank for late in rich.answers.once] == [1]
    assert not rich.ranks["late"].any()
    said = answer((rich,))
    assert said[0].startswith("In the program no rank is late")
    assert said[1].startswith("In the rich recording rank 1 stopped once: 20.0")
    both, _ = jobs([*stopped, *again])
    assert [late.rank for late in both.answers.program] == [1]
    assert both.answers.once == ()


def test_a_stop_in_one_step_is_a_share_of_the_recorded_step(tmp_path: Path) -> None:
    """A clean step is the median of several, which has nothing of it: the share would be all of the step."""
    found = [replace(one, clean_step_ns=(9_000_000,)) for one in summaries(tmp_path, plants=(Plant(1, "gc", 60_000),))]
    job = job_of(found)
    (late,) = job.answers.program
    assert late.cause is not None
    assert late.cause.step is not None
    assert job.step_ns is not None
    assert at_the_median(late, job) == pytest.approx(100 * late.named_ns / job.step_ns)
    assert late.named_ns > 9_000_000


def test_stretches_that_are_just_long_enough_to_count_name_nobody() -> None:
    """Nine stretches of 1.05 ms on one rank, and of 0.95 ms on the others, which are not counted."""
    even = Made(ranks=2, steps=7).summaries()
    rows = [(step, "silent", "", 1_355_000, 1 + (step < 2), None) for step in range(7)]
    work = pl.DataFrame(rows, schema=WORK, orient="row")
    silent = even[0].steps.with_columns(silent_ns=pl.lit(1_355_000, pl.Int64), end=pl.col("begin") + 20_000_000)
    job = job_of([replace(even[0], steps=silent, work=work), replace(even[1], work=work[:0])])
    assert job.answers.program == ()


def test_sends_of_a_light_recording_make_nobody_late() -> None:
    """Their kernels don't say who waits for whom: in a pipeline each stage waits for the one before it."""
    found = Made(ranks=2, late={1: 3_000_000}).summaries()
    sends = [replace(one, collectives=one.collectives.with_columns(kind=pl.lit("send_recv"))) for one in found]
    assert job_of(found).answers.recording is not None
    job = job_of(sends)
    assert set(job.collectives["kind"]) == {"send_recv"}
    assert job.answers.recording is None
    assert job.ranks["collectives"].to_list() == [0, 0]


def test_of_two_ranks_each_has_its_own_wait() -> None:
    job = job_of(Made(ranks=2, late={1: 3_000_000}).summaries())
    assert "on rank 0 and " in step_words(job)
    assert "on rank 1 are waiting for others" in step_words(job)


def test_other_kernels_of_as_many_launches_tell_a_larger_input() -> None:
    rows = [("gemm_64", 0, 100, 10), ("norm", 0, 20, 5), ("gemm_128", 1, 150, 16), ("norm", 1, 30, 7)]
    frame = pl.DataFrame(
        [(-1, "kernel", name, ns, 50, blocks, place) for name, place, ns, blocks in rows],
        schema={**WORK, "place": pl.Int64()},
        orient="row",
    )
    works = Works(frame, (1, 1))
    assert works.slower(1, [0, 1]) is None
    assert works.larger(1, [0, 1]) == pytest.approx(23 / 15)
    more = frame.with_columns(count=pl.when(pl.col("place") == 1).then(51).otherwise("count"))
    assert Works(more, (1, 1)).larger(1, [0, 1]) is None  # it launches something of its own


def test_other_processes_and_how_a_rank_ended_are_said_of_it() -> None:
    said = {
        "schema": "tracetui.run/1",
        "power": {"before": {"gpu_processes": [{"pid": 7, "name": "python3"}]}},
        "ranks": [{"rank": 0}, {"rank": 1, "error": "ValueError: a bad sample"}],
    }
    empty = Trace.empty(TraceInfo("chrome", "Kineto"), Source(__file__, 0))  # type: ignore[arg-type]
    first, second = (dict(environment(empty, parse(said), rank)) for rank in (0, 1))
    assert first["other processes on its GPUs"] == "python3"
    assert (first.get("ended by"), second["ended by"]) == (None, "ValueError: a bad sample")
    late = Late(1, 2e6, 2e6, named_by=("gpu",))
    cause = Cause("slow_gpu", "", 2e6, 2.75, throttled_by="sw_power_cap", beside="python3")
    assert cause_words(cause, late).endswith(
        "run.json says its GPU was slowed down by sw_power_cap, and that another process used a GPU of its machine"
        " (python3)"
    )
    assert "lower clock" not in cause_words(replace(cause, throttled_by=""), late)
