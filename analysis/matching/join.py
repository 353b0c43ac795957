"""One run, several tools: which kernel of the main recording each launch of another recording is.

The kernel's key (`names.kernel_key`) makes the match, since the tools spell one function in three ways. Where a key
stands for several kernels, the rest of the names (namespaces, parameters), the order of the launches, and then grid and
block choose among them. None of these ever rules a match out, since a program may choose another launch configuration
in every process. Kernels that can't be told apart are ambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.base.conventions import TRACETUI, Conventions
from tracetui.analysis.base.names import matching
from tracetui.analysis.base.remembered import kept_of_pair
from tracetui.analysis.matching.launch_order import in_order, paired
from tracetui.analysis.matching.one_program import one_program
from tracetui.parsers import Run, Trace
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.kernel_key import function_name, scoped_words
from tracetui.parsers.names.kernel_types import ELEMENT_TYPES, VECTOR_WIDTH

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
    """Share of the main recording's kernel time (whole graphs included) that is of matched kernels; None without
    kernels."""
    other_time_percent: float | None
    """Share of the other recording's kernel time that is of matched launches; None where it has no durations."""

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
    their_family = np.array([family[same_key[0]] if same_key else NONE for same_key in candidates], np.int64)
    row = in_order(family[ours.code], their_family[theirs.code], (ours.shape, theirs.shape))

    single = np.array([same_key[0] if len(same_key) == 1 else NONE for same_key in candidates], np.int64)
    kernel = single[theirs.code]
    by = np.where(kernel != NONE, 0, NONE)
    for name, same_key in enumerate(candidates):
        if len(same_key) > 1:
            of_name = np.flatnonzero(theirs.code == name)
            kernel[of_name], by[of_name] = _preferred(ours, same_key, row[of_name], theirs.shape[of_name])
    row = np.where((row != NONE) & (ours.code[row] == kernel), row, NONE) if ours.code.size else row
    row = np.where(row == NONE, paired(ours.code, kernel, taken=row), row)

    has_candidate = np.array([bool(same_key) for same_key in candidates], np.bool_)[theirs.code]
    status = np.where(kernel != NONE, 0, np.where(has_candidate, 1, 2))
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
    candidates = []
    for name in theirs:
        parts = function_name(name)
        same = [number for number in by_key.get(parts.key, []) if _agree(name, ours[number])]
        if not same:
            same = [n for n in by_base.get(parts.base, []) if parts.bare or function_name(ours[n]).bare]
        candidates.append(closest(name, same, ours))
    return candidates


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


def _is_within(part: tuple[str, ...], sequence: tuple[str, ...]) -> bool:
    rest = iter(sequence)
    return all(word in rest for word in part)


def _families(count: int, candidates: list[list[int]]) -> Ints:
    """A number for each of our names, the same for names that some name of theirs can't tell apart."""
    family = list(range(count))

    def root(number: int) -> int:
        while family[number] != number:
            family[number] = family[family[number]]
            number = family[number]
        return number

    for same_key in candidates:
        for number in same_key[1:]:
            family[root(number)] = root(same_key[0])
    return np.array([root(number) for number in range(count)], np.int64)


def _preferred(ours: _Launches, same_key: list[int], row: Ints, shape: Ints) -> tuple[Ints, Ints]:
    """Which candidate each launch of an ambiguous name is, and what decided it (index in `Evidence`), or `NONE`.

    Args:
        ours: the main recording's launches.
        same_key: the candidates.
        row: where each launch stands among ours, as far as the order tells.
        shape: its grid and block.
    """
    kernel = np.where(row != NONE, ours.code[row], NONE)
    kernel[~np.isin(kernel, same_key)] = NONE
    by = np.where(kernel != NONE, 1, NONE)
    fits = np.array([np.isin(shape, ours.shape[ours.code == number]) & (shape != NONE) for number in same_key])
    only = (fits.sum(axis=0) == 1) & (kernel == NONE)
    kernel[only] = np.array(same_key, np.int64)[fits.argmax(axis=0)[only]]
    by[only] = 2
    return kernel, by


def _labels(codes: Ints, labels: pl.Enum) -> pl.Series:
    names = pl.Series(labels.categories, dtype=labels)
    return names.gather(_index(codes, codes != NONE))


