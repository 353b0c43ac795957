"""What Inductor wrote about the kernels it made: the source nodes that each computes, and the lines of the program.

Its files are read as text, and nothing in them is run. They are looked for in the folder of the recording: a graph's
generated file names each kernel's own file, which the recording names too; a list of stacks names kernels by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path, PurePosixPath

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.attribution.calltree import parents_of, row_ids
from tracetui.analysis.base.names import matching, of_kinds
from tracetui.analysis.base.own_code import LIBRARY
from tracetui.analysis.base.remembered import kept
from tracetui.parsers import Trace
from tracetui.parsers.errors import TraceError
from tracetui.parsers.names.people import without_home
from tracetui.parsers.nesting import nearest
from tracetui.parsers.runs.detect import files_below
from tracetui.parsers.runs.side_files import read_text

DEPTH = 6
"""How many folders deep files are looked for: ``torchinductor_user/fx/<hash>.py``."""
MOST_FILES, MOST_BYTES = 2_000, 4 << 20
"""So many files are read at most, and none that is larger."""
MOST_LINES = 3
STACKS = "inductor_provenance_tracking_kernel_stack_traces.json"
MARKS = re.compile(r"# kernel path: |# \[Provenance debug handles\] ")
_PATH = re.compile(r"^# kernel path: (?P<path>.+\.py)\s*$")
_NODES = re.compile(r"^# (?:\w+ )*Source Nodes: \[(?P<nodes>.*?)\]")
_CALL = re.compile(r"^\s*# \[Provenance debug handles\] (?P<kernel>\S+?):\d+\s*$")
_CALLS = re.compile(r"(?P<file>c\w{45,52}\.py)\(\d+\): (?:call|partition_\d+)$")
"""The functions of a graph's file that call its kernels."""
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')


class Written(Struct, frozen=True):
    """What lies beside a recording."""

    nodes: dict[str, str]
    """The names of a kernel's source nodes, by its file's name."""
    lines: dict[str, tuple[str, ...]]
    """The lines of the program that a kernel computes, by the kernel's name."""
    calls: dict[str, list[tuple[str, str]]]
    """By a graph's file its calls of kernels and of libraries, in order: the operator, and the program's lines."""


def kernel_files(trace: Trace, device: pl.DataFrame) -> pl.Series:
    """The file that Inductor wrote each kernel to; null for those that it did not make."""
    operator = pl.Series(row_ids(device["operator"]))
    place = pl.select(pl.when(operator >= 0).then(operator)).to_series()
    files: pl.Series = trace.host["kernel_file"].cast(pl.String).gather(place)
    return files


def source_of(trace: Trace, name: str, file: str) -> tuple[str, str]:
    """The source nodes and the program's lines of a kernel; empty where nothing beside the recording tells them."""
    found = written(trace)
    return found.nodes.get(PurePosixPath(file).name, ""), ", ".join(found.lines.get(name, ()))


@kept
def written(trace: Trace) -> Written:
    """What Inductor's files beside a recording say; read only where the recording names such a file."""
    nodes: dict[str, str] = {}
    lines: dict[str, tuple[str, ...]] = {}
    calls: dict[str, list[tuple[str, str]]] = {}
    if (
        trace.host["kernel_file"].null_count() == trace.host.height
        and not matching(trace.host["name"], lambda name: bool(_graph(name))).any()
    ):
        return Written(nodes, lines, calls)
    for path in _files(trace.source.path.parent):
        try:
            text = read_text(path, MOST_BYTES)
        except OSError:
            continue
        if path.name == STACKS:
            lines |= _lines(text)
        elif MARKS.search(text):  # most files of a project's folder are none of Inductor's
            nodes |= dict(_nodes(text))
            calls[path.name] = [*_made(text)]
    return Written(nodes, lines, calls)


def _graph(name: str) -> str:
    return match["file"] if (match := _CALLS.search(name)) else ""


