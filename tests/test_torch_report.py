"""What a person reads off torch-tb-profiler's board: tensor cores per kernel, memory per operator, the module view."""

import gzip
import json
from collections import defaultdict
from typing import Any

import polars as pl
import pytest
from as_json import report
from laid_out import run_parts
from other_definitions import TORCH_TB
from other_definitions import modules as modules_by
from other_definitions import operators as operators_by
from sample_runs import FP16, recorded, run_of
from test_torch_tb_tables import case_of, walk

from tracetui.analysis.base.conventions import TRACETUI
from tracetui.analysis.gpu.occupancy import kernel_sums
from tracetui.analysis.modules import module_kernels, modules
from tracetui.analysis.operators import MEMORY, operators
from tracetui.analysis.selection import select
from tracetui.analysis.tables.kernels import KERNELS
from tracetui.app.reports.layout import WIDTH, Layout
from tracetui.app.reports.markdown import markdown
from tracetui.app.reports.parts import Block
from tracetui.app.reports.text import text
from tracetui.app.tables.columns import Placed
from tracetui.app.tables.trees import Mean, merged_modules, tree_rows
from tracetui.app.widgets.frame_table import FrameTable

DEIT = "chrome/deit_small_train_bf16_bs32.pt.trace.json.gz"
VIM_FP16, JAX = FP16.name, "jax/h200.trace.json.gz"


def said(name: str, *sections: str, ascii: bool = False, limit: int | None = 6) -> str:
    layout = Layout(limit, ascii, charts=False)
    return text(run_parts(report(run_of(name), sections=sections), layout), layout)


# --- tensor cores


def test_kernels_on_tensor_cores_are_marked_behind_their_time_within_80_columns() -> None:
    lines = said(VIM_FP16, "kernels", ascii=True).splitlines()
    at = lines.index("Tensor cores: 35.2 % of kernel time in 3 kernels (*); eligible operators")
    assert lines[at + 1] == "launched 36.9 %."
    table = [line for line in lines if " ms" in line and ("80_w" in line or "selective_scan" in line)]
    assert [line[:12] for line in table] == ["  2.363 ms  ", "  1.613 ms* ", "  1.424 ms* "]
    assert max(map(len, lines)) <= WIDTH


def test_the_mark_costs_the_names_nothing() -> None:
    layout = Layout(5, charts=False)
    block = next(
        part for part in run_parts(report(run_of(VIM_FP16), sections=["kernels"]), layout) if isinstance(part, Block)
    )
    kept = [number for number, column in enumerate(block.columns) if not column.wide]
    columns, cells = [block.columns[n] for n in kept], [[row[n] for n in kept] for row in block.cells]
    plain, marked = layout.table(columns, cells), layout.table(columns, cells, block.marks)
    assert [line[:10] + " " + line[11:] for line in marked] == plain


def test_markdown_has_a_column_for_tensor_cores() -> None:
    layout = Layout(2, charts=False)
    page = markdown(run_parts(report(run_of(VIM_FP16), sections=["kernels"]), layout), layout)
    assert "| Total | % | Calls | Mean | Occup% | TC | Kernel | Module |" in page
    assert "| 18.0 | no | `selective_scan_fwd_kernel` |" in page


def test_what_neither_name_nor_counter_tells_stays_unknown() -> None:
    found = report(run_of(JAX), sections=["kernels"])["run"]["traces"][0]["tensor_cores"]
    assert found["unclear"] == ["gemm_fusion_dot_1", "gemm_fusion_dot"]
    assert found["percent"] == 0
    assert found["unclear_percent"] == pytest.approx(67.99, abs=0.01)
    assert found["eligible_percent"] is None  # XLA's operations are not in torch's list
    assert "157.2 µs? " in said(JAX, "kernels")
    tree = modules(select(run_of(JAX).main))
    assert tree["tensor_core_percent"].to_list() == [None, None]


# --- memory of operators


@pytest.mark.parametrize("name", ["deit_small_train_bf16_bs32", "vim_tiny_fp16_bs4", "gpt_small_ctx256"])
def test_memory_of_operators_is_torch_tbs(name: str) -> None:
    case = case_of(name)
    frame = operators_by(select(case.trace), conventions=TORCH_TB)
    ours = {row["name"]: row for row in frame.iter_rows(named=True)}
    golden = case.golden["memory"]["stats_top20"]["GPU0"]
    assert golden
    for operator, _, increase, own_increase, _, _, allocated, own_allocated in golden:
        row = ours[operator]
        for column, value in zip(MEMORY, (own_increase, increase, own_allocated, allocated), strict=True):
            assert row[column] / 1024 == pytest.approx(value, abs=0.006), (operator, column)


def test_memory_of_operators_by_a_plain_reading_of_the_file() -> None:
    """Each allocator event belongs to the innermost operator of its thread whose time it falls into."""
    events = json.loads(gzip.decompress(recorded(DEIT).read_bytes()))["traceEvents"]
    calls = defaultdict(list)
    for event in events:
        if event.get("cat") == "cpu_op":
            calls[event["tid"]].append(event)
    own: dict[str, int] = defaultdict(int)
    for thread in calls.values():
        thread.sort(key=lambda event: (event["ts"], -event["dur"]))
    allocated = [e for e in events if e["name"] == "[memory]" and e["args"]["Device Type"] == 1]
    allocated.sort(key=lambda event: event["ts"])
    for tid, thread in calls.items():
        mine = [event for event in allocated if event["tid"] == tid]
        stack: list[Any] = []
        at = 0
        for event in mine:
            while at < len(thread) and thread[at]["ts"] <= event["ts"]:
                stack.append(thread[at])
                at += 1
            stack = [call for call in stack if call["ts"] + call["dur"] > event["ts"]]
            if stack:
                own[stack[-1]["name"]] += event["args"]["Bytes"]
    frame = operators(select(run_of(DEIT).main)).filter(pl.col("memory_self_bytes") != 0)
    assert dict(frame.select("name", "memory_self_bytes").iter_rows()) == {n: b for n, b in own.items() if b}
    assert frame.height > 20


