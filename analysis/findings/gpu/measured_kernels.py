"""What warps wait for, bank conflicts, spills, uncoalesced accesses: as Nsight Compute's counters tell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import polars as pl
from msgspec import Struct

from tracetui.analysis.counters.counters import launch_counters
from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query, evidence
from tracetui.analysis.findings.core.gain import unclaimed
from tracetui.analysis.findings.declared.kernels import K7, K8, K9, K11, K15
from tracetui.analysis.findings.declared.rule import Limits, looks_for
from tracetui.analysis.findings.gpu.kernel_facts import MOST, bounds, large, share_of, short, stake, stake_if
from tracetui.analysis.matching.join import joined
from tracetui.parsers import Trace
from tracetui.parsers.names import kernel_names


def counted(facts: Facts, metrics: Mapping[str, tuple[str, ...]], said_by: str = "") -> pl.DataFrame:
    """A row per measured launch of a kernel of this recording; no rows where no metric and no advice is there.

    The columns are ``kernel, ns`` (its duration under ncu), one per entry of `metrics` (the first of its names that was
    collected, on whichever page; null where none was), and ``text``: what ncu's rule `said_by` says of the launch.
    """
    tables = [
        table for trace in facts.run.of_kind("ncu") if (table := _of_trace(facts, trace, metrics, said_by)).height
    ]
    return pl.concat(tables) if tables else pl.DataFrame()


def by_time(column: str) -> pl.Expr:
    """The mean of a column over launches, weighted by their time; null where no launch has it."""
    known = pl.col(column).is_not_null() & pl.col("ns").is_not_null()
    weight = pl.when(known).then(pl.col("ns"))
    return pl.when(weight.sum() > 0).then((pl.col(column) * weight).sum() / weight.sum())


def total(column: str) -> pl.Expr:
    """The sum of a column over launches; null where no launch has it."""
    return pl.when(pl.col(column).is_not_null().any()).then(pl.col(column).sum())


def _of_trace(facts: Facts, trace: Trace, metrics: Mapping[str, tuple[str, ...]], said_by: str) -> pl.DataFrame:
    names = [name for spellings in metrics.values() for name in spellings]
    rows, value, metric = trace.counters.lazy(), pl.col("value"), pl.col("metric")
    is_metric = pl.col("kind") == "metric"
    values = rows.filter(is_metric & metric.is_in(names) & value.is_not_null())
    values = (
        values.select("device_row", "value", metric.cast(pl.String))
        .group_by("device_row")
        .agg(
            **{
                column: pl.coalesce(*(value.filter(metric == name).first() for name in spellings))
                for column, spellings in metrics.items()
            }
        )
    )
    said = rows.filter(~is_metric & (metric == said_by)).select("device_row", "text")
    of_launch, advice = pl.collect_all([values, said])
    if not of_launch.height and not advice.height:
        return pl.DataFrame()
    texts = advice.drop_nulls("text").group_by("device_row").agg(pl.col("text").str.join("\n"))
    durations = launch_counters(trace).select("device_row", ns="duration_ns")
    table = _spelled(facts, trace).join(durations, on="device_row")
    table = table.join(of_launch, on="device_row", how="left").join(texts, on="device_row", how="left")
    return table.drop("device_row").select("kernel", "ns", *metrics, "text")


def _spelled(facts: Facts, trace: Trace) -> pl.DataFrame:
    """``device_row`` of ncu's launches and the kernel as the recording spells it."""
    if trace is facts.trace:
        return trace.device.select(kernel=pl.col("name").cast(pl.String)).with_row_index("device_row")
    for each in joined(facts.run, facts.trace, "ncu"):
        if each.other is trace:
            ours = each.join.launches.filter(pl.col("status") == "matched")
            return ours.select(pl.col("row").alias("device_row"), pl.col("kernel").cast(pl.String))
    return pl.DataFrame(schema={"device_row": pl.UInt32, "kernel": pl.String})


