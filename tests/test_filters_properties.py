"""The filter language beside a reader that looks at one cell after the other."""

import itertools
import operator
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import polars as pl
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tracetui.analysis.tables.table import Field
from tracetui.app.tables import filters
from tracetui.app.tables.filters import Comparison, Filter, FilterError, Match

UNITS = {
    "": 1, "%": 1, "ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9,
    "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 1024, "mib": 1024**2, "gib": 1024**3,
}  # fmt: skip
SUBJECTS = {
    **dict.fromkeys(("ns", "us", "µs", "ms", "s"), ("time", "delta")),
    **dict.fromkeys(("b", "kb", "mb", "gb", "kib", "mib", "gib"), ("bytes",)),
    "%": ("percent", "change"),
    "": ("count", "number"),
}
"""The kinds of columns that a comparison without a column may speak of, by its unit."""
NUMBERS = ("time", "delta", "change", "percent", "count", "bytes", "number")
TEXTS = ("text", "status")
SIGNS = {">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le, "=": operator.eq}
DIGITS = ("0", "5", "10", "+2", "-3", "-0", "1.001", "2.5", "0.03", "1.1", "20", "1")
LETTERS = 'abAB µÄä.(<[>=!5us/"%'
PATTERNS = ("a", "^a", "b$", "^$", "a|b", "a.b", "[ab]+", r"\(", "Ä", "(?:a )?B", "^[^a]*$")


@dataclass(frozen=True)
class Part:
    """What a person types, and what it means."""

    typed: str
    match: Match | None = None
    comparison: Comparison | None = None
    open_ended: bool = False
    """Its last quote or slash is not typed yet, so nothing can follow."""


def is_comparison(word: str) -> bool:
    return re.fullmatch(r"[\w%]*(>=|<=|>|<|=)[+-]?\d+(\.\d+)?[^\W\d]*%?", word) is not None


PLAIN_WORDS = st.text(LETTERS.replace(" ", ""), min_size=1, max_size=4).filter(
    lambda word: word[0] not in '!/"' and not re.fullmatch("[<>=]+", word) and not is_comparison(word)
)


@st.composite
def matches(draw: st.DrawFn) -> Part:
    negated = draw(st.booleans())
    sign = draw(st.sampled_from(("!", "! "))) if negated else ""
    form = draw(st.sampled_from(("word", "quoted", "regex")))
    if form == "word":
        text = draw(PLAIN_WORDS)
        return Part(sign + text, Match(text, regex=False, negated=negated))
    unfinished = draw(st.integers(0, 9)) == 0
    if form == "quoted":
        text = draw(st.text(LETTERS.replace('"', ""), max_size=4))
        ending = '"'
    else:
        text = draw(st.sampled_from(("", *PATTERNS)))
        ending = "/"
    if unfinished:
        text = text.rstrip()
    match = Match(text, regex=form == "regex", negated=negated) if text else None
    return Part(sign + ending + text + ("" if unfinished else ending), match, open_ended=unfinished)


@st.composite
def comparisons(draw: st.DrawFn, columns: tuple[str, ...] = ("", "", "calls", "GPU%", "_x1", "%")) -> Part:
    column, sign, unit = (draw(st.sampled_from(from_)) for from_ in (columns, tuple(SIGNS), tuple(UNITS)))
    digits = draw(st.sampled_from(DIGITS))
    spelled = draw(st.sampled_from((unit, unit.upper()))) if unit != "µs" else unit
    typed = f"{column}{sign}{digits}{spelled}"
    return Part(typed, comparison=Comparison(column.lower(), sign, float(digits), unit))


@st.composite
def negated_comparisons(draw: st.DrawFn) -> Part:
    """After ``!`` a comparison is a text like any other, and so is a lone sign."""
    text = draw(st.one_of(comparisons().map(lambda part: part.typed), st.sampled_from(tuple(SIGNS))))
    return Part("!" + text, Match(text, regex=False, negated=True))


NOTHING = st.sampled_from([Part(""), Part("!"), *(Part(sign) for sign in SIGNS)])
"""A filter that is still being typed."""
PARTS = st.lists(st.one_of(matches(), comparisons(), negated_comparisons(), NOTHING), max_size=4)


def typed(parts: list[Part], gaps: list[str]) -> str:
    """The parts with spaces between; what a slash or a quote ends needs none."""
    text = ""
    for part, gap in zip(parts, gaps, strict=False):
        text += part.typed + gap
    return text


@given(PARTS, st.lists(st.sampled_from((" ", "  ")), min_size=4, max_size=4), st.sampled_from(("", " ", "\t")))
def test_reads_what_was_meant(parts: list[Part], gaps: list[str], before: str) -> None:
    assume(not any(part.open_ended for part in parts[:-1]))
    assume(not any(part.typed == "!" for part in parts[:-1]))  # it speaks of what follows
    found = filters.parse(before + typed(parts, gaps))
    assert found.matches == tuple(part.match for part in parts if part.match)
    assert found.comparisons == tuple(part.comparison for part in parts if part.comparison)
    assert bool(found) == any(part.match or part.comparison for part in parts)


@given(st.sampled_from(("/a/", '"a"', "!/a/", '! "a"')), st.one_of(matches(), comparisons()))
def test_a_slash_or_a_quote_ends_a_part(first: str, second: Part) -> None:
    assert filters.parse(first + second.typed) == filters.parse(f"{first} {second.typed}")


# texts


@st.composite
def text_tables(draw: st.DrawFn) -> tuple[list[Field], dict[str, list[str | None]], pl.DataFrame, Part]:
    """A text to look for, and columns of which some hold it."""
    part = draw(matches())
    looked_for = part.match.pattern if part.match else ""
    height = draw(st.integers(1, 5))
    letters = st.text(LETTERS, max_size=2)
    cells = st.one_of(
        st.none(),
        st.text(LETTERS, max_size=5),
        st.builds("{}{}{}".format, letters, st.sampled_from((looked_for, looked_for.swapcase())), letters),
    )
    values = {name: draw(st.lists(cells, min_size=height, max_size=height)) for name in ("p", "q", "r")}
    kinds = draw(st.lists(st.sampled_from((*TEXTS, "flag", "count")), min_size=3, max_size=3))
    shown = [Field(name, name.upper(), kind) for name, kind in zip("pqr", kinds, strict=True)]  # type: ignore[arg-type]
    gone = draw(st.sampled_from(("", "", "", "q")))
    kept = {name: column for name, column in values.items() if name != gone}
    dtype = draw(st.sampled_from((pl.String(), pl.Categorical())))
    return shown, kept, pl.DataFrame(kept, schema=dict.fromkeys(kept, pl.String())).cast(dtype), part  # type: ignore[arg-type]


def lower(text: str) -> str:
    """Only ASCII: what a person types in ASCII finds ASCII in any case."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


def occurs(match: Match, text: str) -> bool:
    if match.regex:
        return re.search(match.pattern, text, re.IGNORECASE) is not None
    if match.pattern.isascii():
        return lower(match.pattern) in lower(text)
    return match.pattern.casefold() in text.casefold()


def kept_rows(found: Filter, columns: list[Field], frame: pl.DataFrame) -> list[int]:
    return frame.with_row_index("row number").filter(found.expression(columns, frame))["row number"].to_list()


FLAGS = [Field("p", "P", "flag")], {"p": ["a"]}, pl.DataFrame({"p": ["a"]})


@given(text_tables())
@example((*FLAGS, Part("a", Match("a", regex=False, negated=False))))
def test_texts_are_looked_for_in_texts_and_words_of_status(table) -> None:
    columns, values, frame, part = table
    if part.match is None:
        assert filters.parse(part.typed) == Filter()
        return
    searched = [values[column.name] for column in columns if column.kind in TEXTS and column.name in values]
    expected = []
    for row in range(frame.height):
        texts = [text for column in searched if (text := column[row]) is not None]
        if any(occurs(part.match, text) for text in texts) != part.match.negated:
            expected.append(row)
    assert kept_rows(filters.parse(part.typed), columns, frame) == expected


def test_texts_are_looked_for_as_the_screen_shortens_them_too() -> None:
    columns = [Field("name", "Kernel", short="short_name")]
    names = {"name": ["void at::elementwise_kernel<4>()", "void gemm()"], "short_name": ["elementwise: copy", "gemm"]}
    for typed, kept in (("/^elem.*copy/", [0]), ('"elementwise: copy"', [0]), ("/^void/", [0, 1]), ("!/^gemm/", [0])):
        assert kept_rows(filters.parse(typed), columns, pl.DataFrame(names)) == kept


# numbers

TITLES = ("Calls", "GPU%", "GPU", "Own time", "%", "Mean")
NAMES = ("calls", "mean_ns", "Size", "percent", "x1")


@st.composite
def number_tables(draw: st.DrawFn) -> tuple[list[Field], pl.DataFrame, Part]:
    """A comparison, and columns with values about the number that it names."""
    part = draw(comparisons(("", "", "", *NAMES, "gpu%", "gpu", "GPU", "%", "MEAN", "other")))
    limit = limit_of(part)
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
    columns = [
        Field(
            name,
            draw(st.sampled_from(TITLES)),
            draw(st.sampled_from((*NUMBERS, *TEXTS, "flag"))),
            main=draw(st.booleans()),
        )
        for name in names
    ]
    gone = draw(st.sampled_from((None, None, None, *names)))
    cells = st.sampled_from([None, 0, -3, 5000, *(round(limit) + off for off in (-1, 0, 0, 1))])
    data: dict[str, pl.Series] = {}
    for column in columns:
        if column.name == gone:
            continue
        values: list[Any] = draw(st.lists(cells, min_size=4, max_size=4))
        if column.kind in TEXTS:
            data[column.name] = pl.Series(["a", None, "b", "5"])
        elif column.kind == "flag":
            data[column.name] = pl.Series([True, None, False, True])
        elif draw(st.booleans()):
            data[column.name] = pl.Series(values, dtype=pl.Int64)
        else:
            data[column.name] = pl.Series([None if v is None else float(v) for v in values], dtype=pl.Float64)
    return columns, pl.DataFrame({"always": [1, 2, 3, 4], **data}), part


def limit_of(part: Part) -> Fraction:
    """The number of a comparison, exactly."""
    assert part.comparison is not None
    digits = re.search(r"[+-]?\d+(\.\d+)?", part.typed[len(part.comparison.column) :])
    assert digits is not None
    return Fraction(digits[0]) * UNITS[part.comparison.unit]


def spoken_of(found: Comparison, columns: list[Field], frame: pl.DataFrame) -> Field | None:
    """The number column that is named (by name, title or label), or else the main one, or the first, of the kind."""
    shown = [column for column in columns if column.name in frame.columns and column.kind in NUMBERS]
    if found.column:
        spellings = {
            column.name: {column.name.lower(), column.title.lower(), f"{column.title.lower()}%"}
            if column.kind == "percent" and "%" not in column.title
            else {column.name.lower(), column.title.lower()}
            for column in shown
        }
        return next((column for column in shown if found.column in spellings[column.name]), None)
    fitting = [column for column in shown if column.kind in SUBJECTS[found.unit]]
    return next(iter([column for column in fitting if column.main] + fitting), None)


THOUSANDS = [Field("ns", "Time", "time")], pl.DataFrame({"ns": [1000, 1001, 1002]})


@example((*THOUSANDS, Part("=1.001us", comparison=Comparison("", "=", 1.001, "us"))))
@given(number_tables())
def test_numbers_are_compared_in_their_unit(table: tuple[list[Field], pl.DataFrame, Part]) -> None:
    columns, frame, part = table
    comparison = part.comparison
    assert comparison is not None
    found = filters.parse(part.typed)
    column = spoken_of(comparison, columns, frame)
    if column is None:
        with pytest.raises(FilterError, match=r"no (number|time|size|percent|count) column"):
            found.expression(columns, frame)
        return
    limit = float(limit_of(part))
    values = frame[column.name].to_list()
    expected = [row for row, value in enumerate(values) if value is not None and SIGNS[comparison.sign](value, limit)]
    assert kept_rows(found, columns, frame) == expected


def test_every_unit_speaks_of_its_kinds_of_columns_alone() -> None:
    for case in itertools.product(SIGNS, UNITS):
        sign, unit = case
        limit = 3 * UNITS[unit]
        values = [None, limit - 1, limit, limit + 1, -limit]
        frame = pl.DataFrame({"value": values})
        expected = [row for row, value in enumerate(values) if value is not None and SIGNS[sign](value, limit)]
        for kind in NUMBERS:
            column = Field("value", "Value", kind)  # type: ignore[arg-type]
            if kind in SUBJECTS[unit]:
                assert kept_rows(filters.parse(f"{sign}3{unit}"), [column], frame) == expected, case
            else:
                with pytest.raises(FilterError):
                    filters.parse(f"{sign}3{unit}").expression([column], frame)


def test_a_column_is_spelled_by_its_name_its_title_or_its_label() -> None:
    for spelled in ["share", "Share", "gpu", "GPU", "gpu%", "Gpu%"]:
        columns = [Field("other", "Other", "percent", main=True), Field("share", "GPU", "percent")]
        frame = pl.DataFrame({"other": [9, 1], "share": [1, 9]})
        assert kept_rows(filters.parse(f"{spelled}>5"), columns, frame) == [1], spelled


@pytest.mark.parametrize(("main", "rows"), [(None, [0]), (0, [0]), (1, [1]), (2, [2])])
def test_without_a_main_column_the_first_of_its_kind_is_meant(main: int | None, rows: list[int]) -> None:
    columns = [Field(name, name.upper(), "time", main=at == main) for at, name in enumerate("xyz")]
    frame = pl.DataFrame({"x": [9, 1, 1], "y": [1, 9, 1], "z": [1, 1, 9]})
    assert kept_rows(filters.parse(">5ns"), columns, frame) == rows


@given(st.sampled_from(tuple(UNITS)))
def test_what_no_column_shows_is_named(unit: str) -> None:
    words = {"time": "no time column", "bytes": "no size column", "percent": "no percent column", "count": "no count"}
    (word,) = [words[kind] for kind in words if kind in SUBJECTS[unit]]
    with pytest.raises(FilterError, match=word):
        filters.parse(f">5{unit}").expression([Field("name", "Name")], pl.DataFrame({"name": ["a"]}))


@given(st.text("abgiknpµ", min_size=1, max_size=3).filter(lambda unit: unit not in UNITS))
def test_an_unknown_unit_is_refused(unit: str) -> None:
    with pytest.raises(FilterError, match=f"unknown unit {unit}"):
        filters.parse(f">5{unit}")


@pytest.mark.parametrize("wrong", ["/(/", "/[/", "!/a(/", "/*/", "/(a"])
def test_a_wrong_regular_expression_is_refused(wrong: str) -> None:
    with pytest.raises(FilterError, match="not a regular expression"):
        filters.parse(wrong)


def test_bars_between_texts_are_alternatives() -> None:
    names = ["conv_fwd", "scan(a)", "gemm", "a|b", "SCAN"]
    columns, frame = [Field("name", "Name")], pl.DataFrame({"name": names})
    kept = {
        "conv|scan": ["conv_fwd", "scan(a)", "SCAN"], "!conv|scan": ["gemm", "a|b"], "conv|": ["conv_fwd"],
        "|": ["a|b"], '"a|b"': ["a|b"], "(a|x": ["scan(a)"], "conv|scan fwd": ["conv_fwd"],
    }  # fmt: skip
    for typed_text, expected in kept.items():
        assert [names[row] for row in kept_rows(filters.parse(typed_text), columns, frame)] == expected, typed_text


@given(st.lists(st.sampled_from(("a", "!b", "/b$/", ">5us", "<=20", "calls>1", '"a b"')), max_size=4))
def test_all_parts_must_hold(parts: list[str]) -> None:
    columns = [Field("name", "Name"), Field("calls", "Calls", "count"), Field("ns", "Time", "time")]
    frame = pl.DataFrame(
        {
            "name": ["a", "b", "a b", "ba", None, "A B"],
            "calls": [1, 2, 30, None, 5, 20],
            "ns": [5_000, 6_000, None, 7_000, 9_000, 5_001],
        }
    )
    alone = [set(kept_rows(filters.parse(part), columns, frame)) for part in parts]
    assert kept_rows(filters.parse(" ".join(parts)), columns, frame) == sorted(set(range(6)).intersection(*alone))
