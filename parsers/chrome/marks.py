"""What `tracetui profile` writes into a trace's metadata: whose recording it is, and where the steps of one begin.

A light recording has no ``ProfilerStep``: the step boundaries stand in the metadata key ``tracetui``, in ns since 1970.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.parsers import schema

if TYPE_CHECKING:
    from tracetui.parsers.chrome.columns import Columns
    from tracetui.parsers.tally import Tally
    from tracetui.parsers.trace import TraceInfo

KEY = "tracetui"
STEP = "step {}"
SLACK_NS = 1_000_000
"""How far outside the recorded events a boundary may lie: the host comes back from its last wait after the last one."""
UNUSABLE = "step marks in the trace's metadata that can't be used"


def own(header: dict[str, Any]) -> dict[str, Any]:
    """What tracetui wrote; Kineto keeps it as it was given, or the same in quotes. Empty where there is nothing."""
    found = header.get(KEY)
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except (ValueError, RecursionError):
            return {}
    return found if isinstance(found, dict) else {}


def marked_steps(header: dict[str, Any], info: TraceInfo, host: Columns, device: Columns, tally: Tally) -> pl.DataFrame:
    """The steps between the boundaries in the metadata; none where it has none, or none that can be right."""
    found = own(header).get("marks")
    if found is None:
        return schema.empty(schema.STEPS)
    problem = _problem(found, info, host, device)
    if problem is not None:
        tally.missing(UNUSABLE, 1, problem)
        return schema.empty(schema.STEPS)
    at = [mark - (info.base_time or 0) for mark in found]
    numbers = range(1, len(at))
    return pl.DataFrame(
        {
            "index": list(numbers),
            "name": [STEP.format(number) for number in numbers],
            "start": at[:-1],
            "duration": [after - before for before, after in pairwise(at)],
        },
        schema=schema.STEPS,
    )


def _problem(found: Any, info: TraceInfo, host: Columns, device: Columns) -> str | None:
    """Why these are no boundaries of steps; null if they are."""
    if not isinstance(found, list) or any(type(mark) is not int for mark in found):
        return "not a list of whole numbers"
    if len(found) < 2:
        return f"{len(found)} boundaries"
    if any(before >= after for before, after in pairwise(found)):
        return "not in ascending order"
    if info.base_time is None:
        return "the trace does not say which moment its zero is"
    spans = [(int(group["start"].min()), int((group["start"] + group["duration"]).max())) for group in (host, device)
             if group["start"].size]  # fmt: skip
    if info.window is not None:
        spans.append((info.window[0], sum(info.window)))
    if not spans:
        return "nothing was recorded"
    first, last = min(low for low, _ in spans), max(high for _, high in spans)
    if found[0] - info.base_time < first - SLACK_NS or found[-1] - info.base_time > last + SLACK_NS:
        return "outside the recording"
    return None
