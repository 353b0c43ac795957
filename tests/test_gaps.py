"""The longest gaps of a GPU, what ran in a stretch by lane, and sampled metrics as curves of the timeline."""

import gzip
import re
import sqlite3
from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from as_json import report
from laid_out import run_parts
from sample_runs import FP32, VIM, recorded, run_of

from tests.tui_pilot import opened, press, screen_text
from tracetui.analysis.attribution.place import is_own
from tracetui.analysis.base.number_format import format_ns
from tracetui.analysis.dependencies.model import model
from tracetui.analysis.gpu.idle import gaps
from tracetui.analysis.nsys.gpu_samples import sampled
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import select
from tracetui.analysis.timeline.facts import events_within, host_during, lanes_within
from tracetui.analysis.timeline.gaps import CAUSES, GAPS, MOST, UNRECORDED, gaps_by_cause, longest_gaps
from tracetui.analysis.timeline.timeline import timeline
from tracetui.app.charts.lanes import row_runs
from tracetui.app.reports.layout import Layout
from tracetui.app.reports.text import text
from tracetui.app.views.timeline import known_first, with_curves
from tracetui.parsers import Trace

SAMPLE, NSYS, SAMPLED = (
    "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz",
    "nsys/gpt_small_ctx256.sqlite.gz",
    ("nsys/gpu_metrics.sqlite.gz"),
)


def trace_of(name: str) -> Trace:
    return run_of(name).main


@pytest.mark.parametrize("name", [SAMPLE, NSYS, "chrome/ddp_vit_small_2ranks"])
def test_gaps_are_the_longest_and_say_what_the_timeline_says(name: str) -> None:
    sel = select(trace_of(name))
    found = longest_gaps(sel, model(sel))
    every = gaps(sel).filter(pl.col("stream").is_null())
    assert found.schema == pl.Schema(GAPS)
    assert found["duration_ns"].to_list() == every["duration_ns"].sort(descending=True).head(MOST).to_list()
    assert found["percent"].sum() == pytest.approx(
        100 * sum(found["duration_ns"]) / every["duration_ns"].sum() if every["device"].n_unique() == 1 else
        found["percent"].sum()
    )  # fmt: skip
    built = timeline(sel.trace)
    assert built is not None
    steps = sel.trace.steps
    for row in found.head(12).iter_rows(named=True):
        start, end = row["start"], row["start"] + row["duration_ns"]
        during = host_during(built, row["device"], start, end)
        alone = gaps_by_cause(select(sel.trace, Scope(window=(start, end)))).filter(
            pl.col("depth").eq(1) & pl.col("device").eq_missing(row["device"])
        )
        assert (row["host"], round(row["host_percent"] * (end - start) / 100)) in set(
            alone.filter(pl.col("duration_ns") == alone["duration_ns"].max()).select("host", "duration_ns").iter_rows()
        )
        assert row["launched_after_ns"] == during.launched_after or row["next"] is None
        assert row["next"] in (during.next_name, None)
        place = built.gap_at(row["device"], start, end)
        assert place is not None
        assert built.span(place) == (start, end)
        inside = steps.filter((pl.col("start") <= start) & (pl.col("start") + pl.col("duration") > start))["index"]
        assert row["step"] == (inside[-1] if inside.len() else None)


def test_of_one_gpu_the_path_runs_through_the_host_while_it_is_idle() -> None:
    sel = select(trace_of(SAMPLE))
    found = longest_gaps(sel, model(sel))
    explained = found.filter(pl.col("path").is_not_null())
    assert explained.height > MOST // 2
    assert not set(explained["path"]) & {"kernel", "memcpy", "memset", "communication"}
    # of three steps the first has no path
    assert found.filter(pl.col("path").is_null())["step"].unique().to_list() == [1]


