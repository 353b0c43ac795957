"""The jobs that a run's recordings are of: one for its rich recordings, one for its light ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.base.remembered import kept
from tracetui.analysis.ranks.at_hand import of_run
from tracetui.analysis.ranks.job import jobs
from tracetui.analysis.ranks.steps import WHOLE
from tracetui.analysis.ranks.summarise import summarise

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracetui.analysis.ranks.job import Job
    from tracetui.analysis.ranks.summary import RankSummary
    from tracetui.analysis.scope import Scope
    from tracetui.parsers import Run


def jobs_of(
    run: Run, scope: Scope | None = None, *, make: bool = True, progress: Callable[[int, int], None] | None = None
) -> tuple[Job, ...]:
    """A job per recorded pass of a run, the rich one first; none for a run of fewer than two ranks.

    Args:
        run: what `open_path` returned.
        scope: its steps are heeded; who is late in a program is no matter of a marked stretch or of one device.
        make: whether summaries that are not at hand are made; without them there is no job.
        progress: called with how many of how many recordings are done.
    """
    if len(run.ranks) < 2:
        return ()
    if scope is None or (scope.steps is None and not scope.skip_steps):
        known = _remembered(run)
        if "jobs" not in known:
            found = _summaries(run, make, progress)
            if found is None:
                return ()
            known["jobs"] = jobs(found)
        return known["jobs"]
    found = _summaries(run, make, progress)
    return () if found is None else jobs([_of_steps(one, scope) for one in found])


@kept
def _remembered(run: Run) -> dict[str, tuple[Job, ...]]:
    """The jobs of this run; they live as long as it."""
    del run
    return {}


def _summaries(run: Run, make: bool, progress: Callable[[int, int], None] | None) -> tuple[RankSummary, ...] | None:
    """The summaries of all recordings; None where some are not at hand, and none shall be made."""
    lighter = any(file.recorded_pass == "light" for file in run.rank_files)
    if not run.unread and not lighter:
        return tuple(summarise(trace, manifest=run.manifest) for trace in run.traces if trace.info.rank is not None)
    found = of_run(run, make=make, progress=progress)
    if not found.absent:
        return found.ranks
    if run.unread:
        return None
    # what was read is judged; the light recordings join when they are summarised
    return tuple(summarise(trace, manifest=run.manifest) for trace in run.traces if trace.info.rank is not None)


def _of_steps(found: RankSummary, scope: Scope) -> RankSummary:
    """The summary without the steps that the scope leaves out; one without steps stays as it is."""
    steps = found.steps
    if not steps.height or steps["step"][0] == WHOLE:
        return found
    steps = steps.slice(scope.skip_steps)
    if scope.steps is not None:
        steps = steps.filter(pl.col("step").is_between(*scope.steps))
    chosen = pl.col("step").is_in(steps["step"].implode())
    return replace(found, steps=steps, collectives=found.collectives.filter(chosen), work=found.work.filter(chosen))
