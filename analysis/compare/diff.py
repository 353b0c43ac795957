"""What changed from one run to another, per step: kernels, operators, modules, and where the GPU time went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from msgspec import structs

from tracetui.analysis.attribution.calltree import roll_up, row_ids
from tracetui.analysis.attribution.module_tree import module_tree
from tracetui.analysis.attribution.operator_tree import device_work
from tracetui.analysis.attribution.projection import in_ranges
from tracetui.analysis.base import api_names, intervals, names
from tracetui.analysis.base.intervals import Intervals
from tracetui.analysis.captures.measure import category_of, kind_series, kind_times
from tracetui.analysis.captures.roles import phases
from tracetui.analysis.compare.compared_passes import (
    CLEAN,
    LIGHT,
    OF_GPU,
    RECORDED,
    StepsCompared,
    light_pair,
    steps_between,
    steps_compared,
)
from tracetui.analysis.compare.step_difference import StepDifference, noise_factor
from tracetui.analysis.dependencies.host_layers import loading_rows
from tracetui.analysis.dependencies.limit import run_model
from tracetui.analysis.gpu.activities import Activities, activities
from tracetui.analysis.gpu.idle import CAUSES, IDLE_WORDS, gaps_of
from tracetui.analysis.gpu.steps import step_slots
from tracetui.analysis.kernels import NOT_ATTRIBUTED, kernel_rows, labels, operator_names
from tracetui.analysis.matching.clean_step import replayed_trace
from tracetui.analysis.matching.join import pairs
from tracetui.analysis.matching.replaced_kernels import replacements
from tracetui.analysis.modules import modules
from tracetui.analysis.operators import operators
from tracetui.analysis.ranges import containing_rows
from tracetui.analysis.selection import Selection, in_steps, select
from tracetui.analysis.side_by_side import aligned
from tracetui.parsers import Trace
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.names import kernel_names

PARTS = ("gpu_time", "overlap", *CAUSES)
"""``gpu_time``: the durations of all work launched in the step, summed; ``overlap``: minus what of it ran at the same
time as other work or outside the step; then idle time by its cause (`idle.gaps`)."""


def step_split(sel: Selection) -> dict[str, float] | None:
    """`PARTS` of the average step in ns, whose sum is the average step; None without steps or GPU work.

    With them `HOST_WAITS`, which add up to ``host_wait``. All GPUs count as one: the step is idle while none of them
    works.
    """
    slots = step_slots(sel)
    if not slots.start.size or not sel.trace.has_timeline:
        return None
    work = activities(sel)
    if not work.start.size:
        return None
    work = structs.replace(work, frame=work.frame.with_columns(device=pl.lit(0, pl.Int64), stream=pl.lit(0, pl.Int64)))
    found = gaps_of(sel.trace, work, (int(slots.start[0]), int(slots.end[-1]))).filter(pl.col("stream").is_null())
    count = slots.start.size
    whole = int((slots.end - slots.start).sum())
    steps = intervals.union(slots.start, slots.end)
    idle, waits = {}, {}
    for cause in CAUSES:
        gaps = found.filter(pl.col("cause") == cause)
        start = gaps["start"].to_numpy()
        spans = intervals.union(start, start + gaps["duration_ns"].to_numpy())
        idle[cause] = int(np.sum(intervals.covered(spans, slots.start, slots.end)))
        if cause == "host_wait":
            inside = intervals.intersect(spans, steps)
            waits = {name: int(ns.sum()) for name, ns in host_waits(sel.trace, work, *inside).items()}
    launched = int(device_work(sel)["duration"].sum())
    parts = {"gpu_time": launched, "overlap": whole - sum(idle.values()) - launched, **idle, **waits}
    return {part: parts[part] / count for part in (*PARTS, *HOST_WAITS)}


@dataclass(frozen=True, slots=True)
class Diff:
    """Differences of run B from run A; calls and times are per step."""

    compared: StepsCompared
    """The difference in step time: of clean steps, of light recordings, or as recorded (`steps_compared`)."""
    recorded: StepDifference
    """The same of the recordings that were given."""
    gpu_rests_on: str
    """What `OF_GPU` is of: `LIGHT` or `RECORDED`. The other lists are as recorded."""
    gpu_step: StepDifference
    """The difference of those steps."""
    kernels: pl.DataFrame
    """name, short_name, status (added, removed, changed, same), a_calls, b_calls, a_ns, b_ns, delta_ns, noise_ns; the
    largest difference first. ``b_name`` is how B spells the kernel where A spells it otherwise; ``paired_by`` says how
    it was found (`join.pairs`), null where only one run has it."""
    operators: pl.DataFrame
    """The same by operator: own device time, or own host time where neither run has device time."""
    modules: pl.DataFrame
    """The same by module path: device time with that of modules inside and of the backward pass, or host time."""
    ranges: pl.DataFrame
    """The same by range: what any thread launched while ranges of the name were open (`diff_ranges`), or host time."""
    kinds: pl.DataFrame
    """The same by kind of GPU work (`captures.measure`), with the kernel that takes most of it in A, else B: top."""
    waterfall: pl.DataFrame
    """category, count_effect_ns, mean_effect_ns: they add up to the difference of all GPU work."""
    steps: tuple[int, int]
    """By how many steps the numbers of A and of B were divided; 1 for a run without steps."""
    gpu_steps: tuple[int, int]
    """The same for `OF_GPU`."""
    split: pl.DataFrame
    """part, a_ns, b_ns, delta_ns of the average step (`PARTS`); each column adds up to the step's. Empty
    where a run has no steps or no GPU work."""
    waiting: pl.DataFrame
    """The same columns of `HOST_WAITS`, which add up to the row ``host_wait`` of `split`; empty where that is."""
    split_rests_on: str
    """What both are of: `CLEAN` by a replay where the compared steps are and both runs can be replayed; else as
    `gpu_rests_on`, but `RECORDED` where the host waits for data, unknown to light recordings."""

    @property
    def split_step(self) -> StepDifference:
        """The difference of the steps that `split` adds up to."""
        return {CLEAN: self.compared.step, LIGHT: self.gpu_step, RECORDED: self.recorded}[self.split_rests_on]

    @property
    def step(self) -> StepDifference:
        """The difference in step time that counts."""
        return self.compared.step

    def steps_of(self, part: str) -> tuple[int, int]:
        """By how many steps a part's numbers were divided."""
        return self.gpu_steps if part in OF_GPU else self.steps

    def rests_on(self, part: str) -> str:
        """What a part is of: `CLEAN`, `LIGHT` or `RECORDED`."""
        if part == "step":
            return self.compared.rests_on
        if part == "split":
            return self.split_rests_on
        return self.gpu_rests_on if part in OF_GPU else RECORDED


