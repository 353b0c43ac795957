"""Both answers on recordings of four H200 whose truth is known (docs/metrics.md, Many ranks)."""

import json
from dataclasses import replace
from functools import cache

import pytest
from rank_summaries import Made, with_frames
from sample_runs import OUTSIDE, recorded

from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.declared.gpu import S14
from tracetui.analysis.findings.jobs import exposed_communication
from tracetui.analysis.ranks.job import Job, jobs
from tracetui.analysis.ranks.of_run import jobs_of
from tracetui.analysis.ranks.sentences import answer, at_the_median
from tracetui.analysis.ranks.summarise import summarise
from tracetui.analysis.ranks.summary import RankSummary
from tracetui.parsers import open_path
from tracetui.parsers.progress import Watch


@cache
def summaries(name: str) -> dict[tuple[int, str], RankSummary]:
    """The ranks of a folder of rich/ and light/, with the clean step that was measured beside each."""
    folder = OUTSIDE / "ranks4" / name
    if not folder.exists():
        pytest.skip(f"{name} is too large to be copied, and not in {OUTSIDE}")
    made = {}
    for file in open_path(folder).rank_files:
        assert file.read is not None
        truth = json.loads((folder / f"truth_rank{file.rank}.json").read_text())
        summary = summarise(file.read(Watch()), recorded_pass=file.recorded_pass)
        made[file.rank, file.recorded_pass] = replace(summary, clean_step_ns=(round(truth["clean_step_ms"] * 1e6),))
    return made


@cache
def found(name: str, *passes: str) -> tuple[Job, ...]:
    """The jobs of a folder, of these passes."""
    return jobs([summary for (_, of), summary in summaries(name).items() if of in passes])


def test_waiting_for_others_is_no_communication_that_can_be_hidden() -> None:
    summaries("ddp_gpu")  # or skipped
    run = open_path(OUTSIDE / "ranks4" / "ddp_gpu")
    late = next(trace for trace in run.traces if trace.info.rank == 2)
    assert jobs_of(run)
    found = exposed_communication(Facts(run, late), S14.limits({}))
    assert found is not None
    assert found.evidence[0].value == pytest.approx(13.4e6, abs=0.1e6)
    # 20.47 ms in collectives, of which it waits 17.2 ms for other ranks
    assert found.impact_ns == pytest.approx(3.25e6, abs=0.05e6)


def test_more_gpu_work_on_one_rank() -> None:
    rich, light = found("ddp_gpu", "rich", "light")
    assert [job.recorded_pass for job in (rich, light)] == ["rich", "light"]
    last = rich.answers.recording
    assert last is not None
    assert (last.rank, last.last, last.of) == (1, 29, 42)
    assert last.cause is not None
    assert last.cause.kind == "untold"
    (late,) = rich.answers.program
    assert (late.rank, late.last) == (2, 13)
    assert late.gpu_ns == pytest.approx(14.3e6, abs=0.1e6)
    assert late.cause is not None
    assert (late.cause.kind, late.cause.name) == ("gpu_work", "uneven_work")
    assert rich.clean_step_ns == pytest.approx(30.07e6, abs=0.05e6)
    # the figures of another program, made from the files themselves
    assert [round(ns / 1e6, 1) for ns in rich.ranks["wait_ns"]] == [27.2, 5.6, 17.3, 33.4]
    assert rich.transfer_ns == pytest.approx(2.9e6, abs=0.02e6)
    assert rich.collectives.height == 42
    last = light.answers.recording
    assert last is not None
    assert (last.rank, last.last, last.of) == (2, 34, 42)
    assert [late.rank for late in light.answers.program] == [2]
    said = " ".join(answer((rich, light)))
    assert "in uneven_work" in said
    assert "30.07 ms without the profiler" in said
    assert "In the light recording rank 2 comes last" in said


def test_a_rank_that_loads_late() -> None:
    (rich,) = found("ddp_host", "rich")
    last = rich.answers.recording
    assert last is not None
    assert (last.rank, last.last, last.of) == (1, 42, 42)
    # all waits together are 34.4 ms; beside a part of them the others computed
    assert last.late_ns == pytest.approx(26.5e6, abs=0.05e6)
    assert last.silent_ns == pytest.approx(12.2e6, abs=0.1e6)
    (late,) = rich.answers.program
    assert late.cause is not None
    assert (late.rank, late.cause.kind, late.cause.name) == (1, "host", "load_batch")
    assert late.silent_ns == pytest.approx(12.3e6, abs=0.1e6)  # 12 ms were planted
    assert [round(ns / 1e6, 1) for ns in rich.ranks["wait_ns"]] == [34.2, 0.0, 34.3, 34.3]
    assert rich.path["rank"].to_list() == [1]


