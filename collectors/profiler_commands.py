"""The commands that make up a profiled run, and the reason for each of their flags."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracetui.collectors import torchrun
from tracetui.collectors.request import TOOLS, ProfileError, ProfileRequest
from tracetui.parsers.runs.samples import FILE as SAMPLES

PROGRAM, SPEC = "child", "spec.{}.json"
MODELS = "tracetui_models"
"""The name of the models' package beside the child, since users have packages called ``models`` too."""
START = "start.py"
"""The script in the folder `PROGRAM` that the child's Python runs."""
PROGRESS = "progress.jsonl"
TRACE, LIGHT_TRACE = "trace.pt.trace.json.gz", "light.pt.trace.json.gz"
CAPTURE_TRACE, CAPTURE_TRACES = "capture.pt.trace.json.gz", "capture*.pt.trace.json.gz"
"""What the child's `profilers` and `light` write."""
RANK_TRACES = "rank*.pt.trace.json.gz"
"""What they write in a job of many ranks: ``rank0.pt.trace.json.gz``, ``rank0.light.pt.trace.json.gz``, …"""
NSYS_REPORT, NSYS_EXPORT = "nsys.nsys-rep", "nsys.sqlite"
NCU_REPORT, NCU_RAW, NCU_DETAILS = "ncu.ncu-rep", "ncu.csv", "ncu.details.csv"
NCU_SECTIONS = (
    "SpeedOfLight", "SpeedOfLight_RooflineChart", "SpeedOfLight_HierarchicalTensorRooflineChart", "LaunchStats",
    "Occupancy", "MemoryWorkloadAnalysis", "ComputeWorkloadAnalysis", "SchedulerStats", "WarpStateStats",
    "SourceCounters",
)  # fmt: skip
"""Sections, not single metrics: which metrics a section has differs from chip to chip, and ncu knows that.

SourceCounters tells uncoalesced accesses and bank conflicts. On an H200 it makes 29 passes of 27, and 33.6 s of 25.0 s
for 40 launches; MemoryWorkloadAnalysis_Tables, which tells nothing more that a rule needs, would make 34 and 60 s.
"""


@dataclass(frozen=True)
class Flag:
    """A word of a command, or two that belong together, and the reason for it."""

    words: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Command:
    """One program to run."""

    purpose: str
    """The purpose of the command, in a few words: "record with Nsight Systems"."""
    flags: tuple[Flag, ...]
    output: str | None = None
    """The file that receives its standard output; None for the log."""

    @property
    def words(self) -> tuple[str, ...]:
        """The command line."""
        return tuple(word for flag in self.flags for word in flag.words)


@dataclass(frozen=True)
class Phase:
    """The commands of one tool in a run, and the files they leave."""

    tool: str
    record: Command
    finish: tuple[Command, ...] = ()
    """Commands that turn the finished recording into a readable file."""
    leaves: tuple[str, ...] = ()
    """The recordings that the run's folder holds afterwards."""
    needs_kernels: bool = False
    """Whether the kernels to measure are known only from another tool's trace."""


def child_spec(request: ProfileRequest, tool: str, folder: Path, run_id: str) -> dict[str, Any]:
    """The spec for the child: the keys that `child.steps`, `child.profilers` and `child.script` read."""
    # nothing may load CUPTI before the clean steps; the child of the torch tool alone is sure of that
    timed = "torch" if "torch" in request.tools else request.tools[0]
    return {
        "run_id": run_id,
        "tool": tool,
        "out": str(folder),
        "progress": str(folder / PROGRESS),
        "registry": f"{MODELS}.registry",
        "entry": request.entry,
        "options": {**request.options, "device": request.device} if request.entry else {},
        "script": [request.python, *program_of(request)] if request.command and tool == "torch" else [],
        "ranked": ranked_options(request, tool) is not None,
        "device": request.device,
        "steps": 1 if tool == "ncu" else request.steps,
        "warmup": request.warmup,
        "profiler_warmup": 1,
        "clean_steps": request.clean_steps if tool == timed else 0,
        "light_steps": request.light_steps if tool == "torch" else 0,
        "sample_seconds": request.sample_seconds if tool == "torch" and request.window is None else 0,
        "sampler_pid": os.getpid(),
        "with_stack": request.with_stack,
        "with_memory": request.with_memory,
        "memory_entries": request.memory_entries,
        "window": request.window,
    }


