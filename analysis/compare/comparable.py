"""Whether two runs may be compared: what their manifests, their headers and the work of a step say differs."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator, Mapping
from typing import Annotated

import polars as pl
from msgspec import Meta, Struct

from tracetui.analysis.captures.observed_batch import BatchSeen, batch_in_shapes
from tracetui.analysis.roofline.counters import precision_words
from tracetui.analysis.roofline.peaks import SM_CLOCK
from tracetui.analysis.selection import in_steps, select
from tracetui.analysis.side_by_side import together
from tracetui.parsers import Trace
from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.kernel_names import short_name
from tracetui.parsers.names.kernel_types import FLOATING, KINETO_TYPES, type_in_name
from tracetui.parsers.runs.manifest import Device, GpuState, Modes, PowerState, RunManifest
from tracetui.parsers.tool_registry import OF_BOARD

OTHER_WORK = "other_work"
"""The verdict on runs whose steps hold other work."""
NEVER_EQUAL = frozenset({"trace_id", "host_name", "schemaVersion", "export schema", "page"})
"""Header entries that differ in every recording, or that say nothing about its times."""
FLAGS = frozenset({"record_shapes", "with_stack", "profile_memory", "with_flops", "with_modules"})
"""Settings of torch.profiler that slow the host down; it writes only those that are on."""
CONDITIONS = FLAGS | {
    "traced", "capture starts", "CUDA graph trace", "GPU memory usage", "platform", "architecture", "CPU", "CPU cores",
    "hardware platform",
}  # fmt: skip
"""Header entries that times depend on even for the same code: how nsys recorded, and on what machine."""
VERSIONS = frozenset({"NVIDIA driver", "CUDA driver", "cuda_runtime_version", "cuda_driver_version", "cupti_version"})
"""Header entries that may be the very change that is being compared."""
IN_MANIFEST = FLAGS | VERSIONS
"""Header entries that run.json has too."""


def comparable(
    a: Trace, b: Trace, *, manifests: tuple[RunManifest | None, RunManifest | None] = (None, None)
) -> Comparable:
    """Returns the verdict and every difference.

    Args:
        a: the base.
        b: what is compared with it.
        manifests: their runs' run.json, where they have one.

    Returns:
        The verdict is ``not_comparable`` if any difference matters (another GPU, power mode, clock, tool, profiler
        setting, …): times then prove nothing about the code. Otherwise it is ``other_work`` if a step of one holds
        other work than a step of the other (batch, size of a sample), so that times per step can't be judged. Otherwise
        it is ``explained`` if somebody chose any difference (type, options, code, versions): that is what the
        comparison is about. It is ``comparable`` if nothing of this is so.
    """
    found = [*_of_traces(a, b), *(counter_differences(a, b) or work_differences(a, b, manifests))]
    both = manifests[0] is not None and manifests[1] is not None
    if manifests[0] is not None and manifests[1] is not None:
        found += run_differences(manifests[0], manifests[1])
    found += _of_headers(a, b, skip=IN_MANIFEST if both else frozenset())
    if not both or all(m is not None and m.workload.dtype is None for m in manifests):
        found += _pair("dtype", element_type(a), element_type(b), intended=True)
    seen: dict[str, Difference] = {}
    for row in found:
        seen.setdefault(row.field, row)
    rows = sorted(seen.values(), key=lambda row: (not row.matters, not row.work, not row.intended))
    return Comparable(verdict_of(rows), rows)


def verdict_of(rows: list[Difference]) -> str:
    """``not_comparable``, ``other_work``, ``explained`` or ``comparable``."""
    if any(row.matters for row in rows):
        return "not_comparable"
    if any(row.work for row in rows):
        return OTHER_WORK
    return "explained" if any(row.intended for row in rows) else "comparable"


def _of_traces(a: Trace, b: Trace) -> Iterator[Difference]:
    """Differences between the recordings themselves."""
    yield from _pair("tool", a.info.tool, b.info.tool, matters=True)
    # a recording that does not say how many ranks there were counts as one rank
    if (a.info.world_size or 1) != (b.info.world_size or 1):
        yield Difference("world_size", a.info.world_size, b.info.world_size, matters=True)
    yield from _pair("gpu", _gpus(a, "name"), _gpus(b, "name"), matters=True)
    yield from _pair("SMs", _gpus(a, "sm_count"), _gpus(b, "sm_count"), matters=True)
    marked = a.steps.height, b.steps.height
    if a.has_timeline and b.has_timeline and marked[0] != marked[1]:
        # without steps the numbers are of the whole file, and those of the other are per step
        yield Difference("steps", *marked, matters=0 in marked)


def _gpus(trace: Trace, what: str) -> list[object] | None:
    """A property of each GPU that did work (of all, where none did); None where one is unknown."""
    used = set(trace.device["device"].drop_nulls().unique().to_list())
    devices = [device for device in trace.info.devices if device.id in used] or trace.info.devices
    found = [getattr(device, what) for device in devices]
    return None if not found or None in found else found


def _of_headers(a: Trace, b: Trace, *, skip: frozenset[str]) -> Iterator[Difference]:
    left, right = ({n: said for n, said in t.info.captured if not n.endswith(OF_BOARD)} for t in (a, b))
    # what the files of one tool never record is no difference between the runs
    fields = left.keys() | right.keys() if a.info.tool == b.info.tool else left.keys() & right.keys()
    for field in sorted(fields - NEVER_EQUAL - skip):
        if (ours := _setting(left, field)) != (theirs := _setting(right, field)):
            known = None not in (ours, theirs)
            yield Difference(field, ours, theirs, known and field in CONDITIONS, known and field in VERSIONS)


def _setting(captured: Mapping[str, str], field: str) -> str | None:
    """The value of a header entry; a flag that is missing is off, if the header has other flags."""
    if field in FLAGS and field not in captured and FLAGS & captured.keys():
        return "0"
    return captured.get(field)


MULTIPLYING = (
    "aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::convolution", "aten::_convolution", "aten::linear",
)  # fmt: skip
"""Operators whose first input tells what is multiplied. The operators that these call are left out, or they would count
twice."""
LEAST_KNOWN = 0.5
"""Many names tell no type: if less than this share of the time has one, the type of the run is unknown."""


def element_type(trace: Trace) -> str | None:
    """``fp32``, ``tf32``, ``fp16``, ``bf16``, ``fp64`` or ``fp8``; None where neither operators nor kernels tell.

    Operators: the type of the first input of most multiplications (that TF32 was allowed does not show there).
    Kernels: the type in the names of matrix, convolution, attention and scan kernels, by their time.
    """
    return _of_operators(trace) or _of_kernels(trace)


def _of_operators(trace: Trace) -> str | None:
    called = (
        trace.host.filter(pl.col("kind") == "operator")
        .filter(pl.col("name").cast(pl.String).is_in(MULTIPLYING) & pl.col("input_types").is_not_null())
        .group_by(pl.col("input_types").cast(pl.String))
        .len()
    )
    count: dict[str, int] = {}
    for text, many in called.iter_rows():
        if (found := _first_type(text)) is not None:
            count[found] = count.get(found, 0) + many
    return max(count, key=lambda name: (count[name], name)) if count else None


def _first_type(text: str) -> str | None:
    """The first element type in an operator's list of inputs (addmm's bias has the type of what is multiplied)."""
    try:
        inputs = json.loads(text)
    except ValueError:
        return None
    known = (KINETO_TYPES[name][0] for name in inputs if isinstance(name, str) and name in KINETO_TYPES)
    return next((name for name in known if name in FLOATING), None) if isinstance(inputs, list) else None


def _of_kernels(trace: Trace) -> str | None:
    spent = (
        trace.device.filter(pl.col("kind") == "kernel")
        .group_by(pl.col("name").cast(pl.String))
        .agg(pl.col("duration").sum())
    )
    time: dict[str | None, int] = {}
    for name, ns in spent.iter_rows():
        if kernel_names.category(name) in ("gemm", "conv", "attention", "scan"):
            found = type_in_name(name)
            time[found] = time.get(found, 0) + ns
    whole = sum(time.values())
    told = {sort: ns for sort, ns in time.items() if sort is not None}
    if not told or sum(told.values()) < LEAST_KNOWN * whole:
        return None
    return max(told, key=lambda sort: (told[sort], sort))


MOST = 3
"""How many kernels are named at most."""


def counter_differences(a: Trace, b: Trace) -> list[Difference]:
    """Every difference between two reports; empty where either is of another tool."""
    if not a.info.kind == b.info.kind == "ncu":
        return []
    types = precision_words(a), precision_words(b)
    found = list(_pair("dtype", *types, intended=True))
    # another type takes other kernels for the same work
    chosen = bool(found) and not any("," in str(words) for words in types)
    found += _clocks("SM clock of the measurement, Hz", _mean_clock(a), _mean_clock(b))
    return [*found, *_launches(a, b, work=not chosen)]


def _clocks(field: str, ours: float | None, theirs: float | None) -> Iterator[Difference]:
    """Two clocks in Hz, if they differ enough to change times."""
    if ours and theirs and abs(theirs / ours - 1) > CLOCK_TOLERANCE_PERCENT / 100:
        yield Difference(field, round(ours), round(theirs), matters=True)


def _mean_clock(trace: Trace) -> float | None:
    """The mean clock of the SMs over the launches, at which ncu measured; None where it was not collected."""
    rows = trace.counters.select(pl.col("metric").cast(pl.String), "value").drop_nulls("value")
    rows = rows.filter(pl.col("metric").is_in([*SM_CLOCK, "SM Frequency"]))
    if not rows.height:
        return None
    # one metric of the file, so that launches count alike
    mine = rows.filter(pl.col("metric") == rows["metric"][0])["value"]
    return float(mine.sum()) / mine.len()


def _launches(a: Trace, b: Trace, *, work: bool) -> Iterator[Difference]:
    """How many launches of which kernels, and of what size those of both are.

    Args:
        a: the base.
        b: what is compared with it.
        work: whether other kernels mean other work.
    """
    both = together(
        (run, trace.device.filter(pl.col("kind") == "kernel").select(
            pl.col("name").cast(pl.String), "grid", "block", ns="duration"
        ))
        for run, trace in enumerate((a, b))
    ).rename({"identity": "kernel"})  # fmt: skip
    ours, theirs = (both.filter(pl.col("run") == run) for run in range(2))
    if ours.height != theirs.height:
        yield Difference("profiled launches", ours.height, theirs.height, work=work)
    mine, its = (set(rows["kernel"]) for rows in (ours, theirs))
    if mine != its:
        yield Difference("kernels", _only(ours, mine - its, "B"), _only(theirs, its - mine, "A"), work=work)
    apart = [
        (kernel, left, right)
        for kernel in dict.fromkeys(ours.sort("ns", descending=True, nulls_last=True)["kernel"])
        if kernel in its and (left := _sizes(ours, kernel)) != (right := _sizes(theirs, kernel))
    ]
    for kernel, left, right in apart[:MOST]:
        name = short_name(str(ours.filter(pl.col("kernel") == kernel)["name"][0]))
        yield Difference(f"grid x block of {name}", left, right, work=True)
    if len(apart) > MOST:
        more = f"{len(apart) - MOST} more kernels"
        yield Difference("grid x block", f"of {more}", "otherwise", work=True)


def _only(rows: pl.DataFrame, kernels: set[str], other: str) -> str:
    """Names the kernels that only one report has, the longest first: ``4 not in B: a, b, c and 1 more``."""
    spent = rows.filter(pl.col("kernel").is_in(list(kernels))).group_by("kernel").agg(
        pl.col("ns").sum(), pl.col("name").first()
    )  # fmt: skip
    names = [short_name(str(name)) for name in spent.sort("ns", "name", descending=[True, False])["name"]]
    if not names:
        return f"all in {other} too"
    rest = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return f"{len(names)} not in {other}: {', '.join(names[:MOST])}{rest}"


def _sizes(rows: pl.DataFrame, kernel: str) -> str:
    """Grid and block of a kernel's launches, each with how often: ``96x2x1 x 128x1x1 (3)``."""
    sizes = rows.filter(pl.col("kernel") == kernel).group_by("grid", "block", maintain_order=True).len()
    found = sorted(f"{_words(grid)} x {_words(block)} ({many})" for grid, block, many in sizes.iter_rows())
    return ", ".join(found[:MOST]) + (f" and {len(found) - MOST} more" if len(found) > MOST else "")


