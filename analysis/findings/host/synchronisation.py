"""Rule on calls in which the host waits for the GPU, and on the cost of these waits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from tracetui.analysis.attribution.calltree import NONE, lanes_of, parents_of
from tracetui.analysis.attribution.operator_tree import scope_mask
from tracetui.analysis.attribution.projection import enclosing, walk
from tracetui.analysis.base import api_names, intervals, names
from tracetui.analysis.base.intervals import Intervals
from tracetui.analysis.base.names import of_kinds
from tracetui.analysis.base.remembered import kept
from tracetui.analysis.dependencies.costs import WAIT_NS
from tracetui.analysis.dependencies.model import Model
from tracetui.analysis.dependencies.waits import waits_by_name
from tracetui.analysis.findings.core import basis, gain, program, words
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Evidence, Finding, Query
from tracetui.analysis.findings.declared.host import S7
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.findings.host.copies import DTOH, copies, pageable_waits
from tracetui.analysis.gpu.activities import activities
from tracetui.analysis.gpu.steps import step_slots
from tracetui.parsers.arrays import Ints
from tracetui.parsers.nesting import LaneClock, nearest

ASKS = frozenset(
    {"aten::item", "aten::nonzero", "aten::is_nonzero", "aten::masked_select", "aten::unique2", "aten::equal",
     "aten::repeat_interleave", "aten::allclose"}
)  # fmt: skip
"""Operators that need a result from the GPU, and so wait for it."""


@kept
def waits(facts: Facts) -> pl.DataFrame:
    """Finds who waits for the GPU, for how long, and how long the GPU is idle afterwards.

    A wait delays nothing if no work follows it, or if the GPU was already idle when it started; its stall is then 0.
    S8 judges waits for the end of a copy from pageable memory.

    Returns:
        The calls in which the host waits, within the steps: row, name (of the call), owner (who called it), start,
        waited_ns, stall_ns: the time for which the GPU then had nothing to do, at most the wait itself.
    """
    host = facts.trace.host
    slots = step_slots(facts.sel)
    chosen = scope_mask(facts.sel) & of_kinds(host["kind"], "runtime", "driver")
    back = copies(facts).filter((pl.col("direction") == DTOH) & pl.col("pageable").fill_null(value=False))
    waiting = waits_by_name(host["name"])
    waiting[back["launch"].drop_nulls().to_numpy()] = True
    waiting[pageable_waits(facts).drop_nulls().to_numpy()] = False
    rows = np.flatnonzero(waiting & chosen)
    calls = host.select("name", "start", "duration")[rows].with_columns(row=pl.Series(rows, dtype=pl.Int64))
    if slots.start.size:
        calls = calls.filter((pl.col("start") >= int(slots.start[0])) & (pl.col("start") < int(slots.end[-1])))
    start = calls["start"].to_numpy()
    end = start + calls["duration"].to_numpy()
    work = activities(facts.sel)
    busy = intervals.union(work.start, work.end)
    following = np.searchsorted(busy[0], end, side="left")
    last = np.searchsorted(busy[1], end, side="right") - 1
    drained = np.where(last >= 0, busy[1][np.maximum(last, 0)], 0) if busy[0].size else np.zeros_like(end)
    follows = (following < busy[0].size) & (following == last + 1) & (drained > start)
    resumed = busy[0][np.minimum(following, max(busy[0].size - 1, 0))] if busy[0].size else end
    stall = np.where(follows, np.minimum(resumed - drained, drained - start), 0)
    return pl.DataFrame(
        {
            "row": calls["row"],
            "name": calls["name"].cast(pl.String),
            "owner": _owners(host, calls["row"].to_numpy()),
            "start": start,
            "waited_ns": end - start,
            "stall_ns": stall,
        }
    )


def _owners(host: pl.DataFrame, rows: Ints) -> pl.Series:
    """The caller: an operator that needs a result from the GPU, else the innermost one, else the call and its range."""
    parent = parents_of(host)
    operator = (host["kind"] == "operator").to_numpy()
    asking = nearest(parent, names.matching(host["name"], ASKS.__contains__) & operator, rows)
    owner = np.where(asking >= 0, asking, nearest(parent, operator, rows))
    named = host["name"]
    call = named.gather(rows).cast(pl.String)
    around = named.gather(_or_null(_range_around(host, rows))).cast(pl.String)
    with_range = pl.select(pl.concat_str(call, pl.lit(" in "), around)).to_series()
    owned = named.gather(_or_null(owner)).cast(pl.String)
    owners: pl.Series = pl.select(pl.coalesce(owned, with_range, call)).to_series()
    return owners


def _or_null(rows: Ints) -> pl.Series:
    return pl.select(pl.when(pl.Series(rows) >= 0).then(pl.Series(rows))).to_series()


def _with_call(host: pl.DataFrame, calls: Ints) -> Ints:
    """The ranges in which at least one of these calls starts on the same thread; no other range can enclose a call."""
    ranges = np.flatnonzero((host["kind"] == "annotation").to_numpy())
    lane, start = lanes_of(host), host["start"].to_numpy()
    end = start[ranges] + host["duration"].to_numpy()[ranges]
    clock = LaneClock(int(lane[-1]) + 1 if lane.size else 0, start, end)
    begun = np.sort(clock.key(lane[calls], start[calls]))
    first = np.searchsorted(begun, clock.key(lane[ranges], start[ranges]), side="left")
    return ranges[first < np.searchsorted(begun, clock.key(lane[ranges], end), side="right")]


def _range_around(host: pl.DataFrame, calls: Ints) -> Ints:
    """The innermost range around each call, -1 for none."""
    rows = walk(host, np.concatenate((_with_call(host, calls), calls)))
    start = host["start"].to_numpy()[rows]
    above = enclosing(lanes_of(host)[rows], start, start + host["duration"].to_numpy()[rows])
    above = nearest(above, ~np.isin(rows, calls), above)
    place = np.empty(host.height, np.int64)
    place[rows] = np.arange(rows.size)
    around = above[place[calls]]
    return np.where(around == NONE, NONE, rows[around])


@looks_for(S7)
def synchronisation(facts: Facts, limits: Limits) -> Finding | None:
    found = waits(facts)
    frame = found.filter(pl.col("stall_ns") > 0)
    model = facts.host_model
    if not frame.height or model is None:
        return None
    free = frozenset(np.flatnonzero(np.isin(model.graph.calls.row, frame["row"].to_numpy())).tolist())
    bound = gain.of_change(
        model, lambda costs: replace(costs, no_wait=costs.no_wait | free), " without these waits", _waiting(model, free)
    )
    stall = float(frame["stall_ns"].sum())
    per_step = facts.per_step(stall)
    ceiling = bound.ceiling_percent
    if ceiling is None or ceiling <= limits.stall_percent or bound.ns * model.step_count < 1e6 * limits.stall_ms:
        return None
    owners = _by_owner(frame)
    first = owners.row(0, named=True)
    benign = found.height - frame.height
    return bound.finding(
        f"Wait less, most in {first['owner']}: {words.things(facts.per_step(frame.height), 'wait')}"
        f" {program.per(facts)} idle the GPU for {words.ns(per_step)}",
        (
            *(_stall(facts, row) for row in owners.head(4).iter_rows(named=True)),
            Evidence(
                "host waits",
                facts.per_step(float(frame["waited_ns"].sum())),
                "ns",
                Query("host:API calls", "Synchronize"),
            ),
        ),
        f"{words.part_of(bound.ns, model.step_ns, ceiling)}; {bound.why};"
        f" {words.ns(per_step)} idle{basis.as_recorded(facts)} {program.per(facts)} after"
        f" {words.things(int(owners['calls'].sum()), 'wait')}, {words.things(benign, 'wait')} stalled nothing",
        advice=_wait_advice(facts, first["owner"], first["call"]),
    )


def _waiting(model: Model, calls: frozenset[int]) -> Intervals:
    """When these calls of a graph wait: the rest of them is the host's own time."""
    chosen = np.array(sorted(calls), np.int64)
    begin, end = model.graph.calls.start[chosen], model.graph.calls.end[chosen]
    return intervals.union(np.minimum(begin + WAIT_NS, end), end)


