"""A table, declared once: its columns, what its numbers are about, and where each column is shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from tracetui.analysis.base.json_values import key_of

Kind = Literal["text", "time", "delta", "change", "percent", "count", "bytes", "number", "flag", "status", "list"]
"""The kind of a value, which decides how it is written. ``delta`` is a difference of times, ``change`` of shares;
``list`` is for nested values, which only JSON has."""

UNITS: dict[Kind, str] = {"time": "µs", "delta": "µs", "percent": "%", "change": "%", "bytes": "bytes"}
"""The unit of a number in JSON and CSV."""


@dataclass(frozen=True, slots=True)
class Field:
    """One column: what it means, and how each place shows it.

    A share has its unit in the title (``Occup%``), a time or a size in the cell (``2.296 ms``), wherever it is shown.
    """

    name: str
    """Column of the analysis' frame. Times are ns and end in ``_ns``."""
    title: str = ""
    """Its heading on the screen and in every report; where there is none, the name."""
    kind: Kind = "text"
    width: int = 8
    """Minimum width on the screen; columns of numbers widen to fit them."""
    priority: int = 1
    """0 is always shown; where the screen is narrow, the highest priority is dropped first."""
    flex: bool = False
    """Whether it takes a share of the remaining room, as far as its texts need it."""
    bar: bool = False
    """Whether it is a share that the screen also draws as a bar."""
    heat: bool = False
    """Whether its text is a picture, whose highest signs the screen also colours."""
    short: str = ""
    """Frame column with the short form of a name."""
    mark: str = ""
    """Frame column with a sign of one column (or nothing) that the screen writes right behind the value."""
    full: str = ""
    """Frame column with the name as the program's author wrote it, where the file has a mangled name."""
    main: bool = False
    """Whether ``>100us``, ``>5%`` or ``>10`` in a filter refers to this column, among those of its kind."""
    tail: bool = False
    """Whether the end of a text that is too long is kept, as for paths."""
    hidden: bool = False
    """Whether the screen shows it only when it is chosen."""
    sums: bool = False
    """Whether it is a total of the rows behind it, which can be divided by steps or calls."""
    saved_as: str = ""
    """Its name in files and in copied text, where that differs from the frame's."""
    about: str = ""
    """What the column means, with its base, in one sentence."""
    screen: bool = True
    """Whether the screen has it."""
    key: str = ""
    """Its key in JSON and CSV, where it does not follow from the name."""
    type: str = ""
    """Its type in JSON, where it does not follow from the kind (`json_type`)."""
    null: bool = False
    """Whether it is unknown (null) for some recordings."""

    @property
    def right(self) -> bool:
        """Whether it is aligned to the right, as numbers are."""
        return self.kind not in ("text", "flag", "status")

    @property
    def label(self) -> str:
        """The title with its unit as one word, so that a filter can name it."""
        title = self.title or self.name
        return f"{title}%" if self.kind == "percent" and "%" not in title else title

    @property
    def nested(self) -> bool:
        """Whether only JSON can hold it: a list or an object, which a CSV has no place for."""
        return self.json_type in ("list", "object")

    @property
    def json_key(self) -> str:
        """Its key in JSON and CSV: ``total_ns`` is ``total_us`` there."""
        return self.key or key_of(self.name)

    @property
    def json_type(self) -> str:
        """Its type in JSON: a key of `schemas.shapes.OF_JSON`."""
        return self.type or TYPES[self.kind]


TYPES: dict[Kind, str] = {
    "text": "text",
    "status": "text",
    "flag": "flag",
    "count": "whole",
    "bytes": "whole",
    "list": "list",
    "time": "real",
    "delta": "real",
    "change": "real",
    "percent": "real",
    "number": "real",
}
"""The type in JSON by kind."""


EVERY = ("*",)
"""For `Table.data` and `Table.reports`: every column, in the order of the screen."""


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

    def __post_init__(self) -> None:
        every = tuple(field.name for field in self.fields)
        for name in ("data", "reports"):
            if getattr(self, name) == EVERY:
                object.__setattr__(self, name, every)

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
