"""The tab Ranks: in the bar where there are several, the late one stands out, and Enter shows a rank."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from rank_summaries import Made
from sample_runs import recorded
from tui_pilot import opened, press, screen_text

from tracetui.analysis.ranks.together.beside_median import REST, beside_median
from tracetui.analysis.ranks.together.job import combine
from tracetui.app.charts.heat import heat_map, signs, span
from tracetui.app.views import rank_pages

JOB = recorded("chrome/ddp_vit_small_2ranks")


def lines(app):
    return screen_text(app).splitlines()


async def test_the_late_rank_stands_out_and_enter_shows_it():
    async with opened(JOB, size=(80, 24)) as (app, pilot):
        assert "J Ra" in lines(app)[1]
        await press(pilot, "J")
        assert app.tab == "ranks"
        assert "rank 1" in lines(app)[2]
        assert lines(app)[4].split()[:2] == [">", "0"]
        assert "! late" not in lines(app)[4]
        assert "! late" in lines(app)[5]
        assert "late: rank 1" in lines(app)[2]
        drawn = lines(app)[3]
        await press(pilot, "L")
        assert lines(app)[3] != drawn
        await press(pilot, "down", "x")
        assert "rank 1 beside the median rank" in lines(app)[2]
        await press(pilot, "escape", "v")
        assert "Arrivals" in lines(app)[2]
        await press(pilot, "enter")
        assert lines(app)[4].split()[:2] == [">", "0"]
        assert "█" in lines(app)[5]
        await press(pilot, "escape", "v")
        assert "Who waited for whom" in lines(app)[2]
        await press(pilot, "v")
        assert "Waiting and transfer" in lines(app)[2]
        await press(pilot, "v")
        assert "No pipeline" in screen_text(app)
        await press(pilot, "v", "down", "enter")
        assert app.tab == "overview"
        assert "rank 1 of 2" in lines(app)[0]


async def test_one_rank_has_no_tab_but_says_why():
    async with opened(JOB / "rank0.pt.trace.json.gz", size=(80, 24)) as (app, pilot):
        assert "J Ra" not in lines(app)[1]
        await press(pilot, "J")
        assert "This run has one rank." in screen_text(app)


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        ([[10.0, 12.5, 20.0]], ["▁▃█"]),
        ([[10.0, np.nan, 20.0]], ["▁ █"]),
        ([[10.0, 10.1]], ["▁▁"]),
        ([[10.0, 11.0], [10.0, 20.0]], ["▁▂", "▁█"]),
        ([[]], [""]),
    ],
)
def test_a_value_is_higher_the_larger_it_is_on_one_scale(values, drawn):
    assert signs(np.array(values), ascii=False) == drawn
    assert [len(line) for line in signs(np.array(values), ascii=True)] == [len(line) for line in drawn]


def test_of_many_values_the_largest_of_neighbours_is_drawn():
    cells = pl.DataFrame({"row": 7, "at": range(1000), "ns": [0] * 700 + [9] + [0] * 299})
    drawn = heat_map(cells, "row", "at", "ns", 10, ascii=True)
    assert drawn == {7: ".......%.."}


def test_a_stretch_is_seen_however_short():
    assert span(0, 5, 10, 10, 10, ascii=True) == "-----#####"
    assert span(9.99, 9.99, 10, 10, 10, ascii=True) == "         #"
    assert span(0, 10, 10, 10, 4, ascii=False) == "░░░█"
    assert span(0, 0, 0, 0, 4, ascii=False) == ""
