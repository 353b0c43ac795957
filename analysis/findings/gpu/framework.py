"""How the framework runs the model: fusion, attention, optimizer, layout."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.base import intervals
from tracetui.analysis.findings.core import change, gain, hints, shown, words
from tracetui.analysis.findings.core.finding import Evidence, Finding, Query
from tracetui.analysis.findings.core.rule import Threshold, rule
from tracetui.analysis.findings.gpu import advice, chains
from tracetui.analysis.findings.gpu import kernel_kinds as kernel_sorts
from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.kernel_makers import FOREACH_OPTIMIZER, FUSED_BY_COMPILER, FUSED_OPTIMIZER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.gain import Bools, Gain
    from tracetui.analysis.findings.core.rule import Limits
    from tracetui.analysis.findings.gpu.kernel_kinds import Optimizer


def _without(facts: Facts, mask: Bools) -> Gain:
    """The gain without the chosen launches."""
    return gain.of_kernels(facts, _rows(facts, mask), fewer_launches=True)


def _rows(facts: Facts, mask: Bools) -> Ints:
    """Device rows of the chosen launches."""
    rows: Ints = facts.launches["row"].to_numpy()[mask].astype(np.int64)
    return rows


@rule(
    "F4",
    "The optimizer is not fused",
    needs=("timeline", "gpu"),
    rests_on=("gpu", "host", "whole"),
    thresholds={
        "share_percent": Threshold(10, "%", "optimizer step on the host or its kernels, of the step", own=True),
        "per_parameter": Threshold(2, "", "kernels per parameter tensor from which it counts as a loop", own=True),
        "loop_kernels": Threshold(100, "", "the same where parameters are not recorded: kernels per call", own=True),
    },
    advice="fused=True, else foreach=True.",
    changes=(change.FUSED_OPTIMIZER,),
    source="PyTorch's profiler pattern matcher (optimizer single tensor)",
)
def optimizer_not_fused(facts: Facts, limits: Limits) -> Finding | None:
    """The optimizer updates its parameters one by one, or operation by operation, instead of all at once.

    A loop launches several kernels for every parameter tensor. ``foreach`` launches one per operation for many tensors,
    and each of these kernels reads and writes all of them again. ``fused`` launches one that does everything. The rule
    counts parameters by the gradients that autograd accumulates, and only kernels of single tensors make a loop. The
    whole optimizer step is at stake on the host, and on the GPU all but the operation of ``foreach`` that takes
    longest: a fused kernel reads and writes as much.
    """
    found = kernel_sorts.optimizer(facts)
    if found is None or not found.kernels.any():
        return None
    spent, _ = kernel_sorts.spent(facts, found.kernels)
    host = facts.ceiling(facts.per_step(float(found.host_ns))) or 0.0
    device = shown.shown(facts).share(facts.per_step(float(spent))) or 0.0
    mine = facts.launches.select("row", "name", "duration").filter(pl.Series(found.kernels))
    fused = kernel_sorts.by_name(mine, lambda name: FUSED_OPTIMIZER.search(name) is not None)
    per_call = mine.height / found.calls
    limit = limits.per_parameter * found.parameters if found.parameters else limits.loop_kernels
    foreach = kernel_sorts.by_name(mine, lambda name: FOREACH_OPTIMIZER.search(name) is not None)
    loop = int((~foreach).sum()) / found.calls >= limit
    if max(host, device) <= limits.share_percent or fused.any() or not (loop or foreach.any()):
        return None
    spared = mine if loop else _but_the_longest_operation(mine)
    bound = gain.of_calls(facts, found.start, found.end, spared["row"].cast(pl.Int64).to_numpy())
    return _optimizer_finding(facts, limits, found, bound, (host, device, per_call), loop=loop)


def _but_the_longest_operation(launched: pl.DataFrame) -> pl.DataFrame:
    """The launches without those of the name that takes most time; all, where one name stands for every operation."""
    sums = launched.group_by("name").agg(pl.col("duration").sum())
    longest = sums.sort(pl.col("duration"), pl.col("name").cast(pl.String), descending=[True, False])["name"][0]
    return launched if sums.height == 1 else launched.filter(pl.col("name").cast(pl.String) != str(longest))


def _optimizer_finding(
    facts: Facts, limits: Limits, found: Optimizer, bound: Gain, measured: tuple[float, float, float], *, loop: bool
) -> Finding:
    host, device, per_call = measured
    spent, _ = kernel_sorts.spent(facts, found.kernels)
    sort = "updates its parameters one by one" if loop else "works operation by operation (foreach)"
    on_host, on_gpu = f"{shown.recorded_span(facts)} on the host", f"{shown.shown(facts).span} on the GPU"
    return Finding(
        "F4",
        bound.severity,
        f"The optimizer {sort}: {words.count(per_call)} kernels per call, {words.percent(max(host, device))} of"
        f" {on_host if host >= device else on_gpu}",
        (
            Evidence("optimizer on the host", facts.per_step(found.host_ns), "ns", Query(found.table, "optim")),
            Evidence("optimizer's kernels", facts.per_step(spent), "ns", kernel_sorts.proof(facts, found.kernels)),
            Evidence("kernels per call", per_call, "", kernel_sorts.proof(facts, found.kernels)),
            *((Evidence("parameter tensors", found.parameters),) if found.parameters else ()),
        ),
        f"{words.ns(facts.per_step(found.host_ns))} on the host of {words.ns(facts.step_ns)}{shown.as_recorded(facts)},"
        f" {words.ns(facts.per_step(spent))} on the GPU; {bound.why}",
        f"above {words.percent(limits.share_percent)} of the step"
        + (f", {limits.per_parameter:g} kernels per parameter or more" if loop else ", no fused kernel"),
        advice.for_optimizer(facts, loop=loop),
        impact_ns=bound.ns,
        ceiling_percent=bound.ceiling_percent,
        sure_percent=bound.sure_percent,
        work=_rows(facts, found.kernels),
        host=intervals.union(found.start, found.end) if not gain.gpu_is_limit(facts) else None,
    )


@rule(
    "F6",
    "Attention in separate kernels",
    needs=("timeline", "gpu"),
    rests_on=("gpu", "host", "shares"),
    thresholds={"chains": Threshold(2, "", "chains of GEMM, softmax, GEMM in the recording", own=True)},
    advice="scaled_dot_product_attention with a flash, memory-efficient or cuDNN backend.",
    changes=(change.FUSED_ATTENTION,),
    source="gpuprof",
)
def attention_not_fused(facts: Facts, limits: Limits) -> Finding | None:
    """Scores are computed by one GEMM, scaled, masked, put through softmax, and multiplied by another GEMM.

    The rule looks at the order of launches on a stream: a GEMM, then only elementwise work and copies around a softmax
    (not a log-softmax, which is a loss), then a GEMM. Each of these kernels moves the matrix of scores through memory;
    a fused kernel keeps it on the chip. Everything that the fused kernel would replace is at stake: kernels and copies
    between the GEMMs, forward and backward, these GEMMs, the copies that change the layout of operands for their
    `aten::matmul`, and the one that lays out the result.
    """
    found = kernel_sorts.attention(facts)
    if found.chains < limits.chains:
        return None
    spent, share = kernel_sorts.spent(facts, found.between)
    gemms, of_gemms = kernel_sorts.spent(facts, found.gemms)
    bound = gain.of_kernels(facts, found.replaced, fewer_launches=True)
    return Finding(
        "F6",
        bound.severity,
        f"Attention is not fused: {words.things(facts.per_step(found.chains), 'chain')} of GEMM, softmax, GEMM"
        f" {hints.per(facts)}, {words.percent(share or 0.0)} of {kernel_sorts.base(facts)} between the GEMMs",
        (
            Evidence(
                f"between the GEMMs, {hints.per(facts)}", facts.per_step(spent), "ns", Query("kernels", "softmax")
            ),
            Evidence(f"of {kernel_sorts.base(facts)}", share or 0.0, "%", kernel_sorts.proof(facts, found.between)),
            Evidence(
                f"their GEMMs {hints.per(facts)}", facts.per_step(gemms), "ns", kernel_sorts.proof(facts, found.gemms)
            ),
            Evidence("GEMMs, of kernel time", of_gemms or 0.0, "%"),
        ),
        f"{kernel_sorts.worked_out(facts, found.between)}; without all that a fused kernel stands in for: {bound.why}",
        f"{words.things(limits.chains, 'chain')} or more",
        advice.for_attention(facts, found),
        impact_ns=bound.ns,
        ceiling_percent=bound.ceiling_percent,
        sure_percent=bound.sure_percent,
        work=found.replaced,
        host=gain.launching(facts, found.replaced),
    )


@rule(
    "F7",
    "Softmax, elementwise work, norms and copies take a large part",
    needs=("timeline", "gpu"),
    rests_on=("gpu", "host", "shares", "whole"),
    thresholds={
        "softmax_percent": Threshold(10, "%", "softmax, of kernel time", own=True),
        "others_percent": Threshold(30, "%", "elementwise work, norms and copies, of kernel time", own=True),
    },
    advice="Fuse them: torch.compile, fused norms, fused attention.",
    changes=(change.COMPILED,),
)
def memory_bound_share(facts: Facts, limits: Limits) -> Finding | None:
    """Kernels that compute little for each byte take a large part of the time: fusing them saves trips to memory.

    Categories come from the kernels' names. Kernels that a compiler has already fused (Inductor's Triton kernels, XLA's
    fusions) do not count. A fused attention keeps softmax on the chip. Any other fused kernel must still read and write
    its data once, so the longest of each uninterrupted chain of such kernels on a stream stays, and of a loop in it
    that moves data (a stencil, a scan) the longest of each pass, which needs what the pass before has written; the time
    and the launches of the rest are at stake. So are sums between two chains, as in a norm of separate operations. The
    names of a program's own kernels are its author's, so for a program without a framework the finding is only a
    remark.
    """
    fused = kernel_sorts.by_name(facts.launches, lambda name: FUSED_BY_COMPILER.search(name) is not None)
    softmax = kernel_sorts.of_category(facts.launches, "softmax")
    others = kernel_sorts.of_category(facts.launches, "elementwise", "norm", "copy") & ~fused
    (soft_ns, soft), (other_ns, other) = kernel_sorts.spent(facts, softmax), kernel_sorts.spent(facts, others)
    if soft is None or other is None:
        return None
    much, many = soft > limits.softmax_percent, other > limits.others_percent
    if not (much or many):
        return None
    moved = kernel_sorts.of_category(facts.launches, "copy") & ~kernel_sorts.casts(facts)
    sums = kernel_sorts.of_category(facts.launches, "reduce")
    fused_away = (softmax & much) | chains.but_the_longest(facts.launches, others & many, moved, sums)
    bound = _without(facts, fused_away)
    parts = [f"softmax {words.percent(soft)}"] if much else []
    parts += [f"elementwise work, norms and copies {words.percent(other)}"] if many else []
    by_sort = [
        (name, kernel_sorts.spent(facts, kernel_sorts.of_category(facts.launches, name) & ~(fused & ~softmax))[0])
        for name in ("softmax", "elementwise", "norm", "copy")
    ]
    return Finding(
        "F7",
        "info" if facts.program.framework == "native" else bound.severity,
        f"Work that moves more than it computes: {' and '.join(parts)} of {kernel_sorts.base(facts)}",
        (
            *(
                Evidence(f"{name} {hints.per(facts)}", facts.per_step(spent), "ns", Query("kernels", name))
                for name, spent in sorted(by_sort, key=lambda part: -part[1])
                if spent
            ),
            *_fused_already(facts, fused),
        ),
        (f"softmax {words.ns(soft_ns)}, " if soft_ns else "")
        + f"elementwise work, norms and copies {words.ns(other_ns)} of {words.ns(kernel_sorts.whole_ns(facts))};"
        f" without {_parts_at_stake(much=much, many=many)}: {bound.why}",
        f"softmax above {words.percent(limits.softmax_percent)}, or elementwise work, norms and copies above"
        f" {words.percent(limits.others_percent)} of kernel time",
        advice.for_fusion(facts, softmax=much),
        impact_ns=bound.ns,
        ceiling_percent=bound.ceiling_percent,
        sure_percent=bound.sure_percent,
        work=_rows(facts, (softmax & much) | (others & many)),
        host=gain.launching(facts, _rows(facts, fused_away)),
    )


def _parts_at_stake(*, much: bool, many: bool) -> str:
    rest = "all but the longest kernel of each chain of the latter"
    return f"softmax and {rest}" if much and many else "softmax" if much else rest


def _fused_already(facts: Facts, fused: Bools) -> Iterator[Evidence]:
    """Evidence on kernels that a compiler fused, if there are any."""
    if fused.any():
        spent, _ = kernel_sorts.spent(facts, fused)
        yield Evidence(
            f"fused by a compiler, not counted, {hints.per(facts)}",
            facts.per_step(spent),
            "ns",
            kernel_sorts.proof(facts, fused),
        )


LAYOUTS = (
    ("flip", re.compile(r"flip|reverse", re.IGNORECASE)),
    ("roll", re.compile(r"(?<![a-z])roll(?!ed)", re.IGNORECASE)),
    ("cat", re.compile(r"CatArray|^cat|_cat_|concat|stack", re.IGNORECASE)),
    ("NCHW/NHWC", re.compile(r"nchwToNhwc|nhwcToNchw|nchw2nhwc|nhwc2nchw", re.IGNORECASE)),
    ("transpose", re.compile(r"transpose|permute", re.IGNORECASE)),
)
"""Kinds of layout changes by the kernel's name; the rest are copies."""


