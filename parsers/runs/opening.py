"""From a path to a Run: finds the traces, groups them by run, and opens one run's."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.parsers.errors import Cancelled, TraceError
from tracetui.parsers.progress import Progress, Watch
from tracetui.parsers.runs import cache as trace_cache
from tracetui.parsers.runs import manifest as run_manifest
from tracetui.parsers.runs import memory_limit, passes
from tracetui.parsers.runs.detect import Candidate, files_below, inspect, looks_like_trace
from tracetui.parsers.runs.grouping import group
from tracetui.parsers.runs.light_pass import RICH, LightPass
from tracetui.parsers.runs.run import Run
from tracetui.parsers.tool_registry import BY_KIND, EXAMPLES, KINDS, REPORT, function, tool_of

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from tracetui.parsers.runs.manifest import RunManifest
    from tracetui.parsers.trace import Trace

__all__ = ["Progress", "open_path"]


UNFINISHED = {
    "failed": "not all of this run went well",
    "interrupted": "this run was interrupted",
    "running": "this run was under way when its run.json was last written",
}
"""The note about a run that did not end normally, by the status in its run.json."""


def _unfinished(manifest: RunManifest) -> str:
    """What to say of a run that did not end normally; whether it still runs can be told on its own machine only."""
    pid, boot = manifest.identity.pid, manifest.identity.boot_id
    if manifest.status == "running" and pid is not None and boot is not None and boot == _boot_id():
        if Path(f"/proc/{pid}").exists():
            return f"this run is still under way (process {pid})"
        return "this run was cut off: tracetui was killed, or its machine failed"
    return UNFINISHED[manifest.status or ""]


def _boot_id() -> str | None:
    """What changes whenever this machine starts anew; null where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None


def open_path(
    *paths: Path | str,
    progress: Callable[[Progress], None] | None = None,
    cancel: threading.Event | None = None,
    cache: bool = True,
    choose: Callable[[Sequence[str]], int] | None = None,
) -> Run:
    """Opens a file or a folder as one run.

    If a folder has several runs, this opens the newest with a time line (by the time that `tensorboard_trace_handler`
    writes into the name, else the first by name), or else one without; `Run.others` lists the rest.

    Args:
        paths: a trace, several traces of one run (ranks, tools), or a folder that holds them.
        progress: called from the reading thread, a few times a second.
        cancel: once set, reading stops, and what was read so far is returned, marked partial.
        cache: keep and use parsed frames in the user's cache directory.
        choose: which run of a folder to open: gets the names of all, in order, and gives the place of one.

    Raises:
        TraceError: nothing readable was found.
        Cancelled: stopped before anything was read.
    """
    if not paths:
        raise ValueError("open_path needs at least one path")
    watch = Watch(progress, cancel)
    first = Path(paths[0])
    problems: list[TraceError] = []
    others: tuple[tuple[str, tuple[Path, ...]], ...] = ()
    place = 0
    lights: dict[Path, Candidate] = {}
    if len(paths) == 1 and not first.is_dir():
        files = [inspect(_existing(first))]
        if choose is not None:
            choose([first.name])
    elif len(paths) == 1:
        found_files, lights = passes.set_aside(_found_in(first, problems))
        runs = _runs_of(found_files, lambda candidate: _kernels_in(candidate, watch, cache))
        names = [_run_name(run, first) for run in runs]
        place = choose(names) if choose is not None else 0
        files = runs[place]
        found = [(name, tuple(c.path for c in run)) for name, run in zip(names, runs, strict=True)]
        others = (*found[:place], *found[place + 1 :])
    else:
        files, lights = passes.set_aside(
            found for given in map(Path, paths) for found in _files_of(_existing(given), problems)
        )
    traces = _open_all(files, watch, cache, problems)
    manifest = run_manifest.load(files[0].path.parent) if _in_one_folder(files) else None
    if manifest is not None and manifest.status in UNFINISHED:
        problems.append(TraceError(files[0].path.parent, _unfinished(manifest), manifest.outcome.explanation or ""))
    light = next((lights[file.path] for file in files if file.path in lights), None)
    light = light or passes.light_beside(files, manifest)
    light_pass = None if light is None else LightPass(light.path, partial(_open, light, Watch(), cache))
    parts = files if light is None else [*files, light]
    path = first if len(paths) == 1 and not others and manifest is None else _path_of(files, parts)
    # files that were named one by one keep their order: the first is what the others are compared with
    order = _by_rank_and_tool if len(paths) == 1 else lambda trace: _by_rank_and_tool(trace)[:2]
    traces = [_with_program(trace, manifest, light_pass) for trace in traces]
    ordered = tuple(sorted(traces, key=order))
    return Run(path, ordered, tuple(map(str, problems)), others, manifest, place, light_pass)


