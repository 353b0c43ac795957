"""`tracetui scrub`: copies recordings without the names of people, machines and places."""

from __future__ import annotations

import contextlib
import getpass
import gzip
import json
import re
import shutil
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tracetui.collectors.folder import manifest_text
from tracetui.collectors.machine.masking import without_blocks
from tracetui.collectors.scrubbing.json_text import JsonScrubber
from tracetui.collectors.scrubbing.keys import decoded, document
from tracetui.collectors.scrubbing.marks import DAMAGED, HOST, IN_NAME, MASK, RANDOM, TORN, USER
from tracetui.collectors.scrubbing.ncu import scrub_ncu
from tracetui.collectors.scrubbing.nsys import scrub_nsys
from tracetui.collectors.scrubbing.redactor import Redactor
from tracetui.collectors.scrubbing.snapshot import scrub_snapshot
from tracetui.models import registry
from tracetui.parsers.bytes_source import ByteSource
from tracetui.parsers.errors import TraceError
from tracetui.parsers.ncu.native import MAGIC
from tracetui.parsers.runs import detect
from tracetui.parsers.runs.comments import FILE as COMMENTS
from tracetui.parsers.runs.manifest import LOG
from tracetui.parsers.written import written

SUFFIXES = re.compile(
    r"((?:\.pt)?(?:\.trace)?\.(?:jsonl?|sqlite3?|db|csv|txt|log|pickle|pkl)(?:\.gz)?|\.gz)$", re.IGNORECASE
)
_BY_HANDLER = re.compile(r"(?!rank[-_]?\d)(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*)_\d+\.\d{13,19}")
"""``tensorboard_trace_handler`` names a file after the machine, the process and the time."""
_OF_JAX = "profile"
"""JAX names a file after the machine: ``plugins/profile/2024_05_01/HOST.trace.json``."""


def split(name: str) -> tuple[str, str]:
    """A file's name without its suffixes, and these: ``.pt.trace.json.gz``."""
    match = SUFFIXES.search(name)
    return (name[: match.start()], match[1]) if match else (name, "")


def learn(path: Path, redactor: Redactor) -> None:
    """Learns the machine after which a profiler has named a file."""
    stem, suffix = split(path.name)
    if match := _BY_HANDLER.fullmatch(stem):
        redactor.learn(match["host"], HOST)
    elif suffix.startswith(".trace.json") and path.absolute().parent.parent.name == _OF_JAX:
        redactor.learn(stem, HOST)


def clean(name: str, redactor: Redactor) -> str:
    """A file's or folder's name without what is private in it; its suffixes stay."""
    stem, suffix = split(name)
    stem = redactor.words(stem)
    if redactor.would_change(stem):
        stem = redactor.value(stem).replace("/", "_").strip() or "redacted"
    return stem + suffix


PIECE = 4 << 20
SHOWN = 24
REASONS = {
    IN_NAME: ("name that only --names changes", "names that only --names changes"),
    RANDOM: ("text with a word that may be a key", "texts with a word that may be a key"),
    DAMAGED: ("place where quotes are missing", "places where quotes are missing"),
}
_ADVICE = "look at it by hand; --names replaces names, and without --strict it is copied"
MARK = ".scrubbed"
_OWN_SCHEMA = re.compile(rb'"schema"\s*:\s*"tracetui\.')
OUTSIDE = "a link that leads out of the folder"
LOG_LEFT = "what the program printed; `tracetui scrub log.txt` makes a copy to look through"
COMMENTS_LEFT = "what people wrote; `tracetui scrub comments.tracetui.jsonl` makes a copy to look through"
NO_RECORDING = "not a trace that tracetui knows"
MAX_IN_MEMORY = 4 << 30
"""The largest file that is read whole, as snapshots and tables are; a trace is streamed."""
_PEOPLE = re.compile(rb'/(?:home|Users)/+([^/"\\\s:;,]{1,64})|"(?:host_?name|host)"\s*:\s*"([^"\\]{1,128})"')
_LIKELY = (b"/home/", b"/Users/", b'host"', b'host_name"', b'hostname"')
_OVERLAP = 256
_GAP = re.compile(r"\[\d+ bytes left out\]")
"""What stands in a log in the place of its middle, which may begin and end within a line."""


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """One copy."""

    source: Path
    target: Path
    counts: dict[str, int]
    """What was taken out, by kind."""
    unjudged: tuple[tuple[str, str], ...] = ()
    """What may be private and was left, each with the reason."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file of a folder that was not copied."""

    source: Path
    reason: str


