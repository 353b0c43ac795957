"""Overview: the first page, everything on one screen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import ClassVar

import polars as pl
from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from tracetui.analysis.base.number_format import (
    format_bytes,
    format_ns,
    format_number,
    format_percent,
    format_signed_ns,
)
from tracetui.analysis.dependencies.critical_path import CriticalPath
from tracetui.analysis.dependencies.limit import Limit
from tracetui.analysis.findings.core.finding import Finding
from tracetui.analysis.findings.verdict import verdict
from tracetui.analysis.gpu.idle import IDLE_WORDS
from tracetui.analysis.gpu.served import Point, Served
from tracetui.analysis.gpu.step_kinds import StepKinds, kind_rows, page_kinds, recorded_kinds
from tracetui.analysis.host import host_functions
from tracetui.analysis.kernels import kernels
from tracetui.analysis.matching.clean_step import PageStep, page_step, path_of
from tracetui.analysis.matching.light_overview import run_overview
from tracetui.analysis.memory.peak import memory
from tracetui.analysis.overview import Overview
from tracetui.analysis.ranks.of_run import jobs_of, ranks_of
from tracetui.analysis.ranks.sentences import brief as brief_job
from tracetui.analysis.report.findings import finding_row
from tracetui.analysis.timeline.step_lanes import StepPicture, typical_picture
from tracetui.app.charts.cells import Run
from tracetui.app.charts.gantt import gantt_runs
from tracetui.app.charts.lanes import gantt_lane
from tracetui.app.charts.steps import GROUPS, Step, legend, marked, step_runs
from tracetui.app.keys import commands
from tracetui.app.reports.content.findings import MARK_WIDTH
from tracetui.app.reports.finding_words import (
    ADVICE_LINES,
    WORK_TIME,
    advice,
    brief,
    known_from,
    mark,
    page_base,
    whole_of,
)
from tracetui.app.session.facts import SessionFacts, session_findings
from tracetui.app.session.measured import conventions
from tracetui.app.text import fitting
from tracetui.app.text.tool_words import WORDS
from tracetui.app.text.words import (
    CATEGORY_LABELS,
    RESOURCE_LABELS,
    STEP_WORDS,
    particular_words,
)
from tracetui.app.views.common.base import View
from tracetui.app.views.common.chart import ViewChart
from tracetui.app.views.host import ranked, session_path
from tracetui.parsers import Note
from tracetui.parsers.names.serving import phase_of

TOP_KERNELS, TOP_HOST = 5, 3
LEAST_LINES = 9
"""Lines that findings have at least, of a low screen."""
_SEVERITY_STYLES = {"invalid": "warn", "critical": "warn", "warning": "verdict"}
RECORDED_AT = 43
"""Where the column of the recorded step ends."""
WIDE = 100
"""Columns from which on a line has room for the key that leads on; the footer has it on any screen."""
SMALL_PERCENT = 0.5
"""The least share of the critical path that its line names."""
TIED = "\xa0"
"""A blank at which no line ends, as between a number and its unit."""
MOST_RANKS = 8
"""Of more ranks, those that are late, or that the others wait for most, are shown."""
SIDE_BY_SIDE = 76
"""The least columns for step and GPU to be side by side."""
GPU_SHARES = {
    "busy_percent": "busy",
    "utilization_percent": "utilization",
    "sm_efficiency_percent": "SM efficiency",
    "occupancy_percent": "occup., of kernels",
    "tensor_core_percent": "tensor, of kernels",
}
"""What the page says of a GPU; the first four of each of several."""
IDLE_SHARES = {f"{cause}_percent": f"idle: {words}" for cause, words in IDLE_WORDS.items()}
RANK_TIMES = ("step_ns", "own_gpu_ns", "silent_ns", "wait_ns", "late_ns")


@dataclass(frozen=True)
class OverviewData:
    """All that the page says."""

    overview: Overview
    kinds: StepKinds | None = None
    """The kinds of the page's steps."""
    notes: tuple[Note, ...] = ()
    device_names: tuple[tuple[int, str], ...] = ()
    memory_bytes: int | None = None
    """The most that the allocator held in tensors; None where it was not recorded."""
    kernels: pl.DataFrame | None = None
    """`analysis.kernels`, the first rows."""
    kernel_count: int = 0
    kernel_ns: int = 0
    """Kernel time in scope: the base of their shares."""
    host: pl.DataFrame | None = None
    """`analysis.host.host_functions`, the first rows; None if the host is not the bottleneck."""
    findings: tuple[Finding, ...] | None = None
    """What the rules found, worst first; None while they look."""
    unjudged: bool = False
    """Whether the rules failed."""
    ranks: pl.DataFrame | None = None
    """`analysis.ranks.of_run.ranks_of`; None for one rank."""
    verdict: Limit | None = None
    """What the run waits for, as far as its recording is valid, as its job knows it; None while that is not known."""
    job: str = ""
    """What all ranks say together (`analysis.ranks.sentences.brief`); empty for one rank."""
    unread: int = 0
    """How many ranks of the run were not read."""
    path: CriticalPath | None = None
    """What the average step waited for; None where launches were not recorded."""
    lanes: StepPicture | None = None
    """A typical step; None while it is not known."""
    whole: bool = False
    """Whether the tables have been computed."""


