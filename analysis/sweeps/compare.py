"""A sweep's variants against their baseline, and its points along a size: what scales, and what does not fit."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl
from msgspec import Struct

from tracetui.analysis.captures.names import Value, place
from tracetui.analysis.side_by_side import aligned
from tracetui.analysis.sweeps.model import SIZES, Point, Sweep, shown
from tracetui.parsers.names.kernel_names import short_name

STANDARD_ERRORS = 2.0
"""How many standard errors a gain may be from its mean by chance."""
SAME_BATCH_PERCENT = 2.0
"""Two batch sizes that differ by more are not the same."""
_NONE = frozenset(
    ("", "0", "no", "off", "false", "none", "base", "baseline", "original", "without", "eager", "default")
)
_WIDEST = ("fp64", "fp32", "float32", "tf32", "bf16", "fp16", "half", "int8", "fp8")


class Row(Struct, frozen=True):
    """A variant and its baseline at one size."""

    x: Value
    base: Point
    variant: Point
    speedup: float
    """Time of the baseline / time of the variant."""
    gain: float
    """The logarithm of `speedup`; above 0 if the variant is faster."""
    error: float | None
    """Its standard error, from the repeats; None without any."""

    @property
    def baseline_ns(self) -> float | None:
        """The baseline's step."""
        return self.base.step_ns

    @property
    def variant_ns(self) -> float | None:
        """The variant's step."""
        return self.variant.step_ns

    @property
    def step_delta_ns(self) -> float | None:
        """How much longer the variant's step takes."""
        return _less(self.base.step_ns, self.variant.step_ns)

    @property
    def gpu_delta_ns(self) -> float | None:
        """How much more GPU time it takes per step."""
        return _less(self.base.gpu_ns, self.variant.gpu_ns)

    @property
    def kernels_delta(self) -> float | None:
        """How many more kernels it launches per step."""
        return _less(self.base.kernels, self.variant.kernels)

    @property
    def speedup_error(self) -> float | None:
        """One standard error of the speed-up, from the repeats."""
        return None if self.error is None else self.speedup * self.error

    @property
    def work_removed_percent(self) -> float | None:
        """The share of the baseline's FLOPs that the variant saves; None where either is unknown."""
        if not self.base.flops or self.variant.flops is None:
            return None
        return 100 * (1 - self.variant.flops / self.base.flops)

    @property
    def possible_speedup(self) -> float | None:
        """The speed-up that the removed work allows: FLOPs of the baseline / FLOPs of the variant; None if unknown."""
        return self.base.flops / self.variant.flops if self.base.flops and self.variant.flops else None

    @property
    def lost_percent(self) -> float | None:
        """The share of the speed-up possible by the removed work that was not reached (rule D5)."""
        if not self.base.flops or not self.variant.flops or self.variant.flops >= self.base.flops:
            return None
        return 100 * (1 - self.speedup / (self.base.flops / self.variant.flops))

    @property
    def within_noise(self) -> bool | None:
        """Whether the gain may be chance; None without repeats."""
        return None if self.error is None else abs(self.gain) <= STANDARD_ERRORS * self.error


def _less(base: float | None, variant: float | None) -> float | None:
    return None if base is None or variant is None else variant - base


class Crossover(Struct, frozen=True):
    """Where along an axis the variant overtakes its baseline."""

    axis: str | None
    value: float | None
    """Interpolated; None where there is none, or where it can't be told."""
    interval: tuple[float | None, float | None] | None
    """Range in which it may lie by chance (two standard errors); an end beyond the measured range is None. Null without
    repeats."""
    verdict: str
    """In words."""


class Comparison(Struct, frozen=True):
    """One variant against its baseline, all else alike."""

    axis: str
    base: Value
    value: Value
    fixed: dict[str, Value]
    """The other axes' values, which both share."""
    x_axis: str | None
    rows: tuple[Row, ...]
    """By size."""
    crossover: Crossover

    @property
    def label(self) -> str:
        """``keep 0.1 against 1``, and what is fixed."""
        also = "".join(f", {name} {shown(value)}" for name, value in self.fixed.items())
        return f"{self.axis} {shown(self.value)} against {shown(self.base)}{also}"


