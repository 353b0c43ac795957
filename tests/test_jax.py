"""Traces of the JAX profiler: the recording on a GPU, and forms made by hand after what XLA writes."""

import gzip
import json
from pathlib import Path

import json_reader
import polars as pl
import pytest
from sample_runs import recorded

from tracetui.analysis.attribution.module_tree import split_scope
from tracetui.analysis.host import host_functions
from tracetui.analysis.kernels import kernel_launches, kernels, operator_kernels
from tracetui.analysis.memops import memops
from tracetui.analysis.modules import module_kernels, modules
from tracetui.analysis.operators import operators
from tracetui.analysis.overview import overview
from tracetui.analysis.ranges import ranges
from tracetui.analysis.selection import select
from tracetui.parsers import open_path
from tracetui.parsers.chrome import reader, xla
from tracetui.parsers.chrome.tokens import Irregular

GPU, HOST = 1, 701
KERNEL = "regs:32 static_shared:1024 dynamic_shared:48 grid:12,2,1 block:128,1,1 occ_pct:62.5"


def named(kind, text, pid, tid=None):
    return {"ph": "M", "pid": pid, **({} if tid is None else {"tid": tid}), "name": kind, "args": {"name": text}}


PROCESSES = [named("process_name", "/device:GPU:0", GPU), named("process_name", "/host:CPU", HOST)]
STREAM = named("thread_name", "Stream #14(Compute,MemcpyH2D,Memset)", GPU, 14)
PYTHON = named("thread_name", "python3", HOST, 7)


def event(label, ts, dur, pid=HOST, tid=7, **args):
    quoted = {key: str(value) for key, value in args.items()}
    return {
        "ph": "X",
        "pid": pid,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "name": label,
        **({"args": quoted} if args else {}),
    }


def kernel(label, ts, dur, correlation, tid=14, **args):
    more = {"context_id": "$$1", "correlation_id": correlation, "kernel_details": KERNEL, **args}
    return event(label, ts, dur, GPU, tid, **more)


def step(number, ts, dur, name="train", tid=7):
    return event(name, ts, dur, tid=tid, step_num=number)


