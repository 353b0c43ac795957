"""Files made to fill a machine's memory or time end in one line."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from tracetui.parsers import TraceError, bytes_source, open_path

if TYPE_CHECKING:
    from pathlib import Path


BOMBS: dict[str, tuple[bytes, bytes, bytes]] = {
    "a.trace.json.gz": (b'{"traceEvents":[{"ph":"X","cat":"kernel","ts":1,"dur":1,"name":"', b"a", b'"}]}'),
    "blanks.trace.json.gz": (b'{"traceEvents":[', b" ", b"]}"),
    "a.csv.gz": (b'"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n', b'"0","k","m","ns","1"\n', b""),
    "quotes.csv.gz": (b'"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n', b'"', b""),
    "a.pickle.gz": (b"\x80\x04]\x94(", b"K\x01", b"e."),
    "a.sqlite.gz": (b"SQLite format 3\0", b"\0", b""),
}
"""What a file begins with, what fills it, and how it ends."""


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_that_inflates_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(bytes_source, "INFLATED_LEAST", 1 << 19)
    begin, filling, end = BOMBS[name]
    path = tmp_path / name
    path.write_bytes(gzip.compress(begin + filling * ((8 << 20) // len(filling)) + end))
    with pytest.raises(TraceError, match=r"inflates to more than 64 times its size, .*unpack it with gunzip"):
        open_path(path, cache=False)


def test_what_is_saved_of_a_damaged_one_has_the_same_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b" " * (64 << 20))[:-9])
    assert len(bytes_source._inflate_what_can_be(path, 0, 1 << 20)) < 8 << 20
