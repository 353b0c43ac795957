"""API calls that launch kernels or graphs, and which of them have no recorded GPU work."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from tracetui.analysis.attribution.calltree import NONE, parents_of, row_ids
from tracetui.analysis.base import names
from tracetui.analysis.base.names import of_kinds
from tracetui.analysis.base.number_format import format_percent
from tracetui.analysis.base.remembered import latest
from tracetui.analysis.gpu.activities import WORK
from tracetui.parsers import Trace
from tracetui.parsers.tool_registry import BY_KIND
from tracetui.parsers.trace import Replays

_LAUNCH = re.compile(r"^(?:cuda|cu|hip|hsa)\w*Launch")
_OF_THE_HOST = "HostFunc"
"""``cudaLaunchHostFunc`` queues a function of the CPU."""
STREAM = ("process", "device", "stream")
"""What tells one stream of a recording from another."""
_COLUMNS = ("name", "process", "thread", "start", "duration", "parent", "correlation")


@latest
def launch_calls(trace: Trace) -> pl.DataFrame:
    """The API calls that launch a kernel or a graph: host ``row``, name and other columns of `_COLUMNS`."""
    host = trace.host
    chosen = names.matching(host["name"], lambda name: _LAUNCH.match(name) is not None and _OF_THE_HOST not in name)
    chosen &= of_kinds(host["kind"], "runtime", "driver")
    rows = np.flatnonzero(chosen)
    return host.select(_COLUMNS)[rows].with_columns(row=pl.Series(rows, dtype=pl.UInt32)).select("row", *_COLUMNS)


def lost_launches(trace: Trace) -> pl.DataFrame:
    """Returns the `launch_calls` that have no recorded activity.

    Three kinds of calls are left out. Where one launching call made another, both are left out if either has an
    activity. A call inside a stream capture only adds a node to a graph. A call that is in the file twice has its
    activity once.
    """
    calls = launch_calls(trace)
    if not calls.height:
        return calls
    host_parent = parents_of(trace.host)
    row, parent = row_ids(calls["row"]), row_ids(calls["parent"])
    # one more entry, for no row at all
    known, around, launching = (np.zeros(host_parent.size + 1, np.bool_) for _ in range(3))
    known[row_ids(trace.device["launch"])] = True
    known[NONE] = False
    around[host_parent[known[:-1]]] = True
    launching[row] = True
    around[NONE] = launching[NONE] = False
    lost = calls.filter(pl.Series(~(known[row] | around[row] | launching[parent])))
    if not lost.height:
        return lost
    # nsys says which process an activity is of; elsewhere processes with equal numbers can't be told apart
    same = ["process", "correlation"] if BY_KIND[trace.info.kind].many_processes else ["correlation"]
    done = calls.filter(pl.Series(known[row])).select(same).drop_nulls().unique()
    lost = lost.join(done, on=same, how="anti", maintain_order="left")
    for start, end in _captures(trace) if lost.height else ():
        lost = lost.filter(~pl.col("start").is_between(start, end))
    return lost


LEAST_REPLAYS = 10
"""So many replays show whether a graph's are alike."""


