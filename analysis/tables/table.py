"""A table, declared once: its columns, what its numbers are about, and where each column is shown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tracetui.analysis.tables.field import Field


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the program. To add a column, extend the analysis that computes it and add a `Field`."""

    id: str
    """Its name in the screen's settings, and of the report's section where one has that name."""
    title: str
    """Its heading."""
    noun: str
    """What its rows are called, in the plural."""
    fields: tuple[Field, ...]
    """Every column, in the order of the screen."""
    data: tuple[str, ...] = ()
    """Names of the columns in JSON and CSV, in their order; empty where no report has the table."""
    reports: tuple[str, ...] = ()
    """Names of the columns that text and Markdown show, in their order."""
    base: str = ""
    """The base of its shares or totals; reports show it next to the title."""
    sort: tuple[str, bool] | None = None
    """The order that the analysis gives it: column, and whether the largest comes first."""
    key: str = ""
    """The column that names a row uniquely."""
    drill: str = ""
    """What Enter opens on a row, in a word; empty where Enter shows the details."""
    section: str = ""
    """The report's key that has its rows, where it is not the id."""
    page: bool = True
    """Whether it is a page of a tab, whose columns can be chosen; otherwise only a report or a dialog shows it."""

    @property
    def columns(self) -> tuple[Field, ...]:
        """The columns of the screen."""
        return tuple(field for field in self.fields if field.screen)

    def field(self, name: str) -> Field:
        """The column of this name.

        Raises:
            KeyError: there is none.
        """
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(f"table {self.id} has no column {name}")

    def chosen(self, names: Iterable[str]) -> tuple[Field, ...]:
        """The columns of these names, in this order."""
        return tuple(self.field(name) for name in names)

    @property
    def data_fields(self) -> tuple[Field, ...]:
        """The columns that JSON and CSV have, in their order."""
        return self.chosen(self.data)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of a row in JSON, in their order."""
        return tuple(field.json_key for field in self.data_fields)

    @property
    def csv_header(self) -> tuple[str, ...]:
        """The columns of its CSV: those of JSON without nested values."""
        return tuple(field.json_key for field in self.data_fields if not field.nested)

    def having(self, name: str, **changes: Any) -> Table:
        """The same table with one column changed: another title, another meaning."""
        fields = tuple(replace(field, **changes) if field.name == name else field for field in self.fields)
        return replace(self, fields=fields)
