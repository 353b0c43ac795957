"""Reads a Jetson board's state from sysfs and nvpmodel, as far as that needs no root; never through NVML.

The name of a power mode can disagree with the caps in force, so the caps and clocks themselves are read.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from tracetui.collectors.machine.host import cpu_is_pinned
from tracetui.collectors.machine.probe import Probe
from tracetui.parsers.runs.manifest import Device, GpuProcess, GpuState, MemoryClock, Rail

GPU_NAMES = re.compile(r"(?:^|\.)(?:ga10b|gv11b|gb10b|gp10b|gm20b|gpu)$|^gpu-gpc-\d+$")
"""Names of the GPU in /sys/class/devfreq: ``17000000.ga10b`` (JetPack 5), ``17000000.gpu`` (6), ``gpu-gpc-0``."""
CHIPS = {
    "tegra264": ("Thor", "11.0"),
    "tegra234": ("Orin", "8.7"),
    "tegra194": ("Xavier", "7.2"),
    "tegra186": ("TX2", "6.2"),
    "tegra210": ("Tegra X1", "5.3"),
}
"""Chip in the device tree -> the GPU's name as CUDA gives it, and its compute capability."""
JETPACKS = (
    ("39", "7.2"), ("38.4", "7.1"), ("38", "7.0"),
    ("36.5", "6.2.2"), ("36.4.4", "6.2.1"), ("36.4.7", "6.2.1"), ("36.4.3", "6.2"), ("36.4", "6.1"), ("36.3", "6.0"),
    ("36", "6.0 DP"),
    ("35.6", "5.1.4"), ("35.5", "5.1.3"), ("35.4", "5.1.2"), ("35.3", "5.1.1"), ("35.2", "5.1"), ("35.1", "5.0.2"),
    ("34", "5.0 DP"), ("32", "4"),
)  # fmt: skip
"""The JetPack of each L4T release; the longest match counts."""
GPU_NODES = re.compile(r"/dev/(?:nvhost-(?:as-|ctrl-|tsg-)?gpu|nvgpu/igpu\d+/|nvidia\d+$)")
OTHERS = "programs of other users on the GPU"
EMC_DEBUG = "sys/kernel/debug/bpmp/debug/clk/emc"
EMC_CAPS = ("sys/kernel/nvpmodel_emc_cap/emc_iso_cap", "sys/kernel/nvpmodel_clk_cap/emc")
_RELEASE = re.compile(r"#\s*R(\d+)\s*\(release\),\s*REVISION:\s*([\d.]+)")
_MODE = re.compile(r"NV Power Mode:\s*(\S.*?)\s*$\s*(?:^(\d+)\s*$)?", re.MULTILINE)
_MODULE = re.compile(r"p\d{4}-\d{4}")


def is_jetson(probe: Probe) -> bool:
    """Whether this is a Tegra board: by its release file or its device tree."""
    return probe.exists("etc/nv_tegra_release") or any("tegra" in name for name in compatible(probe))


def compatible(probe: Probe) -> tuple[str, ...]:
    """The board's ``compatible`` entries in the device tree, the most specific first."""
    return tuple(part for part in (probe.text("proc/device-tree/compatible") or "").split("\0") if part)


def l4t_release(probe: Probe) -> str | None:
    """Release of the board's Linux: ``36.4.3``."""
    match = _RELEASE.search(probe.text("etc/nv_tegra_release") or "")
    return f"{match[1]}.{match[2]}" if match else None


def jetpack(release: str | None) -> str | None:
    """The JetPack that an L4T release belongs to; None for an unknown release."""
    if release is None:
        return None
    matching = [(known, name) for known, name in JETPACKS if release == known or release.startswith(f"{known}.")]
    return max(matching, key=lambda pair: len(pair[0]))[1] if matching else None


def devices(probe: Probe) -> list[Device]:
    """The board's GPU."""
    names = compatible(probe)
    chip = next((CHIPS[key] for key in CHIPS if any(key in name for name in names)), (None, None))
    folders = _gpus(probe)
    clocks = _clocks(probe, folders[0]) if folders else ()
    highest = [max(c) for folder in folders if (c := _clocks(probe, folder))]
    total = re.search(r"MemTotal:\s*(\d+)", probe.text("proc/meminfo") or "")
    return [
        Device(
            index=0,
            name=chip[0],
            integrated=True,
            compute_capability=chip[1],
            memory_bytes=int(total[1]) * 1024 if total else None,
            max_clock_hz=max(highest) if highest else None,
            max_memory_clock_hz=probe.number(f"{EMC_DEBUG}/max_rate", "EMC maximum"),
            board=probe.text("proc/device-tree/model"),
            module_id=_module(names),
            compatible=names,
            available_clocks_hz=clocks,
        )
    ]


def gpu_state(probe: Probe) -> GpuState:
    """Clock, caps, governor and load of the GPU; if each cluster has its own clock, those of the fastest."""
    states = [_one_gpu(probe, folder) for folder in _gpus(probe)]
    return max(states, key=lambda state: state.clock_hz or 0, default=GpuState(index=0))


def emc_state(probe: Probe) -> MemoryClock | None:
    """The memory controller: only root may read its rate, everyone its cap. None if it has neither."""
    rate = probe.number(f"{EMC_DEBUG}/rate", "EMC clock")
    low = probe.number(f"{EMC_DEBUG}/min_rate")
    high = probe.number(f"{EMC_DEBUG}/max_rate")
    caps = [cap for name in EMC_CAPS if (cap := probe.number(name)) is not None]
    cap = next((cap for cap in caps if cap), high if caps else None)  # 0 stands for no cap
    if rate is None and cap is None and high is None:
        return None
    return MemoryClock(rate_hz=rate, cap_hz=cap, min_hz=low, max_hz=high)


