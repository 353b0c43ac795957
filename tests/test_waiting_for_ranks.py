"""A rank whose collectives wait for other ranks: what its own recording tells of that, and what it can't."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from as_json import report
from made_run import SGEMM, Made
from sample_runs import recorded
from simulated_job import Job as Simulated
from simulated_job import three_d
from test_ranks_recorded import found as recorded_jobs

from tracetui.analysis.dependencies.costs import transfers
from tracetui.analysis.dependencies.graph import graph
from tracetui.analysis.dependencies.limit import Limit, _uneven, limit
from tracetui.analysis.dependencies.model import model
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.ranks.job import Job, jobs
from tracetui.analysis.ranks.one_rank import in_its_job
from tracetui.analysis.ranks.summarise import summarise
from tracetui.analysis.selection import select
from tracetui.parsers import Run, open_path

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
NCCL_STREAM = 20


def described(elements: int) -> dict[str, object]:
    return {
        "Collective name": "allreduce",
        "In msg nelems": elements,
        "Out msg nelems": elements,
        "dtype": "Float",
        "Group size": 2,
        "Process Group Name": "0",
    }


def job(waits_us: tuple[float, ...], *, sizes: bool = True) -> Made:
    """Steps of 200 µs of products, an all-reduce that waits, one of more bytes that does not, and a last product."""
    made = Made()
    begin = 0.0
    for step, waits in enumerate(waits_us):
        made.step(step, begin, begin + 300)
        made.launch(SGEMM, (begin + 10, begin + 15), (begin + 20, begin + 220))
        made.host("cuda_runtime", "cudaStreamWaitEvent", begin + 20, begin + 21)
        reduced = begin + 221 + 40 + waits
        few, more = (described(1000), described(2000)) if sizes else ({}, {})
        made.launch(ALL_REDUCE, (begin + 22, begin + 26), (begin + 221, reduced), stream=NCCL_STREAM, **few)
        made.launch(ALL_REDUCE, (begin + 30, begin + 34), (reduced, reduced + 50), stream=NCCL_STREAM, **more)
        made.host("cuda_runtime", "cudaStreamWaitEvent", begin + 36, begin + 37)
        made.launch(SGEMM, (begin + 38, begin + 42), (reduced + 51, reduced + 151))
        made.host("cuda_runtime", "cudaStreamSynchronize", begin + 44, reduced + 155)
        begin = reduced + 160
    return made


def test_a_transfer_takes_no_longer_than_that_of_more_bytes(tmp_path: Path) -> None:
    trace = job((700, 500, 600)).trace(tmp_path)
    bounds = transfers(select(trace))
    assert bounds is not None
    collective = np.flatnonzero(bounds >= 0)
    # each first one took 540 µs and more; the second, of twice the bytes, took 50
    assert bounds[collective].tolist() == [50_000] * 6
    assert (bounds[trace.device["name"].cast(str).to_numpy() == SGEMM] == -1).all()


def test_without_sizes_the_same_place_of_another_step_is_the_bound(tmp_path: Path) -> None:
    bounds = transfers(select(job((700, 500, 600), sizes=False).trace(tmp_path)))
    assert bounds is not None
    assert bounds[bounds >= 0].tolist() == [540_000, 50_000] * 3


def test_the_rich_recording_tells_the_sizes_of_the_light_one(tmp_path: Path) -> None:
    (tmp_path / "light").mkdir()
    light = job((700, 500, 600, 650), sizes=False).trace(tmp_path / "light")
    bounds = transfers(select(light), job((900, 800, 990)).trace(tmp_path))
    assert bounds is not None
    assert bounds[bounds >= 0].tolist() == [50_000] * 8


def test_a_recording_without_collectives_has_no_bounds(tmp_path: Path) -> None:
    made = Made()
    made.step(1, 0, 100)
    made.launch(SGEMM, (10, 15), (20, 60))
    assert transfers(select(made.trace(tmp_path))) is None


def test_clean_steps_tell_that_other_ranks_are_late(tmp_path: Path) -> None:
    """The host launches within 42 µs, the GPU works for 390, and the step takes some 1,000."""
    found = model(select(job((700, 500, 600, 650, 550)).trace(tmp_path)), (1_000_000, 990_000, 1_010_000))
    assert found is not None
    assert found.waits_for == "ranks"
    assert found.host_free_ns == pytest.approx(415_000, rel=0.05)
    assert max(found.ranks_in_time_ns) == pytest.approx(415_000, rel=0.05)


def test_one_rank_alone_can_not_tell_whether_recording_made_the_others_late(tmp_path: Path) -> None:
    said = limit(select(job((700, 500, 600, 650, 550)).trace(tmp_path)), "all steps", "a step")
    assert said.kind == "unknown"
    assert said.sentence.startswith("Likelier waits for other ranks than for the GPU: a step takes ")
    assert "% of it waiting for other ranks; " in said.sentence
    assert ", by what recording added" in said.sentence


def test_a_stream_waits_for_what_was_launched_before_though_later_work_ended_last(tmp_path: Path) -> None:
    """Beside the start of the all-reduce the GPU's next short kernel has ended: it was launched later."""
    made = Made()
    for step in range(4):
        begin = 1000.0 * step
        made.step(step, begin, begin + 400)
        made.launch(SGEMM, (begin + 10, begin + 15), (begin + 20, begin + 500))
        made.host("cuda_runtime", "cudaStreamWaitEvent", begin + 20, begin + 21)
        made.launch(ALL_REDUCE, (begin + 22, begin + 26), (begin + 506, begin + 800), stream=NCCL_STREAM)
        made.launch(SGEMM, (begin + 30, begin + 34), (begin + 501, begin + 504))
    found = graph(select(made.trace(tmp_path)))
    assert found is not None
    assert found.unknown_waits == 0
    collectives = np.flatnonzero(found.work.stream == found.work.stream[1])
    assert found.work.after[collectives].tolist() == [0, 3, 6, 9]


