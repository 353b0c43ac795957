"""The collectives in scope: when the host launched each, when it ran and what it hid behind; how fast each kind is.

Bandwidths count as in nccl-tests: https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.base import intervals
from tracetui.analysis.base.remembered import kept, latest
from tracetui.analysis.gpu.activities import activities, distinct
from tracetui.analysis.kernels import as_work
from tracetui.analysis.selection import Selection, select, step_at
from tracetui.parsers import Trace, schema
from tracetui.parsers.names import collectives as words

TIMES: dict[str, pl.DataType] = {
    "row": pl.UInt32(),  # row in `Trace.collectives`
    "gpu": pl.Int64(),
    "stream": pl.Int64(),
    "launched": pl.Int64(),  # when the host launched it; null where the launch is not in the recording
    "begin": pl.Int64(),  # of one of several coalesced operations: of the kernel that does them all
    "end": pl.Int64(),
    "exposed_ns": pl.Int64(),  # no kernel that computes runs on its GPU; null on CPUs and for a part of a kernel
    "step": pl.Int64(),  # index of the step that launched it; on CPUs of the one in which it begins
    "order": pl.Int64(),  # place among its group's on its GPU in the whole recording; null for a part of a kernel
}
"""What `collectives` adds to the columns of `schema.COLLECTIVES`."""


_NEVER = np.iinfo(np.int64).min


@latest
def collectives(sel: Selection) -> pl.DataFrame:
    """The collectives in scope, in the order in which they begin: `schema.COLLECTIVES` and `TIMES`.

    Its rows share time: sum up those whose `part_of` is null. Times are of the recording itself.
    """
    rows = all_collectives(sel.trace)
    if not rows.height:
        return rows
    chosen = pl.coalesce("device", "part_of").is_in(sel.device["row"].implode())
    if sel.scope.devices is None:
        by_host = pl.col("device").is_null() & pl.col("part_of").is_null()
        chosen = chosen | (by_host & pl.col("host").is_in(sel.host["row"].implode()))
    return rows.filter(chosen.fill_null(value=False))


@kept
def all_collectives(trace: Trace) -> pl.DataFrame:
    """All collectives of a recording, as `collectives` has them."""
    frame = trace.collectives.with_row_index("row")
    if not frame.height:
        return schema.empty({**schema.COLLECTIVES, **TIMES})
    kernel = frame.select(pl.coalesce("device", "part_of")).to_series()
    of_device = {name: _taken(trace.device, name, kernel) for name in ("start", "duration", "device", "stream", "step")}
    launch = _taken(trace.device, "launch", kernel)
    begin, took = (_taken(trace.host, name, frame["host"]) for name in ("start", "duration"))
    frame = frame.with_columns(
        gpu=of_device["device"],
        stream=of_device["stream"],
        launched=_taken(trace.host, "start", launch),
        begin=of_device["start"],
        end=of_device["start"] + of_device["duration"],
        step=_taken(trace.steps, "index", of_device["step"]),
    )
    # gloo's range on the host is the collective itself; those of NCCL, and operators, only put it on the way
    alone = frame["device"].is_null() & frame["part_of"].is_null()
    host_name = _taken(trace.host, "name", frame["host"]).cast(pl.String)
    lasts = alone & host_name.str.contains(words.ON_HOST).fill_null(value=False)
    put = _taken(trace.host, "start", frame["operator"])
    frame = frame.with_columns(
        launched=pl.when(alone).then(pl.coalesce(put, begin)).otherwise("launched"),
        begin=pl.when(lasts).then(begin).otherwise("begin"),
        end=pl.when(lasts).then(begin + took).otherwise("end"),
        step=pl.when(alone).then(step_at(trace.steps, begin.fill_null(_NEVER).to_numpy())).otherwise("step"),
    ).with_columns(exposed_ns=_exposed(trace, frame))
    frame = _ordered(frame.sort("begin", "launched", "row", nulls_last=True))
    return frame.select(pl.col(name).cast(dtype) for name, dtype in {**schema.COLLECTIVES, **TIMES}.items())


def _ordered(frame: pl.DataFrame) -> pl.DataFrame:
    """Adds `order`: the launches' in each group; one whose launch is not recorded follows what began before it."""
    own = frame.filter(pl.col("part_of").is_null()).select(
        "row", "gpu", "group", "begin", launch=pl.col("launched").forward_fill().over("gpu", "group", "stream")
    )
    own = own.sort("launch", "begin", "row").select("row", order=pl.col("row").cum_count().over("gpu", "group") - 1)
    return frame.join(own, on="row", how="left", maintain_order="left")