_PLAIN_WORD = re.compile(r"[A-Za-z0-9_.,=+:-]+")
_PLACES = ("--output", "--python", "--data")


def redactor_of_this_machine(*, names: bool = False) -> Redactor:
    """A redactor that knows this machine's user: the one who scrubs is often the one who recorded."""
    users, hosts = [], []
    with contextlib.suppress(OSError, KeyError, ImportError):  # no entry in the list of users, as in containers
        users.append(getpass.getuser())
    with contextlib.suppress(OSError):
        hosts.append(socket.gethostname())
    return Redactor(tuple(users), tuple(hosts), names=names)


def scrub(
    sources: Sequence[Path],
    output: Path | None,
    *,
    force: bool = False,
    strict: bool = False,
    redactor: Redactor | None = None,
    done: Callable[[Scrubbed | LeftOut], None] = lambda _: None,
) -> list[Scrubbed | LeftOut]:
    """Copies files, and the recordings in folders.

    Args:
        sources: the files and folders to copy; folders keep their inner layout.
        output: the copy of a single file, or a folder; None puts each copy beside its original, `X.scrubbed.json`.
        force: replace existing files; an original is never replaced.
        strict: write no copy that holds what can't be judged.
        redactor: knows the names to remove; by default a new one for this machine.
        done: called after each file.

    Raises:
        TraceError: a file can't be read or copied, or a target is there already.
    """
    redactor = redactor or redactor_of_this_machine()
    found: list[Scrubbed | LeftOut] = []
    for source, target in _pairs(sources, output, redactor):
        if isinstance(target, str):
            found.append(LeftOut(source, target))
        else:
            found.append(scrub_file(source, target(redactor), redactor, force=force, strict=strict))
        done(found[-1])
    return found


def scrub_file(
    source: Path, target: Path, redactor: Redactor, *, force: bool = False, strict: bool = False
) -> Scrubbed:
    """Copies one file; the copy appears only when it is complete.

    Raises:
        TraceError: the file can't be read, can't be scrubbed, the target exists already, or `strict` and something in
            it can't be judged.
    """
    kind = kind_of_file(source)
    before = redactor.counts.copy()
    redactor.unjudged.clear()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TraceError(target.parent, f"can't be written to: {(error.strerror or str(error)).lower()}") from error
    advice = "--force replaces it, -o writes to another file"
    with written(target, force=force, sources=[source], advice=advice) as copy:
        if _is_gzip(source):
            plain = copy.with_name(f"{copy.name}.plain")
            _COPIERS[kind](source, plain, redactor)
            _compress(plain, copy)
        else:
            _COPIERS[kind](source, copy, redactor)
        unjudged = tuple(redactor.unjudged.items())
        if strict and unjudged:
            raise TraceError(source, f"not copied: {said_of(unjudged)}", _ADVICE)
    redactor.counts.subtract(before)
    counts = {kind: count for kind, count in redactor.counts.most_common() if count > 0}
    redactor.counts = before + redactor.counts
    return Scrubbed(source, target, counts, unjudged)


def said_of(unjudged: Sequence[tuple[str, str]]) -> str:
    """What was left though it may be private: how many of each reason, and one of them cut short."""
    by_reason = Counter(reason for _, reason in unjudged)
    example = {reason: text for text, reason in reversed(unjudged)}
    said = []
    for reason, count in by_reason.items():
        one, several = REASONS[reason]
        shown = example[reason] if len(example[reason]) <= SHOWN else f"{example[reason][:SHOWN]}..."
        said.append(f"{count:,} {one if count == 1 else several} ({shown})")
    return "; ".join(said)


def kind_of_file(path: Path) -> str:
    """Tells what a file is by its content: a kind of `parsers.tool_registry.KINDS`, or ``manifest``.

    Raises:
        TraceError: files of its kind can't be scrubbed.
    """
    if _is_own(path):
        return "manifest"
    kind = "log" if path.name == LOG else "comments" if path.name == COMMENTS else detect.inspect(path).kind
    if kind in _EXPORTS:
        advice = f"scrub what `{_EXPORTS[kind]}` makes of it"
        raise TraceError(path, "a report that only NVIDIA's tools can write", advice)
    if kind not in _COPIERS:
        raise TraceError(path, "no file whose names can be taken out", "look through it by hand before it is shared")
    return kind


