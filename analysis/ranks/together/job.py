"""All ranks of one recording together: what `combine` makes of their summaries. Its cost is linear in their calls."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.ranks.matching.clocks import fit
from tracetui.analysis.ranks.matching.matched import match
from tracetui.analysis.ranks.together import chains, rank_steps, tables
from tracetui.analysis.ranks.together.answers import answers_of
from tracetui.analysis.ranks.together.critical import critical_path
from tracetui.analysis.ranks.together.pipeline import bubbles, sends, stages
from tracetui.analysis.ranks.together.waiting import NOBODY, waiting, who_for_whom

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from tracetui.analysis.ranks.summary import RankSummary
    from tracetui.analysis.ranks.together.late import Answers

    Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Job:
    """What the ranks of a job say together. Times are ns; "per step" is of the whole recording without steps."""

    recorded_pass: str | None
    """``light`` or ``rich``; null where it can't be told."""
    ranks: pl.DataFrame
    """A row per rank (`tables.RANKS`)."""
    steps: pl.DataFrame
    """A row per rank and step (`rank_steps.STEPS`)."""
    collectives: pl.DataFrame
    """A row per matched collective (`tables.COLLECTIVES`), in the order of time."""
    calls: pl.DataFrame
    """A row per rank and matched collective (`tables.CALLS`), on the common clock."""
    waits: pl.DataFrame
    """Who waited for whom (`waiting.WAITS`), after chains were followed to their root: the matrix, without zeros."""
    kinds: pl.DataFrame
    """A row per kind, group and size (`tables.KINDS`)."""
    clocks: pl.DataFrame
    """A row per rank (`clocks.FITTED`)."""
    residual_ns: float | None
    """What the fitted clocks leave: nothing finer can be said of moments on different ranks."""
    one_clock: bool
    unmatched: pl.DataFrame
    """Collectives that were not matched (`matched.UNMATCHED`)."""
    matched_by: str
    pipeline: pl.DataFrame
    """A row per stage (`pipeline.STAGES`); empty without pipeline groups."""
    path: pl.DataFrame
    """The critical path across ranks, a row per rank that it is on (`critical.PATH`)."""
    answers: Answers
    world_size: int
    missing: tuple[int, ...]
    """Ranks of the job that there is no recording of."""
    step_count: int
    """Of the median rank; 0 for recordings without steps."""
    step_ns: float | None
    """The median rank's average step, or its window."""
    clean_step_ns: float | None
    """The median of the steps without a profiler, over all ranks; null where they are not known."""
    called_steps: int = 1
    """What times of collectives per step divide by: the steps that all ranks have, or 1 without."""
    shared: tuple[int, ...] = ()
    """Which these are."""
    compared: tuple[int, ...] = ()
    """The steps that all ranks have, where some have others, too: numbers per step are of these."""
    left_out: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """By rank: steps that others lack."""

    @property
    def here(self) -> int:
        """How many ranks there are recordings of."""
        return self.ranks.height

    @property
    def bounded(self) -> bool:
        """Whether a collective lacks the calls of some of its ranks, which may have come last to it.

        Its shortest call may be waiting, too: transfers are at most what is told, bandwidths at least.
        """
        size = pl.col("group_size").fill_null(self.world_size)
        return bool((self.collectives.select(pl.col("ranks") < size)).to_series().any())

    @property
    def transfer_ns(self) -> float:
        """Transfers per step: of each collective its shortest call; of one rank, the median."""
        return float(self.ranks["transfer_ns"].median() or 0.0) if self.ranks.height else 0.0  # type: ignore[arg-type]