def diff(a: Selection, b: Selection) -> Diff:
    """Compares two runs.

    Kernels are aligned by name, then by key, so that recordings of two tools can be compared, then as one function over
    other element types (`kernel_pairs`); operators by name, modules by path. Where a run has steps, only what was
    launched in them counts. A row is ``same`` as `side_by_side.aligned` says; the noise is that of its per-step times.
    The work is the calls of a kernel; what an operator, a module or a range launched, however often it was called
    itself; and their own calls where no run has GPU work. A kernel over other element types, or in the place of
    another, is always ``changed``.

    The difference in step time is that of steps without a profiler where both runs have them, else of their light
    recordings; what needs names of GPU work only (`OF_GPU`) is of the light recordings where both runs have one whose
    times are used. The rest is of the recordings given: noise is that between steps, and means over steps have none.
    """
    lights = light_pair(a, b)
    compared = steps_compared(a, b, lights)
    clean = [_clean_split(sel) for sel in (a, b)] if compared.rests_on == CLEAN else []
    a, b = in_steps(a.recorded), in_steps(b.recorded)
    recorded = steps_between(a, b).step
    gpu_a, gpu_b = lights or (a, b)
    on_device = bool(device_work(a).height or device_work(b).height)
    factor = noise_factor(a.step_count, b.step_count)
    split = _split_of(a, b, lights) if not clean or None in clean else (clean[0], clean[1], CLEAN)
    ours, theirs, split_rests_on = split
    return Diff(
        compared=compared,
        recorded=recorded,
        gpu_rests_on=RECORDED if lights is None else LIGHT,
        gpu_step=recorded if lights is None else steps_between(gpu_a, gpu_b).step,
        kernels=_kernels_of(gpu_a, gpu_b, kernel_rows(gpu_a), kernel_rows(gpu_b), (a, b)),
        operators=aligned(_operators(a, on_device), _operators(b, on_device), factor),
        modules=aligned(_modules(a, on_device), _modules(b, on_device), factor),
        ranges=aligned(_ranges(a, on_device), _ranges(b, on_device), factor),
        kinds=_kinds_of(gpu_a, gpu_b, noise_factor(gpu_a.step_count, gpu_b.step_count)),
        waterfall=_waterfall(gpu_a, gpu_b),
        steps=(a.step_count, b.step_count),
        gpu_steps=(gpu_a.step_count, gpu_b.step_count),
        split=_side_by_side(ours, theirs, PARTS),
        waiting=_side_by_side(ours, theirs, HOST_WAITS),
        split_rests_on=split_rests_on,
    )