def baseline(axis: str, values: Sequence[Value]) -> Value:
    """The value that the others are compared with: nothing reduced, the widest type, or else the first."""
    for value in values:
        if str(value).strip().lower() in _NONE:
            return value
    if axis == "keep" or (axis == "token_reduction" and 1 in values):
        numbers = [value for value in values if not isinstance(value, str)]
        if numbers:
            return max(numbers)
    if axis == "dtype":
        return min(values, key=lambda v: _WIDEST.index(str(v).lower()) if str(v).lower() in _WIDEST else len(_WIDEST))
    return values[0]


def comparisons(sweep: Sweep) -> list[Comparison]:
    """Each variant against its baseline, for every combination of the other axes except the x axis."""
    x_axis = sweep.x_axis if sweep.x_axis in SIZES else None
    found = []
    cv = sweep.cv
    for axis in sweep.variants:
        values = sorted(sweep.values(axis), key=place)
        base = baseline(axis, values)
        groups: dict[tuple[tuple[str, Value], ...], dict[Value | None, dict[Value, Point]]] = {}
        for point in sweep.points:
            if point.step_ns and axis in point.axes:
                fixed = tuple(point.beside(axis, x_axis).items())
                at = point.axes.get(x_axis) if x_axis else None
                groups.setdefault(fixed, {}).setdefault(at, {})[point.axes[axis]] = point
        for fixed, sizes in groups.items():
            for value in values:
                if value != base:
                    rows = [_row(x, of[base], of[value], cv) for x, of in sizes.items() if base in of and value in of]
                    rows.sort(key=lambda row: place(row.x))
                    if rows:
                        crossed = crossover(x_axis, rows, value, _invalid(sweep))
                        found.append(Comparison(axis, base, value, dict(fixed), x_axis, tuple(rows), crossed))
    return found


def _row(x: Value | None, base: Point, variant: Point, cv: float | None) -> Row:
    assert base.step_ns
    assert variant.step_ns
    speedup = base.step_ns / variant.step_ns
    error = cv * math.sqrt(1 / base.repeats + 1 / variant.repeats) if cv is not None else None
    return Row("all" if x is None else x, base, variant, speedup, math.log(speedup), error)


def crossover(axis: str | None, rows: Sequence[Row], value: Value, invalid: str = "") -> Crossover:
    """Where the gain of a variant changes sign: interpolated between two sizes, on a logarithmic axis.

    Args:
        axis: what the rows are ordered by.
        rows: by size.
        value: the variant.
        invalid: why the sweep's sizes can't be compared.
    """

    def untold(words: str) -> Crossover:
        return Crossover(axis, None, None, words)

    name = shown(value)
    if invalid:
        return untold(f"can't be told: {invalid}")
    numeric = [row for row in rows if not isinstance(row.x, str)]
    if axis is None or len(numeric) < 2:
        row = rows[0]
        there = f" at {axis} {shown(row.x)}" if axis is not None else ""
        if row.within_noise:
            return untold(f"can't be told: the difference{there} is within the noise of the repeats")
        alone = "; one size only, so no crossover can be told" if axis is not None else ""
        return untold(f"{name} is {row.speedup:.2f} times as fast{there}{alone}")
    xs = [float(row.x) for row in numeric]
    gains = [row.gain for row in numeric]
    if all(row.within_noise for row in numeric):
        return untold(f"can't be told: the difference is within the noise of the repeats at every {axis}")
    zeros = _zeros(xs, gains)
    if not zeros:
        side = "faster" if gains[0] > 0 else "slower"
        unsure = ", ".join(f"{row.x:g}" for row in numeric if row.within_noise and not isinstance(row.x, str))
        rest = f", within the noise at {unsure}" if unsure else ""
        span = f"from {xs[0]:g} to {xs[-1]:g}"
        return untold(f"no crossover in range: {name} is {side} at every {axis} {span}{rest}")
    if len(zeros) > 1:
        places = ", ".join(f"{zero:.3g}" for zero in zeros)
        return untold(f"{name} changes sides {len(zeros)} times, at {axis} {places}: no single crossover")
    side = "faster" if gains[-1] > 0 else "slower"
    verdict = f"{name} is {side} from {axis} {zeros[0]:.3g} on"
    errors = [row.error for row in numeric if row.error is not None]
    if len(errors) < len(numeric):
        return Crossover(axis, zeros[0], None, f"{verdict}; without repeats, how sure that is can't be told")
    low, high = _interval(xs, gains, errors, zeros[0])
    lower, upper = (None if end is None else f"{end:.3g}" for end in (low, high))
    if lower and upper:
        where = f"between {lower} and {upper}"
    elif upper:
        where = f"below {upper}, maybe below the range"
    else:
        where = f"above {lower}, maybe above the range" if lower else "anywhere"
    return Crossover(axis, zeros[0], (low, high), f"{verdict}; by the repeats, it lies {where}")


