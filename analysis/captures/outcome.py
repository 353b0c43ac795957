"""How a capture ended: out of memory, where its log or run.json says so."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.captures.names import axes_of, stem
from tracetui.parsers.names.range_roles import role_of
from tracetui.parsers.runs import manifest as run_manifest
from tracetui.parsers.tool_registry import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tracetui.analysis.captures.names import Value
    from tracetui.parsers import Trace

LOGS = (".log", ".out", ".err", ".txt", ".stderr", ".stdout")
"""Endings of files that hold what a program printed."""
FOLDERS = ("", "logs", "log")
"""Where they lie, seen from the capture."""
RECORDED_BY = {**{kind: kind for kind in KINDS}, "torch": "chrome", "memory": "memory_snapshot"}
"""The kind of recording by the tool that `tracetui profile` names in run.json."""
TAIL_BYTES, LAST_LINES = 1 << 16, 60
"""The failure must stand in the last lines: a program that caught it and went on printed more."""
MOST_LOGS = 200
_OUT_OF_MEMORY = re.compile(
    r"OutOfMemoryError|CUDA out of memory|HIP out of memory|CUDA error: out of memory|cudaErrorMemoryAllocation"
    r"|CUDA_ERROR_OUT_OF_MEMORY|RESOURCE_EXHAUSTED: Out of memory|[Oo]ut of memory: Killed process|oom-kill"
    r"|GPU's memory was too small|ran out of memory"
)
_LONGEST = 160


def out_of_memory(capture: Path, kind: str) -> str | None:
    """Why a capture ended, if its run.json or log says that memory ran out; None else, whatever the file lacks.

    Args:
        capture: the file, or a run's folder.
        kind: the tool that recorded it: another tool's phase of the run may have ended so.
    """
    folder = capture if capture.is_dir() else capture.parent
    manifest = run_manifest.load(folder)
    if manifest is not None:
        tool, _, said = (manifest.outcome.explanation or "").partition(": ")
        if tool not in RECORDED_BY:
            return _line(f"{tool}: {said}") or None
        return (_line(said) or None) if kind in (tool, RECORDED_BY[tool]) else None
    for log in _logs_of(capture):
        if said := _said_in(log):
            return f"{said} ({log.name})"
    return None


def without_capture(captures: Sequence[Path], kind: str) -> Iterator[tuple[Path, dict[str, Value], str]]:
    """Logs and run.json of captures that are not there, and say that memory ran out.

    They count only if their name, or their folder's, has the pattern of the captures' names.

    Yields:
        The file, the values in its name, the reason.
    """
    if not captures:
        return
    yield from _runs_without(captures, kind)
    there = {stem(path.name) for path in captures}
    parents = sorted({path.parent for path in captures})
    logs = [log for parent in parents for log in _logs_in(parent) if stem(log.stem) not in there]
    for log in logs[:MOST_LOGS]:
        values = _values([stem(path.name) for path in captures], stem(log.stem))
        if values and (said := _said_in(log)):
            yield log, values, f"{said} ({log.name})"


def _runs_without(captures: Sequence[Path], kind: str) -> Iterator[tuple[Path, dict[str, Value], str]]:
    """Folders beside those of the captures with a run.json that says so."""
    folders = {path.parent for path in captures}
    if len(folders) < 2:  # what lies beside the one folder is another matter
        return
    top = Path(os.path.commonpath([folder.absolute() for folder in folders]))
    above = {folder.parent for folder in folders if folder.absolute().parent.is_relative_to(top)}
    runs = {file for folder in above for file in folder.glob(f"*/{run_manifest.FILE}")}
    names = [f"{path.parent.name}/{stem(path.name)}" for path in captures]
    for file in sorted(runs)[:MOST_LOGS]:
        values = _values(names, f"{file.parent.name}/{stem(captures[0].name)}")
        if file.parent not in folders and values and (said := out_of_memory(file.parent, kind)):
            yield file, values, said


def _values(names: Sequence[str], name: str) -> dict[str, Value]:
    """The values in a name, if it has the pattern of the others; else empty."""
    axes, together = axes_of(names), axes_of([*names, name])
    alike = together[-1].keys() == axes[0].keys() and together[:-1] == axes
    return together[-1] if alike else {}


def cut_roles(trace: Trace) -> list[str]:
    """Roles of the ranges that were open when memory ran out: after their ends nothing is launched, no range begins."""
    ranges = trace.host.filter(pl.col("kind") == "annotation").select(
        pl.col("name").cast(pl.String), "start", end=pl.col("start") + pl.col("duration")
    )
    launched = trace.host["start"].gather(trace.device["launch"].drop_nulls())
    begun = [start for start in (ranges["start"].max(), launched.max()) if isinstance(start, int)]
    names = ranges.filter(pl.col("end") >= max(begun, default=0))["name"].unique().to_list()
    return sorted({role for name in names if name and (role := role_of(name)) is not None})


def _logs_of(capture: Path) -> Iterator[Path]:
    own = stem(capture.name)
    for place in FOLDERS:
        for ending in LOGS:
            log = capture.parent / place / f"{own}{ending}"
            if log != capture and log.is_file():
                yield log


def _logs_in(folder: Path) -> list[Path]:
    places = [folder / place for place in FOLDERS if (folder / place).is_dir()]
    return sorted(log for place in places for log in place.iterdir() if log.suffix in LOGS and log.is_file())


def _said_in(log: Path) -> str:
    """The line of a log's end that says so; empty without one."""
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    said = [line for line in lines if line.strip()][-LAST_LINES:]
    return next((found for line in reversed(said) if (found := _line(line))), "")


def _line(text: str) -> str:
    """The text from where it says so; without the traceback's name of the exception."""
    found = _OUT_OF_MEMORY.search(text)
    if found is None:
        return ""
    said = " ".join(text.split())
    said = re.sub(r"^.*?OutOfMemoryError:\s*", "", said)
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST].rsplit(' ', 1)[0]} …"
