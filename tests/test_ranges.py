"""Ranges: host time, the GPU work inside, and its projection."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tracetui.analysis.ranges import ranges
from tracetui.analysis.selection import select
from tracetui.parsers import Source, Trace, TraceInfo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Recording = Callable[[str], Trace]

GPT = "chrome/gpt_small_ctx256.trace.json.gz"
DDP = "chrome/ddp_vit_small_2ranks/rank0.pt.trace.json.gz"
DEIT = "chrome/deit_small_train_bf16_bs32.pt.trace.json.gz"


@pytest.mark.parametrize("path", [GPT, DDP, DEIT])
def test_ranges_equal_a_walk_over_every_activity(recording: Recording, path: str) -> None:
    trace = recording(path)
    host = trace.host.select("kind", "name", "duration", "parent").cast({"name": pl.String}).rows()
    name = {row: "ProfilerStep" if n.startswith("ProfilerStep#") else n for row, (_, n, _, _) in enumerate(host)}
    spent, ops, host_time, instances = (defaultdict[str, int](int) for _ in range(4))
    extent: dict[int, tuple[int, int]] = {}
    for row, (kind, _, duration, _) in enumerate(host):
        if kind in ("annotation", "dataloader"):
            instances[name[row]] += 1
            host_time[name[row]] += duration
    work = trace.device.filter(pl.col("kind").is_in(["kernel", "memcpy", "memset"]))
    for start, duration, around in work.select("start", "duration", "range").iter_rows():
        seen = set()
        while around is not None:
            low, high = extent.get(around, (start, start + duration))
            extent[around] = min(low, start), max(high, start + duration)
            if name[around] not in seen:
                seen.add(name[around])
                spent[name[around]] += duration
                ops[name[around]] += 1
            around = host[around][3]
    projected = defaultdict[str, int](int)
    for row, (low, high) in extent.items():
        projected[name[row]] += high - low
    found = ranges(select(trace))
    assert set(found["name"]) == set(instances)
    for row in found.iter_rows(named=True):
        key = row["name"]
        expected = instances[key], host_time[key], projected[key], spent[key], ops[key]
        columns = ("instances", "host_total_ns", "gpu_projected_ns", "device_ns", "gpu_ops")
        assert tuple(row[column] for column in columns) == expected, key
        assert sum(entry["ns"] for entry in row["by_category"]) == row["device_ns"]
        assert sum(entry["calls"] for entry in row["by_category"]) == row["gpu_ops"]


def test_ranges_of_gpt_training(recording: Recording) -> None:
    rows = {row["name"]: row for row in ranges(select(recording(GPT))).iter_rows(named=True)}
    assert rows["forward_pass"]["instances"] == 4
    assert rows["forward_pass"]["by_category"][0]["category"] == "gemm"
    assert rows["optimizer_step"]["by_category"][0]["category"] == "optimizer"
    attention = rows["scaled dot product attention"]
    inner = [rows[name]["device_ns"] for name in ("computing attention scores", "computing softmax", "final matmul")]
    assert attention["device_ns"] == sum(inner)


def test_communication_is_a_category(recording: Recording) -> None:
    rows = {row["name"]: row for row in ranges(select(recording(DDP))).iter_rows(named=True)}
    assert [entry["category"] for entry in rows["nccl:all_reduce"]["by_category"]] == ["communication"]


def test_a_trace_without_ranges(tmp_path: Path) -> None:
    frame = ranges(select(Trace.empty(TraceInfo("chrome", "made"), Source(tmp_path, 0))))
    assert frame.is_empty()
    assert frame.columns == [
        "name", "domain", "instances", "host_total_ns", "gpu_projected_ns", "device_ns", "gpu_ops", "by_category",
    ]  # fmt: skip
