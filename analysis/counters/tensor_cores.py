"""How much of the kernel time runs on tensor cores, and how much of it could."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from msgspec import Struct

from tracetui.analysis.base.conventions import TRACETUI, Conventions
from tracetui.analysis.gpu.occupancy import tensor_cores_known

if TYPE_CHECKING:
    from tracetui.analysis.selection import Selection

USES, UNCLEAR = "*", "?"
"""Signs behind a kernel's time: it runs on tensor cores; it is matrix work of which neither name nor counters tell."""


class TensorCores(Struct, frozen=True):
    """The kernels of a table, by whether they use tensor cores; shares are of its kernel time."""

    kernels: int
    """How many of the kernels use them."""
    percent: float | None
    """Null without any kernel time, and on devices that are no known GPUs."""
    unclear: int
    """How many are matrix work of which nothing tells whether they do."""
    unclear_percent: float | None
    eligible_percent: float | None
    """Kernel time that operators launched which could use them, of what all operators launched: torch-tb-profiler's
    "eligible". Null where no operator launched a kernel, and for programs of which no such operators are known."""


def tensor_cores(sel: Selection, table: pl.DataFrame, conventions: Conventions = TRACETUI) -> TensorCores:
    """Sums up a table of `kernels.kernels` made under these conventions.

    Args:
        sel: the selection of which the table is.
        table: its kernels.
        conventions: what names and counters tell.
    """
    from tracetui.analysis.operators import tensor_core_eligible_percent

    marks = tensor_marks(table, conventions)
    uses, unclear = marks == USES, marks == UNCLEAR
    spent = table["total_ns"].fill_null(0)
    whole = int(spent.sum())

    known = tensor_cores_known(sel.trace, conventions)

    def share(chosen: pl.Series) -> float | None:
        return 100 * int(spent.filter(chosen).sum()) / whole if whole and known else None

    knows = sel.trace.info.kind == "chrome" and known
    eligible = tensor_core_eligible_percent(sel, conventions) if knows else None
    return TensorCores(int(uses.sum()), share(uses), int(unclear.sum()), share(unclear), eligible)


def tensor_marks(table: pl.DataFrame, conventions: Conventions = TRACETUI) -> pl.Series:
    """The sign of each kernel: `USES`, `UNCLEAR`, or nothing."""
    if "tensor_cores" in table.columns and table.height and table["tensor_cores"].null_count() == table.height:
        return pl.Series("tensor_mark", [""] * table.height, pl.String)  # of this device's kernels no name tells
    names = table["name"].cast(pl.String).to_list()
    signs = [
        USES if conventions.uses_tensor_cores(name) else UNCLEAR if conventions.tensor_cores_unclear(name) else ""
        for name in names
    ]
    return pl.Series("tensor_mark", signs, pl.String)