def _zeros(xs: Sequence[float], gains: Sequence[float]) -> list[float]:
    """Where the line through the points crosses zero."""
    found = []
    for at in range(1, len(xs)):
        before, after = gains[at - 1], gains[at]
        if (before < 0) != (after < 0):
            share = before / (before - after)
            if xs[at - 1] > 0:
                found.append(math.exp(math.log(xs[at - 1]) + share * math.log(xs[at] / xs[at - 1])))
            else:
                found.append(xs[at - 1] + share * (xs[at] - xs[at - 1]))
    return found


def _interval(
    xs: Sequence[float], gains: Sequence[float], errors: Sequence[float], zero: float
) -> tuple[float | None, float | None]:
    """The stretch around the crossing in which the gain may be zero by chance."""
    upper = [gain + STANDARD_ERRORS * error for gain, error in zip(gains, errors, strict=True)]
    lower = [gain - STANDARD_ERRORS * error for gain, error in zip(gains, errors, strict=True)]
    edges = sorted(_zeros(xs, upper) + _zeros(xs, lower))
    before = [edge for edge in edges if edge <= zero]
    after = [edge for edge in edges if edge >= zero]
    return (before[-1] if before else None), (after[0] if after else None)


def wrong_batches(sweep: Sweep, percent: float = SAME_BATCH_PERCENT) -> list[Point]:
    """Points whose observed batch differs from the one asked for."""
    return [
        point
        for point in sweep.points
        if point.seen is not None and point.batch and abs(point.seen / point.batch - 1) > percent / 100
    ]


def same_work(sweep: Sweep, percent: float = SAME_BATCH_PERCENT) -> float | None:
    """The batch that every point ran although different ones were asked for; None otherwise."""
    known = [(point.batch, point.seen) for point in sweep.points if point.batch and point.seen]
    if len({asked for asked, _ in known}) < 2:
        return None
    seen = [real for _, real in known]
    middle = sum(seen) / len(seen)
    return middle if all(abs(real / middle - 1) <= percent / 100 for real in seen) else None


def _invalid(sweep: Sweep) -> str:
    if (real := same_work(sweep)) is None:
        return ""
    return f"every row ran {real:.3g} sample{'' if round(real, 2) == 1 else 's'} a step, whatever batch it names (D9)"


@dataclass(frozen=True, slots=True)
class KindChange:
    """One kind of work of a variant and of its baseline at one size; calls and ns per step, medians over repeats."""

    x: Value
    kind: str
    status: str
    """``added``, ``removed``, ``changed`` or ``same``."""
    baseline_calls: float
    variant_calls: float
    baseline_ns: float
    variant_ns: float
    name: str
    """The kernel of the kind with most time, in the variant where it has the kind."""

    @property
    def delta_ns(self) -> float:
        """Time of the variant less that of the baseline."""
        return self.variant_ns - self.baseline_ns

    @property
    def short_name(self) -> str:
        """The kernel's short name."""
        return short_name(self.name)


