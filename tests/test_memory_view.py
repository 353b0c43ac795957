"""The Memory tab: its chart, tables and ways in; and what the reports say of memory."""

import csv
import io
import itertools
import json
from pathlib import Path

import pytest
from as_json import report
from laid_out import body, report_csv, report_markdown, report_text
from sample_runs import recorded, run_of
from snapshot_file import FRAMES, Allocator, churn, snapshot, write
from tui_pilot import opened, press, screen_text, settle

from tracetui.analysis.base.number_format import format_bytes
from tracetui.app.charts.area import area_chart, plot_width
from tracetui.app.views.memory import memory_text
from tracetui.parsers import open_path

GPT = "memory/gpt_memory_snapshot.pickle.gz"
VIM = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"
NO_MEMORY = "nsys/graph_whole.sqlite.gz"


# --- the chart


def test_the_chart_fills_from_the_ground_and_draws_a_line():
    rows = area_chart([0, 50, 100, None], [100, 100, 100, 100], 9, 5, label=lambda v: f"{v:.0f}", times=("0", "9"))
    assert rows == [
        "100 │──█─",
        "    │  █",
        "    │ ██",
        "  0 │ ██",
        "     0  9",
    ]


def test_the_chart_in_ascii_has_the_same_shape():
    values, line = [1.0, 2.0, 3.0, 4.0, 2.0], [4.0] * 5
    plain = area_chart(values, line, 30, 8, label=format_bytes, ascii=True, times=("0 s", "1 s"))
    assert all(row.isascii() for row in plain)
    drawn = area_chart(values, line, 30, 8, label=format_bytes, times=("0 s", "1 s"))
    assert [len(row) for row in plain] == [len(row) for row in drawn]
    assert [[c != " " for c in row] for row in plain[-1:]] == [[c != " " for c in row] for row in drawn[-1:]]


def test_the_chart_keeps_to_its_size():
    for case in itertools.product([1, 2, 3, 6, 20], [1, 5, 12, 40, 200]):
        height, width = case
        for values in ([], [None, None], [0, 0, 0], [1.5], list(range(1000)), [None, 7, None]):
            rows = area_chart(values, values[:3], width, height, label=format_bytes, times=("first", "last"))
            assert len(rows) == (height if height > 1 else 0), case
            assert all(len(row) <= width for row in rows), case
            assert plot_width(values, [], width, height, label=format_bytes) >= 1, case


def test_a_single_spike_shows_at_any_width():
    values = [1.0] * 5000
    values[3333] = 100.0
    for width in (30, 80, 300):
        rows = area_chart(values, [], width, 10, label=format_bytes)
        assert rows[0].count("█") == 1
        # what is small is drawn, not rounded away
        assert "▁" in rows[8]


# --- the tab


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (60, 20)])
async def test_the_recording_in_the_tab(size):
    async with opened(recorded(GPT), tab="memory", size=size) as (app, pilot):
        text = screen_text(app)
        assert "peak 8.495 GiB allocated" in text
        assert "fragmentation then 97.1 %" in text
        assert "│" in text
        assert "gpt.py:15 forward" in text
        assert "1.500 GiB" in text
        assert max(map(len, text.splitlines())) <= size[0]
        await press(pilot, "enter")
        inside = screen_text(app)
        assert "64.00 MiB" in inside
        assert "computing softmax" in inside
        assert "peak 8.495 GiB" not in inside
        await press(pilot, "d")
        details = screen_text(app)
        assert "torch::unwind::unwind()" in details
        await press(pilot, "escape", "escape")
        assert "peak 8.495 GiB allocated" in screen_text(app)


async def test_v_walks_the_tables_that_there_are():
    async with opened(recorded(GPT), tab="memory") as (app, pilot):
        view = app.view
        seen = [view.kind]
        titles = []
        for _ in range(5):
            titles.append(screen_text(app).splitlines()[2])
            await press(pilot, "v")
            seen.append(view.kind)
        assert seen == ["by stack", "by range", "long-lived", "steps", "segments", "by stack"]
        await press(pilot, "v", "v", "v", "v")
        assert "256.0 MiB" in screen_text(app)
        await press(pilot, "enter", "enter")
        assert "0x" in screen_text(app)
        assert "free" in screen_text(app)


async def test_a_trace_shows_operators_and_modules():
    async with opened(recorded(VIM), tab="memory", size=(110, 30)) as (app, pilot):
        text = screen_text(app)
        assert "peak 93.65 MiB allocated" in text
        assert "(allocated before the recording)" in text
        assert "aten::mm" in text
        await press(pilot, "v")
        assert "Mamba_3" in screen_text(app)
        await press(pilot, "v", "enter", "enter")
        assert "CrossEntropyLoss_0" in screen_text(app)
        await press(pilot, "escape", "v")
        assert "80.52 MiB" in screen_text(app)
        assert app.view.kind == "steps"


