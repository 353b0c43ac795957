"""Drafts of whole reports: the chapters that a report by hand has, in its order, filled from recordings."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tracetui.analysis.base.api_names import READS_A_VALUE
from tracetui.analysis.findings.core.finding import HEADLINE, NO_ACT
from tracetui.analysis.report.model import FindingRow, Judged, Run, Trace
from tracetui.analysis.report.sweep import SweepReport
from tracetui.analysis.tables.nsight.counters import NCU_RULES
from tracetui.analysis.tables.program import OPERATORS
from tracetui.analysis.tables.runs import GPUS
from tracetui.app.reports.content import captures, counters, sections, sweep
from tracetui.app.reports.content.run import facts_of, join_sentences
from tracetui.app.reports.finding_words import gain, headline, titled, whole_of
from tracetui.app.reports.layout import Layout
from tracetui.app.reports.parts import Block, FindingList, Part, Sentences, Title, listed

MEASUREMENT = "V"
"""What the ids of rules on the measurement begin with."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What a draft is written from."""

    run: Run
    """The run's part of the report."""
    sweep: SweepReport | None = None
    """The report of the folder as a sweep, where it is one."""
    command: tuple[str, ...] = ()
    """The command that recorded the run, if run.json has it."""
    path: str = ""
    """What was given, where that is not the run's own path: a folder of runs."""

    @property
    def traces(self) -> list[Trace]:
        """The recordings, the main one first."""
        traces, main = self.run.traces, self.run.main or 0
        return [*traces[main : main + 1], *traces[:main], *traces[main + 1 :]]


def piece(draft: Draft, name: str, layout: Layout) -> list[Part]:
    """The parts of a piece that say something; none where the draft has nothing of it.

    Args:
        draft: what there is.
        name: out of `PIECES`, `SWEPT`, `content.sections.SECTIONS`, or one of these with what of it: ``about:S7,S13``
            (what these rules say), ``captures:Forward|Ranges`` (the tables of these headings).
        layout: how many rows there are room for.
    """
    kind, _, which = name.partition(":")
    found: Iterable[Part]
    if kind == "about":
        found = [about(draft.traces[0].judged, draft.traces[0].base, which.split(","))]
    elif kind == "sweep_about":
        found = [about(draft.sweep.judged if draft.sweep else None, "step", which.split(","))]
    elif kind == "captures":
        found = _captures(draft, set(which.split("|")), layout)
    elif kind in SWEPT:
        found = SWEPT[kind](draft.sweep, layout) if draft.sweep else []
    elif kind in PIECES:
        found = PIECES[kind](draft, layout)
    else:
        found = _section(draft, kind, layout)
    return [part for part in found if _says_something(part)]


def _says_something(part: Part) -> bool:
    """Whether a part prints anything."""
    if isinstance(part, Sentences):
        return bool(part.texts)
    if isinstance(part, Block):
        return bool(part.cells or part.before or part.after or (part.chart is not None and part.chart.rows))
    return not isinstance(part, FindingList) or part.judged is not None


def _section(draft: Draft, name: str, layout: Layout) -> list[Part]:
    """A section of the first recording that has something of it."""
    for trace in draft.traces:
        if sections.has(trace, name):
            found = [part for part in sections.SECTIONS[name](trace, layout) if _says_something(part)]
            if found:
                beside = trace is not draft.traces[0]
                where = f"From {Path(trace.source.path).name}, beside the main recording:"
                return [Sentences((where,)), *found] if beside else found
    return []


def _recorded(draft: Draft, layout: Layout) -> Iterator[Part]:
    """The recordings (the main one, and the first of each other tool), and the command that made them."""
    of_each_tool: dict[str, Trace] = {}
    for trace in draft.traces:
        of_each_tool.setdefault(trace.source.kind, trace)
    yield from (facts_of(draft.run, trace) for trace in of_each_tool.values())
    if draft.command:
        yield Sentences((f"Recorded by: {shlex.join(draft.command)}",))
    else:
        yield Sentences(("What recorded it is not in it; runs of `tracetui profile` have their command in run.json.",))


