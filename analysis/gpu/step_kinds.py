"""Steps that are not alike: their kinds, by the work that they launched and by length, and what the rare ones do."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from statistics import fmean, median

import numpy as np
import polars as pl
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from tracetui.analysis.base.names import matching, of_kinds
from tracetui.analysis.base.number_format import spans
from tracetui.analysis.base.own_code import RECORDER
from tracetui.analysis.base.remembered import kept
from tracetui.analysis.gpu.activities import WORK
from tracetui.analysis.gpu.sampled_steps import HALF, what_takes_longer
from tracetui.analysis.gpu.served import (
    COLUMNS,
    SIZES,
    Served,
    by_attention,
    lone,
    phases,
    replayed,
    served,
    within_steps,
    worked_ns,
)
from tracetui.analysis.gpu.steps import StepSlots, step_slots
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import Selection, select
from tracetui.parsers import Trace, links
from tracetui.parsers.arrays import Bools, Floats, Ints
from tracetui.parsers.names.range_roles import EVALUATION, role_of
from tracetui.parsers.runs import samples

UNEVEN = 1.1
"""Kinds whose lengths differ by less than this ratio are one: telling them apart would change nothing."""
SCATTER, SCATTER_VALUES = 0.05, 2
"""What is supposed of the scatter before any step is looked at: 5 %, with the weight of two values."""
GAPS = ((3, 4, 5, 6, 8, 10, 16), (7.1, 6.7, 6.3, 5.6, 4.7, 4.1, 3.0))
"""By number of steps: the gap, in standard deviations within both groups, that 1 % of runs of one kind exceed whose
lengths scatter by 10 % (simulated; tests/test_step_kinds.py does it again)."""


def grouped(lengths: Sequence[float] | Ints | Floats, work: Sequence[object] = ()) -> list[Ints]:
    """The positions of the steps of each kind, the largest kind first, then what takes most time.

    Sorted lengths are cut, again and again, where a gap is wider than scatter explains. Where all steps on one side of
    a gap launched the work that most steps did, and none on the other, the gap needs no further proof.

    Args:
        lengths: of the steps; not empty.
        work: what each step launched, to compare; empty where it is not known.
    """
    taken = np.asarray(lengths, np.float64)
    kinds = _split(np.argsort(taken, kind="stable"), np.log(np.maximum(taken, 1.0)), work)
    return sorted(kinds, key=lambda kind: (-kind.size, -float(taken[kind].sum()))) if len(kinds) > 1 else kinds


def _split(order: Ints, logs: Floats, work: Sequence[object]) -> list[Ints]:
    """The kinds of these steps, which are in the order of their lengths."""
    at = _cut(logs[order], _unusual(order, work))
    if at is None:
        return [np.sort(order)]
    return [*_split(order[:at], logs, work), *_split(order[at:], logs, work)]


def _unusual(order: Ints, work: Sequence[object]) -> Bools | None:
    """Which of these steps did not launch what most of them did; None where no two halves of them launched the same."""
    counts = Counter(work[place] for place in order.tolist()) if work else Counter()
    usual, number = counts.most_common(1)[0] if counts else (None, 0)
    if 2 * number <= order.size or len(counts) < 2:
        return None
    return np.array([work[place] != usual for place in order.tolist()], np.bool_)


def _cut(logs: Floats, unusual: Bools | None) -> int | None:
    """Where to cut these sorted logarithms in two; None where they are of one kind."""
    size = logs.size
    wide = np.flatnonzero(np.diff(logs) > np.log(UNEVEN)) + 1
    if not wide.size:
        return None
    if unusual is not None:
        parted = np.flatnonzero(np.diff(unusual)) + 1
        if parted.size == 1 and parted[0] in wide:
            return int(parted[0])
    if size < GAPS[0][0]:
        return None
    moved = logs - logs.mean()
    sums, squares = np.cumsum(moved), np.cumsum(moved**2)
    low, high = wide, size - wide
    within = squares[-1] - sums[wide - 1] ** 2 / low - (sums[-1] - sums[wide - 1]) ** 2 / high
    deviation = np.sqrt((np.maximum(within, 0) + SCATTER_VALUES * SCATTER**2) / (size - 2 + SCATTER_VALUES))
    gaps = (logs[wide] - logs[wide - 1]) / deviation
    best = int(np.argmax(gaps))
    if gaps[best] > np.interp(size, *GAPS):
        return int(wide[best])
    # one step that is longer than all others by far hides that these are of two kinds
    rest = _cut(logs[:-1], None)
    hides = rest is not None and logs[-1] - logs[-2] > logs[rest] - logs[rest - 1]
    return size - 1 if hides else None


def typical_lengths(lengths: Sequence[int]) -> list[int]:
    """Those of the largest kind, for clean steps, of which lengths alone are known."""
    return [lengths[place] for place in grouped(lengths)[0].tolist()]


def typical_ns(lengths: Sequence[int]) -> float:
    """The median step of the kind that most of them are; of several kinds, none of which most are, the mean step."""
    return fmean(lengths) if are_mixed(lengths) else float(median(typical_lengths(lengths)))


def are_mixed(lengths: Sequence[int]) -> bool:
    """Whether no kind has most of these steps, so that no length is typical of them."""
    return bool(lengths) and 2 * len(typical_lengths(lengths)) <= len(lengths)


class Kind(Struct, frozen=True):
    """Steps that are alike: in length and work, or of one phase where a server's ranges name it."""

    steps: tuple[int, ...]
    """Their numbers in the recording; of clean steps from 1 on."""
    mean_ns: float
    median_ns: float
    percent: float
    """Of the time of all steps."""
    leads: bool = False
    """Whether they are the first ones, longer than typical, and launched nothing else: a warm-up, or the first launches
    find an idle GPU."""
    particular: str | None = None
    """What takes most of what they take longer than typical steps: what only they do, the call that they are `HELD` in,
    or GPU work. Empty where nothing that was recorded does, and None where no such step was recorded by name."""
    phase: str | None = None
    """Of a server's iterations what they do: prefill, decode, …; among steps that train, ``evaluation``."""
    served: Served | None = None
    """What is told of them besides, where they are a server's."""


