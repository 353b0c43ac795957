"""The most that a change could shorten a step: the upper bound that findings state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from tracetui.analysis.attribution.calltree import parents_of, row_ids
from tracetui.analysis.base import intervals
from tracetui.analysis.base.intervals import Intervals
from tracetui.analysis.dependencies.costs import Costs
from tracetui.analysis.dependencies.model import FITS, Model, Saved, faster_work, without_calls, without_copies
from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Evidence, Finding, Severity, Turn
from tracetui.analysis.gpu.activities import activities
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.nesting import nearest

CRITICAL_PERCENT, WARNING_PERCENT = 25.0, 5.0
"""Shares of the step from which the time at stake makes a finding critical, or a warning."""


class Gain(Struct, frozen=True):
    """The most that a step could shrink, how much of that is certain, and what it is about."""

    ns: float
    """Of the median step, at most."""
    ceiling_percent: float | None
    why: str
    """What the bound rests on, with its numbers."""
    least_ns: float | None = None
    """Of the median step, at least, as far as the host's time is known; None where nothing is."""
    sure_percent: float | None = None
    """The percentage of the step that is gained whatever recording cost the host."""
    work: Ints | None = None
    """See `Finding.work`."""
    host: Intervals | None = None
    """See `Finding.host`."""
    turn: Turn | None = None
    """See `Finding.turn`."""
    claimed: bool = True
    """Whether a finding promises it; one that does not is a remark."""
    says_sure: bool = True
    """Whether a finding says what is certain of it, which counts where findings are sorted."""

    @property
    def severity(self) -> Severity:
        """The severity that follows from the time at stake: critical only if it is certain."""
        likely = severity(self.ceiling_percent if self.claimed else None)
        return "warning" if likely == "critical" and severity(self.sure_percent) != "critical" else likely

    def finding(
        self,
        title: str,
        evidence: tuple[Evidence, ...],
        formula: str,
        *,
        severity: Severity | None = None,
        threshold: str = "",
        advice: str = "",
        next_command: str = "",
        first: bool = False,
    ) -> Finding:
        """A finding that has this gain at stake, and by default its severity."""
        return Finding(
            self.severity if severity is None else severity,
            title,
            evidence,
            formula,
            threshold,
            advice,
            next_command=next_command,
            impact_ns=self.ns if self.claimed else None,
            least_ns=self.least_ns if self.claimed else None,
            ceiling_percent=self.ceiling_percent if self.claimed else None,
            sure_percent=self.sure_percent if self.claimed and self.says_sure else None,
            first=first,
            work=self.work,
            host=self.host,
            turn=self.turn,
        )


def unclaimed(why: str) -> Gain:
    """No gain, and why none is claimed."""
    return Gain(0.0, None, why, claimed=False)


def of_share(ns: float, step_ns: float | None) -> Gain:
    """The gain of so much of each step, of which nothing else is known."""
    share = 100 * min(ns, step_ns) / step_ns if step_ns else None
    return Gain(ns, share, "", sure_percent=share, says_sure=False)


def limited(found: Gain, most_ns: float, base_ns: float, why: str) -> Gain:
    """The gain where more than `most_ns` of a step can't be saved, for a reason that the replay does not know.

    Args:
        found: what a replay gives.
        most_ns: the most that can be saved of a step.
        base_ns: the step.
        why: the reason, as the end of a sentence.
    """
    if found.ns <= most_ns:
        return found
    share = 100 * most_ns / base_ns if base_ns else None
    sure = found.sure_percent
    return replace(
        found,
        ns=most_ns,
        least_ns=None if found.least_ns is None else min(found.least_ns, most_ns),
        ceiling_percent=share,
        why=f"{found.why}; {why}",
        sure_percent=sure if sure is None or share is None else min(sure, share),
        turn=found.turn and replace(found.turn, part=found.turn.part * most_ns / found.ns),
    )


