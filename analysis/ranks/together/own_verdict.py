"""What one rank waits for, as its job knows it: who the others wait for, which no recording alone can name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.base.number_format import format_ns, spans
from tracetui.analysis.ranks.together.late import STEP_PERCENT

if TYPE_CHECKING:
    from tracetui.analysis.dependencies.limit import Limit
    from tracetui.analysis.ranks.together.job import Job

MOST = 0.5
"""Of its recorded step: what waits for a rank that comes last in this recording only must be the largest part of it."""


def in_its_job(found: Limit, job: Job | None, rank: int | None) -> Limit:
    """The verdict on one rank's recording, as far as the job knows better.

    A rank that waits for one that is late in the program waits for that rank, whatever its own recording looks like.
    One that waits most of its step for a rank that came last in this recording alone does so as recorded.

    Args:
        found: what the rank's own recording says.
        job: the job that it is a rank of.
        rank: which one it is.

    Returns:
        `found` itself where the job says nothing against it, and of the rank that the others wait for.
    """
    if job is None or rank is None or job.step_ns is None:
        return found
    program, last = [one.rank for one in job.answers.program], job.answers.recording
    base = f"the ranks' steps {spans(job.shared)}" if job.shared else "the ranks' whole recordings"
    own = dict(job.ranks.select("rank", "step_ns").iter_rows()).get(rank)
    if rank in program or not own:
        return found
    late, waits = _longest(job, rank, program)
    if late is not None and 100 * waits > STEP_PERCENT * own:
        text = f"Waits for rank {late}, which is late in the program: {_waited(job, own, waits)} for it"
        return replace(found, kind="ranks", sentence=f"{text} in collectives ({base}).", why=None)
    late, waits = _longest(job, rank, [last.rank] if last is not None else [])
    if late is None or late == rank or waits <= MOST * own:
        return found
    waited = f"{_waited(job, own, waits)} for rank {late} in collectives"
    if found.kind == "unknown":
        return replace(found, sentence=f"{found.sentence} In its job, {waited}.")
    text = f"Waits for rank {late}, which comes last in this recording: {waited}; whether it is so late without a"
    return replace(found, kind="ranks", sentence=f"{text} profiler can't be told ({base}).")


def _longest(job: Job, rank: int, late: list[int]) -> tuple[int | None, float]:
    """Of these ranks the one that a rank waits for longest, and how long per step, ns."""
    rows = job.waits.filter((pl.col("rank") == rank) & pl.col("for_rank").is_in(late)).head(1)
    return (int(rows["for_rank"][0]), int(rows["wait_ns"][0]) / job.called_steps) if rows.height else (None, 0.0)


def _waited(job: Job, step_ns: float, waits_ns: float) -> str:
    """``of a step of 20.87 ms as recorded it waits 15.88 ms``."""
    what = "a step" if job.step_count else "a recording"
    return f"of {what} of {format_ns(step_ns)} as recorded it waits {format_ns(min(waits_ns, step_ns))}"
