"""Definitions of torch-tb-profiler and HolisticTraceAnalysis, by which our own functions give these tools' numbers.

The functions behind the views run with a tool's definitions in the place of ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial, partialmethod
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import polars as pl

from tracetui.analysis import host
from tracetui.analysis import kernels as kernel_table
from tracetui.analysis import modules as module_table
from tracetui.analysis import operators as operator_table
from tracetui.analysis import overview as first_page
from tracetui.analysis.attribution.calltree import (
    NONE,
    CallTree,
    add_up,
    codes_of,
    count,
    dense,
    lanes_of,
    parents,
    row_ids,
)
from tracetui.analysis.attribution.module_tree import ModuleTree
from tracetui.analysis.attribution.operator_tree import OperatorTree, device_work, scope_mask
from tracetui.analysis.base import intervals, names
from tracetui.analysis.base.conventions import CATEGORIES, TRACETUI, Conventions
from tracetui.analysis.gpu import activities as gpu_work
from tracetui.analysis.gpu import idle
from tracetui.analysis.gpu import steps as step_bounds
from tracetui.analysis.gpu.activities import WORK, Activities, by_value
from tracetui.analysis.gpu.idle import _UNKNOWN, GAPS, _frame, _Gaps, _launch_start
from tracetui.analysis.gpu.steps import StepSlots, _extended, _whole_file
from tracetui.analysis.host import LAUNCHES, Launches
from tracetui.analysis.overview import Overview
from tracetui.analysis.selection import Selection
from tracetui.parsers import Trace, schema
from tracetui.parsers.links import lookup
from tracetui.parsers.names import kernel_names
from tracetui.parsers.nesting import LaneClock

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Intervals, Ints
    from tracetui.analysis.gpu.activities import Bools


@dataclass(frozen=True)
class Definitions:
    """A tool's; a function takes the place of ours."""

    names: Conventions = TRACETUI
    work: Callable[..., Bools] | None = None
    """Which rows count as GPU work, of the trace and those that do by ours."""
    sorts: Callable[..., tuple[Bools, Bools]] | None = None
    """Which rows communicate and which compute, of the trace, the rows and those that are kernels."""
    steps: Callable[[Trace], StepSlots] | None = None
    host: Callable[[Trace], dict[str, Intervals]] | None = None


OPERATOR, MODULE, ANNOTATION, DATALOADER, RUNTIME, DRIVER = (
    schema.HOST_KINDS.index(kind) for kind in ("operator", "module", "annotation", "dataloader", "runtime", "driver")
)
_NEVER, _EVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max
COLLECTIVES = frozenset(
    f"{library}:{operation}"
    for library in ("nccl", "gloo")
    for operation in ("broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter")
)
"""Operators that torch-tb-profiler knows as communication (`NcclOpNameSet`, `GlooOpNameSet` in profiler/trace.py)."""
TENSOR_CORE_PATTERNS = (
    "h884", "s884", "h1688", "s1688", "hmma", "i8816", "16816", "dgrad_1x1_stride_2x2", "first_layer_wgrad_kernel",
    "conv1x1", "conv2d_c1_k1", "direct_group", "xmma_implicit_gemm", "xmma_sparse_conv",
    "xmma_warp_specialized_implicit_gemm", "xmma_gemm", "xmma_sparse_gemm", "c1688",
)  # fmt: skip
"""Parts of a name by which torch-tb-profiler knows a tensor-core kernel."""


def tb_uses_tensor_cores(name: str) -> bool:
    """As torch-tb-profiler decides: fp32 ``xmma_gemm…ffma`` counts; ``nvjet``, ``tensorop``, ``tf32`` alone do not."""
    return any(pattern in name for pattern in TENSOR_CORE_PATTERNS)


