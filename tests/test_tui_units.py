"""Groups of kernels, and numbers in all, per step and per call, on the screen and in what is saved."""

import polars as pl
import pytest
from sample_runs import FP16, FP32
from tui_pilot import opened, press, screen_text, settle, write

from tracetui.analysis.compare.diff import diff
from tracetui.analysis.findings.core.finding import Query
from tracetui.analysis.kernels import kernels
from tracetui.analysis.selection import Scope, in_steps, select
from tracetui.app.screen.tui import TracetuiApp
from tracetui.app.tables import export
from tracetui.app.views.diff import compared


def title(app: TracetuiApp) -> str:
    return screen_text(app).splitlines()[2]


def footer(app: TracetuiApp) -> str:
    return screen_text(app).splitlines()[-1]


def total(app: TracetuiApp) -> float:
    return app.view.table.frame["total_ns"].sum()


async def test_b_goes_round_the_groupings():
    async with opened(FP32, tab="kernels") as (app, pilot):
        whole = total(app)
        assert "b group" in footer(app)
        for words in ("category", "module class", "module", "line", "launch shape", "input shapes", "stream"):
            await press(pilot, "b")
            assert f" Kernels by {words}  steps 1-" in title(app)
            assert total(app) == whole
            assert app.view.table.frame["percent"].sum() == pytest.approx(100)
        await press(pilot, "b")
        assert title(app).startswith(" Kernels  steps")
        await press(pilot, "B")
        assert "Kernels by stream" in title(app)


async def test_enter_on_a_group_opens_its_kernels_and_their_launches():
    async with opened(FP32, tab="kernels") as (app, pilot):
        await press(pilot, "b")
        group = app.view.table.current
        await press(pilot, "enter")
        assert title(app).startswith(f" Kernels by category › {group['group']}")
        assert total(app) == group["total_ns"]
        kernel = app.view.table.current
        await press(pilot, "enter")
        assert app.view.table.frame["duration_ns"].sum() == kernel["total_ns"]
        await press(pilot, "b")
        assert "Esc goes back to the table that b groups" in footer(app)
        await press(pilot, "escape", "escape")
        assert app.view.table.current["group"] == group["group"]


async def test_launches_of_a_group_are_those_in_it():
    async with opened(FP32, tab="kernels") as (app, pilot):
        await press(pilot, *"bbb")
        assert "Kernels by module  " in title(app)
        module = app.view.table.current
        await press(pilot, "enter", "enter")
        assert app.view.table.frame["module"].unique().to_list() == [module["group"]]


async def test_the_filter_is_of_the_groups():
    async with opened(FP32, tab="kernels") as (app, pilot):
        await press(pilot, "b", "slash")
        await write(pilot, "gemm")
        await press(pilot, "enter")
        assert app.view.table.height_of_view == 1
        assert "1 of 8 groups" in screen_text(app)


async def test_copies_are_grouped_too_and_a_kernel_is_found_by_name():
    async with opened(FP32, tab="kernels") as (app, pilot):
        await press(pilot, "v", "b")
        assert title(app).startswith(" Copies and fills by range")
        await press(pilot, "v", "b")
        name = app.view.table.current["name"]
        app.navigation.go_to("kernels", name)
        await settle(pilot)
        assert title(app).startswith(" Kernels  steps")
        assert app.view.table.current["name"] == name


async def test_u_gives_numbers_per_step_and_per_call():
    async with opened(FP32, tab="kernels") as (app, pilot):
        sel = in_steps(app.session.selection())
        table = {row["name"]: row for row in kernels(sel).iter_rows(named=True)}
        await press(pilot, "u")
        assert title(app).startswith(" Kernels, per step  ")
        for row in app.view.table.frame.iter_rows(named=True):
            assert row["total_ns"] == pytest.approx(table[row["name"]]["total_ns"] / sel.step_count)
            assert row["calls"] == pytest.approx(table[row["name"]]["calls"] / sel.step_count)
            assert row["percent"] == table[row["name"]]["percent"]
            assert row["mean_ns"] == table[row["name"]]["mean_ns"]
        await press(pilot, "u")
        assert title(app).startswith(" Kernels, per call  ")
        for row in app.view.table.frame.iter_rows(named=True):
            assert row["total_ns"] == pytest.approx(row["mean_ns"])
            assert row["calls"] == table[row["name"]]["calls"]
        shown = app.view.table.view()["total_ns"]
        assert shown.to_list() == shown.sort(descending=True).to_list()
        await press(pilot, "u")
        assert title(app).startswith(" Kernels  ")


