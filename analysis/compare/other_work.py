"""Whether two recordings did the same work per step: as many samples of the same size, else launches of equal size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.captures.observed_batch import batch_in_shapes
from tracetui.analysis.compare.run_conditions import Difference
from tracetui.analysis.selection import in_steps, select
from tracetui.parsers.names.kernel_names import short_name

if TYPE_CHECKING:
    from tracetui.analysis.captures.observed_batch import BatchSeen
    from tracetui.parsers import Trace
    from tracetui.parsers.runs.manifest import RunManifest

LEAST_COMMON = 0.5
"""The share of each run's kernel time in kernels that both have, so that their launches tell of the work."""
LEAST_ALIKE = 0.5
"""The share of that time in launches of a size that both have; of runs of one program it is 0.9 and more."""
OFF = 0.02
"""Samples per step that are closer than this count as equal: a last batch may be smaller."""


def work_differences(a: Trace, b: Trace, manifests: tuple[RunManifest | None, RunManifest | None]) -> list[Difference]:
    """What tells that a step of one holds other work than a step of the other; empty where nothing tells.

    Where both inputs are seen (run.json, or the shapes of the first operators), they decide: a program that was changed
    may launch otherwise for the same input. Else the launches of the kernels that both have must be alike.
    """
    if manifests[0] is not None and manifests[1] is not None:
        return _of_manifests(manifests[0], manifests[1])
    ours, theirs = (_seen(trace) for trace in (a, b))
    if ours is not None and theirs is not None and ours.operator == theirs.operator:
        return _of_inputs(ours, theirs)
    return _of_launches(a, b)


def samples_per_step(trace: Trace, manifest: RunManifest | None) -> float | None:
    """How many samples a step holds, as run.json or the shapes of its input say; None if neither does."""
    if manifest is not None:
        told = manifest.workload.batch or manifest.workload.requested_batch
        return float(told) if told else None
    seen = _seen(trace)
    return None if seen is None else _samples(seen)


def _seen(trace: Trace) -> BatchSeen | None:
    return batch_in_shapes(in_steps(select(trace))) if trace.has_timeline else None


def _samples(seen: BatchSeen) -> float:
    """Micro-batches of a step count together, and so does a loop over parts of an input."""
    return seen.batch * max(seen.calls_per_step, 1.0)


def _of_manifests(a: RunManifest, b: RunManifest) -> list[Difference]:
    """Both were chosen; where the same batch was asked for, another one that was really seen is another condition."""
    found = []
    ours, theirs = (_asked(run) for run in (a, b))
    if None not in (ours, theirs) and ours != theirs:
        found.append(Difference("batch", ours, theirs, intended=True, work=True))
    shapes = [[list(shape[1:]) for shape in run.workload.input_shapes] for run in (a, b)]
    if all(shapes) and shapes[0] != shapes[1]:
        found.append(Difference("shape of a sample", _words(shapes[0]), _words(shapes[1]), intended=True, work=True))
    return found


def _asked(run: RunManifest) -> int | None:
    return run.workload.batch if run.workload.requested_batch is None else run.workload.requested_batch


def _of_inputs(a: BatchSeen, b: BatchSeen) -> list[Difference]:
    found = []
    ours, theirs = _samples(a), _samples(b)
    if abs(theirs - ours) > OFF * max(ours, theirs):
        found.append(Difference("batch", _count(ours), _count(theirs), work=True))
    if a.shape[1:] != b.shape[1:]:
        left, right = (_words([list(seen.shape[1:])]) for seen in (a, b))
        found.append(Difference(f"shape of a sample ({a.operator})", left, right, work=True))
    return found


def _count(samples: float) -> float | int:
    return int(samples) if samples == int(samples) else round(samples, 2)


def _words(shapes: list[list[int]]) -> str:
    return ", ".join("x".join(map(str, shape)) or "scalar" for shape in shapes)


def _of_launches(a: Trace, b: Trace) -> list[Difference]:
    ours, theirs = _launches(a), _launches(b)
    whole = [float(rows["ns"].sum()) for rows in (ours, theirs)]
    if not all(whole):
        return []
    common = [mine.join(others, on="name", how="semi") for mine, others in ((ours, theirs), (theirs, ours))]
    if any(float(rows["ns"].sum()) < LEAST_COMMON * all_ns for rows, all_ns in zip(common, whole, strict=True)):
        return []
    key = ["name", "grid", "block"]
    alike = [
        float(mine.join(others, on=key, how="semi", nulls_equal=True)["ns"].sum()) / float(mine["ns"].sum())
        for mine, others in (common, common[::-1])
    ]
    if min(alike) >= LEAST_ALIKE:
        return []
    apart = common[0].join(common[1], on=key, how="anti", nulls_equal=True).sort("ns", descending=True)
    name = apart["name"][0]
    left, right = (_grid(rows.filter(pl.col("name") == name)) for rows in common)
    return [Difference(f"grid of {short_name(str(name))}", left, right, work=True)]


def _grid(rows: pl.DataFrame) -> str:
    grid = rows.sort("ns", descending=True)["grid"][0]
    return "unknown" if grid is None else "x".join(map(str, grid))


def _launches(trace: Trace) -> pl.DataFrame:
    """Time by kernel and size of launch: name, grid, block, ns."""
    device = in_steps(select(trace)).device.filter((pl.col("kind") == "kernel") & pl.col("grid").is_not_null())
    sums = device.group_by("name", "grid", "block").agg(ns=pl.col("duration").sum())
    return sums.with_columns(pl.col("name").cast(pl.String))
