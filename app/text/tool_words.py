"""The words for each kind of recording, one record per kind; `parsers/tool_registry.py` says how files are read.

Only data, so that the command line and the first paint need no Polars.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field


class ToolWords(Struct, frozen=True):
    """The words for one kind of recording, and the tab it opens on."""

    label: str
    """What it is."""
    short: str
    """The same in one word."""
    recording: str
    """What to call one of several recordings of a run, before its name."""
    ranges: str = "Ranges"
    """What its ranges are called in a title."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """What it may lack and how to record it, keyed by ``steps``, ``device``, ``modules``, ``ranges``, ``memory``."""
    advice: Mapping[str, str] = field(default_factory=dict)
    """How to record what an empty table lacks: by ``kernels``, ``operators``, ``host``, ``api``, ``ranges``,
    ``modules``."""
    first_tab: str = "overview"
    """The tab that opens first for a run whose main recording is of this kind."""
    own_sections: tuple[str, ...] = ()
    """The report sections that only this kind can fill if the run's main recording is from another tool."""
    no_overview: str = ""
    """What the Overview says about a recording without a time line."""
    no_timeline: str = "No event of this trace has a time: N lists what was skipped."
    """What the Timeline says if no event has a time."""
    says: bool = False
    """Whether what the file says in all (`TraceInfo.captured`) is what people open it for."""
    shorter: str = "record a shorter stretch"
    """How to record less, for kinds that can't be cut."""


TABLES = ("kernels", "operators", "host", "api", "ranges", "modules", "copies")
"""Tables that say what is missing if they are empty."""
_BOTH_SIDES = "profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
_NSYS = "nsys profile --trace=cuda,nvtx,osrt python train.py"
_ROCPROF = "rocprofv3 --runtime-trace --output-format rocpd -- python train.py"
_BESIDE = "Put a Chrome trace or an nsys export of the same program into the folder."
_AS_ONE_RUN = (
    "Put a Chrome trace or an nsys export of the same program beside it\n"
    "and open the folder: they are shown as one run."
)

