"""A block's table: cells as in Markdown, with the numbers behind them for sorting."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import UNKNOWN
from tracetui.app.reports.html.markup import element, said

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.app.reports.layout import Shown
    from tracetui.app.reports.parts import Block

BAR = 60
"""Units that a share of 100 % fills beside its number."""
KEY = "key"
"""The column that names a row, which stays in sight where the page is narrow."""


def table(block: Block, heading: str) -> str:
    """The table, in a box of its own that scrolls where the page is narrow.

    Args:
        block: what has cells.
        heading: the id of the heading that names it.
    """
    kept = [n for n, column in enumerate(block.columns) if not column.is_bar]
    columns = [block.columns[n] for n in kept]
    values = [_values(block, n) for n in kept]
    key = next((place for place, column in enumerate(columns) if column.is_name), None)
    numbers = [column_values([row[n] for row in block.cells], raw) for n, raw in zip(kept, values, strict=True)]
    head = "".join(
        _head(column, known, is_key=place == key)
        for place, (column, known) in enumerate(zip(columns, numbers, strict=True))
    )
    rows = []
    depths = block.depths or (0,) * len(block.cells)
    for at, (row, depth) in enumerate(zip(block.cells, depths, strict=True)):
        cells = [
            _cell(
                row[n],
                column,
                depth if place == len(kept) - 1 else 0,
                None if known is None else known[at],
                raw[at] if raw else None,
                is_key=place == key,
            )
            for place, (n, column, known, raw) in enumerate(zip(kept, columns, numbers, values, strict=True))
        ]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    body = "\n".join(rows)
    # rows of a tree stand below their parent, and rows without a name belong to the one above
    sorts = not block.depths and len(rows) > 1 and all(row[kept[0]].strip() for row in block.cells)
    inside = f"<table{' data-sorts' if sorts else ''}><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"
    box = element("div", inside, class_="scroll", role="region", tabindex="0", aria_labelledby=heading)
    return box + _meanings(columns)


def _values(block: Block, column: int) -> list[object]:
    """What a column's cells were written from; empty where the block does not say."""
    rows = block.values[: len(block.cells)]
    known = len(rows) == len(block.cells) and all(column < len(row) for row in rows)
    return [row[column] for row in rows] if known else []


def _head(column: Shown, numbers: list[float | None] | None, *, is_key: bool) -> str:
    style = KEY if is_key else "right" if column.right else ""
    attributes = {"scope": "col", "class_": style, "title": column.about, "data_n": "1" if numbers else ""}
    return element("th", said(column.title), **attributes)


def _cell(text: str, column: Shown, depth: int, number: float | None, raw: object, *, is_key: bool) -> str:
    inside = said(text)
    if column.is_name and text:
        inside = f"<code>{inside}</code>"
    if depth:
        inside = f'<span class="deep">{"· " * depth}</span>{inside}'
    if column.has_bar and number is not None:
        inside = _bar(number) + inside
    whole = raw if isinstance(raw, str) and raw != text and column.is_name else ""
    style = f"name {KEY}" if is_key else "name" if column.is_name else "right" if column.right else ""
    value = "" if number is None else f"{number:.12g}"
    return element("td", inside, class_=style, title=whole, data_v=value)


def _bar(percent: float) -> str:
    wide = f"{min(max(percent, 0.0), 100.0) / 100 * BAR:.1f}"
    return (
        f'<svg class="bar" width="{BAR}" height="9" aria-hidden="true">'
        f'<rect width="{BAR}" height="9" class="floor"/><rect width="{wide}" height="9" class="gpu"/></svg>'
    )


def _meanings(columns: Sequence[Shown]) -> str:
    """What the columns mean, for whoever has no pointer to rest on a heading."""
    rows = [f"<dt>{said(one.title)}</dt><dd>{said(one.about)}</dd>" for one in columns if one.about and one.title]
    if not rows:
        return ""
    return f'<details class="meanings"><summary>What the columns mean</summary><dl>{"".join(rows)}</dl></details>'


_WRITTEN = re.compile(r"[<>]?([+-]?\d[\d,]*(?:\.\d+)?)(?: ?([A-Za-zµ%/]+))?(?: ±.*)?")
_TIMES = {"ns": 1.0, "µs": 1e3, "us": 1e3, "ms": 1e6, "s": 1e9}
_SIZES = {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
_PREFIXES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_RATES = ("FLOP/s", "FLOP", "B/s", "Hz", "sector/s")
_ANY = ""
"""The unit of a bare 0, which is the same in all."""


def column_values(texts: Sequence[str], raw: Sequence[object]) -> list[float | None] | None:
    """The numbers behind a column's cells, null where unknown; None for a column of texts, or of several units.

    Args:
        texts: the cells as they are written.
        raw: what they were written from, where that is known; as long as `texts`, or empty.
    """
    known = [n for n, text in enumerate(texts) if not _is_unknown(text)]
    if raw and all(_is_number(raw[n]) for n in known):
        exact: list[float | None] = [None] * len(texts)
        for n in known:
            exact[n] = float(raw[n])  # type: ignore[arg-type]  # what `_is_number` said
        return exact if known else None
    found: list[float | None] = [None] * len(texts)
    units = set()
    for n in known:
        amount = amount_of(texts[n])
        if amount is None:
            return None
        units.add(amount[0])
        found[n] = amount[1]
    return found if units and len(units - {_ANY}) <= 1 else None


def amount_of(text: str) -> tuple[str, float] | None:
    """The unit and the value of a number as reports write it: ``1.234 ms``, ``<0.01``, ``1.42 ±0.03``; else None."""
    match = _WRITTEN.fullmatch(text)
    if match is None:
        return None
    value, unit = float(match[1].replace(",", "")), match[2] or ""
    if text[0] in "<>":
        value /= 2
    if not unit:
        return ("number" if value else _ANY), value
    if unit in _TIMES:
        return "time", value * _TIMES[unit]
    if unit in _SIZES:
        return "size", value * _SIZES[unit]
    rate = next((rate for rate in _RATES if unit.endswith(rate)), None)
    if rate is not None and unit.removesuffix(rate) in _PREFIXES:
        return rate, value * _PREFIXES[unit.removesuffix(rate)]
    return unit, value


def _is_unknown(text: str) -> bool:
    return text.strip() in ("", UNKNOWN)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