WARP = 32
REASONS = {
    "long_scoreboard": ("data from global or local memory", "memory"),
    "short_scoreboard": ("shared memory or special functions", "shared"),
    "mio_throttle": ("the queue to shared memory and special functions", "shared"),
    "lg_throttle": ("the queue to global and local memory", "memory"),
    "tex_throttle": ("the queue to the texture unit", "memory"),
    "barrier": ("other warps of the block (__syncthreads)", "barrier"),
    "membar": ("a memory fence", "barrier"),
    "wait": ("a fixed latency between dependent instructions", "dependent"),
    "math_pipe_throttle": ("a busy arithmetic unit", "busy"),
    "dispatch_stall": ("the dispatcher", "busy"),
    "gmma": ("asynchronous matrix products", "busy"),
    "warpgroup_arrive": ("the other warps of its group", "barrier"),
    "no_instruction": ("instructions that are not in the instruction cache", "code"),
    "branch_resolving": ("the target of a branch", "code"),
    "imc_miss": ("constants that are not in the constant cache", "code"),
    "drain": ("its last stores, at its end", "memory"),
    "sleeping": ("a sleep that the program asked for", "barrier"),
    "misc": ("something else", "busy"),
}
"""What a warp waits for, by ncu's name of the stall; and what helps. `selected` and `not_selected` are no waiting."""
_ADVICE = {
    "memory": "More loads in flight hide it (more warps, or several independent loads per thread); so do data in shared"
    " memory, neighbouring addresses, and fewer bytes.",
    "shared": "Fewer and wider accesses to shared memory, without bank conflicts; fewer special functions.",
    "barrier": "Shorter stretches between synchronisations, smaller blocks, even work among the warps of a block.",
    "dependent": "More independent instructions per thread, or more warps, fill the gaps.",
    "busy": "The unit is the limit: fewer such instructions.",
    "code": "Short kernels meet cold caches: fuse them, or replay them in one launch; less unrolling for long code.",
}
PER_ISSUE = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
LATENCY = ("smsp__average_warp_latency_per_inst_issued.ratio", "Warp Cycles Per Issued Instruction")
ISSUING = ("smsp__issue_active.avg.pct_of_peak_sustained_active", "One or More Eligible")
ADVICE_OF_NCU = "CPIStall"
_SAID = re.compile(
    r"spends ([\d.]+) cycles being stalled (.+?)\. .*?about ([\d.]+)% of the total average of ([\d.]+) cycles",
    re.DOTALL,
)
_IN_WORDS = (
    ("dependency on a mio", "short_scoreboard"), ("l1tex", "long_scoreboard"), ("mio", "mio_throttle"),
    ("local and global", "lg_throttle"), ("texture", "tex_throttle"), ("memory barrier", "membar"),
    ("barrier", "barrier"), ("fixed latency", "wait"), ("constant", "imc_miss"), ("fetch", "no_instruction"),
    ("instruction cache", "no_instruction"), ("execution pipe", "math_pipe_throttle"), ("dispatch", "dispatch_stall"),
    ("branch", "branch_resolving"), ("all memory instructions", "drain"), ("sleep", "sleeping"),
)  # fmt: skip
"""What the words of ncu's rule hold, and the stall that they describe; the first that fits counts."""
_NO_STALLS = "why warps wait: ncu --section WarpStateStats"


@looks_for(K11)
def stall_reason(facts: Facts, limits: Limits) -> Iterator[Finding | Abstention]:
    kernels = {row["name"]: row for row in facts.kernels.iter_rows(named=True)}
    bound = bounds(facts)
    launches = _launches(facts)
    long = {
        kernel
        for kernel in launches
        if kernel in kernels
        and (kernels[kernel]["percent"] or 0.0) >= limits.share_percent
        and (kernels[kernel]["mean_ns"] or 0) >= 1000 * limits.mean_us
        and bound.get(kernel) != "compute"
    }
    table = [stall for kernel in launches if kernel in long and (stall := _reason_of(kernel, launches[kernel]))]
    if not table and not any(_reason_of(*each) for each in launches.items() if each[0] not in long):
        yield Abstention(_NO_STALLS)
        return
    table.sort(key=lambda stall: -(kernels[stall.kernel]["total_ns"] or 0))
    for stall in [stall for stall in table if stall.percent >= limits.stall_percent][:MOST]:
        yield _stalled(facts, stall, bound.get(stall.kernel), kernels[stall.kernel]["percent"])


class Stall(Struct, frozen=True):
    """What the warps of a kernel wait for most."""

    kernel: str
    reason: str
    """A key of `REASONS`."""
    percent: float
    """Of the cycles between two instructions of a warp."""
    cycles: float
    """Those cycles, per instruction."""
    whole: float
    """All cycles between two instructions of a warp."""
    issuing: float | None
    """Percent of the cycles in which instructions are issued."""