def kernels_inside(a: Selection, b: Selection, of: str, name: str) -> pl.DataFrame:
    """The kernels of a row of a `Diff`, as in `Diff.kernels`.

    Args:
        a: the base.
        b: what is compared with it.
        of: which kernels. ``modules``: launched in the module of this path or those inside, or for their backward pass.
            ``operators``: launched by the operator itself. ``ranges``: launched by any thread while a range of this
            name was open. ``categories``: of this kind of work; these are of what the waterfall is of.
        name: path, operator or category; the same in both runs.
    """
    lights = light_pair(a, b) if of == "categories" else None
    rich = in_steps(a.recorded), in_steps(b.recorded)
    a, b = lights or rich
    ours, theirs = (sel_rows.filter(_belongs(sel, sel_rows, of, name)) for sel, sel_rows in
                    ((sel, kernel_rows(sel)) for sel in (a, b)))  # fmt: skip
    return _kernels_of(a, b, ours, theirs, rich)


def _belongs(sel: Selection, rows: pl.DataFrame, of: str, name: str) -> pl.Series:
    """Which kernel rows belong to a module, an operator, a range or a category."""
    if of == "categories":
        return labels(sel, rows, "category") == name
    if of == "operators":
        operator: pl.Series = operator_names(sel, rows).cast(pl.String).fill_null(NOT_ATTRIBUTED)
        return operator == name
    if of == "ranges":
        return pl.Series(launched_in(sel, name, rows))
    path = labels(sel, rows, "module")
    mine: pl.Series = (path == name) | path.str.starts_with(f"{name}/")
    return mine


def _kernels_of(
    a: Selection, b: Selection, ours: pl.DataFrame, theirs: pl.DataFrame, rich: tuple[Selection, Selection]
) -> pl.DataFrame:
    """Kernel rows of both runs by kernel, with short names.

    Args:
        a: whose steps count; b likewise.
        b: the other run.
        ours: kernel rows of A.
        theirs: kernel rows of B.
        rich: both runs with operators.
    """
    a_called, b_called, pairing = _pairing(*rich, _times(ours), _times(theirs))
    tables = _kernels(a, ours, a_called), _kernels(b, theirs, b_called)
    table = aligned(*tables, noise_factor(a.step_count, b.step_count))
    short = pl.Series("short_name", [kernel_names.short_name(name) for name in table["name"]], pl.String)
    by_work = pl.col("paired_by").is_in(["types", "operator"])
    return (
        table.insert_column(1, short)
        .join(pairing, on="name", how="left", maintain_order="left")
        .with_columns(
            pl.col("a_names", "b_names").fill_null(pl.lit([], dtype=pl.List(pl.String))),
            b_name=pl.when(pl.col("b_name") != pl.col("name")).then("b_name"),
            status=pl.when(by_work).then(pl.lit("changed")).otherwise("status"),
        )
    )


def _times(rows: pl.DataFrame) -> dict[str, int]:
    return dict(rows.group_by(pl.col("name").cast(pl.String)).agg(pl.col("duration").sum()).iter_rows())


