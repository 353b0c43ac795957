"""What tells a rank that is late in the program from one that was slowed, stopped once, or waited for a dead one."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import polars as pl
import pytest
from chrome_file import ChromeFile
from rank_summaries import STEP_NS, Made, with_frames
from simulated_job import Job as Simulated
from simulated_job import three_d

from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Finding
from tracetui.analysis.findings.engine import find
from tracetui.analysis.ranks.job import Job, jobs
from tracetui.analysis.ranks.late import Late
from tracetui.analysis.ranks.matched import COALESCED
from tracetui.analysis.ranks.of_run import rank_rows
from tracetui.analysis.ranks.sentences import answer, at_the_median, cause_words, step_words
from tracetui.analysis.ranks.summarise import environment, summarise
from tracetui.analysis.ranks.summary import WORK, RankSummary
from tracetui.analysis.ranks.work import Cause, Works
from tracetui.analysis.scope import Scope
from tracetui.parsers import Run, open_path
from tracetui.parsers.runs.manifest import parse
from tracetui.parsers.trace import Source, Trace, TraceInfo


def summaries(folder: Path, **how: object) -> list[RankSummary]:
    """Of a simulated job."""
    Simulated(4, 3, **how).run(three_d).write(folder)  # type: ignore[arg-type]
    return [summarise(trace) for trace in open_path(folder, cache=False).traces]


def job_of(found: list[RankSummary]) -> Job:
    (job,) = jobs(found)
    return job


def longer(one: RankSummary, silent_ns: int) -> RankSummary:
    """The summary with one more step, in which its host was silent."""
    last = one.steps[-1].with_columns(
        pl.col("step", "begin") + 1, end=pl.col("end") + silent_ns, silent_ns=pl.lit(silent_ns, pl.Int64)
    )
    return with_frames(one, steps=pl.concat([one.steps, last]))


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
    found[2] = with_frames(found[2], steps=found[2].steps[:1])
    job = job_of(found)
    assert (job.compared, job.left_out) == ((), {})
    assert job.ranks["steps"].to_list() == [6, 6, 1]


def test_pythons_own_collector_is_known_by_its_function(tmp_path: Path) -> None:
    found = summaries(tmp_path, sleeps={1: ("<built-in function collect>", 3000)})
    (late,) = job_of(found).answers.program
    assert late.cause is not None
    assert late.cause.kind == "collection"


def test_a_stop_that_the_other_recording_lacks_is_not_the_programs(tmp_path: Path) -> None:
    stopped = [replace(one, recorded_pass="rich") for one in summaries(tmp_path / "a", pauses={(1, 1): 20_000})]
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
    found = [replace(one, clean_step_ns=(9_000_000,)) for one in summaries(tmp_path, pauses={(1, 1): 60_000})]
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
    job = job_of([with_frames(even[0], steps=silent, work=work), with_frames(even[1], work=work[:0])])
    assert job.answers.program == ()


def test_sends_of_a_light_recording_make_nobody_late() -> None:
    """Their kernels don't say who waits for whom: in a pipeline each stage waits for the one before it."""
    found = Made(ranks=2, late={1: 3_000_000}).summaries()
    sends = [with_frames(one, collectives=one.collectives.with_columns(kind=pl.lit("send_recv"))) for one in found]
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
    assert "lower clock" not in cause_words(msgspec.structs.replace(cause, throttled_by=""), late)


RANKS, STEPS, STEP_US = 4, 3, 10_000


