"""Rules on copies between host and GPU: pageable memory, overlap with kernels, and copies that limit the run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracetui.analysis.base import api_names, intervals, names
from tracetui.analysis.base.intervals import Intervals
from tracetui.analysis.base.remembered import kept
from tracetui.analysis.collectives import Link
from tracetui.analysis.findings.core import basis, gain, program, words
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query, evidence
from tracetui.analysis.findings.declared.host import S8, S10, S27
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.gpu.activities import activities
from tracetui.analysis.memops import operation_name
from tracetui.analysis.roofline.peaks import host_link_of
from tracetui.analysis.sampled_calls import located, told
from tracetui.analysis.selection import Selection
from tracetui.parsers.arrays import Ints

HTOD, DTOH = "[CUDA memcpy Host-to-Device]", "[CUDA memcpy Device-to-Host]"


@kept
def copies(facts: Facts) -> pl.DataFrame:
    """The copies between host and GPU that the steps launched; see `copies_of`."""
    return copies_of(facts.of_steps)


def copies_of(sel: Selection) -> pl.DataFrame:
    """The copies between host and GPU of a selection.

    Returns:
        row, direction, pageable (null if unknown), start, end, ns (how long tables say that it takes), bytes, launch.
    """
    rows = sel.device.with_columns(ns=sel.timed["duration"]).filter(pl.col("kind") == "memcpy")
    spelled = {name: operation_name(name) for name in rows["name"].cast(pl.String).unique().drop_nulls()}
    name, kinds = pl.col("name").cast(pl.String), pl.col("memory_kinds").cast(pl.String)
    told = pl.concat_str(name, kinds.fill_null(""), separator=" ")
    return rows.select(
        pl.col("row").cast(pl.Int64),
        name.replace(spelled).alias("direction"),
        pl.when(told.str.contains("Pageable|Pinned")).then(told.str.contains("Pageable")).alias("pageable"),
        "start",
        (pl.col("start") + pl.col("duration")).alias("end"),
        "ns",
        "bytes",
        "launch",
    ).filter(pl.col("direction").is_in([HTOD, DTOH]))


def pageable_waits(facts: Facts) -> pl.Series:
    """Host rows of the waits that directly follow a copy from pageable memory on the same thread."""
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


@looks_for(S8)
def pageable_copies(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    found = copies(facts)
    if program.is_integrated(facts) or not found.height:
        return None
    if found["pageable"].null_count() == found.height:
        return Abstention("kinds of memory of the copies: CUPTI's tools give them (torch.profiler on CUDA, nsys)")
    slow = _slow_copies(facts, found, int(1024 * limits.copy_kib))
    if not slow.height:
        return None
    start, end = _calls_of(facts, slow)
    host_ns = facts.per_step(float((end - start).sum()))
    rows = slow["row"].to_numpy()
    # the recording with names may know longer calls, the other one what waits for the copies
    bound = max(gain.of_calls(facts, start, end, rows), gain.of_copies(facts, rows), key=lambda each: each.ns)
    bound = replace(bound, host=intervals.union(start, end))
    spent = facts.per_step(float(slow["ns"].sum())) * basis.shown(facts).scale
    moved = facts.per_step(float(slow["bytes"].sum()))
    if (link := host_link_of(facts.run, facts.trace)) is not None and facts.model is not None:
        left = 1e9 * moved / link.bytes_per_s
        why = f"pinned copies still take {words.ns(left)} at the peak of {link.name}"
        bound = gain.limited(bound, max(facts.model.step_ns - left, 0.0), facts.model.step_ns, why)
    return bound.finding(
        f"Pin host memory: {words.size(moved)} {program.per(facts)} hold it up for {words.ns(host_ns)}"
        f"{basis.as_recorded(facts)}",
        (
            Evidence("copies on the GPU", spent, "ns", Query("kernels:copies", row=str(slow["direction"][0]))),
            Evidence("host in these calls", host_ns, "ns", Query("host:API calls", "Memcpy")),
            Evidence("copies", facts.per_step(slow.height)),
            Evidence("bytes", moved, "byte"),
            Evidence("achieved", 1e9 * moved / spent if spent else 0.0, "byte/s"),
        ),
        f"{words.ns(spent)} of copies and {words.ns(host_ns)} of the host{basis.as_recorded(facts)}"
        f" {program.per(facts)}; {bound.why}",
        advice=facts.program.say(
            pytorch="DataLoader(pin_memory=True), or tensor.pin_memory() once for buffers that are used again; then"
            " .to(device, non_blocking=True). To the host: copy into a pinned tensor, non_blocking, and wait with an"
            " event.",
            jax="Call jax.device_put for the next batch before this step's results are asked for, and keep on the GPU"
            " what the steps use again; results come to the host once, in one jax.device_get.",
            other="Put the buffers in pinned memory: cudaHostAlloc or cudaHostRegister (HIP: hipHostMalloc,"
            " hipHostRegister; OpenMP: omp_alloc with the trait omp_atk_pinned) once, for buffers that are used again;"
            " then the asynchronous copy returns at once. Wait for it with an event, only where its data is needed.",
        ),
    )


def _slow_copies(facts: Facts, found: pl.DataFrame, least: int) -> pl.DataFrame:
    """The copies of at least this many bytes from or to pageable memory that an asynchronous call made."""
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
    """Start and end of the calls that make these copies and of the waits for them."""
    after = facts.trace.host[pageable_waits(facts)]
    known = slow.filter(pl.col("called").is_not_null())
    start = np.concatenate((known["called"].to_numpy(), after["start"].to_numpy()))
    return start, np.concatenate((known["returned"].to_numpy(), (after["start"] + after["duration"]).to_numpy()))


@looks_for(S10)
def copies_not_overlapped(facts: Facts, limits: Limits) -> Finding | None:
    base = basis.shown(facts)
    work = activities(base.sel)
    found = copies_of(base.of_steps).filter(pl.col("direction") == HTOD)
    moving = intervals.union(found["start"].to_numpy(), found["end"].to_numpy())
    total = intervals.length(moving)
    share = base.share(base.of_step(total))
    if not total or share is None or share < limits.step_percent:
        return None
    computing = intervals.union(work.start[work.kernel | work.compute], work.end[work.kernel | work.compute])
    beside = intervals.length(intervals.intersect(moving, computing))
    could = min(total, intervals.length(computing))
    if 100 * beside >= limits.overlap_percent * could:
        return None
    mine = copies(facts).filter(pl.col("direction") == HTOD)
    spent = base.of_step(total)
    pageable, rows = bool(mine["pageable"].any()), mine["row"].to_numpy()
    bound = gain.of_copies(facts, rows) if pageable else gain.of_kernels(facts, rows)
    if facts.model is not None:
        rest, step_ns = base.of_step(could - beside), facts.model.step_ns
        why = f"no more than {words.ns(rest)} of copies and kernels can run at the same time that don't yet"
        if pageable and step_ns - spent > rest:  # the host, which waits in such a copy, works beside it too
            rest, why = step_ns - spent, f"the copies still take {words.ns(spent)}"
        bound = gain.limited(bound, rest, step_ns, why)
    return bound.finding(
        "Copy while the GPU computes: copies to it run alone",
        (
            Evidence("copies to the GPU", spent, "ns", Query("kernels:copies", row=HTOD)),
            Evidence("of it beside a kernel", base.of_step(beside), "ns", Query("timeline")),
            Evidence("of it that could be, by the time of copies and kernels", base.of_step(could), "ns"),
            Evidence(base.span.removeprefix("the "), base.step_ns, "ns", Query("timeline")),
            Evidence(f"bytes {program.per(facts)}", base.per_step(float(found["bytes"].sum())), "byte"),
        ),
        f"{words.part_of(spent, base.step_ns, share)},"
        f" {words.ns(base.of_step(total - beside))} of it without a kernel; {bound.why}",
        advice="Copies on this board are within one memory: try mapped (cudaHostAllocMapped) or managed memory in their"
        " place, and keep it only if a test shows that the kernels do not get slower."
        if program.is_integrated(facts)
        else _held_back(facts, rows)
        + facts.program.say(
            pytorch="Copy the next batch on its own stream while the present one computes: pinned memory,"
            " .to(device, non_blocking=True) under torch.cuda.stream(copy_stream), wait_stream before its use. Send"
            " uint8 images and convert on the GPU.",
            jax="Call jax.device_put for the next batch before the present step is waited for (a queue of two batches);"
            " send uint8 images and convert on the GPU.",
            other="Copy the next piece on a stream of its own while the present one computes: two pinned buffers,"
            " cudaMemcpyAsync (HIP: hipMemcpyAsync) on the copy stream, an event that the computing stream waits for;"
            " in OpenMP target data with nowait and depend.",
        ),
    )


def _held_back(facts: Facts, rows: Ints) -> str:
    """Where the program makes the stream of these copies wait for other work, as a sentence; empty if it does not."""
    model = facts.host_model
    if model is None:
        return ""
    work, calls = model.graph.work, model.graph.calls
    mine = work.call[np.isin(work.row, rows) & (work.after >= 0) & (work.call >= 0)]
    waits = np.flatnonzero(names.matching(facts.trace.host["name"].gather(calls.row), api_names.makes_stream_wait))
    last = np.searchsorted(waits, mine) - 1  # of all threads: nothing else lies between it and the copies' launch
    mine, last = mine[last >= 0], waits[last[last >= 0]]
    last = last[calls.thread[last] == calls.thread[mine]]
    at = told(located(facts.trace, calls.row[last])).drop_nulls()
    if not at.len():
        return ""
    return (
        f"Their stream waits for all work queued before, at {at.mode().sort()[0]}: wait for an event that follows the"
        " last use of the buffer alone (stream.wait_event). "
    )


_WAY = {HTOD: "to the GPU", DTOH: "to the host"}


@dataclass(frozen=True)
class Moved:
    """The copies of one direction, per step."""

    direction: str
    copies: float
    bytes: float | None
    """Null where the size of one is unknown."""
    busy: Intervals
    """When at least one of them runs, in the whole selection."""
    busy_ns: float
    pageable_percent: float | None
    """Of the bytes; None if kinds of memory were not recorded."""

    @property
    def way(self) -> str:
        """The direction in words."""
        return _WAY[self.direction]

    @property
    def bytes_per_s(self) -> float | None:
        """Bytes by the time in which at least one copy runs."""
        return None if self.bytes is None or not self.busy_ns else 1e9 * self.bytes / self.busy_ns

    def link_percent(self, link: Link | None) -> float | None:
        """The rate, of the link's peak."""
        rate = self.bytes_per_s
        return None if rate is None or link is None else 100 * rate / link.bytes_per_s


