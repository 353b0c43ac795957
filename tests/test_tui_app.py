"""The screen on a real recording: every key that a person would press."""

import importlib
import itertools
import json
import re
import time
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from sample_runs import FP16, FP32, GPT, VIM, linked, recorded
from textual.widgets import OptionList
from tui_pilot import lines, opened, press, screen_text, settle, write

from tracetui.app import tabs
from tracetui.app.keys import commands
from tracetui.app.keys.commands import find_tab
from tracetui.app.screen.dialogs.common import RunPicker, TextScreen
from tracetui.app.screen.dialogs.palette import LIMIT, PLACES, fits, named, words_of
from tracetui.app.text.exit_codes import UsageError
from tracetui.app.views.common.rows import CLIPBOARD_LIMIT
from tracetui.app.views.common.table_view import ColumnChooser
from tracetui.app.widgets.lines import tab_labels


async def test_digits_and_tab_go_to_tabs():
    async with opened(FP32) as (app, pilot):
        for number, (tab, title) in enumerate(tabs.TITLES.items(), 1):
            await press(pilot, commands.tab_key(number))
            assert app.tab == tab
            assert f"[{commands.tab_key(number)} {title}]" in lines(app)[1]
        assert [commands.tab_key(number) for number in (1, 9, 10, 11)] == ["1", "9", "0", "T"]
        await press(pilot, "tab")
        assert app.tab == "overview"
        await press(pilot, "shift+tab")
        assert app.tab == "timeline"  # the optional tab has nothing to show here, and is passed over


def test_all_tabs_fit_into_the_bar_and_the_active_one_is_whole():
    for case in itertools.product(
        [(), ("kernels", "host"), tabs.NAMES[1:-3], tabs.NAMES[1:-1]],
        tabs.TITLES,
        [40, 50, 60, 72, 80, 97, 98, 115, 116, 200],
    ):
        filled, active, width = case
        labels = tab_labels(active, width, filled)
        shown = [tab.id for tab in tabs.TABS if tab.id in (*tabs.ALWAYS, active, *filled)]
        whole = sum(len(tabs.TITLES[tab]) + 3 for tab in shown) + 1
        assert [tab for tab, _ in labels] == shown, case
        assert sum(len(label) + 1 for _, label in labels) - 1 <= width, case
        for tab, label in labels:
            number, title = tabs.NAMES.index(tab) + 1, tabs.TITLES[tab]
            if tab == active:
                assert label == f"[{commands.tab_key(number)} {title}]", case
            else:
                assert label.strip().startswith(commands.tab_key(number)), case
                assert width < whole or label.strip() == f"{commands.tab_key(number)} {title}", case
                assert width < 6 * len(shown) or len(label) >= 4, case


async def test_a_kernel_opens_its_launches_and_esc_comes_back():
    async with opened(FP32, tab="kernels") as (app, pilot):
        assert lines(app)[4].startswith(">selective_scan_fwd_kernel")
        await press(pilot, "down", "enter")
        assert "Kernels › sm80_xmma_gemm" in lines(app)[2]
        assert "1/144" in lines(app)[2]
        assert "12x13x1" in lines(app)[4]
        await press(pilot, "enter")
        assert "Duration" in screen_text(app).split("────")[-1]
        await press(pilot, "escape", "escape")
        assert lines(app)[2].startswith(" Kernels ")
        assert lines(app)[5].startswith(">sm80_xmma_gemm")


async def test_the_modules_of_a_kernel_are_listed():
    async with opened(FP32, tab="kernels") as (app, pilot):
        await press(pilot, "m")
        assert "1/48" in lines(app)[2]
        assert "VisionMamba_0/Block_" in lines(app)[4]
        await press(pilot, "escape", "p")
        assert "MambaInnerFn" in lines(app)[4]
        await press(pilot, "enter")
        assert "operators › MambaInnerFn" in lines(app)[2]


async def test_the_lines_of_a_kernel_open_its_launches_from_there():
    async with opened(recorded("small_vit_train.pt.trace.json.gz"), tab="kernels") as (app, pilot):
        table = app.view.table
        app.view.go_to(next(row["name"] for row in table.frame.to_dicts() if len(row["lines"]) > 1))
        await settle(pilot)
        calls = table.current["calls"]
        await press(pilot, "d")
        assert f"{table.current['lines'][1]['calls']} calls  backward of train_with_stacks.py(" in screen_text(app)
        await press(pilot, "d", "f")
        rows = app.view.table.view()
        assert rows.height > 1
        assert rows["calls"].sum() == calls
        assert rows["percent"].sum() == pytest.approx(100)
        await press(pilot, "enter")
        assert app.view.state.page.id == "launches"
        assert app.view.table.height_of_view == rows["calls"][0]
        assert set(app.view.table.view()["line"]) == {rows["name"][0]}


