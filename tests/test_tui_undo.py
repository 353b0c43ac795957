"""What keys change can be undone and made again; findings are silenced and restored on the screen."""

import json
from pathlib import Path

import pytest
from sample_runs import FP16, FP32, linked
from tui_pilot import opened, press, screen_text

from tracetui.app.cli.main import main
from tracetui.app.settings import state
from tracetui.app.settings.schema import STATE
from tracetui.app.tables import export

RANGE = ("T", "J", "full_stop", "left_square_bracket", "full_stop", "full_stop", "right_square_bracket", "2")
"""Marks a range in the timeline, and goes to the kernels."""


def shown(app) -> tuple[str, ...]:
    """What the tab shows of its rows, and what the header says they cover."""
    view = app.view
    rows = export.tsv(view.table.view(), view.table.chosen) if hasattr(view, "table") else ""
    return app.tab, app.session.filter, app.session.range_words, rows


@pytest.mark.parametrize(
    ("before", "keys", "words"),
    [
        (RANGE, ("escape",), "marked range"),
        (("2", "slash", *"gemm", "enter"), ("escape",), "filter gemm"),
        (("2",), ("u",), "totals"),
        (("2", "enter"), ("c", "j", "j", "space", "escape"), "columns"),
        (("2", "enter"), ("slash", *"block_23", "enter"), "filter block_23"),
        (("2", "b", "enter"), ("s", *"mean", "enter"), "order"),
        ((*RANGE, "b", "slash", *"gemm", "enter"), ("Z",), "start over"),
        (("2",), ("enter", "escape", "3", "ctrl+o"), ""),
        (("1", "slash", *"gemm", "enter"), ("escape",), ""),
    ],
)
async def test_what_a_key_changed_is_undone_and_redone(before, keys, words):
    async with opened(FP32) as (app, pilot):
        await press(pilot, *before)
        there = shown(app)
        await press(pilot, *keys)
        changed = shown(app)
        if not words:  # going to places is no change: that is Ctrl+O's
            await press(pilot, "backspace")
            assert f"Undone: {keys[0]}" not in screen_text(app)
            return
        assert changed != there
        await press(pilot, "backspace")
        assert f"Undone: {words} (Ctrl+R: redo)" in screen_text(app)
        assert shown(app) == there
        await press(pilot, "ctrl+r")
        assert f"Redone: {words} (Bksp: undo)" in screen_text(app)
        assert shown(app) == changed


async def test_a_zoom_is_undone_as_a_whole_and_moving_along_is_none():
    async with opened(FP32, tab="timeline") as (app, pilot):
        picture = app.shell.made("timeline").picture
        whole = picture.start, picture.end
        await press(pilot, "w", "w", "w")
        near = picture.start, picture.end
        assert near[1] - near[0] < whole[1] - whole[0]
        await press(pilot, "d", "backspace")
        assert "Undone: zoom" in screen_text(app)
        assert (picture.start, picture.end) == whole
        await press(pilot, "ctrl+r")
        assert picture.end - picture.start == near[1] - near[0]
        await press(pilot, "2", "s", *"calls", "enter", "T", "d", "d", "backspace")
        assert "Undone: order" in screen_text(app), "going along and to other tabs is no change"


