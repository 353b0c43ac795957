"""Bandwidths of every kind of collective, on handmade jobs of any size, against what nccl-tests would print.

nccl-tests (doc/PERFORMANCE.md, and the ``…GetBw`` of its sources): bytes are ``count * typesize`` for all-reduce,
broadcast, reduce and sendrecv, and ``count * typesize * nranks`` where each rank has a part of its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import polars as pl
import pytest
from chrome_file import ChromeFile
from hypothesis import given, settings
from hypothesis import strategies as st

from tracetui.analysis.collectives import by_pair, by_size
from tracetui.analysis.ranks.summarise import summarise
from tracetui.analysis.ranks.together.imbalance import uneven_all_to_all
from tracetui.analysis.ranks.together.job import Job, jobs
from tracetui.analysis.ranks.together.own_calls import own_calls
from tracetui.analysis.selection import select
from tracetui.parsers.chrome.reader import read_chrome

if TYPE_CHECKING:
    from tracetui.parsers import Trace

TYPES = {"Float": 4, "BFloat16": 2, "Double": 8, "Byte": 1}
# kind: what c10d calls it, what goes in and what comes out per element of a rank's part, parts that count, bus factor
PARTS = {
    "all_reduce": ("allreduce", "one", "one", "one", lambda n: 2 * (n - 1) / n),
    "all_gather": ("_allgather_base", "one", "all", "all", lambda n: (n - 1) / n),
    "reduce_scatter": ("_reduce_scatter_base", "all", "one", "all", lambda n: (n - 1) / n),
    "all_to_all": ("all_to_allv", "all", "all", "all", lambda n: (n - 1) / n),
    "gather": ("gather", "one", "all", "all", lambda n: (n - 1) / n),
    "scatter": ("scatter", "all", "one", "all", lambda n: (n - 1) / n),
    "broadcast": ("broadcast", "one", "one", "one", lambda n: 1.0),
    "reduce": ("reduce", "one", "one", "one", lambda n: 1.0),
    "send": ("send", "one", "one", "one", lambda n: 1.0),
}


@dataclass(frozen=True)
class Call:
    """One collective of all ranks; of a send, of ranks 0 and 1."""

    kind: str
    count: int
    """Elements of one rank's part."""
    type: str
    moving_us: int
    waits_us: tuple[int, ...]
    """By rank; the last to arrive has none."""


@st.composite
def jobs_of_any_size(draw: st.DrawFn) -> tuple[int, list[Call]]:
    ranks = draw(st.integers(2, 5))
    found = []
    for kind in draw(st.permutations(list(PARTS))):
        waits = draw(st.lists(st.integers(0, 900), min_size=ranks, max_size=ranks))
        waits[draw(st.integers(0, 1))] = 0
        # each of its own size, so that it has a row of its own
        count = draw(st.integers(1, 1 << 20))
        found.append(Call(kind, count, draw(st.sampled_from(list(TYPES))), draw(st.integers(1, 5000)), tuple(waits)))
    return ranks, found


def traces_of(ranks: int, found: list[Call]) -> list[Trace]:
    """What every rank records of these."""
    traces = []
    group = {"Process Group Name": "0", "Process Group Description": "default_pg", "Group size": ranks,
             "Process Group Ranks": json.dumps(list(range(ranks)))}  # fmt: skip
    for rank in range(ranks):
        info = {"backend": "nccl", "rank": rank, "world_size": ranks}
        file = ChromeFile(distributedInfo=info, baseTimeNanoseconds=10**18)
        for place, call in enumerate(found):
            if call.kind == "send" and rank > 1:
                continue
            name, inside, outside, _, _ = PARTS[call.kind]
            sizes = {"one": call.count, "all": call.count * ranks}
            more = {"Collective name": name, "In msg nelems": sizes[inside], "Out msg nelems": sizes[outside],
                    "dtype": call.type, "Seq": place + 1, "In split size": "[]", "Out split size": "[]"}  # fmt: skip
            if call.kind == "send":
                more |= {"Dst Rank": 1} if rank == 0 else {"Collective name": "recv", "Src Rank": 0}
            end = 10_000 * (place + 1)
            begin = end - call.moving_us - call.waits_us[rank]
            kernel = f"ncclDevKernel_{call.kind}"
            file.launch(kernel, (begin - 9, begin - 5), (begin, end), stream=9, **group, **more)
        traces.append(trace_of(file))
    return traces


def trace_of(file: ChromeFile) -> Trace:
    """What a file of these events is read as."""
    with TemporaryDirectory() as folder:
        return read_chrome(file.write(Path(folder) / "one.pt.trace.json"))


def job_of(traces: list[Trace]) -> Job:
    (job,) = jobs([summarise(trace) for trace in traces])
    return job


