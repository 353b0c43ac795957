"""Where the host's time goes: every function it ran, own time and with what it called."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.attribution.calltree import NONE, add_up, call_tree, codes_of, count, dense
from tracetui.analysis.attribution.operator_tree import is_nested, scope_mask
from tracetui.analysis.base import names
from tracetui.analysis.gpu.steps import recorded, step_slots
from tracetui.parsers import schema
from tracetui.parsers.categories import decode

if TYPE_CHECKING:
    from tracetui.analysis.selection import Selection

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
    whole = recorded(sel)
    step_time = int((slots.end - slots.start).sum()) if slots.marked else whole[1] - whole[0] if whole else 0
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
