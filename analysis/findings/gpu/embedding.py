"""Rule on gradients of large tables of which a step reads few rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracetui.analysis.attribution.operator_tree import scope_mask
from tracetui.analysis.base import names
from tracetui.analysis.findings.core import gain, program, words
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Evidence, Finding, Query
from tracetui.analysis.findings.declared.gpu import F23
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.findings.gpu import kernel_kinds
from tracetui.analysis.findings.gpu.operator_calls import inputs_of, launched_by

Shape = tuple[int, ...]
EMBEDDINGS, GRADIENT = ("aten::embedding", "aten::embedding_bag"), "torch::autograd::AccumulateGrad"
_MAKES_GRADIENT = re.compile(r"^aten::_?embedding\w*_dense_backward$")
_PRODUCTS = frozenset({"aten::linear", "aten::matmul", "aten::mm", "aten::addmm", "aten::t"})


@looks_for(F23)
def dense_gradients(facts: Facts, limits: Limits) -> Finding | None:
    read: dict[Shape, float] = {}
    lookups = (given for name in EMBEDDINGS for given in _shapes(facts, name))
    for table, ids in (given for given in lookups if len(given) > 1 and given[0]):
        read[table] = read.get(table, 0.0) + facts.per_step(prod(ids))
    gradients = [given[0] for given in _shapes(facts, GRADIENT)]
    tables = [table for table, rows in read.items() if table in gradients and table[0] >= limits.factor * rows]
    if tables:  # a table that a product reads too (tied weights) has a gradient for every row
        used = {shape for name in _PRODUCTS for given in _shapes(facts, name) for shape in given}
        tables = [table for table in tables if table not in used]
    if not tables:
        return None
    whole = sum(map(prod, gradients))
    part = sum(prod(shape) for shape in gradients if shape in tables) / whole
    host, optimizer = facts.trace.host, kernel_kinds.optimizer(facts)
    backward = launched_by(
        facts,
        np.flatnonzero(
            names.matching(host["name"], lambda name: bool(_MAKES_GRADIENT.match(name))) & scope_mask(facts.sel)
        ),
    )
    updates = np.empty(0, np.int64) if optimizer is None else facts.launches["row"].to_numpy()[optimizer.kernels]
    bound = gain.of_kernels(facts, backward, others=[(updates, 1 - part)])
    # what a sparse optimizer launches instead is not known
    bound = replace(bound, least_ns=0.0, sure_percent=0.0)
    if (bound.ceiling_percent or 0.0) < limits.share_percent:
        return None
    table = max(tables, key=prod)
    return bound.finding(
        f"Make the gradient of a table sparse: {program.per(facts)} {words.count(read[table])} of"
        f" {words.count(table[0])} rows are read, and all are written",
        (
            Evidence("table", " × ".join(map(str, table)), "", Query("operators", row=EMBEDDINGS[0])),
            Evidence("of the elements that the optimizer updates", 100 * part, "%"),
        ),
        f"without the dense gradient, and without its part of the optimizer's kernels: {bound.why}",
    )


def _shapes(facts: Facts, name: str) -> Iterator[list[Shape]]:
    """The shapes of the first two inputs of each call of an operator."""
    host = facts.trace.host
    rows = np.flatnonzero(names.matching(host["name"], name.__eq__) & scope_mask(facts.sel))
    texts = host["input_shapes"].gather(rows)
    known = {text: [tuple(shape) for shape in inputs_of(text)[:2]] for text in names.distinct(texts)}
    for text in texts.cast(pl.String).drop_nulls():
        if known[text]:
            yield known[text]
