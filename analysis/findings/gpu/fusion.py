"""Work that could be fused or left out: optimizer, attention, elementwise work, changes of layout, batch norms."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracetui.analysis.attribution.calltree import numbered_by, stable_order
from tracetui.analysis.base import names
from tracetui.analysis.base.names import rows_of
from tracetui.analysis.findings.core import basis, gain, program, words
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Evidence, Finding, Query, evidence
from tracetui.analysis.findings.declared.gpu import F4, F6, F7, F11, F20
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.findings.gpu import kernel_kinds
from tracetui.analysis.findings.gpu.kernel_facts import attained
from tracetui.analysis.findings.gpu.kernel_kinds import Attention, Part
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.kernel_makers import (
    BATCH_NORM,
    BATCH_NORM_OF_NCHW,
    BATCH_NORM_OPERATOR,
    BATCH_STATISTICS,
    FOREACH_OPTIMIZER,
    FUSED_BY_COMPILER,
    FUSED_OPTIMIZER,
    TRAINS,
)
from tracetui.parsers.names.kernel_names import fp32_matrix_work


@looks_for(F4)
def optimizer_not_fused(facts: Facts, limits: Limits) -> Finding | None:
    steps = kernel_kinds.optimizer(facts)
    if steps is None or not steps.kernels.any():
        return None
    part = Part(facts, steps.kernels)
    on_host, on_gpu = facts.per_step(float(steps.host_ns)), facts.per_step(float(part.ns))
    host, device = facts.ceiling(on_host) or 0.0, basis.shown(facts).share(on_gpu) or 0.0
    mine = part.frame
    fused = kernel_kinds.by_name(mine, lambda name: FUSED_OPTIMIZER.search(name) is not None)
    per_call = mine.height / steps.calls
    limit = limits.per_parameter * steps.parameters if steps.parameters else limits.loop_kernels
    foreach = kernel_kinds.by_name(mine, lambda name: FOREACH_OPTIMIZER.search(name) is not None)
    loop = int((~foreach).sum()) / steps.calls >= limit
    if max(host, device) <= limits.share_percent or fused.any() or not (loop or foreach.any()):
        return None
    spared = mine if loop else _but_the_longest_operation(mine)
    bound = gain.of_calls(facts, steps.start, steps.end, spared["row"].cast(pl.Int64).to_numpy())
    bound = replace(bound, work=part.rows, host=None if gain.gpu_is_limit(facts) else bound.host)
    sort = "one parameter at a time" if loop else "one operation at a time (foreach)"
    span = f"{basis.recorded_span(facts)} on the host" if host >= device else f"{basis.shown(facts).span} on the GPU"
    return bound.finding(
        f"Fuse the optimizer: {words.things(per_call, 'kernel')} per call,"
        f" {words.percent(max(host, device))} of {span}",
        evidence(
            ("optimizer on the host", on_host, "ns", Query(steps.table, "optim")),
            ("optimizer's kernels", on_gpu, "ns", part.proof),
            ("kernels per call", per_call, "", part.proof),
            ("parameter tensors", steps.parameters),
        ),
        f"{sort}; {words.ns(on_host)} on the host of {words.ns(facts.step_ns)}{basis.as_recorded(facts)},"
        f" {words.ns(on_gpu)} on the GPU; {bound.why}",
        threshold=f"above {words.percent(limits.share_percent)} of the step"
        + (f", {limits.per_parameter:g} kernels per parameter or more" if loop else ", no fused kernel"),
        advice=for_optimizer(facts, loop=loop),
    )


def _but_the_longest_operation(launched: pl.DataFrame) -> pl.DataFrame:
    """The launches without those of the name that takes most time; all, where one name stands for every operation."""
    sums = launched.group_by("name").agg(pl.col("duration").sum())
    longest = sums.sort(pl.col("duration"), pl.col("name").cast(pl.String), descending=[True, False])["name"][0]
    return launched if sums.height == 1 else launched.filter(pl.col("name").cast(pl.String) != str(longest))


@looks_for(F6)
def attention_not_fused(facts: Facts, limits: Limits) -> Finding | None:
    attention = kernel_kinds.attention(facts)
    if attention.chains < limits.chains:
        return None
    between, gemms = Part(facts, attention.between), Part(facts, attention.gemms)
    bound = gain.of_kernels(facts, attention.replaced, fewer_launches=True)
    return bound.finding(
        f"Fuse attention: {words.things(facts.per_step(attention.chains), 'chain')} {program.per(facts)},"
        f" {words.percent(between.percent)} of {kernel_kinds.base(facts)} between their GEMMs",
        (
            between.spent("between the GEMMs,", Query("kernels", "softmax")),
            between.share(),
            gemms.spent("their GEMMs"),
            Evidence("GEMMs, of kernel time", gemms.percent, "%"),
        ),
        f"{between.worked_out}; without all that a fused kernel stands in for: {bound.why}",
        threshold=f"{words.things(limits.chains, 'chain')} or more",
        advice=for_attention(facts, attention),
    )


@looks_for(F7)
def memory_bound_share(facts: Facts, limits: Limits) -> Finding | None:
    fused = kernel_kinds.by_name(facts.launches, lambda name: FUSED_BY_COMPILER.search(name) is not None)
    softmax = Part(facts, kernel_kinds.of_category(facts.launches, "softmax"))
    others = Part(facts, kernel_kinds.of_category(facts.launches, "elementwise", "norm", "copy") & ~fused)
    much, many = softmax.percent > limits.softmax_percent, others.percent > limits.others_percent
    if not (much or many):
        return None
    moved = kernel_kinds.of_category(facts.launches, "copy") & ~kernel_kinds.casts(facts)
    sums = kernel_kinds.of_category(facts.launches, "reduce")
    fused_away = (softmax.mask & much) | but_the_longest(facts.launches, others.mask & many, moved, sums)
    bound = gain.of_kernels(facts, Part(facts, fused_away).rows, fewer_launches=True)
    bound = replace(bound, work=Part(facts, (softmax.mask & much) | (others.mask & many)).rows)
    kinds = " and ".join((["softmax"] if much else []) + (["elementwise work, norms, copies"] if many else []))
    share = Part(facts, (softmax.mask & much) | (others.mask & many)).percent
    by_sort = [
        (name, Part(facts, kernel_kinds.of_category(facts.launches, name) & ~(fused & ~softmax.mask)))
        for name in ("softmax", "elementwise", "norm", "copy")
    ]
    by_compiler = Part(facts, fused)
    by = "" if much or program.is_compiled(facts) else facts.program.say(pytorch=" with torch.compile", other="")
    return bound.finding(
        f"Fuse {kinds}{by}: {words.percent(share)} of {kernel_kinds.base(facts)}",
        (
            *(
                part.spent(name, Query("kernels", name))
                for name, part in sorted(by_sort, key=lambda entry: -entry[1].ns)
                if part.ns
            ),
            *((by_compiler.spent("fused by a compiler, not counted,"),) if fused.any() else ()),
        ),
        (f"softmax {words.ns(softmax.ns)}, " if softmax.ns else "")
        + f"elementwise work, norms and copies {words.ns(others.ns)} of {words.ns(kernel_kinds.whole_ns(facts))};"
        f" without {_parts_at_stake(much=much, many=many)}: {bound.why}",
        severity="info" if facts.program.framework == "native" else None,
        advice=for_fusion(facts, softmax=much),
    )


def _parts_at_stake(*, much: bool, many: bool) -> str:
    rest = "all but the longest kernel of each chain of the latter"
    return f"softmax and {rest}" if much and many else "softmax" if much else rest


LAYOUT_OF_IMAGES = "NCHW/NHWC"
LAYOUTS = (
    ("flip", re.compile(r"flip|reverse", re.IGNORECASE)),
    ("roll", re.compile(r"(?<![a-z])roll(?!ed)", re.IGNORECASE)),
    ("cat", re.compile(r"CatArray|^cat|_cat_|concat|stack", re.IGNORECASE)),
    (LAYOUT_OF_IMAGES, re.compile(r"nchwToNhwc|nhwcToNchw|nchw2nhwc|nhwc2nchw", re.IGNORECASE)),
    ("transpose", re.compile(r"transpose|permute", re.IGNORECASE)),
)
"""Kinds of layout changes by the kernel's name; the rest are copies."""


