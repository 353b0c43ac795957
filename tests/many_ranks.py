"""Jobs of many small ranks, and what their workers do when one of them dies."""

import os
import signal
import time
from pathlib import Path

from chrome_file import ChromeFile

from tracetui.analysis.ranks.files.worker import Outcome, Task, work

LATE = 3
KILLED = 2
"""The rank whose recording kills whoever reads it, in `dies`."""


def rank_file(rank: int, world: int) -> ChromeFile:
    """Two steps of 100 µs with a kernel of 40 µs, of 60 on `LATE`, and an all-reduce of 20."""
    file = ChromeFile(
        distributedInfo={"backend": "nccl", "rank": rank, "world_size": world}, baseTimeNanoseconds=10**18 + rank
    )
    for number in range(2):
        at = 1000 + 100 * number
        file.step(number, at, at + 100)
        file.launch("gemm", (at + 1, at + 3), (at + 10, at + (70 if rank == LATE else 50)))
        file.launch("ncclDevKernel_AllReduce", (at + 4, at + 6), (at + 71, at + 91), stream=9)
    return file


def write_job(folder: Path, ranks: int, world: int | None = None) -> list[Path]:
    """The recordings of the first ranks of a job."""
    folder.mkdir(parents=True, exist_ok=True)
    return [rank_file(rank, world or ranks).write(folder / f"rank{rank}.pt.trace.json") for rank in range(ranks)]


def dies(task: Task) -> Outcome:
    """Stands in for `worker.work`: reads nothing, and dies with one of the ranks."""
    if task.rank == KILLED:
        os.kill(os.getpid(), signal.SIGKILL)
    return Outcome(task, content=str(task.rank).encode())


def waits(task: Task) -> Outcome:
    """Stands in for `worker.work`: one of the ranks ends only when there is a file ``go`` beside its recording."""
    if task.rank == KILLED:
        for _ in range(3000):
            if Path(task.path).with_name("go").exists():
                break
            time.sleep(0.1)
    return work(task)


def fails_once(task: Task) -> Outcome:
    """Stands in for `worker.work`: a store that answers at the second attempt, with nothing that is a summary."""
    if Path(task.path).exists():
        return Outcome(task, problem=f"read {task.rank}")
    Path(task.path).touch()
    return Outcome(task, problem="no answer", again=True)
