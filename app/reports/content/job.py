"""What is printed and drawn of a job of many ranks, and what is printed of its collectives; short for any number."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from msgspec import UNSET

from tracetui.analysis.base.number_format import format_count, format_number, format_us, spans
from tracetui.analysis.tables.collectives import COLLECTIVES, PAIRS
from tracetui.analysis.tables.ranks import RANKS, STAGES, STRAGGLERS, TRANSFERS, WAITING
from tracetui.app.reports.layout import Layout, Shown
from tracetui.app.reports.parts import Block, Facts, Part, Sentences, Title, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import polars as pl

    from tracetui.analysis.ranks.job import Job
    from tracetui.analysis.report.model import Environment, Link, RankNote, RankProblem, RanksReport, Row, Run, Trace
    from tracetui.analysis.tables.table import Field

MANY_RANKS = 16
"""Up to here the table of ranks is printed whole, and who waited for whom as a matrix."""
MATRIX_RANKS = 8
"""More columns don't fit into 80 cells."""


def job_answer(found: Run | RanksReport, most: int | None = None) -> Iterator[Part]:
    """What limits the job: the first sentences of what is said of it, or all of them."""
    if found.job and found.job.said:
        yield Sentences(tuple(found.job.said[:most]), bullets=True, lead=True, heading="The job")


def job_parts(found: Run | RanksReport, layout: Layout, *, answered: int = 0) -> Iterator[Part]:
    """The job: its answers but for those `answered` above, then its tables; of many ranks those that matter."""
    job = found.job
    if job and (said := job.said[answered:]):
        more = "More on the job" if answered else "The job"
        yield Sentences(tuple(said), bullets=True, lead=not answered, heading=more)
    if found.ranks:
        yield rank_list(found.ranks, layout)
    if found.stragglers and found.ranks is UNSET:  # else the sentences and the ranks say it
        yield listed(STRAGGLERS, found.stragglers, layout)
    if found.waiting:
        less = getattr(found, "counts", {}).get("waiting", 0) - len(found.waiting)
        after = f"{format_count(less)} more pairs, for ranks that were waited for less."
        yield replace(_waiting(found.waiting, layout), after=(after,) if less > 0 else ())
    if found.transfers:
        table = replace(TRANSFERS, base=f"{TRANSFERS.base}{_bounds(found)}")
        yield listed(table, found.transfers, layout, whole=_whole(found.transfers, layout))
    if found.stages:
        yield listed(STAGES, found.stages, replace(layout, limit=None), whole=0)


def _bounds(found: Run | RanksReport) -> str:
    """What numbers of a job with missing ranks are."""
    from tracetui.analysis.ranks.sentences import BOUNDED

    return "; bounds: ranks are missing" if found.job and any(BOUNDED in text for text in found.job.said) else ""


def rank_list(ranks: list[Row], layout: Layout) -> Block:
    """The table of ranks; of many, those that are late or were waited for most."""
    if layout.limit is None or len(ranks) <= max(layout.limit, MANY_RANKS):
        return listed(RANKS, ranks, replace(layout, limit=None), whole=0)
    shown = sorted(ranks, key=lambda row: (not row["straggler"], -(row["late_us"] or 0.0), -(row["excess_us"] or 0.0)))
    rest = shown[layout.limit :]
    steps = sorted(row["step_us"] for row in rest if row["step_us"] is not None)
    span = f": steps of {format_us(steps[0])} to {format_us(steps[-1])}" if steps else ""
    late = sum(bool(row["straggler"]) for row in rest)
    none = f"{format_count(late)} of them late" if late else "none of them late"
    return listed(RANKS, shown, layout, after=(f"{format_count(len(rest))} more ranks, {none}{span}.",))


def _waiting(pairs: list[Row], layout: Layout) -> Block:
    """Who waited for whom: a matrix of few ranks, else the pairs that waited longest."""
    ranks = sorted({row[name] for row in pairs for name in ("rank", "for_rank")})
    if len(ranks) > MATRIX_RANKS:
        return _waited_for(pairs, layout)
    waited = {(row["rank"], row["for_rank"]): row["wait_us"] for row in pairs}
    causes = [rank for rank in ranks if any(row["for_rank"] == rank for row in pairs)]
    columns = [Shown("Rank"), *(Shown(f"for {rank}") for rank in causes), Shown("together")]
    cells = []
    for rank in ranks:
        own = [waited.get((rank, cause)) for cause in causes]
        total = sum(value for value in own if value is not None)
        cells.append([str(rank), *("-" if value is None else format_us(value) for value in own), format_us(total)])
    return Block(WAITING.title, WAITING.base, tuple(columns), cells)


