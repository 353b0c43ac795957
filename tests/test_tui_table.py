"""The one table: a million rows, sorting, folding, and what it paints."""

from __future__ import annotations

import time

import polars as pl
import pytest
from textual.app import App
from tui_pilot import screen_text

from tracetui.analysis.tables.table import Field
from tracetui.app.tables import filters
from tracetui.app.widgets.tree_table import TreeTable

ROWS = 1_000_000
COLUMNS = (
    Field("name", "Kernel", width=20, priority=0, flex=True, short="short"),
    Field("total_ns", "Total", "time", priority=0, main=True),
    Field("calls", "Calls", "count", priority=1, main=True),
    Field("status", "Status", "status", width=9, priority=3),
)


@pytest.fixture(scope="module")
def million() -> pl.DataFrame:
    row = pl.int_range(ROWS, eager=True)
    return pl.DataFrame(
        {
            "name": "void kernel_" + (row % 1000).cast(pl.String),
            "short": "kernel_" + (row % 1000).cast(pl.String),
            "total_ns": (row * 7919) % 1_000_003,
            "calls": row % 10,
            "status": pl.select(pl.when(row % 2 == 0).then(pl.lit("added")).otherwise(pl.lit("same"))).to_series(),
        }
    )


class TableApp(App[None]):
    def __init__(self, frame: pl.DataFrame, columns=COLUMNS, **options) -> None:
        super().__init__()
        self.table = TreeTable()
        self._load = (frame, columns, options)

    def compose(self):
        yield self.table

    def on_mount(self) -> None:
        frame, columns, options = self._load
        self.table.plant(frame)
        self.table.load(frame, columns, **options)
        self.table.focus()


def rows_of(app: App) -> list[str]:
    return screen_text(app).split("\n")


async def settled(app: App, pilot) -> None:
    """Waits until the rows that were asked for are in view."""
    while app.table.is_working:
        await pilot.pause(0.01)


async def test_a_million_rows_open_move_and_sort_at_once(million):
    app = TableApp(million)
    async with app.run_test(size=(80, 24)) as pilot:
        assert rows_of(app)[1].startswith(">kernel_0 ")
        began = time.process_time()  # what runs beside this takes no part in it
        for _ in range(50):
            await pilot.press("down", "pagedown")
        assert (time.process_time() - began) / 100 < 0.3
        assert app.table.cursor == 50 * (1 + 23)
        await pilot.press("G")
        assert app.table.cursor == ROWS - 1
        assert rows_of(app)[-1].startswith(">kernel_999 ")
        await pilot.press("g", "greater_than_sign")
        await settled(app, pilot)
        began = time.process_time()
        await pilot.press("greater_than_sign")
        await settled(app, pilot)
        assert time.process_time() - began < 5
        assert app.table.sort == ("total_ns", True)
        assert app.table.current["total_ns"] == million["total_ns"].max()
        await pilot.press("r")
        await settled(app, pilot)
        assert app.table.current["total_ns"] == 0
        assert app.table.cursor == 0


async def test_sorting_is_stable_and_marked(million):
    app = TableApp(million.head(1000))
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.set_sort("calls", descending=True)
        await pilot.pause()
        assert "▼Calls" in rows_of(app)[0]
        numbers = [app.table.row_number(position) for position in range(100)]
        assert numbers == [row for row in range(1000) if row % 10 == 9]
        await pilot.press("r")
        assert "▲Calls" in rows_of(app)[0]
        assert [app.table.row_number(p) for p in range(3)] == [0, 10, 20]
        await pilot.press("less_than_sign")
        assert app.table.sort == ("total_ns", True)


async def test_nulls_come_last_in_both_directions():
    frame = pl.DataFrame({"name": ["a", "b", "c"], "total_ns": [None, 2, 1]})
    app = TableApp(frame)
    async with app.run_test():
        for descending, order in ((True, ["b", "c", "a"]), (False, ["c", "b", "a"])):
            app.table.set_sort("total_ns", descending=descending)
            assert app.table.view()["name"].to_list() == order


async def test_the_cursor_stays_on_its_row_when_filtered(million):
    app = TableApp(million.head(1000))
    async with app.run_test():
        app.table.move_to(507)
        app.table.set_filter(filters.parse("kernel_50"))
        assert app.table.height_of_view == 11
        assert app.table.current["name"] == "void kernel_507"
        app.table.set_filter(filters.parse("!kernel_50"))
        assert app.table.height_of_view == 989
        assert app.table.cursor == 0