WORDS: dict[str, ToolWords] = {
    "chrome": ToolWords(
        label="Chrome trace",
        short="Chrome",
        recording="Chrome trace",
        absent={
            "steps": "steps: the profiler's step() was not called, and no range tells them; --steps-by NAME takes one",
            "device": "GPU work: the trace holds none",
            "modules": "module names: record with with_stack=True (torch.profiler)",
            "memory": "memory use: record with profile_memory=True",
        },
        advice={
            "kernels": "Either nothing ran on a GPU, or GPU activity was not recorded: use\n"
            f"{_BOTH_SIDES}.\nHost time is in the Host tab (4).",
            "operators": "The profiler did not record the CPU side: use\n"
            f"{_BOTH_SIDES}.\nGPU kernels are in the Kernels tab (2).",
            "host": "The profiler did not record the CPU side: use\n"
            f"{_BOTH_SIDES[:-1]}, with_stack=True)\nto see Python functions and modules too.",
            "api": f"The GPU side was not recorded: use\n{_BOTH_SIDES}.",
            "ranges": 'Mark parts of the program with\ntorch.profiler.record_function("name").',
            "modules": "Record with profile(..., with_stack=True):\nKineto then writes the module calls.\n"
            "Operators are in the Operators tab (3).",
        },
    ),
    "jax": ToolWords(
        label="JAX trace",
        short="JAX",
        recording="JAX trace",
        absent={
            "steps": "steps: wrap each iteration in jax.profiler.StepTraceAnnotation; the whole file counts as one "
            "step",
            "device": "GPU work: the trace holds none",
        },
        advice={
            "kernels": "Either XLA ran on the host only, or jaxlib could not trace the GPU.\n"
            "Host time is in the Host tab (4).",
            "operators": "XLA's operations are read from its kernels, and no kernels ran.",
            "host": "jax.profiler.trace(folder) records them with host_tracer_level 2, its default.",
            "api": "jaxlib could not trace the GPU, or nothing ran on it.",
            "ranges": 'Mark parts of the program with\njax.profiler.TraceAnnotation("name").',
            "modules": "Compiled programs pass the names of jax.named_scope and of Flax modules on\n"
            "to the kernels they run: there are none in this trace.",
        },
    ),
    "nsys": ToolWords(
        label="Nsight Systems",
        short="nsys",
        recording="nsys recording",
        ranges="NVTX ranges",
        absent={
            "steps": "steps: no NVTX range around each iteration (torch.cuda.nvtx.range_push('step 3')), so the whole "
            "file counts as one step",
            "ranges": "NVTX ranges: the program pushed none, or nsys ran without --trace=nvtx",
            "device": "GPU work: nsys ran without --trace=cuda, or nothing ran on a GPU",
        },
        advice={
            "kernels": f"Either nothing ran on a GPU, or CUDA was not traced: record with\n{_NSYS}.\n"
            "Host time is in the Host tab (4).",
            "operators": "Nsight Systems does not record operators. PyTorch can write them as NVTX ranges:\n"
            "with torch.autograd.profiler.emit_nvtx(): ...\nRanges are in the Modules tab (5), GPU kernels in the "
            "Kernels tab (2).",
            "host": f"Neither CUDA nor the operating system's calls were traced: record with\n{_NSYS}.",
            "api": f"CUDA was not traced: record with\n{_NSYS}.",
            "ranges": 'Mark parts of the program with\ntorch.cuda.nvtx.range_push("name") ... range_pop(),\n'
            f"and record with\n{_NSYS}.",
            "modules": "Nsight Systems does not record modules, and there are no NVTX ranges in their place: use\n"
            'torch.cuda.nvtx.range_push("name") ... range_pop(),\n'
            f"and record with\n{_NSYS}.",
        },
        shorter="record a shorter stretch: nsys profile --capture-range, or tracetui profile with fewer --steps",
    ),
    "nvprof": ToolWords(
        label="nvprof",
        short="nvprof",
        recording="nvprof recording",
        ranges="NVTX ranges",
        absent={
            "steps": "steps: no NVTX range around each iteration, so the whole file counts as one step",
            "ranges": "NVTX ranges: the program pushed none",
            "device": "GPU work: nvprof wrote none, because no kernel ran in this process (it writes a file for each), "
            "or the program ended before CUDA did (cudaDeviceReset at its end), or profiling never began "
            "(--profile-from-start off)",
        },
        advice={
            "kernels": f"nvprof wrote no kernel into this file: it writes one for each process\n"
            f"(--profile-child-processes). GPUs from 2018 on need Nsight Systems: {_NSYS}.\n"
            "Host time is in the Host tab (4).",
            "operators": "nvprof does not record operators. GPU kernels are in the Kernels tab (2).",
            "host": "nvprof recorded no calls: --profile-api-trace none was given.",
            "api": "nvprof recorded no calls: --profile-api-trace none was given.",
            "ranges": 'Mark parts of the program with\ntorch.cuda.nvtx.range_push("name") ... range_pop().',
            "modules": "nvprof does not record modules, and there are no NVTX ranges in their place.",
        },
    ),
    "rocprof": ToolWords(
        label="rocprof",
        short="rocprof",
        recording="rocprof recording",
        ranges="roctx ranges",
        absent={
            "steps": "steps: no roctx range around each iteration, so the whole file counts as one step",
            "ranges": "roctx ranges: the program pushed none, or rocprofv3 ran without --marker-trace",
            "device": f"GPU work: nothing ran on a GPU, or it was not traced ({_ROCPROF})",
        },
        advice={
            "kernels": f"Either nothing ran on a GPU, or kernels were not traced: record with\n{_ROCPROF}.",
            "operators": "rocprof does not record operators. GPU kernels are in the Kernels tab (2).",
            "host": f"HIP's calls were not traced: record with\n{_ROCPROF}.",
            "api": f"HIP's calls were not traced: record with\n{_ROCPROF}.",
            "ranges": 'Mark parts of the program with\nroctxRangePush("name") ... roctxRangePop(),\n'
            f"and record with\n{_ROCPROF}.",
            "modules": "rocprof does not record modules, and there are no roctx ranges in their place.",
            "counters": "rocprofv3 counts what --pmc names, and a recording of it fills this tab:\n\n"
            "rocprofv3 --kernel-trace --pmc SQ_WAVES OccupancyPercent --output-format rocpd -- PROGRAM",
        },
    ),
    "trtexec": ToolWords(
        label="trtexec",
        short="trtexec",
        recording="trtexec export",
        advice=dict.fromkeys(
            TABLES, f"trtexec exports the layers of an engine and the times of inferences, nothing else.\n{_BESIDE}"
        ),
        says=True,
    ),
    "ncu": ToolWords(
        label="Nsight Compute",
        short="ncu",
        recording="ncu",
        advice=dict.fromkeys(TABLES, f"Nsight Compute records kernels, not what launched them.\n{_BESIDE}"),
        first_tab="counters",
        own_sections=("counters",),
        no_overview="Nsight Compute measures kernels one at a time:\n"
        "there is no time line, and there are no steps to sum up.\n\n"
        "Kernels (2) has their durations, Counters (6) shows what limits them.\n"
        f"{_AS_ONE_RUN}",
        no_timeline="Nsight Compute replays kernels one at a time: it records how long they take, not when they ran."
        f"\n\n{_BESIDE}",
        shorter="measure fewer kernels: ncu --launch-skip, --launch-count",
    ),
    "tegrastats": ToolWords(
        label="tegrastats",
        short="tegrastats",
        recording="log of tegrastats",
        advice=dict.fromkeys(TABLES, f"tegrastats samples the board, not the program.\n{_BESIDE}"),
        says=True,
        no_overview=f"Samples of the board, not of the program: load, clocks, power, temperatures.\n{_AS_ONE_RUN}",
        no_timeline=f"tegrastats samples the board, not the program.\n\n{_BESIDE}",
    ),
    "memory_snapshot": ToolWords(
        label="memory snapshot",
        short="memory",
        recording="memory snapshot",
        advice=dict.fromkeys(
            TABLES, f"A memory snapshot records allocations only: they are in the Memory tab (7).\n{_BESIDE}"
        ),
        first_tab="memory",
        own_sections=("memory",),
        no_overview=f"A memory snapshot holds allocations, not time spent.\n\nMemory (7) shows who holds what.\n"
        f"{_AS_ONE_RUN}",
        no_timeline=f"A memory snapshot holds allocations, not what ran.\n\n{_BESIDE}",
        shorter="record fewer steps",
    ),
}
"""By `TraceInfo.kind`, in the order of `parsers.tool_registry.TOOLS`."""
KINDS = tuple(WORDS)
