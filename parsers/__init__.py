"""Readers: a file or folder in, a Run of Traces out."""

from tracetui.parsers.errors import Cancelled, TraceError
from tracetui.parsers.progress import Progress
from tracetui.parsers.runs.opening import open_path
from tracetui.parsers.runs.run import Run
from tracetui.parsers.trace import DeviceInfo, Note, Source, Trace, TraceInfo

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
