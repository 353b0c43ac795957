"""Copies between host and GPU, and calls in which the host waits for the GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tracetui.analysis import intervals, names
from tracetui.analysis.activities import activities
from tracetui.analysis.calltree import NONE, row_ids
from tracetui.analysis.findings import gain, hints, words
from tracetui.analysis.findings.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.rule import Threshold, rule
from tracetui.analysis.memops import operation_name
from tracetui.analysis.projection import enclosing, lanes_of, walk
from tracetui.analysis.steps import step_slots
from tracetui.analysis.whatif import WAITS

if TYPE_CHECKING:
    from tracetui.analysis.findings.facts import Facts
    from tracetui.analysis.findings.rule import Limits
    from tracetui.analysis.intervals import Ints

HTOD, DTOH = "[CUDA memcpy Host-to-Device]", "[CUDA memcpy Device-to-Host]"
ASKS = frozenset(
    {"aten::item", "aten::nonzero", "aten::is_nonzero", "aten::masked_select", "aten::unique2", "aten::equal",
     "aten::repeat_interleave", "aten::allclose"}
)  # fmt: skip
"""Operators that want an answer of the GPU, and so wait for it."""


@dataclass(frozen=True)
class Waits:
    """The calls in which the host waits for the GPU, within the steps."""

    frame: pl.DataFrame
    """row, name (of the call), owner (who called it), start, waited_ns, stall_ns: the time for which the GPU then had
    nothing to do, at most the wait itself."""


def copies(facts: Facts) -> pl.DataFrame:
    """The copies between host and GPU in scope.

    Returns:
        row, direction, pageable (null where not told), start, end, bytes, launch.
    """
    rows = facts.sel.device.filter(pl.col("kind") == "memcpy")
    spelled = {name: operation_name(name) for name in rows["name"].cast(pl.String).unique().drop_nulls()}
    name, kinds = pl.col("name").cast(pl.String), pl.col("memory_kinds").cast(pl.String)
    told = pl.concat_str(name, kinds.fill_null(""), separator=" ")
    return rows.select(
        pl.col("row").cast(pl.Int64),
        name.replace(spelled).alias("direction"),
        pl.when(told.str.contains("Pageable|Pinned")).then(told.str.contains("Pageable")).alias("pageable"),
        "start",
        (pl.col("start") + pl.col("duration")).alias("end"),
        "bytes",
        "launch",
    ).filter(pl.col("direction").is_in([HTOD, DTOH]))


def waits(facts: Facts) -> Waits:
    """Who waits for the GPU, how long, and for how long the GPU is idle after.

    A wait that no work follows holds nothing up: its stall is 0. So is one that began when the GPU was idle already.
    Waits for the end of a copy from pageable memory belong to the copy (S8).
    """
    host = facts.trace.host
    slots = step_slots(facts.sel)
    calls = facts.sel.host.filter(pl.col("kind").is_in(["runtime", "driver"]))
    back = copies(facts).filter((pl.col("direction") == DTOH) & pl.col("pageable").fill_null(value=False))
    waiting = names.matching(calls["name"], lambda name: WAITS.search(name) is not None)
    waiting |= calls["row"].is_in(back["launch"].implode()).fill_null(value=False).to_numpy()
    waiting &= ~calls["row"].is_in(pageable_waits(facts).implode()).fill_null(value=False).to_numpy()
    calls = calls.filter(pl.Series(waiting))
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
    return Waits(
        pl.DataFrame(
            {
                "row": calls["row"].cast(pl.Int64),
                "name": calls["name"].cast(pl.String),
                "owner": _owners(host, calls["row"].cast(pl.Int64).to_numpy()),
                "start": start,
                "waited_ns": end - start,
                "stall_ns": stall,
            }
        )
    )


def _owners(host: pl.DataFrame, rows: Ints) -> pl.Series:
    """Who called: an operator that asks the GPU something, else the innermost operator, else the call and its range."""
    parent = row_ids(host["parent"])
    operator = (host["kind"] == "operator").to_numpy()
    asks = names.matching(host["name"], ASKS.__contains__) & operator
    asking, inner = np.full(rows.size, NONE, np.int64), np.full(rows.size, NONE, np.int64)
    at = parent[rows]
    while (at != NONE).any():
        real = at != NONE
        for found, chosen in ((asking, asks), (inner, operator)):
            fits = real & (found == NONE) & chosen[at]
            found[fits] = at[fits]
        at = np.where(real, parent[at], NONE)
    owner = np.where(asking != NONE, asking, inner)
    named = host["name"].cast(pl.String)
    call, around = named.gather(rows), named.gather(_or_null(_range_around(host, rows)))
    with_range = pl.select(pl.concat_str(call, pl.lit(" in "), around)).to_series()
    owners: pl.Series = pl.select(pl.coalesce(named.gather(_or_null(owner)), with_range, call)).to_series()
    return owners


def _or_null(rows: Ints) -> pl.Series:
    return pl.select(pl.when(pl.Series(rows) >= 0).then(pl.Series(rows))).to_series()


def _range_around(host: pl.DataFrame, calls: Ints) -> Ints:
    """The innermost range around each call, -1 for none."""
    ranges = np.flatnonzero((host["kind"] == "annotation").to_numpy())
    rows = walk(host, np.concatenate((ranges, calls)))
    start = host["start"].to_numpy()[rows]
    above = enclosing(lanes_of(host)[rows], start, start + host["duration"].to_numpy()[rows])
    is_call = np.isin(rows, calls)
    while (nested := (above != NONE) & is_call[above]).any():
        above[nested] = above[above[nested]]
    place = np.empty(host.height, np.int64)
    place[rows] = np.arange(rows.size)
    around = above[place[calls]]
    return np.where(around == NONE, NONE, rows[around])


def pageable_waits(facts: Facts) -> pl.Series:
    """Host rows of the waits that follow a copy from pageable memory directly, on its thread."""
    slow = copies(facts).filter((pl.col("direction") == HTOD) & pl.col("pageable").fill_null(value=False))
    if not slow.height:
        return pl.Series("row", [], pl.UInt32)
    calls = (
        facts.trace.host.with_row_index("row")
        .filter(pl.col("kind").is_in(["runtime", "driver"]))
        .select("row", "name", before=pl.col("row").shift(1).over("process", "thread", order_by="start"))
    )
    after = calls.filter(pl.col("before").is_in(slow["launch"].implode()))
    rows: pl.Series = after.filter(pl.Series(names.matching(after["name"], lambda name: "Synchronize" in name)))["row"]
    return rows


@rule(
    "S7",
    "The host waits for the GPU in the middle of the step",
    needs=("timeline", "gpu", "api"),
    rests_on=("gpu", "host", "whole"),
    thresholds={
        "stall_percent": Threshold(2, "%", "idle time of the GPU after waits, of the step"),
        "stall_ms": Threshold(1, "ms", "the same in the whole recording"),
    },
    advice="Keep values on the GPU: accumulate there, read them every n steps.",
    source="nsys-ai (2 %, 1 ms), nsys analyze (cuda_api_sync)",
)
def synchronisation(facts: Facts, limits: Limits) -> Finding | None:
    """``.item()``, ``nonzero``, copies to the host and explicit synchronisation let the launch queue run empty.

    While the host waits it launches nothing; when the GPU is done, it idles until the next launch arrives. That idle
    time, at most as long as the host had waited, is the stall that the wait caused. A wait at the end, after which
    nothing runs, is benign; one that finds the GPU idle already costs only the call.
    """
    frame = waits(facts).frame
    stall = float(frame["stall_ns"].sum())
    per_step = facts.per_step(stall)
    ceiling = facts.ceiling(per_step)
    if ceiling is None or ceiling <= limits.stall_percent or stall < 1e6 * limits.stall_ms:
        return None
    owners = _by_owner(frame)
    first = owners.row(0, named=True)
    benign = frame.height - int(owners["calls"].sum())
    return Finding(
        "S7",
        gain.severity(ceiling),
        f"Waits for the GPU stall it: {words.percent(ceiling)} of {hints.span(facts)} it is idle after them, most after"
        f" {first['owner']}",
        (
            *(_stall(facts, row) for row in owners.head(4).iter_rows(named=True)),
            Evidence(
                "host waits",
                facts.per_step(float(frame["waited_ns"].sum())),
                "ns",
                Query("host:API calls", "Synchronize"),
            ),
        ),
        f"{words.ns(per_step)} idle after {words.things(int(owners['calls'].sum()), 'wait')} of"
        f" {words.ns(facts.step_ns)} {hints.per(facts)} = {words.percent(ceiling)}; {words.things(benign, 'wait')}"
        " stalled nothing",
        f"above {words.percent(limits.stall_percent)} of the step, and {limits.stall_ms:g} ms altogether",
        _wait_advice(first["owner"], first["call"]),
        impact_ns=per_step,
        ceiling_percent=ceiling,
    )


def _by_owner(frame: pl.DataFrame) -> pl.DataFrame:
    """owner, calls, stall, call (an API function): the waits that stalled the GPU, the most first."""
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


def _wait_advice(owner: str, call: str) -> str:
    if owner in ("aten::item", "aten::is_nonzero", "aten::_local_scalar_dense"):
        return (
            "Do not read values in every step: accumulate losses and metrics in GPU tensors and call .item() every n"
            " steps or at the end; replace Python ifs on tensors by torch.where."
        )
    if owner in ASKS:
        return (
            f"{owner} must know its result's size: use a mask with torch.where, or a fixed size (topk, nonzero_static),"
            " so that the host need not ask; else compute it once outside the loop."
        )
    if not owner.startswith("aten::") and "Synchronize" in call:
        return (
            f"Take {call} (torch.cuda.synchronize, stream.synchronize, event.synchronize) out of the step: time with"
            " torch.cuda.Event pairs that are read at the end; copy results with non_blocking=True into pinned memory"
            " and wait for them one step later."
        )
    return "Copy with non_blocking=True into pinned memory, and read the result one step later."


@rule(
    "S8",
    "Asynchronous copies from pageable memory",
    needs=("timeline", "gpu", "api"),
    rests_on=("gpu", "host", "whole"),
    thresholds={"copy_kib": Threshold(64, "KiB", "smaller copies are staged at once, whatever their memory")},
    advice="Pinned memory and non_blocking=True.",
    source="nsys analyze (cuda_memcpy_async); 64 KiB as the CUDA runtime's documentation on synchronisation has it",
)
def pageable_copies(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    """Copies that were asked to be asynchronous, from or to memory that the system may page out.

    The driver copies such memory through a pinned buffer of its own, piece by piece, and the calling thread takes part
    in it: the copy is slower and the host can't go on. An integrated GPU has no such copies to save (Jetson), so the
    rule is silent there. At stake is all of the copies and of the calls that make them, and wait for them.
    """
    found = copies(facts)
    if hints.is_integrated(facts) or not found.height:
        return None
    if found["pageable"].null_count() == found.height:
        return Abstention("S8", "kinds of memory of the copies: CUPTI's tools give them (torch.profiler on CUDA, nsys)")
    slow = _slow_copies(facts, found, int(1024 * limits.copy_kib))
    if not slow.height:
        return None
    start, end = _calls_of(facts, slow)
    host_ns = facts.per_step(float((end - start).sum()))
    bound = gain.of_calls(facts, start, end, slow["row"].to_numpy())
    spent = facts.per_step(float((slow["end"] - slow["start"]).sum()))
    moved = facts.per_step(float(slow["bytes"].sum()))
    return Finding(
        "S8",
        gain.severity(bound.ceiling_percent),
        f"Copies from pageable memory: {words.size(moved)} {hints.per(facts)} go through the driver's own buffer, and"
        f" hold the host up for {words.ns(host_ns)}",
        (
            Evidence("copies on the GPU", spent, "ns", Query("kernels:copies", row=str(slow["direction"][0]))),
            Evidence("host in these calls", host_ns, "ns", Query("host:API calls", "Memcpy")),
            Evidence("copies", facts.per_step(slow.height)),
            Evidence("bytes", moved, "byte"),
            Evidence("achieved", 1e9 * moved / spent if spent else 0.0, "byte/s"),
        ),
        f"{words.ns(spent)} of copies and {words.ns(host_ns)} of the host {hints.per(facts)}; {bound.why}",
        f"any copy of {limits.copy_kib:g} KiB or more",
        "Put the source in pinned memory: DataLoader(pin_memory=True), or tensor.pin_memory() once for buffers that are"
        " used again; then .to(device, non_blocking=True). To the host: copy into a pinned tensor, non_blocking, and"
        " wait with an event.",
        impact_ns=bound.ns,
        ceiling_percent=bound.ceiling_percent,
    )


def _slow_copies(facts: Facts, found: pl.DataFrame, least: int) -> pl.DataFrame:
    """The copies of at least so many bytes from or to pageable memory that an asynchronous call made."""
    calls = facts.trace.host.with_row_index("launch").select(
        "launch", api=pl.col("name").cast(pl.String), called="start", returned=pl.col("start") + pl.col("duration")
    )
    large = pl.col("pageable").fill_null(value=False) & (pl.col("bytes").fill_null(0) >= least)
    return (
        found.filter(large)
        .join(calls, on="launch", how="left")
        .filter(pl.col("api").is_null() | pl.col("api").str.contains("Async"))
    )


def _calls_of(facts: Facts, slow: pl.DataFrame) -> tuple[Ints, Ints]:
    """When the calls that make these copies begin and end, and the waits for them."""
    after = facts.trace.host[pageable_waits(facts)]
    known = slow.filter(pl.col("called").is_not_null())
    start = np.concatenate((known["called"].to_numpy(), after["start"].to_numpy()))
    return start, np.concatenate((known["returned"].to_numpy(), (after["start"] + after["duration"]).to_numpy()))


@rule(
    "S10",
    "Copies to the GPU do not overlap kernels",
    needs=("timeline", "gpu"),
    rests_on=("gpu", "whole"),
    thresholds={
        "overlap_percent": Threshold(50, "%", "copies with a kernel beside them, of their time", own=True),
        "step_percent": Threshold(2, "%", "copies, of the step", own=True),
    },
    advice="A second stream with pinned memory, prefetching the next batch.",
    source="nsys-ai (overlap of copies)",
)
def copies_not_overlapped(facts: Facts, limits: Limits) -> Finding | None:
    """The copy engines could carry the next batch while kernels compute the present one; here they take turns.

    Counted is the time in which at least one copy from host to GPU runs, and how much of it has a kernel beside it. At
    stake is the rest, as far as a replay of the launches says that the step would end earlier without it.
    """
    work = activities(facts.sel)
    found = copies(facts).filter(pl.col("direction") == HTOD)
    moving = intervals.union(found["start"].to_numpy(), found["end"].to_numpy())
    total = intervals.length(moving)
    share = facts.ceiling(facts.per_step(total))
    if not total or share is None or share < limits.step_percent:
        return None
    computing = intervals.union(work.start[work.kernel | work.compute], work.end[work.kernel | work.compute])
    beside = intervals.length(intervals.intersect(moving, computing))
    if 100 * beside >= limits.overlap_percent * total:
        return None
    bound = gain.of_kernels(facts, found["row"].to_numpy())
    alone = facts.per_step(total - beside)
    return Finding(
        "S10",
        gain.severity(bound.ceiling_percent),
        f"Copies to the GPU take {words.percent(share)} of {hints.span(facts)}, and"
        f" {words.percent(100 - 100 * beside / total)} of that no kernel runs",
        (
            Evidence("copies to the GPU", facts.per_step(total), "ns", Query("kernels:copies", row=HTOD)),
            Evidence("of it beside a kernel", facts.per_step(beside), "ns", Query("overview")),
            Evidence(f"bytes {hints.per(facts)}", facts.per_step(float(found["bytes"].sum())), "byte"),
        ),
        f"{words.ns(alone)} of {words.ns(facts.per_step(total))} {hints.per(facts)} without a kernel; {bound.why}",
        f"below {words.percent(limits.overlap_percent)} overlapped, copies of {words.percent(limits.step_percent)} of"
        " the step or more",
        _ON_BOARD if hints.is_integrated(facts) else _BESIDE,
        impact_ns=bound.ns,
        ceiling_percent=bound.ceiling_percent,
    )


_ON_BOARD = (
    "Copies on this board are within one memory: try mapped (cudaHostAllocMapped) or managed memory in their place, and"
    " keep it only if a test shows that the kernels do not get slower."
)
_BESIDE = (
    "Copy the next batch on a stream of its own while the present one computes: pinned memory, .to(device,"
    " non_blocking=True) under torch.cuda.stream(copy_stream), and compute_stream.wait_stream(copy_stream) before its"
    " use; send uint8 images and convert on the GPU."
)
