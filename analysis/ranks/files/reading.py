"""The summaries of a job's ranks: those that are at hand, and the others made anew."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from tracetui.analysis.ranks.files.stored import mark_of, unpacked
from tracetui.analysis.ranks.files.worker import Task
from tracetui.analysis.ranks.files.workers import outcomes
from tracetui.parsers.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

    from tracetui.analysis.ranks.files.store import Store
    from tracetui.analysis.ranks.files.stored import Stored
    from tracetui.analysis.ranks.summary import RankSummary
    from tracetui.parsers.runs.run import RankFile


class Summaries(Struct, frozen=True):
    """What is known of a job's ranks."""

    ranks: tuple[RankSummary, ...]
    """By rank, then by pass."""
    problems: tuple[tuple[int | None, str, str], ...] = ()
    """(rank, path in the job, why) of recordings that could not be summarised; of a file of summaries that can't be
    read, or of a part that is not here, the rank is null."""
    made: int = 0
    """How many were made now; the others were at hand."""
    absent: int = 0
    """How many recordings were not summarised because only what is at hand was asked for."""


class _Job(Struct):
    """The state of one pass over the recordings."""

    entries: dict[str, Stored] = field(default_factory=dict)
    problems: list[tuple[int, str, str]] = field(default_factory=list)


def read(
    files: Sequence[RankFile],
    store: Store | None,
    *,
    root: Path | None = None,
    also: Sequence[Store] = (),
    executor: Executor | None = None,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    gathered: str = "job",
    make: bool = True,
) -> Summaries:
    """The summary of each recording.

    Args:
        files: the recordings.
        store: where summaries are kept; None keeps none.
        root: the job's folder, which recordings are named from; by default the one that holds all that are given.
        also: where else some may lie; nothing is written there.
        executor: what reads the recordings, as for `workers.outcomes`.
        jobs: how many processes, as for `workers.outcomes`.
        progress: called with how many of how many recordings are done.
        gathered: the name of the file that holds all of them at the end.
        make: false takes only what is at hand.

    Raises:
        TraceError: the store can't be written.
    """
    folder = root or (job_folder(files) if files else Path())
    names = [file.path.absolute().relative_to(folder).as_posix() for file in files]
    own = {} if store is None else _marked(store)
    known = {**{mark: entry for other in also for mark, entry in _marked(other).items()}, **own}
    found = _Job()
    tasks: list[Task] = []
    for file, name in zip(files, names, strict=True):
        try:
            held = known.get((name, mark_of(file.path)))
        except OSError as error:
            found.problems.append((file.rank, name, (error.strerror or str(error)).lower()))
            continue
        if held is None:
            tasks.append(Task(file.path.absolute(), name, file.rank, file.recorded_pass))
        else:
            found.entries[name] = held
    absent = 0 if make else len(tasks)
    made = _make(tasks, found, store, executor, jobs, progress) if make else 0
    if store is not None and any((name, entry.mark) not in own for name, entry in found.entries.items()):
        store.gather(list(found.entries.values()), gathered)
    ranks = sorted((entry.summary for entry in found.entries.values()), key=_order)
    return Summaries(tuple(ranks), tuple(sorted(found.problems)), made, absent)


def of_store(store: Store) -> Summaries:
    """The summaries in a folder, without their recordings, and what of them is missing, as far as the folder tells.

    Raises:
        TraceError: none can be read.
    """
    entries = store.entries()
    if not entries:
        first = next((f": {path.name} {why}" for path, why in store.unread()), "")
        raise TraceError(store.folder, f"has no summaries that can be read{first}", _ANEW)
    found = tuple(sorted((entry.summary for entry in entries), key=_order))
    problems: list[tuple[int | None, str, str]] = [(None, path.name, f"{why}: {_ANEW}") for path, why in store.unread()]
    size = max((one.world_size or 0 for one in found), default=0)
    whole = size > 0 and {one.rank for one in found} >= set(range(size))
    if not whole and (parts := store.missing_parts()):
        problems.append((None, f"part {parts}", "is not here, or not done"))
    folders = {_root(entry) for entry in entries}
    if len(folders) > 1:
        several = ", ".join(sorted(folders)[:_SAID]) + (" …" if len(folders) > _SAID else "")
        problems.append((None, store.folder.name, f"has summaries of recordings in {len(folders)} folders: {several}"))
    return Summaries(found, tuple(problems))


_ANEW = "tracetui ranks with the recordings and --into makes its summaries anew"
_SAID = 3
"""So many folders are named."""


def _root(entry: Stored) -> str:
    """The folder of the job that a summary was made of."""
    return entry.source.removesuffix(entry.summary.path).rstrip("/")


def _marked(store: Store) -> dict[tuple[str, str], Stored]:
    """A store's entries by the recording, and its state, that each was made from."""
    return {(entry.summary.path, entry.mark): entry for entry in store.entries()}


def job_folder(files: Sequence[RankFile]) -> Path:
    """The folder that holds all recordings of a job."""
    return Path(os.path.commonpath([file.path.absolute().parent for file in files]))


def _make(
    tasks: Sequence[Task],
    found: _Job,
    store: Store | None,
    executor: Executor | None,
    jobs: int | None,
    progress: Callable[[int, int], None] | None,
) -> int:
    """Summarises the recordings of tasks; returns how many could be."""
    made = 0
    already = len(found.entries)
    for done, outcome in enumerate(outcomes(tasks, executor=executor, jobs=jobs), 1):
        entries = [] if outcome.content is None else unpacked(outcome.content)
        if outcome.content is None or not entries:
            why = outcome.problem or "its worker gave nothing that can be read: is it of another version?"
            found.problems.append((outcome.task.rank, outcome.task.name, why))
        else:
            made += 1
            found.entries[outcome.task.name] = entries[0]
            if store is not None:
                store.add(outcome.task.name, outcome.content)
        if progress is not None:
            progress(already + done, already + len(tasks))
    return made


def _order(summary: RankSummary) -> tuple[int, str, str]:
    return summary.rank, summary.recorded_pass or "", summary.path
