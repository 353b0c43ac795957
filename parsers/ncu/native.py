"""Reads Nsight Compute's own report (``.ncu-rep``) without ncu: launches, metrics, rules, NVTX ranges, source lines.

A report is a magic number, a header, and blocks. A block is a header, whose field 5 says how many bytes follow, and
sources, then results; each of these and the headers is four bytes with its length and a message of Protocol Buffers.
The names of metrics stand once, in the first block with results, and hold for all later ones.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import polars as pl
from msgspec import Struct, field

from tracetui.parsers import schema
from tracetui.parsers.errors import TraceError
from tracetui.parsers.ncu import source_page
from tracetui.parsers.ncu.cubin import lines_of
from tracetui.parsers.ncu.frames import NVTX_SECTION, RULES, Launches
from tracetui.parsers.tally import Tally
from tracetui.parsers.wire import Damaged, Span, double, fields, signed, text

MAGIC = b"NVR\0"
PAGE = "report"
"""What is called a page of a CSV: here all of them."""
_WORD = 4
_MESSAGE_TYPES = {1: "inf", 2: "wrn", 3: "err", 4: "opt"}
_SPEED_UPS = {1: "local", 2: "global"}
_LINKED = re.compile(r"@(?:section:[^:@]*|url):([^:@]*)(?::[^@]*)?@")
"""A link in a rule's text, of which ncu prints the words."""
_SHOWN = {"Nsight Compute Target": "ncu", "CUDA Version": "CUDA", "Display Driver Version": "NVIDIA driver"}

_UNITS = tuple(
    (re.compile(pattern), unit)
    for pattern, unit in (
        (r"launch__(block_dim_|occupancy_limit_|cluster_max_potential)|gr__ctas", "block"),
        (r"launch__registers_per_thread", "register/thread"),
        (r"launch__shared_mem_per_block", "byte/block"),
        (r"launch__(shared_mem_config|persisting_l2_cache)_size|profiler__replayer_bytes_", "byte"),
        (r"profiler__pmsampler_merged_samples", "sample"),
        (r"(thread_)?inst_executed", "inst"),
        (r"memory_l(1_tag_requests|1_wavefronts|2_theoretical_sectors)", "sectors"),
        (r"launch__sm_count", "SM"),
        (r"launch__cluster_max_active", "cluster"),
        (r"launch__thread_count|derived__(derivative_)?avg_thread_", "thread"),
        (r"derived__pct_occupancy_per_register", "%/register"),
        (r"derived__pct_occupancy_per_shared", "%/byte"),
        (r"\w*passes", "pass"),
        (r"[^.]*_pct$|[^.]*\..*\bpct|derived__pct_", "%"),
        (r"smsp__pcsamp_interval_cycles", "cycle"),
        (r"smsp__pcsamp_sample_buffer", ""),
        (r"smsp__(pcsamp|average_warps_issue)_\w*branch_resolving|\w*branch_targets_threads", "branches"),
        (r"smsp__pcsamp_\w*no_instruction|smsp__average_warps_issue_stalled", "inst"),
        (r"smsp__pcsamp_warps", "warp"),
        (r"\w+_bytes_per_sector_\w+\.(ratio|max_rate)", "byte/sector"),
        (r"smsp__average_warps?_\w+\.ratio", "cycle"),
        (r"\w+\.(ratio|max_rate)|sass__\w*per_opcode|l1tex__t_requests|device__|memory_|c2clink|nvlink", ""),
        (r"sm(sp)?__i[cm]c_requests", "cycle"),
        (r"\w*sass_thread_inst_executed_op_\w+_x\d$", "thread"),
    )
)
"""Units that a metric's name tells as a whole; of all others its words do. A report has no units: values are in base
units, which ncu scales only to print them."""
_QUANTITIES = (
    ("bytes", "byte"), ("sectors", "sector"), ("cycles", "cycle"), ("requests", "request"), ("inst", "inst"),
    ("warps", "warp"), ("time", "ns"), ("writeback_active", "cycle"),
)  # fmt: skip
_WORDS = re.compile(rf"(?:^|_)({'|'.join(word for word, _ in _QUANTITIES)})(?=_|$)")
_OF_RATE = re.compile(r"\.(per_second|per_cycle\w*|peak_sustained\w*)$")


