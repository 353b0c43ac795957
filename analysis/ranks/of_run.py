"""The ranks of an open run: their summaries, which of them are here, their table, and the jobs that they are of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from statistics import median
from typing import Any

import polars as pl

from tracetui.analysis.base.remembered import kept
from tracetui.analysis.overview import overview
from tracetui.analysis.ranks.files.reading import Summaries, job_folder, of_store, read
from tracetui.analysis.ranks.files.store import Store, stores
from tracetui.analysis.ranks.job import Job, counted_from, jobs
from tracetui.analysis.ranks.steps import WHOLE
from tracetui.analysis.ranks.summarise import summarise
from tracetui.analysis.ranks.summary import RankSummary
from tracetui.analysis.ranks.tables import common_steps, per_step, step_counts
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import select
from tracetui.parsers import Run
from tracetui.parsers.errors import TraceError
from tracetui.parsers.runs.run import RankFile, main_of

SCHEMA = {
    "rank": pl.Int64(),
    "steps": pl.Int64(),
    "step_ns": pl.Float64(),
    "kernel_ns": pl.Float64(),
    "compute_ns": pl.Float64(),
    "communication_ns": pl.Float64(),
    "idle_ns": pl.Float64(),
    "behind_percent": pl.Float64(),
}
"""What the traces say, or their summaries, without a look at the others but for `behind_percent`."""
TOGETHER = {
    "own_gpu_ns": pl.Float64(),
    "silent_ns": pl.Float64(),
    "loader_ns": pl.Float64(),
    "excess_ns": pl.Float64(),
    "wait_ns": pl.Float64(),
    "late_ns": pl.Float64(),
    "last": pl.Int64(),
    "collectives": pl.Int64(),
    "clean_step_ns": pl.Float64(),
    "straggler": pl.Boolean(),
}
"""What all ranks say together (`job.Job.ranks`)."""


def rank_table(run: Run, scope: Scope | None = None) -> pl.DataFrame:
    """The ranks of a run that was read whole, per step (`SCHEMA`).

    Returns:
        rank, steps, step_ns (mean), kernel_ns (any kernel runs), compute_ns and communication_ns (either kind runs),
        idle_ns (nothing runs between the first step's start and the last one's end), all per step; behind_percent (own
        compute over the median of the ranks). Empty for a run of fewer than two ranks.
    """
    rows: list[dict[str, Any]] = []
    for rank in run.ranks:
        trace = main_of([trace for trace in run.traces if trace.info.rank == rank])
        found = overview(select(trace, scope or Scope()))
        steps = max(found.per_step.height, 1)
        compute, collective, both = (
            int(found.per_step[f"{name}_ns"].sum()) / steps for name in ("computation", "collective", "overlap")
        )
        whole = found.idle.filter(pl.col("stream").is_null())
        rows.append(
            {
                "rank": rank,
                "steps": found.steps,
                "step_ns": found.average_step_ns,
                "kernel_ns": compute + collective - both,
                "compute_ns": compute,
                "communication_ns": collective,
                "idle_ns": int(whole["idle_ns"].sum()) / steps if whole.height else None,
            }
        )
    if len(rows) < 2:
        return pl.DataFrame(schema=SCHEMA)
    return _with_behind(pl.DataFrame(rows, schema=SCHEMA))


def _with_behind(table: pl.DataFrame) -> pl.DataFrame:
    """The table (`SCHEMA`) by rank, with `behind_percent`."""
    known = table["compute_ns"].drop_nulls().to_list()
    middle = median(known) if known else 0
    behind = [
        100 * (own_ns - middle) / middle if middle and own_ns is not None else None
        for own_ns in table["compute_ns"].to_list()
    ]
    table = table.with_columns(pl.Series("behind_percent", behind, pl.Float64))
    return table.select(pl.col(name).cast(dtype) for name, dtype in SCHEMA.items()).sort("rank")


def judged(table: pl.DataFrame, found: Sequence[Job]) -> pl.DataFrame:
    """The table with what all ranks say together (`TOGETHER`).

    In synchronous training all ranks step together, and the fast ones wait inside collectives for the slow ones: step
    times say little, and how long a rank computes says nothing of its host. A straggler is who is late in the program
    (`late.Answers.program`), by what a profiler cannot add.

    Args:
        table: `SCHEMA`.
        found: the jobs of the run, the rich one first.
    """
    if not found or not table.height:
        return table.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in TOGETHER.items())
    together = found[0].ranks.rename({"late": "straggler"}).select("rank", *TOGETHER)
    return table.join(together, on="rank", how="left", maintain_order="left").cast(TOGETHER)  # type: ignore[arg-type]


def world_size(summaries: Iterable[RankSummary]) -> int | None:
    """How many ranks the job has, as its recordings say; None where none does."""
    return max((found.world_size for found in summaries if found.world_size is not None), default=None)


def missing(summaries: Sequence[RankSummary]) -> tuple[int, ...]:
    """The ranks of the job that have no summary here; none where its size is not known."""
    here = {found.rank for found in summaries}
    first = counted_from(summaries)
    return tuple(rank for rank in range(first, first + (world_size(summaries) or 0)) if rank not in here)


def of_one_pass(summaries: Sequence[RankSummary]) -> list[RankSummary]:
    """One summary per rank: that of the rich recording where there are two."""
    chosen: dict[int, RankSummary] = {}
    for found in summaries:
        if found.rank not in chosen or found.recorded_pass == "rich":
            chosen[found.rank] = found
    return [chosen[rank] for rank in sorted(chosen)]


def rank_rows(summaries: Sequence[RankSummary], scope: Scope) -> pl.DataFrame:
    """The table that `rank_table` makes of traces, from summaries.

    Empty for fewer than two ranks, and for a scope that summaries can't answer: some devices, a stretch of time, or
    steps by the name of a range.
    """
    if scope.devices is not None or scope.window is not None or scope.steps_by is not None:
        return pl.DataFrame(schema=SCHEMA)
    compared, _ = common_steps(of_steps(of_one_pass(summaries), scope))
    compared = [summary for summary in compared if summary.steps.height]
    if len(compared) < 2:
        return pl.DataFrame(schema=SCHEMA)
    ranks = pl.Series("rank", [summary.rank for summary in compared])
    return _with_behind(per_step(compared, step_counts(compared)).with_columns(ranks))


def of_steps(summaries: Sequence[RankSummary], scope: Scope | None) -> list[RankSummary]:
    """The summaries without the steps that a scope leaves out; those without steps stay as they are."""
    if scope is None or (scope.steps is None and not scope.skip_steps):
        return list(summaries)
    return [_with_steps(one, scope) for one in summaries]


def _with_steps(found: RankSummary, scope: Scope) -> RankSummary:
    """The summary without the steps that the scope leaves out; one without steps stays as it is."""
    steps = found.steps
    if not steps.height or steps["step"][0] == WHOLE:
        return found
    steps = steps.slice(scope.skip_steps)
    if scope.steps is not None:
        steps = steps.filter(pl.col("step").is_between(*scope.steps))
    return found.of_steps(steps["step"].to_list(), "steps", "collectives", "work")


def of_run(run: Run, *, make: bool, progress: Callable[[int, int], None] | None = None) -> Summaries:
    """The summaries of a run's ranks.

    Args:
        run: the run; nothing is known of one whose recordings are no ranks of one job.
        make: whether those that are not at hand are made, which takes about as long as reading the recordings.
        progress: called with how many of how many recordings are done.
    """
    if run.summaries_in is not None:
        return of_store(Store(run.summaries_in))
    if not run.rank_files:
        return Summaries(())
    if not run.cached and make:
        return _once(run.rank_files)
    store, also = stores(job_folder(run.rank_files))
    return read(run.rank_files, store, also=also, progress=progress, make=make)


@lru_cache(maxsize=1)
def _once(files: tuple[RankFile, ...]) -> Summaries:
    """The summaries of a run for which none are kept: a report asks for them twice."""
    _, also = stores(job_folder(files))
    return read(files, None, also=also)


def ranks_of(
    run: Run, scope: Scope | None = None, *, make: bool = True, progress: Callable[[int, int], None] | None = None
) -> pl.DataFrame:
    """The table of ranks: of the traces where all were read, else of summaries.

    Args:
        run: what `open_path` returned.
        scope: what the numbers are about.
        make: whether summaries that are not at hand are made; without them the table is empty.
        progress: as for `of_run`.
    """
    together: tuple[Job, ...] = ()
    if not run.unread and run.summaries_in is None:
        together = jobs_of(run, scope, make=make)
        table = rank_table(run, _of_compared(scope or Scope(), together))
    else:
        found = _summaries(run, make, progress)
        table = pl.DataFrame(schema=SCHEMA) if found is None else rank_rows(found, scope or Scope())
        together = jobs_of(run, scope, make=make) if table.height else ()
    return judged(table, together)


def _of_compared(scope: Scope, found: Sequence[Job]) -> Scope:
    """The scope of the steps that all ranks have, where some have others, too."""
    compared = found[0].compared if found else ()
    whole = range(compared[0], compared[-1] + 1) if compared else range(0)
    return replace(scope, steps=(whole[0], whole[-1]), skip_steps=0) if len(whole) == len(compared) > 0 else scope


def with_straggler(run: Run, scope: Scope | None, progress: Callable[[int, int], None] | None = None) -> Run:
    """The run with its straggler read, which its summaries name; a straggler that can't be read is a warning."""
    late = straggler(ranks_of(run, scope, progress=progress))
    try:
        return run if late is None else run.with_rank(late)
    except TraceError as problem:
        return replace(run, warnings=(*run.warnings, str(problem)))


