"""Several runs on the screen: letters, the list, which is in view and which it is compared with, and the way back."""

import asyncio
from pathlib import Path

import polars as pl
import pytest
from sample_runs import FP16, FP32, linked, recorded
from sweep_maker import write_sweep
from test_captures import training
from tui_pilot import lines, opened, press, screen_text, settle, write

from tracetui.app.screen.dialogs.common import RunPicker, RunsScreen
from tracetui.app.session.open_runs import find_run
from tracetui.app.text.fitting import letter_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three runs: the fp16 one, the fp32 one and that again; no test changes it."""
    place = tmp_path_factory.mktemp("runs")
    for name, source in (("a_half", FP16), ("b_full", FP32), ("c_again", FP32)):
        linked(source, place / f"{name}.pt.trace.json.gz")
    return place


def below(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def test_letters_go_on_after_z():
    assert [letter_of(at) for at in (0, 1, 25, 26, 27, 51, 52, 701, 702)] == [
        "a", "b", "z", "aa", "ab", "az", "ba", "zz", "aaa",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "place"),
    [
        ("a", 0),
        ("B", 1),
        ("vim_tiny", 0),
        ("VIM_TINY", 0),
        ("vim_tiny_fp16", 1),
        ("gpt", 2),
        ("point", 3),
        ("sweep/point", 3),
        ("repeat", None),
        ("vim", None),
        ("e", 4),
        ("f", None),
        ("", None),
        ("nothing", None),
    ],
)
def test_a_run_is_found_by_letter_name_or_what_only_one_has(wanted, place):
    names = ["vim_tiny.pt.trace.json.gz", "vim_tiny_fp16.pt.trace.json.gz", "gpt/", "sweep/point", "x/repeat"]
    names += ["y/repeat-1"] if wanted == "repeat" else []
    known = [(letter_of(at), name) for at, name in enumerate(names)]
    if wanted == "repeat":
        assert find_run(known, wanted) == 4  # the one whose last part is that name
        assert find_run(known, "repea") is None
    else:
        assert find_run(known, wanted) == place


async def test_two_runs_of_one_name_are_told_apart_by_their_folders(tmp_path):
    for place in ("before", "after"):
        (tmp_path / place).mkdir()
        linked(FP32, tmp_path / place / "net.pt.trace.json.gz")
    paths = [tmp_path / place / "net.pt.trace.json.gz" for place in ("before", "after")]
    async with opened(*paths) as (app, _):
        assert "A(a) before/net   B(b) after/net" in lines(app)[0]


async def test_every_path_is_a_run_with_a_letter(folder):
    async with opened(*below(folder)) as (app, pilot):
        assert "A(a) a_half   B(b) b_full" in lines(app)[0]
        assert list(app.session.open) == ["a", "b", "c"]
        assert app.session.open["c"].run is not None
        await press(pilot, "A")
        assert isinstance(app.screen, RunsScreen)
        text = lines(app)
        assert "3 runs" in text[0]
        assert [line.split()[:3] for line in text[2:5]] == [
            ["A", "a", "a_half"],
            ["B", "b", "b_full"],
            ["c", "c_again", "Chrome"],
        ]
        assert text[2].split()[-4:-2] == ["H200", "3"]
        assert all(len(line) <= 80 for line in text)
        assert "Enter view" in text[-1]
        assert "Esc back" in text[-1]


async def test_the_list_chooses_what_is_in_view_and_what_it_is_compared_with(folder):
    async with opened(*below(folder), tab="kernels") as (app, pilot):
        assert "A: Kernels" in lines(app)[2]
        half = lines(app)[4]
        await press(pilot, "A", "j", "j", "enter")
        assert "A(c) c_again   B(b) b_full" in lines(app)[0]
        assert lines(app)[4] != half
        assert app.tab == "kernels"
        await press(pilot, "A")
        await press(pilot, "g", "c")
        assert "A(c) c_again   B(a) a_half" in lines(app)[0]
        assert app.tab == "diff"
        # the one in view can't be its own B
        await press(pilot, "A", "c")
        assert "in view" in lines(app)[-1]
        await press(pilot, "x")
        assert "A(a) a_half   B(c) c_again" in app.screen_stack[0].query_one("#header").text
        await press(pilot, "escape")
        assert "A(a) a_half   B(c) c_again" in lines(app)[0]
        # taking B into view exchanges the two
        app.runs.look_at("c")
        await settle(pilot)
        assert "A(c) c_again   B(a) a_half" in lines(app)[0]


async def test_the_run_in_view_becomes_b_of_one_that_is_still_read(folder):
    first, second, third = below(folder)
    async with opened(first, tab="kernels") as (app, pilot):
        app.runs.open_run("a", (third,))
        app.runs.open_run("b", (first,))
        await settle(pilot)
        assert "A(b) c_again   B(a) a_half" in lines(app)[0]
        app.runs.open_run("b", (third,))
        await settle(pilot)
        assert "in view" in lines(app)[-1]
        assert second not in [entry.origin for entry in app.session.open.values()]


async def test_analyses_are_kept_for_each_run(folder):
    async with opened(*below(folder), tab="kernels") as (app, pilot):
        first = app.session.selection()
        app.runs.look_at("c")
        await settle(pilot)
        other = app.session.selection()
        assert other is not first
        app.runs.look_at("a")
        await settle(pilot)
        assert app.session.selection() is first
        app.runs.look_at("c")
        assert app.session.selection() is other


async def test_a_result_that_comes_late_is_not_shown_for_another_run(folder):
    import threading

    async with opened(*below(folder), tab="kernels") as (app, pilot):
        wait, view, root = threading.Event(), app.view, type(app.view).root
        seen = []

        def slow():
            wait.wait(20)
            page = root(view)
            seen.append(page)
            return page

        view.root = slow
        view.reload()
        del view.root
        app.runs.look_at("c")
        await pilot.pause(0.1)
        wait.set()
        await settle(pilot)
        assert len(seen) == 1
        # what was begun for the first run is of that run, and not what the screen shows now
        assert seen[0].frame["total_ns"].sum() != view.state.page.frame["total_ns"].sum()
        assert app.session.cached("kernels", lambda: pytest.fail("not kept"))["total_ns"].sum() == (
            view.state.page.frame["total_ns"].sum()
        )


async def test_a_run_is_closed_and_its_letter_given_again(folder):
    async with opened(*below(folder)) as (app, pilot):
        await press(pilot, "A", "D")
        assert "in view" in lines(app)[-1]
        await press(pilot, "j", "D")
        assert list(app.session.open) == ["a", "c"]
        await press(pilot, "escape")
        assert "There is no second run" in screen_text(app)
        assert lines(app)[0].startswith(" tracetui  (a) a_half")
        app.runs.open_run("b", (below(folder)[1],))
        await settle(pilot)
        assert list(app.session.open) == ["a", "b", "c"]
        assert "B(b) b_full" in lines(app)[0]


async def test_another_path_is_opened_from_the_list(folder, monkeypatch):
    first, second, third = below(folder)
    async with opened(first) as (app, pilot):
        assert "(a)" not in lines(app)[0]
        await press(pilot, "A", "o")
        assert isinstance(app.screen, RunPicker)
        await press(pilot, "tab")
        await write(pilot, "nowhere.json")
        await press(pilot, "enter")
        assert lines(app)[-1] == " No such file or folder: nowhere.json"
        await press(pilot, "ctrl+u")
        await write(pilot, str(third))
        await press(pilot, "enter")
        assert lines(app)[0].startswith(" tracetui  (b) c_again")
        await press(pilot, "o")
        assert lines(app)[2].startswith(" a  a_half")
        await press(pilot, "enter")
        assert "A(b) c_again   B(a) a_half" in lines(app)[0]
        # a path that is open is not read again, however it is written
        number = app.session.open["b"].number
        monkeypatch.chdir(folder)
        app.runs.open_run("a", (Path(third.name),))
        await settle(pilot)
        assert app.session.open["b"].number == number
        assert len(app.session.open) == 2
        assert second not in [entry.origin for entry in app.session.open.values()]


async def test_the_palette_finds_runs(folder):
    async with opened(*below(folder)) as (app, pilot):
        await press(pilot, "ctrl+p")
        await write(pilot, "c_again")
        assert "run  c  c_again" in screen_text(app)
        await press(pilot, "down", "enter")
        await settle(pilot)
        assert "A(c) c_again" in lines(app)[0]


async def test_the_first_of_several_paths_that_cannot_be_read_leaves_the_others(folder, tmp_path_factory):
    bad = tmp_path_factory.mktemp("bad") / "bad.json"
    bad.write_text("hello")
    async with opened(bad, *below(folder)[:2]) as (app, pilot):
        assert "a_half" in lines(app)[0]
        assert "Overview" not in lines(app)[2]
        await press(pilot, "A")
        assert "not a trace" in lines(app)[2]
        assert app.runs.exit_code == 1


async def test_a_folder_of_runs_lists_them_with_letters(folder):
    async with opened(folder) as (app, pilot):
        text = lines(app)
        assert "3 runs in" in text[0]
        assert text[2].split()[:2] == ["A", "a"]
        assert [line.split()[0] for line in text[3:5]] == ["b", "c"]
        assert all("not read yet" in line for line in text[3:5])
        await press(pilot, "escape")
        assert lines(app)[0].startswith(" tracetui  (a) ")
        await press(pilot, "A", "G", "enter")
        await settle(pilot)
        assert lines(app)[0].startswith(" tracetui  (c) c_again")
        # the first one is still there
        assert app.session.open["a"].run is not None
        assert app.session.open["b"].run is None


async def test_a_run_of_a_folder_is_named(folder):
    async with opened(folder, run="again", tab="kernels", filter="gemm") as (app, _):
        assert not isinstance(app.screen, RunsScreen)
        assert "(c) c_again" in lines(app)[0]
        assert list(app.session.open) == ["a", "b", "c"]
        assert [entry.run is not None for entry in app.session.open.values()].count(True) == 1
        assert app.tab == "kernels"
        assert " / gemm" in screen_text(app)


async def test_of_several_paths_the_one_named_is_in_view(folder):
    async with opened(*below(folder), run="c_again") as (app, _):
        assert "A(c) c_again   B(a) a_half" in lines(app)[0]


async def test_a_run_that_is_not_there_ends_the_program_with_what_is(folder):
    async with opened(folder, run="nothing") as (app, _):
        assert "no such run; there are a a_half" in app.runs.usage
        assert "c c_again" in app.runs.usage


# --- the way back


async def test_ctrl_o_goes_back_through_tabs_pages_filters_and_runs(folder):
    async with opened(*below(folder), tab="kernels") as (app, pilot):
        await press(pilot, "down", "enter")
        launches = lines(app)[2]
        assert "Kernels ›" in launches
        await press(pilot, "down", "down", "3")
        await press(pilot, "slash")
        await write(pilot, "aten::mm")
        await press(pilot, "enter", "1")
        app.runs.look_at("c")
        await settle(pilot)
        assert "A(c)" in lines(app)[0]
        await press(pilot, "ctrl+o")
        assert "A(a)" in lines(app)[0]
        assert app.tab == "overview"
        await press(pilot, "ctrl+o")
        assert app.tab == "operators"
        assert app.session.filter == "aten::mm"
        await press(pilot, "ctrl+o")
        assert app.tab == "operators"
        assert app.session.filter == ""
        await press(pilot, "ctrl+o")
        assert lines(app)[2].startswith(launches[:40])
        assert app.view.table.cursor == 2
        await press(pilot, "ctrl+o")
        assert lines(app)[2].startswith(" A: Kernels  ")
        assert app.view.table.cursor == 1
        await press(pilot, "ctrl+o")
        assert "no earlier place" in lines(app)[-1]


async def test_where_esc_has_gone_back_ctrl_o_does_not_go_again():
    async with opened(FP32, tab="overview") as (app, pilot):
        await press(pilot, "2", "enter", "escape", "3", "ctrl+o")
        assert lines(app)[2].startswith(" Kernels  ")
        await press(pilot, "ctrl+o")
        assert app.tab == "overview"


async def test_the_timeline_is_where_it_was_left():
    async with opened(FP32, tab="timeline") as (app, pilot):
        await press(pilot, "w", "w", "w", "d", "j")
        before = app.view.place()
        await press(pilot, "2", "T", "F", "ctrl+o", "ctrl+o")
        assert app.tab == "timeline"
        # F moved within the tab, which is no place of its own
        await press(pilot, "2", "ctrl+o")
        assert app.view.place()[:2] != before[:2]
        await press(pilot, "z", "1", "ctrl+o")
        assert app.tab == "timeline"


async def test_the_timeline_of_another_run_is_where_it_was(folder):
    async with opened(*below(folder), tab="timeline") as (app, pilot):
        await press(pilot, "z", "s", "s")
        before = app.view.place()
        app.runs.look_at("c")
        await settle(pilot)
        assert app.view.place() != before
        await press(pilot, "ctrl+o")
        await settle(pilot)
        assert "A(a)" in lines(app)[0]
        assert app.view.place() == before


async def test_old_places_keep_no_large_tables(monkeypatch):
    monkeypatch.setattr("tracetui.app.screen.history.ROWS_KEPT", 300)
    async with opened(FP32, tab="kernels") as (app, pilot):
        for _ in range(3):  # 144 launches each
            await press(pilot, "2", "enter", "3", "2", "escape", "down")
        await press(pilot, "3")
        kept = [visit.inside[1][-1].page.frame.height for visit in app.navigation.visits if visit.inside is not None]
        assert sum(rows for rows in kept if rows == 144) <= 300
        assert len(app.navigation.visits) > len(kept)


async def test_what_was_not_looked_at_for_long_is_read_again(folder, monkeypatch):
    monkeypatch.setattr("tracetui.app.session.session.KEPT", 0)
    async with opened(*below(folder), tab="kernels") as (app, pilot):
        app.runs.look_at("c")
        await settle(pilot)
        # a is neither in view nor compared
        assert [letter for letter, entry in app.session.open.items() if entry.run is None] == ["a"]
        await press(pilot, "A")
        assert "not read yet" in lines(app)[2]
        await press(pilot, "g", "enter")
        await settle(pilot)
        assert "A(a) a_half" in lines(app)[0]
        assert "selective_scan" in screen_text(app)


async def test_places_of_a_closed_run_are_gone(folder):
    async with opened(*below(folder), tab="kernels") as (app, pilot):
        app.runs.look_at("c")
        await settle(pilot)
        app.runs.close("a")
        await press(pilot, "ctrl+o")
        assert "no earlier place" in lines(app)[-1]


async def test_a_marked_range_stays_with_its_run(folder):
    async with opened(*below(folder), tab="timeline") as (app, pilot):
        await press(pilot, "left_square_bracket", "j", "right_square_bracket")
        window, words = app.session.scope.window, app.session.range_words
        assert window is not None
        app.runs.look_at("c")
        await settle(pilot)
        assert app.session.scope.window is None
        assert "range" not in lines(app)[0]
        app.runs.look_at("a")
        await settle(pilot)
        assert app.session.scope.window == window
        assert words in lines(app)[0]
        assert app.view.picture.marks == window
        await press(pilot, "escape")
        assert app.session.scope.window is None


async def test_a_sweep_s_runs_are_in_the_order_of_its_variables(tmp_path):
    values = [{"batch": batch, "keep": keep} for batch in (16, 2, 1) for keep in (0.5, 0.25)]
    sweep = write_sweep(tmp_path / "sweep", [(point, [100.0], 1e9, 3) for point in values])
    async with opened(sweep) as (app, _):
        names = [entry.run.path.parent if entry.run else entry.paths[0].parent for entry in app.session.open.values()]
        assert [next(p for p in (path, *path.parents) if "=" in p.name).name for path in names] == [
            f"batch={batch},keep={keep}" for batch in (1, 2, 16) for keep in (0.25, 0.5)
        ]


@pytest.fixture
def contexts(tmp_path):
    training(tmp_path / "small_ctx128.sqlite", 100)
    training(tmp_path / "small_ctx1024.sqlite", 200)
    training(tmp_path / "xl_ctx1024.sqlite", 800, steps=1, complete=False)
    return tmp_path


def shown(*paths, keys, size=(120, 24), **options):
    """The screen after some keys, and the file that is open then."""

    async def run():
        async with opened(*paths, size=size, cache=False, **options) as (app, pilot):
            texts = []
            for key in keys:
                await press(pilot, key)
                texts.append(screen_text(app))
            return texts, app.session.runs["a"].main.source.path.name

    return asyncio.run(run())


def captures(text):
    """The rows of the table of captures."""
    lines = text.splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith(" Capture") and "fwd CPU" in line)
    return [line.strip("> ") for line in lines[first + 1 : first + 4]]


def test_captures_of_the_folder_stand_side_by_side(contexts):
    (text, *_), _ = shown(contexts, keys=["C"])
    assert "3 captures" in text.splitlines()[2]
    rows = [row.split() for row in captures(text)]
    assert [row[:2] for row in rows] == [["small", "ctx128"], ["small", "ctx1024"], ["xl", "ctx1024"]]
    assert rows[0][2] == "100.0"  # µs a step
    assert rows[2][-1] == "3"


def test_enter_opens_a_row_and_c_comes_back(contexts):
    texts, name = shown(contexts, keys=["C", "down", "down", "enter", "C", "escape"])
    assert name == "xl_ctx1024.sqlite"
    assert "3 captures" in texts[4]
    assert "[1 Overview]" in texts[5]


def test_captures_are_sorted(contexts):
    texts, _ = shown(contexts, keys=["C", "r"])
    assert [row.split()[1] for row in captures(texts[-1])] != ["ctx128", "ctx1024", "ctx1024"]


def test_a_single_run_has_nothing_to_compare(contexts):
    texts, _ = shown(contexts / "xl_ctx1024.sqlite", keys=["C"])
    assert "not part of a sweep" in texts[0]


def test_a_narrow_ascii_terminal(contexts):
    (text, *_), _ = shown(contexts, keys=["C"], size=(60, 12), ascii=True)
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 60


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)])
async def test_numbers_of_metrics_are_never_cut_off(size):
    """Names give way to them, and units have a column of their own."""
    async with opened(recorded("ncu/vim_full_raw.csv.gz"), size=size) as (app, pilot):
        await press(pilot, "6", "v", "v", "v")
        view = app.shell.view
        assert view.state.page.id == "counter_all"
        frame = view.state.page.frame
        numbers = frame.filter(pl.col("mean_value").is_not_null())
        assert numbers["mean_value"].max() > 1e12
        for placed in view.table._placed:
            name = placed.column.name
            if name in ("mean", "least", "most", "beside"):
                assert placed.width >= numbers[name].str.len_chars().max(), name
        seen = {placed.column.name for placed in view.table._placed}
        assert {"metric", "mean", *(("beside",) if size[0] >= 80 else ())} <= seen
