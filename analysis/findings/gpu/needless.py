"""Rules on work that a step may do without: nothing learns from it, nobody uses it, or it yields the same again."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from math import prod

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracetui.analysis.attribution.calltree import NONE, lanes_of, parents_of, row_ids
from tracetui.analysis.attribution.module_tree import PREFIX, class_name
from tracetui.analysis.attribution.operator_tree import scope_mask
from tracetui.analysis.attribution.place import PART, around, own_frames
from tracetui.analysis.base import names
from tracetui.analysis.base.names import of_kinds
from tracetui.analysis.findings.core import gain, words
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Evidence, Finding, Query
from tracetui.analysis.findings.core.gain import Gain
from tracetui.analysis.findings.declared.gpu import F24, F25, F27
from tracetui.analysis.findings.declared.host import S34, S35, S37, S38
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.findings.gpu import kernel_kinds
from tracetui.analysis.findings.gpu.operator_calls import in_a_row, inputs_of, launched_by
from tracetui.analysis.selection import step_at
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.nesting import nearest, with_ancestors
from tracetui.parsers.runs.manifest import InVain, Spare, Unchanged

MOSTLY = 0.5
"""Of a place's operators, so many must be found in a step of the recording."""


@looks_for(S34)
def without_gradient(facts: Facts, limits: Limits) -> Iterator[Finding]:
    host = facts.trace.host
    if (facts.host_model is None and not facts.is_without_gpu) or not host["forward"].count():
        return
    function = own_frames(facts.trace).own & of_kinds(host["kind"], "python")
    function &= ~names.matching(host["name"], lambda name: bool(PART.search(name)))
    calls = _without_gradient(facts, function)
    called = pl.DataFrame({"row": calls, "function": host["name"].gather(calls).cast(pl.String)})
    for (name,), rows in called.group_by("function", maintain_order=True):
        at = rows["row"].to_numpy()
        bound = gain.of_host_rows(facts, np.isin(np.arange(host.height), at))
        bound = replace(bound, least_ns=0.0, sure_percent=0.0)
        if (bound.ceiling_percent or 0.0) < limits.share_percent:
            continue
        yield bound.finding(
            f"Do {name} less often: no gradient flows through it",
            (
                Evidence("calls", facts.per_step(at.size), "", Query("host", row=str(name))),
                *_gpu_work("their GPU work", facts, bound),
            ),
            f"without its calls: {bound.why}",
            advice="Compute once what does not change between steps: masks, positions, a graph's structure, the output"
            " of a frozen encoder. Metrics and statistics: in every n-th step. Augmentation: in the loader's workers.",
        )


def _gpu_work(name: str, facts: Facts, bound: Gain) -> tuple[Evidence, ...]:
    """How long the GPU work of a bound lasts in a step, as recorded; nothing where there is none."""
    if bound.work is None:
        return ()
    spent = facts.per_step(float(facts.trace.device["duration"].gather(bound.work).sum()))
    return (Evidence(name, spent, "ns", Query("kernels")),)


def _without_gradient(facts: Facts, function: Bools) -> Ints:
    """The outermost calls of these functions that launch work, all of it neither learned from nor the optimizer's.

    Without a GPU work is what operators do.
    """
    host, parent = facts.trace.host, parents_of(facts.trace.host)
    backward = row_ids(host["forward"])
    learned = backward >= 0
    learned[backward[learned]] = True
    launch = row_ids(facts.launches["launch"])
    if facts.is_without_gpu:
        launch = np.flatnonzero(of_kinds(host["kind"], "operator") & scope_mask(facts.sel))
        learned |= names.matching(host["name"], lambda name: name.startswith("Optimizer."))
    needed = nearest(parent, learned, launch) >= 0
    if (optimizer := kernel_kinds.optimizer(facts)) is not None:
        needed[optimizer.kernels] = True
    holds, keeps = np.zeros(host.height + 1, np.bool_), np.zeros(host.height + 1, np.bool_)
    holds[launch], keeps[launch[needed]] = True, True
    spare = function & with_ancestors(parent, holds[:-1]) & ~with_ancestors(parent, keeps[:-1])
    rows = np.flatnonzero(spare & scope_mask(facts.sel))
    start = host["start"].to_numpy()[rows]
    begins, ends = (step_at(facts.sel.steps, at) for at in (start, start + host["duration"].to_numpy()[rows]))
    # of a call that the recording cuts, what learns from it may be missing
    rows = rows[begins.eq_missing(ends).to_numpy()]
    outermost: Ints = rows[~np.append(spare, False)[nearest(parent, function, parent[rows])]]
    return outermost


