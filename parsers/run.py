"""From a path to a Run: finds the traces, groups them by run, and opens one run's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.parsers import cache as trace_cache
from tracetui.parsers.detect import Candidate, files_below, inspect, looks_like_trace
from tracetui.parsers.errors import Cancelled, TraceError
from tracetui.parsers.progress import Progress, Watch
from tracetui.parsers.trace import Run, Trace

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

__all__ = ["Progress", "open_path"]


def open_path(
    *paths: Path | str,
    progress: Callable[[Progress], None] | None = None,
    cancel: threading.Event | None = None,
    cache: bool = True,
) -> Run:
    """Opens a file or a folder as one run.

    Of a folder with several runs the newest is opened (by the time that `tensorboard_trace_handler` writes into the
    name, else the first by name); the rest are listed in `Run.others`.

    Args:
        paths: a trace, several traces of one run (ranks, tools), or a folder that holds them.
        progress: called from the reading thread, a few times a second.
        cancel: once set, reading stops, and what was read so far is returned, marked partial.
        cache: keep and use parsed frames in the user's cache directory.

    Raises:
        TraceError: nothing readable was found.
        Cancelled: stopped before anything was read.
    """
    if not paths:
        raise ValueError("open_path needs at least one path")
    watch = Watch(progress, cancel)
    first = Path(paths[0])
    warnings: list[str] = []
    others: tuple[tuple[str, tuple[Path, ...]], ...] = ()
    if len(paths) == 1 and not first.is_dir():
        files = [inspect(_existing(first)).path]
    elif len(paths) == 1:
        runs = _runs_in(first, warnings)
        files = [candidate.path for candidate in runs[0]]
        others = tuple((_run_name(run), tuple(c.path for c in run)) for run in runs[1:])
    else:
        files = [path for given in map(Path, paths) for path in _files_of(_existing(given), warnings)]
    traces = _open_all(files, watch, cache, warnings)
    path = files[0] if others and len(files) == 1 else first
    return Run(path, tuple(sorted(traces, key=_by_rank)), tuple(warnings), others)


def _existing(path: Path) -> Path:
    if not path.exists():
        raise TraceError(path, "no such file or folder", "check the path")
    if not path.is_dir() and not path.is_file():  # opening a pipe would wait for somebody to write to it
        raise TraceError(path, "neither a file nor a folder", "save what it gives to a file and open that")
    return path


def _files_of(path: Path, warnings: list[str]) -> list[Path]:
    if path.is_dir():
        return [candidate.path for run in _runs_in(path, warnings) for candidate in run]
    return [path]


def _by_rank(trace: Trace) -> tuple[int, str]:
    return (trace.info.rank if trace.info.rank is not None else 1 << 30, trace.source.path.name)


def _open_all(files: list[Path], watch: Watch, use_cache: bool, warnings: list[str]) -> list[Trace]:
    """Opens each file; one bad among good ones is a warning, all bad is an error."""
    traces: list[Trace] = []
    error: TraceError | None = None
    for path in files:
        if watch.cancelled and traces:
            warnings.append(f"{path}: not opened; loading was stopped before it")
            continue
        try:
            traces.append(_open(path, watch, use_cache))
        except TraceError as problem:
            error = error or problem
            warnings.append(str(problem))
        except Cancelled:
            if not traces:
                raise
    if not traces:
        raise error or TraceError(files[0], "nothing readable was found")
    return traces


def _read(path: Path, watch: Watch) -> Trace:
    # the reader's tables take as long to import as a cached trace takes to open
    from tracetui.parsers.chrome.reader import read_chrome

    return read_chrome(path, watch)


def _open(path: Path, watch: Watch, use_cache: bool) -> Trace:
    if not use_cache:
        return _read(path, watch)
    try:
        key = trace_cache.key_of(path)
    except OSError as error:
        raise TraceError(path, (error.strerror or str(error)).lower()) from error
    if (cached := trace_cache.load(key, path)) is not None:
        watch.report(Progress("cached", cached.source.bytes, cached.source.bytes, cached.source.events_parsed, path))
        return cached
    trace = _read(path, watch)
    if not trace.source.partial:
        trace_cache.store(key, trace)
    return trace


def _runs_in(folder: Path, warnings: list[str]) -> list[list[Candidate]]:
    """The runs of a folder, newest first."""
    found: list[Candidate] = []
    problems: list[TraceError] = []
    for path in files_below(folder):
        if not looks_like_trace(path):
            continue
        try:
            found.append(inspect(path))
        except TraceError as problem:
            problems.append(problem)
    if not found:
        if problems:
            raise problems[0]
        raise TraceError(folder, "no trace in this folder", "give a folder with *.pt.trace.json or .json.gz files")
    warnings.extend(map(str, problems))
    runs: dict[tuple[object, ...], list[Candidate]] = {}
    for candidate in sorted(found, key=lambda c: (-c.stamp, str(c.path))):
        runs.setdefault(_run_key(candidate, runs), []).append(candidate)
    return list(runs.values())


def _run_key(candidate: Candidate, runs: dict[tuple[object, ...], list[Candidate]]) -> tuple[object, ...]:
    """Ranks of one world in one folder are one run until a rank repeats; anything else is a run of its own."""
    if candidate.rank is None or candidate.world_size == 1:
        return (candidate.path,)
    number = 0
    while True:
        key = (candidate.path.parent, candidate.world_size or candidate.family, number)
        if all(other.rank != candidate.rank for other in runs.get(key, [])):
            return key
        number += 1


def _run_name(run: list[Candidate]) -> str:
    first = run[0]
    if len(run) == 1:
        return first.path.name
    return f"{first.path.parent.name}: {len(run)} ranks"
