"""What changed between two runs, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.compare.comparable import OTHER_WORK
from tracetui.analysis.compare.compared_passes import RECORDED
from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.core.rule import Threshold, rule
from tracetui.analysis.findings.pairs.algorithms import changed_algorithms

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Pair
    from tracetui.analysis.findings.core.rule import Limits

PARTS = {
    "gpu_time": "GPU work",
    "overlap": "overlap of GPU work",
    "loader": "GPU waiting for the data loader",
    "synchronisation": "GPU waiting for the host, which had waited for the GPU",
    "launching": "GPU waiting for launches and other work of the host",
    "kernel_wait": "GPU starting kernels",
    "other": "GPU waiting for something else",
}
MOST = 3


@rule(
    "D1",
    "The step became slower",
    subject="pair",
    needs=("several_steps",),
    rests_on=("steps",),
    thresholds={
        "regression_percent": Threshold(5, "%", "how much longer B's median step takes, of A's", own=True),
        "noise": Threshold(1, "x", "how many times as wide the 95 % interval must be to hold zero"),
    },
    advice="Look at the largest part first: GPU work is in the kernels below, waiting for the host in the Host tab.",
    source="gpuprof, nsys-ai: regressions against a median of runs",
)
def regression(pair: Pair, limits: Limits) -> Finding | Abstention | None:
    """B's median step is longer than A's by more than the limit *and* by more than steps vary by themselves.

    ``change = (median B - median A) / median A``; the noise is half of the 95 % interval of the difference of the
    medians (`step_difference.median_interval`), which must not hold zero. The rule uses medians, since one slow step
    moves a mean. A change that can't be told from chance is not
    reported, and of runs that did other work (another batch, another size of the input) none is.
    """
    if pair.comparable["verdict"] == OTHER_WORK:
        what = words.listed([str(row["field"]) for row in pair.comparable["differences"] if row["work"]])
        return Abstention("D1", f"two runs of the same work: these differ in {what}")
    step = pair.diff.step
    delta, noise, percent = step.median_delta_ns, step.median_noise_ns, step.median_delta_percent
    if delta is None or noise is None or percent is None or step.a_median_ns is None or step.b_median_ns is None:
        return None
    if percent <= limits.regression_percent or not step.beyond(limits.noise):
        return None
    parts = pl.concat([pair.diff.split.filter(pl.col("part") != "host_wait"), pair.diff.waiting])
    parts = parts.sort(pl.col("delta_ns").abs(), descending=True).head(MOST)
    which = "" if pair.diff.compared.rests_on == RECORDED else f"{pair.diff.compared.rests_on} "
    evidence = [
        Evidence(f"median {which}step of A", step.a_median_ns, "ns"),
        Evidence(f"median {which}step of B", step.b_median_ns, "ns"),
        Evidence("noise", noise, "ns"),
        *(
            Evidence(PARTS[part], change, "ns", Query("diff"))
            for part, change in parts.select("part", "delta_ns").iter_rows()
        ),
    ]
    return Finding(
        "D1",
        "info"
        if pair.comparable["verdict"] == "not_comparable"
        else "critical"
        if percent > 4 * limits.regression_percent
        else "warning",
        f"B's median {which}step takes {words.percent(percent)} longer: {words.ns(step.a_median_ns)} became "
        f"{words.ns(step.b_median_ns)}",
        tuple(evidence),
        f"({words.ns(step.b_median_ns)} - {words.ns(step.a_median_ns)}) / {words.ns(step.a_median_ns)} = "
        f"{words.percent(percent)}; by chance the change is between {words.signed_ns(step.low_ns or 0.0)} and "
        f"{words.signed_ns(step.high_ns or 0.0)} (95 % interval)",
        f"longer by more than {limits.regression_percent:g} %, and zero outside of {limits.noise:g} times the interval",
        "Start with the part that grew most; `tracetui diff A B --limit 0` lists every kernel and operator.",
        impact_ns=delta,
    )


@rule(
    "D2",
    "Another number of kernels",
    subject="pair",
    needs=("gpu",),
    rests_on=("gpu", "steps"),
    thresholds={"change_percent": Threshold(2, "%", "change of kernel launches per step, of A's", own=True)},
    advice="Added kernels cost their launches even if they are short.",
    source="HTA's trace diff, nsys-ai",
)
def kernel_count(pair: Pair, limits: Limits) -> Finding | None:
    """Kernels per step in B against A, and the kernels that explain the difference.

    ``change = (kernels B - kernels A) / kernels A``. More kernels may take less GPU time, so the finding states both.
    """
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
        "D2",
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
        f"a change of more than {limits.change_percent:g} % of A's kernels",
        "Fuse the added kernels, or launch them through a CUDA graph, if the step waits for the host; else only GPU "
        "time counts."
        if after > before
        else "Fewer launches help if the step waits for the host (S2), else only GPU time counts.",
    )


@rule(
    "D3",
    "Another algorithm for the same work",
    subject="pair",
    needs=("gpu", "operators", "shapes"),
    rests_on=("gpu",),
    thresholds={"share_percent": Threshold(1, "%", "GPU time of the kernels that changed, of A's GPU time", own=True)},
    advice="Fix the choice: torch.backends.cudnn.benchmark = True in both, the same library versions, the same layout.",
    source="TraceLens",
)
def algorithm_change(pair: Pair, limits: Limits) -> Finding | None:
    """An operator with the same input shapes and types launches other kernels in B than in A.

    Libraries choose among algorithms by heuristics, by timing (cudnn.benchmark) and by layout. The rule compares the
    kernel that takes the most time for each operator, shapes and types; shares are of A's GPU time in kernels.
    """
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
        "D3",
        "warning" if delta > limits.share_percent / 100 * whole else "info",
        f"{words.things(rows.height, 'operator shape')} run other kernels for the same inputs: "
        f"{'+' if delta > 0 else '-'}{words.ns(abs(delta))} per step",
        tuple(evidence),
        f"{words.ns(changed)} of A's {words.ns(whole)} of kernels = {words.percent(100 * changed / whole)} changed "
        f"their algorithm; in B it takes {words.ns(changed + delta)}",
        f"more than {limits.share_percent:g} % of A's kernel time",
        "Compare with the choice fixed: torch.backends.cudnn.benchmark = True and enough warm-up in both runs, the "
        "same cuDNN and cuBLAS, the same memory format.",
        impact_ns=max(delta, 0.0),
    )


@rule(
    "D5",
    "Less work, but not as much less time",
    subject="pair",
    needs=("manifest", "steps"),
    rests_on=("steps",),
    thresholds={
        "work_percent": Threshold(10, "%", "how much less work B must have, of A's FLOPs", own=True),
        "lost_percent": Threshold(10, "%", "share of the possible speed-up that is lost", own=True),
    },
    advice="What does not scale with FLOPs takes the rest: launches, copies, small kernels, the host.",
)
def work_removed(pair: Pair, limits: Limits) -> Finding | Abstention | None:
    """Compares the speed-up with the work removed: ``lost = 1 - (time A / time B) / (FLOPs A / FLOPs B)``.

    FLOPs per step come from run.json; times are medians.
    """
    flops = [facts.manifest.workload.flops_per_step for facts in (pair.a, pair.b) if facts.manifest is not None]
    a, b = pair.diff.step.a_median_ns, pair.diff.step.b_median_ns
    if len(flops) < 2 or not all(flops):
        missing = "FLOPs per step in both run.json: profile a model that `tracetui reference models` lists"
        return Abstention("D5", missing)
    work, other = float(flops[0] or 0), float(flops[1] or 0)
    if not a or not b or 100 * (1 - other / work) < limits.work_percent:
        return None
    lost = 100 * (1 - (a / b) / (work / other))
    if lost < limits.lost_percent:
        return None
    longer = f"{words.percent(100 * (b / a - 1))} longer" if b > a else f"only {words.percent(100 * (1 - b / a))} less"
    return Finding(
        "D5",
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
        f"more than {limits.lost_percent:g} % of the speed-up lost, with {limits.work_percent:g} % less work or more",
        "See what of the step does not shrink with the work: waiting for the host first (S2), then added kernels (D2).",
        impact_ns=b - a * other / work,
    )


@rule(
    "D11",
    "Where the difference in GPU time comes from",
    subject="pair",
    needs=("gpu",),
    rests_on=("gpu", "steps"),
    thresholds={"change_percent": Threshold(1, "%", "change of GPU time per step, of A's", own=True)},
    advice="More calls: look for what launches them. Longer calls: look at their shapes, types and clocks.",
)
def mix_shift(pair: Pair, limits: Limits) -> Finding | None:
    """Splits the difference of GPU time per step exactly into a count and a mean effect per category of kernels.

    ``count effect = (calls B - calls A) x mean A``, ``mean effect = (mean B - mean A) x calls B``; a category that A
    lacks has only a count effect. The sum over categories is the difference, to the nanosecond.
    """
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
        "D11",
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
        f"a change of more than {limits.change_percent:g} % of A's GPU time",
        "Where the count moved, look for what launches it; where the duration moved, at shapes, types and clocks.",
        impact_ns=max(delta, 0.0),
    )
