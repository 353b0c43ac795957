"""Rules on many runs that differ in an option: what scales, what does not, and what is noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import wraps

from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.declared.pairs import D6, D8, D9, S4
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.sweeps.compare import (
    Comparison,
    Row,
    anomalies,
    comparisons,
    flat,
    same_work,
    work_of,
    wrong_batches,
)
from tracetui.analysis.sweeps.model import SIZES, Point, Sweep, shown

Findings = Iterator[Finding] | Abstention

INVALID = "the sweep's batches are wrong (D9): its points say nothing about size"


def _step(point: Point) -> Evidence:
    """Evidence with a point's step time, which leads to its row."""
    return Evidence(point.label, point.step_ns or 0.0, "ns", Query("sweep", row=point.label))


@looks_for(D9)
def invalid_sweep(sweep: Sweep, limits: Limits) -> Finding | None:
    wrong = wrong_batches(sweep, limits.batch_percent)
    known = [point for point in sweep.points if point.seen is not None and point.batch]
    if not wrong:
        return None
    same = same_work(sweep, limits.batch_percent)
    if same is None and len(wrong) < len(known):
        share, severity = f"{len(wrong)} of {len(known)} points ran", "warning"
    else:
        share, severity = f"All {len(known)} points ran", "invalid"
    if same is not None:
        title = f"{share} {words.number(same)} sample{'' if round(same, 2) == 1 else 's'} per step, whatever batch " \
                "they name: the sweep is invalid"  # fmt: skip
    else:
        title = f"{share} another batch than they name"
    by_table = sweep.source == "table"
    point = max(wrong, key=lambda p: abs(math.log((p.seen or 1) / (p.batch or 1))))
    if by_table and point.images_per_s and point.step_ns:
        formula = (
            f"{words.number(point.images_per_s)} samples/s x {words.ns(point.step_ns)} = {point.seen or 0:.3f} samples "
            f"a step where {point.batch or 0:g} were asked for"
        )
    else:
        formula = f"run.json's batch is {point.seen or 0:g} where {point.batch or 0:g} was asked for"
    return Finding(
        "invalid" if severity == "invalid" else "warning",
        title,
        tuple(
            Evidence(
                p.label, f"{p.seen or 0:.3f} samples per step, asked {p.batch or 0:g}", "", Query("sweep", row=p.label)
            )
            for p in wrong
        ),
        formula,
        advice="Check how the benchmark builds its input: it ignores the batch option, or its data loader has a batch"
        " of its own. If the latency is per sample instead, multiply it by the batch and read the table again."
        if by_table
        else "Find where the batch gets lost between the option and the model, then sweep again.",
    )


def _of_valid(look: Callable[[Sweep, Limits], Iterator[Finding]]) -> Callable[[Sweep, Limits], Findings]:
    """A rule on sizes, which abstains where all points did the same work."""

    @wraps(look)
    def judge(sweep: Sweep, limits: Limits) -> Findings:
        return Abstention(INVALID) if same_work(sweep) is not None else look(sweep, limits)

    return judge


def _lines(sweep: Sweep) -> Iterator[tuple[str, str, list[Point]]]:
    """Each axis along which work grows, with the points of each of its lines and what these share, in words."""
    for axis in (name for name in SIZES if name in sweep.axes):
        for fixed, points in sweep.lines(axis):
            shared = ", ".join(f"{name} {shown(value)}" for name, value in fixed.items())
            yield axis, f" at {shared}" if fixed else "", points


@looks_for(S4)
@_of_valid
def size_flat(sweep: Sweep, limits: Limits) -> Iterator[Finding]:
    for axis, within, points in _lines(sweep):
        stretch = flat(points, axis, limits.change_percent, limits.work_ratio, sweep.cv)
        if stretch is None:
            continue
        first, last = stretch[0], stretch[-1]
        times = [point.step_ns or 0.0 for point in stretch]
        counted, ratio = work_of(first, last, axis)
        what = "FLOPs" if counted else axis
        change = 100 * (max(times) / min(times) - 1)
        yield Finding(
            "warning",
            f"The step takes as long at {axis} {shown(last.axes[axis])} as at {shown(first.axes[axis])}"
            f"{within} ({words.ns(times[0])}, then {words.ns(times[-1])}): work up to there is hidden",
            tuple(_step(point) for point in stretch),
            f"{what} grow {words.number(ratio)} times, step times differ by {words.percent(change)}",
        )