def of_the_step(found: Gain, model: Model) -> Gain:
    """The gain as the same part of the step, where the replayed step is the longer one.

    Where the host is the limit the gain is of this step already (`Model.saved`).
    """
    longest = max(end.median_ns for end in model.ends)
    if longest <= model.step_ns * (1 + FITS) or (model.clean_ns is not None and model.waits_for == "host"):
        return found
    why = f"of a replayed step of {words.ns(longest)}, and so less of this one"
    return replace(limited(found, found.ns * model.step_ns / longest, model.step_ns, why), turn=found.turn)


def severity(ceiling: float | None) -> Severity:
    """The severity of a finding that could shorten the step by this much."""
    if ceiling is None or ceiling < WARNING_PERCENT:
        return "info"
    return "critical" if ceiling >= CRITICAL_PERCENT else "warning"


def gpu_is_limit(facts: Facts) -> bool:
    """Whether the run waits for its GPU, as the overview's verdict says."""
    return facts.model is not None and facts.model.waits_for == "gpu"


def of_kernels(
    facts: Facts,
    rows: Ints,
    *,
    factor: float = 0.0,
    fewer_launches: bool = False,
    around: Ints | None = None,
    others: Sequence[tuple[Ints, float]] = (),
) -> Gain:
    """The gain if these device rows, a finding's work, took `factor` of their time, or were not launched at all.

    Work `around` them would not be launched in the bound, and `others` take a factor of their time; neither is certain.

    The dependency graph is replayed with these costs. A launch that is not made spares the host its way to it: all of
    that way is in the bound, and no more than the usual way in what is certain. Where launches were not recorded, the
    bound is the time in which nothing else runs on the GPU, and nothing of it is certain.
    """
    model = facts.model
    if model is None:
        return _alone(facts, rows, factor, launching(facts, rows) if fewer_launches else None)
    mask = _work_of(facts, rows)
    beside = None if around is None or not around.size else _work_of(facts, around)
    work = model.graph.work
    # what runs beside other chosen work takes no time of its own
    running = intervals.length(intervals.union(work.start[mask], work.end[mask]))
    spent = running / max(model.graph.steps.height, 1)

    def changed(model: Model, costs: Costs, *, at_most: bool = True) -> Costs:
        mine = _work_of(facts, rows, model)
        costs = faster_work(model.graph, costs, mine, factor, fewer_launches=fewer_launches, whole_way=at_most)
        for other, part in others if at_most else ():
            costs = faster_work(model.graph, costs, _work_of(facts, other, model), part)
        if around is None or not around.size or not at_most:
            return costs
        beside = _work_of(facts, around, model)
        return faster_work(model.graph, costs, beside, 0.0, fewer_launches=True, whole_way=True)

    saved = surely = model.saved(partial(changed, model, at_most=False))
    if fewer_launches or beside is not None or others:
        most = model.saved(partial(changed, model)).most_ns
        saved = replace(surely, most_ns=max(surely.most_ns, most))
    what = f"{words.ns(spent)} of GPU time per step" if model.graph.steps.height else f"{words.ns(spent)} of GPU time"
    if factor:
        what += f", {words.ns(spent * (1 - factor))} of it saved"
    if beside is not None:
        more = intervals.length(intervals.union(work.start[beside], work.end[beside]))
        what += f", and all {words.ns(more / max(model.graph.steps.height, 1))} of what their operators launch with it"
    if others:
        lasting = work.end - work.start
        spared = sum((1 - part) * int(lasting[_work_of(facts, other)].sum()) for other, part in others)
        what += f", and {words.ns(spared / max(model.graph.steps.height, 1))} of others that the change makes faster"
    after = " without these launches" if fewer_launches else ""
    bound = _gain(model, saved, f"{what}; ", after, surely)
    return replace(bound, work=rows, host=launching(facts, rows) if fewer_launches else None, turn=Turn(changed))


