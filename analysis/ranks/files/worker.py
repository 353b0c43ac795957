"""What a worker process does: reads one rank's recording and gives back its summary, some tens of kilobytes.

Importing this module imports neither Polars nor NumPy: `prepare` must run before they start their threads.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

from msgspec import Struct


class Task(Struct, frozen=True):
    """One recording to summarise."""

    path: Path
    name: str
    """What it is called in its job: its path below the job's folder."""
    rank: int
    recorded_pass: str | None = None


class Outcome(Struct, frozen=True):
    """What became of a task."""

    task: Task
    content: bytes | None = None
    """The summary's file (`store.packed`); None where there is none."""
    problem: str = ""
    """Why there is none."""


_threads: int | None = None
"""How many threads the reader may use in this process; null leaves it to the reader."""


def prepare(threads: int) -> None:
    """Sets up a worker process: its threads, and that it ends when its parent does, however that ends.

    Args:
        threads: how many it may use; several workers share the cores.
    """
    os.environ.pop("_RJEM_MALLOC_CONF", None)  # the parent's, which keeps no freed page for the next frame
    # NumPy's BLAS starts a thread per core when it is imported, which nothing here uses
    for name in ("POLARS_MAX_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all of a terminal's processes; the parent decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    global _threads
    _threads = threads


def _end_with_parent() -> None:
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def work(task: Task) -> Outcome:
    """Reads and summarises one recording; what can't be read is said, never raised. The user's cache is left alone."""
    from tracetui.parsers.errors import TraceError

    try:
        return Outcome(task, _content(task))
    except TraceError as problem:
        return Outcome(task, problem=problem.problem)
    except MemoryError:
        return Outcome(task, problem="out of memory")
    except OSError as error:
        return Outcome(task, problem=(error.strerror or str(error)).lower())
    except Exception as error:  # one odd recording of a thousand must not cost the others
        return Outcome(task, problem=f"{type(error).__name__}: {error}; this is a bug in tracetui")


def _content(task: Task) -> bytes:
    from tracetui.analysis.ranks.files.store import Stored, mark_of, packed
    from tracetui.analysis.ranks.summarise import summarise
    from tracetui.parsers import resources
    from tracetui.parsers.runs.opening import open_path

    if _threads is not None:
        resources.THREADS = min(resources.THREADS, _threads)
    mark = mark_of(task.path)
    run = open_path(task.path, cache=False)
    found = summarise(run.main, task.name, rank=task.rank, recorded_pass=task.recorded_pass, manifest=run.manifest)
    return packed([Stored(found, mark, str(task.path.absolute()))])
