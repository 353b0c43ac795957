"""The comparison of two runs beside one that adds up row by row."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from statistics import mean, median, variance
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_frames import made_trace, on_lanes

from tracetui.analysis.compare import step_difference
from tracetui.analysis.compare.diff import PARTS, StepDifference, diff, kernels_inside, range_times, step_split
from tracetui.analysis.compare.step_difference import median_interval
from tracetui.analysis.gpu.steps import step_slots
from tracetui.analysis.matching.replaced_kernels import replacements
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import Selection, in_steps, select
from tracetui.parsers.names import kernel_names

Row: TypeAlias = dict[str, Any]

NOT_ATTRIBUTED = "(not attributed)"
WORK = ("kernel", "memcpy", "memset", "graph")
# name, key, what is left without element types, kind of work
KERNELS = {
    "gemm<float>": ("gemm<float>", "gemm<·>", "gemm"),
    "gemm<c10::Half>": ("gemm<c10::Half>", "gemm<·>", "gemm"),
    "gemm<double>": ("gemm<double>", "gemm<·>", "gemm"),
    "void ns::scan<1>(int)": ("scan<1>", None, "scan"),
    "scan<1>": ("scan<1>", None, "scan"),
    "softmax_kernel": ("softmax_kernel", None, "softmax"),
    "scan_kernel": ("scan_kernel", None, "scan"),
}
OPERATORS = ("aten::mm", "aten::add", "aten::copy_")
STEP_LENGTH = 100


@dataclass(frozen=True)
class Made:
    """A run of plain rows, and what of it is looked at."""

    steps: list[Row]
    host: list[Row]
    device: list[Row]
    paths: dict[int, str]
    """The path of each module's host row."""
    scope: Scope

    @cached_property
    def sel(self) -> Selection:
        return select(made_trace(steps=self.steps, host=self.host, device=self.device), self.scope)

    @property
    def chosen(self) -> list[int]:
        """Rows of the steps in scope."""
        first, last = self.scope.steps or (0, 99)
        return [
            at for at, step in enumerate(self.steps) if at >= self.scope.skip_steps and first <= step["index"] <= last
        ]

    @property
    def count(self) -> int:
        return max(len(self.chosen), 1)

    @cached_property
    def work(self) -> list[Row]:
        """Of a run with steps, what was launched in those in scope."""
        work = [row for row in self.device if row["kind"] in WORK]
        if self.scope.devices is not None:
            work = [row for row in work if row["device"] in self.scope.devices]
        if self.by_steps:
            work = [row for row in work if row["step"] in self.chosen]
        return work

    @property
    def by_steps(self) -> bool:
        return bool(self.steps) or self.scope.steps is not None or self.scope.skip_steps > 0

    def begun(self, kind: str) -> list[tuple[int, Row]]:
        """Host rows of a kind, those begun in the steps in scope."""
        spans = [(self.steps[at]["start"], self.steps[at]["start"] + STEP_LENGTH) for at in self.chosen]
        return [
            (at, row)
            for at, row in enumerate(self.host)
            if row["kind"] == kind and (not self.by_steps or any(low <= row["start"] < high for low, high in spans))
        ]


