"""Reads the bytes of a file, plain or gzip (told by content), piece by piece into new buffers."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from tracetui.parsers.errors import Cancelled, TraceError
from tracetui.parsers.progress import Progress, Watch

GZIP_MAGIC = b"\x1f\x8b"
INFLATED_RATIO, INFLATED_LEAST = 64, 64 << 20
"""What a gzip file may inflate to: so many times its size and so many bytes more. Recordings inflate to 4 to 35 times
their size; a file made to fill the memory inflates to 1,000 times."""


class ByteSource:
    """Reads a file's content; a damaged gzip stream ends early and says so in `damage`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage: str | None = None
        """Why the content ends early."""
        try:
            self._file: BinaryIO = path.open("rb", buffering=0)
            self.size = path.stat().st_size
            self.is_gzip = self._file.read(2) == GZIP_MAGIC
            self._file.seek(0)
        except OSError as error:
            raise TraceError(path, (error.strerror or str(error)).lower()) from error
        self._content: BinaryIO = self._file
        self._delivered = 0
        self._most = INFLATED_RATIO * self.size + INFLATED_LEAST
        self._rest = b""
        if self.is_gzip:
            from isal import igzip

            self._content = cast("BinaryIO", igzip.GzipFile(fileobj=self._file, mode="rb"))  # type: ignore[no-untyped-call]

    def read_into(self, buffer: NDArray[np.uint8], start: int, end: int) -> int:
        """Fills ``buffer[start:end]``; returns the position after the last byte read, `end` unless the file ended."""
        view = buffer.data
        while start < end:
            if self.damage is not None:
                piece = self._rest[: end - start]
                view[start : start + len(piece)] = piece
                self._rest = self._rest[len(piece) :]
                return start + len(piece)
            try:
                count = self._content.readinto(view[start:end])  # type: ignore[attr-defined]
            except Exception as error:  # besides EOFError and OSError, isal raises a type without a public name
                self.damage = f"{type(error).__name__}: {error}"
                self._rest = _inflate_what_can_be(self.path, self._delivered, self._most) if self.is_gzip else b""
                continue
            if not count:
                break
            start += count
            self._delivered += count
            if self.is_gzip and self._delivered > self._most:
                raise TraceError(
                    self.path,
                    f"inflates to more than {INFLATED_RATIO} times its size, as no recording does",
                    "unpack it with gunzip if you trust it",
                )
        return start

    def blocks(self, size: int, watch: Watch, share: int = 1) -> Iterator[memoryview]:
        """Yields the content in blocks of `size` bytes, each valid until the next; tells the watch of progress.

        Args:
            size: of a block.
            watch: may stop it.
            share: reading is this part of the work: 10 for a tenth.

        Raises:
            Cancelled: the watch stopped it.
        """
        buffer = np.empty(size, np.uint8)
        while True:
            if watch.cancelled:
                raise Cancelled
            count = self.read_into(buffer, 0, size)
            if not count:
                return
            yield buffer[:count].data
            watch.report(Progress("reading", self.compressed_position() // share, self.size, 0, self.path))

    def compressed_position(self) -> int:
        """How many of the file's `size` bytes have been read."""
        try:
            return self._file.tell()
        except ValueError:
            return self.size

    def __enter__(self) -> ByteSource:
        """Does nothing, since the constructor has opened the file."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the file."""
        self._content.close()
        self._file.close()


def _inflate_what_can_be(path: Path, skip: int, most: int) -> bytes:
    """Inflates what a damaged gzip file still holds after its first `skip` bytes, up to the damage or to `most`."""
    found = bytearray()
    produced = 0

    def keep(text: bytes) -> None:
        nonlocal produced
        found.extend(text[max(0, skip - produced) :])
        produced += len(text)

    inflater = zlib.decompressobj(wbits=31)
    with path.open("rb") as file:
        while (block := file.read(4096)) and produced < most:
            while block:
                before = inflater.copy()
                try:
                    keep(inflater.decompress(block))
                except zlib.error:
                    for value in block:
                        try:
                            keep(before.decompress(bytes((value,))))
                        except zlib.error:  # noqa: PERF203  a byte at a time, once
                            return bytes(found)
                block = inflater.unused_data
                if inflater.eof:
                    inflater = zlib.decompressobj(wbits=31)
    return bytes(found)


def read_all(path: Path, limit: int) -> bytes:
    """The first `limit` bytes of a file's content, inflated if need be."""
    with ByteSource(path) as source:
        buffer = np.empty(limit, np.uint8)
        return buffer[: source.read_into(buffer, 0, limit)].tobytes()