def _work_of(facts: Facts, rows: Ints, model: Model | None = None) -> Bools:
    """Marks the work of these device rows in the graph of a model, by default the verdict's."""
    chosen = np.zeros(facts.trace.device.height + 1, np.bool_)  # one more, for work that the trace lacks
    chosen[rows] = True
    of_trace = model is not None and model.sel.trace is facts.trace
    marked: Bools = chosen[model.graph.work.row if model is not None and of_trace else facts.model_rows]
    return marked


def launching(facts: Facts, rows: Ints) -> Intervals | None:
    """The host's time on its ways to the launches of these device rows and of nothing else, on the trace's clock.

    None where a faster host would gain nothing, or the launches were not recorded.
    """
    model = facts.host_model
    if model is None or gpu_is_limit(facts):
        return None
    calls, work = model.graph.calls, model.graph.work
    launched = work.call >= 0
    mine = np.isin(work.row, rows)
    number = np.diff(model.graph.first)
    others = np.bincount(work.call[launched & ~mine], minlength=number.size)
    gone = (number > 0) & (others == 0)
    return intervals.union((calls.start - calls.stretch)[gone], calls.end[gone])


def of_calls(
    facts: Facts, start: Ints, end: Ints, rows: Ints, *, may_hold_loss: bool = False, may_hold_missed: bool = False
) -> Gain:
    """The gain without these calls (or other intervals) on the host and the device rows that they launch.

    See `Model.saved` for `may_hold_loss`. With `may_hold_missed` the bound also holds the time by which the replay of
    most steps is too short: calls that do more than take their time, such as those of the driver's memory, may take it.
    """
    model, gone = facts.host_model, intervals.union(start, end)
    if model is None and facts.is_without_gpu and facts.step_ns:
        start, lasting = (facts.sel.steps[name].to_numpy() for name in ("start", "duration"))
        steps, base = intervals.union(start, start + lasting), facts.page_step.ns
        ns = facts.per_step(intervals.length(intervals.intersect(gone, steps))) * base / facts.step_ns
        share = 100 * min(ns, base) / base
        why = f"without them the step is at most {words.ns(ns)} shorter, by their part of the recorded one"
        return Gain(ns, share, why, 0.0, 0.0, host=gone)
    if model is None:
        return _alone(facts, rows, 0.0, gone)

    def work_free(model: Model, costs: Costs) -> Costs:
        return faster_work(model.graph, costs, _work_of(facts, rows, model), 0.0)

    def without(costs: Costs) -> Costs:
        return work_free(model, without_calls(model.graph, costs, gone))

    saved, after = model.saved(without, may_hold_loss=may_hold_loss), " without them"
    lacking = max(model.recorded_ns - model.replayed_ns, 0.0)
    if may_hold_missed and lacking and model.unexplained:
        saved = replace(saved, most_ns=saved.most_ns + lacking)
        after += f", at most with the {words.ns(lacking)} that the replay lacks"
    found, work = _gain(model, saved, "", after), rows if rows.size else None
    return replace(found, work=work, host=gone, turn=Turn(work_free, gone))


def of_host_rows(facts: Facts, marked: Bools) -> Gain:
    """The gain, of the page's step, without these host rows, all that is in them, and the device rows they launch."""
    host = facts.trace.host
    start, rows = host["start"].to_numpy()[marked], row_ids(facts.trace.device["launch"])
    work = np.flatnonzero(nearest(parents_of(host), marked, rows) >= 0)
    found = of_calls(facts, start, start + host["duration"].to_numpy()[marked], work)
    return found if facts.host_model is None else of_the_step(found, facts.host_model)


def of_change(
    model: Model,
    change: Callable[[Costs], Costs],
    what: str,
    host: Intervals | None,
    most: Callable[[Costs], Costs] | None = None,
) -> Gain:
    """The gain of any change of the graph's costs that spares this time of the host, at most that of `most`."""
    saved = model.saved(change)
    if most is not None:
        saved = replace(saved, most_ns=max(saved.most_ns, model.saved(most).most_ns))
    return replace(
        _gain(model, saved, "", what), host=host, turn=Turn(lambda _, costs: (most or change)(costs), only=model)
    )


