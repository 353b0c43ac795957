"""Kernel, operator and module tables against what torch-tb-profiler's last source printed.

The functions behind our own views, run under its conventions. A rounded value may differ by half a unit of its last
digit. Run as a script, this prints the table of benchmarks/accuracy.md.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from other_definitions import TORCH_TB, as_recorded, kernels, modules, operators, tensor_core_eligible_percent
from other_tools import kernel_configurations, operator_memory
from sample_runs import recorded, run_of

from tracetui.analysis.kernels import NOT_ATTRIBUTED
from tracetui.analysis.selection import select
from tracetui.parsers import Trace

DOCS = Path(__file__).resolve().parents[1] / "benchmarks" / "accuracy.md"
GOLDENS = {
    "vim_tiny_fp32_bs4": "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz",
    "vim_tiny_fp16_bs4": "chrome/vim_tiny_fp16_bs4.pt.trace.json.gz",
    "gpt_small_ctx256": "chrome/gpt_small_ctx256.trace.json.gz",
    "deit_small_train_bf16_bs32": "chrome/deit_small_train_bf16_bs32.pt.trace.json.gz",
    "ddp_rank0": "chrome/ddp_vit_small_2ranks/rank0.pt.trace.json.gz",
    "ddp_rank1": "chrome/ddp_vit_small_2ranks/rank1.pt.trace.json.gz",
    "resnet50_nw0_steps5-10": "chrome/kineto_samples/resnet50_num_workers_0.pt.trace.json.gz",
    "resnet50_nw4_steps5-10": "chrome/kineto_samples/resnet50_num_workers_4.pt.trace.json.gz",
    "hta_trace_diff_control": "chrome/hta_trace_diff/control.json.gz",
    "hta_trace_diff_test": "chrome/hta_trace_diff/test.json.gz",
    "torch213_cpu_mlp": "chrome/forms/torch213_cpu_mlp_modules.pt.trace.json.gz",
}
ONLY_OURS = {"torch213_cpu_mlp": (6, 7)}
"""Operators (and operators by input) that it loses: where a trace has modules, it takes all backward operators out of
the tree and puts back those whose forward operator ran in a module. The loss of this run is a function: its
``NllLossBackward0``, ``LogSoftmaxBackward0``, the two ``evaluate_function`` around them, ``aten::nll_loss_backward``,
``aten::_log_softmax_backward_data`` and one shape of ``aten::zero_`` inside them are gone.
"""
WHOLE = 0.5 + 1e-6
"""µs: the golden's times are whole."""
FLOAT_RATIO = 3e-6
"""Its kernel times are differences of float64 times of day in µs, 1 ns coarse."""
TWO_DIGITS = 0.005 + 1e-6
HOST_TIME, DEVICE_TIME = 0.01, 0.02
"""µs, of sums over many such differences."""


@dataclass
class Tally:
    """Values compared so far."""

    values: int = 0
    rounded: int = 0
    worst_rounded: float = 0.0
    """The largest difference of a rounded value, as a part of what rounding allows."""
    worst_time: float = 0.0
    """The largest of any other time, µs."""
    misses: list[str] = field(default_factory=list)

    def same(self, what: str, ours: object, golden: object) -> None:
        self.values += 1
        if ours != golden:
            self.misses.append(f"{what}: {ours!r}, golden {golden!r}")

    def close(self, what: str, ours: float | None, golden: float, tolerance: float) -> None:
        self.values += 1
        off = abs((ours or 0.0) - golden)
        if tolerance in (WHOLE, TWO_DIGITS):
            self.rounded += 1
            self.worst_rounded = max(self.worst_rounded, off / tolerance)
        elif tolerance in (HOST_TIME, DEVICE_TIME):
            self.worst_time = max(self.worst_time, off)
        if off > tolerance:
            self.misses.append(f"{what}: {ours!r}, golden {golden!r}")

    def settle(self) -> None:
        assert self.values
        assert not self.misses, f"{len(self.misses)} of {self.values} differ: " + "; ".join(self.misses[:8])


@dataclass(frozen=True)
class Case:
    name: str
    trace: Trace
    golden: dict[str, Any]


@cache
def case_of(name: str) -> Case:
    golden = json.loads(recorded(f"golden/tb_plugin/{name}.tb.json").read_text())
    return Case(name, run_of(GOLDENS[name]).traces[0], golden)


def yes(value: bool) -> str:
    return "Yes" if value else "No"


def us(ns: float | None) -> float:
    return (ns or 0) / 1000