def rails(probe: Probe) -> tuple[Rail, ...]:
    """The measurements of the INA3221 sensors; channels that are not connected are left out."""
    found = []
    for sensor in probe.glob("sys/class/hwmon/hwmon*"):
        if "ina3221" not in (probe.text(sensor / "name") or ""):
            continue
        for n in (1, 2, 3):
            label = probe.text(sensor / f"in{n}_label")
            volts, amperes = probe.number(sensor / f"in{n}_input"), probe.number(sensor / f"curr{n}_input")
            if not label or label == "NC" or (volts is None and amperes is None):
                continue
            found.append(
                Rail(
                    name=label,
                    voltage_mv=volts,
                    current_ma=amperes,
                    power_mw=None if volts is None or amperes is None else round(volts * amperes / 1000),
                    max_current_ma=probe.number(sensor / f"curr{n}_max"),
                    critical_current_ma=probe.number(sensor / f"curr{n}_crit"),
                )
            )
    return tuple(found)


def alarms(probe: Probe) -> dict[str, int]:
    """Over-current alarms of the supplies, and how often the hardware has throttled since it started."""
    found: dict[str, int] = {}
    for sensor in probe.glob("sys/class/hwmon/hwmon*"):
        name = probe.text(sensor / "name") or sensor.name
        for file in probe.glob(f"sys/class/hwmon/{sensor.name}/*_alarm"):
            channel = re.match(r"(?:curr|in)(\d+)_", file.name)
            label = probe.text(sensor / f"in{channel[1]}_label") if channel else None
            if label != "NC" and (value := probe.number(file)) is not None:
                found[f"{label or name}.{file.name}"] = value
        for file in probe.glob(f"sys/class/hwmon/{sensor.name}/oc*_event_cnt"):
            if (value := probe.number(file)) is not None:
                found[file.name] = value
    return found


def processes(probe: Probe) -> tuple[GpuProcess, ...]:
    """Programs besides this one that hold the GPU's device open; only root sees those of other users."""
    found = []
    own = str(os.getpid())
    for folder in probe.glob("proc/[0-9]*"):
        if folder.name != own and _holds_gpu(probe, folder):
            found.append(GpuProcess(pid=int(folder.name), name=probe.text(folder / "comm")))
    return tuple(found)


def _holds_gpu(probe: Probe, folder: Path) -> bool:
    try:
        links = [entry.path for entry in os.scandir(folder / "fd")]
    except PermissionError:
        if OTHERS not in probe.denied:
            probe.denied.append(OTHERS)
        return False
    except OSError:  # it has ended
        return False
    for link in links:
        with contextlib.suppress(OSError):
            if GPU_NODES.match(os.readlink(link)):  # noqa: PTH115  the target is not below the root
                return True
    return False


def power_mode(probe: Probe) -> tuple[int | None, str | None]:
    """Number and name of the power mode, from nvpmodel or from the file it keeps."""
    asked = probe.run("nvpmodel", "-q", timeout_s=3.0)
    if asked.ok and (match := _MODE.search(asked.out)):
        return int(match[2]) if match[2] else None, match[1]
    kept = re.search(r"pmode:(\d+)", probe.text("var/lib/nvpmodel/status", "power mode") or "")
    if kept is None:
        return None, None
    number = int(kept[1])
    named = re.search(rf"POWER_MODEL\s+ID={number}\s+NAME=(\S+)", probe.text("etc/nvpmodel.conf") or "")
    return number, named[1] if named else None


def clocks_are_pinned(probe: Probe, gpu: GpuState) -> bool | None:
    """Whether jetson_clocks has been run, that is, the clocks of the GPU and of all cores are fixed."""
    if gpu.min_clock_hz is None or gpu.max_clock_hz is None:
        return None
    return gpu.min_clock_hz == gpu.max_clock_hz and cpu_is_pinned(probe) is not False


def _gpus(probe: Probe) -> list[Path]:
    return [folder for folder in probe.glob("sys/class/devfreq/*") if GPU_NAMES.search(folder.name)]


def _one_gpu(probe: Probe, folder: Path) -> GpuState:
    device = folder / "device"
    load = probe.number(device / "load")
    return GpuState(
        index=0,
        clock_hz=probe.number(folder / "cur_freq"),
        min_clock_hz=probe.number(folder / "min_freq"),
        max_clock_hz=probe.number(folder / "max_freq"),
        governor=probe.text(folder / "governor"),
        load_percent=None if load is None else load / 10,
        tpc_pg_mask=_mask(probe.text(device / "tpc_pg_mask")),
        railgate=probe.flag(device / "railgate_enable"),
        scaling=probe.flag(device / "enable_3d_scaling"),
    )


def _mask(text: str | None) -> int | None:
    """Reads a number written as 252 or 0xfc."""
    try:
        return None if text is None else int(text.split()[-1], 0)
    except (ValueError, IndexError):
        return None


def _clocks(probe: Probe, folder: Path) -> tuple[int, ...]:
    words = (probe.text(folder / "available_frequencies") or "").split()
    return tuple(sorted(int(word) for word in words if word.isdecimal()))


def _module(names: tuple[str, ...]) -> str | None:
    """The module's part number: what follows the ``+`` if the carrier board's comes before it."""
    for name in names:
        if match := _MODULE.search(name.partition("+")[2]):
            return match[0]
    for name in names:
        if match := _MODULE.search(name):
            return match[0]
    return None
