"""The kinds of recordings, one record each: how such a file is recognised, what reads it, what it contains.

It has data only: it names functions, and whoever calls one imports it. What people read about a kind is in
`app/text/tool_words.py`, which has one record per kind too.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from msgspec import Struct

REPORT = "_report"
"""The suffix for the kind of files that only the tool which wrote them can read, as in ``nsys_report``."""


class Tool(Struct, frozen=True):
    """A kind of recording and the tool that writes it."""

    kind: str
    """Its name wherever one is written: `TraceInfo.kind`, ``--source``, the reports."""
    reader: str
    """``module:function`` that makes a `Trace` of a path and a `Watch`."""
    example: str = ""
    """A file of this kind, for the advice to somebody who gave another one."""
    has_time_line: bool = True
    """Whether events have a place in time: else they are durations or allocations only."""
    has_kernels: bool = True
    """Whether kernels tell which run a file belongs to; a file without them goes to the run that it lies beside."""
    many_processes: bool = False
    """Whether a file may hold several processes, each with correlations of its own."""
    compared_unasked: bool = False
    """Whether files open so fast that a folder of them is compared unasked."""
    same_files_as: str = ""
    """The kind whose files these are, where only reading one tells the two apart."""
    magic: bytes = b""
    """A regular expression for the first bytes, where they alone tell."""
    sniff: str = ""
    """``module:function`` that says of the first bytes whether they are of this kind, where there is no magic."""
    suffixes: tuple[str, ...] = ()
    """How names of files end that are looked into when a folder is searched."""
    found_by: bytes = b""
    """A regular expression that such a file's beginning must hold to be opened; without one, magic and sniff decide."""
    doubtful: bool = False
    """Whether a file of such a name in a folder is opened although its beginning can't be read."""
    reports: tuple[str, ...] = ()
    """How names of the tool's own reports end, beside which an export may lie."""
    exported: str = ""
    """The suffix of such an export, where it lies beside the report."""
    parts: tuple[str, ...] = ()
    """How names of files end that are one recording if what stands before is the same; the first of them is opened."""
    kernel_names: str = ""
    """``module:function`` that finds the keys of a file's kernels sooner than the reader does."""


