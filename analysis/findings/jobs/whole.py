"""Rule on the measurement of a job: are all ranks here, and do their collectives match?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.base.number_format import spans
from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.finding import Evidence, Finding, Query
from tracetui.analysis.findings.core.rule import Threshold, rule

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.rule import Limits


@rule(
    "V30",
    "Ranks that are missing, or whose collectives don't match",
    needs=("ranks",),
    thresholds={
        "unmatched_percent": Threshold(
            50, "%", "of the calls of collectives that were matched with no other", own=True
        ),
    },
    advice="Give the recordings of all ranks, of the same steps.",
)
def not_whole(facts: Facts, limits: Limits) -> Finding | None:
    """Who came last to a collective is said of the ranks that are here: a missing one may have come later.

    Calls that were queued before a recording began are on some ranks only, and unmatched for that; more than half says
    that the recordings are not of the same steps.
    """
    from tracetui.analysis.ranks.matching.matched import COALESCED

    job = facts.job
    assert job is not None
    # operations that share a kernel can't be told apart on any rank, whatever was recorded
    apart_from_those = job.unmatched.filter(pl.col("reason") != COALESCED)
    lost = int(apart_from_those["count"].sum()) if apart_from_those.height else 0
    whole = lost + job.calls.height
    apart = whole > 0 and 100 * lost / whole > limits.unmatched_percent
    if not job.missing and not apart:
        return None
    said = []
    if job.missing:
        here = spans(set(range(job.world_size)) - set(job.missing))
        said.append(f"{words.count(job.here)} of {words.count(job.world_size)} ranks are here ({here})")
    if apart:
        said.append(f"{words.count(lost)} of {words.count(whole)} calls of collectives match no other rank's")
    return Finding(
        "V30",
        "warning" if apart else "info",
        "; ".join(said),
        (
            *([Evidence("missing ranks", spans(job.missing), "", Query("ranks"))] if job.missing else []),
            Evidence("calls that were matched", job.calls.height),
            Evidence("calls that were not", lost),
        ),
        f"{words.count(lost)} of {words.count(whole)} calls",
        f"a rank is missing, or {words.percent(limits.unmatched_percent)} of the calls",
        "Record the same steps on all ranks, and open the folder that has all of them.",
    )