def _words(size: list[int] | None) -> str:
    return "unknown" if size is None else "x".join(map(str, size))


CLOCK_TOLERANCE_PERCENT = 5.0
"""Clocks that differ by less do not change step times noticeably."""
CLOCK = "SM clock during the run, Hz"
"""What was measured, not set."""
MAY_VARY = frozenset({CLOCK, "seed"})
"""In what repeats of one configuration may differ."""
LEAST_SAMPLES = 3
"""Fewer samples under load are too few to tell the clock during a run."""
SOFTWARE = (
    "torch", "torch_git", "cuda_runtime", "cudnn", "triton", "mamba_ssm", "causal_conv1d", "timm", "driver",
    "cuda_driver", "l4t", "jetpack",
)  # fmt: skip
"""Versions that may be the very change that is being compared."""
SERIALISING = frozenset({"CUDA_LAUNCH_BLOCKING"})
"""Environment variables that change what times mean."""
OF_A_TYPE = ("autocast", "tf32_matmul", "tf32_cudnn")
"""Settings that choose an element type: where the type differs, they are not listed as differences of their own."""
NOT_CHOSEN = frozenset({"gc_thresholds", "gc_frozen", "launch_blocking"})
"""Modes that vary by themselves or that `environment` has."""
OF_ITS_OWN = frozenset({"batch", "dtype", "device", "workers", "seed", "data", "train", "compile"})
"""Options that `Workload` has a field for."""