async def test_numbers_per_step_are_those_of_the_diff():
    async with opened(FP32, FP16, tab="kernels") as (app, pilot):
        await press(pilot, "u")
        found = diff(app.session.selection("a"), app.session.selection("b")).kernels
        several = {name for names in found["a_names"] if len(names) > 1 for name in names}
        compared = dict(found.select("name", "a_ns").rows())
        shown = [row for row in app.view.table.frame.iter_rows(named=True) if row["name"] not in several]
        assert len(shown) > 5
        for row in shown:
            assert row["total_ns"] == pytest.approx(compared[row["name"]])


async def test_what_is_chosen_holds_in_all_tabs_and_inside():
    async with opened(FP32, tab="kernels") as (app, pilot):
        await press(pilot, "b", "enter", "u")
        assert "Kernels by category" in title(app)
        assert "per step" in title(app)
        inner = total(app)
        await press(pilot, "escape")
        assert app.view.table.current["total_ns"] == pytest.approx(inner)
        for key, name in (("3", "Operators"), ("4", "Host functions"), ("5", "Modules")):
            await press(pilot, key)
            assert title(app).startswith(f" {name}, per step")
        await press(pilot, "u", "2")
        assert title(app).startswith(" Kernels by category, per call")


async def test_files_and_copies_say_what_the_numbers_are_of(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with opened(FP32, tab="kernels") as (app, pilot):
        plain = export.flat(app.view.table.view(), app.view.table.columns)
        await press(pilot, "u")
        told = export.flat(app.view.table.view(), app.view.table.columns)
        assert "total_ns_per_step" in told.columns
        assert "total_ns" not in told.columns
        assert "mean_ns" in told.columns
        assert len(told.columns) == len(plain.columns)
        assert told["total_ns_per_step"].sum() * 3 == pytest.approx(plain["in_steps_ns"].sum())
        assert "| Total per step | % | Calls per step | Mean |" in export.markdown(
            app.view.table.view(), app.view.table.columns
        )
        await press(pilot, "e")
        assert "kernels_per_step.csv" in screen_text(app)


async def test_launches_have_nothing_to_divide():
    async with opened(FP32, tab="kernels") as (app, pilot):
        await press(pilot, "enter")
        assert "b group" not in footer(app)
        assert "per step" not in footer(app)
        await press(pilot, "u")
        assert "There are no totals in this table that could be divided" in footer(app)
        assert app.session.per == "total"


async def test_a_recording_without_steps_has_totals_and_calls(recording):
    path = recording("ops/ops.trace.json.gz").source.path
    async with opened(path, tab="kernels") as (app, pilot):
        await press(pilot, "u")
        assert title(app).startswith(" Kernels, per call")
        await press(pilot, "u")
        assert title(app).startswith(" Kernels  whole file")


async def test_two_runs_are_compared_per_step_per_call_and_in_all():
    async with opened(FP32, FP16, size=(120, 30)) as (app, pilot):
        result = diff(app.session.selection("a"), app.session.selection("b"))
        per_step = {row["name"]: row for row in result.kernels.iter_rows(named=True)}
        assert title(app).startswith(" Kernels, per step  ")
        await press(pilot, "u")
        assert title(app).startswith(" Kernels, per call  ")
        for row in app.view.table.frame.iter_rows(named=True):
            known = per_step[row["name"]]
            assert row["a_ns"] == (known["a_ns"] / known["a_calls"] if known["a_calls"] else None)
            assert (row["delta_ns"] is None) == (not known["a_calls"] or not known["b_calls"])
        await press(pilot, "u")
        assert title(app).startswith(" Kernels, in all  ")
        assert app.view.table.frame["a_ns"].sum() == pytest.approx(
            in_steps(app.session.selection("a")).device.filter(pl.col("kind") == "kernel")["duration"].sum()
        )
        await press(pilot, "v", "v", "v", "v", "u")
        assert title(app).startswith(" Waterfall, per step")
        assert "There are no totals in this table" in footer(app)
        await press(pilot, "2")
        assert title(app).startswith(" A: Kernels  ")  # one run has its own choice


async def test_n_shows_raw_names_where_the_file_has_them_mangled(recording):
    path = recording("chrome/deit_small_train_bf16_bs32.pt.trace.json.gz").source.path
    async with opened(path, tab="kernels", size=(120, 60)) as (app, pilot):
        assert "_ZN" not in screen_text(app)
        await press(pilot, "n")
        assert "Full names" in footer(app)
        assert "_ZN" not in screen_text(app)
        await press(pilot, "n")
        assert "Raw names, as the file has them" in footer(app)
        assert "_ZN" in screen_text(app)
        await press(pilot, "n")
        assert "Short names" in footer(app)


async def test_names_are_short_or_full_where_the_file_has_them_as_written():
    async with opened(FP32, tab="kernels") as (app, pilot):
        await press(pilot, "n")
        assert "Full names" in footer(app)
        await press(pilot, "n")
        assert "Short names" in footer(app)


async def test_enter_in_the_diff_compares_the_kernels_inside():
    async with opened(FP32, FP16) as (app, pilot):
        assert "added, " in screen_text(app)
        for presses, name in ((["v"], "Operators"), (["v"], "Modules"), (["v"], "Ranges"), (["v"], "Waterfall")):
            await press(pilot, *presses)
            row = app.view.table.current
            await press(pilot, "enter")
            assert title(app).startswith(f" {name} › ")
            frame = app.view.table.frame
            assert frame["delta_ns"].sum() == pytest.approx(row["delta_ns"], abs=10_000)  # less copies, if any
            assert frame["name"].is_unique().all()
            await press(pilot, "escape")
        await press(pilot, "v", "enter")  # a part of the step has nothing inside
        assert title(app).startswith(" Step  ")


async def test_what_is_added_removed_and_changed_is_counted():
    async with opened(FP32, FP16) as (app, pilot):
        statuses = app.view.table.frame["status"].to_list()
        counted = [statuses.count(word) for word in ("added", "removed", "changed", "same")]
        words = "{} added, {} removed, {} changed, {} same".format(*counted)
        assert words in screen_text(app)
        await pilot.resize_terminal(70, 24)
        await press(pilot, *"vvvvvvv")
        assert words not in screen_text(app)
        assert "+{} -{} ~{} ={}".format(*counted) in screen_text(app)


async def test_at_60_columns_the_diff_keeps_its_margin_and_what_the_difference_is_worth():
    async with opened(FP32, FP16, size=(60, 20)) as (app, pilot):
        header = screen_text(app).splitlines()[0]
        assert header.startswith(" A(a) vim_tiny")
        assert all(name in header for name in ("p32_bs4   B(b) vim_tiny", "p16_bs4 "))
        assert title(app).startswith(" Kernels, per step  step +12.6 %, may be chance  ")
        await press(pilot, *"vvvvv")
        assert title(app).startswith(" Step  step +12.6 %, may be chance  ")
        above = screen_text(app).splitlines()[3:5]
        assert above[1].strip()  # two lines
        assert all(line.startswith(" ") and len(line) < 60 for line in above)


def test_runs_of_different_length_are_compared_per_step(recording):
    trace = recording("chrome/vim_tiny_fp32_bs4.pt.trace.json.gz")
    first = trace.steps["index"][0]
    long, short = select(trace), select(trace, Scope(steps=(first, first + 1)))
    result = diff(long, short)
    assert result.steps == (3, 2)
    per_step = compared(result.kernels, "step", result.steps)
    whole = compared(result.kernels, "total", result.steps)
    assert per_step.select("a_ns", "b_ns").equals(result.kernels.select("a_ns", "b_ns"))
    for sel, column in ((long, "a_ns"), (short, "b_ns")):
        spent = in_steps(sel).device.filter(pl.col("kind") == "kernel")["duration"].sum()
        assert whole[column].sum() == pytest.approx(spent)
        assert per_step[column].sum() == pytest.approx(spent / sel.step_count)
    assert abs(per_step["delta_ns"].sum()) < 0.05 * per_step["a_ns"].sum() < abs(whole["delta_ns"].sum())


async def test_columns_that_no_row_fills_are_left_out(recording):
    async with opened(recording("ncu/vim_full_details.csv.gz").source.path, tab="kernels") as (app, pilot):
        assert "Module" not in [column.title for column in app.view.table.columns]
        await press(pilot, "enter")
        assert "At" not in [column.title for column in app.view.table.columns]
        assert app.view.table.columns[0].title == "Duration"
    async with opened(FP32, tab="host") as (app, pilot):
        await press(pilot, "v", "v", "v", "v")
        assert title(app).startswith(" Ranges")
        assert "Domain" not in [column.title for column in app.view.table.columns]


async def test_a_finding_leads_to_the_numbers_it_speaks_of():
    async with opened(FP32, tab="kernels") as (app, pilot):
        await press(pilot, "u", "b")
        assert "by category, per step" in title(app)
        app.navigation.show_rows(Query("kernels", filter=">1ms"))
        await settle(pilot)
        assert title(app).startswith(" Kernels  steps")
        table = kernels(app.session.selection())
        assert app.view.table.height_of_view == table.filter(pl.col("total_ns") > 1_000_000).height > 0