class StepKinds(Struct, frozen=True, dict=True):
    """The kinds of steps of a page: of the clean ones where they were timed, else of the light recording's, else its.

    The first kind is the typical one; the others come by the time that they take.
    """

    of: str
    """``clean``, ``light`` or ``recorded``."""
    kinds: tuple[Kind, ...]
    mean_ns: float

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return sum(len(kind.steps) for kind in self.kinds)

    @property
    def first(self) -> int:
        """The number of the first step."""
        return min(min(kind.steps) for kind in self.kinds)

    @property
    def typical(self) -> Kind:
        """The kind that most steps are of."""
        return self.kinds[0]

    @cached_property
    def rare(self) -> tuple[Kind, ...]:
        """The kinds that are longer than the typical one; not the first steps, whose like does not come again."""
        longer = (one for one in self.kinds[1:] if one.mean_ns > self.typical.mean_ns)
        return tuple(one for one in longer if not one.leads and one.phase is None)

    def called(self, one: Kind) -> str:
        """What a kind is called."""
        if one.phase is not None:
            return one.phase
        if one is self.typical:
            return "typical"
        return "first" if one.leads else "longer" if one.mean_ns > self.typical.mean_ns else "shorter"

    @property
    def rare_ns(self) -> float:
        """What the rare kinds take of the mean step, beyond what as many typical steps would."""
        return sum((one.mean_ns - self.typical.mean_ns) * len(one.steps) for one in self.rare) / self.steps


@kept
def page_kinds(sel: Selection) -> StepKinds | None:
    """The kinds of the steps that the page is about; None without two steps."""
    trace = sel.trace
    recorded = recorded_kinds(sel)
    if sel.scope != Scope():
        return recorded
    if recorded is not None and recorded.typical.phase is not None:
        return _clean_phase(recorded, trace)
    if trace.clean_step_ns:
        lengths = [*trace.clean_step_ns, *_sampled_lengths(trace)]
        found = _named(_kinds("clean", lengths, range(1, len(lengths) + 1)), recorded)
        if recorded is not None and _phases(recorded) > (set() if found is None else _phases(found)):
            return recorded  # lengths alone don't tell its kinds
        return (
            found if found is None or not any(one.particular is None for one in found.rare) else _sampled(found, trace)
        )
    light = None if trace.light is None else trace.light()
    if light is not None and light.steps.height > 1 and (found := recorded_kinds(select(light))) is not None:
        return _named(replace(found, of="light"), recorded)
    return recorded


def _phases(found: StepKinds) -> set[str | None]:
    return {one.phase for one in found.kinds} - {None}


