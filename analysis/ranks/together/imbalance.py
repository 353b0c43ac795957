"""How uneven ranks are: (largest - mean) / largest, of bytes that they send to each other and of their own time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from msgspec import Struct

if TYPE_CHECKING:
    from tracetui.analysis.ranks.together.job import Job


class Uneven(Struct, frozen=True):
    """What ranks send, or get, in all-to-all; whichever is less even."""

    percent: float
    """(largest - mean) / largest, the mean over calls."""
    gets: bool
    """Whether it is of what ranks get; else of what they send."""
    rank: int
    """Who sends or gets most."""
    largest: float
    """Bytes per call."""
    mean: float
    transfer_ns: float
    """Per step."""
    wait_ns: float
    """Per step, of the mean rank: what it waits in these calls for those that come later."""
    own_percent: float | None
    """(largest - mean) / largest of the GPU work that ranks launched since the collective before each call."""


def imbalance(values: pl.Series) -> float | None:
    """(largest - mean) / largest, in percent; None where nothing is known."""
    known = values.drop_nulls()
    largest = float(known.max() or 0.0) if known.len() else 0.0  # type: ignore[arg-type]
    return 100 * (largest - float(known.mean())) / largest if largest else None  # type: ignore[arg-type]


def uneven_all_to_all(job: Job) -> Uneven | None:
    """The imbalance of a job's all-to-all; None where it has none that says its bytes."""
    chosen = job.collectives.filter(pl.col("kind") == "all_to_all").select("instance", "transfer_ns")
    every = job.calls.join(chosen, on="instance")
    found = [one for name in ("bytes_in", "bytes_out") if (one := _of_bytes(every, name)) is not None]
    if not found:
        return None
    percent, name, rank, largest, mean = max(found, key=lambda one: one[0])
    own = every.group_by("rank").agg(pl.col("own_gpu_ns").sum())["own_gpu_ns"]
    waits = every.group_by("rank").agg(pl.col("wait_ns").sum())["wait_ns"]
    return Uneven(
        percent,
        name == "bytes_out",
        rank,
        largest,
        mean,
        float(chosen["transfer_ns"].sum()) / job.called_steps,
        float(waits.mean() or 0.0) / job.called_steps,  # type: ignore[arg-type]
        None if every["own_gpu_ns"].null_count() else imbalance(own),
    )


def _of_bytes(every: pl.DataFrame, name: str) -> tuple[float, str, int, float, float] | None:
    """(percent, column, rank, largest, mean) of the bytes in this column."""
    calls = every.drop_nulls(name)
    by_call = calls.group_by("instance").agg(largest=pl.col(name).max(), mean=pl.col(name).mean())
    largest, mean = (float(by_call[one].mean() or 0.0) for one in ("largest", "mean"))  # type: ignore[arg-type]
    if not largest:
        return None
    moved = calls.group_by("rank").agg(pl.col(name).sum()).sort(name, "rank", descending=[True, False])
    return 100 * (largest - mean) / largest, name, int(moved["rank"][0]), largest, mean
