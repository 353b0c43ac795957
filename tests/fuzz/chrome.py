"""Chrome traces: of PyTorch's profiler and of JAX's."""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fuzz import road, same, values
from fuzz.case import NOTED, READ, REFUSED, Find
from fuzz.spans import BYTEWISE, Spans
from fuzz.values import Pairs, Raw

if TYPE_CHECKING:
    from collections import Counter
    from pathlib import Path
    from random import Random

    from fuzz.case import Plan
    from tracetui.parsers import Trace

HOST = (
    "kind", "name", "start", "process", "correlation", "external_id", "sequence", "module_id", "input_shapes",
    "input_types", "stack",
)  # fmt: skip
DEVICE = (
    "kind", "name", "start", "duration", "process", "device", "stream", "context", "correlation", "external_id", "grid",
    "block", "registers", "shared_memory", "occupancy_percent", "blocks_per_sm", "bytes", "graph_node", "memory_kinds",
)  # fmt: skip
MEMORY = ("action", "time", "process", "thread", "device_type", "device", "address", "bytes", "allocated", "reserved")
COUNTERS = ("time", "section", "metric", "value")
LAYOUTS = {
    "kineto": ('{\n  "schemaVersion": 1,\n', '  "traceEvents": [\n  ', ",\n  ", '\n  ]\n}\n'),
    "minified": ("{", '"traceEvents":[', ",", "]}"),
    "indented": ("{\n ", '"traceEvents": [\n  ', ",\n  ", "\n ]\n}"),
    "crlf": ('{\r\n', '"traceEvents": [\r\n', ",\r\n", "\r\n]\r\n}\r\n"),
    "list": (None, "[\n", ",\n", "\n]"),
    "open list": (None, "[\n", ",\n", ",\n"),
    "blanks": ("{ \n\n", '"traceEvents" : [ \n\t ', " \t,\n\n ", " \n ] }   \n\n"),
}
"""What stands before the header and the events, between two of them, and behind them."""


@dataclass
class ChromeDoc:
    """Events and what stands around them."""

    base: ChromeBase
    events: list[Any]
    header: dict[str, Any]
    origin: list[int | None]
    """Which of the base's events each one is; null for one that is new."""
    touched: set[int] = field(default_factory=set)
    """Places of events that were changed."""
    context: bool = False
    """Whether something was changed that says what all events are."""
    may_refuse: bool = False
    layout: str = "kineto"
    before: bytes = b""
    packed: bool = False
    spans: Spans | None = None
    torn: bool = False

    def touch(self, place: int) -> None:
        self.touched.add(place)
        event = self.events[place]
        if isinstance(event, dict) and event.get("ph") in ("M", "s", "f", "B", "E") or not isinstance(event, dict):
            self.context |= isinstance(event, dict) and event.get("ph") == "M"

    def spread(self) -> Spans:
        """The file's bytes, from here on changed only as bytes."""
        if self.spans is None:
            begin, start, between, end = LAYOUTS[self.layout]
            out = bytearray(self.before)
            if begin is not None:
                out += begin.encode()
                for key, value in self.header.items():
                    out += f"{json.dumps(key)}: {values.written(value)},\n".encode("utf-8", "surrogatepass")
            out += start.encode()
            places: list[tuple[int, int] | None] = []
            for place, event in enumerate(self.events):
                if place:
                    out += between.encode()
                text = self.base.text(event, self.layout)
                places.append((len(out), len(out) + len(text)))
                out += text
            out += end.encode()
            self.spans = Spans(out, places)
        return self.spans

    def write(self, folder: Path) -> Path:
        path = folder / "in.pt.trace.json"
        content = bytes(self.spread().data)
        path.write_bytes(gzip.compress(content, 1) if self.packed else content)
        return path


@dataclass
class ChromeBase:
    """Events of a recording, and what the program reads in them."""

    events: list[dict[str, Any]]
    header: dict[str, Any]
    texts: dict[int, dict[str, bytes]] = field(default_factory=dict)
    host: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    """Rows by the number of the event."""
    device: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    memory: Counter[tuple[object, ...]] = field(default_factory=lambda: __import__("collections").Counter())
    counters: Counter[tuple[object, ...]] = field(default_factory=lambda: __import__("collections").Counter())
    kind: str = "chrome"

    def text(self, event: Any, layout: str) -> bytes:
        """An event as JSON; those of the base as they always are."""
        known = self.texts.get(id(event))
        if known is not None:
            return known["minified" if layout == "minified" else "spaced"]
        if isinstance(event, (dict, Pairs)):
            return values.written(event).encode("utf-8", "surrogatepass")
        return (str(event) if isinstance(event, Raw) else values.written(event)).encode("utf-8", "surrogatepass")

    def doc(self) -> ChromeDoc:
        return ChromeDoc(self, list(self.events), dict(self.header), list(range(len(self.events))))


