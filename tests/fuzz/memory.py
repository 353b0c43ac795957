"""Memory snapshots: pickles of the allocator's history and end state."""

from __future__ import annotations

import copy
import gzip
import pickle
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from fuzz import road, same, values
from fuzz.case import NOTED, READ, REFUSED, Find, Plan
from fuzz.spans import BYTEWISE, Spans

ROW = ("action", "time", "device", "address", "bytes", "stream", "segment", "requested", "stack")
CALLED = (b"codecs", b"builtin", b"copy_reg")
"""What calls of a pickle name that holds nothing but plain values."""
DONE: list[str] = []
"""What a pickle was able to have called; stays empty."""


def _call(word: str) -> None:
    DONE.append(word)


class _Calling:
    """Pickles as a call of a function."""

    def __reduce__(self) -> Any:
        return _call, ("called",)


@dataclass
class MemoryDoc:
    """A snapshot as Python has it."""

    base: MemoryBase
    value: Any
    lost: int = 0
    """Rows that may be read differently, or no longer."""
    refused: bool = False
    """Whether it must be refused."""
    may_refuse: bool = False
    protocol: int = 4
    packed: bool = False
    torn: bool = False
    data: bytes | None = None

    @property
    def history(self) -> list[Any]:
        """A device's history, as far as it is one."""
        traces = self.value.get("device_traces") if isinstance(self.value, dict) else None
        found = [entry for entry in traces if isinstance(entry, list) and entry] if isinstance(traces, list) else []
        return found[0] if found else []

    @property
    def segments(self) -> list[Any]:
        found = self.value.get("segments") if isinstance(self.value, dict) else None
        return found if isinstance(found, list) else []

    def content(self) -> bytes:
        if self.data is None:
            self.data = pickle.dumps(self.value, self.protocol)
        return self.data

    def write(self, folder: Path) -> Path:
        path = folder / "in.pickle"
        path.write_bytes(gzip.compress(self.content(), 1) if self.packed else self.content())
        return path


@dataclass
class MemoryBase:
    """A snapshot, and what the program reads in it."""

    content: bytes
    rows: Counter[tuple[object, ...]] = field(default_factory=Counter)
    total: int = 0


def _odd(dice: Random) -> Any:
    value = values.plain(values.anything(dice))
    return dice.choice(
        (value, value, b"bytes", (1, 2), {1, 2}, 2**200, -(2**70), float("nan"), 1e300, copy.deepcopy(value))
    )


def _entry(doc: MemoryDoc, dice: Random) -> dict[Any, Any] | None:
    entries = [entry for entry in doc.history if isinstance(entry, dict) and entry]
    doc.lost += 1
    return dice.choice(entries) if entries else None


def odd_entry(doc: MemoryDoc, dice: Random) -> None:
    for _ in range(dice.choice((1, 2, 8))):
        if entry := _entry(doc, dice):
            entry[dice.choice(list(entry))] = _odd(dice)


def missing_key(doc: MemoryDoc, dice: Random) -> None:
    for _ in range(dice.choice((1, 2, 8))):
        if entry := _entry(doc, dice):
            del entry[dice.choice(list(entry))]


def odd_frames(doc: MemoryDoc, dice: Random) -> None:
    """Stacks of other types, without end, or shared."""
    for _ in range(dice.choice((1, 4))):
        if entry := _entry(doc, dice):
            frames = entry.get("frames")
            if isinstance(frames, list) and frames and isinstance(frames[0], dict) and dice.random() < 0.6:
                frame = dict(frames[0])
                frame[dice.choice(("filename", "line", "name", "x"))] = _odd(dice)
                entry["frames"] = [frame, *frames[1:]] * dice.choice((1, 1, 300))
            else:
                entry["frames"] = _odd(dice)


def odd_action(doc: MemoryDoc, dice: Random) -> None:
    known = ("alloc", "free", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "oom",
             "snapshot", "", "new\x1b[0m", None, 3)  # fmt: skip
    for _ in range(dice.choice((1, 5, 50))):
        if entry := _entry(doc, dice):
            entry["action"] = dice.choice(known)