@st.composite
def host_rows(draw: st.DrawFn) -> tuple[list[Row], dict[int, str]]:
    """Operators, modules with one inside, ranges and API calls, each kind on a thread of its own."""
    starts = st.lists(st.sampled_from((0, 20, 100, 130, 150, 250, 310, 410)), max_size=3, unique=True)
    rows: list[Row] = []

    def add(kind: str, thread: int, name: str, start: int, duration: int, **more: object) -> None:
        rows.append(
            {"kind": kind, "name": name, "start": start, "duration": duration, "process": 1, "thread": thread} | more
        )

    for start in draw(starts):
        add("operator", 1, draw(st.sampled_from(OPERATORS)), start, draw(st.sampled_from((0, 3, 10))))
    for start in draw(starts):
        outer, inner = (
            draw(st.sampled_from(("Net_0", "Net_1", "Net_10"))),
            draw(st.sampled_from((None, "Block_0", "Net_1"))),
        )
        add("module", 2, f"nn.Module: {outer}", start, 10, path=outer)
        if inner:
            add("module", 2, f"nn.Module: {inner}", start + 2, 5, path=f"{outer}/{inner}")
    for start in draw(starts):
        add("annotation", 3, draw(st.sampled_from(("forward", "backward"))), start, 15, style="push_pop")
    for start in draw(starts):
        add("runtime", 4, "cudaLaunchKernel", start + 1, 1)
    rows = on_lanes(rows)
    return rows, {at: row.pop("path") for at, row in enumerate(rows) if "path" in row}


@st.composite
def runs(draw: st.DrawFn) -> Made:
    # so many that shares of them are exact in floats
    starts = [100 * at for at in range(draw(st.sampled_from((0, 1, 2, 2, 4))))]
    steps = [
        {"index": at + 1, "name": f"ProfilerStep#{at + 1}", "start": start, "duration": STEP_LENGTH}
        for at, start in enumerate(starts)
    ]
    host, paths = draw(host_rows())
    rows = {
        kind: [None, *(at for at, row in enumerate(host) if row["kind"] == kind)] for kind in ("operator", "runtime")
    }
    device = draw(
        st.lists(
            st.fixed_dictionaries(
                {
                    "kind": st.sampled_from((*WORK, *["kernel"] * 6, "annotation")),
                    "name": st.sampled_from(tuple(KERNELS)),
                    "start": st.integers(0, 300),
                    "duration": st.sampled_from((0, 1, 10, 99, 100, 200)),
                    "device": st.sampled_from((0, 0, 0, 1)),
                    "stream": st.just(7),
                    "step": st.sampled_from((*range(len(steps)), None)),
                    "operator": st.sampled_from(rows["operator"]),
                    "launch": st.sampled_from(rows["runtime"]),
                    "module": st.sampled_from((None, *paths)),
                    "forward_module": st.sampled_from((None, *paths)),
                }
            ),
            max_size=9,
        )
    )
    scope = Scope(
        steps=draw(st.sampled_from((None, None, None, (1, 1), (2, 3)))) if len(steps) != 4 else None,
        devices=draw(st.sampled_from((None, None, frozenset({0})))),
    )
    return Made(steps, host, sorted(device, key=lambda row: row["start"]), paths, scope)


@st.composite
def pairs_of_runs(draw: st.DrawFn) -> tuple[Made, Made]:
    """Two runs: in two of three cases of one program that differ in what was measured, and in how names are spelled."""
    a = draw(runs())
    if draw(st.integers(0, 2)) == 0:
        return a, draw(runs())
    other = {"void ns::scan<1>(int)": "scan<1>", "gemm<float>": "gemm<c10::Half>"} if draw(st.booleans()) else {}
    longer = draw(st.lists(st.sampled_from((0, 0, 0, 1, 2, 20)), min_size=len(a.device), max_size=len(a.device)))
    device = [
        row | {"duration": row["duration"] + more, "name": other.get(row["name"], row["name"])}
        for row, more in zip(a.device, longer, strict=True)
    ]
    left_out = draw(st.sampled_from((None, None, *range(len(device)))))
    return a, replace(a, device=[row for at, row in enumerate(device) if at != left_out])


# What a row of a table is: calls, time, the variance of the mean over the steps, and how many launches the time is of

Spent: TypeAlias = tuple[Fraction, Fraction, Fraction | None, Fraction]