def _own(doc: ChromeDoc, place: int) -> dict[str, Any]:
    """An event as a copy that may be changed."""
    event = doc.events[place]
    copy: dict[str, Any] = dict(event) if isinstance(event, dict) else {"ph": "X", "name": "x", "ts": 1, "dur": 1}
    if isinstance(copy.get("args"), dict):
        copy["args"] = dict(copy["args"])
    doc.touch(place)
    doc.events[place] = copy
    return copy


def _some(doc: ChromeDoc, dice: Random) -> list[int]:
    return [dice.randrange(len(doc.events)) for _ in range(dice.choice((1, 1, 2, 6)))] if doc.events else []


def _field(event: dict[str, Any], dice: Random) -> tuple[dict[str, Any], str] | None:
    """A place in the event or in its arguments."""
    args = event.get("args")
    where = args if isinstance(args, dict) and args and dice.random() < 0.5 else event
    return (where, dice.choice(list(where))) if where else None


def removed_field(doc: ChromeDoc, dice: Random) -> None:
    for place in _some(doc, dice):
        event = _own(doc, place)
        if found := _field(event, dice):
            del found[0][found[1]]


def other_type(doc: ChromeDoc, dice: Random) -> None:
    for place in _some(doc, dice):
        event = _own(doc, place)
        if found := _field(event, dice):
            found[0][found[1]] = values.anything(dice)


def odd_number(doc: ChromeDoc, dice: Random) -> None:
    for place in _some(doc, dice):
        event = _own(doc, place)
        args = event.get("args")
        numbers = [(event, key) for key in ("ts", "dur", "pid", "tid", "id") if key in event]
        if isinstance(args, dict):
            numbers += [(args, key) for key, value in args.items() if isinstance(value, (int, float))]
        if numbers:
            where, key = dice.choice(numbers)
            where[key] = values.number(dice)


def odd_text(doc: ChromeDoc, dice: Random) -> None:
    for place in _some(doc, dice):
        event = _own(doc, place)
        if found := _field(event, dice):
            found[0][found[1] if dice.random() < 0.4 else "name"] = values.text(dice)


def doubled_key(doc: ChromeDoc, dice: Random) -> None:
    for place in _some(doc, dice):
        event = _own(doc, place)
        pairs = Pairs(event.items())
        key = dice.choice(list(event) or ["ph"])
        pairs.insert(dice.randrange(len(pairs) + 1), (key, values.anything(dice) if dice.random() < 0.7 else "X"))
        doc.events[place] = pairs


def no_duration(doc: ChromeDoc, dice: Random) -> None:
    """Zero-length durations, of a few or of all."""
    places = range(len(doc.events)) if dice.random() < 0.3 else _some(doc, dice)
    for place in places:
        if isinstance(doc.events[place], dict) and "dur" in doc.events[place]:
            _own(doc, place)["dur"] = dice.choice((0, 0, 0.0, "0", -1, 0.0001))


def same_time(doc: ChromeDoc, dice: Random) -> None:
    """Many events at one moment, or with one length."""
    key, value = dice.choice(("ts", "dur")), dice.choice((0, 1, 1e6, 0.5, 9e14))
    for place in range(len(doc.events)):
        if isinstance(doc.events[place], dict) and key in doc.events[place] and dice.random() < 0.5:
            _own(doc, place)[key] = value


def other_category(doc: ChromeDoc, dice: Random) -> None:
    known = (
        "cpu_op", "kernel", "gpu_memcpy", "gpu_memset", "user_annotation", "cuda_runtime", "cuda_driver", "overhead",
        "python_function", "Trace", "gpu_user_annotation", "fwdbwd", "ac2g", "cpu_instant_event", "mtia_ccp_events", "",
        "Kernel", "cuda_sync", "cuda_profiler_range", "async_gpu", "hpu_op", "xpu_runtime", None, 7,
    )  # fmt: skip
    for place in _some(doc, dice):
        _own(doc, place)["cat"] = dice.choice(known)


def other_phase(doc: ChromeDoc, dice: Random) -> None:
    for place in _some(doc, dice):
        _own(doc, place)["ph"] = dice.choice(("B", "E", "i", "I", "M", "C", "s", "t", "f", "b", "n", "e", "P", "N", "", None, 5))
        doc.context = True


