"""Finds the ranges that are a program's iterations, in a recording whose profiler marked no steps.

One finder serves every format with ranges: ``record_function`` in a Chrome trace, NVTX in an nsys export. Ranges of one
name, its numbers left out, and of one thread are a *family*. Steps are the family that repeats and that most GPU work
was launched in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.parsers import links, schema
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.names.range_roles import (
    COMPILED,
    EVALUATION,
    MADE_BY_LIBRARY,
    NUMBERS,
    PARTS_OF_STEPS,
    any_of_role,
    is_layer,
    is_pass,
    means_step,
    role_of,
    spoken,
)
from tracetui.parsers.names.serving import LABELS, REPLAY, label_of
from tracetui.parsers.trace import MarkedBy, Note, Trace

LEAST_SHARE = 0.5
"""Of the GPU work between its first range's start and its last one's end, what a family must hold to be the steps; of
all GPU work, if its name does not mean a step."""
ABOUT_THE_SAME = 0.9
"""From this part of the most on, two families hold about the same work."""
FAR_LONGER, DEVIATIONS = 2.0, 5.0
"""A first step is a warm-up if it is so many times the median of those after it, and so many of their deviations (the
median absolute one, scaled to a normal distribution's) above it."""
CUT_OFF, SILENT, LEAST_STEPS, LEAST_KERNELS = 0.7, 0.1, 3, 10
"""A step was cut off if it has so much less than the kernels of the others, two at least with so many each, and nothing
begins in such a part of it at its outer end."""
MOST_FAMILIES, MOST_LABELS = 64, 2_000
"""How many families are weighed, and how many names are looked at for them, those with the most time first."""
WORK = ("kernel", "memcpy", "memset", "graph")
_NONE = -1
_LANE = ("process", "thread")


def with_steps(trace: Trace) -> Trace:
    """The trace with steps from its ranges, if the profiler marked none and ranges tell them; else the trace itself."""
    if trace.steps.height or not trace.has_timeline:
        return trace
    ranges = _ranges(trace)
    if not ranges.height:
        return trace
    work, warm = _Work.of(trace), _warm_ups(ranges)
    found = [family.without(warm) for family in _families(ranges, work, by=None)]
    found = [family for family in found if _may_be_steps(family, work)]
    chosen = _best(_without_parts(found, ranges))
    if chosen is not None and (others := _evaluations(chosen, ranges)) is not None:
        ranges = ranges.with_columns(label=pl.col("label").replace(others, chosen.label))
        chosen = next(one for one in _of_process(chosen, ranges, work, chosen.process) if one.holds(chosen))
        chosen = chosen.without(warm)
    if chosen is not None:
        return _marked(trace, chosen, ranges, work, warm, asked=None)
    return _noted(trace, warm)


def steps_by(trace: Trace, name: str) -> Trace:
    """The trace with the ranges of this name as its steps, numbers left out; without any steps if it has no such range.

    A range that occurs once is a step too if it is asked for.
    """
    bare = as_recorded(trace, keep_own=False)
    ranges = _ranges(bare) if bare.has_timeline else pl.DataFrame()
    if not ranges.height:
        return bare
    work, warm = _Work.of(bare), _warm_ups(ranges)
    families = _families(ranges, work, by=name)
    if not families:
        return bare
    chosen = max(families, key=lambda family: (family.covered, family.size))
    kept = chosen.without(warm)
    return _marked(bare, kept if kept.size else chosen, ranges, work, warm, asked=name)


def steps_at(trace: Trace, names: Sequence[str], start: Ints, end: Ints) -> Trace:
    """The trace with these stretches of the host's time, in order and apart from each other, as its steps."""
    steps = pl.DataFrame(
        {"index": np.arange(start.size), "name": list(names), "start": start, "duration": end - start},
        schema=schema.STEPS,
    )
    held = pl.Series(links.held_by(start, end, _launched(trace)[0]))
    step = pl.select(pl.when(held >= 0).then(held).cast(schema.RowId)).to_series()
    marks = MarkedBy(REPLAY, 0, int(start[0]), None)
    return replace(trace, steps=steps, device=trace.device.with_columns(step.alias("step")), marked_by=marks)


def candidates(trace: Trace) -> list[str]:
    """Names of ranges that repeat, as `steps_by` takes them: those with the most GPU work first."""
    ranges = _ranges(trace) if trace.has_timeline else pl.DataFrame()
    if not ranges.height:
        return []
    work = _Work.of(trace)
    found = sorted(
        _families(ranges, work, by=None, any_name=True), key=lambda family: (-family.covered, -family.host_ns)
    )
    return list(dict.fromkeys(family.spoken for family in found))


def as_recorded(trace: Trace, *, keep_own: bool = True) -> Trace:
    """The trace with only the steps that its profiler marked, or, unless `keep_own`, without any."""
    if trace.marked_by is None and (keep_own or not trace.steps.height):
        return trace
    none = pl.repeat(None, trace.device.height, dtype=schema.RowId, eager=True)
    return replace(
        trace, steps=trace.steps.clear(), device=trace.device.with_columns(none.alias("step")), marked_by=None
    )


def whole_steps(trace: Trace) -> Trace:
    """The trace without a first or last step that the recording cut off, each other with a number of its own; noted.

    What was cut off has far fewer kernels than the others, which have about the same number, and nothing happens at
    its outer end.
    """
    told = trace.steps["index"]
    if told.n_unique() < told.len():
        again = trace.steps.filter(~told.is_first_distinct())
        note = Note("repaired", "step with the number of another, counted on by time", again.height, again["name"][0])
        counted = pl.int_range(told.len()) + min(told[0], np.iinfo(np.int64).max - told.len())
        trace = replace(trace, steps=trace.steps.with_columns(index=counted), notes=(*trace.notes, note))
    start = trace.steps["start"].to_numpy()
    end = start + trace.steps["duration"].to_numpy()
    step = trace.device.filter(pl.col("kind") == "kernel")["step"].drop_nulls().cast(pl.Int64).to_numpy()
    kernels = np.bincount(step, minlength=trace.steps.height)
    keep = end > start
    notes = (
        [Note("missing", "a step without a length, which is left out", int((~keep).sum()))] if not keep.all() else []
    )
    for at, others in ((0, kernels[1:]), (start.size - 1, kernels[:-1])) if start.size >= LEAST_STEPS else ():
        alike = others.min() >= max(ABOUT_THE_SAME * others.max(), LEAST_KERNELS)
        if alike and kernels[at] < CUT_OFF * others.min() and _silent(trace, int(start[at]), int(end[at]), last=at > 0):
            keep[at] = False
            example = f"{trace.steps['name'][at]}: {kernels[at]} kernels, not {round(np.median(others))}"
            notes.append(Note("missing", "a step at the recording's end was cut off, and is left out", 1, example))
    if keep.all():
        return trace
    number = np.append(np.where(keep, np.cumsum(keep) - 1, _NONE), _NONE)
    moved = pl.Series(number[trace.device["step"].cast(pl.Int64).fill_null(_NONE).to_numpy()])
    return replace(
        trace,
        steps=trace.steps.filter(pl.Series(keep)),
        device=trace.device.with_columns(
            pl.select(pl.when(moved >= 0).then(moved).cast(schema.RowId)).to_series().alias("step")
        ),
        notes=(*trace.notes, *notes),
    )


def _silent(trace: Trace, start: int, end: int, *, last: bool) -> bool:
    """Whether nothing begins in the outer `SILENT` part of a step at an end of the recording."""
    edge = round((end - start) * SILENT)
    low, high = (end - edge, end) if last else (start + 1, start + edge)
    within = (pl.col("start") >= low) & (pl.col("start") < high)
    calls = trace.host.filter(within & (pl.col("kind") != "annotation")).height
    return not calls and not trace.device.filter(within).height


class _Work(Struct, frozen=True):
    """The GPU work by the time of its launch, or of its start where no launch is known."""

    when: Ints
    """Ascending."""
    running: Ints
    """How much time of work comes before each, and at the end all of it."""

    @classmethod
    def of(cls, trace: Trace) -> _Work:
        kind = trace.device["kind"].to_physical().to_numpy()
        rows = np.isin(kind, [schema.DEVICE_KINDS.index(name) for name in WORK])
        when = _launched(trace)[0][rows]
        spent = trace.device["duration"].fill_null(0).to_numpy()[rows]
        order = np.argsort(when, kind="stable")
        return cls(when[order], np.append(0, np.cumsum(spent[order])))

    @property
    def total(self) -> int:
        return int(self.running[-1])

    def inside(self, start: Ints, end: Ints) -> int:
        """The time of what was launched in these stretches, which don't overlap."""
        low, high = np.searchsorted(self.when, start), np.searchsorted(self.when, end)
        return int((self.running[high] - self.running[low]).sum())


def _launched(trace: Trace) -> tuple[Ints, Ints]:
    """When each device activity was launched, or began where no launch is known, and by which host row (or -1)."""
    device = trace.device
    launch, operator = (device[name].cast(pl.Int64).fill_null(_NONE).to_numpy() for name in ("launch", "operator"))
    context = np.where(launch >= 0, launch, operator)
    when = device["start"].fill_null(0).to_numpy().copy()
    known = context >= 0
    when[known] = trace.host["start"].to_numpy()[context[known]]
    return when, context


def _ranges(trace: Trace) -> pl.DataFrame:
    """The ranges that last, with their name as text and without numbers (``label``)."""
    wanted = (pl.col("kind") == "annotation") & (pl.col("duration") > 0)
    wanted &= pl.col("style").is_null() | pl.col("style").is_in(["push_pop", "start_end"])
    if trace.info.kind == "nsys":  # PyTorch's emit_nvtx makes a range of every operator
        wanted &= pl.col("sequence").is_null() & pl.col("external_id").is_null()
    host = (
        trace.host.lazy()
        .filter(wanted & pl.col("name").is_not_null())
        .select(
            "name", *(pl.col(key).fill_null(_NONE) for key in _LANE), "start", end=pl.col("start") + pl.col("duration")
        )
        .collect()
    )
    label = pl.col("name").cast(pl.String)
    for pattern, text in NUMBERS:
        label = label.str.replace_all(pattern, text)
    labels = host.select(pl.col("name").unique()).with_columns(label=label)
    served = [label_of(name) for name in labels["name"].cast(pl.String)]
    labels = labels.with_columns(label=pl.coalesce(pl.Series(served, dtype=pl.String), "label"))
    return host.join(labels, on="name", how="left", maintain_order="left")


@dataclass(frozen=True, slots=True)
class _Family:
    """Ranges of one label on one thread, in order, none inside another."""

    label: str
    process: int
    names: pl.Series
    start: Ints
    end: Ints
    covered: int
    """GPU work launched in them, ns; their own time in a recording without GPU work."""

    @property
    def size(self) -> int:
        return self.start.size

    @property
    def is_served(self) -> bool:
        """Whether they are a server's iterations, of which none is a warm-up of those that do other work."""
        return self.label in LABELS

    @property
    def host_ns(self) -> int:
        return int((self.end - self.start).sum())

    @property
    def spoken(self) -> str:
        exact = self.names.n_unique() == 1 and not self.is_served and not COMPILED.match(self.label.strip())
        return str(self.names[0]).strip() if exact else spoken(self.label)

    def take(self, chosen: Bools) -> _Family:
        """Some of its ranges."""
        names = self.names.filter(pl.Series(chosen))
        return replace(self, names=names, start=self.start[chosen], end=self.end[chosen])

    def without(self, warm: pl.DataFrame) -> _Family:
        """Those outside ranges that are called a warm-up."""
        inside = np.zeros(self.size, np.bool_)
        for start, end in warm.filter(pl.col("process") == self.process).select("start", "end").iter_rows():
            inside |= (self.start >= start) & (self.start < end)
        return self.take(~inside) if inside.any() else self

    def holds(self, other: _Family) -> bool:
        """Whether nearly all of the other's ranges begin inside one of these."""
        at = np.searchsorted(self.start, other.start, side="right") - 1
        inside = (at >= 0) & (other.start < self.end[np.maximum(at, 0)])
        return bool(inside.mean() >= ABOUT_THE_SAME)


def _families(ranges: pl.DataFrame, work: _Work, *, by: str | None, any_name: bool = False) -> list[_Family]:
    """The families that may be steps by their name and number; of a name that is asked for, all.

    Args:
        ranges: what `_ranges` returned.
        work: weighs them.
        by: the name that was asked for.
        any_name: whether parts of steps and warm-ups count too.
    """
    key = ["label", *_LANE]
    sums = ranges.group_by(key, maintain_order=True).agg(n=pl.len(), ns=(pl.col("end") - pl.col("start")).sum())
    if by is None:
        sums = sums.filter(pl.col("n") > 1).sort("ns", descending=True, maintain_order=True).head(MOST_LABELS)
        usable = [label for label in sums["label"].unique().to_list() if any_name or _usable(label)]
        sums = sums.filter(pl.col("label").is_in(usable)).head(MOST_FAMILIES)
    else:
        sums = sums.filter(pl.col("label").is_in(_asked(ranges, by)))
    rows = ranges.join(sums, on=key, how="semi", maintain_order="left")
    found = [_family(group, work) for group in rows.partition_by(key, maintain_order=True)]
    return [family for family in found if family.size > 1 or by is not None]


def _usable(label: str) -> bool:
    if MADE_BY_LIBRARY.match(label) or (is_layer(label) and not means_step(label)):
        return False
    return role_of(label.replace("#", " ")) not in {*PARTS_OF_STEPS, "warmup"}


def _asked(ranges: pl.DataFrame, name: str) -> list[str]:
    """The labels that a person can mean by this name."""
    asked = name.strip().casefold()
    exact = ranges.filter(pl.col("name").cast(pl.String).str.strip_chars().str.to_lowercase() == asked)
    labels: list[str] = exact["label"].unique().to_list()
    if not labels:
        labels = [
            text for text in ranges["label"].unique().to_list() if asked in (text.casefold(), spoken(text).casefold())
        ]
    return labels


def _family(group: pl.DataFrame, work: _Work) -> _Family:
    group = group.sort("start", "end", descending=[False, True])
    start, end = group["start"].to_numpy(), group["end"].to_numpy()
    outermost = np.ones(start.size, np.bool_)
    outermost[1:] = end[1:] > np.maximum.accumulate(end)[:-1]
    start, end = start[outermost], end[outermost]
    end = np.minimum(end, np.append(start[1:], end[-1:]))  # siblings: what goes on beyond the next one's start is cut
    names = group["name"].filter(pl.Series(outermost)).cast(pl.String)
    covered = work.inside(start, end) if work.total else int((end - start).sum())
    return _Family(group["label"][0], group["process"][0], names, start, end, covered)


def _numbers(family: _Family) -> Ints:
    """What each is called by: the first number in the names that rises from each to the next, else its place."""
    digits = family.names.str.extract_all(r"\d{1,18}")
    for place in range(int(digits.list.len().min() or 0)) if "#" in family.label else ():  # type: ignore[arg-type]
        values: Ints = digits.list.get(place).cast(pl.Int64).to_numpy()
        if (np.diff(values) > 0).all():
            return values
    return np.arange(family.size, dtype=np.int64)


def _may_be_steps(family: _Family, work: _Work) -> bool:
    if family.size < 2:
        return False
    means = family.is_served or means_step(family.label)
    # numbers that come again are those of parts, as each pass goes through them
    if not work.total or 1 < family.names.n_unique() < family.size:
        return means
    whole = work.inside(family.start[:1], family.end[-1:])
    least = whole if means else max(whole, work.total)
    return family.covered > 0 and family.covered >= LEAST_SHARE * least


def _without_parts(families: list[_Family], ranges: pl.DataFrame) -> list[_Family]:
    """The families without those that the program itself makes a part of a step or of a pass, even of its only one."""
    likely = ranges.filter(pl.col("label").str.contains("(?i)step|iter|batch|forward|fwd"))
    told = [text for text in likely["label"].unique().to_list() if means_step(text) or is_pass(text)]
    meant = likely.filter(pl.col("label").is_in(told))
    kept = []
    for family in families:
        around = meant.filter((pl.col("process") == family.process) & (pl.col("label") != family.label)).sort("start")
        at = np.searchsorted(around["start"].to_numpy(), family.start, side="right") - 1
        reached = np.maximum.accumulate(np.append(around["end"].to_numpy(), np.iinfo(np.int64).min))
        inside = (at >= 0) & (family.start < reached[at])
        if family.is_served or means_step(family.label) or not inside.any():
            kept.append(family)
    return kept


def _best(families: list[_Family]) -> _Family | None:
    """The family with the most work; of those with about as much, one that means a step, then the outermost."""
    if not families:
        return None
    most = max(family.covered for family in families)
    near = [family for family in families if family.covered >= ABOUT_THE_SAME * most]
    near = [family for family in near if family.is_served or means_step(family.label)] or near
    outer = [one for one in near if not any(other.holds(one) and not one.holds(other) for other in near)] or near
    return max(outer, key=lambda family: (family.covered, family.size, family.host_ns, -int(family.start[0])))


def _evaluations(family: _Family, ranges: pl.DataFrame) -> str | None:
    """The label of ranges between those of a family that are called an evaluation; of several that with the most."""
    if not means_step(family.label):
        return None
    likely = ranges.filter((pl.col("process") == family.process) & pl.col("label").str.contains("(?i)eval|valid"))
    inside = links.held_by(family.start, family.end, likely["start"].to_numpy()) >= 0
    around = np.searchsorted(family.start, likely["start"]) < np.searchsorted(family.start, likely["end"])
    counts = likely.filter(pl.Series(~inside & ~around))["label"].value_counts(sort=True)["label"].to_list()
    return next((label for label in counts if role_of(label.replace("#", " ")) == EVALUATION), None)


def _warm_ups(ranges: pl.DataFrame) -> pl.DataFrame:
    """The ranges that are called a warm-up, without those inside another."""
    likely = ranges.filter(pl.col("label").str.contains("(?i)warm"))
    called = [text for text in likely["label"].unique().to_list() if role_of(text.replace("#", " ")) == "warmup"]
    likely = likely.filter(pl.col("label").is_in(called)).sort("start", "end", descending=[False, True])
    before = pl.col("end").cum_max().shift(1).over("process")
    return likely.filter((pl.col("start") >= before).fill_null(value=True))


def _long_first(duration: Ints) -> int:
    """How many of the first are far longer than those after them; at least two are left, and half of all."""
    count = 0
    while duration.size - count > 2 and 2 * count < duration.size - 1:
        rest = duration[count + 1 :]
        middle = float(np.median(rest))
        spread = 1.4826 * float(np.median(np.abs(rest - middle)))
        if duration[count] <= max(FAR_LONGER * middle, middle + DEVIATIONS * spread):
            break
        count += 1
    return count


def _marked(
    trace: Trace, family: _Family, ranges: pl.DataFrame, work: _Work, warm: pl.DataFrame, asked: str | None
) -> Trace:
    """The trace with a family as its steps, warm-up left out."""
    whole = next(one for one in _of_process(family, ranges, work, family.process) if one.holds(family))
    unlike = family.is_served or any_of_role(family.names.to_list(), EVALUATION)
    long = 0 if unlike else _long_first(family.end - family.start)
    kept = family.take(np.arange(family.size) >= long)
    first = int(kept.start[0])
    warm = warm.filter((pl.col("process") == family.process) & (pl.col("end") <= first))
    empty = [
        not ((whole.start >= start) & (whole.start < end)).any()
        for start, end in warm.select("start", "end").iter_rows()
    ]
    left_out = int((whole.start < first).sum()) + sum(empty)
    begins = min([int(whole.start[0]), *warm["start"].to_list()])
    steps = pl.DataFrame(
        {
            "index": _numbers(whole)[np.isin(whole.start, kept.start)],
            "name": kept.names,
            "start": kept.start,
            "duration": kept.end - kept.start,
        },
        schema=schema.STEPS,
    )
    step = _step_of(trace, kept, whole, ranges, work)
    return replace(
        trace,
        steps=steps,
        device=trace.device.with_columns(step.alias("step")),
        marked_by=MarkedBy(family.spoken, left_out, begins, asked),
    )


def _of_process(family: _Family, ranges: pl.DataFrame, work: _Work, process: int) -> list[_Family]:
    """The families of the same label in a process, the most work first."""
    rows = ranges.filter((pl.col("label") == family.label) & (pl.col("process") == process))
    found = [_family(group, work) for group in rows.partition_by(list(_LANE), maintain_order=True)]
    return sorted(found, key=lambda one: (-one.covered, -one.size))


def _step_of(trace: Trace, kept: _Family, whole: _Family, ranges: pl.DataFrame, work: _Work) -> pl.Series:
    """The step of each device activity: by its process's own ranges of that name, if it has as many of them."""
    when, context = _launched(trace)
    device = trace.device
    step = links.held_by(kept.start, kept.end, when)
    processes = [one for one in ranges.filter(label=kept.label)["process"].unique().to_list() if one != kept.process]
    if processes:
        owner = np.append(trace.host["process"].fill_null(_NONE).to_numpy(), _NONE)[context]
        chosen = np.isin(whole.start, kept.start)
        for process in processes:
            own = _of_process(kept, ranges, work, process)[0]
            mine = owner == process
            if own.size == whole.size:
                step[mine] = links.held_by(own.start[chosen], own.end[chosen], when[mine])
    kind = device["kind"].to_physical().to_numpy()
    lane: list[Any] = [device[name].fill_null(_NONE).to_numpy() for name in ("device", "stream")]
    step[links.queued_before(context, kind, *lane)] = _NONE
    return pl.select(pl.when(pl.Series(step) >= 0).then(pl.Series(step)).cast(schema.RowId)).to_series()


def _noted(trace: Trace, warm: pl.DataFrame) -> Trace:
    """Says that ranges called a warm-up, which repeat, were not taken for steps."""
    for label in warm["label"].unique(maintain_order=True).to_list():
        mine = warm.filter(label=label)
        if mine.height > 1:
            text = f"steps: ranges called “{spoken(label)}” are a warm-up, and nothing marks what follows them"
            note = Note("missing", text, mine.height, str(mine["name"][0]))
            return replace(trace, notes=(*trace.notes, note))
    return trace
