"""The frame of collectives: what recordings say of each, against their JSON read the plain way."""

from __future__ import annotations

import gzip
import json
from functools import cache

import polars as pl
import pytest
from sample_runs import recorded

from tracetui.analysis.collectives import Link, by_pair, by_size, calls, calls_of, collectives, with_bandwidth
from tracetui.analysis.roofline.peaks import link_of
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import select
from tracetui.parsers.chrome.reader import read_chrome
from tracetui.parsers.names import collectives as words

NCCL = "chrome/ddp_vit_small_2ranks/rank0.pt.trace.json.gz"
GLOO = "chrome/gloo_2ranks/rank{}.pt.trace.json.gz"


@cache
def events_of(name):
    return json.loads(gzip.decompress(recorded(name).read_bytes()))["traceEvents"]


@pytest.fixture(scope="module")
def nccl(recording):
    return recording(NCCL)


def test_arguments_of_kernels(nccl):
    told = [e for e in events_of(NCCL) if e.get("cat") == "kernel" and "Collective name" in e["args"]]
    found = collectives(select(nccl)).filter(pl.col("source") == "kernel").sort("begin")
    told.sort(key=lambda event: event["ts"])
    assert found["bytes_in"].to_list() == [4 * event["args"]["In msg nelems"] for event in told]
    assert (found["end"] - found["begin"]).to_list() == [round(1000 * event["dur"]) for event in told]
    assert set(found.select("kind", "group", "group_size", "element_type", "group_ranks").rows()) == {
        ("all_reduce", "0", 2, "fp32", "[0, 1]")
    }
    calls = {e["args"]["External id"]: e for e in events_of(NCCL) if e["name"] == "record_param_comms"}
    hosts = nccl.host[found["host"]]
    assert hosts["external_id"].to_list() == [event["args"]["External id"] for event in told]
    assert set(hosts["name"].to_list()) == {"record_param_comms"}
    assert len(calls) == found.height


def test_a_kernel_without_arguments_has_its_kind_and_the_only_group(nccl):
    queued = collectives(select(nccl)).filter(pl.col("source") == "name")
    assert queued.select("kind", "group", "group_size", "bytes_in", "launched", "order").rows() == [
        ("all_reduce", "0", 2, None, None, 0)
    ]


def test_exposed_time_is_what_no_computing_kernel_covers(nccl):
    kernels = [(round(1000 * e["ts"]), round(1000 * e["dur"]), e["name"])
               for e in events_of(NCCL) if e.get("cat") == "kernel"]  # fmt: skip
    computes = [(start, start + took) for start, took, name in kernels if not name.startswith("nccl")]
    for begin, end, exposed in collectives(select(nccl)).select("begin", "end", "exposed_ns").rows():
        covered, reached = 0, begin
        for start, stop in sorted(computes):
            low, high = max(start, reached), min(stop, end)
            if high > low:
                covered += high - low
                reached = high
        assert exposed == pytest.approx(end - begin - covered, abs=2)


def test_scope_chooses_steps_and_keeps_the_order(nccl):
    whole = collectives(select(nccl))
    index = nccl.steps["index"][1]
    one = collectives(select(nccl, Scope(steps=(index, index))))
    assert one.height == 5
    assert one.rows() == whole.filter(pl.col("row").is_in(one["row"].implode())).rows()
    assert not collectives(select(nccl, Scope(devices=frozenset({7})))).height


@pytest.mark.parametrize("rank", [0, 1])
def test_cpu_ranks_are_told_by_their_operators(recording, rank):
    name = GLOO.format(rank)
    found = collectives(select(recording(name)))
    events = events_of(name)
    operators = sorted((e for e in events if str(e.get("name")).startswith("c10d::")), key=lambda e: e["ts"])
    ranges = [e for e in events if str(e.get("name")).startswith("gloo:")]
    assert found.height == len(ranges) == len(operators)
    by_order = found.sort("order")
    assert by_order["name"].to_list() == [e["name"].removeprefix("c10d::") for e in operators]
    peers = [int(e["args"]["Concrete Inputs"][2]) if e["name"] in ("c10d::send", "c10d::recv_") else None
             for e in operators]  # fmt: skip
    assert by_order["peer"].to_list() == peers
    splits = [e["args"]["Concrete Inputs"][4] for e in operators if e["name"] == "c10d::alltoall_base_"]
    assert by_order.filter(pl.col("kind") == "all_to_all")["in_splits"].to_list() == [
        None if text == "[]" else text for text in splits
    ]
    scattered = by_order.filter(pl.col("kind") == "reduce_scatter")
    assert scattered["bytes_in"].to_list() == (2 * scattered["bytes_out"]).to_list()
    assert set(recording(name).host[scattered["host"]]["name"].to_list()) == {"gloo:all_reduce"}
    assert found["group"].null_count() == found.height  # two groups, and nothing says which
    assert (found["launched"] <= found["begin"]).all()


