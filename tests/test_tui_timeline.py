"""The timeline by keys: zoom and pan, from event to event, lanes, and the range that restricts every tab."""

import polars as pl
import pytest
from sample_runs import FP32, recorded
from tui_pilot import opened, press, screen_text, settle, write

from tracetui.analysis.base.conventions import CATEGORIES
from tracetui.analysis.kernels import kernels
from tracetui.analysis.selection import Scope, select
from tracetui.app.text.times import parse_time
from tracetui.app.views.kernels import KernelsView
from tracetui.app.views.timeline import TimelineView
from tracetui.app.widgets.prompt import PromptInput
from tracetui.app.widgets.timeline import TimelineWidget


def picture(app):
    return app.query_one(TimelineView).picture


def kind(app):
    shown = picture(app)
    return shown.timeline.lanes[shown.lanes.lines[shown.cursor][0]].kind


def selected(app):
    shown = picture(app)
    return shown.timeline.lanes[shown.selected.lane].source, shown.timeline.event(shown.selected)


async def to_lane(app, pilot, wanted):
    shown = picture(app)
    lane = next(n for n, lane in enumerate(shown.timeline.lanes) if lane.kind == wanted)
    shown.action_row(shown.lanes.line_of(lane, 0) - shown.cursor)
    await settle(pilot)
    assert kind(app) == wanted


async def test_zooms_and_pans_by_the_keys_of_perfetto_vi_and_the_arrows():
    async with opened(FP32) as (app, pilot):
        await press(pilot, "T")
        assert app.tab == "timeline"
        shown = picture(app)
        whole = (shown.start, shown.end)
        assert whole == (shown.timeline.start, shown.timeline.end)
        for inward, outward in (("w", "s"), ("plus", "minus"), ("equals_sign", "minus")):
            await press(pilot, inward, inward)
            assert shown.end - shown.start == pytest.approx((whole[1] - whole[0]) / 4, rel=1e-6)
            await press(pilot, outward, outward, outward)
            assert (shown.start, shown.end) == whole
        await press(pilot, "w", "w", "w")
        for earlier, later in (("a", "d"), ("h", "l"), ("left", "right")):
            before = shown.start
            await press(pilot, later)
            assert shown.start == before + int((shown.end - shown.start) / 4)
            await press(pilot, earlier)
            assert shown.start == before
        await press(pilot, "F")
        assert (shown.start, shown.end) == whole
        await press(pilot, "h")
        assert "The whole recording is in sight: w zooms in" in screen_text(app)
        await press(pilot, "w", *"hhhhh")
        assert "The recording begins here" in screen_text(app)
        await press(pilot, "semicolon")
        assert "Arrows of the selected event: hidden" in screen_text(app)


async def test_the_event_at_the_cursor_stays_where_it_is_while_zooming():
    async with opened(FP32, tab="timeline", size=(120, 40)) as (app, pilot):
        await press(pilot, *["full_stop"] * 5)
        shown = picture(app)
        column = shown.column_of(shown.time)
        await press(pilot, "w")
        assert abs(shown.column_of(shown.time) - column) <= 1
        await press(pilot, "z")
        start, end = shown.timeline.span(shown.selected)
        assert shown.start <= start < end <= shown.end
        assert (shown.end - shown.start) < 2 * (end - start) + 10


async def test_goes_through_events_and_rows():
    async with opened(FP32, tab="timeline") as (app, pilot):
        assert kind(app) == "stream"
        first = selected(app)
        await press(pilot, "full_stop", "full_stop", "comma")
        assert picture(app).selected.position == 1
        await press(pilot, "comma")
        assert selected(app) == first
        await press(pilot, "j")
        assert kind(app) == "ranges"
        await press(pilot, "k", "k")
        assert kind(app) == "gpu ranges"
        await press(pilot, "pagedown", "J")
        assert kind(app) == "ranges"
        await press(pilot, "K", "up")
        assert kind(app) == "gpu ranges"
        await press(pilot, "f")
        assert "No call launches a range" in screen_text(app)


