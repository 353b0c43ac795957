"""The summaries that belong to an open run, and the table of its ranks."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.compare.ranks import SCHEMA, rank_table
from tracetui.analysis.ranks.present import rank_rows
from tracetui.analysis.ranks.reading import Summaries, read
from tracetui.analysis.ranks.store import CachedStore, Store
from tracetui.analysis.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tracetui.parsers import Run
    from tracetui.parsers.runs.run import RankFile


def job_folder(files: Sequence[RankFile]) -> Path:
    """The folder that holds all recordings of a job."""
    return Path(os.path.commonpath([file.path.absolute().parent for file in files]))


def stores(folder: Path) -> tuple[CachedStore, list[Store]]:
    """Where summaries of a job are kept, and where else some may lie: beside the recordings, if they were put there."""
    return CachedStore(folder), [Store(folder)]


def of_run(run: Run, *, make: bool, progress: Callable[[int, int], None] | None = None) -> Summaries:
    """The summaries of a run's ranks.

    Args:
        run: the run; nothing is known of one whose recordings are no ranks of one job.
        make: whether those that are not at hand are made, which takes about as long as reading the recordings.
        progress: called with how many of how many recordings are done.
    """
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
    if not run.unread:
        return rank_table(run, scope)
    found = of_run(run, make=make, progress=progress)
    return pl.DataFrame(schema=SCHEMA) if found.absent else rank_rows(found.ranks, scope or Scope())


def straggler(ranks: pl.DataFrame) -> int | None:
    """The rank that computes longest of those that the others wait for; None where there is none."""
    late = ranks.filter("straggler").sort("behind_percent", descending=True)["rank"]
    return int(late[0]) if len(late) else None
