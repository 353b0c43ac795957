"""Jobs that no rule was made for, with known plants: 3D parallelism, experts, steps that a rank lacks, odd names."""

import shutil
from functools import partial
from pathlib import Path

import pytest
from nsys_file import NsysFile
from simulated_job import BASE_NS, FIRST_STEP, PLAIN, experts, three_d
from simulated_job import Job as Simulated
from simulated_job import two_kinds as in_turns
from test_nsys_recordings import COLLECTIVE, COMM, FIELDS, NCCL_DOMAIN, payload

from tracetui.analysis.ranks.job import Job, jobs, uneven_all_to_all
from tracetui.analysis.ranks.of_run import jobs_of
from tracetui.analysis.ranks.sentences import answer, in_recording, step_words
from tracetui.analysis.ranks.summarise import summarise
from tracetui.parsers import Run, open_path
from tracetui.parsers.progress import Watch
from tracetui.parsers.runs.opening import find_ranks

EXTRA_US = 3_000.0


def job_of(folder: Path, run: Run | None = None) -> Job:
    """The job in a folder, however many ranks it has."""
    run = run or open_path(folder, cache=False)
    if not run.unread:
        (job,) = jobs_of(run)
        return job
    (job,) = jobs([summarise(file.read(Watch())) for file in run.rank_files if file.read is not None])
    return job


def late(job: Job) -> dict[int, str]:
    """Who is late in the program, and why."""
    return {one.rank: one.cause.kind if one.cause is not None else "" for one in job.answers.program}


def two_kinds(size: int, extra: dict[int, float], steps: int = 4, **how: object) -> Simulated:
    return Simulated(size, steps, extra=extra, **how).run(in_turns)  # type: ignore[arg-type]


def written(made: Simulated, folder: Path, name: str = PLAIN, *, header: bool = True) -> Path:
    """Writes the job; returns its folder."""
    made.write(folder, name, header=header)
    return folder


# --- tensor, pipeline and data parallel


