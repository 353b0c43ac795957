"""The title of a table: the breadcrumb, and how much of the note about its numbers stays where there is little room."""

from __future__ import annotations

import pytest
from sample_runs import recorded
from tui_pilot import opened, press, screen_text


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (100, 30)])
async def test_the_total_of_a_range_stays_where_words_give_way(size):
    async with opened(recorded("nsys/gpt_small_ctx256.sqlite.gz"), size=size) as (app, pilot):
        await press(pilot, "5", "enter")
        title = screen_text(app).splitlines()[2]
        total = app.shell.view.state.page.frame["total_ns"].sum()
        assert f" {total / 1e6:.2f} ms" in title
        assert "no nn.Module" not in title
        assert "train_step" in title
