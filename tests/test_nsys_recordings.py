"""Real exports of Nsight Systems against plain SQL: every event, number for number."""

from __future__ import annotations

import gzip
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from sample_runs import recorded

from tracetui.parsers.nsys.reader import read_nsys
from tracetui.parsers.trace import FRAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tracetui.parsers import Trace

FILES = (
    "nsys/vim_tiny_fp32_bs4.sqlite.gz",
    "nsys/gpt_small_ctx256.sqlite.gz",
    "nsys/graph_whole.sqlite.gz",
    "nsys/graph_node.sqlite.gz",
    "ops/ops.sqlite.gz",
)


@pytest.fixture(scope="module", params=FILES)
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Trace, Callable[[str], list[Any]]]]:
    """The trace, and a way to ask its file by SQL."""
    packed = recorded(request.param)
    plain = tmp_path_factory.mktemp("plain") / "plain.sqlite"
    plain.write_bytes(gzip.decompress(packed.read_bytes()))
    connection = sqlite3.connect(plain)
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}

    def ask(query: str) -> list[Any]:
        missing = [word for word in query.split() if word.isupper() and "_" in word and word not in tables]
        return [] if missing else connection.execute(query).fetchall()

    yield read_nsys(packed), ask
    connection.close()


Opened = tuple["Trace", "Callable[[str], list[Any]]"]


def test_every_kernel_copy_and_fill(opened: Opened) -> None:
    trace, ask = opened
    found = trace.device.filter(trace.device["kind"].is_in(["kernel", "memcpy", "memset", "graph", "synchronization"]))
    place = (
        "k.start, k.end - k.start, (k.globalPid >> 24) & 0xffffff, k.deviceId, k.streamId, k.contextId, k.correlationId"
    )
    kernels = ask(
        f"SELECT 'kernel', s.value, {place}, gridX, gridY, gridZ, blockX, blockY, blockZ, registersPerThread, "
        "staticSharedMemory + dynamicSharedMemory, NULL, graphNodeId "
        "FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.demangledName"
    )
    nothing = ", ".join(["NULL"] * 8)
    copies = ask(
        f"SELECT 'memcpy', '[CUDA memcpy ' || e.label || ']', {place}, {nothing}, bytes, graphNodeId "
        "FROM CUPTI_ACTIVITY_KIND_MEMCPY k JOIN ENUM_CUDA_MEMCPY_OPER e ON e.id = copyKind"
    )
    fills = ask(
        f"SELECT 'memset', '[CUDA memset]', {place}, {nothing}, bytes, graphNodeId FROM CUPTI_ACTIVITY_KIND_MEMSET k"
    )
    graphs = ask(
        f"SELECT 'graph', '[CUDA graph ' || graphId || ']', {place}, {nothing}, NULL, NULL "
        "FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE k"
    )
    waits = [
        (*row[:6], None if row[6] == 0xFFFFFFFF else row[6], *row[7:])
        for row in ask(
            "SELECT 'synchronization', coalesce((SELECT s.value FROM CUPTI_ACTIVITY_KIND_RUNTIME r "
            "JOIN StringIds s ON s.id = r.nameId WHERE r.correlationId = k.correlationId "
            f"AND r.globalTid >> 24 = k.globalPid >> 24), 'Synchronization'), {place}, {nothing}, NULL, NULL "
            "FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION k"
        )
    ]
    waits = [(row[0], row[1].removesuffix("_v3020"), *row[2:]) for row in waits]
    rows = []
    for row in found.iter_rows(named=True):
        grid, block = row["grid"] or [None] * 3, row["block"] or [None] * 3
        rows.append((
            row["kind"], row["name"], row["start"], row["duration"], row["process"], row["device"], row["stream"],
            row["context"], row["correlation"], *grid, *block, row["registers"], row["shared_memory"], row["bytes"],
            row["graph_node"],
        ))  # fmt: skip
    expected = kernels + copies + fills + graphs + waits
    assert len(expected) > 10
    assert sorted(rows, key=repr) == sorted(expected, key=repr)
    assert trace.device["start"].is_sorted()


def test_every_call(opened: Opened) -> None:
    trace, ask = opened
    found = trace.host.filter(trace.host["kind"].is_in(["runtime", "driver"]))
    expected = [
        (("runtime", "driver")[kind], name[:-6] if name[-6:-4] == "_v" and name[-4:].isdigit() else name, *rest)
        for kind, name, *rest in ask(
            "SELECT eventClass, s.value, start, end - start, (globalTid >> 24) & 0xffffff, globalTid & 0xffffff, "
            "correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds s ON s.id = nameId"
        )
    ]
    columns = ("kind", "name", "start", "duration", "process", "thread", "correlation")
    assert sorted(found.select(columns).rows()) == sorted(expected)
    assert expected


