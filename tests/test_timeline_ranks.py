"""The lanes of several ranks on one clock: jobs whose clocks are known to differ."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from simulated_job import Job as Simulated
from simulated_job import three_d

from tracetui.analysis.ranks.job import jobs
from tracetui.analysis.ranks.one_rank import ranks_timeline
from tracetui.analysis.ranks.summarise import summarise
from tracetui.analysis.timeline.facts import arrows, facts
from tracetui.analysis.timeline.ranks_timeline import RanksTimeline
from tracetui.analysis.timeline.timeline import Place, search
from tracetui.app.charts.lanes import lane_title
from tracetui.app.views.timeline import MOST_RANKS, arrivals_line, chosen_ranks
from tracetui.parsers import Run, open_path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Four ranks on two hosts whose clocks are 5 s apart and drift; rank 2 has more GPU work."""
    folder = tmp_path_factory.mktemp("job")
    clocks = dict.fromkeys((2, 3), (5e6, 40.0))
    Simulated(4, 3, extra={2: 3000}, clocks=clocks).run(three_d).write(folder)
    return open_path(folder, cache=False)


@pytest.fixture(scope="module")
def built(run: Run) -> RanksTimeline:
    found = ranks_timeline(run, run.traces)
    assert found is not None
    return found


def test_collectives_end_at_one_moment_on_the_common_clock(run: Run, built: RanksTimeline) -> None:
    ends: dict[int, list[int]] = {}
    for number, lane in enumerate(built.lanes):
        if lane.kind == "collectives":
            for depth, position in ((depth, at) for depth, row in enumerate(lane.rows) for at in range(row.size)):
                place = Place(number, depth, position)
                arrived = built.arrivals(place)
                assert [one.rank for one in arrived] == [0, 1, 2, 3]
                own = next(one for one in arrived if one.rank == lane.rank)
                assert abs(own.begin - built.span(place)[0]) <= 1
                ends.setdefault(arrived[0].begin, []).append(built.span(place)[1])
    assert len(ends) == built.lanes[built.order()[4]].size > 0
    assert {len(found) for found in ends.values()} == {4}
    # the clocks were 5 s apart, and are fitted to a few collectives
    assert max(max(found) - min(found) for found in ends.values()) < 10_000
    assert built.residual_ns is not None
    assert 0 < built.residual_ns < 10_000
    raw = [int(trace.device["start"].min()) for trace in run.traces]  # type: ignore[arg-type]
    assert max(raw) - min(raw) > 4e9


def test_who_came_last_is_said_and_lanes_of_a_kind_stand_under_one_another(built: RanksTimeline) -> None:
    kinds = [built.lanes[number].kind for number in built.order()]
    assert kinds[:8] == ["steps"] * 4 + ["collectives"] * 4
    assert [built.lanes[number].rank for number in built.order()[4:8]] == [0, 1, 2, 3]
    last = built.lanes[built.order()[4]]
    lines = [arrivals_line(built.arrivals(Place(built.order()[4], 0, at))) for at in range(last.rows[0].size)]
    assert sum("r2 +3." in line and line.endswith("last") for line in lines) >= 3
    assert lane_title(built.lanes[built.order()[6]]) == "rank 2 collectives"
    assert lane_title(built.lanes[built.order()[6]], short=True) == "r2 coll."


def test_every_event_is_that_of_its_rank(run: Run, built: RanksTimeline) -> None:
    for number, lane in enumerate(built.lanes):
        row = lane.rows[-1]
        place = Place(number, len(lane.rows) - 1, row.size // 2)
        of, here = built.local(place)
        assert of.trace.info.rank == lane.rank
        assert built.name(place) == of.name(here)
        assert {fact.title: fact.value for fact in facts(of, here)}["Start"] == built.span(place)[0]
        if lane.kind == "stream":
            launch = built.launch_of(place)
            assert launch is not None
            assert built.lanes[launch.lane].rank == lane.rank
            assert built.work_of(launch) == place
            (arrow,) = arrows(built, place)
            assert (arrow.tail, arrow.head) == (launch, place)
    hits = search(built, "nccl", range(len(built.lanes)))
    assert {built.lanes[lane].rank for lane, _, _ in hits.rows} == {0, 1, 2, 3}


def test_a_job_known_already_gives_the_clock(run: Run) -> None:
    (job,) = jobs([summarise(trace) for trace in run.traces])
    found = ranks_timeline(run, run.traces[2:], job)
    assert found is not None
    assert found.ranks == (2, 3)
    # its own times are those of the job: of each call of these ranks there is an event that begins then
    rows = [row for lane in found.lanes if lane.kind == "collectives" for row in lane.rows]
    begins = {int(start) for row in rows for start in row.start}
    calls = job.calls.filter(pl.col("rank") >= 2)["begin"].to_list()
    assert all(begins & {begin - 1, begin, begin + 1} for begin in calls)
    nothing = [replace(trace, device=trace.device.clear(), host=trace.host.clear(), steps=trace.steps.clear(),
                       collectives=trace.collectives.clear()) for trace in run.traces]  # fmt: skip
    assert ranks_timeline(run, nothing, job) is None


@pytest.mark.parametrize(
    ("typed", "ranks"),
    [("0-2, 5", (0, 1, 2, 5)), ("3", (3,)), ("", ()), ("1 0", (0, 1)), ("0-7", tuple(range(8)))],
)
def test_ranks_that_people_type(typed: str, ranks: tuple[int, ...]) -> None:
    assert chosen_ranks(typed, range(16)) == ranks


@pytest.mark.parametrize("typed", ["x", "1-", "-1", "16", "3-20", "5-3", "0-15", "9" * 30, "1-" + "9" * 12])
def test_ranks_that_are_not_there_are_said_so(typed: str) -> None:
    assert isinstance(chosen_ranks(typed, range(16)), str)
    assert MOST_RANKS == 8


def test_a_folder_of_light_recordings_has_them_too(tmp_path: Path) -> None:
    Simulated(2, 3, light=True).run(three_d).write(tmp_path)
    run = open_path(tmp_path, cache=False)
    found = ranks_timeline(run, run.traces)
    assert found is not None
    assert found.ranks == (0, 1)