@rule(
    "F11",
    "Changes of layout",
    needs=("timeline", "gpu"),
    rests_on=("gpu", "host", "shares", "whole"),
    thresholds={
        "share_percent": Threshold(5, "%", "flips, concatenations, transposes and copies, of kernel time", own=True)
    },
    advice="Views and strides in place of copies; channels_last; kernels that read in the order they need.",
    changes=(change.CHANNELS_LAST, change.COMPILED),
)
def layout_changes(facts: Facts, limits: Limits) -> Finding | None:
    """Kernels that only move data to another place or order: flips, concatenations, transposes, ``contiguous``.

    F12 judges copies that change the type. All time of these kernels and their launches are at stake.
    """
    launched = facts.launches
    mask = kernel_sorts.of_category(launched, "copy") & ~kernel_sorts.casts(facts)
    share = kernel_sorts.spent(facts, mask)[1]
    if share is None or share <= limits.share_percent:
        return None
    sorts = _layout_sorts(launched.select("name", "duration").filter(pl.Series(mask)))
    bound = _without(facts, mask)
    return Finding(
        "F11",
        bound.severity,
        f"Moving data takes {words.percent(share)} of {kernel_sorts.base(facts)}, most by {sorts['sort'][0]}:"
        f" {words.things(facts.per_step(int(mask.sum())), 'launch', 'launches')} {hints.per(facts)}",
        tuple(
            Evidence(
                f"{row['sort']}, {words.things(facts.per_step(row['calls']), 'launch', 'launches')} {hints.per(facts)}",
                facts.per_step(row["ns"]),
                "ns",
                Query("kernels", "copy", row["name"]),
            )
            for row in sorts.iter_rows(named=True)
        ),
        f"{kernel_sorts.worked_out(facts, mask)}; without them: {bound.why}",
        f"above {words.percent(limits.share_percent)} of kernel time",
        advice.for_layout(facts, str(sorts["sort"][0])),
        impact_ns=bound.ns,
        ceiling_percent=bound.ceiling_percent,
        sure_percent=bound.sure_percent,
        work=_rows(facts, mask),
        host=gain.launching(facts, _rows(facts, mask)),
    )


def _layout_sorts(moved: pl.DataFrame) -> pl.DataFrame:
    """A frame of sort, calls, ns and the longest kernel's name, most time first."""

    def sort_of(kernel: str) -> str:
        short = kernel_names.short_name(kernel)
        return next((sort for sort, pattern in LAYOUTS if pattern.search(short)), "copies")

    kernels = moved.group_by("name").agg(ns=pl.col("duration").sum(), calls=pl.len())
    kernels = kernels.with_columns(pl.col("name").cast(pl.String))
    known = {kernel: sort_of(kernel) for kernel in kernels["name"].drop_nulls()}
    return (
        kernels.with_columns(sort=pl.col("name").replace_strict(known, default="copies", return_dtype=pl.String))
        .sort("ns", "name", descending=[True, False])
        .group_by("sort", maintain_order=True)
        .agg(pl.col("ns").sum(), pl.col("calls").sum(), pl.col("name").first())
        .sort("ns", "sort", descending=[True, False])
    )
