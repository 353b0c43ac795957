"""Bank conflicts in shared memory, and registers that spill, as Nsight Compute's counters tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.core.rule import Threshold, rule
from tracetui.analysis.findings.gpu.kernel_facts import SHARE, bounds, is_beside_timeline, share_of, short, stake
from tracetui.analysis.findings.gpu.measured.counted import counted, total
from tracetui.parsers.names import kernel_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.rule import Limits

RULE = "UncoalescedSharedAccess"
_SURPLUS = r"total of (\d+) excessive wavefronts \(\d+% of the total (\d+) wavefronts\)"
SHARED = {
    "wavefronts": ("memory_l1_wavefronts_shared",),
    "ideal": ("memory_l1_wavefronts_shared_ideal",),
    "worked": ("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",),
    "conflicts": ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",),
}
LOCAL = {
    "spills": ("derived__local_spilling_requests", "Local Memory Spilling Requests"),
    "percent": ("derived__local_spilling_requests_pct", "Local Memory Spilling Request Overhead"),
    "loads": ("l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum",),
    "stores": ("l1tex__t_requests_pipe_lsu_mem_local_op_st.sum",),
}
_NO_GAIN = "memory is not known to be the bottleneck, so no gain is claimed"


@rule(
    "K8",
    "Bank conflicts in shared memory",
    needs=("counters", "gpu"),
    rests_on=("gpu", "counters"),
    thresholds={
        "surplus_percent": Threshold(20, "%", "wavefronts of shared memory that conflicts add, of all", own=True),
        "share_percent": SHARE,
    },
    advice="Pad the rows of an array in shared memory by one element, or permute its columns.",
    source="Nsight Compute's rules UncoalescedSharedAccess and SharedMemoryConflicts",
)
def bank_conflicts(facts: Facts, limits: Limits) -> Iterator[Finding | Abstention]:
    """Compares the passes (wavefronts) that accesses to shared memory take with those that would do.

    Threads of a warp that access different words of one bank are served one after another. Nsight Compute counts the
    passes and the least that would do where the section SourceCounters was collected (on the details page its rule
    UncoalescedSharedAccess names both numbers), else bank conflicts of all passes. The gain is at most the surplus
    passes' share of a kernel's time, and counts only where memory is its bottleneck.
    """
    if is_beside_timeline(facts):
        return
    table = counted(facts, SHARED, RULE)
    if table.height:
        numbers = pl.col("text").str.extract_groups(_SURPLUS).struct
        whole, surplus = (numbers.field(part).cast(pl.Float64) for part in ("2", "1"))
        table = table.with_columns(
            wavefronts=pl.coalesce("wavefronts", whole), ideal=pl.coalesce("ideal", whole - surplus)
        )
    if not table.height or not (table["ideal"].count() or table["conflicts"].count()):
        yield Abstention(
            "K8", "wavefronts of shared memory: ncu --section SourceCounters --section MemoryWorkloadAnalysis_Tables"
        )
        return
    share = {row["name"]: row["percent"] or 0.0 for row in facts.kernels.iter_rows(named=True)}
    bound = bounds(facts)
    sums = table.group_by("kernel", maintain_order=True).agg(**{name: total(name) for name in SHARED})
    for row in sorted(sums.iter_rows(named=True), key=lambda one: -share.get(one["kernel"], 0.0)):
        name, passes = row["kernel"], _passes(row)
        if passes is None or share.get(name, 0.0) < limits.share_percent:
            continue
        whole_passes, needed = passes
        percent = 100 * (1 - needed / whole_passes)
        if percent < limits.surplus_percent:
            continue
        gained = stake(facts, [name], needed / whole_passes)
        counts = bound.get(name) == "memory"
        proof = Query("counters", row=name)
        yield Finding(
            "K8",
            gained.severity if counts else "info",
            f"{words.percent(percent)} of the shared-memory accesses of {short(name)} are repeated for bank conflicts",
            (
                Evidence("wavefronts of shared memory", whole_passes, "", proof),
                Evidence("wavefronts that would do", needed, "", proof),
                *((Evidence("bank conflicts", row["conflicts"], "", proof),) if row["conflicts"] is not None else ()),
                Evidence("bound", bound.get(name) or "unknown", "", proof),
                share_of(name, share[name]),
            ),
            f"1 - {words.count(needed)} / {words.count(whole_passes)} = {words.percent(percent)};"
            f" {gained.why if counts else _NO_GAIN}",
            f"from {words.percent(limits.surplus_percent)} on",
            "A library chose this kernel: another layout or other sizes may choose one without conflicts."
            if kernel_names.is_product(name)
            else "Pad the rows of the array in shared memory by one element, or permute (swizzle) its columns, so that"
            " the threads of a warp access different banks.",
            impact_ns=gained.ns if counts else None,
            ceiling_percent=gained.ceiling_percent if counts else None,
            work=gained.rows if counts else None,
        )


def _passes(row: dict[str, float | None]) -> tuple[float, float] | None:
    """The wavefronts of a kernel's accesses to shared memory, and those that would do; None where it has none."""
    if row["wavefronts"] and row["ideal"]:
        return row["wavefronts"], row["ideal"]
    worked, conflicts = row["worked"], row["conflicts"]
    if row["wavefronts"] is None and worked and conflicts is not None and conflicts < worked:
        return worked, worked - conflicts
    return None


