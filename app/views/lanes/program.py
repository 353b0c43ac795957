"""Timeline: the critical path and the slack of GPU work, which take longer to compute than the lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.dependencies.model import model
from tracetui.analysis.dependencies.path_lane import path_lane
from tracetui.analysis.dependencies.slack import slack
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import select
from tracetui.analysis.timeline.timeline import Timeline, with_path

if TYPE_CHECKING:
    from tracetui.app.session.session import Session
    from tracetui.parsers import Trace


def with_program(session: Session, trace: Trace, found: Timeline | None) -> Timeline | None:
    """The timeline with what the replay of its program tells; None where there is no replay.

    It is of the whole recording whatever is in scope, as the lanes are.
    """
    if found is None:
        return None
    selection = session.selection() if session.scope == Scope() and session.trace() is trace else select(trace)
    replayed = model(selection, trace.clean_step_ns)
    if replayed is None:
        return None
    return with_path(found, path_lane(selection, replayed), slack(replayed))