def combine(summaries: Sequence[RankSummary]) -> Job:
    """What the summaries of one recording's ranks say together; ranks may be missing.

    Args:
        summaries: of one pass. Of two of one rank the first counts.
    """
    chosen: dict[int, RankSummary] = {}
    for one in summaries:
        chosen.setdefault(one.rank, one)
    present, compared = rank_steps.common_steps([chosen[rank] for rank in sorted(chosen)])
    shared = rank_steps.shared_steps(present)
    matched = match(present, shared)
    calls = matched.calls
    clocks = fit(calls, present)
    found = waiting(calls, clocks)
    root = chains.roots(calls, clocks, found)
    culprit = _rank_of_last(calls, found.last)
    origin = np.where(culprit == NOBODY, NOBODY, culprit[root] if root.size else culprit)
    per_step = rank_steps.rank_steps(present, calls, found)
    counts = rank_steps.step_counts(present)
    called = [len(shared)] * len(present) if shared else counts
    stage = stages(matched, [one.rank for one in present])
    table = tables.ranks(present, counts, called, calls, found, culprit, origin, clocks)
    answers, table = answers_of(table, present, counts, stage, per_step)
    sizes = [one.world_size or 0 for one in present]
    world = max([*sizes, max(chosen, default=-1) + 1])
    clean = [ns for one in present for ns in one.clean_step_ns]
    collectives = tables.collectives(calls, found, clocks, matched.group_names, culprit, origin)
    return Job(
        recorded_pass=present[0].recorded_pass if present else None,
        ranks=table,
        steps=per_step,
        collectives=collectives,
        calls=tables.calls(calls, found, clocks),
        waits=who_for_whom(calls, found, origin),
        kinds=tables.kinds(collectives, max(_middle(called), 1)),
        clocks=clocks.fitted,
        residual_ns=clocks.residual_ns if np.isfinite(clocks.residual_ns) else None,
        one_clock=clocks.one,
        unmatched=matched.unmatched,
        matched_by=matched.by,
        pipeline=bubbles(per_step, stage, calls, sends(matched), counts),
        path=critical_path(calls, clocks, found, max(_middle(called), 1)),
        answers=answers,
        world_size=world,
        missing=tuple(rank for rank in range(world) if rank not in chosen),
        step_count=_middle(
            [
                int(n) if one.steps.height and one.steps["step"][0] >= 0 else 0
                for n, one in zip(counts, present, strict=True)
            ]
        ),
        step_ns=_median(table["step_ns"]) if table.height else None,
        clean_step_ns=float(np.median(clean)) if clean else None,
        called_steps=max(_middle(called), 1),
        shared=shared,
        compared=compared,
        left_out={
            rank: _left_out(chosen[rank], compared) for rank in sorted(chosen) if _left_out(chosen[rank], compared)
        },
    )


def _left_out(summary: RankSummary, compared: Sequence[int]) -> tuple[int, ...]:
    own = [step for step in summary.steps["step"].to_list() if step >= 0]
    return tuple(step for step in own if step not in compared) if compared and set(own) & set(compared) else ()


def jobs(summaries: Sequence[RankSummary]) -> tuple[Job, ...]:
    """A job per recorded pass: the rich one first, which has names, then the light one."""
    by_pass: dict[str | None, list[RankSummary]] = {}
    for one in summaries:
        by_pass.setdefault(one.recorded_pass, []).append(one)
    order = sorted(by_pass, key=lambda name: (name == "light", name or ""))
    found = [combine(by_pass[name]) for name in order]
    return tuple([_confirmed(found[0], found[1:]), *found[1:]] if found else ())


def _confirmed(job: Job, others: Sequence[Job]) -> Job:
    """The job without ranks that stopped once, in one step, where no other recording of the program has them late.

    What happened once in a recording, and not in another one of the same program that is as long, need not come again.
    """
    more = [one for one in others if one.step_count >= job.step_count and one.answers.largest_excess_ns is not None]
    late = {rank.rank for one in more for rank in one.answers.program}
    once = {
        one.rank
        for one in job.answers.program
        if more and one.rank not in late and one.cause is not None and one.cause.step is not None
    }
    if not once:
        return job
    kept = tuple(one for one in job.answers.program if one.rank not in once)
    gone = tuple(one for one in job.answers.program if one.rank in once)
    table = job.ranks.with_columns(late=pl.col("late") & ~pl.col("rank").is_in(sorted(once)))
    return replace(job, ranks=table, answers=replace(job.answers, program=kept, once=gone))


def _rank_of_last(calls: pl.DataFrame, last: Ints) -> Ints:
    rank = calls["rank"].to_numpy()
    found: Ints = np.where(last == NOBODY, NOBODY, rank[np.maximum(last, 0)] if rank.size else last)
    return found


def _middle(counts: Sequence[int]) -> int:
    return sorted(counts)[(len(counts) - 1) // 2] if counts else 0


def _median(column: pl.Series) -> float | None:
    value = column.drop_nulls().median()
    return float(value) if value is not None else None  # type: ignore[arg-type]