class Writer:
    """Lines of styled text."""

    def __init__(self, width: int, height: int, styles: Mapping[str, Style], *, ascii: bool) -> None:
        self.width = width
        self.roomy = height > 24
        """Whether there are lines for what matters less."""
        self.ascii = ascii
        self._styles = styles

    def style(self, key: str) -> Style:
        """Returns a style by its name; none if the theme has no such style."""
        return self._styles.get(key, Style())

    def own(self, text: str) -> str:
        """Returns one of our own texts, in ASCII if that was requested."""
        return fitting.to_ascii(text) if self.ascii else text

    def head(self, title: str, remark: str = "") -> Text:
        """Returns the line above a section."""
        text = Text().append(f" {self.own(title)}", self.style("head"))
        if remark:
            text.append(f"  {self.own(remark)}", self.style("muted"))
        return text

    def muted(self, text: str, width: int) -> list[Text]:
        """Returns what matters less, two columns to the right, in lines of less than so many columns."""
        deeper = " " * (2 + len(text) - len(text.lstrip(" ")))
        lines = wrap(text.lstrip(" "), width - 1, initial_indent=deeper, subsequent_indent=deeper)
        return [Text().append(line.replace(TIED, " "), self.style("muted")) for line in lines]

    def styled(self, lines: Sequence[Sequence[Run]], indent: str = "") -> list[Text]:
        """Returns the lines of a chart with its styles."""
        return [Text.assemble(indent, *((run.text, self.style(run.style)) for run in line)) for line in lines]

    def name(self, name: str, width: int) -> str:
        """Returns a name of the recording in so many columns."""
        safe = fitting.printable(name, ascii=self.ascii)
        return fitting.pad(fitting.fit(safe, width, ascii=self.ascii), width)

    def bar(self, percent: float, width: int) -> Text:
        """Returns a share as a bar of at most so many columns."""
        return Text(fitting.bar(percent / 100, width, ascii=self.ascii), self.style("bar"))

    def time(self, ns: float | None) -> str:
        """Returns a time with its unit."""
        return format_ns(ns, ascii=self.ascii)


def overview_text(
    data: OverviewData, width: int, height: int, styles: Mapping[str, Style], *, ascii: bool = False
) -> Text:
    """The page; what matters most comes first, and empty lines only where there is room.

    Args:
        data: the numbers.
        width: columns.
        height: lines that are in sight without scrolling.
        styles: rich styles by key: head, bar, muted, warn, gpu, communication, loader, runtime, cpu.
        ascii: no characters outside ASCII.
    """
    writer = Writer(width, height, styles, ascii=ascii)
    step = _step_and_gpu(writer, data)
    sections = [_verdict(writer, data), _kinds(writer, data.kinds), step]
    if data.job:
        sections.insert(0, _paragraph(writer, data.job))
    if data.path is not None:
        sections.append(_path(writer, data))
    if data.ranks is not None and data.ranks.height > 1:
        sections.append(_ranks(writer, data.ranks))
    elif data.unread and data.whole:
        sections.append(_unread(writer, data.unread))
    kernels = _top_kernels(writer, data, data.kernels) if data.kernels is not None and data.kernels.height else []
    host = _host(writer, data, data.host) if data.host is not None and data.host.height else []
    if not data.whole:
        kernels = [Text().append(writer.own(" Computing kernels …"), writer.style("muted"))]
    findings = _findings(writer, data, height)
    over = sum(map(len, sections)) + len(findings) + len(kernels) + len(host) - height
    if over > 0 and writer.width >= SIDE_BY_SIDE:
        # content that has a tab of its own is dropped first
        for section, least in ((kernels, 4), (host, 3), (kernels, 3)):
            less = min(over, max(len(section) - least, 0))
            del section[len(section) - less :]
            over -= less
    at = sections.index(step)
    sections.insert(at, findings)
    tops = [section for section in (kernels, host) if section]
    # one below the other, step and GPU would push the main content out of view
    at += 1
    sections[at:at] = tops if writer.width < SIDE_BY_SIDE else []
    sections += tops if writer.width >= SIDE_BY_SIDE else []
    used = sum(map(len, sections))
    # the header counts the notes too, so here they only stand where there is room
    if data.notes and used < height:
        sections.append([_notes(writer, data.notes)])
        used += 1
    room = height - used - len(sections)
    shows_steps = data.overview.per_step.height > 1 and room >= 4
    # a light step is neither the page's nor the recorded one
    shows_steps &= page_step(data.overview).of != "clean" or data.overview.as_recorded is None
    if shows_steps:
        steps = steps_picture(writer, data.overview, room - 2)
        sections.insert(sections.index(step) + 1, steps)
        used += len(steps)
    lanes = lanes_picture(writer, data)
    if lanes and height - used - len(sections) > len(lanes):
        sections.insert(sections.index(step) + 1 + shows_steps, lanes)
        used += len(lanes)
    spare = height - used
    lines: list[Text] = []
    for number, section in enumerate(sections):
        # the first gaps are the ones that help most
        if number and spare > 0 and section:
            lines.append(Text())
            spare -= 1
        lines.extend(section)
    for line in lines:
        line.truncate(width, overflow="crop" if ascii else "ellipsis")
    return Text("\n").join(lines)