def spent(of: Made, rows: list[Row], calls: int | None = None, times: Iterable[int] | None = None) -> Spent:
    """Calls and time per step, and how much the mean of the steps' times varies: null where it can't be known."""
    by_step = [sum(row["duration"] for row in rows if row["step"] == at) for at in of.chosen]
    noise = Fraction(variance(map(Fraction, by_step))) / of.count if rows and len(by_step) > 1 else None
    total = sum(row["duration"] for row in rows) if times is None else sum(times)
    called = len(rows) if calls is None else calls
    launches = len(rows) if times is None else called
    return Fraction(called, of.count), Fraction(total, of.count), noise, Fraction(launches, of.count)


def side_by_side(a: dict[str, Spent], b: dict[str, Spent], steps: int) -> list[Row]:
    """Rows by name, the largest difference first.

    Args:
        a: of A.
        b: of B.
        steps: of both together.
    """
    factor = step_difference.quantile(0.975, steps - 2) if steps > 2 else 2
    nothing: Spent = (Fraction(0), Fraction(0), None, Fraction(0))
    table = []
    for name in a.keys() | b.keys():
        a_calls, a_ns, a_noise, a_work = a.get(name, nothing)
        b_calls, b_ns, b_noise, b_work = b.get(name, nothing)
        noise = None if a_noise is None or b_noise is None else factor * math.sqrt(a_noise + b_noise)
        limit = 0.01 * float(max(a_ns, b_ns)) if noise is None else noise
        if name not in a:
            status = "added"
        elif name not in b:
            status = "removed"
        else:
            status = "same" if a_work == b_work and abs(b_ns - a_ns) <= limit else "changed"
        table.append(
            {"name": name, "status": status, "a_calls": float(a_calls), "b_calls": float(b_calls), "a_ns": float(a_ns),
             "b_ns": float(b_ns), "delta_ns": float(b_ns - a_ns), "noise_ns": noise}
        )  # fmt: skip
    return sorted(table, key=lambda row: (-abs(row["delta_ns"]), row["name"]))


def same_rows(found: Any, expected: list[Row]) -> None:
    rows = found.rows(named=True)
    assert [row["name"] for row in rows] == [row["name"] for row in expected]
    for row, plain in zip(rows, expected, strict=True):
        assert list(row) == list(plain)
        assert row == {
            key: pytest.approx(value) if key == "noise_ns" and value else value for key, value in plain.items()
        }


# Kernels


def plain_pairs(a: set[str], b: set[str]) -> dict[str, tuple[str, str]]:
    """For B's names A's, and what told it: the name, else the key, else all but the element types, where one fits."""
    found = {name: (name, "name") for name in a & b}
    for how, part in (("key", 0), ("types", 1)):
        ours = [name for name in a if name not in {taken for taken, _ in found.values()}]
        theirs = [name for name in b if name not in found]
        for sort in {KERNELS[name][part] for name in ours} - {None}:
            left, right = ([name for name in names if KERNELS[name][part] == sort] for names in (ours, theirs))
            if len(left) == len(right) == 1:
                found[right[0]] = (left[0], how)
    return found