AGAIN = (
    "Keep the first result and use it again in this step: an embedding, a mask, a weight"
    " (torch.nn.utils.parametrize.cached())."
)


@looks_for(S35)
def computed_again(facts: Facts, limits: Limits) -> Iterator[Finding]:
    told = () if facts.manifest is None else facts.manifest.measurement.unchanged
    if not told or (facts.host_model is None and not facts.is_without_gpu):
        return
    known = _numbered_operators(facts)
    places: dict[tuple[str, int, str, bool, bool], list[Unchanged]] = {}
    for one in told:  # a function that is called several times per step is told of once for each call
        places.setdefault((one.file, one.line, one.function, one.whole, one.again), []).append(one)
    for calls in places.values():
        each, rows = calls[0], np.concatenate([_calls_of(known, one) for one in calls])
        if not rows.size:
            continue
        marked = np.isin(np.arange(facts.trace.host.height), rows)
        if each.again:  # with one result there is one gradient
            host = facts.trace.host
            marked |= np.append(nearest(parents_of(host), marked, np.arange(host.height)) >= 0, False)[
                row_ids(host["forward"])
            ]
        bound = gain.of_host_rows(facts, marked)
        if (bound.ceiling_percent or 0.0) < limits.share_percent:
            continue
        same = "the same in each step" if not each.again else "what it was before in the same step"
        what = f"all of {each.function}" if each.whole else f"line {each.line} of {each.function}"
        yield bound.finding(
            f"Compute once {each.file}:{each.line}, {each.function}: its result is {same}",
            (
                Evidence("the same bits in each of the steps compared", what),
                Evidence(
                    "operators", sum(len(of.calls) for one in calls for of in one.operators), "", Query("operators")
                ),
                *_gpu_work("their GPU work, as recorded", facts, bound),
            ),
            f"without these operators: {bound.why}",
        )


@looks_for(F27)
def in_vain(facts: Facts, limits: Limits) -> Iterator[Finding]:
    told = () if facts.manifest is None else facts.manifest.measurement.in_vain
    if not told or (facts.host_model is None and not facts.is_without_gpu):
        return
    known, host = _numbered_operators(facts), facts.trace.host
    places: dict[tuple[str, int, str, str], list[InVain]] = {}
    for one in told:  # what is read or masked by several is told of once for each
        places.setdefault((one.file, one.line, one.function, one.why), []).append(one)
    for (file, line, function, why), found in places.items():
        rows = [_calls_of(known, one) for one in found]
        used = max(one.used for one in found)
        bound = _spared(facts, np.isin(np.arange(host.height), np.concatenate(rows)), used)
        if (bound.ceiling_percent or 0.0) < limits.share_percent:
            continue
        by = found[0].by or ""
        by = f"line {by.rpartition(':')[2]}" if by.startswith(f"{file}:") else by
        by += f" and {words.things(len(found) - 1, 'other')}" if by and len(found) > 1 else ""
        by = by and f", {f'{why} ' if why in ('read', 'masked') else ''}in {by}"
        title, advice = _IN_VAIN.get(why, _IN_VAIN["read"])
        yield bound.finding(
            title.format(place=f"{file}:{line}, {function}", used=words.percent(100 * used), by=by),
            (
                Evidence("used", 100 * used, "%"),
                Evidence(
                    "operators", sum(len(of.calls) for one in found for of in one.operators), "", Query("operators")
                ),
                *_gpu_work("their GPU work, as recorded", facts, bound),
            ),
            f"without the rest: {bound.why}",
            advice=advice,
        )