def test_every_range(opened: Opened) -> None:
    trace, ask = opened
    found = trace.host.filter(trace.host["kind"] == "annotation")
    expected = ask(
        "SELECT coalesce(text, s.value), start, end - start, (globalTid >> 24) & 0xffffff, globalTid & 0xffffff, "
        "CASE eventType WHEN 59 THEN 'push_pop' WHEN 60 THEN 'start_end' ELSE 'mark' END "
        "FROM NVTX_EVENTS LEFT JOIN StringIds s ON s.id = textId WHERE eventType IN (34, 59, 60)"
    )
    assert sorted(found.select("name", "start", "duration", "process", "thread", "style").rows()) == sorted(expected)
    assert expected


def test_every_launch_and_its_range(opened: Opened) -> None:
    """By looking at all calls and all ranges, one after the other."""
    trace, _ = opened
    rows = list(trace.host.iter_rows(named=True))
    calls = {(row["process"], row["correlation"]): at for at, row in enumerate(rows) if row["correlation"] is not None}
    ranges = [(at, row) for at, row in enumerate(rows) if row["style"] == "push_pop"]
    matched = 0
    for activity in trace.device.iter_rows(named=True):
        launch = calls.get((activity["process"], activity["correlation"]))
        assert activity["launch"] == launch
        if launch is None:
            continue
        call = rows[launch]
        around = [
            (row["duration"], at)
            for at, row in ranges
            if row["thread"] == call["thread"]
            and row["start"] <= call["start"]
            and row["start"] + row["duration"] >= call["start"] + call["duration"]
        ]
        assert activity["range"] == (min(around)[1] if around else None)
        matched += 1
    assert matched >= 0.9 * trace.device.height


def test_parents_are_the_last_begun_that_hold_all_of_an_event(opened: Opened) -> None:
    trace, _ = opened
    rows = list(trace.host.iter_rows(named=True))
    for at, row in enumerate(rows):
        end = row["start"] + row["duration"]
        if row["parent"] is None:
            assert row["depth"] == 0
            continue
        above = rows[row["parent"]]
        assert row["parent"] < at
        assert (above["process"], above["thread"], above["style"] is None) == (
            row["process"], row["thread"], row["style"] is None
        )  # fmt: skip
        assert above["start"] <= row["start"]
        assert end <= above["start"] + above["duration"]
        assert row["depth"] == above["depth"] + 1
    assert sum(row["parent"] is not None for row in rows if row["style"]) == sum(
        any(
            other["thread"] == row["thread"]
            and other is not row
            and other["start"] <= row["start"]
            and other["start"] + other["duration"] >= row["start"] + row["duration"]
            for other in rows
            if other["style"]
        )
        for row in rows
        if row["style"]
    )


def test_the_careful_road_gives_the_same(opened: Opened) -> None:
    trace, _ = opened
    other = read_nsys(trace.source.path, bulk=False)
    for frame in FRAMES:
        assert getattr(other, frame).equals(getattr(trace, frame))
    assert (other.info, other.notes, other.source) == (trace.info, trace.notes, trace.source)


def test_what_the_recordings_are_of(opened: Opened) -> None:
    trace, ask = opened
    assert trace.info.tool_version == "2025.3.2.0"
    assert [gpu.name for gpu in trace.info.devices] == ["NVIDIA H200"]
    assert trace.info.base_time == ask("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME")[0][0]
    assert trace.info.window == (0, ask("SELECT duration FROM ANALYSIS_DETAILS")[0][0])
    assert any(name == "python3" for _, _, name in trace.info.threads)
    unread = {
        f"events of the table {table}, which is not read": found[0][0]
        for table in ("CUDA_GRAPH_EVENTS", "CUDA_GRAPH_NODE_EVENTS")
        if (found := ask(f"SELECT count(*) FROM {table}"))
    }
    assert {note.reason: note.count for note in trace.notes if note.kind == "skipped"} == unread
    assert trace.source.events_total == trace.source.events_parsed + sum(unread.values())
    for frame in FRAMES:
        assert "hunter2" not in getattr(trace, frame).write_json()
    assert "hunter2" not in repr((trace.info, trace.notes))


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("nsys/vim_tiny_fp32_bs4.sqlite.gz", ["batch_1", "batch_2"]),
        ("nsys/gpt_small_ctx256.sqlite.gz", ["train_step"] * 3),
        ("nsys/graph_whole.sqlite.gz", ["replay"] * 8),
    ],
)
def test_steps_of_the_recordings(name: str, steps: list[str]) -> None:
    assert read_nsys(recorded(name)).steps["name"].to_list() == steps
