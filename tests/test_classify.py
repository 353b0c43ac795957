"""What an event is, by category, process, arguments and name: held against a plain reading, event by event."""

import re
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from tracetui.parsers import categories, schema
from tracetui.parsers.chrome import classify, columns
from tracetui.parsers.chrome.columns import NAMED_WORK, NULL, OTHER_KIND, Events
from tracetui.parsers.trace import TraceInfo

ENTER = "<built-in method __enter__ of torch._C._profiler._RecordFunctionFast object at 0x7f>"
ENTER_IN_PUBLIC = ENTER.replace("._Record", ".Record")
NOT_ON_HOST = {"other": OTHER_KIND, "kernel": schema.DEVICE_KINDS.index("kernel")}
HOST_NAMES = (
    ENTER,
    ENTER_IN_PUBLIC,
    ENTER.replace("__enter__", "__exit__"),
    f"wrapped {ENTER}",
    "nn.Module: Linear_0",
    "an nn.Module: Linear_0",
    "enumerate(DataLoader)#__next__",
    "ProfilerStep#3",
    "aten::mm",
)
OTHER_NAMES = {
    "$main.py:3 step": ("python", "python", "kernel"),
    "$step": ("python", "python", "kernel"),
    "train.py(3): step": ("python", "python", "kernel"),
    "cudaLaunchKernel": ("runtime", "runtime", "kernel"),
    "hipMemcpyAsync": ("runtime", "runtime", "memcpy"),
    "a cudaLaunchKernel": (None, "annotation", "kernel"),
    "cudalow": (None, "annotation", "kernel"),
    "cuLaunchKernel": ("driver", "driver", "kernel"),
    "a cuLaunchKernel": (None, "annotation", "kernel"),
    "cumsum": (None, "annotation", "kernel"),
    "aten::add": ("operator", "operator", "kernel"),
    "an aten::add": (None, "annotation", "kernel"),
    "Memset (Device)": (None, "annotation", "memset"),
    "MEMCPY after Memset": (None, "annotation", "memcpy"),
    "enumerate(DataLoader)": (None, "dataloader", "kernel"),
    "": ("annotation", "annotation", "kernel"),
}
"""Of events without a category: the kind on the host with a correlation (None: what that launched, on the device) and
without, and on a device."""


class Event(Struct, frozen=True):
    """One event before it is classified; None stands for what its arguments lack."""

    kind: str
    name: str
    process: int
    thread: int
    start: int
    duration: int
    stream: int | None = None
    correlation: int | None = None
    device: int | None = None


def plain(events: list[Event]) -> list[tuple[str, str, int | None, int | None]]:
    """The group and kind of each event, and of device work its device and stream."""
    found = [_alone(event) for event in events]
    # events that moved to the host stand behind those that were there
    rows = [at for at, event in enumerate(events) if event.kind not in NOT_ON_HOST]
    rows += [at for at, event in enumerate(events) if event.kind == "other" and found[at][0] == "host"]
    opening = [at for at in rows if found[at][1] == "python" and events[at].name in (ENTER, ENTER_IN_PUBLIC)]
    outcome = list(found)
    for at in rows:
        if found[at][1] == "operator" and _is_left_open(events[at], [events[call] for call in opening]):
            outcome[at] = ("host", "annotation", None, None)
    return outcome


def _alone(event: Event) -> tuple[str, str, int | None, int | None]:
    """As `plain`, by the event alone."""
    kind, on_device = event.kind, event.kind == "kernel"
    if kind == "other":
        called, alone, of_stream = OTHER_NAMES[event.name]
        on_device = event.correlation is not None and (event.stream is not None or called is None)
        kind = of_stream if on_device else called if event.correlation is not None else alone
    if on_device:
        stream = event.thread if event.stream is None else event.stream
        return "device", kind, event.process if event.device is None else event.device, stream
    if kind == "python" and event.name.startswith("nn.Module: "):
        kind = "module"
    elif kind in ("annotation", "operator") and event.name.startswith("enumerate(Data"):
        kind = "dataloader"
    elif kind == "operator" and event.name.startswith("ProfilerStep#"):
        kind = "annotation"
    return "host", kind, None, None