_PAIRED = {
    "name": pl.String(), "b_name": pl.String(), "paired_by": pl.String(), "operator": pl.String(),
    "a_names": pl.List(pl.String), "b_names": pl.List(pl.String),
}  # fmt: skip


def _pairing(
    a: Selection, b: Selection, ours: dict[str, int], theirs: dict[str, int]
) -> tuple[dict[str, str], dict[str, str], pl.DataFrame]:
    """Pairs kernels by their names, then those that only one run has by the operators that launch them.

    Args:
        a: the base, with operators.
        b: what is compared with it.
        ours: the time of each kernel of A; one that stands for several is the longest of them.
        theirs: the same of B.

    Returns:
        What kernels of A, and of B, are called in the table, and the frame `_PAIRED`, a row per pair.
    """
    found = pairs(sorted(ours), sorted(theirs))
    both = {theirs: ours for theirs, (ours, _) in found.items()}
    gone, new = set(ours) - set(both.values()), set(theirs) - set(both)
    rows: list[tuple[object, ...]] = [(ours, theirs, how, None, [], []) for theirs, (ours, how) in found.items()]
    a_called, b_called = dict[str, str](), dict(both)
    for swapped in replacements(a, b, gone, new, both):
        a_names = sorted(swapped.a_names, key=lambda name: -ours[name])
        b_names = sorted(swapped.b_names, key=lambda name: -theirs[name])
        a_called |= dict.fromkeys(a_names, a_names[0])
        b_called |= dict.fromkeys(b_names, a_names[0])
        rows.append((a_names[0], b_names[0], "operator", swapped.operator, a_names, b_names))
    return a_called, b_called, pl.DataFrame(rows, schema=_PAIRED, orient="row")


def _clean_split(sel: Selection) -> dict[str, float] | None:
    """`step_split` of a replay of the clean step, whose idle time is stretched to it; None where it can't be replayed.

    What the GPU does is as recorded; by how long it is idle the replay may be off.
    """
    found = run_model(sel)
    split = None if found is None or found.clean_ns is None else step_split(in_steps(select(replayed_trace(found))))
    if split is None or found is None or found.clean_ns is None:
        return None
    idle, left = sum(split[part] for part in CAUSES), found.clean_ns - split["gpu_time"] - split["overlap"]
    factor = left / idle if idle else 0.0
    if factor <= 0:
        return None
    return {part: ns if part in ("gpu_time", "overlap") else ns * factor for part, ns in split.items()}


def _split_of(
    a: Selection, b: Selection, lights: tuple[Selection, Selection] | None
) -> tuple[dict[str, float] | None, dict[str, float] | None, str]:
    """`step_split` of both recordings, and which these are."""
    ours, theirs, rests_on = step_split(a), step_split(b), RECORDED
    if lights is not None and not any(parts is not None and parts["loader"] for parts in (ours, theirs)):
        ours, theirs, rests_on = step_split(lights[0]), step_split(lights[1]), LIGHT
    return ours, theirs, rests_on


def _side_by_side(ours: dict[str, float] | None, theirs: dict[str, float] | None, parts: Sequence[str]) -> pl.DataFrame:
    schema = {"part": pl.String, "a_ns": pl.Float64, "b_ns": pl.Float64, "delta_ns": pl.Float64}
    if ours is None or theirs is None:
        return pl.DataFrame(schema=schema)
    rows = [(part, ours[part], theirs[part], theirs[part] - ours[part]) for part in parts]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _kernels(sel: Selection, rows: pl.DataFrame, called: dict[str, str]) -> pl.DataFrame:
    """The frame `_WORK` of each kernel among the rows."""
    name = pl.col("name").cast(pl.String).replace(called)
    return _work(rows.select("step", name, ns="duration", calls=pl.lit(1)), sel)


def _operators(sel: Selection, on_device: bool) -> pl.DataFrame:
    column = "device_self_ns" if on_device else "host_self_ns"
    noise = operator_noise(sel) if on_device else None
    return _per_step(operators(sel), sel, "name", pl.col(column), noise)


def _modules(sel: Selection, on_device: bool) -> pl.DataFrame:
    device = pl.col("device_total_ns") + pl.col("backward_device_ns")
    noise = module_noise(sel) if on_device else None
    return _per_step(modules(sel), sel, "path", device if on_device else pl.col("host_total_ns"), noise)