def _index(values: Ints, is_row: Bools) -> pl.Series:
    """Row numbers to gather by, null where there is none."""
    return pl.select(pl.when(pl.Series(is_row)).then(pl.Series(values))).to_series()


def _percent(trace: Trace, part: pl.Series) -> float | None:
    """The share of a trace's kernel time, whole graphs included, that is of some of its kernels."""
    spent = trace.device.filter(pl.col("kind").is_in(["kernel", "graph"]))["duration"].sum()
    return 100 * int(part.sum()) / int(spent) if spent else None


_LAMBDA_NUMBER = re.compile(r"#\d+")


def pairs(a: Iterable[str], b: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Maps names of run B to the same kernel's name in run A and to how it was found; each name is used at most once.

    ``name``: spelled alike. ``key``: one function in the spellings of two tools. ``types``: base name and category are
    equal, and template arguments differ in element types only, such as float and Half, OpaqueType<4> and
    OpaqueType<2> (and in what follows from the type: the numbers of lambdas that functions choose by type, and how many
    elements PyTorch's elementwise kernels load at once); used only where both runs have exactly one such kernel.
    """
    left, right = dict.fromkeys(a), dict.fromkeys(b)
    partners = {name: (name, "name") for name in right if name in left}

    def rest(of: dict[str, None], taken: set[str]) -> list[str]:
        return [name for name in of if name not in taken]

    def add(how: str, sort_of: Callable[[str], Hashable | None], *, refine: bool) -> None:
        groups: dict[Hashable, tuple[list[str], list[str]]] = {}
        for side, names in enumerate(
            (rest(left, {other for other, _ in partners.values()}), rest(right, set(partners)))
        ):
            for name in names:
                if (sort := sort_of(name)) is not None:
                    groups.setdefault(sort, ([], []))[side].append(name)
        for ours, theirs in groups.values():
            if len(ours) == len(theirs) == 1:
                partners[theirs[0]] = (ours[0], how)
            elif refine and ours:
                chosen = {name: closest(name, list(range(len(ours))), ours) for name in theirs}
                single = [candidates[0] for candidates in chosen.values() if len(candidates) == 1]
                for name, candidates in chosen.items():
                    if len(candidates) == 1 and single.count(candidates[0]) == 1:
                        partners[name] = (ours[candidates[0]], how)

    add("key", lambda name: function_name(name).key, refine=True)
    add("types", _without_types, refine=False)
    return partners


def _without_types(name: str) -> tuple[str, str, str] | None:
    """A name without its element types; None for one without template arguments."""
    parts = function_name(name)
    if "<" not in parts.key:
        return None
    key = VECTOR_WIDTH.sub(r"\1·,", ELEMENT_TYPES.sub("·", parts.key))
    return parts.base, kernel_names.category(name), _LAMBDA_NUMBER.sub("#", key)


COUNTERS = (
    "launches", "duration_ns", "sm_percent", "memory_percent", "dram_percent", "l1_percent", "l2_percent",
    "l1_hit_percent", "l2_hit_percent", "occupancy_percent", "theoretical_occupancy_percent", "occupancy_limiter",
    "waves", "tensor_percent", "tensor_cores", "dram_bytes", "bound",
)  # fmt: skip
"""The columns of `counters.by_kernel` that each kernel gets."""
MEASURED = "measured_"
"""Prefix of these columns' names next to a recording's own columns."""


class Joined(Struct, frozen=True):
    """One recording matched with another of the same run."""

    main: Trace
    other: Trace
    join: KernelJoin


class Measured(Struct, frozen=True):
    """What Nsight Compute measured of a recording's kernels."""

    kernels: pl.DataFrame
    """``name`` (as the recording spells it) and `COUNTERS`: means over the measured launches, every launch counting the
    same; one row per kernel that has any."""
    launches: int
    """How many measured launches were matched with a kernel."""
    gpu_time_percent: float | None
    """Share of the recording's kernel time that is of measured kernels; None without kernels."""


def joined(run: Run, trace: Trace, kind: str | None = None) -> list[Joined]:
    """Joins a recording with the run's other tools' recordings of kernels, of the same rank where both tell theirs.

    Recordings of another program, size or GPU are left out: their numbers say nothing about these kernels.

    Args:
        run: the run.
        trace: one of its recordings.
        kind: only the recordings of this kind (`TraceInfo.kind`).
    """
    return [
        Joined(trace, other, _join(trace, other))
        for other in run.traces
        if other.info.kind != trace.info.kind
        and kind in (None, other.info.kind)
        and _same_rank(trace, other)
        and _has_kernels(other)
        and one_program(trace, other)
    ]


def kernel_counters_of(run: Run, trace: Trace, known: list[Joined] | None = None) -> Measured | None:
    """The hardware counters of a recording's kernels, from the run's Nsight Compute recordings; None without any.

    Of a recording by Nsight Compute they are its own.

    Args:
        run: the run.
        trace: one of its recordings.
        known: what `joined` gives for the two, where that is known already.
    """
    from tracetui.analysis.counters.counters import launch_counters, means

    tables = [launch_counters(trace).with_columns(kernel="name")] if trace.info.kind == "ncu" else []
    for match in joined(run, trace, "ncu") if known is None else known:
        if match.other.info.kind != "ncu":
            continue
        ours = match.join.launches.filter(pl.col("status") == "matched")
        ours = ours.select(pl.col("row").alias("device_row"), pl.col("kernel").cast(pl.String))
        tables.append(launch_counters(match.other).join(ours, on="device_row").with_columns(name=pl.col("kernel")))
    if not tables:
        return None
    launches = pl.concat(tables)
    kernels = means(launches).select("name", *COUNTERS)
    of_names = matching(trace.device["name"], frozenset(kernels["name"].to_list()).__contains__)
    measured = trace.device.filter(pl.col("kind").is_in(["kernel", "graph"]), pl.Series(of_names))["duration"]
    return Measured(kernels, int(kernels["launches"].sum()), _percent(trace, measured))


def with_counters(table: pl.DataFrame, measured: Measured | None) -> pl.DataFrame:
    """Adds what was measured to a table of kernels, as columns ``measured_…``, null where nothing was measured.

    ``tensor_cores`` follows the counters where they tell; ``tensor_cores_from`` says ``counters`` or ``name``.
    """
    if measured is None:
        return table.with_columns(tensor_cores_from=pl.lit("name"))
    beside = measured.kernels.rename({column: MEASURED + column for column in COUNTERS})
    by_counters = pl.col(f"{MEASURED}tensor_cores")
    return table.join(beside, on="name", how="left", maintain_order="left").with_columns(
        tensor_cores=pl.coalesce(by_counters, "tensor_cores"),
        tensor_cores_from=pl.when(by_counters.is_not_null()).then(pl.lit("counters")).otherwise(pl.lit("name")),
    )


def conventions_of(measured: Measured | None) -> Conventions:
    """Our conventions, except that counters, where known, decide whether a kernel used tensor cores."""
    if measured is None:
        return TRACETUI
    by_counters: dict[str, bool] = dict(measured.kernels.select("name", "tensor_cores").drop_nulls().iter_rows())
    if not by_counters:
        return TRACETUI

    def uses_tensor_cores(name: str) -> bool:
        return by_counters.get(name, kernel_names.uses_tensor_cores(name))

    def tensor_cores_unclear(name: str) -> bool:
        return name not in by_counters and TRACETUI.tensor_cores_unclear(name)

    return Conventions(uses_tensor_cores, tensor_cores_unclear)


def run_joins(run: Run) -> list[Joined]:
    """Every recording of the run by another tool than the main one, with the main recording of its rank."""
    main = run.main
    mains = [trace for trace in run.of_kind(main.info.kind) if _has_kernels(trace)]
    joins = []
    for other in run.traces:
        if other.info.kind == main.info.kind or not _has_kernels(other) or not mains:
            continue
        ours = next((trace for trace in mains if trace.info.rank == other.info.rank), mains[0])
        joins.append(Joined(ours, other, _join(ours, other)))
    return joins


@kept_of_pair
def _counters_join(trace: Trace, other: Trace) -> KernelJoin:
    return join_kernels(trace, other)


def _join(trace: Trace, other: Trace) -> KernelJoin:
    """`join_kernels`, kept where the other is small: Nsight Compute measures few launches."""
    return _counters_join(trace, other) if other.info.kind == "ncu" else join_kernels(trace, other)


def _same_rank(left: Trace, right: Trace) -> bool:
    return left.info.rank is None or right.info.rank is None or left.info.rank == right.info.rank


def _has_kernels(trace: Trace) -> bool:
    return bool((trace.device["kind"] == "kernel").any())
