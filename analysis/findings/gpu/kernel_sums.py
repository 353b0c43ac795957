"""Rules on all kernels together: where tuning pays, whether all are equally slow, and the most they can gain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.findings.core import gain, program, words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.declared.kernels import K12, K13, K14, K18
from tracetui.analysis.findings.declared.rule import looks_for
from tracetui.analysis.findings.gpu.kernel_facts import MOST, attained, is_beside_timeline, short, stake

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tracetui.analysis.findings.core.facts import Facts, Pair
    from tracetui.analysis.findings.core.finding import Severity
    from tracetui.analysis.findings.declared.rule import Limits

NOTHING_PERCENT = 0.05


@looks_for(K12)
def hot_spot(facts: Facts, limits: Limits) -> Finding | None:
    if is_beside_timeline(facts):
        return None
    table = facts.kernels.filter(pl.col("category") != "communication")
    whole = int(table["total_ns"].sum()) if table.height else 0
    if not whole:
        return None
    first = table.row(0, named=True)
    hot = 100 * first["total_ns"] / whole
    if hot > limits.hot_percent and table.height > 1:
        at_roof = attained(facts).get(first["name"])
        found = stake(facts, [first["name"]], min(at_roof[0] / 100, 1.0) if at_roof else 0.0)
        unsure: Severity = "warning" if at_roof is None and found.severity == "critical" else found.severity
        healthy = at_roof is not None and at_roof[0] >= limits.attained_percent
        told = f", at {words.percent(at_roof[0])} of its {at_roof[1]} roof" if at_roof else ""
        return Finding(
            "info" if healthy else unsure,
            f"{short(first['name'])} takes {words.percent(hot)} of the kernel time{told}",
            (
                Evidence("share of the kernel time", hot, "%", Query("kernels", row=first["name"])),
                Evidence("calls", first["calls"], "", Query("kernels", row=first["name"])),
                Evidence("mean duration", first["mean_ns"], "ns"),
            ),
            f"{words.ns(first['total_ns'])} of {words.ns(whole)} = {words.percent(hot)};"
            f" {'at its roof' if at_roof else 'without it'}: {found.why}",
            advice=_advice(facts, healthy=healthy),
            impact_ns=None if healthy else found.ns,
            ceiling_percent=None if healthy else found.ceiling_percent,
            work=found.rows,
        )
    top = float(table["total_ns"].head(10).sum())
    share = 100 * top / whole
    if table.height <= 10 or share >= limits.flat_percent:
        return None
    return Finding(
        "info",
        f"No hot spot: the ten longest of {table.height} kernels take {words.percent(share)} of the kernel time",
        (Evidence("ten longest kernels, of kernel time", share, "%", Query("kernels")),),
        f"{words.ns(top)} of {words.ns(whole)} = {words.percent(share)}",
        threshold=f"less than {words.percent(limits.flat_percent)}",
        advice="Tuning one kernel pays little here: fuse, do less, or give each kernel more work.",
    )


def _advice(facts: Facts, *, healthy: bool) -> str:
    """What to do about a hot spot; where the host is the limit, nothing yet, as K14 says."""
    if facts.trace.has_timeline and facts.model is not None and facts.model.waits_for == "host":
        return "Leave it until the GPU is what the step waits for: a faster kernel only makes its pauses longer."
    if healthy:
        return "Code gains little more here: fewer operations, a lower precision or a smaller model."
    return "Work on this kernel alone: its roofline and counters say how far it is from the GPU's limit."


@looks_for(K13)
def slow_alike(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    peaks = facts.roofline.peaks
    if peaks.bandwidth is None or not peaks.compute:
        return Abstention(f"the roofs: {'; '.join(peaks.unknown) or 'no peak is known'}")
    points = facts.roofline.points.filter(
        (pl.col("origin") == "shapes")
        & pl.col("attained_percent").is_not_null()
        & (pl.col("total_ns") / pl.col("launches") >= 1000 * limits.mean_us)
    )
    if points.height < limits.kernels:
        return None
    factors = points["attained_percent"].to_numpy() / 100
    median, spread = _spread(factors)
    if spread > limits.spread_percent or 100 * median > limits.attained_percent:
        return None
    return Finding(
        "warning",
        f"{words.count(points.height)} kernels all attain about {words.percent(100 * median)} of their roofs",
        (
            Evidence("median share of the roof", 100 * median, "%", Query("counters:roofline")),
            Evidence("interquartile range, of the median", spread, "%"),
            Evidence("kernels", points.height),
            Evidence("memory roof from", peaks.bandwidth.source),
        ),
        f"quartiles {words.percent(100 * float(np.quantile(factors, 0.25)))} to"
        f" {words.percent(100 * float(np.quantile(factors, 0.75)))} around {words.percent(100 * median)}: spread"
        f" {words.percent(spread)}",
        advice=(
            "Check the clock and the power mode that the run had, its temperature, and who else used the GPU; or the"
            " roofs"
            f" are those of another mode ({peaks.bandwidth.about})."
        ),
        next_command="tracetui doctor --measure-peaks",
    )


@looks_for(K18)
def slower_alike(pair: Pair, limits: Limits) -> Finding | None:
    both = pair.diff.kernels.filter((pl.col("a_calls") > 0) & (pl.col("b_calls") > 0) & (pl.col("a_ns") > 0))
    both = both.with_columns(a=pl.col("a_ns") / pl.col("a_calls"), b=pl.col("b_ns") / pl.col("b_calls"))
    both = both.filter(pl.col("a") >= 1000 * limits.mean_us)
    if both.height < limits.kernels:
        return None
    factors = (both["b"] / both["a"]).to_numpy()
    median, spread = _spread(factors)
    if spread > limits.spread_percent or abs(median - 1) * 100 < limits.change_percent:
        return None
    word = "longer" if median > 1 else "shorter"
    return Finding(
        "warning",
        f"{words.count(both.height)} kernels all take {words.number(median)} times as long in B: {word} alike",
        (
            Evidence("median of B's mean time over A's", round(median, 3), "", Query("diff")),
            Evidence("interquartile range, of the median", spread, "%"),
            Evidence("kernels", both.height),
        ),
        f"quartiles {float(np.quantile(factors, 0.25)):.3g} to {float(np.quantile(factors, 0.75)):.3g} around"
        f" {median:.3g}: spread {words.percent(spread)}",
    )


@looks_for(K14)
def amdahl(facts: Facts, limits: Limits) -> Finding | None:
    rows = facts.launches["row"].cast(pl.Int64).to_numpy()
    if facts.model is None or facts.model.waits_for != "host":
        return None
    found = gain.of_kernels(facts, rows)
    if found.ceiling_percent is None or found.ceiling_percent >= limits.ceiling_percent:
        return None
    first = facts.kernels.filter(pl.col("category") != "communication").head(MOST)["short_name"].to_list()
    step_ns = facts.model.step_ns
    return Finding(
        "info",
        f"Faster kernels can gain at most {words.percent(found.ceiling_percent)} of {program.span(facts)}, all of them"
        " together"
        if found.ceiling_percent >= NOTHING_PERCENT
        else f"Faster kernels do not shorten {program.span(facts)}: it waits for the host",
        (
            Evidence(f"kernel time {program.per(facts)}", facts.per_step(facts.kernel_ns), "ns", Query("kernels")),
            Evidence(f"time {program.per(facts)}", step_ns, "ns"),
        ),
        f"{words.ns(found.ns)} of {words.ns(step_ns)} = {words.percent(found.ceiling_percent)}; {found.why}",
        advice=(
            f"Do not tune kernels ({words.listed([str(name) for name in first])}), occupancy or precision here"
            " before the"
            " GPU stops waiting."
        ),
    )


def _spread(factors: NDArray[np.float64]) -> tuple[float, float]:
    """The median, and the interquartile range in percent of it."""
    low, median, high = (float(value) for value in np.quantile(factors, (0.25, 0.5, 0.75)))
    return median, 100 * (high - low) / median if median else float("inf")