def _taken(frame: pl.DataFrame, column: str, rows: pl.Series) -> pl.Series:
    """The values of a column at these rows; null for null."""
    if not frame.height:
        return pl.repeat(None, rows.len(), dtype=frame.schema[column], eager=True).alias(column)
    return frame[column].gather(rows)


def _exposed(trace: Trace, frame: pl.DataFrame) -> pl.Series:
    """How long each kernel of a collective runs while its GPU computes nothing."""
    is_kernel = frame["device"].is_not_null() & frame["begin"].is_not_null()
    exposed = np.zeros(frame.height, np.int64)
    work = activities(select(trace))
    gpu = work.column("device")
    own = frame["gpu"].fill_null(-1).to_numpy()
    begin, end = (frame[name].fill_null(0).to_numpy() for name in ("begin", "end"))
    for device in distinct(own[is_kernel.to_numpy()]):
        chosen = work.compute & (gpu == device)
        computes = intervals.union(work.start[chosen], work.end[chosen])
        here = own == device
        exposed[here] = (end - begin)[here] - intervals.covered(computes, begin[here], end[here])
    return pl.Series(exposed).set(~is_kernel, None)


_SHARED = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")
_WHOLE = ("broadcast", "reduce", "send", "recv")


class Link(Struct, frozen=True):
    """What connects the GPUs of one host."""

    name: str
    bytes_per_s: float
    """In one direction, of one GPU."""
    ranks: int
    """How many GPUs it connects at most: a larger group also uses the network."""
    source: str
    reached: float | None = None
    """The share of it that collectives of `LEAST_BYTES` or more reach at least; None where none was measured."""
    latency_s: float = 0.0
    """What such a collective takes beside."""


LEAST_BYTES = 4 << 20
EXPECTED = ("all_reduce", "all_gather", "reduce_scatter")
"""Of these kinds, of so many bytes and more, `Link.reached` was measured."""


def bus_factor() -> pl.Expr:
    """What the bandwidth is multiplied by to compare it with a link's, from `kind` and `group_size`; null if unknown.

    The bytes are those of the larger side, in or out.
    """
    ranks = pl.col("group_size").cast(pl.Float64)
    several = ranks > 1
    return (
        pl.when(pl.col("kind").is_in(_WHOLE))
        .then(1.0)
        .when(several & (pl.col("kind") == "all_reduce"))
        .then(2 * (ranks - 1) / ranks)
        .when(several & pl.col("kind").is_in(_SHARED))
        .then((ranks - 1) / ranks)
    )


def with_bandwidth(frame: pl.DataFrame, link: Link | None) -> pl.DataFrame:
    """Adds `algbw_gbps`, `busbw_gbps` and `link_percent` to rows of `kind`, `group_size`, `bytes` and `moved_ns`.

    Args:
        frame: rows with the bytes of one call and the time that moving them took.
        link: what connects the GPUs.
    """
    speed = pl.when((pl.col("moved_ns") > 0) & (pl.col("bytes") > 0)).then(pl.col("bytes") / pl.col("moved_ns"))
    frame = frame.with_columns(algbw_gbps=speed.cast(pl.Float64))
    frame = frame.with_columns(busbw_gbps=pl.col("algbw_gbps") * bus_factor())
    share = pl.lit(None, pl.Float64)
    if link is not None:
        on_one_host = pl.col("group_size").is_between(2, link.ranks) | pl.col("kind").is_in(("send", "recv"))
        share = pl.when(on_one_host).then(100e9 * pl.col("busbw_gbps") / link.bytes_per_s)
    return frame.with_columns(link_percent=share)