def found_in(folder: Path, write: Callable[[ChromeFile, int, float], None]) -> dict[str, Finding]:
    """What the rules on transfers find in a job, of which `write` adds one step of one rank."""
    group = [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": RANKS, "ranks": list(range(RANKS))}]
    for rank in range(RANKS):
        file = ChromeFile(
            distributedInfo={"backend": "nccl", "rank": rank, "world_size": RANKS, "pg_config": group},
            baseTimeNanoseconds=10**18,
        )
        for step in range(STEPS):
            at = 1000 + STEP_US * step
            file.step(step, at, at + STEP_US)
            write(file, rank, at)
        file.write(folder / f"rank{rank}.pt.trace.json")
    rules = {name: one for name, one in all_rules("run").items() if name in ("S22", "S23", "S24")}
    return {one.id: one for one in find(Facts(open_path(folder, cache=False)), rules=rules).found}


def collective(file: ChromeFile, kind: str, at: float, until: float, sizes: tuple[int, int]) -> None:
    """One of bf16, launched 10 µs before it begins."""
    said = {"Collective name": kind, "In msg nelems": sizes[0], "Out msg nelems": sizes[1], "dtype": "BFloat16",
            "Group size": RANKS, "Process Group Name": "0", "Process Group Ranks": str(list(range(RANKS)))}  # fmt: skip
    file.launch(f"ncclDevKernel_{kind}(x)", (at - 10, at - 5), (at, until), stream=19, **said)


@pytest.mark.parametrize(("tokens", "fires"), [((100, 400, 100, 100), True), ((100, 110, 100, 100), False)])
def test_an_expert_that_gets_most_tokens(tmp_path: Path, tokens: tuple[int, ...], fires: bool) -> None:
    """Tokens go out evenly and come back unevenly: rank 1's expert computes four times as long, and sends as much."""
    mean, most = sum(tokens) / RANKS, max(tokens)

    def step(file: ChromeFile, rank: int, at: float) -> None:
        collective(file, "all_to_allv", at + 100, at + 1100, (175_000, 1000 * tokens[rank]))
        done = at + 1200 + 10 * tokens[rank]
        file.launch("expert", (at + 110, at + 115), (at + 1200, done))
        last = at + 1200 + 10 * most
        collective(file, "all_to_allv", done + 20, last + 20 + 1000, (1000 * tokens[rank], 175_000))

    found = found_in(tmp_path, step)
    assert set(found) == ({"S24"} if fires else set())
    if fires:
        uneven = found["S24"]
        assert uneven.title.startswith("All-to-all is uneven: rank 1 ")
        assert uneven.impact_ns is not None
        said = {one.label: one.value for one in uneven.evidence}
        # of two calls one is even: half of (400 - 175) / 400 of what is sent, of 2 ms of transfer
        largest, average = (175 + most) / 2, (175 + mean) / 2
        share = 100 * (largest - average) / largest
        assert said["imbalance of bytes"] == pytest.approx(share)
        assert said["transfers, per step"] == pytest.approx(2e6)
        assert uneven.impact_ns == pytest.approx(2e6 * share / 100)
        assert uneven.ceiling_percent == pytest.approx(100 * uneven.impact_ns / (1000 * STEP_US))
        assert said["imbalance of GPU work before them"] == pytest.approx(100 * (most - mean) / most)
        waits = sum(10 * (most - of) for of in tokens) / RANKS
        assert said["waiting in them, mean of ranks, per step"] == pytest.approx(1000 * waits)
        assert all(one.query is not None for one in uneven.evidence)


@pytest.mark.parametrize("prefetched", [False, True])
def test_gathers_that_wait_for_their_turn(tmp_path: Path, prefetched: bool) -> None:
    """Four units of a model: each is gathered in 500 µs, and computed in 1 ms, at once or one after the other."""

    def step(file: ChromeFile, rank: int, at: float) -> None:
        del rank
        free = at + 100.0
        gathered = free
        for _ in range(4):
            collective(file, "_allgather_base", gathered, gathered + 500, (1 << 20, RANKS << 20))
            begin = max(free, gathered + 510)
            file.launch("gemm", (begin - 20, begin - 15), (begin, begin + 1000))
            free = begin + 1010
            gathered = begin if prefetched else free
        file.launch("adam", (free, free + 5), (free + 10, free + 2000))

    found = found_in(tmp_path, step)
    assert set(found) == (set() if prefetched else {"S23"})
    if not prefetched:
        bare = found["S23"]
        assert bare.impact_ns == pytest.approx(4 * 500_000)
        assert bare.ceiling_percent == pytest.approx(100 * 2000 / STEP_US)
        assert "100.0 % of their transfer is exposed, 20.0 % of the step" in bare.title
        assert {one.label: one.value for one in bare.evidence}["all-gathers per step"] == 4


def test_small_buckets_cost_what_larger_ones_would_not(tmp_path: Path) -> None:
    """Twenty of 1 MiB in 50 µs each beside one of 32 MiB in 150 µs: 224 GB/s would need 5 µs for each."""

    def step(file: ChromeFile, rank: int, at: float) -> None:
        del rank
        for place in range(20):
            begin = at + 100 + 100 * place
            collective(file, "allreduce", begin, begin + 50, (1 << 19, 1 << 19))
        collective(file, "allreduce", at + 3000, at + 3150, (1 << 24, 1 << 24))

    found = found_in(tmp_path, step)
    assert set(found) == {"S22"}
    small = found["S22"]
    assert small.title.startswith("20 collectives per step of 1.000 MiB on average: 10.0 % of the step")
    assert small.impact_ns == pytest.approx(1_000_000 - 20 * 150_000 / 32)
    assert all(one.query is not None for one in small.evidence)
    assert {one.label: one.value for one in small.evidence}["bandwidth of larger ones"] == pytest.approx(2**25 / 150e-6)


BATCHES = 3
"""Micro-batches: 1F1B of two stages sends the first alone, then sends one and receives another at once."""
BYTES = 2 * 4096


def batch(
    file: ChromeFile, at: float, rank: int, kinds: tuple[str, ...], *, peers: tuple[int, ...] = (), begin: float = 75
) -> None:
    """One `batch_isend_irecv`: its operators, then the range with the launch of the one kernel that does them."""
    for place, (kind, other) in enumerate(zip(kinds, peers or (1 - rank,) * len(kinds), strict=True)):
        peer = {"Dst Rank": other} if kind == "send" else {"Src Rank": other}
        called = at + 20 * place
        file.event(
            "cpu_op", "record_param_comms", (called, called + 10), **peer,
            **{"Collective name": kind, "In msg nelems": 4096, "Out msg nelems": 4096, "dtype": "BFloat16",
               "Group size": 2, "Process Group Name": "0", "Process Group Ranks": "[0, 1]"},
        )  # fmt: skip
    file.annotation("nccl:coalesced", at + 50, at + 80)
    file.launch("ncclDevKernel_SendRecv(x)", (at + 60, at + 70), (at + begin, at + 195), stream=17)


def rank_file(rank: int) -> ChromeFile:
    groups = [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]}]
    file = ChromeFile(
        distributedInfo={"backend": "nccl", "rank": rank, "world_size": 2, "pg_config": groups},
        baseTimeNanoseconds=10**18,
    )
    first, last = (("send",), ("recv",)) if rank == 0 else (("recv",), ("send",))
    for step in range(3):
        begin = 1000 + 1000 * step
        file.step(step, begin, begin + 1000)
        order = [first, *[("send", "recv")] * (BATCHES - 1), last]
        for place, kinds in enumerate(order):
            at = begin + 200 * place
            batch(file, at + 10, rank, kinds)
            # 60 µs of work on the first stage, 90 on the second, for each micro-batch but the last
            if place < BATCHES:
                file.launch("gemm", (at + 110, at + 115), (at + 116, at + 116 + (60, 90)[rank]))
    return file


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Job]:
    folder = tmp_path_factory.mktemp("pipeline")
    for rank in range(2):
        rank_file(rank).write(folder / f"rank{rank}.pt.trace.json")
    run = open_path(folder, cache=False)
    (job,) = jobs([summarise(trace) for trace in run.traces])
    return run, job