_IN_VAIN = {
    "read": (
        "Compute only what is read, {used} of it: {place}{by}",
        "Take the part first and compute then: the last position before the output layer, the rows of a batch that"
        " count, a diagonal as sums of products, what a crop shows, irfft where the real part is read.",
    ),
    "zeroed": (
        "Leave out {place}: its result is multiplied by 0{by}",
        "Don't compute a term whose weight is 0.",
    ),
    "masked": (
        "Compute only what is not masked, {used} of it: {place}{by}",
        "Index by the mask before, not after; group rows by what belongs together (expert, document, event), and"
        " compute each group alone.",
    ),
    "alike": (
        "Compute equal rows once, {used} of them differ: {place}",
        "Compute before the rows are repeated or expanded, or each different one once (torch.unique with"
        " return_inverse), and index the result.",
    ),
    "repeated": (
        "Copy repeated numbers once, {used} of them differ: {place}",
        "Copy what is repeated once, upload it so, and expand it where it is used: expand, unfold and broadcasting are"
        " views.",
    ),
    "dropped": (
        "Leave out {place}: nobody reads its result",
        "Call it where its result is needed, or return before.",
    ),
}
"""By why a result is in vain: the title, and what to do."""


def _spared(facts: Facts, marked: Bools, used: float) -> Gain:
    """The gain if these operators, and their gradients, did what is used of their work alone."""
    host = facts.trace.host
    if not used or facts.is_without_gpu:
        marked |= np.append(nearest(parents_of(host), marked, np.arange(host.height)) >= 0, False)[
            row_ids(host["forward"])
        ]
        bound = gain.of_host_rows(facts, marked)
        bound = gain.limited(bound, (1 - used) * bound.ns, facts.page_step.ns, f"{words.percent(100 * used)} is left")
    else:
        bound = gain.of_kernels(facts, launched_by(facts, np.flatnonzero(marked)), factor=used)
    return replace(bound, least_ns=0.0, sure_percent=0.0)


def _numbered_operators(facts: Facts) -> pl.DataFrame:
    """Operators within the steps: row, lane, step, name, and the number of each among its lane's, step's and name's.

    What an operator calls of its own name is left out: only the outer one was looked at.
    """
    host, same = facts.trace.host, ("lane", "step", "name")
    rows = np.flatnonzero(of_kinds(host["kind"], "operator") & scope_mask(facts.sel))
    codes = host["name"].to_physical().to_numpy()
    rows = rows[codes[rows] != np.append(codes, NONE)[parents_of(host)[rows]]]
    table = pl.DataFrame(
        {
            "row": rows,
            "lane": lanes_of(host)[rows],
            "step": step_at(facts.sel.steps, host["start"].to_numpy()[rows]),
            "name": host["name"].gather(rows).cast(pl.String),
        }
    )
    return table.drop_nulls().with_columns(number=pl.int_range(pl.len()).over(same), of=pl.len().over(same))


def _calls_of(known: pl.DataFrame, told: Unchanged | InVain) -> Ints:
    """The rows of these calls, in the steps of the thread that have as many of most of these operators."""
    asked = pl.DataFrame(
        [(of.name, of.of, number) for of in told.operators for number in of.calls],
        schema={"name": pl.String, "of": pl.UInt32, "number": pl.Int64},
        orient="row",
    )
    found = known.join(asked, on=["name", "of", "number"])
    rows: Ints = found.filter(pl.len().over("lane", "step") > MOSTLY * asked.height)["row"].sort().to_numpy()
    return rows