async def test_the_key_of_counters_leads_from_a_kernel_to_its_counters():
    async with opened(VIM, tab="kernels") as (app, pilot):
        await press(pilot, "down", "down")
        assert "6 counters" in lines(app)[-1]
        short = app.view.table.current["short_name"]
        await press(pilot, "enter", "6")
        assert (app.tab, app.view.table.current["short_name"]) == ("counters", short)
        await press(pilot, "escape")
        assert (app.tab, app.view.state.page.id) == ("kernels", "launches")


async def test_inside_a_module_are_its_kernels_and_only_its_launches():
    async with opened(FP32, tab="kernels") as (app, pilot):
        assert "f lines" in lines(app)[-1]
        await press(pilot, "m")
        assert "Kernels › selective_scan_fwd_kernel: modules" in lines(app)[2]
        assert "Enter kernels  Esc back" in lines(app)[-1]
        await press(pilot, "enter")
        assert "› Mamba_9" in lines(app)[2]
        await press(pilot, "enter")
        assert "1/3" in lines(app)[2]
        assert all("Block_4/Mixer_4/Mamba_9" in line for line in lines(app)[4:7])
        await press(pilot, "escape", "escape", "escape")
        assert lines(app)[2].startswith(" Kernels  steps 1-3")


async def test_an_operator_opens_its_kernels_and_they_their_launches():
    async with opened(FP32, tab="operators") as (app, pilot):
        assert lines(app)[4].startswith(">aten::mm")
        await press(pilot, "enter")
        assert "Operators › aten::mm" in lines(app)[2]
        assert "1/6" in lines(app)[2]
        await press(pilot, "enter")
        assert "1/144" in lines(app)[2]
        await press(pilot, "escape", "escape")
        assert "1/49" in lines(app)[2]


async def test_a_module_opens_its_kernels():
    async with opened(FP32, tab="modules") as (app, pilot):
        assert "VisionMamba_0" in lines(app)[4]
        await press(pilot, "G")
        assert app.view.table.current["path"] == "(not attributed)"
        await press(pilot, "g", "down", "down", "enter", "down", "enter")  # the repeated ones, then the first of them
        assert "Modules › Block_0" in lines(app)[2]
        assert "selective_scan_fwd_kernel" in lines(app)[4]


async def test_the_filter_follows_typing_holds_in_all_tabs_and_is_always_seen():
    async with opened(FP32, tab="kernels") as (app, pilot):
        await press(pilot, "slash")
        await pilot.press(*"mamba", "space", "greater_than_sign", "1", "percent_sign")
        await write(pilot, "")
        assert "11 of 20 kernels" in lines(app)[-2]
        await press(pilot, "enter")
        assert lines(app)[-2].startswith(" / mamba >1%")
        assert app.session.filter == "mamba >1%"
        await press(pilot, "1")
        assert "mamba >1%" in lines(app)[-2]
        await press(pilot, "3")
        assert lines(app)[-2].startswith(" / mamba >1%   1 of 49 operators")
        await press(pilot, "2", "enter")
        assert "mamba" not in lines(app)[-2]
        await press(pilot, "escape", "escape")
        assert app.session.filter == ""
        assert "/20" in lines(app)[2]


async def test_a_wrong_filter_is_explained_and_changes_nothing():
    async with opened(FP32, tab="kernels") as (app, pilot):
        await press(pilot, "slash")
        await write(pilot, "/(")
        assert "not a regular expression" in lines(app)[-2]
        assert "1/20" in lines(app)[2]
        await press(pilot, "escape")
        assert "not a regular" not in screen_text(app)


async def test_a_filter_without_matches_says_so():
    async with opened(FP32, tab="kernels", filter="nothing-like-it") as (app, pilot):
        assert "No kernels match the filter: Esc clears it" in screen_text(app)
        assert "0 of 20 kernels" in lines(app)[-2]
        await press(pilot, "escape")
        assert "1/20" in lines(app)[2]


async def test_names_switch_between_short_and_full_in_all_tabs():
    async with opened(FP32, tab="kernels", size=(120, 24)) as (app, pilot):
        await press(pilot, "n")
        assert lines(app)[4].startswith(">void selective_scan_fwd_kernel<")
        await press(pilot, "4")
        assert any("<built-in method reshape of Tensor" in line for line in lines(app))
        await press(pilot, "n", "2")
        assert lines(app)[4].startswith(">selective_scan_fwd_kernel ")


