"""What changed between two runs, as structs: what `tracetui diff` prints as JSON, and what texts lay out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from tracetui.analysis.base.json_values import filled, known, share_of, us
from tracetui.analysis.compare.comparable import Comparable  # msgspec reads it
from tracetui.analysis.compare.regression import Regression
from tracetui.analysis.compare.repeats import RunsDifference
from tracetui.analysis.compare.step_difference import StepDifference
from tracetui.analysis.findings.config import Config
from tracetui.analysis.findings.core.facts import Facts, Pair
from tracetui.analysis.report.model import (
    AbstainedRow,
    CountersCompared,
    FindingRow,
    Judged,
    Row,
    SilencedRow,
    SuppressedRow,
    of_table,
)
from tracetui.analysis.report.rows import table_rows
from tracetui.analysis.selection import Selection
from tracetui.analysis.tables.registry import COMPARED
from tracetui.parsers import Run

SCHEMA = "tracetui.diff/1"


class Side(Struct, frozen=True, kw_only=True):
    """One of the two: a launched run is called by its folder, any other by its file."""

    path: str
    name: str
    rank: int | None
    repeats: Annotated[
        int, Meta(description="runs of one configuration; above 1, the tables are of the one whose step is the median")
    ]
    base: Annotated[str, Meta(description="what the tables are about")]


class StepChange(Struct, frozen=True, kw_only=True):
    """By how much step times differ, B less A."""

    a_us: Annotated[float | None, Meta(description="the mean step")]
    b_us: float | None
    delta_us: float | None
    delta_percent: Annotated[float | None, share_of("A's mean step")]
    noise_us: Annotated[float | None, Meta(description="half of the 95 % interval of the difference of means")]
    a_median_us: float | None
    b_median_us: float | None
    median_delta_us: float | None
    median_delta_percent: Annotated[float | None, share_of("A's median step")]
    median_noise_us: float | None
    median_low_us: Annotated[float | None, Meta(description="the 95 % interval of the difference of medians")]
    median_high_us: float | None
    beyond_noise: Annotated[
        bool | None, Meta(description="whether the medians differ by more than the noise; null where it is unknown")
    ]
    detectable_us: float | None
    detectable_percent: Annotated[float | None, share_of("A's median step")]

    @classmethod
    def of(cls, step: StepDifference) -> StepChange:
        """The difference, in µs."""
        return filled(cls, step, median_low_us=us(step.low_ns), median_high_us=us(step.high_ns))


class SampleChange(Struct, frozen=True, kw_only=True):
    """The median step divided by its samples, where the runs' steps hold different numbers of them."""

    a_samples: float
    b_samples: float
    a_us: float | None
    b_us: float | None
    delta_percent: Annotated[float | None, share_of("A's time per sample")]


class RunsChange(Struct, frozen=True, kw_only=True):
    """By how much repeats differ: each run's median step is one value."""

    rests_on: Annotated[str, Meta(description="clean, light or recorded")]
    a_runs_us: Annotated[list[float], Meta(description="the median step of each repeat")]
    b_runs_us: list[float]
    a_us: Annotated[float, Meta(description="their mean")]
    b_us: float
    delta_us: float
    delta_percent: Annotated[float, share_of("the mean of A's runs")]
    noise_us: Annotated[float, Meta(description="half of the 95 % interval, by Student's t over the runs")]
    low_us: float
    high_us: float
    beyond_noise: Annotated[bool, Meta(description="whether the interval leaves out zero")]
    detectable_us: Annotated[
        float, Meta(description="the smallest true difference that four of five such sets of runs show")
    ]
    detectable_percent: Annotated[float, share_of("the mean of A's runs")]

    @classmethod
    def of(cls, runs: RunsDifference) -> RunsChange:
        """The difference, in µs."""
        return filled(
            cls,
            runs,
            a_runs_us=[ns / 1000 for ns in runs.a_runs_ns],
            b_runs_us=[ns / 1000 for ns in runs.b_runs_ns],
            delta_percent=runs.percent(runs.delta_ns),
            low_us=us(runs.delta_ns - runs.noise_ns),
            high_us=us(runs.delta_ns + runs.noise_ns),
            detectable_percent=runs.percent(runs.detectable_ns),
        )