def straggler(ranks: pl.DataFrame) -> int | None:
    """The rank that is late in the program, of several the latest; None where there is none."""
    late = ranks.filter("straggler").sort("excess_ns", descending=True)["rank"]
    return int(late[0]) if len(late) else None


def jobs_of(run: Run, scope: Scope | None = None, *, make: bool = True) -> tuple[Job, ...]:
    """A job per recorded pass of a run, the rich one first; none for a run of fewer than two ranks.

    Args:
        run: what `open_path` returned.
        scope: its steps are heeded; who is late in a program is no matter of a marked stretch or of one device.
        make: whether summaries that are not at hand are made; without them there is no job.
    """
    if len(run.ranks) < 2:
        return ()
    if scope is None or (scope.steps is None and not scope.skip_steps):
        known = _remembered(run)
        if "jobs" not in known:
            found = _summaries(run, make)
            if found is None:
                return ()
            known["jobs"] = jobs(found)
        return known["jobs"]
    found = _summaries(run, make)
    return () if found is None else jobs(of_steps(found, scope))


def summaries_of(run: Run, scope: Scope | None = None) -> tuple[RankSummary, ...]:
    """The summaries that `jobs_of` makes jobs of, where they are at hand; none of a run of fewer than two ranks."""
    found = _summaries(run, make=False) if len(run.ranks) > 1 else None
    return tuple(of_steps(found or (), scope))


@kept
def _remembered(run: Run) -> dict[str, tuple[Job, ...]]:
    """The jobs of this run; they live as long as it."""
    del run
    return {}


def _summaries(
    run: Run, make: bool, progress: Callable[[int, int], None] | None = None
) -> tuple[RankSummary, ...] | None:
    """The summaries of all recordings, or of most: one that can't be read has none. None where most are not at hand."""
    lighter = any(file.recorded_pass == "light" for file in run.rank_files)
    if not run.unread and not lighter and run.summaries_in is None:
        return tuple(summarise(trace, manifest=run.manifest) for trace in run.traces if trace.info.rank is not None)
    found = of_run(run, make=make, progress=progress)
    if not found.absent:
        return found.ranks
    told = {(one.rank, one.recorded_pass) for one in found.ranks}
    if not run.unread:
        # what was read is judged; the light recordings join when they are summarised
        told = set()
    own = [summarise(trace, manifest=run.manifest) for trace in run.traces if trace.info.rank is not None]
    own = [one for one in own if (one.rank, one.recorded_pass) not in told]
    known = (*(found.ranks if run.unread else ()), *own)
    return known if 2 * len({one.rank for one in known}) > len(run.ranks) else None