async def test_columns_are_chosen_and_remembered():
    async with opened(FP32, tab="kernels") as (app, pilot):
        assert "Median" not in lines(app)[3]
        await press(pilot, "c")
        assert isinstance(app.screen, ColumnChooser)
        await press(pilot, *["down"] * 11, "space", "up", "up", "escape")
        assert "Median" in lines(app)[3]
        await press(pilot, "c", *["j"] * 3, "space", "escape")
        assert "Calls" not in lines(app)[3]
        assert "1 column hidden (c)  1/" in lines(app)[2]
        await press(pilot, "enter", "escape")
        assert "Median" in lines(app)[3]
        assert "Calls" not in lines(app)[3]


async def test_a_column_that_pushes_another_out_is_told():
    async with opened(FP32, tab="kernels") as (app, pilot):
        shown = [column.name for column in app.view.table.shown]
        last = app.view.table.shown[-1]
        await press(pilot, "c")
        assert f"[x] {last.label}" in screen_text(app)
        assert "[-] Median       no room; median" in screen_text(app)
        await press(pilot, *["down"] * 11, "space")
        assert "[x] Median       median" in screen_text(app)
        assert f"[-] {last.label}" in screen_text(app)
        await press(pilot, "r")
        assert "[-] Median       no room; median" in screen_text(app)
        await press(pilot, "G")
        assert app.screen.query_one(OptionList).highlighted == len(app.view.table.columns) - 1
        await press(pilot, "g", *["j"] * 3, "space", "space", "escape")  # Calls, off and on again
        assert [column.name for column in app.view.table.shown] == shown
        assert app.view.table.pinned == frozenset()


async def test_details_show_what_has_no_room():
    async with opened(FP32, tab="kernels") as (app, pilot):
        await press(pilot, "d")
        text = screen_text(app)
        assert "void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<\n" in text
        assert "(SSMParamsBase)" in text
        assert "MambaInnerFn" in text
        await press(pilot, *["full_stop"] * 6)
        assert "VisionMamba_0/Block_" in screen_text(app)
        await press(pilot, "down")
        assert "sm80_xmma_gemm_f32f32_f32f32" in screen_text(app)
        await press(pilot, "escape")
        assert "Selective_Scan" not in screen_text(app)


async def test_copying():
    async with opened(FP32, tab="kernels") as (app, pilot):
        await press(pilot, "w")
        assert app.clipboard.startswith("void selective_scan_fwd_kernel<")
        await press(pilot, "y")
        assert [line.split("\t")[:2] for line in app.clipboard.split("\n")] == [
            ["Kernel", "Total"], ["selective_scan_fwd_kernel", "2.308 ms"]
        ]  # fmt: skip
        await press(pilot, "Y")
        rows = app.clipboard.rstrip().split("\n")
        assert len(rows) == 21
        assert rows[0].split("\t")[:2] == ["name", "total_ns"]
        assert rows[1].split("\t")[1] == "2308127"


async def test_what_is_too_much_for_the_clipboard_goes_to_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with opened(FP32, tab="host") as (app, pilot):
        before = app.clipboard
        page = app.view.state.page
        many = pl.concat([page.frame] * 10)
        app.view.table.load(many, page.columns)
        await press(pilot, "Y")
        assert app.clipboard == before
        written = tmp_path / "tracetui-host.tsv"
        assert written.stat().st_size > CLIPBOARD_LIMIT
        assert "too much for the clipboard: wrote" in lines(app)[-1]