async def test_same_name():
    async with opened(FP32, tab="timeline") as (app, pilot):
        await press(pilot, "slash")
        await write(pilot, "rms")
        await press(pilot, "escape", "slash")
        await write(pilot, "layer_norm_fwd")
        await press(pilot, "enter")
        shown = picture(app)
        here, name = selected(app), shown.timeline.name(shown.selected)
        assert "layer_norm_fwd" in name
        await press(pilot, "n")  # the search goes on in any lane
        assert selected(app) != here
        assert "2/" in screen_text(app).splitlines()[2]
        assert "n next hit" in screen_text(app).splitlines()[-1]
        assert shown.timeline.name(shown.selected) != name
        await press(pilot, "N")
        assert selected(app) == here
        await press(pilot, "escape", "n")
        assert selected(app) != here
        assert shown.timeline.name(shown.selected) == name
        await press(pilot, "N")
        assert selected(app) == here


async def test_find_says_where_there_is_no_such_name():
    async with opened(FP32, tab="timeline") as (app, pilot):
        await press(pilot, "slash")
        await write(pilot, "no such thing")
        await press(pilot, "enter")
        assert "not in the lanes shown" in screen_text(app)
        assert isinstance(app.focused, PromptInput)


async def test_follows_a_launch_and_comes_back():
    async with opened(FP32, tab="timeline") as (app, pilot):
        await press(pilot, "full_stop", "full_stop", "full_stop", "full_stop")
        kernel = selected(app)
        assert kernel[0] == "device"
        trace = app.session.trace()
        await press(pilot, "f")
        assert selected(app) == ("host", trace.device["launch"][kernel[1]])
        await press(pilot, "f")
        assert selected(app) == kernel


async def test_details_have_what_the_frame_has():
    async with opened(FP32, tab="timeline", size=(120, 40)) as (app, pilot):
        await press(pilot, "slash")
        await write(pilot, "gemm")
        await press(pilot, "enter", "i")
        text = screen_text(app)
        for title in ("Grid", "Block", "Launch delay", "Operator", "Module", "Range", "Stream", "Correlation"):
            assert title in text
        row = app.session.trace().device.row(selected(app)[1], named=True)
        assert " x ".join(map(str, row["grid"])) in text
        assert str(row["correlation"]) in text
        await press(pilot, "escape")
        assert "Correlation" not in screen_text(app)


async def test_an_idle_gap_says_what_the_host_did():
    async with opened(FP32, tab="timeline", size=(120, 40)) as (app, pilot):
        await to_lane(app, pilot, "idle")
        text = screen_text(app)
        assert "GPU 0 idle" in text
        assert "next launched" in text
        assert "host 424: " in text
        await press(pilot, "enter")
        assert "host wait: the next activity" in screen_text(app)


async def test_a_range_is_marked_at_the_cursor_where_no_event_is():
    async with opened(FP32) as (app, pilot):
        await press(pilot, "T")
        await press(pilot, *"w" * 12)
        picture, span = app.view.picture, app.view._built.span
        for time, mark in (("100ms", "left_square_bracket"), ("120ms", "right_square_bracket")):
            await press(pilot, "t", *time, "enter")
            for _ in range(20):
                begin, end = span(picture.selected)
                if begin > picture.end or end < picture.start:
                    break
                await press(pilot, "j")
            await press(pilot, mark)
        zero = app.view._built.zero
        assert app.session.scope.window == (zero + 100_000_000, zero + 120_000_000)
        assert "of the marked 20.00 ms" in screen_text(app)


