"""The report of a run: its ranks, its recordings section by section, and how those of several tools match."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from msgspec import UNSET, Struct, convert
from msgspec.structs import replace

from tracetui.analysis.base.number_format import format_bytes, format_count, format_percent, format_us, spans
from tracetui.analysis.report.model import SECTIONS, Device, JoinRow, LightRecording, PassRow, Report, Row, Run, Trace
from tracetui.app.reports.content import sections
from tracetui.app.reports.content.job import job_answer, job_parts
from tracetui.app.reports.layout import Layout
from tracetui.app.reports.parts import Facts, Part, Sentences, Title
from tracetui.app.text.fitting import fit, printable
from tracetui.app.text.tool_words import WORDS
from tracetui.parsers import Run as OpenedRun
from tracetui.parsers.names.kernel_names import short_name
from tracetui.parsers.runs.comments import Comment
from tracetui.parsers.tool_registry import OF_BOARD

COMMENTED = 60
"""Letters of the name of a row with a comment."""
NAMES_SHOWN = 5
"""Kernels that match nothing, by name."""


class RankRow(Struct, frozen=True):
    """A rank of the report, as far as it says which is the latest."""

    rank: int
    straggler: bool | None
    excess_us: float | None


def run_parts(found: Report, layout: Layout) -> Iterator[Part]:
    """The whole report of a run, whose lists are whole."""
    run = found.run
    yield Title(f"tracetui report: {Path(run.path).name or run.path}")
    traces = run.traces
    if run.other_runs and not _all_compared(run):
        many = len(run.other_runs) + 1
        yield Sentences((f"One of {many} runs in this folder; the rest is listed below.",))
    if run.captures:
        from tracetui.app.reports.content.captures import capture_parts, rows_to_plot

        yield from capture_parts(run.captures, layout)
        yield Sentences(tuple(rows_to_plot(run.captures)))
        traces = [trace for trace in traces if trace.sections()]
    elif not any(trace.sections() for trace in traces) and run.job is UNSET:
        if run.configurations is UNSET:
            yield Sentences(("No captures to compare: give a folder with several files of one kind.",))
        elif not run.configurations:
            yield Sentences(("No counters: give one or more reports of Nsight Compute, or a folder of them.",))
        traces = []
    shows_rank = bool(run.ranks) and any(sections.answers_first(trace, layout) for trace in traces)
    if shows_rank:
        yield from job_answer(run, 1)
    else:
        yield from job_parts(run, layout)
    if run.ranks:
        traces = [_slowest(run)]
        shown_rank = traces[0].source.rank
        ranks = spans(row.rank for row in convert(run.ranks, list[RankRow]) if row.rank != shown_rank)
        yield Sentences((f"Below: rank {traces[0].source.rank}; --rank N shows another ({ranks}).",))
    elif run.job and len(own := [trace for trace in traces if trace.sections()]) == 1:
        ranks = spans(trace.source.rank for trace in traces if trace is not own[0] and trace.source.rank is not None)
        traces = own
        yield Sentences((f"Below: rank {traces[0].source.rank}; --rank N shows another ({ranks}).",))
    shown, others = _by_tool(traces, run.main)
    for trace in shown:
        if len(shown) > 1:
            yield Title(Path(trace.source.path).name, level=2)
        job = job_parts(run, layout, answered=1) if shows_rank else ()
        answer = run.job.said[0] if shows_rank and run.job else ""
        yield from sections.parts(trace, facts_of(run, trace), layout, answer=answer, after_answer=job)
    if run.counters_compared:
        from tracetui.app.reports.content.counters import compared_blocks

        yield from compared_blocks(run, layout)
    elif run.configurations and _alone(run):
        from tracetui.app.reports.content import counters

        yield from counters.listing(run.configurations)
        yield from counters.configuration_blocks(run.configurations, run.configuration_weights or {}, layout)
    if others:
        yield Sentences(tuple(map(_how_to_print, others)), heading="Other recordings in this run")
    yield from (Sentences((" ".join(join_sentences(join)),)) for join in run.joins)
    yield from _others(run)
    yield _comments(run.comments or [])


def _comments(found: list[Comment]) -> Sentences:
    """What people wrote about rows of the run."""
    said = tuple(f"{one.at[:10]}, {_row_of(one)}: {one.text}" for one in found)
    return Sentences(said, heading="Comments" if said else "", bullets=True)


def _row_of(comment: Comment) -> str:
    where = comment.page if comment.page == comment.tab else f"{comment.tab}, {comment.page}"
    return f"{where}: {fit(comment.row, COMMENTED)}" if comment.row else where


def _all_compared(run: Run) -> bool:
    """Whether the folder's other runs are in the tables too."""
    compared = [row for row in run.configurations or () if row["kind"] == "all"]
    return len(compared) > len(run.traces)