def _tb_sorts(trace: Trace, device: pl.DataFrame, kernel: Bools) -> tuple[Bools, Bools]:
    """Kernels that carry the `External id` of a communication operator, none matching none; and the others."""
    marks = trace.host.filter(pl.col("kind").is_in(["operator", "annotation"])).select("name", "external_id")
    ids = marks["external_id"].filter(pl.Series(names.matching(marks["name"], COLLECTIVES.__contains__)))
    communication = kernel & device["external_id"].is_in(ids.implode(), nulls_equal=True).to_numpy()
    return communication, kernel & ~communication


def as_recorded(trace: Trace) -> Trace:
    """The trace with only the steps that its profiler marked."""
    if trace.marked_by is None:
        return trace
    none = pl.repeat(None, trace.device.height, dtype=schema.RowId, eager=True)
    return replace(
        trace, steps=trace.steps.clear(), device=trace.device.with_columns(none.alias("step")), marked_by=None
    )


def _tb_whole_file(trace: Trace) -> StepSlots:
    """Without Python's functions, where there is anything else."""
    extent = trace.host.filter(pl.col("kind").is_in(["runtime", "driver", "operator", "annotation", "dataloader"]))
    return _whole_file(replace(trace, host=extent) if extent.height else trace)


def _tb_steps(trace: Trace, *, projected: bool) -> StepSlots:
    """Steps as torch-tb-profiler finds them (`parse_steps`, `_find_device_steps`, `_update_steps_duration`)."""
    trace = as_recorded(trace)
    marks = trace.steps.select("index", "name", "start", "duration")
    if projected:
        on_gpu = trace.device.filter(pl.col("kind") == "annotation").select(
            pl.col("name").cast(pl.String).str.extract(r"^ProfilerStep#(\d+)$").cast(pl.Int64).alias("index"),
            pl.col("name").cast(pl.String),
            "start",
            "duration",
        )
        marks = pl.concat([marks, on_gpu.drop_nulls("index")]).sort("start", maintain_order=True)
    marked = marks.height > 0
    if not marked:
        operators = trace.host.filter(pl.col("kind") == "operator").select(
            "start", end=pl.col("start") + pl.col("duration")
        )
        if not operators.height:
            return _tb_whole_file(trace)
        low, high = int(operators["start"].min()), int(operators["end"].max())  # type: ignore[arg-type]
        marks = pl.DataFrame({"index": [0], "name": ["0"], "start": [low], "duration": [high - low]})
    start = marks["start"].to_numpy()
    end = start + marks["duration"].to_numpy()
    calls = trace.host.filter(pl.col("kind") == "runtime").select(
        "correlation", call="start", returned=pl.col("start") + pl.col("duration")
    )
    work = trace.device.filter(pl.col("kind").is_in(["kernel", "memcpy", "memset"])).select(
        "correlation", "start", end=pl.col("start") + pl.col("duration")
    )
    calls = calls.sort("call").drop_nulls("correlation").unique("correlation", keep="last")
    work = work.join(calls, on="correlation", how="left", maintain_order="left")
    called = work["call"].fill_null(_NEVER).to_numpy()
    # when it merges calls into steps, it leaves a step for good once a call begins after the step's end
    step = np.searchsorted(np.maximum.accumulate(end), called, side="right")
    inside = step < start.size
    at = np.minimum(step, start.size - 1)
    inside &= (start[at] <= called) & (work["returned"].fill_null(_EVER).to_numpy() <= end[at])
    step = np.where(inside, step, -1)
    counts = np.bincount(step[step >= 0], minlength=start.size)
    start, end = _extended(start, end, step, work["start"].to_numpy(), work["end"].to_numpy())
    keep = start.size
    if counts.any() and start.size > 1:
        last = int(np.flatnonzero(counts)[-1])
        keep = last if last > 0 and counts[last - 1] * 0.8 > counts[last] else last + 1
    return StepSlots(
        tuple(marks["index"].to_list()[:keep]), tuple(marks["name"].to_list()[:keep]), start[:keep], end[:keep], marked
    )


