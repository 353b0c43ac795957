"""Which recordings a job has: one listing of a folder, or of an object store by fsspec, for all parts of the job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tracetui.analysis.ranks.files.reading import USUALLY_COMPRESSED, job_folder, tasks_of
from tracetui.analysis.ranks.files.store import SUFFIX, Store, asking, mark_in
from tracetui.analysis.ranks.files.worker import Task
from tracetui.parsers.errors import TraceError
from tracetui.parsers.runs.detect import MAX_DEPTH, PEEK_BYTES
from tracetui.parsers.runs.manifest import FILE
from tracetui.parsers.runs.opening import find_ranks
from tracetui.parsers.written import scratch

NAME = "listing.tracetui"
"""The file of a listing among the summaries of parts."""
_JSON, _GZIP = (".json", ".json.gz"), ".gz"
"""Of which files in an object store the beginning is read: recordings in JSON."""
_GZIP_BYTES = PEEK_BYTES >> 3
"""So much of a packed one: recordings inflate to ten times their size."""

_AT_ONCE = 256
"""So many beginnings are in memory."""


class Listing(Struct, frozen=True):
    """The recordings of a job."""

    job: str
    """The folder, or the URL, that they are named from."""
    files: tuple[Task, ...]
    problems: tuple[str, ...] = ()
    """A line for each file that is left out."""


class Looked(Struct, frozen=True):
    """A folder, or what stands for one in an object store."""

    folder: Path
    """It, or a folder of the beginnings of its files."""
    url: str = ""
    told: dict[str, dict[str, Any]] = {}
    """What the store says of each file, by its path below the URL."""

    def listing(self, choose: Callable[[Sequence[str]], int] | None = None, *, cache: bool = True) -> Listing:
        """The job in it; arguments as for `find_ranks`.

        Raises:
            TraceError: there is no recording, or none of a job.
        """
        try:
            files, problems = find_ranks(self.folder, choose=choose, cache=cache and not self.url)
        except TraceError as error:
            raise TraceError(self._said(str(error.path)), error.problem, error.advice) from None
        if not files:
            several = "has several recordings, but no ranks of one job"
            raise TraceError(self.url or self.folder, several, "tracetui open shows them")
        job = job_folder(files)
        made = Listing(self._said(str(job)), tasks_of(files, job), tuple(map(self._said, problems)))
        if not self.url:
            return made
        below = job.relative_to(self.folder)
        return replace(made, files=tuple(self._there(task, (below / task.name).as_posix()) for task in made.files))

    def _there(self, task: Task, name: str) -> Task:
        about = self.told[name]
        plain = about["size"] * (USUALLY_COMPRESSED if name.endswith(_GZIP) else 1)
        return replace(task, path=f"{self.url}/{name}", mark=mark_in(about), plain_bytes=plain)

    def _said(self, text: str) -> str:
        return text.replace(str(self.folder), self.url) if self.url else text


@contextmanager
def looked_into(path: Path | str) -> Iterator[Looked]:
    """A folder; of a URL one with the beginnings of its files, while the block runs, which tell what they are.

    Raises:
        TraceError: nothing is there, or it can't be listed.
    """
    if isinstance(path, Path):
        yield Looked(path)
        return
    with scratch() as folder:
        told = dict[str, dict[str, Any]]()
        with asking(path, "can't be listed"):
            from fsspec.core import url_to_fs

            store, root = url_to_fs(path.rstrip("/"))
            for name, about in store.find(root, maxdepth=MAX_DEPTH, detail=True).items():
                below = name.removeprefix(root).lstrip("/")
                # the name of an object may be anything
                if below.endswith((SUFFIX, *_JSON)) and ".." not in below.split("/"):
                    told[below] = about
            for at in range(0, len(told), _AT_ONCE):
                names = list(told)[at : at + _AT_ONCE]
                ends = [_looked_at(name, told[name]["size"]) for name in names]
                contents = store.cat_ranges([f"{root}/{name}" for name in names], [0] * len(names), ends)
                for name, content in zip(names, contents, strict=True):
                    target = folder / name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(content)
        if not told:
            raise TraceError(path, "has no recordings in JSON and no summaries", "check the URL")
        yield Looked(folder.resolve(), path.rstrip("/"), told)


def _looked_at(name: str, size: int) -> int:
    """How many bytes of a file tell what it is."""
    if name.endswith((SUFFIX, FILE)):
        return size
    return min(size, _GZIP_BYTES if name.endswith(_GZIP) else PEEK_BYTES)


class _Kept(Struct, frozen=True):
    """What is written for other parts."""

    asked: tuple[str, str | None]
    listing: Listing


def shared(into: Store, asked: tuple[str, str | None], make: Callable[[], Listing | None]) -> Listing | None:
    """The listing that another part has left, if it is of the same job and no folder of it has changed; else a new one.

    Args:
        into: where the parts' summaries come together.
        asked: the job that it must be of: its path or URL, and the name of its run.
        make: makes a new one, which is left there.

    Raises:
        TraceError: it can't be written.
    """
    file = into.found(NAME)
    with suppress(OSError, msgspec.DecodeError):
        kept = msgspec.json.decode(file.read_bytes(), type=_Kept)
        if kept.asked == asked and not _changed(kept.listing, file.stat().st_mtime_ns):
            # of what is in a store each part asks for the state of its own
            files = tuple(replace(task, mark=None) for task in kept.listing.files)
            return replace(kept.listing, files=files)
    made = make()
    if made is not None:
        into.write(file, msgspec.json.encode(_Kept(asked, made)))
    return made


def _changed(listing: Listing, since_ns: int) -> bool:
    """Whether files came or went in a folder of a job since then; of a store only its parts can tell."""
    if "://" in listing.job:
        return False
    folders = {listing.job, *(str(Path(task.path).parent) for task in listing.files)}
    return any(Path(folder).stat().st_mtime_ns >= since_ns for folder in folders)