def test_gaps_keep_to_the_scope_and_need_no_steps_launches_or_host() -> None:
    trace = trace_of(SAMPLE)
    assert set(longest_gaps(select(trace, Scope(steps=(2, 2))))["step"]) == {2}
    begin = trace.steps["start"][1]
    window = (begin, begin + trace.steps["duration"][1] // 3)
    part = longest_gaps(select(trace, Scope(window=window)))
    assert part["start"].min() >= window[0]  # type: ignore[operator]
    assert (part["start"] + part["duration_ns"]).max() <= window[1]  # type: ignore[operator]
    ends = part.filter(pl.col("start") + pl.col("duration_ns") == window[1])
    assert ends["next"].to_list() == [None] * ends.height
    assert not longest_gaps(select(trace_of("chrome/gloo_2ranks"))).height


def test_the_section_is_made_on_request_and_reads_well() -> None:
    run = run_of(SAMPLE)
    found = report(run, sections=["gaps"], limit=5)
    rows = found["run"]["traces"][0]["gaps"]
    assert [len(rows), found["run"]["traces"][0]["counts"]["gaps"]] == [5, MOST]
    assert rows[0]["duration_us"] == pytest.approx(longest_gaps(select(run.main))["duration_ns"][0] / 1000)
    said = text(run_parts(found, Layout()), Layout())
    assert "Longest gaps" in said
    assert "aten::copy_" in said


@pytest.mark.parametrize("name", [SAMPLE, NSYS])
def test_an_area_has_what_the_frames_have_in_it(name: str) -> None:
    trace = trace_of(name)
    built = timeline(trace)
    assert built is not None
    step = trace.steps.row(1, named=True)
    start, end = step["start"] + step["duration"] // 3, step["start"] + step["duration"] // 2
    lanes = lanes_within(built, start, end)
    assert lanes["number"].to_list() == [n for n in built.order() if n in set(lanes["number"])]
    assert (lanes["percent"] <= 100).all()
    for number, calls in lanes.select("number", "calls").iter_rows():
        lane = built.lanes[number]
        events = events_within(built, number, start, end)
        assert events["calls"].sum() == calls
        if lane.kind != "stream":
            continue
        own = trace.device.filter(
            pl.col("kind").is_in(["kernel", "memcpy", "memset", "graph"]),
            pl.col("device").eq_missing(lane.device) & pl.col("stream").eq_missing(lane.stream),
            (pl.col("start") < end) & (pl.col("start") + pl.col("duration") > start),
        )
        inside = pl.min_horizontal(pl.col("start") + pl.col("duration"), end) - pl.max_horizontal("start", start)
        truth = own.group_by(pl.col("name").cast(pl.String)).agg(pl.len(), inside.sum().alias("ns"))
        assert dict(events.select("name", "total_ns").iter_rows()) == dict(truth.select("name", "ns").iter_rows())
        assert events["longest_ns"].max() == own.select(inside.max()).item()
        assert trace.device["name"].cast(pl.String)[events["row"][0]] == events["name"][0]


@pytest.mark.skipif(not hasattr(sqlite3.Connection, "deserialize"), reason="Python before 3.11 opens no bytes")
def test_sampled_metrics_are_curves_of_their_gpu() -> None:
    trace = trace_of(SAMPLED)
    plain = timeline(trace)
    assert plain is not None
    found = with_curves(plain, known_first(sampled(select(trace))))
    (number,) = [n for n, lane in enumerate(found.lanes) if lane.kind == "samples"]
    lane = found.lanes[number]
    assert lane.curves[0].name.startswith("SMs Active")
    connection = sqlite3.connect(":memory:")
    connection.deserialize(gzip.decompress(recorded(SAMPLED).read_bytes()))
    metric = "SELECT metricId FROM TARGET_INFO_GPU_METRICS WHERE metricName LIKE 'SMs Active%'"
    rows = connection.execute(f"SELECT timestamp, value FROM GPU_METRICS WHERE metricId = ({metric}) ORDER BY 1")
    time, value = (np.array(column) for column in zip(*rows, strict=True))
    assert lane.curves[0].time.tolist() == time.tolist()
    # any stretch has the mean of its samples, weighted by how much of it each is about
    edges = np.linspace(time[0] - 1000, time[-1] + 1000, 8).astype(np.int64)
    for low, high, mean in zip(edges, edges[1:], lane.curves[0].means(edges), strict=False):
        weight = np.maximum(np.minimum(time[1:], high) - np.maximum(time[:-1], low), 0)
        assert mean == pytest.approx((weight * value[1:]).sum() / weight.sum())
    assert np.isnan(lane.curves[0].means(np.array([0, 1, 2]))).all()
    # it stands below the lanes of its GPU, and draws as high as the mean
    order = [found.lanes[n].kind for n in found.order()]
    assert order.index("samples") == max(order.index("stream"), order.index("syncs")) + 1
    row = "".join(run.text for run in row_runs(found, number, 0, edges, -1, ascii=False))
    high = np.ceil(lane.curves[0].means(edges) * 8 / 100)
    assert row == "".join("·▁▂▃▄▅▆▇█"[int(part)] for part in high)


def test_unrecorded_time_is_said_so() -> None:
    found = longest_gaps(select(trace_of(NSYS)))
    assert UNRECORDED in found["host"].to_list()


@pytest.mark.parametrize("name", [SAMPLE, NSYS, "chrome/ddp_vit_small_2ranks", "chrome/gpt_small_ctx256.trace.json.gz"])
def test_gaps_by_cause_add_up_to_all_idle_time(name: str) -> None:
    sel = select(trace_of(name))
    every = gaps(sel).filter(pl.col("stream").is_null())
    found = gaps_by_cause(sel)
    assert found.schema == pl.Schema(CAUSES)
    by_cause = dict(every.group_by("cause").agg(pl.col("duration_ns").sum()).iter_rows())
    causes, places = found.filter(pl.col("depth") == 0), found.filter(pl.col("depth") == 1)
    assert dict(causes.select("cause", "duration_ns").iter_rows()) == by_cause
    assert dict(causes.select("cause", "gaps").iter_rows()) == dict(every.group_by("cause").len().iter_rows())
    assert dict(places.group_by("cause").agg(pl.col("duration_ns").sum()).iter_rows()) == by_cause
    assert causes["percent"].sum() == pytest.approx(100)
    assert causes["duration_ns"].is_sorted(descending=True)
    spans = set(every.select("device", "start", "duration_ns").iter_rows())
    assert set(found.select("device", "start", "longest_ns").iter_rows()) <= spans
    assert not found.select("cause", "host").is_duplicated().any()


def test_without_calls_gaps_still_have_a_cause() -> None:
    trace = trace_of(SAMPLE)
    unknown = {name: pl.lit(None, trace.device.schema[name]) for name in ("launch", "operator")}
    sel = select(replace(trace, host=trace.host.clear(), device=trace.device.with_columns(**unknown)))
    idle = gaps(sel).filter(pl.col("stream").is_null())["duration_ns"].sum()
    found = gaps_by_cause(sel).filter(pl.col("depth") == 1)
    assert (set(found["host"]), found["duration_ns"].sum()) == ({UNRECORDED}, idle)


def without_line(frame: str) -> str:
    """The line is the function's first, or one that was sampled."""
    return re.sub(r"\(\d+\)", "", frame)


def test_of_gaps_by_cause_the_host_is_in_the_program_s_own_function() -> None:
    """Counted anew without trees: which own function of the thread runs between any two moments."""
    trace = run_of(VIM).main
    begin = trace.steps["start"][1]
    sel = select(trace, Scope(window=(begin, begin + trace.steps["duration"][1] // 4)))
    host = trace.host.with_columns(name=pl.col("name").cast(pl.String), end=pl.col("start") + pl.col("duration"))
    own = pl.col("name").is_in([name for name in host["name"].unique() if is_own(name)])
    functions = host.filter(pl.col("kind").eq("python") & own)
    launched = dict(trace.device.drop_nulls("launch").select("start", "launch").iter_rows())
    expected: dict[tuple[str, str], int] = {}
    every = gaps(sel).filter(pl.col("stream").is_null())
    for start, lasting, cause in every.select("start", "duration_ns", "cause").iter_rows():
        end = start + lasting
        thread = host["thread"][launched.get(end, 0)]
        during = functions.filter(pl.col("thread").eq(thread), pl.col("start") < end, pl.col("end") > start)
        moments = sorted({start, end, *(t for t in [*during["start"], *during["end"]] if start < t < end)})
        for one, next_one in pairwise(moments):
            running = during.filter(pl.col("start") <= one, pl.col("end") >= next_one).sort("start", "duration")
            if running.height:
                innermost = without_line(running.sort("start", "duration", descending=[True, False])["name"][0])
                expected[cause, innermost] = expected.get((cause, innermost), 0) + next_one - one
    assert every.height > 100
    assert len(expected) > 10
    found = gaps_by_cause(sel).filter(pl.col("host").map_elements(is_own, pl.Boolean))
    found = found.group_by("cause", pl.col("host").map_elements(without_line, pl.String)).agg(
        pl.col("duration_ns").sum()
    )
    assert {(cause, name): ns for cause, name, ns in found.iter_rows()} == expected


async def test_gaps_are_grouped_by_cause_on_the_screen() -> None:
    async with opened(FP32, size=(100, 30)) as (app, pilot):
        app.shell.show_tab("host")
        await press(pilot, "b")
        assert "Only the gaps and API calls can be grouped" in screen_text(app)
        await press(pilot, "V", "V")
        text = screen_text(app)
        assert "Gaps by cause" in text
        assert re.search(r"▾ host wait +\S+ ms +9\d\.\d", text)
        assert "vimlike.py(7): forward" in text
        longest = app.view.table.current["longest_ns"]  # type: ignore[attr-defined]
        await press(pilot, "enter")
        assert app.shell.tab == "timeline"
        assert format_ns(longest) in screen_text(app)
        await press(pilot, "escape", "b")
        assert "Longest gaps" in screen_text(app)


async def test_a_row_of_several_small_places_has_their_time_and_opens() -> None:
    async with opened(VIM, size=(100, 30), tab="host") as (app, pilot):
        await press(pilot, "H")
        table = app.view.table  # type: ignore[attr-defined]
        for _ in range(table.height_of_view):
            if not table.on_group:
                await press(pilot, "down")
        assert table.current["duration_ns"] > 0
        assert re.fullmatch(r"… \d+ more below 0.5 %", table.current["host"])
        await press(pilot, "t")
        assert "This row is of several places" in screen_text(app)
        shown = table.height_of_view
        await press(pilot, "enter")
        assert (app.shell.tab, table.height_of_view > shown) == ("host", True)