def unit_of(metric: str) -> str:
    """The unit of a metric's value in a report, as its CSV has it without prefixes; empty where the name tells none."""
    metric = metric.rpartition(".TriageCompute.")[2]
    whole = next((unit for pattern, unit in _UNITS if pattern.match(metric)), None)
    if whole is not None:
        return whole
    found = _WORDS.search(metric.partition(".")[0].partition("__")[2])
    quantity = dict(_QUANTITIES)[found[1]] if found else ""
    rate = _OF_RATE.search(metric)
    if not quantity or rate is None:
        return quantity
    if rate[1] == "per_second":
        return "hz" if quantity == "cycle" else f"{quantity}/s"
    if quantity in ("warp", "cycle"):
        return "warp" if quantity == "warp" else ""
    return f"{quantity}/cycle"


_STALL = re.compile(r"smsp__pcsamp_warps_issue_stalled_(\w+?)(_not_issued)?")
_STALLS = {
    "long_scoreboard": "long_sb", "short_scoreboard": "short_sb", "dispatch_stall": "dispatch", "imc_miss": "imc",
    "lg_throttle": "lg", "math_pipe_throttle": "math", "mio_throttle": "mio", "no_instructions": "no_inst",
    "no_instruction": "no_inst", "sleeping": "sleep", "tex_throttle": "tex",
}  # fmt: skip
"""What the source page calls the reasons for which warps wait, where it differs."""
_IS_STALL = re.compile(rf"{source_page.STALL}\w+")
_COUNTED = {
    "inst_executed": source_page.INSTRUCTIONS,
    "memory_l2_theoretical_sectors_global": source_page.SECTORS,
    "memory_l2_theoretical_sectors_global_ideal": source_page.IDEAL,
}


def title_of(metric: str) -> str | None:
    """What the source page calls a metric that is counted at instructions; None for those that it is not read for."""
    if (stall := _STALL.fullmatch(metric)) is None:
        return _COUNTED.get(metric)
    reason = _STALLS.get(stall[1], stall[1])
    return f"{source_page.STALL}{reason}{f' {source_page.NOT_ISSUED}' if stall[2] else ''}"


_DEVICE = "launch__device_id"
"""The metric that tells on which GPU a kernel ran: no field of a launch does."""
_ROW = ("device_row", "metric", "value", "text")


class Report(Struct):
    """What a report says."""

    launches: Launches = field(default_factory=Launches)
    captured: dict[str, str] = field(default_factory=dict)
    metrics: list[str] = field(default_factory=list)
    """Names by number."""
    titles: dict[int, str] = field(default_factory=dict)
    """Of those that are counted at instructions what the source page calls them, by number."""
    rows: dict[str, list[object]] = field(default_factory=lambda: {name: [] for name in _ROW})
    """Counters, column by column; `metric` is a number in `metrics`."""
    said: list[tuple[str, int, str | None, str, str | None, float | None, str]] = field(default_factory=list)
    """What rules say, as rows of counters."""
    whole: bool = True
    programs: dict[int, tuple[Span | None, Span | None]] = field(default_factory=dict)
    """By number, where the code of the GPU and the texts of its source files lie."""
    functions: dict[str, list[tuple[int, str, int]]] = field(default_factory=dict)
    """By process, where each function lay in memory, its name, and the number of its program."""
    sampled: list[tuple[int, str, str, Span]] = field(default_factory=list)
    """Launch, process, the source page's title, and where the metric with its values at instructions lies."""


def read_report(path: Path, data: bytes, tally: Tally) -> Report:
    """Reads the whole blocks of a report; what is left of one that is cut is counted.

    Raises:
        TraceError: it has lost its beginning.
    """
    report = Report()
    process = "", ""
    try:
        for header, begin, end in _blocks(data):
            sources, results, others = 0, 0, 0
            for number, value in header:
                if number == 1 and isinstance(value, int):
                    sources = value
                elif number == 2 and isinstance(value, int):
                    results = value
                elif 7 <= number <= 9 and isinstance(value, int):
                    others += value
                elif number == 3 and isinstance(value, tuple):
                    _session(data, value, report)
                elif number == 4 and isinstance(value, tuple):
                    report.metrics += [
                        text(data, name) for at, name in fields(data, *value) if at == 1 and isinstance(name, tuple)
                    ]
                    titles = enumerate(map(title_of, report.metrics))
                    report.titles = {place: title for place, title in titles if title is not None}
                elif number == 6 and isinstance(value, tuple):
                    process = _process(data, value)
            if others:
                tally.skipped("result of a range, a command list or a graph, which is no launch", others)
            if sources:
                _sources(data, (begin, end), sources, process[0], report, tally)
            if results:
                _results(data, (begin, end), results, others, process, report, tally)
    except Damaged:
        report.whole = False
        tally.missing(f"the rest of the report, which is cut: {len(report.launches)} whole launches")
    if not report.metrics and len(report.launches):
        raise TraceError(path, "an Nsight Compute report without its head", "copy it anew")
    return report