class Difference(Struct, frozen=True):
    """One thing in which two runs differ; null where a run does not say."""

    field: str
    a: object
    b: object
    matters: bool = False
    """Whether times depend on it even for the same code."""
    intended: bool = False
    """Whether somebody chose it: it may be the very change that is being compared."""
    work: bool = False
    """Whether a step of one run holds other work than a step of the other."""

    @property
    def role(self) -> str:
        """What it means for a comparison: ``matters``, else ``work``, else ``intended``, else nothing."""
        return next((name for name in ("matters", "work", "intended") if getattr(self, name)), "")


class Comparable(Struct, frozen=True):
    """Whether two runs may be compared."""

    verdict: Annotated[str, Meta(description="comparable, explained, other_work or not_comparable")]
    differences: list[Difference]
    """Those that matter first."""


def run_differences(a: RunManifest, b: RunManifest) -> list[Difference]:
    """Returns every difference; a value that either manifest lacks is not one."""
    return [*_machine(a, b), *_measured(a, b), *_meant(a, b), *_noted(a, b)]


def _pair(field: str, a: object, b: object, *, matters: bool = False, intended: bool = False) -> Iterator[Difference]:
    if a != b and a is not None and b is not None:
        yield Difference(field, a, b, matters, intended)


def _conditions(fields: Mapping[str, str], a: object | None, b: object | None) -> Iterator[Difference]:
    """Properties by what they are called, on which times depend; none where a run lacks what has them."""
    for field, name in fields.items() if a is not None and b is not None else ():
        yield from _pair(field, getattr(a, name), getattr(b, name), matters=True)