def coalesced(tmp_path):
    """A send and a receive that one kernel does, as PyTorch records `batch_isend_irecv` over NCCL."""
    group = {"Process Group Name": "pp", "Process Group Ranks": "[2, 3]", "Group size": 2, "dtype": "BFloat16"}
    event = {"ph": "X", "pid": 1, "tid": 1}
    said = [
        {"name": "record_param_comms", "ts": 12, "dur": 1,
         "args": {"Collective name": "send", "Src Rank": 2, "Dst Rank": 3, "In msg nelems": 64, "Out msg nelems": 64,
                  "Seq": 5, **group}},
        {"name": "record_param_comms", "ts": 14, "dur": 1,
         "args": {"Collective name": "recv", "Src Rank": 3, "Dst Rank": 2, "In msg nelems": 32, "Out msg nelems": 32,
                  "Seq": 6, **group}},
    ]  # fmt: skip
    document = [
        {**event, "cat": "user_annotation", "name": "nccl:coalesced", "ts": 10, "dur": 20, "args": {}},
        *({**event, "cat": "cpu_op", **one} for one in said),
        {**event, "cat": "user_annotation", "name": "nccl:send 2->3", "ts": 12.2, "dur": 0.5, "args": {}},
        {**event, "cat": "user_annotation", "name": "nccl:recv 2<-3", "ts": 14.2, "dur": 0.5, "args": {}},
        {**event, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 25, "dur": 2, "args": {"correlation": 9}},
        {**event, "cat": "kernel", "name": "ncclDevKernel_SendRecv(x)", "pid": 0, "tid": 7, "ts": 30, "dur": 8,
         "args": {"device": 0, "stream": 7, "correlation": 9}},
    ]  # fmt: skip
    path = tmp_path / "coalesced.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": document}))
    return path


def test_a_kernel_for_several_operations_leaves_the_sizes_to_them(tmp_path):
    found = collectives(select(read_chrome(coalesced(tmp_path))))
    columns = (
        "kind",
        "peer",
        "bytes_in",
        "bytes_out",
        "seq",
        "coalesced",
        "part_of",
        "begin",
        "end",
        "exposed_ns",
        "order",
    )
    assert found.sort("device", "row", nulls_last=True).select(columns).rows() == [
        ("send_recv", None, None, None, None, True, None, 30_000, 38_000, 8_000, 0),
        ("send", 3, 128, 128, 5, True, 0, 30_000, 38_000, None, None),
        ("recv", 3, 64, 64, 6, True, 0, 30_000, 38_000, None, None),
    ]


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("allreduce", "all_reduce"), ("_allgather_base", "all_gather"), ("nccl:_reduce_scatter_base", "reduce_scatter"),
        ("all_to_allv", "all_to_all"), ("nccl:send 0->1", "send"), ("recv", "recv"), ("wait", None), ("init", None),
        ("ncclAllReduce", "all_reduce"), ("gloo:barrier", "barrier"), ("c10d::recv_any_source_", "recv"),
        ("allgather_into_tensor_coalesced", "all_gather"), ("_c10d_functional::all_to_all_single", "all_to_all"),
    ],
)  # fmt: skip
def test_kinds(said, kind):
    assert words.kind_of(said) == kind


def test_kinds_of_kernels():
    assert words.kernel_kind("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)") == (
        "reduce_scatter"
    )
    assert words.kernel_kind("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)") == "send_recv"
    assert words.kernel_kind("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)") is None


FSDP = "ranks4/fsdp/rich/rank0.pt.trace.json.gz"


