"""Steps, and where their time goes, beside a look at every single tick of time."""

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_frames import made_trace

from tracetui.analysis.base.conventions import CATEGORIES
from tracetui.analysis.gpu.activities import activities
from tracetui.analysis.gpu.idle import gaps, shares
from tracetui.analysis.gpu.steps import extent, step_slots
from tracetui.analysis.overview import Overview, gpu_metrics, overview
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import select
from tracetui.parsers import Trace

Row: TypeAlias = dict[str, Any]

WORK = ("kernel", "memcpy", "memset", "graph")
TB_COLLECTIVE = ("nccl:all_reduce", "gloo:broadcast", "nccl:reduce_scatter")
HOST_NAMES = ("aten::mm", "forward", "ProfilerStep#0", "ProfilerStep#9", "train", "nccl", *TB_COLLECTIVE)
DEVICE_NAMES = (
    "gemm",
    "not_nccl_at_all",
    "ncclDevKernel_AllReduce_Sum",
    "void rcclGenericKernel",
    "NCCLwhatever",
    "ProfilerStep#3",
    "ProfilerStep#4",
    "ProfilerStep#7",
    "xProfilerStep#8",
    "ProfilerStep#8x",
    *TB_COLLECTIVE,
)
TIMES = st.integers(0, 30)
NUMBERS = st.sampled_from((None, 1, 2, 3))


@dataclass(frozen=True)
class Made:
    steps: list[Row]
    host: list[Row]
    device: list[Row]
    """In order of start."""

    @property
    def trace(self) -> Trace:
        return made_trace(steps=self.steps, host=self.host, device=self.device)


@st.composite
def made(draw: st.DrawFn) -> Made:
    steps: list[Row] = []
    now = draw(st.integers(0, 6))
    for row in range(draw(st.sampled_from((0, 1, 2, 2, 3)))):
        now += draw(st.sampled_from((0, 0, 1, 4)))
        name = draw(st.sampled_from((f"ProfilerStep#{row + 3}", "train")))
        steps.append({"index": row + 3, "name": name, "start": now, "duration": draw(st.sampled_from((0, 1, 5, 9)))})
        now += steps[-1]["duration"]
    least = draw(st.sampled_from((5, 3, 0)))
    host = draw(
        st.lists(
            st.fixed_dictionaries(
                {
                    "kind": st.sampled_from(
                        ("operator", "annotation", "annotation", "dataloader", "runtime", "runtime", "driver", "python",
                         "module", "overhead", "os")
                    ),
                    "name": st.sampled_from(HOST_NAMES),
                    "start": TIMES,
                    "duration": st.sampled_from((1, 1, 2, 4, 12)),
                    "correlation": NUMBERS,
                    "external_id": NUMBERS,
                }
            ),
            min_size=least,
            max_size=6,
        )
    )  # fmt: skip
    device = draw(
        st.lists(
            st.fixed_dictionaries(
                {
                    "kind": st.sampled_from((*WORK, "kernel", "kernel", "annotation", "synchronization")),
                    "name": st.sampled_from(DEVICE_NAMES),
                    "start": TIMES,
                    "duration": st.sampled_from((0, 1, 3, 8)),
                    "device": st.sampled_from((0, 0, 1, None)),
                    "stream": st.sampled_from((7, 7, 8, None)),
                    "correlation": NUMBERS,
                    "external_id": NUMBERS,
                    "launch": st.sampled_from((None, None, None, *range(len(host)))),
                    "step": st.sampled_from((None, *range(len(steps)))),
                }
            ),
            min_size=least,
            max_size=7,
        )
    )
    found = Made(steps, host, sorted(device, key=lambda row: row["start"]))
    return linked(found) if draw(st.booleans()) else found


def linked(of: Made) -> Made:
    """As recordings are: what a call launched has its correlation, and belongs to the step that the call begins in."""
    host = [row | {"correlation": 10 + at} for at, row in enumerate(of.host)]
    device = []
    for row in of.device:
        launch = row["launch"]
        called = row["start"] if launch is None else host[launch]["start"]
        step = next((at for at, one in enumerate(of.steps) if one["start"] <= called < end_of(one)), None)
        device.append(row | {"step": step, "correlation": None if launch is None else 10 + launch})
    return Made(of.steps, host, device)


@st.composite
def scopes(draw: st.DrawFn) -> Scope:
    edges = draw(st.tuples(st.integers(-2, 40), st.integers(-2, 40)))
    return Scope(
        steps=draw(st.sampled_from((None, None, (3, 3), (4, 5), (5, 9), (8, 9)))),
        skip_steps=draw(st.sampled_from((0, 0, 0, 1, 2))),
        devices=draw(st.sampled_from((None, None, frozenset({0}), frozenset({0, 1}), frozenset({5})))),
        window=draw(st.sampled_from((None, None, (min(edges), max(edges))))),
    )


def end_of(row: Row) -> int:
    return int(row["start"] + row["duration"])


# Steps


@dataclass(frozen=True)
class Step:
    index: int
    name: str
    start: int
    end: int


