"""The checklist of one run as the JSON contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.checklist import STATUSES, answer_row, check
from tracetui.analysis.findings.core.facts import Facts

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracetui.analysis.base.json_values import Json
    from tracetui.analysis.findings.config import Config
    from tracetui.analysis.scope import Scope
    from tracetui.parsers import Run, Trace

SCHEMA = "tracetui.check/1"


def check_report(
    run: Run,
    scope: Scope,
    config: Config | None = None,
    on_error: Callable[[Exception], None] | None = None,
) -> Json:
    """Every point of the checklist for a run; of several ranks, for the one that the others wait for.

    Args:
        run: what `open_path` returned; counters and snapshots beside the main recording answer their points.
        scope: the steps, devices or stretch of time that it is about.
        config: thresholds of the rules, and which rules are silenced.
        on_error: called with the error of a rule that failed.
    """
    trace = _chosen(run, scope)
    facts = Facts(run, trace, scope)
    rows = [answer_row(answer) for answer in check(facts, config, on_error)]
    return {
        "schema": SCHEMA,
        "path": str(run.path),
        "recording": str(trace.source.path),
        "kind": trace.info.kind,
        "rank": trace.info.rank,
        "ranks": sorted(run.ranks),
        "other_runs": len(run.others),
        "base": facts.sel.describe() if trace.has_timeline or facts.sel.by_steps else "whole recording",
        "waits_for": facts.verdict.sentence if trace.has_timeline else None,
        "points": rows,
        "counts": {status: sum(row["status"] == status for row in rows) for status in STATUSES},
    }


def _chosen(run: Run, scope: Scope) -> Trace:
    """The recording to check: the straggler's where there is one, else the run's main one."""
    if len(run.ranks) < 2:
        return run.main
    from tracetui.analysis.ranks.files.at_hand import ranks_of, straggler

    late = straggler(ranks_of(run, scope))
    if late is not None:
        run = run.with_rank(late)
    return next((trace for trace in run.traces if late is not None and trace.info.rank == late), run.main)