@looks_for(F11)
def layout_changes(facts: Facts, limits: Limits) -> Finding | None:
    part = Part(facts, kernel_kinds.of_category(facts.launches, "copy") & ~kernel_kinds.casts(facts))
    if part.percent <= limits.share_percent:
        return None
    sorts = _layout_sorts(part.frame)
    norms = _norms_of_other_layout(facts) if sorts["sort"][0] == LAYOUT_OF_IMAGES else ()
    bound = gain.of_kernels(facts, part.rows, fewer_launches=True, others=norms)
    return bound.finding(
        f"{_layout_change(facts, str(sorts['sort'][0]))}: moving data takes {words.percent(part.percent)} of"
        f" {kernel_kinds.base(facts)}",
        tuple(
            Evidence(
                f"{row['sort']}, {_launches(facts, row['calls'])}",
                facts.per_step(row["ns"]),
                "ns",
                Query("kernels", "copy", row["name"]),
            )
            for row in sorts.iter_rows(named=True)
        ),
        f"{part.worked_out}, {_launches(facts, part.launches)}; without them: {bound.why}",
        advice=for_layout(facts, str(sorts["sort"][0])),
    )


def _layout_change(facts: Facts, sort: str) -> str:
    """What to change about moving data, in a few words."""
    if facts.trace.info.kind == "trtexec":
        return "Reformat less"
    if sort == LAYOUT_OF_IMAGES:
        return facts.program.say(pytorch="Use channels_last", other="Keep images in one layout")
    return "Copy less" if sort == "copies" else f"Move less data, most by {sort}"