def test_operators_before_the_range_are_its_kernels(recorded: tuple[Run, Job]) -> None:
    run, _ = recorded
    found = run.traces[0].collectives
    alone, shared = found.filter(found["part_of"].is_null()), found.drop_nulls("part_of")
    # the first and the last of a step are one operation each: their kernels are that operation
    assert sorted(map(str, alone["kind"])) == ["recv"] * 3 + ["send"] * 3 + ["send_recv"] * 6
    assert alone.drop_nulls("bytes_in")["bytes_in"].to_list() == [BYTES] * 6
    assert alone["device"].null_count() == 0
    assert shared.height == 3 * 2 * (BATCHES - 1)
    assert shared["coalesced"].all()
    assert set(shared["part_of"]) == set(alone.filter(alone["coalesced"])["device"])


def test_stages_and_micro_batches_are_told_by_them(recorded: tuple[Run, Job]) -> None:
    run, job = recorded
    assert job.pipeline["stage"].to_list() == [0, 1]
    assert job.pipeline["micro_batches"].to_list() == [BATCHES] * 2
    assert job.pipeline["ideal_percent"].to_list() == pytest.approx([100 / (BATCHES + 1)] * 2)
    assert job.pipeline["own_gpu_ns"].to_list() == [180_000, 270_000]
    assert sorted(job.collectives["kind"]) == ["send"] * 6 + ["send_recv"] * 6
    rules = {name: one for name, one in all_rules("run").items() if name in ("S25", "S26", "V30")}
    found = {one.id: one for one in find(Facts(run), rules=rules).found}
    assert set(found) == {"S25", "S26"}
    assert found["S26"].title.startswith("Stage 1 of the pipeline has most work: 270.0 µs per step")


