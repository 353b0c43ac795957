"""The pictures on the screen, and what their keys do."""

from typing import Any

import polars as pl
import pytest
from sample_runs import FP32
from textual.app import App

from tests.tui_pilot import opened, press, screen_text, settle
from tracetui.analysis.tables.table import Field
from tracetui.app.widgets.tree_table import Folded, TreeTable, small_siblings, with_folded


async def test_launches_have_a_histogram() -> None:
    async with opened(FP32) as (app, pilot):
        await press(pilot, "2", "enter")
        assert "launches, by duration" not in screen_text(app)
        assert "D histogram" in screen_text(app)
        await press(pilot, "D")
        text = screen_text(app)
        assert "launches, by duration" in text
        assert "m = median" in text
        assert "D hide" in text
        await press(pilot, "D")
        assert "launches, by duration" not in screen_text(app)


async def test_a_tall_screen_has_it_unasked() -> None:
    async with opened(FP32, size=(120, 40)) as (app, pilot):
        await press(pilot, "2", "enter")
        assert "launches, by duration" in screen_text(app)
        await press(pilot, "escape")
        assert "launches, by duration" not in screen_text(app)


async def test_from_the_histogram_to_the_longest_launch_and_its_place_in_time() -> None:
    async with opened(FP32, size=(120, 40)) as (app, pilot):
        await press(pilot, "2", "enter", "L")
        table = app.view.table
        durations = table.view()["duration_ns"]
        assert table.current["duration_ns"] == durations.max()
        assert "The longest of" in screen_text(app)
        await press(pilot, "L")
        assert (durations <= table.current["duration_ns"]).mean() >= 0.95
        assert (durations < table.current["duration_ns"]).mean() < 0.95
        await press(pilot, "L", "L")
        assert table.current["duration_ns"] == durations.max()
        await press(pilot, "t")
        assert app.tab == "timeline"


async def test_the_histogram_is_of_what_the_filter_keeps() -> None:
    async with opened(FP32, size=(120, 40)) as (app, pilot):
        await press(pilot, "2", "enter")
        whole = screen_text(app)
        await press(pilot, "slash", *"Block_7/", "enter")
        kept = app.view.table.height_of_view
        assert 0 < kept < app.view.table.frame.height
        picture = screen_text(app)
        assert "by duration" in picture or f"All {kept} launches take" in picture
        assert picture.splitlines()[3:12] != whole.splitlines()[3:12]


async def test_the_keys_say_where_they_lead_where_they_lead_nowhere() -> None:
    async with opened(FP32) as (app, pilot):
        await press(pilot, "2", "D")
        assert "Enter on a kernel opens" in screen_text(app)
        await press(pilot, "L")
        assert "Enter on a kernel opens" in screen_text(app)


def tree(app: App[Any]) -> TreeTable:
    return app.view.table  # type: ignore[attr-defined,no-any-return]


def small_tree() -> pl.DataFrame:
    """A root with twelve children, nine of them below 0.5 % (sum 1.8 %); the last has a child."""
    rows = [("root", 0, 100.0, 1000)]
    for number in range(12):
        share = 30.0 if number % 4 == 0 else 0.2
        rows.append((f"child_{number}", 1, share, int(share * 10)))
        if number == 11:
            rows.append(("grandchild", 2, 0.1, 1))
    return pl.DataFrame(rows, schema=["name", "depth", "percent", "device_total_ns"], orient="row")


def test_small_siblings_stand_behind_one_row() -> None:
    frame = small_tree()
    rests = small_siblings(frame, {-1: [0], 0: list(range(1, 13)), 12: [13]})
    assert [(rest.parent, len(rest.rows)) for rest in rests] == [(0, 7)]
    shown = {row for row in range(1, 13) if row not in rests[0].rows}
    assert {frame["percent"][row] for row in shown} == {30.0, 0.2}
    assert len(shown) == 5
    last = with_folded(frame, rests).row(-1, named=True)
    assert last["name"] == "… 7 more below 0.5 %"
    assert last["percent"] == pytest.approx(7 * 0.2)
    assert last["device_total_ns"] == 14


def test_small_places_of_gaps_have_their_common_time() -> None:
    frame = small_tree().rename({"name": "host", "device_total_ns": "duration_ns"})
    last = with_folded(frame, [Folded(0, (10, 11, 12))]).row(-1, named=True)
    assert (last["host"], last["duration_ns"]) == ("… 3 more below 0.5 %", 6)


def test_a_few_small_siblings_are_not_hidden() -> None:
    frame = pl.DataFrame({"name": list("abcdefg"), "percent": [90.0, *[0.1] * 6]})
    assert small_siblings(frame, {-1: list(range(7))}) == []
    assert small_siblings(frame.with_columns(percent=pl.lit(1.0)), {-1: list(range(7))}) == []


