"""Several reports of Nsight Compute side by side: a column per file, with what each mean rests on."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import polars as pl
from msgspec import Struct

from tracetui.analysis.counters.counters import MEANS, launch_counters
from tracetui.analysis.counters.metrics import by_column
from tracetui.analysis.counters.source_lines import has_lines
from tracetui.parsers import open_path
from tracetui.parsers.errors import TraceError
from tracetui.parsers.names.kernel_key import key
from tracetui.parsers.ncu.pages import join_pages

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tracetui.parsers import Run, Trace

COMPARED = ("duration_ns", *MEANS)
"""Columns of `launch_counters` that are compared."""
UNITS = {"registers": "", "shared_memory": "byte", "dram_bytes": "byte", "waves": ""}
LABELS = {
    "registers": "registers a thread",
    "shared_memory": "shared memory a block",
    "dram_bytes": "DRAM bytes",
    "waves": "waves",
}
SUFFIXES = (".gz", ".csv", ".txt", ".log", ".ncu-rep")


class Compared(Struct, frozen=True):
    """Reports side by side; every list has an item per file, in their order."""

    files: pl.DataFrame
    """``label, path, launches, kernels, total_ns, common_launches``: what was profiled, and how many of those launches
    are of kernels that every file profiled."""
    kernels: pl.DataFrame
    """``name, short_name, launches`` (list; 0 where a file has none), the most launches first."""
    metrics: pl.DataFrame
    """``of, kernel, metric, label, unit, values, launches, changes``.

    ``of`` is ``all`` (the mean over every profiled launch), ``common`` (over launches of kernels that all files
    profiled) or ``kernel`` (over the launches of ``kernel``); each launch counts the same. ``launches`` is how many of
    them have the metric, ``changes`` the value less the first file's, in its unit. A metric that no file has is left
    out.
    """
    same_kernels: bool
    """Whether all files profiled the same kernels equally often; otherwise the means of ``all`` are of different
    work."""


def compare(traces: Sequence[Trace]) -> Compared:
    """Puts the counters of several traces side by side.

    Kernels are matched by name, or by their key (`names.kernel_key`) where versions of ncu spell them differently.
    """
    tables = [launch_counters(trace) for trace in traces]
    names = identities([table["name"].to_list() for table in tables])
    launches = pl.concat(
        table.with_columns(
            file=pl.lit(number, pl.UInt32), identity=pl.Series([names[name] for name in table["name"]], dtype=pl.String)
        )
        for number, table in enumerate(tables)
    )
    counts = _per_file(launches.group_by("identity", "file").agg(pl.col("launches").sum()), "launches", len(tables))
    described = launches.group_by("identity", maintain_order=True).agg(pl.first("name", "short_name"))
    kernels = described.join(counts, on="identity").sort(
        pl.col("launches").list.sum(), "name", descending=[True, False]
    )
    everywhere = kernels.filter(pl.col("launches").list.min() > 0)["identity"]
    common = launches.filter(pl.col("identity").is_in(everywhere.implode()))
    metrics = pl.concat(
        [
            _means(launches.with_columns(kernel=pl.lit(None, pl.String)), "all", len(tables)),
            _means(common.with_columns(kernel=pl.lit(None, pl.String)), "common", len(tables)),
            _means(launches.with_columns(kernel="identity"), "kernel", len(tables), kernels["identity"].to_list()),
        ]
    )
    spelled = dict(zip(kernels["identity"], kernels["name"], strict=True))
    return Compared(
        files=_files(traces, tables, common),
        kernels=kernels.drop("identity"),
        metrics=metrics.with_columns(pl.col("kernel").replace(spelled)),
        same_kernels=bool((kernels["launches"].list.n_unique() == 1).all()),
    )


def reports_of(run: Run, open_file: Callable[[Path], Trace] | None = None) -> tuple[list[Trace], list[str]]:
    """The reports of Nsight Compute to put side by side, and what kept others from being opened, one line each.

    Those of the run, in its order; where the run is one of a folder of such reports, all of the folder, by path.

    Args:
        run: what `open_path` returned.
        open_file: opens a file that is not open yet.
    """
    traces, problems = [trace for trace in run.of_kind("ncu") if not has_lines(trace)], list[str]()
    if not traces or not run.others or run.main.info.kind != "ncu":
        return traces, problems
    from tracetui.parsers.runs.detect import comparable_files

    at_hand = {trace.source.path: trace for trace in traces}
    for path in comparable_files(run):
        if path not in at_hand:
            try:
                at_hand[path] = open_file(path) if open_file else open_path(path).main
            except TraceError as problem:
                problems.append(str(problem))
    return join_pages([at_hand[path] for path in sorted(at_hand) if not has_lines(at_hand[path])]), problems


def labels(paths: Sequence[Path]) -> list[str]:
    """What to call each file: its name without suffixes, with its folder where that alone tells two apart."""
    short = [_stem(path.name) for path in paths]
    if len(set(short)) < len(short):
        short = [f"{path.parent.name}/{name}" for path, name in zip(paths, short, strict=True)]
    return short


def _stem(name: str) -> str:
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def identities(files: Sequence[Sequence[str]]) -> dict[str, str]:
    """What each name is matched by: its key, or the name itself where one file has several names with that key."""
    spellings: defaultdict[str, set[str]] = defaultdict(set)
    ambiguous: set[str] = set()
    for names in files:
        mine: defaultdict[str, set[str]] = defaultdict(set)
        for name in set(names):
            mine[key(name)].add(name)
            spellings[key(name)].add(name)
        ambiguous |= {found for found, same in mine.items() if len(same) > 1}
    return {name: name if found in ambiguous else found for found, same in spellings.items() for name in same}


def _files(traces: Sequence[Trace], tables: Sequence[pl.DataFrame], common: pl.DataFrame) -> pl.DataFrame:
    paths = [trace.source.path for trace in traces]
    shared = dict(common.group_by("file").agg(pl.col("launches").sum()).iter_rows())
    return pl.DataFrame(
        {
            "label": labels(paths),
            "path": [str(path) for path in paths],
            "launches": [int(table["launches"].sum()) for table in tables],
            "kernels": [table["name"].n_unique() for table in tables],
            "total_ns": [
                (table["duration_ns"] * table["launches"]).sum() if table["duration_ns"].count() else None
                for table in tables
            ],
            "common_launches": [shared.get(number, 0) for number in range(len(tables))],
        },
        schema_overrides={"total_ns": pl.Float64},
    )


def _per_file(found: pl.DataFrame, column: str, files: int) -> pl.DataFrame:
    """One row per identity with a list over the files, 0 where there is none."""
    value = [pl.col(column).filter(pl.col("file") == number).sum() for number in range(files)]
    return found.group_by("identity").agg(pl.concat_list(value).alias(column))


def _means(launches: pl.DataFrame, of: str, files: int, order: Sequence[str] | None = None) -> pl.DataFrame:
    """The metrics of one kind of rows; see `Compared.metrics`."""
    found = (
        launches.select("file", "kernel", "launches", *(pl.col(column).cast(pl.Float64) for column in COMPARED))
        .unpivot(on=COMPARED, index=["file", "kernel", "launches"], variable_name="metric")
        .drop_nulls("value")
        .group_by("kernel", "metric", "file")
        .agg(
            value=(pl.col("value") * pl.col("launches")).sum() / pl.col("launches").sum(),
            launches=pl.col("launches").sum(),
        )
    )
    here = [pl.col("file") == number for number in range(files)]
    value = pl.col("value")
    table = (
        found.group_by("kernel", "metric")
        .agg(
            *(value.filter(mine).first().alias(f"value{number}") for number, mine in enumerate(here)),
            *(pl.col("launches").filter(mine).sum().alias(f"launches{number}") for number, mine in enumerate(here)),
        )
        .with_columns(
            values=pl.concat_list(f"value{number}" for number in range(files)),
            launches=pl.concat_list(f"launches{number}" for number in range(files)),
            changes=pl.concat_list(pl.col(f"value{number}") - pl.col("value0") for number in range(files)),
        )
    )
    titles = {column: LABELS.get(column) or by_column(column).label for column in COMPARED}
    units = {column: UNITS[column] if column in UNITS else by_column(column).unit for column in COMPARED}
    rank = {column: place for place, column in enumerate(COMPARED)}
    kernels = {name: place for place, name in enumerate(order or ())}
    return (
        table.with_columns(
            of=pl.lit(of),
            label=pl.col("metric").replace_strict(titles, return_dtype=pl.String),
            unit=pl.col("metric").replace_strict(units, return_dtype=pl.String),
            place=pl.col("metric").replace_strict(rank, return_dtype=pl.UInt32),
            first=pl.col("kernel").replace_strict(kernels, default=0, return_dtype=pl.UInt32),
        )
        .sort("first", "place")
        .select("of", "kernel", "metric", "label", "unit", "values", "launches", "changes")
    )
