"""What a run waits for, in one word and one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import polars as pl

if TYPE_CHECKING:
    from typing import TypeAlias

    Kind: TypeAlias = Literal["host", "gpu", "dataloader", "communication", "unknown"]

GPU_BOUND_PERCENT = 70.0
"""From this share of GPU work in a step on, the GPU is the limit: even without idle time the step would last that
long."""
HOST_WAIT_PERCENT = 50.0
"""From this share of host_wait in the idle time on, the GPU waits for late launches."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The verdict on a run."""

    kind: Kind
    sentence: str
    """The verdict with its numbers and their base."""


def find_bound(average: pl.DataFrame, idle: pl.DataFrame, gpu: pl.DataFrame, base: str, span: str) -> Bound:
    """Judges the average step: GPU work against what fills the rest.

    The GPU is the limit where kernels, copies and fills take `GPU_BOUND_PERCENT` of the step. Otherwise the run waits
    for the largest of communication that nothing overlaps, the data loader, and the host's own work. For the host the
    gaps must agree: `HOST_WAIT_PERCENT` of the idle time must have begun before the next launch.

    Args:
        average: category and percent of the average step.
        idle: idle time and its causes, a row with null stream per device.
        gpu: a row per device, busy_percent among its columns.
        base: what the numbers are about, in words.
        span: what the percentages are of, in words: the average step, or the recorded time.
    """
    share = dict(average.select("category", "percent").iter_rows())
    work = share["kernel"] + share["memcpy"] + share["memset"]
    if not gpu.height or work + share["communication"] == 0:
        return Bound("unknown", f"No GPU work was recorded: there is nothing to wait for but the CPU ({base}).")
    if work >= GPU_BOUND_PERCENT:
        return Bound("gpu", f"Waits for the GPU: kernels and copies fill {work:.1f} % of {span} ({base}).")
    host = share["runtime"] + share["cpu_exec"] + share["other"]
    largest = max(
        ("communication", share["communication"]), ("dataloader", share["dataloader"]), ("host", host),
        key=lambda cause: cause[1],
    )  # fmt: skip
    if largest[0] == "communication":
        return Bound(
            "communication",
            f"Waits for communication: collectives that no compute overlaps take {largest[1]:.1f} % of {span},"
            f" other GPU work {work:.1f} % ({base}).",
        )
    idle_percent = 100 - work - share["communication"]
    if largest[0] == "dataloader":
        return Bound(
            "dataloader",
            f"Waits for the data loader: it holds up {largest[1]:.1f} % of {span} while the GPU is idle,"
            f" which it is {idle_percent:.1f} % of the time ({base}).",
        )
    whole = idle.filter(pl.col("stream").is_null())
    idle_ns = int(whole["idle_ns"].sum())
    waits = {
        cause: float((whole["idle_ns"] * whole[f"{cause}_percent"].fill_null(0)).sum()) / idle_ns if idle_ns else 0.0
        for cause in ("host_wait", "kernel_wait", "other")
    }
    if waits["host_wait"] >= HOST_WAIT_PERCENT:
        return Bound(
            "host",
            f"Waits for the CPU, not the GPU: the GPU is idle {idle_percent:.1f} % of {span}, and in"
            f" {waits['host_wait']:.1f} % of that idle time its next work had not been launched yet ({base}).",
        )
    return Bound(
        "unknown",
        f"The GPU is idle {idle_percent:.1f} % of {span} though its work is mostly launched in time:"
        f" host wait {waits['host_wait']:.1f} %, kernel wait {waits['kernel_wait']:.1f} %,"
        f" other {waits['other']:.1f} % of the idle time ({base}).",
    )
