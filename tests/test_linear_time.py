"""What works on all rows at once, or makes reports quick, gives what the plain form gives."""

import gc
import json
import random
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from as_json import report
from hypothesis import given
from hypothesis import strategies as st
from laid_out import report_text
from sample_runs import FP32, GPT, recorded, run_of
from tui_pilot import opened, press

from tracetui.analysis.attribution.calltree import add_up, call_tree, dense, lane_order, numbered_by
from tracetui.analysis.base import intervals, names
from tracetui.analysis.base.names import of_kinds
from tracetui.analysis.base.remembered import kept, latest
from tracetui.analysis.captures import spans
from tracetui.analysis.captures.roles import named_phases, phase_of, phases
from tracetui.analysis.dependencies import costs
from tracetui.analysis.dependencies.critical_path import inner_calls
from tracetui.analysis.dependencies.graph import graph, launching_threads
from tracetui.analysis.dependencies.host_layers import HostLayers, host_layers
from tracetui.analysis.findings import catalogue
from tracetui.analysis.findings.validity import steps as range_rules
from tracetui.analysis.gpu.activities import by_value
from tracetui.analysis.host import CALLS, api_calls
from tracetui.analysis.matching.launch_order import MOST_EDITS, NONE, in_order
from tracetui.analysis.report.report import SECTIONS
from tracetui.analysis.report.sections import ON_REQUEST
from tracetui.analysis.selection import Scope, select
from tracetui.analysis.tables.registry import OF_RUNS
from tracetui.analysis.timeline import step_lanes
from tracetui.app.reports.content.run import printed_sections
from tracetui.app.tables.trees import merged_ranges, tree_rows
from tracetui.parsers import Run, Trace, open_path, schema
from tracetui.parsers.names.range_roles import NUMBERED, ROLES, any_of_role, role_of


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

    def counted(part: Trace, *given: Any) -> Any:
        made.append((part.host["thread"].n_unique(), part.device["stream"].n_unique()))
        return lanes(part, *given)

    monkeypatch.setattr(step_lanes, "lanes", counted)
    few = step_lanes.step_lanes(trace, 0, 6_000_000, 50)
    monkeypatch.setattr(step_lanes, "CANDIDATES", 1000)
    assert few == step_lanes.step_lanes(trace, 0, 6_000_000, 50)
    assert [one.lane.kind for one in few] == ["calls"] * 3 + ["stream"] * 6
    assert made == [(64, 6), (150, 6)]


def test_a_replay_of_many_streams_is_not_cut_into_pieces_for_each(tmp_path: Path) -> None:
    found = graph(select(spread(tmp_path, threads=1, streams=90)))
    assert found is not None
    segments = costs._segments(found)
    assert segments is not None
    assert segments.edges.size - 1 < 5
    assert segments.first.size < 2 * 90


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
    found = merged_ranges(tree_rows(rows))
    assert [(one.base, one.depth, one.calls) for one in found] == [(key[-1], len(key) - 1, seen[key]) for key in order]


def test_ranges_ten_thousand_deep_are_merged() -> None:
    times = dict.fromkeys(("calls", "host_total_us", "device_self_us", "device_total_us"), 1)
    row = {"path": "p", "name": "again", "domain": "", "device_meanwhile_us": None, **times}
    assert [one.depth for one in merged_ranges(tree_rows({**row, "depth": depth} for depth in range(10_000)))] == [
        *range(10_000)
    ]


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
    sel = select(replace(trace, host=host))
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


RANDOM = np.random.default_rng(7)


def test_combinations_are_numbered_in_their_order_null_first() -> None:
    rows = pl.DataFrame(
        {"process": [7, 7, None, 7, -1], "thread": [1 << 40, 3, 3, None, 3], "same": [5, 5, 5, 5, 5]},
        schema={"process": pl.Int64, "thread": pl.Int64, "same": pl.Int64},
    )
    assert numbered_by(rows, ("process", "same", "thread")).tolist() == [4, 3, 0, 2, 1]
    assert numbered_by(rows, ("same",)).tolist() == [0] * 5
    assert numbered_by(rows.clear(), ("process", "thread")).size == 0


def test_rows_are_ordered_by_lane_start_and_the_longer_first() -> None:
    for ascending in (True, False):
        lane, start = RANDOM.integers(0, 3, 200), RANDOM.integers(0, 60, 200)
        end = start + RANDOM.integers(0, 5, 200)
        if ascending:
            start = np.sort(start)
            end = start + RANDOM.integers(0, 5, 200)
        order = lane_order(lane, start, end)
        assert sorted(order.tolist()) == list(range(200))
        placed = list(zip(lane[order].tolist(), start[order].tolist(), (-end[order]).tolist(), strict=True))
        assert placed == sorted(placed)