def _norms_of_other_layout(facts: Facts) -> list[tuple[Ints, float]]:
    """The batch norms on NCHW, and what is left of their time at their roof: channels_last exchanges their kernels."""
    at_roof = attained(facts)
    rows = facts.launches.select("row", name=pl.col("name").cast(pl.String))
    of_nchw = names.matching(rows["name"], lambda name: BATCH_NORM_OF_NCHW.search(name) is not None)
    groups = rows.filter(pl.Series(of_nchw)).group_by("name", maintain_order=True)
    return [
        (group["row"].cast(pl.Int64).to_numpy(), min(at_roof[name][0] / 100, 1.0) if name in at_roof else 0.0)
        for (name,), group in groups
    ]


def _launches(facts: Facts, launches: int) -> str:
    return f"{words.things(facts.per_step(launches), 'launch', 'launches')} {program.per(facts)}"


def _layout_sorts(moved: pl.DataFrame) -> pl.DataFrame:
    """A frame of sort, calls, ns and the longest kernel's name, most time first."""

    def sort_of(kernel: str) -> str:
        short = kernel_names.short_name(kernel)
        return next((sort for sort, pattern in LAYOUTS if pattern.search(short)), "copies")

    kernels = moved.group_by("name").agg(ns=pl.col("duration").sum(), calls=pl.len())
    kernels = kernels.with_columns(pl.col("name").cast(pl.String))
    sorts = {kernel: sort_of(kernel) for kernel in kernels["name"].drop_nulls()}
    return (
        kernels.with_columns(sort=pl.col("name").replace_strict(sorts, default="copies", return_dtype=pl.String))
        .sort("ns", "name", descending=[True, False])
        .group_by("sort", maintain_order=True)
        .agg(pl.col("ns").sum(), pl.col("calls").sum(), pl.col("name").first())
        .sort("ns", "sort", descending=[True, False])
    )