def test_the_table_of_memory_is_sorted_as_torch_sorts_it() -> None:
    lines = said(DEIT, "operators").splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("Operators by GPU memory"))
    assert lines[at + 1].split() == ["Self", "Total", "Allocated", "Calls", "Operator"]
    assert lines[at + 2].split() == ["2.723", "GiB", "2.723", "GiB", "2.723", "GiB", "1,443", "aten::empty_strided"]


def test_memory_that_was_not_recorded_is_null() -> None:
    frame = operators(select(run_of("chrome/ddp_vit_small_2ranks").traces[0]))
    assert all(frame[name].null_count() == frame.height for name in MEMORY)
    assert "Operators by GPU memory" not in said(JAX, "operators")


# --- modules


@pytest.mark.parametrize("name", ["vim_tiny_fp32_bs4", "torch213_cpu_mlp"])
def test_operators_of_modules_are_torch_tbs(name: str) -> None:
    case = case_of(name)
    ours = {row["path"]: row["operators"] for row in modules_by(select(case.trace), TORCH_TB).iter_rows(named=True)}
    golden = {path: node["operators"] for path, node in walk(case.golden["module_view"]["data"])}
    assert golden
    assert {path: ours[path] for path in golden} == golden


def test_occupancy_and_tensor_cores_of_a_module_are_those_of_its_kernels() -> None:
    sel = select(run_of(VIM_FP16).main)
    rows = modules(sel).filter(pl.col("name").is_in(["VisionMamba_0", "Block_3", "Mamba_7", "Linear_0"]))
    assert rows.height == 4
    for row in rows.iter_rows(named=True):
        inside = module_kernels(sel, row["path"])
        spent = pl.col("total_ns")
        share = inside.select(100 * spent.filter("tensor_cores").sum() / spent.sum()).item()
        known = inside.filter(pl.col("occupancy_percent").is_not_null())
        occupancy = known.select((pl.col("occupancy_percent") * spent).sum() / spent.sum()).item()
        assert row["tensor_core_percent"] == pytest.approx(share)
        assert row["occupancy_percent"] == pytest.approx(occupancy, abs=1e-3)
    assert rows["tensor_core_percent"].n_unique() > 2


def test_instances_of_a_class_are_averaged_by_the_time_that_each_share_is_of() -> None:
    """In the blocks of this GPT the occupancy of only some kernels is known."""
    rows = report(run_of("gpt_train"), sections=["modules"])["run"]["traces"][0]["modules"]
    merged = next(node for node in merged_modules(tree_rows(rows)) if node.depth == 3 and node.base == "Linear")
    mine = [row for row in rows if row["class_name"] == "Linear" and "CausalSelfAttention" in row["path"]]
    assert len(mine) == len(merged.paths) > 1
    weights = [row["known_occupancy_us"] for row in mine]
    assert len(set(weights)) > 2
    shares = [row["occupancy_percent"] or 0 for row in mine]
    mean = sum(share * weight for share, weight in zip(shares, weights, strict=True)) / sum(weights)
    assert merged.occupancy.percent == pytest.approx(mean)
    assert mean == pytest.approx(90.36, abs=0.01)


def test_a_mean_with_an_unknown_share_is_unknown() -> None:
    mean = Mean()
    mean.add(None, 0.0)
    mean.add(50.0, 2.0)
    assert mean.percent == 50
    mean.add(None, 1.0)
    assert mean.percent is None


def test_the_module_table_in_text() -> None:
    lines = said(VIM_FP16, "modules").splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("Modules ("))
    assert lines[at + 1].split() == ["GPU", "total", "CPU", "total", "Occup%", "TC%", "Calls", "Module"]
    assert lines[at + 2].split() == ["8.637", "ms", "345.8", "ms", "21.1", "35.3", "3", "VisionMamba"]


def test_copies_are_no_kernel_time() -> None:
    device = run_of(VIM_FP16).main.device
    sums = kernel_sums(run_of(VIM_FP16).main, device, TRACETUI)
    copies = device["kind"].is_in(["memcpy", "memset"]).to_numpy()
    assert copies.any()
    assert all(values[copies].sum() == 0 for values in sums.values())


def test_the_screen_marks_a_time_in_the_gap_behind_it() -> None:
    table = FrameTable()
    table._placed = [Placed(KERNELS.field("total_ns"), 9), Placed(KERNELS.field("calls"), 5)]
    cells = ["".join(text for text, _ in table._format(0, [1_613_000, 288], [mark, ""])) for mark in ("*", "?", "")]
    assert cells == [" 1.613 ms*   288", " 1.613 ms?   288", " 1.613 ms    288"]
    table._gap = 1  # a narrow screen has one space between columns, which a sign would fill
    assert "".join(text for text, _ in table._format(0, [1_613_000, 288], ["*", ""])) == " 1.613 ms   288"
