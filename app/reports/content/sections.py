"""The sections of a recording, each as parts; none where there is nothing to say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from statistics import fmean

from msgspec import UNSET, Struct, convert

from tracetui.analysis.base.api_names import runtime
from tracetui.analysis.base.number_format import format_bytes, format_count, format_percent, format_us, three_digits
from tracetui.analysis.counters.counters import BOUND_WORDS
from tracetui.analysis.gpu.idle import IDLE_WORDS
from tracetui.analysis.report.model import Cost, HostSamples, Memory, Overview, PageStep, Row, TensorCores, Trace
from tracetui.analysis.tables.critical_path import CRITICAL_PATH, GAPS, STRETCHES
from tracetui.analysis.tables.kernels import COMMUNICATION, KERNEL_GROUPS, KERNELS, MEMOPS, UNCLEAR, USES
from tracetui.analysis.tables.memory import CALLERS, HOLDERS, LONG_LIVED, STEPS, named_by
from tracetui.analysis.tables.program import (
    API_CALLS,
    HOST_FUNCTIONS,
    HOST_LINES,
    HOST_STACKS,
    MODULES,
    OPERATORS,
    OPERATORS_BY_MEMORY,
    RANGE_TREE,
    RANGES,
)
from tracetui.analysis.tables.runs import CATEGORIES, GPUS, SERVED, SERVED_SIZES, SERVED_WORK, STEP_KINDS
from tracetui.analysis.tables.table import Field
from tracetui.app.reports.content import beside
from tracetui.app.reports.content.charts import (
    KernelRow,
    lanes_chart,
    launches_chart,
    memory_chart,
    modules_chart,
    ranges_chart,
    stacks_chart,
    steps_chart,
    steps_words,
    whole_words,
)
from tracetui.app.reports.content.tried import tried as tried_parts
from tracetui.app.reports.layout import WIDTH, Layout, Shown
from tracetui.app.reports.parts import Block, Facts, FindingList, Part, Sentences, filled, listed, shown, value_cell
from tracetui.app.tables import trees
from tracetui.app.tables.columns import own_time
from tracetui.app.tables.trees import spelled
from tracetui.app.text.fitting import fit, short_function
from tracetui.app.text.sample_words import NO_SAMPLES, sampled_words, short_line
from tracetui.app.text.tool_words import WORDS
from tracetui.app.text.words import (
    CATEGORY_LABELS,
    RESOURCE_LABELS,
    STEP_WORDS,
    group_words,
    particular_words,
)


def modules(trace: Trace, layout: Layout) -> Iterator[Part]:
    """The module tree with the instances of one class under one parent merged."""
    rows = trees.tree_rows(trace.modules or ())
    if not any(row.class_name for row in rows if row.path):
        return
    nodes = trees.merged_modules(row for row in rows if row.path)
    kept = trees.largest(nodes, layout.limit)
    by_path = trees.work_by_path(trace.module_kernels or [])
    lines: list[tuple[int, trees.Merged | trees.Work]] = []
    for node in kept:
        lines.append((node.depth, node))
        below = trees.below_module(trees.work_of(by_path, node.paths), layout.range_kernels or None)
        lines += [(node.depth + down, work) for down, work in below]
    on_gpu = any(node.device_total_us for node in kept)
    unknown = set() if any(node.backward_device_us for node in kept) else {"backward_device_ns"}
    unknown |= set() if on_gpu else {"occupancy_percent", "tensor_core_percent"}
    if by_path:  # the names need the room, and what is below a module says what is its own
        unknown |= {"occupancy_percent", "tensor_core_percent", "device_self_ns"}
    fields = MODULES.chosen(name for name in MODULES.reports if name not in unknown)
    lost = trees.not_attributed_percent(nodes)
    tree_block = _tree(
        Block(
            MODULES.title, "operators below, kernels marked -" if by_path else MODULES.base, whole=len(nodes),
            shown=len(kept), after=(f"{format_percent(lost)} of GPU time is of no module.",) if lost else (),
            chart=None if by_path else modules_chart(rows, CHART_WIDTH, ascii=layout.ascii),
        ),
        fields, lines, layout,
    )  # fmt: skip
    wide = {"device_self_ns"} if on_gpu else set()
    columns = (replace(at, wide=one.name in wide) for at, one in zip(tree_block.columns, fields, strict=True))
    yield replace(tree_block, columns=tuple(columns))


def range_tree(trace: Trace, layout: Layout) -> Iterator[Part]:
    """Ranges by the ranges around them; left out beside a module tree, and where no range is inside another."""
    rows = trees.tree_rows(trace.range_tree or ())
    has_modules = any(row.class_name for row in trees.tree_rows(trace.modules or ()))
    if not trace.range_tree_kernels and (has_modules or not any(row.depth for row in rows)):
        return
    nodes = trees.merged_ranges(rows)
    kept = trees.largest(nodes, layout.limit)
    by_path = trees.work_by_path(trace.range_tree_kernels or [])
    lines: list[tuple[int, trees.Merged | trees.Work]] = []
    for node in kept:
        lines.append((node.depth, node))
        below = trees.below_range(trees.work_of(by_path, node.paths), layout.range_kernels or None)
        lines += [(node.depth + down, work) for down, work in below]
    elsewhere = any(row.device_meanwhile_us not in (None, row.device_total_us) for row in rows)
    kernels_shown = trace.range_tree_kernels is not UNSET
    # there is no room for both columns and the names
    left_out = {"device_meanwhile_ns"} if not elsewhere else {"device_self_ns"}
    left_out |= {"device_self_ns"} if kernels_shown else set()
    fields = RANGE_TREE.chosen(name for name in RANGE_TREE.reports if name not in left_out)
    yield _tree(
        Block(
            RANGE_TREE.title, "kernels marked -" if kernels_shown else RANGE_TREE.base, whole=len(nodes),
            shown=len(kept), after=(_ANY_THREAD,) if elsewhere else (),
            chart=None if kernels_shown else ranges_chart(rows, CHART_WIDTH, ascii=layout.ascii),
        ),
        fields, lines, layout,
    )  # fmt: skip


_ANY_THREAD = (
    "GPU total: what the range's own thread launched in it. Any thread: what any thread of the program launched while "
    "it was open, which is the time of a backward pass, whose kernels autograd launches."
)


def _tree(
    block: Block, fields: Sequence[Field], lines: Sequence[tuple[int, trees.Merged | trees.Work]], layout: Layout
) -> Block:
    """The block with its columns, the last of which has the labels."""
    cells = [
        [
            *(value_cell(one, getattr(row, one.json_key), ascii=layout.ascii) for one in fields[:-1]),
            layout.text(row.label),
        ]
        for _, row in lines
    ]
    return replace(block, columns=tuple(map(shown, fields)), cells=cells, depths=tuple(depth for depth, _ in lines))


BAR_WIDTH, NARROW_BAR = 24, 12
MUCH_PERCENT = 3.0
"""From this error on a replay does not explain a step (`dependencies.model.UNEXPLAINED`)."""
PASSES = {"light": "light recording", "both": "GPU light, host as recorded", "rich": "as recorded"}
"""What a section's heading says of a run with two recordings, by `rests_on`."""
CHART_WIDTH = WIDTH - 2
EXAMPLE_WIDTH = 60


