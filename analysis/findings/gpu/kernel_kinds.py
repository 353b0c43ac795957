"""Which launches do what: matrix work by precision, casts, layout changes, attention, the optimizer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.attribution.calltree import lanes_of, parents_of, row_ids
from tracetui.analysis.attribution.operator_tree import scope_mask
from tracetui.analysis.base import names
from tracetui.analysis.base.names import of_kinds
from tracetui.analysis.base.remembered import kept
from tracetui.analysis.findings.core import program, words
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Evidence, Query
from tracetui.analysis.matching.join import conventions_of
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.kernel_makers import BACKWARD, LOG_SOFTMAX
from tracetui.parsers.names.kernel_types import CAST
from tracetui.parsers.nesting import LaneClock, nearest

_TYPES = re.compile(r'^\["([^"]*)", *"([^"]*)"')
OPTIMIZER = re.compile(
    r"^Optimizer\.step#|(?<![a-z])optim(izer)?[ _.]?(step|update)(?![a-z])|^optim(izer)?$", re.IGNORECASE
)
"""PyTorch's own range around an optimizer, and names that users give to theirs."""
_BY_PYTORCH = "Optimizer.step#"
_GRADIENTS = "autograd::engine::evaluate_function"
MOST_BETWEEN = 6
"""Categories of kernels between a GEMM and the softmax of an attention: scaling, mask, dropout, casts, copies."""


def by_name(launched: pl.DataFrame, says: object) -> Bools:
    """Marks the launches whose name satisfies `says`."""
    return names.matching(launched["name"], says)  # type: ignore[arg-type]


def categories(launched: pl.DataFrame) -> pl.Series:
    """The category of each launch."""
    return names.mapped(launched["name"], kernel_names.category, "other")


def of_category(launched: pl.DataFrame, *wanted: str) -> Bools:
    """Marks the launches of these categories."""
    return by_name(launched, lambda name: kernel_names.category(name) in wanted)


@kept
def on_tensor_cores(facts: Facts) -> Bools:
    """Marks the launches on tensor cores: by Nsight Compute's counters if it measured the kernel, else by name."""
    return by_name(facts.launches, conventions_of(facts.counters).uses_tensor_cores)


@kept
def whole_ns(facts: Facts) -> int:
    """The base of shares: all kernel time except communication, which mostly waits for other ranks."""
    apart = facts.kernels.filter(pl.col("category") == "communication")
    return facts.kernel_ns - int(apart["total_ns"].sum())


def base(facts: Facts) -> str:
    """That base in words."""
    return "kernel time" if whole_ns(facts) == facts.kernel_ns else "kernel time without communication"


@dataclass(frozen=True)
class Part:
    """Launches, and what they take of all kernel time except communication (`whole_ns`)."""

    facts: Facts
    mask: Bools

    @cached_property
    def ns(self) -> int:
        """Their time."""
        return int(np.where(self.mask, self.facts.launches["duration"].fill_null(0).to_numpy(), 0).sum())

    @property
    def percent(self) -> float:
        """Its share; 0 without any kernel time."""
        whole = whole_ns(self.facts)
        return 100 * self.ns / whole if whole else 0.0

    @property
    def launches(self) -> int:
        """How many they are."""
        return int(self.mask.sum())

    @property
    def rows(self) -> Ints:
        """Their device rows."""
        rows: Ints = self.facts.launches["row"].to_numpy()[self.mask].astype(np.int64)
        return rows

    @property
    def frame(self) -> pl.DataFrame:
        """Their rows of `Facts.launches`."""
        return self.facts.launches.filter(pl.Series(self.mask))

    @property
    def worked_out(self) -> str:
        """How the share is computed: ``2.45 ms of 23.1 ms = 10.6 %``."""
        return f"{words.part_of(self.ns, whole_ns(self.facts), self.percent)}"

    @cached_property
    def proof(self) -> Query:
        """Query that leads to the kernel with the most of their time in the Kernels tab."""
        sums = self.frame.group_by("name").agg(pl.col("duration").sum())
        if not sums.height:
            return Query("kernels")
        name = str(sums.sort("duration", "name", descending=[True, False])["name"].cast(pl.String)[0])
        return Query("kernels", kernel_names.category(name), name)

    def spent(self, what: str, query: Query | None = None) -> Evidence:
        """Evidence on their time per step."""
        return Evidence(f"{what} {program.per(self.facts)}", self.facts.per_step(self.ns), "ns", query or self.proof)

    def share(self, query: Query | None = None) -> Evidence:
        """Evidence on their share."""
        return Evidence(f"of {base(self.facts)}", self.percent, "%", query or self.proof)


