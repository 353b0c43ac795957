"""What warps wait for, and how many of their threads work, as Nsight Compute's counters tell."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl
from msgspec import Struct

from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.core.rule import Threshold, rule
from tracetui.analysis.findings.gpu.kernel_facts import MOST, SHARE, bounds, is_beside_timeline, share_of, short, stake
from tracetui.analysis.findings.gpu.measured.counted import by_time, counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.rule import Limits

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
_MISSING = "why warps wait: ncu --section WarpStateStats"


@rule(
    "K11",
    "What the warps of a kernel wait for",
    needs=("counters", "gpu"),
    rests_on=("gpu", "counters"),
    thresholds={
        "stall_percent": Threshold(30, "%", "of the cycles between two instructions of a warp that one reason takes",
                                   own=True),
        "share_percent": SHARE,
        "mean_us": Threshold(10, "µs", "mean duration below which starting and stopping is most of a kernel", own=True),
    },
    advice="By the reason: more loads in flight, fewer accesses to shared memory, shorter waits at barriers.",
    source="Nsight Compute's section WarpStateStats and its rule CPIStall",
)  # fmt: skip
def stall_reason(facts: Facts, limits: Limits) -> Iterator[Finding | Abstention]:
    """Names the reason for which the warps of a long kernel wait most between two of their instructions.

    Nsight Compute counts for each reason how many cycles a warp waits per instruction that is issued; where only its
    details page is there, its rule CPIStall names the largest. Launches count by their time. Kernels that use
    arithmetic near its peak are left out: their warps wait, and it costs nothing. If nothing had to be waited for,
    issuing instructions would still take the share of cycles in which it does, so the gain is at most the rest.
    """
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
        yield Abstention("K11", _MISSING)
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
        "K11",
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
        f"from {words.percent(limits.stall_percent)} on, of kernels of {limits.mean_us:g} µs and more with"
        f" {words.percent(limits.share_percent)} of the kernel time",
        _ADVICE[sort],
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


@rule(
    "K15",
    "Threads of a warp that do not work",
    needs=("counters", "gpu"),
    rests_on=("gpu", "counters"),
    thresholds={
        "threads": Threshold(24, "", "threads per instruction, of the 32 of a warp", own=True),
        "share_percent": SHARE,
    },
    advice="Let the threads of a warp take the same branch, and give every thread work.",
    source="Nsight Compute's rule ThreadDivergence",
)
def divergence(facts: Facts, limits: Limits) -> Iterator[Finding | Abstention]:
    """Counts the threads that an instruction is executed for, of the 32 of a warp.

    Branches that only some threads take, threads that end early and blocks that are no multiple of 32 leave the others
    idle. Launches count by their time. The gain is at most that share of the kernel's time, and is claimed only where
    arithmetic is the bottleneck.
    """
    if is_beside_timeline(facts):
        return
    table = counted(
        facts, {"threads": ("smsp__thread_inst_executed_per_inst_executed.ratio", "Avg. Active Threads Per Warp")}
    )
    if not table.height:
        yield Abstention("K15", "threads per instruction: ncu --section WarpStateStats")
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
            "K15",
            gained.severity if counts else "info",
            f"An instruction of {short(name)} works for {words.number(threads)} of the {WARP} threads of a warp",
            (
                Evidence("threads per instruction", threads, "", proof),
                Evidence("bound", bound.get(name) or "unknown", "", proof),
                share_of(name, share[name]),
            ),
            f"{words.number(threads)} / {WARP} = {words.percent(100 * threads / WARP)}; "
            f"{gained.why if counts else 'arithmetic is not known to be the bottleneck, so no gain is claimed'}",
            f"fewer than {limits.threads:g} threads",
            "Sort or regroup the work so that the threads of a warp take the same branch; make blocks a multiple of 32"
            " threads, and let no thread end early.",
            impact_ns=gained.ns if counts else None,
            ceiling_percent=gained.ceiling_percent if counts else None,
            work=gained.rows if counts else None,
        )
