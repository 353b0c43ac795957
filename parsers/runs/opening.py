"""From a path to a Run: opens what `finding` finds, of a job of many ranks only one."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from tracetui.parsers import replays, schema
from tracetui.parsers.bounds import bounded
from tracetui.parsers.bytes_source import GZIP_MAGIC, INFLATED_RATIO, read_all
from tracetui.parsers.errors import Cancelled, TraceError
from tracetui.parsers.progress import Progress, Watch
from tracetui.parsers.runs import cache as trace_cache
from tracetui.parsers.runs import claims, comments, proofs
from tracetui.parsers.runs import manifest as run_manifest
from tracetui.parsers.runs.detect import Candidate, files_below, looks_like_trace
from tracetui.parsers.runs.entries import state_at
from tracetui.parsers.runs.finding import UNFINISHED, Found, find, light_beside, main_file, unfinished
from tracetui.parsers.runs.manifest import RunManifest
from tracetui.parsers.runs.run import LIGHT, RICH, LightPass, RankFile, Run
from tracetui.parsers.tool_registry import BY_KIND, KINDS, REPORT, function, tool_of
from tracetui.parsers.trace import Note, Trace

VARIABLE = "TRACETUI_MAX_MEMORY"
"""How many bytes the program may take to read a recording; without it, what the machine has free."""
FIXED = 48 << 20
"""What reading any file takes, however small."""
FACTORS = {
    "chrome": 0.8,
    "nsys": 1.8,
    "ncu": 6.0,
    "ncu raw": 25.0,
    "ncu report": 9.0,
    "memory_snapshot": 8.5,
    "rocprof": 5.0,
    "jax": 12.0,
}
"""The peak of memory by byte of the inflated file, as measured on recordings of 30 MB and more."""
_LEAST_RATIO = 4
"""Recordings inflate to 4 times their size and more: which of the sizes is meant that have the same lowest 32 bits."""
_PEEK = 1 << 16
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def check(path: Path, kind: str) -> None:
    """Refuses a file that takes more memory to read than may be taken.

    Raises:
        TraceError: it is refused; says how much it takes and how much there is.
    """
    wanted = estimate(path, kind)
    allowed = _given()
    if allowed is not None:
        taken = _taken()
        if wanted + taken > allowed:
            more = "raise it, or give a recording with fewer steps"
            total = f"reading it takes about {size(wanted + taken)} of memory in all"
            raise TraceError(path, f"{total}, --max-memory allows {size(allowed)}", more)
    elif (free := free_bytes()) is not None and wanted > free:
        more = f"--max-memory {-(-wanted // (1 << 30)) + 1}GiB"
        advice = f"{more} reads it all the same, a recording with fewer steps needs less"
        raise TraceError(path, f"reading it takes about {size(wanted)} of memory, {size(free)} are free", advice)


def estimate(path: Path, kind: str) -> int:
    """About how much memory reading a file takes, bytes."""
    if kind == "ncu" and b'"Metric Name"' not in (head := read_all(path, _PEEK)):
        # a column for each metric, of which most cells are short
        kind = "ncu report" if head.startswith(b"NVR") else "ncu raw"
    return FIXED + int(FACTORS.get(kind, 0.0) * _inflated(path))


def _inflated(path: Path) -> int:
    """The size of a file's content: of a gzip file what its last four bytes say, which are the lowest 32 bits."""
    try:
        with path.open("rb") as file:
            on_disk = os.fstat(file.fileno()).st_size
            if file.read(2) != GZIP_MAGIC or on_disk < 18:
                return on_disk
            file.seek(-4, os.SEEK_END)
            found = int.from_bytes(file.read(4), "little")
    except OSError as error:
        raise TraceError(path, (error.strerror or str(error)).lower()) from error
    if found > INFLATED_RATIO * on_disk:  # the file ends early, and these bytes say something else
        return _LEAST_RATIO * on_disk
    while found < on_disk * _LEAST_RATIO and on_disk * _LEAST_RATIO > 1 << 32:
        found += 1 << 32
    return max(found, on_disk)


def _given() -> int | None:
    """The limit that the user gave; None if none."""
    try:
        return int(os.environ[VARIABLE])
    except (KeyError, ValueError):
        return None


def _taken() -> int:
    """What this process takes already, bytes; 0 where the system does not say."""
    with suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0


def free_bytes() -> int | None:
    """What the machine, or the group that this program runs in, has free; None where the system does not say."""
    found: dict[str, int] = {}
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            name, _, rest = line.partition(":")
            found[name] = int(rest.split()[0]) << 10
    if "MemAvailable" not in found:
        return None
    free = found["MemAvailable"] + found.get("SwapFree", 0)
    group = _group_free(Path("/sys/fs/cgroup"))
    return free if group is None else min(free, group)