def _verdict(draft: Draft, layout: Layout) -> Iterator[Part]:
    overview = next((trace.overview for trace in draft.traces if trace.overview), None)
    if overview and overview.waits_for is not None:
        yield Sentences((overview.waits_for.sentence,), lead=True)


def _overview(draft: Draft, layout: Layout) -> list[Block]:
    return [part for part in _section(draft, "overview", layout) if isinstance(part, Block)]


def _average_step(draft: Draft, layout: Layout) -> list[Part]:
    """The table without its chart, which is a piece of its own."""
    return [replace(block, chart=None) for block in _overview(draft, layout)[:1]]


def _steps(draft: Draft, layout: Layout) -> list[Part]:
    return [Block("", chart=block.chart) for block in _overview(draft, layout)[:1]]


def _lanes(draft: Draft, layout: Layout) -> list[Part]:
    return [block for block in _overview(draft, layout)[1:] if not block.cells]


def _gpu(draft: Draft, layout: Layout) -> list[Part]:
    return [block for block in _overview(draft, layout) if block.heading == GPUS.title]


def _counters(draft: Draft, layout: Layout) -> list[Part]:
    return [part for part in _section(draft, "counters", layout) if not _is_advice(part)]


def _advice_of_ncu(draft: Draft, layout: Layout) -> list[Part]:
    return [part for part in _section(draft, "counters", layout) if _is_advice(part)]


def _is_advice(part: Part) -> bool:
    return isinstance(part, Block) and part.heading == NCU_RULES.title


def _side_by_side(draft: Draft, layout: Layout) -> Iterator[Part]:
    """Reports of Nsight Compute in one table each way; nothing of a single one."""
    if draft.run.counters_compared:
        yield from counters.compared_blocks(draft.run, layout)


def _joins(draft: Draft, layout: Layout) -> list[Part]:
    return [Sentences((" ".join(join_sentences(join)),)) for join in draft.run.joins]


def _jax(draft: Draft, layout: Layout) -> Iterator[Part]:
    if any("jax" in trace.source.tool.lower() for trace in draft.traces):
        yield from _average_step(draft, layout)
        yield from _section(draft, "ranges", layout)


def _findings(draft: Draft, layout: Layout) -> list[Part]:
    return [FindingList(trace.judged, trace.base) for trace in draft.traces[:1]]


def _directions(draft: Draft, layout: Layout) -> list[Part]:
    return [directions(trace.judged, trace.base, layout.limit) for trace in draft.traces[:1]]


def _asks(draft: Draft, layout: Layout) -> Iterator[Part]:
    """The operators that bring values to the host, which waits for the GPU there."""
    for trace in draft.traces:
        rows = [row for row in trace.operators or [] if row["name"] in READS_A_VALUE]
        if rows:
            yield listed(OPERATORS, rows, layout, heading="Operators that wait for the GPU", base="", whole=0)
            return


PIECES: dict[str, Callable[[Draft, Layout], Iterable[Part]]] = {
    "recorded": _recorded,
    "verdict": _verdict,
    "average_step": _average_step,
    "steps": _steps,
    "lanes": _lanes,
    "gpu": _gpu,
    "counters": _counters,
    "advice_of_ncu": _advice_of_ncu,
    "side_by_side": _side_by_side,
    "joins": _joins,
    "asks": _asks,
    "jax": _jax,
    "findings": _findings,
    "directions": _directions,
}
"""Pieces of the run, beside its sections."""


def _captures(draft: Draft, headings: set[str], layout: Layout) -> Iterator[Part]:
    """The tables of several captures that have these headings."""
    if len(draft.run.captures) > 1:
        for part in captures.capture_parts(draft.run.captures, layout):
            if isinstance(part, Block) and part.heading in headings:
                yield part


def _sweep_verdict(found: SweepReport, layout: Layout) -> list[Part]:
    return [Sentences((sweep.verdict(found),), lead=True)]


def _points(found: SweepReport, layout: Layout) -> Iterator[Part]:
    yield sweep.chart_block(found.sweep, layout)
    block = sweep.points_block(found, layout)
    yield replace(block, cells=block.cells[: layout.limit], whole=len(block.cells))


