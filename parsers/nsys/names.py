"""Reads the strings that events refer to by number, and only those that a kept row refers to."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.parsers import categories
from tracetui.parsers.categories import NULL_CODE
from tracetui.parsers.nsys import labels
from tracetui.parsers.nsys.compact import NULL
from tracetui.parsers.nsys.privacy import shown
from tracetui.parsers.nsys.query import Query

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from tracetui.parsers.categories import Codes
    from tracetui.parsers.nsys.database import Database
    from tracetui.parsers.nsys.scan import TableReader
    from tracetui.parsers.tally import Tally

DENSE = 1 << 22
STRETCH = 1 << 18
"""How many rows are named at once: few enough for the processor's cache."""
UNNAMED = "(unknown)"


class ById(Struct, frozen=True):
    """Values by the number of their string."""

    ids: NDArray[np.int64]
    """Ascending."""
    values: NDArray[Any]
    missing: Any
    """The value of a number without a string."""

    def take(self, wanted: NDArray[Any]) -> NDArray[Any]:
        """The value of each id; null ids get the value for a missing string."""
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
        # an empty text, or none, names nothing
        self._texts = {number: text for number, text in zip(found["id"].to_list(), texts, strict=True) if text}

    def text(self, number: int | None) -> str | None:
        """The string of this number, None if the file has none."""
        return None if number is None else self._texts.get(number)

    def lacking(self, ids: set[int]) -> int:
        """How many of these ids have no string."""
        return len(ids - self._texts.keys())

    def codes(self, ids: set[int], unknown: np.uint32, *, calls: bool = False) -> ById:
        """Category codes of names; with `calls`, of API calls as `nsys stats` spells them."""
        known = sorted(ids & self._texts.keys())
        texts = [self._texts[number] for number in known]
        if calls:
            texts = [labels.call_name(text) for text in texts]
        return ById(np.array(known, np.int64), labels.encode(texts), unknown)

    def labels(self, ids: set[int]) -> tuple[NDArray[np.int64], labels.Labels]:
        """Ids, and what the texts of these registered range names say."""
        known = sorted(ids & self._texts.keys())
        return np.array(known, np.int64), labels.folded(
            pl.Series([self._texts[number] for number in known], dtype=pl.String)
        )


def fill(
    strings: Strings, groups: dict[str, dict[str, Any]], needed: dict[str, set[int]], domains: Domains, tally: Tally
) -> None:
    """Replaces the numbers of strings and domains by every row's name and every range's domain."""
    lost = sum(strings.lacking(ids) for purpose, ids in needed.items() if purpose != "thread")
    tally.missing("name that the file's list of strings lacks", lost)
    unknown = np.uint32(labels.encode([UNNAMED])[0])
    kernels = strings.codes(needed.get("kernel", set()), unknown)
    calls = strings.codes(needed.get("call", set()), unknown, calls=True)
    with ThreadPoolExecutor(len(groups)) as pool:
        waiting = [
            pool.submit(_fill_device, groups["device"], kernels, unknown),
            pool.submit(_fill_calls, groups["calls"], calls),
            pool.submit(_fill_ranges, groups["ranges"], strings, needed.get("range", set()), unknown, domains),
        ]
        for filled in waiting:
            filled.result()


def _slices(size: int) -> Iterator[slice]:
    return (slice(begin, begin + STRETCH) for begin in range(0, size, STRETCH))


def _codes_in_place(values: NDArray[Any]) -> Codes:
    """A column of codes that reuses the memory of a column of numbers, if they are equally wide."""
    return values.view(np.uint32) if values.dtype == np.int32 else np.empty(values.size, np.uint32)


def _fill_calls(group: dict[str, Any], calls: ById) -> None:
    string = group.pop("string")
    group["name"] = name = _codes_in_place(string)
    for part in _slices(name.size):
        name[part] = calls.take(string[part])


def _fill_device(group: dict[str, Any], kernels: ById, unknown: np.uint32) -> None:
    """Kernels are named by a string; everything else has its name, or none yet."""
    string, name = group.pop("string"), group["name"]
    for part in _slices(name.size):
        named = name[part] != NULL_CODE
        name[part] = np.where(named, name[part], kernels.take(string[part]))


def _fill_ranges(group: dict[str, Any], strings: Strings, ids: set[int], unknown: np.uint32, domains: Domains) -> None:
    string, name, number = group.pop("string"), group["name"], group.pop("domain_id")
    known, texts = strings.labels(ids)
    found = ById(known, texts.name, np.uint32(NULL_CODE))
    more: list[tuple[NDArray[Any], ById]] = []
    for title, values, missing in (
        ("sequence", texts.sequence, np.int64(NULL)),
        ("external_id", texts.operation, np.int64(NULL)),
        ("input_shapes", texts.sizes, np.uint32(NULL_CODE)),
    ):
        if values is None:
            continue
        if title not in group:
            group[title] = np.full(name.size, missing, values.dtype)
        more.append((group[title], ById(known, values, missing)))
    group["domain"] = domain = _codes_in_place(number)
    for part in _slices(name.size):
        rows = part.start + np.flatnonzero(name[part] == NULL_CODE)
        if rows.size:
            codes = found.take(string[rows])
            codes[codes == NULL_CODE] = unknown
            name[rows] = codes
            for column, by_id in more:
                column[rows] = by_id.take(string[rows])
        domain[part] = domains.codes(number[part], group["thread"][part])


class Domains:
    """The names of NVTX domains, by process and number."""

    def __init__(self, names: dict[tuple[int, int], str], processes: list[int | None]) -> None:
        """Takes the name of each (process, domain), and the process of each thread by its number."""
        self._default = np.uint32(categories.encode([""])[0])
        self._codes = {key: np.uint32(categories.encode([shown(text)])[0]) for key, text in names.items()}
        self._process = np.array([NULL if process is None else process for process in processes], np.int64)

    def codes(self, number: NDArray[Any], thread: NDArray[np.int32]) -> Codes:
        """The domain's name per row; the default domain, and one that was never named, has none, as in nsys."""
        found = np.full(number.size, self._default, np.uint32)
        if self._codes and (number != 0).any():
            owner = self._process[thread]
            for (process, wanted), code in self._codes.items():
                found[(number == wanted) & (owner == process)] = code
        return found
