"""The frame of collectives: what recordings say of each, against their JSON read the plain way."""

import gzip
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from chrome_file import ChromeFile
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_runs import recorded

from tracetui.analysis.collectives import Link, by_pair, by_size, calls, calls_of, collectives, with_bandwidth
from tracetui.analysis.ranks.job import Job, jobs, uneven_all_to_all
from tracetui.analysis.ranks.matched import match
from tracetui.analysis.ranks.one_rank import own_calls
from tracetui.analysis.ranks.summarise import summarise
from tracetui.analysis.roofline.peaks import link_of
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import select
from tracetui.parsers import Trace
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


def grouped(path, rank=0, *, late=0, inside=True, dims=False, says=("_allgather_base",) * 3, kernels=1):
    """Collectives between `group_start` and `group_end` in four steps, which one kernel does."""
    group = {"Process Group Name": "dp", "Process Group Ranks": "[0, 1]", "Group size": 2, "dtype": "BFloat16"}
    event, document = {"ph": "X", "pid": 1, "tid": 1}, []
    for step in range(4):
        at = 1000 * step
        begin = at + (10 if inside else 40)
        document += [
            {**event, "cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": at, "dur": 900},
            {**event, "cat": "user_annotation", "name": "nccl:coalesced", "ts": begin, "dur": at + 70 - begin},
        ]
        for number, name in enumerate(says):
            size = 100 * (number + 1)
            counts = {} if dims else {"In msg nelems": size, "Out msg nelems": 2 * size}
            args = {"Collective name": name, "Seq": step, "Input Dims": [[[size]], []], **counts, **group}
            place = {"ts": at + 12 + 8 * number, "dur": 4}
            document.append({**event, "cat": "cpu_op", "name": "record_param_comms", **place, "args": args})
            place = {"ts": at + 13 + 8 * number, "dur": 2}
            document.append({**event, "cat": "user_annotation", "name": f"nccl:{name}", **place})
        for number in range(kernels):
            args = {"device": 0, "stream": 7, "correlation": 10 * step + number + 1}
            call = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 50 + number, "dur": 0.5}
            kernel = {"cat": "kernel", "name": "ncclDevKernel_AllGather_RING_LL(x)", "pid": 0, "tid": 7}
            times = {"ts": at + 100 * (number + 1) + late, "dur": 80 - late}
            document += [{**event, **call, "args": args}, {**event, **kernel, **times, "args": args}]
    job = {"backend": "nccl", "rank": rank, "world_size": 2}
    path.write_text(json.dumps({"schemaVersion": 1, "distributedInfo": job, "traceEvents": document}))
    return path


@pytest.mark.parametrize("given", [{}, {"inside": False}, {"dims": True}], ids=str)
def test_grouped_collectives_of_one_kind_are_one_of_their_sizes(tmp_path, given):
    for rank in (0, 1):
        grouped(tmp_path / f"rank{rank}.json", rank, late=60 * rank, **given)
    trace = read_chrome(tmp_path / "rank0.json")
    found = by_size(select(trace)).select("kind", "group", "group_size", "bytes", "calls", "total_ns", "coalesced")
    assert found.rows() == [("all_gather", "dp", 2, 2400, 4, 320_000, False)]
    parts = collectives(select(trace)).filter(pl.col("part_of").is_not_null())
    assert parts["bytes_in"].to_list() == [200, 400, 600] * 4
    matched = match([summarise(read_chrome(tmp_path / f"rank{rank}.json")) for rank in (0, 1)])
    assert matched.unmatched.height == 0
    assert matched.calls["bytes_out"].to_list() == [2400] * 8
    assert matched.calls["instance"].n_unique() == 4


@pytest.mark.parametrize("given", [{"says": ("_allgather_base", "_reduce_scatter_base")}, {"kernels": 2}], ids=str)
def test_of_several_kinds_or_kernels_the_sizes_stay_unknown(tmp_path, given):
    found = by_size(select(read_chrome(grouped(tmp_path / "rank0.json", **given))))
    assert found.select("bytes", "coalesced").unique().rows() == [(None, True)]


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


TYPES = {"Float": 4, "BFloat16": 2, "Double": 8, "Byte": 1}
# kind: what c10d calls it, what goes in and what comes out per element of a rank's part, parts that count, bus factor
PARTS = {
    "all_reduce": ("allreduce", "one", "one", "one", lambda n: 2 * (n - 1) / n),
    "all_gather": ("_allgather_base", "one", "all", "all", lambda n: (n - 1) / n),
    "reduce_scatter": ("_reduce_scatter_base", "all", "one", "all", lambda n: (n - 1) / n),
    "all_to_all": ("all_to_allv", "all", "all", "all", lambda n: (n - 1) / n),
    "gather": ("gather", "one", "all", "all", lambda n: (n - 1) / n),
    "scatter": ("scatter", "all", "one", "all", lambda n: (n - 1) / n),
    "broadcast": ("broadcast", "one", "one", "one", lambda n: 1.0),
    "reduce": ("reduce", "one", "one", "one", lambda n: 1.0),
    "send": ("send", "one", "one", "one", lambda n: 1.0),
}


