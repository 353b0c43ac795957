"""The diff of two runs: how the step changed, where the difference comes from, and what of the work changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import format_percent, format_signed_us
from tracetui.analysis.compare.diff import PART_WORDS
from tracetui.analysis.tables.comparison import STEP, WATERFALL
from tracetui.analysis.tables.registry import COMPARED
from tracetui.app.reports.content.counters import configuration_blocks, kernel_blocks, stopped_text
from tracetui.app.reports.counter_text import profiled_text
from tracetui.app.reports.parts import Facts, FindingList, Part, Sentences, Title, listed
from tracetui.app.tables.trees import merged_changes
from tracetui.app.text.fitting import fit, printable
from tracetui.parsers.names.kernel_names import SHORT_NAME_LENGTH, short_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tracetui.analysis.base.json_values import Json
    from tracetui.analysis.compare.comparable import Comparable
    from tracetui.analysis.report.diff import AddedWork, CountersOfPair, DiffReport, Side, StepsCompared
    from tracetui.analysis.report.model import CountedFile
    from tracetui.app.reports.layout import Layout

SIGNS = {"added": "+", "removed": "-", "changed": "~", "same": "="}
"""A change is told by word and sign, never by colour alone."""
CLEAN, LIGHT, RECORDED = "clean", "light", "recorded"
"""What numbers are of, as `rests_on` has it."""
STEPS = {CLEAN: "steps without a profiler", LIGHT: "light steps", RECORDED: "recorded steps"}
"""The steps that a difference in step time is of."""
PASSES = {CLEAN: "without the profiler, by a replay", LIGHT: "light recordings", RECORDED: "as recorded"}
"""What the numbers under a heading are of."""
MARKS = {"matters": "!", "work": "#", "intended": "*", "": ""}
"""How a difference between two runs is marked by its role."""
CAUSES = {"gpu_work": "GPU work", "launches": "GPU launches", "operators": "operators"}
"""What work may explain a longer step."""
SETTLE = "Three runs of each tell: tracetui profile … --repeats 3 --output A, then tracetui diff A/ B/."
LEAST_US = 1e-6
"""Below a picosecond a difference is none."""


def diff_parts(found: DiffReport, layout: Layout, only: str | None = None) -> Iterator[Part]:
    """The whole diff, whose lists are whole; of `only` one section what it has, below the verdict."""
    if found.counters is not None:
        yield from _counter_parts(found, found.counters, layout)
        return
    yield Title("tracetui diff: what changed from A to B, per step")
    yield Facts((_side("A", found.a), _side("B", found.b)))
    yield Sentences((comparable_words(found.comparable),))
    yield _conditions(found.comparable)
    yield Sentences((verdict(found, layout), *per_sample(found, layout), *recorded(found, layout)), lead=True)
    if only is not None:
        if only == "counters":
            yield Sentences(("Counters are compared of two reports of Nsight Compute.",))
            return
        yield from (
            (FindingList(found.judged, whole=True),) if only == "findings" else section_parts(found, only, layout)
        )
        return
    yield FindingList(found.judged, folded=True)
    yield from _split(found, layout)
    yield from _waterfall(found.waterfall, layout, "GPU time", _of(found, "waterfall"))
    yield from _kinds(found, layout)
    for section in ("kernels", "operators", "modules" if found.modules else "ranges"):
        yield from section_parts(found, section, layout)


def section_parts(found: DiffReport, section: str, layout: Layout) -> Iterator[Part]:
    """One table of the diff: of kinds, kernels, operators, modules or ranges."""
    rows = getattr(found, section)
    of = "" if found.counters is not None else _of(found, section)
    yield from _changes(section, merged_changes(rows) if section == "modules" else rows, layout, of)


def _counter_parts(found: DiffReport, counters: CountersOfPair, layout: Layout) -> Iterator[Part]:
    """The diff of two reports of Nsight Compute, which hold single launches and no steps."""
    files = [] if counters.counters_compared is None else counters.counters_compared.files
    yield Title("tracetui diff: what changed from A to B, of the profiled launches")
    profiled = (profiled_text(file.launches, file.kernels) for file in files)
    names = (found.a.name, found.b.name)
    yield Facts(tuple((side, f"{name}: {said}") for side, name, said in zip("AB", names, profiled, strict=True)))
    yield Sentences((comparable_words(found.comparable, "A holds other launches than B"),))
    yield _conditions(found.comparable)
    yield Sentences(counters_verdict(files, counters.stopped, layout))
    yield FindingList(found.judged, folded=True)
    yield from configuration_blocks(counters.configurations, counters.configuration_weights, layout)
    yield from _waterfall(found.waterfall, layout, "profiled time")
    yield from section_parts(found, "kernels", layout)
    if counters.counters_compared is not None:
        yield from kernel_blocks(counters.counters_compared, layout, counts=False)


def verdict(found: DiffReport, layout: Layout) -> str:
    """How the step changed, and what speaks for or against chance, in two sentences."""
    step = found.step
    runs, a, b = step.between_runs, step.typical.a_us, step.typical.b_us
    if a is None or b is None:
        return "The step times can't be compared: one of them is unknown."
    where = " within these two runs" if runs is None else ""
    if a == b:
        return f"B's step is as long as A's{where}: {layout.time(a)} ({_steps(step)})."
    change = layout.time(abs(b - a)) if not a else format_percent(100 * abs(b - a) / a)
    head = f"B's step is {change} {'longer' if b > a else 'shorter'}{where}: {layout.time(a)} became {layout.time(b)}"
    return f"{head} ({_steps(step)}). {_chance(step, layout)}"


def _chance(step: StepsCompared, layout: Layout) -> str:
    """Whether a change may be chance: what repeats tell, or two single runs and what would tell more."""
    interval = _interval(step.typical.interval_us, layout)
    if (runs := step.between_runs) is not None:
        if runs.beyond_noise:
            return f"That is more than chance: the 95 % interval between runs is {interval}."
        seen = format_percent(runs.detectable_percent)
        return f"That may be chance: the 95 % interval between runs is {interval}. Such runs show changes from {seen}."
    if step.regression.slower_percent is not None:
        return f"{cause_words(step.regression.causes[0], layout.ascii)}: that explains it."
    if step.beyond_noise is None:
        return "With one step in either run, it is unknown how much steps vary by themselves: this may be chance."
    if not step.beyond_noise:
        return f"That may be chance: the 95 % interval is {interval}."
    return f"Two runs of one program may differ as much. {SETTLE}"


def _interval(interval: tuple[float | None, float | None], layout: Layout) -> str:
    return " to ".join(format_signed_us(us, ascii=layout.ascii) for us in interval)


def cause_words(cause: AddedWork, ascii: bool) -> str:
    """``More GPU work (+4.117 ms)``: what of the work B has more of."""
    more = cause.b - cause.a
    by = format_signed_us(more, ascii=ascii) if cause.what == "gpu_work" else f"+{more:,.4g}"
    return f"More {CAUSES[cause.what]} ({by} per step)"


def _steps(step: StepsCompared) -> str:
    """Which steps are compared, in a few words."""
    of = STEPS[step.typical.rests_on]
    if (runs := step.between_runs) is None:
        return f"medians of {step.a_steps} and {step.b_steps} {of}"
    return f"means of {len(runs.a_runs_us)} and {len(runs.b_runs_us)} runs, {of}"


def recorded(found: DiffReport, layout: Layout) -> tuple[str, ...]:
    """The difference of the recordings themselves, where the step is of other steps."""
    step = found.step.recorded if found.step.between_runs is None else None
    if step is None or step.a_median_us is None or step.b_median_us is None:
        return ()
    moved, percent = format_signed_us(step.median_delta_us, ascii=layout.ascii), step.median_delta_percent
    change = "" if percent is None else f" ({format_percent(percent, signed=True)})"
    interval = _interval((step.median_low_us, step.median_high_us), layout)
    noise = "" if step.median_noise_us is None else f", 95 % interval {interval}"
    return (
        f"As recorded the medians are {layout.time(step.a_median_us)} and {layout.time(step.b_median_us)}: "
        f"{moved}{change}{noise}.",
    )


def per_sample(found: DiffReport, layout: Layout) -> tuple[str, ...]:
    """What a sample takes in both, where their steps hold different numbers of them."""
    if (row := found.step.per_sample) is None:
        return ()
    change = "" if row.delta_percent is None else f", {format_percent(row.delta_percent, signed=True)}"
    return (
        f"Per sample the median step takes {layout.time(row.a_us)} in A and {layout.time(row.b_us)} in B{change} "
        f"(steps of {row.a_samples:g} and {row.b_samples:g} samples).",
    )


def comparable_words(comparable: Comparable, work: str = "a step of A holds other work than a step of B") -> str:
    """Says in one sentence whether the two runs can be compared; `work` is what is said of runs that did other work."""
    rows = comparable.differences
    if comparable.verdict == "not_comparable":
        many = sum(row.matters for row in rows)
        what = "something that times depend" if many == 1 else f"{many} things that times depend"
        return f"NOT COMPARABLE: they differ in {what} on, whatever the code (marked !)."
    if comparable.verdict == "other_work":
        other = ", ".join(row.field for row in rows if row.work)
        return f"OTHER WORK: {work} ({other}; marked #)."
    if comparable.verdict == "explained":
        chosen = [row.field for row in rows if row.intended]
        if len(chosen) == 1:
            return f"Explained: they differ in {chosen[0]} (marked *), which may be what the comparison is about."
        return f"Explained: they differ in {len(chosen)} things at once (marked *), whose effects can't be told apart."
    if rows:
        return "Comparable: they differ in nothing that times are known to depend on."
    return "Comparable: no difference is known in device, settings or versions."


def _conditions(comparable: Comparable) -> Sentences:
    """Lists every difference between the two runs, and marks those that matter and those that somebody chose."""
    rows = comparable.differences
    said = tuple(f"{row.field}: A {plain_value(row.a)}, B {plain_value(row.b)}" for row in rows)
    marks = tuple(MARKS[row.role] for row in rows)
    return Sentences(said, bullets=True, marks=marks)


def _of(found: DiffReport, part: str) -> str:
    """What a part is of, for its heading; empty where everything is as recorded."""
    if {*found.rests_on.values()} == {RECORDED}:
        return ""
    return PASSES.get(found.rests_on.get(part, ""), "")


def _sentence(of: str) -> str:
    return f"Times are {of}." if of == PASSES[RECORDED] else f"Times of the {of}." if of else ""


def _with_base(heading: str, of: str) -> str:
    return f"{heading} ({of})" if of else heading


def _changes(name: str, rows: list[Json], layout: Layout, of: str = "") -> Iterator[Part]:
    """What was added, removed or changed, the greatest difference first; `of` says of which recordings."""
    if not rows:
        return
    changed = [row for row in rows if row["status"] != "same"]
    counts = ", ".join(
        f"{sum(row['status'] == status for row in rows)} {status}" for status in SIGNS if status != "same"
    )
    table = COMPARED[name]
    heading = f"{table.title}: {counts}"
    shown = changed[: layout.limit]
    types = any(row.get("paired_by") == "types" for row in shown)
    after = (*(("types: the same kernel over other element types in B",) if types else ()), *_replaced(shown, layout))
    if changed:
        yield listed(table, [_named(row) for row in changed], layout, heading=heading, note=_sentence(of), after=after)
    else:
        yield Sentences((_with_base(heading, of),))


def _kinds(found: DiffReport, layout: Layout) -> Iterator[Part]:
    """Kinds of work that only one of the runs has."""
    rows = [row for row in found.kinds if row["status"] in ("added", "removed")]
    if rows:
        heading, note = "Kinds of work that only one of them has", _sentence(_of(found, "kinds"))
        yield listed(COMPARED["kinds"], list(map(_named, rows)), layout, heading=heading, base="", note=note)


def change(row: Json) -> str:
    """Says by sign and word how a row changed."""
    return f"{SIGNS[row['status']]} {row['status']}"


def partners(short: str, ours: Sequence[str], theirs: Sequence[str]) -> str:
    """``sgemm_64x64 +1 → nvjet_tst``: the main kernel of each run, and how many more the row stands for.

    Args:
        short: the short name of A's main kernel.
        ours: all kernels of A, the main one first.
        theirs: those of B.
    """
    first, second = (f" +{len(names) - 1}" if len(names) > 1 else "" for names in (ours, theirs))
    return f"{short}{first} → {short_name(theirs[0])}{second}"


def _named(row: Json) -> Json:
    """The row as a table shows it: with its calls, its change in words, and a partner of another name."""
    found = {**row, "calls": calls(row), "status": change(row)}
    if row.get("paired_by") == "operator":
        found["short_name"] = partners(row["short_name"], row["a_names"], row["b_names"])
    return found


def _replaced(rows: Iterable[Json], layout: Layout) -> tuple[str, ...]:
    """A line for each kernel that another one of its operator replaced, which a table has no room for."""

    def fitted(name: str) -> str:
        return fit(printable(name, ascii=layout.ascii), SHORT_NAME_LENGTH, ascii=layout.ascii)

    found = tuple(
        f"{fitted(row['operator'])}: {partners(fitted(row['short_name']), row['a_names'], row['b_names'])}, "
        f"{format_signed_us(row['delta_us'], ascii=layout.ascii)}"
        for row in rows
        if row.get("paired_by") == "operator"
    )
    return ("Another kernel in B, launched in the same calls of an operator:", *found) if found else ()


def calls(row: Json) -> str:
    """Calls per step: ``48``, or ``48→96`` where they changed."""
    a, b = (f"{row[key]:,.2f}".removesuffix(".00") for key in ("a_calls", "b_calls"))
    return a if a == b else f"{a}→{b}"


def with_waits(split: Sequence[Json], waiting: Sequence[Json]) -> list[Json]:
    """The parts of a step, and below the wait for the host what it is made of, if anything."""
    found: list[Json] = []
    for row in split:
        found.append(row)
        if row["part"] == "host_wait":
            found += waiting
    return found


def _split(found: DiffReport, layout: Layout) -> Iterator[Part]:
    """The step's difference as GPU work and waiting, which add up to it."""
    rows = found.split
    step = {key: sum(row[key] for row in rows) for key in ("a_us", "b_us", "delta_us")}
    # of recordings of one length the parts cancel but for the rounding of floats
    if not rows or abs(step["delta_us"]) < LEAST_US:
        return
    parts = [
        {**row, "what": PART_WORDS[row["part"]]}
        for row in with_waits(rows, found.waiting)
        if row["a_us"] or row["b_us"]
    ]
    parts.append({"what": "step", **step})
    whole = replace(layout, limit=None)
    heading = _with_base("Where the difference in step time comes from", _of(found, "split"))
    yield listed(STEP, parts, whole, heading=heading, whole=0)