def undecided(facts: Facts) -> Bools:
    """Marks matrix work for which neither names nor counters tell whether it uses tensor cores."""
    return by_name(facts.launches, conventions_of(facts.counters).tensor_cores_unclear)


@kept
def casts(facts: Facts) -> Bools:
    """Marks the launches that convert types: `aten::copy_` between two types if types were recorded, else by name."""
    launched = facts.launches
    host = facts.trace.host
    cast = by_name(launched, lambda name: CAST.search(name) is not None)
    if launched["operator"].null_count() == launched.height:
        return cast
    copying = (host["name"].gather(launched["operator"]).cast(pl.String) == "aten::copy_").fill_null(value=False)
    types = host["input_types"].gather(launched["operator"]).cast(pl.String)
    found = types.str.extract_groups(_TYPES.pattern)
    target, source = found.struct.field("1"), found.struct.field("2")
    told = (copying & (target != "") & (source != "")).fill_null(value=False).to_numpy()
    return np.where(told, (target != source).fill_null(value=False).to_numpy(), cast)


def in_double(facts: Facts) -> Bools:
    """Marks the launches with a tensor in double precision: by the operator's inputs if recorded, else by name."""
    launched, host = facts.launches, facts.trace.host
    columns = ["input_types", "input_shapes"]
    told = pl.DataFrame([host[column].gather(launched["operator"]) for column in columns])
    known = told.unique()
    doubles = [_has_double(*each) for each in known.cast(pl.String).iter_rows()]
    known = known.with_columns(double=pl.Series(doubles, dtype=pl.Boolean))
    found = told.join(known, on=columns, how="left", nulls_equal=True, maintain_order="left")["double"]
    named = pl.Series(by_name(launched, kernel_names.fp64_work))
    double: Bools = found.zip_with(found.is_not_null(), named).to_numpy()
    return double


def _has_double(types: str | None, shapes: str | None) -> bool | None:
    """Whether an operator has a tensor of double precision, which numbers of Python (without a shape) are not."""
    try:
        given = msgspec.json.decode(types or "", type=list[str]), msgspec.json.decode(shapes or "", type=list[Any])
    except msgspec.MsgspecError:
        return None
    return any(kind == "double" and shape for kind, shape in zip(*given, strict=False))


class Attention(Struct, frozen=True):
    """Chains of separate kernels that compute one attention each."""

    chains: int
    """How many chains of GEMM, softmax, GEMM there are with only elementwise work and copies between them."""
    between: Bools
    """The launches between the GEMMs, forward and backward."""
    gemms: Bools
    """The GEMMs of the forward chains."""
    replaced: Ints
    """Device rows of everything that a fused kernel would replace: the work between the GEMMs, including copies by the
    copy engines, the GEMMs, the copies that their `aten::matmul` makes first, and the copy that lays out the result,
    which a fused kernel writes in the order that the next layer reads."""


