"""Chooses the kernels that Nsight Compute measures: those that take most of the GPU's time in an existing trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.collectors.profiler_commands import KernelChoice
from tracetui.parsers.names.kernel_key import function_name

if TYPE_CHECKING:
    from tracetui.parsers import Trace

SHARE = 0.95
"""The chosen kernels take at least this share of the kernel time."""
LEAST_SHARE = 0.005
"""A kernel with a smaller share of the kernel time is not measured, even if the sum stays below `SHARE`."""

SEEN = 2
"""How often each chosen kernel is measured, as far as a step launches it that often."""


def choose(trace: Trace) -> KernelChoice | None:
    """Returns the kernels that take `SHARE` of a trace's kernel time, the longest first; null if it has no kernels.

    ``launches`` is how many launches of these kernels it takes until each was launched `SEEN` times, or as often as
    the step launches it. It is counted in the step with the most launches, or in the whole trace if that has no steps.
    """
    kernels = trace.device.filter(pl.col("kind") == "kernel").sort("start")
    whole = int(kernels["duration"].sum()) if kernels.height else 0
    if not whole:
        return None
    times = kernels.group_by("name").agg(ns=pl.col("duration").sum()).sort("ns", descending=True)
    chosen: list[str] = []
    taken = 0
    for name, spent in times.with_columns(pl.col("name").cast(pl.String)).iter_rows():
        if taken >= SHARE * whole or spent < LEAST_SHARE * whole:
            break
        chosen.append(name)
        taken += spent
    functions = {name: function_name(name).base for name in chosen}
    return KernelChoice(
        tuple(dict.fromkeys(functions.values())), _launches_until_all(kernels, functions), 100 * taken / whole
    )


def _launches_until_all(kernels: pl.DataFrame, functions: dict[str, str]) -> int:
    step = kernels["step"].drop_nulls().mode().sort()
    one = kernels.filter(pl.col("step") == step[0]) if step.len() else kernels
    bases = set(functions.values())
    names = one["name"].cast(pl.String).to_list()
    waiting = {name: min(SEEN, names.count(name)) for name in functions}
    count = 0
    for name in names:
        count += (functions.get(name) or function_name(name).base) in bases
        if name in waiting:
            waiting[name] -= 1
            if waiting[name] <= 0:
                del waiting[name]
        if not waiting:
            break
    return max(count, 1)
