"""Reads what a Chrome trace says about the devices: Kineto's ``deviceProperties``.

ROCm fills in the same keys for AMD's GPUs. Their major and minor are the beginning of the architecture's name (9 and 4
of gfx942), no compute capability, and their SMs are compute units.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tracetui.parsers.categories import encodable
from tracetui.parsers.trace import DeviceInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

_AMD_NAME = re.compile(r"\b(amd|radeon|instinct)\b", re.IGNORECASE)
_AMD_HEADER = ("hip_runtime_version", "hip_driver_version", "roctracer_version", "rocprofiler_version")
_WAVEFRONT = 64
"""Threads that AMD's data-centre GPUs run as one."""
_ARCHITECTURES = {
    ("9.0", 60): "gfx906", ("9.0", 104): "gfx90a", ("9.0", 110): "gfx90a", ("9.0", 120): "gfx908",
    ("9.4", None): "gfx942", ("9.5", None): "gfx950",
}  # fmt: skip
"""By version and compute units: the stepping is not in the file. MI50, MI210 and MI250 (a die), MI250X, MI100;
MI300A, MI300X and MI325X; MI350X and MI355X (LLVM's table of AMDGPU processors)."""


def described_devices(header: Mapping[str, Any]) -> tuple[DeviceInfo, ...]:
    """The devices in a trace's header."""
    properties = header.get("deviceProperties")
    if not isinstance(properties, list):
        return ()
    of_rocm = any(key in header for key in _AMD_HEADER)
    rows = ((position, entry if isinstance(entry, dict) else {}) for position, entry in enumerate(properties))
    return tuple(_device(position, entry, of_rocm=of_rocm) for position, entry in rows)


def _device(position: int, said: dict[str, Any], *, of_rocm: bool) -> DeviceInfo:
    number, units = whole(said.get("id")), whole(said.get("numSms"))
    name = (encodable(said["name"]) or None) if isinstance(said.get("name"), str) else None
    major, minor = whole(said.get("computeMajor")), whole(said.get("computeMinor"))
    version = None if major is None or minor is None else f"{major}.{minor}"
    warp = whole(said.get("warpSize"))
    amd = of_rocm or warp == _WAVEFRONT or _AMD_NAME.search(name or "") is not None
    return DeviceInfo(
        id=position if number is None else number,
        name=name,
        compute_capability=None if amd else version,
        architecture=_architecture(version, units) if amd and version else None,
        sm_count=units,
        memory_bytes=whole(said.get("totalGlobalMem")),
        max_threads_per_sm=whole(said.get("maxThreadsPerMultiprocessor")),
        warp_size=warp,
        registers_per_sm=whole(said.get("regsPerMultiprocessor")),
        shared_memory_per_sm=whole(said.get("sharedMemPerMultiprocessor")),
    )


def _architecture(version: str, units: int | None) -> str:
    """The name of AMD's architecture; an x stands for what the file doesn't tell."""
    known = _ARCHITECTURES.get((version, units)) or _ARCHITECTURES.get((version, None))
    return known or f"gfx{version.replace('.', '')}x"


def whole(value: Any) -> int | None:
    """A whole number of the header that fits 64 bits, or None."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if -(2**63) <= number < 2**63 else None