def compare_kernels(tally: Tally, case: Case) -> None:
    frame = kernels(select(case.trace), TORCH_TB)
    tally.same("rows", frame.height, case.golden["kernel_table_n"])
    tally.same("calls", frame["calls"].sum(), case.golden["kernel_table_total_calls"])
    ours = {row["name"]: row for row in frame.iter_rows(named=True)}
    for name, tensor, calls, total, mean, longest, shortest, blocks, occupancy in (
        case.golden["kernel_table_top20"] or ()
    ):
        row = ours[name]
        tally.same(name, (yes(row["tensor_cores"]), row["calls"]), (tensor, calls))
        for column, value in (("total", total), ("mean", mean), ("max", longest), ("min", shortest)):
            tally.close(f"{column} of {name}", us(row[f"{column}_ns"]), value, WHOLE)
        tally.close(f"blocks of {name}", row["blocks_per_sm"], blocks, TWO_DIGITS)
        tally.close(f"occupancy of {name}", row["occupancy_percent"], occupancy, TWO_DIGITS)
    if case.golden["gpu"]["tc_used_ratio"] is not None:
        used = frame.filter("tensor_cores")["total_ns"].sum() / frame["total_ns"].sum()
        tally.close("tensor-core share", used, case.golden["gpu"]["tc_used_ratio"], 1e-9)


def compare_configurations(tally: Tally, case: Case) -> None:
    frame = configurations(case.trace)
    ours = {
        (row["name"], row["operator"], row["grid"], row["block"], row["registers"] or 0, row["shared_memory"] or 0): row
        for row in frame.iter_rows(named=True)
    }
    for name, operator, grid, block, registers, shared, tensor, eligible, calls, *times in golden_configurations(case):
        row = ours.get((name, operator, grid, block, registers, shared))
        tally.same(f"{name} by {operator}", row is not None, True)
        if row is None:
            continue
        tally.same(
            f"{name} by {operator}",
            (yes(row["tensor_cores"]), yes(row["tensor_core_eligible"]), row["calls"]),
            (tensor, eligible, calls),
        )
        for column, value in zip(("total", "mean", "max", "min"), times, strict=False):
            tally.close(f"{column} of {name} by {operator}", us(row[f"{column}_ns"]), value, WHOLE)
        tally.close(f"blocks of {name}", row["blocks_per_sm"], times[4], TWO_DIGITS)
        tally.close(f"occupancy of {name}", row["occupancy_percent"], times[5], TWO_DIGITS)
    tally.same("rows", len(ours), case.golden["kernel_op_table_n"])


def golden_configurations(case: Case) -> Iterator[tuple[Any, ...]]:
    for name, operator, grid, block, registers, shared, *rest in case.golden["kernel_op_table_top20"] or ():
        sizes = ("x".join(map(str, json.loads(size))) for size in (grid, block))
        yield (name, operator, *sizes, int(registers), int(shared), *rest)


def configurations(trace: Trace) -> pl.DataFrame:
    """Its rows: kernels of operators, and those without a runtime call, which it hangs on the root of a thread that
    has steps; a launch whose `External id` names no operator is in none.
    """
    attributed = kernel_configurations(select(trace), TORCH_TB).filter(pl.col("operator") != NOT_ATTRIBUTED)
    if not as_recorded(trace).steps.height:
        return attributed
    by_runtime = (trace.host["kind"] == "runtime").gather(trace.device["launch"]).fill_null(value=False)
    stray = replace(trace, device=trace.device.filter(~by_runtime))
    root = kernel_configurations(select(stray), TORCH_TB).with_columns(operator=pl.lit("CallTreeRoot"))
    return pl.concat([attributed, root])


def compare_operators(tally: Tally, case: Case) -> None:
    frame = operators(select(case.trace), conventions=TORCH_TB).filter(pl.col("calls") > 0)
    tally.same("rows", frame.height - ONLY_OURS.get(case.name, (0, 0))[0], case.golden["op_table_n"])
    ours = {row["name"]: row for row in frame.iter_rows(named=True)}
    for golden in case.golden["op_table_top20"]:
        compare_operator(tally, ours.get(golden["name"]), golden, golden["name"])
    share = tensor_core_eligible_percent(select(case.trace), TORCH_TB)
    tally.close("eligible", (share or 0) / 100, case.golden["gpu"]["tc_eligible_ops_kernel_ratio"], FLOAT_RATIO)


def compare_operators_by_input(tally: Tally, case: Case) -> None:
    frame = operators(select(case.trace), by_shape=True, conventions=TORCH_TB).filter(pl.col("calls") > 0)
    tally.same("rows", frame.height - ONLY_OURS.get(case.name, (0, 0))[1], case.golden["op_table_by_input_n"])
    ours = {(row["name"], shape(row["input_shapes"])): row for row in frame.iter_rows(named=True)}
    for golden in case.golden["op_table_by_input_top20"]:
        key = (golden["name"], shape(golden["input_shape"]))
        compare_operator(tally, ours.get(key), golden, " ".join(key))


def shape(text: str | None) -> str:
    return json.dumps(json.loads(text.replace("'", '"'))) if text else "[]"