def _waited_for(pairs: list[Row], layout: Layout) -> Block:
    """Of many ranks, those that others waited for: how many did, and for how long."""
    waits: dict[int, list[float]] = {}
    for row in pairs:
        waits.setdefault(row["for_rank"], []).append(row["wait_us"])
    most = sorted(waits.items(), key=lambda one: (-median(one[1]) * len(one[1]), one[0]))
    cells = [
        [str(rank), format_count(len(times)), format_us(median(times)), format_us(max(times))] for rank, times in most
    ]
    columns = tuple(map(Shown, ("For", "Ranks", "Median", "Longest")))
    whole = len(cells) if layout.limit is not None and len(cells) > layout.limit else 0
    return Block(WAITING.title, WAITING.base, columns, cells[: layout.limit], whole)


def _whole(rows: list[Row], layout: Layout) -> int:
    """How many rows there are, where not all of them are shown."""
    return len(rows) if layout.limit is not None and len(rows) > layout.limit else 0


LISTED = 10
"""How many recordings without a summary, and how many notes, are named one by one."""
RICH_AND_LIGHT = "both a rich and a light one of each rank; the table is of the rich ones"


def ranks_parts(found: RanksReport, layout: Layout) -> Iterator[Part]:
    """The report of a job: which ranks are here, their table, and what is not as it should be."""
    yield Title(f"tracetui ranks: {Path(found.path).name or found.path}")
    yield Facts((("Job", found.path), ("Ranks", ranks_here(found)), ("Files", _files(found))))
    yield from job_parts(found, layout)
    if not found.ranks:
        yield Sentences(("There are no two ranks to compare.",))
    for heading, lines in (
        ("Not the same on all ranks", _differences(found.environment)),
        ("Without a summary", _problems(found.problems)),
        ("Notes", _notes(found.notes)),
    ):
        if texts := tuple(lines):
            yield Sentences(texts, heading=heading, bullets=True)


def ranks_here(found: RanksReport) -> str:
    """How many of the job's ranks are here, and which are missing."""
    here, whole = found.here, found.world_size
    if whole is None:
        return f"{here}; how many the job has is not recorded"
    if not found.missing:
        return f"{here} of {whole}"
    return f"{here} of {whole} are here; missing: {spans(found.missing)}"


def _files(found: RanksReport) -> str:
    kinds = found.recordings
    total = format_count(sum(kinds.values()))
    if set(kinds) == {"light", "rich"}:
        same = kinds["light"] == kinds["rich"]
        return f"{total}, {RICH_AND_LIGHT}" if same else f"{total}: {kinds['rich']} rich, {kinds['light']} light"
    return total


def _differences(environment: list[Environment]) -> Iterator[str]:
    for one in environment:
        values = sorted(one.values, key=lambda value: len(value.ranks))
        said = "; ".join(
            f"{'not recorded' if value.value is None else value.value} on {_ranks(value.ranks)}" for value in values[:3]
        )
        more = f"; and {len(values) - 3} other values" if len(values) > 3 else ""
        yield f"{one.name}: {said}{more}"


def _ranks(ranks: list[int]) -> str:
    if len(ranks) > LISTED:
        return f"{len(ranks)} ranks"
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {spans(ranks)}"


def _problems(problems: list[RankProblem]) -> Iterator[str]:
    for one in problems[:LISTED]:
        if one.rank is None:
            yield f"{one.path} {one.problem}"
        else:
            yield f"rank {one.rank} ({one.path}): {one.problem}"
    if len(problems) > LISTED:
        ranks = [one.rank for one in problems[LISTED:] if one.rank is not None]
        yield f"and {len(problems) - LISTED} more{f': rank {spans(ranks)}' if ranks else ''}"