def answers_first(trace: Trace, layout: Layout) -> bool:
    """Whether the verdict and what to do about it stand before all else."""
    return bool(_lead(trace)) and has(trace, "findings") and not _in_full(trace, layout)


def parts(
    trace: Trace, about: Facts, layout: Layout, *, answer: str = "", after_answer: Iterable[Part] = ()
) -> Iterator[Part]:
    """The trace's sections in the order of reading: the verdict and what to do first, what is missing last.

    What is known of the recording itself stands behind the answer where there is one, and before it `after_answer`;
    `answer` is what the page says of the whole job.
    """
    lead, answered = _lead(trace), answers_first(trace, layout)
    if not answered:
        yield about
    if lead:
        yield Sentences((lead,), lead=True)
    if answered:
        yield from findings(trace, layout, f"{answer} {lead}")
        yield from after_answer
        yield about
    for name, section in SECTIONS.items():
        if has(trace, name) and not (answered and name == "findings"):
            if name == "overview" and trace.overview and trace.overview.kinds:
                yield from _kinds(trace.overview, layout)
            words = PASSES.get((trace.rests_on or {}).get(name, ""), "")
            if name in ("overview", "critical_path"):
                words = ""  # they name their step
            yield from _with_pass(section(trace, layout), words)
    yield notes(trace, layout)
    yield unknowns(trace)