@looks_for(S37)
def unused_gradients(facts: Facts, limits: Limits) -> Finding | None:
    told = None if facts.manifest is None else facts.manifest.measurement.unheld
    if told is None or not told.classes or (facts.host_model is None and not facts.is_without_gpu):
        return None
    host = facts.trace.host
    frozen = of_kinds(host["kind"], "module")
    frozen &= names.matching(host["name"], lambda name: class_name(name.removeprefix(PREFIX)) in told.classes)
    rows = np.flatnonzero((row_ids(host["forward"]) >= 0) & scope_mask(facts.sel))
    inside = nearest(parents_of(host), frozen, row_ids(host["forward"])[rows]) >= 0
    if not inside.any():
        return None
    marked = np.zeros(host.height, np.bool_)
    marked[rows[inside]] = True
    bound = gain.of_host_rows(facts, marked)
    bound = bound if facts.host_model is None else replace(bound, host=None)
    goes_on = not inside[np.argmax(host["start"].to_numpy()[rows])]
    if goes_on:  # to what is before these modules
        bound = replace(bound, least_ns=0.0, sure_percent=0.0)
    if (bound.ceiling_percent or 0.0) < limits.share_percent:
        return None
    what = words.listed(list(told.classes))
    through = ", but gradients go on to what is before it" if goes_on else ""
    return bound.finding(
        f"Freeze {what}: no optimizer holds its {words.things(told.parameters, 'parameter')}",
        (
            Evidence("gradients that nobody uses", told.bytes, "byte", Query("modules", told.classes[0])),
            *_gpu_work("GPU work of its backward pass, as recorded", facts, bound),
        ),
        f"without the backward pass of {what}{through}: {bound.why}",
    )


@looks_for(S38)
def nothing_there(facts: Facts, limits: Limits) -> Iterator[Finding]:
    told = () if facts.manifest is None else facts.manifest.measurement.spare
    if not told or facts.host_model is None:
        return
    launched = facts.launches.filter(pl.col("operator").is_not_null())
    texts = facts.trace.host["input_shapes"].gather(launched["operator"]).cast(pl.String)
    known, attends = launched["row"].to_numpy(), kernel_kinds.of_category(launched, "attention")
    for one in told:
        is_padding = one.dim is not None
        in_all = is_padding and one.percent >= limits.same_percent
        percent = one.percent if in_all else one.mean_percent
        powers = {text: (_length_in if is_padding else _rows_in)(inputs_of(text), one) for text in texts.unique()}
        power = np.array([powers[text] for text in texts], np.int64)
        power[(power > 0) & attends] = 2
        left, pairs = 1 - percent / 100, known[power > 1]
        others = [(pairs, left**2)] if pairs.size else []
        bound = gain.of_kernels(facts, known[power == 1], factor=left, others=others)
        bound = replace(gain.of_the_step(bound, facts.host_model), least_ns=0.0, sure_percent=0.0)
        if (bound.ceiling_percent or 0.0) < limits.share_percent:
            continue
        place, size = f"{one.file}:{one.line}, {one.function}", one.shape[one.dim or 0]
        shape = " × ".join(map(words.count, one.shape))
        what = f"{words.percent(percent)} of the {words.count(size)}"
        if not is_padding:
            title = f"Take the rows that have a label before {place}: its loss ignores {what}"
            advice = (
                "Select these rows before the last layer: x[labels != ignore_index]; pack answers, shorten prompts."
            )
        elif in_all:
            title = f"Pad {one.name} to its batch's longest, for {place}: {what} positions are the same in all items"
            advice = (
                "Pad in the collate function to the longest item of the batch, rounded up to a multiple of 8 to 64."
            )
        else:
            title = f"Group {one.name} by length, for {place}: {what} positions are padding on average"
            advice = "Make batches of items of like length (a sampler by length), or pack several into one row."
        yield bound.finding(
            title,
            (
                Evidence("given to" if is_padding else "scores of", f"{one.of}, {shape}"),
                Evidence("so in each item on average", one.mean_percent, "%"),
                Evidence("launches that this is about", facts.per_step(int((power > 0).sum())), "", Query("kernels")),
            ),
            bound.why,
            advice=advice,
        )


HALVED = 5
"""Layers with strides and pooling leave a half of a length, this often at most."""


