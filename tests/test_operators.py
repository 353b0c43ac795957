"""Operators: times call by call, attribution, recursion, groups, and where torch-tb-profiler's rules differ."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from other_definitions import OURS, TORCH_TB
from other_definitions import operators as operators_by
from sample_runs import FP32
from tui_pilot import opened, press, screen_text

from tracetui.analysis.attribution.calltree import CallTree, call_tree
from tracetui.analysis.modules import modules
from tracetui.analysis.operators import (
    NOT_ATTRIBUTED,
    group_operator_kernels,
    group_operators,
    known_groupings,
    operator_groups,
    operators,
)
from tracetui.analysis.selection import Scope, select
from tracetui.parsers import Source, Trace, TraceInfo, schema

Recording = Callable[[str], Trace]

DDP = "chrome/ddp_vit_small_2ranks/rank0.pt.trace.json.gz"
VIM = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"
CONTROL = "chrome/hta_trace_diff/control.json.gz"
API = ("runtime", "driver")
WORK = ["kernel", "memcpy", "memset", "graph"]


def made_trace(path: Path, calls: list[tuple[str, str, int, int, int | None]]) -> Trace:
    """A trace of host calls on one thread: kind, name, start, end, parent."""
    host = pl.DataFrame(
        {
            "kind": [call[0] for call in calls],
            "name": [call[1] for call in calls],
            "start": [call[2] for call in calls],
            "duration": [call[3] - call[2] for call in calls],
            "process": [1] * len(calls),
            "thread": [1] * len(calls),
            "parent": [call[4] for call in calls],
        }
    )
    missing = [pl.lit(None, dtype).alias(name) for name, dtype in schema.HOST.items() if name not in host.columns]
    host = host.with_columns(missing).select(*schema.HOST).cast(schema.HOST)  # type: ignore[arg-type]
    return Trace(host=host, info=TraceInfo("chrome", "made"), source=Source(path, 0))


def by_hand(trace: Trace) -> dict[str, dict[str, int]]:
    """Each operator's times by walking up from every event, one at a time."""
    host = trace.host.select("kind", "name", "start", "duration", "parent").cast({"name": pl.String}).rows(named=True)
    device = trace.device.filter(pl.col("kind").is_in(WORK))
    table: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))

    def nearest(row: int | None, kinds: tuple[str, ...]) -> int | None:
        while row is not None and host[row]["kind"] not in kinds:
            row = host[row]["parent"]
        return row

    for event in host:
        parent = event["parent"]
        if event["kind"] in ("operator", "module") or (
            event["kind"] in API and (parent is None or host[parent]["kind"] not in API)
        ):
            above = nearest(parent, ("operator", "module"))
            if above is not None and host[above]["kind"] == "operator":
                table[host[above]["name"]]["host_self_ns"] -= event["duration"]
        if event["kind"] == "operator":
            row = table[event["name"]]
            row["calls"] += 1
            row["host_self_ns"] += event["duration"]
            names = set()
            while parent is not None:
                names.add(host[parent]["name"])
                parent = host[parent]["parent"]
            row["host_total_ns"] += 0 if event["name"] in names else event["duration"]
    for operator, duration in device.select("operator", "duration").iter_rows():
        if operator is None:
            continue
        table[host[operator]["name"]]["device_self_ns"] += duration
        table[host[operator]["name"]]["kernels"] += 1
        above: int | None = operator
        names = set()
        while above is not None:
            if host[above]["kind"] == "operator":
                names.add(host[above]["name"])
            above = host[above]["parent"]
        for name in names:
            table[name]["device_total_ns"] += duration
    return table


@pytest.mark.parametrize("path", [DDP, VIM, CONTROL, "chrome/deit_small_train_bf16_bs32.pt.trace.json.gz"])
def test_operators_equal_a_walk_over_every_event(recording: Recording, path: str) -> None:
    trace = recording(path)
    expected = by_hand(trace)
    frame = operators(select(trace)).filter(pl.col("name") != NOT_ATTRIBUTED)
    assert set(frame["name"]) == set(expected)
    columns = ("calls", "host_self_ns", "host_total_ns", "device_self_ns", "device_total_ns", "kernels")
    for row in frame.iter_rows(named=True):
        assert {c: row[c] for c in columns} == {c: expected[row["name"]][c] for c in columns}, row["name"]


