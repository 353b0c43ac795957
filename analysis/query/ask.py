"""Asks a query: starts the process that runs it, hands it the frames that it names, and ends it if it won't end."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracetui.parsers.written import scratch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import polars as pl

SECONDS = 30.0
"""How long a query may run."""
MEMORY = 1 << 30
"""How much memory it may use, bytes."""
THREADS = 2
MOST_ROWS = 100_000
"""The most rows that a result has."""
GRACE_S = 2.0
"""How much longer a process lives that does not obey: DuckDB does not look up within one call of a function."""
KEPT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "PYTHONDONTWRITEBYTECODE")
"""The variables that the process inherits; the others are nobody's business."""


NEEDS = "queries need DuckDB: pip install 'tracetui[query]'"


class Stop:
    """Ends a query from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = False
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def asked(self) -> bool:
        """Whether the query was to end."""
        return self._asked

    def now(self) -> None:
        """Ends the query's process; a query that has none yet starts none."""
        with self._lock:
            self._asked = True
            if self._process is not None:
                self._process.kill()

    def watch(self, process: subprocess.Popen[bytes]) -> None:
        """Names the process to end."""
        with self._lock:
            self._process = process
            if self._asked:
                process.kill()

    def check(self) -> None:
        """Raises the error of a query that was stopped."""
        if self._asked:
            raise QueryError("stopped")


class QueryError(Exception):
    """A query that is refused, wrong, or exceeds a limit; its text is one line."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a result."""

    name: str
    type: str
    """As DuckDB calls it, in lower case: ``bigint``, ``double``, ``varchar``, ``integer[]``."""
    of: str | None = None
    """The column of a frame that it has its unit of: ``duration`` of ``sum(duration) as total``; empty for none, and
    None where the query does not say."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a query."""

    frames: tuple[str, ...]
    """What it read."""
    columns: tuple[Column, ...]
    """Their names differ: of two that are called alike, the second has a number."""
    rows: tuple[tuple[object, ...], ...]
    """Values as JSON has them; times in the unit of the column that they come from."""
    more: bool
    """Whether there are more rows than were asked for."""


def is_there() -> bool:
    """Whether DuckDB is installed."""
    return importlib.util.find_spec("duckdb") is not None


def ask(
    sql: str,
    names: Sequence[str],
    frame: Callable[[Collection[str]], dict[str, pl.DataFrame]],
    *,
    numbered: Collection[str] = (),
    limit: int | None = None,
    seconds: float = SECONDS,
    memory: int = MEMORY,
    stop: Stop | None = None,
) -> Answer:
    """Runs one SELECT over frames.

    Args:
        sql: the query.
        names: the frames that there are.
        frame: makes the frames of these names; called with those that the query reads.
        numbered: the frames that have a column ``row``, the number of the row, from 0.
        limit: at most so many rows, `MOST_ROWS` at most.
        seconds: how long it may run.
        memory: how much memory it may use, bytes.
        stop: ends it from another thread.

    Raises:
        QueryError: it is refused, wrong, or exceeds a limit; the text is one line.
    """
    if not is_there():
        raise QueryError(NEEDS)
    try:
        sql.encode()
    except UnicodeEncodeError:
        raise QueryError("it is not valid UTF-8") from None
    with scratch() as folder:
        request = {
            "sql": sql,
            "folder": str(folder),
            "frames": list(names),
            "numbered": list(numbered),
            "limit": MOST_ROWS if limit is None else min(limit, MOST_ROWS),
            "seconds": seconds,
            "memory_bytes": memory,
            "threads": THREADS,
        }
        stop = stop or Stop()
        stop.check()
        with _Process(Path(folder)) as process:
            stop.watch(process.process)
            first = process.said(request, seconds + GRACE_S, stop)
            made = frame(first["frames"])
            stop.check()
            for name in first["frames"]:
                _keep(made[name], Path(folder, f"{name}.parquet"))
            found = process.said({}, seconds + GRACE_S, stop)
    return Answer(tuple(first["frames"]), _columns(found["columns"]), tuple(map(tuple, found["rows"])), found["more"])


def _keep(frame: pl.DataFrame, file: Path) -> None:
    """Writes a frame for the other process.

    Raises:
        QueryError: there is no room for it.
    """
    from polars.exceptions import PolarsError

    try:
        frame.write_parquet(file, compression="lz4")
    except (OSError, PolarsError) as error:
        why = str(error).rpartition("error: ")[2].lower()
        raise QueryError(
            f"no frame could be written to {file.parent.parent}: {why}; TMPDIR names another place"
        ) from error


class _Process:
    """The process of `worker`, which ends with the block."""

    def __init__(self, folder: Path) -> None:
        paths = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]  # noqa: PTH100
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tracetui.analysis.query.worker"],
            cwd=folder,  # a module of Python in the user's folder must not be imported
            env={
                **{name: os.environ[name] for name in KEPT if name in os.environ},
                "HOME": str(folder),
                **({"PYTHONPATH": os.pathsep.join(paths)} if paths else {}),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def said(self, message: dict[str, Any], seconds: float, stop: Stop) -> dict[str, Any]:
        """Says something and returns the answer.

        Raises:
            QueryError: the answer is an error, there is none, or it did not come in time.
        """
        late = threading.Event()

        def end() -> None:
            late.set()
            self.process.kill()

        timer = threading.Timer(seconds, end)
        timer.start()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = b""
        finally:
            timer.cancel()
        if late.is_set():
            raise QueryError(f"stopped after {seconds - GRACE_S:g} s; --timeout gives a query longer")
        stop.check()
        if not line.endswith(b"\n"):
            code = self.process.wait()
            raise QueryError(f"its process ended with {code}, perhaps for lack of memory; filter or aggregate earlier")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise QueryError(answer["error"])
        return answer


def _columns(found: Sequence[dict[str, str]]) -> tuple[Column, ...]:
    taken: set[str] = set()
    columns = []
    for column in found:
        name, number = column["name"], 1
        while name in taken:
            number += 1
            name = f"{column['name']}_{number}"
        taken.add(name)
        columns.append(Column(name, column["type"], column["of"]))
    return tuple(columns)
