"""Real exports of Nsight Systems against plain SQL, and NCCL in them: every event, number for number."""

import gzip
import sqlite3
import struct
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pytest
from nsys_file import PID, NsysFile
from sample_runs import recorded

from tracetui.analysis.collectives import by_pair, collectives
from tracetui.analysis.selection import select
from tracetui.parsers import Trace
from tracetui.parsers.nsys.reader import read_nsys
from tracetui.parsers.trace import FRAMES

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
    found = ask("SELECT count(*) FROM CUDA_GRAPH_EVENTS")
    unread = {"events of the table CUDA_GRAPH_EVENTS, which is not read": found[0][0]} if found else {}
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


NCCL_DOMAIN = 5
INIT, COLLECTIVE, PAIRWISE = 1, 2, 3
FIELDS = {
    INIT: (("NCCL communicator ID", 18, 0, "Q"), ("No. of ranks", 5, 8, "i"), ("Rank", 5, 12, "i")),
    COLLECTIVE: (("NCCL communicator ID", 18, None, "Q"), ("Message size [bytes]", 22, 8, "Q")),
    PAIRWISE: (
        ("NCCL communicator ID", 18, None, "Q"), ("Message size [bytes]", 22, 8, "Q"), ("Peer rank", 5, 16, "i"),
    ),
}  # fmt: skip
COMM = 0xFEDC_BA98_7654_3210


def payload(number, *values):
    content = struct.pack("<" + "".join(form for *_, form in FIELDS[number]), *values)
    return struct.pack("<IIIIQQ", NCCL_DOMAIN, 0, number, 0, len(content), 32 + len(content)) + content


def export(*, spelt=bytes, with_schema=True):
    """An all-reduce, an all-gather, a group of a send and a receive in one kernel, and a kernel from before."""
    file = NsysFile()
    file.domain("NCCL", NCCL_DOMAIN)
    if with_schema:
        for number, fields in FIELDS.items():
            for place, (name, kind, offset, _) in enumerate(fields):
                file.row("NVTX_PAYLOAD_SCHEMA_ENTRIES", domainId=NCCL_DOMAIN, schemaId=number, idx=place, type=kind,
                         name=name, offset=offset)  # fmt: skip

    def nccl(name, start, end, said=None):
        file.push_pop(name, start, end, domain=NCCL_DOMAIN, binaryData=None if said is None else spelt(said))

    file.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 5, 9)
    nccl("ncclCommInitRank", 10, 20, payload(INIT, COMM, 4, 2))
    nccl("ncclAllReduce", 100, 120, payload(COLLECTIVE, COMM, 4096))
    file.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", (105, 110), (130, 170))
    nccl("ncclGroupStart", 190, 191)
    nccl("ncclAllGather", 200, 210, payload(COLLECTIVE, COMM, 1000))
    nccl("ncclGroupEnd", 212, 230)
    file.launch("ncclDevKernel_AllGather_RING_LL(x)", (215, 220), (240, 260))
    nccl("ncclGroupStart", 300, 301)
    nccl("ncclSend", 302, 303, payload(PAIRWISE, COMM, 64, 3))
    nccl("ncclRecv", 304, 305, payload(PAIRWISE, COMM, 32, 1))
    nccl("ncclGroupEnd", 306, 320)
    file.launch("ncclDevKernel_SendRecv(x)", (310, 315), (330, 350))
    nccl("ncclReduceScatter", 400, 410, payload(COLLECTIVE, COMM, 500))  # its kernel is not recorded
    return file


COLUMNS = ("device", "kind", "group", "group_size", "bytes_in", "bytes_out", "peer", "coalesced", "part_of", "source")
COMMUNICATOR = "fedcba9876543210"
ROWS = [
    (0, "all_reduce", None, None, None, None, None, False, None, "name"),
    (1, "all_reduce", COMMUNICATOR, 4, 4096, 4096, None, False, None, "range"),
    (2, "all_gather", COMMUNICATOR, 4, 1000, 4000, None, False, None, "range"),
    (3, "send_recv", COMMUNICATOR, 4, None, None, None, True, None, "name"),
    (None, "send", COMMUNICATOR, 4, 64, None, 3, True, 3, "range"),
    (None, "recv", COMMUNICATOR, 4, None, 32, 1, True, 3, "range"),
    (None, "reduce_scatter", COMMUNICATOR, 4, 2000, 500, None, False, None, "range"),
]


@pytest.mark.parametrize("bulk", [True, False])
@pytest.mark.parametrize("spelt", [bytes, bytes.hex])
def test_payloads_tell_sizes_and_peers(tmp_path, spelt, bulk):
    trace = read_nsys(export(spelt=spelt).write(tmp_path / "a.sqlite"), bulk=bulk)
    assert trace.collectives.select(COLUMNS).rows() == ROWS
    named = trace.host[trace.collectives["host"].drop_nulls()]["name"].to_list()
    assert named == ["ncclAllReduce", "ncclAllGather", "ncclSend", "ncclRecv", "ncclReduceScatter"]
    found = collectives(select(trace)).filter(pl.col("device") == 1)
    assert found.select("launched", "begin", "end", "exposed_ns", "order").row(0) == (105, 130, 170, 40, 0)
    assert by_pair(select(trace)).select("kind", "bytes", "shared").rows() == [("send", 64, 1), ("recv", 32, 1)]


def test_without_schemas_ranges_and_kernels_tell_the_kind(tmp_path):
    trace = read_nsys(export(with_schema=False).write(tmp_path / "a.sqlite"))
    blank = dict.fromkeys(("group", "group_size", "bytes_in", "bytes_out", "peer"))
    expected = [tuple({**dict(zip(COLUMNS, row, strict=True)), **blank}.values()) for row in ROWS]
    assert trace.collectives.select(COLUMNS).rows() == expected


def test_a_payload_that_does_not_fit_is_counted(tmp_path):
    file = export()
    short = payload(COLLECTIVE, COMM, 1)[:36]
    file.push_pop("ncclBroadcast", 500, 510, domain=NCCL_DOMAIN, binaryData=short)
    trace = read_nsys(file.write(tmp_path / "a.sqlite"))
    assert [(note.reason, note.count) for note in trace.notes if "payload" in note.reason] == [
        ("NVTX payload of NCCL that does not fit its schema", 1)
    ]
    assert trace.collectives.filter(pl.col("kind") == "broadcast").select("bytes_in", "group").rows() == [(None, None)]
    assert trace.host["process"].unique().to_list() == [PID]
