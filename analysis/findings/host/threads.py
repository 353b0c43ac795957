"""More threads that want to run than the processor has cores."""

from __future__ import annotations

import re
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.base import intervals, names
from tracetui.analysis.findings.core import basis, program, words
from tracetui.analysis.findings.core.finding import Abstention, Finding, Query, known
from tracetui.analysis.findings.declared.host import S18
from tracetui.analysis.findings.declared.rule import looks_for
from tracetui.analysis.gpu.steps import step_slots

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.declared.rule import Limits

_WORK = ("operator", "runtime", "driver")
_WAITS = re.compile(
    r"Synchronize|^(cuda|hip)Memcpy(?!\w*Async)|wait|poll|sleep|^aten::(item|_local_scalar_dense)$", re.I
)
"""Calls in which a thread waits and needs no core."""


def cores(facts: Facts) -> tuple[int | None, str]:
    """How many cores the machine has, and who says so."""
    before = facts.manifest.power.before if facts.manifest is not None else None
    if before is not None and before.cpu is not None and before.cpu.online:
        return before.cpu.online, "run.json"
    told = dict(facts.trace.info.captured).get("CPU cores", "")
    return (int(told), "the file") if told.isdecimal() and len(told) < 10 and int(told) else (None, "")


def crowded_ns(facts: Facts, most: int) -> tuple[float, int]:
    """The time per step in which more than this many threads run operators or API calls, and the most that ever do."""
    host = facts.trace.host.filter(pl.col("kind").is_in(_WORK))
    slots = step_slots(facts.sel)
    if not host.height or not slots.start.size:
        return 0.0, 0
    busy = ~names.matching(host["name"], lambda name: _WAITS.search(name) is not None)
    start, change = [], []
    for calls in host.with_columns(busy=pl.Series(busy)).partition_by("process", "thread"):
        runs, waits = (_spans(calls.filter(chosen)) for chosen in (pl.col("busy"), ~pl.col("busy")))
        begun, ended = intervals.subtract(runs, waits)
        start += [begun, ended]
        change += [np.ones(begun.size, np.int64), -np.ones(ended.size, np.int64)]
    at, by = np.concatenate(start), np.concatenate(change)
    order = np.lexsort((by, at))
    running = np.cumsum(by[order])
    crowded = np.flatnonzero(running[:-1] > most) if running.size else np.empty(0, np.int64)
    spans = intervals.union(at[order][crowded], at[order][crowded + 1])
    return facts.per_step(float(np.sum(intervals.covered(spans, slots.start, slots.end)))), int(running.max(initial=0))


def _spans(calls: pl.DataFrame) -> intervals.Intervals:
    start = calls["start"].to_numpy()
    return intervals.union(start, start + calls["duration"].to_numpy())


def _load(facts: Facts) -> float | None:
    """The median over the samples of how many threads of the machine ran or wanted to; None if it was not sampled."""
    during = facts.manifest.power.during if facts.manifest is not None else ()
    loads = [state.cpu.load_1m for state in during if state.cpu is not None and state.cpu.load_1m is not None]
    return median(loads) if loads else None


@looks_for(S18)
def competing_threads(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    count, who = cores(facts)
    if count is None:
        return Abstention("the number of cores: launch with tracetui profile, or record with nsys")
    crowded, most = crowded_ns(facts, count)
    share = facts.ceiling(crowded) or 0.0
    load = _load(facts)
    loaded = load is not None and load > limits.load * count
    if share < limits.crowded_percent and not loaded:
        return None
    workload = facts.manifest.workload if facts.manifest is not None else None
    title = f"{words.number(load or 0)} threads want to run" if loaded else f"Up to {most} threads run at a time"
    return Finding(
        "warning",
        f"{title} on {words.things(count, 'core')}: the thread that launches work may wait for one",
        known(
            ("cores", count),
            ("cores told by", who),
            ("load during the run, median of a minute", load),
            ("recorded threads that run at a time, most", most, "", Query("host")),
            (f"more than the cores, {program.per(facts)}", crowded, "ns", Query("timeline")),
            ("threads of torch", workload.threads if workload is not None else None),
            ("processes of the data loader", workload.workers if workload is not None else None),
        ),
        f"{words.number(load) if load is not None else 'unknown'} load, {words.ns(crowded)} of"
        f" {words.ns(facts.step_ns)}{basis.as_recorded(facts)} = {words.percent(share)} with more than {count} threads",
        advice=facts.program.say(
            pytorch="torch.set_num_threads (OMP_NUM_THREADS) so that threads and loader workers together stay below the"
            " cores, one core left for the thread that launches; end other programs.",
            other="OMP_NUM_THREADS and your pools so that all threads together stay below the cores, one core left for"
            " the thread that launches; end other programs.",
        ),
    )
