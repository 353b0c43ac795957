"""Finds the folder of the sweep that a run belongs to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracetui.parsers.runs.run import Run

INDEX = "sweep.json"
MOST_ABOVE = 3
"""A run's folder is at most so far below its sweep's: ``batch=4,keep=0.1/repeat-2``."""


def sweep_folder(run: Run) -> Path | None:
    """The folder with a sweep's index around the run, else the one that all runs opened with it are in; else None."""
    start = run.traces[0].source.path.absolute().parent if run.traces else run.path.absolute()
    for folder in (start, *start.parents[:MOST_ABOVE]):
        if (folder / INDEX).is_file():
            return folder
    if not run.others:
        return run.path if run.path.is_dir() and len(run.of_kind(run.main.info.kind)) > 1 and not run.ranks else None
    files = [trace.source.path for trace in run.traces] + [file for _, paths in run.others for file in paths]
    return Path(os.path.commonpath([file.absolute().parent for file in files]))