def _ranges(sel: Selection, on_device: bool) -> pl.DataFrame:
    return range_times(sel, on_device=on_device).with_columns(variance=pl.lit(None, pl.Float64))


def _kinds_of(a: Selection, b: Selection, factor: float) -> pl.DataFrame:
    """Both runs' kinds of work side by side."""
    ours, theirs = kind_times(a), kind_times(b)
    table = aligned(_kinds(a), _kinds(b), factor)
    top = dict(theirs.select("kind", "top").iter_rows()) | dict(ours.select("kind", "top").iter_rows())
    names = [top[kind] for kind in table["name"]]
    short = pl.Series("short_name", [kernel_names.short_name(name or "") for name in names], pl.String)
    return table.rename({"name": "kind"}).with_columns(pl.Series("name", names, pl.String), short)


def _per_step(
    table: pl.DataFrame, sel: Selection, name: str, spent: pl.Expr, noise: pl.DataFrame | None
) -> pl.DataFrame:
    """Calls and time per step of each row, and of rows with GPU time their launches and variance (`_WORK`)."""
    steps = sel.step_count
    rows = table.filter((pl.col(name) != NOT_ATTRIBUTED) | (spent.fill_null(0) > 0)).select(
        pl.col(name).alias("name"), calls=pl.col("calls") / steps, ns=spent.fill_null(0) / steps
    )
    if noise is None:
        return rows.with_columns(launches=pl.col("calls"), variance=pl.lit(None, pl.Float64))
    noise = noise.select("name", "variance", launches="calls")
    return rows.join(noise, on="name", how="left").with_columns(pl.col("launches").fill_null(0.0))


def _waterfall(a: Selection, b: Selection) -> pl.DataFrame:
    """The difference of GPU time by category, split into what more (or fewer) launches and longer ones cost.

    Each additional launch costs A's mean time; the rest is because B's launches take longer. A category that A lacks
    counts as additional launches only.
    """
    both = _categories(a).join(_categories(b), on="category", how="full", coalesce=True, suffix="_b").fill_null(0)
    count_effect = (
        pl.when(pl.col("calls") > 0)
        .then((pl.col("calls_b") - pl.col("calls")) * pl.col("ns") / pl.col("calls"))
        .otherwise(pl.col("ns_b"))
    )
    return (
        both.with_columns(count_effect_ns=count_effect)
        .with_columns(mean_effect_ns=pl.col("ns_b") - pl.col("ns") - pl.col("count_effect_ns"))
        .sort((pl.col("ns_b") - pl.col("ns")).abs(), "category", descending=[True, False])
        .select("category", "count_effect_ns", "mean_effect_ns")
    )


def _categories(sel: Selection) -> pl.DataFrame:
    """Calls and GPU time per step of each kind of work."""
    device = device_work(sel)
    sums = device.select("duration", category=category_of(device)).group_by("category")
    return sums.agg(calls=pl.len() / sel.step_count, ns=pl.col("duration").sum() / sel.step_count)


STEP = "step"
"""The name that steps have here: one program's ``train_step`` is another one's ``ProfilerStep#3``."""


def range_times(sel: Selection, *, on_device: bool) -> pl.DataFrame:
    """Calls and time per step of the ranges of each name: ``name`` (with its domain), ``calls``, ``launches``, ``ns``.

    The time is of the GPU work that any thread launched while they were open (as in `roles.phases`), or, where
    no run has GPU work, how long they were open; ``launches`` are that work's, or else the calls. Steps are `STEP`,
    whatever they are called.
    """
    steps = sel.step_count
    rows = [
        (
            STEP if phase.role == STEP else _spelled(phase.domain, phase.name),
            phase.instances / steps,
            ((phase.launched_ops or 0) if on_device else phase.instances) / steps,
            spent / steps,
        )
        for phase in phases(sel).by_name
        if phase.instances
        if (spent := phase.launched_ns if on_device else phase.host_ns) is not None
    ]
    schema = {"name": pl.String, "calls": pl.Float64, "launches": pl.Float64, "ns": pl.Float64}
    table = pl.DataFrame(rows, schema=schema, orient="row")
    return table.group_by("name", maintain_order=True).agg(pl.col("calls", "launches", "ns").sum())