def test_the_mean_stands_beside_a_median_that_hides_long_steps() -> None:
    assert _uneven([21_000_000, 20_000_000, 380_000_000, 22_000_000]) == "the mean of 4 is 110.8 ms"
    assert _uneven([21_000_000, 20_000_000, 23_000_000, 22_000_000]) == ""
    assert _uneven([20_000_000, 380_000_000]) == ""  # of two steps neither is the usual one


OWN = Limit("host", "Waits for the CPU, not the GPU (steps 4-6).")


def made(folder: Path, **plant: object) -> Job:
    Simulated(4, 3, **plant).run(three_d).write(folder)  # type: ignore[arg-type]
    (job,) = jobs([summarise(trace) for trace in open_path(folder, cache=False).traces])
    return job


def test_a_rank_that_waits_for_a_late_one_waits_for_nothing_else(tmp_path: Path) -> None:
    job = made(tmp_path, extra={2: 14_000})
    said = in_its_job(OWN, job, 0)
    assert said.kind == "ranks"
    assert said.sentence.startswith("Waits for rank 2, which is late in the program: of a step as recorded it waits ")
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
    assert said.sentence.startswith(
        "Waits for rank 0, which comes last in this recording: of a step as recorded it waits "
    )
    assert "can't be told" in said.sentence
    assert in_its_job(OWN, rich, 0) is OWN
    unsure = replace(OWN, kind="unknown", why="recording_cost")
    kept = in_its_job(unsure, rich, 3)
    assert (kept.kind, kept.why) == ("unknown", "recording_cost")
    assert "In its job, of a step as recorded it waits " in kept.sentence


@pytest.mark.parametrize("plant", [{"extra": {2: 14_000}}, {"sleeps": {2: ("load_batch", 12_000)}}])
def test_the_report_of_each_rank_agrees_with_its_job(tmp_path: Path, plant: dict[str, object]) -> None:
    Simulated(4, 3, **plant).run(three_d).write(tmp_path)  # type: ignore[arg-type]
    found = report(open_path(tmp_path, cache=False), sections=("ranks", "overview"))
    assert found["run"]["job"]["said"][0].startswith("In the program rank 2 has ")
    for trace in found["run"]["traces"]:
        waits = trace["overview"]["waits_for"]
        if trace["source"]["rank"] == 2:
            assert waits["what"] != "ranks"
        else:
            assert (waits["what"], waits["sentence"][:18]) == ("ranks", "Waits for rank 2, ")


JOBS = ("ddp_gpu", "ddp_host", "fsdp")
WORDS = {
    "host": ("Waits for the CPU", "Waits for its CPU or for other ranks"),
    "gpu": ("Waits for the GPU",),
    "ranks": ("Waits for other ranks",),
    "communication": ("Waits for communication",),
    "dataloader": ("Waits for the data loader", "Waits for its CPU or for other ranks"),
}


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("rank", range(4))
def test_the_sentence_says_what_the_verdict_is(job: str, rank: int) -> None:
    truth = json.loads(recorded(f"ranks4/{job}/truth_rank{rank}.json").read_text())
    trace = open_path(recorded(f"ranks4/{job}/rich/rank{rank}.pt.trace.json.gz")).main
    trace = replace(trace, clean_step_ns=(int(1e6 * truth["clean_step_ms"]),))
    facts = Facts(Run(trace.source.path, (trace,)))
    assert facts.verdict.kind != "unknown"
    assert facts.verdict.sentence.startswith(WORDS[facts.verdict.kind])
