"""Keeps the text of a printed report, so that the same question about the same files is answered without computing.

The key holds everything that a report follows from: the command with its options, every file beside and below what is
read, the user's own files, the environment, and the program itself. Whatever changes gives another key, so nothing that
is kept can be of another state. Nothing is kept where that can't be told: of several paths, links, a large folder.
"""

from __future__ import annotations

import os
import sys
import time
import zlib
from collections.abc import Sequence
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path

from tracetui.parsers.runs import entries
from tracetui.parsers.runs.side_files import opened

MOST_FILES = 2_000
"""So many files in a folder are looked at; with more, looking would take longer than it may spare."""
MOST_BYTES = 16 << 20
"""No text is kept that could be longer as UTF-8."""
SETTLED_S = 2.0
"""What changed more recently could change again without a trace: clocks of file systems are coarse."""
_VARIABLES = ("TRACETUI", "POLARS", "PYTHON", "XDG", "LANG", "LC_", "TZ", "HOME", "PATH", "COLUMNS", "LINES", "TERM")
"""Variables that begin like this are part of the key."""
_PROGRAM = ("analysis", "app", "parsers")
"""The packages whose code makes a report."""
_LIBRARIES = ("polars", "numpy", "msgspec")
_Files = list[tuple[str, tuple[int, ...]]]


class Kept:
    """The place of one report in the cache; to be made before anything is read."""

    def __init__(self, paths: Sequence[Path], asked: object) -> None:
        """Looks at everything that the report follows from.

        Args:
            paths: what is read.
            asked: what is asked of it; its representation holds every option.
        """
        self._key, self._settled = "", False
        if len(paths) != 1 or entries.limit() <= 0:
            return
        (path,) = paths
        began = time.time()
        try:
            beside = _below(path if path.is_dir() else path.parent)
            self._settled = max((state[2] for _, state in beside if state), default=0) < (began - SETTLED_S) * 1e9
            variables = sorted(pair for pair in os.environ.items() if pair[0].startswith(_VARIABLES))
            encoding = getattr(sys.stdout, "encoding", None)
            about = (asked, os.getcwd(), encoding, variables, beside, _own_files(path), _program())  # noqa: PTH109
        except OSError:  # not there, not for us to see, too many files, or a link: what reads it says so
            return
        self._key = blake2b(repr(about).encode("utf-8", "surrogateescape"), digest_size=20).hexdigest()

    def text(self) -> str | None:
        """The report, if it is kept."""
        if not self._key:
            return None
        entry = entries.folder() / self._key
        try:
            with opened(entry / entries.REPORT) as (file, _):
                check, _, text = file.read(MOST_BYTES + 10).partition(b"\n")
            if check != _check(self._key, text):
                raise ValueError
            found = text.decode("utf-8", "surrogatepass")
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            entries.remove(entry)
            return None
        entries.used(entry)
        return found

    def keep(self, text: str) -> None:
        """Keeps the report, unless a file was changed so lately that it could change again without a trace."""
        if not self._key or not self._settled or len(text) > MOST_BYTES // 4:
            return
        content = text.encode("utf-8", "surrogatepass")
        content = _check(self._key, content) + b"\n" + content
        entries.keep(self._key, lambda scratch: (scratch / entries.REPORT).write_bytes(content))


def _check(key: str, text: bytes) -> bytes:
    """Finds damage, and the text of another report."""
    return b"%08x" % zlib.crc32(text, zlib.crc32(key.encode()))


def _below(folder: Path) -> _Files:
    """The state of every file in a folder and in those below it; of folders the name alone.

    Raises:
        OSError: it can't be read, there are too many, or a link leads to where other files matter.
    """
    found: _Files = []
    folders = [str(folder)]
    while folders:
        with os.scandir(folders.pop()) as inside:
            for entry in inside:
                if len(found) >= MOST_FILES or entry.is_symlink():
                    raise OSError
                state: tuple[int, ...] = ()
                if entry.is_file():
                    state = entries.state_of(entry.stat())
                elif entry.is_dir() and entry.name != "__pycache__":
                    folders.append(entry.path)
                found.append((entry.path, state))
    return sorted(found)


def _own_files(path: Path) -> _Files:
    """The state of the files that are neither the recording's nor the program's: thresholds, measured peaks."""
    from tracetui.analysis.findings import config
    from tracetui.analysis.roofline.peaks_measured import peaks_file

    project = config.find(path, Path.cwd())
    places = [config.user_file(), peaks_file(), *([] if project is None else [project])]
    return [(str(place), entries.state_of(place.stat()) if place.exists() else ()) for place in places]


def _program() -> tuple[object, ...]:
    """What changes with the program: its files as Python tells whether they were compiled, and its libraries."""
    root = Path(__file__).parents[2]
    code = [_below(root / package) for package in _PROGRAM]
    homes = {Path(spec.origin).parent for name in _LIBRARIES if (spec := find_spec(name)) and spec.origin}
    installed = [(str(home), home.stat().st_mtime_ns, home.parent.stat().st_mtime_ns) for home in sorted(homes)]
    return sys.version, str(root), code, installed
