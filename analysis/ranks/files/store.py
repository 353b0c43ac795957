"""Summaries of ranks as files, in a folder that was asked for or in the user's cache.

A file has a header in JSON, then the frames of one rank or of many as Arrow IPC: opening a thousand small ones takes a
second, one of a thousand a tenth of it. What is torn, of another version, of something else, or of a recording that has
changed since, counts as none.

Nothing is written beside the recordings unasked: they lie in shared, archived or read-only folders, which a look at
them must not change. Every summary is written as soon as it is made, so that work that was interrupted goes on where it
stopped; at the end those that one command made or found become one file.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import struct
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl
from msgspec import Struct

from tracetui.analysis.base.number_format import spans
from tracetui.analysis.ranks import summary
from tracetui.analysis.ranks.summary import FRAMES, VERSION, Members, RankSummary
from tracetui.parsers.errors import TraceError
from tracetui.parsers.trace import Note
from tracetui.parsers.written import read_only, scratch, written

MAGIC = b"tracetui rank summary\n"
SUFFIX = ".tracetui-rank"
"""How names of such files end."""
_LENGTHS = struct.Struct("<II")
"""After the magic: how long the header is, and the checksum of it and all that follows."""
_SAMPLES, _SAMPLE_BYTES = 4, 4096
_STATES = ("ETag", "etag", "md5Hash", "checksum", "mtime", "LastModified", "last_modified", "created")
"""What S3, Google's, Azure's and other file systems of fsspec call what changes with an object's content."""
_SCHEMAS = {
    "steps": summary.STEPS,
    "collectives": summary.COLLECTIVES,
    "work": summary.WORK,
    "launches": summary.LAUNCHES,
}
MOST_MEMBERS = 1 << 24
"""A file that says more ranks in a group is no summary."""
IN_BLOCK = 64
"""So many ranks of a file are packed together."""
KEPT_BYTES = 1 << 20
"""Files that are no larger are held in memory, others open."""
_TUPLES = ("window", "clean_step_ns", "environment")


@dataclass(frozen=True, slots=True)
class Stored:
    """A summary, and what it was made from."""

    summary: RankSummary
    mark: str
    """Which state of the recording it was made from (`mark_of`)."""
    source: str
    """Where that recording stood."""


