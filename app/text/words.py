"""What things are called wherever a person reads them: on the screen and in every report."""

from __future__ import annotations

CATEGORY_LABELS = {
    "kernel": "kernels",
    "communication": "communication",
    "memcpy": "memcpy",
    "memset": "memset",
    "runtime": "runtime",
    "dataloader": "data loader",
    "cpu_exec": "CPU exec",
    "other": "other",
}
"""The categories of step time, as torch-tb-profiler calls them."""

SEVERITY_SIGNS = {"invalid": "x", "critical": "!", "warning": "~", "info": "i"}
"""How findings are marked, worst first."""

KIND_NAMES = {
    "chrome": "Chrome trace",
    "jax": "JAX trace",
    "nsys": "Nsight Systems",
    "ncu": "Nsight Compute",
    "memory_snapshot": "memory snapshot",
}
"""What a recording is, by `TraceInfo.kind`."""

SHORT_KINDS = {"chrome": "Chrome", "jax": "JAX", "nsys": "nsys", "ncu": "ncu", "memory_snapshot": "memory"}
"""The same in a word."""

_IN_CHROME = {
    "steps": "steps: the profiler's step() was not called, so the whole file counts as one step",
    "device": "GPU work: the trace holds host events only",
    "modules": "module names: record with with_stack=True (torch.profiler)",
    "memory": "memory use: record with profile_memory=True",
}
ABSENT: dict[str, dict[str, str]] = {
    "chrome": _IN_CHROME,
    "jax": {
        "steps": "steps: wrap each iteration in jax.profiler.StepTraceAnnotation; the whole file counts as one step",
        "device": "GPU work: the trace holds host events only",
    },
    "nsys": {
        "steps": "steps: no NVTX range around each iteration (torch.cuda.nvtx.range_push('step 3')), so the whole file "
        "counts as one step",
        "ranges": "NVTX ranges: the program pushed none, or nsys ran without --trace=nvtx",
        "device": "GPU work: nsys ran without --trace=cuda, or nothing ran on a GPU",
    },
}
"""What a recording lacks and how to record it, by `TraceInfo.kind` and by what is absent."""

_NOTHING = {
    "kernels": "No GPU kernels in this trace.",
    "operators": "No operators in this trace.",
    "host": "No host events in this trace.",
    "api": "No CUDA API calls in this trace.",
    "ranges": "No ranges in this trace.",
    "modules": "No nn.Module calls in this trace.",
}
_BOTH_SIDES = "profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
_NSYS = "nsys profile --trace=cuda,nvtx,osrt python train.py"
_BESIDE = "Put a Chrome trace or an nsys export of the same program into the folder."
_HOW_TO_RECORD = {
    "chrome": {
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
    "jax": {
        "kernels": "Either XLA ran on the host only, or jaxlib could not trace the GPU.\n"
        "Host time is in the Host tab (4).",
        "operators": "XLA's operations stand on its kernels: none ran.",
        "host": "jax.profiler.trace(folder) records them with host_tracer_level 2, its default.",
        "api": "jaxlib could not trace the GPU, or nothing ran on it.",
        "ranges": 'Mark parts of the program with\njax.profiler.TraceAnnotation("name").',
        "modules": "Compiled programs carry the names of jax.named_scope and of Flax modules\n"
        "with the kernels they run: there are none.",
    },
    "nsys": {
        "kernels": f"Either nothing ran on a GPU, or CUDA was not traced: record with\n{_NSYS}.\n"
        "Host time is in the Host tab (4).",
        "operators": "Nsight Systems does not know operators. PyTorch can write them as NVTX ranges:\n"
        "with torch.autograd.profiler.emit_nvtx(): ...\nRanges are in the Modules tab (5), GPU kernels in the Kernels "
        "tab (2).",
        "host": f"Neither CUDA nor the operating system's calls were traced: record with\n{_NSYS}.",
        "api": f"CUDA was not traced: record with\n{_NSYS}.",
        "ranges": 'Mark parts of the program with\ntorch.cuda.nvtx.range_push("name") ... range_pop(),\n'
        f"and record with\n{_NSYS}.",
        "modules": "Nsight Systems does not know them, and no NVTX ranges stand for them: use\n"
        'torch.cuda.nvtx.range_push("name") ... range_pop(),\n'
        f"and record with\n{_NSYS}.",
    },
    "ncu": dict.fromkeys(_NOTHING, f"Nsight Compute records kernels, not what launched them.\n{_BESIDE}"),
    "memory_snapshot": dict.fromkeys(
        _NOTHING, f"A memory snapshot records allocations only: they are in the Memory tab (7).\n{_BESIDE}"
    ),
}


def nothing(what: str, kind: str) -> str:
    """What an empty table says: what is not there, and how the tool that wrote the recording records it.

    Args:
        what: ``kernels``, ``operators``, ``host``, ``api``, ``ranges`` or ``modules``.
        kind: `TraceInfo.kind`.
    """
    advice = _HOW_TO_RECORD.get(kind, _HOW_TO_RECORD["chrome"])
    return f"{_NOTHING[what]}\n\n{advice[what]}"


GROUP_WORDS = {"class": "module class", "shape": "launch shape", "input_shapes": "input shapes"}


def group_words(by: str) -> str:
    """What kernels are grouped by, as a title says it."""
    return GROUP_WORDS.get(by, by)