def _clean_phase(recorded: StepKinds, trace: Trace) -> StepKinds:
    """A server's kinds, with the times of the clean steps where all of these and of the recorded ones are of one.

    GPU work is then that of the light recording, as everywhere.
    """
    lengths, one = trace.clean_step_ns, recorded.typical
    light = None if trace.light is None else trace.light()
    alike = len(recorded.kinds) == 1 and recorded.steps == trace.steps.height and len(lengths) > 1
    if one.served is None or light is None or not alike or len(grouped(lengths)) > 1:
        return recorded
    slots, mean, told = step_slots(select(light)), fmean(lengths), one.served
    busy = min(100 * worked_ns(light, slots.start, slots.end) / slots.start.size / mean, 100.0)
    rate = None if told.tokens_per_s is None or told.tokens is None else 1e9 * told.tokens / mean
    told = replace(told, busy_percent=busy, tokens_per_s=rate, gap_ns=None, curve=())
    steps = tuple(range(1, len(lengths) + 1))
    kind = replace(one, steps=steps, mean_ns=mean, median_ns=float(median(lengths)), served=told)
    return StepKinds("clean", (kind,), mean)


def outlier(sel: Selection) -> tuple[StepKinds, Kind] | None:
    """Of a selection by steps: the kind that all of them are of, where that is not the recording's typical one."""
    found = recorded_kinds(select(sel.trace)) if sel.by_steps else None
    chosen = set(sel.steps["index"].to_list())
    kind = next((one for one in found.kinds[1:] if chosen <= set(one.steps)), None) if found and chosen else None
    return None if found is None or kind is None else (found, kind)


@kept
def typical_steps(sel: Selection) -> Bools | None:
    """Which of the selected steps (rows of `Selection.steps`) are typical; None where all are, or none is marked.

    Neither is the first after a pause between two schedules of the profiler, whose numbers don't follow each other:
    from the end of the step before it the pause counts, too.
    """
    slots = step_slots(sel)
    if not slots.marked or slots.start.size < 2:
        return None
    number = pl.Series(slots.name, dtype=pl.String).str.extract(r"^ProfilerStep#(\d{1,18})$").cast(pl.Int64)
    typical = (number.diff() == 1).fill_null(value=True).to_numpy()
    kinds = [rows for _, rows in phases(slots.name) or _groups(sel, slots)]
    if len(kinds) == 1 and typical.all():
        return None
    typical &= np.isin(np.arange(typical.size), kinds[0])
    return np.isin(sel.steps["index"].to_numpy(), np.array(slots.index)[typical])


def iterations(sel: Selection) -> tuple[Selection, dict[int, str]]:
    """The selection by a server's iterations where the recording has them, and the name of each step."""
    by, slots = _iterations(sel)
    return by, dict(zip(slots.index, slots.name, strict=True))


def _iterations(sel: Selection) -> tuple[Selection, StepSlots]:
    name = within_steps(sel.trace) if sel.scope == Scope() else None
    by = sel if name is None else select(sel.trace, Scope(steps_by=name))
    slots = step_slots(by)
    slots = slots if slots.marked else lone(by.trace, slots)
    if phases(slots.name):
        return by, slots
    trace = replayed(sel.trace) if sel.scope == Scope() else None
    if trace is not None:
        by = select(trace)
        slots = step_slots(by)
    return by, by_attention(by.trace, slots)


@kept
def recorded_kinds(sel: Selection) -> StepKinds | None:
    """The kinds of a recording's own steps."""
    sel, slots = _iterations(sel)
    if slots.marked and (named := phases(slots.name)):
        return _of_server(sel, slots, named)
    if not slots.marked or slots.start.size < 2:
        return None
    found = _kinds("recorded", slots.end - slots.start, slots.index, _work(sel.trace, slots), _groups(sel, slots))
    if found is None or len(found.kinds) < 2:
        return found
    told = (
        replace(one, particular=_particular(sel, slots, found.typical, one))
        if found.called(one) in ("first", "longer") else one
        for one in found.kinds[1:]
    )  # fmt: skip
    return replace(found, kinds=(found.typical, *told))


@kept
def told_kinds(sel: Selection) -> list[tuple[str | None, Ints]]:
    """The phases of the selected steps and the rows of each: a server's, or evaluation (last) among steps that train.

    Empty where nothing but their lengths and work may tell kinds.
    """
    slots = step_slots(sel)
    named = phases(slots.name) if slots.marked else []
    if named or not slots.marked:
        return list(named)
    evaluates = _evaluating(sel.trace, slots)
    return [(None, np.flatnonzero(~evaluates)), (EVALUATION, np.flatnonzero(evaluates))] if evaluates.any() else []


