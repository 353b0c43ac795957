"""What the other tools of a run know of the kernels in a table: ncu's counters, and how much of the time they cover."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tracetui.analysis.matching.run_join import Joined, with_counters
from tracetui.app.session.measured import joined_with, measured_of
from tracetui.app.tables.columns import Column
from tracetui.app.text.formats import format_count, format_percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from tracetui.app.session.session import Session

_PEAK = "of peak, mean of the launches that ncu measured"
MEASURED = (
    Column("measured_sm_percent", "SM", "percent", width=5, priority=2, about=f"multiprocessors, {_PEAK}"),
    Column("measured_memory_percent", "Mem", "percent", width=5, priority=2, about=f"memory system, {_PEAK}"),
    Column("measured_dram_percent", "DRAM", "percent", width=5, priority=5, about=f"DRAM, {_PEAK}"),
    Column("measured_l1_hit_percent", "L1", "percent", width=5, priority=6, about="hits, of L1 sectors; by ncu"),
    Column("measured_l2_hit_percent", "L2", "percent", width=5, priority=6, about="hits, of L2 sectors; by ncu"),
    Column("measured_occupancy_percent", "Occ", "percent", width=5, priority=4, about="achieved occupancy, by ncu"),
    Column("measured_bound", "Bound", width=7, priority=2, about="by ncu's shares of SM and memory system"),
    Column("measured_theoretical_occupancy_percent", "Max occ", "percent", width=5, priority=8, about="as launched"),
    Column("measured_occupancy_limiter", "Limiter", width=9, priority=8, about="what allows the fewest blocks per SM"),
    Column("measured_launches", "By ncu", "count", width=6, priority=8, about="launches that ncu measured"),
)
BEFORE = "occupancy_percent"
TOOLS = {"chrome": "Chrome trace", "jax": "JAX trace", "nsys": "nsys recording"}


def beside(
    session: Session, table: pl.DataFrame, columns: tuple[Column, ...]
) -> tuple[pl.DataFrame, tuple[Column, ...], list[str]]:
    """A table of kernels with what other tools measured, its columns, and how much of the GPU time they cover.

    Where no other tool knows more, the table comes back as it is.
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
    remark = f"ncu: {format_count(measured.launches)} launches, {format_percent(measured.gpu_time_percent)} of GPU time"
    table = with_counters(table, measured)
    collected = [column for column in MEASURED if not table.height or table[column.name].count()]
    remarks = [] if trace.info.kind == "ncu" else [remark]
    return table, (*columns[:place], *collected, *rest), [*remarks, *_matches(found)]


def _by_counters(column: Column) -> Column:
    """A column that an estimate or the name fills, where counters tell more."""
    if column.name == BEFORE:
        return replace(column, title="Est occ", priority=8)
    if column.name == "tensor_cores":
        return replace(
            column, about="used tensor cores, as ncu's counters tell; of kernels it did not measure, by name"
        )
    return column


def _matches(found: Sequence[Joined]) -> list[str]:
    return [
        f"{TOOLS.get(pair.other.info.kind, pair.other.info.kind)}: "
        f"{format_percent(pair.join.gpu_time_percent)} of the GPU time matches"
        for pair in found
        if pair.other.info.kind != "ncu"
    ]
