"""Recordings with thousands of threads, streams or nested ranges: what works on all at once against plain forms."""

from __future__ import annotations

import json
import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from sample_runs import FP32, GPT, run_of

from tracetui.analysis.attribution.calltree import dense
from tracetui.analysis.base import names
from tracetui.analysis.captures.roles import named_phases, phase_of, phases
from tracetui.analysis.dependencies import walk
from tracetui.analysis.dependencies.critical_path import inner_calls
from tracetui.analysis.dependencies.graph import graph, launching_threads
from tracetui.analysis.dependencies.host_layers import HostLayers, host_layers
from tracetui.analysis.findings.validity import ranges as range_rules
from tracetui.analysis.gpu.activities import by_value
from tracetui.analysis.host import api_calls
from tracetui.analysis.selection import select
from tracetui.analysis.timeline import step_lanes
from tracetui.app.tables.range_tree import merged_ranges
from tracetui.parsers import open_path, schema

if TYPE_CHECKING:
    from pathlib import Path

    from tracetui.parsers import Trace


def spread(folder: Path, threads: int, streams: int) -> Trace:
    """A launch on each of many threads, for each of many streams in turn, some of them longer than others."""
    dice = random.Random(3)
    events: list[dict[str, Any]] = []
    for at in range(max(threads, streams)):
        thread, stream, time = at % threads, at % streams, 40 * at
        lasts = dice.randint(4, 30)
        event = {"ph": "X", "pid": 1, "tid": thread, "ts": time}
        events.append({**event, "cat": "cpu_op", "name": "aten::add", "dur": lasts})
        call = {**event, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": time + 1, "dur": 2}
        events.append({**call, "args": {"correlation": at + 1}})
        work = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": stream, "ts": time + 5, "dur": 30}
        events.append({**work, "args": {"stream": stream, "device": 0, "correlation": at + 1}})
    path = folder / "spread.json"
    path.write_text(json.dumps({"traceEvents": events}), "utf-8")
    return open_path(path, cache=False).main


def test_time_by_kind_is_the_sum_of_all_threads() -> None:
    dice = np.random.default_rng(1)
    times = [np.sort(dice.integers(0, 500, size)) + 1_700_000_000_000_000_000 for size in (30, 1, 0, 12)]
    rows = [dice.integers(-1, 6, time.size) for time in times]
    kind = np.array([0, 2, 2, 1, 2, 0], np.uint8)
    thread = np.repeat(np.arange(4), [time.size for time in times])
    nothing = np.empty(0, np.int64)
    layers = HostLayers(thread, np.concatenate(times), np.concatenate(rows), kind, (nothing, nothing))
    begin = dice.integers(0, 500, 40) + 1_700_000_000_000_000_000
    end = begin + dice.integers(0, 90, 40)
    for wanted in (0, 1, 2, 3):
        expected = [
            sum(
                max(min(stop, high) - max(start, low), 0)
                for time, row in zip(times, rows, strict=True)
                for start, stop, at in zip(time[:-1].tolist(), time[1:].tolist(), row[:-1].tolist(), strict=True)
                if at >= 0 and kind[at] == wanted
            )
            for low, high in zip(begin.tolist(), end.tolist(), strict=True)
        ]
        assert layers.spent(begin, end, wanted).tolist() == expected


def test_the_host_part_of_the_path_is_the_same_for_all_threads_at_once() -> None:
    sel = select(run_of(GPT).main)
    found = graph(sel)
    assert found is not None
    layers = host_layers(sel, found)
    threads = np.unique(layers.thread)
    assert threads.size > 1
    dice = np.random.default_rng(2)
    edges = [np.sort(dice.choice(np.unique(layers.time), 40, replace=False)) for _ in threads]
    begin, end = (np.concatenate([edge[side::2] for edge in edges]) for side in (0, 1))
    thread = np.repeat(threads, 20)
    host = sel.trace.host
    callers = launching_threads(host, found.calls.row)[found.calls.row]
    at = np.array([np.flatnonzero(callers == number)[0] for number in thread])  # a call of the thread

    def inside(chosen: np.ndarray) -> list[tuple[int, ...]]:
        parts = inner_calls(host, found, layers, at[chosen], begin[chosen], end[chosen])
        owner = np.flatnonzero(chosen)[parts.owner]
        return sorted(zip(*(part.tolist() for part in (owner, parts.start, parts.stop, parts.row)), strict=True))

    apart = sorted(part for number in threads for part in inside(thread == number))
    assert apart
    assert inside(thread >= 0) == apart


def test_lanes_of_a_step_are_made_of_few_threads_and_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = spread(tmp_path, threads=150, streams=90)
    made: list[tuple[int, int]] = []
    lanes = step_lanes.lanes

    def counted(part: Trace, idle: pl.DataFrame) -> Any:
        made.append((part.host["thread"].n_unique(), part.device["stream"].n_unique()))
        return lanes(part, idle)

    monkeypatch.setattr(step_lanes, "lanes", counted)
    few = step_lanes.step_lanes(trace, 0, 6_000_000, 50)
    monkeypatch.setattr(step_lanes, "CANDIDATES", 1000)
    assert few == step_lanes.step_lanes(trace, 0, 6_000_000, 50)
    assert [one.lane.kind for one in few] == ["calls"] * 3 + ["stream"] * 6
    assert made == [(64, 6), (150, 6)]


def test_a_replay_of_many_streams_is_not_cut_into_pieces_for_each(tmp_path: Path) -> None:
    found = graph(select(spread(tmp_path, threads=1, streams=90)))
    assert found is not None
    blocks = walk.blocks(found)
    assert blocks is not None
    assert blocks.size - 1 < 5
    assert walk._runs(found, blocks) >= 90


@pytest.mark.parametrize("values", [[], [4, 4, 4], [3, -1, 3, 70_000, -1, 0], list(range(50, 0, -1))])
def test_positions_by_value(values: list[int]) -> None:
    column = np.array(values, np.int64)
    found = [(value, np.arange(column.size)[rows].tolist()) for value, rows in by_value(column)]
    assert found == [(value, np.flatnonzero(column == value).tolist()) for value in sorted(set(values))]


def test_sparse_codes_need_no_table_of_all_numbers() -> None:
    codes = np.array([1 << 60, 5, 1 << 40, 5])
    number, found = dense(codes)
    assert number.tolist() == [2, 0, 1, 0]
    assert found[number].tolist() == codes.tolist()


def test_merged_ranges_stand_as_their_paths_sort() -> None:
    dice = random.Random(7)
    rows, depth = [], -1
    for _ in range(300):
        depth = dice.randint(0, min(depth + 1, 6))
        name = dice.choice(("a 1", "a 2", "b", "c"))
        times = dict.fromkeys(("calls", "host_total_us", "device_self_us", "device_total_us"), 1)
        rows.append({"path": "p", "name": name, "domain": "", "depth": depth, "device_meanwhile_us": None, **times})
    seen: dict[tuple[str, ...], int] = {}
    way: list[str] = []
    for row in rows:
        del way[row["depth"] :]
        way.append(row["name"].split()[0])
        seen[tuple(way)] = seen.get(tuple(way), 0) + 1
    place = {key: number for number, key in enumerate(seen)}
    order = sorted(seen, key=lambda key: [place[key[: depth + 1]] for depth in range(len(key))])
    found = merged_ranges(rows)
    assert [(one.base, one.depth, one.calls) for one in found] == [(key[-1], len(key) - 1, seen[key]) for key in order]


def test_ranges_ten_thousand_deep_are_merged() -> None:
    times = dict.fromkeys(("calls", "host_total_us", "device_self_us", "device_total_us"), 1)
    row = {"path": "p", "name": "again", "domain": "", "device_meanwhile_us": None, **times}
    assert [one.depth for one in merged_ranges({**row, "depth": depth} for depth in range(10_000))] == [*range(10_000)]


@pytest.mark.parametrize("path", [FP32, GPT], ids=["vim", "gpt"])
def test_phases_by_name_alone_are_those_of_the_whole(path: Path) -> None:
    sel = select(run_of(path).main)
    parts = ("name", "domain", "role", "names", "instances", "host_ns", "launched_ns", "launched_ops", "span_ns")
    whole = phases(sel)
    assert [[getattr(phase, part) for part in parts] for phase in named_phases(sel)] == [
        [getattr(phase, part) for part in parts] for phase in whole.by_name
    ]
    by_role = {phase.role: phase for phase in whole.by_role}
    assert by_role
    for role in (*by_role, "warmup"):
        assert role is not None
        assert phase_of(sel, role) == by_role.get(role)


@pytest.mark.parametrize("seed", range(4))
def test_the_longest_part_of_a_step(seed: int) -> None:
    dice = random.Random(seed)
    steps = [(0, 100, 1, 1), (100, 250, 1, 1), (30, 90, 1, 2), (300, 310, 1, None)]
    ranges = [("step", start, end, 1, thread) for start, end, _, thread in steps[:3]]
    for _ in range(60):
        start = dice.randint(0, 260)
        ranges.append((dice.choice("abcd"), start, start + dice.randint(0, 80), 1, dice.choice((1, 2, 3))))
    ranges.append((None, 10, 12, 1, 1))
    host = pl.DataFrame(ranges, ["name", "start", "end", "process", "thread"], orient="row")
    host = host.with_columns(
        pl.col("name").cast(pl.Categorical), pl.lit("annotation", schema.HostKind).alias("kind"),
        pl.lit("push_pop", schema.RangeStyle).alias("style"), duration=pl.col("end") - pl.col("start"),
    ).sort("thread")  # fmt: skip
    frame = pl.DataFrame(steps, ["start", "end", "process", "thread"], orient="row")
    trace = SimpleNamespace(host=host)
    sel = SimpleNamespace(trace=trace, by_steps=False, scope=SimpleNamespace(window=None))
    facts: Any = SimpleNamespace(step_ranges=SimpleNamespace(frame=frame), trace=trace, sel=sel)

    lasting = [one for one in ranges if one[0] is not None and one[2] > one[1] and one[4] in (1, 2)]
    parts, whole = set(), set()
    for name, start, end, _, thread in lasting:
        before = [step for step in steps if step[3] == thread and step[0] <= start]
        if before and end <= (last := max(before))[1]:
            parts.add(name)
            if (start, end) == last[:2]:
                whole.add(name)
    found = []
    for name in parts - whole:
        spent = sorted(end - start for own, start, end, *_ in lasting if own == name)
        found.append((-spent[(len(spent) - 1) // 2], name, len(spent)))
    expected = min(found)
    assert range_rules._longest_part(facts) == (expected[1], -expected[0], expected[2])


def test_shares_of_api_calls_are_divided_on_the_whole_table(tmp_path: Path) -> None:
    trace = spread(tmp_path, threads=3, streams=2)
    host = pl.concat([trace.host.with_columns(name=pl.lit(name, pl.Categorical)) for name in ("x", "y", "z")])
    host = host.with_columns(duration=pl.int_range(pl.len(), dtype=pl.Int64) * 7919 + 31)
    sel: Any = SimpleNamespace(host=host)
    table = api_calls(sel)
    share = 100 * pl.col("total_ns") / pl.col("total_ns").sum()
    assert table["percent"].to_list() == table.rechunk().select(share).to_series().to_list()
    assert all(api_calls(sel).equals(table) for _ in range(20))


def test_the_names_of_a_long_column_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    distinct = names._distinct

    def counted(codes: Any, limit: int) -> Any:
        calls.append(codes.size)
        return distinct(codes, limit)

    monkeypatch.setattr(names, "_distinct", counted)
    frames = [pl.DataFrame({"name": pl.Series([*word] * names._MANY, dtype=pl.Categorical)}) for word in ("pqr", "ps")]
    for frame, letter, share in ((frames[0], "q", 3), (frames[0], "r", 3), (frames[1], "s", 2), (frames[0], "s", 0)):
        assert names.matching(frame["name"], letter.__eq__).sum() == (frame.height // share if share else 0)
    assert calls == [frames[0].height, frames[1].height]
