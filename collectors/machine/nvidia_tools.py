"""Finds NVIDIA's profilers and their versions, on PATH or where they are usually installed."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tracetui.collectors.machine.probe import Probe

PLACES = {
    "nsys": (
        "usr/local/cuda*/bin/nsys",
        "opt/nvidia/nsight-systems/*/bin/nsys",
        "opt/nvidia/nsight-systems-cli/*/bin/nsys",
        "opt/nvidia/nsight-systems/*/target-linux-*/nsys",
        "usr/local/cuda*/nsight-systems-*/bin/nsys",
    ),
    "ncu": (
        "usr/local/cuda*/bin/ncu",
        "opt/nvidia/nsight-compute/*/ncu",
        "usr/local/cuda*/nsight-compute-*/ncu",
    ),
    "nvpmodel": ("usr/sbin/nvpmodel",),
    "tegrastats": ("usr/bin/tegrastats",),
}
"""Path patterns below the root, the likeliest first."""
NSYS_IN_NCU = (
    "opt/nvidia/nsight-compute/*/host/target-linux-*/nsys",
    "usr/local/cuda*/nsight-compute-*/host/target-linux-*/nsys",
)
"""Nsight Compute ships a part of Nsight Systems that records but does not finish its reports."""
_VERSION = re.compile(r"\bversion\s+(\d+(?:\.\d+)+)", re.IGNORECASE)


def find_tool(probe: Probe, name: str, search_path: str | None = None) -> Path | None:
    """Finds the program: the first on PATH (or `search_path`), else the newest in its usual places."""
    for folder in (os.environ.get("PATH", "") if search_path is None else search_path).split(os.pathsep):
        if folder and _is_program(found := probe.path(folder) / name):
            return found
    return _newest(probe, PLACES.get(name, ()))


def nsys_in_ncu(probe: Probe) -> Path | None:
    """Finds the part of Nsight Systems that Nsight Compute ships."""
    return _newest(probe, NSYS_IN_NCU)


def tool_version(probe: Probe, tool: Path) -> str | None:
    """The version that the program itself reports, ``2025.3.1.0``; None if it does not start."""
    ran = probe.run(str(tool), "--version", timeout_s=20.0)
    match = _VERSION.search(ran.out + ran.err) if ran.code is not None else None
    return match[1] if match else None


def version_numbers(version: str | None) -> tuple[int, ...]:
    """The version as numbers that sort correctly; empty for an unknown version."""
    return tuple(int(part) for part in re.findall(r"\d+", version or ""))


def _newest(probe: Probe, patterns: tuple[str, ...]) -> Path | None:
    for pattern in patterns:
        if found := [path for path in probe.glob(pattern) if _is_program(path)]:
            return found[-1]
    return None


def _is_program(path: Path) -> bool:
    try:
        return path.is_file() and os.access(path, os.X_OK)
    except OSError:
        return False