def _stalled(facts: Facts, stall: Stall, bound: str | None, share: float) -> Finding:
    what, sort = REASONS[stall.reason]
    proof = Query("counters", row=stall.kernel)
    if stall.issuing is None:
        gained = unclaimed("how much issuing leaves idle was not counted, so no gain is claimed")
        why = gained.why
    else:
        gained = stake(facts, [stall.kernel], min(stall.issuing / 100, 1.0))
        why = f"instructions are issued in {words.percent(stall.issuing)} of the cycles; {gained.why}"
    return gained.finding(
        f"Warps of {short(stall.kernel)} wait {words.percent(stall.percent)} of their time for {what}",
        (
            Evidence("of a warp's cycles between two instructions", stall.percent, "%", proof),
            *evidence(("cycles in which instructions are issued", stall.issuing, "%", proof)),
            Evidence("bound", bound or "unknown", "", proof),
            share_of(stall.kernel, share),
        ),
        f"{words.number(stall.cycles)} of {words.number(stall.whole)} cycles per instruction ="
        f" {words.percent(stall.percent)}; {why}",
        advice=_ADVICE[sort],
    )


def _launches(facts: Facts) -> dict[str, pl.DataFrame]:
    """The measured launches of each kernel (`counted`), with their cycles per reason."""
    stalls = {name: (PER_ISSUE.format(name),) for name in REASONS}
    table = counted(facts, {**stalls, "whole": LATENCY, "issuing": ISSUING}, ADVICE_OF_NCU)
    if not table.height:
        return {}
    return {str(kernel): rows for (kernel,), rows in table.group_by("kernel", maintain_order=True)}


def _reason_of(kernel: str, rows: pl.DataFrame) -> Stall | None:
    """The largest reason, as far as it was counted or ncu's rule tells it."""
    means: dict[str, float | None] = rows.select(by_time(name) for name in (*REASONS, "whole", "issuing")).row(
        0, named=True
    )
    waits = {name: mean for name in REASONS if (mean := means[name]) is not None}
    whole, issuing = means["whole"], means["issuing"]
    if waits and whole:
        reason = max(waits, key=lambda name: waits[name])
        return Stall(kernel, reason, 100 * waits[reason] / whole, waits[reason], whole, issuing)
    told = _told(rows)
    return None if told is None else Stall(kernel, *told, issuing)


def _told(rows: pl.DataFrame) -> tuple[str, float, float, float] | None:
    """Reason, percent, cycles and all cycles, as ncu's rule says of the longest launch that it is about."""
    for text in rows.sort("ns", descending=True, nulls_last=True)["text"].drop_nulls().to_list():
        if (match := _SAID.search(text)) is not None:
            cycles, percent, whole = (float(match[part]) for part in (1, 3, 4))
            return _reason(match[2]), percent, cycles, whole
    return None


def _reason(text: str) -> str:
    """The stall that ncu's rule describes in words."""
    return next((reason for part, reason in _IN_WORDS if part in text.lower()), "misc")


@looks_for(K15)
def divergence(facts: Facts, limits: Limits) -> Iterator[Finding | Abstention]:
    table = counted(
        facts, {"threads": ("smsp__thread_inst_executed_per_inst_executed.ratio", "Avg. Active Threads Per Warp")}
    )
    if not table.height:
        yield Abstention("threads per instruction: ncu --section WarpStateStats")
        return
    bound = bounds(facts)
    means = table.group_by("kernel", maintain_order=True).agg(threads=by_time("threads"))
    few = means.filter(pl.col("threads") < limits.threads)
    for row, share in large(facts, few.to_dicts(), limits, "kernel"):
        name, threads = row["kernel"], row["threads"]
        gained = stake_if(bound.get(name) == "compute", facts, name, threads / WARP, "arithmetic")
        proof = Query("counters", row=name)
        yield gained.finding(
            f"An instruction of {short(name)} works for {words.number(threads)} of the {WARP} threads of a warp",
            (
                Evidence("threads per instruction", threads, "", proof),
                Evidence("bound", bound.get(name) or "unknown", "", proof),
                share_of(name, share),
            ),
            f"{words.number(threads)} / {WARP} = {words.percent(100 * threads / WARP)}; {gained.why}",
        )