def _group_free(folder: Path) -> int | None:
    """What the control group may still take, its cached files not counted; None where it has no limit."""
    with suppress(OSError, ValueError):
        limit = int((folder / "memory.max").read_text(encoding="ascii"))
        taken = int((folder / "memory.current").read_text(encoding="ascii"))
        stat = dict(line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines())
        return limit - taken + int(stat.get("inactive_file", 0))
    return None


def size(value: float) -> str:
    """A size in words: ``1.5 GiB``."""
    unit = 0
    while value >= 1023.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.3g} {_UNITS[unit]}"


__all__ = ["Progress", "find_ranks", "open_path"]

NAMED = 3
"""So many runs that are left out are named."""
READ_AT_ONCE = 8
"""A job of more ranks is read rank by rank, as they are asked for: each takes time and memory."""


def open_path(
    *paths: Path | str,
    progress: Callable[[Progress], None] | None = None,
    cancel: threading.Event | None = None,
    cache: bool = True,
    choose: Callable[[Sequence[str]], int] | None = None,
    rank: int | None = None,
) -> Run:
    """Opens a file or a folder as one run.

    If a folder has several runs, this opens the newest with a time line (by the time that `tensorboard_trace_handler`
    writes into the name, else the first by name), or else one without; `Run.others` lists the rest. Of a job of more
    than `READ_AT_ONCE` ranks one rank is read; `Run.with_rank` reads another.

    Args:
        paths: a trace, several traces of one run (ranks, tools), or a folder that holds them.
        progress: called from the reading thread, a few times a second.
        cancel: once set, reading stops, and what was read so far is returned, marked partial.
        cache: keep and use parsed frames in the user's cache directory.
        choose: which run of a folder to open: gets the names of all, in order, and gives the place of one.
        rank: the rank to read of a job of many; the lowest by default.

    Raises:
        TraceError: nothing readable was found.
        Cancelled: stopped before anything was read.
    """
    if sys.platform != "win32":  # since Polars was imported, Ctrl+C has not ended a wait for a pipe or a process
        signal.siginterrupt(signal.SIGINT, True)
    watch = Watch(progress, cancel)
    if len(paths) == 1 and (only := Path(paths[0])).name == run_manifest.FILE and only.is_file():
        return _machine_alone(only)
    found = find(paths, partial(_kernels_in, watch=watch, use_cache=cache), choose)
    files, problems = found.files, found.problems
    manifest = run_manifest.load(files[0].path.parent) if _in_one_folder(files) else None
    lights = _light_passes(found, manifest, cache)
    traces = _open_some(files, rank, watch, cache, problems)
    if manifest is not None and manifest.status in UNFINISHED:
        problems.append(TraceError(files[0].path.parent, unfinished(manifest), manifest.outcome.explanation or ""))
    if manifest is not None:
        if (why := claims.contradiction(manifest, traces)) is not None:
            manifest = claims.without_claims(manifest, why)
        beside = files[0].path.parent / run_manifest.FILE
        problems += [TraceError(beside, note.reason, note.example) for note in manifest.noted]
    folder = files[0].path.parent
    proved, unproved = proofs.load(folder) if manifest is not None else ((), None)
    unread = ((proofs.FILE, unproved), (comments.FILE, comments.problem_in(folder)))
    problems += [TraceError(folder / name, why) for name, why in unread if why is not None]
    first = Path(paths[0])
    whole = len(paths) == 1 and not found.others and manifest is None
    path = first if whole else _path_of(files, [*files, *found.lights.values()])
    # files that were named one by one keep their order: the first is what the others are compared with
    order = _by_rank_and_tool if len(paths) == 1 else lambda trace: _by_rank_and_tool(trace)[:2]
    problems += _of_other_engines(traces)
    traces = [_with_program(trace, manifest, lights.get(trace.source.path)) for trace in traces]
    ordered = _with_board(sorted(traces, key=order), manifest, folder)
    return Run(
        path,
        ordered,
        tuple(map(str, problems)),
        found.others,
        manifest,
        found.place,
        next((lights[trace.source.path] for trace in ordered if trace.source.path in lights), None),
        _rank_files(found, manifest, lights, cache),
        proved,
        cache,
    )