def _blocks(data: bytes) -> Iterator[tuple[list[tuple[int, int | Span]], int, int]]:
    """The header of each whole block, and where its content lies."""
    _, at = _sized(data, len(MAGIC), len(data))
    while at < len(data):
        (begin, at), _ = _sized(data, at, len(data))
        header = list(fields(data, begin, at))
        size = next((value for number, value in header if number == 5 and isinstance(value, int)), 0)
        if at + size > len(data):
            raise Damaged
        yield header, at, at + size
        at += size


def _sized(data: bytes, at: int, end: int) -> tuple[Span, int]:
    """Where a message behind its length lies, and where it ends."""
    begin = at + _WORD
    size = int.from_bytes(data[at:begin], "little")
    if begin > end or begin + size > end:
        raise Damaged
    return (begin, begin + size), begin + size


def _process(data: bytes, span: Span) -> tuple[str, str]:
    """The process and its program's name, without the folder."""
    found = dict(fields(data, *span))
    name = text(data, value) if isinstance(value := found.get(3), tuple) else ""
    number = found.get(1)
    return str(number) if isinstance(number, int) else "", re.split(r"[/\\]", name)[-1]


def _session(data: bytes, span: Span, report: Report) -> None:
    """Versions; the machine's names, its addresses and the command line are left where they are."""
    for number, value in fields(data, *span):
        if number == 8 and isinstance(value, tuple):
            pair = {at: text(data, part) for at, part in fields(data, *value) if isinstance(part, tuple)}
            if (label := _SHOWN.get(pair.get(1, ""))) is not None and pair.get(2):
                report.captured[label] = pair[2]


def _sources(data: bytes, span: Span, count: int, process: str, report: Report, tally: Tally) -> None:
    """The programs of a block, which are its first entries; the code stands once, however many entries there are."""
    at, end = span
    for _ in range(count):
        entry, at = _sized(data, at, end)
        try:
            found = dict(fields(data, *entry))
            table = list(fields(data, *lies)) if isinstance(lies := found.get(9), tuple) else []
            functions = [dict(fields(data, *function)) for _, function in table if isinstance(function, tuple)]
        except Damaged:
            tally.skipped("program that is damaged")
            continue
        if isinstance(number := found.get(1), int):
            code, files = (value if isinstance(value := found.get(part), tuple) else None for part in (4, 8))
            before = report.programs.get(number, (None, None))
            report.programs[number] = code or before[0], files or before[1]
            known = report.functions.setdefault(process, [])
            for function in functions:
                if isinstance(name := function.get(1), tuple) and isinstance(address := function.get(2), int):
                    known.append((address, text(data, name), number))


def _results(
    data: bytes, span: Span, count: int, others: int, process: tuple[str, str], report: Report, tally: Tally
) -> None:
    """The launches of a block, which are its last entries but for the results of other kinds."""
    entries: list[Span] = []
    at, end = span
    while at < end:
        entry, at = _sized(data, at, end)
        entries.append(entry)
    for entry in entries[-count - others :][:count]:
        try:
            _launch(data, entry, process, report)
        except Damaged:  # noqa: PERF203  the entries behind it can still be read
            tally.skipped("launch that is damaged", 1)