@pytest.mark.parametrize("path", [DDP, VIM, CONTROL])
def test_device_time_adds_up(recording: Recording, path: str) -> None:
    trace = recording(path)
    frame = operators(select(trace))
    spent = trace.device.filter(pl.col("kind").is_in(WORK))["duration"].sum()
    assert frame["device_self_ns"].sum() == spent
    assert frame["percent"].sum() == pytest.approx(100)
    by_shape = operators(select(trace), by_shape=True)
    assert by_shape["device_self_ns"].sum() == spent
    assert by_shape["calls"].sum() == frame["calls"].sum()


def test_what_no_operator_launched_is_a_row(recording: Recording) -> None:
    trace = recording(CONTROL)
    lost = operators(select(trace)).filter(pl.col("name") == NOT_ATTRIBUTED).row(0, named=True)
    device = trace.device.filter(pl.col("kind").is_in(WORK) & pl.col("operator").is_null())
    assert (lost["kernels"], lost["device_self_ns"]) == (device.height, device["duration"].sum())
    assert lost["kernels"] == 48  # 0.5 % of 9450 activities: the 99.5 % that are linked are in docs/metrics.md


def test_steps_restrict_calls_and_kernels(recording: Recording) -> None:
    trace = recording(VIM)
    whole, one = operators(select(trace)), operators(select(trace, Scope(steps=(2, 2))))
    calls = dict(whole.select("name", "calls").iter_rows())
    assert dict(one.select("name", "calls").iter_rows())["aten::mm"] * 3 == calls["aten::mm"] == 576
    assert one["kernels"].sum() * 3 == whole.filter(pl.col("device_self_ns") > 0)["kernels"].sum()


def test_a_call_inside_its_own_name_counts_once_in_the_total(tmp_path: Path) -> None:
    calls = [
        ("operator", "aten::f", 0, 100, None),
        ("operator", "aten::g", 10, 90, 0),
        ("operator", "aten::f", 20, 60, 1),
        ("runtime", "cudaLaunchKernel", 30, 35, 2),
    ]
    rows = {r["name"]: r for r in operators(select(made_trace(tmp_path, calls))).iter_rows(named=True)}
    assert (rows["aten::f"]["calls"], rows["aten::f"]["host_total_ns"]) == (2, 100)
    assert (rows["aten::f"]["host_self_ns"], rows["aten::g"]["host_self_ns"]) == (20 + 35, 40)
    theirs = operators_by(select(made_trace(tmp_path, calls)), conventions=TORCH_TB).filter(pl.col("name") == "aten::f")
    assert theirs["host_total_ns"].item() == 140


def test_torch_tb_merges_an_only_child_of_the_same_name(tmp_path: Path) -> None:
    calls = [("operator", "aten::f", 0, 100, None), ("operator", "aten::f", 10, 90, 0), ("operator", "g", 20, 30, 1)]
    trace = made_trace(tmp_path, calls)
    ours, theirs = (
        operators_by(select(trace), conventions=conventions).filter(pl.col("name") == "aten::f").row(0, named=True)
        for conventions in (OURS, TORCH_TB)
    )
    assert (ours["calls"], ours["host_self_ns"]) == (2, 20 + 70)
    assert (theirs["calls"], theirs["host_self_ns"], theirs["host_total_ns"]) == (1, 90, 100)


def test_operators_have_no_device_time_by_external_id_where_it_is_the_correlation(recording: Recording) -> None:
    """2022-08 to 2024-02: torch-tb-profiler's operators launch nothing there, ours 99.5 % of the activities."""
    sel = select(recording(CONTROL))
    theirs, ours = operators_by(sel, conventions=TORCH_TB), operators(sel)
    attributed = [frame.filter(pl.col("name") != NOT_ATTRIBUTED)["kernels"].sum() for frame in (theirs, ours)]
    assert attributed == [0, 9402]