@kept
def call_lines(trace: Trace) -> pl.DataFrame:
    """The program's lines of what compiled graphs call, whose comments name the calls in order: ``row`` and ``line``.

    The operators below one call of a graph must be those, one for one, or nothing is told of them.
    """
    host, parent, known = trace.host, parents_of(trace.host), written(trace).calls
    rows, lines = list[int](), list[str]()
    graph = matching(host["name"], lambda name: bool(known.get(_graph(name))))
    frames = np.flatnonzero(graph)
    graph[frames[nearest(parent, graph, parent[frames]) >= 0]] = False  # a part of a graph, within its call
    operator = np.append(of_kinds(host["kind"], "operator"), False)
    outermost = np.flatnonzero(operator[:-1] & ~operator[parent]) if frames.size else frames
    caller = nearest(parent, graph, outermost)
    outermost, caller = outermost[caller >= 0], caller[caller >= 0]
    order = np.argsort(caller, kind="stable")
    callers, first = np.unique(caller[order], return_index=True)
    for frame, ran in zip(callers.tolist(), np.split(outermost[order], first[1:]), strict=bool(callers.size)):
        names = host["name"].gather(ran).to_list()
        calls = [call for call in known[_graph(host["name"][frame])] if call[0] in names]
        asked = {name for name, _ in calls}
        told = [(row, name) for row, name in zip(ran.tolist(), names, strict=True) if name in asked]
        if [name for _, name in told] == [name for name, _ in calls]:
            rows += [row for row, _ in told]
            lines += [line for _, line in calls]
    found = pl.DataFrame({"row": rows, "line": lines}, {"row": pl.Int64, "line": pl.String})
    return found.filter(pl.col("line") != "")


def _files(folder: Path) -> Iterator[Path]:
    try:
        chosen = (path for path in files_below(folder, DEPTH) if path.suffix == ".py" or path.name == STACKS)
        for number, path in enumerate(chosen):
            if number >= MOST_FILES:
                return
            yield path
    except TraceError:  # a folder in it can't be read
        return


def _nodes(text: str) -> Iterator[tuple[str, str]]:
    """The names of kernels' files and their source nodes, of which the comments before each kernel tell."""
    file = ""
    for line in text.splitlines():
        if not line.startswith("#"):
            file = ""
        elif match := _PATH.match(line):
            file = PurePosixPath(match["path"]).name
        elif file and (match := _NODES.match(line)):
            yield file, match["nodes"]


def _made(text: str) -> Iterator[tuple[str, str]]:
    """The operator that each call in a graph's file runs, and the lines of the program behind it."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if match := _CALL.match(line):
            until = takewhile(lambda line: line.startswith("#  "), lines[number + 1 :])
            yield _operator(match["kernel"]), ", ".join([*dict.fromkeys(map(_innermost, until))][:MOST_LINES])


def _operator(kernel: str) -> str:
    """``aten::mm`` of ``extern_kernels.mm`` and of ``torch.ops.aten.mm.default``; a kernel of its own as it is."""
    match kernel.split("."):
        case ["extern_kernels", name]:
            return f"aten::{name.removeprefix('bias_')}"
        case ["torch", "ops", space, name, _]:
            return f"{space}::{name}"
    return kernel


def _innermost(stack: str) -> str:
    """The program's innermost frame of a stack, else the innermost one; nothing where there is none."""
    frames = list(_FRAME.finditer(stack))
    own = (frame for frame in reversed(frames) if not LIBRARY.search(frame["file"]))
    last = next(own, frames[-1] if frames else None)
    return f"{without_home(last['file'])}({last['line']}): {last['function']}" if last else ""


def _lines(text: str) -> dict[str, tuple[str, ...]]:
    """By kernel the program's innermost frames of the stacks that led to it, else the innermost ones.

    A kernel is listed once for each of its calls.
    """
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    found: dict[str, dict[str, None]] = {}
    for key, stacks in said.items() if isinstance(said, dict) else ():
        for stack in stacks if isinstance(stacks, list) else ():
            if frame := _innermost(stack) if isinstance(stack, str) else "":
                found.setdefault(key.rpartition(":")[0] or key, {})[frame] = None
    return {name: tuple(frames)[:MOST_LINES] for name, frames in found.items()}
