"""The columns of every table of the screen, for those who choose them in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.tables.kernels import KERNELS, MEASURED
from tracetui.analysis.tables.registry import TABLES

if TYPE_CHECKING:
    from tracetui.analysis.tables.table import Field


def known_columns() -> dict[str, tuple[Field, ...]]:
    """By page of the tabs, every column it may have; which of them a recording has depends on what was recorded."""
    found = {table.id: table.columns for table in TABLES.values() if table.page}
    return found | {KERNELS.id: (*KERNELS.columns, *MEASURED)}