def _launch(data: bytes, span: Span, process: tuple[str, str], report: Report) -> None:
    found = list(fields(data, *span))
    names = {number: text(data, value) for number, value in found if 5 <= number <= 7 and isinstance(value, tuple)}
    numbers = {number: str(value) for number, value in found if isinstance(value, int)}
    sizes = {number: _three(data, value) for number, value in found if number in (10, 11) and isinstance(value, tuple)}
    parts = [value for number, value in found if number == 13 and isinstance(value, tuple)]
    metrics = [_metric(data, part) for part in parts]
    said = [row for number, value in found if number == 19 and isinstance(value, tuple) for row in _rule(data, value)]
    nvtx = next((value for number, value in found if number == 21 and isinstance(value, tuple)), None)
    ranges = list(_nvtx(data, nvtx, dict(found).get(1))) if nvtx else []
    device = next((value for name, value, _ in metrics if report.metrics[name : name + 1] == [_DEVICE]), None)
    row = len(report.launches)
    launches = report.launches
    launches.names.append(names.get(7) or names.get(6) or names.get(5) or "")
    for title, value in (
        ("ID", str(row)), ("Process ID", process[0]), ("Process Name", process[1]),
        ("Kernel Time", ""), ("Context", numbers.get(22, "")), ("Stream", numbers.get(23, "")),
        ("Block Size", sizes.get(11, "")), ("Grid Size", sizes.get(10, "")),
        ("Device", "" if device is None else f"{device:.0f}"), ("CC", ""),
    ):  # fmt: skip
        launches.identity[title].append(value)
    columns = report.rows
    for metric, number, string in metrics:
        columns["device_row"].append(row)
        columns["metric"].append(metric)
        columns["value"].append(number)
        columns["text"].append(string)
    for part, (metric, _, _) in zip(parts, metrics, strict=True):
        if (counted := report.titles.get(metric)) is not None:
            report.sampled.append((row, process[0], counted, part))
    report.said += [("metric", row, NVTX_SECTION, kind, None, None, "/".join(names)) for kind, names in ranges]
    report.said += [(kind, row, section, name, of, gain, words) for kind, section, name, of, gain, words in said]


def _three(data: bytes, span: Span) -> str:
    sizes = {number: value for number, value in fields(data, *span) if isinstance(value, int)}
    return f"({', '.join(str(sizes.get(axis, 1)) for axis in (1, 2, 3))})"


def _metric(data: bytes, span: Span) -> tuple[int, float | None, str | None]:
    """The number of the metric's name, and its value as a number or as a text; both None where it has none."""
    name, value, string = 0, None, None
    for number, part in fields(data, *span):
        if number == 1 and isinstance(part, int):
            name = part
        elif number == 2 and isinstance(part, tuple):
            value, string = _value(data, part)
    return name, value, string


def _value(data: bytes, span: Span) -> tuple[float | None, str | None]:
    """A value as a number or as a text."""
    value, string = None, None
    for kind, content in fields(data, *span):
        if isinstance(content, int):
            value = float(content if kind == 5 else signed(content))
        elif kind == 1:
            string = text(data, content)
        else:
            value = double(data, content)
    return value, string


def _nvtx(data: bytes, span: Span, thread: int | Span | None) -> Iterator[tuple[str, list[str]]]:
    """The ranges around a launch, outermost first, those of a domain other than the default one as ``domain:name``."""
    state = list(fields(data, *span))
    domains: dict[int, str] = {}
    strings: dict[tuple[int, int], str] = {}
    for number, value in state:
        if number == 1 and isinstance(value, tuple):
            parts = list(fields(data, *value))
            domain = next((part for at, part in parts if at == 1 and isinstance(part, int)), 0)
            domains[domain] = next((text(data, part) for at, part in parts if at == 2 and isinstance(part, tuple)), "")
            for at, part in parts:
                said = dict(fields(data, *part)) if at == 3 and isinstance(part, tuple) else {}
                if isinstance(key := said.get(1), int) and isinstance(words := said.get(2), tuple):
                    strings[domain, key] = text(data, words)
    default = next((value for number, value in state if number == 4), None)

    def named(spans: list[Span], name_at: int) -> list[str]:
        found = []
        for lies in spans:
            parts = list(fields(data, *lies))
            domain = next((part for at, part in parts if at == 1 and isinstance(part, int)), 0)
            prefix = "" if domain == default or not domains.get(domain) else f"{domains[domain]}:"
            for at, part in parts:
                if at == 3 and isinstance(part, tuple):
                    name = _name_of(data, part, name_at, domain, strings)
                    found += [prefix + name] if name else []
        return found

    threads = [list(fields(data, *value)) for number, value in state if number == 2 and isinstance(value, tuple)]
    own = [parts for parts in threads if (1, thread) in parts]
    stacks = [value for parts in own for at, value in parts if at == 2 and isinstance(value, tuple)]
    loose = [value for number, value in state if number == 3 and isinstance(value, tuple)]
    for kind, spans, name_at in (("push/pop range", stacks, 1), ("start/end range", loose, 2)):
        if ranges := named(spans, name_at):
            yield kind, ranges


