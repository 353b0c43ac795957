"""Is the recording complete and readable? Rules on what the file lacks: names, its end, events."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.base import names
from tracetui.analysis.base.names import of_kinds
from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.declared.rule import looks_for
from tracetui.analysis.findings.declared.validity import V12, V16, V17

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.gain import Bools
    from tracetui.analysis.findings.declared.rule import Limits
    from tracetui.parsers import Trace
    from tracetui.parsers.trace import Note

NUMERIC = re.compile(r"\d+")
UNNAMED = ("", "(unknown)")
CUT_SHORT = (
    "the compressed stream ends early",
    "the file ends before its closing bracket",
    "event cut off by the end of the file",
    "row cut short",
    "rest of the pickle",
    "the rest of table",
    "table that can't be read",
    "rows still in the database's write-ahead log",
    "XLA's profiler stops at a million events",
)
"""First words of the readers' notes that mean the recording was longer than the file."""
DROPPED = ("not all ", "dropped", "discarded", "lost", "overflow", "buffer", "exceeded", "incomplete")
"""Words of a profiler's own warning that it did not keep everything."""
BESIDE_CUDA = re.compile(r"\b(NVTX|OS runtime|(IP|CPU) samples?|sampling|context switch|GPU Metrics)\b", re.IGNORECASE)
"""What such a warning is about if not about API calls and GPU work."""


