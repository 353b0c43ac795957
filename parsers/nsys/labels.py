"""Texts of NVTX ranges and names of calls: decoded, cleared of secrets, and with what frameworks wrote into them apart.

PyTorch's emit_nvtx writes a call's numbers into its range's name: ``aten::to, seq = 5, op_id = 7, sizes = [[2, 3]]``
(torch/csrc/profiler/util.cpp, getNvtxStr). Left there, every call would be a name of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.parsers import categories
from tracetui.parsers.nsys.compact import NULL
from tracetui.parsers.nsys.privacy import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from tracetui.parsers.categories import Codes

_FOLDED = re.compile(
    r"^(?P<name>.*?)"
    r"(?:, (?:stashed )?seq ?= ?(?P<sequence>-?\d{1,18}))?"
    r"(?:, op_id ?= ?(?P<operation>\d{1,18}))?"
    r"(?:, sizes ?= ?(?P<sizes>\[.*?\]))?"
    r"(?:, input_op_ids ?= ?\[.*\])?$",
    re.DOTALL,
)
_MAY_FOLD = r", (?:stashed )?seq ?= ?-?\d|, op_id ?= ?\d|, sizes ?= ?\["
_VERSION = re.compile(r"_v\d{4}$")


@dataclass(frozen=True, slots=True)
class Labels:
    """What a column of range texts says, by row."""

    name: Codes
    sequence: NDArray[np.int64] | None = None
    operation: NDArray[np.int64] | None = None
    sizes: Codes | None = None


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
    """Category codes of names, those that must not be shown replaced."""
    return categories.encode([shown(text) for text in texts])


def labels(texts: pl.Series) -> Labels:
    """Reads a column of undecoded range texts; empty ones have no name."""
    # a dictionary of this column's own: what is folded or hidden must not stay in the program's
    own = pl.Categorical(pl.Categories.random())
    coded = decode(texts).cast(own)
    at = coded.to_physical().to_numpy()
    distinct = pl.Series(np.arange(int(at.max()) + 1 if at.size else 0, dtype=np.uint32)).cat.to(own).cast(pl.String)
    return _spread(_folded(distinct), at)


def folded(texts: list[str]) -> Labels:
    """The labels of these texts."""
    return _folded(pl.Series(texts, dtype=pl.String))


def _folded(texts: pl.Series) -> Labels:
    """The labels of distinct texts."""
    rows = texts.str.contains(_MAY_FOLD).arg_true().to_numpy()
    plain = texts.to_list()
    if not rows.size:
        return Labels(_codes(plain))
    size = len(plain)
    sequence, operation = np.full(size, NULL, np.int64), np.full(size, NULL, np.int64)
    sizes: list[str | None] = [None] * size
    for row in rows.tolist():
        match = _FOLDED.match(plain[row])
        if match is None or not match["name"]:
            continue
        plain[row] = match["name"]
        if match["sequence"]:
            sequence[row] = int(match["sequence"])
        if match["operation"]:
            operation[row] = int(match["operation"])
        sizes[row] = match["sizes"]
    return Labels(_codes(plain), sequence, operation, categories.encode(sizes))


def _codes(texts: list[str]) -> Codes:
    return categories.encode([shown(text) if text else None for text in texts])


def _spread(distinct: Labels, at: NDArray[np.uint32]) -> Labels:
    return Labels(
        distinct.name[at],
        None if distinct.sequence is None else distinct.sequence[at],
        None if distinct.operation is None else distinct.operation[at],
        None if distinct.sizes is None else distinct.sizes[at],
    )
