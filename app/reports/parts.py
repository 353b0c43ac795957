"""The parts of a report, before it is laid out as text, as Markdown or as a page."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tracetui.app.reports.layout import Layout, Shown
from tracetui.app.tables.columns import cell_text
from tracetui.app.text.names import told_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tracetui.analysis.base.json_values import Json
    from tracetui.analysis.report.model import Judged
    from tracetui.analysis.tables.table import Field, Table


@dataclass(frozen=True, slots=True)
class Title:
    """What the report is about; below it, in Markdown only, which of several recordings comes next."""

    text: str
    level: int = 1
    in_text: bool = False
    """Whether text has it too although it is below the first."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Titled facts: the file, the GPU, the base of the numbers."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Sentences:
    """Paragraphs."""

    texts: tuple[str, ...]
    heading: str = ""
    """A line above them."""
    bullets: bool = False
    """Whether they are items of a list."""
    marks: tuple[str, ...] = ()
    """Of a list, a sign for each item that means something, or nothing."""
    boxes: bool = False
    """Whether the signs are boxes to tick: ``[x]`` for what is done."""
    lead: bool = False
    """Whether they answer the report's question, and so stand out on a page."""


@dataclass(frozen=True, slots=True)
class FindingList:
    """Findings, as a colleague would say them."""

    judged: Judged | None
    """None where the rules were not asked."""
    base: str = "step"
    """What the numbers are about."""
    whole: bool = False
    """Whether what was set aside and could not be judged is said too, where there is room for it."""
    brief: bool = False
    """Whether the first ones are said in a few lines, and what they rest on stands behind a fold or an option."""
    clean: bool = False
    """Whether gains are of steps without a profiler."""
    answer: str = ""
    """What the page says above them, which they don't say again."""
    folded: bool = False
    """Whether a page shows their titles, each of which unfolds."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture of text."""

    title: str
    rows: tuple[str, ...]
    drawn: Callable[[], str] | None = field(default=None, compare=False)
    """Makes the same as SVG, for a page; without it a page shows the rows."""
    caption: str = ""
    """The title above the SVG, where the text's explains its signs."""


@dataclass(frozen=True, slots=True)
class Block:
    """A table with its heading, the sentences around it and its picture."""

    heading: str
    base: str = ""
    """The base of its shares, or how its numbers are computed."""
    columns: tuple[Shown, ...] = ()
    cells: list[list[str]] = field(default_factory=list)
    whole: int = 0
    """Rows of the whole list; 0 where that is not worth saying."""
    depths: tuple[int, ...] = ()
    """Of a tree: how deep each row stands; its last column is moved to the right by it."""
    marks: tuple[str, ...] = ()
    """A sign for each row, or nothing; text writes it right behind the first column, Markdown has a column for it."""
    note: str = ""
    """A sentence right below the heading, where its base is too long for that."""
    shown: int | None = None
    """How many of the whole there are, where that is not the number of rows."""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    chart: Chart | None = None
    chart_first: bool = False
    values: Sequence[Sequence[object]] = ()
    """What the cells were written from, as far as known: numbers that a page sorts by, names in full."""
    drawn_first: bool = False
    """Whether HTML has the chart above the table, whose rows have bars in text."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command to type, below a sentence that says what it does."""

    said: str
    words: tuple[str, ...]
    """Its words; each is quoted where it is laid out."""


Part = Title | Facts | Sentences | FindingList | Block | Command


def rows_shown(block: Block) -> int:
    """How much of the whole list the block shows."""
    return len(block.cells) if block.shown is None else block.shown


def listed(
    table: Table,
    rows: Sequence[Json],
    layout: Layout,
    *,
    fields: Sequence[Field] | None = None,
    **more: Any,
) -> Block:
    """A declared table with the report's rows, as many as the layout has room for.

    Args:
        table: the declaration: its title, base and the columns that reports show.
        rows: all rows of the list, as the JSON contract has them.
        layout: how many rows there are room for, and whether in ASCII.
        fields: the columns, where not those of the declaration.
        more: what of the block is otherwise.
    """
    fields = tuple(table.chosen(table.reports) if fields is None else fields)
    rows = _told_apart(rows, fields)
    cells = [[cell(one, row, ascii=layout.ascii) for one in fields] for row in rows[: layout.limit]]
    values = [[row[one.json_key] for one in fields] for row in rows[: layout.limit]]
    block = Block(table.title, table.base, tuple(map(shown, fields)), cells, len(rows), values=values)
    return replace(block, **more) if more else block


def _told_apart(rows: Sequence[Json], fields: Sequence[Field]) -> Sequence[Json]:
    """The rows with short names that tell apart what has other names."""
    one = next((one for one in fields if one.short), None)
    if one is None or not rows:
        return rows
    names = told_apart({"name": row[one.json_key], "short_name": row.get(one.short)} for row in rows)
    return [{**row, one.short: names[row[one.json_key]]} for row in rows]


def shown(one: Field) -> Shown:
    """How a declared column stands in a report."""
    share = (3 if one.priority == 0 else 2) if one.flex else 0
    return Shown(
        one.label, right=one.right, share=share, keep_end=one.tail, is_name=one.flex, about=one.about, has_bar=one.bar
    )


def cell(one: Field, row: Json, *, ascii: bool = False) -> str:
    """The text of a column in a row of the report: the same as on the screen."""
    value = row[one.json_key]
    return value_cell(one, row.get(one.short) or value if one.short else value, ascii=ascii)


def value_cell(one: Field, value: object, *, ascii: bool = False) -> str:
    """The text of a column's value, or of the short form of a name."""
    if one.kind in ("time", "delta") and isinstance(value, int | float):
        value = round(value * 1e3, 6)  # whole ns, which a product may miss by the last bit
    return cell_text(value, one.kind, ascii=ascii)


def filled(fields: Iterable[Field], rows: Sequence[Json]) -> list[Field]:
    """Removes columns that are empty in all rows."""
    return [one for one in fields if any(row[one.json_key] is not None for row in rows)]
