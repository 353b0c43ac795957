"""Rules on cache and DRAM traffic: low hit rates, and data that is read more than once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.finding import Evidence, Finding, Query
from tracetui.analysis.findings.core.rule import Threshold, rule
from tracetui.analysis.findings.gpu.kernel_facts import (
    SHARE,
    STREAMING,
    is_beside_timeline,
    reread,
    share_of,
    short,
    stake,
)
from tracetui.parsers.names import kernel_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.rule import Limits


@rule(
    "K5",
    "Caches that do not hold what is read",
    needs=("counters", "gpu"),
    rests_on=("gpu", "counters"),
    thresholds={
        "hit_percent": Threshold(50, "%", "hit rate of L1 or L2, of sectors"),
        "streaming": Threshold(1.2, "", "DRAM bytes, of compulsory ones, below which nothing is read twice", own=True),
        "share_percent": SHARE,
    },
    advice="Make neighbouring blocks use the same data; tile for L2; keep small operands resident.",
    source="NVIDIA TensorRT-LLM's profiling skills (50 % poor, 80 % good)",
)
def cache_misses(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Finds memory-bound kernels with a low L1 or L2 hit rate.

    Kernels that read their input once are left out, since no cache could help them: elementwise kernels, copies and
    reductions, and kernels that move only the compulsory bytes through DRAM (K6 near 1).
    """
    measured = facts.counters
    if measured is None or is_beside_timeline(facts):
        return
    again = {name: factor for name, factor, *_ in reread(facts)}
    share = {row["name"]: row["percent"] or 0.0 for row in facts.kernels.iter_rows(named=True)}
    for row in measured.kernels.filter(pl.col("bound") == "memory").iter_rows(named=True):
        name, rates = row["name"], (row["l1_hit_percent"], row["l2_hit_percent"])
        low = [rate for rate in rates if rate is not None and rate < limits.hit_percent]
        is_once = kernel_names.category(name) in STREAMING or again.get(name, 9.9) <= limits.streaming
        if not low or is_once or share.get(name, 0.0) < limits.share_percent:
            continue
        found = stake(facts, [name], min(row["sm_percent"] / 100, 1.0))
        proof = Query("counters", row=name)
        yield Finding(
            "K5",
            found.severity,
            f"{short(name)} is bound by memory and hits {words.percent(min(low))} in its worst cache",
            (
                *(
                    Evidence(f"{cache} hit rate, of sectors", rate, "%", proof)
                    for cache, rate in zip(("L1", "L2"), rates, strict=True)
                    if rate is not None
                ),
                share_of(name, share[name]),
            ),
            f"with memory out of the way arithmetic takes {words.percent(row['sm_percent'])} of the time; {found.why}",
            f"L1 or L2 below {words.percent(limits.hit_percent)}, of sectors",
            "Order the blocks so that neighbours read the same data, tile for L2, stage what several threads read in"
            " shared memory.",
            impact_ns=found.ns,
            ceiling_percent=found.ceiling_percent,
            work=found.rows,
        )


@rule(
    "K6",
    "DRAM moves more than the work needs",
    needs=("counters", "shapes", "gpu"),
    rests_on=("gpu", "counters"),
    thresholds={
        "factor": Threshold(2, "", "DRAM bytes, of the compulsory ones", own=True),
        "share_percent": SHARE,
    },
    advice="Tile, change the order of the grid, or use a smaller batch, so that what is read again is still in L2.",
    source="bytes of the operator's inputs and outputs against Nsight Compute's DRAM counters",
)
def moved_again(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Divides the bytes that a kernel moved to and from DRAM by those its operator must move once.

    If DRAM traffic was not counted (integrated GPUs), the rule uses L2 misses × 32 byte. It compares only launches of
    the same grid and block. The gain is at most the time that the surplus bytes take at the memory's peak.
    """
    bandwidth = facts.roofline.peaks.bandwidth
    share = {row["name"]: row["percent"] or 0.0 for row in facts.kernels.iter_rows(named=True)}
    for name, factor, moved, needed, duration in reread(facts):
        if factor <= limits.factor or share.get(name, 0.0) < limits.share_percent:
            continue
        spared = (moved - needed) / bandwidth.value * 1e9 if bandwidth is not None else duration
        found = stake(facts, [name], 1 - min(spared / duration, 1.0) if duration else 1.0)
        rate = f"{words.size(moved)} / {words.size(needed)} = {words.number(factor)}"
        yield Finding(
            "K6",
            found.severity,
            f"{short(name)} moves {words.number(factor)} times the bytes that its work needs",
            (
                Evidence("DRAM traffic per launch", moved, "byte", Query("counters", row=name)),
                Evidence("inputs and outputs, each once", needed, "byte", Query("kernels", row=name)),
                share_of(name, share[name]),
            ),
            f"{rate}; {words.size(moved - needed)} at the memory's peak take {words.ns(spared)}; {found.why}",
            f"more than {limits.factor:g} times",
            "What is read again falls out of L2 in between: change the order of the grid so that blocks that share"
            " operands run together, tile, or use a smaller batch.",
            impact_ns=found.ns,
            ceiling_percent=found.ceiling_percent,
            work=found.rows,
        )
