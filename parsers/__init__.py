"""Readers, which turn a file or folder into a Run of Traces."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracetui.parsers.errors import Cancelled, TraceError
    from tracetui.parsers.progress import Progress
    from tracetui.parsers.runs.opening import open_path
    from tracetui.parsers.runs.run import Run
    from tracetui.parsers.trace import DeviceInfo, Note, Source, Trace, TraceInfo

_PLACES = {
    "errors": ("Cancelled", "TraceError"),
    "progress": ("Progress",),
    "runs.opening": ("open_path",),
    "runs.run": ("Run",),
    "trace": ("DeviceInfo", "Note", "Source", "Trace", "TraceInfo"),
}
__all__ = [
    "Cancelled",
    "DeviceInfo",
    "Note",
    "Progress",
    "Run",
    "Source",
    "Trace",
    "TraceError",
    "TraceInfo",
    "open_path",
]


def __getattr__(name: str) -> Any:
    """Imports what is asked for: who only looks for a kept report, or at a file's name, needs no Polars."""
    for place, names in _PLACES.items():
        if name in names:
            found = getattr(import_module(f"{__name__}.{place}"), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
