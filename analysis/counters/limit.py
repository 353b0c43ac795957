"""Whether Nsight Compute stopped because it had measured as many launches as it was told to."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracetui.parsers import Trace
    from tracetui.parsers.runs.manifest import RunManifest

_COUNTED = re.compile(r"[0-9]{1,18}")
COUNT = ("--launch-count", "-c")
CHOSEN = ("--kernel-name", "-k", "--nvtx-include")
"""Options that choose what is measured: the launches are then no beginning of the run."""


def stopped_at(trace: Trace, manifest: RunManifest | None) -> int | None:
    """How many launches ncu was told to measure, where it measured so many of all; null otherwise, or if not known.

    Args:
        trace: a report of Nsight Compute.
        manifest: its run's run.json, which has the command.
    """
    for command in manifest.measurement.commands if manifest is not None else ():
        words = [part for word in command for part in word.split("=", 1)]
        limits = [value for name, value in pairwise(words) if name in COUNT and _COUNTED.fullmatch(value)]
        if limits and not set(CHOSEN) & set(words):
            limit = int(limits[-1])
            return limit if 0 < limit <= trace.device.height else None
    return None