def _length_in(shapes: list[list[int]], of: Spare) -> int:
    """Whether the tensor's length, or what strides and views make of it, is in an operator's inputs; 2 for pairs."""
    # tokens have no strides
    halves = HALVED if len(of.shape) > 2 else 0
    lengths = [length for halved in range(halves + 1) if (length := of.shape[of.dim or 0] >> halved) > HALVED]
    pairs = any(len(shape) > 2 and shape[-1] == shape[-2] in lengths for shape in shapes)
    sizes = {size for shape in shapes for size in shape}
    found = any(size in (length, length + 1) or size % length == 0 for size in sizes if size for length in lengths)
    return 1 + pairs if found else 0


def _rows_in(shapes: list[list[int]], of: Spare) -> int:
    """Whether an operator has as many rows as the loss, and its classes."""
    rows, classes = of.shape
    others = [prod(shape) // (classes if classes in shape else max(shape[-1], 1)) for shape in shapes if shape]
    return int(any(classes in shape for shape in shapes) and max(others) >= rows)


MOVED = (
    (re.compile(r"^aten::(?:_?index\w*|gather|scatter\w*|take\w*|masked_\w+|nonzero\w*)$"), "indexing",
     "Index fewer rows, or numbers: what is linear may come before the gather, a range of a cache is a slice, and the"
     " gradient of an index adds one by one, or sorts. Order the indices once, if they stay."),
    (re.compile(r"^aten::_?(?:upsample|grid_sampler)\w*$"), "resampling",
     "Resample fewer numbers: what is linear in each position, such as a 1 × 1 convolution to fewer channels, may come"
     " first and yields the same; or resample once, in a smaller type, or by a smaller factor."),
    (re.compile(r"^aten::(?:topk|kthvalue|median|quantile|_?unique\w*|bincount|histc|cum\w+|searchsorted"
                r"|multinomial)$"), "sorting",
     "Sort fewer numbers: cut candidates first, keep an order that stays from step to step, or take a threshold."),
    (re.compile(r"^aten::(?:arg)?sort$"), "sorting",
     "The largest alone are torch.topk; a rank is a count of what is greater: (scores > own).sum(-1)."),
)  # fmt: skip
"""Operators that neither multiply nor fuse, what their work is called, and how there may be less of it."""
RESAMPLING = 1
CONVOLUTIONS = re.compile(r"^aten::(?:conv\d?d?|convolution)$")
MASKED = (
    "A boolean mask as an index is searched (nonzero), gathered by, and sorted again for its gradient, while the host"
    " waits for its size: masked_fill, torch.where or a weight keep the shape."
)


@looks_for(F25)
def moved(facts: Facts, limits: Limits) -> Iterator[Finding]:
    host = facts.trace.host
    launched = facts.launches.filter(pl.col("operator").is_not_null()).select(
        "row", "operator", "duration", kernel="name"
    )
    kind_of = {
        str(name): kind for name in host["name"].unique() for kind, (of, *_) in enumerate(MOVED) if of.match(name)
    }
    moves = names.matching(host["name"], kind_of.__contains__)
    moving = nearest(parents_of(host), moves, row_ids(launched["operator"]))
    launched = launched.with_columns(moving=moving).filter(pl.col("moving") >= 0)
    launched = launched.with_columns(name=host["name"].gather(launched["moving"]).cast(pl.String))
    launched = launched.with_columns(kind=pl.col("name").replace_strict(kind_of, return_dtype=pl.Int64))
    in_order = launched["name"].str.contains("sort$")
    launched = launched.filter(
        ~in_order | launched["moving"].is_in(_needless_sorts(facts, launched["moving"].filter(in_order)))
    )
    if not launched.height:
        return
    at = around(facts.trace, row_ids(launched["operator"]))
    holds = np.where(at.frame >= 0, at.frame, at.module)
    launched = launched.with_columns(place=host["name"].gather(np.maximum(holds, 0)).cast(pl.String)).filter(holds >= 0)
    for (place,), rows in launched.group_by("place", maintain_order=True):
        resampled = rows["moving"].filter(rows["kind"] == RESAMPLING)
        smaller = _smaller_before(facts, resampled.unique().sort().to_numpy())
        bound = gain.of_kernels(facts, rows["row"].to_numpy(), fewer_launches=True, others=smaller)
        bound = replace(bound, least_ns=0.0, sure_percent=0.0)
        if (bound.ceiling_percent or 0.0) < limits.share_percent:
            continue
        spent = rows.group_by("kind").agg(pl.col("duration").sum()).sort("duration", descending=True)
        _, what, advice = MOVED[spent["kind"][0]]
        names_of = (
            rows.group_by("name").agg(pl.col("duration").sum()).sort("duration", "name", descending=[True, False])
        )
        share = 100 * float(rows["duration"].sum()) / max(kernel_kinds.whole_ns(facts), 1)
        layout = max(map(kernel_kinds.layout, rows["kernel"].unique().cast(pl.String)))
        is_masked = what == "indexing" and rows["name"].str.contains("nonzero").any()
        yield bound.finding(
            f"Do less {what} in {str(place).removeprefix(PREFIX)}: {words.percent(share)} of kernel time",
            tuple(
                Evidence(name, facts.per_step(float(ns)), "ns", Query("operators", name))
                for name, ns in names_of.head(4).iter_rows()
            ),
            bound.why,
            advice=layout + (MASKED if is_masked else advice),
        )


NEXT = 16
"""Of the operators after one, so many are looked at for what reads its result."""


def _smaller_before(facts: Facts, calls: Ints) -> list[tuple[Ints, float]]:
    """Work on what these operators enlarge that would be of so much less before them, and the part that is left of it.

    A convolution to fewer channels that looks at single positions commutes with resampling, which is what is advised;
    conversions and copies of the large tensor on the way to it, and the gradients of all, then are small too.
    """
    host, found = facts.trace.host, dict[float, list[int]]()
    for call, (_, after) in zip(calls.tolist(), in_a_row(facts, calls, NEXT), strict=True):
        given, between = next(iter(inputs_of(host["input_shapes"][call])), []), list[int]()
        for row in after.tolist():
            shapes = inputs_of(host["input_shapes"][row])
            result = next((shape for shape in shapes if shape[:2] == given[:2] and len(shape) == len(given)), given)
            if result == given:
                continue
            between.append(row)
            if CONVOLUTIONS.match(host["name"][row]):
                weight = shapes[1] if len(shapes) > 1 else []
                left = prod(given) / max(prod(result), 1)
                if shapes[0] == result and prod(weight[2:]) == 1 and weight[0] < weight[1] and left < 1:
                    found.setdefault(left, []).extend(between)
                break
    return [(launched_by(facts, np.array(rows, np.int64)), left) for left, rows in sorted(found.items())]


def _needless_sorts(facts: Facts, sorts: pl.Series) -> list[int]:
    """Of these sorts, those of whose result little is used.

    The same thread next takes a slice that is smaller than the whole, or compares the order with something before
    anything else reads it, as who looks for the place of one does.
    """
    host, found = facts.trace.host, list[int]()
    rows = sorts.cast(pl.Int64).unique().sort().to_numpy()
    start = host["start"].to_numpy()
    for sort, (_, after) in zip(rows.tolist(), in_a_row(facts, rows, NEXT), strict=True):
        after = after[start[after] >= start[sort] + int(host["duration"][sort])]
        given = next(iter(inputs_of(host["input_shapes"][sort])), [])
        called = host["name"].gather(after).cast(pl.String).to_list()
        sliced = [row for row, name in zip(after.tolist(), called, strict=True) if name == "aten::slice"]
        readers = (
            (name, host["input_types"][row])
            for row, name in zip(after.tolist(), called, strict=True)
            if not _VIEW.match(name) and given in inputs_of(host["input_shapes"][row])
        )
        first, types = next(readers, ("", ""))
        is_searched = _COMPARES.match(first) and str(types).startswith('["long int"')
        if is_searched or any(
            _takes_less(given, host["input_shapes"][row], host["concrete_inputs"][row]) for row in sliced
        ):
            found.append(sort)
    return found


_COMPARES = re.compile(r"^aten::(?:eq|ne|lt|le|gt|ge|isin)$")
_VIEW = re.compile(r"^aten::(?:as_strided|view|_?reshape\w*|expand|unsqueeze|squeeze|transpose|t|detach|alias|slice)$")


def _takes_less(given: list[int], shapes: str | None, values: str | None) -> bool:
    """Whether a slice is of a tensor of this shape, and smaller."""
    told = [int(value) for value in re.findall(r'"(-?\d+)"', values or "")]
    if next(iter(inputs_of(shapes)), []) != given or len(told) < 3:
        return False
    size = given[told[0]]
    begin, end = (max(at + size, 0) if at < 0 else min(at, size) for at in told[1:3])
    return end - begin < size


@looks_for(F24)
def blown_up(facts: Facts, limits: Limits) -> Finding | None:
    host, launched = facts.trace.host, facts.launches.filter(pl.col("operator").is_not_null())
    texts = host["input_shapes"].gather(launched["operator"]).cast(pl.String)
    # an outer product has such a result too, but is what it is for
    called = host["name"].gather(launched["operator"]).cast(pl.String)
    # nobody sums up a mask: what has its size is something else
    makes = pl.Series(kernel_kinds.of_category(launched, "elementwise")) & ~called.str.contains(_COMPARES.pattern)
    broadcasting = texts.filter(makes).unique(maintain_order=True).drop_nulls()
    given = {text: [tuple(shape) for shape in inputs_of(text) if shape] for text in texts.unique().drop_nulls()}
    results = {text: _broadcast(given[text]) for text in broadcasting}
    large = {
        text: result
        for text, result in results.items()
        if result and prod(result) >= limits.factor * max(map(prod, given[text]))
    }
    places = around(facts.trace, row_ids(launched["operator"]))
    holds = np.where(places.frame >= 0, places.frame, places.module)
    sums = names.matching(called, lambda name: bool(_SUMS.match(name))) & ~places.backward

    def read(size: int) -> Bools:
        return np.array([text is not None and max(map(prod, given[text]), default=0) == size for text in texts])

    def is_summed(text: str) -> bool:
        """Whether the function that makes it also adds it up again, or takes the largest of it."""
        makers = holds[(texts == text).fill_null(value=False).to_numpy()]
        return bool((sums & read(prod(large[text])) & np.isin(holds, makers)).any())

    # what only grows, such as a code added to each point, is read as it is
    large = {text: result for text, result in large.items() if is_summed(text)}
    if not large:
        return None
    size = max(map(prod, large.values()))
    of_size = (read(size) | texts.is_in(list(large)).fill_null(value=False).to_numpy()).tolist()
    bound = gain.of_kernels(facts, launched["row"].to_numpy()[np.array(of_size)], fewer_launches=True)
    bound = replace(bound, least_ns=0.0, sure_percent=0.0)
    if (bound.ceiling_percent or 0.0) < limits.share_percent:
        return None
    text, shape = next((text, result) for text, result in large.items() if prod(result) == size)
    name = str(called.filter(makes & (texts == text))[0])
    return bound.finding(
        f"Avoid the tensor of {' × '.join(map(words.count, shape))} that {name} makes by broadcasting",
        (
            Evidence("its operands", " and ".join(" × ".join(map(str, each)) for each in given[text])),
            Evidence("launches that read or write as much", facts.per_step(sum(of_size)), "", Query("operators", name)),
        ),
        bound.why,
        advice="Distances of all pairs are a matrix product: x² + y² − 2xy (torch.cdist); weighted sums too (einsum)."
        " Else let torch.compile fuse it with what reduces it, or take it in blocks.",
    )


_SUMS = re.compile(r"^aten::(?:sum|mean|prod|std|var|\w*norm|logsumexp|any|all|median|(?:arg|a)?(?:max|min))$")
"""Operators whose result is smaller than what they read."""


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The shape of what elementwise work on two operands yields; None where they do not fit."""
    if len(shapes) != 2:
        return None
    with contextlib.suppress(ValueError):
        return tuple(np.broadcast_shapes(*shapes))
    return None
