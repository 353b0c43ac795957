"""Reads the state of desktop and data-centre GPUs from nvidia-smi's CSV, whatever fields its version knows.

A field that a version does not know makes nvidia-smi refuse the whole query. The query is then repeated without that
field or with the field's other name.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence

from tracetui.collectors.machine.probe import Probe
from tracetui.parsers.runs.manifest import Device, GpuProcess, GpuState

MHZ = 1_000_000
MIB = 1 << 20
STATE_FIELDS = (
    "index", "clocks.current.sm", "clocks.current.memory", "clocks.max.sm", "clocks.applications.graphics",
    "clocks.applications.memory", "power.draw", "power.limit", "temperature.gpu", "clocks_event_reasons.active",
    "pstate", "utilization.gpu", "utilization.memory", "memory.used",
)  # fmt: skip
DEVICE_FIELDS = (
    "index", "name", "uuid", "pci.bus_id", "compute_cap", "memory.total", "clocks.max.sm", "clocks.max.memory",
    "power.default_limit", "persistence_mode", "ecc.mode.current", "mig.mode.current", "compute_mode",
)  # fmt: skip
OTHER_NAMES = {
    "clocks_event_reasons.active": "clocks_throttle_reasons.active",
    "clocks.current.sm": "clocks.sm",
    "clocks.current.memory": "clocks.mem",
    "clocks.applications.graphics": "clocks.applications.gr",
    "clocks.applications.memory": "clocks.applications.mem",
    "memory.used": "used_memory",
}
"""The names of fields in older versions."""
REASONS = {
    0x001: "gpu_idle", 0x002: "applications_clocks_setting", 0x004: "sw_power_cap", 0x008: "hw_slowdown",
    0x010: "sync_boost", 0x020: "sw_thermal_slowdown", 0x040: "hw_thermal_slowdown", 0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}  # fmt: skip
"""The bits of the throttle reasons and their names in nvml.h."""
_INVALID = re.compile(r'Field "([^"]+)" is not a valid field')
_CUDA = re.compile(r"CUDA(?: \w+)? Version\s*:\s*(\d+\.\d+)")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def states(probe: Probe) -> list[GpuState]:
    """The state of every GPU now; empty if nvidia-smi is missing or prints nothing."""
    return [state(row) for row in query(probe, STATE_FIELDS)]


def state(row: Mapping[str, str]) -> GpuState:
    """Reads one row of the query for states."""
    return GpuState(
        index=_whole(row.get("index")),
        clock_hz=_hz(row.get("clocks.current.sm")),
        max_clock_hz=_hz(row.get("clocks.max.sm")),
        applications_clock_hz=_hz(row.get("clocks.applications.graphics")),
        memory_clock_hz=_hz(row.get("clocks.current.memory")),
        applications_memory_clock_hz=_hz(row.get("clocks.applications.memory")),
        load_percent=number(row.get("utilization.gpu")),
        memory_load_percent=number(row.get("utilization.memory")),
        power_mw=_milli(row.get("power.draw")),
        power_limit_mw=_milli(row.get("power.limit")),
        temperature_c=number(row.get("temperature.gpu")),
        pstate=word(row.get("pstate")),
        throttle_reasons=_reasons(row.get("clocks_event_reasons.active")),
        memory_used_bytes=_mib(row.get("memory.used")),
    )


def devices(probe: Probe) -> list[Device]:
    """The properties of every GPU that do not change."""
    return [
        Device(
            index=_whole(row.get("index")),
            name=word(row.get("name")),
            integrated=False if _mib(row.get("memory.total")) else None,  # a GPU that shares the CPU's memory has none
            uuid=word(row.get("uuid")),
            pci_bus=word(row.get("pci.bus_id")),
            compute_capability=word(row.get("compute_cap")),
            memory_bytes=_mib(row.get("memory.total")),
            max_clock_hz=_hz(row.get("clocks.max.sm")),
            max_memory_clock_hz=_hz(row.get("clocks.max.memory")),
            default_power_limit_mw=_milli(row.get("power.default_limit")),
            persistence=_enabled(row.get("persistence_mode")),
            ecc=_enabled(row.get("ecc.mode.current")),
            mig=_enabled(row.get("mig.mode.current")),
            compute_mode=word(row.get("compute_mode")),
        )
        for row in query(probe, DEVICE_FIELDS)
    ]


def processes(probe: Probe) -> tuple[GpuProcess, ...] | None:
    """Programs that compute on a GPU; None if that is unknown."""
    ran = probe.run("nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader,nounits")
    if not ran.ok:
        return None
    found = []
    for row in csv.reader(ran.out.splitlines(), skipinitialspace=True):
        if len(row) >= 3 and row[0].strip().isdecimal():
            name = word(",".join(row[1:-1]))
            found.append(
                GpuProcess(
                    pid=int(row[0]),
                    name=name.replace("\\", "/").rpartition("/")[2] if name else None,
                    gpu_memory_bytes=_mib(row[-1]),
                )
            )
    return tuple(found)


def cuda_of_driver(probe: Probe) -> str | None:
    """The newest CUDA that the driver supports: ``13.0``."""
    for command in (("nvidia-smi", "--version"), ("nvidia-smi",)):
        ran = probe.run(*command)
        if ran.ok and (match := _CUDA.search(ran.out)):
            return match[1]
    return None


def query(probe: Probe, fields: Sequence[str]) -> list[dict[str, str]]:
    """One row per GPU, keyed by the names in `fields`; fields that this version does not know are left out."""
    spelled, out = _asked(probe, fields)
    return rows(out, list(spelled))


def known_fields(probe: Probe, fields: Sequence[str]) -> dict[str, str]:
    """The fields that this version knows, and how it spells them."""
    return _asked(probe, fields)[0]


def _asked(probe: Probe, fields: Sequence[str]) -> tuple[dict[str, str], str]:
    """The spelling of each field, and the output of the query for them."""
    asked = {field: field for field in fields}
    for _ in range(2 * len(fields)):
        ran = probe.run(*query_command(list(asked.values())))
        if ran.ok:
            return asked, ran.out
        refused = _INVALID.search(ran.out + ran.err)
        name = next((field for field, spelled in asked.items() if refused and spelled == refused[1]), None)
        if name is None:
            break
        other = OTHER_NAMES.get(name)
        if other and asked[name] != other:
            asked[name] = other
        else:
            del asked[name]
    return {}, ""


def query_command(fields: Sequence[str], *more: str) -> list[str]:
    """The command that prints these fields of every GPU."""
    return ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits", *more]


def rows(text: str, fields: Sequence[str]) -> list[dict[str, str]]:
    """Reads CSV lines into rows keyed by column name; lines of another width are not data."""
    found = csv.reader(text.splitlines(), skipinitialspace=True)
    return [dict(zip(fields, map(str.strip, row), strict=True)) for row in found if len(row) == len(fields)]


def word(text: str | None) -> str | None:
    """A value, or None for ``[N/A]``, ``[Not Supported]``, ``[Unknown Error]`` and the like."""
    text = (text or "").strip()
    return None if not text or text.startswith("[") or text.upper() in ("N/A", "NOT SUPPORTED", "UNKNOWN") else text


def number(text: str | None) -> float | None:
    """Reads a number with or without its unit."""
    match = _NUMBER.match(word(text) or "")
    return float(match[0]) if match else None


def _whole(text: str | None) -> int | None:
    value = number(text)
    return None if value is None else int(value)


def _hz(text: str | None) -> int | None:
    value = number(text)
    return None if value is None else round(value * MHZ)


def _milli(text: str | None) -> int | None:
    value = number(text)
    return None if value is None else round(value * 1000)


def _mib(text: str | None) -> int | None:
    value = number(text)
    return None if value is None else round(value * MIB)


def _enabled(text: str | None) -> bool | None:
    return {"enabled": True, "disabled": False}.get((word(text) or "").lower())


def _reasons(text: str | None) -> tuple[str, ...] | None:
    """The names of the bits that are set; a bit without a name is given as its number."""
    try:
        bits = int(word(text) or "", 0)
    except ValueError:
        return None
    known = tuple(name for bit, name in REASONS.items() if bits & bit)
    rest = bits & ~sum(REASONS)
    return (*known, hex(rest)) if rest else known
