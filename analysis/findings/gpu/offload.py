"""Rule on an optimizer that computes on the CPU what its GPU could."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tracetui.analysis.attribution.calltree import NONE, parents_of
from tracetui.analysis.attribution.place import own_frames
from tracetui.analysis.base import intervals, names
from tracetui.analysis.base.names import of_kinds
from tracetui.analysis.dependencies.model import faster_work, without_calls, without_copies
from tracetui.analysis.findings.core import basis, gain, words
from tracetui.analysis.findings.core.finding import Evidence, Finding, Query
from tracetui.analysis.findings.declared.host import S31
from tracetui.analysis.findings.declared.rule import looks_for
from tracetui.analysis.findings.gpu import kernel_kinds
from tracetui.analysis.memops import operation_name

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Intervals
    from tracetui.analysis.dependencies.costs import Costs
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.gain import Bools
    from tracetui.analysis.findings.declared.rule import Limits
BETWEEN = ("[CUDA memcpy Host-to-Device]", "[CUDA memcpy Device-to-Host]")
"""Copies between host and GPU, as `memops.operation_name` calls them."""


@looks_for(S31)
def optimizer_on_cpu(facts: Facts, limits: Limits) -> Finding | None:
    steps = kernel_kinds.optimizer(facts)
    model = facts.host_model
    if steps is None or model is None:
        return None
    spans = intervals.union(steps.start, steps.end)
    computing = _computing(facts, spans)
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
        f"Keep the optimizer on the GPU: on the CPU it takes {words.percent(share)} of {basis.recorded_span(facts)}",
        (
            Evidence("operators that launch nothing", spent, "ns", Query(steps.table, "optim")),
            Evidence("copies between host and GPU, as recorded", moved, "ns", Query("kernels:copies")),
        ),
        f"{words.part_of(spent, facts.step_ns, share)}{basis.as_recorded(facts)}; {bound.why}",
        advice="Keep the parameters that the optimizer updates on the GPU, and use fused=True: gradients then need not"
        " go to the host, nor weights back. If memory is short: 8-bit states, or offload in chunks that overlap with"
        " the backward pass.",
    )


def _computing(facts: Facts, spans: Intervals) -> Intervals:
    """When operators run in these intervals that launch nothing and wait for nothing."""
    host = facts.trace.host
    operator = of_kinds(host["kind"], "operator")
    calls = np.flatnonzero(of_kinds(host["kind"], "runtime", "driver"))
    inner = operator & names.matching(host["name"], lambda name: name.startswith("aten::"))
    outermost = own_frames(facts.trace).operator
    around = np.append(outermost, NONE)[parents_of(host)[calls]]
    launching = np.zeros(host.height + 1, np.bool_)
    launching[around] = True
    alone: Bools = inner & (outermost == np.arange(host.height)) & ~launching[:-1]
    start = host["start"].to_numpy()[alone]
    computing = intervals.union(start, start + host["duration"].to_numpy()[alone])
    return intervals.intersect(computing, spans)
