"""Checks disk space, memory, and whether the machine's state lets measured times be trusted."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tracetui.collectors.checks.check import FAIL, OK, SKIPPED, WARN, Check, Machine
from tracetui.collectors.machine.jetson import OTHERS
from tracetui.parsers.runs.manifest import SLOWED, GpuState

ROOM, SPEED = "Room", "Speed"
GIB = 1 << 30
MHZ = 1_000_000
LEAST_DISK, GOOD_DISK = 1 * GIB, 5 * GIB
LEAST_MEMORY, GOOD_MEMORY = 1 * GIB, 3 * GIB
HOT_C = 82.0
"""The temperature at which GPUs begin to slow down."""
BUSY_PERCENT = 5.0
MODE_CLOCKS = {
    "p3767-0005": {"7W": 408, "15W": 612, "25W": 918, "MAXN_SUPER": 1020},
    "p3767-0003": {"7W": 408, "15W": 612, "25W": 918, "MAXN_SUPER": 1020},
    "p3767-0004": {"10W": 612, "25W": 1020},
    "p3767-0000": {"10W": 612, "15W": 612, "25W": 408, "40W": 1173},
    "p3767-0001": {"10W": 612, "15W": 612, "20W": 408, "40W": 1173},
    "p3701-0005": {"15W": 408, "30W": 612, "50W": 816, "MAXN": 1301},
    "p3701-0004": {"15W": 408, "30W": 612, "40W": 816},
}
"""The highest GPU clock in MHz of each power mode, by module: a mode's name means other clocks on other modules."""
TOLERANCE = 0.05


def checks(machine: Machine) -> list[Check]:
    """Checks disk, memory, and what slows a GPU down."""
    found = [_disk(machine.output), _memory(machine), _swap(machine)]
    if machine.is_jetson:
        found += [_mode(machine), _clocks(machine), _alarms(machine), _others(machine)]
    elif machine.has_gpu:
        for gpu in machine.power.gpus:
            found += _gpu(machine, gpu)
        found.append(_others(machine))
    else:
        found.append(Check(SPEED, "GPU", SKIPPED, "no NVIDIA GPU"))
    return [*found, _heat(machine)]


def _disk(folder: Path) -> Check:
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    try:
        free = shutil.disk_usage(there).free
    except OSError as error:
        return Check(
            ROOM, "disk", FAIL, f"{there} can't be read: {error.strerror}", "give another folder with --output"
        )
    if not os.access(there, os.W_OK):
        return Check(ROOM, "disk", FAIL, f"{there} can't be written to", "give another folder with --output")
    said = f"{free / GIB:.1f} GiB free in {there}"
    if free < LEAST_DISK:
        return Check(ROOM, "disk", FAIL, f"{said}: a run takes up to 1 GiB", "free space, or change --output")
    status = OK if free >= GOOD_DISK else WARN
    return Check(ROOM, "disk", status, said, "" if status == OK else "free space before a sweep")


def _memory(machine: Machine) -> Check:
    memory = machine.power.memory
    free = memory.available_bytes if memory else None
    if memory is None or free is None:
        return Check(ROOM, "memory", SKIPPED, "/proc/meminfo can't be read")
    total = f" of {memory.total_bytes / GIB:.1f}" if memory.total_bytes else ""
    said = f"{free / GIB:.1f}{total} GiB available" + (", shared with the GPU" if machine.is_jetson else "")
    if free >= GOOD_MEMORY:
        return Check(ROOM, "memory", OK, said)
    remedy = (
        "sudo systemctl isolate multi-user.target (stops the desktop)" if machine.is_jetson else "end other programs"
    )
    return Check(ROOM, "memory", FAIL if free < LEAST_MEMORY else WARN, f"{said}: a trace may not fit", remedy)


def _swap(machine: Machine) -> Check:
    memory = machine.power.memory
    if memory is None or memory.swap_total_bytes is None:
        return Check(ROOM, "swap", SKIPPED, "/proc/meminfo can't be read")
    if not memory.swap_total_bytes:
        return Check(ROOM, "swap", OK, "none")
    zram = f", {memory.zram_bytes / GIB:.1f} of it zram" if memory.zram_bytes else ""
    said = f"{(memory.swap_used_bytes or 0) / GIB:.1f} of {memory.swap_total_bytes / GIB:.1f} GiB in use{zram}"
    if (memory.swap_used_bytes or 0) < GIB // 16:
        return Check(ROOM, "swap", OK, said)
    return Check(ROOM, "swap", WARN, f"{said}: swapping slows a run down", "end other programs, then sudo swapoff -a")


def _mode(machine: Machine) -> Check:
    """Checks the power mode by its caps, since its name can be that of another mode."""
    gpu = machine.power.gpus[0] if machine.power.gpus else None
    highest = machine.devices[0].max_clock_hz if machine.devices else None
    cap = gpu.max_clock_hz if gpu else None
    name = machine.power.mode_name
    if cap is None:
        return Check(SPEED, "power mode", SKIPPED, f"{name or 'unknown'}; the GPU's caps can't be read")
    label = f"{name or 'unknown'} (GPU up to {cap // MHZ} MHz"
    module = machine.devices[0].module_id if machine.devices else None
    expected = MODE_CLOCKS.get(module or "", {}).get(name or "")
    if expected is not None and abs(cap / MHZ - expected) > TOLERANCE * expected:
        said = f"{label}), but that mode has {expected} MHz: its name and its caps disagree"
        return Check(SPEED, "power mode", WARN, said, f"sudo nvpmodel -m {machine.power.mode_id}, then reboot")
    if highest and cap < highest * (1 - TOLERANCE):
        said = f"{label} of {highest // MHZ}): this mode is not the fastest"
        return Check(SPEED, "power mode", WARN, said, "grep POWER_MODEL /etc/nvpmodel.conf; sudo nvpmodel -m ID")
    return Check(SPEED, "power mode", OK, f"{label})")