def ranked_options(request: ProfileRequest, tool: str) -> tuple[str, ...] | None:
    """The options of torchrun, where it starts the profiled processes; None where there is one process.

    Raises:
        ProfileError: torchrun is asked for something that can't be recorded.
    """
    if request.ranks > 1:
        return ("--standalone", f"--nproc-per-node={request.ranks}")
    ranked = torchrun.ranked(request.command) if tool == "torch" else None
    return None if ranked is None else ranked.options


def program_of(request: ProfileRequest) -> tuple[str, ...]:
    """The user's own program as Python takes it, a script or ``-m`` and a module, and its arguments."""
    ranked = torchrun.ranked(request.command)
    own = torchrun.python_options(request.command)
    return request.command[1 + len(own) :] if ranked is None else ranked.program


def make_phase(
    request: ProfileRequest, tool: str, folder: Path, programs: dict[str, str], kernels: KernelChoice | None = None
) -> Phase:
    """The commands of one tool.

    Args:
        request: what the user asked for.
        tool: one of `TOOLS`.
        folder: where the run is written.
        programs: the paths of ``nsys`` and ``ncu``, by name.
        kernels: what ncu is to measure; None if that is not known yet, or if it measures every kernel.

    Raises:
        ProfileError: the tool can't record this request.
    """
    if tool not in TOOLS:
        raise ProfileError(f"no tool {tool!r}; there are {', '.join(TOOLS)} and all")
    if tool == "nsys":
        return _nsys(request, folder, programs)
    if tool == "ncu":
        return _ncu(request, folder, programs, kernels)
    if tool == "memory" and request.command:
        raise ProfileError(
            "--tool memory needs a model of tracetui's; in a program of your own call "
            "torch.cuda.memory._record_memory_history() and _dump_snapshot(PATH)"
        )
    what = "torch.profiler" if tool == "torch" else "the CUDA allocator's history"
    leaves: tuple[str, ...] = (TRACE,) if tool == "torch" else ("memory.pickle",)
    if tool == "torch" and ranked_options(request, tool) is not None:
        leaves = (RANK_TRACES,)
    elif tool == "torch" and _makes_light_pass(request):
        leaves += (LIGHT_TRACE,)
    return Phase(tool, Command(f"record with {what}", _child(request, tool, folder)), leaves=leaves)


def _makes_light_pass(request: ProfileRequest) -> bool:
    return bool(request.light_steps and request.device != "cpu" and request.window is None)


def plan(request: ProfileRequest, tool: str) -> str:
    """What the child does under one tool, in order and in words."""
    if request.window is not None:
        delay, length = request.window
        return f"it records {length:g} s, {delay:g} s after torch was imported; there are no clean steps to time"
    parts = [f"{request.warmup} steps to warm up"]
    if clean := child_spec(request, tool, Path(), "")["clean_steps"]:
        parts.append(f"{clean} timed without a profiler (clean)")
    if tool == "torch":
        if request.sample_seconds and clean:
            parts.append(f"{request.sample_seconds:g} s at most sampled from outside by py-spy ({SAMPLES})")
        if _makes_light_pass(request):
            parts.append(f"{request.light_steps} recorded lightly, GPU work and API calls alone ({LIGHT_TRACE})")
        more = [name for name, on in (("modules", request.with_stack), ("allocations", request.with_memory)) if on]
        parts.append(f"{request.steps} recorded with {', '.join(['operators', 'shapes', *more])} ({TRACE})")
        if request.options.get("cuda_graphs"):
            parts.append(f"one that captures its CUDA graph anew ({CAPTURE_TRACE})")
    else:
        parts.append(f"{request.steps if tool != 'ncu' else 1} recorded")
    return ", then ".join(parts)


def _child(request: ProfileRequest, tool: str, folder: Path) -> tuple[Flag, ...]:
    options, own = ranked_options(request, tool), torchrun.python_options(request.command)
    many: tuple[Flag, ...] = ()
    if options is not None:
        many = (
            Flag(("-m", torchrun.MODULE), "torchrun, which starts a process for each rank"),
            Flag(options, "what it is to do: as you gave it" if request.command else "the ranks of --ranks, here"),
        )
    return (
        Flag((request.python,), "the Python that has torch and the model (--python)"),
        *((Flag(own, "its own options, as you gave them"),) if own else ()),
        Flag(("-u",), "what it prints is in the log even if it is killed"),
        *many,
        Flag((str(folder / PROGRAM / START),), "tracetui's program for the profiled Python, copied into the folder"),
        Flag((str(folder / PROGRAM / SPEC.format(tool)),), f"what it shall do: {plan(request, tool)}"),
    )