def _tb_host(trace: Trace, *, projected: bool) -> dict[str, Intervals]:
    """Host time by category (`StepParser._parse_step`), and annotations that are projected on the GPU with it."""
    kind = trace.host["kind"].to_physical().to_numpy()
    start = trace.host["start"].to_numpy()
    end = start + trace.host["duration"].to_numpy()
    steps = frozenset(as_recorded(trace).steps["name"])
    is_step = names.matching(trace.host["name"], lambda name: name in steps or name.startswith("ProfilerStep#"))
    busy = (kind == OPERATOR) | (kind == ANNOTATION) & ~is_step
    collective = busy & names.matching(trace.host["name"], COLLECTIVES.__contains__)
    chosen = {
        "runtime": kind == RUNTIME, "dataloader": kind == DATALOADER, "communication": collective,
        "cpu_exec": busy & ~collective,
    }  # fmt: skip
    ranges = {category: intervals.union(start[rows], end[rows]) for category, rows in chosen.items()}
    if projected:
        marks = trace.device.filter(pl.col("kind") == "annotation")
        start = marks["start"].to_numpy()
        end = start + marks["duration"].to_numpy()
        step = names.matching(marks["name"], lambda name: name.startswith("ProfilerStep#"))
        collective = names.matching(marks["name"], COLLECTIVES.__contains__)
        for category, rows in (("communication", collective), ("cpu_exec", ~step & ~collective)):
            own = ranges[category]
            ranges[category] = intervals.union(np.append(own[0], start[rows]), np.append(own[1], end[rows]))
    return ranges


def _tb_tensor_share(trace: Trace, kernels: Activities) -> float | None:
    """The share of kernels in its operator tree, in and outside steps (`_calculate_tc_ratio`).

    These are kernels whose runtime call, found by correlation, carries the `External id` of an operator.
    """
    operators = trace.host.filter(pl.col("kind") == "operator").select("external_id", pl.col("name").cast(pl.String))
    ids = operators.filter(~pl.col("name").str.starts_with("Optimizer."))["external_id"].drop_nulls()
    calls = trace.host.filter((pl.col("kind") == "runtime") & pl.col("external_id").is_in(ids.implode()))
    linked = kernels.frame["correlation"].is_in(calls["correlation"].drop_nulls().implode()).fill_null(value=False)
    lasting = np.where(linked.to_numpy(), kernels.end - kernels.start, 0)
    tensor = names.matching(kernels.frame["name"], tb_uses_tensor_cores)
    return 100 * int(lasting[tensor].sum()) / int(lasting.sum()) if linked.any() else None


def _tb_extras(host: pl.DataFrame, kind: Ints) -> Bools:
    """Annotations that stand in torch-tb-profiler's tree between operators (`create_operator_node`)."""
    extra = np.zeros(host.height, np.bool_)
    rows = np.flatnonzero((kind == ANNOTATION) | (kind == DATALOADER))
    extra[rows] = names.matching(
        host["name"][rows],
        lambda name: name in COLLECTIVES or name.startswith(("ProfilerStep#", "Optimizer.step", "enumerate(Data")),
    )
    return extra


def _tb_is_operator(name: str) -> bool:
    """What its operator table lists of the nodes of its tree (`is_operator_node`)."""
    left_out = {"DataParallel.forward", "DistributedDataParallel.forward"}
    return name not in left_out and not name.startswith("Optimizer.")


def _tb_calls(host: pl.DataFrame, kind: Ints, tree: CallTree) -> tuple[Ints, Ints]:
    """Rows of runtime calls and the node of each, by the `External id`; of those without, the first without one."""
    rows = np.flatnonzero(kind == RUNTIME)
    ids = host["external_id"].fill_null(NONE).to_numpy()
    module = kind[tree.rows] == MODULE
    node_ids = np.where(module, NONE, ids[tree.rows])
    node = np.where(ids[rows] > 0, lookup(node_ids, ids[rows]), NONE)
    if module.any():
        node[ids[rows] == NONE] = np.flatnonzero(module)[tree.start[module].argmin()]
    return rows, node