@rule(
    "K9",
    "Registers that spill to memory",
    needs=("counters", "gpu"),
    rests_on=("gpu", "counters"),
    thresholds={"share_percent": SHARE},
    advice="Fewer registers at a time: smaller tiles, less unrolling, or a looser __launch_bounds__.",
    source="Nsight Compute's section MemoryWorkloadAnalysis",
)
def spills(facts: Facts, limits: Limits) -> Iterator[Finding | Abstention]:
    """Finds kernels that keep values in local memory because their registers do not suffice.

    Nsight Compute counts requests that spill since 2025; before, accesses to local memory tell, which arrays with
    computed indices cause too. How long they take is not counted, so no gain is claimed.
    """
    if is_beside_timeline(facts):
        return
    table = counted(facts, LOCAL)
    if not table.height:
        yield Abstention("K9", "accesses to local memory: ncu --section MemoryWorkloadAnalysis")
        return
    known = {row["name"]: row for row in facts.kernels.iter_rows(named=True)}
    sums = table.group_by("kernel", maintain_order=True).agg(
        **{name: total(name) for name in LOCAL if name != "percent"}, percent=pl.col("percent").max()
    )
    for row in sums.iter_rows(named=True):
        kernel = known.get(row["kernel"])
        exact = row["spills"] is not None
        requests = row["spills"] if exact else (row["loads"] or 0.0) + (row["stores"] or 0.0)
        if not requests or kernel is None or (kernel["percent"] or 0.0) < limits.share_percent:
            continue
        proof = Query("counters", row=row["kernel"])
        registers = kernel.get("registers")
        yield Finding(
            "K9",
            "info",
            f"{short(row['kernel'])} {'spills registers' if exact else 'keeps values'} to local memory:"
            f" {words.things(requests, 'request')}",
            (
                Evidence("requests to local memory", requests, "", proof),
                *((Evidence("of its requests", row["percent"], "%", proof),) if row["percent"] is not None else ()),
                *((Evidence("registers per thread", registers, "", proof),) if registers is not None else ()),
                share_of(row["kernel"], kernel["percent"]),
            ),
            f"{words.count(requests)} requests in {words.things(kernel['calls'], 'launch', 'launches')}; how long they"
            " take was not counted, so no gain is claimed",
            "any request",
            "Compile with --ptxas-options=-v to see how much spills; then smaller tiles, less unrolling, fewer live"
            " values, or a looser __launch_bounds__ or maxrregcount."
            + ("" if exact else " Arrays that are indexed by computed numbers live in local memory too."),
        )
