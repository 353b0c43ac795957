"""What connects the GPUs of a host, by product: the ceiling of what collectives move."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tracetui.analysis.collectives.bandwidth import Link
from tracetui.analysis.roofline.peaks import known_device, table

if TYPE_CHECKING:
    from tracetui.parsers import Run, Trace


def link_of(run: Run | None, trace: Trace) -> Link | None:
    """The link of the GPU that a recording ran on; null where the GPU or its link is not known."""
    device = known_device([trace], run.manifest if run else None)
    if device is None or device.name is None:
        return None
    row = next((row for row in table()["link"] if re.search(row["match"], device.name)), None)
    return None if row is None else Link(row["name"], row["gbs"] * 1e9, row.get("ranks", 8), row["source"])
