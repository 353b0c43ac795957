"""The pieces that drafts of whole reports are made of: parts of other reports, each by a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.app.reports.content.drafts.draft import says_something, section_of
from tracetui.app.reports.content.drafts.of_folder import SWEPT, captures, side_by_side
from tracetui.app.reports.content.drafts.of_run import PIECES
from tracetui.app.reports.content.drafts.rules_said import about

if TYPE_CHECKING:
    from tracetui.app.reports.content.drafts.draft import Draft
    from tracetui.app.reports.layout import Layout
    from tracetui.app.reports.parts import Part


def piece(draft: Draft, name: str, layout: Layout) -> list[Part]:
    """The parts of a piece that say something; none where the draft has nothing of it.

    Args:
        draft: what there is.
        name: out of `PIECES`, `SWEPT`, `content.sections.SECTIONS`, or one of these with what of it: ``about:S7,S13``
            (what these rules say), ``captures:Forward|Ranges`` (the tables of these headings).
        layout: how many rows there are room for.
    """
    kind, _, which = name.partition(":")
    found: list[Part]
    if kind == "about":
        found = [about(draft.traces[0].judged, draft.traces[0].base, which.split(","))]
    elif kind == "sweep_about":
        found = [about(draft.sweep.judged if draft.sweep else None, "step", which.split(","))]
    elif kind == "captures":
        found = list(captures(draft, set(which.split("|")), layout))
    elif kind == "side_by_side":
        found = list(side_by_side(draft, layout))
    elif kind in SWEPT:
        found = list(SWEPT[kind](draft.sweep, layout)) if draft.sweep else []
    elif kind in PIECES:
        found = list(PIECES[kind](draft, layout))
    else:
        found = section_of(draft, kind, layout)
    return [part for part in found if says_something(part)]
