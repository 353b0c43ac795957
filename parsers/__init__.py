"""Readers, which turn a file or folder into a Run of Traces."""

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