def test_times_within_a_set_of_time() -> None:
    within = intervals.union(np.array([5, 10, 12]), np.array([7, 13, 20]))
    times = np.arange(25)
    wanted = [any(low <= time < high for low, high in ((5, 7), (10, 20))) for time in times.tolist()]
    assert intervals.contains(within, times).tolist() == wanted
    assert not intervals.contains(intervals.empty(), times).any()


def test_host_rows_of_steps_are_those_begun_in_one() -> None:
    trace = open_path(recorded("small_vit_train.pt.trace.json.gz")).main
    index = trace.steps["index"]
    for steps in ((index[1], index[1]), (index[0], index[-1])):
        sel = select(trace, Scope(steps=steps))
        spans = list(sel.steps.select("start", end=pl.col("start") + pl.col("duration")).iter_rows())
        begun = [any(low <= at < high for low, high in spans) for at in trace.host["start"].to_list()]
        assert any(begun)
        assert sel.host["row"].to_list() == np.flatnonzero(begun).tolist()


def longest(a: list[int], b: list[int]) -> int:
    """The length of the longest common subsequence, by the table."""
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, ours in enumerate(a):
        for j, theirs in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if ours == theirs else max(table[i][j + 1], table[i + 1][j])
    return table[len(a)][len(b)]


def place(a: list[int], b: list[int]) -> list[int]:
    found: list[int] = in_order(np.array(b, np.int64), np.array(a, np.int64), edits=MOST_EDITS).tolist()
    return found


kinds = st.lists(st.integers(0, 3), max_size=25)


@given(kinds, kinds)
def test_it_is_a_longest_common_subsequence(a: list[int], b: list[int]) -> None:
    found = place(a, b)
    assert len(found) == len(a)
    pairs = [(ours, theirs) for ours, theirs in enumerate(found) if theirs != NONE]
    assert all(a[ours] == b[theirs] for ours, theirs in pairs)
    assert all(before[1] < after[1] for before, after in pairwise(pairs))
    assert len(pairs) == longest(a, b)


def test_layers_that_repeat_are_told_apart_by_their_place() -> None:
    layer = [1, 2, 2, 3]
    whole = layer * 5_000
    shorter = [*whole[:7_001], *whole[7_002:12_000], 9, *whole[12_000:]]
    found = np.array(place(shorter, whole))
    assert (found == NONE).sum() == 1
    assert found[-1] == len(whole) - 1
    assert found[7_010] == 7_011


def test_what_has_little_in_common_is_given_up_soon() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 5, 200_000), rng.integers(0, 5, 200_000)
    a[:1_000] = b[:1_000]
    found = in_order(b, a, edits=MOST_EDITS)
    # compared in full, there would be 4e10 pairs
    assert (found[:1_000] == np.arange(1_000)).all()
    assert (found[1_000:] != NONE).sum() < 1_000