def for_optimizer(facts: Facts, *, loop: bool) -> str:
    """How to update all parameters at once."""
    return facts.program.say(
        pytorch="Pass fused=True to the optimizer (Adam, AdamW, SGD, Adagrad): one kernel reads and writes each tensor"
        " once." + (" If that is not available, foreach=True updates many tensors per launch." if loop else ""),
        jax="Keep the whole update in one jit with the step, so that XLA fuses each parameter's operations; with many"
        " small parameters, flatten them (optax.flatten).",
        other="Update all parameters in one launch: one kernel over a list of tensors, or one flat buffer for all of"
        " them, that reads and writes each value once.",
    )


_WEIGHED = r": MultiheadAttention(_\d+)?$"


def for_attention(facts: Facts, attention: Attention) -> str:
    """How to fuse the attention."""
    fp32 = kernel_kinds.by_name(facts.launches.filter(pl.Series(attention.gemms)), fp32_matrix_work).any()
    backends = " Flash and cuDNN backends need fp16 or bf16; in fp32 the memory-efficient one serves." if fp32 else ""
    called = facts.trace.host.filter(pl.col("kind") == "operator")["name"].cast(pl.String)
    if called.str.contains("_scaled_dot_product_attention_math").any():
        return (
            "scaled_dot_product_attention fell back to its math backend:"
            " torch.nn.attention.sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]) says what it"
            " misses (dtype, mask, head size, need for weights)." + backends
        )
    within = facts.launches.filter(pl.Series(attention.between))["module"].drop_nulls()
    if facts.trace.host["name"].gather(within).cast(pl.String).str.contains(_WEIGHED).any():
        return (
            "nn.MultiheadAttention: pass need_weights=False where nobody reads the weights, so that it calls a fused"
            " kernel." + backends
        )
    return facts.program.say(
        pytorch="Replace the chain by torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=…,"
        " is_causal=…)." + backends,
        jax='jax.nn.dot_product_attention(..., implementation="cudnn"), or a Pallas flash attention kernel.',
        other="Call one fused attention kernel in place of the chain: cuDNN's scaled dot product attention,"
        " FlashAttention, CUTLASS's fused multi-head attention; on AMD composable_kernel's FMHA.",
    )


def for_fusion(facts: Facts, *, softmax: bool) -> str:
    """How to fuse kernels that move more than they compute."""
    first = "Use a fused attention, which keeps softmax on the chip. " if softmax else ""
    by_torch = (
        "It is compiled: look for graph breaks and custom operators between which nothing can be fused."
        if program.is_compiled(facts)
        else "torch.compile does it. By hand: fused norms (torch.nn.functional.rms_norm, Apex, Liger), bias and"
        " activation in the GEMM's epilogue, in-place or foreach variants; bf16 halves the bytes."
    )
    return first + facts.program.say(
        pytorch=by_torch,
        jax="XLA fuses what it sees in one jit: keep layers in it, and look for operations that break fusions.",
        other="Put neighbouring kernels in one, so that intermediate values stay in registers or shared memory; bias"
        " and activation in the GEMM's epilogue (cublasLt, CUTLASS); a smaller type halves the bytes.",
    )