@pytest.mark.parametrize(
    ("size", "tensor", "stages", "plant", "cause"),
    [
        (8, 2, 2, {"sleeps": {5: ("read_shard", 3000.0)}}, "host"),
        (12, 2, 3, {"slow": {5: 1.5}}, "slow_gpu"),
        (8, 2, 2, {}, ""),
    ],
)
def test_a_straggler_in_one_tensor_group_of_many(tmp_path, size, tensor, stages, plant, cause) -> None:
    made = Simulated(size, 4, **plant)  # type: ignore[arg-type]
    made.run(partial(three_d, tensor=tensor, stages=stages))
    job = job_of(written(made, tmp_path))
    assert late(job) == ({5: cause} if cause else {})
    last = job.answers.recording
    assert (last.rank if last is not None else None) == (5 if cause else None)
    if cause:
        for rank in set(range(5 - 5 % tensor, 5 - 5 % tensor + tensor)) - {5}:
            mine = job.waits.filter(job.waits["rank"] == rank).sort("wait_ns", descending=True)
            assert mine["for_rank"][0] == 5, f"rank {rank}"
    assert job.pipeline["ranks"].to_list() == [size // stages] * stages
    # groups of one kind work at the same time: what a rank waits in them is no sum of all of theirs
    assert job.step_ns is not None
    assert job.kinds["wait_ns"].sum() < job.step_ns


def test_a_late_stage_of_a_long_pipeline_is_not_blamed_on_its_host(tmp_path: Path) -> None:
    """Rank 0 comes late to its gradients by what stages behind it wait; its host launches as all others do."""
    made = Simulated(16, 4, slow={5: 1.5}).run(partial(three_d, tensor=2, stages=4))
    job = job_of(written(made, tmp_path))
    assert late(job) == {5: "slow_gpu"}
    last = job.answers.recording
    assert last is not None
    said = in_recording(job)
    assert last.rank == 5 or "is what its pipeline made it wait, or its host" in said


def test_who_is_still_late_at_the_next_gradients_leads_back_to_the_first(tmp_path: Path) -> None:
    """Gradients are reduced while their GPUs compute: the tensor group of a late rank comes late to each of them."""
    Simulated(16, 3, extra={5: 4000.0}).run(partial(three_d, tensor=4)).write(tmp_path)
    job = job_of(tmp_path)
    assert late(job) == {5: "gpu_work"}
    others = job.collectives.filter(~job.collectives["group"].str.starts_with("TP"))
    told = others.filter(others["last_rank"].is_in([4, 6, 7]) & (others["late_ns"] > 1_000_000))
    assert told.height
    assert set(told["root_rank"]) == {5}


def test_one_name_may_stand_for_many_groups(tmp_path: Path) -> None:
    made = Simulated(8, 4, slow={5: 1.5}).run(partial(three_d, tensor=2, stages=2, shared=True))
    job = job_of(written(made, tmp_path))
    assert late(job) == {5: "slow_gpu"}
    assert job.unmatched.height == 0


# --- experts


def test_a_rank_whose_experts_get_more_tokens(tmp_path: Path) -> None:
    loads = (1.0, 1.0, 1.0, 2.5, 0.6, 0.9, 0.5, 0.5)
    for work, named in ((True, {3: "larger"}), (False, {})):
        made = Simulated(8, 4).run(partial(experts, loads=lambda _: loads, layers=3, works=work))
        job = job_of(written(made, tmp_path / str(work)))
        assert late(job) == named
        uneven = uneven_all_to_all(job)
        assert uneven is not None
        assert (uneven.rank, uneven.largest) == (3, pytest.approx(2.5 * (8 << 20), rel=0.35))
        assert uneven.percent > 30
        assert uneven.own_percent is not None
        assert (uneven.own_percent > 30) is work
    even = Simulated(8, 4).run(partial(experts, loads=lambda _: [1.0] * 8))
    uneven = uneven_all_to_all(job_of(written(even, tmp_path / "even")))
    assert uneven is not None
    assert uneven.percent == pytest.approx(0, abs=0.1)


# --- steps


def waits(job: Job, made: Simulated, rank: int, for_rank: int) -> tuple[float, float]:
    """µs per step that one rank waited for another: as said, and as it was."""
    rows = job.waits.filter((job.waits["rank"] == rank) & (job.waits["for_rank"] == for_rank))
    return float(rows["wait_ns"].sum()) / 1e3 / job.called_steps, made.waited[rank, for_rank] / made.steps


@pytest.mark.parametrize(
    ("how", "seq"),
    [
        ({"lacking": {2: (FIRST_STEP,), 3: (FIRST_STEP + 5,)}}, False),
        ({"lacking": {2: (FIRST_STEP + 2,)}}, True),
        ({"lacking": {2: (FIRST_STEP + 2,)}}, False),
        ({"unmarked": {2: (FIRST_STEP + 2,), 3: (FIRST_STEP + 3,)}}, False),
    ],
    ids=["at the ends", "in the middle, numbered", "in the middle", "their marks alone"],
)
def test_steps_that_a_rank_lacks_make_nothing_of_another_step(tmp_path, how, seq) -> None:
    made = two_kinds(4, {1: EXTRA_US}, steps=6, seq=seq, **how)
    job = job_of(written(made, tmp_path))
    assert late(job) == {1: "gpu_work"}
    assert job.one_clock
    said, was = waits(job, made, 0, 1)
    assert said == pytest.approx(was, rel=0.03)
    per_step = job.kinds["per_step"].sum()
    assert per_step == pytest.approx(12, abs=0.01)  # six gathers and six reductions


# --- clocks


@pytest.mark.parametrize("planted", [{}, {6: EXTRA_US}])
def test_a_clock_that_drifts_and_is_steps_off(tmp_path: Path, planted: dict[int, float]) -> None:
    """Steps of 5 and 8 ms on a clock that is 40 ms off: other steps lie nearer in time, but their numbers differ."""
    made = two_kinds(8, planted, steps=30, clocks={3: (40_000.0, 200.0)})
    job = job_of(written(made, tmp_path))
    assert late(job) == dict.fromkeys(planted, "gpu_work")
    assert job.unmatched.height == 0
    fitted = dict(job.clocks.select("rank", "drift_ppm").iter_rows())
    assert fitted[3] - fitted[0] == pytest.approx(200, abs=10)
    assert job.residual_ns is not None
    assert job.residual_ns < 5_000  # ends differ by 3 µs at most
    for rank in planted:
        said, was = waits(job, made, 0, rank)
        assert said == pytest.approx(was, rel=0.03)


# --- what recordings say


@pytest.mark.parametrize(("described", "amd"), [("kernel", False), ("operator", True), ("nowhere", False)])
def test_two_groups_of_the_same_ranks_on_two_streams(tmp_path: Path, described: str, amd: bool) -> None:
    made = two_kinds(8, {6: EXTRA_US}, described=described, amd=amd)
    job = job_of(written(made, tmp_path))
    assert late(job) == {6: "gpu_work"}
    said, was = waits(job, made, 0, 6)
    assert said == pytest.approx(was, rel=0.03)
    if described != "nowhere":
        assert sorted(set(job.collectives["group"])) == ["default_pg", "fsdp_shards"]
        assert set(job.collectives["kind"]) == {"all_gather", "all_reduce"}


def test_what_is_not_recorded_of_many_groups_is_matched_with_nothing(tmp_path: Path) -> None:
    made = Simulated(8, 4, described="nowhere", slow={5: 1.5}).run(partial(three_d, tensor=2, stages=2))
    job = job_of(written(made, tmp_path))
    assert late(job) == {5: "slow_gpu"}
    assert job.collectives.height == 0
    assert any("nothing tells who came last" in said for said in answer((job,)))


# --- other tools


def exported(made: Simulated, number: int, path: Path) -> Path:
    """The same rank as Nsight Systems records it: steps as ranges, collectives with the payloads of NCCL's ranges."""
    file = NsysFile()
    file.row("TARGET_INFO_SESSION_START_TIME", utcEpochNs=BASE_NS, utcTime="", localTime="")
    file.domain("NCCL", NCCL_DOMAIN)
    for schema, fields in FIELDS.items():
        for place, (name, kind, offset, _) in enumerate(fields):
            file.row("NVTX_PAYLOAD_SCHEMA_ENTRIES", domainId=NCCL_DOMAIN, schemaId=schema, idx=place, type=kind,
                     name=name, offset=offset)  # fmt: skip
    groups = {name.split()[0]: place for place, name in enumerate(made.groups)}
    described, events = {}, made.document(number)["traceEvents"]
    for event in events:
        if "Collective name" in event["args"]:
            described[event["args"]["correlation"]] = event["args"]
    for event in events:
        begin, end = (round(1000 * time) for time in (event["ts"], event["ts"] + event["dur"]))
        args = event["args"]
        if event["cat"] == "cuda_runtime":
            file.call(f"{event['name']}_v7000", begin, end, correlation=args.get("correlation", 10**6 + begin % 10**6))
            if (said := described.get(args.get("correlation"))) is not None:
                name = {"allreduce": "ncclAllReduce", "_allgather_base": "ncclAllGather"}[said["Collective name"]]
                told = payload(COLLECTIVE, COMM + groups[said["Process Group Name"]], 2 * said["In msg nelems"])
                file.push_pop(name, begin - 200, end + 200, domain=NCCL_DOMAIN, binaryData=told)
        elif event["cat"] == "kernel":
            file.kernel(event["name"], begin, end, stream=args["stream"], correlation=args["correlation"])
        elif event["cat"] == "user_annotation":
            step = event["name"].startswith("ProfilerStep")
            file.push_pop("train_step" if step else event["name"], begin, end)
    return file.write(path)


def test_ranks_of_nsight_systems(tmp_path: Path) -> None:
    made = two_kinds(4, {2: EXTRA_US}, steps=6)
    for rank in range(4):
        exported(made, rank, tmp_path / f"report_rank{rank}.sqlite")
    run = open_path(tmp_path, cache=False)
    assert (run.ranks, run.others, {trace.info.kind for trace in run.traces}) == ((0, 1, 2, 3), (), {"nsys"})
    job = job_of(tmp_path, run)
    assert late(job) == {2: "gpu_work"}
    assert set(job.collectives["kind"]) == {"all_gather", "all_reduce"}
    said, was = waits(job, made, 0, 2)
    assert said == pytest.approx(was, rel=0.05)


def test_of_ranks_by_two_tools_it_is_said_whose_are_compared(tmp_path: Path) -> None:
    made = two_kinds(4, {2: EXTRA_US}, steps=6)
    folder = written(made, tmp_path)
    for rank in (1, 3):
        exported(made, rank, folder / f"rank{rank}.sqlite")
        (folder / f"rank{rank}.pt.trace.json").unlink()
    job = job_of(folder)
    assert late(job) == {2: "gpu_work"}
    # tools name groups otherwise, so a collective is matched on the ranks of one tool only
    assert set(job.collectives["ranks"]) == {2}
    assert job.bounded
    assert any("matched on few of their ranks" in said for said in answer((job,)))
    assert "at most 1.8" in step_words(job)
    files, _ = find_ranks(folder)
    assert [file.rank for file in files] == [0, 2]  # summaries are of one tool


# --- files


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("node{rank}/trace.json", True),
        ("node{node}/rank{local}.json", True),
        ("Rank-{rank}.pt.trace.json", False),
        ("node{node}_rank{rank}.json", True),
    ],
)
def test_ranks_are_told_however_they_are_called(tmp_path: Path, name: str, header: bool) -> None:
    folder = written(two_kinds(8, {6: EXTRA_US}, steps=3), tmp_path, name, header=header)
    run = open_path(folder, cache=False)
    assert (run.ranks, run.others) == (tuple(range(8)), ())
    assert late(job_of(folder, run)) == {6: "gpu_work"}


