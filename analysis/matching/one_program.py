"""Are two recordings of one program, on one machine, at one size? Else their numbers can't stand side by side."""

from __future__ import annotations

import polars as pl
from msgspec import Struct

from tracetui.analysis.base.remembered import kept, kept_of_pair
from tracetui.analysis.captures.observed_batch import batch_in_shapes
from tracetui.analysis.selection import select
from tracetui.parsers import Trace
from tracetui.parsers.names.kernel_key import key
from tracetui.parsers.names.kernel_names import short_name

ALIKE_PERCENT = 50.0
"""The other's time in kernels of both that is in launches of a size that this one has, at least."""
COMMON_PERCENT = 20.0
"""The other's kernel time that is in kernels which this one has too, at least."""


class Difference(Struct, frozen=True):
    """Something that two recordings of one program have alike, and these don't."""

    what: str
    ours: str
    theirs: str


class Apart(Struct, frozen=True):
    """What another recording has in common with this one, and in what they differ."""

    differences: tuple[Difference, ...]
    common_percent: float
    """The other's kernel time in kernels that this one has too."""
    alike_percent: float
    """Of that, the time in launches of a size that this one has."""
    kernel: str
    """The name, in this recording, of the kernel with most time in launches of another size; "" without."""
    size: Difference | None
    """The grid of that kernel in both."""

    def differs(self, alike_percent: float = ALIKE_PERCENT) -> tuple[Difference, ...]:
        """All differences, with the size of launches if too little time is in launches of equal size."""
        if self.size is None or self.alike_percent >= alike_percent:
            return self.differences
        return (*self.differences, self.size)


def one_program(trace: Trace, other: Trace) -> bool:
    """Whether nothing speaks against two recordings being of one program, at one size, on one machine."""
    return not apart(trace, other).differs()


def reason(trace: Trace, other: Trace) -> str:
    """Why another recording's numbers can't stand beside this one's: "GPU NVIDIA H200 here, NVIDIA A100 there"."""
    return "; ".join(f"{each.what} {each.ours} here, {each.theirs} there" for each in apart(trace, other).differs())


@kept_of_pair
def apart(trace: Trace, other: Trace) -> Apart:
    """Compares GPUs, batches where their operators show them, and the kernels with the sizes of their launches."""
    differing = [
        Difference(what, str(ours), str(theirs))
        for what, field in (("GPU", "name"), ("SMs", "sm_count"))
        if None not in (ours := _gpu(trace, field), theirs := _gpu(other, field)) and ours != theirs
    ]
    ours, theirs = _batch(trace), _batch(other)
    if ours is not None and theirs is not None and ours != theirs:
        differing.append(Difference("batch", str(ours), str(theirs)))
    mine, its = _launches(trace), _launches(other)
    common = its.join(mine, on="key", how="semi")
    all_ns, common_ns = float(its["ns"].sum()), float(common["ns"].sum())
    # Nsight Compute measures some kernels of the many that another tool records
    some = trace.info.kind == "ncu" and other.info.kind != "ncu"
    shared = 100 * common_ns / all_ns if all_ns and mine.height and not some else 100.0
    if shared < COMMON_PERCENT:
        longest = (short_name(str(rows.sort("ns", descending=True)["name"][0])) for rows in (mine, its))
        differing.append(Difference("longest kernel", *longest))
    same = common.join(mine, on=_SIZE, how="semi", nulls_equal=True)
    alike = 100 * float(same["ns"].sum()) / common_ns if common_ns else 100.0
    rest = common.join(same, on=_SIZE, how="anti", nulls_equal=True).sort("ns", descending=True)
    if not rest.height:
        return Apart(tuple(differing), shared, alike, "", None)
    kernel = rest.row(0, named=True)
    here = mine.sort("ns", descending=True).filter(pl.col("key") == kernel["key"])
    row = str(here["name"][0])
    size = Difference(f"grid of {short_name(row)}", _words(here["grid"][0]), _words(kernel["grid"]))
    return Apart(tuple(differing), shared, alike, row, size)


_SIZE = ["key", "blocks", "threads"]
"""Of a launch: a change of batch changes how many blocks there are, and ROCm's counters have that number only."""


def _gpu(trace: Trace, field: str) -> object | None:
    """A property of the GPUs that did work, if it is the same for all."""
    used = set(trace.device["device"].drop_nulls().unique().to_list())
    devices = [device for device in trace.info.devices if device.id in used] or trace.info.devices
    values = {getattr(device, field) for device in devices}
    return next(iter(values)) if len(values) == 1 else None


@kept
def _batch(trace: Trace) -> int | None:
    if not trace.has_timeline or trace.host["input_shapes"].null_count() == trace.host.height:
        return None
    seen = batch_in_shapes(select(trace))
    return None if seen is None else seen.batch


def _words(grid: list[int] | None) -> str:
    return "unknown" if grid is None else "x".join(map(str, grid))


@kept
def _launches(trace: Trace) -> pl.DataFrame:
    """Time by kernel and size of launch: key, name, grid, block, blocks, threads, ns."""
    rows = trace.device.lazy().select("kind", "name", "grid", "block", "duration")
    rows = rows.filter((pl.col("kind") == "kernel") & pl.col("grid").is_not_null())
    sums = rows.group_by("name", "grid", "block").agg(ns=pl.col("duration").sum()).collect()
    sums = sums.with_columns(
        pl.col("name").cast(pl.String),
        **{
            total: pl.fold(1, lambda product, axis: product * axis, [pl.col(of).arr.get(axis) for axis in range(3)])
            for total, of in (("blocks", "grid"), ("threads", "block"))
        },
    )
    return sums.with_columns(key=pl.Series([key(name or "") for name in sums["name"]], dtype=pl.String))
