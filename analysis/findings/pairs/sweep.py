"""Rules on many runs that differ in an option: what scales, what does not, and what is noise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.core.rule import Threshold, rule
from tracetui.analysis.sweeps.compare import comparisons, same_work, wrong_batches
from tracetui.analysis.sweeps.model import SIZES, shown
from tracetui.analysis.sweeps.scaling import anomalies, flat, flat_until, work_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.analysis.captures.names import Value
    from tracetui.analysis.findings.core.rule import Limits
    from tracetui.analysis.sweeps.compare import Comparison, Row
    from tracetui.analysis.sweeps.model import Point, Sweep

INVALID = "the sweep's batches are wrong (D9): its points say nothing about size"


def _step(point: Point) -> Evidence:
    """Evidence with a point's step time, which leads to its row."""
    return Evidence(point.label, point.step_ns or 0.0, "ns", Query("sweep", row=point.label))


def _within(fixed: dict[str, Value]) -> str:
    """The options that all points of a line share, in words: `` at keep 0.1``."""
    return f" at {', '.join(f'{name} {shown(value)}' for name, value in fixed.items())}" if fixed else ""


@rule(
    "D9",
    "Every point ran another batch than it names",
    subject="sweep",
    needs=("batch_seen", "steps"),
    thresholds={"batch_percent": Threshold(2, "%", "how far the batch really seen may be from the one asked for",
                                           own=True)},
    advice="Fix the benchmark, then sweep again; no conclusion about batch sizes can be drawn from this one.",
)  # fmt: skip
def invalid_sweep(sweep: Sweep, limits: Limits) -> Finding | None:
    """V1 in every row: ``throughput x latency = samples per step``, or run.json's batch, is not the batch asked for.

    If that number is the same in all rows although the batch varies, all rows did the same work, and differences
    between them are noise. (If the latency was already divided by the batch, the number is 1 everywhere as well; the
    step times are then unknown.)
    """
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
        "D9",
        "invalid" if severity == "invalid" else "warning",
        title,
        tuple(
            Evidence(
                p.label, f"{p.seen or 0:.3f} samples per step, asked {p.batch or 0:g}", "", Query("sweep", row=p.label)
            )
            for p in wrong
        ),
        formula,
        f"off by more than {limits.batch_percent:g} %",
        "Check how the benchmark builds its input: it ignores the batch option, or its data loader has a batch of its "
        "own. If the latency is per sample instead, multiply it by the batch and read the table again."
        if by_table
        else "Find where the batch gets lost between the option and the model, then sweep again.",
    )


@rule(
    "S4",
    "Size-flat step time",
    subject="sweep",
    needs=("sizes", "steps"),
    rests_on=("steps",),
    thresholds={
        "change_percent": Threshold(10, "%", "how far step times may be apart to be flat", own=True),
        "work_ratio": Threshold(2, "x", "how many times the work must grow", own=True),
    },
    advice="Small sizes cost as much as large ones: use a larger batch, or CUDA graphs or torch.compile at this size.",
)
def size_flat(sweep: Sweep, limits: Limits) -> Iterator[Finding | Abstention]:
    """Step times that stay within the limit while FLOPs at least double: launches are the bottleneck, not work.

    FLOPs come from run.json; without them, the size itself is a lower bound of how the work grows.
    """
    if same_work(sweep) is not None:
        yield Abstention("S4", INVALID)
        return
    for axis in (name for name in SIZES if name in sweep.axes):
        for fixed, points in sweep.lines(axis):
            stretch = flat(points, axis, limits.change_percent, limits.work_ratio, sweep.cv)
            if stretch is None:
                continue
            first, last = stretch[0], stretch[-1]
            times = [point.step_ns or 0.0 for point in stretch]
            counted, ratio = work_of(first, last, axis)
            what = "FLOPs" if counted else axis
            change = 100 * (max(times) / min(times) - 1)
            yield Finding(
                "S4",
                "warning",
                f"The step takes as long at {axis} {shown(last.axes[axis])} as at {shown(first.axes[axis])}"
                f"{_within(fixed)} ({words.ns(times[0])}, then {words.ns(times[-1])}): work up to there is hidden",
                tuple(_step(point) for point in stretch),
                f"{what} grow {words.number(ratio)} times, step times differ by {words.percent(change)}",
                f"less than {limits.change_percent:g} % while work grows {limits.work_ratio:g} times",
                "Something other than the work decides at these sizes, most often launches and the host: put more "
                "samples into a step, or take CUDA graphs or "
                "torch.compile(mode='reduce-overhead').",
            )