def _verdict(writer: Writer, data: OverviewData) -> list[Text]:
    # the base of all numbers stands once, with the step
    said = (data.verdict or data.overview.verdict).sentence
    sentence = re.sub(r" \((" + re.escape(data.overview.base) + r"|no steps)\)\.$", ".", said)
    return _paragraph(writer, sentence)


def _kinds(writer: Writer, kinds: StepKinds | None) -> list[Text]:
    """A line for each kind of steps; none where they are alike, and in little room also where but the first are not."""
    frame = kind_rows(kinds)
    if (
        kinds is None
        or not frame.height
        or not (writer.roomy or (frame["kind"] != "first")[1:].any() or kinds.typical.phase)
    ):
        return []
    lines = [writer.head("Kinds of steps", f"{STEP_WORDS[kinds.of]}; share of the time of all")]
    wide = max(8, *map(len, frame["kind"]))
    rows = frame.select("kind", "steps", "mean_ns", "percent", "particular").iter_rows()
    for one, (kind, many, mean, percent, particular) in zip(kinds.kinds, rows, strict=True):
        room = max(writer.width - 32 - wide, 8)
        words = particular_words(kind, particular) if one.served is None else _served(one.served, room)
        about = fitting.printable(words, ascii=writer.ascii)
        times = f"{many:>6,} {writer.own('×')} {writer.time(mean):>9}"
        line = Text(f"  {kind:<{wide}}{times} {format_percent(percent):>8}  ")
        lines.append(line.append(fitting.fit(about, room, ascii=writer.ascii)))
        if one.served is not None and one.served.curve:
            rated = any(point.tokens_per_s is not None for point in one.served.curve)
            sizes = ", ".join(_size(writer, point, rated) for point in one.served.curve)
            told = writer.muted(f"by {one.served.curve[0].by} (tokens/s)  {sizes}", writer.width - 2)
            lines += [Text("  ") + line for line in told]
    return lines


def _size(writer: Writer, point: Point, rated: bool) -> str:
    """The time of iterations of one size, and the tokens that they make, which others of the phase are told of."""
    size = format_number(point.least) + (f"-{format_number(point.most)}" if point.most > point.least else "")
    rate = f" ({'-' if point.tokens_per_s is None else format_number(point.tokens_per_s)})" if rated else ""
    return f"{size}: {writer.time(point.mean_ns)}{rate}".replace(" ", TIED)


def _served(one: Served, room: int) -> str:
    """What is told of a phase of an inference server, as much as there is room for: no mean over several batches."""
    alike = not any(point.by == "batch" for point in one.curve)
    # when the last iteration's time is over is not known; where it is alone of its size, that is no detail
    rate = " tokens/s without the last" if any(point.tokens_per_s is None for point in one.curve) else " tokens/s"
    told = (("", one.tokens_per_s if alike else None, rate), ("batch ", one.batch if alike else None, ""),
            ("context ", one.context, ""))  # fmt: skip
    words = [f"{before}{format_number(value)}{after}" for before, value, after in told if value is not None]
    words += [] if one.busy_percent is None else [f"{format_percent(one.busy_percent)} busy"]
    while len(words) > 1 and len(", ".join(words)) > room:
        words.pop()
    return ", ".join(words)


