"""NCCL in an nsys export: kernels, the ranges of its NVTX domain, and what their payloads say.

The layout of payloads is that of NCCL's and NVTX's headers; no recording with one is at hand.
"""

from __future__ import annotations

import struct

import polars as pl
import pytest
from nsys_file import PID, NsysFile

from tracetui.analysis.collectives import by_pair, collectives
from tracetui.analysis.selection import select
from tracetui.parsers.nsys.reader import read_nsys

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
