"""All ranks of one recording together: what `combine` makes of their summaries. Its cost is linear in their calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.ranks import tables
from tracetui.analysis.ranks.clocks import fit, strangers
from tracetui.analysis.ranks.late import Answers, answers_of, peers_of
from tracetui.analysis.ranks.links import beyond_usual, slow_links, transfers
from tracetui.analysis.ranks.lost import lost
from tracetui.analysis.ranks.matched import CHANNEL_BITS, EXCHANGE, Matched, match
from tracetui.analysis.ranks.summary import Calls, RankSummary, members
from tracetui.analysis.ranks.waiting import Waiting, waiting, who_for_whom
from tracetui.parsers.arrays import Ints


@dataclass(frozen=True)
class Job:
    """What the ranks of a job say together. Times are ns; "per step" is of the whole recording without steps."""

    recorded_pass: str | None
    """``light`` or ``rich``; None where it can't be told."""
    ranks: pl.DataFrame
    """A row per rank (`tables.RANKS`)."""
    steps: pl.DataFrame
    """A row per rank and step (`tables.STEPS`)."""
    collectives: pl.DataFrame
    """A row per matched collective (`tables.COLLECTIVES`), in the order of time."""
    waiting: Waiting
    """Of the calls of these collectives."""
    waits: pl.DataFrame
    """Who waited for whom (`waiting.WAITS`), after chains were followed to their root: the matrix, without zeros; of
    very many ranks the columns of those that were waited for longest."""
    pairs: int
    """How many rows the whole of it has."""
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
    """A row per stage (`STAGES`); empty without pipeline groups."""
    path: pl.DataFrame
    """The critical path across ranks, a row per rank that it is on (`lost.PATH`)."""
    lost: pl.DataFrame
    """What was lost along it, by step, rank and cause (`lost.LOST`)."""
    links: pl.DataFrame
    """Groups and pairs whose transfers take longer than those of their like (`links.LINKS`)."""
    answers: Answers
    world_size: int
    missing: tuple[int, ...]
    """Ranks of the job that there is no recording of."""
    step_count: int
    """Of the median rank; 0 for recordings without steps."""
    step_ns: float | None
    """The median rank's average step, or its window."""
    clean_step_ns: float | None
    """The median of the steps without a profiler, over all ranks; None where they are not known."""
    called_steps: int = 1
    """What times of collectives per step divide by: the steps that all ranks have, or 1 without."""
    shared: tuple[int, ...] = ()
    """Which these are."""
    compared: tuple[int, ...] = ()
    """The steps that all ranks have, where some have others, too: numbers per step are of these."""
    left_out: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """By rank: steps that others lack."""
    apart: bool = False
    """Whether all ranks are here and none of their collectives is another's: then they are not of one job, and nothing
    is said of one against the others."""
    strange: tuple[int, ...] = ()
    """Ranks whose recordings are here and of another job: their collectives can't be those of the others."""
    distant: tuple[int, ...] = ()
    """Ranks whose Unix times lie further from the others' than clocks of hosts usually do."""
    empty: tuple[int, ...] = ()
    """Ranks whose recordings have no whole step, and no collective."""
    copies: Mapping[int, int] = field(default_factory=dict)
    """By rank, of which lower one its recording is a copy: it is left out, and the rank is missing."""

    @cached_property
    def calls(self) -> pl.DataFrame:
        """A row per rank and matched collective (`tables.CALLS`), on the common clock."""
        return tables.calls(self.waiting)

    @property
    def shown_ns(self) -> float | None:
        """The job's one step, which shares are of: the clean one where it is known, as a profiler adds to steps."""
        return self.clean_step_ns if self.step_count and self.clean_step_ns else self.step_ns

    @property
    def lost_by_rank(self) -> pl.DataFrame:
        """What was lost per step, by rank and cause, the most first; and in how many steps."""
        return (
            self.lost.group_by("rank", "cause")
            .agg(pl.col("lost_ns").sum() / self.called_steps, steps=pl.col("step").n_unique())
            .sort("lost_ns", "rank", "cause", descending=[True, False, False])
        )

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
    first = counted_from(chosen.values())
    if first and any(0 in ranks for one in chosen.values() for *_, ranks in one.groups):
        chosen = {rank: _with_groups_from(first, one) for rank, one in chosen.items()}
    if copies := _copies(chosen):
        return replace(combine([one for rank, one in chosen.items() if rank not in copies]), copies=copies)
    empty = tuple(sorted(rank for rank, one in chosen.items() if not one.steps.height and not one.collectives.height))
    if 0 < len(empty) < len(chosen):
        whole = combine([one for rank, one in chosen.items() if rank not in empty])
        return replace(whole, empty=empty, missing=tuple(rank for rank in whole.missing if rank not in empty))
    present, compared = tables.common_steps([chosen[rank] for rank in sorted(chosen)])
    shared = tables.shared_steps(present)
    matched = match(present, shared)
    strange = {present[place].rank for place in strangers(matched.calls, present)}
    if strange and not any(matched.group_ranks):
        matched = matched.without_groups()  # ranks of several groups contradict each other as those of several jobs do
    elif strange:
        whole = combine([one for rank, one in chosen.items() if rank not in strange])
        missing = tuple(rank for rank in whole.missing if rank not in strange)
        return replace(whole, strange=tuple(sorted(strange.union(whole.strange))), missing=missing)
    clocks = fit(matched.calls, present)
    found = waiting(matched.calls, clocks)
    per_step = tables.rank_steps(present, found)
    counts = tables.step_counts(present)
    called = [len(shared)] * len(present) if shared else counts
    stage = stages(matched, [one.rank for one in present])
    peers = peers_of(stage)
    moved = transfers(found, present, matched.group_names)
    gone = lost(found, beyond_usual(moved), peers, max(_middle(called), 1))
    table = tables.ranks(present, counts, called, found, gone.path)
    answers, table = answers_of(
        table, present, counts, peers, per_step, gone.parts, max(_middle(called), 1), matched.unmatched
    )
    world = max([*(one.world_size or 0 for one in present), max(chosen, default=-1) + 1 - first])
    missing = tuple(rank for rank in range(first, first + world) if rank not in chosen)
    apart = not missing and matched.none_shared
    if apart:
        answers, table = Answers(None, (), None), table.with_columns(late=pl.lit(value=False))
    clean = [ns for one in present for ns in one.clean_step_ns]
    collectives = tables.collectives(found, matched.group_names)
    waits, pairs = who_for_whom(found)
    return Job(
        recorded_pass=present[0].recorded_pass if present else None,
        ranks=table,
        steps=per_step,
        collectives=collectives,
        waiting=found,
        waits=waits,
        pairs=pairs,
        kinds=tables.kinds(collectives, found, max(_middle(called), 1)),
        clocks=clocks.fitted,
        residual_ns=clocks.residual_ns if np.isfinite(clocks.residual_ns) else None,
        one_clock=clocks.one,
        unmatched=matched.unmatched,
        matched_by=matched.by,
        pipeline=bubbles(per_step, stage, matched.calls, sends(matched), counts),
        path=gone.path,
        lost=gone.parts,
        links=slow_links(moved, max(_middle(called), 1), _median(table["step_ns"]) or 0.0),
        answers=answers,
        world_size=world,
        missing=missing,
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
        apart=apart,
        distant=_distant(clocks.fitted, present),
    )


