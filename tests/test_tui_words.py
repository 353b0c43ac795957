"""What the screen says beside its numbers: keys that lead nowhere are not offered, words are not cut or wrong."""

import asyncio
import itertools

import ncu_file
import pytest
from sample_runs import FP32, recorded
from tui_pilot import opened, press, screen_text

from tracetui.analysis.tables.table import Field
from tracetui.app import tabs
from tracetui.app.charts.lanes import LEGEND
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
        assert " D " not in footer(app)
        await press(pilot, "7")
        assert " v table 1/5 " in footer(app)


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
        assert "Enter launches  Esc back  v table 1/5" in footer(app)


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
            await press(pilot, "exclamation_mark")
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
                "What / understands", "Columns", "Signs", tabs.TITLES[tab],
            }, case  # fmt: skip


def test_the_help_of_the_timeline_tells_its_signs():
    lines = help_text("timeline", LEGEND, ascii=False).plain.splitlines()
    told = lines[lines.index("Signs") :]
    assert all(any(line.startswith(f"  {sign} ") for line in told) for sign, _ in LEGEND)


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
        ("diff", {"enter": "There are no rows here", "v": "o opens one"}),
        ("sweep", {"enter": "There are no rows here", "v": "are empty too", "D": "not part of a sweep"}),
        ("collectives", {"enter": "There are no rows here", "v": "are empty too"}),
    ],
)
async def test_every_key_of_an_empty_tab_answers(tab, said):
    async with opened(FP32, tab=tab) as (app, pilot):
        for key, words in said.items():
            await press(pilot, key)
            assert words in screen_text(app).splitlines()[-1], key


OPS = ("ops.trace.json.gz", "ops.sqlite.gz", "ops.ncu.csv.gz")


@pytest.fixture
def folder(tmp_path):
    for name in OPS:
        (tmp_path / name).symlink_to(recorded(f"ops/{name}"))
    return tmp_path


def screens(*paths, keys, size=(180, 24)):
    async def run():
        texts = []
        async with opened(*paths, size=size, cache=False, tab="kernels") as (app, pilot):
            texts.append(screen_text(app))
            for key in keys:
                await press(pilot, key)
                texts.append(screen_text(app))
        return texts

    return asyncio.run(run())


def test_measured_columns_and_coverage(folder):
    text, details = screens(folder, keys=["d"])
    lines = text.splitlines()
    assert "ncu: 100.0 % of GPU time, 43 launches" in lines[2]
    assert "nsys recording: 100.0 % of the GPU time matches" in lines[2]
    titles, first = lines[3], lines[4]
    assert titles.index("SM%") < titles.index("L1%") < titles.index("L2%") < titles.index("Occ%")
    assert "Mem%" not in titles  # not among the metrics that were collected
    assert first.startswith(">sm80_xmma_gemm_f32_nn_n_256x128x8_ffma")
    assert first[titles.index("SM%") - 2 :].split()[:2] == ["85.0", "0"]
    assert "Limiter      registers" in details
    assert "By ncu       1" in details


def test_coverage_without_room_is_left_out_and_not_cut(folder):
    wide, narrow = screens(folder, keys=["u"], size=(120, 24))
    assert " · ncu: 100.0 % of GPU time …  " in wide.splitlines()[2]
    assert " · * tensor cores 51.0 % …  " in narrow.splitlines()[2]


def test_the_recording_of_another_tool_is_compared_with_the_rest(folder):
    _, text = screens(folder, keys=["S"])
    lines = text.splitlines()
    assert "ncu: 100.0 % of GPU time, 43 launches" in lines[2]
    assert "Chrome trace: 100.0 % of the GPU time matches" in lines[2]


def test_one_tool_alone_has_no_measured_columns(folder):
    (text,) = screens(folder / OPS[0], keys=[])
    lines = text.splitlines()
    assert "ncu" not in lines[2]
    assert "SM%" not in lines[3]
    assert "Occup" in lines[3]


def test_a_report_of_no_launch_has_every_table(tmp_path):
    path = tmp_path / "none.csv"
    path.write_text(ncu_file.wide_table({"gpu__time_duration.sum": "ns"}, []))
    texts = screens(path, keys=["6", *["enter", "d", "escape", "v"] * 4])
    assert not any("bug" in text for text in texts)
    assert "[6 Counters]" in texts[1]
    assert "0 launches" in texts[1]


def test_without_steps_the_host_s_shares_are_of_the_file(folder):
    _, text = screens(folder / OPS[1], keys=["4"])
    assert "own time, % of the file" in text.splitlines()[2]


def test_details_begin_with_texts_that_are_short():
    fields = (Field("name", "Kernel"), Field("stack", "Stack"), Field("line", "Line"), Field("n", "Calls", "count"))
    row = {"name": "kernel<" + "float, " * 40 + ">", "stack": "a;b;c", "line": "t.py(8): step", "n": 3}
    titles = [
        line.split()[0] for line in detail_text(row, fields, 80, ascii=False).plain.splitlines() if line[0] != " "
    ]
    assert titles == ["Line", "Kernel", "Stack", "Calls"]