SHARED_RULE = "UncoalescedSharedAccess"
_EXCESSIVE = r"total of (\d+) excessive \w+ \(\d+% of the total (\d+) \w+\)"
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


@looks_for(K8)
def bank_conflicts(facts: Facts, limits: Limits) -> Iterator[Finding | Abstention]:
    table = counted(facts, SHARED, SHARED_RULE)
    if table.height:
        table = with_said(table, "wavefronts", "ideal")
    if not table.height or not (table["ideal"].count() or table["conflicts"].count()):
        yield Abstention(
            "wavefronts of shared memory: ncu --section SourceCounters --section MemoryWorkloadAnalysis_Tables"
        )
        return
    bound = bounds(facts)
    sums = table.group_by("kernel", maintain_order=True).agg(**{name: total(name) for name in SHARED})
    for row, share in large(facts, sums.to_dicts(), limits, "kernel"):
        name, passes = row["kernel"], _passes(row)
        if passes is None:
            continue
        taken, needed = passes
        percent = 100 * (1 - needed / taken)
        if percent < limits.surplus_percent:
            continue
        gained = stake_if(bound.get(name) == "memory", facts, name, needed / taken, "memory")
        proof = Query("counters", row=name)
        yield gained.finding(
            f"{words.percent(percent)} of the shared-memory accesses of {short(name)} are repeated for bank conflicts",
            evidence(
                ("wavefronts of shared memory", taken, "", proof),
                ("wavefronts that would do", needed, "", proof),
                ("bank conflicts", row["conflicts"], "", proof),
                ("bound", bound.get(name) or "unknown", "", proof),
                share_of(name, share),
            ),
            f"1 - {words.count(needed)} / {words.count(taken)} = {words.percent(percent)}; {gained.why}",
            advice="A library chose this kernel: another layout or other sizes may choose one without conflicts."
            if kernel_names.is_product(name)
            else "Pad the rows of the array in shared memory by one element, or permute (swizzle) its columns, so that"
            " the threads of a warp access different banks.",
        )


def with_said(table: pl.DataFrame, whole: str, ideal: str) -> pl.DataFrame:
    """Fills in what was not counted with the numbers that ncu's own rule names; a details page prints only these."""
    numbers = pl.col("text").str.extract_groups(_EXCESSIVE).struct
    in_all, surplus = (numbers.field(part).cast(pl.Float64) for part in ("2", "1"))
    return table.with_columns(
        pl.coalesce(whole, in_all).alias(whole), pl.coalesce(ideal, in_all - surplus).alias(ideal)
    )


def _passes(row: dict[str, float | None]) -> tuple[float, float] | None:
    """The wavefronts of a kernel's accesses to shared memory, and those that would do; None where it has none."""
    if row["wavefronts"] and row["ideal"]:
        return row["wavefronts"], row["ideal"]
    worked, conflicts = row["worked"], row["conflicts"]
    if row["wavefronts"] is None and worked and conflicts is not None and conflicts < worked:
        return worked, worked - conflicts
    return None


@looks_for(K9)
def spills(facts: Facts, limits: Limits) -> Iterator[Finding | Abstention]:
    table = counted(facts, LOCAL)
    if not table.height:
        yield Abstention("accesses to local memory: ncu --section MemoryWorkloadAnalysis")
        return
    kernels = {row["name"]: row for row in facts.kernels.iter_rows(named=True)}
    sums = table.group_by("kernel", maintain_order=True).agg(
        **{name: total(name) for name in LOCAL if name != "percent"}, percent=pl.col("percent").max()
    )
    for row, share in large(facts, sums.to_dicts(), limits, "kernel", sort=False):
        kernel = kernels.get(row["kernel"])
        exact = row["spills"] is not None
        requests = row["spills"] if exact else (row["loads"] or 0.0) + (row["stores"] or 0.0)
        if not requests or kernel is None:
            continue
        proof = Query("counters", row=row["kernel"])
        yield Finding(
            "info",
            f"{short(row['kernel'])} {'spills registers' if exact else 'keeps values'} to local memory:"
            f" {words.things(requests, 'request')}",
            evidence(
                ("requests to local memory", requests, "", proof),
                ("of its requests", row["percent"], "%", proof),
                ("registers per thread", kernel.get("registers"), "", proof),
                share_of(row["kernel"], share),
            ),
            f"{words.count(requests)} requests in {words.things(kernel['calls'], 'launch', 'launches')}; how long they"
            " take was not counted, so no gain is claimed",
            advice="Compile with --ptxas-options=-v to see how much spills; then smaller tiles, less unrolling, fewer"
            " live values, or a looser __launch_bounds__ or maxrregcount."
            + ("" if exact else " Arrays that are indexed by computed numbers live in local memory too."),
        )