def _name_of(data: bytes, span: Span, name_at: int, domain: int, strings: dict[tuple[int, int], str]) -> str:
    """The name of a range: its own, else its message, which may be registered."""
    parts = dict(fields(data, *span))
    if isinstance(name := parts.get(name_at), tuple) and (own := text(data, name)):
        return own
    attributes = parts.get(name_at + 1)
    message = dict(fields(data, *attributes)).get(5) if isinstance(attributes, tuple) else None
    said = dict(fields(data, *message)) if isinstance(message, tuple) else {}
    if isinstance(words := said.get(2), tuple) and (spelled := text(data, words)):
        return spelled
    handle = said.get(3)
    return strings.get((domain, handle), "") if isinstance(handle, int) else ""


def _source_lines(data: bytes, report: Report, tally: Tally) -> pl.DataFrame:
    """What was counted at instructions, as the source page has it: by line, without lines by address."""
    launches = [source_page.Kernel(name) for name in report.launches.names]
    functions = {process: sorted(table) for process, table in report.functions.items()}
    lines, texts = {}, {}
    for number, (code, files) in report.programs.items() if report.sampled else ():
        try:
            lines[number] = lines_of(data[slice(*code)]) if code else {}
            texts[number] = _texts(data, files) if files else {}
        except Damaged:  # noqa: PERF203  the other programs can still be read
            tally.skipped("line table that is damaged")
    for (row, process), metrics in groupby(report.sampled, itemgetter(0, 1)):
        table = functions.get(process, [])
        try:
            counted = _by_instruction(data, metrics)
        except Damaged:
            tally.skipped("launch whose counts at instructions are damaged")
            continue
        for pc, values in counted.items():
            found = bisect_right(table, pc, key=itemgetter(0)) - 1
            address, name, number = table[found] if found >= 0 else (0, "", 0)
            own = lines.get(number, {}).get(name)
            place = own.at(pc - address) if own is not None else None
            said = texts.get(number, {}).get(place, "") if place else ""
            launches[row].add(f"{place[0]}:{place[1]}" if place else hex(pc), said, values)
    return source_page.counters_of(launches, "sample")


def _by_instruction(data: bytes, metrics: Iterable[tuple[int, str, str, Span]]) -> dict[int, dict[str, float]]:
    """What a launch counted at each address, by the source page's titles, with those that it computes."""
    found: dict[int, dict[str, float]] = {}
    # each metric names the same addresses, and most counts are small: they are read once
    known: dict[bytes, float | None] = {b"": None}
    for _, _, title, metric in metrics:
        for said in _instances(data, metric):
            for spelled in said:
                if spelled not in known:
                    known[spelled] = _value(spelled, (0, len(spelled)))[0]
            pc, value = known[said[0]], known[said[1]]
            if pc is not None and value is not None and math.isfinite(value):
                found.setdefault(int(pc), {})[title] = value
    for values in found.values():
        stalls = [value for title, value in values.items() if _IS_STALL.fullmatch(title)]
        values |= {source_page.SAMPLES: sum(stalls)} if stalls else {}
        if values.get(source_page.SECTORS):
            values[source_page.REQUESTS] = values.get(source_page.INSTRUCTIONS, 0.0)
    return found


_INSTANCE = re.compile(
    rb"\x1a[\x00-\x7f]\n[\x00-\x7f](\x28[\x80-\xff]{0,9}[\x00-\x7f])"
    rb"\x12[\x00-\x7f](\x28[\x80-\xff]{0,9}[\x00-\x7f]|\x19.{8})",
    re.DOTALL,
)
"""How ncu writes a count at an instruction: its address and its value, each behind its number and length."""


def _instances(data: bytes, metric: Span) -> list[tuple[bytes, bytes]]:
    """The address and the value of each count of a metric, as they are spelled; the quick way where all are alike."""
    content = data[slice(*metric)]
    first, found = _INSTANCE.search(content), _INSTANCE.findall(content)
    if first is not None and len(content) - first.start() == sum(6 + len(pc) + len(value) for pc, value in found):
        return found
    instances = [part for number, part in fields(data, *metric) if number == 3 and isinstance(part, tuple)]
    spans = [_parts(data, instance, 1, 2) for instance in instances]
    return [(data[slice(*(pc or (0, 0)))], data[slice(*(value or (0, 0)))]) for pc, value in spans]