def _accounts(found: SweepReport, layout: Layout) -> list[Part]:
    return [Sentences(tuple(sweep.accounts(found)), bullets=True)]


SWEPT: dict[str, Callable[[SweepReport, Layout], Iterable[Part]]] = {
    "sweep_verdict": _sweep_verdict,
    "comparisons": sweep.comparison_blocks,
    "points": _points,
    "accounts": _accounts,
    "kinds": sweep.kind_blocks,
}
"""Pieces of the folder as a sweep."""


def about(judged: Judged | None, base: str, ids: list[str]) -> Sentences:
    """What these rules say: their findings with what to try, that they found nothing, or why they could not judge."""
    if judged is None:
        return Sentences(())
    said: list[str] = []
    missing = {row.id: row.missing for row in judged.findings_abstained}
    quiet: list[str] = []
    blind: dict[str, list[str]] = {}
    aside = [row for row in judged.findings_suppressed if row.by in (HEADLINE, NO_ACT)]
    for name in ids:
        mine = [row for row in (*judged.findings, *aside) if row.id == name]
        said += [_with_gain(headline(row), row, base) for row in mine]
        if not mine and name in missing:
            blind.setdefault(missing[name], []).append(name)
        elif not mine and name in judged.findings_checked:
            quiet.append(name)
    said += [f"{', '.join(names)} could not judge: {reason}." for reason, names in blind.items()]
    if quiet:
        said.append(f"{', '.join(quiet)} looked and found nothing.")
    return Sentences(tuple(said), bullets=True)


def directions(judged: Judged | None, base: str, limit: int | None) -> Sentences:
    """What can be done about each finding, and the most that it can gain; not what is to be measured otherwise."""
    rows = judged.findings if judged is not None else []
    rows = [row for row in rows if row.advice and not row.id.startswith(MEASUREMENT)]
    said = tuple(_with_gain(titled(row.title, row.doubted_by), row, base) for row in rows[:limit])
    return Sentences(said, bullets=True)


def _with_gain(title: str, row: FindingRow, base: str) -> str:
    return ". ".join(text for text in (title, gain(row, whole_of(base)), row.advice) if text)


@dataclass(frozen=True, slots=True)
class Chapter:
    """One section of a report by hand."""

    heading: str
    """As that report calls it."""
    pieces: tuple[str, ...]
    """What fills it, see `pieces.piece`."""
    lacks: str = ""
    """What a recording lacks if nothing does."""
    records: str = ""
    """The command that records it."""
    alone: tuple[str, ...] = ()
    """What fills it of a single recording, where the pieces are of several side by side."""


@dataclass(frozen=True, slots=True)
class Like:
    """A kind of report."""

    about: str
    """Whose sections and order these are."""
    sections: tuple[str, ...]
    """The sections of the run's report that its pieces need."""
    chapters: tuple[Chapter, ...]
    sweep: bool = False
    """Whether it is of a folder with several recordings, which is read as a sweep too."""


_TORCH, _NCU = "tracetui profile MODEL --tool torch", "tracetui profile MODEL --tool ncu"
_NSYS = "tracetui profile gpt_small --train --tool nsys --sweep ctx=128,256,512,1024"
_VARIANTS = "tracetui profile topk_deit_base --sweep keep=1.0,0.7 --sweep batch=1,8"
_COUNTED = f"{_VARIANTS} --tool ncu"
_EVERY = "tracetui profile MODEL --tool all"
_OF_RUN = (
    "overview", "critical_path", "kernels", "memops", "operators", "modules", "api", "ranges", "range_tree", "launches",
    "counters", "roofline", "memory", "findings",
)  # fmt: skip

