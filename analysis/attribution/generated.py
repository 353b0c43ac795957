"""What Inductor wrote about the kernels it made: the source nodes that each computes, and the lines of the program.

Its files are read as text, and nothing in them is run. They are looked for in the folder of the recording: a graph's
generated file names each kernel's own file, which the recording names too; a list of stacks names kernels by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import polars as pl
from msgspec import Struct

from tracetui.analysis.attribution.calltree import row_ids
from tracetui.analysis.base.own_code import LIBRARY
from tracetui.analysis.base.remembered import kept
from tracetui.parsers import Trace
from tracetui.parsers.errors import TraceError
from tracetui.parsers.names.people import without_home
from tracetui.parsers.runs.detect import files_below
from tracetui.parsers.runs.side_files import read_text

DEPTH = 6
"""How many folders deep files are looked for: ``torchinductor_user/fx/<hash>.py``."""
MOST_FILES, MOST_BYTES = 2_000, 4 << 20
"""So many files are read at most, and none that is larger."""
MOST_LINES = 3
STACKS = "inductor_provenance_tracking_kernel_stack_traces.json"
_PATH = re.compile(r"^# kernel path: (?P<path>.+\.py)\s*$")
_NODES = re.compile(r"^# (?:\w+ )*Source Nodes: \[(?P<nodes>.*?)\]")
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')


class Written(Struct, frozen=True):
    """What lies beside a recording."""

    nodes: dict[str, str]
    """The names of a kernel's source nodes, by its file's name."""
    lines: dict[str, tuple[str, ...]]
    """The lines of the program that a kernel computes, by the kernel's name."""


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
    if trace.host["kernel_file"].null_count() == trace.host.height:
        return Written(nodes, lines)
    for path in _files(trace.source.path.parent):
        try:
            text = read_text(path, MOST_BYTES)
        except OSError:
            continue
        if path.name == STACKS:
            lines |= _lines(text)
        else:
            nodes |= dict(_nodes(text))
    return Written(nodes, lines)


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
            frames = list(_FRAME.finditer(stack)) if isinstance(stack, str) else []
            if frames:
                own = (frame for frame in reversed(frames) if not LIBRARY.search(frame["file"]))
                last = next(own, frames[-1])
                frame = f"{without_home(last['file'])}({last['line']}): {last['function']}"
                found.setdefault(key.rpartition(":")[0] or key, {})[frame] = None
    return {name: tuple(frames)[:MOST_LINES] for name, frames in found.items()}