@looks_for(V12)
def unresolved_names(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    kernels = facts.trace.device.lazy().filter(pl.col("kind").is_in(["kernel", "graph"])).select("name").collect()
    ranges = facts.trace.host.lazy().filter(pl.col("kind") == "annotation").select("name").collect()
    if not kernels.height and not ranges.height:
        return Abstention("kernels or ranges")
    blank, numeric = _nameless(kernels), _numeric(kernels)
    silent = _nameless(ranges)
    kernel_share = 100 * (len(blank) + len(numeric)) / kernels.height if kernels.height else 0.0
    range_share = 100 * len(silent) / ranges.height if ranges.height else 0.0
    if max(kernel_share, range_share) <= limits.share_percent:
        return None
    if kernel_share > limits.share_percent:
        like = f' (such as "{numeric[0]}")' if len(numeric) else ""
        title = f"{words.percent(kernel_share)} of the kernel launches have no name{like}: no kind can be ruled out"
    else:
        title = f"{words.percent(range_share)} of the ranges have no text: time in them can't be told apart"
    return Finding(
        "warning",
        title,
        (
            Evidence("launches named by a number", len(numeric), query=Query("kernels", r"/^\d+$/")),
            Evidence("launches without a name", len(blank), query=Query("kernels", "unknown")),
            Evidence("ranges without a text", len(silent)),
        ),
        f"{words.count(len(blank) + len(numeric))} of {words.count(kernels.height)} launches, "
        f"{words.count(len(silent))} of {words.count(ranges.height)} ranges",
        next_command="nsys export --type=sqlite --force-overwrite=true REPORT.nsys-rep"
        if facts.trace.info.kind == "nsys"
        else "",
    )


def _nameless(rows: pl.DataFrame) -> pl.Series:
    named: pl.Series = rows["name"]
    return _texts(named, named.is_null().to_numpy() | names.matching(named, UNNAMED.__contains__))


def _numeric(rows: pl.DataFrame) -> pl.Series:
    return _texts(rows["name"], names.matching(rows["name"], lambda name: NUMERIC.fullmatch(name) is not None))


def _texts(named: pl.Series, chosen: Bools) -> pl.Series:
    found: pl.Series = named.filter(pl.Series(chosen, dtype=pl.Boolean)).cast(pl.String)
    return found


@looks_for(V16)
def truncated(facts: Facts, limits: Limits) -> Finding | None:
    trace = facts.trace
    cut = [note for begin in CUT_SHORT for note in trace.notes if note.reason.startswith(begin)]
    if not cut and not trace.source.partial:
        return None
    parsed = trace.source.events_parsed
    why = "loading was stopped" if trace.source.partial else _reason(cut[0])
    return Finding(
        "invalid",
        f"Only the beginning is here, {words.things(parsed, 'event')}: {why}",
        tuple(Evidence(_reason(note), note.count) for note in cut) or (Evidence("events read", parsed),),
        f"{words.count(parsed)} events were recovered; how many are missing is not known",
        advice="Open it again and let loading finish."
        if trace.source.partial and not cut
        else "Copy the file again; if that is no help, record fewer steps and let the profiler finish writing.",
    )


def ends_early(trace: Trace) -> bool:
    """Whether the recording is known to have been longer than what was read of it."""
    return trace.source.partial or any(note.reason.startswith(CUT_SHORT) for note in trace.notes)


def _reason(note: Note) -> str:
    return note.reason if len(note.reason) <= 80 else f"{note.reason[:79]}…"


@looks_for(V17)
def dropped_events(facts: Facts, limits: Limits) -> Finding | Abstention | None:
    from tracetui.analysis.attribution.launch_calls import launch_calls, lost_launches, lost_of_graphs

    trace = facts.trace
    calls, lost = launch_calls(trace).height, lost_launches(trace)
    kernels = int(of_kinds(trace.device["kind"], "kernel", "graph").sum())
    told = _told(trace)
    dropped = (facts.manifest.outcome.events_dropped or 0) if facts.manifest else 0
    if not calls and not told and not dropped:
        return Abstention("CUDA API calls to compare kernels with, or a profiler's own count")
    absent, nodes = lost_of_graphs(trace)
    by_graphs = 100 * absent / nodes if nodes else 0.0
    share = max(100 * lost.height / calls if calls and kernels else 0.0, by_graphs)
    many = share > limits.share_percent
    surely = [note.reason for note in told if "might" not in note.reason]
    certain = bool(dropped or surely)
    if not (many or certain or told):
        return None
    title = f"{words.percent(share)} of the launches have no kernel in the recording: GPU events were dropped"
    if many and share == by_graphs:
        title = f"{words.percent(share)} of the kernels of CUDA graphs are absent from replays: GPU events were dropped"
    if not many and certain:
        title = (
            f"The profiler {f'dropped {words.count(dropped)} events' if dropped else 'says that events are missing'}"
        )
    elif not many:
        title = f"The profiler says that not all {_kinds(told)} events might have been collected: " + (
            f"each of {words.count(calls)} launches has its kernel"
            if calls and kernels
            else "no launch can disprove it"
        )
    return Finding(
        "invalid" if share > limits.refuted_percent else "warning" if many or certain else "info",
        title,
        (
            Evidence("launches without a kernel", lost.height, query=Query("host:API calls", "Launch")),
            Evidence("launches", calls),
            *((Evidence("kernels absent from replays of graphs", absent),) if absent else ()),
            *((Evidence("dropped, as the profiler counts", dropped),) if dropped else ()),
            *(Evidence("the profiler says", _reason(note)) for note in told),
        ),
        f"{words.count(lost.height)} of {words.count(calls)} launches without a kernel; "
        f"{words.count(dropped)} counted as dropped",
        advice=_FEWER_EVENTS
        if many or certain
        else f"Nothing, while launches have their kernels; should ranges or calls be missing: {_FEWER_EVENTS}",
        refutes=None if share > limits.refuted_percent else (),
        doubts=None if many or dropped or (not surely and not kernels) else _doubted(surely),
    )


_FEWER_EVENTS = (
    "Record fewer steps; leave out what is not needed (with_stack, profile_memory, osrt); let the program end by"
    " itself, after a synchronize, so that buffers are flushed."
)


def _kinds(told: list[Note]) -> str:
    """What the messages are about: ``CUDA, NVTX``."""
    found = [match[1] for note in told if (match := _OF_KIND.search(note.reason))]
    return ", ".join(sorted(dict.fromkeys(found))) or "its"


_OF_KIND = re.compile(r"[Nn]ot all (.+?) events")


def _doubted(surely: list[str]) -> tuple[str, ...]:
    """The bases that messages about certain losses doubt."""
    if any(BESIDE_CUDA.search(reason) is None for reason in surely):
        return ("gpu", "shares", "whole", "steps")
    return ("steps",) if any("NVTX" in reason for reason in surely) else ()


def _told(trace: Trace) -> list[Note]:
    """The profiler's own messages about events that it did not keep, but those about programs beside the recorded."""
    said = [note for note in trace.notes if note.reason.startswith("Nsight Systems ")]
    if not said:
        return []
    from tracetui.parsers.nsys.unread import ELSEWHERE

    return [
        note for note in said if ELSEWHERE not in note.reason and any(word in note.reason.lower() for word in DROPPED)
    ]