def launched_in(sel: Selection, name: str, device: pl.DataFrame) -> Bools:
    """Which device rows were launched while a range of this name was open."""
    return in_ranges(sel, _named(sel, name), device)


def _named(sel: Selection, name: str) -> Ints:
    """Host rows of the ranges of a name."""
    host = sel.trace.host
    rows = containing_rows(host)
    steps = set(sel.trace.steps["name"])
    texts, domains = (host[column].gather(rows).cast(pl.String) for column in ("name", "domain"))
    told = {
        (domain, text): STEP if text in steps else _spelled(domain, text or "")
        for domain, text in set(zip(domains, texts, strict=True))
    }
    same = [told[pair] == name for pair in zip(domains, texts, strict=True)]
    return rows[np.array(same, np.bool_)] if same else rows


def _spelled(domain: str | None, name: str) -> str:
    return f"{domain}:{name}" if domain else name


HOST_WAITS = ("loader", "synchronisation", "launching")
"""Why the host was late: it waited for the next batch; a call had waited for the GPU; it launched and did more."""
PART_WORDS = {
    "gpu_time": "GPU work, summed",
    "overlap": "less what overlaps, or runs outside of its step",
    **IDLE_WORDS,
    "loader": "host wait: data loader",
    "synchronisation": "host wait: after a call that waited for the GPU",
    "launching": "host wait: launching and other host work",
}
"""What the parts of a step are called."""
_NOBODY = -1


def host_waits(trace: Trace, work: Activities, start: Ints, end: Ints) -> dict[str, Ints]:
    """Divides stretches in which the GPU waits for the host, in order, among `HOST_WAITS`; ns of each.

    The host is the thread that launches the work which ends the stretch; after the last work of all, the thread that
    launched it. What it spent of the stretch in the loader is the loader's. A call that waits for the GPU and reaches
    into the stretch kept it from preparing anything, so at most its whole duration, also before the stretch, is what
    it cost here: synchronisation. The rest is launching and other work of the host.

    Args:
        trace: the recording.
        work: what the GPUs did.
        start: of the stretches, ascending; none overlaps another.
        end: of the stretches.
    """
    lasting = end - start
    found = {cause: np.zeros(start.size, np.int64) for cause in HOST_WAITS}
    thread = _late_thread(trace, work, end)
    loading = loading_rows(trace)
    waiting = trace.host.filter(pl.Series(names.matching(trace.host["name"], _waits)))
    for number in np.unique(thread[thread != _NOBODY]).tolist():
        of = thread == number
        loads, waits = (_spans(rows.filter(_threads(rows) == number)) for rows in (loading, waiting))
        found["loader"][of] = intervals.covered(loads, start[of], end[of])
        rest = lasting[of] - found["loader"][of]
        found["synchronisation"][of] = np.minimum(rest, _reaching(waits, start[of], end[of]))
    found["launching"] = lasting - found["loader"] - found["synchronisation"]
    return found


def _late_thread(trace: Trace, work: Activities, end: Ints) -> Ints:
    """The thread (`_threads`) that launches what begins at the end of each stretch; `_NOBODY` where none is known."""
    order = np.argsort(work.start, kind="stable")
    begins, launch = work.start[order], work.column("launch")[order]
    if not begins.size:
        return np.full(end.size, _NOBODY, np.int64)
    at = np.minimum(np.searchsorted(begins, end, side="left"), begins.size - 1)
    threads = np.append(_threads(trace.host).to_numpy(), _NOBODY)
    found: Ints = threads[launch[at]]  # no launch, -1, reads the entry at the end
    return found


def _threads(host: pl.DataFrame) -> pl.Series:
    """A number for each thread of each process."""
    return host.select((pl.col("process").fill_null(0) * (1 << 32) + pl.col("thread").fill_null(0)).alias("of"))["of"]


def _waits(name: str) -> bool:
    return name in api_names.READS_A_VALUE or api_names.waits(name) or api_names.fills(name)


def _spans(rows: pl.DataFrame) -> Intervals:
    start: Ints = rows["start"].to_numpy()
    return intervals.union(start, start + rows["duration"].to_numpy())