class AddedWork(Struct, frozen=True, kw_only=True):
    """Work that explains a longer step."""

    what: Annotated[str, Meta(description="gpu_work, launches or operators: of which a step of B has more")]
    a: Annotated[float, Meta(description="per step; of GPU work µs")]
    b: float
    percent: Annotated[float, Meta(description="by how much it alone makes a step longer, of A's")]


class Limits(Struct, frozen=True, kw_only=True):
    """From which limits a change is told, and the work that explains it."""

    slower_percent: Annotated[
        float | None,
        Meta(description="B's step is slower by more than any limit below this, % of A's; null where no limit is so"),
    ]
    not_slower_percent: Annotated[
        float | None,
        Meta(description="B's step is not slower by more than this, % of A's; between both is doubt"),
    ]
    causes: list[AddedWork]

    @classmethod
    def of(cls, regression: Regression) -> Limits:
        """The same, GPU work in µs."""
        from tracetui.analysis.compare.regression import GPU_WORK

        causes = [
            filled(AddedWork, cause, a=us(cause.a), b=us(cause.b))
            if cause.what == GPU_WORK
            else filled(AddedWork, cause)
            for cause in regression.causes
        ]
        return filled(cls, regression, causes=causes)


class Typical(NamedTuple):
    """The steps that count: of repeats the mean of their typical steps, else the median steps."""

    rests_on: str
    """Clean, light or recorded."""
    a_us: float | None
    b_us: float | None
    delta_percent: float | None
    """% of A's."""
    interval_us: tuple[float | None, float | None]
    """The 95 % interval of the difference."""


class StepsCompared(StepChange, frozen=True, kw_only=True):
    """The steps that are compared, and what tells whether they differ."""

    rests_on: Annotated[str, Meta(description="clean, light or recorded")]
    a_steps: int | None
    b_steps: int | None
    per_sample: SampleChange | None
    recorded: Annotated[StepChange | None, Meta(description="the same as recorded, where the steps are others")]
    between_runs: RunsChange | None
    regression: Limits

    @property
    def typical(self) -> Typical:
        """The steps that a verdict is about."""
        if (runs := self.between_runs) is not None:
            return Typical(runs.rests_on, runs.a_us, runs.b_us, runs.delta_percent, (runs.low_us, runs.high_us))
        interval = self.median_low_us, self.median_high_us
        return Typical(self.rests_on, self.a_median_us, self.b_median_us, self.median_delta_percent, interval)


class CountersOfPair(Struct, frozen=True, kw_only=True):
    """Two reports of Nsight Compute side by side."""

    counters_compared: CountersCompared | None
    configurations: Annotated[list[Row], of_table("configurations")]
    configuration_weights: dict[str, str]
    stopped: Annotated[dict[str, int], Meta(description="by side the limit of launches at which ncu stopped")]


class DiffReport(Struct, frozen=True, kw_only=True):
    """What changed from A to B, per step; positive means that B takes longer."""

    schema: str
    a: Side
    b: Side
    comparable: Comparable
    rests_on: Annotated[dict[str, str], Meta(description="by part: clean, light or recorded")]
    step: StepsCompared
    split: Annotated[list[Row], of_table("diff_step")]
    waiting: Annotated[list[Row], of_table("diff_step")]
    counters: CountersOfPair | None
    waterfall: Annotated[list[Row], of_table("diff_waterfall")]
    kernels: Annotated[list[Row], of_table("diff_kernels")]
    operators: Annotated[list[Row], of_table("diff_operators")]
    modules: Annotated[list[Row], of_table("diff_modules")]
    ranges: Annotated[list[Row], of_table("diff_ranges")]
    kinds: Annotated[list[Row], of_table("diff_kinds")]
    findings: Annotated[list[FindingRow], of_table("findings")]
    findings_suppressed: Annotated[list[SuppressedRow], of_table("findings")]
    findings_silenced: Annotated[list[SilencedRow], of_table("findings")]
    findings_abstained: Annotated[list[AbstainedRow], of_table("abstained")]
    findings_checked: list[str]
    counts: Annotated[dict[str, int], Meta(description="rows of each list, whatever --limit")]

    @property
    def judged(self) -> Judged:
        """What the rules say."""
        return filled(Judged, self)