def removed_event(doc: ChromeDoc, dice: Random) -> None:
    for _ in range(dice.choice((1, 3, 40))):
        if len(doc.events) > 1:
            place = dice.randrange(len(doc.events))
            doc.touch(place)
            _shift(doc, place, None)


def _shift(doc: ChromeDoc, place: int, event: Any) -> None:
    """Removes the event at a place, or puts a new one there."""
    if event is None:
        del doc.events[place], doc.origin[place]
        doc.touched = {at - (at > place) for at in doc.touched if at != place}
    else:
        doc.events.insert(place, event)
        doc.origin.insert(place, None)
        doc.touched = {at + (at >= place) for at in doc.touched} | {place}


def doubled_event(doc: ChromeDoc, dice: Random) -> None:
    for place in _some(doc, dice):
        _shift(doc, dice.randrange(len(doc.events) + 1), doc.events[place])
        doc.context |= isinstance(doc.events[place], dict) and doc.events[place].get("ph") in ("M", "B", "E")


def new_event(doc: ChromeDoc, dice: Random) -> None:
    """Something that is no event, or an event of another program."""
    made = (
        {}, {}, {}, None, [], 1, "text", Raw("nul"), {"ph": "X"}, {"name": "a"}, [{"ph": "X"}], Raw("{"), Raw("}"), Raw('{"ph"'),
        {"ph": "C", "name": "GPU 0 Utilization", "pid": 0, "ts": 5, "args": {"u": 3, "v": "x", "w": 1e308}},
        {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5, "s": "t", "args": {"Bytes": 512}},
        {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5, "args": {"Bytes": -2**62, "Device Type": 1, "Addr": 1,
         "Total Allocated": 2**62, "Total Reserved": -5, "Device Id": 99}},
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:GPU:0"}},
        {"ph": "M", "name": "thread_name", "pid": "1", "tid": None, "args": {"name": ["x"]}},
        {"ph": "M", "name": "process_labels"}, {"ph": "X", "ts": 0, "dur": 1e15, "name": "all", "cat": "cpu_op", "pid": 1},
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#0", "ts": 0, "dur": 0, "pid": 1, "tid": 1},
        {"ph": "X", "cat": "kernel", "name": "k", "ts": -5, "dur": 3, "pid": 0, "tid": 7, "args": {"device": -1}},
    )  # fmt: skip
    for _ in range(dice.choice((1, 2))):
        event = dice.choice(made)
        _shift(doc, dice.randrange(len(doc.events) + 1), event)
        if isinstance(event, dict) and event.get("ph") == "M":
            doc.context = True
        if isinstance(event, Raw):
            doc.torn = True


def shuffled(doc: ChromeDoc, dice: Random) -> None:
    order = list(range(len(doc.events)))
    dice.shuffle(order)
    doc.events, doc.origin = [doc.events[at] for at in order], [doc.origin[at] for at in order]
    doc.touched = {new for new, at in enumerate(order) if at in doc.touched}


def other_header(doc: ChromeDoc, dice: Random) -> None:
    """Keys of the document: devices, the distributed run, our own marks."""
    doc.context = True
    for _ in range(dice.choice((1, 2, 4))):
        key = dice.choice([*doc.header, "deviceProperties", "distributedInfo", "tracetui", "traceName", "displayTimeUnit",
                           "baseTimeNanoseconds", "schemaVersion", "cuda_runtime_version", "host", "\x1b[2J"])  # fmt: skip
        value = doc.header.get(key)
        if isinstance(value, list) and value and isinstance(value[0], dict) and dice.random() < 0.6:
            inner = dict(value[0])
            inner[dice.choice(list(inner) or ["id"])] = values.anything(dice)
            doc.header[key] = [inner, *value[1:]]
        elif isinstance(value, dict) and value and dice.random() < 0.6:
            doc.header[key] = {**value, dice.choice(list(value)): values.anything(dice)}
        elif dice.random() < 0.2:
            doc.header.pop(key, None)
        else:
            doc.header[key] = values.anything(dice)


def other_layout(doc: ChromeDoc, dice: Random) -> None:
    doc.layout = dice.choice(list(LAYOUTS))
    doc.context |= LAYOUTS[doc.layout][0] is None


def with_mark(doc: ChromeDoc, dice: Random) -> None:
    """A byte order mark or blanks before everything."""
    doc.before = dice.choice((b"\xef\xbb\xbf", b" \n", b"\n\n\n", b"\t"))