def plain_kernels(a: Made, b: Made, ours: list[Row], theirs: list[Row]) -> list[Row]:
    kernels = [
        {name: [row for row in rows if row["name"] == name] for name in {row["name"] for row in rows}}
        for rows in (ours, theirs)
    ]
    told = plain_pairs(set(kernels[0]), set(kernels[1]))
    swapped = replacements(
        in_steps(a.sel),
        in_steps(b.sel),
        set(kernels[0]) - {ours for ours, _ in told.values()},
        set(kernels[1]) - set(told),
        {theirs: ours for theirs, (ours, _) in told.items()},
    )
    swapped = [
        replace(
            one,
            a_names=tuple(sorted(one.a_names, key=lambda name: -sum(row["duration"] for row in kernels[0][name]))),
            b_names=tuple(sorted(one.b_names, key=lambda name: -sum(row["duration"] for row in kernels[1][name]))),
        )
        for one in swapped
    ]
    main = {name: one.a_names[0] for one in swapped for name in one.a_names}
    other = {theirs: ours for theirs, (ours, _) in told.items()} | {
        name: one.a_names[0] for one in swapped for name in one.b_names
    }
    table = side_by_side(
        *(
            {name: spent(of, [row for row in rows if called.get(row["name"], row["name"]) == name])
             for name in {called.get(row["name"], row["name"]) for row in rows}}
            for of, rows, called in ((a, ours, main), (b, theirs, other))
        ),
        a.count + b.count,
    )  # fmt: skip
    found = []
    for row in table:
        spelled = next(((name, how) for name, (own, how) in told.items() if own == row["name"]), (None, None))
        one = next((one for one in swapped if one.a_names[0] == row["name"]), None)
        if one is not None:
            spelled = one.b_names[0], "operator"
        changed = {"status": "changed"} if spelled[1] in ("types", "operator") else {}
        b_name = {"b_name": spelled[0] if spelled[0] != row["name"] else None, "paired_by": spelled[1]}
        pair = {
            "operator": one and one.operator,
            "a_names": list(one.a_names) if one else [],
            "b_names": list(one.b_names) if one else [],
        }
        short = {"name": row["name"], "short_name": kernel_names.short_name(row["name"])}
        found.append(short | row | changed | b_name | pair)
    return found


def kernels_of(of: Made, wanted: Callable[[Row], bool] = lambda row: True) -> list[Row]:
    return [row for row in of.work if row["kind"] in ("kernel", "graph") and wanted(row)]


# Operators and modules


def plain_operators(of: Made, *, on_device: bool) -> dict[str, Spent]:
    begun = of.begun("operator")
    found = {}
    for name in OPERATORS:
        own = [row for row in of.work if row["operator"] is not None and of.host[row["operator"]]["name"] == name]
        called = [row for _, row in begun if row["name"] == name]
        if on_device and (called or own):
            found[name] = spent(of, own, calls=len(called))
        elif called:
            found[name] = spent(of, [], calls=len(called), times=[row["duration"] for row in called])
    lost = [row["duration"] for row in of.work if row["operator"] is None]
    if on_device and sum(lost):
        found[NOT_ATTRIBUTED] = spent(of, [], times=lost)
    return found


def inside(path: str | None, of: str) -> bool:
    return path is not None and (path == of or path.startswith(f"{of}/"))


def module_of(of: Made, row: Row) -> str | None:
    """The path of the module around the launch; of the backward pass, of the one whose gradient it is."""
    return of.paths.get(row["module"], of.paths.get(row["forward_module"]))


def plain_modules(of: Made, *, on_device: bool) -> dict[str, Spent]:
    begun = [(of.paths[at], row) for at, row in of.begun("module")]
    found = {}
    for path in set(of.paths.values()):
        work = [row for row in of.work if inside(module_of(of, row), path)]
        called = [row for own, row in begun if own == path]
        known = any(inside(own, path) for own, _ in begun) or any(row["module"] is not None for row in work)
        if on_device and (known or sum(row["duration"] for row in work)):
            found[path] = spent(of, work, calls=len(called))
        elif not on_device and known:
            found[path] = spent(of, [], calls=len(called), times=[row["duration"] for row in called])
    lost = [row["duration"] for row in of.work if module_of(of, row) is None]
    if on_device and of.paths and sum(lost):
        found[NOT_ATTRIBUTED] = spent(of, [], times=lost)
    return found


def table_of(frame: Any) -> dict[str, Spent]:
    """A table of what another analysis found, without noise."""
    return {
        row["name"]: (Fraction(row["calls"]), Fraction(row["ns"]), None, Fraction(row["launches"]))
        for row in frame.iter_rows(named=True)
    }


# Steps, and kinds of work