def _program(request: ProfileRequest, tool: str, folder: Path) -> tuple[Flag, ...]:
    """The command that nsys and ncu run: the child for a model, or the user's own program unchanged."""
    if request.command:
        return (Flag(request.command, "your program"),)
    return _child(request, tool, folder)


def _nsys(request: ProfileRequest, folder: Path, programs: dict[str, str]) -> Phase:
    flags = [
        Flag((programs["nsys"], "profile"), "Nsight Systems"),
        Flag(("--trace=cuda,nvtx",), "kernels, copies, CUDA calls and ranges; more slows short steps down"),
        Flag(("--sample=none", "--cpuctxsw=none"), "no sampling of the CPU: it needs rights and costs time"),
        Flag(("--cuda-graph-trace=node",), "the kernels inside CUDA graphs, one by one"),
    ]
    if not request.command:
        flags.append(
            Flag(
                ("--capture-range=cudaProfilerApi", "--capture-range-end=stop"),
                "only the profiled steps: the program starts and stops the capture",
            )
        )
    flags += [
        Flag(("--force-overwrite=true",), "an earlier report in the folder is replaced"),
        Flag((f"--output={folder / NSYS_REPORT}",), "where the report goes"),
        *_program(request, "nsys", folder),
    ]
    export = Command(
        "export the report so that tracetui can read it",
        (
            Flag((programs["nsys"], "export"), "Nsight Systems"),
            Flag(("--type=sqlite", "--force-overwrite=true"), "the form that can be read without NVIDIA's programs"),
            Flag((f"--output={folder / NSYS_EXPORT}",), "beside the report"),
            Flag((str(folder / NSYS_REPORT),), "the report"),
        ),
    )
    record = Command("record with Nsight Systems", tuple(flags))
    return Phase("nsys", record, (export,), (NSYS_EXPORT, NSYS_REPORT))


@dataclass(frozen=True)
class KernelChoice:
    """The kernels that ncu measures."""

    functions: tuple[str, ...]
    """The kernels' base names, by which ncu selects kernels by default."""
    launches: int
    """How many matching launches it takes until each kernel has been seen."""
    share_percent: float
    """The share of these kernels in the GPU's kernel time, in the trace from which they were chosen."""

    @property
    def pattern(self) -> str:
        """A regular expression that matches exactly these names."""
        return f"^({'|'.join(map(re.escape, self.functions))})$"


def _ncu(request: ProfileRequest, folder: Path, programs: dict[str, str], kernels: KernelChoice | None) -> Phase:
    launches = request.ncu_launches if kernels is None else min(kernels.launches, request.ncu_launches)
    flags = [
        Flag((programs["ncu"],), "Nsight Compute"),
        Flag(("--target-processes", "all"), "the program may start others"),
        Flag(("--clock-control", "none"), "the clocks of the real run: by default ncu locks them lower"),
        Flag(
            tuple(word for section in NCU_SECTIONS for word in ("--section", section)),
            "what the Counters tab shows and the roofline needs; --set full would take several times as long",
        ),
        Flag(("--nvtx",), "which range each launch was in"),
        Flag(("--launch-count", str(launches)), "each launch is replayed some dozen times"),
    ]
    if not request.command:
        flags.append(Flag(("--profile-from-start", "off"), "only the profiled steps"))
    if kernels is not None:
        why = f"the kernels that make {kernels.share_percent:.1f} % of the kernel time in the first trace"
        flags.append(Flag(("--kernel-name", f"regex:{kernels.pattern}"), why))
    flags += [
        Flag(("--force-overwrite", "--export", str(folder / NCU_REPORT)), "the report, whole"),
        *_program(request, "ncu", folder),
    ]
    pages = tuple(
        Command(
            f"print its {page} page so that tracetui can read it",
            (
                Flag((programs["ncu"], "--import", str(folder / NCU_REPORT)), "the report"),
                Flag(("--csv", "--page", page), "all metrics" if page == "raw" else "the rules"),
            ),
            output=name,
        )
        for page, name in (("raw", NCU_RAW), ("details", NCU_DETAILS))
    )
    record = Command("measure kernels one by one with Nsight Compute", tuple(flags))
    return Phase("ncu", record, pages, (NCU_RAW, NCU_DETAILS, NCU_REPORT), needs_kernels=not request.command)


def needed_programs(tools: Sequence[str]) -> tuple[str, ...]:
    """The tools that are NVIDIA's programs."""
    return tuple(tool for tool in tools if tool in ("nsys", "ncu"))