async def test_the_view_is_saved_in_each_form(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with opened(FP32, tab="kernels") as (app, pilot):
        for suffix in ("csv", "json", "parquet", "md", "svg"):
            await press(pilot, "e", "ctrl+u")
            await write(pilot, f"view.{suffix}")
            await press(pilot, "enter")
            assert "wrote" in lines(app)[-1]
        assert pl.read_csv("view.csv")["calls"].sum() == pl.read_parquet("view.parquet")["calls"].sum() == 2040
        assert json.loads(Path("view.json").read_text())[0]["total_ns"] == 2308127
        assert "2.308 ms" in Path("view.md").read_text().split("\n")[4]
        picture = Path("view.svg").read_text()
        assert "<svg" in picture
        assert "@font-face" not in picture
        assert "url(http" not in picture
        await press(pilot, "e", "ctrl+u")
        await write(pilot, "view.csv")
        Path("view.csv").write_text("mine")
        await press(pilot, "enter")
        assert "is there already; Enter replaces it, Esc keeps it" in screen_text(app)
        await press(pilot, "escape")
        assert Path("view.csv").read_text() == "mine"
        await press(pilot, "e", "ctrl+u")
        await write(pilot, "view.csv")
        await press(pilot, "enter", "enter")
        assert "wrote" in lines(app)[-1]
        assert pl.read_csv("view.csv")["calls"].sum() == 2040
        await press(pilot, "e", "ctrl+u")
        await write(pilot, "view.xyz")
        await press(pilot, "enter")
        assert "suffix" in lines(app)[-1]
        assert not Path("view.xyz").exists()
        await press(pilot, "e", "ctrl+u")
        await write(pilot, "nowhere/view.csv")
        await press(pilot, "enter")
        assert lines(app)[-1].count("nowhere/view.csv") == 1
        assert "no such file" in lines(app)[-1]


async def test_help_is_about_the_view():
    async with opened(FP32, tab="modules") as (app, pilot):
        await press(pilot, "question_mark")
        assert isinstance(app.screen, TextScreen)
        for words in ("Expand down to the first fork", "/conv.*d/", "GPU time of what was launched inside it"):
            assert words in app.screen.text
        await press(pilot, "escape", "1", "question_mark")
        assert "Expand" not in app.screen.text
        await press(pilot, "escape")
        assert not isinstance(app.screen, TextScreen)


@pytest.mark.parametrize("tab", tabs.NAMES)
def test_help_names_every_key_of_the_tab(tab):
    from tracetui.app.screen.dialogs.common import help_text

    text = " ".join(help_text(tab, (), ascii=False).plain.split())
    for command in commands.in_tab(tab):
        assert command.title in text or command.shown.isdigit() or not command.shown


def test_the_footer_fits_and_keeps_help_and_quit():
    for case in itertools.product(tabs.NAMES, [60, 80, 120]):
        tab, width = case
        hints = commands.footer(tab, width - 1)
        assert sum(len(key) + len(label) + 3 for key, label in hints) <= width, case
        assert {"?", "q"} <= {key for key, _ in hints}, case
        assert len(hints) >= 4, case


def test_no_key_means_two_things_in_one_place():
    for tab in tabs.NAMES:
        for where in ({"app", "overview"}, {"app", "view", "table", "tree", "diff"}):
            keys = [key for c in commands.in_tab(tab) if c.where in where for key in c.keys.split(",") if key]
            assert {key for key in keys if keys.count(key) > 1} <= {"escape"}, tab


async def test_the_palette_finds_commands_kernels_and_modules():
    async with opened(FP32) as (app, pilot):
        await press(pilot, "ctrl+p")
        await write(pilot, "selective_scan")
        assert "selective_scan_fwd_kernel" in screen_text(app)
        await press(pilot, "down", "enter")
        assert app.tab == "kernels"
        assert lines(app)[4].startswith(">selective_scan_fwd_kernel")
        await press(pilot, "ctrl+p")
        await write(pilot, "Mamba_47")
        await press(pilot, "down", "enter")
        await settle(pilot)
        assert app.tab == "modules"
        assert any(line.startswith(">") and "Mamba_47" in line for line in lines(app))
        await press(pilot, "ctrl+p")
        await write(pilot, "go to host")
        await press(pilot, "enter")
        await settle(pilot)
        assert app.tab == "host"
        await press(pilot, "ctrl+p")
        await write(pilot, "elementwise: add<vec")
        assert "kernel  elementwise: add<vectorized>" in screen_text(app)


async def test_the_palette_finds_tables_by_the_names_that_other_tools_give_them():
    async with opened(FP32) as (app, pilot):
        for way, typed, tab, table in (
            ("ctrl+p", "roofline", "counters", "roofline"), ("ctrl+p", "waterfall", "diff", "waterfall"),
            ("ctrl+p", "call stack", "host", "stacks"), ("ctrl+p", "idle", "host", "gaps"),
            ("ctrl+p", "memcpy", "kernels", "copies"), ("ctrl+p", "straggler", "ranks", "ranks"),
            ("ctrl+p", "iterations", "host", "steps"), ("colon", "idle", "host", "gaps"),
        ):  # fmt: skip
            await press(pilot, "1", way)
            await write(pilot, typed)
            if way == "colon":
                await press(pilot, "enter")
                await settle(pilot)
            shown = [line.strip(" │|▎▏") for line in lines(app)]
            found = next(at for at, line in enumerate(shown) if f"> {table}" in line or (" > " in line))
            assert f"{tabs.TITLES[tab]} > {table}" in shown[found], "the first table that is found"
            await press(pilot, "escape")


@pytest.mark.parametrize(
    ("typed", "first", "tab", "there"),
    [
        ("s13", "finding  S13 ", "findings", "S13"),
        ("less launches pauses", "finding  S13 ", "findings", "S13"),
        ("step 2", "step  2  ProfilerStep#2", "timeline", "ProfilerStep#2"),
        ("setting theme", "setting  theme: ", "overview", 'theme = "auto" (default)'),
        ("mamba 47", "module  VisionMamba_0/Block_23/Mixer_23/Mamba_47", "modules", ""),
        ("hide lane", "Hide the lane  (in Timeline)", "timeline", "hidden (X)"),
    ],
)
async def test_what_the_palette_finds_is_gone_to_or_done_where_it_works(typed, first, tab, there):
    async with opened(FP32, tab="overview") as (app, pilot):
        await press(pilot, "ctrl+p")
        await write(pilot, typed)
        await settle(pilot)
        found = [line.strip() for line in lines(app)[1:] if line.strip()]
        assert found[0].startswith(first)
        await press(pilot, "enter")
        await settle(pilot)
        assert app.tab == tab
        assert there in screen_text(app)


def test_a_million_kernels_are_looked_up_without_making_texts_of_all():
    """Only what is offered is told apart and made into text."""
    names = pl.DataFrame({"at": pl.int_range(200_000, eager=True)}).select(
        name=pl.format("void kern_{}<float, {}>(int)", pl.col("at") % 7, "at"),
        short_name=pl.format("kern_{}", pl.col("at") % 7),
    )
    trace = SimpleNamespace(steps=pl.DataFrame({"index": [1, 12], "name": ["Step#1", "Step#12"]}))
    frames = {"kernels": names, "modules": pl.DataFrame({"path": ["", "A/Kern_3"]})}
    session = SimpleNamespace(trace=lambda: trace, selection=lambda: None, cached=lambda key, compute: frames[key])
    with_seconds = [0.0, 0.0]
    for at, words in enumerate((["kern", "199999"], ["kern"])):
        begun = time.process_time()
        found = named(session, words)
        with_seconds[at] = time.process_time() - begun
        assert [each.noun for each in found].count("kernel") == (1, LIMIT)[at]
    assert [each.name for each in named(session, ["step", "12"])] == ["1"]
    assert max(with_seconds) < 4, with_seconds


async def test_a_table_that_the_palette_found_is_shown():
    async with opened(FP32) as (app, pilot):
        await press(pilot, "ctrl+p")
        await write(pilot, "memcpy")
        await press(pilot, "down", "enter")
        await settle(pilot)
        assert (app.tab, app.shell.view.kind) == ("kernels", "copies")


def test_each_table_of_each_tab_can_be_found():
    places = {(place.tab, place.table) for place in PLACES}
    for tab in tabs.TABS:
        module, _, name = tab.view.partition(":")
        view = getattr(importlib.import_module(f"tracetui.app.views.{module}"), name)
        assert {(tab.id, table) for table in getattr(view, "TABLES", ()) or ("",)} <= places
        places = {place for place in places if place[0] != tab.id}
    assert not places, "of tables that are no more"


def test_one_rule_says_what_the_palette_finds():
    assert fits("Host > gaps idle time", words_of("idle")) > fits("Host > gaps idle time", words_of("dle")) > 0
    assert fits("step  1  Step#1", words_of("step 1")) > fits("step  12  Step#12", words_of("step 1"))
    assert fits("cunn_SoftMaxForward", words_of("softmax")) > 1
    assert not fits("roofline", words_of("roof top"))
    assert words_of("add<vec") == ["add", "vec"]
    assert words_of("+") == ["+"]


async def test_brackets_in_names_are_no_markup_in_the_palette(tmp_path):
    event = {"ph": "X", "cat": "python_function", "pid": 1, "tid": 1, "ts": 0, "dur": 9, "name": "nn.Module: Net[b]_0"}
    path = tmp_path / "brackets.json"
    path.write_text(json.dumps({"traceEvents": [{**event, "args": {"Python id": 1, "Python module id": 0}}]}))
    async with opened(path) as (app, pilot):
        await press(pilot, "ctrl+p")
        await write(pilot, "net[b]")
        assert "module  Net[b]_0" in screen_text(app)
        await press(pilot, "down", "enter")
        await settle(pilot)
        assert "Net[b]_0" in lines(app)[4]


async def test_the_palette_goes_to_a_kernel_that_the_filter_hides():
    async with opened(FP32, tab="kernels", filter="gemm") as (app, pilot):
        await press(pilot, "ctrl+p")
        await write(pilot, "softmax")
        await press(pilot, "down", "enter")
        await settle(pilot)
        assert any(line.startswith(">softmax_warp_forward") for line in lines(app))
        assert app.session.filter == ""


async def test_two_paths_open_the_diff():
    async with opened(FP32, FP16) as (app, pilot):
        assert app.tab == "diff"
        assert "Kernels, per step  median 105.7 ms → 119.0 ms, +12.6 %, may be chance" in lines(app)[2]
        assert "A(a) vim_tiny_fp32_bs4   B(b) vim_tiny_fp16_bs4" in lines(app)[0]
        assert any("+ added" in line and "copy fp16" in line for line in lines(app))
        names = [line[1:30].rstrip() for line in lines(app)[5:-1]]
        assert len(set(names)) == len(names)
        assert names[0].startswith("sm80_xmm… +1 → cutlass_")  # the scans of both runs are one row, little changed
        assert not any(name.startswith("selective_scan_fwd") for name in names[:9])
        await press(pilot, "v")
        assert lines(app)[5].startswith(">aten::mm")
        assert "~ changed" in lines(app)[5]
        await press(pilot, "v")
        assert "VisionMamba_0" in lines(app)[5]
        await press(pilot, "v")
        assert any(line.startswith(">step ") for line in lines(app))
        await press(pilot, "v")
        assert "By count" in lines(app)[4]
        await press(pilot, "x", "V", "V", "V", "V", "escape")
        assert "A(b) vim_tiny_fp16_bs4   B(a) vim_tiny_fp32_bs4" in lines(app)[0]
        assert "Kernels, per step  median 119.0 ms → 105.7 ms, -11.2 %, may be chance" in lines(app)[2]


async def test_the_diff_tab_says_how_to_open_a_second_run(tmp_path):
    for name, source in (("a.json.gz", FP32), ("b.json.gz", FP16)):
        linked(source, tmp_path / name)
    async with opened(tmp_path / "a.json.gz", tab="diff") as (app, pilot):
        assert "There is no second run" in screen_text(app)
        await press(pilot, "o")
        assert isinstance(app.screen, RunPicker)
        assert "b.json.gz" in screen_text(app)
        await press(pilot, "G", "k", "j", "enter")
        await settle(pilot)
        assert "105.7 ms → 119.0 ms" in app.view.state.page.note


async def test_a_screen_that_only_shows_opens_no_other_run(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACETUI_READ_ONLY", "1")
    for name, source in (("a.json.gz", FP32), ("b.json.gz", FP16)):
        linked(source, tmp_path / name)
    async with opened(tmp_path / "a.json.gz", tab="diff") as (app, pilot):
        await press(pilot, "o")
        assert "b.json.gz" not in screen_text(app), "what lies beside is not listed"
        app.screen.dismiss((tmp_path / "b.json.gz",))
        await settle(pilot)
        assert "This screen shows what it was started with" in lines(app)[-1]
        assert [entry.letter for entry in app.session.open.values()] == ["a"]


async def test_a_second_run_that_cannot_be_read_is_explained(tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text("hello")
    async with opened(FP32, bad) as (app, _):
        assert f"{bad}:nota" in "".join(screen_text(app).split())  # a long path breaks anywhere
        assert "There is no second run" in screen_text(app)
        assert app.runs.exit_code == 0


async def test_a_trace_without_modules_or_steps_says_so():
    async with opened(recorded("ops/ops.trace.json.gz"), tab="modules") as (app, pilot):
        assert "Ranges (no nn.Module in this trace)" in screen_text(app)
        assert "mm_float32_512x512x512" in screen_text(app)
        await press(pilot, "1")
        assert "First to last GPU work 2.406 ms  as recorded" in screen_text(app)
        await press(pilot, "2", "3", "4")
        assert app.tab == "host"


async def test_an_empty_trace_opens_with_empty_views(tmp_path):
    empty = tmp_path / "empty.json"
    empty.write_text('{"traceEvents": []}')
    async with opened(empty) as (app, pilot):
        assert "no host or GPU events" in screen_text(app)
        for key, words in (
            ("2", "No GPU kernels in this trace"),
            ("3", "No operators in this trace"),
            ("4", "No host events in this trace"),
            ("5", "No nn.Module calls in this trace"),
        ):
            await press(pilot, key)
            assert words in screen_text(app)
            await press(pilot, "enter", "d", "slash", "escape", "escape", "greater_than_sign", "m", "y", "Y", "n")


async def test_notes_say_what_was_repaired():
    async with opened(FP32) as (app, pilot):
        await press(pilot, "exclamation_mark")
        assert "85,869 of 85,869 events parsed" in screen_text(app)
        assert "720 repaired" in screen_text(app)


async def test_notes_say_what_of_run_json_could_not_be_used(tmp_path):
    (tmp_path / "gpt_small_ctx256.trace.json.gz").write_bytes(Path(GPT).read_bytes())
    state = {"unix_ns": 1, "temperatures_c": {"cpu": "warm"}}
    document = {"schema": "tracetui.run/1", "status": "asleep", "power": {"during": [state]}}
    (tmp_path / "run.json").write_text(json.dumps(document))
    async with opened(tmp_path, size=(140, 30)) as (app, pilot):
        of_trace = len(app.session.trace().notes)
        assert f"{of_trace + 2} notes (!)" in lines(app)[0]
        await press(pilot, "exclamation_mark")
        text = screen_text(app)
        assert text.index("gpt_small_ctx256.trace.json.gz") < text.index("run.json") < text.index("temperatures_c")
        assert "run.json: status that is none; asleep" in text


async def test_a_narrow_terminal_still_shows_names_and_times():
    async with opened(FP32, tab="kernels", size=(60, 20)) as (app, pilot):
        assert "selective_scan_fwd_kernel" in lines(app)[4]
        assert "2.308 ms" in lines(app)[4]
        assert "[2 Kernels]" in lines(app)[1]
        assert lines(app)[1].endswith("8 Fin T Tim")
        await pilot.resize_terminal(120, 30)
        await settle(pilot)
        assert "Occup" in lines(app)[3]
        assert "filter" in lines(app)[-1]
        assert "sort" in lines(app)[-1]


async def test_where_nothing_ran_on_a_gpu_there_are_no_gpu_columns(tmp_path):
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 5},
        {"ph": "X", "cat": "python_function", "name": "nn.Module: Net_0", "pid": 1, "tid": 1, "ts": 0, "dur": 9,
         "args": {"Python id": 1, "Python module id": 0}},
    ]  # fmt: skip
    path = tmp_path / "cpu.json"
    path.write_text(json.dumps({"traceEvents": events}))
    async with opened(path, tab="operators") as (app, pilot):
        for key in ("3", "5"):
            await press(pilot, key)
            assert "no GPU work in this trace" in lines(app)[2]
            assert "GPU" not in lines(app)[3]
            assert "CPU self" in lines(app)[3]


async def test_ascii_shows_nothing_else():
    async with opened(FP32, FP16, ascii=True) as (app, pilot):
        keys = "1 2 d 3 enter 4 5 6 v question_mark escape exclamation_mark escape c escape 8 enter escape v v v"
        for key in keys.split():
            await press(pilot, key)
            odd = {char for char in screen_text(app) if not char.isascii()}
            assert not odd, (key, odd)


async def test_quitting_has_the_code_of_success():
    async with opened(FP32) as (app, pilot):
        await pilot.press("q")
        await pilot.pause()
        assert app.runs.exit_code == 0
        assert not app.is_running


def test_in_dialogs_a_key_that_no_longer_quits_does_not(monkeypatch):
    monkeypatch.setattr(commands, "COMMANDS", commands.COMMANDS)
    commands.use_keys({"app.quit": ["Q"]})
    assert not commands.quits("ctrl+q")
    commands.use_keys({})
    assert commands.quits("ctrl+q")
    assert not commands.quits("q")


async def test_over_ssh_the_table_scrolls_by_half_pages():
    async with opened(FP32, tab="host", low_bandwidth=True) as (app, pilot):
        assert app.theme == "ansi"
        await press(pilot, *["down"] * 19)
        assert app.view.table.top >= 9


async def test_the_mouse_sorts_moves_opens_and_goes_to_tabs():
    async with opened(FP32, tab="kernels") as (app, pilot):
        await pilot.click("#table", offset=(52, 0))
        assert app.view.table.sort == ("calls", True)
        await pilot.click("#table", offset=(52, 0))
        assert app.view.table.sort == ("calls", False)
        await pilot.click("#table", offset=(5, 3))
        assert app.view.table.cursor == 2
        await pilot.click("#table", offset=(5, 3), times=2)
        await settle(pilot)
        assert "Kernels ›" in lines(app)[2]
        await pilot.click("#tabs", offset=(lines(app)[1].index("3 Ops"), 0))
        await settle(pilot)
        assert app.tab == "operators"


async def test_a_filter_that_cannot_be_read_at_the_start_is_explained():
    async with opened(FP32, tab="kernels", filter="/(/") as (app, _):
        assert "not a regular expression" in screen_text(app)
        assert "1/20" in lines(app)[2]


@pytest.mark.parametrize(
    ("name", "tab"),
    [("kernels", "kernels"), ("Mod", "modules"), ("4", "host"), ("0", "sweep"), ("T", "timeline"), ("ti", "timeline")],
)
def test_tabs_are_found_by_name_beginning_and_number(name, tab):
    assert find_tab(name) == tab


@pytest.mark.parametrize("name", ["10", "-1", "00", "sausages", ""])
def test_a_tab_that_is_not_there_is_wrong_usage(name):
    with pytest.raises(UsageError, match="there are overview, kernels"):
        find_tab(name)


async def test_tables_beside_the_first_one():
    async with opened(FP32, tab="kernels") as (app, pilot):
        await press(pilot, "v")
        assert "[CUDA memcpy Host-to-Device]" in lines(app)[4]
        assert "45.80" in lines(app)[4]
        await press(pilot, "v", "4", "v")
        assert lines(app)[2].startswith(" Critical path ")
        assert lines(app)[4].startswith(">data loader ")
        assert re.match(r" Python +\S+ ms +54\.9 ", lines(app)[5])
        await press(pilot, "v")
        assert lines(app)[4].startswith(">cudaLaunchKernel ")
        await press(pilot, "v")
        assert "1,811 took longer than their GPU work" in lines(app)[2]
        await press(pilot, "v")
        assert lines(app)[4].startswith(">ProfilerStep")
        await press(pilot, "v", "3", "v")
        assert "[[768, 192], [192, 788]]" in screen_text(app)


async def test_a_second_run_leaves_the_place_in_the_first_alone():
    async with opened(FP32, tab="kernels") as (app, pilot):
        await press(pilot, "down", "down", "enter")
        app.runs.open_run("b", (FP16,))
        await settle(pilot)
        assert "A: Kernels › sm80" in lines(app)[2]
        await press(pilot, "escape")
        assert app.view.table.cursor == 2
        await press(pilot, "9")
        assert "105.7 ms → 119.0 ms" in app.view.state.page.note


async def test_the_list_of_tables_goes_with_the_next_key():
    async with opened(FP32, tab="host") as (app, pilot):
        there = app.view.tables
        assert "gaps" in there
        assert "OS calls" not in there  # which this recording can't fill
        await press(pilot, "v")
        assert (app.view.kind, f"table 2/{len(there)}" in lines(app)[-1]) == (there[1], True)
        listed = ", ".join(f"[{table}]" if at == 1 else table for at, table in enumerate(there))
        assert f"Host: {listed}" in " ".join(map(str.strip, lines(app)[-4:-1]))
        await press(pilot, "V", "V")
        assert (app.view.kind, f"table {len(there)}/{len(there)}" in lines(app)[-1]) == (there[-1], True)
        for key, depth in (("escape", 1), ("enter", 2)):  # Esc is one level; Enter goes into the row
            await press(pilot, "V", "v", key)
            assert (app.view.kind, len(app.view._stack), "Host: " in screen_text(app)) == (there[-1], depth, False)
        await press(pilot, "escape")
        await press(pilot, "v", "v", "j")
        assert (app.view.kind, app.view.table.cursor, "Host: " in screen_text(app)) == (there[1], 1, False)


@pytest.mark.parametrize(
    ("paths", "there"),
    [
        (["chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"], "1234567 8T"),
        (["ncu/vim_full_raw.csv.gz"], "1268"),
        (["memory/gpt_memory_snapshot.pickle.gz"], "14578"),
    ],
)
async def test_the_bar_has_the_tabs_that_the_run_fills_and_every_key_opens_its_own(paths, there):
    async with opened(*map(recorded, paths), size=(200, 24), tab="overview") as (app, pilot):
        keys = [
            label.strip("[ ]")[0] for label in lines(app)[1].replace("  ", " ").split() if len(label.strip("[ ]")) == 1
        ]
        assert "".join(keys) == there.replace(" ", "")
        for key, tab in tabs.BY_KEY.items() if len(keys) < 5 else ():
            await press(pilot, key)
            assert app.tab == tab
            assert f"[{key} {tabs.TITLES[tab]}]" in lines(app)[1]
            if key not in keys:  # it says how to get what it shows
                assert app.view.has_class("-blank")
                assert len(screen_text(app).strip().splitlines()) > 5
