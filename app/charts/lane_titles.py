"""Names the lanes of a timeline."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracetui.analysis.timeline.lanes import Lane

WHAT = {
    "steps": "steps",
    "path": "critical path",
    "idle": "idle",
    "samples": "samples",
    "collectives": "collectives",
    "gpu ranges": "ranges",
    "stream": "stream",
    "copies": "copies",
    "syncs": "syncs",
    "ranges": "ranges",
    "modules": "modules",
    "calls": "calls",
    "system": "system",
    "python": "Python",
}
SHORT = {"collectives": "coll.", "critical path": "crit. path", "Python": "Py", "modules": "mods", "system": "sys"}


def lane_title(lane: Lane, *, short: bool = False) -> str:
    """Returns the title of a lane: ``GPU 0 stream 7``, ``python3 424 calls``."""
    if lane.rank is not None:
        # of a rank, which mostly has one GPU, its number says enough where there is little room
        own = replace(lane, rank=None, device=None if short else lane.device)
        title = lane_title(own, short=short).removeprefix("GPU " if short else "")
        return f"r{lane.rank} {title}" if short else f"rank {lane.rank} {title}"
    what = WHAT[lane.kind]
    if lane.kind in ("steps", "path", "collectives"):
        return SHORT.get(what, what) if short else what
    gpu = "GPU" if lane.device is None else f"GPU{lane.device}" if short else f"GPU {lane.device}"
    if lane.kind in ("stream", "gpu ranges"):
        number = "?" if lane.stream is None else str(lane.stream)
        if lane.kind == "stream":
            return f"{gpu} strm {number}" if short else f"{gpu} stream {number}"
        return f"{gpu} {what} {number}" if short else f"{gpu} stream {number} {what}"
    if lane.source in ("device", "idle", "samples"):
        return f"{gpu} {what}"
    number = "?" if lane.thread is None else str(lane.thread)
    return f"{SHORT.get(what, what)} {number}" if short else f"{what} {_thread_name(lane.name, number)}{number}"


def _thread_name(name: str, number: str) -> str:
    """Returns the name without the number and word that Kineto adds: ``thread 424 (python3)``."""
    inner = name.removeprefix(f"thread {number}").strip()
    if inner.startswith("(") and inner.endswith(")"):
        inner = inner[1:-1]
    return f"{inner} " if inner and inner != number else ""