_NO_SECTORS = "sectors of global accesses: ncu --section SourceCounters --section MemoryWorkloadAnalysis_Tables"
WIDEST = 16
"""Sectors that a warp's widest load needs: 32 threads × 16 bytes. Loads of 4 bytes each need 4."""
SECTORS = {
    "sectors": ("memory_l2_theoretical_sectors_global",),
    "ideal": ("memory_l2_theoretical_sectors_global_ideal",),
    "loaded": ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",),
    "requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",),
    "stored": ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",),
    "store_requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",),
    "surplus": ("derived__memory_l2_theoretical_sectors_global_excessive",),
}
GLOBAL_RULE = "UncoalescedGlobalAccess"


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
    table = counted(facts, SECTORS, GLOBAL_RULE)
    found: list[Access] = []
    if not table.height:
        return found
    table = with_said(table, "sectors", "ideal")
    for row in table.group_by("kernel", maintain_order=True).agg(pl.col(*SECTORS).sum()).to_dicts():
        ways = [(row["loaded"], row["requests"]), (row["stored"], row["store_requests"])]
        each = [sectors / requests if requests else None for sectors, requests in ways]
        touched = row["sectors"] or row["loaded"] + row["stored"]
        if row["ideal"]:
            found.append(Access(row["kernel"], touched, row["ideal"], each[0], each[1]))
        elif 0 < row["surplus"] < touched:
            found.append(Access(row["kernel"], touched, touched - row["surplus"], each[0], each[1]))
        elif any(rate is not None for rate in each):
            wide = [way for way, rate in zip(ways, each, strict=True) if rate is not None and rate > WIDEST] or ways
            sectors, requests = (sum(part) for part in zip(*wide, strict=True))
            found.append(Access(row["kernel"], sectors, WIDEST * requests, each[0], each[1], is_least=True))
    return found


@looks_for(K7)
def uncoalesced(facts: Facts, limits: Limits) -> Iterator[Finding | Abstention]:
    found = {access.name: access for access in accesses(facts)}
    if not found:
        yield Abstention(_NO_SECTORS)
        return
    bound = bounds(facts)
    for row, share in large(facts, [{"name": name} for name in found], limits):
        access = found[row["name"]]
        used = 100 / access.factor if access.sectors else 100.0
        most = max(access.per_request or 0.0, access.per_store or 0.0)
        if most <= limits.per_request if access.is_least else used >= limits.used_percent:
            continue
        gained = stake_if(bound.get(access.name) == "memory", facts, access.name, min(1 / access.factor, 1.0), "memory")
        proof = Query("counters", row=access.name)
        at_least = "at least " if access.is_least else ""
        yield gained.finding(
            f"{short(access.name)} moves {at_least}{words.number(access.factor)} times the sectors that its accesses"
            " need",
            evidence(
                ("sectors touched", access.sectors, "", proof),
                ("sectors that would do", access.ideal, "", proof),
                ("sectors per load of a warp", access.per_request, "", proof),
                ("sectors per store of a warp", access.per_store, "", proof),
                ("bound", bound.get(access.name) or "unknown", "", proof),
                share_of(access.name, share),
            ),
            f"{words.count(access.ideal)} / {words.count(access.sectors)} = {words.percent(used)} of the sectors are"
            f" needed; {gained.why}",
            threshold=f"more than {limits.per_request:g} sectors per load or store of a warp"
            if access.is_least
            else f"below {words.percent(limits.used_percent)} needed",
            advice="A library chose this kernel: another layout (channels last), sizes that are multiples of 8 or"
            " another algorithm may choose one whose accesses are aligned."
            if kernel_names.is_product(access.name)
            else "Let neighbouring threads read neighbouring addresses: swap the loops or the layout (structure of"
            " arrays, channels last), or load a tile in order and transpose it in shared memory.",
        )