def plain_whole(of: Made) -> list[Step]:
    """All that was recorded as one step."""
    rows = of.host + [row for row in of.device if row["start"] is not None]
    if not rows:
        return []
    return [Step(0, "whole file", min(row["start"] for row in rows), max(end_of(row) for row in rows))]


def lengthened(marks: list[Step], own: list[list[Row]], stray: list[Row]) -> list[Step]:
    """Each step from where the one before ends to the end of its own work; the first after the stray work before it."""
    if not any(own):
        return marks
    reached = marks[0].start
    if own[0]:
        first = min(row["start"] for row in own[0])
        reached = max([reached, *(end_of(row) for row in stray if end_of(row) < first)])
    steps = []
    for mark, work in zip(marks, own, strict=True):
        start = max(reached, mark.start)
        reached = max([start, mark.end, *(end_of(row) for row in work)])
        steps.append(Step(mark.index, mark.name, start, reached))
    return steps


def plain_span(of: Made, scope: Scope) -> tuple[int, int] | None:
    """From the first GPU work of the devices in scope to the last."""
    on = [row for row in of.device if scope.devices is None or row.get("device") in scope.devices]
    times = [(row["start"], end_of(row)) for row in on if row["kind"] in WORK and row["start"] is not None]
    low, high = min((start for start, _ in times), default=0), max((end for _, end in times), default=0)
    return (low, high) if high > low else None


def plain_steps(of: Made, scope: Scope = Scope()) -> list[Step]:  # noqa: B008  it can't change
    """Work belongs to the step that launched it; where no launch is known at all, to the one it begins to run in.

    Without steps, the time that the GPU's work spans is one, or else all that was recorded.
    """
    if not of.steps:
        span = plain_span(of, scope)
        return plain_whole(of) if span is None else [Step(0, "first to last GPU work", *span)]
    work = [row for row in of.device if row["kind"] in WORK]
    if any(row["launch"] is not None for row in work):
        belongs = [row["step"] if row["launch"] is not None else None for row in work]
    else:
        belongs = [row["step"] for row in work]
    own = [[row for row, at in zip(work, belongs, strict=True) if at == number] for number in range(len(of.steps))]
    stray = [row for row, at in zip(work, belongs, strict=True) if at is None]
    return lengthened([Step(row["index"], row["name"], row["start"], end_of(row)) for row in of.steps], own, stray)


def restricted(of: Made, whole: list[Step], scope: Scope, *, marked: bool) -> list[Step]:
    """The steps in scope, cut at the edges of its window."""
    chosen = whole
    if marked:
        wanted = [row["index"] for row in of.steps[scope.skip_steps :]]
        first, last = scope.steps or (min(wanted, default=0), max(wanted, default=0))
        chosen = [step for step in whole if step.index in wanted and first <= step.index <= last]
    if scope.window is not None:
        low, high = scope.window
        chosen = [Step(step.index, step.name, max(step.start, low), min(step.end, high)) for step in chosen]
        chosen = [step for step in chosen if step.end > step.start]
    return chosen


# Where the time goes


def plain_claims(of: Made, scope: Scope) -> dict[str, list[Row]]:
    """Which events stand for each category."""
    marks = {step["name"] for step in of.steps}
    claims: dict[str, list[Row]] = {category: [] for category in CATEGORIES}
    for row in of.host:
        if row["kind"] in ("runtime", "driver"):
            claims["runtime"].append(row)
        elif row["kind"] == "dataloader":
            claims["dataloader"].append(row)
        elif row["kind"] == "annotation" and (row["name"] in marks or row["name"].startswith("ProfilerStep#")):
            continue
        elif row["kind"] in ("operator", "annotation"):
            claims["cpu_exec"].append(row)
    for row in of.device:
        if scope.devices is not None and row.get("device") not in scope.devices:
            continue
        if row["kind"] == "kernel":
            claims["communication" if is_collective(row["name"]) else "kernel"].append(row)
        elif row["kind"] in ("memcpy", "memset"):
            claims[row["kind"]].append(row)
        elif row["kind"] == "graph":
            claims["kernel"].append(row)
    return claims


def is_collective(name: str) -> bool:
    """A kernel of NCCL or RCCL, in any case."""
    words = ("ncclkernel", "nccldevkernel", "rccl")
    return name.lower().startswith("nccl") or any(word in name.lower() for word in words)


def under_way(rows: list[Row]) -> set[int]:
    """The ticks in which any of the events runs."""
    return {tick for row in rows for tick in range(row["start"], end_of(row))}


