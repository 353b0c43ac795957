"""Are the recordings of a run of one program and process, on one machine, at one size? Else they can't be compared."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.base.names import rows_of
from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.declared.rule import looks_for
from tracetui.analysis.findings.declared.validity import V24, V25
from tracetui.analysis.matching.one_program import COMMON_PERCENT, apart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.declared.rule import Limits
    from tracetui.parsers import Trace

KINDS = ("chrome", "nsys", "ncu")
"""What records kernels with the size of their launches."""


@looks_for(V25)
def side_by_side(facts: Facts, limits: Limits) -> Iterator[Finding | Abstention]:
    others = [trace for trace in facts.run.traces if trace is not facts.trace and trace.info.kind in KINDS]
    of_others = [other for other in others if _of_other_tool(facts.trace, other)]
    named = [other for other in others if _is_rank_by_name(facts.trace, other)]
    if not of_others and not named:
        yield Abstention("another tool's recording of the same run beside this one")
        return
    agreeing = []  # what differs from this recording differs from what agrees with it too
    for other in of_others:
        if (found := _apart(facts.trace, other, limits)) is None:
            agreeing.append(other)
        else:
            yield found
    yield from filter(None, (_of_other_job(facts.trace, other, limits) for other in named))
    agreeing.sort(key=lambda trace: trace.info.kind == "ncu")
    for first, second in combinations(agreeing, 2):
        if _of_other_tool(first, second) and (found := _apart(first, second, limits)) is not None:
            yield found


def _of_other_tool(trace: Trace, other: Trace) -> bool:
    """Whether another tool recorded the same rank; ranks may do other work."""
    ranks = {rank for rank in (trace.info.rank, other.info.rank) if rank is not None}
    return trace.info.kind != other.info.kind and len(ranks) < 2


def _is_rank_by_name(trace: Trace, other: Trace) -> bool:
    """Whether the same tool recorded another rank, as far as the files' names tell: no file says of how many."""
    ours, theirs = trace.info, other.info
    known = None not in (ours.rank, theirs.rank)
    return (
        ours.kind == theirs.kind and known and ours.rank != theirs.rank and ours.world_size is theirs.world_size is None
    )


def _of_other_job(trace: Trace, other: Trace, limits: Limits) -> Finding | None:
    """Says that what is named like a rank has hardly a kernel of this one; sizes and batches of ranks may differ."""
    compared = apart(trace, other)
    if compared.common_percent >= limits.ranks_percent:
        return None
    file, share = other.source.path.name, words.percent(compared.common_percent)
    return Finding(
        "warning",
        f"{file} is named like a rank of {trace.source.path.name}, but is of another program: "
        f"{share} of its kernel time is in kernels of both",
        (Evidence("its kernel time in kernels of both", compared.common_percent, "%"),),
        f"{share} of its kernel time",
        advice=(f"Do not compare them as ranks: open {file} by itself, and give it a name without a rank."),
    )


def _apart(trace: Trace, other: Trace, limits: Limits) -> Finding | None:
    """Says in what another recording differs from this one."""
    compared = apart(trace, other)
    differences = compared.differs(limits.alike_percent)
    if not differences:
        return None
    file, kind = other.source.path.name, other.info.kind
    told = "; ".join(f"{each.what} {each.ours} here, {each.theirs} there" for each in differences)
    return Finding(
        "critical",
        f"{file} is of another run than {trace.source.path.name}: "
        + words.listed([each.what for each in differences])
        + (" differ" if len(differences) > 1 else " differs"),
        (
            *(Evidence(each.what, f"{each.ours} / {each.theirs}") for each in differences),
            Evidence("its kernel time in kernels of both", compared.common_percent, "%"),
            Evidence(
                "its time in launches of a size that this recording has",
                compared.alike_percent,
                "%",
                Query("kernels", row=compared.kernel),
            ),
        ),
        f"{told}; {words.percent(compared.common_percent)} of its kernel time is in kernels of both,"
        f" {words.percent(compared.alike_percent)} of that in launches of equal size",
        threshold=f"the same GPU and batch, {words.percent(COMMON_PERCENT)} of its time in kernels of both, and"
        f" {words.percent(limits.alike_percent)} of that in launches of equal size",
        advice=(f"Do not read its numbers beside these: open {file} by itself, or record this program again with it."),
        # only Nsight Compute's numbers stand beside kernels, and only its findings rest on another file
        refutes=("counters",) if kind == "ncu" else (),
        doubts=(),
    )


@looks_for(V24)
def several_processes(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    from tracetui.analysis.attribution.launch_calls import launch_calls

    trace = facts.trace
    calls = launch_calls(trace)
    launched = rows_of(trace.device.select("kind", "device", "process", "launch"), "kernel", "graph").drop("kind")
    by = pl.Series("by", trace.host["process"].gather(launched["launch"]))
    launched = launched.with_columns(by=pl.coalesce(by, "process")).drop_nulls("by")
    # activities of two processes with the same correlations all seem to be launched by one
    processes = calls.select(by="process") if calls.height else launched.select("by")
    if not processes.height:
        return Abstention("which process launched the GPU work: record the CUDA API too")
    counts = processes.drop_nulls().group_by("by").agg(launches=pl.len())
    counts = counts.filter(100 * pl.col("launches") / processes.height > limits.share_percent)
    if counts.height < 2:
        return None
    shared = launched.filter(pl.col("by").is_in(counts["by"].implode())).group_by("device").agg(pl.col("by").n_unique())
    on_one = shared.height < counts.height or int((shared["by"] > 1).sum()) > 0
    merged = trace.info.kind != "nsys"  # which records child processes too
    counts = counts.sort("launches", descending=True)
    where = "on the same GPU" if on_one else "on GPUs of their own"
    return Finding(
        "critical" if merged or on_one else "warning",
        f"{counts.height} processes launched the GPU work, {where}: "
        + ("the file was mixed of several recordings" if merged else "sums are of all of them"),
        tuple(
            Evidence(f"launches of process {process}", launches, query=Query("host:API calls", "Launch"))
            for process, launches in counts.select("by", "launches").head(6).iter_rows()
        ),
        " + ".join(words.count(launches) for launches in counts["launches"].head(6))
        + f" of {words.count(processes.height)} launches",
    )
