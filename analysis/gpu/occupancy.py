"""What a launch takes of an SM: how many blocks fit, by CUDA's occupancy arithmetic, and whether on tensor cores.

As in NVIDIA's occupancy calculator and `cudaOccupancyMaxActiveBlocksPerMultiprocessor`: registers are given to warps in
units of 256 out of each partition's part of the file, shared memory to blocks in units of its own plus what the system
keeps for itself. Barriers and clusters, which are seldom the limit, are left out. The part of the L1 cache that serves
as shared memory is taken at its largest: the driver grows it to what resident blocks need.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.base import api_names, names
from tracetui.analysis.base.conventions import Conventions
from tracetui.analysis.base.remembered import kept
from tracetui.parsers import Trace
from tracetui.parsers.arrays import Ints

WARP = 32
MOST_THREADS = 2048
"""The most threads that an SM of any GPU since 2012 holds."""
REGISTER_UNIT = 256
"""The number of registers that a warp gets is a multiple of this."""
LIMITERS = ("blocks", "warps", "registers", "shared memory")


class SmLimits(Struct, frozen=True):
    """What an SM of a compute capability can hold at a time."""

    warps: int
    blocks: int
    registers: int
    shared: int
    """Bytes of shared memory."""
    shared_unit: int
    """Bytes that a block's shared memory is rounded up to."""
    shared_reserved: int
    """Bytes that the system takes per block."""
    partitions: int
    """Parts of the register file."""


class Occupancy(Struct, frozen=True):
    """The theoretical occupancy of one launch configuration."""

    blocks: int
    """Resident blocks per SM."""
    warps: int
    """Resident warps per SM."""
    percent: float
    """Share of the warps that an SM can hold."""
    limiters: tuple[str, ...]
    """What allows the fewest blocks (`LIMITERS`), several where they tie."""
    limits: dict[str, int | None]
    """Blocks that each of `LIMITERS` allows; None where it sets no limit or is not known."""


def estimated_occupancy() -> pl.Expr:
    """The column ``occupancy_percent`` of device activities, with null in place of zeros from estimates that failed.

    Kineto asks CUDA how many blocks an SM can hold and writes 0 where CUDA refuses, as it does for kernels that take
    more shared memory than a launch gets unasked (nvjet, cuDNN's fused attention). A kernel that ran occupied at least
    the threads of ``min(1, blocks per SM)`` blocks: if that alone rounds to 1 % or more, 0 means unknown. What is no
    share of a whole is unknown, too.
    """
    size = pl.col("block").arr
    threads = size.get(0).cast(pl.Int64) * size.get(1) * size.get(2)
    least = 100 * pl.col("blocks_per_sm").clip(upper_bound=1) * threads / MOST_THREADS
    failed = (pl.col("occupancy_percent") == 0) & (least >= 1)
    share = pl.col("occupancy_percent").is_between(0, 100)
    return pl.when(share & ~failed.fill_null(value=False)).then("occupancy_percent").alias("occupancy_percent")


def with_estimated_occupancy(activities: pl.DataFrame) -> pl.DataFrame:
    """Device activities with `estimated_occupancy`; themselves where no estimate was recorded, as by nsys."""
    recorded = activities["occupancy_percent"]
    return activities if recorded.null_count() == recorded.len() else activities.with_columns(estimated_occupancy())


def occupancy(threads: int, registers: int | None, shared: int | None, sm: SmLimits) -> Occupancy | None:
    """The theoretical occupancy; None for a block that can't run.

    Args:
        threads: per block.
        registers: per thread; None where unknown, and then registers are no limit. A damaged file may have any number:
            what no launch has is unknown, too.
        shared: bytes per block, static and dynamic, without what the system takes; None where unknown.
        sm: what an SM holds.
    """
    if threads <= 0:
        return None
    warps = -(-threads // WARP)
    limits: dict[str, int | None] = {
        "blocks": sm.blocks,
        "warps": sm.warps // warps,
        "registers": _by_registers(warps, registers, sm),
        "shared memory": _by_shared_memory(shared, sm),
    }
    known = {name: limit for name, limit in limits.items() if limit is not None}
    blocks = min(known.values())
    if blocks < 1:
        return None
    resident = blocks * warps
    least = tuple(name for name in LIMITERS if known.get(name) == blocks)
    return Occupancy(blocks, resident, 100 * resident / sm.warps, least, limits)


def waves(blocks: int, held: Occupancy, sm_count: int) -> float:
    """How many times all SMs are filled with a launch's blocks."""
    return blocks / (held.blocks * sm_count)


def tail_loss(filled: float) -> float:
    """The share of a launch's SM time that its last, partial wave leaves idle, if all blocks take equally long."""
    waves = -(-filled // 1)
    return 1 - filled / waves if waves else 0.0


def _by_registers(warps: int, registers: int | None, sm: SmLimits) -> int | None:
    if registers is None or registers <= 0:
        return None
    per_warp = -(-registers * WARP // REGISTER_UNIT) * REGISTER_UNIT
    held = sm.registers // sm.partitions // per_warp * sm.partitions
    return held // warps


def _by_shared_memory(shared: int | None, sm: SmLimits) -> int | None:
    if shared is None or shared < 0:
        return None
    per_block = -(-(shared + sm.shared_reserved) // sm.shared_unit) * sm.shared_unit
    return sm.shared // per_block if per_block else None


_MAKERS = re.compile(
    r"nvidia|tesla|geforce|quadro|\brtx|orin|xavier|thor|\bamd\b|radeon|instinct|\b[AHLBTV]\d{1,4}\b|\bMI\d",
    re.IGNORECASE,
)
_RUNTIMES = ("CUDA", "HIP")
_WORDS = re.compile(r"^(?!void )[^<(]* [^<(]*$")
"""Work of accelerators that are no GPUs is named in a few words: ``add_11 Cmpt Exec``."""


@kept
def tensor_cores_known(trace: Trace) -> bool:
    """Whether kernel names tell of tensor cores: on NVIDIA's and AMD's GPUs; elsewhere that they don't is no 0 %.

    A recording that describes no device is judged by its runtime, then by its names.
    """
    used = set(trace.device["device"].drop_nulls().unique().to_list())
    described = [device for device in trace.info.devices if device.name or device.compute_capability]
    devices = [device for device in described if device.id in used] or described
    if any(device.compute_capability or device.architecture or _MAKERS.search(device.name or "") for device in devices):
        return True
    calls = trace.host.filter(pl.col("kind").is_in(["runtime", "driver"]))["name"].unique().cast(pl.String)
    if api_names.runtime(calls) in _RUNTIMES:
        return True
    kernels = trace.device.filter(pl.col("kind") == "kernel")["name"]
    return not devices and not names.matching(kernels, lambda name: _WORDS.search(name) is not None).any()


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
    if not tensor_cores_known(trace):
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
