"""The captures of a folder on the screen: from the list of runs or with C, sorted, and opened."""

from __future__ import annotations

import asyncio

import polars as pl
import pytest
from sample_runs import recorded
from test_captures import training
from tui_pilot import opened, press, screen_text


@pytest.fixture
def folder(tmp_path):
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


def test_the_list_of_runs_leads_to_the_comparison(folder):
    (text, *_), _ = shown(folder, keys=["C"])
    lines = text.splitlines()
    assert "3 captures" in lines[0]
    assert "fwd CPU" in lines[1]
    assert [line.strip(">").split()[:2] for line in lines[2:5]] == [
        ["small", "ctx128"],
        ["small", "ctx1024"],
        ["xl", "ctx1024"],
    ]
    assert "100.0" in lines[2]  # µs a step
    assert lines[4].split()[-1] != "-"


def test_enter_opens_a_row_and_c_comes_back(folder):
    texts, name = shown(folder, keys=["C", "down", "down", "enter", "C", "escape"])
    assert name == "xl_ctx1024.sqlite"
    assert "3 captures" in texts[4]
    assert "captures" not in texts[5].splitlines()[0]


def test_it_sorts(folder):
    texts, _ = shown(folder, keys=["C", "r"])
    assert [line.split()[1] for line in texts[-1].splitlines()[2:5]] != ["ctx128", "ctx1024", "ctx1024"]


def test_a_single_run_has_nothing_to_compare(folder):
    texts, _ = shown(folder / "xl_ctx1024.sqlite", keys=["C"])
    assert "nothing to compare" in texts[0]


def test_a_narrow_ascii_terminal(folder):
    (text, *_), _ = shown(folder, keys=["C"], size=(60, 12), ascii=True)
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
