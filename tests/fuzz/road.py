"""What a user does with a recording after opening it: reports, cuts, scrubbed copies."""

import gzip
import json
import re
import traceback
import zlib
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fuzz.case import Find, Plan
from tracetui.parsers import Run, Trace

SHARE = 0.16
"""How many inputs go the whole road; a report takes ten times as long as opening."""


def one_line(text: str) -> None:
    """An error or warning is one line that a terminal can show, once `printable` has seen it."""
    from tracetui.app.text.fitting import printable

    shown = printable(text)
    if "\n" in shown or not shown.strip() or any(not letter.isprintable() for letter in shown):
        raise Find(f"an error that is no line of text: {text!r:.300}")


def printable_text(text: str, what: str) -> None:
    """Nothing in it moves a terminal's cursor, and it can be encoded."""
    text.encode()
    for line in text.split("\n"):
        if not line.isprintable():
            odd = next(letter for letter in line if not letter.isprintable())
            raise Find(f"{what} has {odd!r} in {line!r:.200}")


def _refused(token: str) -> Any:
    raise Find(f"the JSON report has {token}")


def follow(run: Run, plan: Plan, folder: Path) -> None:
    """The whole report of every sixth input, as JSON and text, now and then as other formats; a scrubbed copy."""
    dice = plan.dice("road")
    if dice.random() >= SHARE:
        return
    reported(run, dice.random() < 0.2)
    for warning in run.warnings:
        one_line(warning)
    if dice.random() < 0.4:
        scrubbed(run.main, folder, names=dice.random() < 0.5)


def reported(run: Run, all_formats: bool = False) -> None:
    """Makes the report in the formats that people and programs read."""
    from as_json import report
    from laid_out import run_parts

    from tracetui.app.reports.html.page import html
    from tracetui.app.reports.json_report import to_json
    from tracetui.app.reports.layout import Layout
    from tracetui.app.reports.markdown import markdown
    from tracetui.app.reports.text import text

    failed: list[Exception] = []
    found = report(run, on_error=failed.append)
    if failed:
        raise Find("a rule failed: " + "".join(traceback.format_exception(failed[0]))) from failed[0]
    json.loads(to_json(found), parse_constant=_refused)
    layout = Layout(10, ascii=False, charts=True)
    printable_text(text(run_parts(found, layout), layout), "the text report")
    if all_formats:
        text(run_parts(found, Layout(None, ascii=True)), Layout(None, ascii=True)).encode("ascii")
        printable_text(markdown(run_parts(found, layout), layout), "the Markdown report")
        html(run_parts(found, layout), layout).encode()


NOT_NUMBERS = ("name", "stack", "domain", "text", "section", "metric", "operation", "scope", "offset", "memory_kinds",
               "input_shapes", "input_types")  # fmt: skip


FROM_TEXTS = ("grid", "block", "registers", "shared_memory", "occupancy_percent", "bytes", "context")
"""Numbers of the device that XLA writes into a text; of one that damage tore, scrub leaves only the form."""
_LEFT = re.compile(rb"(?:/home/|Users\\{1,4})ada(?![A-Za-z0-9])")
"""What `values.TEXTS` has of a person."""


def scrubbed(trace: Trace, folder: Path, *, names: bool) -> None:
    """A copy without names of people has the same numbers, and in its names no paths of theirs."""
    from tracetui.collectors.scrub import scrub_file
    from tracetui.collectors.scrubbing.redactor import Redactor
    from tracetui.parsers import TraceError, open_path

    source = trace.source.path
    target = folder / ("scrubbed-" + source.name)
    target.unlink(missing_ok=True)
    try:
        scrub_file(source, target, Redactor(("ada",), ("gpu-7",), names=names))
    except TraceError as error:
        one_line(str(error))
        return
    content = target.read_bytes()
    if found := _LEFT.search(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content):
        raise Find(f"the scrubbed copy has {found[0]!r}")
    try:
        copy = open_path(target, cache=False).main
    except TraceError as error:
        raise Find(f"the scrubbed copy can't be opened: {error}") from error
    for frame in ("steps", "host", "device", "memory", "counters"):
        a, b = getattr(trace, frame), getattr(copy, frame)
        numbers = [name for name in a.columns if name not in NOT_NUMBERS]
        if not a.select(numbers).equals(b.select(numbers)) and not _only_torn_texts(a, b, numbers, source):
            raise Find(f"the scrubbed copy has other numbers in {frame}: {a.height} rows, {b.height} rows")