def _lead(trace: Trace) -> str:
    """What limits a step; without steps what limits the kernel with most time, else what the recording is about."""
    if trace.overview:
        return trace.overview.waits_for.sentence if trace.overview.waits_for else ""
    if trace.kernels and (counted := trace.kernels[0].get("counters")):
        most = trace.kernels[0]
        if (percent := most["percent"]) is None:
            return "Which kernel takes most time can't be told: their durations are unknown."
        most_of = f"The kernel with most of the measured time, {most['short_name']} ({format_percent(percent)}),"
        if counted["bound"]:
            return f"{most_of} {BOUND_WORDS[counted['bound']]}."
        busy = format_percent(counted["sm_percent"]) if counted["sm_percent"] is not None else ""
        known = f"uses {busy} of the SMs' peak; what" if busy else "is the one to look at; what"
        return f"{most_of} {known} limits it can't be told from the counters collected."
    if trace.memory and (held := trace.memory.peak_allocated_bytes) is not None:
        first = next(iter(trace.memory.holders), None)
        by = f", {format_percent(first['percent'])} of it by {first['name']}" if first else ""
        return f"Memory peaks at {format_bytes(held)}{by}."
    said = trace.source.captured or {}
    if load := said.get("GPU load (GR3D)", said.get("GPU load", "")):
        known = next((name for name in ("energy per step", "energy per inference", "energy") if name in said), "")
        energy = f"; {known} {said[known]}" if known else ""
        return f"GPU load: {load} (samples: {said['samples']}){energy}."
    return ""


def has(trace: Trace, section: str) -> bool:
    """Whether a section was asked for, and the recording can have it."""
    return getattr(trace, section) not in (UNSET, None)


def _with_pass(section: Iterable[Part], words: str) -> Iterator[Part]:
    """A section whose first table says which of the run's recordings its times are of."""
    for part in section:
        if words and isinstance(part, Block) and part.columns:
            part, words = replace(part, base="; ".join(text for text in (part.base, words) if text)), ""
        yield part


def overview(trace: Trace, layout: Layout) -> Iterator[Part]:
    """The average step, one step as lanes, GPU metrics and idle time."""
    found = trace.overview
    if not found:
        return
    yield _average_step(found, layout)
    if (lanes := lanes_chart(found, CHART_WIDTH, ascii=layout.ascii)).rows:
        yield Block("", chart=lanes)
    if found.gpu:
        yield _gpu(found, layout)


def _kinds(found: Overview, layout: Layout) -> Iterator[Part]:
    """The kinds of steps, with what the rare ones do, and what is told of an inference server's."""
    told = [(row, words) for row in found.kinds if (words := particular_words(row["kind"], row["particular"]))]
    after = tuple(f"{row['kind'].capitalize()}: {words}" for row, words in told)
    base = f"% of the time of all steps; {STEP_WORDS[found.kinds[0]['of']]}"
    layout = replace(layout, limit=None)
    yield listed(STEP_KINDS, found.kinds, layout, base=base, whole=0, after=after)
    if found.served:
        yield listed(SERVED, found.served, layout, base="means of an iteration", whole=0)
        yield listed(SERVED_WORK, found.served_work, layout, base="as recorded; means of an iteration", whole=0)
    if found.served_sizes:
        grows = tuple(_growth(found.served_sizes))
        yield listed(
            SERVED_SIZES, found.served_sizes, layout, base="iterations of about one size", whole=0, after=grows
        )


def _growth(sizes: Sequence[Row]) -> Iterator[str]:
    """What a larger batch, prompt or context costs, of each phase that was measured with several."""
    for kind, points in groupby(sizes, key=itemgetter("kind")):
        rows = sorted(points, key=itemgetter("least"))
        first, last = rows[0], rows[-1]
        if last["least"] > first["most"] and first["tokens_per_s"] and last["tokens_per_s"]:
            before, after = (format_us(1e6 / row["tokens_per_s"]) for row in (first, last))
            yield (
                f"{kind.capitalize()}: with {three_digits(last['least'] / first['least'])} times the {first['by']} an"
                f" iteration takes {three_digits(last['mean_us'] / first['mean_us'])} times as long, and {after} for"
                f" each new token in place of {before}."
            )


def _in_full(trace: Trace, layout: Layout) -> bool:
    """Whether findings come with all that they rest on."""
    return layout.all_findings or list(trace.sections()) == ["findings"]


def findings(trace: Trace, layout: Layout, answer: str = "") -> Iterator[Part]:
    """What to do first; where nothing else was asked for, all findings and what could not be judged."""
    whole = _in_full(trace, layout)
    waits = trace.overview.waits_for if trace.overview else None
    clean = waits is not None and waits.clean_us is not None
    yield FindingList(trace.judged, trace.base, whole=whole, brief=not whole, clean=clean, answer=answer)


