"""Ranges of one capture by what they mean: host time, and the GPU work launched while they were open.

A range's own GPU work (`ranges`) is what its thread launched. PyTorch computes gradients on a thread of their own, so a
``backward_pass`` of the main thread launches next to nothing itself. What was launched *during* a range, by any thread
of its process, is what a person means by "the GPU time of the backward pass": that is counted here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis import intervals
from tracetui.analysis.calltree import NONE, row_ids
from tracetui.analysis.operator_tree import device_work
from tracetui.analysis.projection import EVER, NEVER, over_slices
from tracetui.parsers import kernel_names

if TYPE_CHECKING:
    from tracetui.analysis.intervals import Intervals, Ints
    from tracetui.analysis.selection import Selection

ROLES = {
    "softmax": re.compile(r"softmax"),
    "matmul": re.compile(r"matmul|gemm|\bbmm\b|einsum|\bqk\b|\bscores?\b"),
    "attention": re.compile(r"attention|\battn\b"),
    "backward": re.compile(r"backward|\bbwd\b"),
    "optimizer": re.compile(r"optim(izer)?\b(?!.*zero)"),
    "loss": re.compile(r"\bloss\b|criterion"),
    "evaluation": re.compile(r"\beval(uation)?\b|\bvalid(ation)?\b"),
    "warmup": re.compile(r"\bwarm ?up\b"),
    "forward": re.compile(r"forward|\bfwd\b"),
}
"""What a range is by the words of its name; the first that fits."""
_STEP = re.compile(r"(train|training|optimization)? ?(step|iter|iteration|batch)( \d+)?")
_WORDS = re.compile(r"[^a-z0-9]+")
_NUMBERED = re.compile(r"[#_\-\s]*\d+$")


@dataclass(frozen=True, slots=True)
class Share:
    """Some of a capture's GPU work of one category."""

    category: str
    calls: int
    ns: int


@dataclass(frozen=True, slots=True)
class Phase:
    """All ranges of one name, or of one role. Times in ns; null where the source can't tell."""

    name: str
    domain: str | None
    role: str | None
    names: tuple[str, ...]
    instances: int | None
    """Those that are not inside another of the phase."""
    host_ns: int | None
    """Time that the ranges were open, on each thread; a range inside another of the phase adds nothing."""
    launched_ns: int | None
    """GPU time of what was launched meanwhile by any thread of the process."""
    launched_ops: int | None
    span_ns: int | None
    """From the first start to the last end of that work, summed over the stretches of time the ranges were open."""
    shares: tuple[Share, ...] = ()
    """`launched_ns` by category, the most time first."""
    step_instances: int | None = None
    """Those begun in steps."""
    step_host_ns: int | None = None
    """The part of `host_ns` inside steps; null where the capture has neither steps nor a range that is one."""
    step_launched_ns: int | None = None


@dataclass(slots=True)
class Launched:
    """GPU work of one process in the order of its launches."""

    time: Ints
    """When each was launched."""
    start: Ints
    end: Ints
    by_category: dict[str, tuple[Ints, Ints]]
    """(when each was launched, running sum of time with a 0 before) of the work of each category."""


def role_of(name: str) -> str | None:
    """What a range of this name is about; None where the name doesn't say, and for operators (``aten::softmax``)."""
    if "::" in name:
        return None
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    words = " ".join(_WORDS.split(spaced.lower()))
    if _STEP.fullmatch(words):
        return "step"
    return next((role for role, pattern in ROLES.items() if pattern.search(words)), None)


def category_of(device: pl.DataFrame) -> pl.Series:
    """Each device row's kernel category, or its kind where it is no kernel."""
    names = device["name"].cast(pl.String)
    found = {text: kernel_names.category(text) for text in names.unique().drop_nulls().to_list()}
    by_name = names.replace_strict(found, default="other", return_dtype=pl.String)
    work = pl.DataFrame({"kind": device["kind"].cast(pl.String), "category": by_name})
    return work.select(
        pl.when(pl.col("kind").is_in(["kernel", "graph"])).then("category").otherwise("kind").alias("category")
    ).to_series()


@dataclass(frozen=True, slots=True)
class Phases:
    """The ranges of a capture, the most host time first."""

    by_name: tuple[Phase, ...]
    by_role: tuple[Phase, ...]
    steps: int | None
    """How many steps the parts of the phases "in steps" are about; null where there are none."""
    step_ns: int | None
    """Host time of these steps."""
    step_launched_ns: int | None
    """GPU time of what was launched in them."""