def diff_report(
    a: Selection,
    b: Selection,
    limit: int | None = None,
    runs: tuple[Run, Run] | None = None,
    config: Config | None = None,
    on_error: Callable[[Exception], None] | None = None,
    between: RunsDifference | None = None,
) -> DiffReport:
    """What changed from A to B.

    Args:
        a: the base.
        b: what is compared with it.
        limit: at most so many rows of each list; `counts` still tells how many there are.
        runs: the runs that A and B belong to, whose run.json is compared too.
        config: thresholds of the rules, and which rules are silenced.
        on_error: called with the error of a rule that failed; the other rules still run.
        between: the difference of the repeats, of which A and B are the middle ones.
    """
    from tracetui.analysis.compare.compared_passes import OF_GPU, OF_NAMES, RECORDED
    from tracetui.analysis.findings.core.facts import Facts, Pair
    from tracetui.analysis.findings.engine import find
    from tracetui.analysis.report.findings import judged
    from tracetui.parsers import Run

    sides = runs or tuple(Run(sel.trace.source.path, (sel.trace,)) for sel in (a, b))
    ours, theirs = (Facts(run, sel.trace, sel.scope) for run, sel in zip(sides, (a, b), strict=True))
    pair = Pair(ours, theirs, between)
    diff, findings = pair.diff, find(pair, config, on_error=on_error)
    lists = {name: getattr(diff, name) for name in ("kernels", "operators", "modules", "ranges", "kinds")}
    rows = {name: table_rows(frame, COMPARED[name], limit) for name, frame in lists.items()}
    return filled(
        DiffReport,
        judged(findings, limit),
        schema=SCHEMA,
        a=_side(pair.a, 1 if between is None else len(between.a_runs_ns)),
        b=_side(pair.b, 1 if between is None else len(between.b_runs_ns)),
        comparable=pair.comparable,
        rests_on={part: diff.rests_on(part) for part in ("step", *OF_GPU, *OF_NAMES)},
        step=filled(
            StepsCompared,
            StepChange.of(diff.step),
            rests_on=diff.compared.rests_on,
            a_steps=diff.compared.steps[0],
            b_steps=diff.compared.steps[1],
            per_sample=_per_sample(pair),
            recorded=None if diff.compared.rests_on == RECORDED else StepChange.of(diff.recorded),
            between_runs=None if between is None else RunsChange.of(between),
            regression=Limits.of(pair.regression()),
        ),
        split=table_rows(diff.split, COMPARED["split"]),
        waiting=table_rows(diff.waiting, COMPARED["split"]),
        counters=_counters(pair, limit),
        waterfall=table_rows(diff.waterfall, COMPARED["waterfall"]),
        counts={**{name: frame.height for name, frame in lists.items()}, "findings": len(findings.found)},
        **rows,
    )


def _counters(pair: Pair, limit: int | None) -> CountersOfPair | None:
    """Two reports of Nsight Compute side by side; None for recordings of other tools."""
    if not pair.a.trace.info.kind == pair.b.trace.info.kind == "ncu":
        return None
    from tracetui.analysis.counters.metrics import stopped_at
    from tracetui.analysis.report.counters import by_file, compared

    stops = {side: stopped_at(facts.trace, facts.manifest) for side, facts in (("a", pair.a), ("b", pair.b))}
    both = pair.a.trace, pair.b.trace
    return CountersOfPair(
        counters_compared=compared(both, limit=limit),
        **by_file(both, limit),
        stopped={side: limit for side, limit in stops.items() if limit is not None},
    )


def _per_sample(pair: Pair) -> SampleChange | None:
    """None unless the samples of both are known and differ."""
    step, samples = pair.diff.step, pair.samples
    if None in (*samples, step.a_median_ns, step.b_median_ns) or samples[0] == samples[1]:
        return None
    ours, theirs = (
        float(ns or 0) / float(n or 1) for ns, n in zip((step.a_median_ns, step.b_median_ns), samples, strict=True)
    )
    return SampleChange(
        a_samples=samples[0] or 0,
        b_samples=samples[1] or 0,
        a_us=us(ours),
        b_us=us(theirs),
        delta_percent=known(100 * (theirs - ours) / ours) if ours else None,
    )


def _side(facts: Facts, repeats: int) -> Side:
    """Describes one of the two; of a run with a light recording the base says that its steps are the rich one's."""
    path, run = facts.trace.source.path, facts.run
    return Side(
        path=str(path),
        name=path.name if run.manifest is None else "/".join(path.absolute().parts[-3:-1]),
        rank=facts.trace.info.rank,
        repeats=repeats,
        base=facts.sel.describe() + (" of the rich recording" if facts.sel.trace.light is not None else ""),
    )
