"""Rule on what fused attention is given although its kernel could do without: repeated heads, an explicit mask."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracetui.analysis.attribution.calltree import lanes_of
from tracetui.analysis.attribution.operator_tree import scope_mask
from tracetui.analysis.attribution.place import own_frames
from tracetui.analysis.base import names
from tracetui.analysis.findings.core import gain, program, words
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Evidence, Finding, Query
from tracetui.analysis.findings.declared.gpu import F22
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.findings.gpu.operator_calls import Shapes, inputs_of, launched_by
from tracetui.parsers.arrays import Ints

SDPA = "aten::scaled_dot_product_attention"
KEYS, MASK = 1, 3
"""Places among its inputs."""
_COPIES = frozenset({"aten::repeat_interleave", "aten::repeat", "aten::reshape", "aten::contiguous", "aten::clone"})
CAUSAL = 0.5
"""What a causal mask leaves of the products."""


@looks_for(F22)
def given_too_much(facts: Facts, limits: Limits) -> Finding | None:
    host = facts.trace.host
    rows = np.flatnonzero(names.matching(host["name"], SDPA.__eq__) & scope_mask(facts.sel))
    if not rows.size:
        return None
    shapes = [inputs_of(text) for text in host["input_shapes"].gather(rows).cast(pl.String)]
    masked = rows[[len(of) > MASK and bool(of[MASK]) for of in shapes]]
    copies = _repeating(facts, rows, shapes)
    copied, attending = launched_by(facts, copies), launched_by(facts, masked)
    bound = gain.of_kernels(facts, copied, fewer_launches=True, others=_at_the_roof(facts, attending))
    bound = replace(bound, work=np.union1d(copied, attending))
    if (bound.ceiling_percent or 0.0) < limits.share_percent:
        return None
    spent = [facts.per_step(float(facts.trace.device["duration"].gather(of).sum())) for of in (copied, attending)]
    what = [
        f"{words.count(facts.per_step(of.size))} {name}"
        for of, name in ((copies, "copies that repeat heads"), (masked, "explicit masks"))
        if of.size
    ]
    example = host["input_shapes"][int((copies if copies.size else masked)[0])]
    return bound.finding(
        f"Give attention less: {words.listed(what)} {program.per(facts)}",
        (
            Evidence("copies that repeat keys and values", spent[0], "ns", Query("operators", row=SDPA)),
            Evidence("attention with a mask", spent[1], "ns", Query("operators", row=SDPA)),
            Evidence("for example", str(example), "", Query("operators", row=SDPA)),
        ),
        f"without the copies, and attention at its roof with half of the products: {bound.why}",
        advice=_advice(heads=bool(copies.size), mask=bool(masked.size)),
    )


def _advice(*, heads: bool, mask: bool) -> str:
    told = []
    if heads:
        told.append("Give the few heads of keys and values as they are: enable_gqa=True.")
    if mask:
        told.append(
            "A mask keeps out the flash kernel and is read from memory: is_causal=True if that is what it says, none"
            " if nothing is padded, else flex_attention or nested tensors."
        )
    return " ".join(told)


def _repeating(facts: Facts, rows: Ints, shapes: list[Shapes]) -> Ints:
    """The outermost copies between one attention and the next whose result is the keys of the next, of fewer heads."""
    host, operator = facts.trace.host, own_frames(facts.trace).operator
    copies = np.flatnonzero(names.matching(host["name"], _COPIES.__contains__) & scope_mask(facts.sel))
    copies = copies[operator[copies] == copies]
    lane, start = lanes_of(host), host["start"].to_numpy()
    order = np.lexsort((start[rows], lane[rows]))
    place = np.searchsorted(_keys(lane, start, rows[order]), _keys(lane, start, copies))
    found = []
    for row, at, text in zip(copies, place, host["input_shapes"].gather(copies).cast(pl.String), strict=True):
        if at >= order.size or lane[rows[order[at]]] != lane[row]:
            continue
        keys = [*shapes[order[at]], [], []][KEYS]
        given = next(iter(inputs_of(text)), [])
        if given and keys and _repeats(given, keys, is_view=host["name"][int(row)] in ("aten::reshape", "aten::clone")):
            found.append(row)
    return np.array(found, np.int64)


def _keys(lane: Ints, start: Ints, rows: Ints) -> Any:
    return np.array(list(zip(lane[rows].tolist(), start[rows].tolist(), strict=True)), [("l", "i8"), ("s", "i8")])


def _repeats(given: list[int], keys: list[int], *, is_view: bool) -> bool:
    """Whether a copy of this makes keys of that shape with each head several times."""
    if given[-1] != keys[-1]:
        return False
    if len(given) == len(keys) + 1:  # expanded before: batch, heads, times, tokens, width
        return prod(given) == prod(keys) and given[1] * given[2] == keys[1] and given[2] > 1
    return not is_view and len(given) == len(keys) and prod(keys) > prod(given) > 0 and prod(keys) % prod(given) == 0


def _at_the_roof(facts: Facts, rows: Ints) -> list[tuple[Ints, float]]:
    """By kernel of these device rows: the part of its time that half of its products take at its roof."""
    points = facts.roofline.points.filter(pl.col("attained_percent").is_not_null())
    attained = dict(points.select("name", "attained_percent").iter_rows())
    name = facts.trace.device["name"].gather(rows).cast(pl.String).to_numpy()
    return [
        (rows[name == each], CAUSAL * min(attained[each], 100.0) / 100) for each in np.unique(name) if each in attained
    ]