def test_the_host_s_time_counts_where_there_is_no_gpu() -> None:
    frame = pl.DataFrame(
        {"percent": [None] * 9, "host_total_ns": [1000, *[1] * 8]}, schema_overrides={"percent": float}
    )
    assert len(small_siblings(frame, {-1: list(range(9))})[0].rows) == 4


async def test_enter_opens_what_was_hidden() -> None:
    async with opened(FP32, size=(100, 40)) as (app, pilot):
        await press(pilot, "5")
        table = tree(app)
        frame = small_tree()
        table.plant(frame)
        table.load(frame, [Field("name", "Name", width=30, flex=True), Field("percent", "%", "percent")])
        await settle(pilot)
        text = screen_text(app)
        assert "▸ … 7 more below 0.5 %" in text
        assert "grandchild" not in text
        assert table.view().height == 6
        await press(pilot, "G", "enter")
        assert "▾ … 7 more below 0.5 %" in screen_text(app)
        assert table.view().height == 13
        await press(pilot, "enter")
        assert table.view().height == 6
        assert table.stand_on(13), "what leads to a hidden row opens"
        assert "grandchild" in str(table.current)
        await press(pilot, "h", "h", "h")
        assert table.on_group
        await press(pilot, "slash", *"grand", "enter")
        assert "more below" not in screen_text(app)
        assert table.matching == 1


async def test_the_icicle_of_the_modules() -> None:
    async with opened(FP32) as (app, pilot):
        await press(pilot, "5")
        table = screen_text(app)
        assert "D icicle" in table
        await press(pilot, "D")
        text = screen_text(app)
        assert "Esc table" in text
        assert "VisionMamba_0 98.1 % ──" in text
        assert "Block ×24" in text
        await press(pilot, "j")
        assert "Block ×24 · " in screen_text(app)
        assert "of GPU time" in screen_text(app)
        await press(pilot, "enter")
        assert "Block ×24 ──" in screen_text(app).replace(" 100.0 %", "")
        assert "Esc zoom out" in screen_text(app)
        await press(pilot, "escape")
        assert "Esc zoom out" not in screen_text(app)
        await press(pilot, "space")
        assert "… 29 more" in screen_text(app)  # 24 blocks, what else is in the root, and its own operators
        await press(pilot, "enter")
        await press(pilot, "j", "l", "l")
        assert "Block_" in screen_text(app)
        await press(pilot, "greater_than_sign")
        assert "The largest is first here" in screen_text(app)
        await press(pilot, "D")
        chosen = tree(app).current
        assert chosen is not None
        assert str(chosen["name"]).startswith("Block_")
        await press(pilot, "enter")
        assert "Modules › Block_" in screen_text(app)


async def test_the_icicle_is_of_what_the_filter_keeps() -> None:
    async with opened(FP32, size=(120, 40)) as (app, pilot):
        await press(pilot, "5", "D")
        await press(pilot, "slash", *"block_7", "enter")
        text = screen_text(app)
        assert "Block ×24" not in text
        assert "98.1 % of all" in text
        await press(pilot, "escape")
        assert "Block ×24" in screen_text(app)
        await press(pilot, "slash", *"zzz")
        assert "Nothing here matches the filter" in screen_text(app)


async def test_times_per_call_make_no_icicle() -> None:
    async with opened(FP32) as (app, pilot):
        await press(pilot, "5")
        app.session.per = "call"
        await press(pilot, "D")
        assert "per call can't be added up" in screen_text(app)
        assert "D icicle" in screen_text(app) or tree(app).display


async def test_the_pictures_in_ascii() -> None:
    async with opened(FP32, size=(120, 80), ascii=True) as (app, pilot):
        assert "how busy each lane is" in screen_text(app)
        assert screen_text(app).isascii()
        await press(pilot, "2", "enter")
        assert "m = median" in screen_text(app)
        assert screen_text(app).isascii()
        await press(pilot, "5", "D", "j", "enter", "j")
        assert "Block x24" in screen_text(app)
        assert screen_text(app).isascii()


async def test_what_is_asked_for_is_found_in_the_icicle() -> None:
    async with opened(FP32, size=(120, 40)) as (app, pilot):
        await press(pilot, "5", "D", "j", "j", "j", "l", "h", "k")
        view = app.view
        assert "Mixer ×24" in screen_text(app).splitlines()[-2]
        view.go_to("Mamba_18")  # type: ignore[union-attr]
        await settle(pilot)
        assert "Mamba ×48 · " in screen_text(app)
        await press(pilot, "v", "v")
        assert "Esc table" in screen_text(app)
        await press(pilot, "escape")
        # the tree is as it was before, but for what leads to the row
        assert "Block_0-23 24 × " in screen_text(app)
