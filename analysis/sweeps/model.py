"""A sweep: many runs that differ in a few options, as points and their repeats; what their axes are called."""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tracetui.analysis.captures.names import Value, place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    import polars as pl

    from tracetui.analysis.captures.model import CaptureRow

SIZES = ("batch", "ctx", "img_size", "depth")
"""Axes along which a step's work grows."""
CAPTURE = "capture"
"""The axis of captures whose names follow no pattern: each is a point of its own."""

_SIZE_OF_MODEL = re.compile(
    r"(nano|micro|mini|tiny|small|base|medium|large|x*l|huge|giant|\d+(\.\d+)?[kmb])", re.IGNORECASE
)


def is_size(model: Value) -> bool:
    """Whether a model is told from others by its size alone."""
    return _SIZE_OF_MODEL.fullmatch(str(model)) is not None


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of a point. Times in ns, per step; null where the source can't tell."""

    axes: dict[str, Value]
    where: str
    """The run's folder or file, or the table's line."""
    step_ns: float | None = None
    """The median step time; `Sweep.base` says what that is."""
    numbers: Mapping[str, float | None] = field(default_factory=dict)
    """What else is measured, per step, by column of `SWEEP_POINTS`; of ``flops`` multiply and add are two. Also
    ``batch``, which was asked for, and ``seen``, the observed one: from run.json; of a table, rate times latency."""
    problem: str | None = None
    """Why there are no numbers."""
    kinds: dict[str, tuple[float, float, str]] | None = None
    """Of each kind of GPU work the launches and ns per step, and its kernel with most time; None if none is known."""
    capture: CaptureRow | None = None
    """What its ranges measure, of a recording whose kind is compared so (`captures`)."""
    path: Path | None = None
    """The path that opens it; None for a table's line."""
    stopped: int | None = None
    """The limit of launches at which Nsight Compute stopped (`counters.limit`)."""
    counted: tuple[pl.DataFrame, ...] = ()
    """Launches that Nsight Compute profiled (`roofline.launch_table`), a table per report."""


class Point(Struct, frozen=True):
    """What all repeats of one combination of options have in common; numbers are medians over those that know them."""

    axes: dict[str, Value]
    samples: tuple[Sample, ...]
    step_ns: float | None = None
    std_ns: float | None = None
    """The standard deviation of the step over the repeats; None with fewer than two."""
    repeats: int = 0
    """Runs that have a step time."""
    kernels: float | None = None
    """Launches per step."""
    gpu_ns: float | None = None
    """Kernels, copies and fills per step, summed."""
    busy_percent: float | None = None
    """Share of the profiled steps' time."""
    flops: float | None = None
    """Per step."""
    batch: float | None = None
    """The batch that was asked for."""
    seen: float | None = None
    """The observed batch."""

    @classmethod
    def of(cls, axes: dict[str, Value], samples: Iterable[Sample]) -> Point:
        """The point of these repeats."""
        bare = cls(axes, tuple(samples))
        steps = [sample.step_ns for sample in bare.samples if sample.step_ns is not None]
        return cls(
            axes,
            bare.samples,
            step_ns=statistics.median(steps) if steps else None,
            std_ns=statistics.stdev(steps) if len(steps) > 1 else None,
            repeats=len(steps),
            kernels=bare.number("kernels"),
            gpu_ns=bare.number("gpu_ns"),
            busy_percent=bare.number("busy_percent"),
            flops=bare.number("flops"),
            batch=bare.number("batch"),
            seen=bare.number("seen"),
        )

    @property
    def label(self) -> str:
        """``batch 4, keep 0.1``."""
        return ", ".join(f"{name} {shown(value)}" for name, value in self.axes.items()) or "all"

    def beside(self, *axes: str | None) -> dict[str, Value]:
        """The values on the other axes."""
        return {name: value for name, value in self.axes.items() if name not in axes}

    def number(self, name: str) -> float | None:
        """The median of one of `Sample.numbers` over the repeats that know it."""
        known = [number for sample in self.samples if (number := sample.numbers.get(name)) is not None]
        return statistics.median(known) if known else None

    def value(self, column: str) -> Any:
        """What stands in a column of `SWEEP_POINTS`: a property, or a number of the samples."""
        return getattr(self, column) if hasattr(type(self), column) else self.number(column)

    @property
    def gflops(self) -> float | None:
        """Work per step."""
        return None if self.flops is None else self.flops / 1e9

    @property
    def images_per_s(self) -> float | None:
        """Samples that steps processed per second."""
        if (given := self.number("images_per_s")) is not None:
            return given
        batch = self.seen or self.batch
        return batch / self.step_ns * 1e9 if batch and self.step_ns else None

    @property
    def sample_ns(self) -> float | None:
        """Time per sample."""
        return 1e9 / self.images_per_s if self.images_per_s else None

    @property
    def problem(self) -> str | None:
        """Why there are no numbers at all."""
        return None if self.repeats else next(filter(None, (sample.problem for sample in self.samples)), None)

    @property
    def path(self) -> Path | None:
        """The path that opens its first run with a step time, or with counters."""
        timed = (sample.path for sample in self.samples if sample.step_ns is not None)
        return next(timed, None) or next((sample.path for sample in self.samples if sample.counted), None)

    @property
    def stopped(self) -> int | None:
        """The limit of launches at which Nsight Compute stopped, in any of the repeats."""
        return next((sample.stopped for sample in self.samples if sample.stopped is not None), None)

    @property
    def counted(self) -> tuple[pl.DataFrame, ...]:
        """The launches that Nsight Compute profiled, of all repeats."""
        return tuple(table for sample in self.samples for table in sample.counted)

    @property
    def capture(self) -> CaptureRow | None:
        """What the ranges of its first run measure."""
        return next((sample.capture for sample in self.samples if sample.capture is not None), None)