async def test_columns_that_come_back_are_kept_for_the_next_start(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACETUI_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("TRACETUI_NO_STATE")
    async with opened(FP32, tab="kernels") as (_, pilot):
        await press(pilot, "c", "j", "j", "space", "escape")
        assert "kernels" in state.read(STATE)["columns"]
        await press(pilot, "backspace")
        assert "kernels" not in state.read(STATE)["columns"]


async def test_changes_are_undone_one_by_one_where_they_were_made():
    async with opened(FP32) as (app, pilot):
        await press(pilot, *RANGE)
        marks = app.shell.made("timeline").picture.marks
        states = [shown(app)]
        for keys in (("slash", *"gemm", "enter"), ("s", *"calls", "enter"), ("3", "b"), ("escape", "escape")):
            await press(pilot, *keys)
            states.append(shown(app))
        assert app.session.scope.window is None  # the filter went first, then the range
        said = []
        await press(pilot, "5")
        for _ in range(6):
            await press(pilot, "backspace")
            said.append(screen_text(app).splitlines()[-1].split("(")[0].strip())
        assert said == [
            f"Undone: {what}" for what in ("marked range", "filter gemm", "grouping", "order", "filter gemm")
        ] + ["Undone: marked range"]
        await press(pilot, *["ctrl+r"] * 2)
        assert shown(app)[1:3] == states[1][1:3]
        assert app.shell.made("timeline").picture.marks == marks == app.session.scope.window


async def test_a_change_after_undo_leaves_nothing_to_redo():
    async with opened(FP32, tab="kernels") as (app, pilot):
        await press(pilot, "backspace")
        assert "Nothing to undo" in screen_text(app)
        await press(pilot, "r", "backspace", "b", "ctrl+r")
        assert "Nothing to redo" in screen_text(app)
        await press(pilot, "backspace")
        assert "Undone: grouping" in screen_text(app)


async def test_runs_that_were_swapped_or_left_come_back():
    async with opened(FP32, FP16) as (app, pilot):
        await press(pilot, "9", "x")
        swapped = dict(app.session.sides)
        await press(pilot, "backspace")
        assert "Undone: run in view" in screen_text(app)
        assert app.session.sides == {"a": "a", "b": "b"} != swapped


# --- findings that are silenced


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A folder with a recording, and one for the user's settings."""
    monkeypatch.setenv("TRACETUI_CONFIG_DIR", str(tmp_path / "mine"))
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    linked(FP32, tmp_path / "run" / "one.pt.trace.json.gz")
    return tmp_path / "run"


def report(folder: Path) -> tuple[list[str], dict[str, str]]:
    """What a report finds, and what it says was silenced, by key."""
    target = folder.parent / "report.json"
    assert (
        main(["report", str(folder), "--section", "findings", "--format", "json", "--output", str(target), "--force"])
        == 0
    )
    trace = json.loads(target.read_text())["run"]["traces"][0]
    return [each["key"] for each in trace["findings"]], {
        each["key"]: each["reason"] for each in trace["findings_silenced"]
    }


def keys(app) -> list[str]:
    return app.view.state.page.frame["finding_key"].to_list()


async def test_a_finding_is_silenced_and_restored_and_reports_agree(folder):
    async with opened(folder, tab="findings") as (app, pilot):
        first, second, *others = keys(app)
        await press(pilot, "x", *"known", "enter")
        assert keys(app) == [second, *others]
        assert app.view.table.current["finding_key"] == second
        said = screen_text(app).splitlines()
        assert "1 silenced" in said[2]
        assert said[-1].startswith(f" Silenced {first} in …")
        assert said[-1].endswith("/run/.tracetui.toml (Bksp: undo)")
        assert report(folder) == ([second, *others], {first: "known"})
        await press(pilot, "x", "enter")
        assert report(folder)[1] == {first: "known", second: "silenced on the screen"}
        await press(pilot, "backspace")
        assert f"Undone: silencing of {second}" in screen_text(app)
        assert (keys(app), report(folder)[1]) == ([second, *others], {first: "known"})
        await press(pilot, "v", "x")
        assert screen_text(app).splitlines()[-1] == said[-1].replace("Silenced", "Restored")
        await press(pilot, *["v"] * 2)
        assert keys(app) == report(folder)[0] == [first, second, *others]


async def test_where_the_recording_lies_nothing_can_be_written(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    (folder / ".tracetui.toml").symlink_to(folder / "elsewhere")  # nor is a link of the folder followed
    async with opened(folder, tab="findings") as (app, pilot):
        first = keys(app)[0]
        await press(pilot, "x", "enter")
        assert "/mine/config.toml (Bksp: undo)" in screen_text(app).splitlines()[-1]
        assert first not in keys(app)
    assert not (folder / "elsewhere").exists()
    assert list(report(folder)[1]) == [first]


async def test_what_cannot_be_changed_is_said(folder):
    (folder / ".tracetui.toml").write_text('silence = { S5 = "x" }\n')
    (folder.parent / "mine").mkdir()
    (folder.parent / "mine" / "config.toml").write_text("silence = {}\n")
    async with opened(folder, tab="findings") as (app, pilot):
        before = keys(app)
        await press(pilot, "x", "enter")
        assert f"{folder.parent / 'mine' / 'config.toml'}: its [silence]"[:70] in screen_text(app)
        assert keys(app) == before
    assert (folder / ".tracetui.toml").read_text() == 'silence = { S5 = "x" }\n'
