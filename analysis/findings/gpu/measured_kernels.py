"""What warps wait for, bank conflicts, spills, uncoalesced accesses: as Nsight Compute's counters tell."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl
from msgspec import Struct

from tracetui.analysis.counters.counters import launch_counters
from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.declared.kernels import K7, K8, K9, K11, K15
from tracetui.analysis.findings.declared.rule import looks_for
from tracetui.analysis.findings.gpu.kernel_facts import MOST, bounds, is_beside_timeline, share_of, short, stake
from tracetui.analysis.matching.join import joined
from tracetui.parsers.names import kernel_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.declared.rule import Limits
    from tracetui.parsers import Trace


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


@looks_for(K11)  # fmt: skip
def stall_reason(facts: Facts, limits: Limits) -> Iterator[Finding | Abstention]:
    if is_beside_timeline(facts):
        return
    known = {row["name"]: row for row in facts.kernels.iter_rows(named=True)}
    bound = bounds(facts)
    launches = _launches(facts)
    long = {
        kernel
        for kernel in launches
        if kernel in known
        and (known[kernel]["percent"] or 0.0) >= limits.share_percent
        and (known[kernel]["mean_ns"] or 0) >= 1000 * limits.mean_us
        and bound.get(kernel) != "compute"
    }
    table = [stall for kernel in launches if kernel in long and (stall := _reason_of(kernel, launches[kernel]))]
    if not table and not any(_reason_of(*each) for each in launches.items() if each[0] not in long):
        yield Abstention(_NO_STALLS)
        return
    table.sort(key=lambda one: -(known[one.kernel]["total_ns"] or 0))
    for one in [one for one in table if one.percent >= limits.stall_percent][:MOST]:
        yield _stalled(facts, one, bound.get(one.kernel), known[one.kernel]["percent"], limits)


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


def _stalled(facts: Facts, one: Stall, bound: str | None, share: float, limits: Limits) -> Finding:
    what, sort = REASONS[one.reason]
    proof = Query("counters", row=one.kernel)
    if one.issuing is None:
        gained = None
        bounded = "how much issuing leaves idle was not counted, so no gain is claimed"
    else:
        gained = stake(facts, [one.kernel], min(one.issuing / 100, 1.0))
        bounded = f"instructions are issued in {words.percent(one.issuing)} of the cycles; {gained.why}"
    return Finding(
        "info" if gained is None else gained.severity,
        f"Warps of {short(one.kernel)} wait {words.percent(one.percent)} of their time for {what}",
        (
            Evidence("of a warp's cycles between two instructions", one.percent, "%", proof),
            *(
                (Evidence("cycles in which instructions are issued", one.issuing, "%", proof),)
                if one.issuing is not None
                else ()
            ),
            Evidence("bound", bound or "unknown", "", proof),
            share_of(one.kernel, share),
        ),
        f"{words.number(one.cycles)} of {words.number(one.whole)} cycles per instruction ="
        f" {words.percent(one.percent)}; {bounded}",
        advice=_ADVICE[sort],
        impact_ns=None if gained is None else gained.ns,
        ceiling_percent=None if gained is None else gained.ceiling_percent,
        work=None if gained is None else gained.rows,
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
    if is_beside_timeline(facts):
        return
    table = counted(
        facts, {"threads": ("smsp__thread_inst_executed_per_inst_executed.ratio", "Avg. Active Threads Per Warp")}
    )
    if not table.height:
        yield Abstention("threads per instruction: ncu --section WarpStateStats")
        return
    share = {row["name"]: row["percent"] or 0.0 for row in facts.kernels.iter_rows(named=True)}
    bound = bounds(facts)
    means = table.group_by("kernel", maintain_order=True).agg(threads=by_time("threads"))
    few = means.filter(pl.col("threads") < limits.threads)
    for name, threads in sorted(few.iter_rows(), key=lambda row: -share.get(row[0], 0.0)):
        if share.get(name, 0.0) < limits.share_percent:
            continue
        gained = stake(facts, [name], threads / WARP)
        counts = bound.get(name) == "compute"
        proof = Query("counters", row=name)
        yield Finding(
            gained.severity if counts else "info",
            f"An instruction of {short(name)} works for {words.number(threads)} of the {WARP} threads of a warp",
            (
                Evidence("threads per instruction", threads, "", proof),
                Evidence("bound", bound.get(name) or "unknown", "", proof),
                share_of(name, share[name]),
            ),
            f"{words.number(threads)} / {WARP} = {words.percent(100 * threads / WARP)}; "
            f"{gained.why if counts else 'arithmetic is not known to be the bottleneck, so no gain is claimed'}",
            impact_ns=gained.ns if counts else None,
            ceiling_percent=gained.ceiling_percent if counts else None,
            work=gained.rows if counts else None,
        )


SHARED_RULE = "UncoalescedSharedAccess"
_EXCESSIVE_WAVEFRONTS = r"total of (\d+) excessive wavefronts \(\d+% of the total (\d+) wavefronts\)"
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


@looks_for(K8)
def bank_conflicts(facts: Facts, limits: Limits) -> Iterator[Finding | Abstention]:
    if is_beside_timeline(facts):
        return
    table = counted(facts, SHARED, SHARED_RULE)
    if table.height:
        numbers = pl.col("text").str.extract_groups(_EXCESSIVE_WAVEFRONTS).struct
        whole, surplus = (numbers.field(part).cast(pl.Float64) for part in ("2", "1"))
        table = table.with_columns(
            wavefronts=pl.coalesce("wavefronts", whole), ideal=pl.coalesce("ideal", whole - surplus)
        )
    if not table.height or not (table["ideal"].count() or table["conflicts"].count()):
        yield Abstention(
            "wavefronts of shared memory: ncu --section SourceCounters --section MemoryWorkloadAnalysis_Tables"
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
            advice="A library chose this kernel: another layout or other sizes may choose one without conflicts."
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


@looks_for(K9)
def spills(facts: Facts, limits: Limits) -> Iterator[Finding | Abstention]:
    if is_beside_timeline(facts):
        return
    table = counted(facts, LOCAL)
    if not table.height:
        yield Abstention("accesses to local memory: ncu --section MemoryWorkloadAnalysis")
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
            advice="Compile with --ptxas-options=-v to see how much spills; then smaller tiles, less unrolling,"
            " fewer live"
            " values, or a looser __launch_bounds__ or maxrregcount."
            + ("" if exact else " Arrays that are indexed by computed numbers live in local memory too."),
        )


SECTOR = 32
"""Bytes that a cache moves at least."""
_NO_SECTORS = "sectors of global accesses: ncu --section SourceCounters --section MemoryWorkloadAnalysis_Tables"
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
GLOBAL_RULE = "UncoalescedGlobalAccess"
_EXCESSIVE_SECTORS = r"total of (\d+) excessive sectors \(\d+% of the total (\d+) sectors\)"
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
    numbers = pl.col("text").str.extract_groups(_EXCESSIVE_SECTORS).struct
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
    counters = pl.concat([counted, _of_the_rule(counters.filter(pl.col("metric") == GLOBAL_RULE))])
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
        yield Abstention(_NO_SECTORS)
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
