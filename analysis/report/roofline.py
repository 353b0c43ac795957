"""The roofs of the report's section `roofline`, as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.base.json_values import known
from tracetui.analysis.report.model import Bandwidth, Roof, Roofs

if TYPE_CHECKING:
    from tracetui.analysis.roofline.roofline import Roofline


def roofs(found: Roofline) -> Roofs:
    """The roofs of the points: each peak with its source, and what is not known."""
    bandwidth, ridge = found.peaks.bandwidth, found.ridge
    return Roofs(
        device=found.peaks.device,
        compute_capability=found.peaks.capability,
        compute=[
            Roof(
                precision=name,
                flops=peak.value,
                ridge=known(ridge.get(name)),
                source=peak.source,
                about=peak.about,
            )
            for name, peak in found.peaks.compute.items()
        ],
        bandwidth=None
        if bandwidth is None
        else Bandwidth(bytes=bandwidth.value, source=bandwidth.source, about=bandwidth.about),
        covered_percent=known(found.covered_percent),
        unknown=list(found.peaks.unknown),
    )
