"""Tables of where the time of a step goes: the critical path, and the longest gaps of a GPU."""

from dataclasses import replace

from tracetui.analysis.tables.table import EVERY, Field, Table

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
    data=EVERY,
    reports=EVERY,
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


GAPS = Table(
    "gaps",
    "Longest gaps",
    "gaps",
    (
        Field("duration_ns", "Idle", "time", priority=0, main=True, about="how long the whole GPU is idle"),
        Field("percent", "%", "percent", width=5, priority=0, bar=True, main=True,
              about="share of all idle time of this GPU in scope"),
        Field("step", "Step", "count", width=5, priority=2, null=True, about="the step in which the gap begins"),
        Field("host", "Host was in", width=18, priority=0, flex=True, short="short_host", tail=True,
              about="the innermost function of the program's own on the thread that launched what ended the gap, for "
              "most of it: file, first line, name, and the line that was sampled; where none was recorded the module, "
              "range or call"),
        Field("call", "Mostly in", width=14, priority=1, flex=True, short="short_call", null=True,
              about="what was called there for most of it"),
        Field("host_percent", "In%", "percent", width=5, priority=1,
              about="how much of the gap it was there"),
        Field("behind", "Ended by", width=16, priority=2, flex=True, null=True,
              about="the operator whose work ended the gap, else the call that launched it"),
        Field("launched_after_ns", "Launched", "delta", width=9, priority=3, null=True,
              about="the launch of that work, after the gap began; negative if before it"),
        Field("path", "Critical path", width=14, priority=2, null=True,
              about="what the critical path runs through for most of the gap"),
        Field("path_percent", "Path%", "percent", width=6, priority=3, null=True,
              about="how much of the gap that explains"),
        Field("next", "Next work", width=14, priority=4, flex=True, short="short_next", null=True,
              about="the GPU work that ended the gap"),
        Field("cause", "Cause", width=11, priority=5, hidden=True,
              about="host_wait: launched after the gap began; kernel_wait: in time, under 30 µs; other"),
        Field("device", "GPU", "count", width=3, priority=4, hidden=True, null=True, about="the GPU that is idle"),
        Field("at_ns", "At", "time", width=9, priority=3, about="when it begins, since the recording did"),
    ),
    data=(
        "device", "step", "at_ns", "duration_ns", "percent", "cause", "host", "call", "host_percent", "behind",
        "launched_after_ns", "next", "path", "path_percent",
    ),
    reports=("duration_ns", "percent", "step", "host_percent", "host", "behind", "path"),
    base="% of all idle time",
    sort=("duration_ns", True),
    drill="show it",
)  # fmt: skip
GAP_CAUSES = Table(
    "gap_causes",
    "Gaps by cause",
    "causes",
    (
        replace(GAPS.field("host"), width=30, tail=False),
        replace(GAPS.field("cause"), hidden=False, priority=4),
        replace(GAPS.field("duration_ns"), about="idle time of whole GPUs while the host was in it"),
        replace(GAPS.field("percent"), about="share of all idle time in scope"),
        Field("gaps", "Gaps", "count", width=6, priority=1, about="how many it was in; one may be in several rows"),
        GAPS.field("call"),
        Field("longest_ns", "Longest", "time", priority=3, about="the longest of these gaps, which Enter shows"),
        replace(GAPS.field("at_ns"), priority=4, about="when that begins, since the recording did"),
    ),
    base="% of all idle time",
    sort=("duration_ns", True),
    key="host",
    drill="show longest",
)  # fmt: skip
LANES = Table(
    "lanes",
    "Lanes",
    "lanes",
    (
        Field("lane", "Lane", width=22, priority=0, flex=True, about="calls, ranges or modules of a thread; a stream"),
        Field("calls", "Events", "count", width=6, priority=1, about="events that touch the range"),
        Field("busy_ns", "Time", "time", priority=0, main=True, about="time of the range in which any of them runs"),
        Field("percent", "%", "percent", width=5, priority=0, bar=True, main=True, about="share of the range"),
        Field("most", "Most time", width=20, priority=1, flex=True, short="short_most",
              about="the name that takes the most time in it"),
    ),
    base="% of the range",
    key="lane",
    drill="what ran",
)  # fmt: skip
LANE_EVENTS = Table(
    "lane_events",
    "What ran",
    "names",
    (
        Field("name", "Name", width=24, priority=0, flex=True, short="short_name", about="what ran in this lane"),
        Field("calls", "Calls", "count", width=6, priority=0, about="events of this name that touch the range"),
        Field("total_ns", "Time", "time", priority=0, main=True,
              about="their time in the range; what is nested counts in what is around it too"),
        Field("percent", "%", "percent", width=5, priority=0, bar=True, main=True, about="share of the range"),
        Field("longest_ns", "Longest", "time", priority=1, about="the longest of them, as far as it lies in the range"),
    ),
    base="% of the range",
    sort=("total_ns", True),
    key="name",
)  # fmt: skip