def _machine_alone(path: Path) -> Run:
    """What a run.json says of the machine, as a run of its own."""
    from tracetui.parsers.runs.board import of_run

    manifest = run_manifest.load(path.parent)
    board = of_run(manifest, path) if manifest is not None else None
    if board is None:
        raise TraceError(path, "what tracetui says of a run, without samples of its machine", f"open {path.parent}")
    return Run(path, (board,), manifest=manifest)


def find_ranks(
    *paths: Path | str, choose: Callable[[Sequence[str]], int] | None = None, cache: bool = True
) -> tuple[tuple[RankFile, ...], tuple[str, ...]]:
    """The recordings of a job's ranks, and lines about files that are left out; nothing is read.

    A recording that belongs to no rank counts as rank 0 where it is the only one.

    Raises:
        TraceError: there is no recording.
    """
    found = find(paths, partial(_kernels_in, watch=Watch(), use_cache=cache), choose)
    files = _rank_files(found, None, {}, cache)
    if not files and len(found.files) == 1:
        only = found.files[0]
        files = (RankFile(only.path, 0, only.kind, only.world_size, only.recorded_pass),)
    problems = tuple(map(str, found.problems))
    if choose is None and found.others:
        problems = (*problems, _left_out(Path(paths[0]), found, len(files)))
    return files, problems


def _left_out(folder: Path, found: Found, ranks: int) -> str:
    """That a folder has several runs, of which one is read."""
    names = [name for name, _ in found.others]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    said = f"{folder}: one of {len(names) + 1} runs in this folder; left out: {', '.join(names[:NAMED])}{more}"
    if ranks < 2 and all(file.rank is None for file in found.files):
        example = f"rank0.{found.files[0].path.name.partition('.')[2]}"
        said += f"; recordings are one job if their headers or names say their ranks ({example})"
    return said


def _light_passes(found: Found, manifest: RunManifest | None, cache: bool) -> dict[Path, LightPass]:
    """The light recording of each rich one's path, to be read when it is asked for."""
    if not found.lights and (light := light_beside(found.files, manifest)) is not None:
        found.lights |= {file.path: light for file in found.files if file.recorded_pass == RICH}

    def read(light: Candidate) -> Trace:
        if state_at(light.path) != light.state:  # its times would be beside another recording's
            raise TraceError(light.path, "changed while its run was open", "open the run again")
        return _open(light, Watch(), cache)

    return {path: LightPass(light.path, partial(read, light)) for path, light in found.lights.items()}


def _rank_files(
    found: Found, manifest: RunManifest | None, lights: dict[Path, LightPass], cache: bool
) -> tuple[RankFile, ...]:
    """Every recording of the run's ranks by the tool that sees the most of the program, by rank."""
    ranked = [file for file in found.files if file.rank is not None]
    if len({file.rank for file in ranked}) < 2:
        return ()
    tool = tool_of(main_file(ranked).kind)
    every = [file for file in ranked if tool_of(file.kind) == tool]
    every += [found.lights[file.path] for file in every if file.path in found.lights]

    def read(file: Candidate, watch: Watch) -> Trace:
        return _with_program(_open(file, watch, cache), manifest, lights.get(file.path))

    files = [
        RankFile(file.path, file.rank, file.kind, file.world_size, file.recorded_pass, partial(read, file))
        for file in every
        if file.rank is not None
    ]
    return tuple(sorted(files, key=lambda file: (file.rank, file.recorded_pass == LIGHT)))


def _open_some(
    files: list[Candidate], rank: int | None, watch: Watch, cache: bool, problems: list[TraceError]
) -> list[Trace]:
    """Opens the files of a run; of a job of many ranks those of one rank, and those that belong to none.

    A rank that can't be read is a problem to mention, and the next one is read in its place.
    """
    ranks = sorted({file.rank for file in files if file.rank is not None})
    if len(ranks) <= READ_AT_ONCE:
        return _open_all(files, watch, cache, problems)
    if rank in ranks:
        ranks = [rank]
    for one in ranks:
        chosen = [file for file in files if file.rank in (one, None)]
        failed: list[TraceError] = []
        try:
            traces = _open_all(chosen, watch, cache, failed)
        except TraceError as problem:
            failed = failed or [problem]
            traces = []
        problems.extend(failed)
        if any(trace.info.rank == one for trace in traces):
            return traces
    raise problems[-1]


ATTACHED = "clean step without CUPTI, attached since graphs were captured (TRACETUI_CAPTURES=0 leaves captures out)"
"""What clean steps are not where captures were recorded before them."""


