"""Finds the siblings of a tree that are too small to matter, and makes one row for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LEAST_PERCENT = 0.5
"""Percent of all time below which a row is small."""
ALWAYS_SHOWN = 5
"""How many of the largest siblings always show: of a thousand equal steps, some must be visible."""
FEWEST = 3
"""The least number of small siblings that get a common row."""
_NAMES = ("name", "label")
_SUMMED = (
    "percent", "device_total_ns", "device_self_ns", "backward_device_ns", "host_total_ns", "host_self_ns", "kernels",
    "gpu_ops", "calls",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rest:
    """Small siblings that share one row."""

    parent: int
    """Their parent row; -1 for none."""
    rows: tuple[int, ...]
    """In the frame's order."""


def find(frame: pl.DataFrame, children: Mapping[int, Sequence[int]]) -> list[Rest]:
    """Returns the groups of small siblings, by parent.

    Args:
        frame: a tree with a ``percent`` of all time; where it has none, the share of ``host_total_ns`` counts.
        children: rows below each row, -1 for the roots.
    """
    shares = _shares(frame, children.get(-1, ()))
    if shares is None:
        return []
    found = []
    for parent, rows in children.items():
        if len(rows) < ALWAYS_SHOWN + FEWEST:
            continue
        ranked = sorted(rows, key=lambda row: -shares[row])
        small = [row for row in ranked[ALWAYS_SHOWN:] if shares[row] < LEAST_PERCENT]
        if len(small) >= FEWEST:
            found.append(Rest(parent, tuple(sorted(small))))
    return found


def added(frame: pl.DataFrame, rests: Sequence[Rest], *, adds: bool) -> pl.DataFrame:
    """The frame followed by a row for each rest, with the sums of its numbers if they add up."""
    summed = [name for name in _SUMMED if adds and name in frame.columns]
    rows: list[dict[str, Any]] = []
    for rest in rests:
        part = frame[list(rest.rows)]
        row: dict[str, Any] = dict.fromkeys(frame.columns)
        row |= {name: f"… {len(rest.rows)} more below {LEAST_PERCENT:g} %" for name in _NAMES if name in row}
        row |= {name: part[name].sum() for name in summed if part[name].null_count() < part.height}
        rows.append(row | {"depth": part["depth"][0]})
    return pl.concat([frame, pl.DataFrame(rows, schema=frame.schema)])


def _shares(frame: pl.DataFrame, roots: Sequence[int]) -> list[float] | None:
    """Percent of all time, by row."""
    if "percent" in frame.columns and frame["percent"].null_count() < frame.height:
        shares: list[float] = frame["percent"].fill_null(0.0).to_list()
        return shares
    if "host_total_ns" not in frame.columns:
        return None
    times = frame["host_total_ns"].cast(pl.Float64).fill_null(0.0).to_list()
    whole = sum(times[row] for row in roots)
    return [100 * time / whole for time in times] if whole else None
