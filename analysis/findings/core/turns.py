"""What a change still gains once others are made: gains of several findings, in turns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracetui.analysis.base import intervals
from tracetui.analysis.dependencies.costs import Costs
from tracetui.analysis.dependencies.model import Model, partly, without_calls
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Finding, Turn


def in_turns(facts: Facts, found: Sequence[Finding]) -> list[float | None]:
    """By finding: what it gains at most once those before it are made, ns; None of the first, or where it is not known.

    A change may gain less than by itself, since others gain the same, or more, since they took away what hid it.
    """
    turns = [finding.turn if finding.impact_ns else None for finding in found]
    model = facts.host_model if any(turn and (turn.gone or turn.only) is not None for turn in turns) else facts.model
    made: list[Turn] = []
    gains: list[float | None] = []
    saved, left = np.zeros(1), 0.0 if model is None else facts.page_step.ns
    for finding, turn in zip(found, turns, strict=True):
        gains.append(None)
        if turn is None or model is None or turn.only not in (None, model):
            continue
        made.append(turn)
        before, saved = saved, np.array(_saved(model, made))
        gain = finding.impact_ns or 0.0
        if len(made) > 1:
            alone = max(_saved(model, [turn]))
            more = max(float((saved - before).max()), 0.0)
            # its own gain may be of the other model, or limited; all together gain no more than the step
            gain = gains[-1] = min(more * gain / alone if alone else more, left)
        left -= gain
    return gains


def _saved(model: Model, made: Sequence[Turn]) -> Sequence[float]:
    """What these changes together save of the median step, for each host that fits it."""

    def changed(costs: Costs) -> Costs:
        gone = [turn.gone for turn in made if turn.gone is not None]
        if gone:
            costs = without_calls(model.graph, costs, intervals.union(*np.concatenate(gone, axis=1)))
        for turn in made:
            after = turn.change(model, costs)
            costs = after if turn.part == 1 else partly(costs, after, turn.part)
        return costs

    return model.saved_by_host(changed)