@looks_for(D8)
@_of_valid
def anomaly(sweep: Sweep, limits: Limits) -> Iterator[Finding]:
    for axis, within, points in _lines(sweep):
        for point, bound, sigmas in anomalies(points, axis, sweep.cv or 0.0):
            if sigmas <= limits.sigmas:
                continue
            time = point.step_ns or 0.0
            side = "longer" if time > bound else "shorter"
            at = points.index(point)
            yield Finding(
                "warning",
                f"{point.label} is off its line: its step is {words.percent(100 * abs(time / bound - 1))} {side} "
                f"than its neighbours allow{within}",
                tuple(_step(neighbour) for neighbour in points[max(at - 1, 0) : at + 2]),
                f"{words.ns(time)} against {words.ns(bound)}, {words.number(sigmas)} standard errors "
                f"({words.percent(100 * (sweep.cv or 0.0))} per run, {words.things(point.repeats, 'repeat')})",
            )


def _choice(one: Comparison) -> str:
    """Advice which of the two to use, and at which sizes."""
    last = one.rows[-1]
    if all(row.within_noise for row in one.rows):
        return "Measure with more repeats, on a machine that does nothing else."
    if one.crossover.value is None:
        return f"In this range {one.axis} {shown(one.value if last.gain > 0 else one.base)} is the faster one."
    if last.gain < 0:
        return f"Above the crossover take {one.axis} {shown(one.base)}."
    return (
        f"Below the crossover take {one.axis} {shown(one.base)}: what the variant adds (kernels, host work) costs more "
        "there than the work that it saves."
    )


def account(row: Row) -> str:
    """Compares a variant at one size with its baseline: speed, work, and which parts of the step changed."""
    parts = [f"{row.speedup:.2f} times as fast"]
    if (work := row.work_removed_percent) is not None:
        parts.append(f"{abs(work):.1f} % {'less' if work >= 0 else 'more'} work")
    base, variant = row.base, row.variant
    if base.gpu_ns is not None and variant.gpu_ns is not None and base.step_ns and variant.step_ns:
        gpu = variant.gpu_ns - base.gpu_ns
        rest = variant.step_ns - base.step_ns - gpu
        parts.append(f"GPU work {words.signed_ns(gpu)}, the rest of the step {words.signed_ns(rest)}")
    if base.kernels is not None and variant.kernels is not None:
        parts.append(f"{variant.kernels - base.kernels:+,.0f} kernels")
    if base.busy_percent is not None and variant.busy_percent is not None:
        busy = f"{words.percent(base.busy_percent)}, then {words.percent(variant.busy_percent)}"
        parts.append(f"GPU busy under the profiler {busy}")
    return "; ".join(parts)


@looks_for(D6)
@_of_valid
def crossovers(sweep: Sweep, limits: Limits) -> Iterator[Finding]:
    for one in comparisons(sweep):
        evidence = []
        for row in one.rows[:: max(len(one.rows) - 1, 1)]:
            said = account(row)
            if row.lost_percent is not None and row.lost_percent >= limits.lost_percent:
                said += f"; {row.lost_percent:.1f} % of the speed-up that this work allows is lost"
            evidence.append(Evidence(row.variant.label, said, "", Query("sweep", row=row.variant.label)))
        first, last = one.rows[0], one.rows[-1]
        loses = any(row.gain < 0 and not row.within_noise for row in one.rows)
        yield Finding(
            "warning" if loses else "info",
            f"{one.label}: {one.crossover.verdict}",
            tuple(evidence),
            f"time of the baseline / time of the variant: {first.speedup:.2f}"
            + (
                f" at {one.x_axis} {shown(first.x)}, {last.speedup:.2f} at {shown(last.x)}" if first is not last else ""
            ),
            threshold="the gain changes its sign"
            if one.crossover.value is not None
            else "no change of sign within the range",
            advice=_choice(one),
        )
