"""Reads what lies beside a recording: other people's files, of which each may be anything."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO

MOST_BYTES = 64 << 20


def read_text(file: Path, most: int = MOST_BYTES) -> str:
    """The text of a regular file of bounded size in its own folder, in any encoding of Unicode.

    Other bytes are replaced.

    Raises:
        FileNotFoundError: there is none.
        OSError: as `opened`, or it is too large.
    """
    with opened(file) as (content, size):
        if size > most:
            raise OSError(0, f"left out, since it is larger than {most >> 20} MiB", str(file))
        text = content.read(most + 1)
        return text.decode(json.detect_encoding(text), errors="replace")


@contextmanager
def opened(file: Path) -> Iterator[tuple[BinaryIO, int]]:
    """A regular file in its own folder, and its size in bytes.

    Raises:
        FileNotFoundError: there is none.
        OSError: it can't be read, with the reason as its `strerror`: no file (a pipe, a device), or a link out of its
            folder.
    """
    try:
        inside = not file.is_symlink() or file.resolve().is_relative_to(file.parent.resolve())
    except RuntimeError as error:  # before Python 3.13
        raise OSError(0, "left out, since it is a link to itself", str(file)) from error
    if not inside:
        raise OSError(0, "left out, since it is a link out of its folder", str(file))
    # a pipe without a writer would hold up the opening
    descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    with os.fdopen(descriptor, "rb") as content:
        about = os.fstat(descriptor)
        if not S_ISREG(about.st_mode):
            raise OSError(0, "left out, since it is not a file", str(file))
        yield content, about.st_size