def _average_step(found: Overview, layout: Layout) -> Block:
    """The page's step by category, beside the recorded one where that is another."""
    step, steps = found.step, found.steps
    what = "The step" if steps else whole_words(found)
    heading = f"{what}: {layout.time(step.us)} {STEP_WORDS[step.of]}"
    if step.recording_us:
        heading += f" (median; up to {layout.time(step.recording_us)} by recording)"
    after = _setup(found, layout)
    unlike = [row for row in found.kinds if row["of"] == "recorded"]
    if step.of != "recorded" and len(unlike) < 2:
        recorded = found.as_recorded or found
        after = (f"As recorded: {layout.time(recorded.average_step_us)}, mean of {recorded.base}.", *after)
    if step.categories["dataloader"].us is None:
        after = ("The light recording tells no operators and no data loader: they are part of other.", *after)
    if step.of == "clean":
        after = (replay_words(step), *after)
    shows_steps = step.of != "clean" or not found.as_recorded  # a light step is neither the page's nor the recorded one
    if not layout.charts and 1 < steps <= 8 and shows_steps:
        each = ", ".join(f"{row.index}: {layout.time(row.us)}" for row in found.per_step or ())
        after = (f"{steps_words(found)}: {each}", *after)
    chart = steps_chart(found, CHART_WIDTH, ascii=layout.ascii) if steps > 1 and shows_steps else None
    return replace(_by_category(found, layout, heading), after=after, chart=chart, drawn_first=True)


def replay_words(step: PageStep) -> str:
    """How the parts of a clean step are known, and how far off that is where it matters."""
    if not step.by_replay:
        return "Its parts have the shares of the recorded one."
    off = step.replay_off_percent or 0.0
    longer = "longer" if off > 0 else "shorter"
    miss = f", which is {format_percent(abs(off))} {longer} than the clean step" if abs(off) > MUCH_PERCENT else ""
    return f"Its parts are of a replay of the launches without the profiler{miss}."


def _by_category(found: Overview, layout: Layout, heading: str) -> Block:
    """The categories with a bar each, and those of the recorded step where the page's is another."""
    layout = replace(layout, limit=None)
    block = listed(CATEGORIES, _category_rows(found.step.categories), layout, heading=heading, whole=0)
    columns, cells = list(block.columns), block.cells
    width = BAR_WIDTH
    if found.step.of != "recorded":
        beside = listed(CATEGORIES, _category_rows((found.as_recorded or found).categories), layout)
        columns += [replace(beside.columns[1], title="Recorded"), beside.columns[2]]
        cells = [[*row, *other[1:]] for row, other in zip(cells, beside.cells, strict=True)]
        width = NARROW_BAR
    bars = [layout.bar(cost.percent, width) for cost in found.step.categories.values()]
    return replace(
        block,
        columns=(*columns, Shown("", right=False, is_bar=True)),
        cells=[[*row, bar] for row, bar in zip(cells, bars, strict=True)],
    )


def _category_rows(categories: Mapping[str, Cost]) -> list[Row]:
    return [
        {"category": CATEGORY_LABELS[name], "us": cost.us, "percent": cost.percent} for name, cost in categories.items()
    ]


def _setup(found: Overview, layout: Layout) -> tuple[str, ...]:
    """What was recorded before the first step; only where the profiler marked none, since its recordings have steps."""
    marked = found.steps and found.steps_of is None
    if marked or not found.setup_us or not found.recorded_us:
        return ()
    share = format_percent(100 * found.setup_us / found.recorded_us)
    before = "the steps" if found.steps else "the first GPU work"
    warm_up = f", and a warm-up of {found.warm_up_steps}" if found.warm_up_steps else ""
    return (
        f"Left out: {layout.time(found.setup_us)} of {layout.time(found.recorded_us)} recorded ({share}) before "
        f"{before}{warm_up}.",
    )


def _gpu(found: Overview, layout: Layout) -> Block:
    after = []
    idle, busy = found.step.idle, [gpu["busy_percent"] for gpu in found.step.gpu if gpu["busy_percent"] is not None]
    if idle.host_wait_percent is not None and busy:
        part = max(100 - fmean(busy), 0) / 100
        shares = (
            f"{format_percent(part * getattr(idle, f'{cause}_percent'))} {words}" for cause, words in IDLE_WORDS.items()
        )
        after.append(f"Idle: {', '.join(shares)}.")
    if found.overlap_percent is not None:
        overlap = format_percent(found.overlap_percent)
        after.append(f"Communication overlapped by compute: {overlap} of communication time as recorded.")
    whole = "the step" if found.steps else whole_words(found).lower().replace("gpu", "GPU")
    base = f"% of {whole}; occupancy and tensor cores: of kernel time"
    return listed(GPUS, found.step.gpu, replace(layout, limit=None), base=base, whole=0, after=tuple(after))


