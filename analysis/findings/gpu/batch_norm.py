"""Batch norms of an inference that the convolutions before them could hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tracetui.analysis.base import names
from tracetui.analysis.base.names import rows_of
from tracetui.analysis.findings.core import gain, hints, words
from tracetui.analysis.findings.core.finding import Evidence, Finding, Query
from tracetui.analysis.findings.core.rule import Threshold, rule
from tracetui.analysis.findings.gpu import kernel_kinds as kernel_sorts
from tracetui.parsers.names.kernel_makers import BATCH_NORM, BATCH_NORM_OPERATOR, BATCH_STATISTICS, TRAINS

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.gain import Bools
    from tracetui.analysis.findings.core.rule import Limits

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


@rule(
    "F20",
    "Batch norms that could be folded into convolutions",
    needs=("timeline", "gpu"),
    rests_on=("gpu", "host", "shares"),
    thresholds={"share_percent": Threshold(3, "%", "batch norms after convolutions, of kernel time", own=True)},
    advice="Fold them into the weights of the convolutions before them, once.",
)
def batch_norm_not_folded(facts: Facts, limits: Limits) -> Finding | None:
    """An inference runs batch norms as kernels of their own after convolutions.

    In inference a batch norm multiplies and adds constants of its channel, which the convolution's weights and bias can
    hold. The rule reports nothing if the recording holds a backward pass, an optimizer, or batch norms that compute
    statistics of their batch. All time of these kernels and their launches are at stake.
    """
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
        "F20",
        bound.severity,
        f"{words.things(count, 'batch norm')} {hints.per(facts)} could be folded into the convolutions before them:"
        f" {words.percent(share)} of {kernel_sorts.base(facts)}",
        (
            Evidence(f"batch norms {hints.per(facts)}", facts.per_step(spent), "ns", kernel_sorts.proof(facts, mask)),
            Evidence(f"of {kernel_sorts.base(facts)}", share, "%", Query("kernels", "norm")),
            Evidence("backward pass, optimizer, statistics", "none recorded"),
        ),
        f"{kernel_sorts.worked_out(facts, mask)}; without them: {bound.why}",
        f"above {words.percent(limits.share_percent)} of kernel time, and no training in the recording",
        facts.program.say(
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
