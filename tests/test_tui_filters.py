"""The filter language of tables."""

from __future__ import annotations

import polars as pl
import pytest

from tracetui.analysis.tables.table import Field
from tracetui.app.tables import filters

COLUMNS = (
    Field("name", "Name"),
    Field("total_ns", "Total", "time", main=True),
    Field("mean_ns", "Mean", "time"),
    Field("percent", "%", "percent", main=True),
    Field("calls", "Calls", "count", main=True),
    Field("bytes", "Size", "bytes"),
)
FRAME = pl.DataFrame(
    {
        "name": ["Scan<[a]>", "gemm", "copy (x)", "conv", None],
        "total_ns": [400_000, 300_000, 2_000_000, 50, None],
        "mean_ns": [4_000.0, 30_000.0, 2_000.0, 50.0, None],
        "percent": [40.0, 30.0, 20.0, 0.05, None],
        "calls": [100, 10, 1000, 1, 0],
        "bytes": [None, None, 5_000, 2_000_000, None],
    }
)


def kept(text: str, frame: pl.DataFrame = FRAME) -> list[int]:
    condition = filters.parse(text).expression(COLUMNS, frame)
    return frame.select(condition.alias("keep"))["keep"].arg_true().to_list() if filters.parse(text) else [*range(5)]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", [0, 1, 2, 3, 4]),
        ("scan", [0]),
        ("SCAN", [0]),
        ("<[", [0]),
        ("(x", [2]),
        ("o c", [2, 3]),
        ('"y ("', [2]),
        ("/^(gemm|conv)$/", [1, 3]),
        ("/gem", [1]),
        ("!copy", [0, 1, 3, 4]),
        ("!/^c/", [0, 1, 4]),
        ("! copy", [0, 1, 3, 4]),
        (">350us", [0, 2]),
        (">350µs", [0, 2]),
        ("<1us", [3]),
        (">=2ms", [2]),
        ("<1%", [3]),
        (">20%", [0, 1]),
        (">50", [0, 2]),
        ("=10", [1]),
        ("mean>3us", [0, 1]),
        ("calls<=1 conv", [3]),
        (">1mb", [3]),
        ("c >20% !gemm", [0]),
        (">", [0, 1, 2, 3, 4]),
    ],
)
def test_keeps_rows(text, rows):
    assert kept(text) == rows


def test_categories_are_searched_like_texts():
    frame = FRAME.with_columns(pl.col("name").cast(pl.Categorical))
    assert kept("scan", frame) == [0]
    assert kept("/^g/", frame) == [1]


@pytest.mark.parametrize(
    ("text", "words"),
    [("/(/", "regular expression"), (">5parsec", "unknown unit parsec"), ("age>5", "no number column")],
)
def test_says_what_it_cannot_read(text, words):
    with pytest.raises(filters.FilterError, match=words):
        filters.parse(text).expression(COLUMNS, FRAME)


def test_a_table_without_times_refuses_a_time():
    with pytest.raises(filters.FilterError, match="no time column"):
        filters.parse(">5us").expression(COLUMNS[:1], FRAME)


@pytest.mark.parametrize(("text", "rows"), [("=1.001us", [1]), ("<=1.001us", [0, 1]), (">=8.193us", [3])])
def test_a_number_with_decimals_means_what_it_says(text, rows):
    frame = pl.DataFrame({"name": ["a", "b", "c", "d"], "total_ns": [1_000, 1_001, 1_002, 8_193]})
    assert kept(text, frame) == rows