def default_target(source: Path, redactor: Redactor) -> Path:
    """The path beside the original: `X.scrubbed.json` for `X.json`, without names that must be removed."""
    stem, suffix = split(source.name)
    if not suffix:
        stem, suffix = source.stem, source.suffix
    return source.with_name(f"{clean(stem.removesuffix(MARK), redactor)}{MARK}{suffix}")


def _pairs(
    sources: Sequence[Path], output: Path | None, redactor: Redactor
) -> Iterator[tuple[Path, Callable[[Redactor], Path] | str]]:
    """Each file with the path of its copy, or with the reason why it gets none."""
    several = len(sources) > 1
    for source in sources:
        if not source.exists():
            raise TraceError(source, "no such file or folder", "check the path")
        if source.is_dir():
            whole = source.resolve()
            name = clean(whole.name, redactor)
            if output is None:  # the name of `.` is not in its path
                base = (source if source.name else whole).with_name(f"{name}{MARK}")
            else:
                base = output / name if several else output
            files = list(detect.files_below(source))
            for file in files:
                learn(file, redactor)
            for file in files:
                yield file, _why_not(file, source) or partial(_within, base, file.relative_to(source).parts)
            continue
        if not source.is_file():
            raise TraceError(source, "neither a file nor a folder", "save what it gives to a file and give that")
        learn(source, redactor)
        if output is None:
            yield source, partial(default_target, source)
        elif several or output.is_dir():
            yield source, partial(_within, output, (source.name,))
        else:
            yield source, partial(_exactly, output)


def _within(folder: Path, parts: tuple[str, ...], redactor: Redactor) -> Path:
    return folder.joinpath(*(clean(part, redactor) for part in parts))


def _exactly(path: Path, redactor: Redactor) -> Path:
    return path


def _why_not(file: Path, folder: Path) -> str:
    """Why a file of a folder is not copied; empty if it is copied."""
    try:
        if not file.resolve().is_relative_to(folder.resolve()):  # by a link, or through a folder that is one
            return OUTSIDE
        kind = kind_of_file(file)
        if kind == "log":
            return LOG_LEFT
        if kind == "comments":
            return COMMENTS_LEFT
        if kind == "manifest" or detect.looks_like_trace(file):
            return ""
    except TraceError as error:
        return error.problem
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return NO_RECORDING


def _is_own(path: Path) -> bool:
    """Whether tracetui wrote it: run.json, the index of a sweep, a report."""
    if path.suffix.lower() != ".json" or not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(1 << 16)
    return b'"traceEvents"' not in head and _OWN_SCHEMA.search(head) is not None


def _is_gzip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _compress(plain: Path, packed: Path) -> None:
    with (
        plain.open("rb") as source,
        packed.open("wb") as raw,
        # without the file's name and time, which would reveal more than the content
        gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as target,
    ):
        shutil.copyfileobj(source, target, PIECE)


def _pieces(path: Path) -> Iterator[bytes]:
    buffer = np.empty(PIECE, np.uint8)
    with ByteSource(path) as source:
        while count := source.read_into(buffer, 0, PIECE):
            yield buffer[:count].tobytes()


def _whole(path: Path) -> bytes:
    content = bytearray()
    for piece in _pieces(path):
        content += piece
        if len(content) > MAX_IN_MEMORY:
            raise TraceError(path, "larger than 4 GiB, too large to be rewritten", "record a shorter run")
    return bytes(content)


def _copy_chrome(source: Path, target: Path, redactor: Redactor) -> None:
    held = b""
    for piece in _pieces(source):
        text = held + piece
        likely = any(part in text for part in _LIKELY)
        for match in _PEOPLE.finditer(text) if likely else ():
            redactor.learn((match[1] or match[2]).decode("utf-8", "replace"), USER if match[1] else HOST)
        held = piece[-_OVERLAP:]
    with target.open("wb") as file:
        for piece in JsonScrubber(redactor).scrub(_pieces(source)):
            file.write(piece)


