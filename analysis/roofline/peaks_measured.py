"""Peaks that `tracetui doctor --measure-peaks` reached on a GPU, kept for the runs that ran on one like it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracetui.parsers.runs.side_files import read_text
from tracetui.parsers.written import write_text

if TYPE_CHECKING:
    from tracetui.analysis.roofline.words import Roofs
    from tracetui.parsers.trace import DeviceInfo

SCHEMA = "tracetui.peaks/1"
SAME_CLOCK = 0.01
"""Clock caps that differ by less count as the same."""


def peaks_file() -> Path:
    """Where measured peaks are kept: ``TRACETUI_PEAKS``, else in the platform's folder for a user's data."""
    if chosen := os.environ.get("TRACETUI_PEAKS"):
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_data_dir("tracetui", appauthor=False)) / "peaks.json"


def measured_peaks(device: DeviceInfo, cap_hz: int | None) -> Roofs | None:
    """What was measured on a GPU of this name, number of SMs and clock cap; None where nothing was."""
    for entry in reversed(_entries(peaks_file())):
        same = entry.get("device") == device.name and device.name is not None
        same &= device.sm_count is None or entry.get("sm_count") in (None, device.sm_count)
        cap = entry.get("clock_cap_hz")
        if cap_hz and isinstance(cap, int | float) and cap:
            same &= abs(cap / cap_hz - 1) <= SAME_CLOCK
        if not same:
            continue
        about = f"measured {str(entry.get('measured_utc') or '')[:10]}".strip()
        compute = {
            name: (float(value), "measured", about)
            for name, value in _mapping(entry.get("flops")).items()
            if _is_rate(value) and name in _known()
        }
        rate = entry.get("bandwidth")
        return compute, (float(rate), "measured", about) if _is_rate(rate) else None
    return None


def keep(entry: dict[str, Any]) -> Path:
    """Adds a measurement to the file; it replaces an earlier one of the same GPU at the same cap."""
    path = peaks_file()
    key = ("device", "sm_count", "clock_cap_hz")
    others = [known for known in _entries(path) if any(known.get(name) != entry.get(name) for name in key)]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps({"schema": SCHEMA, "measurements": [*others, entry]}, indent=2), force=True)
    return path


def _entries(path: Path) -> list[dict[str, Any]]:
    try:
        content = json.loads(read_text(path))
    except (OSError, ValueError, RecursionError):
        return []
    listed = _mapping(content).get("measurements")
    return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_rate(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e21


def _known() -> frozenset[str]:
    from tracetui.analysis.roofline.words import PRECISIONS

    return frozenset(PRECISIONS)
