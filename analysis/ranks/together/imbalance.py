"""How uneven ranks are: (largest - mean) / largest, of bytes that they send to each other and of their own time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from tracetui.analysis.ranks.together.job import Job


@dataclass(frozen=True, slots=True)
class Uneven:
    """What ranks send in all-to-all."""

    percent: float
    """(largest - mean) / largest, the mean over calls."""
    rank: int
    """Who sends most."""
    largest: float
    """Bytes per call."""
    mean: float
    transfer_ns: float
    """Per step."""


def imbalance(values: pl.Series) -> float | None:
    """(largest - mean) / largest, in percent; None where nothing is known."""
    known = values.drop_nulls()
    largest = float(known.max() or 0.0) if known.len() else 0.0  # type: ignore[arg-type]
    return 100 * (largest - float(known.mean())) / largest if largest else None  # type: ignore[arg-type]


def uneven_sends(job: Job) -> Uneven | None:
    """The imbalance of a job's all-to-all; None where it has none that says its bytes."""
    chosen = job.collectives.filter(pl.col("kind") == "all_to_all").select("instance", "transfer_ns")
    calls = job.calls.join(chosen, on="instance").drop_nulls("bytes_in")
    if not calls.height:
        return None
    by_call = calls.group_by("instance").agg(largest=pl.col("bytes_in").max(), mean=pl.col("bytes_in").mean())
    largest, mean = float(by_call["largest"].mean() or 0.0), float(by_call["mean"].mean() or 0.0)  # type: ignore[arg-type]
    if not largest:
        return None
    sent = calls.group_by("rank").agg(pl.col("bytes_in").sum()).sort("bytes_in", "rank", descending=[True, False])
    transfer = float(chosen["transfer_ns"].sum()) / job.called_steps
    return Uneven(100 * (largest - mean) / largest, int(sent["rank"][0]), largest, mean, transfer)