def for_layout(facts: Facts, sort: str) -> str:
    """How to avoid moving data, by what moves most of it: `framework.LAYOUTS`."""
    if facts.trace.info.kind == "trtexec":
        return (
            "TensorRT reformats between layers of different types or formats: quantise both sides of a connection or"
            " neither, and give inputs and outputs the engine's formats (--inputIOFormats, --outputIOFormats)."
        )
    in_torch = {
        "flip": "Let the kernel that follows read backwards (a reversed scan direction) in place of torch.flip before"
        " and after it.",
        "roll": "Let the kernel that follows read its neighbours by index (a kernel of its own, a convolution with"
        " circular padding, or torch.compile, which fuses rolls with what reads them) in place of torch.roll.",
        "cat": "Write parts into one preallocated tensor (out=, slices), or keep them as views of it, in place of"
        " torch.cat.",
        "NCHW/NHWC": "Convert model and input once to memory_format=torch.channels_last, so that cuDNN need not for"
        " every convolution.",
        "transpose": "Give the operators strides they take (einsum, transposed GEMM flags), or store in the order of"
        " use.",
    }.get(
        sort,
        "Find what copies (the Operators tab: contiguous, clone, reshape) and pass views to operators that take"
        " strides.",
    )
    in_c = {
        "flip": "Let the kernel that follows read backwards in place of reversing its input.",
        "roll": "Let the kernel that follows read its neighbours by index.",
        "cat": "Let each producer write its part of one buffer, in place of joining them.",
        "NCHW/NHWC": "Keep data in one layout, NHWC where tensor cores are used, so that the library need not convert"
        " for every convolution.",
        "transpose": "Use the GEMM's transpose flags and leading dimensions, or store in the order of use.",
    }.get(sort, "Let the kernel that follows read with strides, in place of copying its input first.")
    return facts.program.say(
        pytorch=f"{in_torch} torch.compile fuses the copies that are left with their neighbours.",
        jax=f"{in_c} XLA chooses layouts within one jit: look at what crosses its border, and at transposes in the"
        " program.",
        other=in_c,
    )


LONGEST_PASS = 64
"""A loop's pass has at most so many kernels to be known as one."""
LEAST_PASSES = 3
"""So often kernels follow one another in the same order where they are a loop."""


def but_the_longest(launched: pl.DataFrame, mask: Bools, moves: Bools, sums: Bools) -> Bools:
    """The chosen launches, and the sums between them, without what stays if each chain is fused: its longest.

    A chain is uninterrupted on its stream. A loop in it is a chain of its own for each pass, if its passes move data:
    what one moves, the pass before has written, or it is other data, which has to be read and written too. Sums between
    two chains, as in a norm made of separate operations, are computed where these are.

    Args:
        launched: `kernel_rows`, in the order of their starts.
        mask: the chosen ones.
        moves: the ones that move data to another place, such as rolls and transposes.
        sums: the ones that only add up.
    """
    rest: Bools = mask.copy()
    if not mask.any():
        return rest
    lane = numbered_by(launched, ("device", "stream"))
    order = stable_order(lane)
    chosen, lane = mask[order], lane[order]
    rest[order[_between(chosen, sums[order], lane)]] = True
    begins = chosen & np.append(True, ~chosen[:-1] | (lane[1:] != lane[:-1]))
    order, begins = order[chosen], begins[chosen]
    begins |= _passes(launched["name"].to_physical().to_numpy()[order], moves[order], np.cumsum(begins))
    lasting = launched["duration"].fill_null(np.iinfo(np.int64).max).to_numpy()[order]
    chain = np.cumsum(begins) - 1
    longest = np.flatnonzero(lasting == np.maximum.reduceat(lasting, np.flatnonzero(begins))[chain])
    first = np.append(True, chain[longest[1:]] != chain[longest[:-1]])
    rest[order[longest[first]]] = False
    return rest


def _between(chosen: Bools, sums: Bools, lane: Ints) -> Bools:
    """Marks the sums whose nearest other launches on their lane, before and after, are both chosen."""
    at = np.arange(chosen.size)
    before = np.maximum.accumulate(np.where(sums, -1, at))
    after = np.minimum.accumulate(np.where(sums, chosen.size, at)[::-1])[::-1]
    found: Bools = sums & (before >= 0) & (after < chosen.size)
    place = np.flatnonzero(found)
    before, after = before[place], after[place]
    alike = (lane[before] == lane[place]) & (lane[after] == lane[place])
    found[place] = alike & chosen[before] & chosen[after]
    return found