def plain_times(of: Made, steps: list[Step], scope: Scope) -> list[Row]:
    """A row per step: every tick of it belongs to the first category that claims it."""
    ticks = {category: under_way(rows) for category, rows in plain_claims(of, scope).items()}
    whole = {tick for step in steps for tick in range(step.start, step.end)}
    left = set(whole)
    belongs: dict[str, set[int]] = {}
    for category in CATEGORIES[:-1]:
        belongs[category] = left & ticks[category]
        left -= ticks[category]
    belongs["other"] = left
    by_gpu = []
    for device in {row.get("device") for row in of.device}:
        alone = Made(of.steps, [], [row for row in of.device if row.get("device") == device])
        claims = plain_claims(alone, scope)
        by_gpu.append((under_way(claims["kernel"]), under_way(claims["communication"])))
    rows = []
    for step in steps:
        own = set(range(step.start, step.end))
        rows.append(
            {"index": step.index, "name": step.name, "start": step.start, "duration_ns": len(own)}
            | {f"{category}_ns": len(own & belongs[category]) for category in CATEGORIES}
            | {"computation_ns": sum(len(own & one) for one, _ in by_gpu)}
            | {"collective_ns": sum(len(own & other) for _, other in by_gpu)}
            | {"overlap_ns": sum(len(own & one & other) for one, other in by_gpu)}
        )
    return rows


def sums_up(found: Overview, rows: list[Row]) -> None:
    """Means over the steps, shares of the mean step, and how much of communication computing hides."""
    count = max(len(rows), 1)
    mean = sum(row["duration_ns"] for row in rows) / count
    assert found.average_step_ns == mean
    assert found.average["category"].to_list() == list(CATEGORIES)
    for category, spent, percent in found.average.iter_rows():
        of_category = sum(row[f"{category}_ns"] for row in rows) / count
        assert spent == of_category
        assert percent == pytest.approx(100 * of_category / mean if mean else 0)
    collective = sum(row["collective_ns"] for row in rows)
    hidden = sum(row["overlap_ns"] for row in rows)
    assert found.overlap_percent == (pytest.approx(100 * hidden / collective) if collective else None)


def agrees(of: Made, scope: Scope, whole: list[Step], *, marked: bool) -> Overview:
    sel = select(of.trace, scope)
    steps = restricted(of, whole, scope, marked=marked)
    slots = step_slots(sel)
    assert list(zip(slots.index, slots.name, slots.start.tolist(), slots.end.tolist(), strict=True)) == [
        (step.index, step.name, step.start, step.end) for step in steps
    ]
    assert slots.marked == marked
    found = overview(sel)
    rows = plain_times(of, steps, scope)
    assert found.per_step.rows(named=True) == rows
    assert found.steps == (len(steps) if marked else 0)
    sums_up(found, rows)
    work = activities(sel)
    window = (steps[0].start, steps[-1].end) if steps else None
    assert found.gpu.equals(gpu_metrics(sel.trace, work, window))
    assert found.idle.equals(shares(gaps(sel)))
    return found


def plain_base(of: Made, steps: list[Step], scope: Scope, *, marked: bool) -> str:
    """What the numbers are about, in words."""
    if not marked:
        text = f"{'whole file' if plain_span(of, scope) is None else 'first to last GPU work'} (no steps)"
    elif not steps:
        text = "no step"
    elif steps[0].index == steps[-1].index:
        text = f"step {steps[0].index}"
    else:
        text = f"steps {steps[0].index}-{steps[-1].index}"
    if scope.devices is not None:
        text += ", GPU " + ",".join(str(device) for device in sorted(scope.devices))
    return text + (", marked range" if scope.window is not None else "")


@settings(max_examples=60)
@given(made(), scopes())
def test_every_tick_of_a_step_belongs_to_the_first_category_that_claims_it(of: Made, scope: Scope) -> None:
    whole = plain_steps(of, scope)
    found = agrees(of, scope, whole, marked=bool(of.steps))
    steps = restricted(of, whole, scope, marked=bool(of.steps))
    if steps or scope.window is not None:
        assert found.base == plain_base(of, steps, scope, marked=bool(of.steps))


def test_last_steps_with_little_work_stay() -> None:
    steps, host, device = [], [], []
    for row, count in enumerate((5, 3, 0)):
        steps.append({"index": row, "name": f"ProfilerStep#{row}", "start": 20 * row, "duration": 20})
        host.append({"kind": "runtime", "name": "launch", "start": 20 * row + 1, "duration": 1})
        work = {"kind": "kernel", "name": "gemm", "duration": 1, "launch": row, "external_id": 1}
        device += [work | {"start": 20 * row + 3 + at} for at in range(count)]
    of = linked(Made(steps, host, device))
    assert len(agrees(of, Scope(), plain_steps(of), marked=True).per_step) == 3


@settings(max_examples=40)
@given(made())
def test_the_extent_of_a_recording(of: Made) -> None:
    rows = [row for row in (*of.host, *of.device) if row["start"] is not None]
    whole = (min(row["start"] for row in rows), max(end_of(row) for row in rows)) if rows else None
    assert extent(of.trace) == whole
    if whole is not None:  # what the file says of itself counts too
        low, high = whole
        for told, expected in (((low - 5, 3), (low - 5, high)), ((low, high - low + 9), (low, high + 9))):
            assert extent(replace(of.trace, info=replace(of.trace.info, window=told))) == expected


def test_durations_alone_have_no_extent() -> None:
    of = Made([], [], [{"kind": "kernel", "name": "gemm", "start": None, "duration": 5}])
    assert extent(of.trace) is None
    assert overview(select(of.trace)).per_step.is_empty()
