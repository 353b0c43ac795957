"""Accesses to global memory that move more sectors than the threads asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from msgspec import Struct

from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.declared.kernels import K7
from tracetui.analysis.findings.declared.rule import looks_for
from tracetui.analysis.findings.gpu.kernel_facts import is_beside_timeline, share_of, short, stake
from tracetui.analysis.matching.join import joined
from tracetui.parsers.names import kernel_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.declared.rule import Limits
    from tracetui.parsers import Trace

SECTOR = 32
"""Bytes that a cache moves at least."""
_MISSING = "sectors of global accesses: ncu --section SourceCounters --section MemoryWorkloadAnalysis_Tables"
WIDEST = 16
"""Sectors that a warp's widest load needs: 32 threads × 16 bytes. Loads of 4 bytes each need 4."""
METRICS = {
    "memory_l2_theoretical_sectors_global": "sectors",
    "memory_l2_theoretical_sectors_global_ideal": "ideal",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": "loaded",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": "requests",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": "stored",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": "store_requests",
    "derived__memory_l2_theoretical_sectors_global_excessive": "surplus",
}
RULE = "UncoalescedGlobalAccess"
_SURPLUS = r"total of (\d+) excessive sectors \(\d+% of the total (\d+) sectors\)"
_PARTS = ("device_row", "metric", "value")


class Access(Struct, frozen=True):
    """How a kernel's launches access global memory."""

    name: str
    sectors: float
    """Sectors that its loads and stores touch; where only loads were counted, those of loads."""
    ideal: float
    """Sectors that would do if the threads of a warp accessed neighbouring addresses."""
    per_request: float | None
    """Sectors per load of a warp."""
    per_store: float | None = None
    """Sectors per store of a warp."""
    is_least: bool = False
    """Whether `ideal` is only the most that any type needs."""

    @property
    def factor(self) -> float:
        """How many times as many sectors move as are needed."""
        return self.sectors / self.ideal


def accesses(facts: Facts) -> list[Access]:
    """What Nsight Compute counted, summed over each kernel's measured launches.

    With section SourceCounters it knows how many sectors would do, or how many are too many. Otherwise sectors per
    request tell: no load or store of a warp needs more than `WIDEST`, whatever its type.
    """
    tables = [_of_launches(facts, trace) for trace in facts.run.of_kind("ncu")]
    tables = [table for table in tables if table.height]
    found: list[Access] = []
    if not tables:
        return found
    known = pl.concat(tables, how="diagonal")
    for row in known.group_by("kernel", maintain_order=True).agg(pl.col(*METRICS.values()).sum()).to_dicts():
        ways = [(row["loaded"], row["requests"]), (row["stored"], row["store_requests"])]
        each = [sectors / requests if requests else None for sectors, requests in ways]
        touched = row["sectors"] or row["loaded"] + row["stored"]
        if row["ideal"]:
            found.append(Access(row["kernel"], touched, row["ideal"], each[0], each[1]))
        elif 0 < row["surplus"] < touched:
            found.append(Access(row["kernel"], touched, touched - row["surplus"], each[0], each[1]))
        elif any(one is not None for one in each):
            wide = [way for way, one in zip(ways, each, strict=True) if one is not None and one > WIDEST] or ways
            sectors, requests = (sum(part) for part in zip(*wide, strict=True))
            found.append(Access(row["kernel"], sectors, WIDEST * requests, each[0], each[1], is_least=True))
    return found


def _of_the_rule(said: pl.DataFrame) -> pl.DataFrame:
    """The sectors that ncu's own rule names in its text, as metrics; a details page prints only these."""
    numbers = pl.col("text").str.extract_groups(_SURPLUS).struct
    whole, surplus = numbers.field("2").cast(pl.Float64), numbers.field("1").cast(pl.Float64)
    told = said.select("device_row", whole=whole, ideal=whole - surplus).drop_nulls()
    return pl.concat(
        [
            told.select("device_row", pl.lit(metric).alias("metric"), pl.col(column).alias("value"))
            for metric, column in zip(METRICS, ("whole", "ideal"), strict=False)
        ]
    )