def _with_program(trace: Trace, manifest: RunManifest | None, light_pass: LightPass | None) -> Trace:
    """The trace with what its run says of the program without a profiler."""
    if not trace.has_timeline:
        return trace
    light = light_pass.read if light_pass is not None and trace.info.recorded_pass == RICH else None
    own = manifest is not None and claims.device_apart(manifest, trace) is None
    clean = manifest.clean_steps(trace.info.rank) if manifest and own else trace.clean_step_ns
    given_out = manifest.clean_hosts(trace.info.rank) if manifest and own else ()
    notes = trace.notes
    beside = set(trace.replays.files) - {trace.source.path.name} if trace.replays else ()
    # a program's captures come before its clean steps, those of a model that tracetui runs after them
    if manifest and own and clean and beside and manifest.workload.family is None:
        notes = (*notes, Note("missing", ATTACHED, len(clean), ""))
    return replace(trace, clean_step_ns=clean, clean_host_ns=given_out, light=light, notes=notes)


def _of_other_engines(traces: list[Trace]) -> Iterator[TraceError]:
    """What trtexec exported of an engine of which the recording beside it has no layer."""
    timed = [trace for trace in traces if trace.host.height]
    for trace in traces:
        if trace.info.kind == "trtexec" and timed:
            layers = trace.device["name"].cast(pl.String).unique()
            if not any(other.host["name"].cast(pl.String).is_in(layers.implode()).any() for other in timed):
                why = f"none of its {len(layers)} layers is a range of {timed[0].source.path.name}"
                advice = "another engine, or recorded without NVTX: nsys profile --trace=cuda,nvtx"
                yield TraceError(trace.source.path, why, advice)


def _with_board(traces: list[Trace], manifest: RunManifest | None, folder: Path) -> tuple[Trace, ...]:
    """The traces with what the machine did during their steps, where a log or run.json says it."""
    if not any(trace.info.kind == "tegrastats" for trace in traces) and not (manifest and manifest.power.during):
        return tuple(traces)
    from tracetui.parsers.runs.board import with_board

    return tuple(with_board(traces, manifest, folder / run_manifest.FILE))


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
    split = [split_counted(trace) for trace in traces]
    if any(parts[0].has_timeline and not _all_counted(parts) for parts in split):
        # the same kernels have their place in time there
        split = [parts[1:] if _all_counted(parts) else parts for parts in split]
    return [part for parts in split for part in parts]


def _all_counted(parts: tuple[Trace, ...]) -> bool:
    """Whether a time line has nothing but the kernels of which something was counted."""
    return len(parts) > 1 and not parts[0].host.height and parts[0].device.height == parts[1].device.height


def split_counted(trace: Trace) -> tuple[Trace, ...]:
    """The time line of a trace, and its kernels with counters, as Nsight Compute's report would be; no empty one.

    Kineto may record counters of kernels in place of times (`profiler_metrics`, ``cuda_profiler_range`` events): CUPTI
    runs each kernel again and again until all its counters are known, so the file says neither when it ran nor how
    long. ROCm's profilers count while a kernel runs: it is on the time line too.
    """
    counted = pl.Series("kind", ["counted"], schema.DeviceKind)
    without_times = trace.device["kind"].is_in(counted.implode())
    with_counters = trace.counters["device_row"].drop_nulls().unique()
    if not trace.has_timeline or not (without_times.any() or with_counters.len()):
        return (trace,)
    is_counted = without_times | pl.int_range(trace.device.height, dtype=schema.RowId, eager=True).is_in(
        with_counters.implode()
    )
    rows = is_counted.arg_true()
    place = np.zeros(trace.device.height, np.uint32)
    place[rows.to_numpy()] = np.arange(len(rows))
    of_kernels = trace.counters["device_row"].is_not_null()
    counters = trace.counters.filter(of_kernels)
    counters = counters.with_columns(
        device_row=pl.Series(place[counters["device_row"].to_numpy()], dtype=schema.RowId), time=pl.lit(None, pl.Int64)
    )
    device = trace.device.filter(is_counted).with_columns(
        kind=pl.lit("kernel", schema.DeviceKind),
        start=pl.lit(None, pl.Int64),
        **{
            name: pl.lit(None, schema.RowId)
            for name in ("launch", "operator", "module", "forward_module", "range", "step")
        },
    )
    info = replace(trace.info, kind="ncu", tool=f"{trace.info.tool}, counters")
    alone = Trace(device=device, counters=counters, info=info, source=trace.source)
    if not trace.host.height and without_times.all():
        return (replace(alone, notes=trace.notes),)
    rest = replace(trace, device=trace.device.filter(~without_times), counters=trace.counters.filter(~of_kernels))
    return rest, alone


