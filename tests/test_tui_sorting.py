"""Sorting by a column named by a part of its title."""

from __future__ import annotations

import pytest
from sample_runs import FP32
from tui_pilot import opened, press, screen_text, write

from tracetui.analysis.tables.table import Field
from tracetui.app.views.common.filtered import columns_named

TITLES = ("Kernel", "Total", "GPU total", "GPU self", "CPU self", "Calls", "Occup%", "%", "Max")
COLUMNS = tuple(Field(title.lower(), title) for title in TITLES)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("total", ["Total", "GPU total"]), ("GPU", ["GPU total", "GPU self"]), ("self", ["GPU self", "CPU self"]),
        ("%", ["%", "Occup%"]), ("ca", ["Calls"]), ("gs", ["GPU self"]), ("ax", ["Max"]), ("zz", []), ("(", []),
        ("", list(TITLES)),
    ],
)  # fmt: skip
def test_a_part_of_a_title_names_the_column(text, meant):
    assert [column.label for column in columns_named(COLUMNS, text)][: len(meant)] == meant
    assert meant or not columns_named(COLUMNS, text)


async def test_s_sorts_by_the_column_that_is_named():
    async with opened(FP32, tab="kernels") as (app, pilot):
        table = app.view.table
        await press(pilot, "s")
        assert "Kernel Total % Calls Mean" in screen_text(app)
        await write(pilot, "me")
        assert "[Mean]" in screen_text(app)
        await press(pilot, "enter")
        assert table.sort == ("mean_ns", True)
        assert table.values("mean_ns").to_list() == sorted(table.frame["mean_ns"], reverse=True)
        await press(pilot, "s", *"mean", "enter")
        assert table.sort == ("mean_ns", False)
        await press(pilot, "s", *"kern", "enter")
        assert table.sort == ("name", False)
        await press(pilot, "s", *"qq", "enter")
        assert "no column has this in its title" in screen_text(app)
        await press(pilot, "escape", "s", "enter")
        assert (table.sort, app.shell.prompt) == (("name", False), None)
        narrow = next(column for column in table.chosen if column not in table.shown)
        await press(pilot, "s", *narrow.label.lower(), "enter")
        assert table.sort is not None
        assert table.sort[0] == narrow.name
        assert f"Sorted by {narrow.label}, which has no room here" in screen_text(app)
        await press(pilot, "5", "s", *"calls", "enter")
        assert app.view.table.sort == ("calls", True)