def critical_path(trace: Trace, layout: Layout) -> Iterator[Part]:
    """What the steps waited for, and the longest stretches where nothing else was asked for."""
    found = trace.critical_path
    if not found:
        return
    rows = in_words(found.resources, "resource", RESOURCE_LABELS.__getitem__)
    step = trace.overview.step if trace.overview else None
    if step is not None and step.of == found.of:
        heading = f"Critical path of {'the step' if trace.overview and trace.overview.steps else 'this time'}"
    else:
        steps = f"mean of {found.steps} steps" if found.steps > 1 else "one step"
        heading = f"Critical path {STEP_WORDS[found.of]}, {steps}"
    yield listed(CRITICAL_PATH, rows, replace(layout, limit=None), heading=heading, whole=0)
    if trace.overview is UNSET:
        yield listed(STRETCHES, in_words(found.stretches, "resource", RESOURCE_LABELS.__getitem__), layout)


def in_words(rows: Iterable[Row], key: str, words: Callable[[str], str]) -> list[Row]:
    """The rows with one of their values in words; what is unknown stays so."""
    return [{**row, key: words(row[key]) if row[key] else None} for row in rows]


def gaps(trace: Trace, layout: Layout) -> Iterator[Part]:
    """The longest stretches in which a GPU is idle."""
    rows = in_words(trace.gaps or (), "host", short_function)
    rows = in_words(rows, "path", RESOURCE_LABELS.__getitem__)
    yield listed(GAPS, rows, layout, whole=trace.counts.get("gaps", len(rows)))


def kernels(trace: Trace, layout: Layout) -> Iterator[Part]:
    """The kernels that take most GPU time, or what they are grouped by."""
    rows = trace.kernels
    if not rows:
        return
    if trace.kernels_by:
        by = group_words(trace.kernels_by)
        table = KERNEL_GROUPS.having("group", title=by.capitalize())
        yield listed(table, trace.kernel_groups or (), layout, heading=f"Kernels by {by}")
        return
    listed_rows = convert(rows[: layout.limit], list[KernelRow])
    launcher = launched_by(listed_rows)
    columns = KERNELS.chosen(launcher if name == "module" else name for name in KERNELS.reports)
    chart = launches_chart(listed_rows, CHART_WIDTH, ascii=layout.ascii)
    block = listed(KERNELS, rows, layout, fields=columns, chart=chart)
    yield _with_tensor_cores(block, listed_rows, trace.tensor_cores) if trace.tensor_cores else block


def _with_tensor_cores(block: Block, rows: Sequence[KernelRow], found: TensorCores) -> Block:
    """A table of kernels with a sentence above it, a sign for each row, and a column where there is room."""
    unclear = frozenset(found.unclear)
    column = KERNELS.field("tensor_cores")
    marks = tuple(UNCLEAR if row.name in unclear else USES if row.tensor_cores else "" for row in rows)
    at = next(number for number, one in enumerate(block.columns) if one.is_name)
    cells = [
        [*cells[:at], value_cell(column, None if row.name in unclear else row.tensor_cores), *cells[at:]]
        for cells, row in zip(block.cells, rows, strict=True)
    ]
    columns = (*block.columns[:at], replace(shown(column), wide=True), *block.columns[at:])
    return replace(block, columns=columns, cells=cells, marks=marks, before=(_tensor_cores(found),))


def _tensor_cores(found: TensorCores) -> str:
    """How much of the kernel time runs on tensor cores, how much can't be told, and how much could run there."""
    if found.percent is None:
        return "Tensor cores: unknown: no kernel has a duration, or the device is no GPU whose kernels' names tell."
    said = [f"{format_percent(found.percent)} of kernel time"]
    if found.kernels:
        said[0] += f" in {_counted(found.kernels)} ({USES})"
    if found.unclear:
        share = format_percent(found.unclear_percent)
        said.append(f"unknown: {share} in {_counted(len(found.unclear))} ({UNCLEAR})")
    if found.eligible_percent is not None:
        said.append(f"eligible operators launched {format_percent(found.eligible_percent)}")
    return f"Tensor cores: {'; '.join(said)}."


