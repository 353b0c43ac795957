"""What `tracetui profile` writes into a trace's metadata: whose recording it is, and where the steps of one begin.

A light recording has no ``ProfilerStep``: the step boundaries stand in the metadata key ``tracetui``, in ns since 1970.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.parsers import schema
from tracetui.parsers.chrome import layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.parsers.chrome.columns import Columns
    from tracetui.parsers.tally import Tally
    from tracetui.parsers.trace import TraceInfo

KEY = "tracetui"
STEP = "step {}"
MOST_STEPS = 1 << 32
"""More steps before those of a cut are a damaged number."""
SLACK_NS = 1_000_000
"""How far outside the recorded events a boundary may lie: the host comes back from its last wait after the last one."""
_MARKS = re.compile(rb'"marks"\s*:\s*\[[\d\s,-]*\](?:\s*,\s*"before"\s*:\s*\d+)?')
_PASS = re.compile(rb'("pass"\s*:\s*)"(light|rich)"')
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
    first = 1 + _before(own(header))
    numbers = range(first, first + len(at) - 1)
    return pl.DataFrame(
        {
            "index": list(numbers),
            "name": [STEP.format(number) for number in numbers],
            "start": at[:-1],
            "duration": [after - before for before, after in pairwise(at)],
        },
        schema=schema.STEPS,
    )


def _before(about: dict[str, Any]) -> int:
    """How many steps of the whole recording come before those of a cut."""
    before = about.get("before")
    return before if type(before) is int and 0 <= before < MOST_STEPS else 0


def _problem(found: Any, info: TraceInfo, host: Columns, device: Columns) -> str | None:
    """Why these are no boundaries of steps; None if they are."""
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


def narrowed(head: bytes, window: tuple[int, int], starts: Sequence[int] | None) -> bytes:
    """The text before the events of a cut: only the boundaries of the steps in it, which keep their numbers.

    It says that it is a cut, so that nobody takes it for the run's whole recording.

    Args:
        head: that text of the whole trace.
        window: start and end of the cut, ns on the trace's clock.
        starts: start times of the steps that are kept, ns; None for all that lie in the window.
    """
    header = layout.header(head)
    about, base = own(header), header.get("baseTimeNanoseconds")
    found = about.get("marks")
    if isinstance(found, list) and type(base) is int and all(type(mark) is int for mark in found):
        kept = [
            step
            for step, (start, end) in enumerate(pairwise(mark - base for mark in found))
            if (start < window[1] and end > window[0] if starts is None else start in starts)
        ]
        left = found[kept[0] : kept[-1] + 2] if kept else []
        before = b', "before": %d' % ((kept[0] if kept else 0) + _before(about))
        head = _MARKS.sub(lambda _: b'"marks": ' + json.dumps(left).encode() + before, head, count=1)
    if about.get("pass") is not None:
        head = _PASS.sub(rb'\1"cut of \2"', head, count=1)
    return head