def _tb_merged(tree: CallTree, name: Ints, operator: Bools) -> tuple[CallTree, Ints, Bools]:
    """Merges an operator with its only child where both have the same name, as autograd's profiler does.

    Returns the tree with the children of merged nodes moved up; for each node, the node that its launches now count for
    (with one more entry, for "nowhere"); and which nodes are left. As in `remove_dup_nodes`, the child's API calls
    replace the parent's own, which are dropped.
    """
    size = tree.rows.size
    parent = tree.parent
    only = count(parent, size) == 1
    merged = (parent >= 0) & operator
    above = np.where(merged, parent, 0)
    merged &= only[above] & operator[above] & (name == name[above])
    top = np.where(merged, parent, np.arange(size))
    while not np.array_equal(top[top], top):
        top = top[top]
    place = np.append(top, NONE)
    place[parent[merged]] = NONE
    up = np.where(parent >= 0, top[np.maximum(parent, 0)], NONE)
    return CallTree(tree.rows, tree.start, tree.duration, up, tree.last), place, ~merged


def _tb_module_times(nodes: OperatorTree, tree: ModuleTree, size: int) -> dict[str, Ints]:
    """Own host time leaves out operators, own device time is that of direct operators."""
    path = np.where(nodes.module & nodes.in_scope, tree.path_of(nodes.tree.rows), NONE)
    device_total = nodes.tree.with_descendants(nodes.device_self)
    of_operators = nodes.tree.of_children(np.where(nodes.operator, device_total, 0))
    return {
        "host_self_ns": add_up(path, nodes.host_self, size),
        "device_self_ns": add_up(path, of_operators, size),
        "device_total_ns": add_up(path, device_total, size),
    }


def torch_tb(*, projected: bool = True) -> Definitions:
    """torch-tb-profiler's last source (pytorch/kineto at 041e7ce).

    Args:
        projected: whether annotations projected on the GPU count as steps and CPU time.
    """
    return Definitions(
        Conventions(tb_uses_tensor_cores, lambda _: False),
        sorts=_tb_sorts,
        steps=partial(_tb_steps, projected=projected),
        host=partial(_tb_host, projected=projected),
    )


TORCH_TB, HOST_STEPS = torch_tb(), torch_tb(projected=False)
TB_PRIORITY = ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu_exec")
"""Time that several categories claim belongs to the first of these."""


def _tb_per_step(slots: StepSlots, ranges: dict[str, Intervals]) -> pl.DataFrame:
    """Time counts twice once the first categories have filled all steps, and where no GPU computes, the CPU does."""
    start, end = slots.start, slots.end
    duration = end - start
    claimed: dict[str, Ints] = {}
    given, assigned = intervals.empty(), np.zeros(start.size, np.int64)
    for category in TB_PRIORITY:
        if int(assigned.sum()) == int(duration.sum()):
            given, assigned = intervals.empty(), np.zeros(start.size, np.int64)
        given = first_page._join(given, ranges[category])
        total = intervals.covered(given, start, end)
        claimed[category], assigned = total - assigned, total
    claimed["other"] = duration - assigned
    compute = ranges["kernel"] if ranges["kernel"][0].size else ranges["cpu_exec"]
    collective = ranges["communication"]
    return pl.DataFrame(
        {
            "index": pl.Series(slots.index, dtype=pl.Int64),
            "name": pl.Series(slots.name, dtype=pl.String),
            "start": start,
            "duration_ns": duration,
            **{f"{category}_ns": claimed[category] for category in CATEGORIES},
            "computation_ns": intervals.covered(compute, start, end),
            "collective_ns": intervals.covered(collective, start, end),
            "overlap_ns": intervals.covered(intervals.intersect(compute, collective), start, end),
        }
    )


class TbTree(OperatorTree, frozen=True, kw_only=True):
    """Its tree of operators."""

    kept: Bools
    """Nodes that stand for themselves; the others were merged into their parent."""


