"""Names of events: reads the strings that kept rows refer to, removes secrets, and splits off what frameworks append.

PyTorch's emit_nvtx writes a call's numbers into its range's name: ``aten::to, seq = 5, op_id = 7, sizes = [[2, 3]]``
(torch/csrc/profiler/util.cpp, getNvtxStr). Without splitting them off, every call would have a different name.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.parsers import categories
from tracetui.parsers.arrays import Codes, Ints
from tracetui.parsers.categories import NULL_CODE
from tracetui.parsers.nsys.compact import NULL
from tracetui.parsers.nsys.privacy import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from tracetui.parsers.nsys.database import Query
    from tracetui.parsers.nsys.scan import TableReader
    from tracetui.parsers.tally import Tally

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
    sequence: Ints | None = None
    operation: Ints | None = None
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


DENSE = 1 << 22
STRETCH = 1 << 18
"""How many rows are named at once: few enough for the processor's cache."""
UNNAMED = "(unknown)"


class ById(Struct, frozen=True):
    """Values by the number of their string."""

    ids: Ints
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

    def __init__(
        self,
        reader: TableReader | None,
        needed: Iterable[int],
        tables: Iterable[Query],
        constants: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        """Reads those that are `needed`, of the `tables` with ``id`` and ``value``, and of names that no file has."""
        wanted = sorted(set(needed))
        self._texts: dict[int, str] = {number: constants[number] for number in wanted if number in constants}
        if not wanted or reader is None:
            return
        for query in tables:
            found = reader.read(query)
            found = found.filter(pl.col("id").is_in(pl.Series(wanted, dtype=pl.Int64).implode()))
            texts = decode(found["value"]).to_list()
            # an empty text, or none, names nothing
            self._texts |= {number: text for number, text in zip(found["id"].to_list(), texts, strict=True) if text}

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
            texts = [call_name(text) for text in texts]
        return ById(np.array(known, np.int64), encode(texts), unknown)

    def labels(self, ids: set[int]) -> tuple[Ints, Labels]:
        """Ids, and what the texts of these registered range names say."""
        known = sorted(ids & self._texts.keys())
        texts = pl.Series([self._texts[number] for number in known], dtype=pl.String)
        return np.array(known, np.int64), folded(texts)


def fill(
    strings: Strings, groups: dict[str, dict[str, Any]], needed: dict[str, set[int]], domains: Domains, tally: Tally
) -> None:
    """Replaces the numbers of strings and domains by every row's name and every range's domain."""
    lost = sum(strings.lacking(ids) for purpose, ids in needed.items() if purpose != "thread")
    tally.missing("name that the file's list of strings lacks", lost)
    unknown = np.uint32(encode([UNNAMED])[0])
    kernels = strings.codes(needed.get("kernel", set()), unknown)
    calls = strings.codes(needed.get("call", set()), unknown, calls=True)
    with ThreadPoolExecutor(len(groups)) as pool:
        waiting = [
            pool.submit(_fill_device, groups["device"], kernels),
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


def _fill_device(group: dict[str, Any], kernels: ById) -> None:
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