def _of_launches(facts: Facts, other: Trace) -> pl.DataFrame:
    """A row per measured launch: the kernel as this recording spells it, and `METRICS` (0 where not counted)."""
    counters = other.counters.select("device_row", "kind", "value", "text", pl.col("metric").cast(pl.String))
    counted = counters.filter((pl.col("kind") == "metric") & pl.col("metric").is_in(list(METRICS))).select(_PARTS)
    counters = pl.concat([counted, _of_the_rule(counters.filter(pl.col("metric") == RULE))])
    counters = counters.unique(["device_row", "metric"], keep="first", maintain_order=True)
    if not counters.height:
        return pl.DataFrame()
    table = counters.group_by("device_row").agg(
        *(pl.col("value").filter(pl.col("metric") == metric).sum().alias(name) for metric, name in METRICS.items())
    )
    if other is facts.trace:
        spelled = other.device.select(kernel=pl.col("name").cast(pl.String)).with_row_index("device_row")
        return table.join(spelled, on="device_row")
    matched = [each.join.launches for each in joined(facts.run, facts.trace, "ncu") if each.other is other]
    if not matched:
        return pl.DataFrame()
    ours = matched[0].filter(pl.col("status") == "matched")
    return table.join(ours.select(pl.col("row").alias("device_row"), pl.col("kernel").cast(pl.String)), on="device_row")


@looks_for(K7)
def uncoalesced(facts: Facts, limits: Limits) -> Iterator[Finding | Abstention]:
    if is_beside_timeline(facts):
        return
    found = accesses(facts)
    if not found:
        yield Abstention(_MISSING)
        return
    share = {row["name"]: row["percent"] or 0.0 for row in facts.kernels.iter_rows(named=True)}
    bound = {row["name"]: row["bound"] for row in facts.counters.kernels.to_dicts()} if facts.counters else {}
    for access in sorted(found, key=lambda one: -share.get(one.name, 0.0)):
        used = 100 / access.factor if access.sectors else 100.0
        most = max(access.per_request or 0.0, access.per_store or 0.0)
        few = most <= limits.per_request if access.is_least else used >= limits.used_percent
        if few or share.get(access.name, 0.0) < limits.share_percent:
            continue
        gained = stake(facts, [access.name], min(1 / access.factor, 1.0))
        counts = bound.get(access.name) == "memory"
        proof = Query("counters", row=access.name)
        at_least = "at least " if access.is_least else ""
        yield Finding(
            gained.severity if counts else "info",
            f"{short(access.name)} moves {at_least}{words.number(access.factor)} times the sectors that its accesses"
            " need",
            (
                Evidence("sectors touched", access.sectors, "", proof),
                Evidence("sectors that would do", access.ideal, "", proof),
                *(
                    (Evidence("sectors per load of a warp", access.per_request, "", proof),)
                    if access.per_request is not None
                    else ()
                ),
                *(
                    (Evidence("sectors per store of a warp", access.per_store, "", proof),)
                    if access.per_store is not None
                    else ()
                ),
                Evidence("bound", bound.get(access.name) or "unknown", "", proof),
                share_of(access.name, share[access.name]),
            ),
            f"{words.count(access.ideal)} / {words.count(access.sectors)} = {words.percent(used)} of the sectors are"
            f" needed; {gained.why if counts else 'memory is not known to be the bottleneck, so no gain is claimed'}",
            threshold=f"more than {limits.per_request:g} sectors per load or store of a warp"
            if access.is_least
            else f"below {words.percent(limits.used_percent)} needed",
            advice="A library chose this kernel: another layout (channels last), sizes that are multiples of 8 or"
            " another"
            " algorithm may choose one whose accesses are aligned."
            if kernel_names.is_product(access.name)
            else "Let neighbouring threads read neighbouring addresses: swap the loops or the layout (structure of"
            " arrays, channels last), or load a tile in order and transpose it in shared memory.",
            impact_ns=gained.ns if counts else None,
            ceiling_percent=gained.ceiling_percent if counts else None,
            work=gained.rows if counts else None,
        )