def _with_program(trace: Trace, manifest: RunManifest | None, light_pass: LightPass | None) -> Trace:
    """The trace with what its run says of the program without a profiler."""
    if not trace.has_timeline:
        return trace
    light = light_pass.read if light_pass is not None and trace.info.recorded_pass == RICH else None
    return replace(trace, clean_step_ns=manifest.clean_steps(trace.info.rank) if manifest else (), light=light)


def _existing(path: Path) -> Path:
    if not path.exists():
        raise TraceError(path, "no such file or folder", "check the path")
    if not path.is_dir() and not path.is_file():  # opening a pipe would wait for somebody to write to it
        raise TraceError(path, "neither a file nor a folder", "save what it gives to a file and open that")
    return path


def _files_of(path: Path, problems: list[TraceError]) -> list[Candidate]:
    """The files of one of several paths; what can't be opened among them is a problem to mention."""
    try:
        return _found_in(path, problems) if path.is_dir() else [inspect(path)]
    except TraceError as problem:
        problems.append(problem)
        return []


def _by_rank_and_tool(trace: Trace) -> tuple[int, int, str]:
    rank = trace.info.rank if trace.info.rank is not None else 1 << 30
    return (rank, KINDS.index(trace.info.kind), trace.source.path.name)


def _open_all(files: list[Candidate], watch: Watch, use_cache: bool, problems: list[TraceError]) -> list[Trace]:
    """Opens each file; an unreadable one is noted as a problem, and it is an error if all are unreadable."""
    traces: list[Trace] = []
    for candidate in files:
        if watch.cancelled and traces:
            problems.append(TraceError(candidate.path, "not opened", "loading was stopped before it"))
            continue
        try:
            traces.append(_open(candidate, watch, use_cache))
        except TraceError as problem:
            problems.append(problem)
        except Cancelled:
            if not traces:
                raise
    if not traces:
        raise problems[0]
    if sum(trace.info.kind == "ncu" for trace in traces) > 1:
        from tracetui.parsers.ncu.pages import join_pages

        return join_pages(traces)
    if any(_has_counted(trace) for trace in traces):
        from tracetui.parsers.chrome.devices.counted import split_counted

        return [part for trace in traces for part in split_counted(trace)]
    return traces


def _has_counted(trace: Trace) -> bool:
    """Whether the file has counters of kernels in place of their times."""
    return trace.info.kind == "chrome" and "counted" in trace.device["kind"].unique().to_list()


def _read(candidate: Candidate, watch: Watch) -> Trace:
    # a reader's tables take as long to import as a cached trace takes to open
    if candidate.kind.endswith(REPORT):
        from tracetui.parsers.runs.nvidia_reports import read_report

        return read_report(candidate.path, candidate.kind, watch)
    memory_limit.check(candidate.path, candidate.kind)
    read: Callable[[Path, Watch], Trace] = function(BY_KIND[candidate.kind].reader)
    return read(candidate.path, watch)


def _open(candidate: Candidate, watch: Watch, use_cache: bool) -> Trace:
    """The candidate's trace; where only the folder tells ranks apart, with the rank found there."""
    trace = _cached_or_read(candidate, watch, use_cache)
    if trace.info.rank is None and candidate.rank is not None:
        info = replace(trace.info, rank=candidate.rank, world_size=trace.info.world_size or candidate.world_size)
        return replace(trace, info=info)
    return trace


def _cached_or_read(candidate: Candidate, watch: Watch, use_cache: bool) -> Trace:
    path = candidate.path
    if not use_cache:
        return _read(candidate, watch)
    try:
        key = trace_cache.key_of(path)
    except OSError as error:
        raise TraceError(path, (error.strerror or str(error)).lower()) from error
    if (cached := trace_cache.load(key, path)) is not None:
        watch.report(Progress("cached", cached.source.bytes, cached.source.bytes, cached.source.events_parsed, path))
        return cached
    trace = _read(candidate, watch)
    if not trace.source.partial:
        trace_cache.store(key, trace)
    return trace


def _runs_of(files: list[Candidate], kernels_of: Callable[[Candidate], frozenset[str]]) -> list[list[Candidate]]:
    """The runs among the files of a folder, newest first."""
    found = sorted(_with_hosts_as_ranks(files), key=lambda c: (-c.stamp, str(c.path)))
    launched: dict[Path, list[Candidate]] = {}
    loose: list[Candidate] = []
    for candidate in found:
        beside = candidate.path.parent
        (launched.setdefault(beside, []) if (beside / run_manifest.FILE).is_file() else loose).append(candidate)
    by_launch = list(launched.items())
    if len(by_launch) > 1:  # reading a run.json takes long
        by_launch.sort(key=lambda entry: (-_started(entry[0]), str(entry[0])))
    return [files for _, files in by_launch] + group(loose, kernels_of)