def test_an_even_job_names_nobody() -> None:
    rich, light = found("fsdp", "rich", "light")
    for job, rank, last in ((rich, 0, 73), (light, 3, 72)):
        assert job.answers.program == ()
        assert job.answers.recording is not None
        assert (job.answers.recording.rank, job.answers.recording.last, job.answers.recording.of) == (rank, last, 78)
        assert job.answers.recording.cause is not None
        assert job.answers.recording.cause.kind == "untold"
        assert job.one_clock
    assert [round(ns / 1e6, 1) for ns in rich.ranks["wait_ns"]] == [1.6, 69.1, 69.1, 54.7]
    assert rich.transfer_ns == pytest.approx(3.0e6, abs=0.02e6)
    assert any("can't be told" in text for text in answer((rich, light)))


def of_tests(name: str) -> tuple[Job, ...]:
    """The jobs of two ranks in tests/data."""
    run = open_path(recorded(f"chrome/{name}"), cache=False)
    return jobs([summarise(trace) for trace in run.traces])


@pytest.mark.parametrize("name", ["ddp_gpu", "ddp_host", "fsdp", "ddp_vit_small_2ranks", "gloo_2ranks"])
def test_parts_and_the_rest_make_the_lateness(name: str) -> None:
    for job in of_tests(name) if name.endswith("2ranks") else found(name, "rich", "light"):
        excess = dict(job.ranks.select("rank", "excess_ns").iter_rows())
        for late in job.answers.program:
            assert sum(late.parts.values()) == pytest.approx(late.late_ns, abs=1e-6)
            assert late.late_ns == pytest.approx(excess[late.rank], abs=1e-6)
            assert 0 < late.named_ns == sum(late.parts[part] for part in late.named_by)
        last = job.answers.recording
        # nothing is counted twice: what was lost is a part of the path, and what a rank waits a part of its step
        if not job.calls.height:
            continue
        whole = job.calls["end"].max() - job.calls["begin"].min()  # type: ignore[operator]
        assert 0 < job.lost["lost_ns"].sum() < whole
        assert float((job.path["own_ns"] + job.path["transfer_ns"]).sum()) * job.called_steps <= whole * 1.000001
        assert (job.ranks["wait_ns"] + job.ranks["transfer_ns"]).max() <= whole / job.called_steps
        if last is not None:
            assert min(last.parts.values()) >= 0
            assert sum(last.parts.values()) + last.untold_ns == pytest.approx(last.late_ns, abs=1e-6)
            assert last.late_ns == job.ranks["late_ns"].max()


def test_what_a_late_rank_has_less_is_said_beside_what_it_has_more() -> None:
    (rich,) = found("ddp_host", "rich")
    (late,) = rich.answers.program
    assert late.named_by == ("silent",)
    assert late.gpu_ns == pytest.approx(-1.854e6, abs=500)
    assert late.late_ns == pytest.approx(10.42e6, abs=5e3)
    said = answer((rich,), gains=True)[0]
    assert said.startswith(answer((rich,))[0])  # a run's page has its gain from rule S20, of its own step
    assert "12.27 ms more silent host time per step" in said
    assert ", and 1.854 ms less GPU work, which makes 10.42 ms. At the median rank's silent host time" in said
    step = rich.clean_step_ns
    assert step is not None
    most = at_the_median(late, rich)  # nobody has to take the GPU work on that it has less
    assert most == pytest.approx(100 * late.silent_ns / step)


def test_what_is_unknown_of_a_rank_makes_no_excess_of_0() -> None:
    summaries = [with_frames(one, steps=one.steps.with_columns(own_gpu_ns=None, silent_ns=None, loader_ns=None))
                 for one in Made(ranks=4, late={2: 3_000_000}).summaries()]  # fmt: skip
    (job,) = jobs(summaries)
    assert job.ranks["excess_ns"].null_count() == 4