def _paragraph(writer: Writer, text: str) -> list[Text]:
    """A sentence or two that answer the page's question, broken into lines."""
    words = fitting.printable(text, ascii=writer.ascii)
    lines = wrap(words, writer.width - 2, break_long_words=False, break_on_hyphens=False)
    return [Text(f" {line}", writer.style("verdict")) for line in lines or [""]]


def _path(writer: Writer, data: OverviewData) -> list[Text]:
    """The resources of the critical path, the largest first, as far as one line holds them."""
    assert data.path is not None
    shares = data.path.resources.sort("percent", descending=True).select("resource", "percent").iter_rows()
    of = path_of(data.overview.sel)
    head = writer.head("Critical path" if of == page_step(data.overview).of else f"Critical path {STEP_WORDS[of]}")
    room, parts = writer.width - head.cell_len - 3, ""
    for resource, percent in shares:
        part = f"{RESOURCE_LABELS[resource]} {format_percent(percent)}"
        longer = f"{parts}, {part}" if parts else part
        if len(longer) > room or percent < SMALL_PERCENT:
            break
        parts = longer
    return [head.append(f"  {writer.own(parts)}")]


def _step_and_gpu(writer: Writer, data: OverviewData) -> list[Text]:
    left, right = _step(writer, data.overview), _gpu(writer, data)
    if writer.width < SIDE_BY_SIDE:
        return left + right
    edge = _edge(writer)
    lines = []
    for number in range(max(len(left), len(right))):
        line = left[number].copy() if number < len(left) else Text()
        if number < len(right):
            line.pad_right(max(edge - line.cell_len, 1))
            line.append_text(right[number])
        lines.append(line)
    return lines


def _edge(writer: Writer) -> int:
    """The column at which what stands beside the step begins."""
    return max(min(writer.width - 36, 60), 44)


def _step(writer: Writer, overview: Overview) -> list[Text]:
    """The page's step by category, with the recorded one behind it where that is another."""
    step, recorded = page_step(overview), overview.as_recorded or overview
    what = "The step" if overview.steps else whole_words(overview)
    beside = step.of != "recorded"
    of = {
        "clean": "clean",
        "light": "light",
        "recorded": f"as recorded, {overview.base if overview.steps else 'no steps'}",
    }[step.of]
    head = writer.head(f"{what} {writer.time(step.ns)}", of)
    if beside:
        head.pad_right(max(RECORDED_AT - 9 - head.cell_len, 1))
        head.append(f"{'recorded':>9}", writer.style("muted"))
    width = _edge(writer) if writer.width >= SIDE_BY_SIDE else writer.width
    bar = max(min(width - 37 - 10 * beside, 20), 0 if beside else 4)
    lines, absent = [head], []
    parts = step.average.select("category", "ns", "percent").iter_rows()
    for (category, ns, percent), other in zip(parts, recorded.average["ns"], strict=True):
        label = CATEGORY_LABELS.get(category, category)
        if not ns and not (beside and other):
            absent += [label] if ns is not None else []
            continue
        line = Text(f"  {label:<15}{writer.time(ns):>9}{format_percent(percent):>8}")
        if beside:
            line.append(f"{writer.time(other):>9}", writer.style("muted"))
        if bar:
            line.append(" ")
            line.append_text(writer.bar(percent or 0.0, bar))
        lines.append(line)
    if absent:
        lines += writer.muted(f"no {', '.join(absent)}", width)
    remark = _of_recording(writer, step, recorded)
    return lines + (writer.muted(remark, width) if remark else [])


def _of_recording(writer: Writer, step: PageStep, recorded: Overview) -> str:
    """The recorded step beside the page's, or what recording may have added to it."""
    if step.of == "recorded":
        added = writer.time(step.recording_ns).replace(" ", TIED)
        return f"median; recording may have added up to {added}" if step.recording_ns else ""
    kinds = recorded_kinds(recorded.sel)
    remarks = ["clean: by a replay"] if step.by_replay else []
    if kinds is None or len(kinds.kinds) == 1:
        remarks.append(f"recorded: {writer.time(recorded.average_step_ns)}, mean of {recorded.base}".replace(" ", TIED))
    return "; ".join(remarks)


