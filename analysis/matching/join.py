"""One run, several tools: which kernel of the main recording each launch of another recording is.

The kernel's key (`parsers.kernel_key`) makes the match, since the tools spell one function in three ways. Where a key
stands for several kernels, the rest of the names (namespaces, parameters), the order of the launches, and then grid and
block choose among them. None of these ever rules a match out, since a program may choose another launch configuration
in every process. Kernels that can't be told apart are ambiguous.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.matching.launch_order import in_order, paired
from tracetui.parsers.names.kernel_key import function_name, scoped_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tracetui.parsers import Trace

    Ints = NDArray[np.int64]

Status = pl.Enum(["matched", "ambiguous", "unmatched"])
Evidence = pl.Enum(["name", "launch order", "grid and block"])
NONE = -1


class KernelJoin(Struct, frozen=True):
    """Which kernels of one recording those of another are."""

    launches: pl.DataFrame
    """A row per kernel launch of the other recording, in launch order: ``row`` (in its device frame), ``name`` (as it
    spells it), ``duration``, ``status``, ``kernel`` (the name in the main recording; null unless matched), ``by`` (what
    told it; null unless matched), ``main_row`` (the launch in the main recording's device frame; null where it can't be
    told which of the kernel's launches it was)."""
    gpu_time_percent: float | None
    """Share of the main recording's kernel time (whole graphs included) that is of matched kernels; null without
    kernels."""
    other_time_percent: float | None
    """Share of the other recording's kernel time that is of matched launches; null where it has no durations."""

    def count(self, status: str) -> int:
        """How many launches are ``matched``, ``ambiguous`` or ``unmatched``."""
        return int((self.launches["status"] == status).sum())

    def named(self, status: str) -> pl.DataFrame:
        """The names of such launches as the other recording spells them, and how many: name, launches; most first."""
        return (
            self.launches.filter(pl.col("status") == status)
            .group_by(pl.col("name").cast(pl.String))
            .agg(launches=pl.len())
            .sort("launches", "name", descending=[True, False])
        )


class _Launches(Struct, frozen=True):
    """A recording's kernel launches in launch order."""

    frame: pl.DataFrame
    names: list[str]
    """The distinct names of its kernels."""
    first: Ints
    """The first launch of each name."""
    code: Ints
    """Which of `names` each launch has."""
    shape: Ints
    """A number for the grid and block of each launch; `NONE` where unknown."""


def join_kernels(main: Trace, other: Trace) -> KernelJoin:
    """Matches each kernel launch of `other` with a kernel, and where possible a launch, of `main`.

    The launch is known where the launches of both are the same sequence, where one sequence occurs exactly once within
    the other, or where both have equally many launches of the kernel.
    """
    ours, theirs = _launches(main), _launches(other)
    candidates = _candidates(ours.names, theirs.names)
    family = _families(len(ours.names), candidates)
    their_family = np.array([family[found[0]] if found else NONE for found in candidates], np.int64)
    row = in_order(family[ours.code], their_family[theirs.code], (ours.shape, theirs.shape))

    single = np.array([found[0] if len(found) == 1 else NONE for found in candidates], np.int64)
    kernel = single[theirs.code]
    by = np.where(kernel != NONE, 0, NONE)
    for name, found in enumerate(candidates):
        if len(found) > 1:
            of_name = np.flatnonzero(theirs.code == name)
            kernel[of_name], by[of_name] = _preferred(ours, found, row[of_name], theirs.shape[of_name])
    row = np.where((row != NONE) & (ours.code[row] == kernel), row, NONE) if ours.code.size else row
    row = np.where(row == NONE, paired(ours.code, kernel, taken=row), row)

    known = np.array([bool(found) for found in candidates], np.bool_)[theirs.code]
    status = np.where(kernel != NONE, 0, np.where(known, 1, 2))
    launches = theirs.frame.select("row", "name", "duration").with_columns(
        status=_labels(status, Status),
        kernel=ours.frame["name"].gather(_index(ours.first[kernel] if ours.first.size else kernel, kernel != NONE)),
        by=_labels(by, Evidence),
        main_row=ours.frame["row"].gather(_index(row, row != NONE)),
    )
    return KernelJoin(
        launches,
        _percent(main, ours.frame.filter(pl.Series(np.isin(ours.code, kernel[kernel != NONE])))["duration"]),
        _percent(other, launches.filter(pl.col("status") == "matched")["duration"]),
    )


def _launches(trace: Trace) -> _Launches:
    """The kernels of a trace in the order of their launch calls, else of their start, else of their rows."""
    frame = (
        trace.device.lazy()
        .with_row_index("row")
        .filter(pl.col("kind") == "kernel")
        .select("row", "name", "duration", "start", "launch", "grid", "block")
        .collect()
    )
    called = trace.host["start"].gather(frame["launch"])
    frame = frame.with_columns(called=called).sort(pl.coalesce("called", "start"), "start", "row", maintain_order=True)
    physical = frame["name"].to_physical().to_numpy()
    _, first, code = np.unique(physical, return_index=True, return_inverse=True)
    names = frame["name"].gather(pl.Series(first)).cast(pl.String).fill_null("").to_list()
    sizes = [pl.col(size).arr.get(axis).alias(f"{size}{axis}") for size in ("grid", "block") for axis in range(3)]
    shape = frame.select(
        pl.when(pl.col("grid").is_not_null() & pl.col("block").is_not_null())
        .then((pl.struct(sizes).hash(seed=1) // 2).cast(pl.Int64))
        .otherwise(NONE)
    )
    return _Launches(frame, names, first.astype(np.int64), code.astype(np.int64), shape.to_series().to_numpy())


def _candidates(ours: list[str], theirs: list[str]) -> list[list[int]]:
    """For each of their names, which of our names it may be: those with its key that the names do not rule out.

    A name without template arguments and parameters, as ``ncu --kernel-name-base function`` prints it, may be any
    function of that base name. If each of two functions is in a namespace that the other lacks, they are different
    functions.
    """
    by_key: dict[str, list[int]] = {}
    by_base: dict[str, list[int]] = {}
    for number, name in enumerate(ours):
        parts = function_name(name)
        by_key.setdefault(parts.key, []).append(number)
        by_base.setdefault(parts.base, []).append(number)
    found = []
    for name in theirs:
        parts = function_name(name)
        same = [number for number in by_key.get(parts.key, []) if _agree(name, ours[number])]
        if not same:
            same = [n for n in by_base.get(parts.base, []) if parts.bare or function_name(ours[n]).bare]
        found.append(closest(name, same, ours))
    return found


def closest(name: str, same: list[int], ours: list[str]) -> list[int]:
    """Of functions with one key (indices of `ours`), those that agree best with a name's namespaces and parameters."""
    if len(same) < 2 or function_name(name).bare:
        return same
    parameters = function_name(name).parameters

    def disagreement(number: int) -> tuple[bool, bool]:
        given = function_name(ours[number]).parameters
        return not _agree(name, ours[number]), None not in (parameters, given) and given != parameters

    worth = {number: disagreement(number) for number in same}
    best = min(worth.values())
    return [number for number in same if worth[number] == best]


def _agree(name: str, other: str) -> bool:
    """Whether two spellings of one key may be one function: one has all namespaces that the other has."""
    if name == other:
        return True
    words, others = scoped_words(name), scoped_words(other)
    return words == others or _is_within(words, others) or _is_within(others, words)


def _is_within(part: tuple[str, ...], whole: tuple[str, ...]) -> bool:
    """Whether one sequence is a subsequence of another."""
    rest = iter(whole)
    return all(word in rest for word in part)


def _families(count: int, candidates: list[list[int]]) -> Ints:
    """A number for each of our names, the same for names that some name of theirs can't tell apart."""
    family = list(range(count))

    def root(number: int) -> int:
        while family[number] != number:
            family[number] = family[family[number]]
            number = family[number]
        return number

    for found in candidates:
        for number in found[1:]:
            family[root(number)] = root(found[0])
    return np.array([root(number) for number in range(count)], np.int64)


def _preferred(ours: _Launches, found: list[int], row: Ints, shape: Ints) -> tuple[Ints, Ints]:
    """Which candidate each launch of an ambiguous name is, and what decided it (index in `Evidence`), or `NONE`.

    Args:
        ours: the main recording's launches.
        found: the candidates.
        row: where each launch stands among ours, as far as the order tells.
        shape: its grid and block.
    """
    kernel = np.where(row != NONE, ours.code[row], NONE)
    kernel[~np.isin(kernel, found)] = NONE
    by = np.where(kernel != NONE, 1, NONE)
    fits = np.array([np.isin(shape, ours.shape[ours.code == number]) & (shape != NONE) for number in found])
    only = (fits.sum(axis=0) == 1) & (kernel == NONE)
    kernel[only] = np.array(found, np.int64)[fits.argmax(axis=0)[only]]
    by[only] = 2
    return kernel, by


def _labels(codes: Ints, labels: pl.Enum) -> pl.Series:
    names = pl.Series(labels.categories, dtype=labels)
    return names.gather(_index(codes, codes != NONE))


def _index(values: Ints, known: NDArray[np.bool_]) -> pl.Series:
    """Row numbers to gather by, null where there is none."""
    return pl.select(pl.when(pl.Series(known)).then(pl.Series(values))).to_series()


def _percent(trace: Trace, part: pl.Series) -> float | None:
    """The share of a trace's kernel time, whole graphs included, that is of some of its kernels."""
    whole = trace.device.filter(pl.col("kind").is_in(["kernel", "graph"]))["duration"].sum()
    return 100 * int(part.sum()) / int(whole) if whole else None
