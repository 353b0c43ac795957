"""What may differ between the machines of a job: versions, clocks and throttling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.parsers.runs.manifest import SLOWED, Machine

if TYPE_CHECKING:
    from collections.abc import Collection

    from tracetui.parsers import Trace
    from tracetui.parsers.runs.manifest import GpuState, Power, RunManifest


def machine_of(manifest: RunManifest, rank: int | None) -> Machine | None:
    """The machine that a rank ran on: that of the run where ranks are not told apart or there is no other.

    None where the rank ran on a machine that run.json says nothing of.
    """
    first = Machine(manifest.identity.host, manifest.software, manifest.device, manifest.power)
    own = next((one for one in manifest.ranks if one.rank == rank), None)
    if not manifest.machines or own is None or own.host is None or own.host == first.host:
        return first
    return next((one for one in manifest.machines if one.host == own.host), None)


def gpus_of(manifest: RunManifest, rank: int | None, devices: Collection[int]) -> frozenset[int]:
    """Which of its machine's GPUs a rank used, by their numbers there.

    Args:
        manifest: of the job.
        rank: which one.
        devices: the numbers that its recording has, which a process that sees few GPUs may count otherwise; they hold
            where run.json does not name the GPU.
    """
    own = next((one for one in manifest.ranks if one.rank == rank), None)
    machine = machine_of(manifest, rank)
    if own is None or own.gpu_uuid is None or machine is None:
        return frozenset(devices)
    named = frozenset(gpu.index for gpu in machine.device if gpu.uuid == own.gpu_uuid and gpu.index is not None)
    return named or frozenset(devices)


_SOFTWARE = ("python", "torch", "cuda_runtime", "cudnn", "driver", "kernel", "os", "architecture")
OTHERS = "other processes on its GPUs"
"""Of its machine: run.json does not say which GPU a process used."""
MOST_SAID = 200
"""Characters of a rank's error."""
_OF_ONE_FILE = frozenset({"trace_id", "schemaVersion", "profile_memory", "with_stack", "with_flops", "with_modules"})
"""What a recording says of itself, which differs between files without meaning anything for a job."""


def environment(trace: Trace, manifest: RunManifest | None, rank: int | None = None) -> tuple[tuple[str, str], ...]:
    """What the recording and its run.json say of the machine of this rank, by name; what neither says is absent."""
    found = {name: value for name, value in trace.info.captured if name not in _OF_ONE_FILE}
    if trace.info.tool_version is not None:
        found["tool"] = trace.info.tool_version
    ended = next((one.error for one in manifest.ranks if one.rank == rank), None) if manifest is not None else None
    if ended:
        found["ended by"] = ended[:MOST_SAID]
    machine = None if manifest is None else machine_of(manifest, rank)
    if manifest is not None and machine is not None:
        for name in _SOFTWARE:
            if (value := getattr(machine.software, name)) is not None:
                found[name] = str(value)
        used = set(trace.device["device"].unique().drop_nulls().to_list())
        found |= _of_gpus(machine.power, gpus_of(manifest, rank, used))
        before = None if machine.power.before is None else machine.power.before.gpu_processes
        if before:  # the program had not begun: they are others
            found[OTHERS] = ", ".join(sorted({one.name or f"process {one.pid}" for one in before}))
    return tuple(sorted(found.items()))


def device_name(trace: Trace) -> str | None:
    """The name of the GPU that this rank worked on; of all devices of its host where there was no work."""
    used = set(trace.device["device"].unique().drop_nulls().to_list())
    names = dict.fromkeys(
        device.name for device in trace.info.devices if device.name is not None and (not used or device.id in used)
    )
    return ", ".join(names) or None


def _of_gpus(power: Power, used: frozenset[int]) -> dict[str, str]:
    """The state of this rank's GPU: its limits before the run, and what slowed it down at any time."""
    found: dict[str, str] = {}
    if power.before is not None:
        for gpu in _of_this_rank(power.before.gpus, used):
            limits = {"clock limit": gpu.max_clock_hz, "power limit": gpu.power_limit_mw}
            found |= {name: str(value) for name, value in limits.items() if value is not None}
    states = [state for state in (power.before, *power.during, power.after) if state is not None]
    known = [gpu.throttle_reasons for state in states for gpu in _of_this_rank(state.gpus, used)]
    reasons = [reason for one in known if one is not None for reason in one if reason in SLOWED]
    if any(one is not None for one in known):
        found["throttled by"] = ", ".join(sorted(set(reasons))) or "nothing"
    return found


def _of_this_rank(gpus: tuple[GpuState, ...], used: frozenset[int]) -> list[GpuState]:
    return [gpu for gpu in gpus if gpu.index in used]
