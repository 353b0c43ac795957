"""What changed between two runs, and why."""

from __future__ import annotations

import polars as pl

from tracetui.analysis.compare.comparable import OTHER_WORK
from tracetui.analysis.compare.compared_passes import CLEAN, RECORDED
from tracetui.analysis.compare.diff import PART_WORDS
from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.facts import Pair
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.declared.pairs import D1, D2, D3, D5, D11, D12
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.kernels import kernel_rows
from tracetui.analysis.selection import Selection
from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.kernel_key import key

KEYS = ["operator", "shapes", "types"]


def changed_algorithms(a: Selection, b: Selection) -> pl.DataFrame:
    """Operator calls of equal name, shapes and types whose main kernel in one run is not launched in the other.

    Returns:
        operator, shapes, types, a_name (the whole name), a_kernel, b_kernel (short names), a_ns, b_ns (all kernels of
        these calls, per step); the largest change first.
    """
    both = _by_call(a).join(_by_call(b), on=KEYS, suffix="_b")
    apart = [
        ours not in theirs_all and theirs not in ours_all
        for ours, ours_all, theirs, theirs_all in both.select("key", "keys", "key_b", "keys_b").iter_rows()
    ]
    found = both.filter(pl.Series(apart, dtype=pl.Boolean)).select(
        *KEYS, a_name="name", a_kernel="kernel", b_kernel="kernel_b", a_ns="ns", b_ns="ns_b"
    )
    return found.sort((pl.col("b_ns") - pl.col("a_ns")).abs(), *KEYS, descending=[True, False, False, False])


def _by_call(sel: Selection) -> pl.DataFrame:
    """For each operator, shapes and types: time of its kernels per step, its main kernel, and the keys of all."""
    rows = kernel_rows(sel).filter(pl.col("operator").is_not_null())
    host = sel.trace.host.select(
        operator=pl.col("name").cast(pl.String),
        shapes=pl.col("input_shapes").cast(pl.String),
        types=pl.col("input_types").cast(pl.String).fill_null(""),
    )
    calls = host[rows["operator"]].with_columns(
        rows["name"].cast(pl.String).alias("name"), rows["duration"].alias("ns")
    )
    calls = calls.filter(pl.col("shapes").is_not_null() & pl.col("shapes").str.contains(r"\d"))
    by_kernel = calls.group_by(*KEYS, "name").agg(pl.col("ns").sum() / sel.step_count)
    names = by_kernel["name"].unique().to_list()
    known = pl.DataFrame(
        {
            "name": names,
            "key": [key(name) for name in names],
            "kernel": [kernel_names.short_name(name) for name in names],
        },
        schema=dict.fromkeys(("name", "key", "kernel"), pl.String),
    )
    return (
        by_kernel.join(known, on="name")
        .sort("ns", "name", descending=[True, False])
        .group_by(KEYS, maintain_order=True)
        .agg(
            pl.col("ns").sum(),
            pl.col("name").first(),
            pl.col("kernel").first(),
            pl.col("key").first(),
            keys=pl.col("key"),
        )
    )


MOST = 3


@looks_for(D1)
def regression(pair: Pair, limits: Limits) -> Finding | Abstention | None:
    if pair.comparable.verdict == OTHER_WORK:
        what = words.listed([row.field for row in pair.comparable.differences if row.work])
        return Abstention(f"two runs of the same work: these differ in {what}")
    changed = pair.regression(limits.noise)
    slower = changed.exceeds(limits.regression_percent)
    if slower is None:
        return Abstention("runs that tell: more GPU work or launches in B, or three repeats of both")
    a, b, low, high = _steps(pair)
    if not slower or a is None or b is None:
        return None
    percent = 100 * (b - a) / a
    parts = pl.concat([pair.diff.split.filter(pl.col("part") != "host_wait"), pair.diff.waiting])
    parts = parts.sort(pl.col("delta_ns").abs(), descending=True).head(MOST)
    which = "" if pair.diff.compared.rests_on == RECORDED else f"{pair.diff.compared.rests_on} "
    which = f"median {which}step" if pair.between is None else f"{which}step, mean of the repeats,"
    chance = "" if low is None or high is None else (
        f"; by chance the change is between {words.signed_ns(low)} and {words.signed_ns(high)} (95 % interval "
        f"{'within these two runs' if pair.between is None else 'between runs'})"
    )  # fmt: skip
    evidence = [
        Evidence("step of A", a, "ns"),
        Evidence("step of B", b, "ns"),
        *(
            Evidence(PART_WORDS[part], change, "ns", Query("diff"))
            for part, change in parts.select("part", "delta_ns").iter_rows()
        ),
    ]
    return Finding(
        "info"
        if pair.comparable.verdict == "not_comparable"
        else "critical"
        if percent > 4 * limits.regression_percent
        else "warning",
        f"B's {which} takes {words.percent(percent)} longer: {words.ns(a)} became {words.ns(b)}",
        tuple(evidence),
        f"({words.ns(b)} - {words.ns(a)}) / {words.ns(a)} = {words.percent(percent)}{chance}",
        impact_ns=b - a,
    )