async def test_a_marked_range_restricts_every_tab_until_esc():
    async with opened(FP32, size=(120, 40)) as (app, pilot):
        await press(pilot, "2")
        trace = app.session.trace()
        whole = int(app.query_one(KernelsView).table.frame["calls"].sum())
        await press(pilot, "T")
        await to_lane(app, pilot, "steps")
        await press(pilot, "full_stop", "left_square_bracket")
        assert app.session.scope.window is None
        await press(pilot, "right_square_bracket")
        step = trace.steps.row(1, named=True)
        window = (step["start"], step["start"] + step["duration"])
        assert app.session.scope.window == window
        assert "range 115.2-220.9 ms (Esc)" in screen_text(app).splitlines()[0]
        await press(pilot, "2")
        part = int(app.query_one(KernelsView).table.frame["calls"].sum())
        assert part == int(kernels(select(trace, Scope(window=window)))["calls"].sum()) < whole
        assert "marked range" in screen_text(app)
        for tab in ("1", "3", "4", "5", "7", "8"):
            await press(pilot, tab)
            assert "range 115.2-220.9 ms" in screen_text(app)
        await press(pilot, "4", "escape")
        assert app.session.scope.window is None
        assert "115.2-220.9" not in screen_text(app)
        await press(pilot, "2")
        assert int(app.query_one(KernelsView).table.frame["calls"].sum()) == whole
        await press(pilot, "T")
        assert picture(app).marks == (None, None)


async def test_esc_in_the_timeline_ends_the_range_after_the_details():
    async with opened(FP32, tab="timeline", size=(120, 40)) as (app, pilot):
        await press(pilot, "left_square_bracket", "full_stop", "right_square_bracket", "i")
        assert app.session.scope.window is not None
        await press(pilot, "escape")
        assert app.session.scope.window is not None
        await press(pilot, "escape")
        assert app.session.scope.window is None
        await press(pilot, "left_square_bracket", "escape")
        assert picture(app).marks == (None, None)


async def test_a_range_of_one_rank_ends_with_it():
    async with opened(recorded("chrome/ddp_vit_small_2ranks"), tab="timeline") as (app, pilot):
        first = picture(app).timeline
        await press(pilot, "left_square_bracket", "right_square_bracket")
        assert app.session.scope.window is not None
        await press(pilot, "R")
        assert app.session.scope.window is None
        assert picture(app).timeline is not first
        assert picture(app).timeline.trace is app.session.trace()


async def test_the_timeline_itself_is_not_restricted_and_not_built_again():
    async with opened(FP32, tab="timeline") as (app, pilot):
        shown = picture(app).timeline
        await press(pilot, "left_square_bracket", "full_stop", "right_square_bracket", "1", "T")
        assert picture(app).timeline is shown
        assert picture(app).end == shown.end


async def test_from_a_launch_in_the_table_to_the_timeline_and_back():
    async with opened(FP32, tab="kernels") as (app, pilot):
        await press(pilot, "t")
        assert app.tab == "kernels"
        await press(pilot, "enter", "down", "down")
        row = app.query_one(KernelsView).table.current
        await press(pilot, "t")
        assert app.tab == "timeline"
        assert selected(app) == ("device", row["row"])
        name = picture(app).timeline.name(picture(app).selected)
        await press(pilot, "enter")
        assert app.tab == "kernels"
        assert app.query_one(KernelsView).table.current["name"] == name


async def test_from_a_launch_of_the_host_to_its_call_in_the_timeline():
    async with opened(FP32, tab="host") as (app, pilot):
        await press(pilot, "v", "v", "v", "down", "down")
        row = app.view.table.current
        await press(pilot, "t")
        assert app.tab == "timeline"
        call = app.session.trace().host.row(selected(app)[1], named=True)
        assert (call["start"], call["name"]) == (row["start"], row["api"])


@pytest.mark.parametrize(
    ("lane", "tab", "table"), [("stream", "kernels", "copies"), ("ranges", "host", "ranges"), ("calls", "host", "")]
)
async def test_enter_goes_to_the_row_of_the_event(lane, tab, table):
    async with opened(FP32, tab="timeline") as (app, pilot):
        await to_lane(app, pilot, lane)
        await press(pilot, "enter")
        assert app.tab == tab
        assert not table or app.view.kind == table
        assert "is not among" not in screen_text(app)


