"""A table, declared once: its columns, what its numbers are about, and where each column shows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tracetui.analysis.tables.field import Field


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the program. To add a column: the analysis that computes it, and a `Field` here."""

    id: str
    """What the screen's settings call it, and the report's section where it has one of that name."""
    title: str
    """What people read above it."""
    noun: str
    """What its rows are, in the plural."""
    fields: tuple[Field, ...]
    """Every column, in the order of the screen."""
    data: tuple[str, ...] = ()
    """Names of the columns that JSON and CSV have, in their order; none where no report holds the table."""
    reports: tuple[str, ...] = ()
    """Names of the columns that text and Markdown show, in their order."""
    base: str = ""
    """What its shares are of, or its totals about; said beside the title in reports."""
    sort: tuple[str, bool] | None = None
    """The order that the analysis gives it: column, and whether the largest comes first."""
    key: str = ""
    """The column that names a row uniquely."""
    drill: str = ""
    """What Enter on a row opens, in a word; empty where it shows the details."""
    section: str = ""
    """The report's key whose rows it is, where that is not the id."""

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
        """The columns of its CSV: what JSON has, without what is nested."""
        return tuple(field.json_key for field in self.data_fields if not field.nested)

    def having(self, name: str, **changes: Any) -> Table:
        """The same table with one column shown otherwise: another title, another meaning."""
        fields = tuple(replace(field, **changes) if field.name == name else field for field in self.fields)
        return replace(self, fields=fields)