def packed(doc: ChromeDoc, dice: Random) -> None:
    doc.packed = True


def ids_moved(doc: ChromeDoc, dice: Random) -> None:
    """Ids beyond what 63 bits hold, all alike or by an offset."""
    key = dice.choice(("correlation", "External id", "Sequence number", "Python id", "device", "stream"))
    by = dice.choice((2**31, 2**32, 2**53, 2**62, 2**63 - 3, 2**63, 2**64 - 5, -(2**63), None))
    for place, event in enumerate(doc.events):
        if isinstance(event, dict) and isinstance(event.get("args"), dict) and isinstance(event["args"].get(key), int):
            args = _own(doc, place)["args"]
            args[key] = 1 if by is None else args[key] + by


def gzip_cut(spans_of: ChromeDoc, dice: Random) -> None:
    """A compressed file of which the end is missing."""
    doc = spans_of
    spans = doc.spread()
    stream = gzip.compress(bytes(spans.data), 6)
    stream = stream[: dice.randrange(20, len(stream))]
    inflater = zlib.decompressobj(wbits=31)
    rest = inflater.decompress(stream)
    spans.change(len(rest), len(spans.data), b"")
    spans.outside = not any(place for place in spans.places if place)
    doc.packed, doc.torn = True, True


def _bytewise(change: Any) -> Any:
    def changed(doc: ChromeDoc, dice: Random) -> None:
        change(doc.spread(), dice)
        doc.torn = True

    return changed


class Chrome:
    """Traces of PyTorch's profiler."""

    name = "chrome"
    files: tuple[tuple[str, int, int], ...] = (
        ("ops/ops.trace.json.gz", 0, 110), ("mlp_profiled/light.pt.trace.json.gz", 0, 150),
        ("chrome/small_vit_train.pt.trace.json.gz", 9000, 170), ("chrome/cudagraph_replay.trace.json.gz", 0, 130),
        ("chrome/forms/torch213_cpu_mlp_modules.pt.trace.json.gz", 400, 140),
    )  # fmt: skip
    """Recording, first event, how many of them."""
    shaped = {
        "field removed": removed_field, "other type": other_type, "odd number": odd_number, "odd text": odd_text,
        "key twice": doubled_key, "zero-length durations": no_duration, "one moment": same_time,
        "other category": other_category, "other phase": other_phase, "event removed": removed_event,
        "event twice": doubled_event, "foreign event": new_event, "other order": shuffled, "other header": other_header,
        "other layout": other_layout, "byte order mark": with_mark, "packed": packed, "ids moved": ids_moved,
    }  # fmt: skip
    bytewise = {**{name: _bytewise(change) for name, change in BYTEWISE.items()}, "gzip cut off": gzip_cut}

    def __init__(self) -> None:
        self.bases: list[ChromeBase] = []

    def prepare(self, folder: Path) -> None:
        from sample_runs import recorded

        for name, first, count in self.files:
            raw = recorded(name).read_bytes()
            document = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
            events = document["traceEvents"] if isinstance(document, dict) else document
            header = {k: v for k, v in document.items() if k != "traceEvents"} if isinstance(document, dict) else {}
            self.bases.append(self._read(ChromeBase(_chosen(events, first, count), header), folder))

    def _read(self, base: ChromeBase, folder: Path) -> ChromeBase:
        from tracetui.parsers import open_path

        for event in base.events:
            spaced, tight = json.dumps(event), json.dumps(event, separators=(",", ":"))
            base.texts[id(event)] = {"spaced": spaced.encode(), "minified": tight.encode()}
        doc = base.doc()
        trace = open_path(doc.write(folder), cache=False).main
        starts = {place[0]: number for number, place in enumerate(doc.spread().places) if place}
        base.host, base.device, base.memory, base.counters = _rows(trace, starts)
        base.kind = trace.info.kind
        return base

    def base(self, dice: Random) -> ChromeDoc:
        return dice.choice(self.bases).doc()

    def examine(self, doc: ChromeDoc, plan: Plan, folder: Path) -> str:
        from tracetui.parsers import TraceError, open_path

        path = doc.write(folder)
        spans = doc.spread()
        broken = spans.outside or (doc.torn and doc.context)
        try:
            run = open_path(path, cache=False)
        except TraceError as error:
            road.one_line(str(error))
            if not broken and any(isinstance(event, dict) and event.get("ph") == "X" for event in doc.events):
                if not (doc.torn and len([1 for place in spans.places if place]) < 3):
                    raise Find(f"refused, though most of it is intact: {error}") from error
            return REFUSED
        trace = run.main
        same.counts(trace)
        same.ids(trace)
        if not doc.torn and not broken:
            held = sum(event != {} for event in doc.events)
            if trace.source.events_total != held:
                raise Find(f"the file holds {held} events, {trace.source.events_total} are counted")
        if not spans.outside:
            _compare(doc, trace)
        road.follow(run, plan, folder)
        # of tokens that JSON does not know the fast path reads some that the slow one refuses
        if not doc.torn and plan.dice("paths").random() < 0.3 and _is_json(spans.data.decode("utf-8", "replace")):
            road.both_paths(path, trace)
        if plan.dice("cut").random() < 0.1:
            road.cut(path, trace, folder)
        return NOTED if trace.notes or run.warnings else READ


