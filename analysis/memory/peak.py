"""When the allocator held the most, and who held it then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.base.remembered import kept
from tracetui.analysis.memory.allocations import BEFORE, END_STATE, Allocations, allocations, of_memory
from tracetui.analysis.memory.owners import EARLIER, OWNERS, owners

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.selection import Selection

CPU_TYPE = 0
ROUNDING = "(rounding of blocks, unknown)"
By = Literal["stack", "operator", "module", "range"]
HOLDERS: dict[str, pl.DataType] = {
    "name": pl.String(),
    "bytes": pl.Int64(),
    "percent": pl.Float64(),
    "allocations": pl.Int64(),
    "largest": pl.Int64(),
    "own": pl.String(),
    "library": pl.String(),
    "stack": pl.String(),
}


class Peak(Struct, frozen=True):
    """The moment at which one memory was fullest."""

    device_type: int | None
    """As torch numbers them, `CPU_TYPE` for the host; null where the recording does not say."""
    device: int | None
    row: int
    """The row of `schema.MEMORY` right after which memory was fullest; -1: before the first one."""
    time: int | None
    """ns on the trace's clock; null where the source does not say."""
    allocated: int
    reserved: int | None

    @property
    def unused_percent(self) -> float | None:
        """Share of what the allocator held from the driver that held no tensor."""
        if not self.reserved:
            return None
        return 100 * (self.reserved - self.allocated) / self.reserved


def totals(sel: Selection) -> pl.DataFrame:
    """Events in scope that tell how much was allocated: `schema.MEMORY` and its `row`, in order."""
    memory = sel.trace.memory.with_row_index("row")
    chosen = pl.col("allocated").is_not_null() & ~pl.col("action").is_in([*END_STATE, "oom", "other"])
    if sel.by_steps and sel.steps.height:
        last = sel.steps.row(-1, named=True)
        chosen &= pl.col("time").is_between(sel.steps["start"][0], last["start"] + last["duration"])
    if sel.scope.window is not None:
        chosen &= pl.col("time").is_between(*sel.scope.window, closed="left")
    if sel.scope.devices is not None:
        chosen &= (pl.col("device_type") == CPU_TYPE) | pl.col("device").is_in(list(sel.scope.devices))
    return memory.filter(chosen)


@kept
def peaks(sel: Selection) -> list[Peak]:
    """The largest total of each memory in scope, the host's first, then GPU by GPU; the first where several are equal.

    What was there before the first event counts where the events tell it: at the beginning of a snapshot's history.
    """
    if not sel.trace.memory.height:
        return []
    events = totals(sel)
    found = []
    for (kind, device), rows in events.group_by("device_type", "device", maintain_order=True):
        most = rows.row(int(rows["allocated"].arg_max() or 0), named=True)
        best = Peak(*(most[key] for key in ("device_type", "device", "row", "time", "allocated", "reserved")))
        first = rows.row(0, named=True)
        if _begins(sel, rows) and first["allocated"] - first["bytes"] > best.allocated:
            before = first["allocated"] - first["bytes"]
            best = Peak(best.device_type, best.device, BEFORE, first["time"], before, first["reserved"])
        found.append(((kind or 0, -1 if device is None else device), best))
    return [best for _, best in sorted(found, key=lambda pair: pair[0])]


def peak(sel: Selection) -> Peak | None:
    """The largest of the `peaks` of the GPUs, else of memory of an unknown kind, else of the host; null without any."""

    def rank(one: Peak) -> tuple[int, int]:
        kind = one.device_type
        return 1 if kind is None else 2 if kind > CPU_TYPE else 0, one.allocated

    return max(peaks(sel), key=rank, default=None)


def _begins(sel: Selection, rows: pl.DataFrame) -> bool:
    """Whether the first of a memory's events is the first of a snapshot's history and gave something back."""
    if sel.trace.info.kind != "memory_snapshot" or sel.by_steps or sel.scope.window is not None:
        return False
    first = rows.row(0, named=True)
    # where requests are recorded, the request to free a block gave it back
    frees = {"free_requested"} if (rows["action"] == "free_requested").any() else {"free"}
    if first["action"] not in frees or first["bytes"] is None:
        return False
    earlier = sel.trace.memory.head(first["row"])
    return not earlier.filter(of_memory(first["device_type"], first["device"])).height