def _clocks(machine: Machine) -> Check:
    if machine.power.jetson_clocks is None:
        return Check(SPEED, "clocks", SKIPPED, "they can't be read")
    if machine.power.jetson_clocks:
        return Check(SPEED, "clocks", OK, "pinned to the highest of the power mode")
    said = "not pinned: the first steps of a run are slower than the rest"
    return Check(SPEED, "clocks", WARN, said, "sudo jetson_clocks (until the next start)")


def _alarms(machine: Machine) -> Check:
    raised = {name: value for name, value in machine.power.alarms.items() if value}
    if not machine.power.alarms:
        return Check(SPEED, "alarms", SKIPPED, "no sensor answers")
    if not raised:
        return Check(SPEED, "alarms", OK, "no over-current or throttling since the start")
    said = ", ".join(f"{name} {value}" for name, value in raised.items())
    return Check(
        SPEED, "alarms", WARN, f"{said}: the hardware has slowed down", "a stronger supply, or a lower power mode"
    )


def _gpu(machine: Machine, gpu: GpuState) -> list[Check]:
    """Lists what slows one GPU down, or says in one line that nothing does."""
    name = "GPU" if len(machine.power.gpus) == 1 else f"GPU {gpu.index}"
    device = next((device for device in machine.devices if device.index == gpu.index), None)
    slowed = sorted(SLOWED.intersection(gpu.throttle_reasons or ()))
    found = []
    if slowed:
        found.append(
            Check(SPEED, name, WARN, f"slowed down: {', '.join(slowed)}", "let it cool; nvidia-smi -q -d PERFORMANCE")
        )
    usual = device.default_power_limit_mw if device else None
    if usual and gpu.power_limit_mw and gpu.power_limit_mw < usual:
        said = f"power limit {gpu.power_limit_mw / 1000:.0f} W, below the usual {usual / 1000:.0f} W"
        found.append(Check(SPEED, name, WARN, said, f"sudo nvidia-smi -i {gpu.index} -pl {usual / 1000:.0f}"))
    if (
        gpu.applications_clock_hz
        and gpu.max_clock_hz
        and gpu.applications_clock_hz < gpu.max_clock_hz * (1 - TOLERANCE)
    ):
        said = f"application clock {gpu.applications_clock_hz // MHZ} of {gpu.max_clock_hz // MHZ} MHz"
        found.append(Check(SPEED, name, WARN, said, f"sudo nvidia-smi -i {gpu.index} -rac"))
    if device and device.mig:
        found.append(
            Check(SPEED, name, WARN, "divided (MIG): some tools can't read its counters", "use an undivided GPU")
        )
    if device and (device.compute_mode or "Default") not in ("Default", "Exclusive_Process"):
        said = f"compute mode {device.compute_mode}"
        found.append(Check(SPEED, name, FAIL, said, f"sudo nvidia-smi -i {gpu.index} -c DEFAULT"))
    if not found:
        clock = f"{gpu.clock_hz // MHZ} of {gpu.max_clock_hz // MHZ} MHz" if gpu.clock_hz and gpu.max_clock_hz else ""
        parts = [device.name if device else None, clock, gpu.pstate]
        found.append(Check(SPEED, name, OK, ", ".join(part for part in parts if part) or "nothing slows it down"))
    return found


def _others(machine: Machine) -> Check:
    users = machine.power.gpu_processes
    load = max((gpu.load_percent for gpu in machine.power.gpus if gpu.load_percent is not None), default=None)
    if users:
        names = ", ".join(f"{user.name or 'unknown'} ({user.pid})" for user in users[:4])
        return Check(SPEED, "other programs", WARN, f"on the GPU: {names}", "end them before measuring")
    if load is not None and load > BUSY_PERCENT:
        return Check(SPEED, "other programs", WARN, f"the GPU is {load:.0f} % busy", "nvidia-smi shows with what")
    if users is None:
        return Check(SPEED, "other programs", SKIPPED, "who uses the GPU is not known")
    if OTHERS in machine.power.needs_root:
        return Check(SPEED, "other programs", OK, "none of this user's on the GPU; root sees those of others")
    return Check(SPEED, "other programs", OK, "none on the GPU")


def _heat(machine: Machine) -> Check:
    hottest = dict(machine.power.temperatures_c)
    hottest |= {f"GPU {gpu.index}": gpu.temperature_c for gpu in machine.power.gpus if gpu.temperature_c is not None}
    if not hottest:
        return Check(SPEED, "heat", SKIPPED, "no sensor answers")
    name = max(hottest, key=lambda zone: hottest[zone])
    said = f"{hottest[name]:.0f} C ({name})"
    if hottest[name] >= HOT_C:
        return Check(SPEED, "heat", WARN, f"{said}: it may slow down", "let it cool, check the fan")
    return Check(SPEED, "heat", OK, said)
