"""What the screen says beside its numbers: keys that lead nowhere are not offered, words are not cut or wrong."""

from __future__ import annotations

import itertools

import pytest
from sample_runs import FP32, recorded
from tui_pilot import opened, press, screen_text

from tracetui.analysis.tables.table import Field
from tracetui.app import tabs
from tracetui.app.keys import commands
from tracetui.app.screen.dialogs.common import help_text
from tracetui.app.views.findings import abstention_text
from tracetui.app.widgets.detail_pane import detail_text


def footer(app) -> str:
    return screen_text(app).splitlines()[-1]


@pytest.fixture
def snapshot():
    return recorded("memory/gpt_memory_snapshot.pickle.gz")


@pytest.mark.parametrize("tab", ["operators", "sweep"])
async def test_an_empty_tab_offers_no_other_empty_table(snapshot, tab):
    async with opened(snapshot, tab=tab, cache=False) as (app, pilot):
        assert " v " not in footer(app)
        assert " L " not in footer(app)
        await press(pilot, "7")
        assert " v by range " in footer(app)


@pytest.mark.parametrize(("tab", "said"), [("memory", "No memory in this recording."), ("host", "No host events")])
async def test_without_a_kind_of_event_no_table_of_it_is_offered(tab, said):
    async with opened(recorded("ncu/vim_full_raw.csv.gz"), tab=tab) as (app, _):
        assert said in screen_text(app)
        assert " v " not in footer(app)


async def test_launches_without_a_place_in_time_do_not_lead_to_the_timeline():
    async with opened(recorded("ncu/vim_full_raw.csv.gz"), tab="kernels") as (app, pilot):
        assert " m " not in footer(app)
        await press(pilot, "enter")
        assert "Esc back" in footer(app)
        assert "timeline" not in footer(app)
        await press(pilot, "6")
        assert "Enter launches  v all launches" in footer(app)


async def test_launches_with_a_place_in_time_lead_there():
    path = recorded("nsys/vim_tiny_fp32_bs4.sqlite.gz")
    async with opened(path, tab="kernels", cache=False) as (app, pilot):
        assert " m ranges " in footer(app)
        await press(pilot, "enter")
        assert " t timeline " in footer(app)


async def test_files_carry_a_letter_only_where_two_runs_are_open():
    paths = [recorded(f"chrome/vim_tiny_fp{bits}_bs4.pt.trace.json.gz") for bits in (32, 16)]
    for number, expected in ((1, False), (2, True)):
        async with opened(*paths[:number]) as (app, pilot):
            await press(pilot, "N")
            lines = app.screen.text.splitlines()
            assert lines[0].startswith("A  ") is expected
            assert any(line.startswith("B  ") for line in lines) is expected


async def test_the_timeline_says_how_much_of_it_is_shown():
    path = recorded("chrome/vim_tiny_fp32_bs4.pt.trace.json.gz")
    async with opened(path, tab="timeline") as (app, pilot):
        assert "0.5-321.1 ms · all 320.6 ms" in screen_text(app).splitlines()[2]
        await press(pilot, "w")
        assert " ms of 320.6 ms" in screen_text(app).splitlines()[2]


def test_help_goes_on_below_its_own_first_line():
    for case in itertools.product(tabs.NAMES, [40, 58, 78]):
        tab, width = case
        lines = help_text(tab, [("GPU total", "time of all that was launched " * 5)], ascii=False, width=width).plain
        for line in lines.splitlines():
            assert len(line) <= width, case
            assert line.startswith("  ") or line in {command.group for command in commands.COMMANDS} | {
                "What / understands", "Columns",
            }, case  # fmt: skip


def test_details_do_not_call_a_change_a_share():
    change = Field("delta_percent", "%", "change", width=6, about="difference, share of A's time")
    share = Field("percent", "%", "percent", width=5, about="share of all kernel time")
    assert "Change" in detail_text({"delta_percent": -7.5}, (change,), 80, ascii=False).plain
    assert "Share" in detail_text({"percent": 7.5}, (share,), 80, ascii=False).plain


@pytest.mark.parametrize("tab", ["overview", "timeline"])
async def test_a_picture_of_a_view_without_a_table(tmp_path, monkeypatch, tab):
    monkeypatch.chdir(tmp_path)
    async with opened(recorded("chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"), tab=tab) as (app, pilot):
        await press(pilot, "e", "enter")
        assert "wrote " in screen_text(app)
        await press(pilot, "e", "enter")
        assert "is there already" in screen_text(app)
    written = sorted(tmp_path.iterdir())
    assert len(written) == 1
    for path in written:
        assert path.name.startswith(f"vim_tiny_fp32_bs4-{tab}")
        assert "ProfilerStep#1" in path.read_text() if tab == "timeline" else "kernels" in path.read_text()


async def test_a_picture_that_cannot_be_written_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pathlib.Path.write_text", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "disk is full")))
    async with opened(recorded("chrome/vim_tiny_fp32_bs4.pt.trace.json.gz")) as (app, pilot):
        await press(pilot, "e", "enter")
        assert "disk is full" in footer(app)


@pytest.mark.parametrize("rule", ["V11", "K2", "F12"])
def test_what_a_rule_looks_for_is_plain_text(rule):
    text = abstention_text(rule, "something", 78).plain
    assert "What   " in text
    assert "`" not in text


@pytest.mark.parametrize(
    ("tab", "said"),
    [
        ("diff", {"enter": "There are no rows here", "v": "o opens one", "M": "There is no second run to compare"}),
        ("sweep", {"enter": "There are no rows here", "v": "are empty too", "L": "not part of a sweep"}),
        ("collectives", {"enter": "There are no rows here", "v": "are empty too"}),
    ],
)
async def test_every_key_of_an_empty_tab_answers(tab, said):
    async with opened(FP32, tab=tab) as (app, pilot):
        for key, words in said.items():
            await press(pilot, key)
            assert words in screen_text(app).splitlines()[-1], key
