"""A run of which there are summaries of its ranks, and no recordings: it has the tab Ranks, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tracetui.analysis.base.number_format import format_count
from tracetui.analysis.ranks.files.reading import of_store
from tracetui.analysis.ranks.files.store import Store, is_store
from tracetui.parsers import Run, Trace
from tracetui.parsers.runs.detect import files_below, looks_like_trace
from tracetui.parsers.runs.run import RankFile
from tracetui.parsers.tool_registry import KINDS
from tracetui.parsers.trace import DeviceInfo, Source, TraceInfo


def summaries_in(paths: Sequence[Path]) -> Path | None:
    """The folder, if these paths are one that has summaries and no recordings."""
    if len(paths) != 1 or not paths[0].is_dir() or not is_store(paths[0]):
        return None
    return None if any(looks_like_trace(file) for file in files_below(paths[0])) else paths[0]


def run_of(folder: Path) -> Run:
    """The run of a folder of summaries, whose only trace is an empty one that says what the first summary does.

    Raises:
        TraceError: none can be read.
    """
    store = Store(folder)
    lacking = tuple(f"{path} {why}" for _, path, why in of_store(store).problems)
    entries = sorted(store.entries(), key=lambda entry: entry.summary.rank)
    files = tuple(
        RankFile(
            Path(entry.source or entry.summary.path),
            entry.summary.rank,
            KINDS[0],
            entry.summary.world_size,
            entry.summary.recorded_pass,
        )
        for entry in entries
    )
    first = entries[0].summary
    info = TraceInfo(
        KINDS[0],
        first.tool,
        rank=first.rank,
        world_size=first.world_size,
        devices=() if first.device is None else (DeviceInfo(0, first.device),),
    )
    source = Source(folder, sum(path.stat().st_size for path in store.files()))
    ranks = len({file.rank for file in files})
    said = f"Only summaries of {format_count(ranks)} ranks are here, not their recordings: Ranks compares them"
    return Run(folder, (Trace.empty(info, source),), (said, *lacking), rank_files=files, summaries_in=folder)
