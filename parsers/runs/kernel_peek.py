"""Finds which kernels a file has, without reading all of it if its format allows that."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from tracetui.parsers.errors import TraceError
from tracetui.parsers.names.kernel_key import key
from tracetui.parsers.nsys.database import open_database
from tracetui.parsers.progress import Watch
from tracetui.parsers.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tracetui.parsers.trace import Trace

_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
_NEEDED = ((_KERNELS, "demangledName"), ("StringIds", "id"), ("StringIds", "value"))
_NAMES = f"SELECT CAST(value AS BLOB) FROM StringIds WHERE id IN (SELECT DISTINCT demangledName FROM {_KERNELS})"


def kernel_keys(names: Iterable[str]) -> frozenset[str]:
    """The keys (`kernel_key.key`) of some names."""
    return frozenset(map(key, names))


def trace_kernel_keys(trace: Trace) -> frozenset[str]:
    """The keys of the kernels of a trace."""
    device = trace.device
    names = device["name"].filter(device["kind"] == "kernel")
    return kernel_keys(name for name in names.unique().cast(str).to_list() if name)


def nsys_kernel_keys(path: Path, watch: Watch | None = None) -> frozenset[str]:
    """The keys of the kernels in an Nsight Systems export; none where it holds none or can't be read.

    Raises:
        Cancelled: the user gave up while it was being inflated.
    """
    try:
        with open_database(path, Tally(), watch or Watch()) as database:
            if any(
                name not in database.tables or column not in database.tables[name].columns for name, column in _NEEDED
            ):
                return frozenset()
            connection = database.connect()
            try:
                found = connection.execute(_NAMES).fetchall()
            finally:
                connection.close()
    except (TraceError, OSError, sqlite3.Error):
        return frozenset()
    return kernel_keys(bytes(value).decode("utf-8", "replace") for (value,) in found if value)
