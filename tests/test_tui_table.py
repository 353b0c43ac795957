"""The one table: a million rows, columns and titles, sorting, the language of filters, folding, and what it paints."""

import time

import polars as pl
import pytest
from sample_runs import FP32, recorded
from textual.app import App
from tui_pilot import opened, press, screen_text, write

from tracetui.analysis.tables.table import Field
from tracetui.app.tables import filters
from tracetui.app.tables.columns import cell_text, place
from tracetui.app.text.names import differences, tell_apart
from tracetui.app.views.common.rows import columns_named
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
        await pilot.press("down", "G", "greater_than_sign", "r", "pagedown", "asterisk", "space", "right")
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
        await pilot.press("down", "asterisk")
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


@pytest.mark.parametrize("size", [(60, 20), (100, 30)])
async def test_the_total_of_a_range_stays_where_words_give_way(size):
    async with opened(recorded("nsys/gpt_small_ctx256.sqlite.gz"), size=size) as (app, pilot):
        await press(pilot, "5", "enter")
        title = screen_text(app).splitlines()[2]
        total = app.shell.view.state.page.frame["total_ns"].sum()
        assert f" {total / 1e6:.2f} ms" in title
        assert "no nn.Module" not in title
        assert "train_step" in title


FITTED = (
    Field("name", "Kernel", width=20, priority=0, flex=True),
    Field("total", "Total", "time", priority=0),
    Field("percent", "%", "percent", width=5, priority=1, bar=True),
    Field("module", "Module", width=10, priority=2, flex=True),
    Field("median", "Median", "time", priority=5),
)
CONTENT = {"name": 60, "total": 8, "percent": 5, "module": 30, "median": 8}


def names(available: int, **options) -> list[str]:
    return [placed.column.name for placed in place(FITTED, available, content=CONTENT, **options)[0]]


def test_the_least_important_columns_go_first():
    assert names(200) == ["name", "total", "percent", "module", "median"]
    assert names(58) == ["name", "total", "percent", "module"]
    assert names(44) == ["name", "total", "percent"]
    assert names(34) == ["name", "total"]


def test_columns_never_take_more_than_there_is():
    for available in range(14, 220):
        placed, gap = place(FITTED, available, content=CONTENT)
        assert sum(p.total for p in placed) + gap * (len(placed) - 1) <= available, available


def test_a_text_is_not_cut_while_there_is_room():
    columns = (Field("kind", "Collective", width=8), Field("ns", "Time", "time"), Field("what", "What", flex=True))
    content = {"kind": 14, "ns": 8, "what": 6}
    for available, kind in ((80, 14), (30, 10), (28, 8)):
        placed = {one.column.name: one.width for one in place(columns, available, content=content)[0]}
        assert placed["kind"] == kind


def test_names_get_the_room_that_is_left_before_bars_grow():
    wide, _ = place(FITTED, 150, content=CONTENT)
    by_name = {placed.column.name: placed for placed in wide}
    assert by_name["name"].width == 60
    assert by_name["module"].width == 30
    assert by_name["percent"].bar >= 6


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, "time", "-"),
        (None, "text", "-"),
        (16_032, "time", "16.03 µs"),
        (-16_032, "delta", "-16.03 µs"),
        (16_032, "delta", "+16.03 µs"),
        (111.8, "change", "+111.8"),
        (-0.01, "change", "-0.01"),
        (-0.001, "change", ">-0.01"),
        (24.69, "percent", "24.7"),
        (0.01, "percent", "0.01"),
        (0.001, "percent", "<0.01"),
        (0.0, "percent", "0"),
        (1098, "count", "1,098"),
        (48.0, "count", "48"),
        (1.5, "count", "1.500"),
        (True, "flag", "yes"),
        (False, "flag", "no"),
        (None, "flag", "-"),
        (float("nan"), "number", "-"),
        ("a\x1b[31mb\nc", "text", "a\\x1b[31mb\\nc"),
    ],
)
def test_values_as_text(value, kind, text):
    assert cell_text(value, kind) == text


TITLES = ("Kernel", "Total", "GPU total", "GPU self", "CPU self", "Calls", "Occup%", "%", "Max")
TITLED = tuple(Field(title.lower(), title) for title in TITLES)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("total", ["Total", "GPU total"]), ("GPU", ["GPU total", "GPU self"]), ("self", ["GPU self", "CPU self"]),
        ("%", ["%", "Occup%"]), ("ca", ["Calls"]), ("gs", ["GPU self"]), ("ax", ["Max"]), ("zz", []), ("(", []),
        ("", list(TITLES)),
    ],
)  # fmt: skip
def test_a_part_of_a_title_names_the_column(text, meant):
    assert [column.label for column in columns_named(TITLED, text)][: len(meant)] == meant
    assert meant or not columns_named(TITLED, text)


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


SCAN = "void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<32, 8, 1, {}, float> >(SSMParamsBase)"


def test_element_types_tell_instances_apart() -> None:
    assert differences([SCAN.format("c10::Half"), SCAN.format("float")]) == ["fp16", "fp32"]


def test_as_little_is_said_as_tells_all_apart() -> None:
    engine = "void wgrad_alg0_engine<float, 128, {}, 3, false>(int)"
    assert differences([engine.format(text) for text in ("5, 5", "6, 7", "6, 8")]) == ["5", "6,7", "6,8"]


def test_the_kind_of_loop_tells_elementwise_kernels_apart() -> None:
    names = [
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3> >",
        "void at::native::elementwise_kernel<128, 2, gpu_kernel_impl<at::native::CUDAFunctor_add<float> > >",
    ]
    assert differences(names) == ["vectorized", "128"]


def test_only_names_that_are_shared_get_an_ending() -> None:
    names = [SCAN.format("c10::Half"), SCAN.format("float"), "void copy_kernel<int>(int)"]
    frame = pl.DataFrame({"name": names, "short_name": ["scan<a>", "scan<a>", "copy_kernel"]})
    assert tell_apart(frame)["short_name"].to_list() == ["scan<a,fp16>", "scan<a,fp32>", "copy_kernel"]
    assert tell_apart(frame.head(1)).equals(frame.head(1))


def test_names_that_differ_in_nothing_readable_stay() -> None:
    frame = pl.DataFrame({"name": ["k<*>()", "k<&>()"], "short_name": ["k", "k"]})
    assert tell_apart(frame)["short_name"].to_list() == ["k", "k"]