def _notes(notes: list[RankNote]) -> Iterator[str]:
    """Each kind of note once, with how often it was met and on which ranks."""
    alike: dict[tuple[str, str], list[RankNote]] = {}
    for note in notes:
        alike.setdefault((note.kind, note.reason), []).append(note)
    ordered = sorted(alike.items(), key=lambda entry: -len(entry[1]))
    for (kind, reason), same in ordered[:LISTED]:
        ranks = sorted({note.rank for note in same})
        yield f"{kind}: {format_count(sum(note.count for note in same))} x {reason} ({_ranks(ranks)})"
    if len(ordered) > LISTED:
        yield f"and {len(ordered) - LISTED} other kinds"


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
    return (*(steps or ["step_ns"]), *(["late_ns"] if job.collectives.height else []))


def first_drawn(job: Job) -> str:
    """What is drawn at first: what the latest rank has more of, else the steps."""
    if not job.answers.program:
        return "step_ns"
    late = job.answers.program[0]
    parts = {"own_gpu_ns": late.gpu_ns, "silent_ns": late.silent_ns, "step_ns": late.loader_ns}
    wanted = max(parts, key=parts.__getitem__)
    return wanted if wanted in drawable(job) else "step_ns"


def cells_to_draw(job: Job, drawn: str) -> tuple[pl.DataFrame, str]:
    """A row per rank and cell of one of `DRAWN`, and the column that says where in the rank's row it stands."""
    import polars as pl

    if drawn == "late_ns":
        order = job.collectives.select("instance", at=pl.int_range(pl.len()))
        return job.calls.join(order, on="instance"), "at"
    cells = job.steps.sort("rank", "begin").with_columns(at=pl.int_range(pl.len()).over("rank"))
    # steps of a recording that has them are one below the other, also where a rank lacks the first
    return cells, "at" if (cells["step"] < 0).any() else "step"


ONE_RANK = (
    "Of one rank, a call is waiting for later ranks and transfer together: the bandwidth is that of the shortest call "
    "of its size, a lower bound."
)
BY_RANKS = (
    "Waiting is told from transfer by the other ranks' recordings: the bandwidth is of the median transfer, without it."
)
BY_THOSE_HERE = (
    "Waiting is told from transfer by the recordings of the ranks that are here: a missing one may have come later, so "
    "the bandwidth is a lower bound."
)
NO_SIZE = "Without a size: calls whose arguments are not recorded."
_SOMETIMES = {"waiting_ns", "exposed_percent", "busbw_gbps", "link_percent", "group_size", "group"}
"""Columns that are left out where no row has them; the bandwidth by the call is left out where any has that by link."""


def collectives(trace: Trace, layout: Layout) -> Iterator[Part]:
    """The tables, where the recording has any collective."""
    rows = trace.collectives
    if rows:
        link = trace.collectives_link
        note = [link_words(link)] if link and any(row["link_percent"] is not None for row in rows) else []
        if any(row["rests_on"] in ("shortest call", "whole call") for row in rows):
            note.append(ONE_RANK)
        if any(row["rests_on"] == "transfer" for row in rows):
            note.append(BY_RANKS)
        if any(row["rests_on"] == "ranks here" for row in rows):
            note.append(BY_THOSE_HERE)
        if any(row["bytes"] is None and row["kind"] != "barrier" and not row["coalesced"] for row in rows):
            note.append(NO_SIZE)
        yield listed(COLLECTIVES, rows, layout, fields=_filled(rows), after=tuple(note))
    if trace.collective_pairs:
        yield listed(PAIRS, trace.collective_pairs, layout)


def link_words(link: Link) -> str:
    """What the bandwidth is compared with, in a sentence."""
    return f"Link: {link.name}, {format_number(link.gbps)} GB/s in one direction ({link.source})."


def _filled(rows: Sequence[Row]) -> tuple[Field, ...]:
    fields = COLLECTIVES.chosen(COLLECTIVES.reports)
    known = {one.name for one in fields if any(row[one.json_key] is not None for row in rows)}
    left_out = _SOMETIMES - known | ({"algbw_gbps"} if "busbw_gbps" in known else set())
    # a line of 80 columns has no room for both
    left_out |= {"group_size"} if "waiting_ns" in known else set()
    return tuple(one for one in fields if one.name not in left_out)