def expected_ns(link: Link) -> tuple[pl.Expr, pl.Expr]:
    """At least and at most, what moving the bytes of rows of `kind`, `group_size` and `bytes` takes over a link, ns.

    Nothing is faster than its data sheet, by which a rank sends its share once: switches can reduce, so a ring's
    second round need not be. At most is known for `EXPECTED` alone; null for all others and for larger groups.
    """
    holds = pl.col("kind").is_in(EXPECTED) & (pl.col("bytes") >= LEAST_BYTES)
    holds &= pl.col("group_size").is_between(2, link.ranks)
    rate = link.bytes_per_s / 1e9
    least = pl.col("bytes") * pl.min_horizontal(bus_factor(), 1.0) / rate
    most = None if link.reached is None else pl.col("bytes") * bus_factor() / (link.reached * rate)
    told = pl.lit(None, pl.Float64) if most is None else pl.when(holds).then(most + 1e9 * link.latency_s)
    return pl.when(holds).then(least), told


BY = ("kind", "group", "bytes")
"""What the rows of `by_size` differ in."""
TRANSFER, RANKS_HERE, SHORTEST, WHOLE = "transfer", "ranks here", "shortest call", "whole call"
"""What a bandwidth rests on: the median time that moving took, as the other ranks tell; the same of a group of which
ranks are missing, one of which may have come last; the shortest call of that size, since a call's time is waiting and
transfer; the only call, waiting included. All but the first make it a lower bound."""
MATCHED: dict[str, pl.DataType] = {
    "row": pl.UInt32(),
    "whole": pl.Boolean(),
    "waiting_ns": pl.Int64(),
    "transfer_ns": pl.Int64(),
}
"""What is known of a call once the other ranks' are matched with it, and whether all of them are here; `row` is that in
`Trace.collectives`. Without all of them waiting is at least, and transfer at most, what is said."""
_TWO_WAYS = ("send", "recv")


def calls(sel: Selection, link: Link | None = None, matched: pl.DataFrame | None = None) -> pl.DataFrame:
    """Every collective in scope that has a time of its own, in the order in which they begin.

    Args:
        sel: the selection.
        link: what connects the GPUs.
        matched: `MATCHED`, where the other ranks' recordings are known.

    Returns:
        The columns of `frame.collectives`, texts as such, and `bytes` (the larger side), `duration_ns`, `queued_ns`
        (from launch to begin), `waiting_ns`, `transfer_ns`, `moved_ns`, `algbw_gbps`, `busbw_gbps`, `link_percent`.
    """
    rows = collectives(sel).filter(pl.col("part_of").is_null())
    texts = [name for name, dtype in rows.schema.items() if isinstance(dtype, pl.Categorical | pl.Enum)]
    rows = rows.with_columns(pl.col(texts).cast(pl.String)).with_columns(
        bytes=pl.max_horizontal("bytes_in", "bytes_out"),
        duration_ns=pl.col("end") - pl.col("begin"),
        queued_ns=pl.col("begin") - pl.col("launched"),
    )
    of_ranks = pl.DataFrame(schema=MATCHED) if matched is None else matched.select(list(MATCHED)).cast(MATCHED)  # type: ignore[arg-type]
    rows = rows.join(of_ranks, on="row", how="left", maintain_order="left")
    return with_bandwidth(rows.with_columns(moved_ns=pl.coalesce("transfer_ns", "duration_ns")), link)


def work_rows(sel: Selection) -> pl.DataFrame:
    """The collectives in scope that have a time of their own, as `kernels.kernel_groups` takes them."""
    found = calls(sel.recorded)
    launch = pl.coalesce(_taken(sel.trace.device, "launch", found["device"]), "operator", "host")
    return as_work(
        sel,
        found.select(
            name="kind",
            start="begin",
            duration="duration_ns",
            stream="stream",
            device="gpu",
            launch=launch,
            operator=_taken(sel.trace.device, "operator", found["device"]),
        ),
    )


