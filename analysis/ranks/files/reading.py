"""The summaries of a job's ranks: those that are stored, and the others made anew by workers.

The workers are spawned: a child that was forked after Polars ran waits forever for a thread that it does not have.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from contextlib import suppress
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tracetui.analysis.ranks.files.store import IN_BLOCK, Store, Stored, mark_of, unpacked
from tracetui.analysis.ranks.files.worker import Outcome, Task, attempt, joined, prepare, worded, work
from tracetui.analysis.ranks.summary import RankSummary
from tracetui.parsers.errors import TraceError
from tracetui.parsers.runs.run import RankFile

T = TypeVar("T")
IN_HAND = 64
"""How many recordings are handed to an executor at once."""
RETRIES = 2
"""So often a cluster tries a recording again whose store did not answer."""
IDLE_SECONDS = 1.0
"""So often `Cluster.idle` is asked while nothing is done."""
PROCESS_BYTES, BYTES_PER_BYTE = 160 << 20, 2
"""What a worker holds at its peak: this, and so much for each byte of the uncompressed recording."""
SHARE_OF_FREE = 0.7
"""How much of the free memory the workers may take together."""
USUALLY_COMPRESSED, MOST_COMPRESSED = 12, 60
"""How many bytes of a recording one byte of gzip stands for."""
FEW, SMALL_BYTES = 2, 4 << 20
"""So few recordings, or so few bytes altogether, take less time here than a process takes to start."""
_DIED = "its reader was killed, perhaps for want of memory"
_ENDED = "was not read: the workers have ended"
_UNREADABLE = "its worker gave nothing that can be read: is it of another version?"


class Cluster(Struct, frozen=True):
    """Workers of Dask, which come and go."""

    client: Any
    """A `distributed.Client`."""
    idle: Callable[[], None]
    """Called while nothing is done; may raise, which ends the reading."""


def outcomes(
    tasks: Sequence[Task],
    *,
    executor: Executor | Cluster | None = None,
    jobs: int | None = None,
    work: Callable[[Task], Outcome] = work,
) -> Iterator[Outcome]:
    """What became of each task, in the order in which they end.

    Args:
        tasks: the recordings.
        executor: what runs them; processes of this machine by default. It may come from anywhere: nothing is used of
            it but `submit`. A cluster's workers join what they made, so that an outcome may hold several summaries.
        jobs: how many processes; by default as many as there are cores and as fit into memory.
        work: what is done for each: a function of a module, which other processes can import.
    """
    if isinstance(executor, Cluster):
        yield from _on_cluster(executor, tasks, work)
        return
    if executor is not None:
        taken: set[int] = set()
        for task, found in _on(executor, tasks, IN_HAND, work):
            taken.add(id(task))
            yield found if isinstance(found, Outcome) else _failed(task, found)
        yield from (Outcome(task, problem=_ENDED) for task in tasks if id(task) not in taken)
        return
    sizes = [task.plain_bytes or plain_size(Path(task.path)) for task in tasks]
    if jobs is None and (len(tasks) <= FEW or sum(sizes) < SMALL_BYTES):
        yield from map(work, tasks)
        return
    count = jobs or affordable_jobs(max(sizes, default=0))
    yield from _on_processes(tasks, max(1, min(count, len(tasks))), work)


def affordable_jobs(largest: int) -> int:
    """How many workers fit beside each other, for recordings of at most so many uncompressed bytes."""
    free = free_memory()
    if free is None:
        return cores()
    each = PROCESS_BYTES + BYTES_PER_BYTE * largest
    return max(1, min(cores(), int(SHARE_OF_FREE * free) // each))


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def free_memory() -> int | None:
    """How much memory may still be taken, of the machine or of the group that a cluster's scheduler put us in."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        return None
    folder = Path("/sys/fs/cgroup")
    try:  # in a container, its own group is the root
        allowed, used = ((folder / name).read_text(encoding="ascii") for name in ("memory.max", "memory.current"))
        return min(free, int(allowed) - int(used))
    except (OSError, ValueError):  # no limit, or another kind of groups
        return free