def _counted(many: int) -> str:
    return f"{format_count(many)} kernel{'' if many == 1 else 's'}"


def launched_by(kernels: Sequence[KernelRow]) -> str:
    """Returns the best description of who launched these kernels: modules, else operators, else ranges."""
    known = (key for key in ("module", "operator", "range") if any(getattr(row, key) for row in kernels))
    return next(known, "operator")


class OperatorRow(Struct, frozen=True):
    """An operator of the report, as far as its order and the sentence on the rest need it."""

    name: str
    percent: float | None
    memory_self_bytes: int | None
    allocated_self_bytes: int | None


def operators(trace: Trace, layout: Layout) -> Iterator[Part]:
    """The operators that take most GPU time, or host time where there is none."""
    rows = trace.operators or []
    own = convert(rows, list[OperatorRow])
    if all(row.name == trees.NOT_ATTRIBUTED for row in own):
        return
    lost = next((row.percent for row in own if row.name == trees.NOT_ATTRIBUTED), None)
    after = (f"{format_percent(lost)} of GPU time is of no operator.",) if lost else ()
    yield listed(OPERATORS, rows, layout, base="", after=after)
    allocating = [at for at, row in enumerate(own) if row.allocated_self_bytes or row.memory_self_bytes]
    allocating.sort(key=lambda at: (-(own[at].memory_self_bytes or 0), own[at].name))
    yield listed(OPERATORS_BY_MEMORY, [rows[at] for at in allocating], layout)


def host_functions(trace: Trace, layout: Layout) -> Iterator[Part]:
    """Lists the host's hot spots, if the host is the bottleneck or all that was recorded."""
    rows = trace.host_functions
    verdict = trace.overview.waits_for if trace.overview else None
    if not rows or (verdict is not None and verdict.what in ("gpu", "copies")):
        return
    named = in_words(most_per_step(rows), "name", short_function)
    steps = "(no steps" not in trace.base
    chosen = own_time(HOST_FUNCTIONS.chosen(HOST_FUNCTIONS.reports), per_step=steps)
    columns = [replace(one, short="", tail=one.flex) for one in chosen]
    whole = "step time" if steps else "the recorded time"
    outside = any(row["self_us"] and not row["self_per_step_us"] for row in named[: layout.limit])
    after = ("Self/step and % are of calls in steps: 0 where all were made outside of them.",) if outside else ()
    yield listed(HOST_FUNCTIONS, named, layout, fields=columns, base=f"self time, % of {whole}", after=after)


def most_per_step(rows: list[Row]) -> list[Row]:
    """Host functions by their own time in steps; those that only wait come last."""
    return sorted(rows, key=lambda row: (row["waits"], -row["self_per_step_us"]))


def host_lines(trace: Trace, layout: Layout) -> Iterator[Part]:
    """The program's lines as a sampler saw them without a profiler, those of other threads apart."""
    rows, how = trace.host_lines or [], trace.host_lines_sampled
    if not isinstance(how, HostSamples):
        yield Sentences((NO_SAMPLES,))
        return
    if how.problem:
        yield Sentences((how.problem,))
        return
    fields = [replace(one, short="") for one in HOST_LINES.chosen(HOST_LINES.reports)]
    own, others = (in_words((r for r in rows if r["other"] is other), "name", short_line) for other in (False, True))
    untold = {"path_percent"} if all(row["path_percent"] is None for row in rows) else set()
    unnamed = [one for one in fields if one.name not in {"thread", *untold}]
    fields = [one for one in fields if one.name != "path_percent"]
    yield listed(HOST_LINES, own, layout, fields=unnamed, after=(f"{sampled_words(how)}.",))
    if others:
        yield listed(HOST_LINES, others, layout, fields=fields, heading="Lines of other threads meanwhile")


def host_stacks(trace: Trace, layout: Layout) -> Iterator[Part]:
    """The stacks of the thread that runs the steps as a tree, and as boxes."""
    rows = [row for row in trace.host_stacks or () if not row["other"]]
    if rows:
        largest = {row["path"] for row in sorted(rows, key=lambda row: -row["percent"])[: layout.limit]}
        shown = [row for row in rows if row["path"] in largest]
        block = listed(HOST_STACKS, shown, replace(layout, limit=None), whole=len(rows))
        chart = stacks_chart(rows, CHART_WIDTH, ascii=layout.ascii)
        yield replace(block, depths=tuple(row["depth"] for row in shown), chart=chart)


