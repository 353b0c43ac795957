"""Reads what every Linux machine reports about itself: processor, memory, temperatures, kernel, driver."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tracetui.collectors.machine.probe import Probe
from tracetui.parsers.runs.manifest import CpuState, MemoryState

KHZ = 1000
SAMPLED_CORES = 16
"""How many cores a sample asks for their clock, since asking a core interrupts it."""
NO_SENSOR_MC = -100_000


def cpu_state(probe: Probe, *, sample: bool = False) -> CpuState:
    """Clocks, governor and load of the processor; a sample reads only the clocks of a few cores."""
    policies = probe.glob("sys/devices/system/cpu/cpufreq/policy*")
    if not policies:
        policies = [p for p in probe.glob("sys/devices/system/cpu/cpu[0-9]*/cpufreq") if p.is_dir()]
    if sample and len(policies) > SAMPLED_CORES:
        policies = policies[:: -(-len(policies) // SAMPLED_CORES)]
    load = (probe.text("proc/loadavg") or "").split()
    governors = {probe.text(policy / "scaling_governor") for policy in policies}
    return CpuState(
        online=_count(probe.text("sys/devices/system/cpu/online")),
        governor=",".join(sorted(name for name in governors if name)) or None,
        clock_hz=_highest(probe, policies, "scaling_cur_freq"),
        max_clock_hz=_highest(probe, policies, "scaling_max_freq"),
        hardware_max_clock_hz=_highest(probe, policies, "cpuinfo_max_freq"),
        load_1m=_float(load, 0),
        load_5m=_float(load, 1),
        load_15m=_float(load, 2),
    )


def cpu_is_pinned(probe: Probe) -> bool | None:
    """Whether the clock of every core is fixed."""
    found = []
    for policy in probe.glob("sys/devices/system/cpu/cpufreq/policy*"):
        low, high = probe.number(policy / "scaling_min_freq"), probe.number(policy / "scaling_max_freq")
        if low is not None and high is not None:
            found.append(low == high)
    return all(found) if found else None


def memory_state(probe: Probe) -> MemoryState:
    """The machine's memory and swap."""
    info = pairs(probe.text("proc/meminfo"))
    events = pairs(probe.text("proc/vmstat"))
    total, free = _kib(info, "SwapTotal"), _kib(info, "SwapFree")
    return MemoryState(
        total_bytes=_kib(info, "MemTotal"),
        available_bytes=_kib(info, "MemAvailable"),
        swap_total_bytes=total,
        swap_used_bytes=None if total is None or free is None else total - free,
        zram_bytes=_zram(probe),
        pages_swapped_in=_whole(events, "pswpin"),
        pages_swapped_out=_whole(events, "pswpout"),
    )


def temperatures(probe: Probe) -> dict[str, float]:
    """°C by thermal zone; zones of the same name are numbered, zones that are switched off are left out."""
    found: dict[str, float] = {}
    for zone in probe.glob("sys/class/thermal/thermal_zone*"):
        name, value = probe.text(zone / "type"), probe.number(zone / "temp")
        if name and value is not None and value > NO_SENSOR_MC:
            count = sum(known == name or known.startswith(f"{name}#") for known in found)
            found[f"{name}#{count + 1}" if count else name] = value / 1000
    return found


def driver_version(probe: Probe) -> str | None:
    """The version of NVIDIA's kernel driver: ``580.159.04``."""
    text = probe.text("proc/driver/nvidia/version") or ""
    match = re.search(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)", text)
    return match[1] if match else probe.text("sys/module/nvidia/version")


def operating_system(probe: Probe) -> str | None:
    """The distribution: ``Ubuntu 22.04.5 LTS``."""
    for line in (probe.text("etc/os-release") or "").splitlines():
        key, _, value = line.partition("=")
        if key == "PRETTY_NAME":
            return value.strip("\"'") or None
    return None


def pairs(text: str | None) -> dict[str, str]:
    """Reads lines of ``Key: value kB`` or ``key value``."""
    found = {}
    for line in (text or "").splitlines():
        words = line.replace(":", " ").split()
        if len(words) >= 2:
            found[words[0]] = words[1]
    return found


def _kib(values: dict[str, str], key: str) -> int | None:
    number = _whole(values, key)
    return None if number is None else number * 1024


def _whole(values: dict[str, str], key: str) -> int | None:
    text = values.get(key, "")
    return int(text) if text.isdecimal() else None


def _zram(probe: Probe) -> int | None:
    """Bytes of swap that are held in compressed memory (zram)."""
    text = probe.text("proc/swaps")
    if text is None:
        return None
    rows = [line.split() for line in text.splitlines()[1:]]
    return sum(int(row[2]) * 1024 for row in rows if len(row) > 2 and "zram" in row[0] and row[2].isdecimal())


def _highest(probe: Probe, policies: Iterable[Path], name: str) -> int | None:
    clocks = [clock for policy in policies if (clock := probe.number(policy / name)) is not None]
    return max(clocks) * KHZ if clocks else None


def _count(ranges: str | None) -> int | None:
    """How many cores a list such as ``0-3,5`` names."""
    total = 0
    for part in (ranges or "").split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            return None
        total += int(last) - int(first) + 1 if dash else 1
    return total or None


def _float(words: list[str], n: int) -> float | None:
    try:
        return float(words[n])
    except (IndexError, ValueError):
        return None