def test_bandwidth_of_the_last_to_arrive(recording):
    """Rank 0 of that job comes last, so that its calls hardly wait: 224 to 274 and 265 to 296 GB/s were measured."""
    trace = recording(FSDP)
    link = link_of(None, trace)
    assert (link.name, link.bytes_per_s) == ("NVLink 4", 450e9)
    rows = by_size(select(trace), link)
    assert rows.select("kind", "bytes", "calls", "group_size").rows() == [
        ("all_gather", 25_192_448, 48, 4),
        ("reduce_scatter", 50_384_896, 24, 4),
        ("reduce_scatter", 131_136_000, 3, 4),
        ("all_gather", 65_568_000, 3, 4),
    ]
    assert rows["busbw_gbps"].to_list() == pytest.approx([228.86, 268.26, 296.21, 276.25], abs=0.01)
    assert rows["link_percent"].to_list() == pytest.approx([50.86, 59.61, 65.83, 61.39], abs=0.01)
    assert set(rows["rests_on"]) == {"shortest call"}
    assert rows["waiting_ns"].null_count() == rows["transfer_ns"].null_count() == 4


def test_rows_add_up_to_the_calls(nccl):
    found, rows = calls(select(nccl)), by_size(select(nccl))
    assert rows["calls"].sum() == found.height
    assert rows["total_ns"].sum() == found["duration_ns"].sum()
    for row in rows.iter_rows(named=True):
        inside = calls_of(found, row)
        assert (inside.height, inside["duration_ns"].min()) == (row["calls"], row["shortest_ns"])
        assert row["exposed_percent"] == pytest.approx(100 * inside["exposed_ns"].sum() / row["total_ns"])


def test_known_transfers_take_the_place_of_the_shortest_call(nccl):
    found = calls(select(nccl))
    whole = pl.lit(value=True)
    matched = found.select("row", whole=whole, waiting_ns=pl.col("duration_ns") - 10_000, transfer_ns=pl.lit(10_000))
    rows = by_size(select(nccl), None, matched).filter(pl.col("bytes").is_not_null())
    assert set(rows["rests_on"]) == {"transfer"}
    assert (rows["waiting_ns"] == rows["total_ns"] - 10_000 * rows["calls"]).all()
    assert rows["algbw_gbps"].to_list() == pytest.approx((rows["bytes"] / 10_000).to_list())
    assert rows["link_percent"].null_count() == rows.height


@pytest.mark.parametrize(
    ("kind", "ranks", "factor"),
    [("all_reduce", 2, 1), ("all_reduce", 8, 1.75), ("all_gather", 4, 0.75), ("reduce_scatter", 8, 0.875),
     ("all_to_all", 2, 0.5), ("broadcast", None, 1), ("send", 2, 1), ("all_reduce", None, None),
     ("send_recv", 2, None), ("barrier", 2, None), ("all_reduce", 1, None)],
)  # fmt: skip
def test_factors_of_the_bus_bandwidth(kind, ranks, factor):
    schema = {"kind": pl.String, "group_size": pl.Int64, "bytes": pl.Int64, "moved_ns": pl.Int64}
    frame = pl.DataFrame([(kind, ranks, 3000, 100)], schema=schema, orient="row")
    row = with_bandwidth(frame, Link("x", 60e9, 4, "")).row(0, named=True)
    assert row["algbw_gbps"] == 30
    assert row["busbw_gbps"] == (None if factor is None else 30 * factor)
    beyond = ranks is not None and ranks > 4
    known = factor is not None and not beyond and (ranks is not None or kind == "send")
    assert row["link_percent"] == (50 * factor if known else None)


def test_pairs_of_ranks(recording, tmp_path):
    pairs = by_pair(select(recording(GLOO.format(1))))
    assert pairs.select("source", "target", "kind", "calls", "bytes").rows() == [
        (0, 1, "recv", 6, 24_000),
        (1, 0, "send", 2, 8_000),
    ]
    shared = by_pair(select(read_chrome(coalesced(tmp_path))))
    assert shared.select("target", "source", "bytes", "total_ns", "shared").rows() == [
        (3, None, 128, None, 1),
        (None, 3, 64, None, 1),
    ]
    assert by_size(select(read_chrome(coalesced(tmp_path)))).select("kind", "calls", "bytes", "coalesced").rows() == [
        ("send_recv", 1, None, True)
    ]


