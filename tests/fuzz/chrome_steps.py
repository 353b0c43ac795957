"""Steps that change a Chrome trace: its events, its header, its layout, its bytes."""

import gzip
import zlib
from random import Random
from typing import Any

from fuzz import values
from fuzz.chrome_doc import LAYOUTS, ChromeDoc
from fuzz.spans import BYTEWISE
from fuzz.values import Pairs, Raw


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
        _own(doc, place)["ph"] = dice.choice(
            ("B", "E", "i", "I", "M", "C", "s", "t", "f", "b", "n", "e", "P", "N", "", None, 5)
        )
        doc.context = True


def removed_event(doc: ChromeDoc, dice: Random) -> None:
    for _ in range(dice.choice((1, 3, 40))):
        if len(doc.events) > 1:
            place = dice.randrange(len(doc.events))
            doc.touch(place)
            del doc.events[place], doc.origin[place]
            doc.touched = {at - (at > place) for at in doc.touched if at != place}


def _put_in(doc: ChromeDoc, place: int, event: Any) -> None:
    """Puts an event, or what is none such as null, before the one at a place."""
    doc.events.insert(place, event)
    doc.origin.insert(place, None)
    doc.touched = {at + (at >= place) for at in doc.touched} | {place}


def doubled_event(doc: ChromeDoc, dice: Random) -> None:
    for place in _some(doc, dice):
        _put_in(doc, dice.randrange(len(doc.events) + 1), doc.events[place])
        doc.context |= isinstance(doc.events[place], dict) and doc.events[place].get("ph") in ("M", "B", "E")


def new_event(doc: ChromeDoc, dice: Random) -> None:
    """Something that is no event, or an event of another program."""
    made: tuple[Any, ...] = (
        {}, {}, {}, None, [], 1, "text", Raw("nul"), {"ph": "X"}, {"name": "a"}, [{"ph": "X"}], Raw("{"), Raw("}"),
        Raw('{"ph"'),
        {"ph": "C", "name": "GPU 0 Utilization", "pid": 0, "ts": 5, "args": {"u": 3, "v": "x", "w": 1e308}},
        {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5, "s": "t", "args": {"Bytes": 512}},
        {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5, "args": {"Bytes": -2**62, "Device Type": 1,
         "Addr": 1, "Total Allocated": 2**62, "Total Reserved": -5, "Device Id": 99}},
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:GPU:0"}},
        {"ph": "M", "name": "thread_name", "pid": "1", "tid": None, "args": {"name": ["x"]}},
        {"ph": "M", "name": "process_labels"},
        {"ph": "X", "ts": 0, "dur": 1e15, "name": "all", "cat": "cpu_op", "pid": 1},
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#0", "ts": 0, "dur": 0, "pid": 1, "tid": 1},
        {"ph": "X", "cat": "kernel", "name": "k", "ts": -5, "dur": 3, "pid": 0, "tid": 7, "args": {"device": -1}},
    )  # fmt: skip
    for _ in range(dice.choice((1, 2))):
        event = dice.choice(made)
        _put_in(doc, dice.randrange(len(doc.events) + 1), event)
        if isinstance(event, dict) and event.get("ph") == "M":
            doc.context = True
        if isinstance(event, Raw):
            doc.torn = True


def shuffled(doc: ChromeDoc, dice: Random) -> None:
    order = list(range(len(doc.events)))
    dice.shuffle(order)
    doc.events, doc.origin = [doc.events[at] for at in order], [doc.origin[at] for at in order]
    doc.touched = {new for new, at in enumerate(order) if at in doc.touched}


HEADER = (
    "deviceProperties", "distributedInfo", "tracetui", "traceName", "displayTimeUnit", "baseTimeNanoseconds",
    "schemaVersion", "cuda_runtime_version", "host", "\x1b[2J",
)  # fmt: skip


def other_header(doc: ChromeDoc, dice: Random) -> None:
    """Keys of the document: devices, the distributed run, our own marks."""
    doc.context = True
    for _ in range(dice.choice((1, 2, 4))):
        key = dice.choice([*doc.header, *HEADER])
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


SHAPED = {
    "field removed": removed_field, "other type": other_type, "odd number": odd_number, "odd text": odd_text,
    "key twice": doubled_key, "zero-length durations": no_duration, "one moment": same_time,
    "other category": other_category, "other phase": other_phase, "event removed": removed_event,
    "event twice": doubled_event, "foreign event": new_event, "other order": shuffled, "other header": other_header,
    "other layout": other_layout, "byte order mark": with_mark, "packed": packed, "ids moved": ids_moved,
}  # fmt: skip
TORN = {**{name: _bytewise(change) for name, change in BYTEWISE.items()}, "gzip cut off": gzip_cut}