def plain_step(a: Made, b: Made) -> StepDifference:
    times = []
    for of in (a, b):
        slots = step_slots(in_steps(of.sel))
        times.append([Fraction(length) for length in (slots.end - slots.start).tolist()])
    means = [float(mean(own)) if own else None for own in times]
    if means[0] is None or means[1] is None:
        return StepDifference(means[0], means[1], None, None, None)
    medians = [float(median(own)) for own in times]
    noise = low = high = detectable = None
    if all(len(own) > 1 for own in times):
        noise = plain_noise(times)
        low, high = median_interval(*(np.array([float(each) for each in own]) for own in times))
        detectable = (high - low) / 2 * step_difference.reach(0.975, 0.8, sum(map(len, times)) - 2)
    return StepDifference(
        a_ns=means[0], b_ns=means[1], delta_ns=means[1] - means[0],
        delta_percent=100 * (means[1] - means[0]) / means[0] if means[0] else None,
        noise_ns=noise, a_median_ns=medians[0], b_median_ns=medians[1], median_delta_ns=medians[1] - medians[0],
        median_delta_percent=100 * (medians[1] - medians[0]) / medians[0] if medians[0] else None,
        low_ns=low, high_ns=high, detectable_ns=detectable,
    )  # fmt: skip


def plain_noise(times: list[list[Fraction]]) -> float:
    """Half of the 95 % interval of a difference of means by Student's t."""
    counts = [len(own) for own in times]
    spread = [float(variance(own)) for own in times]
    if max(counts) <= 2 * min(counts):
        freedom = float(sum(counts) - 2)
        shared = sum(each * (count - 1) for each, count in zip(spread, counts, strict=True)) / freedom
        error = math.sqrt(shared * sum(1 / count for count in counts))
    else:
        parts = [each / count for each, count in zip(spread, counts, strict=True)]
        error = math.sqrt(sum(parts))
        below = sum(part**2 / (count - 1) for part, count in zip(parts, counts, strict=True))
        freedom = sum(parts) ** 2 / below if below else float(min(counts) - 1)
    return step_difference.quantile(0.975, freedom) * error


def plain_waterfall(a: Made, b: Made) -> list[tuple[str, Any, Any]]:
    """More launches cost A's mean time each, what is left is that B's take longer; all is count where A has none."""

    def kinds(of: Made) -> dict[str, Spent]:
        kind = [KERNELS[row["name"]][2] if row["kind"] in ("kernel", "graph") else row["kind"] for row in of.work]
        return {
            one: spent(of, [row for row, own in zip(of.work, kind, strict=True) if own == one]) for one in set(kind)
        }

    ours, theirs = kinds(a), kinds(b)
    nothing: Spent = (Fraction(0), Fraction(0), None, Fraction(0))
    rows = []
    for kind in ours.keys() | theirs.keys():
        (a_calls, a_ns, *_), (b_calls, b_ns, *_) = ours.get(kind, nothing), theirs.get(kind, nothing)
        count = (b_calls - a_calls) * a_ns / a_calls if a_calls else b_ns
        rows.append((abs(b_ns - a_ns), kind, count, b_ns - a_ns - count))
    rows.sort(key=lambda row: (-row[0], row[1]))
    return [(kind, pytest.approx(float(count)), pytest.approx(float(rest))) for _, kind, count, rest in rows]