def no_entry(doc: MemoryDoc, dice: Random) -> None:
    """Something in the history that is no entry."""
    if doc.history:
        doc.history.insert(dice.randrange(len(doc.history) + 1), _odd(dice))


def removed_entries(doc: MemoryDoc, dice: Random) -> None:
    if history := doc.history:  # once it is empty, another device's takes its place
        at = dice.randrange(len(history))
        before = len(history)
        del history[at : at + dice.choice((1, 20, 1000))]
        doc.lost += before - len(history)


def shuffled(doc: MemoryDoc, dice: Random) -> None:
    dice.shuffle(doc.history)


def odd_segment(doc: MemoryDoc, dice: Random) -> None:
    for _ in range(dice.choice((1, 3))):
        records = [segment for segment in doc.segments if isinstance(segment, dict) and segment]
        if not records:
            return
        segment = dice.choice(records)
        blocks = segment.get("blocks")
        many = len(blocks) if isinstance(blocks, list) else 0
        if many and dice.random() < 0.5 and isinstance(blocks, list):
            block = dice.choice(blocks)
            if isinstance(block, dict) and block:
                block[dice.choice(list(block))] = _odd(dice)
        else:
            segment[dice.choice(list(segment))] = _odd(dice)
        doc.lost += many + 1


def odd_top(doc: MemoryDoc, dice: Random) -> None:
    """Another type where the histories, the segments or the settings should be."""
    if not isinstance(doc.value, dict):
        return
    key = dice.choice([*map(str, doc.value), "cut", "external_annotations", "allocator_settings"])
    doc.lost += doc.base.total + 10_000 if key in ("segments", "device_traces", "cut") else 0
    doc.may_refuse |= key in ("segments", "device_traces")
    if dice.random() < 0.3:
        doc.value.pop(key, None)
    else:
        doc.value[key] = _odd(dice)


def odd_annotations(doc: MemoryDoc, dice: Random) -> None:
    if isinstance(doc.value, dict):
        stages = ("START", "END", "", None)
        doc.value["external_annotations"] = [
            {"name": dice.choice((values.text(dice), "# 1", "ProfilerStep#1")), "stage": dice.choice(stages),
             "device": dice.choice((0, 1, -1, "x")),
             "time_us": dice.choice((0, 5, 1_795_150_494_000_100, -1, 2**62, 2**64, None, "7", 1.5))}
            for _ in range(dice.choice((1, 4, 40)))
        ]  # fmt: skip


def loop(doc: MemoryDoc, dice: Random) -> None:
    """A container that holds itself."""
    if entry := _entry(doc, dice):
        entry["frames"] = doc.history if dice.random() < 0.5 else entry
        doc.lost += 1


def odd_key(doc: MemoryDoc, dice: Random) -> None:
    """Keys that are no texts."""
    if entry := _entry(doc, dice):
        entry[dice.choice((1, None, (1, 2), b"addr", 1.5, "\ud83d"))] = 1


def calls(doc: MemoryDoc, dice: Random) -> None:
    """A pickle that calls a function of ours, which must not be called."""
    if isinstance(doc.value, dict):
        doc.value[dice.choice(("x", "segments", "device_traces"))] = _Calling()
        doc.refused = True


def many_devices(doc: MemoryDoc, dice: Random) -> None:
    if isinstance(doc.value, dict) and isinstance(doc.value.get("device_traces"), list):
        doc.value["device_traces"].extend([] for _ in range(dice.choice((1, 60, 3000))))


def other_protocol(doc: MemoryDoc, dice: Random) -> None:
    doc.protocol = dice.randrange(6)


def packed(doc: MemoryDoc, dice: Random) -> None:
    doc.packed = True


def _bytewise(change: Any) -> Any:
    def changed(doc: MemoryDoc, dice: Random) -> None:
        spans = Spans(bytearray(doc.content()), [])
        change(spans, dice)
        doc.data, doc.torn = bytes(spans.data), True

    return changed


