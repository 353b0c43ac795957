"""The kinds of drafts: which chapters each has, under the headings of the report that it follows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.reports.content.drafts.pieces import Draft, piece
from tracetui.app.reports.parts import Part, Sentences, Title

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.app.reports.layout import Layout


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
    """The whole draft.

    Args:
        draft: what there is.
        name: out of `LIKES`.
        layout: how many rows there are room for.
    """
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
