"""Bytes with the places of their units (events, records), kept up to date while bytes are changed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

ODD_BYTES = b'\x00"\\{}[],:\n\r \xff\xc3\x80\xed\x1b0-e\x7f'
MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\x00" * 16, b"\x1b[2J", b'"', b"]}", b"}]", b"{", b"\r\n", b"\xed\xa0\x80",
         b'\\u', b"/*", b"\xff" * 8, b'","', b"==PROF== ", b"\x1a")  # fmt: skip


@dataclass
class Spans:
    """Content, and where each unit lies in it."""

    data: bytearray
    places: list[tuple[int, int] | None]
    """Start and end of each unit; null for one that is gone."""
    touched: set[int] = field(default_factory=set)
    outside: bool = False
    """Whether bytes before the first or behind the last unit were changed."""

    def change(self, start: int, end: int, new: bytes) -> None:
        """Replaces bytes; units that overlap them are touched, those behind move."""
        self.data[start:end] = new
        move = len(new) - (end - start)
        known = [place for place in self.places if place is not None]
        if not known or start < known[0][0] or end > known[-1][1]:
            self.outside = True
        if not any(place is not None and place[0] < end and place[1] > start for place in self.places):
            before = [unit for unit, place in enumerate(self.places) if place is not None and place[1] <= start]
            behind = [unit for unit, place in enumerate(self.places) if place is not None and place[0] >= end]
            self.touched |= {*before[-1:], *behind[:1]}
        for unit, place in enumerate(self.places):
            if place is None:
                continue
            low, high = place
            if low >= end and not (start == end == low):
                self.places[unit] = (low + move, high + move)
                if low == end:  # what stands right before it may join it
                    self.touched.add(unit)
            elif high <= start:
                if high == start:
                    self.touched.add(unit)
            else:
                self.touched.add(unit)
                self.places[unit] = None if start <= low and end >= high else (low, max(high + move, low))

    def spoilt(self) -> set[int]:
        """Touched units and their neighbours, which damage between two of them concerns."""
        return {unit + by for unit in self.touched for by in (-1, 0, 1)}


def flip(spans: Spans, dice: Random) -> None:
    """A few bytes become others."""
    for _ in range(dice.choice((1, 1, 1, 3, 8))):
        if not spans.data:
            return
        at = dice.randrange(len(spans.data))
        new = dice.choice(ODD_BYTES) if dice.random() < 0.6 else spans.data[at] ^ (1 << dice.randrange(8))
        spans.change(at, at + 1, bytes((new,)))


def cut_off(spans: Spans, dice: Random) -> None:
    """The rest of the file is missing."""
    at = dice.randrange(len(spans.data) + 1)
    first = next((place[0] for place in spans.places if place is not None), 0)
    before = spans.outside
    spans.change(at, len(spans.data), b"")
    spans.outside = before or at <= first


def taken_out(spans: Spans, dice: Random) -> None:
    """A stretch is missing."""
    at = dice.randrange(len(spans.data) + 1)
    spans.change(at, min(len(spans.data), at + dice.choice((1, 2, 10, 200, 3000))), b"")


def put_in(spans: Spans, dice: Random) -> None:
    """Something foreign stands in between."""
    at = dice.randrange(len(spans.data) + 1)
    spans.change(at, at, dice.choice(MARKS))


def copied(spans: Spans, dice: Random) -> None:
    """A stretch of the file stands somewhere else, too."""
    at, to = dice.randrange(len(spans.data) + 1), dice.randrange(len(spans.data) + 1)
    spans.change(to, to, bytes(spans.data[at : at + dice.choice((3, 50, 700))]))


def blanked(spans: Spans, dice: Random) -> None:
    """A block of zeros, as a disk gives after a failure."""
    at = dice.randrange(len(spans.data) + 1)
    size = min(dice.choice((1, 16, 512)), len(spans.data) - at)
    spans.change(at, at + size, bytes(size))


BYTEWISE: dict[str, Callable[[Spans, Random], None]] = {
    "bytes flipped": flip,
    "cut off": cut_off,
    "bytes missing": taken_out,
    "bytes inserted": put_in,
    "bytes repeated": copied,
    "block of zeros": blanked,
}