async def test_goes_to_a_time():
    async with opened(FP32, tab="timeline", size=(120, 40)) as (app, pilot):
        await press(pilot, "w", "w", "w", "w", "t")
        await write(pilot, "tomorrow")
        await press(pilot, "enter")
        assert "a number and ns, us, ms or s" in screen_text(app)
        await press(pilot, "escape", "t")
        await write(pilot, "99s")
        await press(pilot, "enter")
        assert "the recording is" in screen_text(app)
        await press(pilot, "escape", "t")
        await write(pilot, "160ms")
        await press(pilot, "enter")
        shown = picture(app)
        wanted = shown.timeline.zero + 160_000_000
        assert shown.start < wanted < shown.end
        assert shown.time == wanted


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("12.5ms", 12_500_000), ("12.5", 12_500_000), ("1.25 s", 1_250_000_000), ("7 ns", 7), (".5us", 500),
        ("+3ms", 3_000_100), ("-100ns", 0), ("2µs", 2000), ("", None), ("ms", None), ("1 hour", None), ("1.2.3", None),
        ("9" * 30 + "s", 2**62 - 1), ("-" + "9" * 30, 1 - 2**62), ("9" * 5000, None), ("." + "3" * 5000, None),
    ],
)  # fmt: skip
def test_times_that_people_type(text, time):
    assert parse_time(text, 100, 0) == time


async def test_folds_pins_and_hides_lanes():
    async with opened(FP32, tab="timeline", size=(120, 40)) as (app, pilot):
        await to_lane(app, pilot, "modules")
        shown = picture(app)
        lines = len(shown.lanes.lines)
        await press(pilot, "space")
        assert len(shown.lanes.lines) == lines - 3
        await press(pilot, "space", "underscore")
        assert shown.lanes.lines[0][0] == shown.lanes.lines[shown.cursor][0]
        assert kind(app) == "modules"
        await press(pilot, "underscore")
        assert shown.timeline.lanes[shown.lanes.lines[0][0]].kind == "steps"
        await press(pilot, "x")
        assert kind(app) != "modules"
        assert "1 hidden (X)" in screen_text(app)
        assert not any(shown.timeline.lanes[lane].kind == "modules" for lane, _ in shown.lanes.lines)
        await press(pilot, "X")
        assert len(shown.lanes.lines) == lines
        await pilot.press(*["x"] * 30)
        assert shown.lanes.lines


@pytest.mark.parametrize("size", [(40, 12), (200, 60)])
async def test_any_terminal_has_room_for_it(size):
    async with opened(FP32, tab="timeline", size=size) as (app, pilot):
        await press(pilot, "w", "w", "j", "j", "j", "j", "j", "j", "j", "j", "j", "i", "escape", "F")
        lines = screen_text(app).splitlines()
        assert len(lines) <= size[1]
        assert all(len(line) <= size[0] for line in lines)
        assert any(line.startswith(">") for line in lines)
        await pilot.resize_terminal(80, 24)
        await press(pilot, "k")
        assert any(line.startswith(">") for line in screen_text(app).splitlines())


async def test_a_click_selects_what_is_there():
    async with opened(FP32, tab="timeline", size=(120, 40)) as (app, pilot):
        shown = picture(app)
        line = shown.lanes.line_of(next(n for n, lane in enumerate(shown.timeline.lanes) if lane.kind == "steps"), 0)
        await pilot.click(TimelineWidget, offset=(80, line - shown.top + 1))
        await settle(pilot)
        assert shown.timeline.name(shown.selected) == "ProfilerStep#2"


async def test_without_utf8_it_is_all_ascii():
    async with opened(FP32, tab="timeline", ascii=True) as (app, pilot):
        await press(pilot, "full_stop")
        for keys in (("w",) * 6, ("f",), ("z",), ("F",)):
            await press(pilot, *keys)
            body = "\n".join(screen_text(app).splitlines()[2:])
            assert body.isascii()
        assert "|ProfilerStep#1 -" in body
        assert "GPU0 idle" in body


async def test_a_recording_without_times_says_so():
    async with opened(recorded("ncu/vim_basic_stdout_details.csv.gz"), tab="timeline") as (app, pilot):
        assert "not when they ran" in screen_text(app)
        await press(pilot, "w", "f", "t", "left_square_bracket", "enter", "i", "n", "space", "escape")
        assert "not when they ran" in screen_text(app)