def _gpu(writer: Writer, data: OverviewData) -> list[Text]:
    names = dict(data.device_names)
    frame = page_step(data.overview).gpu
    if not frame.height:
        return [writer.head("No GPU in this trace")]
    if frame.height > 1:
        return _gpus(writer, data)
    device, name, *shares = frame.select("device", "name", *GPU_SHARES).row(0)
    room = max(min(writer.width - 23 - (_edge(writer) if writer.width >= SIDE_BY_SIDE else 0), 24), 8)
    name = fitting.fit(fitting.printable(name or names.get(device) or ""), room, ascii=writer.ascii)
    lines = [writer.head(f"GPU {device}, % of the {whole_of(data.overview.base)}", name)]
    for label, share in zip(GPU_SHARES.values(), shares, strict=True):
        lines.append(Text(f"  {label:<18}{format_percent(share):>8}"))
    idle = page_step(data.overview).idle
    causes = idle.filter(idle["stream"].is_null()).select(*IDLE_SHARES) if idle.height else idle
    leads = f" ({commands.key('go.gaps')})" if writer.width >= WIDE else ""
    part = max(100 - (frame["busy_percent"][0] or 0), 0) / 100
    for label, share in zip(IDLE_SHARES.values(), causes.row(0) if causes.height else (), strict=False):
        if share:
            lines.append(Text(f"  {label:<18}{format_percent(part * share):>8}{leads}"))
            leads = ""
    if data.memory_bytes is not None and writer.roomy:
        lines.append(Text(f"  memory, peak      {format_bytes(data.memory_bytes):>10} allocated"))
    if data.overview.overlap_percent is not None:
        lines.append(Text(f"  comm. overlapped  {format_percent(data.overview.overlap_percent):>8}"))
    return lines


def _gpus(writer: Writer, data: OverviewData) -> list[Text]:
    """Several devices: a line each."""
    lines = [writer.head("GPU", "busy  kernels  SM eff  occup")]
    for device, *shares in page_step(data.overview).gpu.select("device", *list(GPU_SHARES)[:4]).iter_rows():
        texts = "".join(f"{format_percent(share).removesuffix(' %'):>7}" for share in shares)
        lines.append(Text(f"  {device:<3}{texts}"))
    return lines


def _top_kernels(writer: Writer, data: OverviewData, frame: pl.DataFrame) -> list[Text]:
    more = data.kernel_count - TOP_KERNELS
    rest = f", {more} more in tab {commands.key('tab.kernels')}" if more > 0 else ""
    lines = [writer.head("Top kernels", f"share of {writer.time(data.kernel_ns)} kernel time{rest}")]
    top = frame.head(TOP_KERNELS)
    module_width = min(
        max(map(len, top["module"].fill_null(""))), 40 if writer.width >= 110 else 16 if writer.width >= 70 else 12
    )
    bar = 10 if writer.width >= 76 else 0
    calls = 7 if writer.width >= 70 else 0
    room = writer.width - 2 - 8 - 10 - calls - (bar + 1 if bar else 0) - (module_width + 1) - 2
    name_width = _name_width(top, room)
    for short, name, module, percent, ns, many in top.select(
        "short_name", "name", "module", "percent", "total_ns", "calls"
    ).iter_rows():
        line = Text(f"  {writer.name(short or name, name_width)} ")
        if module_width:
            line.append(writer.name(module or "", module_width) + " ", writer.style("muted"))
        line.append(f"{format_percent(percent):>8} ")
        if bar:
            line.append_text(writer.bar(percent or 0.0, bar))
            line.append(" ")
        line.append(f"{writer.time(ns):>9}")
        if calls:
            line.append(f" {many:>5}x")
        lines.append(line)
    return lines


def _name_width(frame: pl.DataFrame, room: int) -> int:
    """What the names need, so that numbers stand near them, and at most what there is."""
    longest = max((fitting.cell_width(fitting.printable(str(name))) for name in frame["short_name"]), default=0)
    return max(min(longest + 1, room), 12)


def _host(writer: Writer, data: OverviewData, frame: pl.DataFrame) -> list[Text]:
    remark = "self time per step, share of the step" if data.overview.steps else "self time, share of the recorded time"
    if data.overview.steps and page_step(data.overview).of != "recorded":
        remark = remark.replace("the step", "the recorded step")
    lines = [writer.head("Top host functions", remark)]
    name_width = _name_width(frame.head(TOP_HOST), writer.width - 2 - 10 - 9 - 10 - 2)
    shown = frame.head(TOP_HOST).select("short_name", "kind", "self_per_step_ns", "percent")
    for name, kind, own, percent in shown.iter_rows():
        line = Text(f"  {writer.name(name, name_width)} ")
        line.append(f"{kind:<9}", writer.style("muted"))
        line.append(f"{writer.time(own):>10} {format_percent(percent):>8}")
        lines.append(line)
    return lines


