"""Which pairs of a product are tried, where the whole product takes long and finds no more."""

import os
from collections.abc import Iterable
from typing import TypeVar

Row = TypeVar("Row")
Column = TypeVar("Column")


def pairs(rows: Iterable[Row], columns: Iterable[Column], every: int) -> list[tuple[Row, Column]]:
    """Each row with one in so many columns, and each column with one in so many rows, evenly; the same ones each time.

    With ``TRACETUI_ALL_PAIRS=1`` in the environment, all of them.
    """
    every = 1 if "TRACETUI_ALL_PAIRS" in os.environ else every
    columns = list(columns)
    found = ((row, column) for row in enumerate(rows) for column in enumerate(columns))
    return [(row, column) for (r, row), (c, column) in found if (r + c) % every == 0]