OF_DEVICE = {
    "gpu": "name", "SMs": "sm_count", "board": "board", "module": "module_id", "MIG": "mig", "ECC": "ecc",
    "compute mode": "compute_mode",
}  # fmt: skip
OF_MEMORY = {"memory clock cap (EMC), Hz": "cap_hz"}
OF_CPU = {"CPU clock cap, Hz": "max_clock_hz", "CPU cores": "online", "CPU governor": "governor"}
OF_GPU = {
    "TPC mask": "tpc_pg_mask",
    "SM clock cap, Hz": "max_clock_hz",
    "SM clock floor, Hz": "min_clock_hz",
    "applications clock, Hz": "applications_clock_hz",
    "memory applications clock, Hz": "applications_memory_clock_hz",
    "GPU governor": "governor",
    "power limit, mW": "power_limit_mw",
}


def _machine(a: RunManifest, b: RunManifest) -> Iterator[Difference]:
    """Differences in the GPU and its limits."""
    yield from _pair("device", _sort(a), _sort(b), matters=True)
    yield from _conditions(OF_DEVICE, _device(a), _device(b))
    ours, theirs = a.power.before, b.power.before
    if ours is not None and theirs is not None:
        yield from _pair("power mode", _mode(ours), _mode(theirs), matters=True)
        yield from _pair("jetson_clocks", ours.jetson_clocks, theirs.jetson_clocks, matters=True)
        yield from _conditions(OF_MEMORY, ours.emc, theirs.emc)
        yield from _conditions(OF_CPU, ours.cpu, theirs.cpu)
        yield from _conditions(OF_GPU, _gpu(a, ours), _gpu(b, theirs))
    yield from _clocks(CLOCK, _locked_clock(a), _locked_clock(b))


