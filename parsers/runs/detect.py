"""Tells what kind of file this is by its content; the name helps only if the content can't."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from tracetui.parsers.bytes_source import ByteSource, read_all
from tracetui.parsers.chrome import layout
from tracetui.parsers.errors import TraceError
from tracetui.parsers.ncu.sniff import has_table, is_source_page, other_page
from tracetui.parsers.progress import Watch
from tracetui.parsers.runs import manifest as run_manifest
from tracetui.parsers.runs.entries import state_at
from tracetui.parsers.runs.run import Run
from tracetui.parsers.tool_registry import EXAMPLES, REPORT, TOOLS, Tool, function, siblings, tool_of

PEEK_BYTES = 1 << 18
WITHIN: ContextVar[tuple[Path, ...]] = ContextVar("WITHIN", default=())
"""Real paths of the folders that links may not lead out of; none by default, as the user's links are the user's."""
MAX_DEPTH = 4
"""How many folders deep traces are looked for; JAX puts them three deep (plugins/profile/<run>/)."""

_UNREADABLE = {
    ".qdstrm": ("an unfinished Nsight Systems report", "import it with QdstrmImporter first"),
    ".ncu-repz": ("a compressed Nsight Compute report", "write it anew without --compress, or import it with ncu"),
    ".pftrace": ("a Perfetto protobuf trace", "give the profiler's own trace: JSON, or an Nsight export"),
    ".perfetto-trace": ("a Perfetto protobuf trace", "give the profiler's own trace: JSON, or an Nsight export"),
}
"""Formats whose content has no magic number: what they are, and what to do."""
# files of people who profile that hold nothing to open: what each is, by its beginning, and which file to give
_SQLITE = "export the report as SQLite: nsys export --type=sqlite REPORT.nsys-rep"
_TORCH = "record with torch.profiler, or: tracetui profile -- python train.py"
_SUMS = rb'(?:[^\n]*\n){0,8}[^\n]*(?:Time ?\(%\)"?,"?Total Time|,"?\w*Med \(ns\)|Duration \(ns\)"?,"?CorrId)'
_REFUSED = (
    (
        rb"<\?xml[^>]*>\s*<session\b",
        "a saved session of NVIDIA's Visual Profiler, which holds no events",
        "give the file that `nvprof -o` wrote",
    ),
    (rb"[{\xfb][)\xa9]\x03", "a profile of Python's cProfile, which has no GPU work", _TORCH),
    (
        rb"(?is)\s*<(?:!doctype html|html|script).{0,30000}(?:MemoryViz\.js|add_local_files)",
        "the page of a memory snapshot",
        "give the .pickle that it was made of",
    ),
    (
        rb'(?s)\s*\{.{0,4000}"schema"\s*:\s*"[^"]{0,40}chakra',
        "an execution trace of PyTorch, which has no times of the GPU",
        "give the trace of torch.profiler beside it",
    ),
    (
        rb'(?s)(?!.{0,4000}"ph"\s*:)\s*\[\s*\{.{0,4000}"frame"\s*:\s*\{.{0,4000}"metrics"\s*:',
        "a tree of Triton's Proton: sums without events",
        'record with proton.start(data="trace")',
    ),
    (
        _SUMS,
        "a table of `nsys stats`: sums without events",
        f"give the .sqlite that it was made of, or {_SQLITE}",
    ),
    (
        rb'(?s)==\d+== NVPROF is profiling|(?:==\d+==[^\n]*\n)+"?(?:Type"?,"?Time|Start"?,"?Duration)',
        "what nvprof printed",
        "give the file that `nvprof -o FILE.nvvp` writes",
    ),
    (
        rb"(?:timestamp|index|name|utilization\.gpu)[^\n]*(?:\[%\]|\[MiB\]|\[W\]|\[MHz\])|# gpu +pwr"
        rb"|[^\n]{0,80}\n\+-+\+\n\| NVIDIA-SMI",
        "a log of nvidia-smi, which has no kernels",
        "`tracetui profile` samples power and clocks beside a recording",
    ),
    (
        rb'"?Name"?,"?Calls"?,"?TotalDuration(?:Ns)?"?',
        "a table of rocprof: sums without events",
        "give the results.json, .db or kernel_trace.csv beside it",
    ),
    (
        rb"[\0\xff\xfe\s]*[{\[]\0",
        "JSON in UTF-16 or UTF-32, and JSON is UTF-8",
        "write it anew: iconv -f UTF-16 -t UTF-8 FILE",
    ),
    (
        rb'(?:[^\n]*\n){0,50}"?ID"?[;\t][^\n]*"?Kernel Name"?[;\t]',
        "a table of Nsight Compute with other separators than commas",
        "give it as ncu printed it",
    ),
    (rb"\x1f\x8b", "gzip within gzip", "unpack it once: gunzip FILE"),
    (rb"PK\x03\x04|.{257}ustar|BZh[1-9]|\xfd7zXZ\0|\x28\xb5\x2f\xfd|7z\xbc\xaf", "a packed file", "unpack it first"),
    (rb"PAR1", "a Parquet file, as `nsys export` may write", _SQLITE),
    (rb"ARROW1", "an Arrow file, as `nsys export` may write", _SQLITE),
    (rb"\x89HDF\r\n", "an HDF5 file, as `nsys export` may write", _SQLITE),
    (rb'\{"Type":\s*\d+,\s*"\w+Event"', "JSON lines of Nsight Systems", _SQLITE),
)
OF_A_FOLDER = re.compile(r"stringids\.(?:parquet|arrow)")
"""One of the files of a folder that `nsys export` wrote, to say what all of them are."""
_REPORTS = {suffix: tool for tool in TOOLS for suffix in tool.reports}
"""NVIDIA's own reports; those of Nsight Systems are exported by its tool."""
_LFS = b"version https://git-lfs"
_RANK_IN_NAME = re.compile(r"rank[-_]?(\d+)", re.IGNORECASE)
_STAMP = re.compile(r"\.(\d{13,19})\.pt\.trace\.json")


