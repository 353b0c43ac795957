"""Where in the program a finding's GPU work is launched, or where the host's time goes that it would spare."""

from __future__ import annotations

from pathlib import PurePath

import numpy as np
import polars as pl

from tracetui.analysis.attribution.calltree import lanes_of
from tracetui.analysis.attribution.place import Place, grouped, innermost_units, launching_rows, own_frames
from tracetui.analysis.base import intervals
from tracetui.analysis.base.intervals import Intervals
from tracetui.analysis.base.names import of_kinds
from tracetui.analysis.base.remembered import kept, latest
from tracetui.analysis.dependencies.host_path import HostPath, without_gpu
from tracetui.analysis.dependencies.host_path import host_path as path_of
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Finding
from tracetui.analysis.host_lines import line_times, longest_line, workers_line
from tracetui.analysis.sampled_calls import located
from tracetui.parsers import Trace
from tracetui.parsers.arrays import Ints

RECORDING_WEIGHS = 2.0
"""Times of the host that differ by less than this factor may differ by recording's weight alone."""


def on_gpu(facts: Facts, rows: Ints) -> list[Place]:
    """The places that launch these device rows, the most GPU time first."""
    from tracetui.analysis.kernels import range_names

    device = facts.trace.device[rows]
    durations = device["duration"] if facts.sel.work_times is None else facts.sel.work_times.duration.gather(rows)
    ranges = range_names(facts.sel, device)
    spent, launching = durations.fill_null(0).to_numpy(), launching_rows(device)
    there = located(facts.trace, launching, ranges=ranges)
    return grouped(there, spent, facts.step_count, on_gpu=True)


def on_host(facts: Facts, when: Intervals) -> list[Place]:
    """The places in which the host is in these intervals, as far as they lie on the critical path.

    Where none of them does, as of waits, which are the GPU's time there, or there is no path, since no GPU work was
    recorded: what the program calls in them, as recorded.
    """
    path = host_path(facts)
    if path is not None:
        inside = intervals.covered(when, path.start, path.end)
        part = np.rint(path.ns * (inside / np.maximum(path.end - path.start, 1))).astype(np.int64)
        if part.any():
            there, begins = _on_path(path, facts.trace)
            part = np.add.reduceat(part, begins)
            return grouped(there.filter(pl.Series(part > 0)), part[part > 0], path.steps, on_gpu=False)
    host = facts.trace.host
    rows = innermost_units(facts.trace)
    if not rows.size:
        rows = np.flatnonzero(of_kinds(host["kind"], "runtime", "driver"))
    start = host["start"].to_numpy()[rows]
    lasting = intervals.covered(when, start, start + host["duration"].to_numpy()[rows])
    chosen = lasting > 0
    return grouped(located(facts.trace, rows[chosen]), lasting[chosen], facts.step_count, on_gpu=False)


@latest
def _on_path(path: HostPath, trace: Trace) -> tuple[pl.DataFrame, Ints]:
    """Where in the program the host's path is, and with which of its pieces it comes to each of these places."""
    table = located(trace, path.row, (path.start + path.end) // 2)
    # before the first is nothing, which differs from any ``backward``
    moved = table.select(pl.any_horizontal(pl.all().ne_missing(pl.all().shift()))).to_series()
    begins = np.flatnonzero(moved.to_numpy())
    return table[begins], begins


def of_finding(facts: Facts, finding: Finding) -> tuple[Place, ...]:
    """Where its time goes: the host's that it would spare, or that of its GPU work if that is more.

    Of a recording without stacks, what is on the host has the lines that samples know, for all of a step.
    """
    host = _by_samples(facts, on_host(facts, finding.host)) if finding.host is not None else []
    gpu = on_gpu(facts, finding.work) if finding.work is not None else []
    found = max(host, gpu, key=lambda of: sum(place.ns for place in of))
    if finding.host is not None and not any(place.frame for place in found):
        found = [*_sampled(facts), *found]
    return tuple(found)


def workers(facts: Facts) -> str:
    """Where those are who make the batches, as the end of a sentence; empty where no other process was sampled."""
    line = workers_line(facts.trace)
    return "" if line is None else f"workers in {line.short}"


def _by_samples(facts: Facts, found: list[Place]) -> list[Place]:
    """Of places of the host that take about as long as the first, that comes first whose line was sampled most.

    Only where the first one's line was sampled: what backward work takes is seen where the program waits for it.
    """
    times = line_times(facts.trace)
    seen = [times.get(f"{PurePath(place.frame.partition('(')[0]).name}:{place.line}") for place in found]
    if not seen or seen[0] is None:
        return found
    alike = [at for at, place in enumerate(found) if place.ns * RECORDING_WEIGHS >= found[0].ns]
    first = max(alike, key=lambda at: seen[at] or 0.0)
    return [found[first], *found[:first], *found[first + 1 :]]


def _sampled(facts: Facts) -> list[Place]:
    """The line that takes most of a step by the samples."""
    line = longest_line(facts.trace)
    if line is None or line.ns is None:
        return []
    return [Place(line.short, "", "", "", int(line.name.rpartition(":")[2]), 0.0, line.ns, None, on_gpu=False)]


@kept
def host_path(facts: Facts) -> HostPath | None:
    """The host's part of the critical path of the recording that has names; None without one."""
    if facts.host_model is not None:
        return path_of(facts.sel, facts.host_model)
    frames = own_frames(facts.trace)
    if not facts.is_without_gpu or not frames.rows.size or not facts.step_ns:
        return None
    lane = int(lanes_of(facts.trace.host)[frames.rows[0]])
    return without_gpu(facts.sel, lane, facts.page_step.ns / facts.step_ns)