def _findings(writer: Writer, data: OverviewData, height: int) -> list[Text]:
    """Writes what to do first; reserves its lines while the rules run, so that nothing moves."""
    findings, room = data.findings, max(height // 2, LEAST_LINES)
    if findings is None:
        return [writer.head("Findings", "looking …"), *(Text() for _ in range(room - 1))]
    if data.unjudged:
        return [writer.head("Findings", "could not be looked for: a bug in tracetui")]
    tab = commands.key("tab.findings")
    if not findings:
        return [writer.head("Findings", f"none: tab {tab} says what was looked for")]
    whole, clean = whole_of(data.overview.base), data.overview.verdict.clean_ns is not None
    lines_each = ADVICE_LINES if writer.roomy else ADVICE_LINES - 1
    lines: list[Text] = []
    shown = 0
    rows = [finding_row(finding) for finding in findings]
    first = advice(rows, answer=f"{data.job} {data.verdict.sentence if data.verdict else ''}") or rows
    named = page_base(first, whole, ascii=writer.ascii)
    for row in first:
        texts = brief(row, max(writer.width - MARK_WIDTH - 1, 12), whole, named, lines=lines_each, ascii=writer.ascii)
        if shown and len(lines) + len(texts) > room:
            break
        style = writer.style(_SEVERITY_STYLES.get(row.severity, ""))
        lines.append(Text(f" {mark(row):<{MARK_WIDTH}}", style).append(texts[0], Style()))
        lines += [Text(f" {'':<{MARK_WIDTH}}").append(text, writer.style("muted")) for text in texts[1:]]
        shown += 1
    more = len(findings) - shown
    rest = f"{more} more in tab {tab}" if more else f"tab {tab} says what they rest on"
    told = known_from(named, clean=clean).removeprefix("; ")
    return [writer.head("Findings", f"{told}; {rest}" if told else rest), *lines]


def _ranks(writer: Writer, ranks: pl.DataFrame) -> list[Text]:
    """The ranks; of many those that are late, or that the others wait for most."""
    shown = ranks
    if ranks.height > MOST_RANKS:
        shown = ranks.sort("straggler", "late_ns", "excess_ns", "rank", descending=[True, True, True, False]).head(
            MOST_RANKS
        )
    lines = [writer.head("Ranks", "per step; excess: over the median rank (R: next rank)")]
    lines.append(Text("  rank      step   own GPU    silent     waits      late    excess", writer.style("muted")))
    for rank, excess, late, *times in shown.select("rank", "excess_ns", "straggler", *RANK_TIMES).iter_rows():
        cells = "".join(f"{writer.time(time):>10}" for time in times)
        line = Text(f"  {rank!s:<4}{cells}{format_signed_ns(excess, ascii=writer.ascii):>10}")
        if late:
            line.append("  straggler", writer.style("warn"))
        lines.append(line)
    if shown.height < ranks.height:
        lines.append(Text(f"  and {ranks.height - shown.height:,} more ranks", writer.style("muted")))
    return lines


def _unread(writer: Writer, unread: int) -> list[Text]:
    """What to do to see the ranks of a job that was not read whole."""
    return [
        writer.head("Ranks", f"{unread:,} more were not read (R: next rank)"),
        Text().append(writer.own("  `tracetui ranks` on this folder compares them all"), writer.style("muted")),
    ]


def _notes(writer: Writer, notes: Sequence[Note]) -> Text:
    first = max(notes, key=lambda note: (note.kind == "skipped", note.count))
    words = f"{first.count:,} {first.kind}: {fitting.printable(first.reason, ascii=writer.ascii)}"
    more = f" and {len(notes) - 1} more" if len(notes) > 1 else ""
    tail = f"{more} ({commands.key('app.notes')})"
    text = Text().append(" Notes  ", writer.style("head"))
    text.append(fitting.fit(words, max(writer.width - 9 - len(tail), 10), ascii=writer.ascii) + tail)
    return text


def whole_words(overview: Overview) -> str:
    """What stands for one step in a recording without steps."""
    return "First to last GPU work" if whole_of(overview.base) == WORK_TIME else "Whole file"


def steps_picture(writer: Writer, overview: Overview, most: int) -> list[Text]:
    """A stacked bar for each step, all on one scale."""
    frame = overview.per_step
    shown = frame.head(most - 1) if frame.height > most else frame
    groups = [sum(frame[f"{name}_ns"].fill_null(0) for name in names) for _, _, _, names, _ in GROUPS]
    rows = zip(frame["index"], frame["duration_ns"], zip(*groups, strict=True), frame["name"], strict=True)
    every = marked([Step(str(index), ns, parts, phase=phase_of(name)) for index, ns, parts, name in rows])
    title = writer.head("Steps as recorded" if overview.as_recorded is None else "Light steps")
    for sign, key, meaning in legend(every, ascii=writer.ascii):
        title.append("  ")
        title.append(sign, writer.style(key))
        title.append(f" {meaning}")
    lines = [title]
    longest = max((step.lasting for step in every), default=0)
    lines += writer.styled(step_runs(every[: shown.height], writer.width, longest=longest, ascii=writer.ascii))
    if shown.height < frame.height:
        lines.append(Text(f"  and {frame.height - shown.height} more steps", writer.style("muted")))
    return lines


def lanes_picture(writer: Writer, data: OverviewData) -> list[Text]:
    """One step as lanes, where there is width for them."""
    if data.lanes is None or not data.lanes.lanes or writer.width < WIDE:
        return []
    picture = data.lanes
    lanes = [
        gantt_lane(
            busy.lane,
            busy.busy,
            [(event.name, event.begin, event.end) for event in busy.events],
            style={"calls": "runtime", "copies": "loader"}.get(busy.lane.kind, "gpu"),
            ascii=writer.ascii,
        )
        for busy in picture.lanes
    ]
    what = f"Step {picture.step}" if picture.step is not None else whole_words(data.overview)
    remark = f"how busy each lane is; {commands.key('tab.timeline')} has the events"
    lines = [writer.head(f"{what} as recorded", remark)]
    runs = gantt_runs(lanes, writer.width - 2, picture.lasting, ascii=writer.ascii)
    return [*lines, *writer.styled(runs, indent="  ")]


SUMMARIES = (
    "{said}\n\nOnly summaries of its ranks are here, not their recordings: {key} compares the ranks.\n"
    "What one rank did in detail is in its recording."
)
PARTS = 240
"""Of the step that is shown as lanes: as many as a wide terminal has cells."""


class OverviewScroll(VerticalScroll, can_focus=True):
    """The page, which scrolls where the terminal is too small for it."""

    BINDINGS = commands.bindings("overview")


class OverviewView(View):
    """The verdict, the average step, the GPU, the top kernels and host functions."""

    TAB = "overview"
    OF_SUMMARIES = True
    STYLES: ClassVar[tuple[str, ...]] = (
        "head", "verdict", "bar", "muted", "warn", "gpu", "communication", "loader", "runtime", "cpu",
    )  # fmt: skip
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"overview--{key}" for key in STYLES}

    def __init__(self) -> None:
        super().__init__()
        self._data: OverviewData | None = None

    def content(self) -> ComposeResult:
        """One text that may scroll."""
        with OverviewScroll(id="page"):
            yield Static(id="text", markup=False)

    def analyse(self) -> OverviewData:
        """Computes the page's upper half, which shows at once."""
        selection = self.session.selection()
        trace = selection.trace
        overview = self.session.cached("overview", lambda: run_overview(selection, conventions(self.session)))
        page_step(overview)  # the page asks for it again, and must not wait
        return OverviewData(
            overview=overview,
            kinds=page_kinds(selection),
            notes=trace.notes,
            device_names=tuple((device.id, device.name or "") for device in trace.info.devices),
            memory_bytes=self.session.cached("memory", lambda: memory(selection)).peak_allocated_bytes,
        )

    def complete(self, first: OverviewData) -> OverviewData:
        """The same page with kernels, host functions and ranks, which take longer in a large trace."""
        session = self.session
        selection = session.selection()
        run, scope = session.runs["a"], session.scope
        frame = session.cached("kernels", lambda: kernels(selection))
        waits_for_host = first.overview.verdict.kind in ("host", "unknown")
        host = session.cached("host", lambda: host_functions(selection)) if waits_for_host else None
        rich = first.overview.as_recorded or first.overview
        many = len(run.ranks) > 1
        # summaries of ranks that were not read take long to make: only those that are at hand are shown
        ranks = session.cached("ranks", lambda: ranks_of(run, scope, make=False)) if many else None
        jobs = session.cached("jobs", lambda: jobs_of(run, scope, make=False)) if many else ()
        return replace(
            first,
            verdict=session.cached("verdict", lambda: verdict(SessionFacts(session), session.config)),
            job=session.cached("job", lambda: brief_job(jobs)) if many else "",
            kernels=frame.head(TOP_KERNELS),
            kernel_count=frame.height,
            kernel_ns=int(frame["total_ns"].sum()) if frame.height else 0,
            host=None if host is None else ranked(host).head(TOP_HOST),
            ranks=ranks,
            unread=len(run.unread),
            path=session_path(session),
            lanes=session.cached(
                "step_lanes",
                lambda: typical_picture(selection.trace, rich.per_step, marked=bool(rich.steps), parts=PARTS),
            ),
            whole=True,
        )

    def judge(self, page: OverviewData) -> OverviewData:
        """Adds the findings, which take longest; the page does not wait for them."""
        try:
            found = session_findings(self.session, self.host.log_error).found
        except Exception as error:  # the page is useful without them
            self.host.log_error(error)
            return replace(page, findings=(), unjudged=True)
        return replace(page, findings=found)

    def show(self, result: OverviewData) -> None:
        """Shows the upper half, and goes on to the rest."""
        self._data = result
        trace = self.session.trace()
        if not trace.has_timeline and (words := WORDS[trace.info.kind].no_overview):
            said = "\n".join(f"{title}: {text}" for title, text in trace.info.captured)
            self.blank(f"{words}\n\n{said}" if WORDS[trace.info.kind].says else words)
            return
        run = self.session.runs["a"]
        if run.summaries_in is not None:
            self.blank(
                SUMMARIES.format(
                    said=brief_job(jobs_of(run, self.session.scope, make=False)), key=commands.key("tab.ranks")
                )
            )
            return
        if not trace.host.height and not trace.device.height:
            self.blank(
                "This trace has no host or GPU events.\n\n"
                "Nothing was recorded between start and stop of the profiler, or all of it was skipped: N says why."
            )
            return
        self._draw()
        self._compute("rest", lambda: self.complete(result))

    def show_inner(self, result: OverviewData) -> None:
        """Shows the page with its tables, and goes on to the findings."""
        self._data = result
        self._draw()
        if result.findings is None:
            self._compute("findings", lambda: self.judge(result))

    def on_mount(self) -> None:
        """Keeps the footer right about whether the page scrolls."""
        self.follow_scrolling(self.query_one("#page"))

    def on_resize(self) -> None:
        """Arranges the page anew."""
        self._draw()

    def _draw(self) -> None:
        width, height = self.size
        if self._data is not None and width:
            styles = {key: self.get_component_rich_style(f"overview--{key}", partial=True) for key in self.STYLES}
            text = overview_text(self._data, width, height, styles, ascii=self.session.ascii)
            self.query_one("#text", Static).update(text)

    def chart(self) -> ViewChart | None:
        """The typical step as lanes."""
        from tracetui.app.charts.gantt import GanttLane, lanes_svg
        from tracetui.app.charts.lanes import lane_title

        picture = None if self._data is None else self._data.lanes
        if picture is None or not picture.lanes:
            return None
        lanes = [GanttLane(lane_title(one.lane, short=True), one.busy) for one in picture.lanes]
        what = "The whole file" if picture.step is None else f"Step {picture.step}"
        title = f"{what} as recorded (how busy each lane is)"
        said = self.session.selection().describe()
        return ViewChart(title, said, lanes_svg(lanes, picture.lasting, title, ascii=self.session.ascii))

    def focus_content(self) -> None:
        """The page scrolls by key."""
        self.query_one("#page").focus()

    def footer_labels(self) -> dict[str, str]:
        """Returns labels for the tabs that the page's lines lead to."""
        labels = {"tab.kernels": "kernels", "tab.host": "host", "tab.findings": "findings", "app.notes": "notes"}
        if self._data is not None and self._data.overview.idle.height:
            labels["go.gaps"] = "gaps"
        if self.host.came_from_finding:
            labels["load.stop"] = "the finding"
        elif self.host.came_by_jump:
            labels["load.stop"] = "back"
        if len(self.session.runs["a"].ranks) > 1:
            labels["run.rank"] = "next rank"
        if self.session.runs["a"].others:
            labels["run.captures"] = "captures"
        page = self.query_one("#page")
        if page.max_scroll_y:
            labels["page.down"] = "scroll"
        return labels