def counted_from(summaries: Iterable[RankSummary]) -> int:
    """The first rank's number: 1 where ranks 1 to n are here, of n or of a number that no recording says; else 0."""
    sizes = {one.rank: one.world_size for one in summaries}
    return int(sizes.keys() == set(range(1, len(sizes) + 1)) and {None, len(sizes)} >= {*sizes.values()})


def _with_groups_from(first: int, one: RankSummary) -> RankSummary:
    groups = tuple((name, told, members([rank + first for rank in ranks])) for name, told, ranks in one.groups)
    return replace(one, groups=groups)


def _copies(chosen: Mapping[int, RankSummary]) -> dict[int, int]:
    """The ranks whose steps and collectives are those of a lower one, to the nanosecond.

    None where a third of the ranks are: such times are made up, and that they are alike tells nothing.
    """
    alike: dict[bytes, list[int]] = {}
    for rank in sorted(chosen):
        alike.setdefault(_moments(chosen[rank].steps), []).append(rank)
    copies = {}
    for begins, ranks in alike.items():
        firsts: dict[bytes, int] = {}
        for rank in ranks if begins and len(ranks) > 1 else ():
            called = _moments(chosen[rank].collectives)
            if called and firsts.setdefault(called, rank) != rank:
                copies[rank] = firsts[called]
    return copies if 3 * len(copies) < len(chosen) else {}