def of_copies(facts: Facts, rows: Ints) -> Gain:
    """The gain if these copies took no time and nothing waited for them alone."""
    model = facts.model
    if model is None:
        return _alone(facts, rows, 0.0, None)

    def without(model: Model, costs: Costs) -> Costs:
        return without_copies(model.graph, costs, _work_of(facts, rows, model))

    found = _gain(
        model, model.saved(partial(without, model)), "", " without these copies and what waits for them alone"
    )
    return replace(found, work=rows, turn=Turn(without))


def of_host_time(facts: Facts, gone: Intervals) -> Gain:
    """The gain if the host took no time in these intervals, in which it may lose time where it is slow."""
    return of_calls(facts, *gone, np.empty(0, np.int64), may_hold_loss=True)


def _gain(model: Model, saved: Saved, before: str, after: str, surely: Saved | None = None) -> Gain:
    """States the bound, and what is certain of it.

    Args:
        model: what was replayed.
        saved: the bound.
        before: words before it.
        after: words behind it.
        surely: what is certain, where the host may be spared less than the bound supposes.
    """
    base, certain = model.step_ns, surely or saved
    if saved.most_ns > base:  # the replayed steps are longer: of this one it is the same part
        longest = max(saved.most_ns, *(model.typical(end.step_ns) for end in model.ends))
        saved = replace(saved, most_ns=saved.most_ns * base / longest)
    share = 100 * min(saved.most_ns, base) / base if base else None
    steps = f"the median of {model.step_count} steps" if model.step_count > 1 else "it"
    if model.clean_ns is None and model.sel.trace.light is not None:
        steps += f" (the rich recording's, {words.ns(base)})"  # the verdict's step is the light one
    shorter = f"{words.ns(saved.most_ns)} shorter" if saved.most_ns >= 1 else "no shorter"
    least = min(certain.least_ns, saved.most_ns)
    if saved.most_ns - least >= 1:
        by = "what recording cost the host" if model.clean_ns is None else "how fast the host is"
        shorter = f"{words.ns(least)} to {words.ns(saved.most_ns)} shorter, by {by}"
    why = f"{before}in a replay{after} {steps} is {shorter}"
    sure = 100 * min(certain.shares)
    return Gain(saved.most_ns, share, why, least, sure if share is None else min(share, sure))


def _alone(facts: Facts, rows: Ints, factor: float, host: Intervals | None) -> Gain:
    """The time in which only this work runs on the GPU, for recordings without launches."""
    about = rows if rows.size else None
    if not facts.trace.has_timeline or not facts.step_ns:
        return Gain(0.0, 0.0, "no launch of its GPU work was recorded", work=about, host=host)
    work = activities(facts.of_steps)
    mine = facts.trace.device[rows.tolist()].select("start", "duration").drop_nulls()
    start = mine["start"].to_numpy()
    chosen = intervals.union(start, start + mine["duration"].to_numpy())
    keys = set(zip(start.tolist(), (start + mine["duration"].to_numpy()).tolist(), strict=True))
    other = np.array([pair not in keys for pair in zip(work.start.tolist(), work.end.tolist(), strict=True)], np.bool_)
    alone = intervals.subtract(chosen, intervals.union(work.start[other], work.end[other]))
    base = facts.page_step.ns
    ns = facts.per_step(float(intervals.length(alone))) * (1 - factor) * base / facts.step_ns
    return Gain(
        ns,
        100 * min(ns, base) / base,
        f"{words.ns(ns)} in which nothing else runs on the GPU; no launch was recorded, so what the step gains is open",
        0.0,
        0.0,
        about,
        host,
    )
