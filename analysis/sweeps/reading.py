"""Reads a sweep from a folder or from a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.parsers.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tracetui.analysis.sweeps.model import Sweep
    from tracetui.parsers import Run


def _is_report(path: Path) -> bool:
    """Whether a file is Nsight Compute's, which no column of a table names."""
    from tracetui.parsers.bytes_source import read_all
    from tracetui.parsers.ncu.sniff import looks_like_ncu
    from tracetui.parsers.runs.detect import PEEK_BYTES

    return looks_like_ncu(read_all(path, PEEK_BYTES))


def read_sweep(
    path: Path,
    open_run: Callable[[Path], Run] | None = None,
    done: Callable[[int, int], None] | None = None,
) -> Sweep:
    """The sweep in a folder, or in a table (CSV).

    Args:
        path: a folder that `tracetui profile --sweep` wrote, one with captures or runs, or a CSV file.
        open_run: opens a run of the folder.
        done: called with how many runs have been read, and of how many.

    Raises:
        TraceError: there is no sweep in it.
    """
    if not path.exists():
        raise TraceError(path, "no such file or folder", "check the path")
    if path.is_dir():
        from tracetui.analysis.sweeps.folder import read_folder

        return read_folder(path, open_run, done)
    if _is_report(path):
        raise TraceError(
            path,
            "a report of Nsight Compute, no table of a sweep",
            "give the folder that holds the report of each point",
        )
    from tracetui.analysis.sweeps.table import read_table

    return read_table(path)