def tried(trace: Trace, layout: Layout) -> Iterator[Part]:
    """The changes that were measured."""
    yield from tried_parts(trace.tried or [], layout)


def ranges(trace: Trace, layout: Layout) -> Iterator[Part]:
    """Annotations: what the author of the program named."""
    rows = trace.ranges
    if not rows:
        return
    # time outside of ranges is not an instance of a range
    named = [
        {**row, "name": spelled(row["domain"], row["name"]), "instances": row["instances"] or None} for row in rows
    ]
    kept = named[: layout.limit]
    if not named[-1]["instances"] and len(kept) < len(named):
        kept[-1:] = named[-1:]
    fields = RANGES.chosen(RANGES.reports)
    if all(row["device_meanwhile_us"] in (None, row["device_us"]) for row in rows):
        fields = tuple(one for one in fields if one.name != "device_meanwhile_ns")
    yield listed(RANGES, kept, replace(layout, limit=None), fields=fields, whole=len(rows))


def memops(trace: Trace, layout: Layout) -> Iterator[Part]:
    """Copies and fills."""
    if trace.memops:
        yield listed(MEMOPS, trace.memops, layout)


def api(trace: Trace, layout: Layout) -> Iterator[Part]:
    """Calls into the GPU's runtime and driver, under the runtime's name."""
    if trace.api:
        title = " ".join(filter(None, (runtime(row["name"] for row in trace.api), API_CALLS.title)))
        yield listed(API_CALLS, trace.api, layout, base="", heading=title)


def launches(trace: Trace, layout: Layout) -> Iterator[Part]:
    """One sentence about how kernels reach the GPU."""
    found = trace.launches
    where = " (light recording)" if (trace.rests_on or {}).get("launches") == "light" else ""
    if found and found.count:
        text = (
            f"Launches{where}: {format_count(found.count)}, median delay to the kernel's start "
            f"{layout.time(found.median_delay_us)}; {format_count(found.short_kernels)} kernels shorter than "
            f"their launch call, {format_count(found.runtime_outliers)} slow calls, "
            f"{format_count(found.delay_outliers)} long delays."
        )
        yield Sentences((text,))


def memory(trace: Trace, layout: Layout) -> Iterator[Part]:
    """The allocator's peaks and who held them."""
    if trace.memory:
        yield from memory_parts(trace.memory, layout)


def counters(trace: Trace, layout: Layout) -> Iterator[Part]:
    """What Nsight Compute measured, by kernel."""
    from tracetui.app.reports.content.counters import blocks

    yield from blocks(trace, layout)


def roofline(trace: Trace, layout: Layout) -> Iterator[Part]:
    """Shows how near each kernel comes to the GPU's roofs: the chart, then the table."""
    if trace.roofline:
        from tracetui.app.reports.content.roofline import roofline_block

        yield roofline_block(trace, layout, CHART_WIDTH)


def communication(trace: Trace, layout: Layout) -> Iterator[Part]:
    """Collectives: how long they run, how much of that compute hides, and which they are."""
    found = trace.communication
    if found and found.kernels:
        text = (
            f"Communication: {layout.time(found.communication_us)} per step, {layout.time(found.overlap_us)} "
            f"of it while compute kernels run on the same GPU ({format_percent(found.overlap_percent)})."
        )
        yield listed(COMMUNICATION, found.kernels, layout, heading="Collectives", base="", before=(text,))


def collectives(trace: Trace, layout: Layout) -> Iterator[Part]:
    """Collectives by kind, group and size."""
    if trace.collectives:
        from tracetui.app.reports.content.job import collectives as tables

        yield from tables(trace, layout)


def notes(trace: Trace, layout: Layout) -> Sentences:
    """What the reader skipped, repaired or missed."""
    texts = []
    source = trace.source
    for kind, of_kind in (("skipped", source.skipped), ("repaired", source.repaired), ("missing", source.missing)):
        for note in of_kind:
            example = fit(" ".join(note.example.split()), EXAMPLE_WIDTH, ascii=layout.ascii)
            example = f" (first: {example})" if example else ""
            texts.append(f"{kind.capitalize()}: {format_count(note.count)} × {note.reason}{example}")
    return Sentences(tuple(texts))


