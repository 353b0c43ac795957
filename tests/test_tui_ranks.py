"""The tab Ranks: in the bar where there are several, the late one stands out, and Enter shows a rank."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from rank_summaries import Made, with_frames
from sample_runs import recorded
from tui_pilot import opened, press, screen_text

from tracetui.analysis.ranks import summary
from tracetui.analysis.ranks.files.store import Store, Stored
from tracetui.analysis.ranks.job import combine
from tracetui.analysis.ranks.of_run import judged, rank_rows
from tracetui.analysis.ranks.one_rank import REST, beside_median
from tracetui.analysis.ranks.sentences import in_title
from tracetui.analysis.scope import Scope
from tracetui.app.charts.heat import heat_map, signs, span
from tracetui.app.reports.content.job import drawable, first_drawn
from tracetui.app.views.ranks import arrivals_of_one, arrivals_page, ranks_page
from tracetui.app.widgets.frame_table import heated

JOB = recorded("chrome/ddp_vit_small_2ranks")


def lines(app):
    return screen_text(app).splitlines()


def table(app):
    """The table of ranks, from its header; what is said of the job stands above it."""
    every = lines(app)
    return every[next(number for number, line in enumerate(every) if "Rank  State" in line) :]


async def test_the_late_rank_stands_out_and_enter_shows_it():
    async with opened(JOB, size=(80, 24)) as (app, pilot):
        assert "U Ra" in lines(app)[1]
        await press(pilot, "U")
        assert app.tab == "ranks"
        assert "rank 1" in lines(app)[2]
        assert table(app)[1].split()[:2] == [">", "0"]
        assert "! late" not in table(app)[1]
        assert "! late" in table(app)[2]
        assert "late: rank 1" in lines(app)[2]
        assert lines(app)[3].startswith(" - In the program rank 1 has ")
        assert " - Silent host time: " in screen_text(app)
        drawn = table(app)[0]
        await press(pilot, "D")
        assert table(app)[0] != drawn
        await press(pilot, "d")  # the details need the room
        assert lines(app)[3] == table(app)[0]
        await press(pilot, "d")
        await press(pilot, "down", "x")
        assert "rank 1 beside the median rank" in lines(app)[2]
        await press(pilot, "escape", "v")
        assert "Arrivals" in lines(app)[2]
        await press(pilot, "enter", "enter")
        assert lines(app)[4].split()[:2] == [">", "0"]
        assert "█" in lines(app)[5]
        await press(pilot, "escape", "v")
        assert "Who waited for whom" in lines(app)[2]
        await press(pilot, "v")
        assert "Waiting and transfer" in lines(app)[2]
        await press(pilot, "v")
        assert "No pipeline" in screen_text(app)
        await press(pilot, "v", "down", "enter")
        assert app.tab == "overview"
        assert "rank 1 of 2" in lines(app)[0]
        await press(pilot, "escape")
        assert app.tab == "ranks"


async def test_z_goes_through_the_collectives_that_a_rank_came_latest_to():
    async with opened(JOB, size=(80, 24)) as (app, pilot):
        await press(pilot, "U", "L")
        assert "Arrivals" in lines(app)[2]
        found = app.view._job().collectives.filter(pl.col("last_rank").is_not_null())
        late = found.sort("late_ns", "instance", descending=[True, False])
        assert app.view.table.current["instance"] == late["instance"][0]
        assert f"1 of {late.height}: rank {late['last_rank'][0]} came" in screen_text(app)
        await press(pilot, "L")
        assert app.view.table.current["instance"] == late["instance"][1]
        await press(pilot, "enter")
        assert "from first arrival to end" in lines(app)[2]
        await press(pilot, "down")
        row = app.view.table.current
        assert row["rank"] != app.session.trace().info.rank
        await press(pilot, "t")
        trace = app.session.trace()
        assert (app.tab, trace.info.rank) == ("timeline", row["rank"])
        event = trace.device.filter(pl.col("start") == row["recorded_begin"] - (trace.info.base_time or 0))
        assert event["name"].cast(pl.String)[0][:30] in screen_text(app)


async def test_arrivals_and_collectives_count_from_the_start_of_the_recording_in_view():
    async with opened(JOB, size=(120, 40)) as (app, pilot):
        for rank, to_arrivals in ((0, ["v"]), (1, [])):
            assert app.session.trace().info.rank == rank
            await press(pilot, "I", "enter")
            own = app.view.state.page.frame["at_ns"]
            assert own[0] > 0
            await press(pilot, "escape", "U", *to_arrivals)
            assert "Arrivals" in lines(app)[2]
            arrivals = app.view.state.page.frame.select("instance", "at_ns", first="begin")
            mine = app.view._job().calls.filter(pl.col("rank") == rank).join(arrivals, on="instance")
            at = mine.select(pl.col("at_ns") + pl.col("begin") - pl.col("first")).to_series()
            assert set(own) <= set(at)  # the moments of its calls are the same in both tables
            await press(pilot, "R")


async def test_x_says_what_it_needs_where_there_is_no_second_run_and_no_median():
    async with opened(JOB, size=(80, 24)) as (app, pilot):
        await press(pilot, "2", "x")
        assert "x swaps two runs: o opens a second one; in Ranks (U) it compares ranks" in lines(app)[-1]
        for keys in (("U", "v"), ("enter",)):
            await press(pilot, *keys, "x")
            assert "x compares a rank of the table Ranks with the median: v leads there" in lines(app)[-1]
    async with opened(JOB / "rank0.pt.trace.json.gz", size=(80, 24)) as (app, pilot):
        await press(pilot, "x")
        assert "There is no second run: o opens one, or start with `tracetui open A B`" in lines(app)[-1]
        await press(pilot, "U", "x")
        assert "This run has one rank, and so no median to compare it with" in lines(app)[-1]


async def test_one_rank_has_no_tab_but_says_why():
    async with opened(JOB / "rank0.pt.trace.json.gz", size=(80, 24)) as (app, pilot):
        assert "J Ra" not in lines(app)[1]
        await press(pilot, "U")
        assert "This run has one rank." in screen_text(app)


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        ([[10.0, 12.5, 20.0]], ["▁▃█"]),
        ([[10.0, np.nan, 20.0]], ["▁ █"]),
        ([[10.0, 10.1]], ["▁▁"]),
        ([[10.0, 11.0], [10.0, 20.0]], ["▁▂", "▁█"]),
        ([[]], [""]),
    ],
)
def test_a_value_is_higher_the_larger_it_is_on_one_scale(values, drawn):
    assert signs(np.array(values), ascii=False) == drawn
    assert [len(line) for line in signs(np.array(values), ascii=True)] == [len(line) for line in drawn]


def test_of_many_values_the_largest_of_neighbours_is_drawn():
    cells = pl.DataFrame({"row": 7, "at": range(1000), "ns": [0] * 700 + [9] + [0] * 299})
    drawn = heat_map(cells, "row", "at", "ns", 10, ascii=True)
    assert drawn == {7: ".......%.."}


def test_a_stretch_is_seen_however_short():
    assert span(0, 5, 10, 10, 10, ascii=True) == "-----#####"
    assert span(9.99, 9.99, 10, 10, 10, ascii=True) == "         #"
    assert span(0, 10, 10, 10, 4, ascii=False) == "░░░█"
    assert span(0, 0, 0, 0, 4, ascii=False) == ""


MADE = Made(ranks=40, steps=4, per_step=6, late={33: 3_000_000}, silent={33: 8_000_000})


def test_of_many_ranks_the_late_one_is_the_first_and_its_picture_stands_out():
    summaries = MADE.summaries()
    job = combine(summaries)
    table = judged(rank_rows(summaries, Scope()), (job,))
    page = ranks_page(job, table, first_drawn(job), in_title(job), ascii=True)
    assert page.note == "late: rank 33, +8.000 ms silent host/step"
    assert page.frame.select("rank", "state", "drawn").rows()[:2] == [(33, "late", "%%%%"), (0, "", "....")]
    assert drawable(job) == ("wait_ns", "silent_ns", "late_ns")
    arrivals = arrivals_page(job, 0, ascii=True).frame
    assert arrivals.height == 24
    assert set(arrivals["last_rank"]) == {33}
    # ten nodes of four have two columns each: rank 33 is in the first of the ninth
    assert {(text.index("%"), len(text)) for text in arrivals["drawn"]} == {(16, 20)}
    # of 40 ranks in 24 columns it is among the neighbours of column 33 * 24 // 40
    unknown = replace(job, ranks=job.ranks.with_columns(host=pl.lit(None, pl.String)))
    assert {text.index("%") for text in arrivals_page(unknown, 0, ascii=True).frame["drawn"]} == {19}
    one = arrivals_of_one(job, arrivals.row(0, named=True), ascii=True).frame
    assert one["rank"][0] == 33
    assert one["drawn"][0].strip(" ") == "#" * one["drawn"][0].count("#")


@pytest.mark.parametrize("picture", ["▁▅█ ▁", ".+% ."])
def test_what_is_high_in_a_picture_is_coloured(picture):
    middle = [(picture[1], "changed"), (picture[2], "added")]
    assert heated(picture) == [(picture[0], ""), *middle, (picture[3:], "")]


def test_a_rank_beside_the_median_has_numbers_of_its_step_and_work_by_name():
    def works(*rows):
        kinds = ("step", "kind", "name", "ns", "count", "blocks")
        return pl.DataFrame([(0, *row, None) for row in rows], schema=summary.WORK, orient="row").select(kinds)

    usual = works(("kernel", "gemm", 400, 4), ("kernel", "relu", 100, 4), ("kernel", "", 60, 9))
    own = works(("kernel", "gemm", 800, 4), ("kernel", "extra", 300, 1), ("kernel", "", 60, 9), ("copy", "DtoD", 50, 2))
    made = Made(ranks=3, steps=1, per_step=4, silent={2: 7_000_000}).summaries()
    summaries = [with_frames(one, work=own if one.rank == 2 else usual) for one in made]
    found = beside_median(combine(summaries), summaries, 2)
    numbers = {row[1]: row[2:5] for row in found.filter(pl.col("kind") == "step").iter_rows()}
    assert numbers["silent host time"] == (7e6, 0.0, 7e6)
    named = {row[1]: row[2:5] + row[7:] for row in found.filter(pl.col("kind") != "step").iter_rows()}
    assert named["gemm"] == (800.0, 400.0, 400.0, 2.0)
    assert named["DtoD"] == (50.0, 0.0, 50.0, None)
    # the others do not list `extra`: there it takes no more than what they list last
    assert named["extra"] == (300.0, None, 200.0, None)
    assert named["relu"] == (None, 100.0, None, None)
    assert named[REST] == (60.0, 60.0, 0.0, None)


async def test_summaries_without_recordings_have_a_screen(tmp_path):
    summaries = Made(ranks=4, steps=3, per_step=4, silent={2: 8_000_000}).summaries()
    Store(tmp_path / "out").gather([Stored(one, "mark", one.path) for one in summaries])
    async with opened(tmp_path / "out", size=(80, 24)) as (app, pilot):
        assert app.tab == "ranks"
        assert "summaries of 4 ranks" in lines(app)[0]
        assert [line.split()[:2] for line in table(app)[1:5]] == [[">", "0"], ["1", "▁▁▁"], ["2", "!"], ["3", "▁▁▁"]]
        await press(pilot, "enter")
        assert app.tab == "ranks"
        assert "only a summary is here" in screen_text(app)
        await press(pilot, "2")
        assert "Only summaries of this job's ranks are here" in screen_text(app)
        await press(pilot, "1")
        assert "In the program rank 2 has 8.000 ms more silent host time" in " ".join(screen_text(app).split())


RANK = recorded("chrome/ddp_vit_small_2ranks/rank1.pt.trace.json.gz")


async def test_from_a_size_to_its_calls_and_the_timeline():
    async with opened(RANK, size=(120, 24)) as (app, pilot):
        assert "I Coll" in lines(app)[1]
        await press(pilot, "I")
        assert app.tab == "collectives"
        assert "BusBW is a lower bound · Link% of NVLink 4, 450 GB/s" in lines(app)[2]
        assert lines(app)[4].split()[:6] == [">all_reduce", "0", "2", "27.08", "MiB", "3"]
        await press(pilot, "enter")
        assert "all_reduce  steps 1-3 · group 0 of 2 ranks" in lines(app)[2]
        assert lines(app)[2].endswith("1/3")
        await press(pilot, "t")
        assert app.tab == "timeline"
        assert "ncclDevKernel_AllReduce" in screen_text(app)
        await press(pilot, "I", "escape", "v")
        assert "No sends or receives in this recording" in screen_text(app)
