"""The report's hardware counters: per launch, per kernel, what is missing, and several reports side by side."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import polars as pl

from tracetui.analysis.base.json_values import Json, key_of, known, us
from tracetui.analysis.counters.compared import Groups, compare, configurations, labels, reports_of, weights_of
from tracetui.analysis.counters.counters import kernel_counters, launch_counters
from tracetui.analysis.counters.metrics import not_collected
from tracetui.analysis.report.model import (
    CountedFile,
    CountedKernel,
    CountedMetric,
    CountersCompared,
    CountersMissing,
)
from tracetui.analysis.report.rows import rows, table_rows
from tracetui.analysis.roofline.counters import launch_table
from tracetui.analysis.tables.nsight.configurations import CONFIGURATIONS
from tracetui.analysis.tables.nsight.counters import COUNTER_LAUNCHES, COUNTERS
from tracetui.parsers import Run, Trace


def launch_rows(trace: Trace, limit: int | None = None) -> tuple[list[Json], int]:
    """One row per profiled launch, in the order of the file, and how many launches there are."""
    launches = launch_counters(trace)
    return _plain(table_rows(launches, COUNTER_LAUNCHES, limit)), launches.height


def kernel_rows(trace: Trace, limit: int | None = None) -> list[Json]:
    """One row per kernel, means over its profiled launches, the most total time first."""
    return _plain(table_rows(kernel_counters(trace), COUNTERS, limit))


def missing(trace: Trace) -> CountersMissing | None:
    """Describes what no launch has, and the command that would collect it."""
    gaps = not_collected(trace, launch_counters(trace))
    return None if gaps is None else CountersMissing(what=list(gaps.what), command=gaps.command)


def of_run(
    run: Run,
    wanted: Collection[str],
    limit: int | None = None,
    open_file: Callable[[Path], Trace] | None = None,
) -> Json:
    """What the report says of all of a run's recordings by Nsight Compute: those asked for, side by side or alone.

    Args:
        run: what `open_path` returned; of a folder of reports, all of them are compared.
        wanted: the sections asked for: ``counters``, ``configurations``.
        limit: at most so many rows of each list.
        open_file: opens one of the folder's other files.
    """
    traces, problems = reports_of(run, open_file)
    found: Json = {"counters_compared": compared(traces, problems, limit)} if "counters" in wanted else {}
    if "counters" not in wanted or "configurations" in wanted or len(traces) > 1:
        found |= by_file(traces, limit)
    return found


def by_file(traces: Sequence[Trace], limit: int | None = None) -> Json:
    """The table of configurations in which each recording is one, called by one name each."""
    groups: dict[str, list[pl.DataFrame]] = {}
    names = labels([trace.source.path for trace in traces])
    for number, (name, trace) in enumerate(zip(names, traces, strict=True)):
        seen = names[:number].count(name)
        groups[f"{name} ({seen + 1})" if seen else name] = [launch_table(trace)]
    return configuration_rows(groups, limit)


def configuration_rows(groups: Groups, limit: int | None = None) -> Json:
    """The table of configurations, and what each mean is weighted by."""
    if not groups:
        return {"configurations": [], "configuration_weights": {}}
    return {
        "configurations": table_rows(configurations(groups), CONFIGURATIONS, limit),
        "configuration_weights": weights_of(groups),
    }


def compared(
    traces: Sequence[Trace], problems: Sequence[str] = (), limit: int | None = None
) -> CountersCompared | None:
    """Several recordings of Nsight Compute side by side; None for fewer than two.

    Args:
        traces: the recordings.
        problems: what kept others from being opened.
        limit: at most so many kernels.
    """
    if len(traces) < 2:
        return None
    found = compare(traces)
    kernels = found.kernels if limit is None else found.kernels.head(limit)
    metrics = found.metrics.filter(pl.col("kernel").is_null() | pl.col("kernel").is_in(kernels["name"].implode()))
    files = rows(found.files, ("label", "path", "launches", "kernels", "total_ns", "common_launches"))
    return CountersCompared(
        files=[CountedFile(**row) for row in files],
        problems=list(problems),
        same_kernels=found.same_kernels,
        kernels=[CountedKernel(**row) for row in rows(kernels, ("name", "short_name", "launches"))],
        kernel_count=found.kernels.height,
        metrics=[_metric(row) for row in metrics.iter_rows(named=True)],
    )


def _metric(row: Json) -> CountedMetric:
    """Times in µs, as everywhere in the report."""
    in_ns = row["unit"] == "ns"
    convert = us if in_ns else known
    return CountedMetric(
        of=row["of"],
        kernel=row["kernel"],
        metric=key_of(row["metric"]) if in_ns else row["metric"],
        label=row["label"],
        unit="us" if in_ns else row["unit"],
        values=[convert(value) for value in row["values"]],
        launches=row["launches"],
        changes=[convert(value) for value in row["changes"]],
    )


def _plain(found: list[Json]) -> list[Json]:
    """Fills in empty lists where a row has none."""
    for row in found:
        row["rules"] = row["rules"] or []
        row["missing"] = row["missing"] or []
    return found
