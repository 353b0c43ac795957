"""What reports say of tensor cores: one sentence above the kernels, and a sign behind the time of each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import format_count, format_percent
from tracetui.analysis.tables.kernels import KERNELS, UNCLEAR, USES
from tracetui.app.reports.parts import cell, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.report.model import Row, TensorCores
    from tracetui.app.reports.parts import Block


def marked(block: Block, rows: Sequence[Row], found: TensorCores) -> Block:
    """A table of kernels with the sentence above it, a sign for each row, and a column where there is room.

    Args:
        block: the table as it is listed.
        rows: all kernels of the report.
        found: the report's key `tensor_cores`.
    """
    unclear = frozenset(found.unclear)
    column = KERNELS.field("tensor_cores")
    listed = [{**row, "tensor_cores": None} if row["name"] in unclear else row for row in rows[: len(block.cells)]]
    marks = tuple(UNCLEAR if row["name"] in unclear else USES if row["tensor_cores"] else "" for row in listed)
    at = next(number for number, one in enumerate(block.columns) if one.is_name)
    cells = [[*cells[:at], cell(column, row), *cells[at:]] for cells, row in zip(block.cells, listed, strict=True)]
    columns = (*block.columns[:at], replace(shown(column), wide=True), *block.columns[at:])
    return replace(block, columns=columns, cells=cells, marks=marks, before=(sentence(found),))


def sentence(found: TensorCores) -> str:
    """How much of the kernel time runs on tensor cores, how much can't be told, and how much could run there."""
    if found.percent is None:
        return "Tensor cores: unknown: no kernel has a duration, or the device is no GPU whose kernels' names tell."
    said = [f"{format_percent(found.percent)} of kernel time"]
    if found.kernels:
        said[0] += f" in {_kernels(found.kernels)} ({USES})"
    if found.unclear:
        share = format_percent(found.unclear_percent)
        said.append(f"unknown: {share} in {_kernels(len(found.unclear))} ({UNCLEAR})")
    if found.eligible_percent is not None:
        said.append(f"eligible operators launched {format_percent(found.eligible_percent)}")
    return f"Tensor cores: {'; '.join(said)}."


def _kernels(many: int) -> str:
    return f"{format_count(many)} kernel{'' if many == 1 else 's'}"
