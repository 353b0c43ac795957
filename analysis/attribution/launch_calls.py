"""API calls that launch kernels or graphs, and which of them have no recorded GPU work."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.base import names
from tracetui.analysis.base.remembered import latest

if TYPE_CHECKING:
    from tracetui.parsers import Trace

_LAUNCH = re.compile(r"^(?:cuda|cu|hip|hsa)\w*Launch")
_OF_THE_HOST = "HostFunc"
"""``cudaLaunchHostFunc`` queues a function of the CPU."""
_COLUMNS = ("name", "process", "thread", "start", "duration", "parent")


@latest
def launch_calls(trace: Trace) -> pl.DataFrame:
    """The API calls that launch a kernel or a graph: host ``row``, name, process, thread, start, duration, parent."""
    host = trace.host
    chosen = names.matching(host["name"], lambda name: _LAUNCH.match(name) is not None and _OF_THE_HOST not in name)
    chosen &= host["kind"].is_in(["runtime", "driver"]).to_numpy()
    calls = host.select(_COLUMNS).with_row_index("row").filter(pl.Series(chosen))
    return calls.with_columns(pl.col("name").cast(pl.String))


def lost_launches(trace: Trace) -> pl.DataFrame:
    """Returns the `launch_calls` that have no recorded activity.

    Two kinds of calls are left out. Where one launching call made another, both are left out if either has an activity.
    A call inside a stream capture only adds a node to a graph.
    """
    calls = launch_calls(trace)
    if not calls.height:
        return calls
    known = trace.device["launch"].drop_nulls().unique()
    parents = trace.host["parent"].gather(known).drop_nulls()
    lost = calls.filter(
        ~pl.col("row").is_in(known.implode())
        & ~pl.col("row").is_in(parents.implode())
        & ~pl.col("parent").is_in(calls.filter(pl.col("row").is_in(known.implode()))["row"].implode()).fill_null(False)
        & ~pl.col("parent").is_in(calls["row"].implode()).fill_null(False)
    )
    for start, end in _captures(trace) if lost.height else ():
        lost = lost.filter(~pl.col("start").is_between(start, end))
    return lost


def _captures(trace: Trace) -> list[tuple[int, int]]:
    """When stream captures were under way."""
    calls = trace.host.filter(pl.col("kind").is_in(["runtime", "driver"])).select(
        name=pl.col("name").cast(pl.String), start="start", end=pl.col("start") + pl.col("duration")
    )
    begun = calls.filter(pl.col("name").str.contains("BeginCapture"))["start"].sort().to_list()
    ended = calls.filter(pl.col("name").str.contains("EndCapture"))["end"].sort().to_list()
    return [(start, next((end for end in ended if end > start), start)) for start in begun]