def compare_operator(tally: Tally, row: dict[str, Any] | None, golden: dict[str, Any], name: str) -> None:
    tally.same(name, row is not None, True)
    if row is None:
        return
    tally.same(name, (row["calls"], yes(row["tensor_core_eligible"])), (golden["calls"], golden["tc_eligible"]))
    for side in ("host", "device"):
        for part in ("self", "total"):
            if f"{side}_{part}_duration" in golden:
                value = golden[f"{side}_{part}_duration"]
                tally.close(f"{side} {part} of {name}", us(row[f"{side}_{part}_ns"]), value, WHOLE)
    if "tc_self_ratio" in golden:
        tally.close(f"tensor cores of {name}", row["tensor_core_percent"], golden["tc_self_ratio"], TWO_DIGITS)
        tally.close(f"tensor cores in {name}", row["tensor_core_total_percent"], golden["tc_total_ratio"], TWO_DIGITS)


def compare_memory(tally: Tally, case: Case) -> None:
    """Sizes are in KB, rounded to two digits where the tool rounds them."""
    ours = {
        (row["device"], row["name"]): row for row in operator_memory(select(case.trace), TORCH_TB).iter_rows(named=True)
    }
    memory = case.golden.get("memory") or {"stats_n": {}, "stats_top20": {}}
    tally.same("devices", {device for device, _ in ours}, set(memory["stats_n"]))
    for device, rows in memory["stats_top20"].items():
        found = sum(key[0] == device for key in ours) - ONLY_OURS.get(case.name, (0, 0))[0]
        tally.same(f"rows of {device}", found, memory["stats_n"][device])
        for name, calls, increase, self_increase, allocations, self_allocations, allocated, self_allocated in rows:
            row = ours[device, name]
            counts = (row["calls"], row["allocations"], row["self_allocations"])
            tally.same(f"{device} {name}", counts, (calls, allocations, self_allocations))
            for column, value in (
                ("increase", increase),
                ("self_increase", self_increase),
                ("allocated", allocated),
                ("self_allocated", self_allocated),
            ):
                tally.close(f"{device} {name} {column}", row[f"{column}_bytes"] / 1024, value, TWO_DIGITS)


def compare_modules(tally: Tally, case: Case) -> None:
    view = case.golden["module_view"]
    ours = {row["path"]: row for row in modules(select(case.trace), TORCH_TB).iter_rows(named=True)}
    tally.same("modules at all", bool(ours), bool(view))
    for path, golden in walk(view["data"] if view else []):
        row = ours.get(path)
        tally.same(path, row is not None and row["calls"], golden["occurences"])
        if row is not None:
            tally.close(f"host of {path}", us(row["host_total_ns"]), golden["host_duration"], HOST_TIME)
            tally.close(f"own host of {path}", us(row["host_self_ns"]), golden["self_host_duration"], HOST_TIME)
            tally.close(f"device of {path}", us(row["device_total_ns"]), golden["device_duration"], DEVICE_TIME)
            tally.close(f"own device of {path}", us(row["device_self_ns"]), golden["self_device_duration"], DEVICE_TIME)


def walk(nodes: list[dict[str, Any]], above: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for node in nodes:
        yield above + node["name"], node
        yield from walk(node["children"], f"{above}{node['name']}/")


PARTS = {
    "kernels": compare_kernels,
    "kernels by configuration": compare_configurations,
    "operators": compare_operators,
    "operators by input": compare_operators_by_input,
    "memory of operators": compare_memory,
    "modules": compare_modules,
}


@cache
def compared(name: str, part: str) -> Tally:
    tally = Tally()
    PARTS[part](tally, case_of(name))
    return tally


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", GOLDENS)
def test_matches_torch_tb_profiler(name: str, part: str) -> None:
    compared(name, part).settle()


def line(name: str) -> str:
    """The row of a recording in the table of benchmarks/accuracy.md."""
    tallies = [compared(name, part) for part in PARTS]
    values, rounded = sum(t.values for t in tallies), sum(t.rounded for t in tallies)
    time = max(t.worst_time for t in tallies)
    worst = max(t.worst_rounded for t in tallies)
    return f"| {name} | {values} | {rounded} | {worst:.3f} | {f'{time:.4f}' if time else ''} |"


def table() -> str:
    """The Markdown table of benchmarks/accuracy.md."""
    lines = [
        "| recording | values | of them rounded there | largest, in half units | largest other time, µs |",
        "|---|--:|--:|--:|--:|",
    ]
    whole = [0, 0]
    for name in GOLDENS:
        tallies = [compared(name, part) for part in PARTS]
        lines.append(line(name))
        whole = [whole[0] + sum(t.values for t in tallies), whole[1] + sum(t.rounded for t in tallies)]
    return "\n".join([*lines, f"| **all** | **{whole[0]}** | **{whole[1]}** | | |"])


@pytest.mark.parametrize("name", GOLDENS)
def test_the_docs_hold_the_row_of(name: str) -> None:
    assert line(name) in DOCS.read_text()


def test_the_docs_hold_this_table() -> None:
    assert table() in DOCS.read_text()


if __name__ == "__main__":
    print(table())