@dataclass(frozen=True)
class Call:
    """One collective of all ranks; of a send, of ranks 0 and 1."""

    kind: str
    count: int
    """Elements of one rank's part."""
    type: str
    moving_us: int
    waits_us: tuple[int, ...]
    """By rank; the last to arrive has none."""


@st.composite
def jobs_of_any_size(draw: st.DrawFn) -> tuple[int, list[Call]]:
    ranks = draw(st.integers(2, 5))
    found = []
    for kind in draw(st.permutations(list(PARTS))):
        waits = draw(st.lists(st.integers(0, 900), min_size=ranks, max_size=ranks))
        waits[draw(st.integers(0, 1))] = 0
        # each of its own size, so that it has a row of its own
        count = draw(st.integers(1, 1 << 20))
        found.append(Call(kind, count, draw(st.sampled_from(list(TYPES))), draw(st.integers(1, 5000)), tuple(waits)))
    return ranks, found


def traces_of(ranks: int, found: list[Call]) -> list[Trace]:
    """What every rank records of these."""
    traces = []
    group = {"Process Group Name": "0", "Process Group Description": "default_pg", "Group size": ranks,
             "Process Group Ranks": json.dumps(list(range(ranks)))}  # fmt: skip
    for rank in range(ranks):
        info = {"backend": "nccl", "rank": rank, "world_size": ranks}
        file = ChromeFile(distributedInfo=info, baseTimeNanoseconds=10**18)
        for place, call in enumerate(found):
            if call.kind == "send" and rank > 1:
                continue
            name, inside, outside, _, _ = PARTS[call.kind]
            sizes = {"one": call.count, "all": call.count * ranks}
            more = {"Collective name": name, "In msg nelems": sizes[inside], "Out msg nelems": sizes[outside],
                    "dtype": call.type, "Seq": place + 1, "In split size": "[]", "Out split size": "[]"}  # fmt: skip
            if call.kind == "send":
                more |= {"Dst Rank": 1} if rank == 0 else {"Collective name": "recv", "Src Rank": 0}
            end = 10_000 * (place + 1)
            begin = end - call.moving_us - call.waits_us[rank]
            kernel = f"ncclDevKernel_{call.kind}"
            file.launch(kernel, (begin - 9, begin - 5), (begin, end), stream=9, **group, **more)
        traces.append(trace_of(file))
    return traces


def trace_of(file: ChromeFile) -> Trace:
    """What a file of these events is read as."""
    with TemporaryDirectory() as folder:
        return read_chrome(file.write(Path(folder) / "one.pt.trace.json"))


def job_of(traces: list[Trace]) -> Job:
    (job,) = jobs([summarise(trace) for trace in traces])
    return job


@settings(max_examples=5)
@given(jobs_of_any_size())
def test_bandwidths_are_those_of_nccl_tests(made: tuple[int, list[Call]]) -> None:
    ranks, found = made
    traces = traces_of(ranks, found)
    job = job_of(traces)
    rows = {row["kind"]: row for row in job.kinds.iter_rows(named=True)}
    assert set(rows) == set(PARTS)
    for call in found:
        _, _, _, counted, factor = PARTS[call.kind]
        size = call.count * TYPES[call.type] * (ranks if counted == "all" else 1)
        algbw = size / (call.moving_us * 1e-6) / 1e9
        of_ranks = 2 if call.kind == "send" else ranks
        row = rows[call.kind]
        assert (row["bytes"], row["collectives"], row["group_size"]) == (size, 1, of_ranks)
        assert row["transfer_ns"] == call.moving_us * 1000
        assert row["algbw_gbps"] == pytest.approx(algbw, rel=1e-12)
        assert row["busbw_gbps"] == pytest.approx(algbw * factor(of_ranks), rel=1e-12)
        # each rank's own table says the same, once the others tell what of a call is transfer
        for rank, trace in enumerate(traces[:3]):
            if call.kind == "send" and rank > 1:
                continue
            kind = "recv" if (call.kind, rank) == ("send", 1) else call.kind
            table = by_size(select(trace), None, own_calls((job,), trace))
            (own,) = table.filter(pl.col("kind") == kind).iter_rows(named=True)
            assert (own["bytes"], own["waiting_ns"]) == (size, call.waits_us[rank] * 1000)
            assert own["algbw_gbps"] == pytest.approx(algbw, rel=1e-12)
            assert own["busbw_gbps"] == pytest.approx(algbw * factor(of_ranks), rel=1e-12)