@rule(
    "D7",
    "Flat up to a size",
    subject="sweep",
    needs=("sizes", "steps"),
    rests_on=("steps",),
    thresholds={"slope": Threshold(0.2, "", "d log(step time) / d log(size); 1 is time in proportion to size",
                                   own=True)},
    advice="Below the size at which the step begins to grow, launches and the host decide: use at least that size.",
)  # fmt: skip
def flat_sweep(sweep: Sweep, limits: Limits) -> Iterator[Finding | Abstention]:
    """Computes the slope of ``log(step time)`` against ``log(size)`` between neighbours, from the smallest size on.

    The step is flat up to the last size before the slope first reaches the limit; from there it scales.
    """
    if same_work(sweep) is not None:
        yield Abstention("D7", INVALID)
        return
    for axis in (name for name in SIZES if name in sweep.axes):
        for fixed, points in sweep.lines(axis):
            found = flat_until(points, axis, limits.slope, sweep.cv)
            if found is None:
                continue
            end, slope, after = found
            end_of = f"{axis} {shown(end.axes[axis])}"
            grows = "" if after is None else f"; from there the slope is {after:.2f}"
            yield Finding(
                "D7",
                "info",
                f"Step time is flat up to {end_of}{_within(fixed)}: launches or the host decide until there",
                (_step(points[0]), _step(end)),
                f"slope of log(time) against log({axis}) from {shown(points[0].axes[axis])} to "
                f"{shown(end.axes[axis])}: {slope:.2f}{grows}",
                f"slope below {limits.slope:g}",
                f"Run at {end_of} or more where the task allows it"
                + ("; larger sizes were not tried." if after is None else "."),
            )


@rule(
    "D8",
    "A point that does not fit its neighbours",
    subject="sweep",
    needs=("sizes", "steps", "repeats"),
    rests_on=("steps",),
    thresholds={"sigmas": Threshold(3, "x", "how many standard errors of the repeats it is off", own=True)},
    advice="Measure that point again before drawing a conclusion from it.",
)
def anomaly(sweep: Sweep, limits: Limits) -> Iterator[Finding | Abstention]:
    """Finds a point that its neighbours on the same line rule out by more than three standard errors of the repeats.

    With a larger batch, the step must not get shorter and samples per second must not fall, so a point must lie between
    what its neighbours allow (for other sizes: the step must not get shorter). The deviation of repeats is pooled over
    all points, because each has only a few. Without repeats the rule can't judge.
    """
    if same_work(sweep) is not None:
        yield Abstention("D8", INVALID)
        return
    for axis in (name for name in SIZES if name in sweep.axes):
        for fixed, points in sweep.lines(axis):
            for point, bound, sigmas in anomalies(points, axis, sweep.cv or 0.0):
                if sigmas <= limits.sigmas:
                    continue
                time = point.step_ns or 0.0
                side = "longer" if time > bound else "shorter"
                yield Finding(
                    "D8",
                    "warning",
                    f"{point.label} is off its line: its step is {words.percent(100 * abs(time / bound - 1))} {side} "
                    f"than its neighbours allow{_within(fixed)}",
                    tuple(_step(p) for p in _around(points, point)),
                    f"{words.ns(time)} against {words.ns(bound)}, {words.number(sigmas)} standard errors "
                    f"({words.percent(100 * (sweep.cv or 0.0))} per run, {words.things(point.repeats, 'repeat')})",
                    f"more than {limits.sigmas:g} standard errors",
                    "Measure it again; if it stays, another algorithm or clock was chosen there: "
                    "`tracetui diff` this point against its neighbour.",
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


def _around(points: list[Point], point: Point) -> list[Point]:
    at = points.index(point)
    return points[max(at - 1, 0) : at + 2]


@rule(
    "D6",
    "Where a variant overtakes its baseline",
    subject="sweep",
    needs=("variants", "steps"),
    rests_on=("steps",),
    thresholds={"lost_percent": Threshold(10, "%", "share of the possible speed-up lost that is worth a word",
                                          own=True)},
    advice="Choose by size: the variant from the crossover on, the baseline below.",
)  # fmt: skip
def crossovers(sweep: Sweep, limits: Limits) -> Iterator[Finding | Abstention]:
    """Finds the size at which ``log(time of the baseline / time of the variant)`` changes its sign.

    The size is interpolated on a logarithmic axis; the interval is where the gain may be zero within two standard
    errors of the repeats. If the sign never changes, the finding says "no crossover in range". It also states the work
    removed (FLOPs of run.json) and how much of the possible speed-up is lost (D5).
    """
    if same_work(sweep) is not None:
        yield Abstention("D6", INVALID)
        return
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
            "D6",
            "warning" if loses else "info",
            f"{one.label}: {one.crossover.verdict}",
            tuple(evidence),
            f"time of the baseline / time of the variant: {first.speedup:.2f}"
            + (
                f" at {one.x_axis} {shown(first.x)}, {last.speedup:.2f} at {shown(last.x)}" if first is not last else ""
            ),
            "the gain changes its sign" if one.crossover.value is not None else "no change of sign within the range",
            _choice(one),
        )
