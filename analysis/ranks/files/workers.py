"""Runs `worker.work` for many recordings on any executor; by default on processes of this machine.

The processes are spawned: a child that was forked after Polars ran waits forever for a thread that it does not have.
"""

from __future__ import annotations

import os
import struct
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tracetui.analysis.ranks.files.worker import Outcome, prepare, work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tracetui.analysis.ranks.files.worker import Task

T = TypeVar("T")
IN_HAND = 64
"""How many recordings are handed to an executor at once whose workers can't be counted."""
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


def outcomes(
    tasks: Sequence[Task],
    *,
    executor: Executor | None = None,
    jobs: int | None = None,
    work: Callable[[Task], Outcome] = work,
) -> Iterator[Outcome]:
    """What became of each task, in the order in which they end.

    Args:
        tasks: the recordings.
        executor: what runs them; processes of this machine by default. It may come from anywhere: nothing is used of
            it but `submit`.
        jobs: how many processes; by default as many as there are cores and as fit into memory.
        work: what is done for each: a function of a module, which other processes can import.
    """
    if executor is not None:
        taken: set[int] = set()
        for task, found in _on(executor, tasks, IN_HAND, work):
            taken.add(id(task))
            yield found if isinstance(found, Outcome) else _failed(task, found)
        yield from (Outcome(task, problem=_ENDED) for task in tasks if id(task) not in taken)
        return
    sizes = [plain_size(task.path) for task in tasks]
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

    def submit(self, function: Callable[..., T], /, *arguments: Any, **named: Any) -> Future[T]:
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


def _on(
    executor: Executor, tasks: Sequence[Task], in_hand: int, work: Callable[[Task], Outcome]
) -> Iterator[tuple[Task, Outcome | BaseException]]:
    """Each task with what came of it; those that the executor did not take any more are left out."""
    left = iter(tasks)
    held: dict[Future[Outcome], Task] = {}
    try:
        while True:
            try:
                for task in islice(left, in_hand - len(held)):
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