def holders(sel: Selection, by: By, at: Peak | None = None) -> pl.DataFrame:
    """Who held memory at the peak, the most first (`HOLDERS`).

    One row per stack, operator, module path or annotation that made allocations still there: `bytes`, `percent` of
    what was allocated at the peak, `allocations`, the `largest` of them, and of a stack the innermost frame of the
    program's `own` code and of a `library`. What was allocated before the recording has a row of its own.
    """
    moment = at or peak(sel)
    if moment is None:
        return pl.DataFrame(schema=HOLDERS)
    all_of_it = allocations(sel.trace, moment.device_type, moment.device)
    return _grouped(sel, all_of_it, all_of_it.held_at(moment.row), by, moment.allocated)


def holding(sel: Selection, by: By, name: str, stack: str | None = None, at: Peak | None = None) -> pl.DataFrame:
    """The single allocations of one row of `holders`, the largest first, as `listed` gives them."""
    moment = at or peak(sel)
    if moment is None:
        return pl.DataFrame()
    found = allocations(sel.trace, moment.device_type, moment.device)
    chosen = found.held_at(moment.row)
    labels = owners(sel.trace, found.row[chosen], by)
    mine = (labels["name"] == name) & labels["stack"].eq_missing(pl.Series([stack], dtype=pl.String))
    return listed(sel, found, chosen[mine.to_numpy()])


def listed(sel: Selection, found: Allocations, chosen: Ints) -> pl.DataFrame:
    """Allocations one by one, the largest first; times are null where they are not in the recording."""
    rows = found.row[chosen]
    memory = sel.trace.memory
    columns = {
        "bytes": pl.Series(found.bytes[chosen], dtype=pl.Int64),
        "start": _known(found.start[chosen]),
        "end": _known(found.end[chosen]),
        "address": memory["address"].gather(rows),
        "stream": memory["stream"].gather(rows),
        "stack": memory["stack"].gather(rows).cast(pl.String),
        "operator": owners(sel.trace, rows, "operator")["name"],
        "module": owners(sel.trace, rows, "module")["name"],
        "range": owners(sel.trace, rows, "range")["name"],
    }
    return pl.DataFrame(columns).sort("bytes", descending=True, maintain_order=True)


def _known(times: Ints) -> pl.Series:
    limits = np.iinfo(np.int64)
    series = pl.Series(times, dtype=pl.Int64)
    return pl.select(pl.when(~series.is_in([limits.min, limits.max])).then(series)).to_series()


def _grouped(sel: Selection, found: Allocations, chosen: Ints, by: By, whole: int) -> pl.DataFrame:
    """Groups allocations by who made them (`HOLDERS`) and adds what they lack of `whole`, which `percent` is of."""
    labels = owners(sel.trace, found.row[chosen], by)
    sizes = pl.Series("bytes", found.bytes[chosen], dtype=pl.Int64)
    frame = labels.with_columns(sizes)
    total = int(sizes.sum())
    table = frame.group_by(*OWNERS, maintain_order=True).agg(
        pl.col("bytes").sum(), allocations=pl.len().cast(pl.Int64), largest=pl.col("bytes").max()
    )
    if whole > total:
        name = ROUNDING if sel.trace.info.kind == "memory_snapshot" else EARLIER
        # older allocations that were never given back have no event, so only their sum is known
        older = table.filter(pl.col("name") == name)["bytes"].sum()
        extra = pl.DataFrame({"name": [name], "bytes": pl.Series([whole - total + int(older)], dtype=pl.Int64)})
        table = pl.concat([table.filter(pl.col("name") != name), extra], how="diagonal")
    share = pl.col("bytes") * 100 / whole if whole else pl.lit(None, dtype=pl.Float64)
    return (
        table.with_columns(share.alias("percent"))
        .select(*HOLDERS)
        .cast(HOLDERS)  # type: ignore[arg-type]
        .sort("bytes", "name", descending=[True, False], maintain_order=True)
    )
