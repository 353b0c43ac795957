"""Widgets that keep their lines: what has not changed is not painted again, and nothing old stays on the screen."""

import polars as pl
import pytest
from sample_runs import VIM
from test_tui_table import TableApp
from textual.app import App
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget
from tui_pilot import opened, press, screen_text

from tracetui.analysis.tables.table import Field
from tracetui.app.screen.shell import Body
from tracetui.app.widgets.frame_table import FrameTable
from tracetui.app.widgets.lines import Line
from tracetui.app.widgets.painted import Picture


@pytest.fixture
def painted(monkeypatch):
    """The lines of tables that were painted, in order."""
    lines: list[int] = []
    render = FrameTable.render_line

    def noting(table: FrameTable, y: int) -> Strip:
        lines.append(y)
        return render(table, y)

    monkeypatch.setattr(FrameTable, "render_line", noting)
    return lines


async def test_a_move_of_the_cursor_paints_two_rows(painted):
    async with opened(VIM, tab="kernels") as (_, pilot):
        painted.clear()
        await press(pilot, "down")
        assert sorted(painted) == [1, 2]


async def test_another_theme_paints_all_rows_in_its_colours(painted):
    async with opened(VIM, tab="kernels", size=(80, 24)) as (app, pilot):
        table = app.view.table
        before = [segment.style for segment in table.render_lines(table.size.region)[3]]
        painted.clear()
        app.theme = "light"
        await pilot.pause()
        after = [segment.style for segment in table.render_lines(table.size.region)[3]]
        assert {*range(table.size.height)} <= {*painted}
        assert before != after


async def test_neighbours_of_one_colour_are_one_segment():
    columns = (
        Field("name", "Name", "text", width=10),
        Field("a", "A", "number", width=5),
        Field("b", "B", "number", width=5),
        Field("c", "C", "number", width=5),
    )
    frame = pl.DataFrame({"name": ["first", "second"], "a": [1, 1], "b": [2, None], "c": [3, None]})
    app = TableApp(frame, columns, cursor=1)
    async with app.run_test(size=(40, 4)):
        assert len(list(app.table.render_line(1))) == 1
        app.table.move_to(0)
        plain, muted = list(app.table.render_line(2))[:2]
        assert plain.text.split() == ["second", "1"]
        assert muted.text.split() == ["-", "-"]


async def test_scrolling_formats_only_rows_that_come_into_sight(monkeypatch):
    formatted: list[int] = []
    form = FrameTable._row

    def noting(table: FrameTable, position: int, width: int) -> Strip:
        formatted.append(position)
        return form(table, position, width)

    monkeypatch.setattr(FrameTable, "_row", noting)
    async with opened(VIM, tab="host", size=(80, 24)) as (app, pilot):
        await press(pilot, *["down"] * (app.view.table.page_rows - 1))
        formatted.clear()
        await press(pilot, "down", "down")
        # the row that the cursor has left; those in sight are only moved
        assert formatted == [app.view.table.page_rows]


async def test_the_picture_of_launches_paints_lines_that_have_changed(monkeypatch):
    lines: list[int] = []
    render = Picture.render_line

    def noting(picture: Picture, y: int) -> Strip:
        lines.append(y)
        return render(picture, y)

    monkeypatch.setattr(Picture, "render_line", noting)
    async with opened(VIM, tab="kernels", size=(120, 40)) as (app, pilot):
        await press(pilot, "enter")
        picture = app.view.query_one(Picture)
        height = picture.size.height
        assert height >= 8
        lines.clear()
        await press(pilot, "down")
        assert 0 < len(lines) <= 2  # the mark on the axis, the legend
        lines.clear()
        await press(pilot, "D")
        assert not picture.display
        await press(pilot, "D")
        assert picture.size.height == height
        assert "by duration" in screen_text(app)


class Padded(App[None]):
    """A line that a style sheet has given a padding."""

    CSS = "Line { height: 3; padding: 1 2; }"

    def compose(self):
        yield Body(Line())


async def test_a_padding_is_painted_all_the_same():
    async with Padded().run_test(size=(20, 5)) as pilot:
        pilot.app.query_one(Line).show("left", "right")
        await pilot.pause()
        assert screen_text(pilot.app).splitlines()[1].rstrip() == "  left       right"


async def test_a_letter_of_a_filter_does_not_lay_the_screen_out_anew(monkeypatch):
    laid_out: list[object] = []
    async with opened(VIM, tab="host", size=(80, 24)) as (app, pilot):
        await press(pilot, "slash")
        screen_text(app)
        refresh = Widget.refresh

        def noting(widget: Widget, *regions: Region, layout: bool = False, **options: bool) -> Widget:
            laid_out.extend([widget] * layout)
            return refresh(widget, *regions, layout=layout, **options)

        monkeypatch.setattr(Widget, "refresh", noting)
        await press(pilot, *"zz")
        assert screen_text(app).splitlines()[-2].split("zz")[1].split() == ["0", "of", "627", "functions"]
        assert not laid_out


async def test_a_full_line_takes_back_the_room_of_a_longer_remark():
    async with opened(VIM, tab="host", size=(80, 24)) as (app, pilot):
        await press(pilot, "slash", *("z" * 55))
        line = screen_text(app).splitlines()[-2]
        assert "z" * 55 in line
        assert line.endswith("  0 of 627 functions")


async def test_the_cursor_and_its_place_are_in_one_picture(monkeypatch):
    async with opened(VIM, tab="host", size=(80, 24)) as (app, _):
        table = app.view.table
        said: list[object] = []
        with monkeypatch.context() as patched:
            patched.setattr(FrameTable, "post_message", lambda _, message: said.append(message))
            table.action_move(1)
        # the title knows before any message is handled, and so before anything is painted
        assert app.view.query_one("#title", Line).text.endswith("2/627")
        assert not [message for message in said if isinstance(message, FrameTable.Moved)]


async def test_the_mark_of_slow_work_paints_no_rows(painted):
    async with opened(VIM, tab="host", size=(80, 24)) as (app, pilot):
        screen_text(app)
        table = app.view.table
        table._asked = table._wanted()
        painted.clear()
        table._mark()
        await pilot.pause()
        assert screen_text(app).splitlines()[3].startswith("…")
        assert set(painted) == {0, 1}
        table._forget()
