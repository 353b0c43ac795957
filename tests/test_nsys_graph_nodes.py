"""Kernels of CUDA graphs in exports of Nsight Systems are in the range in which their nodes were captured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from nsys_file import PID, NsysFile, global_pid, global_tid
from sample_runs import run_of

from tracetui.parsers import Trace, open_path

if TYPE_CHECKING:
    from pathlib import Path

GRAPH = 1 << 32
NODES = "CUDA_GRAPH_NODE_EVENTS"


def capture(file: NsysFile, names: list[str], *, graph: int, at: int, pid: int = PID) -> None:
    """Ranges of 100 ns, in the middle of each of which a node is captured; `graph` is the number of the graph."""
    for number, name in enumerate(names):
        begin = at + 100 * number
        file.push_pop(name, begin, begin + 100, pid=pid)
        node(file, graph * GRAPH + number, begin + 50, pid=pid)


def node(file: NsysFile, number: int, at: int, *, of: int | None = None, pid: int = PID) -> None:
    tid = global_tid(pid, pid)
    values = {"start": at, "end": at, "eventClass": 77, "globalTid": tid, "nameId": file.string("node")}
    file.row(NODES, **values, graphNodeId=number, originalGraphNodeId=of)


def copied(file: NsysFile, nodes: int, *, graph: int, of: int, at: int, pid: int = PID) -> None:
    """Copies a graph's nodes, as instantiating it does: each copy has a row that says of what, and one that doesn't."""
    for number in range(nodes):
        node(file, graph * GRAPH + number, at, pid=pid)
        node(file, graph * GRAPH + number, at, of=of * GRAPH + number, pid=pid)


def replay(file: NsysFile, nodes: int, *, graph: int, at: int, pid: int = PID) -> None:
    with file.range("replay", at, at + 60, pid=pid):
        number = file.call("cudaGraphLaunch_v10000", at + 1, at + 50, pid=pid)
    for place in range(nodes):
        begin = at + 10 + 100 * place
        file.kernel("gemm", begin, begin + 90, correlation=number, graphNodeId=graph * GRAPH + place, pid=pid)


def ranges(trace: Trace) -> list[str | None]:
    rows = trace.device.filter(pl.col("kind") == "kernel")["range"]
    return trace.host["name"].cast(pl.String).gather(rows).to_list()


def opened(file: NsysFile, folder: Path) -> Trace:
    return open_path(file.write(folder / "report.sqlite"), cache=False).main


def test_copies_are_in_the_ranges_of_their_originals(tmp_path):
    file = NsysFile()
    capture(file, ["embed", "attention", "mlp"], graph=1, at=0)
    copied(file, 3, graph=2, of=1, at=400)
    copied(file, 3, graph=3, of=2, at=500)
    for at, graph in ((1000, 2), (2000, 2), (3000, 3)):
        replay(file, 3, graph=graph, at=at)
    trace = opened(file, tmp_path)
    assert ranges(trace) == ["embed", "attention", "mlp"] * 3
    assert trace.replays is not None
    assert (trace.replays.kernels, trace.replays.matched, trace.replays.launches) == (9, 9, 3)
    assert trace.replays.named_ns == trace.replays.ns == 9 * 90


def test_numbers_are_those_of_a_process(tmp_path):
    file = NsysFile()
    other = PID + 1
    for pid, name in ((PID, "ours"), (other, "theirs")):
        capture(file, [name], graph=1, at=0, pid=pid)
        replay(file, 1, graph=1, at=1000 + pid, pid=pid)
    assert global_pid(PID) != global_pid(other)
    assert sorted(name or "" for name in ranges(opened(file, tmp_path))) == ["ours", "theirs"]


def test_a_capture_without_ranges_leaves_those_of_the_replay(tmp_path):
    file = NsysFile()
    for number in range(2):
        node(file, GRAPH + number, 10)
    replay(file, 2, graph=1, at=1000)
    trace = opened(file, tmp_path)
    assert ranges(trace) == ["replay", "replay"]
    assert trace.replays is not None
    assert (trace.replays.matched, trace.replays.named_ns) == (2, 0)


def test_the_recording_finds_each_node(tmp_path):
    found = run_of("nsys/graph_node.sqlite.gz").main.replays
    assert found is not None
    assert (found.kernels, found.matched, found.named_ns, found.launches) == (200, 200, 0, 10)
