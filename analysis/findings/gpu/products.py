"""Rule on a large matrix that is made only to be multiplied: what it is made of may be multiplied in its place."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracetui.analysis.attribution.calltree import NONE, lanes_of, parents_of, row_ids
from tracetui.analysis.attribution.module_tree import PREFIX
from tracetui.analysis.attribution.operator_tree import scope_mask
from tracetui.analysis.attribution.place import around
from tracetui.analysis.base import intervals, names
from tracetui.analysis.base.names import of_kinds
from tracetui.analysis.findings.core import gain, words
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Evidence, Finding, Query
from tracetui.analysis.findings.declared.gpu import F26
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.findings.gpu.operator_calls import in_a_row, inputs_of, launched_by
from tracetui.parsers.arrays import Ints
from tracetui.parsers.nesting import nearest

Shape = list[int]

PRODUCTS = frozenset({"aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm", "aten::mv"})
WHOLE = frozenset({"aten::matmul", "aten::linear", "aten::einsum"})
"""Operators that call one of `PRODUCTS`."""
SCALED = frozenset(
    f"aten::{name}{end}" for name in ("mul", "div", "add", "sub", "rsub", "neg", "sum", "mean") for end in ("", "_")
)
"""Operators that commute with a product, if what they scale by is small; what they add goes its own way."""
SAME = frozenset(
    f"aten::{name}"
    for name in (
        "to", "_to_copy", "copy_", "clone", "contiguous", "empty_like", "detach", "alias", "t", "transpose", "permute",
        "view", "_unsafe_view", "reshape", "_reshape_alias", "as_strided", "expand", "unsqueeze", "squeeze", "flatten",
    )
)  # fmt: skip
"""Operators whose result has the same numbers, in another type, layout or shape."""
MOST_BETWEEN = 64
"""Operators between the matrix and the product that it is made for, views among them."""
ONE_HOT, SCATTERED = "aten::one_hot", "aten::scatter_"
JACOBIAN = "torch/_functorch/eager_transforms.py("
"""The file of the function that computes a Jacobian row by row; its name is `_ROWS`."""
_ROWS = "): wrapper_fn"


class Made(Struct, frozen=True):
    """A large matrix, and the product that it is made for."""

    how: str
    """``factors``, ``powers`` (of the product of two factors), ``one-hot`` or ``Jacobian``."""
    shape: tuple[int, ...]
    """Of the matrix: rows and columns, of a batch of them its number before."""
    inner: int
    """Of a product of two factors, what it sums over; of a Jacobian its rows."""
    product: int
    """The row of the operator that multiplies it."""
    others: int
    """Rows (or columns) of what it is multiplied with."""
    left: float | None
    """The part of the multiplications that is left in the other order; None where another matrix is added to it."""
    origin: int
    """The row of the operator that makes it."""
    between: tuple[int, ...]
    """The rows of operators that read or write the whole of it."""
    powers: tuple[int, ...] = ()
    """The rows of products of the matrix with itself."""


@looks_for(F26)
def only_multiplied(facts: Facts, limits: Limits) -> Iterator[Finding]:
    if facts.host_model is None:
        return
    found = [*_by_operators(facts, limits.factor), *_jacobians(facts)]
    if not found:
        return
    host = facts.trace.host
    at = around(facts.trace, np.array([made.product for made in found], np.int64))
    holds = np.where(at.frame >= 0, at.frame, at.module)
    places: dict[tuple[str, str, bool], list[Made]] = {}
    for made, row in zip(found, holds.tolist(), strict=True):
        place = "" if row < 0 else str(host["name"][row]).removeprefix(PREFIX)
        places.setdefault((made.how, place, made.left is None), []).append(made)
    for (how, place, added), all_made in places.items():
        bound = _bound(facts, how, all_made)
        if bound is None or (bound.ceiling_percent or 0.0) < limits.share_percent:
            continue
        made = max(all_made, key=lambda each: prod(each.shape))
        size = " × ".join(map(words.count, made.shape[-2:]))
        title, advice = _told(how, size, made.inner, added=added)
        name = str(host["name"][made.product])
        yield bound.finding(
            f"{title} in {place}" if place else title,
            (
                Evidence("matrices that are only multiplied", facts.per_step(len(all_made)), "", Query("operators")),
                Evidence("the largest", " × ".join(map(words.count, made.shape)), "", Query("operators", name)),
            ),
            f"without {'these matrices' if how != 'Jacobian' else 'all but one of its rows'}: {bound.why}",
            advice=advice,
        )


def _told(how: str, size: str, inner: int, *, added: bool) -> tuple[str, str]:
    """What to do, and why that yields the same."""
    if how == "one-hot":
        return (
            f"Look rows up: one-hot rows of {size} are multiplied",
            "A product with one-hot rows picks rows of the other matrix: F.embedding(index, weight), or indexing."
            " One of two such matrices counts pairs: torch.bincount(a * n + b).",
        )
    if how == "powers":
        return (
            f"Transpose first: powers of {size}, from factors of {words.count(inner)},",
            "(X·Xᵀ)·X = X·(Xᵀ·X), and so for all powers: of a tall X let the small product be squared, as Newton-Schulz"
            " iterations (Muon) do with X.mT.",
        )
    if how == "Jacobian":
        return (
            f"Compute products with the Jacobian, not its {words.count(inner)} rows,",
            "Where a Jacobian is only multiplied with a vector, torch.func.jvp (J·v) or vjp (v·J) yields that in one"
            " pass.",
        )
    if added:
        return (
            f"Apply the factors of a matrix of {size} one after the other, rank {words.count(inner)},",
            "x·(W + A·B) = x·W + (x·A)·B: the sum is not written, and where W is not trained no gradient of its size is"
            " computed.",
        )
    return (
        f"Multiply in the other order: {size} from factors of {words.count(inner)}",
        "(A·B)·C = A·(B·C): the small product first; a sum of the large matrix is A times the sum of B. It does not"
        " hold across a softmax or a mask.",
    )


def _bound(facts: Facts, how: str, found: list[Made]) -> gain.Gain | None:
    """The gain without the matrices, and with the products that are left."""
    if how == "Jacobian":
        rows = _launched_within(facts, np.array([made.origin for made in found], np.int64))
        bound = gain.of_kernels(facts, rows, factor=1 / found[0].inner)
    else:
        gone = launched_by(facts, np.array(sorted({row for made in found for row in _without(made)}), np.int64))
        gone = np.union1d(gone, _gradients(facts, [made for made in found if made.left is None]))
        others: list[tuple[Ints, float]] = []
        for left in sorted({made.left for made in found if made.left}):
            products = [row for made in found if made.left == left for row in (made.origin, made.product)]
            others.append((launched_by(facts, np.array(products, np.int64)), left))
            if squares := [row for made in found if made.left == left for row in made.powers]:
                others.append((launched_by(facts, np.array(squares, np.int64)), left**3))
        rows = np.concatenate([gone, *(of for of, _ in others)])
        bound = gain.of_kernels(facts, gone, fewer_launches=True, others=others)
    return replace(bound, least_ns=0.0, sure_percent=0.0, work=rows) if rows.size else None


def _without(made: Made) -> tuple[int, ...]:
    """The operators that the change does without."""
    if made.how == "one-hot":
        return (made.origin, *made.between, made.product)
    return made.between if made.left is not None else (made.origin, *made.between)


def _gradients(facts: Facts, found: list[Made]) -> Ints:
    """The launches of products in the backward pass that yield gradients of these matrices, one for each."""
    host, each = facts.trace.host, {made.product: made for made in found}
    task_of = row_ids(host["forward"])
    launch = facts.launches.filter(pl.col("operator").is_not_null())
    operators = launch["operator"].cast(pl.Int64).to_numpy()
    task = nearest(parents_of(host), task_of >= 0, operators)
    product = np.append(task_of, NONE)[task]
    mine = np.isin(product, list(each)) & (task >= 0)
    rows: dict[int, int] = {}
    texts = host["input_shapes"].gather(operators[mine]).cast(pl.String)
    for row, of, text in zip(launch["row"].to_numpy()[mine].tolist(), product[mine].tolist(), texts, strict=True):
        shapes = [shape for shape in inputs_of(text) if len(shape) > 1][-2:]
        made = each[of]
        if len(shapes) > 1 and {shapes[0][-2], shapes[1][-1]} == {*made.shape[-2:]} and shapes[0][-1] == made.others:
            rows.setdefault(of, row)
    return np.array(sorted(rows.values()), np.int64)


def _launched_within(facts: Facts, calls: Ints) -> Ints:
    """The device rows that any thread launches during these calls, and those of the gradients of what ran in them."""
    host = facts.trace.host
    start, duration = (host[name].to_numpy() for name in ("start", "duration"))
    spans = intervals.union(start[calls], start[calls] + duration[calls])
    inside = intervals.contains(spans, start)
    launch = row_ids(facts.trace.device["launch"])
    mine = (launch >= 0) & inside[launch]
    inside &= of_kinds(host["kind"], "operator")
    return np.union1d(np.flatnonzero(mine), launched_by(facts, np.flatnonzero(inside)))


def _by_operators(facts: Facts, factor: float) -> Iterator[Made]:
    """The matrices that operators make of little, and that a product reads after what does not change that."""
    host = facts.trace.host
    product = names.matching(host["name"], PRODUCTS.__contains__)
    product &= names.matching(host["input_shapes"], lambda text: _thin(text, factor) is not None or _is_square(text))
    scattered = names.matching(host["name"], SCATTERED.__eq__)
    found = np.flatnonzero((product | scattered) & of_kinds(host["kind"], "operator") & scope_mask(facts.sel))
    found = found[nearest(parents_of(host), row_ids(host["forward"]) >= 0, found) < 0]
    beside = in_a_row(facts, found, MOST_BETWEEN, MOST_BETWEEN)
    for at, (before, after) in zip(found.tolist(), beside, strict=True):
        if product[at]:
            thin = _thin(host["input_shapes"][at], factor)
            others = thin or _thin(host["input_shapes"][at], 1)
            made = None if others is None else _made_for(host, after, *others, "factors")
            made = made if thin or (made is not None and made.how == "powers") else None
        else:
            maker = before[(host["name"].gather(before) == ONE_HOT).to_numpy()]
            matrix = next(iter(inputs_of(host["input_shapes"][at])), [])
            if not maker.size or len(matrix) < 2 or factor > min(matrix[-2:]):
                continue
            made, at = _made_for(host, after, matrix, 1, "one-hot"), int(maker[-1])
        if made is not None:
            yield replace(made, origin=at)


def _thin(text: str | None, factor: float) -> tuple[Shape, int] | None:
    """The shape of a product's result, and what it sums over, if that is so much smaller than the result's sides."""
    factors = [shape for shape in inputs_of(text) if len(shape) > 1][-2:]
    if len(factors) < 2:
        return None
    matrix, inner = [*factors[0][:-1], factors[1][-1]], factors[0][-1]
    return None if factor * inner > min(matrix[-2:]) else (matrix, inner)


def _is_square(text: str | None) -> bool:
    """Whether a product makes a square matrix of factors that are less wide than it."""
    matrix, inner = _thin(text, 1) or ([0, 0], 0)
    return inner < matrix[-1] == matrix[-2]


def _made_for(host: pl.DataFrame, after: Ints, matrix: Shape, inner: int, how: str) -> Made | None:
    """The product that reads the matrix, if nothing about it does more than scale, add, convert or sum it."""
    size, sides, between, powers, added = prod(matrix), {*matrix[-2:]}, list[int](), list[int](), False
    made: Made | None = None
    texts = host["input_shapes"].gather(after).cast(pl.String)
    for row, name, text in zip(after.tolist(), host["name"].gather(after).cast(pl.String), texts, strict=True):
        shapes = [shape for shape in inputs_of(text) if shape]
        large = sum(prod(shape) == size for shape in shapes)
        if name in PRODUCTS and made is not None and not powers:
            break
        if not large or name in WHOLE:
            continue
        if name in PRODUCTS:
            first, second = ([], [], *(shape if len(shape) > 1 else [*shape, 1] for shape in shapes))[-2:]
            is_first = sides <= {*first[-2:]}
            if not first or not (is_first or sides <= {*second[-2:]}):
                break
            if first[-2:] == second[-2:] and how == "factors" and not added:
                powers.append(row)
            kept, contracted = (first[-2], first[-1]) if is_first else (second[-1], second[-2])
            others = second[-1] if is_first else first[-2]
            left = inner * others * (kept + contracted) / (kept * contracted * (inner + others))
            if powers and others < max(sides):
                left = inner / max(sides)
                made = Made("powers", tuple(matrix), inner, row, others, left, NONE, (), tuple(powers))
                break
            if made is not None:
                continue
            if how == "factors" and not added and left > 1 / 2 and not powers:
                break
            part = None if added else left if how == "factors" else 0.0
            made = Made(how, tuple(matrix), inner, row, others, part, NONE, ())
        elif name in SAME or (name in SCALED and (large == 1 or not name.startswith(("aten::mul", "aten::div")))):
            added |= name in SCALED and large > 1
            between.append(row)
        else:
            break
    return None if made is None else replace(made, between=tuple(between))


def _jacobians(facts: Facts) -> Iterator[Made]:
    """Jacobians, row by row, of which the next product in the same function is one with a vector."""
    host = facts.trace.host
    rows = np.flatnonzero(
        of_kinds(host["kind"], "python")
        & names.matching(host["name"], lambda name: name.startswith(JACOBIAN) and name.endswith(_ROWS))
        & scope_mask(facts.sel)
    )
    if not rows.size:
        return
    products = np.flatnonzero(
        of_kinds(host["kind"], "operator") & names.matching(host["name"], {"aten::bmm", "aten::mv"}.__contains__)
    )
    lane, start, frame = lanes_of(host), host["start"].to_numpy(), around(facts.trace, rows).frame
    within = around(facts.trace, products).frame
    end = start + host["duration"].to_numpy()
    for row, function in zip(rows.tolist(), frame.tolist(), strict=True):
        after = products[(lane[products] == lane[row]) & (start[products] >= end[row]) & (within == function)]
        shapes = inputs_of(str(host["input_shapes"][int(after[0])])) if after.size else []
        if len(shapes) > 1 and (len(shapes[-1]) == 1 or shapes[-1][-1] == 1) and len(shapes[-2]) > 1:
            yield Made("Jacobian", tuple(shapes[-2]), shapes[-2][-2], int(after[0]), 1, 0.0, row, ())