def phases(sel: Selection) -> Phases:
    """Measures the ranges in scope by name and by role; numbered steps are one name.

    In a trace without steps, ranges that are called so (``train_step``) stand for them. Of Nsight Compute's captures,
    which have no host, ranges are known by the launches inside them alone.
    """
    host = sel.trace.host.filter(pl.col("kind").is_in(["annotation", "dataloader"]))
    host = host.filter(pl.col("style").is_null() | (pl.col("style") != "mark"))
    if not host.height:
        return _of_counters(sel)
    texts = host["name"].cast(pl.String).fill_null("")
    step_names = set(sel.trace.steps["name"])
    distinct = texts.unique().to_list()
    label = {text: _NUMBERED.sub("", text) if text in step_names else text for text in distinct}
    steps = {label.get(text, text) for text in step_names}
    host = host.select(
        "process", "thread", "start", "duration",
        label=texts.replace_strict(label, return_dtype=pl.String), domain=host["domain"].cast(pl.String).fill_null(""),
    ).with_columns(pl.col("process", "thread").fill_null(NONE))  # fmt: skip
    roles = {name: _role(name, steps) for name in set(label.values())}
    host = host.with_columns(role=pl.col("label").replace_strict(roles, return_dtype=pl.String))
    measure = _Measure(sel, host)
    named = [
        measure.phase(str(name), str(domain), roles[str(name)], group)
        for (name, domain), group in host.group_by("label", "domain", maintain_order=True)
    ]
    by_role = [
        measure.phase(str(role), None, str(role), group)
        for (role,), group in host.drop_nulls("role").group_by("role", maintain_order=True)
    ]
    whole = measure.whole_steps()
    return Phases(_sorted(named), _sorted(by_role), *whole)


def _role(name: str, steps: set[str]) -> str | None:
    """`role_of`; where the trace has steps, only they are steps."""
    role = role_of(name)
    if name in steps:
        return "step"
    return None if steps and role == "step" else role


def _sorted(found: list[Phase]) -> tuple[Phase, ...]:
    kept = [phase for phase in found if phase.instances or phase.launched_ops]
    return tuple(sorted(kept, key=lambda phase: (-(phase.host_ns or 0), -(phase.launched_ns or 0), phase.name)))


class _Measure:
    """Measures sets of ranges of one selection."""

    def __init__(self, sel: Selection, ranges: pl.DataFrame) -> None:
        self._work = _launched(sel)
        steps = sel.steps
        if not sel.trace.steps.height:
            steps = _outermost(ranges.filter(pl.col("role") == "step"))
        self._count = steps.height
        self._steps = _times(steps) if steps.height else None
        self._scope: Intervals | None = self._steps if sel.by_steps else None
        if sel.scope.window is not None:
            low, high = (np.array([edge]) for edge in sel.scope.window)
            window = (low, high)
            self._scope = window if self._scope is None else intervals.intersect(self._scope, window)

    def whole_steps(self) -> tuple[int | None, int | None, int | None]:
        """How many steps there are, their host time and that of what was launched in them; nulls without steps."""
        if self._steps is None:
            return None, None, None
        shares, _ = self._sums(dict.fromkeys(self._work, self._steps))
        return self._count, intervals.length(self._steps), sum(share.ns for share in shares)

    def phase(self, name: str, domain: str | None, role: str | None, rows: pl.DataFrame) -> Phase:
        """The phase that these ranges are."""
        if self._scope is not None:
            rows = rows.filter(pl.Series(_begun_in(self._scope, rows["start"].to_numpy())))
        outermost = _outermost(rows)["start"].to_numpy()
        open_on: list[Intervals] = []
        open_in: dict[int, Intervals] = {}
        for (process,), of_process in rows.group_by("process", maintain_order=True):
            threads = [_times(of_thread) for _, of_thread in of_process.group_by("thread", maintain_order=True)]
            open_on += threads
            starts, ends = (np.concatenate([times[side] for times in threads]) for side in (0, 1))
            open_in[int(str(process))] = intervals.union(starts, ends)
        found = self._sums(open_in)
        steps = self._steps
        inside = None if steps is None else {pid: intervals.intersect(times, steps) for pid, times in open_in.items()}
        return Phase(
            name=name,
            domain=domain,
            role=role,
            names=tuple(sorted(rows["label"].unique().to_list())),
            instances=outermost.size,
            host_ns=sum(intervals.length(times) for times in open_on),
            launched_ns=sum(share.ns for share in found[0]),
            launched_ops=sum(share.calls for share in found[0]),
            span_ns=found[1],
            shares=tuple(found[0]),
            step_instances=None if steps is None else int(_begun_in(steps, outermost).sum()),
            step_host_ns=None
            if steps is None
            else sum(intervals.length(intervals.intersect(times, steps)) for times in open_on),
            step_launched_ns=None if inside is None else sum(share.ns for share in self._sums(inside)[0]),
        )

    def _sums(self, open_in: dict[int, Intervals]) -> tuple[list[Share], int]:
        """What was launched in these stretches of time by category, and the span it took on the GPU."""
        spent: dict[str, int] = {}
        calls: dict[str, int] = {}
        span = 0
        for process, (start, end) in open_in.items():
            if (work := self._work.get(process)) is None:
                continue
            low = np.searchsorted(work.time, start, side="left")
            high = np.searchsorted(work.time, end, side="left")
            first = over_slices(np.minimum, work.start, low, high, EVER)
            last = over_slices(np.maximum, work.end, low, high, NEVER)
            span += int(np.where(high > low, last - first, 0).sum())
            for category, (time, running) in work.by_category.items():
                low = np.searchsorted(time, start, side="left")
                high = np.searchsorted(time, end, side="left")
                calls[category] = calls.get(category, 0) + int((high - low).sum())
                spent[category] = spent.get(category, 0) + int((running[high] - running[low]).sum())
        shares = [Share(category, count, spent[category]) for category, count in calls.items() if count]
        return sorted(shares, key=lambda share: (-share.ns, share.category)), span