def attention(facts: Facts) -> Attention:
    """Finds attention computed by separate kernels, each of which reads the scores from memory and writes them back."""
    launched = facts.launches
    nothing = np.zeros(launched.height, np.bool_)
    none = Attention(0, nothing, nothing, np.empty(0, np.int64))
    if not of_category(launched, "softmax").any():
        return none
    category, begins = categories(launched).to_numpy(), launched["start"].to_numpy()
    operator = facts.trace.host["name"].gather(launched["operator"]).cast(pl.String)
    log = by_name(launched, lambda name: LOG_SOFTMAX.search(name) is not None)
    log |= operator.str.contains("log_softmax").fill_null(value=False).to_numpy()
    back = by_name(launched, lambda name: BACKWARD.search(name) is not None)
    between, gemms, ends, laid_out = nothing.copy(), nothing.copy(), nothing.copy(), nothing.copy()
    moves = (category == "copy") & ~casts(facts)
    chains = 0
    lanes = launched.select("device", "stream").with_row_index("at").group_by("device", "stream").agg("at")["at"]
    copied: list[Ints] = []
    for rows in lanes:
        on = rows.to_numpy()
        here = category[on]
        spans: list[tuple[int, int]] = []
        found: list[tuple[int, int, int]] = []
        for at in np.flatnonzero((here == "softmax") & ~log[on]).tolist():
            first, last = _to_gemm(here, at, -1), _to_gemm(here, at, 1)
            if first is None or last is None:
                continue
            found.append((first, at, last))
        shared = {first for first, _, _ in found} & {last for _, _, last in found}
        for first, at, last in found:
            if first in shared or last in shared:
                continue  # an attention's result goes through a product of its own before the next one's scores
            between[on[first + 1 : last]] = True
            ends[on[[first, last]]] = True
            laid_out[on[last + 1 : last + 2]] = moves[on[last + 1 : last + 2]]
            spans.append((int(begins[on[first]]), int(begins[on[last]])))
            if not back[on[at]]:
                chains += 1
                gemms[on[[first, last]]] = True
        copied.append(_copies_within(facts, launched.select("device", "stream").row(int(on[0])), spans))
    if not chains:
        return none
    mask = between | ends | laid_out | _of_the_same_product(facts, ends)
    return Attention(chains, between, gemms, np.concatenate((row_ids(launched["row"])[mask], *copied)))


def _copies_within(facts: Facts, lane: tuple[int | None, int | None], spans: list[tuple[int, int]]) -> Ints:
    """Rows of the copies that start on a GPU's stream within one of these intervals."""
    device, stream = lane
    on_lane = pl.col("device").eq_missing(device) & pl.col("stream").eq_missing(stream) & (pl.col("kind") == "memcpy")
    copies = facts.of_steps.device.filter(on_lane & pl.col("start").is_not_null())
    begun = copies["start"].to_numpy()
    inside = np.zeros(begun.size, np.bool_)
    for start, end in spans:
        inside |= (begun > start) & (begun < end)
    return row_ids(copies["row"])[inside]


def _of_the_same_product(facts: Facts, products: Bools) -> Bools:
    """All launches of the `aten::matmul` calls that launched these products: matmul may copy its operands first."""
    host = facts.trace.host
    calls = names.matching(host["name"], "aten::matmul".__eq__)
    around = nearest(parents_of(host), calls, row_ids(facts.launches["operator"]))
    chosen = np.unique(around[products & (around >= 0)])
    found: Bools = np.isin(around, chosen)
    return found


def _to_gemm(category: np.ndarray[tuple[int], np.dtype[np.object_]], at: int, step: int) -> int | None:
    """The next GEMM in this direction, if only elementwise work and copies come before it."""
    for away in range(1, MOST_BETWEEN + 2):
        place = at + step * away
        if not 0 <= place < category.size:
            return None
        if category[place] == "gemm":
            return place
        if category[place] not in ("elementwise", "copy", "reduce"):
            return None
    return None


class Optimizer(Struct, frozen=True):
    """The optimizer's steps and what they launch."""

    start: Ints
    end: Ints
    """When the optimizer's steps start and end on the host."""
    kernels: Bools
    """Marks the launches made in these steps."""
    table: str
    """The tab that shows them, as in `finding.Query`."""
    parameters: float | None
    """Gradients accumulated per call, which is the number of parameter tensors; None if it was not recorded."""

    @property
    def calls(self) -> int:
        """How many optimizer steps there are."""
        return self.start.size

    @property
    def host_ns(self) -> int:
        """How long the optimizer steps take on the host."""
        return int((self.end - self.start).sum())


