"""Reads times as users write them: ``12.5ms`` from the start of the recording, ``+3ms`` from here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracetui.parsers import Trace

_TIME = re.compile(r"([+-]?)\s*([0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})\s*(ns|us|µs|ms|s|m)?", re.IGNORECASE)
LATEST = 2**62 - 1
"""ns; no recording's clock goes further, and the difference of two such times fits in 64 bits."""
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9}


def parse_time(text: str, here: int, zero: int) -> int | None:
    """Reads a time on the trace's clock: ``12.5ms`` since zero, ``+3ms`` from here; ms by default. None if invalid."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return None
    sign, number, unit = match.groups()
    whole, _, rest = number.partition(".")
    factor = _UNITS[(unit or "ms").lower()]
    span = int(whole or 0) * factor + int(int(rest or 0) * factor // 10 ** len(rest))
    time = here + span if sign == "+" else here - span if sign == "-" else zero + span
    return max(-LATEST, min(time, LATEST))


def zero_of(trace: Trace) -> int:
    """Returns the time that counts as 0: the recording's start, else the first event's (as in `Timeline.zero`)."""
    begins = [frame["start"].min() for frame in (trace.host, trace.device, trace.steps) if frame.height]
    window = trace.info.window
    known = [int(begin) for begin in (*begins, window[0] if window else None) if begin is not None]  # type: ignore[arg-type]
    return min(known, default=0)


def file_stretch(start: int, end: int) -> str:
    """Names a time range (ns) for a file name: ``3.1ms-9.0ms``, with enough digits to tell its ends apart."""
    for unit, factor in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if end - start >= factor:
            return f"{start / factor:.1f}{unit}-{end / factor:.1f}{unit}"
    return f"{start}ns-{end}ns"