@dataclass(frozen=True)
class Sweep:
    """All points of a sweep; a subject of rules."""

    path: Path
    source: str
    """``index`` (what `tracetui profile --sweep` wrote), ``runs`` (other launched runs), ``captures`` or ``table``."""
    axes: tuple[str, ...]
    """The axes that take more than one value."""
    points: tuple[Point, ...]
    """The points, in the order of their axes."""
    base: str
    """What a step time is: without a profiler, or under one."""
    notes: tuple[str, ...] = ()
    """What could not be used, one line each."""
    kind: str = "sweep"

    def missing(self, needs: Iterable[str]) -> str:
        """Says which of `NEEDS` is missing, or returns an empty text."""
        return next((words for name in needs for there, words in (NEEDS[name],) if not there(self)), "")

    def unknown(self, bases: Iterable[str]) -> str:
        """Returns an empty text: a sweep leaves no base of a rule open."""
        return ""

    @property
    def x_axis(self) -> str | None:
        """The axis that numbers are shown against: a size, else another axis of numbers, else the first axis."""
        numeric = [name for name in self.axes if all(isinstance(v, int | float) for v in self.values(name))]
        sizes = [name for name in SIZES if name in numeric]
        return next(iter((*sizes, *numeric, *self.axes)), None)

    @property
    def variants(self) -> list[str]:
        """The axes along which points are compared: no sizes, and models only if two, which may be variants of one.

        Two models called ``small`` and ``medium``, or ``1.5b`` and ``7b``, are sizes.
        """
        return [
            name
            for name in self.axes
            if name not in (*SIZES, CAPTURE, "rank")
            and (name != "model" or (len(self.values(name)) == 2 and not all(map(is_size, self.values(name)))))
        ]

    @property
    def best(self) -> frozenset[str]:
        """The fastest point of those that do the same work per sample; none where batches differ that are not known."""
        alike: dict[tuple[tuple[str, Value], ...], list[Point]] = {}
        for point in self.points:
            if point.step_ns:
                alike.setdefault(tuple(point.beside("batch", *self.variants).items()), []).append(point)
        if "batch" in self.axes and any(point.sample_ns is None for points in alike.values() for point in points):
            return frozenset()
        several = (points for points in alike.values() if len(points) > 1)
        return frozenset(min(points, key=lambda one: one.sample_ns or one.step_ns or 0.0).label for points in several)

    def values(self, axis: str) -> list[Value]:
        """An axis' values, in order."""
        return list(dict.fromkeys(point.axes[axis] for point in self.points if axis in point.axes))

    @property
    def cv(self) -> float | None:
        """How much repeats vary, as a share of the step; pooled over all points, since each has only a few repeats."""
        squares, free = 0.0, 0
        for point in self.points:
            if point.std_ns is not None and point.step_ns:
                squares += (point.std_ns / point.step_ns) ** 2 * (point.repeats - 1)
                free += point.repeats - 1
        return (squares / free) ** 0.5 if free else None

    def lines(self, axis: str) -> list[tuple[dict[str, Value], list[Point]]]:
        """Groups of points that differ only in this axis, sorted by it; each with the values they have in common."""
        found: dict[tuple[tuple[str, Value], ...], list[Point]] = {}
        for point in self.points:
            if axis in point.axes and point.step_ns:
                found.setdefault(tuple(point.beside(axis).items()), []).append(point)
        return [(dict(fixed), sorted(points, key=lambda p: place(p.axes[axis]))) for fixed, points in found.items()]


