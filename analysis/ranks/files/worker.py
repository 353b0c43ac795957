"""What a worker process does: reads one rank's recording and gives back its summary, some tens of kilobytes.

Importing this module imports neither Polars nor NumPy: `prepare` must run before they start their threads.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct


class Task(Struct, frozen=True):
    """One recording to summarise."""

    path: str
    """An absolute path, or a URL that fsspec knows."""
    name: str
    """What it is called in its job: its path below the job's folder."""
    rank: int
    recorded_pass: str | None = None
    mark: str | None = None
    """Which state of it is meant, of one with a URL (`store.mark_of`)."""
    plain_bytes: int = 0
    """About how large one with a URL is when it is not compressed."""


class Outcome(Struct, frozen=True):
    """What became of a task."""

    task: Task
    content: bytes | None = None
    """The summary's file (`store.packed`); None where there is none."""
    problem: str = ""
    """Why there is none."""
    again: bool = False
    """Whether another attempt may find it: what was read from did not answer."""


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
        with _here(task) as path:
            return Outcome(task, _content(task, path))
    except TraceError as problem:
        return Outcome(task, problem=problem.problem)
    except MemoryError:
        return Outcome(task, problem="out of memory")
    except ImportError as error:
        return Outcome(task, problem=f"its worker lacks what reads it: {error}")
    except OSError as error:
        return Outcome(task, problem=worded(error), again=isinstance(error, ConnectionError))
    except Exception as error:  # one odd recording of a thousand must not cost the others
        return Outcome(task, problem=f"{type(error).__name__}: {error}; this is a bug in tracetui")


def worded(error: OSError) -> str:
    """Why a file can't be read; fsspec's errors of one that is gone say only its name."""
    gone = "no such file or directory" if isinstance(error, FileNotFoundError) else str(error)
    return (error.strerror or gone).lower()


def attempt(work: Callable[[Task], Outcome], task: Task) -> Outcome:
    """The same for a scheduler that runs again what raised.

    Raises:
        ConnectionError: another attempt may do better.
    """
    found = work(task)
    if found.again:
        raise ConnectionError(found.problem)
    return found


def joined(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Several outcomes as one, whose content has all their summaries, after those that have none."""
    from tracetui.analysis.ranks.files.store import packed, unpacked

    made = [(one.task, one.content) for one in outcomes if one.content is not None]
    whole = [Outcome(made[0][0], packed([entry for _, content in made for entry in unpacked(content)]))] if made else []
    return [*(one for one in outcomes if one.content is None), *whole]


@contextmanager
def _here(task: Task) -> Iterator[Path]:
    """A recording as a file of this machine: what has a URL is copied, with the run.json beside it, while it is read.

    Raises:
        OSError: it is not there, or may not be read; `ConnectionError` where its store did not answer.
    """
    if "://" not in task.path:
        yield Path(task.path)
        return
    from fsspec.core import url_to_fs

    from tracetui.parsers.runs.manifest import FILE
    from tracetui.parsers.written import scratch

    folder, _, name = task.path.rpartition("/")
    with scratch() as here:
        try:
            store, beside = url_to_fs(f"{folder}/{FILE}")
            if store.exists(beside):
                store.get_file(beside, str(here / FILE))
            store.get_file(store._strip_protocol(task.path), str(here / name))
        except (FileNotFoundError, PermissionError, ImportError):
            raise
        except Exception as error:  # each store has its own, which need not be known where this is said
            raise ConnectionError(f"{type(error).__name__}: {error}") from None
        yield here / name


def _content(task: Task, path: Path) -> bytes:
    from tracetui.analysis.ranks.files.store import Stored, mark_of, packed
    from tracetui.analysis.ranks.summarise import summarise
    from tracetui.parsers import resources
    from tracetui.parsers.runs.opening import open_path

    if _threads is not None:
        resources.THREADS = min(resources.THREADS, _threads)
    mark = task.mark or mark_of(path)
    run = open_path(path, cache=False)
    found = summarise(run.main, task.name, rank=task.rank, recorded_pass=task.recorded_pass, manifest=run.manifest)
    return packed([Stored(found, mark, task.path)])