LIKES = {
    "torch": Like(
        "a report with torch.profiler and TensorBoard",
        _OF_RUN,
        (
            Chapter("How to Reproduce", ("recorded",)),
            Chapter("Overview — Execution Summary", ("verdict", "average_step"), "a time line", _TORCH),
            Chapter("GPU Summary", ("gpu",), "GPU work on a time line", _TORCH),
            Chapter("Step Time Breakdown", ("steps", "lanes"), "steps", _TORCH),
            Chapter("Module View", ("modules",), "calls of nn.Module (with_stack=True)", _TORCH),
            Chapter("Notable: where the host waits for the GPU", ("asks", "about:S7"), "a time line", _TORCH),
            Chapter("Call sequence per step", ("range_tree", "ranges", "launches"), "ranges and launches", _TORCH),
            Chapter("Kernel View — CUDA Kernels by Total Time", ("kernels",), "kernels", _TORCH),
            Chapter("Key findings", ("findings",)),
            Chapter("Summary & Optimization Directions", ("directions",), "what the rules advise", _TORCH),
        ),
    ),
    "ncu": Like(
        "a report with Nsight Compute over configurations",
        ("counters", "findings", "roofline", "kernels"),
        (
            Chapter("NCU Profiling Configuration", ("recorded",)),
            Chapter(
                "Key Metrics Summary",
                ("side_by_side",),
                "a second report of Nsight Compute in the folder",
                f"{_NCU} --sweep dtype=fp32,bf16",
            ),
            Chapter("Profiled Kernels", ("counters",), "counters", _NCU),
            Chapter("Integration with Nsys Findings", ("joins",), "a time line of the same run", _EVERY),
            Chapter("Profiling Limitations", ("about:V4,V5,V18,V25",), "rules that apply", _NCU),
            Chapter("Key Insights", ("findings", "roofline")),
            Chapter("Recommendations Based on NCU Data", ("advice_of_ncu",), "advice of ncu (--set full)", _NCU),
            Chapter("Conclusions", ("directions",), "what the rules advise", _EVERY),
        ),
        sweep=True,
    ),
    "guide": Like(
        "a guide to finding and fixing bottlenecks",
        _OF_RUN,
        (
            Chapter("PyTorch Profiler", ("kernels", "operators"), "kernels and operators", _TORCH),
            Chapter("NVIDIA Nsight Systems", ("lanes", "launches", "memops", "api"), "a time line", _EVERY),
            Chapter("NVIDIA Nsight Compute", ("counters",), "counters", _NCU),
            Chapter("JAX Profiling", ("jax",), "XLA: this is no profile of JAX", "jax.profiler.start_trace(FOLDER)"),
            Chapter("Bottleneck 1: CPU-GPU Data Transfer", ("about:S5,S6,S8,S10",), "a time line", _TORCH),
            Chapter("Bottleneck 2: Many Small Kernels", ("about:S2,S12,F4",), "a time line", _TORCH),
            Chapter("Bottleneck 3: Memory Bandwidth", ("about:K1,K6,F7",), "kernels", _EVERY),
            Chapter("Bottleneck 4: Synchronization", ("about:S7,S13",), "a time line", _TORCH),
            Chapter("Bottleneck 5: Inefficient Memory Layout", ("about:K7,F11",), "kernels", _EVERY),
            Chapter("The Roofline Model", ("roofline",), "shapes or counters", _EVERY),
            Chapter("1. What's the actual bottleneck?", ("verdict", "critical_path"), "a time line", _TORCH),
            Chapter("2. Is the GPU actually busy?", ("gpu",), "GPU work on a time line", _TORCH),
            Chapter("3. Is it compute or memory bound?", ("about:K1,K2,K3,K5",), "counters", _NCU),
            Chapter("4. Are there easy wins?", ("about:F1,F2,F4,F6,F12,S8,G5,K14",), "a time line", _TORCH),
            Chapter("Memory Profiling", ("memory",), "memory use (a snapshot, or profile_memory=True)", _EVERY),
        ),
    ),
    "nsys": Like(
        "a report with Nsight Systems over models and context lengths",
        ("captures", "findings", "overview", "kernels", "ranges", "range_tree"),
        (
            Chapter("How to run", ("captures:Captures",), alone=("recorded",)),
            Chapter(
                "Question (a): Forward Pass Timing",
                ("captures:Forward|Ranges", "sweep_about:S4,D8"),
                "ranges around the forward pass, in several recordings",
                _NSYS,
                alone=("ranges",),
            ),
            Chapter(
                "Question (b): Most Time-Consuming CUDA Kernels",
                ("captures:Kind of the top kernel|Top kernel of each",),
                "kernels of several recordings",
                _NSYS,
                alone=("kernels",),
            ),
            Chapter(
                "Question (c): Non-Matrix-Multiply Kernels in Forward Pass",
                ("captures:GPU time by category",),
                "kernels of several recordings",
                _NSYS,
            ),
            Chapter(
                "Question (d): Training Step Breakdown",
                ("captures:Step|Backward|Optimizer|Steps by phase", "about:V2,V3,V13"),
                "ranges around the step and its phases, in several recordings",
                _NSYS,
                alone=("average_step", "range_tree"),
            ),
            Chapter(
                "Question (e): Attention Layer Analysis",
                ("captures:Attention|Softmax|Matmul|Softmax and matrix products",),
                "ranges around attention, softmax and matrix products, in several recordings",
                f"{_NSYS} (a model with such ranges: tracetui reference models)",
            ),
        ),
        sweep=True,
    ),
    "variants": Like(
        "a report on variants of a model over batch sizes",
        ("captures", "counters", "findings", "memory", "kernels"),
        (
            Chapter("Problem Overview", ("sweep_verdict", "comparisons"), "two variants to compare", _VARIANTS),
            Chapter(
                "Phase 1: Timeline Profiling (nsys)",
                ("captures:Captures|GPU time by category",),
                "several recordings with a time line",
                _VARIANTS,
                alone=("kernels",),
            ),
            Chapter(
                "Phase 2: Deep Kernel Analysis (ncu)",
                ("side_by_side", "counters"),
                "counters",
                _COUNTED,
            ),
            Chapter("Phase 3: Batch Size Sweep", ("points",), "a sweep", _VARIANTS),
            Chapter(
                "Hypothesis 1: Kernel Launch Overhead",
                ("accounts", "about:S2,S12"),
                "two variants to compare",
                _VARIANTS,
            ),
            Chapter("Hypothesis 2: Low GPU Utilization", ("about:S1,K3,K4",), "GPU work", _VARIANTS),
            Chapter(
                "Hypothesis 3: Dynamic Operations Cost",
                ("kinds", "captures:Top kernel of each"),
                "several recordings with kernels",
                _VARIANTS,
            ),
            Chapter("Hypothesis 4: Memory Overhead", ("about:K6,K7,F11", "memory"), "counters", _COUNTED),
            Chapter("Expected Optimizations", ("sweep_about:D6,S4,D8,D9", "directions"), "findings", _VARIANTS),
        ),
        sweep=True,
    ),
}
"""Every kind. A new section of tracetui goes into a draft by its name among a chapter's pieces."""


def like_parts(draft: Draft, name: str, layout: Layout) -> Iterator[Part]:
    """The whole draft of a kind out of `LIKES`."""
    like, run = LIKES[name], draft.run
    path = draft.path or run.path
    yield Title(f"tracetui report: {Path(path).name or path}")
    yield Sentences((f"A draft in the order of {like.about}: correct it, and add what only you know.",))
    if like.sweep and run.other_runs:
        many, one = len(run.other_runs) + 1, draft.traces[0].source.path
        yield Sentences(
            (f"{many} runs in the folder; what is said of a single one is of {one} (--run NAME picks another).",)
        )
    for chapter in like.chapters:
        yield Title(chapter.heading, level=2, in_text=True)
        pieces = chapter.pieces if len(run.captures) > 1 else (*chapter.alone, *chapter.pieces)
        found = [part for name in pieces for part in piece(draft, name, layout)]
        yield from found or [Sentences((_nothing(chapter),))]


def _nothing(chapter: Chapter) -> str:
    """Why a chapter is empty, and what would fill it."""
    if not chapter.lacks:
        return "Nothing."
    return f"Not in this recording: {chapter.lacks}. To record it: {chapter.records}"