@looks_for(S27)
def copies_limit(facts: Facts, limits: Limits) -> Finding | None:
    if facts.verdict.kind != "copies":
        return None
    moved = _moved(facts)
    rows = copies(facts)["row"].to_numpy()
    bound, half = gain.of_kernels(facts, rows), gain.of_kernels(facts, rows, factor=0.5)
    if not moved:
        return None
    link = host_link_of(facts.run, facts.trace)
    first = max(moved, key=lambda one: one.busy_ns)
    return bound.finding(
        f"Copy less, or faster: {', '.join(_said(one, link) for one in moved)} {program.per(facts)}",
        (
            *(evidence for one in moved for evidence in _evidence(facts, one, link)),
            Evidence("step shorter with half the bytes, at most", half.ceiling_percent or 0.0, "%"),
        ),
        f"{'; '.join(f'{words.ns(one.busy_ns)} {one.way}' for one in moved)}; with these copies free: {bound.why}",
        advice=_advice(facts, limits, moved, first, link),
    )


def _moved(facts: Facts) -> list[Moved]:
    """What each direction moves."""
    base = basis.shown(facts)
    found = []
    for (direction,), rows in copies_of(base.of_steps).group_by("direction", maintain_order=True):
        busy = intervals.union(rows["start"].to_numpy(), rows["end"].to_numpy())
        whole = float(rows["bytes"].sum()) if not rows["bytes"].null_count() else None
        pageable = rows.filter(pl.col("pageable").fill_null(value=False))["bytes"].sum()
        told = whole and rows["pageable"].null_count() < rows.height
        found.append(
            Moved(
                str(direction),
                base.per_step(rows.height),
                None if whole is None else base.per_step(whole),
                busy,
                base.per_step(float(intervals.length(busy))),
                100 * float(pageable) / whole if told and whole else None,
            )
        )
    return sorted(found, key=lambda one: one.direction != HTOD)


