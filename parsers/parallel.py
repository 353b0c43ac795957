"""Does work on several cores and yields the results in order, a few ahead of the consumer."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

THREADS = min(4, os.cpu_count() or 1)
Task = TypeVar("Task")
Done = TypeVar("Done")


def in_order(work: Callable[[Task], Done], tasks: Iterable[Task]) -> Iterator[Done]:
    """Runs the tasks on `THREADS` threads; when the consumer stops, the work stops."""
    if THREADS == 1:
        yield from map(work, tasks)
        return
    pool = ThreadPoolExecutor(THREADS)
    try:
        waiting: deque[Future[Done]] = deque()
        for task in tasks:
            waiting.append(pool.submit(work, task))
            if len(waiting) > THREADS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
