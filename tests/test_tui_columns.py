"""Columns: how they share the width, and what a value looks like."""

from __future__ import annotations

import pytest

from tracetui.analysis.tables.table import Field
from tracetui.app.tables.columns import cell_text, place

COLUMNS = (
    Field("name", "Kernel", width=20, priority=0, flex=True),
    Field("total", "Total", "time", priority=0),
    Field("percent", "%", "percent", width=5, priority=1, bar=True),
    Field("module", "Module", width=10, priority=2, flex=True),
    Field("median", "Median", "time", priority=5),
)
CONTENT = {"name": 60, "total": 8, "percent": 5, "module": 30, "median": 8}


def names(available: int, **options) -> list[str]:
    return [placed.column.name for placed in place(COLUMNS, available, content=CONTENT, **options)[0]]


def test_the_least_important_columns_go_first():
    assert names(200) == ["name", "total", "percent", "module", "median"]
    assert names(58) == ["name", "total", "percent", "module"]
    assert names(44) == ["name", "total", "percent"]
    assert names(34) == ["name", "total"]


def test_columns_never_take_more_than_there_is():
    for available in range(14, 220):
        placed, gap = place(COLUMNS, available, content=CONTENT)
        assert sum(p.total for p in placed) + gap * (len(placed) - 1) <= available, available


def test_a_text_is_not_cut_while_there_is_room():
    columns = (Field("kind", "Collective", width=8), Field("ns", "Time", "time"), Field("what", "What", flex=True))
    content = {"kind": 14, "ns": 8, "what": 6}
    for available, kind in ((80, 14), (30, 10), (28, 8)):
        placed = {one.column.name: one.width for one in place(columns, available, content=content)[0]}
        assert placed["kind"] == kind


def test_names_get_the_room_that_is_left_before_bars_grow():
    wide, _ = place(COLUMNS, 150, content=CONTENT)
    by_name = {placed.column.name: placed for placed in wide}
    assert by_name["name"].width == 60
    assert by_name["module"].width == 30
    assert by_name["percent"].bar >= 6


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, "time", "-"),
        (None, "text", "-"),
        (16_032, "time", "16.03 µs"),
        (-16_032, "delta", "-16.03 µs"),
        (16_032, "delta", "+16.03 µs"),
        (111.8, "change", "+111.8"),
        (-0.01, "change", "-0.01"),
        (-0.001, "change", ">-0.01"),
        (24.69, "percent", "24.7"),
        (0.01, "percent", "0.01"),
        (0.001, "percent", "<0.01"),
        (0.0, "percent", "0"),
        (1098, "count", "1,098"),
        (48.0, "count", "48"),
        (1.5, "count", "1.500"),
        (True, "flag", "yes"),
        (False, "flag", "no"),
        (None, "flag", "-"),
        (float("nan"), "number", "-"),
        ("a\x1b[31mb\nc", "text", "a\\x1b[31mb\\nc"),
    ],
)
def test_values_as_text(value, kind, text):
    assert cell_text(value, kind) == text
