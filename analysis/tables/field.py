"""A column of a table, declared once: the screen, reports, files, documentation and tests all follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tracetui.analysis.base.json_values import key_of

Kind = Literal["text", "time", "delta", "change", "percent", "count", "bytes", "number", "flag", "status", "list"]
"""What a value is, and so how it is written. ``delta`` is a difference of times, ``change`` of shares; ``list`` is for
nested values, which only JSON has."""

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
    """What people read above it, on the screen and in every report; the name, where there is none."""
    kind: Kind = "text"
    width: int = 8
    """Least width on the screen; numbers widen to what they hold."""
    priority: int = 1
    """0 is always shown; the highest goes first where the screen is narrow."""
    flex: bool = False
    """Takes a share of the room that is left, as far as its texts need it."""
    bar: bool = False
    """A share that the screen also draws as a bar."""
    short: str = ""
    """Frame column with the short form of a name."""
    full: str = ""
    """Frame column with the name as the program's author wrote it, where the file has it mangled."""
    main: bool = False
    """The column that ``>100us`` or ``>5%`` or ``>10`` in a filter speaks of, for its kind."""
    tail: bool = False
    """Of a text too long, the end is kept: for paths."""
    hidden: bool = False
    """Shown on the screen only once chosen."""
    sums: bool = False
    """A total of the rows behind it, which can be divided by steps or calls."""
    saved_as: str = ""
    """Its name in files and in what is copied, where that is not the frame's."""
    about: str = ""
    """What it is, with its base, in one sentence."""
    screen: bool = True
    """Whether the screen has it."""
    key: str = ""
    """Its key in JSON and CSV, where that does not follow from the name."""
    type: str = ""
    """Its type in JSON, where that does not follow from the kind (`json_type`)."""
    null: bool = False
    """Whether a recording may not tell it."""

    @property
    def right(self) -> bool:
        """Whether it is aligned to the right, as numbers are."""
        return self.kind not in ("text", "flag", "status")

    @property
    def label(self) -> str:
        """The title with its unit, in one word: so can a filter spell it."""
        title = self.title or self.name
        return f"{title}%" if self.kind == "percent" and "%" not in title else title

    @property
    def nested(self) -> bool:
        """Whether only JSON can hold it: a list or an object, which a CSV has no place for."""
        return self.json_type == "list"

    @property
    def json_key(self) -> str:
        """Its key in JSON and CSV: ``total_ns`` is ``total_us`` there."""
        return self.key or key_of(self.name)

    @property
    def json_type(self) -> str:
        """Its type in JSON: text, whole, real, flag; words or whole list, which a CSV joins; list, of objects."""
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