def _read(candidate: Candidate, watch: Watch) -> Trace:
    # a reader's tables take as long to import as a cached trace takes to open
    if candidate.kind.endswith(REPORT):
        from tracetui.parsers.runs.nvidia_reports import read_report

        return read_report(candidate.path, watch)
    check(candidate.path, candidate.kind)
    read: Callable[[Path, Watch], Trace] = function(BY_KIND[candidate.kind].reader)
    try:
        return read(candidate.path, watch)
    except OSError as error:
        raise TraceError(candidate.path, (error.strerror or str(error)).lower()) from error


def _open(candidate: Candidate, watch: Watch, use_cache: bool) -> Trace:
    """The candidate's trace; with the rank and the pass that only its folder tells, and what captures tell of it."""
    trace = _with_captures(_cached_or_read(candidate, watch, use_cache), candidate, watch, use_cache)
    if state_at(candidate.path) != candidate.state:  # it may be read long after the others
        changed = Note("missing", "the file changed while the run was open: what is shown may be of both states", 1)
        trace = replace(trace, notes=(*trace.notes, changed))
    if trace.info.rank is None and candidate.rank is not None:
        info = replace(trace.info, rank=candidate.rank, world_size=trace.info.world_size or candidate.world_size)
        trace = replace(trace, info=info)
    if trace.info.recorded_pass is None and candidate.recorded_pass is not None:
        trace = replace(trace, info=replace(trace.info, recorded_pass=candidate.recorded_pass))
    return trace


def _with_captures(trace: Trace, candidate: Candidate, watch: Watch, use_cache: bool) -> Trace:
    if candidate.kind != "chrome" or not trace.host.height or not replays.replays(trace):
        return trace
    beside, problems = [], []
    for capture in candidate.captures:
        try:
            beside.append(_cached_or_read(capture, watch, use_cache))
        except TraceError as problem:  # noqa: PERF203  each may be damaged
            problems.append(Note("missing", "the capture of its graphs beside it can't be read", 1, str(problem)))
    return replays.with_captures(replace(trace, notes=(*trace.notes, *problems)), beside)


def _cached_or_read(candidate: Candidate, watch: Watch, use_cache: bool) -> Trace:
    path = candidate.path
    tool = BY_KIND.get(candidate.kind)
    if not use_cache or (tool is not None and tool.parts):  # what several files say is not known of one of them
        return bounded(_read(candidate, watch))
    try:
        key = trace_cache.key_of(path)
    except OSError as error:
        raise TraceError(path, (error.strerror or str(error)).lower()) from error
    if (cached := trace_cache.load(key, path)) is not None:
        watch.report(Progress("cached", cached.source.bytes, cached.source.bytes, cached.source.events_parsed, path))
        return cached
    trace = bounded(_read(candidate, watch))
    if not trace.source.partial:
        trace_cache.store(key, trace)
    return trace


def _in_one_folder(files: list[Candidate]) -> bool:
    return len({candidate.path.parent for candidate in files}) == 1


def _path_of(files: list[Candidate], parts: list[Candidate]) -> Path:
    """The path that names a run which is only part of a folder: its one file, its own folder, or its main file.

    Args:
        files: those that the run was opened from.
        parts: these, and those that are read only when they are asked for.
    """
    folder = files[0].path.parent
    main = main_file(files).path
    launched = (folder / run_manifest.FILE).is_file()
    if not _in_one_folder(files) or (len(files) == 1 and not launched):
        return main
    own = {file.path for part in parts for file in (part, *part.captures)}
    return folder if all(path in own or not looks_like_trace(path) for path in files_below(folder, 1)) else main


def _kernels_in(candidate: Candidate, watch: Watch, use_cache: bool) -> frozenset[str]:
    """The keys of a file's kernels; none where it can't be read, which opening it will say."""
    if watch.cancelled:
        return frozenset()
    known = BY_KIND.get(candidate.kind)
    if known is not None and known.kernel_names:
        quick: Callable[[Path, Watch], frozenset[str] | None] = function(known.kernel_names)
        if (found := quick(candidate.path, watch)) is not None:
            return found
    try:
        return kernel_keys(_cached_or_read(candidate, watch, use_cache))
    except TraceError:
        return frozenset()


def kernel_keys(trace: Trace) -> frozenset[str]:
    """The keys (`kernel_key.key`) of the kernels of a trace."""
    from tracetui.parsers.names.kernel_key import key

    names = trace.device["name"].filter(trace.device["kind"] == "kernel")
    return frozenset(key(name) for name in names.unique().cast(str).to_list() if name)