def _groups(sel: Selection, slots: StepSlots) -> list[tuple[str | None, Ints]]:
    """The rows of the steps of each kind, the typical one first."""
    work, length = _work(sel.trace, slots), slots.end - slots.start
    (_, rows), *others = told_kinds(sel) or [(None, np.arange(length.size))]
    mine = [work[row] for row in rows.tolist()] if work else ()
    return [*((None, rows[group]) for group in grouped(length[rows], mine)), *others]


def _evaluating(trace: Trace, slots: StepSlots) -> Bools:
    """Which steps evaluate, where others train: these have a backward pass or an optimizer.

    So they are called, or they have neither and launch kernels, or without a GPU make calls, that such steps have too.
    """
    row = {index: at for at, index in enumerate(trace.steps["index"].to_list())}
    at = np.array([row[index] for index in slots.index])
    called = np.array([role_of(name) == EVALUATION for name in slots.name], np.bool_)
    begin, host = trace.steps["start"].to_numpy(), trace.host
    end = begin + trace.steps["duration"].to_numpy()

    def steps_of(calls: Bools) -> Ints:
        return links.held_by(begin, end, host["start"].to_numpy()[calls])

    passes = of_kinds(host["kind"], "operator", "annotation") & matching(host["name"], _trains)
    trains = np.isin(at, steps_of(passes)) & ~called
    if not trains.any():
        return called & (not called.all())
    work = trace.device.lazy().filter(pl.col("kind") == "kernel").select("step", pl.col("name").to_physical())
    if not trace.device.height:
        calls = of_kinds(host["kind"], "operator")
        work = pl.LazyFrame({"step": steps_of(calls), "name": host["name"].to_physical().filter(pl.Series(calls))})
    named = work.drop_nulls().unique().collect()
    known = named.filter(pl.col("step").is_in(at[trains]))["name"].implode()
    return called | (~trains & np.isin(at, named.filter(pl.col("name").is_in(known))["step"].to_numpy()))


def _trains(name: str) -> bool:
    return _TRAINS.search(name) is not None or role_of(name) in ("backward", "optimizer")


def _kinds(
    of: str,
    lengths: Sequence[int] | Ints,
    numbers: Sequence[int],
    work: Sequence[object] = (),
    told: Sequence[tuple[str | None, Ints]] = (),
) -> StepKinds | None:
    """The kinds of these steps; told: the rows of each, where more is known of them than their lengths."""
    taken = np.asarray(lengths, np.float64)
    if taken.size < 2 or not taken.sum():
        return None
    groups = told or [(None, group) for group in grouped(taken, work)]
    usual = taken[groups[0][1]].max()
    made = []
    for phase, group in groups:
        values = taken[group]
        first = phase is None and group is not groups[0][1] and group[-1] == group.size - 1 and values.min() > usual
        alike = not work or {work[place] for place in group} <= {work[place] for place in groups[0][1]}
        steps = tuple(int(numbers[place]) for place in group)
        share = 100 * float(values.sum() / taken.sum())
        made.append(
            Kind(steps, fmean(values.tolist()), median(values.tolist()), share, bool(first and alike), phase=phase)
        )
    return StepKinds(of, tuple(made), float(taken.mean()))


def _of_server(sel: Selection, slots: StepSlots, named: list[tuple[str, Ints]]) -> StepKinds | None:
    """The kinds of a server's iterations: one for each phase, however its lengths differ."""
    taken = (slots.end - slots.start).astype(np.float64)
    if not taken.sum():
        return None
    made = []
    for phase, rows in named:
        values = taken[rows].tolist()
        steps = tuple(slots.index[row] for row in rows.tolist())
        share = 100 * sum(values) / float(taken.sum())
        told = served(sel, slots, phase, rows)
        made.append(Kind(steps, fmean(values), median(values), share, phase=phase, served=told))
    return StepKinds("recorded", tuple(made), float(taken.mean()))


ROWS: dict[str, pl.DataType] = {
    "kind": pl.String(),
    "of": pl.String(),
    "steps": pl.Int64(),
    "mean_ns": pl.Float64(),
    "median_ns": pl.Float64(),
    "percent": pl.Float64(),
    "numbers": pl.String(),
    "particular": pl.String(),
}