@settings(max_examples=35)
@given(pairs_of_runs())
def test_two_runs_side_by_side(runs: tuple[Made, Made]) -> None:
    a, b = runs
    found = diff(a.sel, b.sel)
    assert found.steps == (a.count, b.count)
    same_rows(found.kernels, plain_kernels(a, b, kernels_of(a), kernels_of(b)))
    on_device = bool(a.work or b.work)
    sides = [
        (plain_operators(of, on_device=on_device), plain_modules(of, on_device=on_device),
         table_of(range_times(in_steps(of.sel), on_device=on_device)))
        for of in (a, b)
    ]  # fmt: skip
    for table, ours, theirs in zip((found.operators, found.modules, found.ranges), *sides, strict=True):
        same_rows(table, side_by_side(ours, theirs, a.count + b.count))
    assert found.waterfall.rows() == plain_waterfall(a, b)
    assert found.waterfall.columns == ["category", "count_effect_ns", "mean_effect_ns"]
    parts = [step_split(in_steps(of.sel)) for of in (a, b)]
    if parts[0] is None or parts[1] is None:
        assert found.split.is_empty()
    else:
        told = [(part, parts[0][part], parts[1][part], parts[1][part] - parts[0][part]) for part in PARTS]
        assert found.split.rows() == told
        for side in ("a_ns", "b_ns"):
            host_wait = found.split.filter(part="host_wait")[side].item()
            assert found.waiting[side].sum() == pytest.approx(host_wait)
            assert (found.waiting[side] >= 0).all()
    assert found.split.columns == ["part", "a_ns", "b_ns", "delta_ns"]
    step = plain_step(a, b)
    for field in step.__struct_fields__:
        value = getattr(step, field)
        assert getattr(found.step, field) == (None if value is None else pytest.approx(value)), field


def test_a_kernel_over_other_types_has_changed_though_its_time_has_not() -> None:
    sides = [
        Made([], [], [{"kind": "kernel", "name": name, "start": 0, "duration": 10, "step": None}], {}, Scope())
        for name in ("gemm<float>", "gemm<c10::Half>")
    ]
    (row,) = diff(sides[0].sel, sides[1].sel).kernels.rows(named=True)
    assert (row["status"], row["delta_ns"], row["paired_by"]) == ("changed", 0, "types")


@given(st.one_of(st.none(), st.integers(-5, 5)), st.one_of(st.none(), st.integers(0, 5)))
def test_what_is_beyond_the_noise(delta: int | None, noise: int | None) -> None:
    known = delta is not None and noise is not None
    low, high = (delta - noise, delta + noise) if known else (None, None)  # type: ignore[operator]
    step = StepDifference(1, 1, 0, 0, 0, median_delta_ns=delta, low_ns=low, high_ns=high)
    assert step.beyond_noise is (abs(delta) > noise if known else None)  # type: ignore[arg-type,operator]


@settings(max_examples=35)
@given(pairs_of_runs(), st.sampled_from(("modules", "operators", "categories", "ranges")), st.data())
def test_the_kernels_behind_a_row(runs: tuple[Made, Made], of: str, data: st.DataObject) -> None:
    names = {
        "modules": ("Net_0", "Net_1", "Net_1/Net_1", "Net_0/Block_0", NOT_ATTRIBUTED),
        "operators": (*OPERATORS, NOT_ATTRIBUTED),
        "categories": ("gemm", "scan", "softmax", "memcpy"),
        "ranges": ("forward", "backward", "none"),
    }
    name = data.draw(st.sampled_from(names[of]))

    def chosen(run: Made) -> list[Row]:
        if of == "modules":
            return kernels_of(run, lambda row: inside(module_of(run, row) or NOT_ATTRIBUTED, name))
        if of == "operators":
            owner = [None if row["operator"] is None else run.host[row["operator"]]["name"] for row in kernels_of(run)]
            return [row for row, own in zip(kernels_of(run), owner, strict=True) if (own or NOT_ATTRIBUTED) == name]
        if of == "categories":
            return kernels_of(run, lambda row: KERNELS[row["name"]][2] == name)
        open_ranges = [row for row in run.host if row["kind"] == "annotation" and row["name"] == name]
        return kernels_of(run, lambda row: any(holds(other, run.host, row["launch"]) for other in open_ranges))

    same_rows(kernels_inside(runs[0].sel, runs[1].sel, of, name), plain_kernels(*runs, *(chosen(run) for run in runs)))


def holds(of: Row, host: list[Row], launch: int | None) -> bool:
    """Whether the launching call began while the range was open."""
    return launch is not None and bool(of["start"] <= host[launch]["start"] < of["start"] + of["duration"])