def test_operators_tell_what_kernels_do_not(tmp_path, nccl):
    """AMD's kernels, and those of older PyTorch, carry no arguments, and AMD's all have one name."""
    launches = {e["args"]["correlation"] for e in events_of(NCCL) if e.get("cat") == "kernel" and "nccl" in e["name"]}
    document = []
    for event in events_of(NCCL):
        args = event.get("args") or {}
        if event.get("cat") == "kernel" and "nccl" in event["name"]:
            plain = {key: args[key] for key in ("device", "stream", "correlation")}
            name = "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)"
            document.append({**event, "args": plain, "name": name})
        elif event.get("name", "").startswith(("nccl:", "c10d::", "record_param")) or (
            args.get("correlation") in launches
        ):
            document.append(event)
    path = tmp_path / "generic.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": document}))
    found = collectives(select(read_chrome(path)))
    whole = collectives(select(nccl))
    same = ("kind", "group", "group_size", "bytes_in", "bytes_out", "element_type", "begin", "end", "launched")
    assert found.filter(pl.col("source") == "operator").select(same).rows() == (
        whole.filter(pl.col("source") == "kernel").select(same).rows()
    )
    assert found.filter(pl.col("source") == "name").select("kind", "bytes_in").rows() == [(None, None)]


@pytest.mark.parametrize("number", ["9" * 30, -5, 2**62, "x", None, True, [1], float("inf")])
def test_damaged_arguments_are_unknown(tmp_path, number):
    """Any value where a number should stand: nothing fails, and no size is made of it."""
    args = {
        "Collective name": f"send 0->{'9' * 40}", "In msg nelems": number, "Out msg nelems": number, "dtype": "Float",
        "Group size": number, "Process Group Name": "0", "Process Group Ranks": "[[[", "Seq": number,
        "Src Rank": number, "Dst Rank": number, "In split size": number,
    }  # fmt: skip
    event = {"ph": "X", "pid": 1, "tid": 1, "ts": 1.5, "dur": 2}
    document = {
        "schemaVersion": 1,
        "distributedInfo": {"pg_config": [{"pg_name": 3, "pg_size": number, "ranks": [number]}, number, {}]},
        "traceEvents": [
            {**event, "cat": "cpu_op", "name": "record_param_comms", "args": args},
            {**event, "cat": "kernel", "name": "ncclDevKernel_SendRecv(x)", "args": {**args, "device": 0, "stream": 7}},
            {**event, "cat": "cpu_op", "name": "c10d::send", "args": {"Input Dims": [[number], [], []],
             "Input type": [number], "Concrete Inputs": ["", "", number, number]}},
            {**event, "tid": 2, "cat": "user_annotation", "name": "gloo:send", "args": {"Input Dims": [number]}},
        ],
    }  # fmt: skip
    path = tmp_path / "damaged.json"
    path.write_text(json.dumps(document))
    found = calls(select(read_chrome(path)))
    assert found["kind"].to_list() == ["send", "send", "send"]
    assert found.select("bytes", "peer").rows() == [(None, None)] * 3
    by_size(select(read_chrome(path)))


def test_with_the_other_ranks_a_rank_has_the_bandwidth_of_the_job(capsys):
    from tracetui.app.cli.main import main

    job = recorded("chrome/ddp_vit_small_2ranks")
    assert main(["report", str(job), "--section", "collectives", "transfers", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["run"]
    of_job = {row["bytes"]: row for row in found["transfers"]}
    assert len(of_job) == 5
    for trace in found["traces"]:
        rows = {row["bytes"]: row for row in trace["collectives"] if row["bytes"] is not None}
        assert rows.keys() == of_job.keys()
        for size, row in rows.items():
            assert row["rests_on"] == "transfer"
            assert row["busbw_gbps"] == pytest.approx(of_job[size]["busbw_gbps"], rel=1e-9)
            assert row["waiting_us"] + row["transfer_us"] == pytest.approx(row["total_us"])
    # the second to arrive waits for nobody
    assert sum(row["waiting_us"] for row in found["traces"][1]["collectives"]) == 0