def _only_torn_texts(a: Any, b: Any, numbers: list[str], source: Path) -> bool:
    """Whether the copy lacks only what the original reads from texts that no JSON decoder accepts."""
    different = [name for name in numbers if not a[name].equals(b[name])]
    if a.height != b.height or not set(different) <= {*FROM_TEXTS}:
        return False
    pairs = [zip(a[name].to_list(), b[name].to_list(), strict=True) for name in different]
    changed = [(row, new) for pair in pairs for row, (old, new) in enumerate(pair) if old != new]
    content = source.read_bytes()
    if content[:2] == b"\x1f\x8b":
        content = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(content)
    return all(new is None and _is_torn(content, a["offset"][row]) for row, new in changed)


def _is_torn(content: bytes, offset: int | None) -> bool:
    if offset is None:
        return False
    text = content[offset:].decode("utf-8", "surrogateescape")
    try:
        _, end = json.JSONDecoder().raw_decode(text)
        text[:end].encode()
    except ValueError:
        return True
    return False


def both_paths(path: Path) -> None:
    """The slow path reads what the fast one reads; opening then puts kernels that were only counted apart."""
    from tracetui.parsers.chrome import reader
    from tracetui.parsers.chrome.tokens import Irregular

    def refuse(chunk: object) -> Any:
        raise Irregular("fuzzed")

    fast = reader.read_chrome(path)
    with patch.object(reader, "scan", refuse):
        slow = reader.read_chrome(path)
    equal(fast, slow, "fast and slow path")


def equal(a: Trace, b: Trace, what: str) -> None:
    """Both have the same rows."""
    for frame in ("steps", "host", "device", "memory", "counters"):
        one, two = getattr(a, frame), getattr(b, frame)
        if not one.equals(two):
            if one.height == two.height and _events(one) == _events(two):
                continue  # the same events, of which some that begin and end together stand in another order
            names = [n for n in one.columns if one.height != two.height or not one[n].equals(two[n])]
            example = ""
            if one.height == two.height:
                at = next(i for i in range(one.height) if one[i].rows() != two[i].rows())
                example = f": row {at}: {one[at].select(names).rows()!r:.300} / {two[at].select(names).rows()!r:.300}"
            raise Find(f"{what} differ in {frame} ({one.height} and {two.height} rows): {names}{example}")
    if a.source.events_total != b.source.events_total or a.source.events_parsed != b.source.events_parsed:
        raise Find(f"{what} count {a.source} and {b.source}")


def _events(frame: Any) -> Any:
    from fuzz import same

    numbers = (
        "parent",
        "depth",
        "forward",
        "launch",
        "operator",
        "module",
        "forward_module",
        "range",
        "step",
        "device_row",
    )
    return same.rows(frame, [name for name in frame.columns if name not in numbers])


def cut(path: Path, trace: Trace, folder: Path) -> None:
    """A cut of the first half counts what it kept and can be opened."""
    from tracetui.parsers import TraceError, open_path
    from tracetui.parsers.chrome.cut import cut as cut_trace

    times = [t for frame in (trace.host, trace.device) for t in frame["start"].drop_nulls().to_list()]
    if not times:
        return
    target = folder / "cut.json"
    target.unlink(missing_ok=True)
    try:
        found = cut_trace(path, target, (min(times), (min(times) + max(times)) // 2 + 1))
    except TraceError as error:
        one_line(str(error))
        return
    if not 0 < found.kept <= found.events:
        raise Find(f"the cut kept {found.kept} of {found.events} events")
    part = open_path(target, cache=False).main
    # what stands between two events and is none is copied with them, and is no more of an event there
    strange = trace.source.events_total - trace.source.events_parsed
    if part.source.events_total > found.kept + strange:
        raise Find(f"the cut kept {found.kept} events, its file holds {part.source.events_total}")