def _alone(run: Run) -> bool:
    """Whether its counters are what the report is about: they were asked for by name, or there is nothing else."""
    return run.counters_compared is UNSET or run.traces[run.main or 0].source.kind == "ncu"


def printed_sections(run: OpenedRun, ranks: list[Row]) -> list[Collection[str] | None]:
    """The sections that `run_parts` can print of each recording of a run; None for all.

    It assumes that the table of captures was not requested by name: beside that table, a recording is printed
    if it has any section at all.

    Args:
        run: what is reported on.
        ranks: the report's table of ranks; empty where there is none.
    """
    if ranks:
        straggler = _straggler(ranks)
        of_ranks = [trace.info.rank for trace in run.traces]
        chosen = of_ranks.index(straggler) if straggler in of_ranks else 0
        return [None if number == chosen else () for number in range(len(of_ranks))]
    main = run.main.info.kind
    own = {trace.info.kind: WORDS[trace.info.kind].own_sections for trace in run.traces}
    kinds = [trace.info.kind for trace in run.traces]
    return [None if kind == main else (*own[kind], "findings") if own[kind] else () for kind in kinds]


def _by_tool(traces: list[Trace], main: int | None) -> tuple[list[Trace], list[Trace]]:
    """Returns what is printed: all of the main tool's recordings, and the own sections of those without a time line.

    The others, of the same program as seen by another tool, are only named.
    """
    kinds = [trace.source.kind for trace in traces]
    if main is None or len(set(kinds)) < 2:
        return traces, []
    main_kind = traces[min(main, len(traces) - 1)].source.kind
    shown: list[Trace] = []
    others: list[Trace] = []
    for trace, kind in zip(traces, kinds, strict=True):
        if kind == main_kind:
            shown.append(trace)
        elif own := WORDS[kind].own_sections:
            kept = (*own, *(["findings"] if trace.findings else []))
            shown.append(replace(trace, **{name: UNSET for name in SECTIONS if name not in kept}))
        else:
            others.append(trace)
    return shown, others


def _how_to_print(trace: Trace) -> str:
    source = trace.source
    name = f"{Path(source.path).name} ({WORDS[source.kind].label})"
    return f"{name}: --source {source.kind} prints it."


def facts_of(run: Run, trace: Trace) -> Facts:
    """What is known of a recording itself: file, GPU, the base of its numbers."""
    return Facts((*_head(trace), *_light_pass(run.passes, trace)))


def _head(trace: Trace) -> Iterator[tuple[str, str]]:
    source = trace.source
    tool = " ".join(part for part in (source.tool, source.tool_version) if part)
    events = f"{format_count(source.events_parsed)} of {format_count(source.events_total)} events read"
    yield "File", f"{Path(source.path).name} ({format_bytes(source.bytes)}, {tool}, {events})"
    said = {title: text for title, text in (source.captured or {}).items() if title.endswith(OF_BOARD)}
    if WORDS[source.kind].says and source.captured:
        yield "Says", "; ".join(f"{title} {text}" for title, text in source.captured.items())
    elif said:
        yield "Board", "; ".join(f"{title} {text}" for title, text in said.items())
    if source.rank is not None:
        yield "Rank", f"{source.rank} of {source.world_size or 'an unknown number'}"
    yield "GPU", _devices(trace.device)
    yield "Base", trace.base
    if trace.totals_base != trace.base:
        outside = ", including GPU work that no step launched" if " and outside" in trace.totals_base else ""
        yield "Totals", f"cover {trace.totals_base}{outside}"
    if source.graphs is not UNSET:
        yield "Graphs", source.graphs.sentence
    if source.partial:
        yield "Partial", "loading was stopped before the end of the file"


def _light_pass(passes: list[PassRow], trace: Trace) -> Iterator[tuple[str, str]]:
    """Names the light recording, beside the rich one of the same run."""
    own, light = Path(trace.source.path), trace.light
    if not any(one.path == str(own) for one in passes):  # another rank's are listed
        passes = [PassRow(name="", path=light.path, steps=None)] if light is not None and light.path else []
    for one in passes:
        path = Path(one.path)
        if path != own:
            name = f"{path.parent.name}/{path.name}" if path.name == own.name else path.name
            steps = "" if one.steps is None else f"{format_count(one.steps)} steps of "
            said = f"{name}: {steps}GPU work and API calls alone, of the same run"
            yield "Light", "; ".join(text for text in (said, _use_of_light(light)) if text)