@pytest.fixture
def jax(tmp_path):
    """Opens a trace of these events, written as XLA writes it; the plain reader must see the same."""

    def make(*events):
        document = {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": [*events, {}]}
        path = tmp_path / "host.trace.json.gz"
        path.write_bytes(gzip.compress(json.dumps(document, separators=(",", ":")).encode()))
        trace = open_path(path, cache=False).traces[0]
        judge = json_reader.read_trace(path)
        for frame in ("steps", "host", "device"):
            assert (
                getattr(trace, frame)
                .drop("offset", strict=False)
                .equals(getattr(judge, frame).drop("offset", strict=False))
            )
        return trace

    return make


def column(frame, *names):
    return frame.select(pl.col(name) if frame.schema[name].is_numeric() else pl.col(name).cast(str) for name in names)


class TestRecording:
    @pytest.fixture
    def trace(self, recording):
        return recording("jax/h200.trace.json.gz")

    def test_is_told_from_others(self, trace):
        assert (trace.info.kind, trace.info.tool) == ("jax", "JAX profiler")
        assert [device.id for device in trace.info.devices] == [0]

    def test_the_empty_object_at_the_end_is_no_event(self, trace):
        assert trace.source.events_total == trace.source.events_parsed == 150
        assert not [note for note in trace.notes if note.kind == "skipped"]

    def test_steps(self, trace):
        assert trace.steps.rows() == [
            (0, "train", 15_665_678, 1_007_564),
            (1, "train", 16_698_057, 450_339),
            (2, "train", 17_160_312, 356_499),
        ]

    def test_floats_printed_in_full_keep_their_nanosecond(self, trace):
        # 48.637999999999998 and 4.8319999999999999 in the file
        assert trace.host.filter(pl.col("name").cast(str) == "$profiler.py:307 trace")["start"][0] == 48_638
        assert set(trace.device["duration"]) >= {4_832, 10_623, 10_560}

    def test_kernels_and_their_launches(self, trace):
        table = {row["name"]: row for row in kernels(select(trace)).iter_rows(named=True)}
        assert {name: row["calls"] for name, row in table.items()} == {
            "gemm_fusion_dot": 3, "gemm_fusion_dot_1": 15, "triton_softmax_15": 15, "triton_softmax_8": 3,
        }  # fmt: skip
        row = table["gemm_fusion_dot_1"]
        assert (row["registers"], row["shared_memory"], row["occupancy_percent"]) == (184, 49_152, 12.5)
        assert (row["operator"], row["module"]) == ("command_buffer_1", "jit_f")
        assert trace.device["launch"].null_count() == 0
        assert trace.device["stream"].unique().to_list() == [14]
        assert sorted(set(trace.device["step"])) == [0, 1, 2]
        launch = trace.host["name"].cast(str).gather(trace.device["launch"])
        assert launch.unique().to_list() == ["cuGraphLaunch (CudaGraph:2)"]
        assert kernel_launches(select(trace), "triton_softmax_8")["grid"].to_list() == ["512x1x1"] * 3

    def test_operators_modules_and_overview(self, trace):
        sel = select(trace)
        whole = trace.device["duration"].sum()
        rows = {row["name"]: row for row in operators(sel).iter_rows(named=True)}
        assert rows["command_buffer_1"]["device_self_ns"] == rows["command_buffer_1"]["device_total_ns"] == whole
        assert rows["command_buffer::execute"]["device_self_ns"] == 0
        assert sum(row["device_self_ns"] for row in rows.values()) == whole
        assert "(not attributed)" not in rows
        tree = modules(sel)
        assert tree["path"][0] == "jit_f"
        assert tree["device_total_ns"][0] == whole
        assert tree["calls"][0] == 3
        assert operator_kernels(sel, "command_buffer_1").height == module_kernels(sel, "jit_f").height == 4
        found = overview(sel)
        assert found.steps == 3
        assert found.average["percent"].sum() == pytest.approx(100)
        assert 0 < found.average.filter(pl.col("category") == "cpu_exec")["percent"][0] < 60  # not the step mark itself


class TestCpuRecording:
    PATH = Path(__file__).parent / "data" / "jax_cpu.trace.json.gz"

    @pytest.fixture
    def trace(self):
        return open_path(self.PATH, cache=False).main

    def test_both_readers_see_the_same(self, trace):
        judge = json_reader.read_trace(self.PATH)
        for frame in ("steps", "host", "device"):
            seen, plain = getattr(trace, frame), getattr(judge, frame)
            assert seen.drop("offset", strict=False).equals(plain.drop("offset", strict=False))
        assert trace.source.events_total == judge.source.events_total
        assert not trace.notes

    def test_steps_are_those_of_the_thread_with_most(self, trace):
        assert trace.steps.select("index", "name").rows() == [(0, "train"), (1, "train"), (2, "train")]
        assert overview(select(trace)).steps == 3

    def test_operations_are_operators_and_what_the_program_named_are_ranges(self, trace):
        table = operators(select(trace))
        calls = dict(table.select("name", "calls").rows())
        assert {name: calls[name] for name in ("dot_general.3", "wrapped_tanh", "ynn_fusion")} == {
            "dot_general.3": 5, "wrapped_tanh": 5, "ynn_fusion": 5,
        }  # fmt: skip
        assert calls["PjitFunction(step)"] == 10  # it calls itself
        assert not [name for name in calls if name.startswith(("end: ", "$"))]
        assert sorted(ranges(select(trace))["name"]) == ["forward", "side", "train"]


class TestDevices:
    def test_details_become_columns(self, jax):
        trace = jax(
            *PROCESSES, STREAM, PYTHON,
            event("cuLaunchKernel", 10, 5, correlation_id=9, context_id="$$1"),
            kernel("fusion_3", 20, 7, 9, hlo_module="jit_step", hlo_op="fusion.3", cuda_graph_node_id=8589934592),
            event("MemcpyH2D", 30, 2, GPU, 14, correlation_id=10,
                  memcpy_details="kind_src:pageable kind_dst:device size:4096 dest:0 async:1"),
            event("Memset", 40, 1, GPU, 14, Memset_details="kind:device num_bytes:512 async:1"),
            event("CudaGraphExec:5", 50, 3, GPU, 14, correlation_id=12),
        )  # fmt: skip
        rows = column(trace.device, "kind", "name", "bytes", "memory_kinds", "stream", "device").rows()
        assert rows == [
            ("kernel", "fusion_3", None, None, 14, 0),
            ("memcpy", "MemcpyH2D", 4096, "Pageable -> Device", 14, 0),
            ("memset", "Memset", 512, "Device", 14, 0),
            ("graph", "CudaGraphExec:5", None, None, 14, 0),
        ]
        row = trace.device.row(0, named=True)
        assert (row["registers"], row["shared_memory"], row["occupancy_percent"]) == (32, 1072, 62.5)
        assert (row["grid"], row["block"]) == ([12, 2, 1], [128, 1, 1])
        assert (row["context"], row["graph_node"], row["launch"]) == (1, 8589934592, 0)
        names = memops(select(trace)).select("name", "bytes").rows()
        assert names == [("[CUDA memcpy Host-to-Device]", 4096), ("[CUDA memset]", 512)]

    def test_unknown_words_in_details_are_null(self, jax):
        trace = jax(
            *PROCESSES, STREAM,
            event("k", 1, 1, GPU, 14, kernel_details="regs:many grid:1,2 block:1,1,1 occ_pct:nan new:5"),
            event("MemcpyD2D", 3, 1, GPU, 14, memcpy_details="kind_src:unknown kind_dst:device size: async:0"),
        )  # fmt: skip
        row = trace.device.row(0, named=True)
        assert row["registers"] is row["grid"] is row["occupancy_percent"] is row["shared_memory"] is None
        assert row["block"] == [1, 1, 1]
        assert trace.device["bytes"][1] is None
        assert trace.device["memory_kinds"][1] is None

    def test_lines_that_repeat_the_work_are_no_work(self, jax):
        lines = [named("thread_name", text, GPU, tid) for tid, text in ((100, "XLA Modules"), (101, "XLA Ops"))]
        trace = jax(
            *PROCESSES, STREAM, *lines,
            kernel("fusion", 10, 4, 1, hlo_op="fusion", hlo_module="jit_f"),
            event("jit_f(123)", 9, 6, GPU, 100),
            event("fusion", 10, 4, GPU, 101, hlo_op="fusion"),
        )  # fmt: skip
        assert trace.device.filter(pl.col("kind") == "kernel").height == 1
        assert overview(select(trace)).gpu["busy_percent"][0] == pytest.approx(100)

    def test_several_devices(self, jax):
        second = [named("process_name", "/device:GPU:1", 2), named("thread_name", "Stream #3(Compute)", 2, 3)]
        second.append({"ph": "M", "name": "process_name", "pid": 2, "args": "/device:GPU:5"})  # names nothing
        trace = jax(*PROCESSES, STREAM, *second, kernel("a", 1, 1, 1), event("b", 2, 1, 2, 3, correlation_id=2))
        assert trace.device.select("device", "stream").rows() == [(0, 14), (1, 3)]
        assert [device.id for device in trace.info.devices] == [0, 1]

    def test_a_tpu_works_on_its_line_of_operations(self, jax):
        trace = jax(
            named("process_name", "/device:TPU:0", 3), named("thread_name", "XLA Ops", 3, 1),
            named("thread_name", "XLA Modules", 3, 2), named("process_name", "/host:CPU", HOST), PYTHON,
            event("jit_f(7)", 0, 100, 3, 2),
            event("while.1", 10, 50, 3, 1, hlo_op="while.1", hlo_module="jit_f"),
            event("fusion.2", 12, 20, 3, 1, hlo_op="fusion.2", hlo_module="jit_f"),
            event("fusion.2", 35, 20, 3, 1, hlo_op="fusion.2", hlo_module="jit_f"),
            event("copy.3", 70, 5, 3, 1, hlo_op="copy.3", hlo_module="jit_f"),
        )  # fmt: skip
        work = trace.device.filter(pl.col("kind") == "kernel")
        assert column(work, "name", "duration").rows() == [
            ("fusion.2", 20_000), ("fusion.2", 20_000), ("copy.3", 5_000)
        ]  # fmt: skip
        assert trace.info.devices[0].name == "TPU"


class TestHost:
    def test_kinds(self, jax):
        trace = jax(
            *PROCESSES, STREAM, PYTHON,
            named("thread_name", "tf_XLAEigen/12", HOST, 8), named("thread_name", "Host Threads/9", HOST, 9),
            event("$train.py:10 main", 0, 100), step(0, 1, 90),
            event("my forward", 2, 50),
            event("PjitFunction(step)", 3, 40), event("Handle it", 5, 10), event("fusion.1", 16, 20),
            event("cuLaunchKernel", 17, 2, correlation_id=1), event("cudaMalloc", 20, 2),
            event("dot.4", 3, 5, tid=8, hlo_op="dot.4", hlo_module="jit_step"), event("end: dot.4", 8, 1e-06, tid=8),
            event("run work", 10, 5, tid=8), event("<UNKNOWN>", 1, 2, tid=9),
            kernel("k", 30, 5, 1, hlo_op="fusion.1", hlo_module="jit_step"),
        )  # fmt: skip
        kinds = dict(column(trace.host, "name", "kind").rows())
        assert kinds == {
            "$train.py:10 main": "python", "train": "annotation", "my forward": "annotation",
            "PjitFunction(step)": "operator", "Handle it": "operator", "fusion.1": "operator",
            "cuLaunchKernel": "driver", "cudaMalloc": "runtime", "dot.4": "operator", "end: dot.4": "overhead",
            "run work": "operator", "<UNKNOWN>": "driver",
        }  # fmt: skip
        assert trace.host["name"].cast(str).gather(trace.device["range"]).to_list() == ["my forward"]
        assert not trace.notes

    def test_calls_that_only_wait_come_last(self, jax):
        waits = ["$<unknown> acquire", "$time sleep", "$api.py:2479 block_until_ready", "$threading.py:611 wait",
                 "ThunkExecutor::Execute (wait for completion)"]  # fmt: skip
        work = ["$<unknown> join", "$queue.py:10 put", "$api.py:100 jit", "ThunkExecutor::Execute"]
        trace = jax(*PROCESSES, PYTHON, *(event(name, 10 * at, 5) for at, name in enumerate([*waits, *work])))
        rows = host_functions(select(trace))
        assert set(rows.filter("waits")["name"]) == set(waits)
        assert set(rows.filter(~pl.col("waits"))["name"]) == set(work)

    def test_operations_on_the_cpu(self, jax):
        trace = jax(
            named("process_name", "/host:CPU", HOST), PYTHON, named("thread_name", "tf_XLAPjRtCpuClient/1", HOST, 8),
            step(0, 0, 50), event("TfrtCpuExecutable::Execute", 5, 40),
            event("dot.1", 10, 9, tid=8, hlo_op="dot.1", hlo_module="jit_f", run_id=3, device_ordinal=0),
            event("tanh.2", 20, 4, tid=8, hlo_op="tanh.2", hlo_module="jit_f", run_id=3, device_ordinal=0),
            event("end: tanh.2", 24, 1e-06, tid=8),
        )  # fmt: skip
        rows = {row["name"]: row["host_self_ns"] for row in operators(select(trace)).iter_rows(named=True)}
        assert rows == {"TfrtCpuExecutable::Execute": 40_000, "dot.1": 9_000, "tanh.2": 4_000}
        assert ranges(select(trace))["name"].to_list() == ["train"]
        assert trace.device.height == 0
        assert overview(select(trace)).steps == 1


class TestSteps:
    def test_the_most_frequent_name_of_one_thread(self, jax):
        trace = jax(
            *PROCESSES, PYTHON, step(0, 0, 1000, "epoch"),
            *(step(n, 10 + 100 * n, 90) for n in range(4)), step(0, 500, 90, "eval"),
            *(step(n, 12 + 100 * n, 50, tid=8) for n in range(3)),
        )  # fmt: skip
        assert trace.steps.select("index", "name").rows() == [(0, "train"), (1, "train"), (2, "train"), (3, "train")]

    def test_nested_ones_of_a_name_count_once(self, jax):
        trace = jax(
            *PROCESSES, PYTHON, *(e for n in range(3) for e in (step(n, n * 100, 90), step(n, n * 100 + 5, 50)))
        )
        assert trace.steps["duration"].to_list() == [90_000] * 3

    def test_numbers_that_are_none(self, jax):
        trace = jax(*PROCESSES, PYTHON, step("x", 0, 10), step(7, 20, 10), event("train", 40, 10))
        assert trace.steps["index"].to_list() == [7]

    def test_without_any_the_file_is_one(self, jax):
        trace = jax(*PROCESSES, STREAM, PYTHON, event("f", 0, 10), kernel("k", 5, 10, 1))
        assert trace.steps.height == 0
        assert overview(select(trace)).average_step_ns == 10_000


class TestOperations:
    def test_without_a_host_event_of_their_name(self, jax):
        trace = jax(
            *PROCESSES, STREAM, PYTHON, event("Exec::Run", 0, 100), event("cuLaunchKernel", 10, 5, correlation_id=1),
            event("cuLaunchKernel", 20, 5, correlation_id=2),
            kernel("fusion", 30, 8, 1, hlo_op="fusion.1", hlo_module="jit_f"),
            kernel("dot", 40, 4, 2, hlo_op="dot.1", hlo_module="jit_f"),
            event("MemcpyD2H", 60, 3, GPU, 14, correlation_id=3),
        )  # fmt: skip
        rows = {row["name"]: row for row in operators(select(trace)).iter_rows(named=True)}
        times = {name: (row["device_self_ns"], row["device_total_ns"], row["kernels"]) for name, row in rows.items()}
        assert times == {
            "fusion.1": (8_000, 8_000, 1), "dot.1": (4_000, 4_000, 1), "Exec::Run": (0, 12_000, 0),
            "(not attributed)": (3_000, 3_000, 1),
        }  # fmt: skip
        assert rows["fusion.1"]["percent"] == pytest.approx(100 * 8 / 15)
        assert operators(select(trace), by_shape=True)["device_self_ns"].sum() == 15_000
        assert dict(kernels(select(trace)).select("name", "operator").rows()) == {"fusion": "fusion.1", "dot": "dot.1"}
        assert operator_kernels(select(trace), "dot.1")["name"].to_list() == ["dot"]

    def test_inside_a_host_event_of_their_name_and_outside(self, jax):
        trace = jax(
            *PROCESSES, STREAM, PYTHON, event("fusion.1", 0, 20), event("cuLaunchKernel", 2, 5, correlation_id=1),
            event("cuLaunchKernel", 30, 5, correlation_id=2),
            kernel("a", 40, 8, 1, hlo_op="fusion.1"), kernel("a", 50, 4, 2, hlo_op="fusion.1"),
        )  # fmt: skip
        row = operators(select(trace)).row(0, named=True)
        assert (row["name"], row["calls"], row["device_self_ns"], row["device_total_ns"]) == (
            "fusion.1",
            1,
            12000,
            12000,
        )

    def test_name_scopes_are_the_modules(self, jax):
        def scoped(ts, dur, scope, key="tf_op"):
            more = {} if key == "tf_op" else {"tf_op": "XlaModule:"}
            return kernel("k", ts, dur, ts, hlo_op=f"fusion.{ts}", hlo_module="jit_step", **more, **{key: scope})

        trace = jax(
            *PROCESSES, STREAM, PYTHON, event("jit_step:XLA GPU module", 0, 9),
            scoped(10, 1, "jit(step)/jit(main)/jvp(MLP)/Dense_0/dot_general:"),
            scoped(20, 2, "jit(step)/jit(main)/jvp(MLP)/Dense_1/dot_general:dot", key="name"),
            scoped(30, 4, "jit(step)/jit(main)/transpose(jvp(MLP))/Dense_1/dot_general:"),
            scoped(40, 8, "jit(step)/jit(main)/mul:"), scoped(50, 16, "XlaModule:"),
            kernel("other", 60, 32, 60),
        )  # fmt: skip
        table = modules(select(trace))
        assert table.select("path", "device_self_ns", "device_total_ns", "backward_device_ns", "kernels").rows() == [
            ("jit_step", 24_000, 27_000, 4_000, 4),
            ("jit_step/MLP", 0, 3_000, 4_000, 2),
            ("jit_step/MLP/Dense_0", 1_000, 1_000, 0, 1),
            ("jit_step/MLP/Dense_1", 2_000, 2_000, 4_000, 1),
            ("(not attributed)", 32_000, 32_000, 0, 1),
        ]
        assert table["calls"].to_list()[:2] == [1, None]
        assert table["host_total_ns"].to_list()[:2] == [9_000, None]
        assert module_kernels(select(trace), "jit_step/MLP/Dense_1")["total_ns"].to_list() == [6_000]
        assert module_kernels(select(trace), "(not attributed)")["name"].to_list() == ["other"]

    @pytest.mark.parametrize(
        ("scope", "parts", "backward"),
        [
            ("jit_f", ["jit_f"], False),
            ("jit_f/jit(f)/jit(main)/add", ["jit_f"], False),
            ("jit_f/jit(f)/jit(main)/Block_0/jit(gelu)/tanh:", ["jit_f", "Block_0", "jit(gelu)"], False),
            ("jit_f/jit(f)/vmap(transpose(jvp(Net)))/conv:Conv", ["jit_f", "Net"], True),
            ("jit_f/pjit(f)/jvp()/mul", ["jit_f"], False),
            ("jit(f)/jit(main)/mul", ["jit(f)"], False),
        ],
    )
    def test_scopes(self, scope, parts, backward):
        assert split_scope(scope)[0][: len(parts)] == parts
        assert split_scope(scope)[1] is backward


def test_a_trace_cut_at_a_million_events_says_so(jax, monkeypatch):
    monkeypatch.setattr(xla, "EVENT_LIMIT", 20)
    events = [event("f", n, 1) for n in range(20)]
    notes = jax(*PROCESSES, PYTHON, *events).notes
    assert [note.kind for note in notes] == ["missing"]
    assert "million" in notes[0].reason
    assert not jax(*PROCESSES, PYTHON, *events[:15]).notes
    assert not jax(*PROCESSES, PYTHON, *events, *events).notes


def test_nearly_all_events_take_the_fast_road(monkeypatch):
    left = []
    monkeypatch.setattr(reader, "decode", lambda pieces, tally: left.extend(pieces) or iter(()))
    path = recorded("jax/h200.trace.json.gz")
    reader.read_chrome(path)
    kinds = [json.loads(text)["ph"] for _, text in left]
    assert kinds.count("X") < 10


def test_both_roads_read_the_same(jax, monkeypatch):
    events = [
        *PROCESSES, STREAM, PYTHON, step(0, 0.5, 98.123456789012),
        *(event("cuLaunchKernel", n, 0.94699999999999995, correlation_id=n) for n in range(1, 40)),
        *(kernel("k\u00e9\\n", 50 + n, 0.5, n, hlo_op="fusion.1", hlo_module="jit_f", tf_op=f"a/b/\"c\"{n}:")
          for n in range(1, 40)),
        event("MemcpyH2D", 95, 1, GPU, 14, correlation_id="12x", memcpy_details=""),
        event("Memset", 96, 1, GPU, 14, memset_details="kind:device num_bytes:8", cuda_graph_node_id="-5"),
    ]  # fmt: skip
    careful = []
    decode = reader.decode
    monkeypatch.setattr(reader, "decode", lambda pieces, tally: decode(careful.extend(pieces) or pieces, tally))
    fast = jax(*events)
    assert len(careful) < 10
    assert [note.reason for note in fast.notes] == ["unreadable value of 'correlation' read as unknown"]

    def refuse(chunk):
        raise Irregular("told to")

    monkeypatch.setattr(reader, "scan", refuse)
    slow = jax(*events)
    for frame in ("steps", "host", "device"):
        assert (
            getattr(slow, frame).drop("offset", strict=False).equals(getattr(fast, frame).drop("offset", strict=False))
        )