async def test_out_of_memory_says_what_was_held_then(tmp_path):
    allocator = churn(Allocator(), 200, 3)
    allocator.alloc(4096, FRAMES[4])
    allocator.oom(1 << 40, 5 << 20)
    path = write(tmp_path / "s.pickle", snapshot(allocator))
    async with opened(path, tab="memory") as (app, pilot):
        await press(pilot, "v", "v", "v")
        assert app.view.kind == "out of memory"
        text = screen_text(app)
        assert "1.000 TiB" in text
        assert "5.000 MiB" in text
        await press(pilot, "enter", "enter")
        assert "model_4.py:7 forward" in screen_text(app)


async def test_every_memory_is_named_and_the_fullest_is_drawn(tmp_path):
    allocators = churn(Allocator(0), 100, 3), churn(Allocator(1), 400, 4)
    most = [max(held for held, _ in a.held) for a in allocators]
    path = write(tmp_path / "s.pickle", snapshot(*allocators))
    async with opened(path, tab="memory", size=(120, 30)) as (app, _):
        text = screen_text(app)
        assert f"GPU 1 peak {format_bytes(most[1])} allocated" in text
        assert f"GPU 0 {format_bytes(most[0])}" in text
    peaks = report(open_path(path, cache=False), sections=["memory"])["run"]["traces"][0]["memory"]["peaks"]
    assert [(row["device"], row["allocated_bytes"]) for row in peaks] == list(enumerate(most))


async def test_a_snapshot_without_times_is_drawn_by_events(tmp_path):
    allocator = churn(Allocator(), 120, 5)
    found = snapshot(allocator)
    for entry in found["device_traces"][0]:
        del entry["time_us"]
    most = max(held for held, _ in allocator.held)
    async with opened(write(tmp_path / "s.pickle", found), tab="memory") as (app, pilot):
        text = screen_text(app)
        assert f"peak {format_bytes(most)} allocated" in text
        assert "first event" in text
        assert "event 120" in text
        await press(pilot, "enter", "d")
        assert "freeing.py" not in screen_text(app)


async def test_without_memory_it_says_how_to_record_it():
    async with opened(recorded("chrome/cudagraph_replay.trace.json.gz"), tab="memory") as (app, pilot):
        text = screen_text(app)
        assert "profile_memory=True" in text
        assert "_record_memory_history()" in text
        await press(pilot, "v", "enter", "escape")
        assert "profile_memory=True" in screen_text(app)


async def test_without_a_history_nothing_is_said_to_have_been_given_back(tmp_path):
    device = Allocator()
    device.alloc(1000)
    found = snapshot(device) | {"device_traces": []}
    async with opened(write(tmp_path / "s.pickle", found), tab="memory") as (app, pilot):
        assert "No history of allocations" in screen_text(app)
        await press(pilot, "v")
        assert "Long-lived" in screen_text(app)
        assert "No history of allocations" in screen_text(app)
        await press(pilot, "v")
        assert "Segments" in screen_text(app)


async def test_ascii_and_the_end_state_alone(tmp_path):
    allocator = churn(Allocator(), 80, 2)
    path = write(tmp_path / "s.pickle", snapshot(allocator)["segments"])
    async with opened(path, tab="memory", ascii=True) as (app, pilot):
        text = screen_text(app)
        assert text.isascii()
        assert "end " in text
        assert "fragmentation" in text
        while app.view.kind != "segments":
            await press(pilot, "v")
        assert "2.000 MiB" in screen_text(app)


async def test_a_snapshot_beside_a_trace():
    async with opened(recorded(VIM), tab="memory") as (app, pilot):
        app.runs.open_run("a", (recorded(VIM), recorded(GPT)))
        await settle(pilot)
        seen = {}
        for _ in range(7):
            seen[app.view.kind] = screen_text(app)
            await press(pilot, "v")
        assert set(seen) == {"by stack", "by operator", "by module", "by range", "long-lived", "steps", "segments"}
        for kind, text in seen.items():
            # operators and modules are the trace's, the rest is the snapshot's, each with the curve of its own
            ours = "93.65 MiB" if kind in ("by operator", "by module") else "8.495 GiB"
            assert f"peak {ours} allocated" in text, kind