def opcodes(doc: MemoryDoc, dice: Random) -> None:
    """Instructions of a pickle that ask for classes, calls, memory or depth."""
    content = bytearray(doc.content())
    at = dice.randrange(2, len(content))
    content[at:at] = dice.choice((
        b"cos\nsystem\n", b"\x8c\x02os\x8c\x06system\x93", b"R", b"\x81", b"b", b"r\xff\xff\xff\x7f",
        b"j\xff\xff\xff\x7f", b"\x8d" + b"\xff" * 7 + b"\x00", b"B\xff\xff\xff\x7f", b"]" * 5000, b"(" * 5000,
        b"\x85" * 3000,
        b"0" * 50, b"2", b"\x95" + b"\xff" * 8, b"I" + b"9" * 5000 + b"\n", b"Pid\n", b"Q", b"\x8a\xff" + b"\x7f" * 255,
        b"}q\x00.",
    ))  # fmt: skip
    doc.data, doc.torn = bytes(content), True


SHAPED = {
    "odd value": odd_entry, "key missing": missing_key, "odd stack": odd_frames, "other action": odd_action,
    "no entry": no_entry, "entries removed": removed_entries, "other order": shuffled, "odd segment": odd_segment,
    "other top": odd_top, "annotations": odd_annotations, "loop": loop, "odd key": odd_key, "call": calls,
    "many devices": many_devices, "other protocol": other_protocol, "packed": packed,
}  # fmt: skip
TORN = {**{name: _bytewise(change) for name, change in BYTEWISE.items()}, "opcodes": opcodes}


class Memory:
    """Pickles of PyTorch's allocator."""

    name = "memory snapshot"
    shaped = SHAPED
    bytewise = TORN

    def __init__(self) -> None:
        self.bases: list[MemoryBase] = []

    def prepare(self, folder: Path) -> None:
        import snapshot_file as made
        from sample_runs import recorded

        real = pickle.loads(gzip.decompress(recorded("memory/gpt_memory_snapshot.pickle.gz").read_bytes()))
        real["device_traces"] = [history[-150:] for history in real["device_traces"]]
        real["segments"] = real["segments"][:6]
        one, two = made.churn(made.Allocator(0), 200, 1), made.churn(made.Allocator(1), 60, 2)
        for value in (real, made.snapshot(one, two), made.snapshot(one, ring=80)):
            base = MemoryBase(pickle.dumps(value, 4))
            trace = _opened(self._doc(base).write(folder))
            base.rows, base.total = same.rows(trace.memory, ROW), trace.source.events_total
            self.bases.append(base)

    def _doc(self, base: MemoryBase) -> MemoryDoc:
        return MemoryDoc(base, pickle.loads(base.content))

    def base(self, dice: Random) -> MemoryDoc:
        return self._doc(dice.choice(self.bases))

    def examine(self, doc: MemoryDoc, plan: Plan, folder: Path) -> str:
        from tracetui.parsers import TraceError, open_path

        path = doc.write(folder)
        try:
            run = open_path(path, cache=False)
        except TraceError as error:
            road.one_line(str(error))
            # bytes and sets of old protocols are pickled as calls
            called = any(word in doc.content() for word in CALLED)
            if not (doc.refused or doc.may_refuse or doc.torn or called):
                raise Find(f"refused, though most of it is intact: {error}") from error
            return REFUSED
        finally:
            if DONE:
                DONE.clear()
                raise Find("a pickle's function was called")
        if doc.refused and not doc.torn and _call.__name__.encode() in doc.content():
            raise Find("a pickle that calls something was read")
        trace = run.main
        same.counts(trace)
        same.ids(trace)
        if not doc.torn:
            same.kept(doc.base.rows, same.rows(trace.memory, ROW), doc.lost, "memory")
            _count(doc, trace)
        road.follow(run, plan, folder)
        return NOTED if trace.notes or run.warnings else READ


def _opened(path: Path) -> Any:
    from tracetui.parsers import open_path

    return open_path(path, cache=False).main


def _count(doc: MemoryDoc, trace: Any) -> None:
    """Every entry of every history is counted."""
    traces = doc.value.get("device_traces") if isinstance(doc.value, dict) else None
    held = sum(len(history) for history in traces if isinstance(history, list)) if isinstance(traces, list) else 0
    if trace.source.events_total < held:
        raise Find(f"the histories hold {held} entries, {trace.source.events_total} are counted")