def _mode(state: PowerState) -> str | None:
    if state.mode_id is None and state.mode_name is None:
        return None
    return " ".join(str(part) for part in (state.mode_id, state.mode_name) if part is not None)


def _sort(run: RunManifest) -> str | None:
    """``cuda`` or ``cpu``; which of several equal GPUs it was does not matter."""
    return run.workload.device.partition(":")[0] if run.workload.device else None


def _index(run: RunManifest) -> int:
    found = re.fullmatch(r"cuda:(\d+)", run.workload.device or "")
    return int(found[1]) if found else 0


def _device(run: RunManifest) -> Device | None:
    if _sort(run) == "cpu" or not run.device:
        return None
    return next((device for device in run.device if device.index == _index(run)), run.device[0])


def _gpu(run: RunManifest, state: PowerState) -> GpuState | None:
    if _sort(run) == "cpu" or not state.gpus:
        return None
    return next((gpu for gpu in state.gpus if gpu.index == _index(run)), state.gpus[0])


def _locked_clock(run: RunManifest) -> int | None:
    """The median SM clock of samples in which the GPU had work."""
    states = [gpu for sample in run.power.during if (gpu := _gpu(run, sample)) is not None]
    clocks = [gpu.clock_hz for gpu in states if gpu.clock_hz and (gpu.load_percent is None or gpu.load_percent >= 1)]
    return int(statistics.median(clocks)) if len(clocks) >= LEAST_SAMPLES else None


def _measured(a: RunManifest, b: RunManifest) -> Iterator[Difference]:
    """Differences in how the runs were measured."""
    flags = a.measurement.flags, b.measurement.flags
    for flag in sorted(flags[0].keys() & flags[1].keys()):
        yield from _pair(flag, flags[0][flag], flags[1][flag], matters=True)
    # the backend depends on what is installed: nobody asked for the slow one
    chosen = "backend" in a.workload.options or "backend" in b.workload.options
    yield from _pair("backend", a.workload.backend, b.workload.backend, matters=not chosen, intended=chosen)
    on_cpu = _sort(a) == _sort(b) == "cpu"
    yield from _pair("CPU threads of torch", a.workload.threads, b.workload.threads, matters=on_cpu)
    for name in sorted(a.workload.environment.keys() | b.workload.environment.keys()):
        left, right = a.workload.environment.get(name), b.workload.environment.get(name)
        if left != right and name != "CUDA_VISIBLE_DEVICES":
            serial = name in SERIALISING
            yield Difference(name, left, right, matters=serial, intended=not serial)
    if a.workload.requested_batch == b.workload.requested_batch:
        yield from _pair("batch really seen", a.workload.batch, b.workload.batch, matters=True)