def _by_owner(frame: pl.DataFrame) -> pl.DataFrame:
    """The waits that stalled the GPU as a frame of owner, calls, stall, call (an API function); longest stall first."""
    return (
        frame.filter(pl.col("stall_ns") > 0)
        .group_by("owner")
        .agg(calls=pl.len(), stall=pl.col("stall_ns").sum(), call=pl.col("name").first())
        .sort("stall", "owner", descending=[True, False])
    )


def _stall(facts: Facts, row: dict[str, Any]) -> Evidence:
    operator = row["owner"].startswith("aten::")
    return Evidence(
        f"GPU idle after {row['owner']}, {words.things(row['calls'], 'call')} ({row['call']})",
        facts.per_step(row["stall"]),
        "ns",
        Query("operators", row=row["owner"]) if operator else Query("host:API calls", row=row["call"]),
    )


def _wait_advice(facts: Facts, owner: str, call: str) -> str:
    """What to do about the call that waits, in the program's own terms."""
    if owner in api_names.READS_A_VALUE:
        return (
            "Keep losses and metrics in GPU tensors and call .item() every n steps; replace Python ifs on tensors by"
            " torch.where."
        )
    if owner in ASKS:
        return (
            f"{owner} asks the GPU for its result's size: use torch.where, or a fixed size (topk, nonzero_static), or"
            " call it once before the loop."
        )
    if not owner.startswith("aten::") and "Synchronize" in call:
        return facts.program.say(
            pytorch=f"Take {call} (torch.cuda.synchronize, stream.synchronize, event.synchronize) out of the step. Time"
            " with torch.cuda.Event, and read results one step later (non_blocking=True into pinned memory).",
            jax="Take block_until_ready and conversions to NumPy out of the step: read results one step later.",
            other=f"Take {call} out of the step: time with events that are read at the end, copy results asynchronously"
            " into pinned memory and wait for them one step later.",
        )
    return facts.program.say(
        pytorch="Copy with non_blocking=True into pinned memory, and read the result one step later.",
        other="Copy asynchronously into pinned memory, and read the result one step later.",
    )