def test_ranks_that_are_numbered_per_node_are_not_called_whole(tmp_path: Path) -> None:
    """Without headers `node1/rank0` may be another job's: but collectives say that there are eight ranks."""
    folder = written(two_kinds(8, {6: EXTRA_US}, steps=3), tmp_path, "node{node}/rank{local}.json", header=False)
    job = job_of(folder)
    assert (job.here, job.world_size, job.missing) == (4, 8, (4, 5, 6, 7))
    assert answer((job,))[0].startswith("In the program no rank of the 4 that are here is late")


@pytest.mark.parametrize("copy", ["rank2_copy.pt.trace.json", "copy_of_rank2.pt.trace.json"])
def test_a_rank_that_is_there_twice_counts_once(tmp_path: Path, copy: str) -> None:
    folder = written(two_kinds(4, {2: EXTRA_US}, steps=3), tmp_path)
    shutil.copy(folder / "rank2.pt.trace.json", folder / copy)
    run = open_path(folder, cache=False)
    assert [trace.source.path.name for trace in run.traces] == [f"rank{rank}.pt.trace.json" for rank in range(4)]
    assert [name for name, _ in run.others] == [copy]
    assert late(job_of(folder, run)) == {2: "gpu_work"}


def test_of_two_jobs_in_a_folder_none_takes_the_others_ranks(tmp_path: Path) -> None:
    folder = written(two_kinds(4, {2: EXTRA_US}, steps=3), tmp_path, "a_rank{rank}.json")
    two_kinds(4, {1: EXTRA_US}, steps=3, seed=9).write(tmp_path, "b_rank{rank}.json")
    (folder / "a_rank3.json").unlink()
    run = open_path(folder, cache=False)
    assert [trace.source.path.name for trace in run.traces] == [f"a_rank{rank}.json" for rank in range(3)]
    assert [[path.name for path in files] for _, files in run.others] == [[f"b_rank{rank}.json" for rank in range(4)]]
    assert late(job_of(folder, run)) == {2: "gpu_work"}