def _texts(data: bytes, span: Span) -> dict[tuple[str, int], str]:
    """The lines of the source files that a report holds (``--import-source``), by file and number."""
    found: dict[tuple[str, int], str] = {}
    for number, file in fields(data, *span):
        if number == 1 and isinstance(file, tuple):
            name, content = _parts(data, file, 1, 2)
            if name and content:
                short = re.split(r"[/\\]", text(data, name))[-1]
                for line, words in enumerate(text(data, content).split("\n"), 1):
                    found[short, line] = words
    return found


def _parts(data: bytes, span: Span, *numbers: int) -> list[Span | None]:
    """Where these fields of a message lie."""
    found = {number: value for number, value in fields(data, *span) if isinstance(value, tuple)}
    return [found.get(number) for number in numbers]


def _rule(data: bytes, span: Span) -> Iterator[tuple[str, str | None, str, str | None, float | None, str]]:
    """What a rule says: kind, section, its name, what its speed-up is of, the speed-up in percent, and a text."""
    parts = {number: value for number, value in fields(data, *span) if isinstance(value, tuple)}
    name, section = (text(data, parts[number]) if number in parts else "" for number in (1, 4))
    if 3 not in parts:
        return
    for number, message in fields(data, *parts[3]):
        if number != 1 or not isinstance(message, tuple):
            continue
        words, kind, of, gain = "", "inf", None, None
        for at, value in fields(data, *message):
            if at == 1 and isinstance(value, tuple):
                for place, content in fields(data, *value):
                    if place == 1 and isinstance(content, tuple):
                        words = _LINKED.sub(r"\1", text(data, content))
                    elif place == 2 and isinstance(content, int):
                        kind = _MESSAGE_TYPES.get(content, "inf")
            elif at == 10 and isinstance(value, tuple):
                for place, content in fields(data, *value):
                    if isinstance(content, int):
                        of = _SPEED_UPS.get(content)
                    elif place == 2:
                        gain = double(data, content)
        if words:
            yield RULES[kind], section or None, name, of, gain, words


def counters_of(report: Report, data: bytes, tally: Tally) -> pl.DataFrame:
    """The metrics and rules of the launches, as counters in base units; source lines of kind ``sample``."""
    names, known = report.metrics, len(report.metrics)
    frame = pl.DataFrame(
        report.rows, {"device_row": schema.RowId, "metric": pl.Int64, "value": pl.Float64, "text": pl.String}
    )
    named = pl.DataFrame(
        {"metric": range(known), "name": names, "unit": [unit_of(name) for name in names]},
        {"metric": pl.Int64, "name": pl.String, "unit": pl.String},
    ).filter(~pl.col("name").str.starts_with(_BREAKDOWN))
    tally.skipped("metric without a name", int((frame["metric"] >= known).sum()))
    frame = frame.join(named, on="metric", how="inner", maintain_order="left")
    finite = pl.when(pl.col("value").is_finite()).then("value")
    frame = frame.with_columns(finite.alias("value"))
    without = frame.filter(pl.col("value").is_null() & pl.col("text").is_null())
    tally.missing("metric without a value", without.height, str(without["name"].first() or ""))
    measured = frame.join(without, on=frame.columns, how="anti", nulls_equal=True, maintain_order="left").select(
        pl.lit("metric").alias("kind"), "device_row", pl.col("name").alias("metric"), "unit", "value", "text"
    )
    rules = pl.DataFrame(
        report.said,
        {"kind": pl.String, "device_row": schema.RowId, "section": pl.String, "metric": pl.String, "unit": pl.String,
         "value": pl.Float64, "text": pl.String},
        orient="row",
    )  # fmt: skip
    every = pl.concat(
        [schema.filled(schema.COUNTERS, part) for part in (measured, rules, _source_lines(data, report, tally))]
    )
    return every.sort("device_row", maintain_order=True)


_BREAKDOWN = "breakdown:"
"""Metrics of this name list the metrics that another one is the highest of; no CSV has them."""
