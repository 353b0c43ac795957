"""Saving and copying ask first, and say what they did."""

from __future__ import annotations

import pytest
from sample_runs import FP32
from tui_pilot import opened, press, screen_text, write

from tracetui.app.screen.shell import too_small


async def test_a_picture_is_asked_for_and_replaces_nothing_unasked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with opened(FP32) as (app, pilot):
        await press(pilot, "e", "escape")
        assert list(tmp_path.iterdir()) == []
        await press(pilot, "e", "enter")
        kept = tmp_path / "vim_tiny_fp32_bs4-overview.svg"
        text = kept.read_text()
        assert "Critical" in text
        assert "save" not in text
        await press(pilot, "j", "e", "enter")
        assert "is there already; Enter replaces it, Esc keeps it: vim_tiny_fp32_bs4-overview" in screen_text(app)
        await press(pilot, "escape")
        assert kept.read_text() == text
        await press(pilot, "T", "e", "ctrl+u")
        await write(pilot, "lanes.png")
        await press(pilot, "enter")
        assert "a picture of this view is .svg" in screen_text(app)
        await press(pilot, "e", "ctrl+u")
        await write(pilot, "lanes.svg")
        await press(pilot, "enter")
        assert "ProfilerStep" in (tmp_path / "lanes.svg").read_text()
        assert len(list(tmp_path.iterdir())) == 2


async def test_typing_replaces_the_suggested_name_and_end_keeps_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with opened(FP32) as (app, pilot):
        await press(pilot, "2", "e")
        line = app.shell.prompt.line
        suggested = line.value
        assert line.selected_text == suggested
        await press(pilot, *"out")
        assert line.value == "out"
        await press(pilot, "enter")
        assert (tmp_path / "out.csv").is_file()  # the suggestion's form
        for key in ("end", "right"):
            await press(pilot, "e", key, "backspace", "backspace", "backspace", *"md")
            assert line.value == suggested.removesuffix("csv") + "md"
            await press(pilot, "escape")
        await press(pilot, "e")
        await write(pilot, "all.md")
        await press(pilot, "enter", "/", *"gemm")
        assert line.value == "gemm"
        await press(pilot, "enter", "/", "x")  # what the user wrote goes on
        assert line.value == "gemmx"
        assert {path.name for path in tmp_path.iterdir()} == {"out.csv", "all.md"}


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ((20, 5), "20x5 needs 40x10"), ((80, 5), "too small 80x5, needs 40x10  q quit"), ((14, 30), "needs 40x10"),
        ((40, 10), ""),
    ],
)  # fmt: skip
def test_what_is_too_small_is_said(size, said):
    assert "  ".join(" ".join(filter(None, hint)) for hint in too_small(*size)) == said


async def test_the_footer_says_that_the_terminal_is_too_small():
    async with opened(FP32, size=(20, 5)) as (app, _):
        assert screen_text(app).split("\n")[-1] == " 20x5 needs 40x10"
