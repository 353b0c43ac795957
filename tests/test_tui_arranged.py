"""Long tables are sorted and filtered beside the screen: keys go on, and only what was asked for last is shown."""

import threading
from collections.abc import Iterator

import polars as pl
import pytest
from test_tui_table import COLUMNS, TableApp, rows_of, settled

from tracetui.app.session import jobs
from tracetui.app.tables import filters
from tracetui.app.widgets.arranged import AT_ONCE, Arrangement, Orders

ROWS = AT_ONCE + 1


@pytest.fixture(scope="module")
def long() -> pl.DataFrame:
    row = pl.int_range(ROWS, eager=True)
    return pl.DataFrame(
        {
            "name": "void kernel_" + row.cast(pl.String),
            "short": "kernel_" + row.cast(pl.String),
            "total_ns": (row * 7919) % ROWS,
            "calls": ROWS - row,
            "status": pl.repeat("same", ROWS, eager=True),
        }
    )


class Gate:
    """Holds back other threads that work out an order, until it is opened."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, bool] | None] = []
        self.open = threading.Event()
        self.rows = Arrangement.rows

    def __call__(self, asked: Arrangement) -> pl.Series | None:
        if threading.current_thread() is not threading.main_thread():
            self.begun.append(asked.sort)
            assert self.open.wait(60)
        return self.rows(asked)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate()
    monkeypatch.setattr(Arrangement, "rows", lambda asked: made(asked))
    yield made
    made.open.set()
    jobs.wait("arrange", 60)


async def test_keys_go_on_while_a_table_is_sorted_and_only_the_last_order_is_shown(long, gate):
    app = TableApp(long)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("greater_than_sign", "down", "down", "pagedown")
        table = app.table
        assert table.is_working
        assert table.cursor == 2 + 23
        assert rows_of(app)[-1].startswith(">kernel_25 "), "the old rows stay, in their order"
        await pilot.press("greater_than_sign", "greater_than_sign", "r")
        assert rows_of(app)[-1].startswith(">kernel_25 ")
        table._mark()
        await pilot.pause()
        assert rows_of(app)[0].startswith("…")
        gate.open.set()
        await settled(app, pilot)
        await pilot.pause()
        assert gate.begun == [("short", False), ("calls", False)], "the orders between were never worked out"
        assert rows_of(app)[0].startswith(" ")
        assert "▲Calls" in rows_of(app)[0]
        assert rows_of(app)[1].startswith(f">kernel_{ROWS - 1} ")
        assert table.cursor == 0


async def test_who_moves_on_while_a_table_is_sorted_stays_on_the_row(long, gate):
    app = TableApp(long)
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.set_sort("calls", descending=False)
        await pilot.press("down", "down")
        gate.open.set()
        await settled(app, pilot)
        assert app.table.current["short"] == "kernel_2"
        assert app.table.cursor == ROWS - 3


async def test_a_filter_of_a_long_table_keeps_the_row_and_the_newest_wins(long, gate):
    app = TableApp(long)
    async with app.run_test(size=(80, 24)) as pilot:
        table = app.table
        table.move_to(5)
        for text in ("kernel_9", "kernel_", "kernel_5"):
            table.set_filter(filters.parse(text))
        assert table.height_of_view == ROWS
        gate.open.set()
        await settled(app, pilot)
        kept = long.filter(pl.col("short").str.starts_with("kernel_5"))
        assert table.view().equals(kept)
        assert table.current["short"] == "kernel_5"
        table.set_filter(filters.parse(""))
        assert not table.is_working, "all rows as they stand need no work"
        assert table.height_of_view == ROWS


async def test_what_needs_the_rows_at_once_gets_those_that_were_asked_for(long, gate):
    app = TableApp(long)
    async with app.run_test(size=(80, 24)) as pilot:
        table = app.table
        table.set_sort("calls", descending=False)
        assert table.view()["calls"].is_sorted()
        assert not table.is_working
        gate.open.set()
        jobs.wait("arrange", 60)
        await pilot.pause()
        assert table.current["calls"] == 1


async def test_another_long_frame_shows_nothing_until_it_is_sorted(long, gate):
    app = TableApp(long, sort=("calls", False), cursor=3)
    async with app.run_test(size=(80, 24)) as pilot:
        table = app.table
        assert table.height_of_view == 0
        assert table.current is None
        table._mark()
        await pilot.pause()
        assert "Computing …" in rows_of(app)[1]
        gate.open.set()
        await settled(app, pilot)
        assert table.cursor == 3
        assert table.current["calls"] == 4
        # back to a frame whose order is known
        table.load(long, COLUMNS, sort=("calls", False), cursor=7)
        assert not table.is_working
        assert table.current["calls"] == 8


async def test_a_frame_that_replaces_one_still_being_sorted_is_left_alone(long, gate):
    app = TableApp(long)
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.set_sort("calls", descending=False)
        app.table.load(long.head(10), COLUMNS)
        gate.open.set()
        jobs.wait("arrange", 60)
        await pilot.pause()
        assert app.table.view().equals(long.head(10))


def test_orders_are_kept_as_long_as_their_frames_live(long):
    orders, frame = Orders(), long.head(5)
    asked = Arrangement(frame, COLUMNS, filters.parse(""), ("calls", False))
    orders.keep(asked, asked.rows())
    same = Arrangement(frame, COLUMNS, filters.parse(""), ("calls", False))
    assert orders.of(same).to_list() == [4, 3, 2, 1, 0]
    assert orders.of(Arrangement(frame, COLUMNS, filters.parse(""), ("calls", True))) is None
    assert orders.of(Arrangement(long.head(5), COLUMNS, filters.parse(""), ("calls", False))) is None
