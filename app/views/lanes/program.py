"""Timeline: the critical path, the slack of GPU work and the GPU's samples, which take longer than the lanes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tracetui.analysis.dependencies.critical_path import slack
from tracetui.analysis.dependencies.model import model
from tracetui.analysis.dependencies.path_lane import path_lane
from tracetui.analysis.nsys.gpu_samples import KNOWN, sampled
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import select
from tracetui.analysis.timeline.rows import Curve
from tracetui.analysis.timeline.timeline import Timeline, with_curves, with_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.nsys.gpu_samples import Sampled
    from tracetui.app.session.session import Session
    from tracetui.parsers import Trace


def with_program(session: Session, trace: Trace, found: Timeline | None) -> Timeline | None:
    """The timeline with what the replay of its program tells, and with samples; None where there is neither.

    It is of the whole recording whatever is in scope, as the lanes are.
    """
    if found is None:
        return None
    selection = session.selection() if session.scope == Scope() and session.trace() is trace else select(trace)
    more = found
    if trace.info.kind == "nsys":
        more = with_curves(more, known_first(sampled(selection)))
    replayed = model(selection, trace.clean_step_ns)
    if replayed is not None:
        more = with_path(more, path_lane(selection, replayed), slack(replayed))
    return more if more is not found else None


def known_first(samples: Sequence[Sampled]) -> list[Curve]:
    """The metrics as curves: by GPU, those first that tell most."""
    patterns = list(KNOWN.values())

    def rank(one: Sampled) -> int:
        return next((at for at, pattern in enumerate(patterns) if re.match(pattern, one.name)), len(patterns))

    ordered = sorted(samples, key=lambda one: (one.device, rank(one)))
    return [Curve(one.device, one.name, one.unit, one.time, one.value) for one in ordered]