def _copy_manifest(source: Path, target: Path, redactor: Redactor) -> None:
    try:
        value: Any = decoded(_whole(source))
    except ValueError:  # cut off when the run ended abruptly
        _copy_chrome(source, target, redactor)
        return
    host = value.get("identity") or {} if isinstance(value, dict) else {}
    if isinstance(host, dict) and isinstance(host.get("host"), str):
        redactor.learn(host["host"], HOST)
    redactor.learn_from_path(json.dumps(value))
    copy = document(value, redactor)
    if isinstance(copy, dict):
        _forget_sizes(copy)
        if command := _own_command(host, redactor):
            copy["identity"]["command"] = command
    target.write_text(manifest_text(copy) if isinstance(copy, dict) else json.dumps(copy), encoding="utf-8")


def _own_command(identity: Any, redactor: Redactor) -> list[str]:
    """The command that reruns a built-in model, without the options that name a place."""
    words = identity.get("command") if isinstance(identity, dict) else None
    if not isinstance(words, list) or words[:2] != ["tracetui", "profile"] or "--" in words:
        return []
    if not {entry.name for entry in registry.entries()} & set(map(str, words[2:])):
        return []
    kept: list[str] = []
    places = False
    for word in map(str, words):
        if word.startswith("--"):
            option = word.partition("=")[0]
            places = any(place.startswith(option) for place in _PLACES)  # options may be cut short
        if not places and _PLAIN_WORD.fullmatch(word) and redactor.words(word) == word:
            kept.append(word)
    return kept


def _forget_sizes(manifest: dict[str, Any]) -> None:
    """Removes sizes and checksums of a run's files, which are those of the originals and not of the copies."""
    outcome = manifest.get("outcome")
    files = outcome.get("files") if isinstance(outcome, dict) else None
    for file in files if isinstance(files, list) else ():
        if isinstance(file, dict):
            file.pop("bytes", None)
            file.pop("sha256", None)


def _copy_ncu(source: Path, target: Path, redactor: Redactor) -> None:
    content = _whole(source)
    if content.startswith(MAGIC):
        advice = "scrub what `ncu --csv --page raw --import` makes of it"
        raise TraceError(source, "a report of Nsight Compute, of which no copy is made", advice)
    with target.open("w", encoding="utf-8", newline="") as file:
        file.write(scrub_ncu(content, redactor))


def _copy_snapshot(source: Path, target: Path, redactor: Redactor) -> None:
    target.write_bytes(scrub_snapshot(source, _whole(source), redactor))


def _copy_log(source: Path, target: Path, redactor: Redactor) -> None:
    """Copies what a program printed, line by line; it is asked for by name only, for there is least certainty in it."""
    text = without_blocks(_whole(source).decode("utf-8", "surrogateescape"), redactor.mark)
    redactor.learn_from_environment(text)
    lines = text.split("\n")
    cut = {len(lines) - 1, *(at + by for at, line in enumerate(lines) if _GAP.fullmatch(line) for by in (-1, 1))}
    copy = [_rest(line, redactor) if at in cut else redactor.value(line) for at, line in enumerate(lines)]
    target.write_bytes("\n".join(copy).encode("utf-8", "surrogateescape"))


def _rest(line: str, redactor: Redactor) -> str:
    """A mark in the place of a line that is not whole: a part of a key has no known form."""
    redactor.count(TORN, bool(line))
    return MASK if line else ""


def _copy_comments(source: Path, target: Path, redactor: Redactor) -> None:
    """Copies comments, which have the certainty of a log, line by line."""
    lines = []
    text = _whole(source).decode("utf-8", "replace")
    for line in text.splitlines(keepends=True):
        try:
            lines.append(json.dumps(document(decoded(line), redactor), ensure_ascii=False))
        except ValueError:  # noqa: PERF203  a line that somebody wrote by hand, or the last one, cut off
            whole = line.rstrip("\r\n")
            lines.append(redactor.value(whole) if whole != line else _rest(line, redactor))
    target.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


_COPIERS: dict[str, Callable[[Path, Path, Redactor], None]] = {
    "chrome": _copy_chrome,
    "nsys": scrub_nsys,
    "ncu": _copy_ncu,
    "memory_snapshot": _copy_snapshot,
    "manifest": _copy_manifest,
    "log": _copy_log,
    "comments": _copy_comments,
}
_EXPORTS = {"nsys_report": "nsys export --type sqlite"}
