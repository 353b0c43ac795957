"""Whether there is memory enough to read a file, judged by its size before anything is read."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tracetui.parsers.bytes_source import GZIP_MAGIC, INFLATED_RATIO, read_all
from tracetui.parsers.errors import TraceError

VARIABLE = "TRACETUI_MAX_MEMORY"
"""How many bytes the program may take to read a recording; without it, what the machine has free."""
FIXED = 48 << 20
"""What reading any file takes, however small."""
FACTORS = {"chrome": 0.8, "nsys": 1.8, "ncu": 6.0, "ncu raw": 25.0, "memory_snapshot": 8.5}
"""The peak of memory by byte of the inflated file, as measured on recordings of 30 MB and more."""
_LEAST_RATIO = 4
"""Recordings inflate to 4 times their size and more: which of the sizes is meant that have the same lowest 32 bits."""
_PEEK = 1 << 16
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def check(path: Path, kind: str) -> None:
    """Refuses a file that takes more memory to read than may be taken.

    Raises:
        TraceError: it is refused; says how much it takes and how much there is.
    """
    wanted = estimate(path, kind)
    allowed = _given()
    if allowed is not None:
        taken = _taken()
        if wanted + taken > allowed:
            more = "raise it, or give a recording with fewer steps"
            total = f"reading it takes about {size(wanted + taken)} of memory in all"
            raise TraceError(path, f"{total}, --max-memory allows {size(allowed)}", more)
    elif (free := free_bytes()) is not None and wanted > free:
        more = f"--max-memory {-(-wanted // (1 << 30)) + 1}GiB"
        advice = f"{more} reads it all the same, a recording with fewer steps needs less"
        raise TraceError(path, f"reading it takes about {size(wanted)} of memory, {size(free)} are free", advice)


def estimate(path: Path, kind: str) -> int:
    """About how much memory reading a file takes, bytes."""
    if kind == "ncu" and b'"Metric Name"' not in read_all(path, _PEEK):
        kind = "ncu raw"  # a column for each metric, of which most cells are short
    return FIXED + int(FACTORS.get(kind, 0.0) * _inflated(path))


def _inflated(path: Path) -> int:
    """The size of a file's content: of a gzip file what its last four bytes say, which are the lowest 32 bits."""
    try:
        with path.open("rb") as file:
            on_disk = os.fstat(file.fileno()).st_size
            if file.read(2) != GZIP_MAGIC or on_disk < 18:
                return on_disk
            file.seek(-4, os.SEEK_END)
            found = int.from_bytes(file.read(4), "little")
    except OSError as error:
        raise TraceError(path, (error.strerror or str(error)).lower()) from error
    if found > INFLATED_RATIO * on_disk:  # the file ends early, and these bytes say something else
        return _LEAST_RATIO * on_disk
    while found < on_disk * _LEAST_RATIO and on_disk * _LEAST_RATIO > 1 << 32:
        found += 1 << 32
    return max(found, on_disk)


def _given() -> int | None:
    """The limit that the user gave; null if none."""
    try:
        return int(os.environ[VARIABLE])
    except (KeyError, ValueError):
        return None


def _taken() -> int:
    """What this process takes already, bytes; 0 where the system does not say."""
    with suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0


def free_bytes() -> int | None:
    """What the machine, or the group that this program runs in, has free; null where the system does not say."""
    found: dict[str, int] = {}
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            name, _, rest = line.partition(":")
            found[name] = int(rest.split()[0]) << 10
    if "MemAvailable" not in found:
        return None
    free = found["MemAvailable"] + found.get("SwapFree", 0)
    group = _group_free(Path("/sys/fs/cgroup"))
    return free if group is None else min(free, group)


def _group_free(folder: Path) -> int | None:
    """What the control group may still take, its cached files not counted; null where it has no limit."""
    with suppress(OSError, ValueError):
        limit = int((folder / "memory.max").read_text(encoding="ascii"))
        taken = int((folder / "memory.current").read_text(encoding="ascii"))
        stat = dict(line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines())
        return limit - taken + int(stat.get("inactive_file", 0))
    return None


def size(value: float) -> str:
    """A size in words: ``1.5 GiB``."""
    unit = 0
    while value >= 1023.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.3g} {_UNITS[unit]}"