def _moments(rows: pl.DataFrame) -> bytes:
    return rows.select("begin", "end").to_numpy().tobytes()


FAR_NS = 60_000_000_000
"""Clocks that a network sets differ by less; runs of one program that follow each other lie further apart."""


def _distant(fitted: pl.DataFrame, present: Sequence[RankSummary]) -> tuple[int, ...]:
    """The ranks, half of them at most, whose recordings lie so far from the others' that another run is likelier."""
    known = fitted.filter([one.absolute for one in present]).drop_nulls("offset_ns")
    middle = pl.col("offset_ns").quantile(0.5, "higher")
    return tuple(known.filter((pl.col("offset_ns") - middle).abs() > FAR_NS)["rank"].sort().to_list())


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


def _middle(counts: Sequence[int]) -> int:
    return sorted(counts)[(len(counts) - 1) // 2] if counts else 0


def _median(column: pl.Series) -> float | None:
    value = column.drop_nulls().median()
    return float(value) if value is not None else None  # type: ignore[arg-type]


STAGES: dict[str, pl.DataType] = {
    "stage": pl.Int64(),
    "ranks": pl.Int64(),
    "step_ns": pl.Float64(),  # the median rank's, as all that follows
    "own_gpu_ns": pl.Float64(),
    "bubble_ns": pl.Float64(),  # its GPU computes nothing: idle, or waits in sends and receives
    "bubble_percent": pl.Float64(),
    "ideal_percent": pl.Float64(),  # (p - 1) / (m + p - 1) of p stages and m micro-batches (GPipe, 1F1B)
    "micro_batches": pl.Float64(),
}


def stages(matched: Matched, ranks: Sequence[int]) -> Ints:
    """The stage of each rank: its place in the group in which it sends and receives; 0 without."""
    found = np.zeros(len(ranks), np.int64)
    sent = sends(matched)
    if not sent.height:
        return found
    at = {rank: place for place, rank in enumerate(ranks)}
    for group in sent["group_id"].unique().to_list():
        members = matched.group_ranks[group] or tuple(
            sorted(sent.filter(pl.col("group_id") == group)["rank"].unique().to_list())
        )
        if group in _all_ranks(matched, len(ranks)):
            members = _in_order(sent.filter(pl.col("group_id") == group))
        for stage, rank in enumerate(members):
            if rank in at:
                found[at[rank]] = stage
    return found


def sends(matched: Matched) -> pl.DataFrame:
    """All sends and receives whose other rank is known: rank, step, kind, group_id, channel.

    Those that share a kernel with others can't be matched, but say as well who sends to whom, and how often.
    """
    columns = ("rank", "step", "kind", "group_id", "channel")
    alone = matched.calls.frame.filter(pl.col("channel").cast(pl.Int64).is_between(0, EXCHANGE - 1))
    return pl.concat([matched.calls.with_frame(alone).select(*columns), matched.parts.select(columns)])


def _all_ranks(matched: Matched, count: int) -> set[int]:
    """Groups of all ranks, in which a pipeline's ranks are not told by their place."""
    return {number for number, ranks in enumerate(matched.group_ranks) if not ranks or len(ranks) >= count > 2}


def _in_order(sent: pl.DataFrame) -> tuple[int, ...]:
    """The ranks in the order in which the first sends pass through them."""
    pairs = {
        (int(channel) >> CHANNEL_BITS, int(channel) & ((1 << CHANNEL_BITS) - 1)) for channel in sent["channel"].unique()
    }
    return tuple(sorted({rank for pair in pairs for rank in pair}))


def bubbles(steps: pl.DataFrame, stage: Ints, calls: Calls, sent: pl.DataFrame, counts: Sequence[int]) -> pl.DataFrame:
    """A row per stage (`STAGES`); empty without a pipeline.

    A stage's bubble is the time of its step in which its GPU computes nothing, less what its gradients' collectives
    take: between its micro-batches it is idle or waits in sends and receives.
    """
    last = int(stage.max(initial=0)) + 1
    if last < 2 or not steps.height:
        return pl.DataFrame(schema=STAGES)
    by_rank = dict(zip(steps["rank"].unique(maintain_order=True).to_list(), stage.tolist(), strict=True))
    alone = calls.select("rank", "channel", "exposed_ns").filter(pl.col("channel") < 0)
    other = alone.group_by("rank").agg(gradients=pl.col("exposed_ns").sum())
    own = sent.filter(pl.col("kind") == "send").group_by("rank").agg(sent=pl.len(), to=pl.col("channel").n_unique())
    table = (
        steps.group_by("rank", maintain_order=True)
        .agg(pl.col("step_ns", "compute_ns", "own_gpu_ns").sum())
        .with_columns(
            stage=pl.col("rank").replace_strict(by_rank, return_dtype=pl.Int64),
            count=pl.Series(np.maximum(np.array(counts), 1)),
        )
        .join(other, on="rank", how="left")
        .join(own, on="rank", how="left")
        .with_columns(
            bubble=pl.col("step_ns") - pl.col("compute_ns") - pl.col("gradients").fill_null(0),
            micro=pl.col("sent") / pl.col("to") / pl.col("count"),
        )
    )
    micro = table["micro"].median()
    ideal = 100 * (last - 1) / (float(micro) + last - 1) if micro else None  # type: ignore[arg-type]
    per = pl.col("count")
    return (
        table.group_by("stage")
        .agg(
            ranks=pl.len(),
            step_ns=(pl.col("step_ns") / per).median(),
            own_gpu_ns=(pl.col("own_gpu_ns") / per).median(),
            bubble_ns=(pl.col("bubble") / per).median(),
            bubble_percent=(100 * pl.col("bubble") / pl.col("step_ns")).median(),
        )
        .with_columns(ideal_percent=pl.lit(ideal, pl.Float64), micro_batches=pl.lit(micro, pl.Float64))
        .sort("stage")
        .select(pl.col(name).cast(dtype) for name, dtype in STAGES.items())
    )


class Uneven(Struct, frozen=True):
    """What ranks send, or get, in all-to-all; whichever is less even."""

    percent: float
    """(largest - mean) / largest, the mean over calls."""
    gets: bool
    """Whether it is of what ranks get; else of what they send."""
    rank: int
    """Who sends or gets most."""
    largest: float
    """Bytes per call."""
    mean: float
    transfer_ns: float
    """Per step."""
    wait_ns: float
    """Per step, of the mean rank: what it waits in these calls for those that come later."""
    own_percent: float | None
    """(largest - mean) / largest of the GPU work that ranks launched since the collective before each call."""


def imbalance(values: pl.Series) -> float | None:
    """(largest - mean) / largest, in percent; None where nothing is known."""
    known = values.drop_nulls()
    largest = float(known.max() or 0.0) if known.len() else 0.0  # type: ignore[arg-type]
    return 100 * (largest - float(known.mean())) / largest if largest else None  # type: ignore[arg-type]


def uneven_all_to_all(job: Job) -> Uneven | None:
    """The imbalance of a job's all-to-all; None where it has none that says its bytes."""
    chosen = job.collectives.filter(pl.col("kind") == "all_to_all").select("instance", "transfer_ns")
    every = job.calls.join(chosen, on="instance")
    found = [one for name in ("bytes_in", "bytes_out") if (one := _of_bytes(every, name)) is not None]
    if not found:
        return None
    percent, name, rank, largest, mean = max(found, key=lambda one: one[0])
    own = every.group_by("rank").agg(pl.col("own_gpu_ns").sum())["own_gpu_ns"]
    waits = every.group_by("rank").agg(pl.col("wait_ns").sum())["wait_ns"]
    return Uneven(
        percent,
        name == "bytes_out",
        rank,
        largest,
        mean,
        float(chosen["transfer_ns"].sum()) / job.called_steps,
        float(waits.mean() or 0.0) / job.called_steps,  # type: ignore[arg-type]
        None if every["own_gpu_ns"].null_count() else imbalance(own),
    )


def _of_bytes(every: pl.DataFrame, name: str) -> tuple[float, str, int, float, float] | None:
    """(percent, column, rank, largest, mean) of the bytes in this column."""
    calls = every.drop_nulls(name)
    by_call = calls.group_by("instance").agg(largest=pl.col(name).max(), mean=pl.col(name).mean())
    largest, mean = (float(by_call[one].mean() or 0.0) for one in ("largest", "mean"))  # type: ignore[arg-type]
    if not largest:
        return None
    moved = calls.group_by("rank").agg(pl.col(name).sum()).sort(name, "rank", descending=[True, False])
    return 100 * (largest - mean) / largest, name, int(moved["rank"][0]), largest, mean
