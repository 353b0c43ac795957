"""The roofs of the report's section `roofline`, as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.base.json_values import Json, known

if TYPE_CHECKING:
    from tracetui.analysis.roofline.roofline import Roofline


def roofs(found: Roofline) -> Json:
    """The roofs of the points: each peak with its source, and what is not known."""
    bandwidth, ridge = found.peaks.bandwidth, found.ridge
    return {
        "device": found.peaks.device,
        "compute_capability": found.peaks.capability,
        "compute": [
            {
                "precision": name,
                "flops": known(peak.value),
                "ridge": known(ridge.get(name)),
                "source": peak.source,
                "about": peak.about,
            }
            for name, peak in found.peaks.compute.items()
        ],
        "bandwidth": None
        if bandwidth is None
        else {"bytes": known(bandwidth.value), "source": bandwidth.source, "about": bandwidth.about},
        "covered_percent": known(found.covered_percent),
        "unknown": list(found.peaks.unknown),
    }
