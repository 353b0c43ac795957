"""Batch norms of an inference that the convolutions before them could hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tracetui.analysis.base import names
from tracetui.analysis.base.names import rows_of
from tracetui.analysis.findings.core import gain, program, words
from tracetui.analysis.findings.core.finding import Evidence, Finding, Query
from tracetui.analysis.findings.declared.gpu import F20
from tracetui.analysis.findings.declared.rule import looks_for
from tracetui.analysis.findings.gpu import kernel_kinds as kernel_sorts
from tracetui.parsers.names.kernel_makers import BATCH_NORM, BATCH_NORM_OPERATOR, BATCH_STATISTICS, TRAINS

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.gain import Bools
    from tracetui.analysis.findings.declared.rule import Limits

BETWEEN = 2
"""Kernels between a convolution and its batch norm at most: a bias, a change of layout."""


def trains(facts: Facts) -> bool:
    """Whether anything in the recording computes gradients or updates weights."""
    kernels = facts.launches["name"]
    calls = rows_of(facts.trace.host.select("kind", "name"), "operator", "annotation")["name"]
    told = [names.matching(column, lambda name: TRAINS.search(name) is not None).any() for column in (kernels, calls)]
    return bool(any(told)) or bool(kernel_sorts.of_category(facts.launches, "optimizer").any())


def after_convolution(facts: Facts) -> Bools:
    """Marks the batch norms that directly follow a convolution on their stream."""
    launched = facts.launches
    operator = facts.trace.host["name"].gather(launched["operator"])
    norm = kernel_sorts.by_name(launched, lambda name: BATCH_NORM.search(name) is not None)
    norm |= names.matching(operator, lambda name: BATCH_NORM_OPERATOR.search(name) is not None)
    found = np.zeros(norm.size, np.bool_)
    if not norm.any():
        return found
    category = kernel_sorts.categories(launched).to_numpy()
    for rows in launched.select("device", "stream").with_row_index("at").group_by("device", "stream").agg("at")["at"]:
        on = rows.to_numpy()
        for place in np.flatnonzero(norm[on]).tolist():
            before = category[on[max(place - BETWEEN - 1, 0) : place]].tolist()[::-1]
            kinds = [kind for kind in before if kind not in ("copy", "elementwise")]
            found[on[place]] = bool(kinds) and kinds[0] == "conv"
    return found


@looks_for(F20)
def batch_norm_not_folded(facts: Facts, limits: Limits) -> Finding | None:
    mask = after_convolution(facts)
    spent, share = kernel_sorts.spent(facts, mask)
    if share is None or share <= limits.share_percent or trains(facts):
        return None
    if kernel_sorts.by_name(facts.launches, lambda name: BATCH_STATISTICS.search(name) is not None).any():
        return None
    rows = facts.launches["row"].to_numpy()[mask].astype(np.int64)
    bound = gain.of_kernels(facts, rows, fewer_launches=True)
    count = facts.per_step(int(mask.sum()))
    return Finding(
        bound.severity,
        f"{words.things(count, 'batch norm')} {program.per(facts)} could be folded into the convolutions before them:"
        f" {words.percent(share)} of {kernel_sorts.base(facts)}",
        (
            Evidence(f"batch norms {program.per(facts)}", facts.per_step(spent), "ns", kernel_sorts.proof(facts, mask)),
            Evidence(f"of {kernel_sorts.base(facts)}", share, "%", Query("kernels", "norm")),
            Evidence("backward pass, optimizer, statistics", "none recorded"),
        ),
        f"{kernel_sorts.worked_out(facts, mask)}; without them: {bound.why}",
        advice=facts.program.say(
            pytorch="model.eval(), then torch.nn.utils.fusion.fuse_conv_bn_eval for each pair (or"
            " torch.ao.quantization.fuse_modules); torch.compile does it with torch._inductor.config.freezing = True."
            " Compare the outputs.",
            other="Multiply each convolution's weights by gamma / sqrt(variance + epsilon) of its channel, and put what"
            " is left in its bias, once when the model is loaded. Compare the outputs.",
        ),
        impact_ns=bound.ns,
        ceiling_percent=bound.ceiling_percent,
        sure_percent=bound.sure_percent,
        work=rows,
        host=gain.launching(facts, rows),
    )
