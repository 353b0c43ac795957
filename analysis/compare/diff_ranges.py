"""Ranges of two runs, by name: what was launched while they were open, whichever thread launched it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.attribution.projection import in_ranges
from tracetui.analysis.captures.roles import phases
from tracetui.analysis.ranges import containing_rows

if TYPE_CHECKING:
    from tracetui.analysis.attribution.calltree import Bools
    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.selection import Selection

STEP = "step"
"""The name that steps have here: one program's ``train_step`` is another one's ``ProfilerStep#3``."""


def range_times(sel: Selection, *, on_device: bool) -> pl.DataFrame:
    """Calls and time per step of the ranges of each name: ``name`` (with its domain), ``calls``, ``launches``, ``ns``.

    The time is of the GPU work that any thread launched while they were open (as in `capture_ranges.phases`), or, where
    no run has GPU work, how long they were open; ``launches`` are that work's, or else the calls. Steps are `STEP`,
    whatever they are called.
    """
    steps = sel.step_count
    rows = [
        (
            STEP if phase.role == STEP else _spelled(phase.domain, phase.name),
            phase.instances / steps,
            ((phase.launched_ops or 0) if on_device else phase.instances) / steps,
            spent / steps,
        )
        for phase in phases(sel).by_name
        if phase.instances
        if (spent := phase.launched_ns if on_device else phase.host_ns) is not None
    ]
    schema = {"name": pl.String, "calls": pl.Float64, "launches": pl.Float64, "ns": pl.Float64}
    table = pl.DataFrame(rows, schema=schema, orient="row")
    return table.group_by("name", maintain_order=True).agg(pl.col("calls", "launches", "ns").sum())


def launched_in(sel: Selection, name: str, device: pl.DataFrame) -> Bools:
    """Which device rows were launched while a range of this name was open."""
    return in_ranges(sel, _named(sel, name), device)


def _named(sel: Selection, name: str) -> Ints:
    """Host rows of the ranges of a name."""
    host = sel.trace.host
    rows = containing_rows(host)
    steps = set(sel.trace.steps["name"])
    texts, domains = (host[column].gather(rows).cast(pl.String) for column in ("name", "domain"))
    told = {
        (domain, text): STEP if text in steps else _spelled(domain, text or "")
        for domain, text in set(zip(domains, texts, strict=True))
    }
    same = [told[pair] == name for pair in zip(domains, texts, strict=True)]
    return rows[np.array(same, np.bool_)] if same else rows


def _spelled(domain: str | None, name: str) -> str:
    return f"{domain}:{name}" if domain else name
