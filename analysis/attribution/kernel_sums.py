"""Sums over kernels from which the occupancy and the tensor-core share of a part of the program follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.base import names
from tracetui.analysis.gpu.matrix_units import tensor_cores_known
from tracetui.analysis.gpu.occupancy import estimated_occupancy

if TYPE_CHECKING:
    from tracetui.analysis.base.conventions import Conventions
    from tracetui.analysis.base.intervals import Ints
    from tracetui.parsers import Trace

SUMS = ("kernel_ns", "tensor_core_ns", "unclear_ns", "known_occupancy_ns", "occupied_ns")
"""Kernel time; its parts on tensor cores, in matrix work of which no name tells, and with a known occupancy; the last,
each weighted by its occupancy in percent."""


def kernel_sums(trace: Trace, device: pl.DataFrame, conventions: Conventions) -> dict[str, Ints]:
    """What each device row adds to each of `SUMS`; copies and fills add nothing."""
    kernel = device["kind"].is_in(["kernel", "graph"]).to_numpy()
    spent = np.where(kernel, device["duration"].fill_null(0).to_numpy(), 0)
    occupancy = device.select(estimated_occupancy())["occupancy_percent"]
    known = np.where(occupancy.is_not_null().to_numpy(), spent, 0)
    held = occupancy.fill_null(0).to_numpy() * known
    uses = names.matching(device["name"], conventions.uses_tensor_cores)
    unclear = names.matching(device["name"], conventions.tensor_cores_unclear)
    if not tensor_cores_known(trace, conventions):
        unclear = np.ones(device.height, np.bool_)
    parts = (spent, np.where(uses, spent, 0), np.where(unclear, spent, 0), known, np.rint(held).astype(np.int64))
    return dict(zip(SUMS, parts, strict=True))


def with_shares(frame: pl.DataFrame) -> pl.DataFrame:
    """Adds ``occupancy_percent`` and ``tensor_core_percent``, null where nothing is known, and what each is a mean of.

    ``kernel_ns`` is the kernel time and ``known_occupancy_ns`` the part of it whose occupancy is known; the other sums
    go.
    """
    kernels, tensor, unclear, known, held = map(pl.col, SUMS)
    return frame.with_columns(
        occupancy_percent=pl.when(known > 0).then(held / known),
        tensor_core_percent=pl.when((kernels > 0) & (unclear == 0)).then(100 * tensor / kernels),
    ).drop("tensor_core_ns", "unclear_ns", "occupied_ns")
