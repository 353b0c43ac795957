"""What the other tools of a run know of the kernels in a table: ncu's counters, and how much of the time they cover."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tracetui.analysis.base.quantities import format_count, format_percent
from tracetui.analysis.matching.run_join import (
    Joined,
    Measured,
    conventions_of,
    joined,
    kernel_counters_of,
    with_counters,
)
from tracetui.analysis.tables.kernels import MEASURED
from tracetui.app.text.tools import WORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from tracetui.analysis.base.conventions import Conventions
    from tracetui.analysis.tables.field import Field
    from tracetui.app.session.session import Session

_PEAK = "of peak, mean of the launches that ncu measured"
BEFORE = "occupancy_percent"


def beside(
    session: Session, table: pl.DataFrame, columns: tuple[Field, ...]
) -> tuple[pl.DataFrame, tuple[Field, ...], list[str]]:
    """A table of kernels with what other tools measured, its columns, and how much of the GPU time they cover.

    Where no other tool knows more, the table comes back as it is.
    """
    run, trace = session.runs["a"], session.trace()
    if trace.info.kind != "ncu" and len({other.info.kind for other in run.traces}) < 2:
        return table, columns, []
    found = [pair for kind in dict.fromkeys(other.info.kind for other in run.traces) for pair in _joined(session, kind)]
    measured = _measured(session)
    if measured is None:
        return table, columns, _matches(found)
    place = next(n for n, column in enumerate(columns) if column.name == BEFORE)
    rest = [_by_counters(column) for column in columns[place:]]
    remark = f"ncu: {format_count(measured.launches)} launches, {format_percent(measured.gpu_time_percent)} of GPU time"
    table = with_counters(table, measured)
    collected = [column for column in MEASURED if not table.height or table[column.name].count()]
    remarks = [] if trace.info.kind == "ncu" else [remark]
    return table, (*columns[:place], *collected, *rest), [*remarks, *_matches(found)]


def conventions(session: Session) -> Conventions:
    """Whose definitions numbers follow: of kernels that ncu measured, its counters tell who used tensor cores."""
    return session.cached("conventions", lambda: conventions_of(_measured(session)))


def _joined(session: Session, kind: str) -> list[Joined]:
    return session.cached(("joined", kind), lambda: joined(session.runs["a"], session.trace(), kind))


def _measured(session: Session) -> Measured | None:
    run, trace = session.runs["a"], session.trace()
    if trace.info.kind != "ncu" and not run.of_kind("ncu"):
        return None
    return session.cached("measured", lambda: kernel_counters_of(run, trace, _joined(session, "ncu")))


def _by_counters(column: Field) -> Field:
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
        f"{WORDS[pair.other.info.kind].recording}: {format_percent(pair.join.gpu_time_percent)} of the GPU time matches"
        for pair in found
        if pair.other.info.kind != "ncu"
    ]
