"""Rule on tensors that grow by being copied."""

from __future__ import annotations

import json
from math import prod
from typing import Any

import msgspec
import numpy as np
import polars as pl

from tracetui.analysis.attribution.operator_tree import scope_mask
from tracetui.analysis.base import names
from tracetui.analysis.base.names import of_kinds
from tracetui.analysis.dependencies.model import LAUNCHING_NS
from tracetui.analysis.findings.core import gain, program, words
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Evidence, Finding, Query
from tracetui.analysis.findings.declared.gpu import F21
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.findings.gpu import kernel_kinds
from tracetui.analysis.findings.gpu.kernel_kinds import Part
from tracetui.parsers.arrays import Ints

CAT = "aten::cat"


@looks_for(F21)
def copied_to_append(facts: Facts, limits: Limits) -> Finding | None:
    host, launches = facts.trace.host, facts.launches
    called = host.select("name", shapes="input_shapes")[launches["operator"]]
    called = called.with_columns(pl.col("shapes").cast(pl.String))
    of_cat = names.matching(called["name"], CAT.__eq__)
    largest = {text: _appended_to(text, limits.factor) for text in called["shapes"].filter(pl.Series(of_cat)).unique()}
    sizes = {size for size in largest.values() if size}
    if len(sizes) < 2:
        return None
    growing = [text for text, size in largest.items() if text and size]
    part = Part(facts, of_cat & called["shapes"].is_in(growing).fill_null(value=False).to_numpy())
    if part.percent < limits.share_percent:
        return None
    start, end = _planned_anew(facts, growing)
    bound = gain.of_calls(facts, start, end, part.rows) if start.size else gain.of_kernels(facts, part.rows)
    first = part.frame["operator"][0]
    return bound.finding(
        f"Append in place: torch.cat copies a growing tensor, {words.percent(part.percent)} of"
        f" {kernel_kinds.base(facts)}",
        (
            part.spent("copying what is there already,", Query("kernels", "cat")),
            part.share(),
            Evidence("launches", facts.per_step(part.frame.height), "", part.proof),
            Evidence("for example", str(host["input_shapes"][first]), "", Query("operators", row=CAT)),
        ),
        f"{part.worked_out}, {words.count(len(sizes))} sizes in {words.things(facts.step_count, 'step')}"
        f" ({program.per(facts)} {words.count(facts.per_step(part.frame.height))} launches); {bound.why}",
        advice="Allocate a buffer of the full length once and write into it (buffer[:, :, position] = new), as static"
        " caches of keys and values do. Its shape then stays, so kernels need no new plan for every length and the step"
        " can be a CUDA graph.",
    )


def _planned_anew(facts: Facts, growing: list[str]) -> tuple[Ints, Ints]:
    """Starts and ends of operators that get the grown tensor and take longer than launching does: each size is new."""
    results = {result for text in growing for result in _results(text)}
    host = facts.trace.host
    slow = of_kinds(host["kind"], "operator") & (host["duration"] > LAUNCHING_NS).to_numpy() & scope_mask(facts.sel)
    rows = np.flatnonzero(slow)
    shapes = host["input_shapes"].gather(rows)
    rows = rows[names.matching(shapes, lambda text: any(result in text for result in results))]
    start = host["start"].to_numpy()[rows]
    return start, start + host["duration"].to_numpy()[rows]


def _results(shapes: str) -> list[str]:
    """What the result of such a call is written like, by the axis that may have grown."""
    first, *others = sorted(_inputs(shapes), key=prod, reverse=True)
    grown = []
    for axis, size in enumerate(first):
        added = sum(other[axis] for other in others if len(other) == len(first))
        grown.append(json.dumps([*first[:axis], size + added, *first[axis + 1 :]]))
    return grown


def _appended_to(shapes: str | None, factor: float) -> int:
    """How many elements the tensor has that little is appended to; 0 where the inputs are of like size or not known."""
    sizes = sorted(prod(shape) for shape in _inputs(shapes or ""))
    return sizes[-1] if len(sizes) > 1 and sizes[-1] >= factor * sum(sizes[:-1]) else 0


def _inputs(shapes: str) -> list[list[int]]:
    """The shapes of the tensors that a call joins; none where they are not known."""
    try:
        joined = msgspec.json.decode(shapes, type=tuple[list[list[int]], Any])[0]
    except msgspec.MsgspecError:
        return []
    return [shape for shape in joined if shape]