def _waterfall(rows: list[Json], layout: Layout, what: str, of: str = "") -> Iterator[Part]:
    """The difference of GPU time by category and cause; `what` says which time, `of` of which recordings."""
    keys = ("count_effect_us", "mean_effect_us")
    moved = [{**row, "delta_us": sum(row[key] for key in keys)} for row in rows if any(row[key] for key in keys)]
    if not moved:
        return
    if len(moved) > 1:
        sums = {key: sum(row[key] for row in rows) for key in keys}
        moved.append({"category": "all GPU work", **sums, "delta_us": sum(sums.values())})
    whole = replace(layout, limit=None)
    heading = _with_base(f"Where the difference in {what} comes from", of)
    yield listed(WATERFALL, moved, whole, heading=heading, whole=0)


def _side(letter: str, side: Side) -> tuple[str, str]:
    rank = "" if side.rank is None else f", rank {side.rank}"
    of = f", the middle one of {side.repeats} runs" if side.repeats > 1 else ""
    return letter, f"{side.name}{rank}: {side.base}{of}"


def plain_value(value: object) -> str:
    """A setting as a person reads it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "not recorded" if value is None else str(value)


def counters_verdict(files: Sequence[CountedFile], stops: Mapping[str, int], layout: Layout) -> tuple[str, ...]:
    """How the time of the profiled launches changed, and what that is not."""
    a, b = (file.total_us for file in files)
    stopped = stopped_text({side.upper(): limit for side, limit in stops.items()})
    what = "Nsight Compute measured single launches and no steps"
    if a is None or b is None:
        said = f"{what}, and without their times."
    else:
        share = f", {format_percent(100 * (b - a) / a, signed=True)}" if a else ""
        change = f"{format_signed_us(b - a, ascii=layout.ascii)}{share}"
        said = (
            f"{what}: together they take {layout.time(a)} in A and {layout.time(b)} in B ({change}), at the clocks that"
            " ncu set. Only a time line tells what a step gains."
        )
    return (said, stopped) if stopped else (said,)