def plain_size(path: Path) -> int:
    """About how many bytes a recording has when it is not compressed; 0 where it can't be told."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            if file.read(2) != b"\x1f\x8b":
                return size
            file.seek(max(0, size - 4))
            told: int = struct.unpack("<I", file.read(4))[0]  # gzip keeps the lowest 32 bits
    except (OSError, struct.error):
        return 0
    return told if size <= told <= MOST_COMPRESSED * size else USUALLY_COMPRESSED * size


def _on_processes(tasks: Sequence[Task], count: int, work: Callable[[Task], Outcome]) -> Iterator[Outcome]:
    """Runs tasks on processes; one that its process died with is tried again when nothing else needs memory."""
    died: list[Task] = []
    with _Processes(count) as processes:
        for task, found in _on(processes, tasks, count, work):
            if isinstance(found, BrokenExecutor):
                died.append(task)
            else:
                yield found if isinstance(found, Outcome) else _failed(task, found)
    if died:
        with _Processes(1) as processes:
            for task, found in _on(processes, died, 1, work):
                yield found if isinstance(found, Outcome) else _failed(task, found)


class _Processes(Executor):
    """Processes, each a pool of its own: one that dies takes no other's work with it, and is replaced."""

    def __init__(self, count: int) -> None:
        self._threads = max(1, cores() // count)
        self._pools: list[ProcessPoolExecutor | None] = [None] * count
        self._last: list[Future[Any] | None] = [None] * count

    def submit(self, function: Callable[..., T], /, *arguments: Any, **named: object) -> Future[T]:
        """Hands work to a process that has none: no more may be in hand than there are processes."""
        free = next(number for number, last in enumerate(self._last) if last is None or last.done())
        pool = self._pools[free]
        try:
            future = (pool or self._start(free)).submit(function, *arguments, **named)
        except BrokenExecutor:
            future = self._start(free).submit(function, *arguments, **named)
        self._last[free] = future
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the processes."""
        for pool in self._pools:
            if pool is not None:
                pool.shutdown(wait, cancel_futures=cancel_futures)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Ends the processes; when the block is left early, nobody wants what they still do."""
        if kind is not None:
            for pool in self._pools:
                for process in list((pool._processes or {}).values()) if pool is not None else ():
                    process.terminate()
        self.shutdown(cancel_futures=True)

    def _start(self, number: int) -> ProcessPoolExecutor:
        context = get_context("spawn")
        self._pools[number] = pool = ProcessPoolExecutor(
            1, mp_context=context, initializer=prepare, initargs=(self._threads,)
        )
        return pool


def _on_cluster(cluster: Cluster, tasks: Sequence[Task], work: Callable[[Task], Outcome]) -> Iterator[Outcome]:
    """Hands all tasks to a cluster, which grows by what waits; what ends is joined there and comes in few pieces."""
    client, ended = cluster.client, SimpleQueue[Any]()
    held: dict[str, list[tuple[Any, Task]]] = {}
    """By the key of a future that has not ended: the recordings that it reads or joins, each with its own future."""
    ready: list[tuple[Any, Task]] = []

    def hand_in(future: Any, of: list[tuple[Any, Task]]) -> None:
        held[future.key] = of
        future.add_done_callback(ended.put)

    size = max(1, min(IN_BLOCK, len(tasks) // IN_BLOCK))  # small jobs in small pieces: their progress is seen
    for leaf, task in zip(client.map(partial(attempt, work), tasks, pure=False, retries=RETRIES), tasks, strict=True):
        hand_in(leaf, [(leaf, task)])
    leaves = len(tasks)
    try:
        while held:
            try:
                future = ended.get(timeout=IDLE_SECONDS)
            except Empty:
                cluster.idle()
                continue
            of = held.pop(future.key)
            is_leaf = of[0][0] is future
            leaves -= is_leaf
            if future.status != "finished":
                error = CancelledError() if future.cancelled() else future.exception()
                yield from (_failed(task, error) for _, task in of)
            elif is_leaf:
                ready += of
            else:
                yield from future.result()
            if ready and (len(ready) >= size or not leaves):
                whole = client.submit(joined, [leaf for leaf, _ in ready], pure=False)
                hand_in(whole, ready)
                ready = []
    except (KeyboardInterrupt, TraceError):
        made = [leaf for of in (ready, *held.values()) for leaf, _ in of if leaf.status == "finished"]
        yield from joined(client.gather(made, errors="skip"))
        raise
    finally:
        with suppress(Exception):  # a scheduler that is gone has nothing to end
            client.cancel([leaf for of in held.values() for leaf, _ in of])


def _on(
    executor: Executor, tasks: Sequence[Task], in_hand: int, work: Callable[[Task], Outcome]
) -> Iterator[tuple[Task, Outcome | BaseException]]:
    """Each task with what came of it; those that the executor did not take any more are left out."""
    left = iter(tasks)
    held: dict[Future[Outcome], Task] = {}
    try:
        while True:
            try:
                for task in islice(left, max(0, in_hand - len(held))):
                    held[executor.submit(work, task)] = task
            except (BrokenExecutor, RuntimeError):  # it died with what it had in hand, or was shut down
                left = iter(())
            if not held:
                return
            for future in wait(held, return_when=FIRST_COMPLETED).done:
                task = held.pop(future)
                try:
                    found: Outcome | BaseException = future.result()
                except (Exception, CancelledError) as error:
                    found = error
                yield task, found
    finally:
        for future in held:
            future.cancel()


def _failed(task: Task, error: BaseException) -> Outcome:
    """What to say of a task whose worker did not answer; Dask's name for one that died again and again is known."""
    if isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker":
        return Outcome(task, problem=_DIED)
    if isinstance(error, CancelledError):
        return Outcome(task, problem=_ENDED)
    return Outcome(task, problem=f"its worker failed: {type(error).__name__}: {error}".splitlines()[0])


class Summaries(Struct, frozen=True):
    """What is known of a job's ranks."""

    ranks: tuple[RankSummary, ...]
    """By rank, then by pass."""
    problems: tuple[tuple[int | None, str, str], ...] = ()
    """(rank, path in the job, why) of recordings that could not be summarised; of a file of summaries that can't be
    read, or of a part that is not here, the rank is None."""
    made: int = 0
    """How many were made now; the others were at hand."""
    absent: int = 0
    """How many recordings were not summarised because only what is at hand was asked for."""


def tasks_of(files: Sequence[RankFile], root: Path | None = None) -> tuple[Task, ...]:
    """The recordings of a job as tasks, named from its folder: by default the one that holds all that are given."""
    folder = root or (job_folder(files) if files else Path())
    paths = [file.path.absolute() for file in files]
    return tuple(
        Task(str(path), path.relative_to(folder).as_posix(), file.rank, file.recorded_pass)
        for file, path in zip(files, paths, strict=True)
    )


def read(
    files: Sequence[RankFile] | Sequence[Task],
    store: Store | None,
    *,
    also: Sequence[Store] = (),
    executor: Executor | Cluster | None = None,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    gathered: str = "job",
    make: bool = True,
) -> Summaries:
    """The summary of each recording.

    Args:
        files: the recordings; of a part of a job as tasks, which are named from the whole job's folder.
        store: where summaries are kept; None keeps none.
        also: where else some may lie; nothing is written there.
        executor: what reads the recordings, as for `outcomes`.
        jobs: how many processes, as for `outcomes`.
        progress: called with how many of how many recordings are done.
        gathered: the name of the file that holds all of them at the end.
        make: false takes only what is at hand.

    Raises:
        TraceError: the store can't be written.
    """
    every = [file for file in files if isinstance(file, Task)]
    every += tasks_of([file for file in files if not isinstance(file, Task)])
    own = {} if store is None else _marked(store)
    known = {**{mark: entry for other in also for mark, entry in _marked(other).items()}, **own}
    entries: dict[str, Stored] = {}
    problems: list[tuple[int, str, str]] = []
    tasks: list[Task] = []
    for task in every:
        try:
            mark = task.mark or mark_of(task.path)
        except OSError as error:
            problems.append((task.rank, task.name, worded(error)))
            continue
        if (held := known.get((task.name, mark))) is None:
            tasks.append(replace(task, mark=mark) if "://" in task.path else task)
        else:
            entries[task.name] = held
    at_hand, unmarked = len(entries), len(problems)
    for outcome in outcomes(tasks, executor=executor, jobs=jobs) if make else ():
        if outcome.content is None:
            problems.append((outcome.task.rank, outcome.task.name, outcome.problem or _UNREADABLE))
        elif made := unpacked(outcome.content):
            entries |= {entry.summary.path: entry for entry in made}
            if store is not None:
                store.add(outcome.task.name, outcome.content)
        if progress is not None:
            progress(len(entries) + len(problems) - unmarked, at_hand + len(tasks))
    said = {name for _, name, _ in problems}
    if make:
        problems += [(t.rank, t.name, _UNREADABLE) for t in tasks if t.name not in entries and t.name not in said]
    found: Sequence[Stored] = sorted(entries.values(), key=lambda entry: _order(entry.summary))
    if store is not None and any((name, entry.mark) not in own for name, entry in entries.items()):
        found = store.gather(found, gathered)
    ranks = sorted((entry.summary for entry in found), key=_order)
    absent = 0 if make else len(tasks)
    return Summaries(tuple(ranks), tuple(sorted(problems)), len(entries) - at_hand, absent)


def of_store(store: Store) -> Summaries:
    """The summaries in a folder, without their recordings, and what of them is missing, as far as the folder tells.

    Raises:
        TraceError: none can be read.
    """
    entries, unread = store.told()
    if not entries:
        first = next((f": {path.name} {why}" for path, why in unread), "")
        raise TraceError(store.folder, f"has no summaries that can be read{first}", _ANEW)
    found = tuple(sorted((entry.summary for entry in entries), key=_order))
    problems: list[tuple[int | None, str, str]] = [(None, path.name, f"{why}: {_ANEW}") for path, why in unread]
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


def _order(summary: RankSummary) -> tuple[int, str, str]:
    return summary.rank, summary.recorded_pass or "", summary.path