def _started(folder: Path) -> int:
    """When the run of this folder was launched, ns since 1970; 0 where its run.json does not say."""
    manifest = run_manifest.load(folder)
    return (manifest.identity.started_unix_ns or 0) if manifest else 0


def _in_one_folder(files: list[Candidate]) -> bool:
    return len({candidate.path.parent for candidate in files}) == 1


def _path_of(files: list[Candidate], parts: list[Candidate]) -> Path:
    """The path that names a run which is only part of a folder: its one file, its own folder, or its main file.

    Args:
        files: those that the run was opened from.
        parts: these, and those that are read only when they are asked for.
    """
    folder = files[0].path.parent
    main = _main_of(files).path
    launched = (folder / run_manifest.FILE).is_file()
    if not _in_one_folder(files) or (len(files) == 1 and not launched):
        return main
    own = {candidate.path for candidate in parts}
    return folder if all(path in own or not looks_like_trace(path) for path in files_below(folder, 1)) else main


def _main_of(files: list[Candidate]) -> Candidate:
    """The file of the tool that sees the most of the program, the first of several."""
    return min(files, key=lambda candidate: KINDS.index(tool_of(candidate.kind)))


def _found_in(folder: Path, problems: list[TraceError]) -> list[Candidate]:
    """The files of a folder that can be opened.

    Raises:
        TraceError: there are none.
    """
    found: list[Candidate] = []
    bad: list[TraceError] = []
    for path in files_below(folder):
        if not looks_like_trace(path):
            continue
        try:
            candidate = inspect(path)
            if candidate.kind.endswith(REPORT):
                _check_tool(candidate)
            found.append(candidate)
        except TraceError as problem:
            bad.append(problem)
    if not found:
        if bad:
            raise bad[0]
        if (manifest := run_manifest.load(folder)) is not None:
            why = manifest.outcome.explanation or (
                _unfinished(manifest) if manifest.status in UNFINISHED else f"its run.json says: {manifest.status}"
            )
            raise TraceError(folder, f"this run left no recording: {why}", "log.txt in it may say more")
        raise TraceError(
            folder,
            "no trace in this folder",
            f"give a folder with {EXAMPLES}",
        )
    problems.extend(bad)
    return found


def _kernels_in(candidate: Candidate, watch: Watch, use_cache: bool) -> frozenset[str]:
    """The keys of a file's kernels; none where it can't be read, which opening it will say."""
    if watch.cancelled:
        return frozenset()
    known = BY_KIND.get(candidate.kind)
    if known is not None and known.kernel_names:
        quick: Callable[[Path, Watch], frozenset[str]] = function(known.kernel_names)
        return quick(candidate.path, watch)
    from tracetui.parsers.runs.kernel_peek import trace_kernel_keys

    try:
        return trace_kernel_keys(_cached_or_read(candidate, watch, use_cache))
    except TraceError:
        return frozenset()


def _check_tool(candidate: Candidate) -> None:
    from tracetui.parsers.runs.nvidia_reports import tool_for

    tool_for(candidate.path, candidate.kind)


def _with_hosts_as_ranks(found: list[Candidate]) -> list[Candidate]:
    """Numbers the hosts of a JAX run: their traces share a folder ``plugins/profile/<run>/`` and don't say a rank."""
    hosts: dict[Path, list[Candidate]] = {}
    for candidate in sorted(found, key=lambda c: c.path.name):
        if candidate.kind == "chrome" and candidate.rank is None and candidate.path.parent.parent.name == "profile":
            hosts.setdefault(candidate.path.parent, []).append(candidate)
    ranks = {
        candidate.path: replace(candidate, rank=rank, world_size=len(of_run))
        for of_run in hosts.values()
        if len(of_run) > 1
        for rank, candidate in enumerate(of_run)
    }
    return [ranks.get(candidate.path, candidate) for candidate in found]


def _run_name(run: list[Candidate], below: Path) -> str:
    """What a run is called in a list of those below a folder."""
    first = run[0]
    if (first.path.parent / run_manifest.FILE).is_file():
        return first.path.parent.relative_to(below).as_posix()
    if len(run) == 1:
        return first.path.name
    if all(candidate.rank is not None for candidate in run):
        return f"{first.path.parent.name}: {len(run)} ranks"
    return f"{_main_of(run).path.name} and {len(run) - 1} more"