def _is_left_open(operator: Event, calls: list[Event]) -> bool:
    """Whether the last call begun on the operator's thread, of several at once the last in the file, left it open."""
    last = None
    for call in calls:
        same = (call.process, call.thread) == (operator.process, operator.thread)
        if same and call.start <= operator.start and (last is None or call.start >= last.start):
            last = call
    return last is not None and operator.start < last.start + last.duration < operator.start + operator.duration


def settled(
    events: list[Event], metadata: tuple[dict[str, Any], ...] = ()
) -> list[tuple[str, str, int | None, int | None]]:
    """The same as `classify.settle` has it."""
    groups = {}
    for group, layout in (("host", columns.HOST), ("device", columns.DEVICE)):
        rows = [at for at, event in enumerate(events) if (event.kind in NOT_ON_HOST) == (group == "device")]
        made = columns.blank(layout, len(rows))
        made["name"] = categories.encode([events[at].name for at in rows]).copy()
        made["offset"] = np.array(rows, np.int64)
        for name in ("process", "thread", "start", "duration", "stream", "correlation", "device"):
            if name in made:
                values = [getattr(events[at], name) for at in rows]
                made[name] = np.array([NULL if value is None else value for value in values], np.int64)
        numbers = NOT_ON_HOST | {kind: number for number, kind in enumerate(schema.HOST_KINDS)}
        made["kind"] = np.array([numbers[events[at].kind] for at in rows], np.uint8)
        groups[group] = made
    result = Events(groups)
    result.metadata.extend(metadata)
    classify.settle(result, TraceInfo("chrome", "PyTorch Kineto"))
    found: list[tuple[str, str, int | None, int | None]] = [("", "", None, None)] * len(events)
    host, device = result.groups["host"], result.groups["device"]
    for at, kind in zip(host["offset"].tolist(), host["kind"].tolist(), strict=True):
        found[at] = ("host", schema.HOST_KINDS[kind], None, None)
    for at, kind, number, stream in zip(
        *(device[key].tolist() for key in ("offset", "kind", "device", "stream")), strict=True
    ):
        found[at] = ("device", schema.DEVICE_KINDS[kind], number, stream)
    assert {"process", "thread"}.isdisjoint(device)
    return found


_MAYBE = st.none() | st.integers(0, 2)
_PLACE = (st.integers(1, 2), st.integers(1, 2), st.integers(0, 9), st.integers(0, 9))
_ON_HOST = st.builds(
    Event, st.sampled_from(("operator", "annotation", "python", "runtime")), st.sampled_from(HOST_NAMES), *_PLACE
)
_KERNELS = st.builds(Event, st.just("kernel"), st.just("nn.Module: gemm"), *_PLACE, _MAYBE, _MAYBE, _MAYBE)
_OTHERS = st.builds(Event, st.just("other"), st.sampled_from(sorted(OTHER_NAMES)), *_PLACE, _MAYBE, _MAYBE, _MAYBE)
_CALLS = st.builds(Event, st.just("python"), st.sampled_from((ENTER, ENTER_IN_PUBLIC)), *_PLACE)
_OPERATORS = st.builds(Event, st.just("operator"), st.just("aten::mm"), *_PLACE)


@given(st.lists(_ON_HOST | _OTHERS | _KERNELS, max_size=12))
def test_every_event_is_what_its_category_arguments_and_name_say(events: list[Event]) -> None:
    assert settled(events) == plain(events)


@given(st.lists(_CALLS, min_size=1, max_size=6), st.lists(_OPERATORS, min_size=1, max_size=6))
def test_operators_that_the_last_call_left_open_are_ranges(calls: list[Event], operators: list[Event]) -> None:
    assert settled([*calls, *operators]) == plain([*calls, *operators])