def exchanged(folder: Path, peers: dict[int, tuple[int, int]]) -> Job:
    """A job in which rank 1 comes 90 µs late to kernels that send and receive at once.

    Args:
        folder: where its files go.
        peers: by rank, to whom it sends and from whom it receives.
    """
    for rank, others in peers.items():
        groups = [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": len(peers), "ranks": sorted(peers)}]
        file = ChromeFile(
            distributedInfo={"backend": "nccl", "rank": rank, "world_size": len(peers), "pg_config": groups},
            baseTimeNanoseconds=10**18,
        )
        for step in range(4):
            begin = 1000 + 1000 * step + 7 * step * step
            file.step(step, begin, begin + 1000)
            for at in (begin + 10, begin + 310, begin + 510):
                batch(file, at, rank, ("send", "recv"), peers=others, begin=170 if rank == 1 else 80)
        file.write(folder / f"rank{rank}.pt.trace.json")
    (job,) = jobs([summarise(trace) for trace in open_path(folder, cache=False).traces])
    return job


def test_an_exchange_of_two_ranks_tells_who_waited(tmp_path: Path) -> None:
    """Both ranks send to and receive from each other in one kernel: that is a collective of two."""
    job = exchanged(tmp_path, {0: (1, 1), 1: (0, 0)})
    assert job.collectives["kind"].to_list() == ["send_recv"] * 12
    assert job.collectives["bytes"].to_list() == [BYTES] * 12
    assert set(job.collectives["group_size"]) == {2}
    assert job.ranks["wait_ns"].to_list() == [3 * 90_000, 0]
    assert job.ranks["transfer_ns"].to_list() == [3 * 25_000] * 2
    assert job.unmatched.height == 0


def test_an_exchange_with_several_ranks_is_not_guessed_at(tmp_path: Path) -> None:
    """Round a ring each rank sends to the next: a kernel may have waited for the one before the one before it."""
    job = exchanged(tmp_path, {0: (1, 2), 1: (2, 0), 2: (0, 1)})
    assert job.collectives.height == 0
    assert job.unmatched["reason"].to_list() == [COALESCED] * 3
    assert any("whom it waits for can't be told" in said for said in answer((job,)))