def kind_rows(found: StepKinds | None) -> pl.DataFrame:
    """A row per kind, the typical one first; none where the steps are alike."""
    if found is None or (len(found.kinds) < 2 and found.typical.phase is None):
        return pl.DataFrame(schema=ROWS)
    rows = [
        (found.called(one), found.of, len(one.steps), one.mean_ns, one.median_ns, one.percent, spans(one.steps),
         one.particular)
        for one in found.kinds
    ]  # fmt: skip
    return pl.DataFrame(rows, ROWS, orient="row")


def served_rows(found: StepKinds | None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """A row per phase of a server's iterations, and one per size of each; none of others."""
    told = [] if found is None else [(one.phase, one.served) for one in found.kinds if one.served is not None]
    rows = [{"kind": phase, "waits_for": one.waits_for, **to_builtins(one)} for phase, one in told]
    points = [{"kind": phase, **to_builtins(point)} for phase, one in told for point in one.curve]
    return (
        pl.DataFrame([{key: row[key] for key in COLUMNS} for row in rows], COLUMNS),
        pl.DataFrame([{key: row[key] for key in SIZES} for row in points], SIZES),
    )


def _named(found: StepKinds | None, recorded: StepKinds | None) -> StepKinds | None:
    """The kinds with what the recording that has names tells of its own: each of the one that is nearest in length."""
    if found is None or len(found.kinds) < 2:
        return found
    others = () if recorded is None else recorded.kinds[1:]

    def told(one: Kind) -> Kind:
        near = min(others, key=lambda other: abs(np.log(other.mean_ns / one.mean_ns)), default=None)
        is_same = near is not None and near.leads == one.leads and _nearer(one, near, found.typical)
        if near is None or not is_same:
            return replace(one, particular=None)
        return replace(one, particular=near.particular, phase=near.phase)

    return replace(found, kinds=(found.typical, *map(told, found.kinds[1:])))


def _sampled_lengths(trace: Trace) -> list[int]:
    """The steps during which a sampler looked at the program from outside, where that made them no longer.

    No profiler ran in them either, and they are many: what comes in each hundredth step shows there alone.
    """
    of, _ = samples.of_trace(trace)
    lengths = [] if of is None else [round(ns) for ns in of.step_ns or of.host_ns]
    if not lengths or not trace.clean_step_ns:
        return []
    ratio = typical_ns(lengths) / typical_ns(trace.clean_step_ns)
    return lengths if 1 / UNEVEN < ratio < UNEVEN else []


def _sampled(found: StepKinds, trace: Trace) -> StepKinds:
    """The kinds with what a sampler saw of the sampled steps that are like them, where no such step was recorded."""
    of, _ = samples.of_trace(trace)
    lengths = np.array([] if of is None else of.step_ns or of.host_ns, np.float64)
    if of is None or not lengths.size:
        return found
    apart = [np.abs(np.log(np.maximum(lengths, 1) / one.mean_ns)) for one in found.kinds]
    nearest = np.argmin(apart, axis=0)
    alike = [set(np.flatnonzero(nearest == at).tolist()) for at in range(len(found.kinds))]

    def told(one: Kind, sampled: set[int]) -> Kind:
        often = len(sampled) / lengths.size / (len(one.steps) / found.steps)
        if one.particular is not None or one not in found.rare or not alike[0] or not 1 / OFTEN < often < OFTEN:
            return one
        what, is_new = what_takes_longer(of, sampled, alike[0])
        return replace(one, particular=what if is_new or not what else f"{HELD} {what}")

    return replace(found, kinds=tuple(map(told, found.kinds, alike)))


def _nearer(one: Kind, other: Kind, typical: Kind) -> bool:
    """Whether a kind of another recording is nearer to this one than a typical step is."""
    return bool(abs(np.log(other.mean_ns / one.mean_ns)) < abs(np.log(typical.mean_ns / one.mean_ns)))


def _work(trace: Trace, slots: StepSlots) -> list[object]:
    """By step, something to compare: what it launched and how often; empty where no launch is known."""
    of_row = _launched(trace)
    rows = {index: row for row, index in enumerate(trace.steps["index"].to_list())}
    return [of_row.get(rows[index], 0) for index in slots.index] if of_row else []


@kept
def _launched(trace: Trace) -> dict[int, int]:
    work = trace.device.lazy().filter(pl.col("kind").is_in(WORK) & pl.col("step").is_not_null())
    counted = work.group_by("step", pl.col("name").to_physical()).len().sort("step", "name")
    told = counted.group_by("step").agg("name", "len").collect()
    each = zip(*(told[name].to_list() for name in ("step", "name", "len")), strict=True)
    return {step: hash((tuple(names), tuple(counts))) for step, names, counts in each}


OFTEN = 4.0
"""Steps of two loops that are as long are of one kind only if their shares of all steps differ by less than this."""
COLLECTION = "Python GC"
"""What torch's profiler calls the pauses of Python's collector."""
HELD = "held up in"
"""How a call begins that all steps make, and that takes longer in these."""
_TRAINS = re.compile("[Bb]ackward|^autograd::|^Optimizer")
_LIBRARY = re.compile(
    r"^<|^torch/|site-packages|dist-packages|lib/python|tracetui_child/|^[\w/]*(threading|runpy)\.py\("
)


def _particular(sel: Selection, slots: StepSlots, typical: Kind, rare: Kind) -> str:
    """What takes most of what these steps take longer: what others have not, else what takes longer in them.

    Of what others have not it is the outermost, with the frame of the program that it is under; else the innermost.
    """
    excess = rare.mean_ns - typical.mean_ns
    rows = _host_rows(sel, slots, typical, rare)
    sums = rows.group_by("kind", "name").agg(
        ns=pl.col("duration").filter("rare").sum() / len(rare.steps)
        - pl.col("duration").filter(~pl.col("rare")).sum() / len(typical.steps),
        is_new=pl.col("rare").all(),
        depth=pl.col("depth").min(),
        row=pl.col("row").filter("rare").first(),
    )
    more = sums.filter(pl.col("ns") >= HALF * excess).with_columns(pl.col("name").cast(pl.String))
    told = more.filter(~pl.col("name").str.contains(RECORDER, literal=True)).sort("depth", "row").collect()
    if not told.height:
        return _on_gpu(sel, slots, typical, rare)
    new = told.filter("is_new")
    if not new.height:
        return f"{HELD} {_words(told['name'][-1])}"
    name, row = _words(new["name"][0]), int(new["row"][0])
    own = _own_frame(sel.trace.host, row)
    return name if own in ("", name) else f"{name}, under {own}"


def _words(name: str) -> str:
    """Without where in memory something was."""
    return re.sub(r" object(?: at 0x\w+)?(?=>)", "", name)


def _host_rows(sel: Selection, slots: StepSlots, typical: Kind, rare: Kind) -> pl.LazyFrame:
    """The host's events within the steps of both kinds; ``rare`` tells the steps apart."""
    chosen = np.isin(slots.index, [*typical.steps, *rare.steps])
    is_rare = np.isin(slots.index, rare.steps)
    begin = sel.steps["start"].to_numpy()
    end = begin + sel.steps["duration"].to_numpy()
    start = sel.trace.host["start"].to_numpy()
    at = np.searchsorted(begin, start, side="right") - 1
    inside = (at >= 0) & (start < end[at]) & chosen[at]
    host = sel.trace.host.lazy().with_row_index("row").select("row", "kind", "name", "start", "duration", "depth")
    host = host.with_columns(rare=pl.Series(is_rare[at])).filter(pl.Series(inside))
    return host.join(sel.steps.lazy().select("start", "duration"), on=["start", "duration"], how="anti")


def _own_frame(host: pl.DataFrame, row: int) -> str:
    """The innermost frame of the program itself around an event, or the event if it is one; empty where none is known.

    Frames of PyTorch, of installed packages and of the standard library are not the program's.
    """
    kind, name, parent = host["kind"], host["name"], host["parent"]
    at: int | None = row
    while at is not None:
        if kind[at] == "python" and not _LIBRARY.search(str(name[at])):
            return str(name[at])
        at = parent[at]
    return ""


def _on_gpu(sel: Selection, slots: StepSlots, typical: Kind, rare: Kind) -> str:
    """The GPU work that takes most of what these steps take longer; empty where none does."""
    rows = {index: row for row, index in enumerate(sel.trace.steps["index"].to_list())}
    mine, others = ([rows[index] for index in one.steps] for one in (rare, typical))
    work = sel.trace.device.lazy().filter(pl.col("kind").is_in(WORK) & pl.col("step").is_in([*mine, *others]))
    work = work.with_columns(rare=pl.col("step").is_in(mine))
    more = work.group_by(pl.col("name").cast(pl.String)).agg(
        ns=pl.col("duration").filter("rare").sum() / len(mine)
        - pl.col("duration").filter(~pl.col("rare")).sum() / len(others)
    )
    found = more.sort("ns", descending=True).collect()
    enough = float(found["ns"].clip(0).sum()) >= HALF * abs(rare.mean_ns - typical.mean_ns)
    return str(found["name"][0]) if found.height and enough else ""