def mark_of(path: Path | str) -> str:
    """What changes when a recording gets other content: its size, when it was written, and some of its bytes.

    Four small samples: a gzip file ends with the checksum of all of it, and a recording is never edited in place
    without its time changing. Of one with a URL it is what its store says (`mark_in`).

    Raises:
        OSError: it can't be read.
    """
    if "://" in str(path):
        from fsspec.core import url_to_fs

        try:
            store, name = url_to_fs(str(path))
            return mark_in(store.info(name))
        except OSError:
            raise
        except Exception as error:  # each store has its own, which need not be known where this is said
            raise OSError(f"{type(error).__name__}: {error}") from None
    with open(path, "rb") as file:  # noqa: PTH123
        stat = os.fstat(file.fileno())
        check = 0
        for number in range(_SAMPLES):
            file.seek(max(0, stat.st_size - _SAMPLE_BYTES) * number // (_SAMPLES - 1))
            check = zlib.crc32(file.read(_SAMPLE_BYTES), check)
    return f"{stat.st_size}-{stat.st_mtime_ns}-{check:08x}"


def mark_in(told: dict[str, Any]) -> str:
    """The mark of an object by what an fsspec file system tells of it: its size, and its checksum or else its time."""
    said = next((told[name] for name in _STATES if told.get(name)), "")
    return f"{told['size']}-{said}"


def packed(entries: Sequence[Stored]) -> bytes:
    """The content of a file for some ranks: blocks of so many that few are unpacked for one of them."""
    return b"".join(_block(entries[at : at + IN_BLOCK]) for at in range(0, max(len(entries), 1), IN_BLOCK))


def _block(entries: Sequence[Stored]) -> bytes:
    frames = {name: [entry.summary.frames[name] for entry in entries] for name in FRAMES}
    joined = [
        _ipc(pl.concat(parts) if parts else pl.DataFrame(schema=_SCHEMAS[name])) for name, parts in frames.items()
    ]
    header = {
        "version": VERSION,
        "frames": [len(content) for content in joined],
        "ranks": [
            {
                "mark": entry.mark,
                "source": entry.source,
                "rows": [frames[name][number].height for name in FRAMES],
                "summary": _header(entry.summary),
            }
            for number, entry in enumerate(entries)
        ],
    }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    body = b"".join((text, *joined))
    return MAGIC + _LENGTHS.pack(len(text), zlib.crc32(body)) + body


def unpacked(content: bytes) -> list[Stored]:
    """What a file of this content holds; nothing where it is not of this version, or not whole."""
    return _told(io.BytesIO(content))[0]


TORN = "is torn, or no summary of ranks"


def _told(file: BinaryIO, *, keep: bool = True) -> tuple[list[Stored], str]:
    """What a file holds, and where that is nothing, why.

    Args:
        file: it, at its beginning.
        keep: whether its frames are held as they are packed; else they are read again when they are asked for.
    """
    found = list[Stored]()
    try:
        while (start := file.read(len(MAGIC) + _LENGTHS.size)) or not found:
            if not start.startswith(MAGIC):
                return [], TORN
            length, check = _LENGTHS.unpack_from(start, len(MAGIC))
            text = file.read(length)
            header = json.loads(text.decode("utf-8", "surrogatepass"))
            if header["version"] != VERSION:
                return [], "was written by another version of tracetui"
            frames, at, summed = dict[str, _Packed](), file.tell(), zlib.crc32(text)
            for name, size in zip(FRAMES, header["frames"], strict=True):
                content = file.read(size)
                summed = zlib.crc32(content, summed)
                frames[name] = _Packed(None if keep else file, at, content if keep else b"", size)
                if len(content) != size or pl.read_ipc_schema(io.BytesIO(content)) != _SCHEMAS[name]:
                    return [], TORN
                at += size
            if summed != check:
                return [], TORN
            found += _entries(header["ranks"], frames)
    except (ValueError, KeyError, TypeError, RecursionError, struct.error, pl.exceptions.PolarsError):
        return [], TORN
    return found, ""


def _entries(ranks: list[dict[str, Any]], frames: dict[str, _Packed]) -> Iterator[Stored]:
    """Each rank's entry, its frames being slices of those of its block."""
    first = [0] * len(FRAMES)
    for entry in ranks:
        slices = dict(zip(FRAMES, zip(first, entry["rows"], strict=True), strict=True))
        first = [before + rows for before, rows in zip(first, entry["rows"], strict=True)]
        yield Stored(_summary(entry["summary"], _Slices(frames, slices)), entry["mark"], entry["source"])


class _Packed(Struct, frozen=True, eq=False):
    """A frame of a block, in memory or in its file, which stays open for it: another may take its place meanwhile."""

    file: BinaryIO | None
    at: int
    content: bytes
    size: int

    @lru_cache(maxsize=len(FRAMES))  # noqa: B019  ranks are mostly looked at one after another, by few frames
    def frame(self) -> pl.DataFrame:
        content = os.pread(self.file.fileno(), self.size, self.at) if self.file is not None else self.content
        return pl.read_ipc(io.BytesIO(content))


class _Slices(dict[str, pl.DataFrame]):
    """A rank's rows of its block's frames, unpacked when they are asked for."""

    def __init__(self, frames: dict[str, _Packed], slices: dict[str, tuple[int, int]]) -> None:
        super().__init__()
        self._frames, self._slices = frames, slices

    def __missing__(self, name: str) -> pl.DataFrame:
        return self._frames[name].frame().slice(*self._slices[name])


def load_told(path: Path) -> tuple[list[Stored], str]:
    """What a file holds, and where that is nothing, why: ``is torn, or no summary of ranks``."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            return [], f"is larger than {MAX_BYTES >> 20} MiB"
        if size <= KEPT_BYTES:
            return _told(io.BytesIO(path.read_bytes()))
        return _told(path.open("rb"), keep=False)
    except OSError as error:
        return [], f"can't be read: {(error.strerror or str(error)).lower()}"


def _ipc(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.rechunk().write_ipc(buffer, compression="lz4")
    return buffer.getvalue()


def _header(found: RankSummary) -> dict[str, Any]:
    values = {field.name: getattr(found, field.name) for field in fields(found) if field.name != "frames"}
    notes = [[note.kind, note.reason, note.count, note.example] for note in found.notes]
    groups = [[*named, _spelled(ranks)] for *named, ranks in found.groups]
    return {**values, "notes": notes, "groups": groups}


def _spelled(ranks: Members) -> dict[str, int] | list[int]:
    """A group's ranks as JSON: ``{"start": 0, "stride": 8, "count": 64}`` where they are even."""
    if isinstance(ranks, range):
        return {"start": ranks.start, "stride": ranks.step, "count": len(ranks)}
    return list(ranks)


def _read(spelled: dict[str, int] | list[int]) -> Members:
    if isinstance(spelled, list):
        return tuple(spelled)
    start, stride, count = (spelled[name] for name in ("start", "stride", "count"))
    if not 0 < count <= MOST_MEMBERS:
        raise ValueError(count)
    return range(start, start + stride * count, stride)


def _summary(values: dict[str, Any], frames: dict[str, pl.DataFrame]) -> RankSummary:
    """The summary of a header, where tuples have become lists."""
    values["notes"] = tuple(Note(*note) for note in values["notes"])
    values["groups"] = tuple((name, about, _read(ranks)) for name, about, ranks in values["groups"])
    for name in _TUPLES:
        values[name] = _tuples(values[name])
    return RankSummary(frames, **values)


def _tuples(value: object) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


WHOLE = "job"
"""The name of the file that has all summaries of a job."""
_PART = re.compile(r"part-(\d{1,5})-of-(\d{1,5})")
MAX_BYTES = 512 << 20
"""How much summaries of all jobs may take in the user's cache."""


class Store:
    """The summaries of one job in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.only: Collection[str] | None = None
        """The names of the files that are read, where others have nothing of what is wanted; None reads all."""

    def files(self) -> list[Path]:
        """The files that are called like summaries, the newest last."""
        try:
            found = [path for path in self.folder.iterdir() if self._is_read(path.name) and path.is_file()]
            return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))
        except OSError:
            return []

    def _is_read(self, name: str) -> bool:
        return name.endswith(SUFFIX) and (self.only is None or name in self.only)

    def found(self, name: str) -> Path:
        """A file of the folder, whether or not it is there."""
        return self.folder / name

    def read_only_of(self, part: str, recordings: Iterable[str]) -> None:
        """From now on no file of other parts is read, which has none of these recordings."""
        singles = (self.single(name).name for name in recordings)
        self.only = {f"{part}{SUFFIX}", f"{WHOLE}{SUFFIX}", *singles}

    def entries(self) -> list[Stored]:
        """What they hold, each recording once, as it was summarised last."""
        return self.told()[0]

    def told(self) -> tuple[list[Stored], list[tuple[Path, str]]]:
        """The same, and the files from which nothing can be read, with the reason."""
        latest: dict[str, Stored] = {}
        unread = []
        for path in self.files():
            entries, why = load_told(path)
            latest |= {entry.summary.path: entry for entry in entries}
            if why:
                unread.append((path, why))
        return list(latest.values()), unread

    def missing_parts(self) -> str:
        """Which parts of `tracetui ranks --part` left no file here, as ``2 of 3``; empty where no part did."""
        named = [match for path in self.files() if (match := _PART.fullmatch(path.name.removesuffix(SUFFIX)))]
        here = {(int(match[1]), int(match[2])) for match in named}
        # several divisions may come together: one that is complete is enough
        lacking = {
            whole: [part for part in range(whole) if (part, whole) not in here]
            for whole in {whole for _, whole in here}
        }
        if not lacking or not all(lacking.values()):
            return ""
        whole = min(lacking, key=lambda one: len(lacking[one]) / one)
        return f"{spans(lacking[whole])} of {whole}"

    def add(self, name: str, content: bytes) -> None:
        """Writes the summary of one recording.

        Raises:
            TraceError: it can't be written.
        """
        self.write(self.single(name), content)

    def gather(self, entries: Sequence[Stored], name: str = WHOLE) -> Sequence[Stored]:
        """Puts summaries into one file, which takes the place of their own; returns them as it holds them.

        Raises:
            TraceError: it can't be written; their own files stay.
        """
        target = self.folder / f"{name}{SUFFIX}"
        if not self.write(target, packed(entries)):
            return entries
        for entry in entries:
            with suppress(OSError):
                self.remove(self.single(entry.summary.path))
        return load_told(target)[0] or entries

    def remove(self, file: Path) -> None:
        """Removes one of its files, if it is there."""
        file.unlink(missing_ok=True)

    def single(self, name: str) -> Path:
        """The file of one recording's summary, by its path in the job."""
        digest = hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()
        return self.folder / f"{Path(name).name[:80]}-{digest}{SUFFIX}"

    def write(self, target: Path, content: bytes) -> bool:
        """Writes a file; returns whether it is there now."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TraceError(self.folder, f"could not be made: {(error.strerror or str(error)).lower()}") from error
        with written(target, force=True) as part:
            part.write_bytes(content)
        return True


class CachedStore(Store):
    """The summaries of one job in the user's cache: what can't be written there is made again next time."""

    def __init__(self, job: Path | str) -> None:
        name = hashlib.blake2b(
            os.fsencode(job if "://" in str(job) else Path(job).resolve()), digest_size=10
        ).hexdigest()
        super().__init__(cache_folder() / name)

    def entries(self) -> list[Stored]:
        """What the files hold; the job counts as used."""
        with suppress(OSError):
            os.utime(self.folder)
        return super().entries()

    def write(self, target: Path, content: bytes) -> bool:
        """The same, but what can't be written is left out."""
        if read_only() or not _is_on():
            return False
        with suppress(TraceError, OSError):
            super().write(target, content)
            return True
        return False

    def gather(self, entries: Sequence[Stored], name: str = WHOLE) -> Sequence[Stored]:
        """Puts summaries into one file, and removes those of other jobs that were not used for longest."""
        found = super().gather(entries, name)
        _trim(keep=self.folder)
        return found


@contextmanager
def asking(url: str, failed: str) -> Iterator[None]:
    """What is asked of an object store within the block.

    Raises:
        TraceError: it failed, or nothing here reads such a URL. Each store has errors of its own.
    """
    try:
        yield
    except TraceError:
        raise
    except ImportError as error:
        why = f"needs what reads {url.partition(':')[0]}: ({error})"
        raise TraceError(url, why, "pip install 'tracetui[remote]', here and on the workers") from None
    except Exception as error:
        raise TraceError(url, f"{failed}: {type(error).__name__}: {error}".splitlines()[0]) from None


class RemoteStore(Store):
    """The summaries of one job at a URL that fsspec knows; its folder has copies of those that were looked at."""

    def __init__(self, url: str, folder: Path) -> None:
        super().__init__(folder)
        self._url = url.rstrip("/")
        with asking(self._url, "can't be used"):
            from fsspec.core import url_to_fs

            self._store, self._root = url_to_fs(self._url)

    def files(self) -> list[Path]:
        """The same, copied here."""
        with asking(self._url, "can't be listed"):
            names = [path.rpartition("/")[2] for path in self._store.find(self._root, maxdepth=1)]
        for name in filter(self._is_read, names):
            self.found(name)
        return super().files()

    def found(self, name: str) -> Path:
        """A file as it is there now, copied here with its time; one that is not there is not here."""
        target, there = self.folder / name, f"{self._root}/{name}"
        with asking(self._url, "can't be read"), suppress(FileNotFoundError):
            target.unlink(missing_ok=True)
            written_ns = int(self._store.modified(there).timestamp() * 1e9)
            self._store.get_file(there, str(target))
            os.utime(target, ns=(written_ns, written_ns))
        return target

    def write(self, target: Path, content: bytes) -> bool:
        """Writes a file here and there."""
        super().write(target, content)
        with asking(self._url, "can't be written"):
            self._store.pipe_file(f"{self._root}/{target.name}", content)
        return True

    def remove(self, file: Path) -> None:
        """Removes one of its files here and there."""
        if file.exists():
            super().remove(file)
            with asking(self._url, "can't be written"), suppress(FileNotFoundError):
                self._store.rm_file(f"{self._root}/{file.name}")


@contextmanager
def store_at(place: Path | str | None) -> Iterator[Store | None]:
    """The summaries in a folder, or at a URL; None for none.

    Raises:
        TraceError: nothing here reads such a URL.
    """
    if not isinstance(place, str):
        yield None if place is None else Store(place)
        return
    with scratch() as folder:
        yield RemoteStore(place, folder)


def is_store(folder: Path) -> bool:
    """Whether a folder holds files of summaries; whether they can be read is another matter."""
    return folder.is_dir() and bool(Store(folder).files())


def cache_folder() -> Path:
    """Where summaries lie that were not asked for elsewhere."""
    if chosen := os.environ.get("TRACETUI_CACHE_DIR"):
        return Path(chosen) / "ranks"
    from platformdirs import user_cache_path

    return user_cache_path("tracetui", appauthor=False) / "ranks"


def cached() -> tuple[int, int]:
    """How many jobs the cache has summaries of, and their bytes."""
    jobs = list(_jobs())
    return len(jobs), sum(size for _, _, size in jobs)


def clear() -> None:
    """Removes all summaries from the cache."""
    for _, job, _ in _jobs():
        _remove(job)


def _is_on() -> bool:
    """Whether the user's cache is used at all."""
    return os.environ.get("TRACETUI_CACHE_MB", "").strip() != "0"


def _jobs() -> Iterable[tuple[float, Path, int]]:
    """(last use, folder, bytes) of each job in the cache; nothing else that lies there."""
    try:
        folders = sorted(cache_folder().iterdir())
    except OSError:
        return
    for folder in folders:
        try:
            files = list(folder.iterdir())
            if files and all(path.name.endswith(SUFFIX) and path.is_file() for path in files):
                yield folder.stat().st_mtime, folder, sum(path.stat().st_size for path in files)
        except OSError:  # noqa: PERF203  a file among the folders, or another process took it away
            continue


def _trim(keep: Path) -> None:
    """Removes the jobs that were not used for longest, until the rest fits."""
    jobs = sorted(_jobs())
    held = sum(size for _, _, size in jobs)
    for _, job, size in jobs:
        if held <= MAX_BYTES:
            return
        if job != keep:
            _remove(job)
            held -= size


def _remove(job: Path) -> None:
    with suppress(OSError):
        shutil.rmtree(job)


def stores(folder: Path | str) -> tuple[CachedStore, list[Store]]:
    """Where summaries of a job are kept, and where else some may lie: beside the recordings, if they were put there.

    A job that has a URL has none beside its recordings.
    """
    return CachedStore(folder), [] if "://" in str(folder) else [Store(Path(folder))]
