"""Summaries of ranks: what is in them, and that a file of them is read exactly as it was written or not at all."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from many_ranks import rank_file
from sample_runs import run_of

from tracetui.analysis.ranks.files import stored
from tracetui.analysis.ranks.files.store import Store
from tracetui.analysis.ranks.files.stored import Stored, mark_of, packed, unpacked
from tracetui.analysis.ranks.present import rank_rows
from tracetui.analysis.ranks.rank_table import judged, rank_table
from tracetui.analysis.ranks.summarise import bins_of, edges, merged, quantile, summarise
from tracetui.analysis.ranks.summary import FRAMES, KERNELS, STEPS, RankSummary
from tracetui.analysis.ranks.together.job import jobs
from tracetui.analysis.scope import Scope
from tracetui.parsers import Note, open_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TWO_RANKS = "chrome/ddp_vit_small_2ranks"


@pytest.fixture(scope="module")
def two() -> list[RankSummary]:
    return [summarise(trace) for trace in run_of(TWO_RANKS).traces]


def same(one: RankSummary, other: RankSummary) -> bool:
    headers = (field.name for field in fields(one) if field.name not in FRAMES)
    return all(getattr(one, name).equals(getattr(other, name)) for name in FRAMES) and all(
        getattr(one, name) == getattr(other, name) for name in headers
    )


# --- what is in them


def test_the_table_of_ranks_is_the_same_from_traces_and_from_summaries(two: list[RankSummary]) -> None:
    for scope in (Scope(), Scope(skip_steps=1), Scope(steps=(1, 2))):
        ours, theirs = rank_rows(two, scope), rank_table(run_of(TWO_RANKS), scope)
        assert ours.height == 2
        assert judged(ours, jobs(two))["straggler"].to_list() == [False, True]
        for name in ("steps", "step_ns", "kernel_ns", "compute_ns", "communication_ns", "behind_percent"):
            assert ours[name].to_list() == pytest.approx(theirs[name].to_list()), name
    assert rank_rows(two, Scope())["idle_ns"].to_list() == pytest.approx(rank_table(run_of(TWO_RANKS))["idle_ns"])


def test_a_scope_that_summaries_cannot_answer_gives_no_table(two: list[RankSummary]) -> None:
    assert not rank_rows(two, Scope(devices=frozenset({0}))).height
    assert not rank_rows(two, Scope(window=(0, 1))).height


def test_steps_and_kernels_by_hand(tmp_path: Path) -> None:
    file = rank_file(3, 8)
    file.operator("aten::quiet", 1300, 1301)
    file.step(2, 1200, 5000)
    file.call("cudaDeviceSynchronize", (2700, 4200))
    found = summarise(open_path(file.write(tmp_path / "a.pt.trace.json"), cache=False).main)
    assert (found.rank, found.world_size, found.absolute) == (3, 8, True)
    assert found.steps.schema == STEPS
    rows = found.steps.to_dicts()
    assert [row["step"] for row in rows] == [0, 1, 2]
    zero = 10**18 + 3
    assert (rows[0]["begin"], rows[0]["end"]) == (zero + 1_000_000, zero + 1_100_000)
    assert [row["compute_ns"] for row in rows] == [60_000, 60_000, 0]
    assert [row["communication_ns"] for row in rows] == [20_000, 20_000, 0]
    assert [row["idle_ns"] for row in rows] == [20_000, 20_000, 3_800_000]
    assert [row["own_gpu_ns"] for row in rows] == [60_000, 60_000, 0]
    assert [row["launches"] for row in rows] == [2, 2, 0]
    # from 1301 to 2700 nothing begins or ends; the call blocks; what follows until the step's end is too short
    assert [row["silent_ns"] for row in rows] == [0, 0, 1_399_000]
    assert [row["loader_ns"] for row in rows] == [None] * 3
    assert found.kernels.schema == KERNELS
    assert [(row["name"], row["count"], row["total_ns"]) for row in found.kernels.to_dicts()] == [
        ("gemm", 2, 120_000),
        ("ncclDevKernel_AllReduce", 2, 40_000),
    ]


def test_a_recording_without_steps_is_one_window() -> None:
    trace = run_of(TWO_RANKS).main
    found = summarise(replace(trace, steps=trace.steps.clear())).steps
    assert found["step"].to_list() == [-1]


def test_histograms_add_up_and_tell_quantiles() -> None:
    random = np.random.default_rng(5)
    parts = [random.lognormal(10, 1, size).astype(np.int64) for size in (1000, 10, 4000)]
    counted = [np.bincount(bins_of(part)).tolist() for part in parts]
    whole = np.concatenate(parts)
    assert merged(counted) == np.bincount(bins_of(whole)).tolist()
    for share in (0.5, 0.95):
        exact = float(np.quantile(whole, share, method="inverted_cdf"))
        assert exact <= (quantile(merged(counted), share) or 0) <= exact * 1.2
    assert quantile([], 0.5) is None
    assert edges(0)[0] == 0
    assert all(edges(number)[1] == edges(number + 1)[0] for number in range(30))


# --- the file


def test_a_file_gives_back_what_was_put_in(two: list[RankSummary]) -> None:
    odd = replace(
        two[0],
        path="rénk/\udcff0",
        groups=(("0", "default_pg", (0, 1)),),
        notes=(Note("missing", "something", 3, "such as this"),),
        window=None,
    )
    found = unpacked(packed([Stored(odd, "m", "/a"), Stored(two[1], "n", "/b")]))
    assert [(entry.mark, entry.source) for entry in found] == [("m", "/a"), ("n", "/b")]
    assert same(found[0].summary, odd)
    assert same(found[1].summary, two[1])
    assert len(packed([Stored(two[0], "", "")])) < 50_000


def torn(content: bytes) -> bytes:
    return content[:-7]


def other_byte(content: bytes) -> bytes:
    return content[:400] + bytes([content[400] ^ 1]) + content[401:]


def other_version(content: bytes) -> bytes:
    import zlib

    start = len(stored.MAGIC) + 8
    body = content[start:].replace(b'"version":%d' % stored.VERSION, b'"version":9', 1)
    length = int.from_bytes(content[start - 8 : start - 4], "little")
    return content[: start - 8] + length.to_bytes(4, "little") + zlib.crc32(body).to_bytes(4, "little") + body


def foreign(content: bytes) -> bytes:
    return b'{"traceEvents": []}'


@pytest.mark.parametrize("damage", [torn, other_byte, other_version, foreign, lambda _: b""])
def test_what_is_not_whole_counts_as_none(two: list[RankSummary], damage: Callable[[bytes], bytes]) -> None:
    content = packed([Stored(two[0], "m", "/a")])
    assert len(unpacked(content)) == 1
    assert damage(content) != content
    assert unpacked(damage(content)) == []


def test_other_columns_count_as_none(two: list[RankSummary]) -> None:
    wrong = replace(two[0], steps=two[0].steps.rename({"begin": "start"}))
    assert unpacked(packed([Stored(wrong, "m", "/a")])) == []


def test_a_mark_changes_with_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(100_000))
    before, stat = mark_of(path), path.stat()
    assert mark_of(path) == before
    path.write_bytes(bytes(99_999) + b"x")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert mark_of(path) != before
    path.write_bytes(bytes(100_000))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert mark_of(path) == before
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert mark_of(path) != before


def test_a_store_gathers_into_one_file_and_leaves_others_alone(tmp_path: Path, two: list[RankSummary]) -> None:
    store = Store(tmp_path / "out")
    entries = [Stored(replace(one, path=f"rank{one.rank}"), "m", "/a") for one in two]
    for entry in entries:
        store.add(entry.summary.path, packed([entry]))
    (store.folder / "notes.txt").write_text("mine")
    (store.folder / f"torn{stored.SUFFIX}").write_bytes(b"no")
    assert sorted(entry.summary.rank for entry in store.entries()) == [0, 1]
    store.gather(entries)
    names = sorted(path.name for path in store.folder.iterdir())
    assert names == [f"job{stored.SUFFIX}", "notes.txt", f"torn{stored.SUFFIX}"]
    assert [entry.summary.rank for entry in store.entries()] == [0, 1]
    newer = Stored(replace(two[0], path="rank0", host="other"), "m2", "/a")
    store.add("rank0", packed([newer]))
    os.utime(store.single("rank0"), ns=(2**62, 2**62))
    assert {entry.summary.path: entry.mark for entry in store.entries()} == {"rank0": "m2", "rank1": "m"}


def test_names_of_little_time_share_a_row() -> None:
    from tracetui.analysis.ranks import summarise

    trace = run_of(TWO_RANKS).main
    every = summarise.kernel_rows(trace)
    few = pytest.MonkeyPatch()
    with few.context() as patch:
        patch.setattr(summarise, "KEPT", 5)
        some = summarise.kernel_rows(trace)
    assert some["name"].to_list() == [*every["name"].to_list()[:5], ""]
    assert some["total_ns"].sum() == every["total_ns"].sum()
    assert some.select(pl.col("histogram").list.sum().sum()).item() == every["count"].sum()