def _said(one: Moved, link: Link | None) -> str:
    """``192.0 MiB to the GPU at 55.5 GB/s, 88 % of PCIe 5.0 x16``."""
    if one.bytes is None or one.bytes_per_s is None:
        return f"{words.ns(one.busy_ns)} {one.way}"
    of = one.link_percent(link)
    share = f" ({words.percent(of)} of {link.name})" if of is not None and link is not None else ""
    return f"{words.size(one.bytes)} {one.way} at {words.number(one.bytes_per_s / 1e9)} GB/s{share}"


def _evidence(facts: Facts, one: Moved, link: Link | None) -> Iterator[Evidence]:
    proof = Query("kernels:copies", row=one.direction)
    of = f"of the peak of {link.name}" if link is not None else ""
    yield from evidence(
        (f"bytes {one.way} {program.per(facts)}", one.bytes, "byte", proof),
        (f"copies {one.way} {program.per(facts)}", one.copies, "", proof),
        (f"{one.way}, time {program.per(facts)}", one.busy_ns, "ns", proof),
        (f"{one.way}, achieved", one.bytes_per_s, "byte/s"),
        (f"{one.way}, {of}", one.link_percent(link), "%"),
        (f"{one.way}, from or to pageable memory, of the bytes", one.pageable_percent, "%"),
    )