@pytest.mark.parametrize("name", ["nsys/gpt_small_ctx256.sqlite.gz", "jax/h200.trace.json.gz"])
async def test_recordings_of_other_tools(name):
    async with opened(recorded(name), tab="timeline", size=(120, 40)) as (app, pilot):
        await press(pilot, "full_stop", "f", "f", "i", "escape", "n", "N", "z", "F", "enter")
        assert app.tab == "kernels"


async def test_names_that_a_terminal_would_obey_are_shown_as_text():
    async with opened(recorded("broken/control_char_newline_in_name.json"), tab="timeline") as (app, pilot):
        await press(pilot, "z", "i", *["j"] * 6)
        assert all(char.isprintable() for char in screen_text(app).replace("\n", ""))


async def test_bookmarks_are_set_visited_in_turn_and_taken_away():
    async with opened(FP32) as (app, pilot):
        await press(pilot, "T", "apostrophe")
        assert 'No bookmark is set: " sets one at the cursor' in screen_text(app)
        shown = picture(app)
        await press(pilot, "quotation_mark")
        first = selected(app)
        assert "Bookmark set (1 in all): ' goes from one to the next" in screen_text(app)
        await press(pilot, "full_stop", "full_stop", "full_stop")
        second = selected(app)
        await press(pilot, "quotation_mark", *["w"] * 9, "comma")
        assert "B" in screen_text(app).splitlines()[3]  # the ruler
        await press(pilot, "apostrophe")
        assert selected(app) == second
        await press(pilot, "apostrophe")
        assert selected(app) == first
        assert "Bookmark 1 of 2" in screen_text(app)
        await press(pilot, "quotation_mark")
        assert "Bookmark removed (1 left)" in screen_text(app)
        await press(pilot, "apostrophe")
        assert selected(app) == second
        assert [mark.time for mark in shown.bookmarks] == [shown.time]


async def test_the_path_is_a_lane_and_a_kernel_says_its_slack():
    async with opened(FP32, tab="timeline", size=(120, 40)) as (app, pilot):
        shown = picture(app)
        line = next(n for n, (lane, _) in enumerate(shown.lanes.lines) if shown.timeline.lanes[lane].kind == "path")
        assert shown.timeline.lanes[shown.lanes.lines[line - 1][0]].kind == "steps"
        assert " slack " in screen_text(app)
        await press(pilot, "i")
        assert "Slack" in screen_text(app)
        await press(pilot, "escape")
        await to_lane(app, pilot, "path")
        await press(pilot, "full_stop")
        piece = shown.timeline.record(shown.selected)
        assert "critical path: " in screen_text(app)
        await press(pilot, "f")
        assert selected(app) == (piece["frame"], piece["row"])
        await to_lane(app, pilot, "path")
        await press(pilot, "enter")
        assert app.tab == "host"
        assert app.view.kind == "critical path"


@pytest.mark.parametrize("ascii", [False, True])
async def test_an_arrow_leads_from_the_launch_to_the_kernel(ascii):
    async with opened(FP32, tab="timeline", ascii=ascii) as (app, pilot):
        start, head = ("o", "^") if ascii else ("●", "▲")

        def pictured():
            return [row.ljust(80) for row in screen_text(app).splitlines()[4:-3]]

        await press(pilot, "v")
        assert (app.tab, screen_text(app).splitlines()[-1][:17]) == ("timeline", " [ and ] mark a r")
        await press(pilot, *["full_stop"] * 4)
        assert not any(head in row[15:] for row in pictured())  # both are in one cell, too narrow to be seen
        await press(pilot, "f")
        rows = pictured()
        (above,) = [number for number, row in enumerate(rows) if head in row[15:]]
        (below,) = [number for number, row in enumerate(rows) if start in row[15:16] or f" {start}" in row[15:]]
        assert "strm 7" in rows[above]
        assert rows[below].startswith(">")
        assert above < below
        await press(pilot, *["l"] * 6)
        assert f" {'<' if ascii else '◀'} its work " in screen_text(app).splitlines()[-2]
        await press(pilot, *["h"] * 6, "semicolon")
        assert not any(head in row[15:] for row in pictured())


