"""Finds the files of a run: in a folder, or as they were named one by one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tracetui.parsers.errors import TraceError
from tracetui.parsers.runs import manifest as run_manifest
from tracetui.parsers.runs import passes
from tracetui.parsers.runs.detect import Candidate, files_below, inspect, looks_like_trace
from tracetui.parsers.runs.grouping import group
from tracetui.parsers.tool_registry import EXAMPLES, KINDS, REPORT, tool_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tracetui.parsers.runs.manifest import RunManifest

UNFINISHED = {
    "failed": "not all of this run went well",
    "interrupted": "this run was interrupted",
    "running": "this run was under way when its run.json was last written",
}
"""The note about a run that did not end normally, by the status in its run.json."""


def unfinished(manifest: RunManifest) -> str:
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


class Found(Struct):
    """The files of one run, before any is read."""

    files: list[Candidate]
    lights: dict[Path, Candidate]
    """The light recording of each rich one's path."""
    problems: list[TraceError]
    others: tuple[tuple[str, tuple[Path, ...]], ...] = ()
    place: int = 0


def find(
    paths: Sequence[Path | str],
    kernels_of: Callable[[Candidate], frozenset[str]],
    choose: Callable[[Sequence[str]], int] | None,
) -> Found:
    """The files of the run that is to be opened.

    Args:
        paths: as for `open_path`.
        kernels_of: the keys of a file's kernels (`grouping.group`).
        choose: as for `open_path`.

    Raises:
        TraceError: there are none.
    """
    if not paths:
        raise ValueError("open_path needs at least one path")
    first = Path(paths[0])
    problems: list[TraceError] = []
    if len(paths) == 1 and not first.is_dir():
        files = [inspect(_existing(first))]
        if choose is not None:
            choose([first.name])
        return Found(files, {}, problems)
    if len(paths) > 1:
        files, lights = passes.set_aside(
            found for given in map(Path, paths) for found in _files_of(_existing(given), problems)
        )
        if not files:
            raise problems[0]
        return Found(files, lights, problems)
    found_files, lights = passes.set_aside(_found_in(first, problems))
    runs = _runs_of(found_files, kernels_of)
    names = [_run_name(run, first) for run in runs]
    # jobs of one folder are told apart by their first files
    names = [
        f"{run[0].path.name} and {len(run) - 1} more" if names.count(name) > 1 and len(run) > 1 else name
        for name, run in zip(names, runs, strict=True)
    ]
    place = choose(names) if choose is not None else 0
    found = [(name, tuple(c.path for c in run)) for name, run in zip(names, runs, strict=True)]
    own = {file.path for file in runs[place]}
    lights = {path: light for path, light in lights.items() if path in own}
    return Found(runs[place], lights, problems, (*found[:place], *found[place + 1 :]), place)


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
                unfinished(manifest) if manifest.status in UNFINISHED else f"its run.json says: {manifest.status}"
            )
            raise TraceError(folder, f"this run left no recording: {why}", "log.txt in it may say more")
        raise TraceError(
            folder,
            "no trace in this folder",
            f"give a folder with {EXAMPLES}",
        )
    problems.extend(bad)
    return found


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
        folders = {candidate.path.parent for candidate in run}
        folder = first.path.parent if len(folders) == 1 else Path(os.path.commonpath(folders))
        return f"{folder.name}: {len(run)} ranks"
    return f"{main_file(run).path.name} and {len(run) - 1} more"


def main_file(files: list[Candidate]) -> Candidate:
    """The file of the tool that sees the most of the program, the first of several."""
    return min(files, key=lambda candidate: KINDS.index(tool_of(candidate.kind)))