class Candidate(Struct, frozen=True):
    """A file that can be opened, and what its beginning says about the run it is of."""

    path: Path
    kind: str = "chrome"
    """What reads it, as `tools.TOOLS` calls it, or ``nsys_report`` or ``ncu_report``."""
    rank: int | None = None
    world_size: int | None = None
    run_id: str | None = None
    """The run of `tracetui profile` that it says it is of."""
    recorded_pass: str | None = None
    """Which recording of that run it is, of those by torch.profiler: `run.LIGHT` or `run.RICH`."""
    of_folder: Path | None = None
    """The folder of the job, where the folder it lies in says which recording it is (`finding.set_aside`)."""
    state: tuple[int, ...] = ()
    """What `entries.state_at` said of it when it was looked at."""
    captures: tuple[Candidate, ...] = ()
    """Of a recording of replays: those of the captures of its graphs (`finding.with_captures`)."""

    @property
    def beside(self) -> Path:
        """The folder in which the other ranks are: its own, or the one that holds a folder for each rank."""
        own = _RANK_IN_NAME.search(self.path.name) is None and _RANK_IN_NAME.fullmatch(self.path.parent.name)
        return self.path.parent.parent if own else self.path.parent

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
    for suffix, (what, advice) in _UNREADABLE.items():
        if path.name.lower().endswith(suffix):
            raise TraceError(path, what, advice)
    state, head = state_at(path), read_all(path, PEEK_BYTES)
    if path.name.lower().endswith((".pb", ".pb.gz")) and _by_magic(head) is None:
        advice = "give the .trace.json.gz beside it, if there is one"
        raise TraceError(path, "a protobuf file, but not XPlane, or damaged", advice)
    if head.startswith(_LFS):
        raise TraceError(path, "a Git LFS pointer, not the file itself", "fetch it with: git lfs pull")
    for suffix, tool in _REPORTS.items():
        if path.name.lower().endswith(suffix) and _by_magic(head) not in (tool.kind, "nsys"):
            if tool.kind == "ncu":
                raise TraceError(path, "an Nsight Compute report without its head", "copy it anew")
            return Candidate(path, tool.kind + REPORT, state=state)
    if _by_magic(head) is None and (said := refused(head)) is not None:
        raise TraceError(path, *said)
    kind = _kind(head)
    if kind is None:
        what, advice = other_page(head) or ("not a trace that tracetui knows", f"give {EXAMPLES}")
        raise TraceError(path, what, advice)
    if kind != "chrome":
        return Candidate(path, kind, _rank_in_name(path), state=state)
    return replace(_ranked(path, head), state=state)


def refused(head: bytes) -> tuple[str, str] | None:
    """What a file is that begins so, and what to give; None if it is none of these."""
    has_sums = b"(%)" in head or b"(ns)" in head  # else they would be sought at each letter of a line of megabytes
    known = (entry for entry in _REFUSED if has_sums or entry[0] is not _SUMS)
    return next(((what, advice) for pattern, what, advice in known if re.match(pattern, head)), None)


def looks_like_trace(path: Path) -> bool:
    """Whether a file found in a folder is worth opening, or complaining about."""
    name = path.name.lower()
    if any(name.endswith(suffix) for suffix in _REPORTS):
        exported = path.with_suffix(_REPORTS[path.suffix.lower()].exported)
        return not exported.exists() and not exported.with_name(exported.name + ".gz").exists()
    if any(name.endswith(suffix) for suffix in _UNREADABLE):
        return True
    if name.endswith((".xplane.pb", ".xplane.pb.gz")) and any(path.parent.glob("*.trace.json*")):
        return False  # the same events, of which JSON has a million at most
    if name.startswith("perfetto_trace.json") and any(path.parent.glob("*.trace.json*")):
        return False  # JAX writes the same events twice
    if ".trace.json" in name or OF_A_FOLDER.fullmatch(name):
        return True
    tools = _named_like(name)
    # the log of `tracetui profile` has ncu's own lines too
    if not tools or (path.name == run_manifest.LOG and path.with_name(run_manifest.FILE).is_file()):
        return False
    try:
        head = read_all(path, PEEK_BYTES)
    except TraceError:
        return any(tool.doubtful for tool in tools)
    kind = _by_magic(head)
    if any(_first_part(path, tool) != path for tool in tools if tool.parts and tool.kind == kind):
        return False  # another file of the same recording is opened
    # it has no launches that could stand beside others': it is read where it is asked for by its own name
    if is_source_page(head):
        return False
    return any(re.search(t.found_by, head) if t.found_by else _kind(head) == t.kind for t in tools)