def _chosen(events: list[dict[str, Any]], first: int, count: int) -> list[dict[str, Any]]:
    """Some events of a recording, its marks of steps and a few names among them."""
    events = [event for event in events if event]
    plain = [event for event in events if event.get("ph") != "M"]
    marks = [event for event in plain if str(event.get("name", "")).startswith("ProfilerStep")][:3]
    names = [event for event in events if event.get("ph") == "M"][:12]
    taken = plain[first : first + count]
    wanted = {event.get("args", {}).get("correlation") for event in taken if isinstance(event.get("args"), dict)} - {None}
    partners = [
        event for event in plain if event not in taken and isinstance(event.get("args"), dict)
        and event["args"].get("correlation") in wanted
    ][: count // 3]  # fmt: skip
    return [*names, *(mark for mark in marks if mark not in taken), *taken, *partners]


def _texts(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row in which the same JSON is the same text."""
    return tuple(json.dumps(json.loads(v)) if isinstance(v, str) and v[:1] == "[" and v[-1:] == "]" and _is_json(v) else v
                 for v in (repr(c) if isinstance(c, float) else c for c in row))  # fmt: skip


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _rows(trace: Trace, starts: dict[int, int]) -> tuple[Any, ...]:
    """(host, device) rows by the number of their event; memory and counters as they are."""
    found = []
    for frame, columns in ((trace.host, ("duration", *HOST)), (trace.device, DEVICE)):
        at = {}
        for offset, *row in frame.select("offset", *columns).iter_rows():
            if offset in starts:
                at[starts[offset]] = _texts(tuple(tuple(c) if isinstance(c, list) else c for c in row))
        found.append(at)
    return (*found, same.rows(trace.memory, MEMORY), same.rows(trace.counters, COUNTERS))


def _compare(doc: ChromeDoc, trace: Trace) -> None:
    """Untouched events are read as in the original."""
    spans, base = doc.spread(), doc.base
    spoilt = spans.spoilt() | doc.touched
    if doc.torn and doc.touched:  # what was odd already may take its neighbours along
        spoilt |= {at + by for at in doc.touched for by in (-1, 1)}
    starts, intact = {}, set()
    for place, span in enumerate(spans.places):
        if span is not None and place not in spoilt and doc.origin[place] is not None:
            starts[span[0]] = doc.origin[place]
            intact.add(doc.origin[place])
    host, device, memory, counters = _rows(trace, starts)  # type: ignore[arg-type]
    if not doc.context and trace.info.kind == base.kind:
        # what a call of JAX is follows from the steps around it
        for what, before, after, skip in (("host", base.host, host, 2 if base.kind == "jax" else 1), ("device", base.device, device, 0)):
            for number in before.keys() & intact:
                if number not in after or after[number][skip:] != before[number][skip:]:
                    raise Find(f"{what} event {number} was {before[number]!r:.400}, is {after.get(number)!r:.400}")
                if skip and after[number][0] > max(before[number][0], _raw_duration(base.events[number])):
                    raise Find(f"host event {number} took {before[number][0]}, now {after[number][0]}")
    else:
        lost = (base.host.keys() | base.device.keys()) & intact - host.keys() - device.keys()
        if len(lost) > 0 and trace.info.kind == base.kind:
            raise Find(f"{len(lost)} intact events are gone, such as {base.events[next(iter(lost))]!r:.300}")
    gone = len(base.events) - len(intact)  # at most one row of memory for each
    same.kept(base.memory, memory, gone, "memory")
    same.kept(base.counters, counters, sum(base.counters.values()) if gone else 0, "counters")


def _raw_duration(event: dict[str, Any]) -> int:
    try:
        return int(float(event.get("dur", 0)) * 1000) + 1
    except (TypeError, ValueError):
        return 0
