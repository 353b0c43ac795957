"""Findings on transfers of a job, on recordings whose truth is made: uneven all-to-all, gathers that are not hidden."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from chrome_file import ChromeFile

from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.engine import find
from tracetui.parsers import open_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tracetui.analysis.findings.core.finding import Finding

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