def operator_tree(sel: Selection, definitions: Definitions) -> TbTree:
    """As ours, with its annotations in the tree, calls found by their ids, and only children of one name merged."""
    host_frame = sel.trace.host
    kind = host_frame["kind"].to_physical().to_numpy()
    rows = np.flatnonzero((kind == OPERATOR) | (kind == MODULE) | _tb_extras(host_frame, kind))
    start, duration = (host_frame[name].to_numpy()[rows] for name in ("start", "duration"))
    lane = lanes_of(host_frame)[rows]
    order = np.lexsort((-duration, start, lane))
    rows, start, duration, lane = rows[order], start[order], duration[order], lane[order]
    clock = LaneClock(int(lane[-1]) + 1 if lane.size else 0, start, start + duration)
    parent, end = parents(lane, start, duration)
    last = np.searchsorted(clock.key(lane, start), clock.key(lane, end), side="left").astype(np.int64)
    tree = CallTree(rows, start, end - start, parent, np.maximum(last, np.arange(1, rows.size + 1)))
    node_kind = kind[tree.rows]
    name, codes = dense(codes_of(host_frame["name"])[tree.rows])
    operator = (node_kind == OPERATOR) & names.matching(host_frame["name"][tree.rows], _tb_is_operator)
    api, api_node = _tb_calls(host_frame, kind, tree)
    device = device_work(sel)
    node_of_api = np.full(host_frame.height + 1, NONE, np.int64)
    node_of_api[api] = api_node
    tree, place, kept = _tb_merged(tree, name, operator)
    api_node, device_node = place[api_node], place[node_of_api[row_ids(device["launch"])]]
    spent, size = device["duration"].fill_null(0).to_numpy(), tree.rows.size
    uses = names.matching(device["name"], tb_uses_tensor_cores)
    tensor_self = add_up(device_node, np.where(uses, spent, 0), size)
    could = names.matching(host_frame["name"][tree.rows], kernel_names.TORCH_TB_TENSOR_CORE_OPERATORS.__contains__) | (
        tensor_self > 0
    )
    return TbTree(
        tree=tree,
        name=name,
        codes=codes,
        kept=kept,
        operator=operator & kept,
        module=(node_kind == MODULE) & kept,
        in_scope=scope_mask(sel)[tree.rows],
        host_self=tree.duration
        - tree.of_children(np.where(kept, tree.duration, 0))
        - add_up(api_node, host_frame["duration"].to_numpy()[api], size),
        device_self=add_up(device_node, spent, size),
        kernels=count(device_node, size),
        tensor_core_self=tensor_self,
        eligible=tree.with_descendants((could & (node_kind == OPERATOR)).astype(np.int64)) > 0,
        device_rows=device,
        device_node=device_node,
        on_tensor_cores=uses,
    )


def _tb_memory(sel: Selection, nodes: TbTree) -> dict[str, Ints]:
    """What merged operators allocated is of the one that they were merged into."""
    with patch.object(CallTree, "nodes_of", partialmethod(_kept_nodes, nodes.kept, CallTree.nodes_of)):
        return _gpu_memory(sel, nodes)


def _kept_nodes(tree: CallTree, kept: Bools, of: Callable[[CallTree, Ints], Ints], rows: Ints) -> Ints:
    node = of(tree, rows)
    return np.where((node < 0) | kept[node], node, tree.parent[node])


_gpu_memory, _kernel_metrics = operator_table.gpu_memory, first_page._kernel_metrics


