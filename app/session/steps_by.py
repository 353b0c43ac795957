"""Which ranges are the steps, by the user's wish (``--steps-by``), and what is said if there are no such ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.app.text.exit_codes import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.parsers import Run, Trace

MOST_NAMES = 12
"""How many names of ranges a message lists."""


def run_with_steps(run: Run, name: str | None) -> Run:
    """Returns the run with the ranges of this name as its steps; the run itself without a name.

    Raises:
        UsageError: no recording of the run has such a range; it names those that repeat.
    """
    if name is None:
        return run
    from tracetui.analysis.selection import run_by

    changed = run_by(run, name)
    if not any(trace.steps.height for trace in changed.traces):
        path = run.traces[0].source.path if run.traces else run.path
        raise UsageError(f"--steps-by {name}: {path} has no range of this name; {repeating(run.traces)}")
    return changed


def repeating(traces: Sequence[Trace]) -> str:
    """Names the ranges that repeat, which may be steps."""
    from tracetui.parsers.iterations import candidates

    names = list(dict.fromkeys(name for trace in traces for name in candidates(trace)))
    if not names:
        return "no range in it repeats"
    rest = f", and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"those that repeat: {', '.join(names[:MOST_NAMES])}{rest}"