def _outermost(rows: pl.DataFrame) -> pl.DataFrame:
    """The ranges that are not inside another of them on their thread."""
    ordered = rows.sort("process", "thread", "start", "duration", descending=[False, False, False, True])
    end = pl.col("start") + pl.col("duration")
    reached = end.cum_max().shift(1).over("process", "thread")
    return ordered.filter(reached.is_null() | (end > reached) | ((pl.col("start") == reached) & (end == reached)))


def _times(rows: pl.DataFrame) -> Intervals:
    start = rows["start"].to_numpy()
    return intervals.union(start, start + rows["duration"].to_numpy())


def _begun_in(within: Intervals, start: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    at = np.searchsorted(within[0], start, side="right") - 1
    if not within[0].size:
        return np.zeros(start.size, np.bool_)
    inside: np.ndarray[tuple[int], np.dtype[np.bool_]] = (at >= 0) & (start < within[1][at])
    return inside


def _launched(sel: Selection) -> dict[int, Launched]:
    """The device work in scope whose launch is known, by process."""
    device = device_work(sel)
    device = device.filter(device["launch"].is_not_null() & device["start"].is_not_null())
    launch = row_ids(device["launch"])
    host = sel.trace.host
    work = device.select(
        "start",
        pl.col("duration").fill_null(0),
        time=pl.Series(host["start"].to_numpy()[launch]),
        process=pl.Series(host["process"].fill_null(NONE).to_numpy()[launch]),
        category=category_of(device),
    ).sort("process", "time", maintain_order=True)
    found: dict[int, Launched] = {}
    for (process,), rows in work.group_by("process", maintain_order=True):
        start = rows["start"].to_numpy()
        by_category = {
            str(category): (part["time"].to_numpy(), np.concatenate(([0], np.cumsum(part["duration"].to_numpy()))))
            for (category,), part in rows.group_by("category", maintain_order=True)
        }
        found[int(str(process))] = Launched(
            rows["time"].to_numpy(), start, start + rows["duration"].to_numpy(), by_category
        )
    return found


def _of_counters(sel: Selection) -> Phases:
    """Ranges as Nsight Compute names them beside each launch: ``train_step/forward_pass``, outermost first."""
    texts = (
        sel.trace.counters.filter((pl.col("section") == "NVTX") & pl.col("text").is_not_null())
        .select(row="device_row", range=pl.col("text").str.split("/"))
        .explode("range")
        .unique(maintain_order=True)
    )
    device = device_work(sel)
    work = device.select("row", "duration", category=category_of(device))
    joined = texts.join(work, on="row").with_columns(
        role=pl.col("range").map_elements(role_of, return_dtype=pl.String, skip_nulls=True)
    )
    named = [_counted(str(name), role_of(str(name)), group) for (name,), group in joined.group_by("range")]
    by_role = [
        _counted(str(role), str(role), group.unique("row"))
        for (role,), group in joined.drop_nulls("role").group_by("role")
    ]
    return Phases(_sorted(named), _sorted(by_role), None, None, None)


def _counted(name: str, role: str | None, rows: pl.DataFrame) -> Phase:
    shares = rows.group_by("category").agg(pl.len().alias("calls"), pl.col("duration").sum().alias("ns"))
    shares = shares.sort("ns", "category", descending=[True, False])
    return Phase(
        name=name,
        domain=None,
        role=role,
        names=tuple(sorted(rows["range"].unique().to_list())),
        instances=None,
        host_ns=None,
        launched_ns=int(rows["duration"].sum()),
        launched_ops=rows.height,
        span_ns=None,
        shares=tuple(Share(*row) for row in shares.iter_rows()),
    )
