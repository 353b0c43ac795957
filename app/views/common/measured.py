"""Adds what other tools of a run measured to a table of kernels: ncu's counters, and how much time they cover."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import format_count, format_percent
from tracetui.analysis.matching.run_join import Joined, with_counters
from tracetui.analysis.tables.kernels import MEASURED
from tracetui.app.session.measured import joined_with, measured_of
from tracetui.app.text.tool_words import WORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from tracetui.analysis.tables.table import Field
    from tracetui.app.session.session import Session

_PEAK = "of peak, mean of the launches that ncu measured"
BEFORE = "occupancy_percent"


def beside(
    session: Session, table: pl.DataFrame, columns: tuple[Field, ...]
) -> tuple[pl.DataFrame, tuple[Field, ...], list[str]]:
    """Returns a table of kernels with what other tools measured, its columns, and how much GPU time that covers.

    If no other tool measured anything, the table is returned unchanged.
    """
    run, trace = session.runs["a"], session.trace()
    if trace.info.kind != "ncu" and len({other.info.kind for other in run.traces}) < 2:
        return table, columns, []
    kinds = dict.fromkeys(other.info.kind for other in run.traces)
    found = [pair for kind in kinds for pair in joined_with(session, kind)]
    measured = measured_of(session)
    if measured is None:
        return table, columns, _matches(found)
    place = next(n for n, column in enumerate(columns) if column.name == BEFORE)
    rest = [_by_counters(column) for column in columns[place:]]
    remark = f"ncu: {format_percent(measured.gpu_time_percent)} of GPU time, {format_count(measured.launches)} launches"
    table = with_counters(table, measured)
    collected = [column for column in MEASURED if not table.height or table[column.name].count()]
    remarks = [] if trace.info.kind == "ncu" else [remark]
    return table, (*columns[:place], *collected, *rest), [*remarks, *_matches(found)]


def _by_counters(column: Field) -> Field:
    """Replaces a column that holds an estimate or is judged by name, if counters tell more."""
    if column.name == BEFORE:
        return replace(column, title="Est occ", priority=8)
    if column.name == "tensor_cores":
        return replace(
            column, about="used tensor cores, as ncu's counters tell; of kernels it did not measure, by name"
        )
    return column


def _matches(found: Sequence[Joined]) -> list[str]:
    return [
        f"{WORDS[pair.other.info.kind].recording}: {format_percent(pair.join.gpu_time_percent)} of the GPU time matches"
        for pair in found
        if pair.other.info.kind != "ncu"
    ]
