"""Differences between two runs' manifests: the machine and its state, how it was measured, what was chosen."""

from __future__ import annotations

import re
import statistics
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.analysis.base.json_values import Json
    from tracetui.parsers.runs.manifest import Device, GpuState, PowerState, RunManifest

CLOCK_TOLERANCE_PERCENT = 5.0
"""Clocks that differ by less do not change step times noticeably."""
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

    def json(self) -> Json:
        """The difference as a JSON object of the report."""
        return {
            "field": self.field, "a": self.a, "b": self.b, "matters": self.matters, "intended": self.intended,
            "work": self.work,
        }  # fmt: skip


def run_differences(a: RunManifest, b: RunManifest) -> list[Difference]:
    """Returns every difference; a value that either manifest lacks is not one."""
    return [*_machine(a, b), *_measured(a, b), *_meant(a, b), *_noted(a, b)]


def _pair(field: str, a: object, b: object, *, matters: bool = False, intended: bool = False) -> Iterator[Difference]:
    if a != b and a is not None and b is not None:
        yield Difference(field, a, b, matters, intended)


def _machine(a: RunManifest, b: RunManifest) -> Iterator[Difference]:
    """Differences in the GPU and its limits."""
    yield from _pair("device", _sort(a), _sort(b), matters=True)
    ours, theirs = _device(a), _device(b)
    if ours is not None and theirs is not None:
        for field, name in (
            ("gpu", "name"), ("SMs", "sm_count"), ("board", "board"), ("module", "module_id"), ("MIG", "mig"),
            ("ECC", "ecc"), ("compute mode", "compute_mode"),
        ):  # fmt: skip
            yield from _pair(field, getattr(ours, name), getattr(theirs, name), matters=True)
    before = a.power.before, b.power.before
    if before[0] is not None and before[1] is not None:
        yield from _state(before[0], before[1])
        first, second = _gpu(a, before[0]), _gpu(b, before[1])
        if first is not None and second is not None:
            yield from _caps(first, second)
    clocks = _clock(a), _clock(b)
    if clocks[0] and clocks[1] and abs(clocks[1] / clocks[0] - 1) > CLOCK_TOLERANCE_PERCENT / 100:
        yield Difference("SM clock during the run, Hz", *clocks, matters=True)


def _state(a: PowerState, b: PowerState) -> Iterator[Difference]:
    yield from _pair("power mode", _mode(a), _mode(b), matters=True)
    yield from _pair("jetson_clocks", a.jetson_clocks, b.jetson_clocks, matters=True)
    if a.emc is not None and b.emc is not None:
        yield from _pair("memory clock cap (EMC), Hz", a.emc.cap_hz, b.emc.cap_hz, matters=True)
    if a.cpu is not None and b.cpu is not None:
        for field, name in (
            ("CPU clock cap, Hz", "max_clock_hz"), ("CPU cores", "online"), ("CPU governor", "governor"),
        ):  # fmt: skip
            yield from _pair(field, getattr(a.cpu, name), getattr(b.cpu, name), matters=True)


def _mode(state: PowerState) -> str | None:
    if state.mode_id is None and state.mode_name is None:
        return None
    return " ".join(str(part) for part in (state.mode_id, state.mode_name) if part is not None)


def _caps(a: GpuState, b: GpuState) -> Iterator[Difference]:
    for field, name in (
        ("TPC mask", "tpc_pg_mask"),
        ("SM clock cap, Hz", "max_clock_hz"),
        ("SM clock floor, Hz", "min_clock_hz"),
        ("applications clock, Hz", "applications_clock_hz"),
        ("memory applications clock, Hz", "applications_memory_clock_hz"),
        ("GPU governor", "governor"),
        ("power limit, mW", "power_limit_mw"),
    ):
        yield from _pair(field, getattr(a, name), getattr(b, name), matters=True)


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


def _clock(run: RunManifest) -> int | None:
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
    if (ours.compile or None) != (theirs.compile or None):
        yield Difference("compile", ours.compile, theirs.compile, intended=True)
    # a run that lists no option did not record them
    for name in sorted(ours.options.keys() | theirs.options.keys()) if ours.options and theirs.options else ():
        if name not in OF_ITS_OWN and ours.options.get(name) != theirs.options.get(name):
            yield Difference(name, ours.options.get(name), theirs.options.get(name), intended=True)
    if ours.backend == theirs.backend == "user" and a.measurement.commands and b.measurement.commands:
        yield from _pair("command", " ".join(a.identity.command), " ".join(b.identity.command), intended=True)
    yield from _pair("code", a.identity.git_sha, b.identity.git_sha, intended=True)
    if a.identity.git_sha == b.identity.git_sha and a.identity.git_diff_sha256 != b.identity.git_diff_sha256:
        yield Difference("uncommitted changes", a.identity.git_diff_sha256, b.identity.git_diff_sha256, intended=True)
    for name in SOFTWARE:
        yield from _pair(name, getattr(a.software, name), getattr(b.software, name), intended=True)


def _noted(a: RunManifest, b: RunManifest) -> Iterator[Difference]:
    """Differences that are listed for the record only."""
    yield from _pair("machine", a.identity.host, b.identity.host)
    yield from _pair("python", a.software.python, b.software.python)
    yield from _pair("profiled steps", a.measurement.steps, b.measurement.steps)
    yield from _pair("warm-up steps", a.measurement.warmup_steps, b.measurement.warmup_steps)