def test_few_edits_are_found_far_apart() -> None:
    whole = np.arange(100_000) % 97
    cut = np.delete(whole, np.arange(500, 100_000, 100_000 // (MOST_EDITS // 8)))
    found = in_order(whole, cut, edits=MOST_EDITS)
    assert (found != NONE).all()


KEYS = ["process", "thread", "number"]


def ranges(seed, *, by_thread, size=400):
    """Ranges of a few threads that nest, overlap, touch, and last no time."""
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 300, size)
    frame = pl.DataFrame(
        {
            "process": rng.choice([7, 2**40], size),
            "thread": rng.choice([-1, 3, 2**50, -(2**50)], size),
            "number": rng.integers(0, 5, size),
            "start": start,
            "end": start + rng.choice([0, 0, 1, 5, 20, 90], size),
        }
    )
    return frame.sort("process", "thread", "start", "end", descending=[False] * 3 + [True]) if by_thread else frame


def plain_outermost(rows, keys):
    kept = []
    for _, group in rows.sort(*keys, "start", "end", descending=[False] * (len(keys) + 1) + [True]).group_by(
        keys, maintain_order=True
    ):
        reached = None
        for row in group.iter_rows(named=True):
            start, end = row["start"], row["end"]
            if reached is None or end > reached or (start == reached == end):
                kept.append(row)
            reached = end if reached is None else max(reached, end)
    return pl.DataFrame(kept, schema=rows.schema)


def plain_union(rows, keys):
    found = []
    for _, group in rows.filter(pl.col("end") > pl.col("start")).sort("start").group_by(keys):
        for row in group.iter_rows(named=True):
            if found and all(found[-1][key] == row[key] for key in keys) and row["start"] <= found[-1]["end"]:
                found[-1]["end"] = max(found[-1]["end"], row["end"])
            else:
                found.append(dict(row))
    return pl.DataFrame(found, schema=rows.schema).select(*keys, "start", "end")


def as_rows(rows, keys, group, found):
    """Stretches as rows of a frame, with the keys of their groups."""
    first = {number: row for row, number in reversed(list(enumerate(group.tolist())))}
    known = rows.select(keys)[[first[number] for number in found.group.tolist()]]
    return known.with_columns(start=pl.Series(found.start), end=pl.Series(found.end)).sort(*keys, "start", "end")


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("by_thread", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_ranges_inside_others_and_the_time_they_cover(seed, by_thread, few, monkeypatch):
    monkeypatch.setattr(spans, "_FEW_GROUPS", 100 if few else 0)
    rows = ranges(seed, by_thread=by_thread)
    start, end = rows["start"].to_numpy(), rows["end"].to_numpy()
    for keys in (KEYS, ["process", "number"]):
        columns = [*keys, "start", "end"]
        group = numbered_by(rows, keys)
        ordered = spans.in_order(group, start, end)
        outer = as_rows(rows, keys, group, ordered.take(spans.outermost(ordered)))
        assert outer.equals(plain_outermost(rows, keys).select(columns).sort(columns))
        assert as_rows(rows, keys, group, spans.union(ordered)).equals(plain_union(rows, keys).sort(columns))
    # the stretches of a process and number are those of its threads together
    of_threads = numbered_by(rows, KEYS)
    wider = np.zeros(of_threads.max() + 1, np.int64)
    wider[of_threads] = group
    on_threads = spans.union(spans.in_order(of_threads, start, end))
    together = spans.union(spans.regrouped(on_threads, wider[on_threads.group]))
    assert as_rows(rows, keys, group, together).equals(plain_union(rows, keys).sort(columns))


def test_no_ranges():
    nothing = np.zeros(0, np.int64)
    ordered = spans.in_order(nothing, nothing, nothing)
    assert spans.outermost(ordered).size == 0
    assert spans.union(spans.regrouped(ordered, nothing)).start.size == 0


def test_groups_with_gaps_are_numbered_anew():
    label = np.array([7, 2, 7, 10**12])
    groups, number = spans.dense_groups(label)
    assert groups.tolist() == [2, 7, 10**12]
    assert groups[number].tolist() == label.tolist()
    groups, number = spans.dense_groups(np.array([1, 0, 3]))
    assert groups[number].tolist() == [1, 0, 3]


def test_kinds_and_numbers_of_chosen_rows():
    kind = pl.Series(["runtime", None, "operator", "runtime"], dtype=schema.HostKind)
    assert of_kinds(kind, "runtime", "driver").tolist() == [True, False, False, True]
    assert of_kinds(kind.drop_nulls(), "operator").tolist() == [False, True, False]
    named = pl.Series(["b1", "a", None, "b2", "c"], dtype=pl.Categorical)
    numbers, texts = names.numbered(named, np.array([True, False, True, True, True]), lambda name: name[0], "")
    assert [texts[number] for number in numbers] == ["b", "", "b", "c"]


async def test_what_is_there_once_a_tab_is_shown_is_not_looked_through_for_garbage_again(monkeypatch):
    frozen = []
    async with opened(FP32) as (app, pilot):
        monkeypatch.setattr(gc, "freeze", lambda: frozen.append(app.tab))
        await press(pilot, "2")
        assert frozen == []  # many programs in one process would never be freed
        monkeypatch.setattr(type(app), "is_headless", property(lambda _: False))
        await press(pilot, "3", "2")
        assert frozen == ["operators"]


SAMPLE = Path(__file__).resolve().parents[1] / "samples" / "vim_tiny"


@pytest.fixture(scope="module")
def run() -> Run:
    return open_path(SAMPLE)


@pytest.mark.parametrize("sections", [None, ("findings", "memory")])
def test_what_the_text_leaves_out_changes_nothing_of_it(run: Run, sections: tuple[str, ...] | None) -> None:
    whole = report(run, sections=sections)
    short = report(run, sections=sections, sections_of=printed_sections)
    assert report_text(short, limit=10) == report_text(whole, limit=10)


def test_another_tools_recording_has_no_section_computed_that_is_not_printed(run: Run) -> None:
    traces = report(run, sections_of=printed_sections)["run"]["traces"]
    there = {trace["source"]["kind"]: {name for name in SECTIONS if name in trace} for trace in traces}
    assert there["nsys"] == set()
    assert there["ncu"] == {"counters", "findings"}
    assert there["memory_snapshot"] == {"memory", "findings"}
    assert there["chrome"] == set(SECTIONS) - {
        "captures",
        *OF_RUNS,
        *ON_REQUEST,
        "source_lines",
        "host_lines",
        "host_stacks",
        "tried",
    }


@pytest.mark.parametrize("kinds", [CALLS, ("operator", "module"), ("runtime",)])
def test_a_chrome_traces_tree_stands_in_its_frame(run: Run, kinds: tuple[str, ...]) -> None:
    sought, stood = call_tree(run.main.host, kinds), call_tree(run.main.host, kinds, nested=True)
    for field in ("rows", "start", "duration", "parent", "last"):
        assert np.array_equal(getattr(sought, field), getattr(stood, field)), field


WORDS = st.sampled_from(
    [
        "warm",
        "up",
        "WarmUp",
        "warmup",
        "Optimizer",
        "opt",
        "zero",
        "loss",
        "eval",
        "bwd",
        "::",
        "step",
        "qk",
        "#1",
        "\n",
    ]
)


@given(st.lists(st.lists(WORDS, min_size=1, max_size=5).map("".join), max_size=4), st.sampled_from(sorted(ROLES)))
def test_a_role_is_sought_in_all_names_as_in_each(texts: list[str], role: str) -> None:
    plain = any(role in (role_of(text), role_of(NUMBERED.sub("", text))) for text in texts)
    assert any_of_role(texts, role) == plain


def test_names_are_asked_once_each_and_null_never() -> None:
    texts = ["a", None, "bb", "a", "", None, "ccc"]
    asked: list[str] = []
    column = pl.Series(texts, dtype=pl.Categorical())
    found = names.matching(column, lambda name: asked.append(name) or len(name) > 1)  # type: ignore[func-returns-value]
    assert found.tolist() == [text is not None and len(text) > 1 for text in texts]
    assert sorted(asked) == ["", "a", "bb", "ccc"]
    for series in (column, column.cast(pl.String)):
        asked.clear()
        found = names.mapped(series, lambda name: asked.append(name) or name.upper(), "none")  # type: ignore[func-returns-value]
        assert found.to_list() == ["none" if text is None else text.upper() for text in texts]
        assert sorted(asked) == ["", "a", "bb", "ccc"]
        assert names.mapped(series.head(0), str.upper, "none").to_list() == []
    nothing = pl.Series([None, None], dtype=pl.Categorical())
    assert names.matching(nothing, lambda name: True).tolist() == [False, False]
    assert names.mapped(nothing, str.upper, "none").to_list() == ["none", "none"]


@pytest.mark.parametrize("large", [1, 1 << 40, 1 << 60])
def test_sums_are_exact(large: int) -> None:
    group, values = np.array([0, 2, -1, 0, 2, 2]), np.array([large, 3, 5, large + 1, 7, 11])
    assert add_up(group, values, 4).tolist() == [2 * large + 1, 0, 21, 0]
    assert add_up(group, -values, 4).tolist() == [-2 * large - 1, 0, -21, 0]


def test_small_results_stay_with_what_they_are_of_and_large_ones_go() -> None:
    class Recording:
        pass

    calls: list[object] = []
    small = kept(lambda of: calls.append(of) or len(calls))  # type: ignore[func-returns-value]
    one, other = Recording(), Recording()
    assert [small(one), small(other), small(one), small(other)] == [1, 2, 1, 2]

    large = latest(lambda of, more=0: np.full(3, more))
    first = large(one, 1)
    assert large(one, 1) is first
    assert large(one, more=1) is first
    assert large(one, 0) is not first
    assert large(one) is large(one, 0)
    assert large(one, 2).tolist() == [2, 2, 2]
    alive = large(other)
    assert large(other) is alive
    del other, calls[:]
    gc.collect()
    assert large(one).tolist() == [0, 0, 0]


def test_the_rules_of_a_run_come_in_the_order_of_all() -> None:
    of_run = [id for id, rule in catalogue.all_rules("run").items() if rule.subject == "run"]
    assert of_run == [id for id, rule in catalogue.all_rules().items() if rule.subject == "run"]


def test_a_report_of_one_section_imports_nothing_of_the_others() -> None:
    program = (
        "import sys\n"
        "from tracetui.app.cli.main import main\n"
        f"main(['report', {str(SAMPLE / 'trace.pt.trace.json.gz')!r}, '--section', 'overview'])\n"
        "print(*sorted(name for name in sys.modules if name.startswith('tracetui.')), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = set(done.stderr.split())
    assert "tracetui.app.charts.gantt" in imported, "the picture of the section itself"
    assert not imported & {
        "tracetui.analysis.findings.jobs",
        "tracetui.analysis.findings.host.copies",
        "tracetui.analysis.findings.gpu.fusion",
        "tracetui.app.reports.content.findings",
        "tracetui.app.reports.content.captures",
        "tracetui.app.charts.roofline",
        "tracetui.app.charts.icicle",
        "tracetui.app.charts.histogram",
        "tracetui.app.charts.area",
    }