@contextmanager
def by(definitions: Definitions, sel: Selection) -> Iterator[Conventions]:
    """Our functions have these definitions meanwhile; yields what tells of tensor cores."""
    trace, steps = sel.trace, definitions.steps

    def metrics(kernels: Activities, *rest: Any) -> dict[str, float | None]:
        return {**_kernel_metrics(kernels, *rest), "tensor_core_percent": _tb_tensor_share(trace, kernels)}

    def module_frame(tree: ModuleTree, order: Ints, columns: dict[str, Ints]) -> pl.DataFrame:
        if tree.paths:
            columns |= _tb_module_times(operator_tree(sel, definitions), tree, len(tree.paths))
        return _module_frame(tree, order, columns)

    places: list[tuple[Any, str, Any]] = []
    if steps is not None:
        places += [
            (step_bounds, "_steps", steps),
            (step_bounds, "_work_span", lambda sel: steps(sel.trace)),
            (first_page, "activities", lambda sel: activities(sel, definitions)),
            (first_page, "host_ranges", definitions.host),
            (first_page, "_per_step", _tb_per_step),
            (first_page, "distinct", lambda _: []),
            (first_page, "_kernel_metrics", metrics),
            (first_page, "with_estimated_occupancy", lambda frame: frame),
            *((module, "operator_tree", lambda sel, _: operator_tree(sel, definitions))
              for module in (operator_table, module_table)),
            *((module, "tensor_cores_known", lambda _: True)
              for module in (first_page, kernel_table, operator_table)),
            (operator_table, "gpu_memory", _tb_memory),
            (CallTree, "outermost", lambda tree, _: np.ones(tree.rows.size, np.bool_)),
            (module_table, "_frame", module_frame),
        ]  # fmt: skip
    with ExitStack() as stack:
        for place in places:
            stack.enter_context(patch.object(*place))
        yield definitions.names


_module_frame = module_table._frame
OURS = Definitions()


def activities(sel: Selection, definitions: Definitions = OURS) -> Activities:
    if definitions is OURS:
        return gpu_work.activities(sel)
    frame = sel.trace.device
    chosen = frame["kind"].is_in(list(WORK)).to_numpy()
    if definitions.work is not None:
        chosen = definitions.work(sel.trace, chosen)
    frame = frame.select(gpu_work.COLUMNS).filter(chosen)
    start, kind = frame["start"].to_numpy(), frame["kind"]
    kernel, memcpy, memset = ((kind == name).to_numpy() for name in ("kernel", "memcpy", "memset"))
    communication, compute = definitions.sorts(sel.trace, frame, kernel)  # type: ignore[misc]
    return Activities(
        frame, start, start + frame["duration"].to_numpy(), kernel, compute, communication, memcpy, memset
    )


def overview(sel: Selection, definitions: Definitions = OURS) -> Overview:
    with by(definitions, sel):
        return first_page.overview(sel)


def kernels(sel: Selection, definitions: Definitions) -> pl.DataFrame:
    with by(definitions, sel) as conventions:
        return kernel_table.kernels(sel, conventions)


def operators(sel: Selection, *, by_shape: bool = False, conventions: Definitions = OURS) -> pl.DataFrame:
    with by(conventions, sel) as told:
        return operator_table.operators(sel, by_shape, told)


def tensor_core_eligible_percent(sel: Selection, definitions: Definitions) -> float | None:
    with by(definitions, sel) as conventions:
        return operator_table.tensor_core_eligible_percent(sel, conventions)


def modules(sel: Selection, definitions: Definitions) -> pl.DataFrame:
    with by(definitions, sel) as conventions:
        return module_table.modules(sel, conventions)


def gaps(sel: Selection, definitions: Definitions = OURS) -> pl.DataFrame:
    return idle.gaps(sel) if definitions is OURS else _hta_gaps(sel.trace, activities(sel, definitions))


def launches(sel: Selection, definitions: Definitions = OURS) -> Launches:
    return host.launches(sel) if definitions is OURS else host._summary(_hta_rows(sel))


# --- HolisticTraceAnalysis

HTA_LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync")
"""Calls in HTA's launch statistics (analyzers/cuda_kernel_analysis.py)."""
_HTA_COMMUNICATION = re.compile(r"nccl|hip|hccl|.*ncclKernel")
_HTA_MEMORY = re.compile(r"(hip)?Memcpy|(hip)?Memset|dma")
_HTA_NOT_COMPUTE = re.compile(r"nccl|hccl|.*Memcpy|.*Memset|dma|.*Sync|Stream Wait Event")