@settings(max_examples=5)
@given(jobs_of_any_size())
def test_bandwidths_are_those_of_nccl_tests(made: tuple[int, list[Call]]) -> None:
    ranks, found = made
    traces = traces_of(ranks, found)
    job = job_of(traces)
    rows = {row["kind"]: row for row in job.kinds.iter_rows(named=True)}
    assert set(rows) == set(PARTS)
    for call in found:
        _, _, _, counted, factor = PARTS[call.kind]
        size = call.count * TYPES[call.type] * (ranks if counted == "all" else 1)
        algbw = size / (call.moving_us * 1e-6) / 1e9
        of_ranks = 2 if call.kind == "send" else ranks
        row = rows[call.kind]
        assert (row["bytes"], row["collectives"], row["group_size"]) == (size, 1, of_ranks)
        assert row["transfer_ns"] == call.moving_us * 1000
        assert row["algbw_gbps"] == pytest.approx(algbw, rel=1e-12)
        assert row["busbw_gbps"] == pytest.approx(algbw * factor(of_ranks), rel=1e-12)
        # each rank's own table says the same, once the others tell what of a call is transfer
        for rank, trace in enumerate(traces[:3]):
            if call.kind == "send" and rank > 1:
                continue
            kind = "recv" if (call.kind, rank) == ("send", 1) else call.kind
            table = by_size(select(trace), None, own_calls((job,), trace))
            (own,) = table.filter(pl.col("kind") == kind).iter_rows(named=True)
            assert (own["bytes"], own["waiting_ns"]) == (size, call.waits_us[rank] * 1000)
            assert own["algbw_gbps"] == pytest.approx(algbw, rel=1e-12)
            assert own["busbw_gbps"] == pytest.approx(algbw * factor(of_ranks), rel=1e-12)


@settings(max_examples=5)
@given(st.data())
def test_uneven_all_to_all_counts_the_rank_that_moves_most(data: st.DataObject) -> None:
    """Its own part never leaves a rank, and nccl-tests know even parts only: theirs is the factor of the largest."""
    ranks = data.draw(st.integers(2, 4))
    sends = data.draw(st.lists(st.lists(st.integers(0, 5000), min_size=ranks, max_size=ranks), min_size=ranks,
                               max_size=ranks).filter(lambda rows: sum(map(sum, rows)) > 0))  # fmt: skip
    traces = []
    for rank in range(ranks):
        goes, comes = sends[rank], [row[rank] for row in sends]
        more = {"Collective name": "all_to_allv", "In msg nelems": sum(goes), "Out msg nelems": sum(comes),
                "In split size": json.dumps(goes), "Out split size": json.dumps(comes), "dtype": "BFloat16",
                "Group size": ranks, "Process Group Name": "0", "Seq": 1}  # fmt: skip
        file = ChromeFile(distributedInfo={"rank": rank, "world_size": ranks}, baseTimeNanoseconds=10**18)
        file.launch("ncclDevKernel_SendRecv", (1, 3), (10 + 5 * rank, 100), stream=9, **more)
        traces.append(trace_of(file))
    job = job_of(traces)
    (row,) = job.kinds.iter_rows(named=True)
    size = 2 * max(max(sum(goes), sum(comes)) for goes, comes in zip(sends, zip(*sends, strict=True), strict=True))
    algbw = size / (90 - 5 * (ranks - 1)) / 1000
    assert (row["kind"], row["bytes"]) == ("all_to_all", size)
    assert row["busbw_gbps"] == pytest.approx(algbw * (ranks - 1) / ranks, rel=1e-12)
    found = uneven_all_to_all(job)
    moved = {False: [2 * sum(goes) for goes in sends], True: [2 * sum(comes) for comes in zip(*sends, strict=True)]}
    uneven = {gets: 100 * (max(of) - sum(of) / ranks) / max(of) for gets, of in moved.items()}
    assert found is not None
    of = moved[found.gets]
    assert found.percent == pytest.approx(max(uneven.values())) == pytest.approx(uneven[found.gets])
    assert (found.largest, found.rank) == (max(of), of.index(max(of)))
    assert found.wait_ns == pytest.approx(1000 * sum(5 * place for place in range(ranks)) / ranks)


@settings(max_examples=5)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 3), st.integers(1, 9999)), min_size=1, max_size=12))
def test_pairs_add_up_what_goes_each_way(said: list[tuple[bool, int, int]]) -> None:
    file = ChromeFile(distributedInfo={"rank": 0, "world_size": 4})
    expected: dict[tuple[int, int, str], list[int]] = {}
    for place, (sends, peer, count) in enumerate(said):
        more = {"Collective name": "send" if sends else "recv", "Dst Rank" if sends else "Src Rank": peer,
                "In msg nelems": count, "Out msg nelems": count, "dtype": "Float", "Process Group Name": "pp",
                "Group size": 4}  # fmt: skip
        at = 100 * place
        file.launch("ncclDevKernel_SendRecv", (at, at + 2), (at + 10, at + 20 + place), stream=9, **more)
        key = (0, peer, "send") if sends else (peer, 0, "recv")
        calls, size, lasting = expected.get(key, [0, 0, 0])
        expected[key] = [calls + 1, size + 4 * count, lasting + (10 + place) * 1000]
    rows = by_pair(select(trace_of(file))).select("source", "target", "kind", "calls", "bytes", "total_ns").rows()
    assert {row[:3]: list(row[3:]) for row in rows} == expected


def test_an_unknown_kind_and_a_call_of_no_time_have_no_bus_bandwidth() -> None:
    traces = []
    for rank in range(2):
        file = ChromeFile(distributedInfo={"rank": rank, "world_size": 2}, baseTimeNanoseconds=10**18)
        known = {"In msg nelems": 8, "Out msg nelems": 8, "dtype": "Float", "Group size": 2, "Seq": 1}
        file.launch("ncclDevKernel_Mystery", (1, 3), (10, 20), stream=9, **known, **{"Collective name": "mystery"})
        file.launch("ncclDevKernel_AllReduce", (21, 23), (30, 30), stream=9, **known | {"Seq": 2},
                    **{"Collective name": "allreduce"})  # fmt: skip
        traces.append(trace_of(file))
    for row in job_of(traces).kinds.iter_rows(named=True):
        assert row["busbw_gbps"] is None
        assert row["algbw_gbps"] == (None if row["kind"] == "all_reduce" else 32 / 10_000)