async def test_full_names_and_cut_names(million):
    long = pl.DataFrame({"name": ["void " + "x" * 300], "short": ["x" * 300], "total_ns": [5], "calls": [1]})
    app = TableApp(long)
    async with app.run_test(size=(80, 24)):
        assert "xx…  " in rows_of(app)[1]
        app.table.set_names("full")
        await app.animator.wait_until_complete()
        assert app.table.current["name"].startswith("void")
    app = TableApp(million.head(5))
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.set_names("full")
        await pilot.pause()
        assert rows_of(app)[1].startswith(">void kernel_0 ")


async def test_status_is_a_word_and_a_sign(million):
    app = TableApp(million.head(5))
    async with app.run_test(size=(80, 24)):
        assert "+ added" in rows_of(app)[1]
        assert "= same" in rows_of(app)[2]


async def test_ascii_paints_nothing_else(million):
    app = TableApp(million.head(100).with_columns(name=pl.lit("naïve × kernel…"), short=pl.lit("naïve × kernel…")))
    app.table.ascii = True
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("greater_than_sign", "greater_than_sign")
        assert screen_text(app).isascii()


async def test_names_cannot_reach_the_terminal_raw():
    names = ["\x1b]0;owned\x07", "[bold]not markup[/bold]", "a\nb", "\u202egnp.exe", "日本語" * 20]
    frame = pl.DataFrame({"name": names, "total_ns": [1, 2, 3, 4, 5]})
    app = TableApp(frame)
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.pause()
        text = screen_text(app)
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "\u202e" not in text
        assert "[bold]not markup" in text
        assert "a\\nb" in text
        assert all(len(strip) <= 40 for strip in rows_of(app))


async def test_an_empty_frame_is_no_error():
    app = TableApp(pl.DataFrame(schema={"name": pl.String, "total_ns": pl.Int64}))
    async with app.run_test() as pilot:
        await pilot.press("down", "G", "greater_than_sign", "r", "pagedown", "E", "space", "right")
        assert app.table.current is None


TREE = pl.DataFrame(
    {
        "name": ["root", "a", "a1", "a2", "b", "b1", "b2", "other"],
        "depth": [0, 1, 2, 2, 1, 2, 3, 0],
        "total_ns": [100, 30, 10, 20, 70, 70, 70, 5],
    }
)
TREE_COLUMNS = (Field("name", "Module", width=20, priority=0, flex=True), COLUMNS[1])


def names_of(table: TreeTable) -> list[str]:
    return table.view()["name"].to_list()


async def test_a_tree_folds():
    app = TableApp(TREE, TREE_COLUMNS)
    app.table.plant(TREE, expanded=())
    async with app.run_test() as pilot:
        table = app.table
        table.expanded.clear()
        table.action_collapse_all()
        assert names_of(table) == ["root", "other"]
        await pilot.press("right")
        assert names_of(table) == ["root", "a", "b", "other"]
        await pilot.press("right", "space")
        assert names_of(table) == ["root", "a", "a1", "a2", "b", "other"]
        await pilot.press("down", "left")
        assert table.current["name"] == "a"
        await pilot.press("left")
        assert names_of(table) == ["root", "a", "b", "other"]
        await pilot.press("down", "E")
        assert names_of(table) == ["root", "a", "b", "b1", "b2", "other"]
        await pilot.press("minus")
        assert names_of(table) == ["root", "other"]
        assert table.current["name"] == "root"
        await pilot.press("plus")
        assert names_of(table) == TREE["name"].to_list()


async def test_a_tree_sorts_siblings_and_keeps_what_leads_to_a_match():
    app = TableApp(TREE, TREE_COLUMNS)
    async with app.run_test():
        table = app.table
        table.action_expand_all()
        table.set_sort("total_ns", descending=True)
        assert names_of(table) == ["root", "b", "b1", "b2", "a", "a2", "a1", "other"]
        table.action_collapse_all()
        table.set_filter(filters.parse("a2"))
        assert names_of(table) == ["root", "a", "a2"]
        assert table.matching == 1
        table.set_filter(filters.parse(""))
        assert names_of(table) == ["root", "other"]


async def test_standing_on_a_hidden_row_opens_what_leads_to_it():
    app = TableApp(TREE, TREE_COLUMNS)
    async with app.run_test():
        app.table.action_collapse_all()
        assert app.table.stand_on(6)
        assert app.table.current["name"] == "b2"
        assert names_of(app.table) == ["root", "a", "b", "b1", "b2", "other"]