def _meant(a: RunManifest, b: RunManifest) -> Iterator[Difference]:
    """Differences that somebody chose."""
    ours, theirs = a.workload, b.workload
    for field in (
        "model", "dtype", "autocast", "tf32_matmul", "tf32_cudnn", "cudnn_benchmark", "deterministic", "train",
        "grad_enabled", "data", "workers", "seed",
    ):  # fmt: skip
        implied = field in OF_A_TYPE and None not in (ours.dtype, theirs.dtype) and ours.dtype != theirs.dtype
        yield from _pair(field, getattr(ours, field), getattr(theirs, field), intended=not implied)
    for mode in Modes.__struct_fields__:
        if mode not in NOT_CHOSEN:
            yield from _pair(mode, getattr(ours.modes, mode), getattr(theirs.modes, mode), intended=True)
    if (ours.compile or None) != (theirs.compile or None):
        yield Difference("compile", ours.compile, theirs.compile, intended=True)
    # a run that lists no option did not record them
    for name in sorted(ours.options.keys() | theirs.options.keys()) if ours.options and theirs.options else ():
        if name not in OF_ITS_OWN and ours.options.get(name) != theirs.options.get(name):
            yield Difference(name, ours.options.get(name), theirs.options.get(name), intended=True)
    if ours.backend == theirs.backend == "user" and a.measurement.commands and b.measurement.commands:
        yield from _pair("command", _program(a), _program(b), intended=True)
    yield from _pair("code", a.identity.git_sha, b.identity.git_sha, intended=True)
    if a.identity.git_sha == b.identity.git_sha and a.identity.git_diff_sha256 != b.identity.git_diff_sha256:
        yield Difference("uncommitted changes", a.identity.git_diff_sha256, b.identity.git_diff_sha256, intended=True)
    for name in SOFTWARE:
        yield from _pair(name, getattr(a.software, name), getattr(b.software, name), intended=True)


def _program(run: RunManifest) -> str:
    """The user's command, without what `tracetui profile` was told before it: where to write, how many steps."""
    command = run.identity.command
    return " ".join(command[command.index("--") + 1 :] if "--" in command else command)


def _noted(a: RunManifest, b: RunManifest) -> Iterator[Difference]:
    """Differences that are listed for the record only."""
    yield from _pair("machine", a.identity.host, b.identity.host)
    yield from _pair("python", a.software.python, b.software.python)
    yield from _pair("profiled steps", a.measurement.steps, b.measurement.steps)
    yield from _pair("warm-up steps", a.measurement.warmup_steps, b.measurement.warmup_steps)


LEAST_COMMON = 0.5
"""The share of each run's kernel time in kernels that both have, so that their launches tell of the work."""
LEAST_ALIKE = 0.5
"""The share of that time in launches of a size that both have; of runs of one program it is 0.9 and more."""
OFF = 0.02
"""Samples per step that are closer than this count as equal: a last batch may be smaller."""


def work_differences(a: Trace, b: Trace, manifests: tuple[RunManifest | None, RunManifest | None]) -> list[Difference]:
    """What tells that a step of one holds other work than a step of the other; empty where nothing tells.

    Where both inputs are seen (run.json, or the shapes of the first operators), they decide: a program that was changed
    may launch otherwise for the same input. Else the launches of the kernels that both have must be alike.
    """
    if manifests[0] is not None and manifests[1] is not None:
        return _of_manifests(manifests[0], manifests[1])
    ours, theirs = (_seen(trace) for trace in (a, b))
    if ours is not None and theirs is not None and ours.operator == theirs.operator:
        return _of_inputs(ours, theirs)
    return _of_launches(a, b)


