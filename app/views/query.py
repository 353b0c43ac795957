"""Query: the result of one SELECT over the recording's frames and the report's tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from tracetui.analysis.query.ask import Answer, Column, QueryError, Stop
from tracetui.analysis.query.frames import JOINS, frames, joins
from tracetui.analysis.query.sources import answer_of
from tracetui.analysis.tables.table import Field, Kind
from tracetui.app.keys import commands
from tracetui.app.reports.answer import kind_of, scale_of, unnested
from tracetui.app.reports.open_command import given
from tracetui.app.session.session import Session
from tracetui.app.text.fitting import printable
from tracetui.app.views.common.chart import ViewChart
from tracetui.app.views.common.page import Page, PageState
from tracetui.app.views.common.table_view import TableView
from tracetui.parsers.names.kernel_names import short_name

PAGE = "query"
_KERNELS = frozenset({"device", "kernels"})
"""Frames whose names are those of kernels."""
_JOINS = f"Joins: {', '.join(JOINS)}."
_WHOLE = range(-(1 << 63), 1 << 63)


@dataclass(frozen=True)
class QueryPage(Page):
    """The result of a query."""

    sql: str = ""
    place: tuple[object, ...] = ()
    """What it was asked of: the reading of the run, rank, tool and scope."""


class QueryView(TableView):
    """The result of the latest query; of another rank, tool or range it is asked again."""

    TAB = "query"

    def __init__(self) -> None:
        super().__init__()
        self._result: QueryPage | None = None

    def receive(self, page: QueryPage) -> None:
        """Shows the result of a new query."""
        self._result = page
        if self.is_mounted:
            self.reload()

    def root(self) -> Page:
        """The result, asked again if it is of something else than what is in view."""
        known = self._result
        if known is None:
            key = commands.key("query.ask")
            return _page(
                pl.DataFrame(), (), empty=f"No query yet. The key {key} opens a line for one in SQL.\n\n{_JOINS}"
            )
        if known.place == _place(self.session):
            return known
        try:
            return query_page(self.session, known.sql)
        except QueryError as error:
            return _page(pl.DataFrame(), (), sql=known.sql, empty=f"{known.sql}\n\n{printable(str(error))}")

    def show(self, result: Page) -> None:
        """Shows a result in its own order with all its columns, whatever was chosen for an earlier one."""
        for choices in (self.session.sorts, self.session.hidden, self.session.pinned):
            choices.pop(PAGE, None)
        if isinstance(result, QueryPage) and result.sql:
            self._result = result
        super().show(result)

    def restore(self, place: tuple[str, tuple[PageState, ...]]) -> None:
        """Goes back to a result that was in view."""
        super().restore(place)
        if place[1] and isinstance(page := place[1][0].page, QueryPage):
            self._result = page

    def sorts(self) -> dict[str, tuple[str, bool] | None]:
        """None is kept: the next result has other columns."""
        return {}

    def weight(self, place: tuple[str, tuple[PageState, ...]]) -> int:
        """The rows of all pages: an earlier result is kept only to go back to it."""
        return sum(state.page.frame.height for state in place[1])

    def keep_columns(self, page: str) -> None:
        """Keeps the choice for this result alone."""

    def action_back(self) -> None:
        """Closes the details or the filter, else goes back to where the query was asked."""
        state = self.state
        if self.detail.display or self.awaits_inner or self.host.came_from_finding or (state and state.filter):
            super().action_back()
        else:
            self.app.call_later(self.host.back)

    def footer_labels(self) -> dict[str, str]:
        """What Esc does, and that another query can be asked."""
        labels = super().footer_labels()
        labels["query.ask"] = "ask"
        labels.setdefault("go.back", "back")
        return labels

    def chart(self) -> ViewChart | None:
        """The first rows in view as bars, with the command that prints them."""
        chart, result = super().chart(), self._result
        if chart is None or result is None:
            return chart
        path = given(self.session.open[self.session.sides["a"]].origin)
        return chart._replace(title="Query", said=result.sql, command=("tracetui", "query", *path, result.sql))


def query_page(session: Session, sql: str, stop: Stop | None = None) -> QueryPage:
    """Runs a query over the recording in view and returns its result.

    Raises:
        QueryError: it is refused, wrong, was stopped or exceeds a limit.
    """
    answer = answer_of(session.runs["a"], session.trace(), sql, session.config, scope=session.scope, stop=stop)
    columns, frame = _table(answer)
    first = f"the first {frame.height:,} rows · " if answer.more else ""
    scope = f"{session.range_words} · " if session.range_words else ""
    return _page(
        frame,
        columns,
        note=f"{first}{scope}{printable(' '.join(sql.split()))}",
        empty="" if frame.height else f"{printable(sql)}\n\nThe query found no rows.{_joined(answer.frames)}",
        sql=sql,
        place=_place(session),
    )


def _joined(read: Sequence[str]) -> str:
    """How the tables that a query read belong together; nothing where it read one."""
    found = joins(read) if len(read) > 1 else ()
    return f"\n\nJoins: {', '.join(found)}." if found else ""


def _page(frame: pl.DataFrame, columns: tuple[Field, ...], **more: Any) -> QueryPage:
    return QueryPage(PAGE, "Query", frame, columns, "rows", **more)


def _place(session: Session) -> tuple[object, ...]:
    return session.open[session.sides["a"]].number, session.rank, session.kind, session.scope


def _table(answer: Answer) -> tuple[tuple[Field, ...], pl.DataFrame]:
    """The columns of a result as a table's, and its rows; times are ns."""
    fields: list[Field] = []
    series: dict[str, pl.Series] = {}
    mains = set[str]()
    for at, column in enumerate(answer.columns):
        kind: Kind = "flag" if column.type == "boolean" else kind_of(column, answer.frames)
        scale = scale_of(column, kind)
        name = column.name if scale == 1 else f"{column.name.removesuffix('_us')}_ns"
        while name in series or (scale != 1 and any(name == other.name for other in answer.columns)):
            name += "_2"
        values = series[name] = _series(name, [row[at] for row in answer.rows], kind, scale)
        short = ""
        if column.name == "name" and kind == "text" and _KERNELS.issuperset(answer.frames):
            short = f"{name} in short"
            series[short] = _short(short, values)
        fields.append(
            Field(
                name,
                printable(column.name),
                kind,
                width=12 if kind == "text" else 8,
                priority=min(at, 9),
                flex=kind == "text",
                short=short,
                main=kind not in mains,
                about=_about(column, answer.frames),
            )
        )
        mains.add(kind)
    return tuple(fields), pl.DataFrame(series)


def _series(name: str, values: list[Any], kind: Kind, scale: int) -> pl.Series:
    """One column's values: whole numbers as such if they fit, what is nested as text."""
    if kind == "flag":
        return pl.Series(name, values, dtype=pl.Boolean)
    if kind == "text":
        return pl.Series(name, [None if value is None else str(unnested(value)) for value in values], dtype=pl.String)
    if scale != 1:
        values = [None if value is None else round(value * scale, 6) for value in values]
    whole = all(value is None or (float(value).is_integer() and int(value) in _WHOLE) for value in values)
    if whole:
        return pl.Series(name, [None if value is None else int(value) for value in values], dtype=pl.Int64)
    return pl.Series(name, [None if value is None else float(value) for value in values], dtype=pl.Float64)


def _short(name: str, values: pl.Series) -> pl.Series:
    known = {value: short_name(value) for value in values.drop_nulls().unique()}
    return pl.Series(name, [known.get(value) for value in values], dtype=pl.String)


def _about(column: Column, read: Sequence[str]) -> str:
    """What the frames say of a column of this name; else its type."""
    known = frames()
    said = {one.about for name in read for one in known[name].columns if one.name == column.name}
    return said.pop() if len(said) == 1 else f"{column.type} of the query"
