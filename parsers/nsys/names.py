"""The strings that events refer to by number: only those that a kept row names are ever taken over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tracetui.parsers.categories import NULL_CODE
from tracetui.parsers.nsys import labels
from tracetui.parsers.nsys.compact import NULL, is_null
from tracetui.parsers.nsys.query import Query

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from tracetui.parsers.nsys.database import Database
    from tracetui.parsers.nsys.scan import TableReader
    from tracetui.parsers.tally import Tally

DENSE = 1 << 22
UNNAMED = "(unknown)"


@dataclass(frozen=True, slots=True)
class ById:
    """Values by the number of their string."""

    ids: NDArray[np.int64]
    """Ascending."""
    values: NDArray[Any]
    missing: Any
    """What a number without a string has."""

    def take(self, wanted: NDArray[Any]) -> NDArray[Any]:
        """The value of each id; null ids have what is missing."""
        if not self.ids.size:
            return np.full(wanted.shape, self.missing, self.values.dtype)
        if self.ids[0] >= 0 and self.ids[-1] < DENSE:
            table = np.full(int(self.ids[-1]) + 2, self.missing, self.values.dtype)
            table[self.ids] = self.values
            # a null, being negative, is a large number without its sign: it takes the last, empty place
            unsigned = wanted.view(np.uint32 if wanted.dtype == np.int32 else np.uint64)
            found: NDArray[Any] = table[np.minimum(unsigned, unsigned.dtype.type(self.ids[-1] + 1))]
            return found
        at = np.minimum(np.searchsorted(self.ids, wanted), self.ids.size - 1)
        return np.where(self.ids[at] == wanted, self.values[at], self.missing)


class Strings:
    """The texts of the strings that kept rows refer to."""

    def __init__(self, database: Database, reader: TableReader, needed: Iterable[int]) -> None:
        self._texts: dict[int, str] = {}
        table = database.tables.get("StringIds")
        wanted = sorted(set(needed))
        if table is None or not {"id", "value"} <= table.columns or not wanted:
            return
        found = reader.read(Query.of(table, "id", texts=("value",)))
        found = found.filter(pl.col("id").is_in(pl.Series(wanted, dtype=pl.Int64).implode()))
        texts = labels.decode(found["value"]).to_list()
        self._texts = dict(zip(found["id"].to_list(), texts, strict=True))

    def text(self, number: int | None) -> str | None:
        """The string of this number, None if the file has none."""
        return None if number is None else self._texts.get(number)

    def lacking(self, ids: set[int]) -> int:
        """How many of these have no string."""
        return len(ids - self._texts.keys())

    def codes(self, ids: set[int], *, calls: bool = False) -> ById:
        """Category codes of names; with `calls`, of API calls as `nsys stats` spells them."""
        known = sorted(ids & self._texts.keys())
        texts = [self._texts[number] for number in known]
        if calls:
            texts = [labels.call_name(text) for text in texts]
        return ById(np.array(known, np.int64), labels.encode(texts), np.uint32(NULL_CODE))

    def labels(self, ids: set[int]) -> tuple[NDArray[np.int64], labels.Labels]:
        """Ids, and what the texts of these registered range names say."""
        known = sorted(ids & self._texts.keys())
        return np.array(known, np.int64), labels.folded([self._texts[number] for number in known])


def fill(strings: Strings, parts: dict[str, list[dict[str, Any]]], needed: dict[str, set[int]], tally: Tally) -> None:
    """Gives every part's rows their names, in place of the numbers of strings."""
    lost = sum(strings.lacking(ids) for purpose, ids in needed.items() if purpose != "thread")
    tally.missing("name that the file's list of strings lacks", lost)
    unknown = int(labels.encode([UNNAMED])[0])
    kernels = strings.codes(needed.get("kernel", set()))
    calls = strings.codes(needed.get("call", set()), calls=True)
    range_ids, texts = strings.labels(needed.get("range", set()))
    registered = ById(range_ids, texts.name, np.uint32(NULL_CODE))
    for part in parts["device"]:
        if "string" in part:
            part["name"] = kernels.take(part.pop("string"))
    for part in parts["calls"]:
        part["name"] = calls.take(part.pop("string"))
    for part in parts["ranges"]:
        if "string" in part:
            _fill_ranges(part, registered, range_ids, texts)
    for part in (*parts["device"], *parts["calls"], *parts["ranges"]):
        if "name" in part and (nameless := part["name"] == NULL_CODE).any():
            part["name"] = np.where(nameless, np.uint32(unknown), part["name"])


def _fill_ranges(part: dict[str, Any], registered: ById, ids: NDArray[np.int64], texts: labels.Labels) -> None:
    string = part.pop("string")
    rows = np.flatnonzero((part["name"] == NULL_CODE) & ~is_null(string))
    part["name"] = part["name"].copy()
    part["name"][rows] = registered.take(string[rows])
    for column, values, missing in (
        ("sequence", texts.sequence, np.int64(NULL)),
        ("external_id", texts.operation, np.int64(NULL)),
        ("input_shapes", texts.sizes, np.uint32(NULL_CODE)),
    ):
        if values is None:
            continue
        filled = part.get(column)
        filled = np.full(part["name"].size, missing, values.dtype) if filled is None else filled.copy()
        filled[rows] = ById(ids, values, missing).take(string[rows])
        part[column] = filled