def lost_of_graphs(trace: Trace) -> tuple[int, int]:
    """How many kernels replays of CUDA graphs lack, and how many they would have if each had all of its graph's.

    The upper half of a node's number is that of its graph. Where nodes have no numbers, replays are held to be of one
    graph if hardly two of them are alike: replays of one or several graphs repeat, unless kernels are lost at random.
    """
    nodes = trace.device.filter((pl.col("kind") == "kernel") & pl.col("launch").is_not_null())
    numbered = nodes.drop_nulls("graph_node")
    if numbered.height:
        found = numbered.select("launch", "graph_node", graph=pl.col("graph_node") // (1 << 32)).unique()
        graphs = found.group_by("graph").agg(
            found=pl.len(), all=pl.col("graph_node").n_unique() * pl.col("launch").n_unique()
        )
        return int((graphs["all"] - graphs["found"]).sum()), int(graphs["all"].sum())
    calls = launch_calls(trace)
    replays = calls["row"].filter(pl.Series(names.matching(calls["name"], lambda name: "GraphLaunch" in name)))
    nodes = nodes.filter(pl.col("launch").is_in(replays.implode())).sort("launch", "name", "grid")
    counts = nodes.group_by("launch", "name", "grid", "block", maintain_order=True).agg(n=pl.len())
    alike = counts.group_by("launch").agg(key=pl.struct("name", "grid", "block", "n").hash())
    if alike.height < LEAST_REPLAYS or 4 * alike["key"].n_unique() <= alike.height:
        return 0, 0
    whole = int(counts.group_by("name", "grid", "block").agg(pl.col("n").max())["n"].sum()) * alike.height
    return whole - nodes.height, whole


@latest
def of_nobody(trace: Trace) -> pl.DataFrame:
    """The GPU work that nothing in a file launched, and that was not queued before the recording began either.

    Queued work runs on a stream before the first activity that the file launched there. Streams of which the file
    launched nothing count from where the other streams' queues are empty.

    Returns:
        Rows of ``trace.device`` with ``row`` and ``stranger``, whether the file launched nothing on their stream; none
        where the file launched nothing at all.
    """
    device = trace.device.select("kind", "name", "start", "duration", "launch", *STREAM).with_row_index("row")
    device = device.filter(pl.col("kind").is_in(WORK)).drop_nulls("start")
    launched = pl.col("launch").is_not_null()
    device = device.with_columns(first=pl.col("start").filter(launched).min().over(STREAM))
    queued = device.filter(pl.col("start") < pl.col("first"))
    emptied = (queued["start"] + queued["duration"].fill_null(0)).max()
    since = pl.lit(device["first"].min() if emptied is None else emptied, pl.Int64)
    found = device.filter(~launched & (pl.col("start") >= pl.col("first").fill_null(since)))
    return found.with_columns(stranger=pl.col("first").is_null())


def replayed_words(found: Replays) -> str:
    """What captures told of replayed kernels, as a sentence."""
    kernels = "kernel" if found.kernels == 1 else "kernels"
    share = 100 * found.named_ns / found.ns if found.ns else 0.0
    if not found.pieces:
        return (
            f"none of {found.kernels:,} replayed {kernels} has an operator or a line: the capture was not recorded"
            " (begin before it, at the eager warm-up; tracetui profile does)"
        )
    how, what = ("their nodes", "range") if found.by == "node" else ("order of names", "operator")
    text = f"{found.matched:,} of {found.kernels:,} replayed {kernels} found in the capture by {how}"
    text += f"; {format_percent(share)} of replayed GPU time has its {what}"
    if found.by_order:
        share = 100 * found.by_order_ns / found.ns if found.ns else 0.0
        text += f", {format_percent(share)} by place alone, since the capture names no kernel there"
    if found.by == "node" and not found.named_ns:
        text += ": none was recorded around the capture (record from before it, with NVTX)"
    if found.ambiguous:
        text += f"; {found.ambiguous:,} ambiguous, since captured graphs that differ in operator or module fit"
    if found.incomplete:
        text += f"; {found.incomplete:,} of {found.launches:,} replays lack kernels of their graph"
    if not found.matched:
        text += ": no captured graph has the kernels of a replay"
    return f"{text} ({', '.join(found.files)})"


def _captures(trace: Trace) -> list[tuple[int, int]]:
    calls = trace.host.filter(pl.col("kind").is_in(["runtime", "driver"])).select(
        name=pl.col("name").cast(pl.String), start="start", end=pl.col("start") + pl.col("duration")
    )
    begun = calls.filter(pl.col("name").str.contains("BeginCapture"))["start"].sort().to_list()
    ended = calls.filter(pl.col("name").str.contains("EndCapture"))["end"].sort().to_list()
    return [(start, next((end for end in ended if end > start), start)) for start in begun]
