"""How reading uses the machine: work on several cores in order, and settings of glibc's allocator."""

from __future__ import annotations

import ctypes
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import chain, islice
from typing import Any, TypeVar

THREADS = min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
Task = TypeVar("Task")
Done = TypeVar("Done")
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -3, -4
_MMAP_MAX = 1 << 16
"""glibc's own limit of mapped blocks."""
CHUNK_SIZED = 32 << 20
"""Smaller blocks are the short-lived ones of a chunk and stay in the heap; larger ones are mapped and unmapped."""

WORTH_RELEASING = 4 << 20
"""How many bytes must be free before a search of the whole heap for them pays."""


def in_order(work: Callable[[Task], Done], tasks: Iterable[Task]) -> Iterator[Done]:
    """Runs the tasks on `THREADS` threads, a single one on this; when the consumer stops, the work stops."""
    tasks = iter(tasks)
    first = list(islice(tasks, 2))
    if THREADS == 1 or len(first) < 2:
        yield from map(work, chain(first, tasks))
        return
    pool = ThreadPoolExecutor(THREADS)
    try:
        waiting: deque[Future[Done]] = deque()
        for task in chain(first, tasks):
            waiting.append(pool.submit(work, task))
            if len(waiting) > THREADS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@cache
def _libc() -> Any:
    try:
        libc = ctypes.CDLL(None)
        return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None
    except OSError:
        return None


def keep_chunks_in_heap(largest: int = CHUNK_SIZED) -> None:
    """Stops freed blocks of up to `largest` bytes from going back to the kernel each time: fewer page faults.

    With `release_freed` it halves a load's cost and peak memory; without glibc both do nothing.
    """
    if libc := _libc():
        libc.mallopt(_M_MMAP_THRESHOLD, largest)
        libc.mallopt(_M_TRIM_THRESHOLD, 8 * largest)


@contextmanager
def freed_blocks_stay() -> Iterator[None]:
    """Stops freed blocks of any size from going back to the kernel while one analysis follows the other.

    They need arrays of the same sizes in turn: pages that the kernel fills with zeros anew each time cost up to half of
    the processor time. In the end free pages go back. Only the main thread's blocks stay, and only with glibc.
    """
    libc = _libc()
    if libc is None:
        yield
        return
    libc.mallopt(_M_MMAP_MAX, 0)
    libc.mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)
    try:
        yield
    finally:
        libc.mallopt(_M_MMAP_MAX, _MMAP_MAX)
        libc.mallopt(_M_TRIM_THRESHOLD, 8 * CHUNK_SIZED)
        release_freed()


def release_freed() -> None:
    """Returns the heap's free pages to the kernel, before long-lived columns take their place.

    It looks at the whole heap, so callers do it once per read and then per `WORTH_RELEASING` bytes.
    """
    if libc := _libc():
        libc.malloc_trim(0)
