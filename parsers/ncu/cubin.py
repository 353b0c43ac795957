"""Reads a cubin's line table: which line of the program each instruction comes from, as ``nvcc -lineinfo`` notes it.

A cubin is an ELF file of 64 bits. Its table is DWARF's (versions 2 to 4), whose sequences begin at 0 and are moved to
their function by a relocation.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator

from msgspec import Struct, field

from tracetui.parsers.wire import Damaged, text

TABLE = ".debug_line"
_SECTIONS, _SECTION, _SYMBOL = struct.Struct("<QIHHHHHH"), struct.Struct("<IIQQQQII"), struct.Struct("<IBBHQQ")
_AT_SECTIONS = 0x28
_UNIT = struct.Struct("<IHI")
_LAST_VERSION, _WITH_OPERATIONS = 4, 4
_COPY, _ADVANCE, _LINE, _FILE, _CONST, _FIXED = 1, 2, 3, 4, 8, 9
_END, _ADDRESS = 1, 2
_WIDE = 8
_MOST_BITS, _LONGEST_NAME = 63, 1 << 14


class Lines(Struct):
    """The lines of a function's instructions, in the order of their offsets."""

    offsets: list[int] = field(default_factory=list)
    """In the function, at each of which another line begins."""
    places: list[tuple[str, int]] = field(default_factory=list)
    """The file's name without its folder, and the line; no name behind the last instruction."""

    def at(self, offset: int) -> tuple[str, int] | None:
        """The file and the line of the instruction at an offset; None where none is known."""
        found = bisect_right(self.offsets, offset) - 1
        return self.places[found] if found >= 0 and self.places[found][0] else None


def lines_of(cubin: bytes) -> dict[str, Lines]:
    """The lines of each function that has some.

    Raises:
        Damaged: the bytes are no cubin, or end within one.
    """
    found: dict[str, Lines] = {}
    try:
        sections = _sections(cubin)
        if TABLE not in sections:
            return {}
        functions = _relocations(cubin, sections)
        at, end = sections[TABLE]
        first = at
        while at + _UNIT.size <= end:
            size, version, header = _UNIT.unpack_from(cubin, at)
            body = at + _UNIT.size
            stop = min(at + 4 + size, end)
            if version <= _LAST_VERSION:
                for place, offset, file, line in _rows(_Reader(cubin, body, stop), body + header, version):
                    lines = found.setdefault(functions.get(place - first, ""), Lines())
                    if not lines.offsets or offset > lines.offsets[-1]:  # the first of several counts, as in ncu
                        lines.offsets.append(offset)
                        lines.places.append((file, line))
            at = stop
    except (struct.error, IndexError, OverflowError):
        raise Damaged from None
    found.pop("", None)
    return found


def _sections(cubin: bytes) -> dict[str, tuple[int, int]]:
    start, _, _, _, _, size, count, names = _SECTIONS.unpack_from(cubin, _AT_SECTIONS)
    heads = [_SECTION.unpack_from(cubin, start + size * number) for number in range(count)]
    titles = heads[names][4]
    return {_name(cubin, titles + head[0]): (head[4], head[4] + head[5]) for head in heads}


def _name(cubin: bytes, at: int) -> str:
    end = cubin.find(b"\0", at, at + _LONGEST_NAME)
    if end < 0:
        raise Damaged
    return text(cubin, (at, end))


def _relocations(cubin: bytes, sections: dict[str, tuple[int, int]]) -> dict[int, str]:
    symbols, _ = sections.get(".symtab", (0, 0))
    names, _ = sections.get(".strtab", (0, 0))
    found = {}
    for title, step in ((f".rel{TABLE}", 16), (f".rela{TABLE}", 24)):
        at, end = sections.get(title, (0, 0))
        for entry in range(at, end - step + 1, step):
            place, _, symbol = struct.unpack_from("<QII", cubin, entry)
            found[place] = _name(cubin, names + _SYMBOL.unpack_from(cubin, symbols + _SYMBOL.size * symbol)[0])
    return found


class _Reader(Struct):
    data: bytes
    at: int
    end: int

    def byte(self) -> int:
        if self.at >= self.end:
            raise Damaged
        self.at += 1
        return self.data[self.at - 1]

    def number(self, *, signed: bool = False) -> int:
        value = shift = 0
        while (byte := self.byte()) > 127:
            if shift > _MOST_BITS:
                raise Damaged
            value |= (byte & 127) << shift
            shift += 7
        value |= byte << shift
        return value - (1 << (shift + 7)) if signed and byte & 64 else value

    def string(self) -> str:
        end = self.data.find(b"\0", self.at, self.end)
        if end < 0:
            raise Damaged
        at, self.at = self.at, end + 1
        return text(self.data, (at, end))


def _rows(reader: _Reader, program: int, version: int) -> Iterator[tuple[int, int, str, int]]:
    """Each row of a table: where its sequence's address is written, the offset in the function, file and line."""
    least = reader.byte()
    if version >= _WITH_OPERATIONS:
        reader.byte()
    reader.byte()
    base = int.from_bytes(bytes([reader.byte()]), "little", signed=True)
    spread, first = reader.byte(), reader.byte()
    lengths = [reader.byte() for _ in range(first - 1)]
    while reader.string():
        pass
    files = [""]
    while name := reader.string():
        files.append(name.rsplit("/", 1)[-1])
        for _ in range(3):
            reader.number()
    reader.at = program
    place, address, file, line = -1, 0, 1, 1

    def row(name: int) -> tuple[int, int, str, int]:
        return place, address, files[name] if 0 <= name < len(files) else "", line

    while reader.at < reader.end:
        code = reader.byte()
        if code >= first and spread:
            address += least * ((code - first) // spread)
            line += base + (code - first) % spread
            yield row(file)
        elif code == 0:
            size = reader.number()
            after, kind = reader.at + size, reader.byte()
            if kind == _ADDRESS and size == 1 + _WIDE:
                place, address = reader.at, int.from_bytes(reader.data[reader.at : after], "little")
            elif kind == _END:
                yield row(0)
                place, address, file, line = -1, 0, 1, 1
            reader.at = after
        elif code == _COPY:
            yield row(file)
        elif code == _ADVANCE:
            address += least * reader.number()
        elif code == _LINE:
            line += reader.number(signed=True)
        elif code == _FILE:
            file = reader.number()
        elif code == _CONST and spread:
            address += least * ((255 - first) // spread)
        elif code == _FIXED:
            address += reader.byte() | reader.byte() << 8
        else:
            for _ in range(lengths[code - 1]):
                reader.number()