def test_names_without_a_category() -> None:
    """Each name with a correlation, without, on a stream, and with a stream of no launch."""
    for name in OTHER_NAMES:
        events = [
            Event("other", name, 3, 4, 0, 1, *ids) for ids in ((None, 5), (None, None), (6, 5), (6, None), (6, 5, 7))
        ]
        assert settled(events) == plain(events), name


def test_an_operator_is_left_open_if_the_call_ends_within_it() -> None:
    for begin, end, wanted in (
        (10, 21, "annotation"),  # both begin at once
        (9, 21, "operator"),  # before the call
        (19, 21, "annotation"),
        (20, 21, "operator"),  # as the call ends
        (12, 20, "operator"),  # they end at once
        (12, 19, "operator"),
    ):
        call, operator = Event("python", ENTER, 1, 1, 10, 10), Event("operator", "aten::mm", 1, 1, begin, end - begin)
        assert settled([call, operator])[1][1] == wanted, (begin, end)
        elsewhere = Event("operator", "aten::mm", 1, 2, begin, end - begin)
        assert settled([call, elsewhere])[1][1] == "operator", (begin, end)


def test_categories_of_devices() -> None:
    for category, wanted in (
        ("kernel", "kernel"),
        ("gpu_memcpy", "memcpy"),
        ("gpu_memset", "memset"),
        ("cuda_sync", "synchronization"),
        ("gpu_user_annotation", "annotation"),
    ):
        assert classify.device_kind(category) == schema.DEVICE_KINDS.index(wanted), category
    assert classify.device_kind("mtia_ccp_events") == NAMED_WORK
    assert {classify.device_kind(category) for category in ("", "Kernel", "cpu_op")} == {OTHER_KIND}


def test_work_of_a_labelled_process_is_on_its_device() -> None:
    """And an AIU's threads, which are hashes, are streams from 0; what the file says of either stands."""
    labels = (
        {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "python"}},
        {"ph": "M", "name": "process_labels", "pid": 7, "args": {"labels": "AIU 3"}},
        {"ph": "M", "name": "process_labels", "pid": "none", "args": {"labels": "AIU 4"}},
        {"ph": "M", "name": "process_labels", "pid": 8, "args": ["AIU 5"]},
    )
    events = [
        Event("other", "DmaI ring DmaI", 7, 2**40 + 5, 0, 1),
        Event("other", "layer Cmpt Exec", 7, 9, 0, 1),
        Event("other", "input DmaI", 7, 2**40 + 5, 2, 1, device=1),
        Event("other", "output DmaO", 7, 11, 2, 1, stream=4),
        Event("other", "layer Cmpt Prep", 7, 9, 3, 1),
    ]
    assert settled(events, labels) == [
        ("device", "memcpy", 3, 1),
        ("device", "kernel", 3, 0),
        ("device", "memcpy", 1, 1),
        ("device", "memcpy", 3, 4),
        ("device", "synchronization", 3, 0),
    ]


def test_what_is_kept_of_names_changes_no_answer(monkeypatch):
    """Neither before a name was asked about, nor after, nor where there are too many to keep."""
    names = [f"kept name {number}" for number in range(12)]
    codes = categories.encode(names)
    by_code = dict(zip(codes.tolist(), names, strict=True))
    null = np.full(1, categories.NULL_CODE, np.uint32)
    monkeypatch.setattr(categories, "KEPT", 5)
    monkeypatch.setattr(categories, "_MOST_KEPT", 6)
    monkeypatch.setattr(categories, "_TEXTS", {})
    monkeypatch.setattr(categories, "_MATCHES", {})
    for asked in (codes[:2], codes[1:5], codes, codes[4:9], codes[8:], np.concatenate((codes[::-3], null)), null[:0]):
        told = [by_code.get(code) for code in asked.tolist()]
        assert categories.texts(asked) == {code: by_code[code] for code in sorted(asked.tolist()) if code in by_code}
        for pattern in ("[02468]$", "1"):
            expected = [name is not None and re.search(pattern, name) is not None for name in told]
            assert categories.matching(asked, pattern).tolist() == expected
    assert 0 < len(categories._TEXTS) < 12
