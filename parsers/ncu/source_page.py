"""Reads ncu's source page as CSV: what was counted and sampled at each line of the source, or at each instruction."""

from __future__ import annotations

import csv

import polars as pl
from msgspec import Struct, field

from tracetui.parsers import schema
from tracetui.parsers.tally import Tally

PAGE = "source"
PLACE = "source "
"""The start of the section of each counter: the place in the source follows it."""
SOURCE, SAMPLES, INSTRUCTIONS = "Source", "# Samples", "Instructions Executed"
SECTORS, IDEAL = "L2 Theoretical Sectors Global", "L2 Theoretical Sectors Global Ideal"
REQUESTS = "Global Requests"
"""Our own: how often warps executed the instructions that access global memory."""
STALL, NOT_ISSUED = "stall_", "(Not Issued)"
KERNEL_TITLES, FILE_TITLES = ("Kernel Name", "Function Name"), ("File Path", "File Name")
"""What stands before the kernel and before the file that the rows below are of."""
_LINE, _ADDRESS = ("Line No", "#"), "Address"
_TEXTS = frozenset({"Address Space", "Access Operation", "Access Size", "L2 Explicit Evict Policies"})
LONGEST = 200
"""Characters of a line that are kept."""


class Kernel(Struct):
    """What was counted at each place of a kernel's source."""

    name: str
    file: str = ""
    places: dict[str, dict[str, float]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def add(self, place: str, text: str, values: dict[str, float]) -> None:
        """Sums what was counted at a place."""
        self.texts.setdefault(place, " ".join(text.split())[:LONGEST])
        sums = self.places.setdefault(place, {})
        for metric, value in values.items():
            sums[metric] = sums.get(metric, 0.0) + value


def read_source(text: str, tally: Tally) -> tuple[pl.DataFrame, pl.DataFrame, int]:
    """The device rows, the counters, and how many rows were read, of a source page.

    A kernel is a device row. Its counters have the place in `section`: ``source file:line`` if the page has the
    program's lines, else ``source address``. What a line has is summed over its instructions.
    """
    kernels: list[Kernel] = []
    header: list[str] = []
    file, line, said, rows = "", "", "", 0
    seen: set[tuple[str, str]] = set()
    for fields in csv.reader(text.split("\n")):
        if len(fields) < 2:
            continue
        if fields[0] in FILE_TITLES:
            file = fields[1]
        elif fields[0] in KERNEL_TITLES:
            kernels.append(Kernel(fields[1], file))
        elif SOURCE in fields and fields[0] in (*_LINE, _ADDRESS):
            header, line = fields, ""
            seen.clear()
        elif header and kernels:
            if len(fields) < len(header) - 1:
                tally.skipped("row cut short", 1, ",".join(fields))
                continue
            rows += 1
            at = header.index(_ADDRESS) if _ADDRESS in header else 0
            if header[0] in _LINE and fields[0]:
                line, said = fields[0], fields[1]
            # below a line of an expanded macro ncu prints the line's instructions twice
            if fields[at].startswith("0x") and (line, fields[at]) not in seen:
                seen.add((line, fields[at]))
                name = kernels[-1].file.rsplit("/", 1)[-1]
                place = f"{name}:{line}" if line else fields[at]
                kernels[-1].add(place, said if line else fields[at + 1], _values(header, fields))
    return _device(kernels), counters_of(kernels, "metric"), rows


def _values(header: list[str], fields: list[str]) -> dict[str, float]:
    """The numbers of an instruction; of those that access global memory also how often they ran."""
    found: dict[str, float] = {}
    for title, cell in zip(header, fields, strict=False):
        if title not in _TEXTS and title not in (SOURCE, _ADDRESS, *_LINE):
            try:
                found[title] = float(cell.replace(",", ""))
            except ValueError:
                continue
    if found.get(SECTORS):
        found[REQUESTS] = found.get(INSTRUCTIONS, 0.0)
    return found


def _device(kernels: list[Kernel]) -> pl.DataFrame:
    rows = {"kind": ["kernel"] * len(kernels), "name": [kernel.name for kernel in kernels]}
    return schema.filled(schema.DEVICE, pl.DataFrame(rows, schema={"kind": schema.DeviceKind, "name": pl.String}))


def counters_of(kernels: list[Kernel], kind: str) -> pl.DataFrame:
    """The counters of this kind, with the place in `section`, by the number of the kernel."""
    rows: list[tuple[int, str, str, float | None, str | None]] = []
    for number, kernel in enumerate(kernels):
        for place, values in kernel.places.items():
            rows.append((number, PLACE + place, SOURCE, None, kernel.texts[place]))
            rows += [(number, PLACE + place, metric, value, None) for metric, value in values.items() if value]
    frame = pl.DataFrame(
        rows,
        schema={
            "device_row": pl.Int64,
            "section": pl.String,
            "metric": pl.String,
            "value": pl.Float64,
            "text": pl.String,
        },
        orient="row",
    )
    return schema.filled(schema.COUNTERS, frame.with_columns(kind=pl.lit(kind)))