NEEDS: dict[str, tuple[Callable[[Sweep], bool], str]] = {
    "steps": (lambda sweep: any(point.step_ns for point in sweep.points), "step times, or latencies"),
    "sizes": (
        lambda sweep: any(name in sweep.axes for name in SIZES),
        "an axis along which the work grows: --sweep batch=1,2,4",
    ),
    "repeats": (
        lambda sweep: sweep.cv is not None,
        "repeats, to tell noise from a change: tracetui profile … --sweep … --repeats 3",
    ),
    "variants": (
        lambda sweep: bool(sweep.variants),
        "two variants to compare: --sweep keep=1.0,0.1",
    ),
    "batch_seen": (
        lambda sweep: any(point.seen is not None and point.batch is not None for point in sweep.points),
        "the observed batch: run.json, or throughput and latency in the table",
    ),
}
"""What rules on sweeps may need."""


def shown(value: Value | None) -> str:
    """An axis' value as a person reads it."""
    return value if isinstance(value, str) else "-" if value is None else f"{value:g}"


def sweep_of(
    path: Path, source: str, samples: Sequence[Sample], base: str, notes: Sequence[str] = (), order: Sequence[str] = ()
) -> Sweep:
    """Groups samples into points: samples with the same values on all axes are repeats of one point.

    An axis with only one value is dropped. `order` names the axes in the order they were given.
    """
    names = list(dict.fromkeys([*order, *(name for sample in samples for name in sample.axes)]))
    varied = [name for name in names if len({sample.axes.get(name) for sample in samples}) > 1]
    found: dict[tuple[Value | None, ...], list[Sample]] = {}
    for sample in samples:
        found.setdefault(tuple(sample.axes.get(name) for name in varied), []).append(sample)
    points = [
        Point.of({name: value for name, value in zip(varied, key, strict=True) if value is not None}, group)
        for key, group in found.items()
    ]
    points.sort(key=lambda point: [place(point.axes.get(name, "")) for name in varied])
    return Sweep(path, source, tuple(varied), tuple(points), base, tuple(notes))


AXES = {
    "batch": "batch batchsize bs b bsz nbatch minibatch samples",
    "img_size": "imgsize imagesize is img image res resolution inputsize imsize px",
    "ctx": "ctx context contextlength contextsize ctxlen seqlen seq sequencelength sequence tokens length maxlen",
    "keep": "keep keeprate keepratio keepshare kr",
    "token_reduction": "tokenreduction tr reduction withtr usetr reduced",
    "dtype": "dtype precision type amp datatype",
    "depth": "depth layers nlayers numlayers",
    "model": "model arch architecture network modelname",
    "compile": "compile compiled torchcompile",
    "workers": "workers numworkers nw",
    "variant": "variant method config configuration mode setting name experiment",
}
"""The name of each axis and its other spellings, in letters only."""
REPEATS = frozenset(("repeat", "rep", "run", "trial", "iteration", "iter", "repetition", "seed", "try", "attempt"))
"""What tells repeats of one point apart."""
_KNOWN = {spelling: axis for axis, spellings in AXES.items() for spelling in (*spellings.split(), axis)}


def letters(name: str) -> str:
    """Reduces a name to the letters that identify it: ``Batch Size`` and ``batch_size`` are ``batchsize``."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def axis_name(name: str) -> str:
    """The usual name of an axis; its own name where there is no usual one."""
    return _KNOWN.get(letters(name), name.strip())


def known_axis(name: str) -> str | None:
    """The usual name of an axis; None where there is none."""
    return _KNOWN.get(letters(name))


def is_repeat(name: str) -> bool:
    """Whether an axis only numbers the repeats."""
    return letters(name) in REPEATS