@settings(max_examples=5)
@given(st.data())
def test_uneven_all_to_all_counts_the_rank_that_moves_most(data: st.DataObject) -> None:
    """Its own part never leaves a rank, and nccl-tests know even parts only: theirs is the factor of the largest."""
    ranks = data.draw(st.integers(2, 4))
    sends = data.draw(st.lists(st.lists(st.integers(0, 5000), min_size=ranks, max_size=ranks), min_size=ranks,
                               max_size=ranks).filter(lambda rows: sum(map(sum, rows)) > 0))  # fmt: skip
    traces = []
    for rank in range(ranks):
        goes, comes = sends[rank], [row[rank] for row in sends]
        more = {"Collective name": "all_to_allv", "In msg nelems": sum(goes), "Out msg nelems": sum(comes),
                "In split size": json.dumps(goes), "Out split size": json.dumps(comes), "dtype": "BFloat16",
                "Group size": ranks, "Process Group Name": "0", "Seq": 1}  # fmt: skip
        file = ChromeFile(distributedInfo={"rank": rank, "world_size": ranks}, baseTimeNanoseconds=10**18)
        file.launch("ncclDevKernel_SendRecv", (1, 3), (10 + 5 * rank, 100), stream=9, **more)
        traces.append(trace_of(file))
    job = job_of(traces)
    (row,) = job.kinds.iter_rows(named=True)
    size = 2 * max(max(sum(goes), sum(comes)) for goes, comes in zip(sends, zip(*sends, strict=True), strict=True))
    algbw = size / (90 - 5 * (ranks - 1)) / 1000
    assert (row["kind"], row["bytes"]) == ("all_to_all", size)
    assert row["busbw_gbps"] == pytest.approx(algbw * (ranks - 1) / ranks, rel=1e-12)
    found = uneven_all_to_all(job)
    moved = {False: [2 * sum(goes) for goes in sends], True: [2 * sum(comes) for comes in zip(*sends, strict=True)]}
    uneven = {gets: 100 * (max(of) - sum(of) / ranks) / max(of) for gets, of in moved.items()}
    assert found is not None
    of = moved[found.gets]
    assert found.percent == pytest.approx(max(uneven.values())) == pytest.approx(uneven[found.gets])
    assert (found.largest, found.rank) == (max(of), of.index(max(of)))
    assert found.wait_ns == pytest.approx(1000 * sum(5 * place for place in range(ranks)) / ranks)


@settings(max_examples=5)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 3), st.integers(1, 9999)), min_size=1, max_size=12))
def test_pairs_add_up_what_goes_each_way(said: list[tuple[bool, int, int]]) -> None:
    file = ChromeFile(distributedInfo={"rank": 0, "world_size": 4})
    expected: dict[tuple[int, int, str], list[int]] = {}
    for place, (sends, peer, count) in enumerate(said):
        more = {"Collective name": "send" if sends else "recv", "Dst Rank" if sends else "Src Rank": peer,
                "In msg nelems": count, "Out msg nelems": count, "dtype": "Float", "Process Group Name": "pp",
                "Group size": 4}  # fmt: skip
        at = 100 * place
        file.launch("ncclDevKernel_SendRecv", (at, at + 2), (at + 10, at + 20 + place), stream=9, **more)
        key = (0, peer, "send") if sends else (peer, 0, "recv")
        calls, size, lasting = expected.get(key, [0, 0, 0])
        expected[key] = [calls + 1, size + 4 * count, lasting + (10 + place) * 1000]
    rows = by_pair(select(trace_of(file))).select("source", "target", "kind", "calls", "bytes", "total_ns").rows()
    assert {row[:3]: list(row[3:]) for row in rows} == expected


def test_an_unknown_kind_and_a_call_of_no_time_have_no_bus_bandwidth() -> None:
    traces = []
    for rank in range(2):
        file = ChromeFile(distributedInfo={"rank": rank, "world_size": 2}, baseTimeNanoseconds=10**18)
        known = {"In msg nelems": 8, "Out msg nelems": 8, "dtype": "Float", "Group size": 2, "Seq": 1}
        file.launch("ncclDevKernel_Mystery", (1, 3), (10, 20), stream=9, **known, **{"Collective name": "mystery"})
        file.launch("ncclDevKernel_AllReduce", (21, 23), (30, 30), stream=9, **known | {"Seq": 2},
                    **{"Collective name": "allreduce"})  # fmt: skip
        traces.append(trace_of(file))
    for row in job_of(traces).kinds.iter_rows(named=True):
        assert row["busbw_gbps"] is None
        assert row["algbw_gbps"] == (None if row["kind"] == "all_reduce" else 32 / 10_000)
