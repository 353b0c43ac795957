"""A view as a picture for others: its chart as a slide, with the command that opens it at that place."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tracetui.app.charts.bars import Bar, bars_svg
from tracetui.app.charts.slide import slide
from tracetui.app.reports.open_command import given, open_command, spelled
from tracetui.app.tables.columns import cell_text

if TYPE_CHECKING:
    import polars as pl

    from tracetui.analysis.tables.table import Field
    from tracetui.app.session.session import Session, Side
    from tracetui.app.widgets.frame_table import FrameTable

ROWS = 12
"""Rows of a table that its picture has."""
_AMOUNTS = ("time", "delta", "percent", "change", "bytes", "count", "number")


class ViewChart(NamedTuple):
    """What a view draws of itself."""

    title: str
    said: str
    """A line below: the base of the numbers."""
    svg: str
    notes: tuple[str, ...] = ()
    """What stands beside it."""
    command: tuple[str, ...] = ()
    """What makes it again, if that is not the command that opens its tab."""


def as_slide(session: Session, tab: str, filter: str, chart: ViewChart, *, compares: bool = False) -> str:
    """The chart as an SVG document; `compares` says whether it is of both runs."""
    sides: tuple[Side, ...] = ("a", "b") if compares and "b" in session.runs else ("a",)
    names = " → ".join(session.run_names[side] for side in sides)
    said = " · ".join(part for part in (names, chart.said) if part)
    foot = spelled(chart.command or command_here(session, tab, filter, sides))
    return slide(chart.svg, chart.title, said, foot, notes=chart.notes, ascii=session.ascii)


def command_here(session: Session, tab: str, filter: str = "", sides: tuple[Side, ...] = ("a",)) -> tuple[str, ...]:
    """The words of the command that opens the run in view, or both, at this tab, filtered like this."""
    words: list[str] = []
    for side in sides:
        entry = session.open[session.sides[side]]
        what = (entry.origin,) if entry.run is None or not entry.run.others else entry.paths
        words += (word for path in what for word in given(path))
    return open_command(words, tab=tab, filter=filter, scope=session.scope, rank=session.rank, source=session.kind)


def table_chart(table: FrameTable) -> str | None:
    """The first rows in view as bars, by the column they are sorted by, else by the one that the screen draws as bars.

    Returns:
        None for a table without rows or numbers.
    """
    columns = [column for column in table.chosen if column.name in table.frame.columns]
    # a moment is no amount
    amounts = [column for column in columns if column.kind in _AMOUNTS and column.name != "at_ns"]
    frame = table.first(ROWS)
    names = [column for column in columns if column.kind == "text" and column.name != "drawn" and _tells(frame, column)]
    if not amounts or not frame.height:
        return None
    by = _by(table, amounts)
    # without a text, what comes first says which row it is
    moment = next((field for field in columns if field.name == "at_ns"), columns[0])
    name = next((field for field in names if field.flex), names[0] if names else moment)
    beside = next((field for field in amounts if field.main and field is not by and field is not name), None)
    numbers = [by] if beside is None else [by, beside]
    source = name.short if table.names == "short" and name.short in frame.columns else name.name
    bars = []
    for row in frame.iter_rows(named=True):
        amount = row[by.name]
        texts = tuple(cell_text(row[field.name], field.kind, ascii=table.ascii) for field in numbers)
        label = cell_text(row[source], name.kind, ascii=table.ascii)
        bars.append(Bar(label if name.kind == "text" else f"{name.title} {label}", float(amount or 0), texts))
    return bars_svg(bars, [field.label for field in numbers], by.about, changes=by.kind == "delta")


def _tells(frame: pl.DataFrame, column: Field) -> bool:
    """Whether a text tells most rows apart."""
    return 2 * frame[column.name].drop_nulls().n_unique() > frame.height


def _by(table: FrameTable, amounts: list[Field]) -> Field:
    sorted_by = None if table.sort is None else next((field for field in amounts if field.name == table.sort[0]), None)
    with_bar = next((field for field in amounts if field.bar), None)
    times = next((field for field in amounts if field.kind in ("time", "delta")), None)
    return sorted_by or with_bar or times or amounts[0]
