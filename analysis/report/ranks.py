"""The ranks of a job as the JSON contract: what `tracetui ranks` says, and what a run's report says of all of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import polars as pl
from msgspec import structs

from tracetui.analysis.base.json_values import Json, Part, filled
from tracetui.analysis.report import model
from tracetui.analysis.report.model import (
    Environment,
    EnvironmentValue,
    JobRecordings,
    LostPart,
    RankClock,
    RankNote,
    RankOnPath,
    RankProblem,
    RanksReport,
    SlowLink,
    Unmatched,
)
from tracetui.analysis.report.rows import rows, table_rows
from tracetui.analysis.scope import Scope
from tracetui.analysis.tables.ranks import RANKS, STAGES, STRAGGLERS, TRANSFERS, WAITING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from tracetui.analysis.ranks.files.reading import Summaries
    from tracetui.analysis.ranks.job import Job
    from tracetui.analysis.ranks.late import Late
    from tracetui.analysis.ranks.summary import RankSummary
    from tracetui.parsers import Run

SECTIONS = ("waiting", "stragglers", "transfers", "stages")
"""The sections of a run's report that its job fills, beside `ranks`."""
_LATE = {
    "where": pl.String(), "recorded_pass": pl.String(), "rank": pl.Int64(), "late_ns": pl.Float64(),
    "gpu_ns": pl.Float64(), "silent_ns": pl.Float64(), "loader_ns": pl.Float64(), "untold_ns": pl.Float64(),
    "last": pl.Int64(), "of": pl.Int64(), "cause": pl.String(), "name": pl.String(), "factor": pl.Float64(),
    "step": pl.Int64(),
}  # fmt: skip
SCHEMA = "tracetui.ranks/1"
UNNAMED = "unknown"
"""What a recording is called that does not say which of its run's it is."""


def ranks_report(found: Summaries, path: str, scope: Scope | None = None, limit: int | None = None) -> RanksReport:
    """What the summaries of a job say.

    Args:
        found: the summaries, and which recordings have none.
        path: what was opened.
        scope: the steps that the numbers are about.
        limit: at most so many rows of the table of ranks.
    """
    from tracetui.analysis.ranks.job import jobs
    from tracetui.analysis.ranks.of_run import judged, missing, of_one_pass, of_steps, rank_rows, world_size

    several = len({one.rank for one in found.ranks}) > 1
    together = jobs(of_steps(found.ranks, scope)) if several else ()
    table = judged(rank_rows(found.ranks, scope or Scope()), together)
    absent = set(missing(found.ranks))
    return RanksReport(
        schema=SCHEMA,
        path=path,
        world_size=world_size(found.ranks),
        here=len({one.rank for one in found.ranks}),
        missing=sorted(absent),
        recordings=dict(sorted(Counter(one.recorded_pass or UNNAMED for one in found.ranks).items())),
        ranks=table_rows(table, RANKS, limit),
        **of_jobs(together, SECTIONS, limit, gains=True),
        environment=_differences(of_one_pass(found.ranks)),
        problems=[RankProblem(rank=rank, path=name, problem=why) for rank, name, why in found.problems],
        notes=[filled(RankNote, note, one) for one in found.ranks for note in one.notes],
        counts={"ranks": table.height, "waiting": together[0].pairs if together else 0},
    )


def _differences(summaries: Sequence[RankSummary]) -> list[Environment]:
    """What of the machines and versions is not the same on all ranks, with the ranks that have each value."""
    said: dict[str, dict[str | None, list[int]]] = {}
    own = [(one.rank, {**dict(one.environment), "GPU": one.device}) for one in summaries]
    for name in sorted({name for _, values in own for name in values}):
        for rank, values in own:
            said.setdefault(name, {}).setdefault(values.get(name), []).append(rank)
    return [
        Environment(name=name, values=[EnvironmentValue(value=value, ranks=ranks) for value, ranks in values.items()])
        for name, values in said.items()
        if len(values) > 1
    ]


def job_sections(run: Run, scope: Scope, wanted: Collection[str], limit: int | None = None) -> Json:
    """The sections of `SECTIONS` that are wanted, and ``job`` where any of them or the ranks are.

    ``job`` is null, and the sections are empty, for a run of fewer than two ranks.
    """
    asked = [name for name in SECTIONS if name in wanted]
    if not asked and "ranks" not in wanted:
        return {}
    if len(run.ranks) < 2:
        return {"job": None, **{name: [] for name in asked}}
    from tracetui.analysis.ranks.of_run import jobs_of

    return of_jobs(jobs_of(run, scope), asked, limit)


def of_jobs(found: Sequence[Job], wanted: Collection[str], limit: int | None = None, *, gains: bool = False) -> Json:
    """The sections of `SECTIONS` that are wanted of the jobs of a run, and ``job``; `gains`: see `sentences.answer`."""
    nothing = pl.DataFrame()
    waits = found[0].waits.with_columns(wait_ns=pl.col("wait_ns") / found[0].called_steps) if found else nothing
    tables = {
        "waiting": (WAITING, waits),
        "stragglers": (STRAGGLERS, pl.DataFrame(list(_late(found)), schema=_LATE)),
        "transfers": (TRANSFERS, found[0].kinds if found else nothing),
        "stages": (STAGES, found[0].pipeline if found else nothing),
    }
    lists = {name: table_rows(frame, table, limit) for name, (table, frame) in tables.items() if name in wanted}
    return {"job": _job(found, gains=gains), **lists}


def _late(found: Sequence[Job]) -> Iterator[Json]:
    """The program's answer from the first job, and each recording's own."""
    for one in found[0].answers.program if found else ():
        yield _row("program", found[0], one)
    turns = found[0].answers.turns if found else None
    if turns is not None:
        yield from (_row("turns", found[0], turns.of_rank(rank, ns)) for rank, ns in turns.ranks)
    for job in found:
        if job.answers.recording is not None:
            yield _row("recording", job, job.answers.recording)


def _row(where: str, job: Job, late: Late) -> Json:
    cause = late.cause
    of_cause = {} if cause is None else {**structs.asdict(cause), "cause": cause.kind, "name": cause.name or None}
    return {"where": where, "recorded_pass": job.recorded_pass, **structs.asdict(late), "cause": None, **of_cause}


def _job(found: Sequence[Job], *, gains: bool) -> model.Job | None:
    if not found:
        return None
    from tracetui.analysis.ranks.sentences import answer

    job = found[0]
    lost = job.unmatched.group_by("reason").agg(pl.col("count").sum()).sort("reason") if job.unmatched.height else None
    return filled(
        model.Job,
        job,
        job.answers,
        said=answer(found, gains=gains),
        recordings=[
            JobRecordings(recorded_pass=one.recorded_pass, ranks=one.here, collectives=one.collectives.height)
            for one in found
        ],
        steps=job.step_count,
        matched_by=job.matched_by or None,
        clocks=_parts(RankClock, job.clocks.filter(pl.col("offset_ns") != 0), "rank", "offset_ns", "drift_ppm"),
        path=_parts(RankOnPath, job.path, "rank", "own_ns", "percent"),
        lost=_parts(LostPart, job.lost_by_rank, "rank", "cause", "lost_ns", "steps"),
        slow_links=_parts(SlowLink, job.links, *job.links.columns),
        unmatched=[] if lost is None else [Unmatched(**row) for row in lost.to_dicts()],
    )


def _parts(kind: type[Part], frame: pl.DataFrame, *columns: str) -> list[Part]:
    """The rows of a frame as structs, of these columns."""
    return [kind(**row) for row in rows(frame, columns)]