def by_size(sel: Selection, link: Link | None = None, matched: pl.DataFrame | None = None) -> pl.DataFrame:
    """One row per kind, group and size of collectives, the longest total first.

    A call whose time is not recorded counts among `calls`, and in no sum. Of one rank, waiting and transfer are null,
    and the bandwidth is that of the shortest call, a lower bound: each call waits for the ranks that come later.

    Args:
        sel: the selection.
        link: what connects the GPUs.
        matched: `MATCHED`, where the other ranks' recordings are known.
    """
    found = calls(sel, link, matched)
    timed = pl.col("duration_ns").is_not_null()
    several = timed.sum() > 1

    def total(name: str) -> pl.Expr:
        """The sum; null where any timed call lacks it."""
        missing = (pl.col(name).is_null() & timed).any() | ~timed.any()
        return pl.when(~missing).then(pl.col(name).sum()).alias(name)

    rows = found.group_by(BY, maintain_order=True).agg(
        pl.col("group_description", "group_size", "group_ranks").drop_nulls().first(),
        element_type=pl.when(pl.col("element_type").n_unique() == 1).then(pl.col("element_type").first()),
        coalesced=pl.col("coalesced").any(),
        calls=pl.len(),
        total_ns=total("duration_ns"),
        mean_ns=pl.col("duration_ns").mean(),
        shortest_ns=pl.col("duration_ns").min(),
        waiting_ns=total("waiting_ns"),
        transfer_ns=total("transfer_ns"),
        middle_ns=pl.col("transfer_ns").median(),
        exposed_ns=total("exposed_ns"),
        rests_on=pl.when(pl.col("transfer_ns").is_not_null().any())
        .then(pl.when(pl.col("whole").all()).then(pl.lit(TRANSFER)).otherwise(pl.lit(RANKS_HERE)))
        .when(several)
        .then(pl.lit(SHORTEST))
        .when(timed.any())
        .then(pl.lit(WHOLE)),
    )
    rows = rows.with_columns(
        moved_ns=pl.coalesce("middle_ns", "shortest_ns"),
        exposed_percent=100 * pl.col("exposed_ns") / pl.when(pl.col("total_ns") > 0).then("total_ns"),
    )
    rows = with_bandwidth(rows, link).with_columns(
        rests_on=pl.when(pl.col("algbw_gbps").is_not_null()).then("rests_on")
    )
    return rows.drop("moved_ns", "middle_ns").sort(
        "total_ns", "kind", "bytes", descending=[True, False, True], nulls_last=True, maintain_order=True
    )


def calls_of(rows: pl.DataFrame, row: Mapping[str, Any]) -> pl.DataFrame:
    """The calls behind a row of `by_size`."""
    return rows.filter(pl.all_horizontal(pl.col(name).eq_missing(pl.lit(row[name])) for name in BY))


def by_pair(sel: Selection) -> pl.DataFrame:
    """Sends and receives by pair of ranks: what went which way, the most bytes first.

    Ranks are numbered as the recording does, this rank's own as its header does. Operations that share a kernel have no
    time of their own, so `total_ns` is null where any does.
    """
    own = sel.trace.info.rank
    found = collectives(sel).with_columns(pl.col("kind", "group").cast(pl.String))
    found = found.filter(pl.col("kind").is_in(_TWO_WAYS) & pl.col("peer").is_not_null()).with_columns(
        source=pl.when(pl.col("kind") == "send").then(pl.lit(own, pl.Int64)).otherwise("peer"),
        target=pl.when(pl.col("kind") == "send").then("peer").otherwise(pl.lit(own, pl.Int64)),
        bytes=pl.max_horizontal("bytes_in", "bytes_out"),
        own_ns=pl.when(pl.col("part_of").is_null()).then(pl.col("end") - pl.col("begin")),
    )
    rows = found.group_by("source", "target", "kind", "group", maintain_order=True).agg(
        calls=pl.len(),
        bytes=pl.when(pl.col("bytes").is_not_null().all()).then(pl.col("bytes").sum()),
        total_ns=pl.when(pl.col("own_ns").is_not_null().all()).then(pl.col("own_ns").sum()),
        shared=pl.col("part_of").is_not_null().sum(),
    )
    return rows.sort("bytes", "source", "target", descending=[True, False, False], nulls_last=True, maintain_order=True)