def _use_of_light(light: LightRecording | None) -> str:
    """Which of the tables' times are of the light recording, and what was not found in the other one."""
    if light is None:
        return ""
    if not light.used:
        return f"no table of kernels has its times: {light.problem}"
    found, every = format_count(light.matched), format_count(light.launches)
    text = f"all {every} launches found" if found == every else f"{found} of {every} launches found"
    text += " in the rich recording"
    if found != every:
        text += f" (the others, {format_us(light.unmatched_us_per_step)} per step, are in no table)"
    if light.kept_launches:
        text += (
            f"; {format_count(light.kept_launches)} launches of that "
            f"({format_percent(light.kept_percent)} of its GPU time) are not in the light one and keep their times"
        )
    return text


def _devices(devices: list[Device]) -> str:
    kinds: dict[str, int] = {}
    for device in devices:
        facts = [
            f"compute capability {device.compute_capability}" if device.compute_capability else "",
            device.architecture or "",
            f"{device.sm_count} {_units(device)}" if device.sm_count else "",
            format_bytes(device.memory_bytes) if device.memory_bytes else "",
        ]
        detail = ", ".join(fact for fact in facts if fact)
        name = device.name or "not named in the file"
        kind = f"{name} ({detail})" if detail else name
        kinds[kind] = kinds.get(kind, 0) + 1
    described = (f"{count} × {kind}" if count > 1 else kind for kind, count in kinds.items())
    return "; ".join(described) or "none described in the file"


def _units(device: Device) -> str:
    return "compute units" if device.architecture else "SMs"


def _slowest(run: Run) -> Trace:
    """The straggler's trace, else the first."""
    straggler = _straggler(run.ranks or [])
    return next((trace for trace in run.traces if trace.source.rank == straggler), run.traces[0])


def _straggler(ranks: list[Row]) -> int | None:
    """The rank that is late in the program, of several the latest; None where there is none."""
    late = [row for row in convert(ranks, list[RankRow]) if row.straggler]
    return max(late, key=lambda row: row.excess_us or 0.0).rank if late else None


def _others(run: Run) -> Iterator[Part]:
    yield Sentences(tuple(f"Not read: {warning}" for warning in run.warnings))
    if not run.other_runs or _all_compared(run):
        return
    said = [] if run.captures else ["(--section captures reads them all and compares them)"]
    for other in run.other_runs:
        paths = [Path(path) for path in other.paths]
        path = paths[0] if len(paths) == 1 else paths[0].parent
        said.append(f"{path} ({len(paths)} files)" if len(paths) > 1 else str(path))
    heading = f"{len(run.other_runs)} other runs in this folder; open one by its path"
    yield Sentences(tuple(said), heading=heading)


def join_sentences(found: JoinRow) -> list[str]:
    """What a recording covers, and what of it matches nothing; or why it is set aside."""
    if found.set_aside:
        return [
            f"{Path(found.trace).name} is set aside: it is of another run than {Path(found.with_).name}"
            f" ({printable(found.set_aside)})."
        ]
    return [_coverage(found), *_unmatched(found)]


def _coverage(found: JoinRow) -> str:
    """How much of the GPU time a recording covers."""
    name = Path(found.trace).name
    share = format_percent(found.gpu_time_percent)
    launches = _launches(found.launches)
    if found.kind == "ncu":
        return (
            f"Counters of {name}: {format_count(found.matched)} of {launches} found their kernel; these kernels "
            f"take {share} of the kernel time."
        )
    return f"{WORDS[found.kind].recording} {name}: {share} of the kernel time is of kernels that match."


def _unmatched(found: JoinRow) -> list[str]:
    texts = []
    if found.ambiguous:
        texts.append(f"{_launches(found.ambiguous)} could be of several kernels.")
    names = found.unmatched
    if names:
        listed = ", ".join(
            short_name(row.name) + (f" ×{row.launches}" if row.launches > 1 else "") for row in names[:NAMES_SHOWN]
        )
        more = f" and {len(names) - NAMES_SHOWN} more kernels" if len(names) > NAMES_SHOWN else ""
        count = sum(row.launches for row in names)
        verb = "is" if count == 1 else "are"
        texts.append(f"{_launches(count)} {verb} not in {Path(found.with_).name}: {listed}{more}.")
    return texts


def _launches(count: int) -> str:
    return f"{format_count(count)} {'launch' if count == 1 else 'launches'}"
