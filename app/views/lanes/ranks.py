"""Timeline: the lanes of chosen ranks on one fitted clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.ranks.files.at_hand import jobs_of
from tracetui.analysis.ranks.one_clock import ranks_timeline
from tracetui.analysis.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.timeline.ranks_timeline import RanksTimeline
    from tracetui.app.session.session import Session
    from tracetui.parsers import Run, Trace

MOST_RANKS = 8
"""So many ranks are shown at once; each is in memory while it is."""


def chosen_ranks(text: str, known: Sequence[int]) -> tuple[int, ...] | str:
    """The ranks that a text names, ascending: ``0-2, 5``; empty for an empty text. Or what is wrong with it."""
    found: set[int] = set()
    for part in text.replace(",", " ").split():
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or max(len(first), len(last)) > 9:
            return "ranks are numbers: 0-2, 5"
        named = range(int(first), int(last or first) + 1)
        if not named or named[0] not in known or named[-1] not in known:
            return f"no rank {part} here"
        found.update(set(named).intersection(known))
    if len(found) > MOST_RANKS:
        return f"{len(found)} ranks; at most {MOST_RANKS} at once"
    return tuple(sorted(found))


def of_session(session: Session, ranks: Sequence[int]) -> RanksTimeline | None:
    """The timeline of these ranks of run A; reads those that were not read.

    Raises:
        TraceError: one of them can't be read.
    """
    run = session.runs["a"]
    traces = [trace for rank in ranks if (trace := _trace_of(run, rank)) is not None]
    known = jobs_of(run, Scope(), make=False)
    job = next((one for one in known if set(ranks) <= set(one.ranks["rank"])), None)
    return ranks_timeline(run, traces, job) if traces else None


def _trace_of(run: Run, rank: int) -> Trace | None:
    own = [trace for trace in run.with_rank(rank).traces if trace.info.rank == rank and trace.has_timeline]
    return own[0] if own else None
