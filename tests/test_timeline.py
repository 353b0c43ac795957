"""The timeline's lanes, and what they say of any stretch of time, against a look at every event."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sample_runs import FP32 as SAMPLE
from sample_runs import run_of

from tracetui.analysis.kernels import kernel_groups
from tracetui.analysis.selection import select
from tracetui.analysis.timeline.facts import delay, facts, host_during, module
from tracetui.analysis.timeline.gaps import UNRECORDED
from tracetui.analysis.timeline.rows import BLOCK, MOST_ROWS, NONE, Row, rows_of
from tracetui.analysis.timeline.step_lanes import step_lanes
from tracetui.analysis.timeline.timeline import Place, Timeline, search, timeline
from tracetui.app.charts.cells import ruler
from tracetui.app.charts.lanes import LOOKS, STYLES, lane_title, row_runs
from tracetui.app.charts.scale import stretch, time_label
from tracetui.parsers import Trace, schema
from tracetui.parsers.runs.opening import open_path
from tracetui.parsers.trace import Source, TraceInfo


def make_row(start: list[int], end: list[int]) -> Row:
    return Row.of(np.arange(len(start), dtype=np.uint32), np.array(start, np.int64), np.array(end, np.int64))


def by_hand(row: Row, edges: np.ndarray) -> list[tuple[int, int, int]]:
    """Count, winner and busy time of each cell, each event looked at."""
    found = []
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        inside = {
            at: min(row.end(at), high) - max(int(row.start[at]), low)
            for at in range(row.size)
            if int(row.start[at]) < high and row.end(at) > low
        }
        most = max(inside.values(), default=0)
        winner = min((at for at, ns in inside.items() if ns == most), default=NONE)
        found.append((len(inside), winner, sum(inside.values())))
    return found


def test_cells_hold_what_a_look_at_every_event_finds():
    for seed in range(10):
        rng = random.Random(seed)
        time, start, end = 10**15 * (seed % 2), [], []
        for _ in range((1, 3, 40, 700, 6000)[seed % 5]):
            time += rng.choice([0, 1, 3, rng.randrange(200)])
            start.append(time)
            time += rng.choice([1, 2, rng.randrange(1, 50), rng.randrange(1, 3000)])
            end.append(time)
        row = make_row(start, end)
        for _ in range(8):
            low = rng.randrange(start[0] - 50, time + 50)
            span = rng.choice([3, 40, 1000, time - start[0] + 100])
            cells = rng.choice([1, 2, 7, 60])
            edges = low + np.arange(cells + 1, dtype=np.int64) * max(span, cells) // cells
            found = row.cells(edges)
            assert list(zip(found.count, found.winner, found.busy, strict=True)) == by_hand(row, edges), seed


def test_the_longest_of_thousands_is_found_wherever_it_stands_in_its_block():
    size = 20_000
    start = np.arange(size, dtype=np.int64) * 10
    for at in (5000, 5000 + BLOCK - 1, 5000 + BLOCK // 2, 1, size - 2):
        lasting = np.full(size, 3, np.int64)
        lasting[at : at + 2] = 9  # the first of equals
        row = Row.of(np.arange(size, dtype=np.uint32), start, start + lasting)
        found = row.cells(np.array([0, size * 10], np.int64))
        assert found.winner.tolist() == [at]
        assert found.busy.tolist() == [int(lasting.sum())]


def test_an_instant_has_a_place_in_one_cell():
    row = make_row([5, 10, 10], [5, 10, 30])
    assert row.cells(np.array([0, 5, 6, 10, 40], np.int64)).count.tolist() == [0, 1, 0, 2]


def test_nothing_is_lost_at_any_zoom_even_where_events_overlap():
    for seed in range(20):
        rng = random.Random(seed)
        spans = sorted((rng.randrange(2000), rng.choice([0, 5, 300, 900])) for _ in range(rng.choice([5, 200])))
        spans.sort(key=lambda span: (span[0], -span[1]))
        start = np.array([begin for begin, _ in spans], np.int64)
        end = start + np.array([lasting for _, lasting in spans], np.int64)
        rows, shown_in = rows_of(np.arange(start.size, dtype=np.uint32), start, end)
        assert sorted(np.concatenate([row.events for row in rows]).tolist()) == list(range(start.size)), seed
        for number, row in enumerate(rows):
            assert (shown_in[row.events] == number).all(), seed
            if number < MOST_ROWS - 1:
                assert (row.start[1:] >= end[row.events[:-1]]).all(), seed
        for cells in (1, 5, 77):
            edges = np.arange(cells + 1, dtype=np.int64) * 3000 // cells
            touched = np.zeros((len(rows), cells), np.bool_)
            for event in range(start.size):
                low, high = np.searchsorted(edges, [start[event], max(end[event], start[event] + 1)], side="right")
                last = high - 1 if edges[high - 1] < max(end[event], start[event] + 1) else high - 2
                touched[shown_in[event], low - 1 : last + 1] = True
            for number, row in enumerate(rows):
                found = row.cells(edges)
                assert ((found.count > 0) == touched[number]).all(), seed
                assert ((found.winner != NONE) == touched[number]).all(), seed
                assert (found.busy[touched[number]] > 0).all(), seed
                for cell in np.flatnonzero(touched[number]):
                    winner = int(found.winner[cell])
                    assert row.start[winner] < edges[cell + 1], seed
                    assert row.end(winner) > edges[cell], seed
                assert (found.busy <= np.diff(edges)).all(), seed


def test_what_is_deeper_than_all_rows_shares_the_last_and_is_still_seen():
    deep = MOST_ROWS + 20
    start = np.arange(deep, dtype=np.int64)
    end = 1000 - start
    rows, _ = rows_of(np.arange(deep, dtype=np.uint32), start, end)
    assert len(rows) == MOST_ROWS
    assert rows[-1].size == 21
    assert rows[-1].cells(np.array([0, 63, 70, 900, 936, 937, 940], np.int64)).count.tolist() == [0, 7, 21, 21, 21, 0]


def test_calls_stand_below_their_callers():
    start = np.array([0, 0, 10, 30, 50], np.int64)
    end = np.array([100, 40, 20, 40, 60], np.int64)
    assert rows_of(np.arange(5, dtype=np.uint32), start, end)[1].tolist() == [0, 1, 2, 2, 1]


# --- a small trace: a launch at 100, its kernel at 400, an idle stretch, a second kernel


def small() -> Trace:
    host = [
        ("annotation", "step", 0, 1000, None),
        ("operator", "aten::mm", 90, 60, None),
        ("runtime", "cudaLaunchKernel", 100, 20, 1),
        ("operator", "aten::item", 500, 200, None),
        ("runtime", "cudaMemcpyAsync", 520, 150, 3),
        ("runtime", "cudaLaunchKernel", 800, 30, None),
    ]
    device = [("kernel", "gemm", 400, 50, 2), ("kernel", "gemm", 900, 60, 5), ("memcpy", "copy", 980, 10, None)]
    frame = pl.DataFrame(
        {
            "kind": pl.Series([kind for kind, *_ in host], dtype=schema.HostKind),
            "name": pl.Series([name for _, name, *_ in host], dtype=pl.Categorical),
            "start": [start for _, _, start, _, _ in host],
            "duration": [lasting for _, _, _, lasting, _ in host],
            "process": [1] * len(host),
            "thread": [1] * len(host),
            "parent": pl.Series([parent for *_, parent in host], dtype=pl.UInt32),
        }
    )
    work = pl.DataFrame(
        {
            "kind": pl.Series([kind for kind, *_ in device], dtype=schema.DeviceKind),
            "name": pl.Series([name for _, name, *_ in device], dtype=pl.Categorical),
            "start": [start for _, _, start, _, _ in device],
            "duration": [lasting for _, _, _, lasting, _ in device],
            "device": [0] * len(device),
            "stream": [7] * len(device),
            "launch": pl.Series([launch for *_, launch in device], dtype=pl.UInt32),
        }
    )
    empty = Trace.empty(TraceInfo("chrome", "test"), Source(Path("test.json"), 0))
    return replace(
        empty,
        host=pl.concat([schema.empty(schema.HOST), frame], how="diagonal_relaxed").cast(schema.HOST),
        device=pl.concat([schema.empty(schema.DEVICE), work], how="diagonal_relaxed").cast(schema.DEVICE),
    )


def built(trace: Trace) -> Timeline:
    found = timeline(trace)
    assert found is not None
    return found


def test_lanes_of_a_small_trace():
    found = built(small())
    assert [(lane.kind, [row.size for row in lane.rows]) for lane in found.lanes] == [
        ("idle", [2]),
        ("stream", [3]),
        ("ranges", [1]),
        ("calls", [3, 2]),
    ]
    assert (found.start, found.end, found.zero) == (0, 1000, 0)


def test_follows_a_kernel_to_its_launch_and_back():
    found = built(small())
    kernel = found.find("device", 0)
    assert kernel is not None
    assert found.name(kernel) == "gemm"
    launch = found.launch_of(kernel)
    assert launch is not None
    assert found.event(launch) == 2
    assert found.work_of(launch) == kernel
    assert delay(found, kernel) == 400 - 120
    operator = found.find("host", 1)
    assert operator is not None
    assert found.work_of(operator) == kernel
    item = found.find("host", 3)
    assert item is not None
    assert found.work_of(item) is None
    copy = found.find("device", 2)
    assert copy is not None
    assert found.launch_of(copy) is None


def test_same_name_goes_through_all_rows_of_the_lane():
    found = built(small())
    launch = found.find("host", 2)
    assert launch is not None
    after = found.same_name(launch, 1)
    assert after is not None
    assert found.event(after) == 5
    assert after.row == 0
    assert launch.row == 1
    assert found.same_name(after, -1) == launch
    assert found.same_name(after, 1) is None
    assert found.same_name(launch, -1) is None


def test_gaps_say_what_the_host_did():
    found = built(small())
    gaps = found.gaps.filter(pl.col("start") == 450)
    assert gaps["duration"].to_list() == [450]
    during = host_during(found, 0, 450, 900)
    assert during.next_name == "gemm"
    assert during.launched_after == 350
    assert during.own == ((UNRECORDED, 220), ("cudaMemcpyAsync", 150), ("aten::item", 50))


def test_finds_a_name_from_the_cursor_on_and_wraps():
    found = built(small())
    lanes = list(range(len(found.lanes)))
    hits = search(found, "GEMM", lanes)
    first = hits.next(500, None)
    assert first is not None
    assert found.span(first)[0] == 900
    again = hits.next(900, first)
    assert again is not None
    assert found.span(again)[0] == 400
    assert search(found, "nothing like it", lanes).next(0, None) is None


@pytest.mark.parametrize("name", ["chrome/gpt_small_ctx256.trace.json.gz", "nsys/graph_whole.sqlite.gz"])
def test_search_goes_through_all_lanes_in_the_order_of_time_and_back(name):
    found = built(run_of(name).main)
    hits = search(found, "e", list(range(len(found.lanes))))
    first = hits.next(found.start + (found.end - found.start) // 2, None)
    before, place, seen = hits.index(first), first, []
    for _ in range(min(hits.size - before, 200)):
        seen.append(place)
        assert hits.index(place) == before + len(seen) - 1
        place = hits.next(0, place)
    starts = [found.span(place)[0] for place in seen]
    assert starts == sorted(starts)
    assert len(set(seen)) == len(seen)
    assert len({place.lane for place in seen}) > 1
    back = [place := hits.next(0, place, -1) for _ in seen]
    assert back == seen[::-1]
    ends = hits.next(0, None), hits.next(2**62, None, -1)
    assert (hits.next(0, ends[1]), hits.next(0, ends[0], -1)) == ends
    assert [hits.index(end) for end in ends] == [0, hits.size - 1]


def test_a_trace_without_a_place_in_time_has_no_timeline():
    assert timeline(Trace.empty(TraceInfo("chrome", "test"), Source(Path("test.json"), 0))) is None


# --- drawing


def test_every_kind_of_event_has_a_look():
    assert set(schema.HOST_KINDS) | set(schema.DEVICE_KINDS) <= set(LOOKS)
    assert {look.style for look in LOOKS.values()} <= set(STYLES)


@pytest.mark.parametrize("ascii", [False, True])
def test_a_drawn_row_is_as_wide_as_its_cells_and_shows_each_event(ascii):
    found = built(open_path(SAMPLE).main)
    span = found.end - found.start
    for begin, part in ((0.0, 1.0), (0.4, 0.1), (0.5, 0.001)):
        low = found.start + int(span * begin)
        edges = low + np.arange(64, dtype=np.int64) * int(span * part) // 63
        for number, lane in enumerate(found.lanes):
            for depth, row in enumerate(lane.rows):
                text = "".join(run.text for run in row_runs(found, number, depth, edges, NONE, ascii=ascii))
                assert len(text) == 63
                assert not ascii or text.isascii()
                empty = row.cells(edges).count == 0
                blank = ("_·" if lane.kind == "stream" and not depth else "") + " "
                assert all(char in blank for char, nothing in zip(text, empty, strict=True) if nothing)


def test_a_selected_event_shows_though_others_hide_it():
    found = built(open_path(SAMPLE).main)
    lane = next(n for n, lane in enumerate(found.lanes) if lane.kind == "calls")
    edges = found.start + np.arange(64, dtype=np.int64) * (found.end - found.start) // 63
    row = found.lanes[lane].rows[0]
    hidden = next(at for at in range(row.size) if at not in set(row.cells(edges).winner.tolist()))
    assert sum(run.style == "selected" for run in row_runs(found, lane, 0, edges, hidden, ascii=False)) == 1


@pytest.mark.parametrize(
    ("start", "end"), [(0, 1), (0, 999), (123_456, 125_000), (0, 10**9), (321 * 10**6, 322 * 10**6), (-5000, 7000)]
)
def test_the_ruler_fits_and_tells_its_marks_apart(start, end):
    for columns in (1, 10, 65, 180):
        text = ruler(start, end, columns, ascii=True)
        assert len(text) == columns
        labels = [label.strip() for label in text.split("|") if label.strip()]
        assert len(labels) == len(set(labels))


def test_times_are_written_in_one_unit():
    assert stretch(3_100_000, 9_000_000, ascii=True) == "3.10-9.00 ms"
    assert stretch(520_464, 321_092_649, ascii=True) == "0.5-321.1 ms"
    assert time_label(12_345, 10, ascii=False) == "12.35 µs"
    assert time_label(0, 10, ascii=False) == "0"
    assert time_label(-1500, 100, ascii=True) == "-1.5 us"


# --- real recordings


@pytest.mark.parametrize(
    "name",
    [
        "chrome/gpt_small_ctx256.trace.json.gz",
        "chrome/ddp_vit_small_2ranks",
        "nsys/gpt_small_ctx256.sqlite.gz",
        "nsys/graph_whole.sqlite.gz",
        "jax/h200.trace.json.gz",
    ],
)
def test_every_event_of_a_recording_is_in_one_lane(name):
    trace = run_of(name).main
    found = built(trace)
    for source, frame in (("host", trace.host), ("device", trace.device)):
        rows = np.concatenate(
            [row.events for lane in found.lanes if lane.source == source and lane.kind != "copies" for row in lane.rows]
        )
        assert np.array_equal(np.sort(rows), np.flatnonzero(frame["start"].is_not_null().to_numpy()))
    for number, lane in enumerate(found.lanes):
        for depth, row in enumerate(lane.rows):
            place = Place(number, depth, row.size // 2)
            known = {fact.title: fact.value for fact in facts(found, place)}
            assert known["Start"] == found.span(place)[0]
            if lane.kind not in ("copies", "idle"):
                assert found.find(lane.source, found.event(place)) == place
            launch = found.launch_of(place)
            if launch is not None:
                assert known["Launched by"] == found.name(launch)
                assert known["Launch delay"] == max(found.span(place)[0] - found.span(launch)[1], 0)


def test_modules_of_kernels_and_calls():
    found = built(open_path(SAMPLE).main)
    lane = next(n for n, lane in enumerate(found.lanes) if lane.kind == "stream")
    row = found.lanes[lane].rows[0]
    paths = {module(found, Place(lane, 0, at)) for at in range(0, row.size, 40)}
    assert any(path.startswith("VisionMamba_0/Block_") for path in paths)


def test_signs_on_the_ruler_never_cut_a_time():
    plain = ruler(13_400_000, 13_500_000, 90, ascii=True)
    at = plain.index("ms") - 3
    signed = ruler(13_400_000, 13_500_000, 90, signs={at: "v"}, ascii=True)
    assert signed[at] == "v"
    assert len(signed) == 90
    assert {label.strip() for label in signed.replace("v", "|").split("|")} < {
        part.strip() for part in plain.split("|")
    } | {""}


def test_a_graph_that_the_driver_spreads_over_streams_is_one_lane():
    whole = run_of("chrome/cudagraph_replay.trace.json.gz").main
    place = pl.int_range(pl.len()).over("launch")
    apart = pl.when((pl.col("kind") == "kernel") & (place % 3 == 2)).then(100 + place).otherwise("stream")
    device = whole.device.sort("start").with_columns(stream=apart.cast(pl.Int64))
    spread = replace(whole, device=device)
    assert device["stream"].n_unique() == 7
    found = built(spread)
    graph = [lane for lane in found.lanes if lane.kind == "stream"]
    assert [(lane.stream, lane.name, lane.size) for lane in graph] == [(None, "graph 1", 400)]
    assert lane_title(graph[0]) == "GPU 0 graph 1"
    assert [(one.lane.name, len(one.busy)) for one in step_lanes(spread, found.start, found.end, 10)][-1] == (
        "graph 1",
        10,
    )
    assert kernel_groups(select(spread), "stream")["group"].to_list() == ["graph 1"]
    # another graph has a lane of its own, and what is launched one by one stays on its stream
    launches = device["launch"].unique().sort().drop_nulls()
    name = (
        pl.when(pl.col("launch").is_in(launches[:5].implode())).then(pl.lit("other", pl.Categorical)).otherwise("name")
    )
    alone = pl.when(pl.col("launch") == launches[-1]).then(None).otherwise("launch").cast(pl.UInt32)
    lanes = built(replace(whole, device=device.with_columns(name=name, launch=alone))).lanes
    busy = {(lane.stream, lane.name): lane.size for lane in lanes if lane.kind == "stream"}
    assert (busy[None, "graph 1"], busy[None, "graph 2"]) == (100, 280)
    assert sum(size for (stream, _), size in busy.items() if stream is not None) == 20
