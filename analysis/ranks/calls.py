"""The collectives of one recording as its summary keeps them: each with what its rank did since the one before it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.base import intervals
from tracetui.analysis.collectives.frame import all_collectives
from tracetui.analysis.ranks.own_work import own_work
from tracetui.analysis.ranks.silence import blocking, loading, silent
from tracetui.analysis.ranks.summary import COLLECTIVES

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Ints
    from tracetui.parsers import Trace

Group = tuple[str, str, tuple[int, ...]]
_AS_THEY_ARE = (
    "kind", "group", "group_size", "seq", "order", "bytes_in", "bytes_out", "element_type", "peer", "coalesced", "step",
    "launched", "begin", "end", "exposed_ns",
)  # fmt: skip


def collective_rows(trace: Trace) -> pl.DataFrame:
    """The collectives (`summary.COLLECTIVES`) on the trace's own clock, in the order of launch.

    Operations in one kernel are one row: their kernel's, which says that it is coalesced. Its sends and receives have
    rows beside it, coalesced as it is, with its times and nothing that it is measured by: who sends to whom.
    """
    every = all_collectives(trace)
    found = every.filter(pl.col("part_of").is_null() & pl.col("begin").is_not_null() & pl.col("end").is_not_null())
    if not found.height:
        return pl.DataFrame(schema=COLLECTIVES)
    found = found.with_columns(at=pl.coalesce("launched", "begin")).sort("at", "begin", maintain_order=True)
    at = found["at"].to_numpy()
    since = np.r_[_first(trace, at), at[:-1]]
    work = own_work(trace)
    spent = np.r_[0, np.cumsum(work.duration)]
    low, high = (np.searchsorted(work.launched, bound) for bound in (since, at))
    launched = found["launched"].is_not_null().to_numpy()
    waits = loading(trace)
    measured: dict[str, Ints] = {
        "own_gpu_ns": spent[high] - spent[np.minimum(low, high)],
        "silent_ns": intervals.covered(silent(trace), since, at),
        "loader_ns": intervals.covered(waits, since, at),
        "blocked_ns": intervals.covered(blocking(trace), since, at),
    }
    columns = [pl.Series(name, values) for name, values in measured.items()]
    frame = found.select(*_AS_THEY_ARE, *columns)
    # nothing is known of what came before a collective that was launched before the recording
    frame = frame.with_columns(pl.when(pl.Series(launched)).then(pl.col(name)).alias(name) for name in measured)
    if not waits[0].size:
        frame = frame.with_columns(loader_ns=pl.lit(None, pl.Int64))
    parts = every.filter(pl.col("part_of").is_not_null() & pl.col("peer").is_not_null() & pl.col("begin").is_not_null())
    if parts.height:
        frame = pl.concat([frame, parts.select(*_AS_THEY_ARE)], how="diagonal_relaxed")
    return frame.select(pl.col(name).cast(dtype) for name, dtype in COLLECTIVES.items())


def _first(trace: Trace, at: Ints) -> int:
    """When what is counted begins."""
    if trace.steps.height:
        return min(int(trace.steps["start"][0]), int(at[0]))
    return min(int(at[0]), int(trace.host["start"].min())) if trace.host.height else int(at[0])  # type: ignore[arg-type]


def group_rows(trace: Trace) -> tuple[Group, ...]:
    """The process groups that the recording names: of its header, then those that only collectives name."""
    found: dict[str, Group] = {}
    for group in trace.info.groups:
        found[group.name] = (group.name, group.description or "", group.ranks)
    told = all_collectives(trace).select("group", "group_description", "group_ranks").drop_nulls("group").unique()
    for name, description, ranks in told.cast(pl.String).sort("group").iter_rows():
        known = found.get(name)
        if known is None or not known[2]:
            found[name] = (name, (known and known[1]) or description or "", (known and known[2]) or _ranks(ranks))
    return tuple(found.values())


def _ranks(text: str | None) -> tuple[int, ...]:
    """``[0, 1, 2]``; nothing for a list that PyTorch cut short."""
    try:
        said = json.loads(text or "")
    except ValueError:
        return ()
    whole = isinstance(said, list) and all(isinstance(one, int) for one in said)
    return tuple(said) if whole else ()