def kind_changes(one: Comparison) -> list[KindChange]:
    """All kinds at each size, by size, the largest difference first; none of a size without recorded GPU work."""
    found = []
    for row in one.rows:
        base, variant = kinds_of(row.base), kinds_of(row.variant)
        if base and variant:
            table = aligned(_times(base), _times(variant), 1.0).drop("delta_ns", "noise_ns")
            for kind, status, a_calls, b_calls, a_ns, b_ns in table.iter_rows():
                top = (base | variant)[kind][2]
                found.append(KindChange(row.x, kind, status, a_calls, b_calls, a_ns, b_ns, top))
    return found


def _times(kinds: dict[str, tuple[float, float, str]]) -> pl.DataFrame:
    """What `kinds_of` gives, without the noise of a time, which is unknown."""
    rows = [(kind, calls, ns, None) for kind, (calls, ns, _) in kinds.items()]
    schema = {"name": pl.String, "calls": pl.Float64, "ns": pl.Float64, "variance": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def kinds_of(point: Point) -> dict[str, tuple[float, float, str]]:
    """Calls and ns per step of each kind, medians over the repeats that were read; and its kernel with most time."""
    read = [sample.kinds for sample in point.samples if sample.kinds]
    found: dict[str, tuple[float, float, str]] = {}
    for kind in dict.fromkeys(kind for kinds in read for kind in kinds):
        cells = [kinds.get(kind, (0.0, 0.0, "")) for kinds in read]
        calls = statistics.median(calls for calls, _, _ in cells)
        if calls:
            spent = statistics.median(ns for _, ns, _ in cells)
            found[kind] = calls, spent, next(top for _, _, top in cells if top)
    return found


def size(point: Point, axis: str) -> float | None:
    """A point's place on an axis of numbers."""
    value = point.axes.get(axis)
    return float(value) if isinstance(value, int | float) and value > 0 else None


def work_of(first: Point, last: Point, axis: str) -> tuple[bool, float]:
    """Whether FLOPs are known, and how many times the work grows; without FLOPs at least as the size does."""
    if first.flops and last.flops:
        return True, last.flops / first.flops
    before, after = size(first, axis), size(last, axis)
    return False, after / before if before and after else 1.0


def flat(
    points: Sequence[Point], axis: str, percent: float, ratio: float, cv: float | None = None
) -> list[Point] | None:
    """The longest stretch whose step times differ by less than `percent` while work grows `ratio` times or more.

    Also None where repeats vary (`Sweep.cv`) so much that two steps may be equal by chance.
    """
    if cv is not None and any(100 * cv * math.sqrt(2 / max(point.repeats, 1)) > percent for point in points):
        return None
    known = [point for point in points if point.step_ns and size(point, axis)]
    best: list[Point] | None = None
    for begin in range(len(known)):
        for end in range(begin + 1, len(known)):
            stretch = known[begin : end + 1]
            times = [point.step_ns or 0.0 for point in stretch]
            if 100 * (max(times) / min(times) - 1) >= percent:
                break
            if work_of(stretch[0], stretch[-1], axis)[1] >= ratio and (best is None or len(stretch) > len(best)):
                best = stretch
    return best


def scaling(sweep: Sweep) -> str:
    """Says up to which size a larger step does more per second, for each line of points; empty if it can't be told.

    Growth ends at the first size that no larger one beats by more than `STANDARD_ERRORS` of the repeats.
    """
    if sweep.x_axis not in _RATES or _invalid(sweep):
        return ""
    axis, (unit, rate) = sweep.x_axis, _RATES[sweep.x_axis]
    said = []
    for fixed, points in sweep.lines(axis):
        sized = ((size(point, axis), rate(point), point.repeats) for point in points)
        known = [(at, per_second, repeats) for at, per_second, repeats in sized if at and per_second]
        if len(known) < 2:
            continue
        end = next(at for at, row in enumerate(known) if not any(_beats(other, row, sweep.cv) for other in known[at:]))
        (first, least, _), (last, most, _) = known[0], known[end]
        name = "".join(f"{other} {shown(value)} " for other, value in fixed.items())
        upto = f"up to {last:g}{', the last' if end == len(known) - 1 else ''}"
        said.append(f"{name}{upto} ({most / least:.3g} times those at {first:g})" if end else f"{name}not at all")
    named = ":" if any(fixed for fixed, _ in sweep.lines(axis)) else ""
    return f"{unit} grow with {axis}{named} {'; '.join(said)}." if said else ""


_RATES: dict[str, tuple[str, Callable[[Point], float | None]]] = {
    "batch": ("Samples/s", lambda point: point.images_per_s),
    "ctx": ("Tokens/s", lambda point: (size(point, "ctx") or 0.0) / (point.step_ns or math.inf)),
}
"""What a step of a larger size does more of."""


def _beats(other: tuple[float, float, int], row: tuple[float, float, int], cv: float | None) -> bool:
    """Whether one rate is above another by more than the repeats vary."""
    error = (cv or 0.0) * math.sqrt(1 / other[2] + 1 / row[2])
    return math.log(other[1] / row[1]) > STANDARD_ERRORS * error


def anomalies(points: Sequence[Point], axis: str, cv: float) -> Iterator[tuple[Point, float, float]]:
    """Points that contradict their neighbours: the point, the step time these allow, the standard errors between both.

    A larger size never makes the step shorter; a larger batch never makes samples per second fewer. If two points
    contradict each other, a point between two neighbours is at fault if it contradicts both; a first or last point is
    at fault if it contradicts its only neighbour.
    """
    known = [point for point in points if point.step_ns and size(point, axis)]
    blamed: set[int] = set()
    if not cv:
        return
    inner = sorted(range(1, len(known) - 1), key=lambda at: -_excess(known, at, axis, cv, (-1, 1))[1])
    for at in [*inner, 0, len(known) - 1]:
        beside = [by for by in (-1, 1) if 0 <= at + by < len(known) and at + by not in blamed]
        # an inner point is judged by both neighbours, since one of them may itself be off
        if len(known) < 3 or (0 < at < len(known) - 1 and len(beside) < 2) or not beside:
            continue
        bound, sigmas = _excess(known, at, axis, cv, beside)
        if sigmas > 0:
            if sigmas > 3:
                blamed.add(at)
            yield known[at], bound, sigmas


def _excess(known: Sequence[Point], at: int, axis: str, cv: float, beside: Sequence[int]) -> tuple[float, float]:
    """How far a point is outside what these neighbours allow: the farthest bound, and the distance in standard errors.

    The distance is 0 unless the point contradicts all of them by at least one standard error.
    """
    point = known[at]
    time = point.step_ns or 0.0
    found = []
    for by in beside:
        other = known[at + by]
        theirs = other.step_ns or 0.0
        in_proportion = theirs * (size(point, axis) or 1.0) / (size(other, axis) or 1.0)
        low, high = (theirs, in_proportion) if by < 0 else (in_proportion, theirs)
        if axis != "batch":  # attention grows faster than its context
            low, high = (theirs, math.inf) if by < 0 else (0.0, theirs)
        bound = min(max(time, low), high)
        error = cv * math.sqrt(1 / max(point.repeats, 1) + 1 / max(other.repeats, 1))
        found.append((bound, abs(math.log(time / bound)) / error))
    agreed = min(sigmas for _, sigmas in found) >= 1
    bound, most = max(found, key=lambda pair: pair[1])
    return bound, most if agreed else 0.0
