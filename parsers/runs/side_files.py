"""Reads what lies beside a recording: other people's files, of which each may be anything."""

from __future__ import annotations

import os
from stat import S_ISREG
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 64 << 20


def read_text(file: Path, most: int = MOST_BYTES) -> str:
    """The text of a regular file of bounded size in its own folder; what is not UTF-8 is replaced.

    Raises:
        FileNotFoundError: there is none.
        OSError: it can't be read, with the reason as its `strerror`: no file (a pipe, a device), a link out of its
            folder, or too large.
    """
    try:
        inside = file.resolve().is_relative_to(file.parent.resolve())
    except RuntimeError as error:  # before Python 3.13
        raise OSError(0, "left out, since it is a link to itself", str(file)) from error
    if not inside:
        raise OSError(0, "left out, since it is a link out of its folder", str(file))
    # a pipe without a writer would hold up the opening
    descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    with os.fdopen(descriptor, "rb") as opened:
        about = os.fstat(descriptor)
        if not S_ISREG(about.st_mode):
            raise OSError(0, "left out, since it is not a file", str(file))
        if about.st_size > most:
            raise OSError(0, f"left out, since it is larger than {most >> 20} MiB", str(file))
        return opened.read(most + 1).decode("utf-8-sig", errors="replace")