def test_lines_above_the_table_fit_any_width(recording):
    from tracetui.analysis.memory.peak import curve, peak
    from tracetui.analysis.memory.segments import end_state
    from tracetui.analysis.selection import select
    from tracetui.app.views.memory import Picture

    sel = select(recording(GPT))
    picture = Picture(peak(sel), end_state(sel), curve(sel), sel.trace.info.window)
    for width in (20, 40, 60, 80, 150):
        for height in (5, 14, 24, 60):
            lines = memory_text(picture, width, height)
            assert all(len(line) <= width for line in lines)
            assert len(lines) < height or height == 5
            if width > 20:
                assert "reserved at 4.750 s" in " ".join(line.strip() for line in lines)
            if height == 60 and width >= 60:
                assert any("█" in line and "│" in line for line in lines)


# --- the reports


def test_the_section_of_the_recording():
    found = report(run_of(GPT), sections=["memory"])
    (trace,) = found["run"]["traces"]
    section = trace["memory"]
    assert section["peak_allocated_bytes"] == 9_121_419_272
    assert section["peak_reserved_bytes"] == section["end_reserved_bytes"] == 9_365_880_832
    assert section["end_allocated_bytes"] == 68_157_440
    assert section["segments"]["count"] == 271
    assert len(section["curve"]) <= 200
    assert max(point["allocated_bytes"] for point in section["curve"]) == section["peak_allocated_bytes"]
    times = [point["at_us"] for point in section["curve"]]
    assert times == sorted(times)
    assert section["peak_time_us"] in times
    stacks = [row for row in section["holders"] if row["by"] == "stack"]
    assert sum(row["bytes"] for row in stacks) == section["peak_allocated_bytes"]
    assert {row["by"] for row in section["holders"]} == {"stack", "range"}
    assert section["oom"] == []
    json.dumps(found, allow_nan=False)


def test_a_limit_cuts_the_lists():
    section = report(run_of(GPT), sections=["memory"], limit=2)["run"]["traces"][0]["memory"]
    assert [row["by"] for row in section["holders"]] == ["stack", "stack", "range", "range"]


@pytest.mark.parametrize("name", [GPT, VIM])
def test_text_markdown_and_csv(name):
    found = report(run_of(name), sections=["memory"])
    text = report_text(found, limit=5)
    assert all(len(line) <= 80 for line in body(text).splitlines())
    assert "memory peak" in text
    assert "Held at the peak" in text
    markdown = report_markdown(found, limit=5)
    assert "### Held at the peak" in markdown
    assert "memory peak" in markdown
    rows = list(csv.DictReader(io.StringIO(report_csv(found, "memory"))))
    section = found["run"]["traces"][0]["memory"]
    assert len(rows) == len(section["holders"])
    assert rows[0]["peak_allocated_bytes"] == str(section["peak_allocated_bytes"])
    assert sum(int(row["bytes"]) for row in rows if row["by"] == rows[0]["by"]) == section["peak_allocated_bytes"]


def test_the_csv_of_several_recordings_has_the_holders_of_any():
    whole, empty = (report(run_of(name), sections=["memory"]) for name in (GPT, NO_MEMORY))
    held, bare = whole["run"]["traces"][0], empty["run"]["traces"][0]
    assert bare["memory"] is not None
    assert not bare["memory"]["holders"]
    both = {**whole, "run": {**whole["run"], "traces": [bare, held]}}
    rows = list(csv.DictReader(io.StringIO(report_csv(both, "memory"))))
    assert [row["bytes"] for row in rows] == [str(row["bytes"]) for row in held["memory"]["holders"]]
    assert {row["trace"] for row in rows} == {held["source"]["path"]}, "the other tool tells nothing of memory"


def test_out_of_memory_is_in_the_reports(tmp_path: Path):
    allocator = churn(Allocator(), 60, 3)
    allocator.oom(3 << 30, 5 << 20)
    run = open_path(write(tmp_path / "s.pickle", snapshot(allocator)), cache=False)
    found = report(run, sections=["memory"])
    (event,) = found["run"]["traces"][0]["memory"]["oom"]
    assert (event["requested_bytes"], event["device_free_bytes"]) == (3 << 30, 5 << 20)
    assert event["allocated_bytes"] == allocator.held[-1][0]
    for text in (report_text(found), report_markdown(found)):
        assert "Out of memory" in text
        assert "3.000 GiB asked for" in " ".join(text.split())


def test_the_history_off_is_reported_by_its_end(tmp_path: Path):
    allocator = churn(Allocator(), 80, 2)
    run = open_path(write(tmp_path / "s.pickle", snapshot(allocator)["segments"]), cache=False)
    section = report(run, sections=["memory"])["run"]["traces"][0]["memory"]
    assert section["peak_allocated_bytes"] is None
    assert section["end_allocated_bytes"] == allocator.held[-1][0]
    assert section["curve"] == section["holders"] == []
    text = report_text(report(run, sections=["memory"]))
    assert "At the end:" in text
