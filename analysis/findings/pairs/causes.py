"""What the difference between two runs' steps is made of: the loader, synchronisation, launching, or GPU work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.base import api_names, intervals, names
from tracetui.analysis.compare.compared_passes import RECORDED, light_pair
from tracetui.analysis.dependencies.loading import LOADING
from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.core.rule import Threshold, rule
from tracetui.analysis.gpu.activities import activities
from tracetui.analysis.gpu.steps import step_slots

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Intervals, Ints
    from tracetui.analysis.compare.step_difference import StepDifference
    from tracetui.analysis.findings.core.facts import Pair
    from tracetui.analysis.findings.core.rule import Limits
    from tracetui.analysis.selection import Selection

_ASKS = ("aten::item", "aten::_local_scalar_dense")
"""Operators that return once the GPU has done what they wait for."""
CAUSES = {
    "gpu": "GPU work",
    "loader": "the data loader",
    "synchronisation": "synchronisation",
    "launching": "launching and other work of the host",
}


@dataclass(frozen=True, slots=True)
class Causes:
    """The average step, divided among `CAUSES`: the parts add up to it exactly."""

    parts: dict[str, float]
    """ns per step."""

    @property
    def step_ns(self) -> float:
        """The average step."""
        return sum(self.parts.values())


def _waits(name: str) -> bool:
    return name in _ASKS or api_names.waits(name) or api_names.fills(name)


def causes(sel: Selection) -> Causes | None:
    """Divides the average step of a recording; None without GPU work.

    While any GPU works, that is the cause. Idle time during a wait for data is the loader's. Of the rest, an idle
    stretch that a waiting call of the host reaches into is synchronisation: the host could prepare nothing while it
    waited, and launches late. All other idle time is launching and what else the host does.
    """
    slots, work = step_slots(sel), activities(sel)
    if not slots.start.size or not work.start.size:
        return None
    everything = intervals.union(slots.start, slots.end)
    idle = intervals.subtract(everything, intervals.union(work.start, work.end))
    host = sel.trace.host
    loading = _spans(host.filter(_is_loading(host)))
    waiting = _spans(host.filter(pl.Series(names.matching(host["name"], _waits))))
    by_loader = intervals.intersect(idle, loading)
    rest = intervals.subtract(idle, loading)
    reached = intervals.covered(waiting, *rest) > 0
    whole = float(intervals.length(everything))
    split = {
        "loader": float(intervals.length(by_loader)),
        "synchronisation": float(np.sum((rest[1] - rest[0])[reached])),
        "launching": float(np.sum((rest[1] - rest[0])[~reached])),
    }
    split = {"gpu": whole - sum(split.values()), **split}
    return Causes({name: spent / slots.start.size for name, spent in split.items()})


def _is_loading(host: pl.DataFrame) -> pl.Expr:
    """The loader's own events, or else ranges named so, as for rule S5."""
    if (host["kind"] == "dataloader").any():
        return pl.col("kind") == "dataloader"
    named = pl.Series(names.matching(host["name"], lambda name: LOADING.search(name) is not None))
    return (pl.col("kind") == "annotation") & pl.lit(named)


def _spans(rows: pl.DataFrame) -> Intervals:
    start: Ints = rows["start"].to_numpy()
    return intervals.union(start, start + rows["duration"].to_numpy())


@rule(
    "D12",
    "What the difference in step time is made of",
    subject="pair",
    needs=("timeline", "gpu", "steps"),
    rests_on=("gpu", "host", "steps"),
    thresholds={"change_percent": Threshold(5, "%", "change of the average step, of A's", own=True)},
    advice="Look at the largest part first: the loader, synchronisation, launching, or GPU work.",
)
def difference_by_cause(pair: Pair, limits: Limits) -> Finding | Abstention | None:
    """Divides the average step of both runs among GPU work, the data loader, synchronisation and launching.

    The parts add up to the step, so their differences add up to its difference. Time in which a GPU works is GPU work,
    whatever the host does meanwhile; idle time goes to what the host did in it: waited for data, waited for the GPU,
    or launched and did something else. A difference that can't be told from chance is not divided.

    The steps are those of both runs' light recordings; of the runs as recorded where one has none, or where the host
    waits for data, which light recordings don't tell.
    """
    a, b, step, which = _causes_of(pair)
    if a is None or b is None or not a.step_ns:
        return Abstention("D12", "GPU work in the steps of both runs")
    delta = b.step_ns - a.step_ns
    percent = 100 * delta / a.step_ns
    if abs(percent) <= limits.change_percent or abs(delta) <= (step.noise_ns or 0.0):
        return None
    changes = {name: b.parts[name] - a.parts[name] for name in CAUSES}
    with_it = sorted(CAUSES, key=lambda name: -changes[name] if delta > 0 else changes[name])
    first = with_it[0]
    listed = ", ".join(f"{CAUSES[name]} {words.signed_ns(changes[name])}" for name in with_it)
    return Finding(
        "D12",
        "info",
        f"The {which}step is {words.ns(abs(delta))} {'longer' if delta > 0 else 'shorter'} in B, most by "
        f"{CAUSES[first]} ({words.signed_ns(changes[first])})",
        tuple(
            Evidence(
                CAUSES[name],
                f"{words.ns(a.parts[name])} became {words.ns(b.parts[name])}: {words.signed_ns(changes[name])}",
                "",
                Query("diff"),
            )
            for name in with_it
        ),
        f"{listed}: together {words.signed_ns(delta)} = {percent:+.1f} % of A's average {which}step",
        f"a change of more than {limits.change_percent:g} % of A's average step",
        _ADVICE[first],
        impact_ns=max(delta, 0.0),
    )


def _causes_of(pair: Pair) -> tuple[Causes | None, Causes | None, StepDifference, str]:
    """The parts of both runs' steps, the difference that they add up to, and what kind of steps they are."""
    found = [causes(facts.sel.recorded) for facts in (pair.a, pair.b)]
    lights = light_pair(pair.a.sel, pair.b.sel)
    if lights is not None and not any(parts is None or parts.parts["loader"] for parts in found):
        return causes(lights[0]), causes(lights[1]), pair.diff.gpu_step, "light "
    which = "" if pair.diff.compared.rests_on == RECORDED else "recorded "
    return found[0], found[1], pair.diff.recorded, which


_ADVICE = {
    "gpu": "Look at the kernels: D2, D3 and D11 say whether there are more, others or longer ones.",
    "loader": "Look at how batches are made: workers, prefetching, storage, decoding (S5 of each run).",
    "synchronisation": "Look for the calls that wait (S7 of each run, and the API calls of the Host tab).",
    "launching": "Look at what the host does between launches (S2 and S13 of each run, and the Host tab).",
}
