"""The filter language of tables: text, ``this|that``, ``/regex/``, ``!not``, ``>100us``, ``<5%``, ``calls>=10``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.tables.table import Field, Kind

_COMPARISON = re.compile(
    r"(?P<column>[a-z_%][\w%]*)?(?P<sign>>=|<=|>|<|=)(?P<number>[+-]?\d+(?:\.\d+)?)(?P<unit>%|[a-zµ]+)?", re.IGNORECASE
)
_TIMES = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_SIZES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_KINDS_OF_TIME: tuple[Kind, ...] = ("time", "delta")
_REGEX = re.compile(r"[.\])][*+?]|\\[a-z]|^\^|\$$")
"""What no name holds, so that its writer meant a regular expression."""
FILTER_HELP = (
    ("scan", "rows with this text, in any case; several words must all occur"),
    ("conv|scan", "rows with one of these texts"),
    ('"two words"', "a text with its spaces"),
    ("/conv.*d/", "a regular expression; a word with .* \\d ^ or $ is one too"),
    ("!copy", "rows without it; !conv|scan and !/regex/ too"),
    (">100us  <2ms", "the table's time: ns us ms s"),
    (">5%  <0.1%", "the table's share"),
    (">=10", "the number of calls"),
    ("mean>20us", "a column by its title"),
)
"""Examples of filters, and the rows that each keeps."""


class FilterError(ValueError):
    """An invalid filter; the message tells its author why in a few words."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """``>100us``: a sign, a number and the column or unit that it refers to."""

    column: str
    sign: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Match:
    """A text or a regular expression that must, or must not, occur in the row's texts."""

    pattern: str
    regex: bool
    negated: bool


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter, all of whose parts must hold."""

    matches: tuple[Match, ...] = ()
    comparisons: tuple[Comparison, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.matches or self.comparisons)

    def expression(self, columns: Sequence[Field], frame: pl.DataFrame) -> pl.Expr:
        """The condition on the rows of a frame shown with these columns.

        Raises:
            FilterError: the table has no column that a comparison could refer to.
        """
        parts = [_text_condition(match, columns, frame) for match in self.matches]
        parts += [_number_condition(comparison, columns, frame) for comparison in self.comparisons]
        return pl.all_horizontal(*parts) if parts else pl.lit(value=True)


def parse(text: str) -> Filter:
    """Parses what the user typed.

    Words separated by spaces must all hold; a text in double quotes keeps its spaces and bars.

    Raises:
        FilterError: a regular expression is wrong.
    """
    matches: list[Match] = []
    comparisons: list[Comparison] = []
    rest = text.strip()
    while rest:
        negated = rest.startswith("!")
        if negated:
            rest = rest[1:].lstrip()
        if rest.startswith("/"):
            # an expression without its last slash is still being typed
            body, _, rest = rest[1:].partition("/")
            if body:
                matches.append(_regex(body, negated=negated))
        elif rest.startswith('"'):
            body, _, rest = rest[1:].partition('"')
            if body:
                matches.append(Match(body, regex=False, negated=negated))
        else:
            word, _, rest = rest.partition(" ")
            comparison = None if negated else _COMPARISON.fullmatch(word)
            if comparison:
                comparisons.append(_comparison(comparison))
            elif _REGEX.search(word):
                matches.append(_regex(word.rstrip("|"), negated=negated))
            elif "|" in word and (texts := list(filter(None, word.split("|")))):  # "a|" is still being typed
                several = len(texts) > 1
                pattern = "|".join(map(re.escape, texts)) if several else texts[0]
                matches.append(Match(pattern, regex=several, negated=negated))
            elif word and not (negated is False and re.fullmatch(r"[<>=]=?", word)):
                matches.append(Match(word, regex=False, negated=negated))
        rest = rest.strip()
    return Filter(tuple(matches), tuple(comparisons))


def _regex(body: str, *, negated: bool) -> Match:
    try:
        pl.Series([""]).str.contains(f"(?i){body}")
    except pl.exceptions.PolarsError:
        raise FilterError(f"not a regular expression: {body}") from None
    return Match(body, regex=True, negated=negated)


def _comparison(found: re.Match[str]) -> Comparison:
    unit = (found["unit"] or "").lower()
    if unit and unit != "%" and unit not in _TIMES and unit not in _SIZES:
        raise FilterError(f"unknown unit {unit}: ns us ms s % kb mb gb")
    return Comparison((found["column"] or "").lower(), found["sign"], float(found["number"]), unit)


def _texts(columns: Sequence[Field], frame: pl.DataFrame) -> list[str]:
    """The texts of a row as they are recorded, and as the screen shortens them."""
    texts = [column for column in columns if column.kind in ("text", "status")]
    return [name for column in texts for name in (column.name, column.short) if name in frame.columns]


def _text_condition(match: Match, columns: Sequence[Field], frame: pl.DataFrame) -> pl.Expr:
    found = []
    for name in _texts(columns, frame):
        text = pl.col(name).cast(pl.String)
        if match.regex:
            found.append(text.str.contains(f"(?i){match.pattern}").fill_null(value=False))
        elif match.pattern.isascii():
            found.append(text.str.contains_any([match.pattern], ascii_case_insensitive=True).fill_null(value=False))
        else:
            found.append(text.str.contains(f"(?i){re.escape(match.pattern)}").fill_null(value=False))
    condition = pl.any_horizontal(*found) if found else pl.lit(value=False)
    return ~condition if match.negated else condition


def _number_condition(comparison: Comparison, columns: Sequence[Field], frame: pl.DataFrame) -> pl.Expr:
    column = _subject(comparison, [c for c in columns if c.name in frame.columns])
    factor = _TIMES.get(comparison.unit, 1) * _SIZES.get(comparison.unit, 1)
    value = float(Decimal(repr(comparison.value)) * factor)  # in floats, 1.001 times 1000 is less than 1001
    subject = pl.col(column.name)
    if comparison.sign == ">":
        condition = subject > value
    elif comparison.sign == "<":
        condition = subject < value
    elif comparison.sign == ">=":
        condition = subject >= value
    elif comparison.sign == "<=":
        condition = subject <= value
    else:
        condition = subject == value
    return condition.fill_null(value=False)


def _subject(comparison: Comparison, columns: Sequence[Field]) -> Field:
    """Returns the column that a comparison refers to: the named one, or the main one of its unit's kind."""
    if comparison.column:
        for column in columns:
            if comparison.column in (column.name.lower(), column.title.lower(), column.label.lower()) and column.right:
                return column
        raise FilterError(f"no number column {comparison.column}")
    if comparison.unit in _TIMES:
        kinds, what = _KINDS_OF_TIME, "time"
    elif comparison.unit == "%":
        kinds, what = ("percent", "change"), "percent"
    elif comparison.unit in _SIZES:
        kinds, what = ("bytes",), "size"
    else:
        kinds, what = ("count", "number"), "count"
    fitting = [column for column in columns if column.kind in kinds]
    if not fitting:
        raise FilterError(f"no {what} column in this table")
    return next((column for column in fitting if column.main), fitting[0])