def _steps(pair: Pair) -> tuple[float | None, float | None, float | None, float | None]:
    """The step of A and of B that are compared, and the 95 % interval of their difference; of repeats, of all runs."""
    if (runs := pair.between) is not None:
        return runs.a_ns, runs.b_ns, runs.delta_ns - runs.noise_ns, runs.delta_ns + runs.noise_ns
    step = pair.diff.step
    return step.a_median_ns, step.b_median_ns, step.low_ns, step.high_ns


@looks_for(D2)
def kernel_count(pair: Pair, limits: Limits) -> Finding | None:
    kernels = pair.diff.kernels
    before, after = float(kernels["a_calls"].sum()), float(kernels["b_calls"].sum())
    if not before or 100 * abs(after - before) / before <= limits.change_percent:
        return None
    percent = 100 * (after - before) / before
    time = float(kernels["delta_ns"].sum())
    moved = kernels.with_columns(more=pl.col("b_calls") - pl.col("a_calls"))
    with_sign = moved.filter(pl.col("more") > 0 if after > before else pl.col("more") < 0)
    most = with_sign.sort(pl.col("more").abs(), "name", descending=[True, False]).head(MOST)
    verb = "more" if after > before else "fewer"
    turn = "and" if (time > 0) == (after > before) else "yet"
    return Finding(
        "info",
        f"B launches {words.count(abs(after - before))} kernels {verb} per step ({percent:+.1f} %), {turn} GPU time "
        f"{'rises' if time > 0 else 'falls'} by {words.ns(abs(time))}",
        (
            Evidence("kernels per step in A", before),
            Evidence("kernels per step in B", after),
            *(
                Evidence(f"{short}, calls per step", more, "", Query("diff", row=name))
                for name, short, more in most.select("name", "short_name", "more").iter_rows()
            ),
        ),
        f"{words.count(after)} - {words.count(before)} = {after - before:+,.0f} kernels; their time changes by "
        f"{'+' if time > 0 else '-'}{words.ns(abs(time))} per step",
        advice="Fuse the added kernels, or launch them through a CUDA graph, if the step waits for the host; else only"
        " GPU time counts."
        if after > before
        else "Fewer launches help if the step waits for the host (S2), else only GPU time counts.",
    )


@looks_for(D3)
def algorithm_change(pair: Pair, limits: Limits) -> Finding | None:
    rows = changed_algorithms(pair.a.sel, pair.b.sel)
    whole = float(pair.diff.kernels["a_ns"].sum())
    changed = float(rows["a_ns"].sum())
    if not whole or 100 * changed / whole < limits.share_percent:
        return None
    delta = float((rows["b_ns"] - rows["a_ns"]).sum())
    several = pair.diff.kernels.select("name", "a_names").iter_rows()
    row_of = {name: main for main, names in several for name in names}
    evidence = [
        Evidence(
            f"{row['operator']} {row['shapes'][:40]}",
            f"{row['a_kernel']} ({words.ns(row['a_ns'])}) became {row['b_kernel']} ({words.ns(row['b_ns'])})",
            "",
            Query("diff", row=row_of.get(row["a_name"], row["a_name"])),
        )
        for row in rows.head(MOST).iter_rows(named=True)
    ]
    return Finding(
        "warning" if delta > limits.share_percent / 100 * whole else "info",
        f"{words.things(rows.height, 'operator shape')} run other kernels for the same inputs: "
        f"{'+' if delta > 0 else '-'}{words.ns(abs(delta))} per step",
        tuple(evidence),
        f"{words.ns(changed)} of A's {words.ns(whole)} of kernels = {words.percent(100 * changed / whole)} changed "
        f"their algorithm; in B it takes {words.ns(changed + delta)}",
        impact_ns=max(delta, 0.0),
    )


@looks_for(D5)
def work_removed(pair: Pair, limits: Limits) -> Finding | Abstention | None:
    flops = [facts.manifest.workload.flops_per_step for facts in (pair.a, pair.b) if facts.manifest is not None]
    a, b = pair.diff.step.a_median_ns, pair.diff.step.b_median_ns
    if len(flops) < 2 or not all(flops):
        return Abstention("FLOPs per step in both run.json: profile a model that `tracetui reference models` lists")
    work, other = float(flops[0] or 0), float(flops[1] or 0)
    if not a or not b or 100 * (1 - other / work) < limits.work_percent:
        return None
    lost = 100 * (1 - (a / b) / (work / other))
    if lost < limits.lost_percent:
        return None
    longer = f"{words.percent(100 * (b / a - 1))} longer" if b > a else f"only {words.percent(100 * (1 - b / a))} less"
    return Finding(
        "warning",
        f"B does {words.percent(100 * (1 - other / work))} less work but takes {longer} time",
        (
            Evidence("FLOPs per step in A", work, "FLOP"),
            Evidence("FLOPs per step in B", other, "FLOP"),
            Evidence("median step of A", a, "ns"),
            Evidence("median step of B", b, "ns"),
        ),
        f"{words.number(work / other)} times less work, {words.number(a / b)} times as fast: "
        f"{words.percent(lost)} of the speed-up that the work allows is lost",
        impact_ns=b - a * other / work,
    )


