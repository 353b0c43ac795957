"""Chrome traces: of PyTorch's profiler and of JAX's."""

import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

from fuzz import road, same
from fuzz.case import NOTED, READ, REFUSED, Find, Plan
from fuzz.chrome_doc import ChromeBase, ChromeDoc, lined
from fuzz.chrome_steps import SHAPED, TORN
from fuzz.values import Pairs
from tracetui.parsers import Trace

HOST = (
    "kind", "name", "start", "process", "correlation", "external_id", "sequence", "module_id", "input_shapes",
    "input_types", "concrete_inputs", "stack",
)  # fmt: skip
DEVICE = (
    "kind", "name", "start", "duration", "process", "device", "stream", "context", "correlation", "external_id", "grid",
    "block", "registers", "shared_memory", "occupancy_percent", "blocks_per_sm", "bytes", "graph_node", "memory_kinds",
)  # fmt: skip
MEMORY = ("action", "time", "process", "thread", "device_type", "device", "address", "bytes", "allocated", "reserved")
COUNTERS = ("time", "section", "metric", "value")


class Chrome:
    """Traces of PyTorch's profiler."""

    name = "chrome"
    files: tuple[tuple[str, int, int], ...] = (
        ("ops/ops.trace.json.gz", 0, 110), ("mlp_profiled/light.pt.trace.json.gz", 0, 150),
        ("chrome/small_vit_train.pt.trace.json.gz", 9000, 170), ("chrome/cudagraph_replay.trace.json.gz", 0, 130),
        ("chrome/forms/torch213_cpu_mlp_modules.pt.trace.json.gz", 400, 140),
    )  # fmt: skip
    """Recording, first event, how many of them."""
    shaped = SHAPED
    bytewise = TORN

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
            texts = {"spaced": spaced.encode(), "minified": tight.encode(), "lines": lined(spaced.encode())}
            base.texts[id(event)] = texts
        doc = base.doc()
        trace = open_path(doc.write(folder), cache=False).main
        starts = {place[0]: number for number, place in enumerate(doc.spread().places) if place}
        base.host, base.device, base.memory, base.counters = _rows(trace, starts)
        base.kind = trace.info.kind
        return base

    def base(self, dice: Random) -> ChromeDoc:
        doc = dice.choice(self.bases).doc()
        doc.layout = dice.choice(("kineto", "lines"))
        return doc

    def examine(self, doc: ChromeDoc, plan: Plan, folder: Path) -> str:
        from tracetui.parsers import TraceError, open_path

        path = doc.write(folder)
        spans = doc.spread()
        broken = spans.outside or (doc.torn and doc.context)
        try:
            run = open_path(path, cache=False)
        except TraceError as error:
            road.one_line(str(error))
            some = any(isinstance(event, dict) and event.get("ph") == "X" for event in doc.events)
            if not broken and some and not (doc.torn and sum(place is not None for place in spans.places) < 3):
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
        if not doc.torn and plan.dice("paths").random() < 0.3 and _is_plain(doc):
            road.both_paths(path)
        if plan.dice("cut").random() < 0.1:
            road.cut(path, trace, folder)
        return NOTED if trace.notes or run.warnings else READ


def _is_plain(doc: ChromeDoc) -> bool:
    """Whether both paths must agree: of arguments that stand twice the fast one reads all, as of odd tokens."""
    twice = any(isinstance(event, Pairs) and sum(key == "args" for key, _ in event) > 1 for event in doc.events)
    return not twice and _is_json(doc.spread().data.decode("utf-8", "replace"))


def _chosen(events: list[dict[str, Any]], first: int, count: int) -> list[dict[str, Any]]:
    """Some events of a recording, its marks of steps and a few names among them."""
    events = [event for event in events if event]
    plain = [event for event in events if event.get("ph") != "M"]
    marks = [event for event in plain if str(event.get("name", "")).startswith("ProfilerStep")][:3]
    names = [event for event in events if event.get("ph") == "M"][:12]
    taken = plain[first : first + count]
    wanted = {event.get("args", {}).get("correlation") for event in taken if isinstance(event.get("args"), dict)} - {
        None
    }
    partners = [
        event for event in plain if event not in taken and isinstance(event.get("args"), dict)
        and event["args"].get("correlation") in wanted
    ][: count // 3]  # fmt: skip
    return [*names, *(mark for mark in marks if mark not in taken), *taken, *partners]


def _texts(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row in which the same JSON is the same text."""
    plain = (repr(value) if isinstance(value, float) else value for value in row)
    return tuple(
        json.dumps(json.loads(v)) if isinstance(v, str) and v.startswith("[") and _is_json(v) else v for v in plain
    )


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
    if spans.touched and doc.touched:  # next to damage, what was odd already may take its neighbours along
        spoilt |= {at + by for at in doc.touched for by in (-1, 1)}
    starts, intact = {}, set()
    for place, span in enumerate(spans.places):
        if span is not None and place not in spoilt and doc.origin[place] is not None:
            starts[span[0]] = doc.origin[place]
            intact.add(doc.origin[place])
    host, device, memory, counters = _rows(trace, starts)  # type: ignore[arg-type]
    # what a thread is called may tell what runs on it, and a file that is cut may end before it says so
    named = all(number in intact for number, event in enumerate(base.events) if event.get("ph") == "M")
    if not doc.context and (named or not doc.torn) and trace.info.kind == base.kind:
        # what a call of JAX is follows from the steps around it
        for what, before, after, skip in (
            ("host", base.host, host, 2 if base.kind == "jax" else 1),
            ("device", base.device, device, 0),
        ):
            for number in sorted(before.keys() & intact):
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
