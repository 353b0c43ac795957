"""The points of the checklist, declared once: the question, the rules that answer it, and what records the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracetui.analysis.checklist import figures
from tracetui.analysis.findings.core import hints
from tracetui.analysis.findings.host.transfers import copies

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.finding import Finding

BOTTLENECK = "What's the actual bottleneck?"
BUSY = "Is the GPU actually busy?"
BOUND = "Is it compute or memory bound?"
EASY = "Are there easy wins?"
TRACE, LOADER, ROOFS, COUNTERS, MEMORY = "trace", "loader", "roofs", "counters", "memory"


@dataclass(frozen=True, slots=True)
class Point:
    """One point of the checklist."""

    group: str
    question: str
    figure: Callable[[Facts], str]
    """The figure that it rests on if no rule speaks; empty where the recording does not have it."""
    rules: tuple[str, ...] = ()
    """Findings of these fail it."""
    asked: tuple[tuple[str, ...], ...] = ()
    """Of each of these groups of rules one at least must have looked, lest silence be taken for an answer."""
    record: str = TRACE
    """What records what is missing: a key of `RECORDING`."""
    fails: Callable[[Facts, Finding], bool] = lambda facts, finding: True
    """Which of the findings do."""
    beside: bool = False
    """Whether its figure says something beside a finding that fails it."""
    settled: Callable[[Facts], bool] = lambda facts: False
    """Whether its figure alone answers it, whatever rules could not look."""


def _is_worth_it(_: Facts, finding: Finding) -> bool:
    """Whether a finding is about certain kernels, and more than a remark: a flat profile is no bottleneck."""
    return finding.work is not None and finding.severity != "info"


def _has_no_copies(facts: Facts) -> bool:
    return facts.trace.has_timeline and not facts.missing(("gpu",)) and not copies(facts).height


def _not_compiled(facts: Facts, _: Finding) -> bool:
    return not hints.is_compiled(facts)


POINTS = (
    Point(BOTTLENECK, "CPU preprocessing?", figures.host_work, ("S13", "S18", "S19"), (("S13",),)),
    Point(BOTTLENECK, "Data loading/transfer?", figures.loading, ("S5", "S10", "S8"), (("S5",), ("S10",)), LOADER),
    Point(BOTTLENECK, "Specific kernel?", figures.longest_kernel, ("K12", "K2"), (("K12",),), fails=_is_worth_it),
    Point(BOTTLENECK, "Memory allocation?", figures.allocation, ("S16", "G1"), (("G1", "S16"),), MEMORY),
    Point(BOTTLENECK, "Synchronization?", figures.waits, ("S7",), (("S7",),)),
    Point(BUSY, "SM utilization", figures.sm_use, ("S1", "K4"), (("K4",),), beside=True),
    Point(BUSY, "Memory bandwidth utilization", figures.bandwidth_use, ("K6", "K5", "K7"), record=ROOFS, beside=True),
    Point(BUSY, "Idle gaps in the timeline", figures.idle_gaps, ("S2", "S1", "S12", "S14"), (("S1",),), beside=True),
    Point(BOUND, "Arithmetic intensity", figures.intensity, record=ROOFS),
    Point(BOUND, "Roofline position", figures.roof, ("K2", "K13"), record=ROOFS),
    Point(BOUND, "Memory against compute throughput", figures.throughput, ("F7",), record=ROOFS, beside=True),
    Point(
        EASY, "torch.compile / jax.jit applied?", figures.compiled, ("S2", "S12", "F7"), (("S12", "F7"),),
        fails=_not_compiled, beside=True, settled=lambda facts: bool(facts.kernels.height) and hints.is_compiled(facts),
    ),
    Point(EASY, "Data in pinned memory?", figures.pinned, ("S8",), (("S8",),), settled=_has_no_copies),
    Point(EASY, "Appropriate batch size?", figures.batch, ("V1", "G5", "K4"), (("G5",),), MEMORY, beside=True),
    Point(
        EASY, "Mixed precision enabled?", figures.tensor_core_use, ("F1", "F2", "K10"), (("F1", "K10"),), COUNTERS,
        beside=True,
    ),
)  # fmt: skip
"""The guide's profiling checklist, in its order."""

_NSYS = "nsys profile --trace=cuda,nvtx,osrt {}"
_NCU = "ncu --set full --csv --page raw --log-file ncu.csv {}"
_TORCH = "tracetui profile{} -- python train.py"
_ANY = {"pytorch": _TORCH.format(""), "jax": _NSYS.format("python train.py"), "": _NSYS.format("PROGRAM")}
RECORDING: dict[str, dict[str, str]] = {
    TRACE: _ANY,
    LOADER: _ANY,
    ROOFS: {"pytorch": _TORCH.format(""), "jax": _NCU.format("python train.py"), "": _NCU.format("PROGRAM")},
    COUNTERS: {
        "pytorch": _TORCH.format(" --tool torch,ncu"),
        "jax": _NCU.format("python train.py"),
        "": _NCU.format("PROGRAM"),
    },
    MEMORY: {
        "pytorch": _TORCH.format(" --with-memory"),
        "jax": 'jax.profiler.save_device_memory_profile("memory.prof"), which pprof shows',
        "": _NSYS.format("--cuda-memory-usage=true PROGRAM"),
    },
}
"""What records a kind of evidence, by the framework of the program; ``""`` for any other."""
_OPTIONS = {
    TRACE: ("--tool", "torch"),
    LOADER: ("--data", "imagefolder:PATH"),
    ROOFS: ("--tool", "torch"),
    COUNTERS: ("--tool", "torch,ncu"),
    MEMORY: ("--with-memory",),
}
"""The options that do so for a run that tracetui launched."""


def missing_of(facts: Facts, record: str) -> str:
    """What the recording lacks of such evidence, in words; empty if it has it."""
    needs = {
        TRACE: ("timeline", "gpu"),
        LOADER: ("timeline", "loader"),
        ROOFS: ("gpu", "shapes" if facts.program.framework == "pytorch" else "counters"),
        COUNTERS: ("counters",),
        MEMORY: ("memory",),
    }
    return facts.missing(needs[record])


PEAKS = "tracetui doctor --measure-peaks"
"""What measures the roofs of a GPU that is not in the table."""


def command_for(facts: Facts, record: str) -> str:
    """The command that records such evidence of this program."""
    again = hints.rerun(facts, *_OPTIONS[record])
    if again:
        return again
    framework = "pytorch" if facts.trace.info.kind == "memory_snapshot" else facts.program.framework
    return RECORDING[record].get(framework, RECORDING[record][""])