TOOLS = (
    Tool(
        "chrome",
        "tracetui.parsers.chrome.reader:read_chrome",
        "a Chrome trace (torch.profiler, JAX)",
        sniff="tracetui.parsers.chrome.layout:looks_like_chrome",
        suffixes=(".json", ".json.gz", ".gz"),
        found_by=rb'(?m)"traceEvents"|^(?:\xef\xbb\xbf)?\s*\[\s*\{[^{}]{0,200}"ph"\s*:',
        doubtful=True,
    ),
    # of its files, XPlane can be told by its beginning, JSON by reading only
    Tool(
        "jax",
        "tracetui.parsers.chrome.xplane:read_xplane",
        same_files_as="chrome",
        # the first field is a plane, whose first fields are a number and a name
        magic=rb"\n[\x80-\xff]{0,9}[\x00-\x7f](?:\x08[\x80-\xff]{0,9}[\x00-\x7f])?\x12."
        rb"(?:/host:|/device:|Task Env|#Chip)",
        suffixes=(".xplane.pb", ".xplane.pb.gz", ".pb", ".pb.gz"),
    ),
    Tool(
        "nsys",
        "tracetui.parsers.nsys.reader:read_nsys",
        "an Nsight Systems .sqlite, a database of nvprof or rocprof",
        many_processes=True,
        compared_unasked=True,
        magic=rb"SQLite format 3\x00",
        suffixes=(".sqlite", ".sqlite.gz", ".sqlite3", ".db", ".db.gz", ".rpd", ".nvvp", ".nvprof", ".prof"),
        found_by=rb"StringIds|StringTable|rocpd_|\bKERN\b",
        reports=(".nsys-rep", ".qdrep"),
        exported=".sqlite",
        kernel_names="tracetui.parsers.nsys.database:kernel_keys",
    ),
    Tool("nvprof", "tracetui.parsers.nsys.reader:read_nsys", same_files_as="nsys"),
    # its databases are SQLite, as nsys's exports are
    Tool(
        "rocprof",
        "tracetui.parsers.nsys.rocprof:read_rocprof",
        many_processes=True,
        same_files_as="nsys",
        magic=rb'(?:\xef\xbb\xbf)?"?(?:Guid"?,"?)?(?:Kind"?,"?(?:Agent_Id|Direction)|Domain"?,"?Function'
        rb'|Correlation_Id"?,"?Dispatch_Id"?,"?Agent_Id|Index"?,"?KernelName"?,"?gpu-id)"?,'
        rb'|\s*\{\s*"rocprofiler-sdk-tool"',
        suffixes=(".csv", ".csv.gz", ".json", ".json.gz"),
        parts=(
            *(f"{part}_trace.csv" for part in ("kernel", "memory_copy", "hip_api", "hsa_api", "marker_api")),
            "counter_collection.csv",
        ),
    ),
    Tool(
        "trtexec",
        "tracetui.parsers.trtexec.reader:read_trtexec",
        "what trtexec exported",
        has_kernels=False,
        magic=rb'\s*\[\s*\{\s*"(?:count"\s*:\s*\d+\s*\}|startEnqMs"|startInMs"|startH2dMs")|\s*\{\s*"Layers"\s*:\s*\[',
        suffixes=(".json", ".json.gz"),
        parts=("profile.json", "times.json", "timing.json", "layers.json", "graph.json"),
    ),
    Tool(
        "ncu",
        "tracetui.parsers.ncu.reader:read_ncu",
        "an Nsight Compute report or .csv",
        has_time_line=False,
        compared_unasked=True,
        magic=rb"NVR\x00",
        sniff="tracetui.parsers.ncu.sniff:looks_like_ncu",
        suffixes=(".ncu-rep.gz", ".csv", ".csv.gz", ".txt", ".txt.gz", ".log", ".log.gz"),
        reports=(".ncu-rep",),
        exported=".csv",
    ),
    Tool(
        "tegrastats",
        "tracetui.parsers.tegrastats.reader:read_tegrastats",
        "a log of tegrastats or jtop",
        has_time_line=False,
        has_kernels=False,
        magic=rb"(?:\xef\xbb\xbf)?time,uptime,[^\n]*\b(?:RAM|GPU)\b"
        rb"|(?:[^\n]{0,80}\n)?[^\n]{0,40}\bRAM \d{1,9}/\d{1,9}MB ",
        suffixes=(".txt", ".txt.gz", ".log", ".log.gz", ".csv", ".csv.gz"),
    ),
    Tool(
        "memory_snapshot",
        "tracetui.parsers.memory.snapshot:read_memory_snapshot",
        "a CUDA memory snapshot",
        has_time_line=False,
        has_kernels=False,
        magic=rb"\x80[\x02-\x05]|\(dp0|\(lp0|[}\]]q\x00",
        suffixes=(".pickle", ".pickle.gz", ".pkl", ".pkl.gz"),
        found_by=rb"segments",
    ),
)
"""The tool that sees the most of the program first: of a run's recordings, its time line is shown.

A file is held against them the other way round: the format of a tool that sees less is the narrower one, and almost any
JSON might be Chrome's.
"""
OF_BOARD = (" in steps", "energy per step", "energy per inference")
"""How titles in `TraceInfo.captured` end that say what the machine did meanwhile, and are no settings."""
KINDS = tuple(tool.kind for tool in TOOLS)
BY_KIND = {tool.kind: tool for tool in TOOLS}
WITHOUT_TIME_LINE = frozenset(tool.kind for tool in TOOLS if not tool.has_time_line)
WITHOUT_KERNELS = frozenset(tool.kind for tool in TOOLS if not tool.has_kernels)
_EXAMPLES = [tool.example for tool in TOOLS if tool.example]
EXAMPLES = f"{', '.join(_EXAMPLES[:-1])}, or {_EXAMPLES[-1]}"
"""What can be opened, as the advice to somebody who gave something else."""


def tool_of(file_kind: str) -> str:
    """The kind of file that this one is, whether it is a tool's own report or an export, before it is read.

    Args:
        file_kind: a kind, or that of a report (``nsys_report``).
    """
    kind = file_kind.removesuffix(REPORT)
    return (BY_KIND[kind].same_files_as if kind in BY_KIND else "") or kind


def siblings(path: Path, tool: Tool) -> list[Path]:
    """The files that are one recording with this one, in the order of the tool's `parts`."""
    part = next((part for part in tool.parts if path.name.endswith(part)), None)
    if part is None:
        return [path]
    every = (path.with_name(path.name.removesuffix(part) + each) for each in tool.parts)
    return [file for file in every if file == path or file.is_file()]


def function(name: str) -> Any:
    """What a ``module:function`` of a record names; imported only now, since readers bring much with them."""
    module, _, member = name.partition(":")
    return getattr(importlib.import_module(module), member)
