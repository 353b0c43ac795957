"""Rules on kernels: bottleneck, distance to the roof, occupancy, SMs left empty, caches, DRAM; and on all together."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracetui.analysis.counters.counters import BOUND_WORDS
from tracetui.analysis.findings.core import gain, program, words
from tracetui.analysis.findings.core.facts import Facts, Pair
from tracetui.analysis.findings.core.finding import HEADLINE, Abstention, Evidence, Finding, Query, evidence
from tracetui.analysis.findings.declared.kernels import K1, K2, K3, K4, K5, K6, K12, K13, K14, K18
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.findings.gpu import kernel_kinds
from tracetui.analysis.findings.gpu.kernel_facts import (
    MOST,
    STREAMING,
    Instead,
    Shape,
    attained,
    bounds,
    instead,
    large,
    limiter_text,
    limits_of_sm,
    ncu_command,
    reread,
    shapes,
    share_of,
    short,
    stake,
    stakes,
)
from tracetui.analysis.gpu.occupancy import tail_loss
from tracetui.analysis.roofline.shapes import ONCE
from tracetui.parsers.arrays import Floats
from tracetui.parsers.names import kernel_names

_BY_BOUND = {
    "compute": "It computes near what the GPU can: fewer operations, a lower precision or tensor cores help, code does"
    " not.",
    "memory": "It moves data near what the memory system can: fuse it with its neighbours, use a smaller type, keep"
    " what is read again in cache.",
    "latency": "Neither arithmetic nor memory is busy: give each SM more work in flight (a larger grid or batch, more"
    " resident warps, independent loads per thread).",
    "balanced": "Arithmetic and memory are both near their limit: only less work helps.",
}


@looks_for(K1)
def bound_class(facts: Facts, limits: Limits) -> Iterator[Finding]:
    measured = facts.counters
    if measured is None:
        return
    means = dict(facts.kernels.select("name", "mean_ns").iter_rows())
    rows = [
        row
        for row in measured.kernels.filter(pl.col("bound").is_not_null()).to_dicts()
        if (means.get(row["name"]) or 0) >= 1000 * limits.mean_us
    ]
    for row, share in islice(large(facts, rows, limits), MOST):
        busiest = max(row["sm_percent"], row["memory_percent"])
        found = stake(facts, [row["name"]], min(busiest / 100, 1.0))
        proof = Query("counters", row=row["name"])
        yield found.finding(
            f"{short(row['name'])} {BOUND_WORDS[row['bound']]}: SM {words.percent(row['sm_percent'])}, memory"
            f" {words.percent(row['memory_percent'])} of peak",
            (
                Evidence("compute throughput, of the SMs' peak", row["sm_percent"], "%", proof),
                Evidence("busiest part of memory, of its peak", row["memory_percent"], "%", proof),
                share_of(row["name"], share),
                Evidence("launches measured", row["launches"], "", proof),
            ),
            f"max({words.percent(row['sm_percent'])}, {words.percent(row['memory_percent'])}) ="
            f" {words.percent(busiest)} of peak; {found.why}",
            severity=None if row["bound"] == "latency" else "info",
            advice=_BY_BOUND[row["bound"]],
        )


@looks_for(K2)
def far_below_roof(facts: Facts, limits: Limits) -> Iterator[Finding | Abstention]:
    peaks = facts.roofline.peaks
    if peaks.bandwidth is None or not peaks.compute:
        yield Abstention(f"the roofs: {'; '.join(peaks.unknown) or 'no peak is known'}")
        return
    points = facts.roofline.points.filter(
        (pl.col("origin") == "shapes")
        & (pl.col("attained_percent") < limits.attained_percent)
        & (pl.col("total_ns") / pl.col("launches") >= 1000 * limits.mean_us)
    )
    # of a fused kernel only the least that it moves is known, so how far it is below its roof is not
    points = points.filter(~pl.col("name").is_in(list(bounds(facts))) & ~pl.col("unknown").list.contains(ONCE))
    alike: dict[tuple[Instead | str, bool], list[tuple[dict[str, Any], float]]] = {}
    for row, share in large(facts, points.to_dicts(), limits, sort=False):
        moves = kernel_names.category(row["name"]) == "copy"  # which F11 may tell of
        alike.setdefault((instead(facts, row["name"]) or str(row["name"]), moves), []).append((row, share))
    for (theirs, _), rows in alike.items():
        act = theirs.act if isinstance(theirs, Instead) else "Speed up {}"
        if not act:
            continue
        (row, share), *others = rows
        found = stakes(facts, {each["name"]: each["attained_percent"] / 100 for each, _ in rows})
        mean, least = row["total_ns"] / row["launches"], row["total_ns"] - row["gap_ns"]
        peak = peaks.compute.get(row["precision"] or "")
        roof = f"{words.number(peaks.bandwidth.value / 1e9)} GB/s ({peaks.bandwidth.source})"
        if row["roof"] == "compute" and peak is not None:
            roof = f"{words.number(peak.value / 1e12)} TFLOP/s ({peak.source})"
        proof = Query("counters:roofline", row=row["name"])
        called = short(row["name"]) + (f" and {words.count(len(others))} more" if others else "")
        yield found.finding(
            f"{act.format(called)}: at {words.percent(row['attained_percent'])} of its {row['roof']} roof",
            (
                Evidence("time at the roof, of its time", row["attained_percent"], "%", proof),
                Evidence("mean duration", mean, "ns", Query("kernels", row=row["name"])),
                Evidence("FLOPs per call", row["flops"], "FLOP"),
                Evidence("bytes per call, each once", row["bytes"], "byte"),
                share_of(row["name"], share),
                *(
                    Evidence(
                        f"{short(each['name'])}, time at its roof",
                        each["attained_percent"],
                        "%",
                        Query("counters:roofline", row=each["name"]),
                    )
                    for each, _ in others
                ),
            ),
            f"at {roof} a call takes {words.ns(least / row['launches'])} of {words.ns(mean)} ="
            f" {words.percent(row['attained_percent'])}; {found.why}",
            advice=theirs.advice if isinstance(theirs, Instead) else "",
            next_command=ncu_command(row["name"]),
        )


@looks_for(K3)
def low_occupancy(facts: Facts, limits: Limits) -> Iterator[Finding | Abstention]:
    found = shapes(facts)
    sm, _ = limits_of_sm(facts)
    if found is None or sm is None:
        yield Abstention("registers and blocks of the launches on a known NVIDIA GPU: torch.profiler, nsys, ncu")
        return
    classes, near = bounds(facts), attained(facts)
    for name, parts in _by_kernel(found):
        total = sum(part.total_ns for part in parts)
        share = facts.share_of_kernels(total) or 0.0
        held = sum(part.held.percent * part.total_ns for part in parts) / total if total else 100.0
        most = max(parts, key=lambda part: part.total_ns)
        at_roof = near.get(name)
        is_slow = (
            classes[name] == "latency" if name in classes else at_roof is None or at_roof[0] < limits.attained_percent
        )
        # products hold tiles in registers and shared memory by design, so that few warps are not a fault
        is_tiled = kernel_names.is_product(name) and (
            at_roof is None or at_roof[0] >= limits.attained_percent or kernel_names.uses_tensor_cores(name)
        )
        small = (most.waves is not None and most.waves < 1) or instead(facts, name) is not None
        if share < limits.share_percent or held >= limits.occupancy_percent or not is_slow or is_tiled or small:
            continue
        remaining = max(held / 100, at_roof[0] / 100 if at_roof else 0.0)
        gained = stake(facts, [name], min(remaining, 1.0))
        limiters = " and ".join("block slots" if limiter == "blocks" else limiter for limiter in most.held.limiters)
        told = name in classes or at_roof is not None
        yield gained.finding(
            f"Raise the occupancy of {short(name)}: {words.percent(held)}, limited by {limiters}",
            (
                Evidence("theoretical occupancy", held, "%", Query("kernels", row=name)),
                Evidence("limited by", ", ".join(most.held.limiters)),
                Evidence("threads per block", most.threads),
                Evidence("registers per thread", most.registers if most.registers is not None else "unknown"),
                Evidence("shared memory per block", most.shared if most.shared is not None else "unknown", "byte"),
                Evidence("bound", classes.get(name) or (f"{at_roof[0]:.0f} % of its roof" if at_roof else "unknown")),
                share_of(name, share),
            ),
            f"{limiter_text(most, sm.warps)} = {words.percent(most.held.percent)}; {gained.why}",
            severity=None if told else "info",
            advice=_limiter_advice(most)
            + ("" if told else " Only counters tell whether more warps help; they don't if memory is the bottleneck."),
            next_command="" if name in classes else ncu_command(name),
        )


@looks_for(K4)
def unfilled(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    found = shapes(facts)
    _, sms = limits_of_sm(facts)
    if found is None or all(part.waves is None for part in found):
        return Abstention("grids, registers and the number of SMs of a known NVIDIA GPU: torch.profiler, nsys, ncu")
    near = attained(facts)
    lost = [(part, _loss(part, limits, sms or 1, near)) for part in found]
    guilty = [(part, loss) for part, loss in lost if loss > 0]
    time = sum(part.total_ns for part, _ in guilty)
    share = facts.share_of_kernels(time) or 0.0
    if not guilty or share < limits.time_percent:
        return None
    idle = sum(loss * part.total_ns for part, loss in guilty) / time if time else 0.0
    below = sum(part.total_ns for part, _ in guilty if (part.waves or 0) < 1)
    names = sorted({part.name for part, _ in guilty})
    mine = facts.launches.filter(pl.col("name").cast(pl.String).is_in(names))
    gained = stake(facts, names, 1 - idle * time / (float(mine["duration"].sum()) or 1.0))
    guilty.sort(key=lambda pair: -pair[1] * pair[0].total_ns)
    worst, _ = guilty[0]
    return gained.finding(
        f"Fill the GPU: grids too small for it waste {words.percent(share * idle)} of kernel time",
        (
            Evidence(
                "kernels below one wave, of kernel time", facts.share_of_kernels(below) or 0.0, "%", Query("kernels")
            ),
            *(
                Evidence(f"waves of {short(part.name)}", round(part.waves or 0, 2), "", Query("kernels", row=part.name))
                for part, _ in guilty[:MOST]
            ),
        ),
        f"{words.percent(share)} of kernel time could take {words.percent(100 * idle)} less;"
        f" {short(worst.name)}: {words.things(worst.grid, 'block')}, {worst.held.blocks} per SM ="
        f" {words.number(worst.waves or 0)} waves; {gained.why}",
        severity="info" if gained.severity == "info" else "warning",
    )


def _by_kernel(found: list[Shape]) -> list[tuple[str, list[Shape]]]:
    """Launch configurations by kernel, most time first."""
    parts: dict[str, list[Shape]] = {}
    for part in found:
        parts.setdefault(part.name, []).append(part)
    return sorted(parts.items(), key=lambda item: -sum(part.total_ns for part in item[1]))[: 4 * MOST]


def _loss(part: Shape, limits: Limits, sms: int, near: dict[str, tuple[float, str, str]]) -> float:
    """The share of its time that a launch could gain on a filled GPU; 0 if it is not judged."""
    if part.waves is None or part.waves >= limits.waves:
        return 0.0
    if kernel_names.category(part.name) in STREAMING:  # a few blocks per SM are enough to keep memory busy
        loss = max(1 - part.grid / sms, 0.0)
    else:
        loss = tail_loss(part.waves)
        if part.waves >= 1 and 100 * loss <= limits.loss_percent:
            return 0.0
    return min(loss, max(1 - near[part.name][0] / 100, 0.0)) if part.name in near else loss


def _limiter_advice(part: Shape) -> str:
    first = part.held.limiters[0]
    if first == "blocks":
        return (
            f"Blocks of {part.threads} threads run out of block slots before warps: give a block more warps, or more"
            " rows of the work."
        )
    if first == "registers":
        return "Fewer registers per thread (__launch_bounds__, smaller tiles), or more independent work per thread."
    if first == "shared memory":
        return "Less shared memory per block, or larger blocks that share it."
    return "Blocks whose warps divide the SM's evenly leave no rest."


@looks_for(K5)
def cache_misses(facts: Facts, limits: Limits) -> Iterator[Finding]:
    measured = facts.counters
    if measured is None:
        return
    again = {name: factor for name, factor, *_ in reread(facts)}
    rows = measured.kernels.filter(pl.col("bound") == "memory").to_dicts()
    for row, share in large(facts, rows, limits, sort=False):
        name, rates = row["name"], (row["l1_hit_percent"], row["l2_hit_percent"])
        low = [rate for rate in rates if rate is not None and rate < limits.hit_percent]
        is_once = kernel_names.category(name) in STREAMING or again.get(name, 9.9) <= limits.streaming
        if not low or is_once:
            continue
        found = stake(facts, [name], min(row["sm_percent"] / 100, 1.0))
        proof = Query("counters", row=name)
        yield found.finding(
            f"{short(name)} is bound by memory and hits {words.percent(min(low))} in its worst cache",
            evidence(
                *(
                    (f"{cache} hit rate, of sectors", rate, "%", proof)
                    for cache, rate in zip(("L1", "L2"), rates, strict=True)
                ),
                share_of(name, share),
            ),
            f"with memory out of the way arithmetic takes {words.percent(row['sm_percent'])} of the time; {found.why}",
        )


@looks_for(K6)
def moved_again(facts: Facts, limits: Limits) -> Iterator[Finding]:
    bandwidth = facts.roofline.peaks.bandwidth
    share = {row["name"]: row["percent"] or 0.0 for row in facts.kernels.iter_rows(named=True)}
    for name, factor, moved, needed, duration in reread(facts):
        if factor <= limits.factor or share.get(name, 0.0) < limits.share_percent:
            continue
        spared = (moved - needed) / bandwidth.value * 1e9 if bandwidth is not None else duration
        found = stake(facts, [name], 1 - min(spared / duration, 1.0) if duration else 1.0)
        rate = f"{words.size(moved)} / {words.size(needed)} = {words.number(factor)}"
        yield found.finding(
            f"{short(name)} moves {words.number(factor)} times the bytes that its work needs",
            (
                Evidence("DRAM traffic per launch", moved, "byte", Query("counters", row=name)),
                Evidence("inputs and outputs, each once", needed, "byte", Query("kernels", row=name)),
                share_of(name, share[name]),
            ),
            f"{rate}; {words.size(moved - needed)} at the memory's peak take {words.ns(spared)}; {found.why}",
        )


NOTHING_PERCENT = 0.05


@looks_for(K12)
def hot_spot(facts: Facts, limits: Limits) -> Finding | None:
    table = facts.kernels.filter(pl.col("category") != "communication")
    whole = int(table["total_ns"].sum()) if table.height else 0
    if not whole:
        return None
    first = table.row(0, named=True)
    hot = 100 * first["total_ns"] / whole
    if hot > limits.hot_percent and table.height > 1:
        at_roof = attained(facts).get(first["name"])
        found = stake(facts, [first["name"]], min(at_roof[0] / 100, 1.0) if at_roof else 0.0)
        healthy = at_roof is not None and at_roof[0] >= limits.attained_percent
        # without a roof nothing is known of a gain, but that it is small
        known = not healthy and (at_roof is not None or found.severity == "info")
        theirs = instead(facts, first["name"])
        known &= theirs is None or bool(theirs.act)
        act = "Speed up {}" if theirs is None else theirs.act
        attains = f", at {words.percent(at_roof[0])} of its {at_roof[1]} roof" if at_roof else ", its roof is not known"
        proof = Query("kernels", row=first["name"])
        return replace(found, claimed=found.claimed and known).finding(
            f"{short(first['name'])} takes {words.percent(hot)} of the kernel time{attains}"
            if not known
            else f"{act.format(short(first['name']))}: {words.percent(hot)} of the kernel time{attains}",
            (
                Evidence("share of the kernel time", hot, "%", proof),
                Evidence("calls", first["calls"], "", proof),
                Evidence("mean duration", first["mean_ns"], "ns"),
            ),
            f"{words.part_of(first['total_ns'], whole, hot)};"
            f" {'at its roof' if at_roof else 'without it'}: {found.why}",
            advice=kernel_kinds.layout(first["name"]) + _hot_advice(facts, theirs, healthy=healthy),
        )
    top = float(table["total_ns"].head(10).sum())
    share = 100 * top / whole
    if table.height <= 10 or share >= limits.flat_percent:
        return None
    return Finding(
        "info",
        f"No hot spot: the ten longest of {table.height} kernels take {words.percent(share)} of the kernel time",
        (Evidence("ten longest kernels, of kernel time", share, "%", Query("kernels")),),
        words.part_of(top, whole, share),
        threshold=f"less than {words.percent(limits.flat_percent)}",
        advice="Tuning one kernel pays little here: fuse, do less, or give each kernel more work.",
    )


def _hot_advice(facts: Facts, theirs: Instead | None, *, healthy: bool) -> str:
    """What to do about a hot spot; where the host is the limit, nothing yet, as K14 says."""
    if facts.trace.has_timeline and facts.model is not None and facts.model.waits_for == "host":
        return "Leave it until the GPU is what the step waits for: a faster kernel only makes its pauses longer."
    if healthy:
        return "Code gains little more here: fewer operations, a lower precision or a smaller model."
    if theirs is not None:
        return theirs.advice
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
        advice="Check the clock and the power mode that the run had, its temperature, and who else used the GPU; or the"
        f" roofs are those of another mode ({peaks.bandwidth.about}).",
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
        f"{words.part_of(found.ns, step_ns, found.ceiling_percent)}; {found.why}",
        advice=f"Do not tune kernels ({words.listed([str(name) for name in first])}), occupancy or precision here"
        " before the GPU stops waiting.",
        aside=HEADLINE,
    )


def _spread(factors: Floats) -> tuple[float, float]:
    """The median, and the interquartile range in percent of it."""
    low, median, high = (float(value) for value in np.quantile(factors, (0.25, 0.5, 0.75)))
    return median, 100 * (high - low) / median if median else float("inf")
