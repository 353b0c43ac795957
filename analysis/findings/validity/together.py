"""Are the recordings of a run of one program, on one machine, at one size? Else they can't stand side by side."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.core.rule import Threshold, rule
from tracetui.analysis.matching.one_program import ALIKE_PERCENT, COMMON_PERCENT, apart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.rule import Limits
    from tracetui.parsers import Trace

KINDS = ("chrome", "nsys", "ncu")
"""What records kernels with the size of their launches."""


@rule(
    "V25",
    "Recordings of different runs side by side",
    needs=("timeline", "gpu"),
    refutes=("counters",),
    doubts=("counters",),
    remark="the recordings of this run are not of one program at one size on one machine",
    thresholds={
        "alike_percent": Threshold(
            ALIKE_PERCENT,
            "%",
            "of the other's time in kernels of both that is in launches of a size that this one has",
            own=True,
        ),
        "ranks_percent": Threshold(40, "%", "of a rank's kernel time that is in kernels of another rank too", own=True),
    },
    advice="Keep the recordings of each program, size and machine in a folder of their own.",
)
def side_by_side(facts: Facts, limits: Limits) -> Iterator[Finding | Abstention]:
    """Files of other tools in the folder were recorded on another GPU, or with another batch or input.

    Their counters and times would stand beside this recording's kernels. The rule compares the GPUs' names and numbers
    of SMs, the batch where operators' shapes show it, and the kernels: a fifth of the other's kernel time must be in
    kernels that this recording has too, and of these, most of the time in launches whose grid and block it has too:
    another batch or size of the input launches the same kernels with other grids. Every two files of different tools
    are compared. What is of another run is not matched with this recording's kernels.

    Files of one tool in a folder are runs of their own, except for ranks. If nothing but the files' names says that
    they are ranks of one job, they must have much of the kernel time in common: ranks of real jobs share 58 to 100 %.
    """
    others = [trace for trace in facts.run.traces if trace is not facts.trace and trace.info.kind in KINDS]
    of_others = [other for other in others if _of_other_tool(facts.trace, other)]
    named = [other for other in others if _is_rank_by_name(facts.trace, other)]
    if not of_others and not named:
        yield Abstention("V25", "another tool's recording of the same run beside this one")
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
        "V25",
        "warning",
        f"{file} is named like a rank of {trace.source.path.name}, but is of another program: "
        f"{share} of its kernel time is in kernels of both",
        (Evidence("its kernel time in kernels of both", compared.common_percent, "%"),),
        f"{share} of its kernel time",
        f"{words.percent(limits.ranks_percent)} of the kernel time of ranks of one job",
        f"Do not compare them as ranks: open {file} by itself, and give it a name without a rank.",
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
        "V25",
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
        f"the same GPU and batch, {words.percent(COMMON_PERCENT)} of its time in kernels of both, and"
        f" {words.percent(limits.alike_percent)} of that in launches of equal size",
        f"Do not read its numbers beside these: open {file} by itself, or record this program again with it.",
        # only Nsight Compute's numbers stand beside kernels, and only its findings rest on another file
        refutes=("counters",) if kind == "ncu" else (),
        doubts=(),
    )
