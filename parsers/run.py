"""From a path to a Run (scaffold: replaced by the columnar reader)."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.parsers.errors import TraceError
from tracetui.parsers.trace import Run, Trace

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Progress:
    """How far loading has come."""

    stage: str
    """``reading``, ``linking`` or ``cached``."""
    done: int
    """Bytes of all files, compressed where they are."""
    total: int
    events: int = 0
    path: Path | None = None


def open_path(
    *paths: Path | str,
    progress: Callable[[Progress], None] | None = None,
    cancel: threading.Event | None = None,
    cache: bool = True,
) -> Run:
    """Opens a file or a folder as one run.

    Args:
        paths: a trace, several traces of one run (ranks, tools), or a folder that holds them.
        progress: called from the reading thread a few times a second.
        cancel: once set, reading stops and what was read so far is returned, marked partial.
        cache: keep and use parsed frames in the user's cache directory.

    Raises:
        TraceError: nothing readable was found.
        Cancelled: stopped before anything was read.
    """
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from json_reader import read_trace

    files: list[Path] = []
    for path in map(Path, paths):
        if not path.exists():
            raise TraceError(path, "no such file or folder")
        files += sorted(p for p in path.iterdir() if ".json" in p.name) if path.is_dir() else [path]
    traces: list[Trace] = []
    for n, file in enumerate(files):
        if progress:
            progress(Progress("reading", n, len(files), 0, file))
        traces.append(read_trace(file))
    return Run(Path(paths[0]), tuple(traces))