def settings_apart(a: RunManifest, b: RunManifest) -> list[str]:
    """The fields in which two runs differ that makes them no repeats of one configuration."""
    rows = [*run_differences(a, b), *_of_manifests(a, b)]
    return [row.field for row in rows if (row.matters or row.intended or row.work) and row.field not in MAY_VARY]


def samples_per_step(trace: Trace, manifest: RunManifest | None) -> float | None:
    """How many samples a step holds, as run.json or the shapes of its input say; None if neither does."""
    if manifest is not None:
        told = manifest.workload.batch or manifest.workload.requested_batch
        return float(told) if told else None
    seen = _seen(trace)
    return None if seen is None else _samples(seen)


def _seen(trace: Trace) -> BatchSeen | None:
    return batch_in_shapes(in_steps(select(trace))) if trace.has_timeline else None


def _samples(seen: BatchSeen) -> float:
    """Micro-batches of a step count together, and so does a loop over parts of an input."""
    return seen.batch * max(seen.calls_per_step, 1.0)


def _of_manifests(a: RunManifest, b: RunManifest) -> list[Difference]:
    """Both were chosen; where the same batch was asked for, another one that was really seen is another condition."""
    found = []
    ours, theirs = (
        run.workload.batch if run.workload.requested_batch is None else run.workload.requested_batch for run in (a, b)
    )
    if None not in (ours, theirs) and ours != theirs:
        found.append(Difference("batch", ours, theirs, intended=True, work=True))
    shapes = [[list(shape[1:]) for shape in run.workload.input_shapes] for run in (a, b)]
    if all(shapes) and shapes[0] != shapes[1]:
        found.append(Difference("shape of a sample", _text(shapes[0]), _text(shapes[1]), intended=True, work=True))
    return found


def _of_inputs(a: BatchSeen, b: BatchSeen) -> list[Difference]:
    found = []
    ours, theirs = _samples(a), _samples(b)
    if abs(theirs - ours) > OFF * max(ours, theirs):
        found.append(Difference("batch", _count(ours), _count(theirs), work=True))
    if a.shape[1:] != b.shape[1:]:
        left, right = (_text([list(seen.shape[1:])]) for seen in (a, b))
        found.append(Difference(f"shape of a sample ({a.operator})", left, right, work=True))
    return found


def _count(samples: float) -> float | int:
    return int(samples) if samples == int(samples) else round(samples, 2)


def _text(shapes: list[list[int]]) -> str:
    return ", ".join("x".join(map(str, shape)) or "scalar" for shape in shapes)


def _of_launches(a: Trace, b: Trace) -> list[Difference]:
    ours, theirs = _launch_sizes(a), _launch_sizes(b)
    whole = [float(rows["ns"].sum()) for rows in (ours, theirs)]
    if not all(whole):
        return []
    common = [mine.join(others, on="name", how="semi") for mine, others in ((ours, theirs), (theirs, ours))]
    if any(float(rows["ns"].sum()) < LEAST_COMMON * all_ns for rows, all_ns in zip(common, whole, strict=True)):
        return []
    key = ["name", "grid", "block"]
    alike = [
        float(mine.join(others, on=key, how="semi", nulls_equal=True)["ns"].sum()) / float(mine["ns"].sum())
        for mine, others in (common, common[::-1])
    ]
    if min(alike) >= LEAST_ALIKE:
        return []
    apart = common[0].join(common[1], on=key, how="anti", nulls_equal=True).sort("ns", descending=True)
    name = apart["name"][0]
    largest = (rows.filter(pl.col("name") == name).sort("ns", descending=True)["grid"][0] for rows in common)
    left, right = map(_words, largest)
    return [Difference(f"grid of {short_name(str(name))}", left, right, work=True)]


def _launch_sizes(trace: Trace) -> pl.DataFrame:
    """Time by kernel and size of launch: name, grid, block, ns."""
    device = in_steps(select(trace)).device.filter((pl.col("kind") == "kernel") & pl.col("grid").is_not_null())
    sums = device.group_by("name", "grid", "block").agg(ns=pl.col("duration").sum())
    return sums.with_columns(pl.col("name").cast(pl.String))
