"""The tab Collectives: it is in the bar where the run has any, and leads to the calls and to the timeline."""

from __future__ import annotations

from sample_runs import recorded
from tui_pilot import opened, press, screen_text

RANK = recorded("chrome/ddp_vit_small_2ranks/rank1.pt.trace.json.gz")


def lines(app):
    return screen_text(app).splitlines()


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