def test_driver_launches_belong_to_their_operator(recording: Recording) -> None:
    """`cuLaunchKernel` (Triton, cuBLASLt): 219 kernels of this run, 9.8 % of its device time, are nobody's there."""
    sel = select(recording(VIM))
    theirs, ours = operators_by(sel, conventions=TORCH_TB), operators(sel)
    lost = theirs.filter(pl.col("name") == NOT_ATTRIBUTED).row(0, named=True)
    assert (lost["kernels"], round(lost["percent"], 2)) == (219, 9.76)
    assert ours.filter(pl.col("name") == NOT_ATTRIBUTED).is_empty()
    # the layer norm is a Triton kernel
    assert "LayerNormFn" in set(ours.filter(pl.col("kernels") > 0)["name"])
    assert "LayerNormFn" not in set(theirs.filter(pl.col("kernels") > 0)["name"])


def test_an_empty_trace_has_no_operators(tmp_path: Path) -> None:
    trace = Trace.empty(TraceInfo("chrome", "made"), Source(tmp_path, 0))
    for by_shape in (False, True):
        assert operators(select(trace), by_shape).is_empty()


@pytest.mark.parametrize("seed", range(5))
def test_call_tree_equals_a_stack(tmp_path: Path, seed: int) -> None:
    """Random nested calls on one thread: parents, subtree sums and recursion, against a plain stack."""
    random = np.random.default_rng(seed)
    calls: list[tuple[str, str, int, int, int | None]] = []

    def fill(low: int, high: int, parent: int | None, depth: int) -> None:
        at = low
        while depth < 6 and at < high - 1 and random.random() < 0.85:
            begin = at + int(random.integers(0, 3))
            end = begin + int(random.integers(1, max(2, high - begin)))
            if end > high:
                return
            calls.append(("operator", f"f{random.integers(4)}", begin, end, parent))
            fill(begin, end, len(calls) - 1, depth + 1)
            at = end

    fill(0, 2000, None, 0)
    trace = made_trace(tmp_path, calls)
    tree = call_tree(trace.host, ("operator",))
    assert tree.parent.tolist() == [-1 if call[4] is None else call[4] for call in calls]
    values = random.integers(0, 1 << 40, len(calls))
    children, total = [0] * len(calls), values.tolist()
    outer = []
    labels = [int(call[1][1:]) for call in calls]
    for row, call in enumerate(calls):
        above, seen = call[4], False
        if above is not None:
            children[above] += int(values[row])
        while above is not None:
            total[above] += int(values[row])
            seen |= labels[above] == labels[row]
            above = calls[above][4]
        outer.append(not seen)
    assert tree.of_children(values).tolist() == children
    assert tree.with_descendants(values).tolist() == total
    assert tree.outermost(np.array(labels)).tolist() == outer


def test_outermost_of_nothing() -> None:
    none = np.empty(0, np.int64)
    assert CallTree(none, none, none, none, none).outermost(none).size == 0


RECORDINGS = (
    "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz", "chrome/gpt_small_ctx256.trace.json.gz", "jax/h200.trace.json.gz",
    "chrome/forms/torch213_cpu_mlp_modules.pt.trace.json.gz", "chrome/cudagraph_replay.trace.json.gz",
)  # fmt: skip
SUMS = ("calls", "host_self_ns", "device_self_ns", "kernels")


@pytest.mark.parametrize("path", RECORDINGS)
@pytest.mark.parametrize("by", ["module", "class"])
def test_every_grouping_adds_up_to_the_table_by_name(recording: Recording, path: str, by: str) -> None:
    sel = select(recording(path))
    table, found = operators(sel), operator_groups(sel, by)
    for column in SUMS:
        assert found[column].sum() == table[column].sum()
    assert found["group"].is_unique().all()
    parts = pl.concat(group_operators(sel, by, group).select("name", *SUMS) for group in found["group"])
    by_name = parts.group_by("name").agg(pl.col(SUMS).sum())
    for row in by_name.iter_rows(named=True):
        known = table.filter(name=row["name"])
        assert [row[column] for column in SUMS] == [known[column].sum() for column in SUMS]


