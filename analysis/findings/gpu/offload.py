"""Rule on what the CPU computes and the GPU could: an optimizer, or operators on the host's tensors."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracetui.analysis.attribution.calltree import parents_of, row_ids
from tracetui.analysis.attribution.operator_tree import scope_mask
from tracetui.analysis.attribution.place import own_frames
from tracetui.analysis.base import intervals, names
from tracetui.analysis.base.intervals import Intervals
from tracetui.analysis.base.names import of_kinds
from tracetui.analysis.dependencies.costs import Costs
from tracetui.analysis.dependencies.model import faster_work, without_calls, without_copies
from tracetui.analysis.findings.core import basis, gain, words
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Evidence, Finding, Query
from tracetui.analysis.findings.declared.host import S31
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.findings.gpu import kernel_kinds
from tracetui.analysis.memops import operation_name
from tracetui.parsers.arrays import Bools

BETWEEN = ("[CUDA memcpy Host-to-Device]", "[CUDA memcpy Device-to-Host]")
"""Copies between host and GPU, as `memops.operation_name` calls them."""
_SIZE = re.compile(r"\d")
LOADER = "enumerate(DataLoader)"
"""How the ranges begin in which a loader's next batch is fetched."""


@looks_for(S31)
def on_cpu(facts: Facts, limits: Limits) -> Iterator[Finding]:
    yield from filter(None, (_optimizer(facts, limits), _operators(facts, limits)))


def _optimizer(facts: Facts, limits: Limits) -> Finding | None:
    steps = kernel_kinds.optimizer(facts)
    model = facts.host_model
    if steps is None or model is None:
        return None
    spans = intervals.union(steps.start, steps.end)
    computing = intervals.intersect(_spans(facts, _alone(facts)), spans)
    spent = facts.per_step(float(intervals.length(computing)))
    share = facts.ceiling(spent)
    if share is None or share < limits.share_percent:
        return None
    device = facts.of_steps.device
    copies = device.filter(names.matching(device["name"], lambda name: operation_name(name) in BETWEEN))
    copied = np.isin(model.graph.work.row, copies["row"].to_numpy())

    def on_gpu(costs: Costs) -> Costs:
        without = without_calls(model.graph, costs, spans)
        return without_copies(model.graph, faster_work(model.graph, without, copied, 0.0), copied)

    bound = gain.of_change(model, on_gpu, " without its step on the host and the copies", spans)
    bound = gain.of_the_step(bound, model)
    moved = facts.per_step(float(copies["duration"].sum()))
    return bound.finding(
        "Keep the optimizer on the GPU: its step runs on the CPU",
        (
            Evidence("operators that launch nothing", spent, "ns", Query(steps.table, "optim")),
            Evidence("copies between host and GPU, as recorded", moved, "ns", Query("kernels:copies")),
        ),
        f"{words.part_of(spent, facts.step_ns, share)}{basis.as_recorded(facts)}; {bound.why}",
        advice="Keep the parameters that the optimizer updates on the GPU, and use fused=True: gradients then need not"
        " go to the host, nor weights back. If memory is short: 8-bit states, or offload in chunks that overlap with"
        " the backward pass.",
    )


def _operators(facts: Facts, limits: Limits) -> Finding | None:
    """Of long operators, since short ones make views and allocate; a loader's are another rule's."""
    host, model, steps = facts.trace.host, facts.host_model, kernel_kinds.optimizer(facts)
    if model is None:
        return None
    rows = _alone(facts) & scope_mask(facts.sel)
    rows &= host["duration"].fill_null(0).to_numpy() >= 1e3 * limits.each_us
    loading = names.matching(host["name"], lambda name: name.startswith(LOADER))
    start = host["start"].fill_null(0).to_numpy()
    rows &= ~intervals.contains(_spans(facts, loading), start)
    if steps is not None:
        rows &= ~intervals.contains(intervals.union(steps.start, steps.end), start)
    spent = facts.per_step(float(intervals.length(_spans(facts, rows))))
    share = facts.ceiling(spent)
    if share is None or share < limits.share_percent:
        return None
    bound = gain.of_host_rows(facts, rows)
    if (bound.ceiling_percent or 0.0) < limits.share_percent:  # the GPU had work meanwhile
        return None
    if (carrying := _carrying(facts, rows)).any():
        most = gain.of_host_rows(facts, rows | carrying)
        bound = replace(
            most,
            least_ns=bound.least_ns,
            sure_percent=bound.sure_percent,
            why=f"{most.why}; at most also without their copies",
        )
    most = host.filter(rows).group_by("name").agg(pl.col("duration").sum()).sort("duration")["name"][-1]
    return bound.finding(
        f"Compute on the GPU what {most} does on the CPU",
        (Evidence("long operators that launch nothing", spent, "ns", Query("operators", str(most))),),
        f"{words.part_of(spent, facts.step_ns, share)}{basis.as_recorded(facts)}; {bound.why}",
        advice="Make tensors where they are used (device=…, randn_like, a generator on the GPU), and move what they are"
        " made from; else do it in the loader's workers, or in a thread one step ahead.",
    )


def _carrying(facts: Facts, rows: Bools) -> Bools:
    """Which outermost operators copy to the GPU in the calls of functions in which those of these rows make tensors.

    What is computed from tensors of the host would still have to be copied, or these.
    """
    made = names.matching(facts.trace.host["input_shapes"], lambda shapes: not _SIZE.search(shapes))
    frames, device = own_frames(facts.trace), facts.trace.device
    up = names.matching(device["name"], lambda name: operation_name(name) == BETWEEN[0])
    calls = frames.operator[row_ids(device["launch"])[up & device["launch"].is_not_null().to_numpy()]]
    calls = calls[calls >= 0]
    mine = frames.frame[:-1][rows & made]
    carrying = np.zeros(rows.size, np.bool_)
    carrying[calls[np.isin(frames.frame[calls], mine[mine >= 0])]] = True
    return carrying & scope_mask(facts.sel)


def _alone(facts: Facts) -> Bools:
    """Which host rows are outermost operators that launch nothing and wait for nothing."""
    host = facts.trace.host
    operator = of_kinds(host["kind"], "operator")
    calls = np.flatnonzero(of_kinds(host["kind"], "runtime", "driver"))
    inner = operator & names.matching(host["name"], lambda name: name.startswith("aten::"))
    outermost = own_frames(facts.trace).operator
    around = outermost[parents_of(host)[calls]]
    launching = np.zeros(host.height + 1, np.bool_)
    launching[around] = True
    alone: Bools = inner & (outermost[:-1] == np.arange(host.height)) & ~launching[:-1]
    return alone


def _spans(facts: Facts, rows: Bools) -> Intervals:
    """When these host rows run."""
    start = facts.trace.host["start"].to_numpy()[rows]
    return intervals.union(start, start + facts.trace.host["duration"].to_numpy()[rows])
