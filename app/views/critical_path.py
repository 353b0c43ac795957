"""Pages of the critical path: what it runs through, and the stretches of one resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.analysis.base.number_format import format_ns
from tracetui.analysis.dependencies.critical_path import CriticalPath, critical_path
from tracetui.analysis.dependencies.model import model
from tracetui.analysis.tables.critical_path import CRITICAL_PATH, STRETCHES
from tracetui.app.text.words import RESOURCE_LABELS
from tracetui.app.views.common.page import Page

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tracetui.app.session.session import Session

_NO_PATH = "No critical path: this recording does not say which call launched which GPU work."


def session_path(session: Session) -> CriticalPath | None:
    """The critical path of the steps in scope; None where launches were not recorded."""
    selection = session.selection()

    def compute() -> CriticalPath | None:
        found = model(selection, selection.trace.clean_step_ns)
        return None if found is None else critical_path(selection, found)

    return session.cached("critical path", compute)


def path_page(session: Session) -> Page:
    """What the path runs through; Enter opens the stretches of a resource."""
    found = session_path(session)
    frame = pl.DataFrame(schema={"resource": pl.String}) if found is None else found.resources
    frame = frame.with_columns(name=pl.col("resource"))  # as findings call it
    return Page.of(
        CRITICAL_PATH,
        _labelled(frame),
        note="" if found is None else _note(session, found),
        empty=_NO_PATH,
    )


def inside_path(session: Session, row: Mapping[str, Any]) -> Callable[[], Page]:
    """The stretches of the row's resource, those that take the most time first."""

    def page() -> Page:
        found = session_path(session)
        assert found is not None
        window = session.trace().info.window
        frame = _labelled(found.stretches).filter(pl.col("resource") == row["resource"])
        frame = frame.with_columns(at_ns=pl.col("start") - (window[0] if window else 0), short_name=pl.col("name"))
        return Page.of(STRETCHES, frame, title=str(row["resource"]), note=_note(session, found))

    return page


def _note(session: Session, found: CriticalPath) -> str:
    steps = f"mean of {found.steps} steps" if found.steps > 1 else "one step"
    clean = ", without the profiler" if session.trace().clean_step_ns else ", as recorded"
    return f"{format_ns(found.step_ns)} {steps}{clean}"


def _labelled(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col("resource").replace(RESOURCE_LABELS))