@looks_for(D11)
def mix_shift(pair: Pair, limits: Limits) -> Finding | None:
    kinds = pair.diff.kinds
    before, delta = float(kinds["a_ns"].sum()), float(kinds["delta_ns"].sum())
    if pair.diff.split.is_empty() or not before:
        return None
    if 100 * abs(delta) / before <= limits.change_percent:
        return None
    effects = pair.diff.waterfall.with_columns(together=pl.col("count_effect_ns") + pl.col("mean_effect_ns"))
    top = effects.filter(pl.col("together") != 0).head(MOST)
    listed = [f"{name} {words.signed_ns(ns)}" for name, ns in top.select("category", "together").iter_rows()]
    count, mean = (float(effects[column].sum()) for column in ("count_effect_ns", "mean_effect_ns"))
    return Finding(
        "info",
        f"GPU work per step {'grows' if delta > 0 else 'shrinks'} by {words.ns(abs(delta))} "
        f"({100 * delta / before:+.1f} %): {', '.join(listed)}",
        tuple(
            Evidence(
                name,
                f"{words.signed_ns(by_count)} by count, {words.signed_ns(by_mean)} by duration",
                "",
                Query("diff", row=name),
            )
            for name, by_count, by_mean in top.select("category", "count_effect_ns", "mean_effect_ns").iter_rows()
        ),
        f"more or fewer calls {words.signed_ns(count)}, longer or shorter ones {words.signed_ns(mean)}: together "
        f"{words.signed_ns(delta)}",
        impact_ns=max(delta, 0.0),
    )


CAUSES = {
    "gpu": "GPU work",
    "loader": "the data loader",
    "synchronisation": "synchronisation",
    "launching": "launching and other work of the host",
}


def causes(parts: pl.DataFrame, side: str) -> dict[str, float]:
    """The average step of a run in ns per step, divided among `CAUSES`: they add up to it exactly.

    Args:
        parts: `Diff.split` and `Diff.waiting`, one after the other.
        side: ``a`` or ``b``.
    """
    ns = dict(parts.select("part", f"{side}_ns").iter_rows())
    return {
        "gpu": ns["gpu_time"] + ns["overlap"],
        "loader": ns["loader"],
        "synchronisation": ns["synchronisation"],
        "launching": ns["launching"] + ns["kernel_wait"] + ns["other"],
    }


@looks_for(D12)
def difference_by_cause(pair: Pair, limits: Limits) -> Finding | Abstention | None:
    found = pair.diff
    parts, step = pl.concat([found.split, found.waiting]), found.split_step
    a, b = (causes(parts, side) if parts.height else {} for side in ("a", "b"))
    whole = sum(a.values())
    if not whole:
        return Abstention("GPU work in the steps of both runs")
    which = "" if found.split_rests_on == found.compared.rests_on else f"{found.split_rests_on} "
    delta = sum(b.values()) - whole
    percent = 100 * delta / whole
    noise = step.median_noise_ns if found.split_rests_on == CLEAN else step.noise_ns
    if abs(percent) <= limits.change_percent or abs(delta) <= (noise or 0.0):
        return None
    if pair.between is not None and not pair.between.beyond_noise:
        return None
    changes = {name: b[name] - a[name] for name in CAUSES}
    with_it = sorted(CAUSES, key=lambda name: -changes[name] if delta > 0 else changes[name])
    first = with_it[0]
    listed = ", ".join(f"{CAUSES[name]} {words.signed_ns(changes[name])}" for name in with_it)
    return Finding(
        "info",
        f"The {which}step is {words.ns(abs(delta))} {'longer' if delta > 0 else 'shorter'} in B, most by "
        f"{CAUSES[first]} ({words.signed_ns(changes[first])})",
        tuple(
            Evidence(
                CAUSES[name],
                f"{words.ns(a[name])} became {words.ns(b[name])}: {words.signed_ns(changes[name])}",
                "",
                Query("diff"),
            )
            for name in with_it
        ),
        f"{listed}: together {words.signed_ns(delta)} = {percent:+.1f} % of A's {which}step",
        advice=_ADVICE[first],
        impact_ns=max(delta, 0.0),
    )


_ADVICE = {
    "gpu": "Look at the kernels: D2, D3 and D11 say whether there are more, others or longer ones.",
    "loader": "Look at how batches are made: workers, prefetching, storage, decoding (S5 of each run).",
    "synchronisation": "Look for the calls that wait (S7 of each run, and the API calls of the Host tab).",
    "launching": "Look at what the host does between launches (S2 and S13 of each run, and the Host tab).",
}