async def test_the_list_of_steps_leads_to_each():
    async with opened(FP32, tab="host") as (app, pilot):
        await press(pilot, "V", "V", "V")
        table = app.view.table
        assert (app.view.kind, table.frame["index"].to_list()) == ("steps", [1, 2, 3])
        parts = [f"{part}_ns" for part in CATEGORIES]
        assert table.frame.select(pl.sum_horizontal(parts))[parts[0]].to_list() == table.frame["duration_ns"].to_list()
        await press(pilot, "down", "enter")
        assert app.tab == "timeline"
        assert selected(app)[1] == 1


async def test_the_list_of_gaps_leads_to_each_and_the_area_to_what_ran_in_it():
    async with opened(FP32, tab="overview") as (app, pilot):
        assert " H gaps " in screen_text(app).splitlines()[-1]
        await press(pilot, "H")
        assert (app.tab, app.view.kind) == ("host", "gaps")
        await press(pilot, "b", "down")
        row = app.view.table.current
        await press(pilot, "enter")
        assert app.tab == "timeline"
        shown = picture(app)
        span = (row["start"], row["start"] + row["duration_ns"])
        assert selected(app)[0] == "idle"
        assert shown.timeline.span(shown.selected) == span
        assert shown.start <= span[0] < span[1] <= shown.end
        await press(pilot, "left_square_bracket", "right_square_bracket", "v")
        assert (app.tab, app.view.kind) == ("host", "lanes")
        assert app.view.table.current["lane"] == "GPU 0 idle"
        assert app.view.table.current["percent"] == 100
        lanes = app.view.table.frame
        await press(pilot, *["down"] * 4, "enter")
        assert app.view.state.page.title == lanes["lane"][5]
        await press(pilot, "t")
        assert app.tab == "timeline"


async def test_ranks_are_shown_together_and_one_alone_again():
    async with opened(recorded("chrome/ddp_vit_small_2ranks"), tab="timeline") as (app, pilot):
        alone = picture(app).timeline
        await press(pilot, "ampersand")
        await write(pilot, "0-7")
        await press(pilot, "enter")
        assert "no rank 0-7 here" in screen_text(app)
        await press(pilot, *["backspace"] * 3)
        await write(pilot, "0 1")
        await press(pilot, "enter")
        shown = picture(app)
        assert shown.timeline.ranks == (0, 1)
        assert "ranks 0, 1" in screen_text(app)
        assert [row[1:9] for row in screen_text(app).splitlines()[4:8]] == [
            "r0 steps",
            "r1 steps",
            "r0 coll.",
            "r1 coll.",
        ]
        await press(pilot, *["full_stop"] * 3)
        assert "arrives: r" in screen_text(app)
        await press(pilot, "left_square_bracket")
        assert app.session.scope.window is None
        await press(pilot, "ampersand", "enter")
        assert picture(app).timeline.trace is alone.trace
        assert "r0 steps" not in screen_text(app)


async def test_esc_leads_back_to_what_led_to_another_tab():
    async with opened(FP32) as (app, pilot):
        await press(pilot, "2", "enter", "down", "t")
        assert app.tab == "timeline"
        assert "Esc back" in screen_text(app).splitlines()[-1]
        await press(pilot, "i", "escape", "escape")  # its details first
        assert app.tab == "kernels"
        assert app.view.table.cursor == 1
        await press(pilot, "t", "enter", "enter")  # to the timeline, to the kernel's row, to its launches
        assert app.tab == "kernels"
        await press(pilot, "escape", "escape")
        assert app.tab == "timeline"
        assert "Esc back" in screen_text(app).splitlines()[-1]
        await press(pilot, "escape")
        assert (app.tab, app.view.state.page.id) == ("kernels", "launches")
        await press(pilot, "T", "H")
        assert (app.tab, app.view.state.page.id) == ("host", "gap_causes")
        await press(pilot, "escape", "escape")  # the timeline was chosen: nothing led to it
        assert app.tab == "timeline"
        await press(pilot, "v", "2", "4", "escape")
        assert app.tab == "host"
