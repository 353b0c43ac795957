"""What is printed of a job of many ranks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import format_count, spans
from tracetui.app.reports.content.job.jobs import job_parts
from tracetui.app.reports.parts import Facts, Sentences, Title

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.analysis.report.model import Environment, RankNote, RankProblem, RanksReport
    from tracetui.app.reports.layout import Layout
    from tracetui.app.reports.parts import Part

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
