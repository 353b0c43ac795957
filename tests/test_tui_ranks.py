"""The tab Ranks: in the bar where there are several, the late one stands out, and Enter shows a rank."""

from __future__ import annotations

import pytest
from sample_runs import recorded
from tui_pilot import opened, press, screen_text

from tracetui.app.charts.heat import heat

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
        assert " no " in lines(app)[4]
        assert " yes " in lines(app)[5]
        await press(pilot, "v")
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
        ([10.0, 12.5, 20.0], "▁▃█"),
        ([10.0, None, 20.0], "▁ █"),
        ([], ""),
    ],
)
def test_a_step_is_higher_the_longer_it_took(values, drawn):
    assert heat(values, 10.0, 20.0, 24, ascii=False) == drawn
    assert len(heat(values, 10.0, 20.0, 24, ascii=True)) == len(drawn)


def test_even_steps_are_drawn_alike_and_many_as_means():
    assert heat([10.0, 10.1], 10.0, 10.1, 24, ascii=False) == "▁▁"
    assert heat([0.0, 0.0, 8.0, 8.0], 0.0, 8.0, 2, ascii=True) == ".%"
    assert len(heat([float(n) for n in range(1000)], 0.0, 999.0, 24, ascii=False)) == 24
