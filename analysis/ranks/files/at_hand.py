"""The summaries that belong to an open run, the table of its ranks, and the jobs that they are of."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.base.remembered import kept
from tracetui.analysis.ranks.files.reading import Summaries, job_folder, of_store, read
from tracetui.analysis.ranks.files.store import Store, stores
from tracetui.analysis.ranks.present import SCHEMA, judged, of_steps, rank_rows, rank_table
from tracetui.analysis.ranks.summarise import summarise
from tracetui.analysis.ranks.together.job import jobs
from tracetui.analysis.scope import Scope
from tracetui.parsers.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tracetui.analysis.ranks.summary import RankSummary
    from tracetui.analysis.ranks.together.job import Job
    from tracetui.parsers import Run
    from tracetui.parsers.runs.run import RankFile


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


def jobs_of(
    run: Run, scope: Scope | None = None, *, make: bool = True, progress: Callable[[int, int], None] | None = None
) -> tuple[Job, ...]:
    """A job per recorded pass of a run, the rich one first; none for a run of fewer than two ranks.

    Args:
        run: what `open_path` returned.
        scope: its steps are heeded; who is late in a program is no matter of a marked stretch or of one device.
        make: whether summaries that are not at hand are made; without them there is no job.
        progress: called with how many of how many recordings are done.
    """
    if len(run.ranks) < 2:
        return ()
    if scope is None or (scope.steps is None and not scope.skip_steps):
        known = _remembered(run)
        if "jobs" not in known:
            found = _summaries(run, make, progress)
            if found is None:
                return ()
            known["jobs"] = jobs(found)
        return known["jobs"]
    found = _summaries(run, make, progress)
    return () if found is None else jobs(of_steps(found, scope))


def summaries_of(run: Run, scope: Scope | None = None) -> tuple[RankSummary, ...]:
    """The summaries that `jobs_of` makes jobs of, where they are at hand; none of a run of fewer than two ranks."""
    found = _summaries(run, False, None) if len(run.ranks) > 1 else None
    return tuple(of_steps(found or (), scope))


@kept
def _remembered(run: Run) -> dict[str, tuple[Job, ...]]:
    """The jobs of this run; they live as long as it."""
    del run
    return {}


def _summaries(run: Run, make: bool, progress: Callable[[int, int], None] | None) -> tuple[RankSummary, ...] | None:
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
