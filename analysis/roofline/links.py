"""What connects the GPUs of a host with each other and with it, by product: the ceiling of what they exchange."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tracetui.analysis.collectives.bandwidth import Link
from tracetui.analysis.roofline.peaks import known_device, table

if TYPE_CHECKING:
    from tracetui.parsers import Run, Trace


def link_of(run: Run | None, trace: Trace) -> Link | None:
    """The link of the GPU that a recording ran on; null where the GPU or its link is not known."""
    return _known("link", run, trace)


def host_link_of(run: Run | None, trace: Trace) -> Link | None:
    """What connects that GPU with its host: at most, since a slot or a virtual machine may give it less."""
    return _known("host_link", run, trace)


def _known(kind: str, run: Run | None, trace: Trace) -> Link | None:
    device = known_device([trace], run.manifest if run else None)
    if device is None or device.name is None:
        return None
    row = next((row for row in table()[kind] if re.search(row["match"], device.name)), None)
    return None if row is None else Link(row["name"], row["gbs"] * 1e9, row.get("ranks", 8), row["source"])
