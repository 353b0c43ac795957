"""What of a job's ranks can be drawn, step by step or collective by collective."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl

if TYPE_CHECKING:
    from tracetui.analysis.ranks.job import Job


class Drawn(NamedTuple):
    """A number that the table of ranks can draw."""

    title: str
    label: str
    """What the footer calls it."""
    about: str


DRAWN = {
    "step_ns": Drawn("Steps", "steps", "each step's time"),
    "own_gpu_ns": Drawn("Own GPU by step", "own GPU", "GPU work that the step launched, without collectives"),
    "wait_ns": Drawn("Waits by step", "waiting", "waiting for other ranks in matched collectives"),
    "idle_ns": Drawn("Idle by step", "idle", "nothing runs on the GPU"),
    "silent_ns": Drawn("Silent by step", "silence", "host time without any recorded event"),
    "late_ns": Drawn("Late by collective", "arrivals", "how late it came to each matched collective"),
}
"""What can be drawn, by the column of `Job.steps`; the last by that of `Job.calls`."""


def drawable(job: Job) -> tuple[str, ...]:
    """What this job can draw: what is known of any rank, and not the same for all."""
    steps = [name for name in DRAWN if name in job.steps.columns and job.steps[name].drop_nulls().n_unique() > 1]
    return (*(steps or ["step_ns"]), *(["late_ns"] if job.calls.height else []))


def first_drawn(job: Job) -> str:
    """What is drawn at first: what the latest rank has more of, else the steps."""
    if not job.answers.program:
        return "step_ns"
    late = job.answers.program[0]
    parts = {"own_gpu_ns": late.gpu_ns, "silent_ns": late.silent_ns, "step_ns": late.loader_ns}
    wanted = max(parts, key=parts.__getitem__)
    return wanted if wanted in drawable(job) else "step_ns"


def cells_to_draw(job: Job, drawn: str) -> tuple[pl.DataFrame, str]:
    """A row per rank and cell, and the column that says where in the rank's row it stands.

    Args:
        job: what the ranks say together.
        drawn: one of `DRAWN`.
    """
    if drawn == "late_ns":
        order = job.collectives.select("instance", at=pl.int_range(pl.len()))
        return job.calls.join(order, on="instance"), "at"
    cells = job.steps.sort("rank", "begin").with_columns(at=pl.int_range(pl.len()).over("rank"))
    # steps of a recording that has them are one below the other, also where a rank lacks the first
    return cells, "at" if (cells["step"] < 0).any() else "step"
