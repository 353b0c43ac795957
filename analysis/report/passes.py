"""Which section of a report rests on which of a run's two recordings by torch.profiler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.base.json_values import us
from tracetui.analysis.report.model import LightRecording

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tracetui.analysis.selection import Selection

LIGHT, RICH, BOTH = "light", "rich", "both"
SECTIONS = {
    "overview": LIGHT,
    "launches": LIGHT,
    "kernels": LIGHT,
    "kernel_groups": LIGHT,
    "memops": LIGHT,
    "communication": LIGHT,
    "roofline": LIGHT,
    "operators": BOTH,
    "modules": BOTH,
    "ranges": BOTH,
    "range_tree": BOTH,
    "findings": BOTH,
    "critical_path": RICH,
    "gaps": RICH,
    "host_functions": RICH,
    "api": RICH,
    "memory": RICH,
    "collectives": RICH,
}
"""By section, which recording its times are of; names, counts and steps of tables are always those of the rich one.
``both``: GPU times of the light one, host times of the rich one, as recorded; findings take verdict and gains of GPU
work from the light one, what they say of the host from the rich one."""
OF_SELECTION = frozenset({"overview", "launches"})
"""Those that are of the light recording alone, and so of the rich one where only a part of the run was asked for."""


def light_recording(sel: Selection) -> LightRecording | None:
    """What of a recording was found in the light one of its run; null where the run has none."""
    if sel.trace.light is None:
        return None
    from tracetui.analysis.matching.light_times import light_times

    found = light_times(sel.trace)
    if found is None:
        return None
    return LightRecording(
        path=None if found.light is None else str(found.light.source.path),
        used=found.times is not None,
        problem=found.problem or None,
        steps=None if found.light is None else found.light.steps.height,
        launches=found.launches,
        matched=found.matched,
        matched_percent=found.percent,
        unmatched_us_per_step=us(found.lost_ns),
        kept_launches=found.kept,
        kept_percent=found.kept_percent,
    )


def rests_on(sel: Selection, sections: Iterable[str]) -> dict[str, str] | None:
    """By section, on which recording it rests: ``light``, ``rich`` or ``both``; null where the run has no light one."""
    if sel.trace.light is None:
        return None
    from tracetui.analysis.matching.light_times import light_selection

    used, whole = sel.work_times is not None, light_selection(sel) is not None
    return {
        name: SECTIONS[name] if used and (whole or name not in OF_SELECTION) else RICH
        for name in sections
        if name in SECTIONS
    }