def _advice(facts: Facts, limits: Limits, moved: list[Moved], first: Moved, link: Link | None) -> str:
    """What fits these copies, what helps most first."""
    said = []
    if (first.pageable_percent or 0.0) > 100 - (first.pageable_percent or 0.0):
        said.append("Pin the host's memory first (S8): from pageable memory the driver copies twice.")
    if first.bytes and first.bytes / first.copies < 1024 * limits.small_kib:
        said.append(f"Copies of {words.size(first.bytes / first.copies)} pay for their start: put many into one.")
    if (first.link_percent(link) or 0.0) >= limits.link_percent:
        said.append("These copies are about as fast as the link; no way to copy is faster.")
    if _apart(facts, moved, limits):
        said.append(
            "Let copies run beside kernels, on a stream of their own with pinned memory."
            if len(moved) == 1
            else "Let copies run beside kernels, and both directions beside each other, which the link carries at once:"
            " a stream for each, with pinned memory."
        )
    said.append(
        "Move fewer bytes: send a smaller type (uint8, bf16) and convert on the GPU, keep there what several steps use"
        " (data, weights, states), and compute again what is cheap to compute."
    )
    return " ".join(said)


def _apart(facts: Facts, moved: list[Moved], limits: Limits) -> bool:
    """Whether copies could run beside kernels, or beside those of the other direction, and mostly don't."""
    work = activities(basis.shown(facts).sel)
    others = [intervals.union(work.start[work.kernel | work.compute], work.end[work.kernel | work.compute])]
    others += [one.busy for one in moved[1:]]
    here = moved[0].busy
    for other in others:
        could = min(intervals.length(here), intervals.length(other))
        worth = 100 * could >= LEAST_PERCENT * intervals.length(here)
        if worth and 100 * intervals.length(intervals.intersect(here, other)) < limits.overlap_percent * could:
            return True
    return False


LEAST_PERCENT = 5
"""Less than this of the copies' time is not worth a stream of its own."""