@kept
def optimizer(facts: Facts) -> Optimizer | None:
    """The ranges around optimizer steps and their launches; None without such a range.

    PyTorch's own ranges count where they are: others may only be named like them, or hold more. An optimizer that calls
    a closure (Lightning's, LBFGS) begins when the last gradient in its range is computed.
    """
    host = facts.trace.host
    named = names.matching(host["name"], lambda name: name.startswith(_BY_PYTORCH))
    if not named.any():
        named = names.matching(host["name"], lambda name: OPTIMIZER.search(name) is not None)
    if not named.any():
        return None
    rows = np.flatnonzero(named & of_kinds(host["kind"], "annotation", "operator") & scope_mask(facts.sel))
    if not rows.size:
        return None
    found = host.select("kind", "name", "process", "thread", "start", "duration")[rows]
    found = found.with_columns(row=pl.Series(rows, dtype=pl.UInt32))
    end = pl.col("start") + pl.col("duration")
    reach = end.cum_max().shift(1).over("process", "thread")
    found = found.sort("start", "duration", descending=[False, True])
    found = found.filter((pl.col("start") >= reach).fill_null(value=True))
    parameters = _parameters(facts, found.height)
    found = _after_gradients(host, found)
    return Optimizer(
        start=found["start"].to_numpy(),
        end=found.select(end)["start"].to_numpy(),
        kernels=_within(facts.trace.host, found, row_ids(facts.launches["launch"])),
        table="host:ranges" if (found["kind"] == "annotation").any() else "host",
        parameters=parameters,
    )


def _after_gradients(host: pl.DataFrame, ranges: pl.DataFrame) -> pl.DataFrame:
    """The ranges, each from the end of the last gradient that was computed in it, on any thread.

    Where some hold gradients, the others are left out: the recording begins or ends within them.
    """
    computed = host.filter(pl.Series(names.matching(host["name"], lambda name: name.startswith(_GRADIENTS))))
    ends = np.sort(computed.select(pl.col("start") + pl.col("duration"))["start"].drop_nulls().to_numpy())
    if not ends.size:
        return ranges
    start, end = ranges["start"].to_numpy(), (ranges["start"] + ranges["duration"]).to_numpy()
    last = ends[np.maximum(np.searchsorted(ends, end, side="right") - 1, 0)]
    hold = (last > start) & (last <= end)
    if not hold.any():
        return ranges
    return ranges.with_columns(start=pl.Series(last), duration=pl.Series(end - last)).filter(pl.Series(hold))


def _within(host: pl.DataFrame, ranges: pl.DataFrame, calls: Ints) -> Bools:
    """Marks the host rows (-1 for none) that start in a range of their thread; these ranges don't overlap."""
    lane = lanes_of(host)
    at = row_ids(ranges["row"])
    start, end = ranges["start"].to_numpy(), (ranges["start"] + ranges["duration"]).to_numpy()
    clock = LaneClock(int(lane.max(initial=0)) + 1, start, end)
    order = np.argsort(clock.key(lane[at], start))
    begins, ends = clock.key(lane[at], start)[order], clock.key(lane[at], end)[order]
    when = host["start"].to_numpy()[calls]
    place = clock.last_begun(begins, lane[calls], when)
    within: Bools = (calls >= 0) & (place >= 0) & (clock.key(lane[calls], when) < ends[place])
    return within


def _parameters(facts: Facts, calls: int) -> float | None:
    host = facts.trace.host
    named = names.matching(host["name"], "torch::autograd::AccumulateGrad".__eq__)
    if not named.any():
        return None
    grads = int((named & of_kinds(host["kind"], "annotation", "operator") & scope_mask(facts.sel)).sum())
    return grads / calls if grads else None


_ALONG_THE_LAST = re.compile(r"\bindex(?:Select|Func)LargeIndex<.*-?\d+, false[,>]")
"""PyTorch's kernels of index_select and index_add, as they tell whether the dimension that is indexed lies outermost
(`IndexIsMajor`)."""


def layout(kernel: str) -> str:
    """What to say of a kernel that gathers or scatters single numbers, by its name."""
    if _ALONG_THE_LAST.search(kernel) is None:
        return ""
    return (
        "It indexes the dimension whose numbers lie side by side, so that each number costs a memory sector of 32"
        " bytes: lay the tensor out with the indexed dimension first (index_select(0), index_add_(0) on rows). "
    )
