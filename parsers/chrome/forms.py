"""Chrome JSON of tools other than Kineto and XLA: which one wrote a file, by its content, and what is GPU work in it.

Their events have no category, or one of their own (`classify`). rocprof and TensorFlow's timeline say by processes what
ran on a GPU; lists of CUPTI's records have correlation ids and names only.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from msgspec import Struct

from tracetui.parsers import categories, schema
from tracetui.parsers.arrays import Ints
from tracetui.parsers.chrome.columns import NULL, Columns, Events
from tracetui.parsers.chrome.layout import whole

ROCPROF, TENSORFLOW, ONNX, KINETO = "rocprof", "TensorFlow timeline", "ONNX Runtime profiler", "PyTorch Kineto"


class Form(Struct, frozen=True):
    """A tool, and what tells its files: any of a key of the header, and names of processes, threads or events."""

    tool: str
    key: str = ""
    processes: str = ""
    threads: str = ""
    names: str = ""
    lacks: str = ""
    """What to say of such a file, where no GPU work can be in it."""


_NO_GPU = "no GPU work of a program (ui.perfetto.dev shows it; give the trace that torch.profiler writes)"
FORMS = (
    Form(ROCPROF, processes=r"^(\d{1,9} )?CPU (HIP|HSA) API$"),
    Form(TENSORFLOW, processes=r"/device:\w+:\d+(/stream:\w+|/memcpy)? (Compute|Tensors)$"),
    Form("VizTracer", key="viztracer_metadata"),
    Form(ONNX, names=r"^(model_run|model_loading_\w+|session_initialization)$"),
    Form(
        "clang -ftime-trace",
        key="beginningOfTime",
        processes=r"^(clang(\+\+|-\d+)?|ld\.lld)$",
        lacks=f"times of a compiler: {_NO_GPU}",
    ),
    Form(
        "browser's profile",
        threads=r"^Cr(Browser|Renderer|Gpu|Utility)Main$",
        lacks=f"a browser's profile: {_NO_GPU}",
    ),
)
LACKS = {form.tool: form.lacks for form in FORMS if form.lacks}
_KINETO_KEYS = {"schemaVersion", "deviceProperties", "traceName"}
"""Keys of the header that Kineto writes, and other tools too: they alone decide nothing."""
_OF_PYTORCH = r"^(aten::|ProfilerStep#|nn\.Module: )"


def tool_of(events: Events, processes: Iterable[str], threads: Iterable[str], *, known: bool) -> str | None:
    """The tool that wrote a file; None where its content does not tell.

    Args:
        events: of the file.
        processes: names of its processes.
        threads: names of its threads.
        known: whether events have a category or a process as Kineto and its plug-ins write them.
    """
    header, names = events.header, [events.groups[group]["name"] for group in ("host", "device")]

    def found(pattern: str, texts: Iterable[str]) -> bool:
        return bool(pattern) and any(re.search(pattern, text) for text in texts)

    def named(pattern: str) -> bool:
        return bool(pattern) and any(categories.matching(codes, pattern).any() for codes in names)

    kineto = bool(_KINETO_KEYS & header.keys())
    if kineto and (known or not any(codes.size for codes in names)):
        return KINETO
    for form in FORMS:
        if form.lacks and known:
            continue
        if form.key in header or found(form.processes, processes) or found(form.threads, threads) or named(form.names):
            return form.tool
    return KINETO if kineto and named(_OF_PYTORCH) else None


_BEGIN, _END = "BeginNs", "EndNs"


def rocprof_times(args: dict[str, Any], start: int) -> tuple[int, int] | None:
    """Start and duration that rocprof says in ns among the arguments, where the event's own time is cut to µs."""
    begin, end = whole(args.get(_BEGIN)), whole(args.get(_END))
    if begin is None or end is None or end < begin or not 0 <= begin - start < 1000:
        return None
    return begin, end - begin


def rocprof_arguments(args: dict[str, Any]) -> dict[str, Any]:
    """The arguments of an activity in Kineto's words; rocprof's sizes count work-items in all directions at once."""
    items, group = whole(args.get("grd")), whole(args.get("wgr"))
    said = {
        "device": args.get("gpu-id", args.get("dev-id")),
        "stream": args.get("stream-id", args.get("queue-id")),
        "shared memory": args.get("lds"),
    }
    if items and group and items % group == 0:
        said |= {"grid": [items // group, 1, 1], "block": [group, 1, 1]}
    return {key: value for key, value in said.items() if value is not None} | args


_GPU = re.compile(r"(?:\d{1,9} )?GPU ?(\d{1,9})$")
_LINE = re.compile(r"(?:/job:\S*)?/device:GPU:(\d{1,9})/(?:stream:(\w+)|(memcpy)) Compute$")
_COPIES = re.compile(r"(?:\d{1,9} )?COPY$")
"""Early versions of rocprof number the processes: ``1 GPU0``."""
_COPY = re.compile(
    r"\W*(?:(?:hip|cuda|cu)?[Mm]em|MEM)(cpy|CPY|set|SET)(?![a-z_])|Copy(?:Host|Device)To(?:Host|Device)$"
)
KERNEL, MEMCPY, MEMSET, ANNOTATION = (
    schema.DEVICE_KINDS.index(kind) for kind in ("kernel", "memcpy", "memset", "annotation")
)


def device_kind(name: str) -> int:
    """The kind of an activity of a GPU that only its name tells."""
    found = _COPY.match(name)
    return KERNEL if found is None else MEMSET if str(found[1]).lower() == "set" else MEMCPY


def _level(line: re.Match[str]) -> int:
    """Which of TensorFlow's lines counts, the highest that a GPU has: single streams, else all in one, else copies."""
    return 0 if line[2] is None else 2 if line[2].isdecimal() else 1


def settle(device: Columns, rows: Ints, processes: Collection[tuple[int, str]]) -> Ints:
    """Gives what ran in the processes of GPUs its kind, device and stream, in place; returns the rows that are left.

    TensorFlow repeats the work of all streams in ``stream:all``, and copies in ``memcpy``: each counts once, on the
    stream of its own if there is one.
    """
    process, name = device["process"][rows], device["name"][rows]
    numbers = {pid: int(match[1]) for pid, text in processes if (match := _GPU.match(text))}
    lines = {pid: match for pid, text in processes if (match := _LINE.match(text))}
    best: dict[str, int] = {}
    for match in lines.values():
        best[match[1]] = max(best.get(match[1], 0), _level(match))
    copies = {pid for pid, text in processes if _COPIES.match(text) and numbers}
    kinds = categories.numbers(name, device_kind)
    left = np.ones(rows.size, np.bool_)
    for pid in {*numbers, *lines, *copies} & set(np.unique(process).tolist()):
        mine = process == pid
        left &= ~mine
        its = rows[mine]
        device["kind"][its] = kinds[mine]
        number = numbers.get(pid)
        if pid in copies:
            device["kind"][its] = MEMCPY
            number = next(iter(numbers.values())) if len(numbers) == 1 else None
        elif match := lines.get(pid):
            number, stream = int(match[1]), match[2]
            if stream and stream.isdecimal():
                device["stream"][its] = int(stream)
            if _level(match) < best[match[1]]:
                device["kind"][its] = ANNOTATION
        unknown = its[device["device"][its] == NULL]
        device["device"][unknown] = 0 if number is None else number
    return rows[left]
