"""Decodes texts of NVTX ranges and names of calls, removes secrets, and splits off what frameworks append.

PyTorch's emit_nvtx writes a call's numbers into its range's name: ``aten::to, seq = 5, op_id = 7, sizes = [[2, 3]]``
(torch/csrc/profiler/util.cpp, getNvtxStr). Without splitting them off, every call would have a different name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.parsers import categories
from tracetui.parsers.nsys.compact import NULL
from tracetui.parsers.nsys.privacy import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from tracetui.parsers.categories import Codes

_FOLDED = (
    r"(?s)^(?<name>.*?)"
    r"(?:, (?:stashed )?seq ?= ?(?<sequence>-?\d{1,18}))?"
    r"(?:, op_id ?= ?(?<operation>\d{1,18}))?"
    r"(?:, sizes ?= ?(?<sizes>\[.*?\]))?"
    r"(?:, input_op_ids ?= ?\[.*\])?$"
)
_MAY_FOLD = r", (?:stashed )?seq ?= ?-?\d|, op_id ?= ?\d|, sizes ?= ?\["
_VERSION = re.compile(r"_v\d{4}$")


class Labels(Struct, frozen=True):
    """The parts of a column of range texts, by row."""

    name: Codes
    sequence: NDArray[np.int64] | None = None
    operation: NDArray[np.int64] | None = None
    sizes: Codes | None = None

    @property
    def columns(self) -> tuple[NDArray[Any] | None, ...]:
        """The columns in order."""
        return self.name, self.sequence, self.operation, self.sizes


def call_name(text: str) -> str:
    """An API call as `nsys stats` prints it: without the last six characters if they are ``_v`` and four digits."""
    return _VERSION.sub("", text)


def decode(texts: pl.Series) -> pl.Series:
    """Bytes as text; what is not UTF-8 is replaced."""
    try:
        decoded: pl.Series = texts.cast(pl.String)
    except pl.exceptions.PolarsError:
        return pl.Series([None if text is None else text.decode("utf-8", "replace") for text in texts], dtype=pl.String)
    return decoded


def encode(texts: Iterable[str]) -> Codes:
    """Category codes of names; names that must not be shown are replaced."""
    return _codes(pl.Series(list(texts), dtype=pl.String))


def labels(texts: pl.Series) -> Labels:
    """Reads a column of undecoded range texts; empty ones have no name."""
    # a separate dictionary: texts that are split or hidden must not stay in the program's
    own = pl.Categorical(pl.Categories.random())
    coded = decode(texts).cast(own)
    at = coded.to_physical().to_numpy()
    distinct = pl.Series(np.arange(int(at.max()) + 1 if at.size else 0, dtype=np.uint32)).cat.to(own).cast(pl.String)
    found = folded(distinct)
    return Labels(*(None if values is None else values[at] for values in found.columns))  # type: ignore[arg-type]


def folded(texts: pl.Series) -> Labels:
    """The labels of distinct texts."""
    rows = texts.str.contains(_MAY_FOLD).arg_true()
    if not len(rows):
        return Labels(_codes(texts))
    groups = texts.gather(rows).str.extract_groups(_FOLDED).struct.unnest()
    groups = groups.with_columns(rows.alias("row")).filter(pl.col("name") != "")
    names = texts.scatter(groups["row"], groups["name"])
    numbers = {title: np.full(len(texts), NULL, np.int64) for title in ("sequence", "operation")}
    row = groups["row"].to_numpy()
    for title, values in numbers.items():
        values[row] = groups[title].cast(pl.Int64).fill_null(NULL).to_numpy()
    sizes = np.full(len(texts), categories.NULL_CODE, np.uint32)
    sizes[row] = categories.encode(groups["sizes"])
    return Labels(_codes(names), numbers["sequence"], numbers["operation"], sizes)


def _codes(texts: pl.Series) -> Codes:
    """Category codes of texts, null for empty ones; those that must not be shown are replaced."""
    assignments = texts.str.contains("=", literal=True).arg_true()
    if len(assignments):
        given = texts.gather(assignments).to_list()
        texts = texts.scatter(assignments, [shown(text) for text in given])
    return categories.encode(texts.replace("", None) if (texts == "").any() else texts)
