"""The critical path: what it runs through, and its longest stretches."""

from __future__ import annotations

from tracetui.analysis.tables.table import Field, Table

_TIME = Field("ns", "Time", "time", priority=0, main=True, about="time on the critical path, per step")
_SHARE = Field("percent", "%", "percent", width=5, priority=0, bar=True, main=True, about="share of the critical path")
_PIECES = Field("pieces", "Pieces", "count", width=6, priority=2, about="stretches of the path, in all steps")
_LONGEST = Field("longest_ns", "Longest", "time", priority=1, about="the longest of them")

CRITICAL_PATH = Table(
    "critical_path",
    "Critical path",
    "resources",
    (
        Field("resource", "Through", width=14, priority=0, flex=True, about="what the path runs through"),
        _TIME,
        _SHARE,
        _PIECES,
        _LONGEST,
    ),
    data=("resource", "ns", "percent", "pieces", "longest_ns"),
    reports=("resource", "ns", "percent", "pieces", "longest_ns"),
    base="% of the path",
    key="resource",
    section="critical_path.resources",
    drill="stretches",
)
STRETCHES = Table(
    "critical_path_stretches",
    "Stretches",
    "functions",
    (
        Field("name", "Function", width=24, priority=0, flex=True, short="short_name",
              about="innermost call, kernel or copy on the path"),
        _TIME,
        _SHARE,
        _PIECES,
        _LONGEST,
        Field("at_ns", "Longest at", "time", width=9, priority=2, about="start of the longest, from the recording's"),
        Field("resource", "Through", width=13, priority=1, about="what the path runs through"),
    ),
    data=("resource", "name", "ns", "percent", "pieces", "longest_ns", "at_ns"),
    reports=("ns", "percent", "pieces", "longest_ns", "resource", "name"),
    base="% of the path",
    sort=("ns", True),
    section="critical_path.stretches",
)  # fmt: skip
