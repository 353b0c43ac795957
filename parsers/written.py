"""Writes a file whole or not at all, and never over one that somebody still needs."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tracetui.parsers.errors import TraceError

READ_ONLY_VARIABLE = "TRACETUI_READ_ONLY"
"""If this is set to anything but 0, nothing of the user's is written: `tracetui serve` sets it for its screens."""
_SCRATCH, _SETTLED_SECONDS = ".tracetui-writing-", 60
"""What folders of unfinished files are called, and from which age on they have their lock."""
_OPEN_FILES = ("/dev/", "/proc/")
"""What lies here is somebody's open file, also where a shell has redirected it to a file that has a name."""


@contextmanager
def written(
    target: Path, *, force: bool = False, sources: Iterable[Path] = (), advice: str = "give another name"
) -> Iterator[Path]:
    """Gives a path to write to; what was written there takes the target's place when the block ends without error.

    Until then, and after an error, whatever stood at the target is unchanged. A device or a pipe gets the bytes. A link
    stays a link, and what it leads to is treated as the target would be.

    Args:
        target: the file that is to be.
        force: whether a file that is there already may be replaced.
        sources: files that are never replaced, whatever `force` says: what the new file was made from.
        advice: what to do about a file that is there already.

    Raises:
        TraceError: the target is one of the sources, is there already, is a folder, or can't be written.
    """
    refuse(target, force=force, sources=sources, advice=advice)
    stream = _is_stream(target)
    place = _place(target)
    with ExitStack() as until_done, _worded(target):
        part = until_done.enter_context(scratch(None if stream else place.parent)) / place.name
        yield part
        if stream:
            with part.open("rb") as content, target.open("wb") as out:
                shutil.copyfileobj(content, out)
        elif force:
            with suppress(FileNotFoundError):
                shutil.copymode(place, part)
            part.replace(place)
        else:
            _put(part, place, target, advice)


@contextmanager
def scratch(parent: Path | None = None) -> Iterator[Path]:
    """Gives a folder that only this process uses, in another or among temporary files, and removes it in the end.

    Folders that a killed process left there are removed too: nobody holds their lock any more.

    Raises:
        OSError: there is no room for it.
    """
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    with suppress(OSError):
        for left in parent.glob(f"{_SCRATCH}????????"):
            if time.time() - left.lstat().st_mtime > _SETTLED_SECONDS and (lock := _locked(left)) is not None:
                shutil.rmtree(left, ignore_errors=True)
                os.close(lock)
    folder = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=parent))
    lock = _locked(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _locked(folder: Path) -> int | None:
    """Locks a folder of this user until the number is closed or the process ends; None where another process has it."""
    try:
        import fcntl

        found = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except (ImportError, OSError):
        return None
    try:
        if os.fstat(found).st_uid == os.getuid():
            fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return found
    except OSError:
        pass
    os.close(found)
    return None


def write_text(
    target: Path,
    text: str,
    *,
    force: bool = False,
    sources: Iterable[Path] = (),
    advice: str = "give another name",
) -> None:
    """Writes a text as UTF-8 with the line ends it has; arguments and errors as `written`."""
    with written(target, force=force, sources=sources, advice=advice) as part:
        part.write_text(text, encoding="utf-8", newline="")


def read_only() -> bool:
    """Whether this process only shows what it was started with."""
    return os.environ.get(READ_ONLY_VARIABLE, "") not in ("", "0")


def _is_stream(target: Path) -> bool:
    """Returns whether bytes written there go to something other than a file."""
    try:
        kind = os.stat(target).st_mode  # noqa: PTH116  a path of a closed pipe is no error here
    except OSError:
        return False
    if stat.S_ISDIR(kind):
        return False
    return not stat.S_ISREG(kind) or os.path.abspath(target).startswith(_OPEN_FILES)  # noqa: PTH100  links stay


def _place(target: Path) -> Path:
    """Where the file is to stand: behind a link, also one that leads nowhere yet."""
    return Path(os.path.realpath(target))


def refuse(
    target: Path, *, force: bool = False, sources: Iterable[Path] = (), advice: str = "give another name"
) -> None:
    """Raises the error that `written` would raise for what stands at the target; to be told before the work begins."""
    if read_only():
        raise TraceError(target, "is not written: this screen only shows", "tracetui serve --allow-write writes, too")
    place = _place(target)
    if _is_stream(target) or not os.path.lexists(place):
        return
    if place.is_dir():
        raise TraceError(target, "is a folder", "give a file")
    for source in sources:
        with suppress(OSError):
            if place.samefile(source):
                raise TraceError(target, "is a recording, which is never replaced", "give another name")
    if not force:
        raise TraceError(target, "is there already", advice)


def _put(part: Path, place: Path, target: Path, advice: str) -> None:
    """Moves a file to a place where none is; a file that has appeared there meanwhile stays."""
    try:
        os.link(part, place)
    except FileExistsError:
        raise TraceError(target, "is there already", advice) from None
    except OSError:  # a file system without hard links
        part.rename(place)


@contextmanager
def _worded(target: Path) -> Iterator[None]:
    """Turns the system's errors into the one line that names the target."""
    try:
        yield
    except OSError as error:
        raise TraceError(target, f"could not be written: {(error.strerror or str(error)).lower()}") from error
