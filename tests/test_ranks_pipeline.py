"""A pipeline as PyTorch 2.11 records it: `batch_isend_irecv` has its operators before the range that launches them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from chrome_file import ChromeFile

from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.engine import find
from tracetui.analysis.ranks.matching.matched import COALESCED
from tracetui.analysis.ranks.summarise import summarise
from tracetui.analysis.ranks.together.job import Job, jobs
from tracetui.analysis.ranks.together.said import answer
from tracetui.parsers import open_path

if TYPE_CHECKING:
    from pathlib import Path

    from tracetui.parsers import Run

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
