"""What a line of tegrastats says, as boards and releases print it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

NO_SENSOR_C = -100.0
"""A zone that is switched off reads -256."""

MHZ = 1_000_000
_RAM = re.compile(r"\bRAM (\d+)/\d+MB")
_LOAD = r"(?:(?P<load>\d+)%)?(?:@\[?(?P<clocks>[\d,\s]+)\]?)?"
_EMC = re.compile(rf"\bEMC(?:_FREQ)? {_LOAD}")
_GPU = re.compile(rf"\bGR3D(?:_FREQ)? {_LOAD}")
_TEMPERATURE = re.compile(r"\b([A-Za-z][\w.-]*)@(-?\d+(?:\.\d+)?)C\b")
_RAIL = re.compile(
    r"\b((?:VDD|VIN|VCC|POM|CV|CPU|GPU|SOC|SYS|DDR)[A-Z0-9_]*|[A-Z][A-Z0-9_]*_IN) (\d+)(?:mW)?/(\d+)(?:mW)?(?=\s|$)"
)


@dataclass(frozen=True, slots=True)
class Line:
    """The values of one line; null or empty for what the line lacks."""

    ram_mb: int
    emc_percent: int | None = None
    emc_hz: int | None = None
    gpu_percent: int | None = None
    gpu_hz: tuple[int, ...] = ()
    """One clock per graphics cluster, or a single one if the board reports one for all."""
    temperatures_c: dict[str, float] = field(default_factory=dict)
    rails_mw: dict[str, int] = field(default_factory=dict)
    """The power that each supply draws now."""


def parse(line: str) -> Line | None:
    """Reads a line of tegrastats; returns None for any other line."""
    ram = _RAM.search(line)
    if ram is None:
        return None
    emc, gpu = _EMC.search(line), _GPU.search(line)
    emc_clocks = _clocks(emc)
    return Line(
        ram_mb=int(ram[1]),
        emc_percent=_load(emc),
        emc_hz=emc_clocks[0] if emc_clocks else None,
        gpu_percent=_load(gpu),
        gpu_hz=_clocks(gpu),
        temperatures_c={m[1]: float(m[2]) for m in _TEMPERATURE.finditer(line) if float(m[2]) > NO_SENSOR_C},
        rails_mw={m[1]: int(m[2]) for m in _RAIL.finditer(line)},
    )


def _load(match: re.Match[str] | None) -> int | None:
    return int(match["load"]) if match and match["load"] else None


def _clocks(match: re.Match[str] | None) -> tuple[int, ...]:
    if match is None or not match["clocks"]:
        return ()
    return tuple(int(number) * MHZ for number in re.findall(r"\d+", match["clocks"]))