def _reaching(spans: Intervals, start: Ints, end: Ints) -> Ints:
    """The whole duration of the spans that share time with each stretch."""
    sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(spans[1] - spans[0])))
    first = np.searchsorted(spans[1], start, side="right")
    last = np.searchsorted(spans[0], end, side="left")
    found: Ints = sums[np.maximum(first, last)] - sums[first]
    return found


_WORK = {"name": pl.String(), "calls": pl.Float64(), "ns": pl.Float64(), "variance": pl.Float64()}
"""GPU work of any kind per step: how many launches, their time, and the variance of its mean (`variance_of_mean`)."""


def variance_of_mean(steps: int) -> pl.Expr:
    """The variance of the mean over all steps of the column ``ns``, a row per step that has any; null for one step.

    Steps without a row count as 0.
    """
    if steps < 2:
        return pl.lit(None, pl.Float64)
    mean = pl.col("ns").sum() / steps
    spread = ((pl.col("ns").cast(pl.Float64) ** 2).sum() - steps * mean**2).clip(lower_bound=0)
    return spread / (steps - 1) / steps


def operator_noise(sel: Selection) -> pl.DataFrame:
    """The frame `_WORK` of what each operator itself launched."""
    device = device_work(sel).filter(pl.col("operator").is_not_null())
    names = sel.trace.host["name"].gather(device["operator"]).cast(pl.String)
    return _work(device.select("step", names.alias("name"), ns="duration", calls=pl.lit(1)), sel)


def _kinds(sel: Selection) -> pl.DataFrame:
    """The frame `_WORK` of each kind."""
    device = device_work(sel)
    return _work(device.select("step", kind_series(device).alias("name"), ns="duration", calls=pl.lit(1)), sel)


def module_noise(sel: Selection) -> pl.DataFrame:
    """The frame `_WORK` by path of each module with those inside and of its backward pass."""
    tree = module_tree(sel.trace)
    if not tree.paths:
        return pl.DataFrame(schema=_WORK)
    device = device_work(sel)
    own = pl.Series(tree.path_of(row_ids(device["module"])))
    backward = pl.Series(tree.path_of(row_ids(device["forward_module"])))
    number = pl.select(pl.when(own < 0).then(backward).otherwise(own)).to_series()
    spent = device.select("step", pl.col("duration").alias("ns")).with_columns(number.alias("number"))
    spent = spent.filter(pl.col("number") >= 0).group_by("number", "step").agg(pl.col("ns").sum(), calls=pl.len())
    paths, steps = pl.Series(tree.paths, dtype=pl.String), spent["step"].unique().sort()
    held = [pl.DataFrame(schema={"name": pl.String, "step": steps.dtype, "ns": pl.Int64, "calls": pl.Int64})]
    for some in steps.to_frame().iter_slices(max(_CELLS // len(tree.paths), 1)):
        rows = spent.join(some.with_row_index("at"), on="step", nulls_equal=True)
        sums = np.zeros((len(tree.paths), some.height, 2), np.int64)
        sums[rows["number"], rows["at"]] = rows.select("ns", "calls").to_numpy()
        sums = roll_up(tree.parent, sums)
        number, place = (pl.Series(found) for found in np.nonzero(sums[:, :, 1]))
        ns, calls = (pl.Series(name, sums[number, place, at]) for at, name in enumerate(("ns", "calls")))
        held.append(pl.DataFrame([paths.gather(number).alias("name"), some["step"].gather(place), ns, calls]))
    return _work(pl.concat(held), sel)


_CELLS = 1 << 22
"""Modules times steps that are added up at a time."""


def _work(spent: pl.DataFrame, sel: Selection) -> pl.DataFrame:
    """`_WORK` of rows (name, step, ns, calls) that have a step."""
    steps = sel.step_count
    if not spent.height:
        return pl.DataFrame(schema=_WORK)
    by_step = spent.group_by("name", "step").agg(pl.col("ns", "calls").sum())
    variance = variance_of_mean(steps).cast(pl.Float64)
    return by_step.group_by("name").agg(pl.col("calls", "ns").sum() / steps, variance=variance)