def unknowns(trace: Trace) -> Sentences:
    """Lists what this recording lacks, and how to record it."""
    average, memory = trace.overview, trace.memory
    absent: dict[str, bool] = {
        "steps": isinstance(average, Overview) and not average.steps,
        "device": trace.kernels == [] and trace.memops == [],
        "modules": trace.modules is not UNSET and not any(row["class_name"] for row in trace.modules),
        "ranges": trace.ranges == [],
        "memory": isinstance(memory, Memory) and memory.peak_allocated_bytes is None and memory.segments is None,
    }
    said = tuple(words for name, words in WORDS[trace.source.kind].absent.items() if absent[name])
    return Sentences(said, heading="Not in this recording" if said else "", bullets=True)


SECTIONS: dict[str, Callable[[Trace, Layout], Iterable[Part]]] = {
    "findings": findings,
    "tried": tried,
    "overview": overview,
    "critical_path": critical_path,
    "gaps": gaps,
    "kernels": kernels,
    "counters": counters,
    "roofline": roofline,
    "communication": communication,
    "collectives": collectives,
    "host_functions": host_functions,
    "host_lines": host_lines,
    "host_stacks": host_stacks,
    "modules": modules,
    "operators": operators,
    "range_tree": range_tree,
    "ranges": ranges,
    "memops": memops,
    "api": api,
    "launches": launches,
    "memory": memory,
    **beside.SECTIONS,
}


class OutOfMemory(Struct, frozen=True):
    """A request that found no memory."""

    at_us: float | None
    requested_bytes: int
    device_free_bytes: int | None
    allocated_bytes: int | None
    reserved_bytes: int | None
    own: str | None


def sentences(found: Memory, layout: Layout) -> list[str]:
    """The peak, the end, and what is wrong with them; nothing where nothing was recorded."""
    if found.peak_allocated_bytes is None and found.segments is None:
        return []
    lines = []
    if found.peak_allocated_bytes is not None:
        where = "GPU" if found.on_gpu else "Host"
        allocated, reserved = format_bytes(found.peak_allocated_bytes), found.peak_reserved_bytes
        known = "" if reserved is None else f", {format_bytes(reserved)} reserved"
        at = f", at {layout.time(found.peak_time_us)}" if found.peak_time_us is not None else ""
        free = found.peak_fragmentation_percent
        split = "" if free is None else f"; fragmentation {format_percent(free)} of what is free"
        lines.append(f"{where} memory peak: {allocated} allocated{known}{at}{split}.")
    if (held := found.segments) is not None:
        text = (
            f"At the end: {format_bytes(held.allocated_bytes)} allocated, {format_bytes(held.reserved_bytes)} "
            f"reserved in {format_count(held.count)} segments"
        )
        if found.fragmentation_percent is not None:
            text += (
                f"; of {format_bytes(held.free_bytes)} free the largest block is "
                f"{format_bytes(held.largest_free_bytes)} (fragmentation "
                f"{format_percent(found.fragmentation_percent)}), {format_bytes(held.inactive_split_bytes)} is "
                "in segments also in use"
            )
        lines.append(f"{text}.")
    for event in convert(found.oom, list[OutOfMemory]):
        at = f" at {layout.time(event.at_us)}" if event.at_us is not None else ""
        lines.append(
            f"Out of memory{at}: {format_bytes(event.requested_bytes)} asked for, "
            f"{format_bytes(event.device_free_bytes)} free on the GPU, {format_bytes(event.allocated_bytes)} "
            f"allocated, {format_bytes(event.reserved_bytes)} reserved" + (f"; {event.own}." if event.own else ".")
        )
    return lines


def memory_parts(found: Memory, layout: Layout) -> Iterator[Part]:
    """The section: sentences, the curve, who held the peak, what stays, how it grows."""
    yield Sentences(tuple(sentences(found, layout)))
    yield Block("", chart=memory_chart(found, WIDTH - 2, ascii=layout.ascii))
    for by in CALLERS:
        mine = [row for row in found.holders if row["by"] == by]
        if mine:
            table = named_by(HOLDERS, by)
            yield listed(table, mine, layout, heading=f"{HOLDERS.title}, by {by}")
    first = next((row["by"] for row in found.long_lived), None)
    longer = [row for row in found.long_lived if row["by"] == first]
    if longer:
        stepped = longer[0]["steps"] is not None
        table = named_by(LONG_LIVED, str(first))
        base = "made in a step, there after it" if stepped else "made in the recording, never given back"
        yield listed(table, longer, layout, fields=filled(table.chosen(table.reports), longer), base=base)
    if any(row["growth_bytes"] for row in found.growth):
        yield listed(STEPS, found.growth, layout)