def _passes(name: Ints, moves: Bools, chain: Ints) -> Bools:
    """Where the passes of loops begin, by the launches' names."""
    begins = np.zeros(name.size, np.bool_)
    length = np.bincount(chain)
    moving = np.bincount(chain, weights=moves) > 0
    # most chains are short, or move nothing
    at = np.flatnonzero((moving & (length >= 2 * LEAST_PASSES))[chain])
    name, moves, chain = name[at], moves[at], chain[at]
    found = []
    for period in range(2, min(LONGEST_PASS, at.size // LEAST_PASSES) + 1):
        same = (name[period:] == name[:-period]) & (chain[period:] == chain[:-period])
        edges = np.flatnonzero(np.diff(np.concatenate(([0], same.view(np.int8), [0]))))
        found += [
            (start, stop + period, period)
            for start, stop in edges.reshape(-1, 2).tolist()
            if stop + period - start >= LEAST_PASSES * period and moves[start : start + period].any()
        ]
    free = np.ones(at.size, np.bool_)
    # a pass may hold a shorter loop: the one that goes on for longest decides
    for start, end, period in sorted(found, key=lambda loop: (loop[0] - loop[1], loop[2])):
        if free[start:end].all():
            begins[at[start:end:period]] = True
            free[start:end] = False
    return begins


BETWEEN = 2
"""Kernels between a convolution and its batch norm at most: a bias, a change of layout."""


def trains(facts: Facts) -> bool:
    """Whether anything in the recording computes gradients or updates weights."""
    kernels = facts.launches["name"]
    calls = rows_of(facts.trace.host.select("kind", "name"), "operator", "annotation")["name"]
    told = [names.matching(column, lambda name: TRAINS.search(name) is not None).any() for column in (kernels, calls)]
    return bool(any(told)) or bool(kernel_kinds.of_category(facts.launches, "optimizer").any())


def after_convolution(facts: Facts) -> Bools:
    """Marks the batch norms that directly follow a convolution on their stream."""
    launched = facts.launches
    operator = facts.trace.host["name"].gather(launched["operator"])
    norm = kernel_kinds.by_name(launched, lambda name: BATCH_NORM.search(name) is not None)
    norm |= names.matching(operator, lambda name: BATCH_NORM_OPERATOR.search(name) is not None)
    found = np.zeros(norm.size, np.bool_)
    if not norm.any():
        return found
    category = kernel_kinds.categories(launched).to_numpy()
    for rows in launched.select("device", "stream").with_row_index("at").group_by("device", "stream").agg("at")["at"]:
        on = rows.to_numpy()
        for place in np.flatnonzero(norm[on]).tolist():
            before = category[on[max(place - BETWEEN - 1, 0) : place]].tolist()[::-1]
            kinds = [kind for kind in before if kind not in ("copy", "elementwise")]
            found[on[place]] = bool(kinds) and kinds[0] == "conv"
    return found


@looks_for(F20)
def batch_norm_not_folded(facts: Facts, limits: Limits) -> Finding | None:
    part = Part(facts, after_convolution(facts))
    if part.percent <= limits.share_percent or trains(facts):
        return None
    if kernel_kinds.by_name(facts.launches, lambda name: BATCH_STATISTICS.search(name) is not None).any():
        return None
    bound = gain.of_kernels(facts, part.rows, fewer_launches=True)
    count = facts.per_step(part.launches)
    return bound.finding(
        f"{words.things(count, 'batch norm')} {program.per(facts)} could be folded into the convolutions before them:"
        f" {words.percent(part.percent)} of {kernel_kinds.base(facts)}",
        (
            part.spent("batch norms"),
            part.share(Query("kernels", "norm")),
            Evidence("backward pass, optimizer, statistics", "none recorded"),
        ),
        f"{part.worked_out}; without them: {bound.why}",
        advice=facts.program.say(
            pytorch="model.eval(), then torch.nn.utils.fusion.fuse_conv_bn_eval for each pair (or"
            " torch.ao.quantization.fuse_modules); torch.compile does it with torch._inductor.config.freezing = True."
            " Compare the outputs.",
            other="Multiply each convolution's weights by gamma / sqrt(variance + epsilon) of its channel, and put what"
            " is left in its bias, once when the model is loaded. Compare the outputs.",
        ),
    )