def hta_kernel_type(name: str) -> str:
    """HTA's kernel type of a device activity, by its name (`get_kernel_type`)."""
    if _HTA_COMMUNICATION.match(name):
        return "communication"
    if _HTA_MEMORY.match(name):
        return "memory"
    return "other" if _HTA_NOT_COMPUTE.match(name) else "computation"


def of_type(device: pl.DataFrame, kind: str) -> Bools:
    return names.matching(device["name"], lambda name: hta_kernel_type(name) == kind)


def last_step_start(trace: Trace) -> int | None:
    """When HTA's last step begins; None for a trace with fewer than two (`_filter_irrelevant_gpu_kernels`).

    It is the latest start among annotations called ProfilerStep, on the host or projected on the GPU.
    """
    marks = pl.concat(
        frame.filter(pl.col("kind") == "annotation").select(pl.col("name").cast(pl.String), "start")
        for frame in (trace.host, trace.device)
    ).filter(pl.col("name").str.contains("ProfilerStep", literal=True))
    return None if marks["name"].n_unique() < 2 else int(marks["start"].max())  # type: ignore[arg-type]


def _hta_work(trace: Trace, chosen: Bools) -> Bools:
    """Synchronisations too, of what stands on a host event that began before the last step."""
    chosen = chosen | (trace.device["kind"] == "synchronization").to_numpy()
    last = last_step_start(trace)
    if last is None:
        return chosen
    known = trace.host.filter(pl.col("start") < last)["correlation"].drop_nulls()
    kept: Bools = chosen & trace.device["correlation"].is_in(known.implode()).fill_null(value=False).to_numpy()
    return kept


def _hta_gaps(trace: Trace, work: Activities) -> pl.DataFrame:
    """From each activity's end to the next one's start, stream by stream."""
    work = work.where(work.frame["kind"].is_in(list(WORK)).to_numpy())
    if not work.start.size:
        return pl.DataFrame(schema=GAPS)
    called, gaps = np.maximum(_launch_start(trace, work), _UNKNOWN + 1), []  # work of an unknown launch may wait
    device, stream, every = work.column("device"), work.column("stream"), np.arange(work.start.size)
    for number, on in by_value(device):
        for lane, among in by_value(stream[on]):
            rows = every[on][among]
            begin, duration = work.end[rows][:-1], work.start[rows][1:] - work.end[rows][:-1]
            gaps.append(_Gaps(number, lane, begin, duration, called[rows][1:]))
    return _frame(gaps)


def _hta_rows(sel: Selection) -> pl.DataFrame:
    """A row for each pair of a call and an activity that share a correlation id."""
    last = last_step_start(sel.trace)
    host = sel.trace.host.filter(pl.col("correlation").is_not_null())
    if last is not None:
        host = host.filter(pl.col("start") < last)
    calls = host.select("correlation", "start", api=pl.col("name").cast(pl.String), cpu_ns="duration")
    named = calls.filter(pl.col("api").is_in(HTA_LAUNCHES))["correlation"].implode()
    work = activities(sel, HTA).frame.select(
        "correlation", kernel=pl.col("name").cast(pl.String), begins="start", gpu_ns="duration"
    )
    return (
        calls.filter(pl.col("correlation").is_in(named))
        .join(work, on="correlation")
        .with_columns(delay_ns=(pl.col("begins") - pl.col("start") - pl.col("cpu_ns")).clip(0))
        .select(list(LAUNCHES))
        .sort("start", maintain_order=True)
    )


HTA = Definitions(
    work=_hta_work, sorts=lambda _, device, __: (of_type(device, "communication"), of_type(device, "computation"))
)
"""HolisticTraceAnalysis 0.6.1 with its rounding to whole microseconds disabled."""