def is_of_a_run(path: Path) -> bool:
    """Whether a file is part of what was recorded: a recording, or what `tracetui profile` says of one."""
    return path.name == run_manifest.FILE or looks_like_trace(path)


def _named_like(name: str) -> list[Tool]:
    """The tools whose files have names that end like this one, by the longest such ending: a ``.csv.gz`` is no JSON."""
    fits = [(len(suffix), tool) for tool in TOOLS for suffix in tool.suffixes if name.endswith(suffix)]
    longest = max((length for length, _ in fits), default=0)
    return [tool for length, tool in fits if length == longest]


def _first_part(path: Path, tool: Tool) -> Path:
    """The file by which the recording is opened that a tool wrote into several."""
    for file in siblings(path, tool):
        with suppress(TraceError):
            if _by_magic(read_all(file, PEEK_BYTES)) == tool.kind:
                return file
    return path


def files_below(folder: Path, depth: int = MAX_DEPTH, above: tuple[str, ...] = ()) -> Iterator[Path]:
    """The visible files of a folder and of those in it, by name, but none behind a link that leads back `above`."""
    above, within = (*above, os.path.realpath(folder)), WITHIN.get()
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise TraceError(folder, (error.strerror or str(error)).lower()) from error
    for entry in entries:
        if entry.name.startswith(".") or (within and not _is_within(entry, within)):
            continue
        # Path.is_dir raises for a link to a name that is too long, or behind a folder that can't be entered
        if os.path.isdir(entry):  # noqa: PTH112
            if depth > 1 and os.path.realpath(entry) not in above:
                yield from files_below(entry, depth - 1, above)
        elif os.path.isfile(entry):  # noqa: PTH113
            yield entry


def _is_within(path: Path, folders: tuple[Path, ...]) -> bool:
    return any(map(Path(os.path.realpath(path)).is_relative_to, folders))


def _kind(head: bytes) -> str | None:
    """The kind of a file that starts with these bytes; None if it is unknown."""
    if (kind := _by_magic(head)) is not None:
        return kind
    if layout.is_chrome(head) and not has_table(head):
        return "chrome"  # a line of ncu's log may stand in a trace's text
    # the narrowest format first: a program's output that holds ncu's table may begin with a bracket, as JSON does
    return next((tool.kind for tool in reversed(TOOLS) if tool.sniff and function(tool.sniff)(head)), None)


def _by_magic(head: bytes) -> str | None:
    return next((tool.kind for tool in TOOLS if tool.magic and re.match(tool.magic, head)), None)


def _ranked(path: Path, head: bytes) -> Candidate:
    """A Chrome trace, and which rank of how many and whose recording its header says it is."""
    start = layout.EventsSearch().start(head)
    header = layout.header(head[:start] if start is not None else head)
    distributed, own = header.get("distributedInfo"), layout.own(header)
    run_id, recorded_pass = own.get("run"), own.get("pass")
    known = distributed if isinstance(distributed, dict) else {}
    rank, world = known.get("rank"), known.get("world_size")
    return Candidate(
        path,
        "chrome",
        rank if isinstance(rank, int) else _rank_in_name(path),
        world if isinstance(world, int) else None,
        run_id if isinstance(run_id, str) else None,
        recorded_pass if isinstance(recorded_pass, str) else None,
    )


def _rank_in_name(path: Path) -> int | None:
    match = _RANK_IN_NAME.search(path.name) or _RANK_IN_NAME.fullmatch(path.parent.name)
    return int(match[1]) if match else None


def mentions(path: Path, word: bytes) -> bool:
    """Whether a word is anywhere in a file's content."""
    rest = b""
    with suppress(TraceError), ByteSource(path) as source:
        for block in source.blocks(PEEK_BYTES, Watch()):
            text = rest + bytes(block)
            if word in text:
                return True
            rest = text[-len(word) :]
    return False


def comparable_files(run: Run) -> list[Path]:
    """The files of the main trace's kind in every run of the folder that a run was opened from.

    A tool's own report counts as its export does, and a file that only reading tells from another kind as that one.
    """
    kind = run.main.info.kind
    files = [trace.source.path for trace in run.of_kind(kind)]
    return [*files, *(path for _, paths in run.others for path in paths if _tool_of(path) == tool_of(kind))]


def _tool_of(path: Path) -> str | None:
    try:
        return tool_of(inspect(path).kind)
    except TraceError:
        return None
