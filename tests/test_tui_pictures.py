"""The pictures on the screen, and what their keys do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.sample_runs import FP32
from tests.tui_pilot import opened, press, screen_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def screen(drive: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(drive())  # type: ignore[arg-type]


def test_launches_have_a_histogram() -> None:
    async def drive() -> None:
        async with opened(FP32) as (app, pilot):
            await press(pilot, "2", "enter")
            assert "launches, by duration" not in screen_text(app)
            assert "i histogram" in screen_text(app)
            await press(pilot, "i")
            text = screen_text(app)
            assert "launches, by duration" in text
            assert "m = median" in text
            assert "i hide" in text
            await press(pilot, "i")
            assert "launches, by duration" not in screen_text(app)

    screen(drive)


def test_a_tall_screen_has_it_unasked() -> None:
    async def drive() -> None:
        async with opened(FP32, size=(120, 40)) as (app, pilot):
            await press(pilot, "2", "enter")
            assert "launches, by duration" in screen_text(app)
            await press(pilot, "escape")
            assert "launches, by duration" not in screen_text(app)

    screen(drive)


def test_from_the_histogram_to_the_longest_launch_and_its_place_in_time() -> None:
    async def drive() -> None:
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

    screen(drive)


def test_the_histogram_is_of_what_the_filter_keeps() -> None:
    async def drive() -> None:
        async with opened(FP32, size=(120, 40)) as (app, pilot):
            await press(pilot, "2", "enter")
            whole = screen_text(app)
            await press(pilot, "slash", *"Block_7/", "enter")
            kept = app.view.table.height_of_view
            assert 0 < kept < app.view.table.frame.height
            picture = screen_text(app)
            assert "by duration" in picture or f"All {kept} launches take" in picture
            assert picture.splitlines()[3:12] != whole.splitlines()[3:12]

    screen(drive)


def test_the_keys_say_where_they_lead_where_they_lead_nowhere() -> None:
    async def drive() -> None:
        async with opened(FP32) as (app, pilot):
            await press(pilot, "2", "i")
            assert "Enter on a kernel opens" in screen_text(app)
            await press(pilot, "L")
            assert "Enter on a kernel opens" in screen_text(app)

    screen(drive)
