"""What kind of file this is, told by its content; the name only helps where the content can't."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracetui.parsers.bytes_source import read_all
from tracetui.parsers.chrome import layout
from tracetui.parsers.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PEEK_BYTES = 1 << 18
MAX_DEPTH = 4
"""How many folders deep traces are looked for; JAX puts them three deep (plugins/profile/<run>/)."""

_NOT_BUILT = "is not read yet"
_BY_SUFFIX = {
    ".nsys-rep": ("an Nsight Systems report", _NOT_BUILT),
    ".qdrep": ("an Nsight Systems report", _NOT_BUILT),
    ".qdstrm": ("an unfinished Nsight Systems report", "import it with QdstrmImporter first"),
    ".ncu-rep": ("an Nsight Compute report", _NOT_BUILT),
    ".ncu-repz": ("a compressed Nsight Compute report", _NOT_BUILT),
    ".pftrace": ("a Perfetto protobuf trace", _NOT_BUILT),
    ".perfetto-trace": ("a Perfetto protobuf trace", _NOT_BUILT),
    ".xplane.pb": ("an XPlane protobuf", "give the .trace.json.gz beside it"),
    ".pb": ("a protobuf file", "give the .trace.json.gz beside it, if there is one"),
}
"""Formats whose content has no magic of its own."""

_TRACE_LIKE = re.compile(rb'"traceEvents"|^\s*\[\s*\{[^{}]{0,200}"ph"\s*:', re.MULTILINE)
_RANK_IN_NAME = re.compile(r"rank[-_]?(\d+)")
_STAMP = re.compile(r"\.(\d{13,19})\.pt\.trace\.json")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that can be opened, and what its beginning says about the run it is of."""

    path: Path
    rank: int | None = None
    world_size: int | None = None

    @property
    def stamp(self) -> int:
        """When it was written, as `tensorboard_trace_handler` puts it into the name; 0 where it doesn't."""
        match = _STAMP.search(self.path.name)
        return int(match[1]) if match else 0

    @property
    def family(self) -> str:
        """The name without what differs between the ranks of one run."""
        return _STAMP.sub("", _RANK_IN_NAME.sub("rank", self.path.name))


def inspect(path: Path) -> Candidate:
    """What a file is, from its first bytes.

    Raises:
        TraceError: it is nothing that can be opened; says what it is and what to do.
    """
    head = read_all(path, PEEK_BYTES)
    kind = _foreign(path, head)
    if kind is not None:
        raise TraceError(path, *kind)
    start = layout.events_start(head)
    distributed = layout.header(head[:start] if start is not None else head).get("distributedInfo")
    known = distributed if isinstance(distributed, dict) else {}
    rank, world = known.get("rank"), known.get("world_size")
    if not isinstance(rank, int) and (match := _RANK_IN_NAME.search(path.name)):
        rank = int(match[1])
    return Candidate(path, rank if isinstance(rank, int) else None, world if isinstance(world, int) else None)


def looks_like_trace(path: Path) -> bool:
    """Whether a file found in a folder is worth opening, or complaining about."""
    name = path.name.lower()
    if any(name.endswith(suffix) for suffix in _BY_SUFFIX) or ".trace.json" in name:
        return True
    if not name.endswith((".json", ".json.gz", ".gz")):
        return False
    try:
        return bool(_TRACE_LIKE.search(read_all(path, PEEK_BYTES)))
    except TraceError:
        return True


def files_below(folder: Path, depth: int = MAX_DEPTH) -> Iterator[Path]:
    """The visible files of a folder and of those in it, by name; links that lead back up end with the depth."""
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise TraceError(folder, (error.strerror or str(error)).lower()) from error
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            if depth > 1:
                yield from files_below(entry, depth - 1)
        elif entry.is_file():
            yield entry


def _foreign(path: Path, head: bytes) -> tuple[str, str] | None:
    """(what it is, what to do) for anything but a Chrome trace; None for what may be one."""
    for suffix, (what, advice) in _BY_SUFFIX.items():
        if path.name.lower().endswith(suffix):
            return f"{what}", f"this format {advice}" if advice == _NOT_BUILT else advice
    if head.startswith(b"SQLite format 3\x00"):
        return "an SQLite database (an Nsight Systems export?)", f"this format {_NOT_BUILT}"
    if head.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer, not the file itself", "fetch it with: git lfs pull"
    if head.startswith((b"==PROF==", b"==WARNING==", b'"ID","Process ID"')) or b'\n"ID","Process ID"' in head:
        return "an Nsight Compute CSV", f"this format {_NOT_BUILT}"
    if head[:2] in (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"):
        return "a pickle (a CUDA memory snapshot?)", f"this format {_NOT_BUILT}"
    text = head.removeprefix(layout.BOM).lstrip()
    if text and not text.startswith((b"{", b"[")):
        return "not a trace (neither JSON nor gzipped JSON)", "give a Chrome trace as torch.profiler writes it"
    return None
