"""Where the host's time goes: every function it ran, its calls of CUDA, and how the GPU follows its launches."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.attribution.calltree import NONE, add_up, call_tree, codes_of, count, dense
from tracetui.analysis.attribution.operator_tree import is_nested, scope_mask
from tracetui.analysis.base import api_names, names
from tracetui.analysis.gpu.steps import recorded, step_slots
from tracetui.analysis.kernels import as_work
from tracetui.analysis.selection import Selection
from tracetui.parsers import schema
from tracetui.parsers.categories import decode

CALLS = ("operator", "module", "python", "runtime", "driver", "overhead", "os")
"""Host events that are calls. Annotations and waits for the data loader are not among them."""


def host_functions(sel: Selection) -> pl.DataFrame:
    """One row per kind and name of call, the most own time first; calls that only wait come last.

    ``self_ns`` is the duration less that of calls directly inside on the same thread, whatever their kind: own times
    add up to the time that threads were in any call. ``total_ns`` is the whole duration, a call inside another of its
    kind and name counting once. ``waits`` marks calls in which a thread waits (for a lock, a file, the GPU) rather than
    works. ``self_per_step_ns`` and ``percent`` (of the steps' time) are of calls begun in steps; without steps, the
    whole recording counts as one. Several busy threads can add up to more than 100 %.
    """
    host = sel.trace.host
    tree = call_tree(host, CALLS, nested=is_nested(sel.trace))
    name, codes = dense(codes_of(host["name"])[tree.rows])
    kind = host["kind"].to_physical().to_numpy()[tree.rows]
    label, pairs = dense((name * len(schema.HOST_KINDS) + kind).astype(np.uint32))
    own = tree.duration - tree.of_children(tree.duration)
    inside = scope_mask(sel)[tree.rows]
    called = np.where(inside, label, NONE)
    outermost = np.where(inside & tree.outermost(label), label, NONE)
    slots = step_slots(sel)
    in_step = np.where(inside & sel.begun_in_steps(tree.start) if slots.marked else inside, label, NONE)
    span = recorded(sel)
    step_time = int((slots.end - slots.start).sum()) if slots.marked else span[1] - span[0] if span else 0
    per_step = add_up(in_step, own, pairs.size)
    share = 100 * per_step / step_time if step_time else np.full(pairs.size, np.nan)
    return (
        pl.DataFrame(
            {
                "kind": pl.Series((pairs % len(schema.HOST_KINDS)).astype(np.uint8)).cat.to(schema.HostKind),
                "name": decode(codes[pairs // len(schema.HOST_KINDS)].astype(np.uint32)).cast(pl.String),
                "calls": count(called, pairs.size).astype(np.uint32),
                "self_ns": add_up(called, own, pairs.size),
                "total_ns": add_up(outermost, tree.duration, pairs.size),
                "self_per_step_ns": per_step / max(slots.start.size, 1),
                "percent": pl.Series(share, nan_to_null=True),
            }
        )
        .filter(pl.col("calls") > 0)
        .with_columns(
            pl.col("kind").cast(pl.String),
            pl.col("name").map_batches(lambda name: pl.Series(names.matching(name, _waits)), pl.Boolean).alias("waits"),
        )
        .sort("waits", "self_ns", "name", "kind", descending=[False, True, False, False])
    )


_WAITS = re.compile(
    r"<built-in method (acquire|poll|select|epoll|wait\w*|sleep|recv\w*|read|join|run_backward|_wait\w*)\b"
    r"|(threading|queue|selectors|multiprocessing/(connection|queues|popen_fork)|concurrent/futures/_base)\.py\(\d+\): "
    r"(wait|_wait\w*|get|select|join|acquire|_?recv\w*|_?poll|result)"
    # the same as JAX's profiler names them
    r"|^\$(<unknown> acquire|time sleep|(api|array)\.py:\d+ block_until_ready"
    r"|(threading|queue|selectors|connection|queues|popen_fork|_base)\.py:\d+ "
    r"(wait|_wait\w*|get|select|join|acquire|_?recv\w*|_?poll|result))$|\(wait for completion\)$|BlockHostUntil"
    r"|^(cuda|hip|cu)\w*Synchronize|^cudaStreamWaitEvent$|^hsa_signal_wait"
    r"|^(p?poll|p?select|epoll_p?wait2?|sem_(timed|clock)?wait|sigwait\w*|pause|(clock_)?nanosleep|u?sleep|futex|flock"
    r"|pthread_(join|barrier_wait|cond_(timed|clock)?wait|mutex_(timed)?lock|rwlock_(timed)?(rd|wr)lock)"
    r"|accept4?|recv(from|m?msg)?|wait(pid|id|[34])?)$"
)


def _waits(name: str) -> bool:
    """Whether a call makes its thread wait: for a lock, a file, another thread, or the GPU."""
    return _WAITS.search(name) is not None


def timings() -> list[pl.Expr]:
    """Aggregations of durations in ns; the standard deviation is of the sample, 0 for a single call."""
    value = pl.col("duration")
    return [
        pl.len().alias("calls"),
        value.sum().alias("total_ns"),
        value.mean().alias("mean_ns"),
        value.median().alias("median_ns"),
        value.min().alias("min_ns"),
        value.max().alias("max_ns"),
        value.std().fill_null(0.0).alias("std_ns"),
    ]


SLOW_CALL_NS = 50_000
"""A launch call that takes longer is an outlier (HTA's `runtime_cutoff`)."""
LATE_KERNEL_NS = 100_000
"""Work that begins later than this after its launch returned was queued (HTA's `launch_delay_cutoff`)."""
LAUNCHES = {
    "start": pl.Int64(),
    "api": pl.String(),
    "kernel": pl.String(),
    "cpu_ns": pl.Int64(),
    "gpu_ns": pl.Int64(),
    "delay_ns": pl.Int64(),
}


class Launches(Struct, frozen=True):
    """Launch statistics of a selection (definitions: HTA's `cuda_kernel_launch_stats`)."""

    count: int
    """API calls that put work on a device; a graph launch is one."""
    short_kernels: int
    """Calls of at most `SLOW_CALL_NS` whose device work took less time than the call."""
    runtime_outliers: int
    """Calls that took longer than `SLOW_CALL_NS`."""
    delay_outliers: int
    """Calls whose work began more than `LATE_KERNEL_NS` after the call returned."""
    median_delay_ns: float | None
    frame: pl.DataFrame
    """A row per launch: start, api, kernel (the first activity it started), cpu_ns (the call), gpu_ns (its device
    work, summed), delay_ns (from the call's return to its first activity, at least 0)."""


def api_calls(sel: Selection) -> pl.DataFrame:
    """One row per runtime or driver function.

    Returns:
        name, calls, total_ns, mean_ns, median_ns, min_ns, max_ns, std_ns, percent (of the time in all API calls).
    """
    calls = sel.trace.host.select("kind", "name", "duration")
    calls = names.rows_where(calls, names.of_kinds(calls["kind"], "runtime", "driver") & scope_mask(sel))
    table = calls.lazy().group_by("name").agg(timings()).with_columns(pl.col("name").cast(pl.String)).collect()
    # within the plan groups come in pieces, and Polars rounds a division of a piece with one row otherwise
    share = 100 * pl.col("total_ns") / pl.max_horizontal(1, pl.sum("total_ns"))
    return table.rechunk().with_columns(percent=share).sort("total_ns", "name", descending=[True, False])


def waiting_calls(sel: Selection) -> pl.DataFrame:
    """The calls that return only once the GPU has done what they wait for, as `kernels.kernel_groups` takes them."""
    calls = names.rows_of(sel.host, "runtime", "driver")
    calls = names.rows_where(calls, names.matching(calls["name"], api_names.waits))
    return as_work(sel, calls.select("name", "start", "duration", launch="row"))


def launches(sel: Selection) -> Launches:
    """What the calls that launched the device work in scope cost, and how long the GPU took to follow.

    HTA counts a row per activity and knows few calls; ours are all calls that started work.
    """
    work = sel.device.filter(
        pl.col("kind").is_in(["kernel", "memcpy", "memset", "graph"]) & pl.col("launch").is_not_null()
    )
    if not work.height:
        return _summary(pl.DataFrame(schema=LAUNCHES))
    calls = sel.trace.host.select("name", "start", "duration")[work["launch"].unique(maintain_order=True)]
    per_call = work.group_by("launch", maintain_order=True).agg(
        pl.col("name").first(), pl.col("duration").sum(), pl.col("start").min().alias("begins")
    )
    return _summary(
        pl.DataFrame(
            {
                "start": calls["start"],
                "api": calls["name"].cast(pl.String),
                "kernel": per_call["name"].cast(pl.String),
                "cpu_ns": calls["duration"],
                "gpu_ns": per_call["duration"],
                "delay_ns": (per_call["begins"] - calls["start"] - calls["duration"]).clip(0),
            },
            schema=LAUNCHES,
        ).sort("start")
    )


def _summary(frame: pl.DataFrame) -> Launches:
    cpu, gpu, delay = frame["cpu_ns"], frame["gpu_ns"], frame["delay_ns"]
    median = delay.median()
    return Launches(
        count=frame.height,
        short_kernels=int(((cpu <= SLOW_CALL_NS) & (gpu < cpu)).sum()),
        runtime_outliers=int((cpu > SLOW_CALL_NS).sum()),
        delay_outliers=int((delay > LATE_KERNEL_NS).sum()),
        median_delay_ns=None if median is None else float(median),  # type: ignore[arg-type]
        frame=frame,
    )