def test_a_group_has_its_operators_and_they_their_kernels(training: Trace) -> None:
    sel = select(training)
    for row in operator_groups(sel, "class").iter_rows(named=True):
        inside = group_operators(sel, "class", row["group"])
        assert [inside[column].sum() for column in SUMS] == [row[column] for column in SUMS]
        assert inside["name"][0] == row["name"]
        assert inside.filter(pl.col("name") != NOT_ATTRIBUTED).height == row["operators"]
        kernels = group_operator_kernels(sel, "class", row["group"], row["name"])
        assert kernels["total_ns"].sum() <= inside["device_self_ns"][0]


def test_a_backward_operator_belongs_to_the_module_of_its_forward_one(training: Trace) -> None:
    sel = select(training)
    linear = group_operators(sel, "class", "Linear")
    assert "AddmmBackward0" in linear["name"].to_list()
    assert linear.filter(name="AddmmBackward0")["calls"].item() > 0
    backward = modules(sel).filter(pl.col("path") == NOT_ATTRIBUTED)["device_self_ns"].item()
    assert operator_groups(sel, "module").filter(group=NOT_ATTRIBUTED)["device_self_ns"].item() == backward


def test_one_step_has_its_own(training: Trace) -> None:
    first = training.steps["index"][0]
    sel = select(training, Scope(steps=(first, first)))
    assert operator_groups(sel, "module")["host_self_ns"].sum() == operators(sel)["host_self_ns"].sum() > 0


def test_only_what_is_known_is_offered(recording: Recording, training: Trace) -> None:
    assert known_groupings(select(training)) == ("name", "input_shapes", "class", "module")
    assert known_groupings(select(recording("chrome/gpt_small_ctx256.trace.json.gz"))) == ("name", "input_shapes")
    assert known_groupings(select(recording("chrome/cudagraph_replay.trace.json.gz"))) == ("name",)


async def test_b_goes_round_and_enter_goes_in():
    async with opened(FP32, tab="operators") as (app, pilot):
        whole = app.view.table.frame["device_self_ns"].sum()
        for words in ("input shape", "module class", "module"):
            await press(pilot, "b")
            assert f" Operators by {words}  steps" in screen_text(app)
            assert app.view.table.frame["device_self_ns"].sum() == whole
        group = app.view.table.current
        await press(pilot, "enter")
        assert app.view.table.frame["device_self_ns"].sum() == group["device_self_ns"]
        operator = app.view.table.current
        await press(pilot, "enter")
        assert app.view.table.frame["total_ns"].sum() == operator["device_self_ns"]
        kernel = app.view.table.current
        await press(pilot, "enter")
        assert app.view.table.frame["duration_ns"].sum() == kernel["total_ns"]
        await press(pilot, "escape", "escape", "escape", "b")
        assert " Operators  steps" in screen_text(app)


async def test_shapes_are_one_of_the_groupings():
    async with opened(FP32, tab="operators") as (app, pilot):
        await press(pilot, "v")
        assert "Operators by input shape" in screen_text(app)
        row = app.view.table.current
        await press(pilot, "enter")
        assert app.view.table.frame["total_ns"].sum() == row["device_self_ns"]
        await press(pilot, "escape", "b")
        assert "Operators by module class" in screen_text(app)
        await press(pilot, "B")
        assert "Operators by input shape" in screen_text(app)


async def test_an_unknown_grouping_is_not_offered(recording: Recording):
    async with opened(recording("chrome/cudagraph_replay.trace.json.gz").source.path, tab="kernels") as (app, pilot):
        for words in ("category", "launch shape", "stream"):
            await press(pilot, "b")
            assert f"Kernels by {words}" in screen_text(app)
